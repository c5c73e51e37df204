//! An executor that answers what it was told to, and looks at what it is asked.

use std::time::{Duration, Instant};

use iptables_updater::{
    Backend, Clock, Executor, ExecutorError, IpVersion, IptablesUpdater, Outcome, RetryPolicy,
    Table, UpdaterBuilder,
};

/// Answers each save and each restore alike; where restores succeed, there is no rule to delete or to find.
pub struct Canned {
    pub saved: Outcome,
    pub restored: Outcome,
    pub backend: Backend,
}

impl Executor for Canned {
    fn ip_version(&self) -> IpVersion {
        IpVersion::V4
    }

    fn backend(&self) -> Backend {
        self.backend
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        is_ours_alone(input);
        let absent = ["\n-D ", "\n-C "]
            .iter()
            .any(|command| input.contains(command));
        if absent && self.restored.exit.is_success() {
            return Ok(Outcome::failure(1, "iptables-restore: line 2 failed\n"));
        }
        Ok(self.restored.clone())
    }

    fn save(&mut self, _: Table) -> Result<Outcome, ExecutorError> {
        Ok(self.saved.clone())
    }
}

/// The input is one block, and every line of it names a chain with our prefix, or a kernel chain that we hook.
pub fn is_ours_alone(input: &str) {
    let inner = input.strip_prefix("*filter\n");
    let inner = inner.and_then(|rest| rest.strip_suffix("COMMIT\n"));
    let inner = inner.unwrap_or_else(|| panic!("no block: {input:?}"));
    assert!(
        !inner.contains(|c: char| c.is_control() && c != '\n'),
        "{input:?}"
    );
    for line in inner.lines() {
        let name = if let Some(declared) = line.strip_prefix(':') {
            declared.strip_suffix(" - [0:0]").expect("a declaration")
        } else {
            let (command, rest) = line.split_once(' ').expect("a command");
            let known = ["-A", "-I", "-D", "-C", "-N", "-F", "-X"].contains(&command);
            assert!(known, "{line}");
            rest.split(' ').next().unwrap_or_default()
        };
        let hooks = !line.starts_with(':') && matches!(name, "INPUT" | "FORWARD");
        assert!(name.starts_with("web-") || hooks, "{line:?} of {input:?}");
        assert!(name.len() <= 28, "{line:?}");
    }
}

pub fn builder() -> UpdaterBuilder {
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .retry(RetryPolicy::default().with_tries(2).with_ambiguous_tries(2))
        .clock(NoWaiting)
}

/// A clock on which no pause takes time.
struct NoWaiting;

impl Clock for NoWaiting {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, _: Duration) {}
}
