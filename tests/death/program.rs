//! The program that is killed: it programs one policy after the other, some of them so large that they are staged.

use std::fmt;

use iptables_updater::{
    Backend, Chain, Error, Executor, ExecutorError, IpVersion, IptablesUpdater, Outcome, Table,
};
use nix::sys::signal::{Signal, raise};

use crate::common::{KERNELS, Kernel};

/// The environment variable that makes this test the program.
pub const VARIABLE: &str = "IPTABLES_UPDATER_DEATH_PART";

/// More new chains than fit into one piece of a staged commit.
pub const MANY: usize = 520;

/// When the program kills itself: at the nth call of iptables, or when somebody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before(usize),
    After(usize),
    Never,
}

/// What a process of this program has to do.
pub struct Part {
    pub kernel: Kernel,
    pub when: When,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = KERNELS.iter().position(|kernel| *kernel == self.kernel);
        let (word, nth) = match self.when {
            When::Before(nth) => ("before", nth),
            When::After(nth) => ("after", nth),
            When::Never => ("never", 0),
        };
        write!(f, "{} {word} {nth}", kernel.unwrap())
    }
}

impl Part {
    pub fn of_this_process() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let words: Vec<_> = text.split(' ').collect();
        let [kernel, word, nth] = words[..] else {
            panic!("{text}");
        };
        let nth = nth.parse().unwrap();
        Some(Self {
            kernel: KERNELS[kernel.parse::<usize>().unwrap()],
            when: match word {
                "before" => When::Before(nth),
                "after" => When::After(nth),
                _ => When::Never,
            },
        })
    }

    pub fn play(self) {
        let executor = Mortal {
            inner: self.kernel.executor(),
            when: self.when,
            calls: 0,
        };
        run(executor).unwrap();
    }
}

/// A policy: a dispatcher, three chains to which it jumps, and one that nobody programs. Each rule has the policy's number,
/// so that a mixture of two shows. Each odd one has many chains more.
pub fn policy(number: usize) -> Vec<Chain> {
    let mut leaves: Vec<_> = (0..3).map(|n| format!("web-leaf-{n}")).collect();
    if number % 2 == 1 {
        leaves.extend((0..MANY).map(|n| format!("web-many-{number}-{n}")));
    }
    let jumps = leaves
        .iter()
        .map(|leaf| format!("{} -j {leaf}", port(number)));
    let missing = format!("{} -j web-missing", port(number));
    let mut chains = vec![Chain::new("web-dispatch", jumps.chain([missing])).unwrap()];
    chains.extend(leaves.iter().map(|leaf| {
        let rule = |verdict| format!("{} -j {verdict}", port(number));
        Chain::new(
            leaf.as_str(),
            [rule("ACCEPT"), rule("DROP"), rule("RETURN")],
        )
        .unwrap()
    }));
    chains
}

/// A match by which a rule of this policy is known, as iptables prints it.
fn port(number: usize) -> String {
    format!("-p tcp -m tcp --dport {}", 1_000 + number)
}

/// Every kind of operation, and policies large and small; 36 calls of iptables and more.
fn run(executor: impl Executor) -> Result<(), Error> {
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    let mut updater = builder.open(executor)?;
    for number in (2..8).step_by(2) {
        updater.rewrite_chains(policy(number))?;
        updater.ensure_rule_inserted("INPUT", "-j web-dispatch")?;
        updater.cleanup()?;
        let many = policy(number + 1);
        updater.rewrite_chains(many.clone())?;
        updater.refresh()?;
        let names = many[4..].iter().map(Chain::name).cloned();
        let names: Vec<_> = names.collect();
        updater.rewrite_chains(policy(number + 2))?;
        updater.delete_chains(names)?;
        updater.refresh_all()?;
        updater.ensure_rule_removed("INPUT", "-j web-dispatch")?;
    }
    Ok(())
}

/// An executor that kills its own process at a call.
struct Mortal<E> {
    inner: E,
    when: When,
    calls: usize,
}

impl<E: Executor> Mortal<E> {
    fn call<T>(&mut self, call: impl FnOnce(&mut E) -> T) -> T {
        self.calls += 1;
        if self.when == When::Before(self.calls) {
            die();
        }
        let result = call(&mut self.inner);
        if self.when == When::After(self.calls) {
            die();
        }
        result
    }
}

fn die() {
    raise(Signal::SIGKILL).unwrap();
}

impl<E: Executor> Executor for Mortal<E> {
    fn ip_version(&self) -> IpVersion {
        self.inner.ip_version()
    }

    fn backend(&self) -> Backend {
        self.inner.backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        self.call(|inner| inner.restore(input))
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        self.call(|inner| inner.save(table))
    }
}
