//! Another program that writes to the same tables, between our calls.

use std::sync::Arc;

use super::kernel::{Chains, Kernel};
use super::{input, save};
use crate::{Outcome, Table};

/// What another program may do to the tables, see
/// [`MemoryExecutor::with_other_program`](super::MemoryExecutor::with_other_program).
#[derive(Debug)]
pub struct OtherProgram<'a> {
    kernel: &'a mut Kernel,
}

/// A table as another program found it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    table: Table,
    chains: Arc<Chains>,
}

impl<'a> OtherProgram<'a> {
    pub(super) fn new(kernel: &'a mut Kernel) -> Self {
        Self { kernel }
    }

    /// Runs `iptables-restore --noflush` with this input.
    pub fn restore(&mut self, input: &str) -> Outcome {
        input::restore(self.kernel, input)
    }

    /// Runs one command of `iptables -t table`: `-A INPUT -j ACCEPT`, `-X old-chain`.
    pub fn command(&mut self, table: Table, command: &str) -> Outcome {
        self.restore(&format!("*{table}\n{command}\nCOMMIT\n"))
    }

    /// Empties a chain; no such chain is no matter.
    pub fn flush(&mut self, table: Table, chain: &str) {
        self.change(table, |chains| {
            chains.flush(chain);
            chains.bury(chain);
        });
    }

    /// Empties all chains and deletes those that aren't the kernel's, as a careless firewall script does
    /// when it starts.
    pub fn flush_table(&mut self, table: Table) {
        self.change(table, |chains| {
            chains.flush_all();
            chains.bury_all();
            let names: Vec<_> = chains
                .iter()
                .filter(|(_, chain)| chain.hook.is_none())
                .map(|(name, _)| name.to_owned())
                .collect();
            for name in names {
                chains.remove_chain(&name);
            }
        });
    }

    /// What `iptables-save -t table` prints.
    pub fn save_text(&self, table: Table) -> String {
        save::table(self.kernel, table)
    }

    /// Takes the table down as it is now, to put it back later: the first half of the save, modify and
    /// restore of other programs.
    pub fn save(&self, table: Table) -> Snapshot {
        Snapshot {
            table,
            chains: self.kernel.snapshot(table),
        }
    }

    /// Puts the table back as it was: what was written since is lost, what was deleted since is back.
    pub fn put_back(&mut self, saved: &Snapshot) {
        self.kernel.put_back(saved.table, Arc::clone(&saved.chains));
    }

    fn change(&mut self, table: Table, change: impl FnOnce(&mut Chains)) {
        let mut chains = self.kernel.table(table).clone();
        change(&mut chains);
        self.kernel.set_table(table, chains);
    }
}
