//! One list of cases for everything that can be behind an updater.

use std::sync::{Arc, Mutex};

use iptables_updater::{
    Backend, Clock, Executor, ExecutorError, IpVersion, IptablesUpdater, MemoryExecutor, Outcome,
    Table, UpdaterBuilder,
};

use super::{KERNELS, Kernel, each_kernel};

/// An updater on a bed, with every call of iptables written down.
pub type Updater = IptablesUpdater<Recorder>;

/// Something that behaves as a kernel with iptables: the simulation, or the real thing.
#[derive(Clone)]
pub struct Bed {
    pub version: IpVersion,
    pub backend: Backend,
    ground: Ground,
    pub journal: Journal,
}

#[derive(Clone)]
enum Ground {
    Simulation(MemoryExecutor),
    Kernel(Kernel),
}

/// Runs the case on every bed there is: the simulation always, the real kernel where it may.
pub fn each_bed(test: &str, case: impl Fn(Bed) + Sync) {
    for Kernel { version, backend } in KERNELS {
        let simulation = MemoryExecutor::new(version, backend);
        case(Bed::new(version, backend, Ground::Simulation(simulation)));
    }
    each_kernel(test, |kernel| {
        let Kernel { version, backend } = kernel;
        case(Bed::new(version, backend, Ground::Kernel(kernel)));
    });
}

impl Bed {
    fn new(version: IpVersion, backend: Backend, ground: Ground) -> Self {
        Self {
            version,
            backend,
            ground,
            journal: Journal::default(),
        }
    }

    /// An updater that owns `web-` in the filter table.
    pub fn open(&self) -> Updater {
        self.open_with(IptablesUpdater::builder(Table::Filter))
    }

    /// The same of a builder to which only the prefix `web-` is added.
    pub fn open_with(&self, builder: UpdaterBuilder) -> Updater {
        let builder = builder.chain_prefix("web-").clock(NoWaiting);
        builder.open(self.executor()).expect("open")
    }

    pub fn executor(&self) -> Recorder {
        Recorder {
            inner: match &self.ground {
                Ground::Simulation(simulation) => Box::new(simulation.clone()),
                Ground::Kernel(kernel) => Box::new(kernel.executor()),
            },
            journal: self.journal.clone(),
        }
    }

    /// What another program gives to iptables-restore for the filter table.
    pub fn other(&self, lines: &str) {
        self.other_in(Table::Filter, lines);
    }

    pub fn other_in(&self, table: Table, lines: &str) {
        let input = format!("*{table}\n{lines}\nCOMMIT\n");
        match &self.ground {
            Ground::Simulation(simulation) => {
                let outcome = simulation.with_other_program(|other| other.restore(&input));
                assert!(outcome.exit.is_success(), "{input}{outcome:?}");
            }
            Ground::Kernel(kernel) => kernel.must_restore(&input),
        }
    }

    /// The rules of a chain in the filter table; `None` if there is no such chain.
    pub fn rules(&self, chain: &str) -> Option<Vec<String>> {
        self.rules_in(Table::Filter, chain)
    }

    pub fn rules_in(&self, table: Table, chain: &str) -> Option<Vec<String>> {
        match &self.ground {
            Ground::Simulation(simulation) => simulation.rules(table, chain),
            Ground::Kernel(kernel) => kernel.rules(table, chain),
        }
    }

    /// The chains in the filter table whose names begin with `web-`.
    pub fn web_chains(&self) -> Vec<String> {
        match &self.ground {
            Ground::Simulation(simulation) => {
                let mut chains = simulation.chains(Table::Filter);
                chains.retain(|name| name.starts_with("web-"));
                chains.sort();
                chains
            }
            Ground::Kernel(kernel) => kernel.chains(Table::Filter, "web-"),
        }
    }

    /// What iptables-save prints of the filter table.
    pub fn save(&self) -> String {
        match &self.ground {
            Ground::Simulation(simulation) => simulation.save_text(Table::Filter),
            Ground::Kernel(kernel) => kernel.save(Table::Filter),
        }
    }
}

/// What stands in for a chain, as iptables-save prints it.
pub fn stub(chain: &str) -> Vec<String> {
    vec![format!(
        "-m comment --comment \"missing chain {chain}\" -j DROP"
    )]
}

/// Every call of iptables so far.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    restores: Vec<String>,
    saves: usize,
    /// Outcomes to be given in place of calls, by what is called and how often it is to go through first.
    faults: Vec<(Call, usize, Outcome)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Restore,
    Save,
}

impl Journal {
    /// The inputs of all restores since the last call of this, and the number of saves.
    pub fn take(&self) -> (Vec<String>, usize) {
        let mut calls = self.0.lock().unwrap();
        let saves = std::mem::take(&mut calls.saves);
        (std::mem::take(&mut calls.restores), saves)
    }

    /// How many restores and saves there were since the last call of this or of [`take`](Self::take).
    pub fn counts(&self) -> (usize, usize) {
        let (restores, saves) = self.take();
        (restores.len(), saves)
    }

    /// Lets `skip` calls of this kind through, then gives this outcome in place of the next.
    pub fn fault(&self, call: Call, skip: usize, outcome: Outcome) {
        self.0.lock().unwrap().faults.push((call, skip, outcome));
    }

    pub fn clear_faults(&self) {
        self.0.lock().unwrap().faults.clear();
    }

    fn fault_now(&self, call: Call) -> Option<Outcome> {
        let mut calls = self.0.lock().unwrap();
        let at = calls.faults.iter().position(|(kind, ..)| *kind == call)?;
        if calls.faults[at].1 > 0 {
            calls.faults[at].1 -= 1;
            return None;
        }
        Some(calls.faults.remove(at).2)
    }
}

/// An executor that writes down what it is asked, and can be told to give other outcomes.
pub struct Recorder {
    inner: Box<dyn Executor + Send>,
    journal: Journal,
}

impl Executor for Recorder {
    fn ip_version(&self) -> IpVersion {
        self.inner.ip_version()
    }

    fn backend(&self) -> Backend {
        self.inner.backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        self.journal
            .0
            .lock()
            .unwrap()
            .restores
            .push(input.to_owned());
        match self.journal.fault_now(Call::Restore) {
            Some(outcome) => Ok(outcome),
            None => self.inner.restore(input),
        }
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        self.journal.0.lock().unwrap().saves += 1;
        match self.journal.fault_now(Call::Save) {
            Some(outcome) => Ok(outcome),
            None => self.inner.save(table),
        }
    }
}

/// A clock on which no pause takes time.
#[derive(Debug, Clone, Copy)]
pub struct NoWaiting;

impl Clock for NoWaiting {
    fn now(&self) -> std::time::Instant {
        std::time::Instant::now()
    }

    fn sleep(&self, _: std::time::Duration) {}
}
