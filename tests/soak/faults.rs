//! An executor whose calls fail now and then, in ways that pass: a held lock, a kill before or after the commit, a
//! time limit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use iptables_updater::{
    Backend, CommandExecutor, Executor, ExecutorError, Exit, IpVersion, Outcome, Table,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::common::Kernel;

const KINDS: [&str; 5] = [
    "held locks",
    "killed before the commit",
    "killed after the commit",
    "timed out after the commit",
    "failed saves",
];

#[derive(Default)]
pub struct Counts {
    stopped: AtomicBool,
    of_kind: [AtomicU64; 5],
}

pub struct Faulty {
    inner: CommandExecutor,
    rng: StdRng,
    counts: Arc<Counts>,
    restores: Calm,
    saves: Calm,
}

/// How many calls of a kind go through before the next fault: never two of a kind in a row, which some policy
/// wouldn't survive.
struct Calm {
    left: u32,
    longest: u32,
}

impl Calm {
    /// Whether this call is to fail.
    fn ends(&mut self, rng: &mut StdRng) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        // Sometimes the next call but one fails as well, sometimes none for long.
        self.left = rng.random_range(1..self.longest);
        true
    }
}

impl Faulty {
    pub fn new(kernel: Kernel, seed: u64) -> Self {
        Self {
            inner: kernel.executor(),
            rng: StdRng::seed_from_u64(seed),
            counts: Arc::default(),
            restores: Calm {
                left: 10,
                longest: 40,
            },
            // There are few of them: a short soak shall see them fail, too.
            saves: Calm {
                left: 2,
                longest: 6,
            },
        }
    }

    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    fn stopped(&self) -> bool {
        self.counts.stopped.load(Ordering::SeqCst)
    }

    fn count(&self, kind: usize) {
        self.counts.of_kind[kind].fetch_add(1, Ordering::SeqCst);
    }
}

fn held() -> Outcome {
    let text = "Another app is currently holding the xtables lock. Perhaps you want to use the -w option?\n";
    Outcome::failure(4, text)
}

fn ended(exit: Exit) -> Outcome {
    let mut outcome = Outcome::success("");
    outcome.exit = exit;
    outcome
}

impl Executor for Faulty {
    fn confuses_rules(&self) -> bool {
        self.inner.confuses_rules()
    }

    fn ip_version(&self) -> IpVersion {
        self.inner.ip_version()
    }

    fn backend(&self) -> Backend {
        self.inner.backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        if self.stopped() || !self.restores.ends(&mut self.rng) {
            return self.inner.restore(input);
        }
        let kind = self.rng.random_range(0..4);
        self.count(kind);
        if kind >= 2 {
            self.inner.restore(input)?;
        }
        Ok(match kind {
            0 => held(),
            1 | 2 => ended(Exit::Signal(9)),
            _ => ended(Exit::TimedOut),
        })
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        if self.stopped() || !self.saves.ends(&mut self.rng) {
            return self.inner.save(table);
        }
        self.count(4);
        Ok(if self.rng.random_bool(0.5) {
            held()
        } else {
            ended(Exit::Signal(9))
        })
    }
}

impl Counts {
    /// No fault from now on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub fn assert_all_kinds(&self) {
        let all = self.of_kind.iter().all(|n| n.load(Ordering::SeqCst) > 0);
        assert!(all, "{self}");
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faults:")?;
        for (kind, count) in KINDS.iter().zip(&self.of_kind) {
            write!(f, " {} {kind},", count.load(Ordering::SeqCst))?;
        }
        Ok(())
    }
}
