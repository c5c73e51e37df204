//! A simulated kernel with an updater on it, brought to a state by doing again what led there.

use iptables_updater::memory::{Fault, JournalCall, Snapshot};
use iptables_updater::{
    Backend, Chain, ChainName, Error, FailureClass, IpVersion, IptablesUpdater, MemoryExecutor,
    Table,
};

use crate::common::bed::NoWaiting;
use crate::expected::{Interference, Operation, rules};
use crate::plane::{NAMES, Plane, has};

/// Which calls of an operation go wrong, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    pub save: bool,
    pub nth: usize,
    pub fault: Fault,
    /// Whether all later calls of the kind go wrong as well: a single failure that may pass is tried again.
    pub lasting: bool,
}

/// More calls than an operation makes.
const ALL: usize = 24;

pub type Step = (Operation, Option<Injection>);

/// How to come to a state: what the kernel held when the updater was opened, and the steps since.
#[derive(Debug, Clone)]
pub struct Way {
    pub backend: Backend,
    pub base: Snapshot,
    pub since: Vec<Step>,
}

pub struct World {
    pub kernel: MemoryExecutor,
    pub updater: IptablesUpdater<MemoryExecutor>,
}

fn open(kernel: &MemoryExecutor) -> Result<IptablesUpdater<MemoryExecutor>, Error> {
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    builder.clock(NoWaiting).open(kernel.clone())
}

pub fn snapshot(kernel: &MemoryExecutor) -> Snapshot {
    kernel.with_other_program(|other| other.save(Table::Filter))
}

impl World {
    /// Goes the way again.
    pub fn at(way: &Way) -> Self {
        let kernel = Self::kernel(way);
        let updater = open(&kernel).unwrap();
        let mut world = Self { kernel, updater };
        for (operation, injection) in &way.since {
            let _ = world.run(*operation, *injection);
        }
        world
    }

    /// A kernel as it was when the updater was opened.
    pub fn kernel(way: &Way) -> MemoryExecutor {
        let kernel = MemoryExecutor::new(IpVersion::V4, way.backend);
        kernel.with_other_program(|other| other.put_back(&way.base));
        kernel
    }

    pub fn plane(&self) -> Plane {
        Plane::of(&self.kernel.save_text(Table::Filter))
    }

    /// How many restores and saves there were since this was last asked.
    pub fn calls(&self) -> (usize, usize) {
        let journal = self.kernel.journal();
        self.kernel.clear_journal();
        let saves = journal
            .iter()
            .filter(|entry| matches!(entry.call, JournalCall::Save(_)));
        let saves = saves.count();
        (journal.len() - saves, saves)
    }

    /// Does one step.
    pub fn run(&mut self, operation: Operation, injection: Option<Injection>) -> Result<(), Error> {
        if let Some(injection) = injection {
            injection.put(&self.kernel);
        }
        let result = self.operate(operation);
        if injection.is_some() {
            self.kernel.clear_faults();
        }
        result
    }

    fn operate(&mut self, operation: Operation) -> Result<(), Error> {
        let updater = &mut self.updater;
        match operation {
            Operation::Rewrite {
                chain,
                jumps,
                named,
            } => {
                let required = (0..NAMES.len()).filter(|c| has(named, *c));
                let required = required.map(|c| ChainName::new(NAMES[c]).unwrap());
                let chain = Chain::new(NAMES[chain], rules(jumps)).unwrap();
                let chain = chain.requires(required).unwrap();
                updater.rewrite_chains([chain]).map(drop)
            }
            Operation::Delete(chain) => updater.delete_chains([NAMES[chain]]).map(drop),
            Operation::Override(chain) => {
                updater.set_missing_chain_override(NAMES[chain], ["-j ACCEPT"])
            }
            Operation::Cleanup => updater.cleanup().map(drop),
            Operation::Refresh => updater.refresh().map(drop),
            Operation::Restart => open(&self.kernel).map(|new| self.updater = new),
            Operation::ForeignFlush(chain) => {
                self.kernel
                    .with_other_program(|other| other.flush(Table::Filter, NAMES[chain]));
                Ok(())
            }
            Operation::ForeignDelete(chain) => {
                let name = NAMES[chain];
                let input = format!("*filter\n-F {name}\n-X {name}\nCOMMIT\n");
                // Refused where a rule refers to it.
                self.kernel
                    .with_other_program(|other| other.restore(&input));
                Ok(())
            }
        }
    }

    /// What the updater knows beside its index, in a fixed order: what it has learned of each chain's looks, and
    /// which chains it is in doubt of.
    pub fn memory(&self) -> String {
        let all = format!("{:?}", self.updater);
        let (_, rest) = all.split_once("fingerprints: Fingerprints({").unwrap();
        let (prints, rest) = rest.split_once("}), doubtful: {").unwrap();
        let (doubtful, _) = rest.split_once("}, shared: ").unwrap();
        let mut prints: Vec<_> = prints
            .split("], ")
            .map(|p| p.trim_end_matches(']'))
            .collect();
        prints.sort_unstable();
        format!("{} / {doubtful}", prints.join(" "))
    }
}

impl Injection {
    fn put(self, kernel: &MemoryExecutor) {
        let last = if self.lasting { ALL } else { 0 };
        for nth in self.nth..=self.nth + last {
            if self.save {
                kernel.fail_save(nth, self.fault);
            } else {
                kernel.fail_restore(nth, self.fault);
            }
        }
    }

    pub fn interference(self) -> Interference {
        let applied = matches!(
            self.fault,
            Fault::KilledAfterCommit | Fault::HangsAfterCommit
        );
        if applied && !self.save {
            Interference::Applied
        } else {
            Interference::Honest
        }
    }

    /// All that can go wrong with an operation that makes so many calls without a fault.
    pub fn all(restores: usize, saves: usize) -> Vec<Self> {
        const RESTORE: [Fault; 6] = [
            Fault::Fails(FailureClass::Race),
            Fault::Fails(FailureClass::Refused),
            Fault::Fails(FailureClass::TargetAbsent),
            Fault::Fails(FailureClass::ChainBusy),
            Fault::KilledBeforeCommit,
            Fault::KilledAfterCommit,
        ];
        const SAVE: [Fault; 3] = [
            Fault::Fails(FailureClass::NoPrivilege),
            Fault::KilledBeforeCommit,
            Fault::SaveTruncated,
        ];
        let mut all = Vec::new();
        for (save, calls, faults) in [(false, restores, &RESTORE[..]), (true, saves, &SAVE[..])] {
            for nth in 1..=calls {
                for fault in faults.iter().copied() {
                    for lasting in [false, true] {
                        all.push(Self {
                            save,
                            nth,
                            fault,
                            lasting,
                        });
                    }
                }
            }
        }
        all
    }
}
