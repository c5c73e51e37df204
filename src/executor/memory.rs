//! An executor without a kernel: iptables in memory, for tests and for machines that have none.
//!
//! A program that uses this library is tested on it without root, and without touching a firewall. The test keeps
//! one handle to the simulated kernel and gives another to the updater:
//!
//! ```
//! use iptables_updater::memory::Fault;
//! use iptables_updater::{
//!     Backend, Chain, Error, Executor, FailureClass, IpVersion, IptablesUpdater, MemoryExecutor, Table,
//! };
//!
//! // Your program: lets one network in, through a chain of its own.
//! fn let_in<E: Executor>(filter: &mut IptablesUpdater<E>, network: &str) -> Result<(), Error> {
//!     let rules = [format!("-s {network} -j ACCEPT"), "-j DROP".to_owned()];
//!     filter.rewrite_chains([Chain::new("door-in", rules)?])?;
//!     filter.ensure_rule_inserted("INPUT", "-j door-in")
//! }
//!
//! // Your tests, on either back end:
//! for backend in [Backend::NfTables, Backend::Legacy] {
//!     let kernel = MemoryExecutor::new(IpVersion::V4, backend);
//!     let mut filter = IptablesUpdater::builder(Table::Filter)
//!         .chain_prefix("door-")
//!         .open(kernel.clone())?;
//!
//!     // With a fault: the first restore doesn't end, and is killed.
//!     kernel.fail_restore(1, Fault::Hangs);
//!     let_in(&mut filter, "192.0.2.0/24")?;
//!     assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap(), ["-j door-in"]);
//!     assert_eq!(filter.stats().retries.total(), 1);
//!
//!     // With a fault that doesn't pass: the error says so, and all is as it was.
//!     kernel.fail_restore(1, Fault::Fails(FailureClass::Refused));
//!     let error = let_in(&mut filter, "198.51.100.0/24").unwrap_err();
//!     assert_eq!(error.class(), Some(FailureClass::Refused));
//!     assert_eq!(kernel.rules(Table::Filter, "door-in").unwrap()[0], "-s 192.0.2.0/24 -j ACCEPT");
//!
//!     // With another program, whose script empties the table.
//!     kernel.with_other_program(|other| other.flush_table(Table::Filter));
//!     assert_eq!(filter.refresh()?.missing, ["door-in"]);
//!     assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap(), ["-j door-in"]);
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! The example `testing_your_program` has more of them. The pauses between tries take real time here; give the
//! builder a [`Clock`](crate::Clock) on which they don't.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ExecutorError;
use crate::{Backend, Executor, Exit, IpVersion, Outcome, Table};

mod command;
mod dialect;
mod extensions;
mod fault;
mod general;
mod getopt;
mod input;
mod journal;
mod kernel;
mod legacy;
mod loaded;
mod names;
mod nat;
mod nft;
mod other;
mod quote;
mod rule;
mod save;
mod values;

pub use fault::Fault;
pub use journal::{JournalCall, JournalEntry};
pub use other::{OtherProgram, Snapshot};

use dialect::Dialect;
use fault::{Awaits, Faults, words};

/// The tables of one network namespace, simulated: behaves as `iptables-restore --noflush` and
/// `iptables-save` of iptables 1.8.9 do, on either back end.
///
/// A clone is another handle to the same tables: give one to the updater, and keep one to look, to
/// inject faults, or to write behind the updater's back.
///
/// ```
/// use iptables_updater::memory::Fault;
/// use iptables_updater::{Backend, Executor, FailureClass, IpVersion, MemoryExecutor, Table};
///
/// let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
/// let mut executor = kernel.clone();
///
/// let input = "*filter\n:web-input - [0:0]\n-A web-input -p tcp --dport 443 -j ACCEPT\nCOMMIT\n";
/// assert!(executor.restore(input)?.exit.is_success());
/// assert_eq!(
///     kernel.rules(Table::Filter, "web-input"),
///     Some(vec!["-p tcp -m tcp --dport 443 -j ACCEPT".to_owned()])
/// );
///
/// // The next restore finds the kernel busy, as it does now and then.
/// kernel.fail_restore(1, Fault::Fails(FailureClass::Race));
/// assert!(!executor.restore(input)?.exit.is_success());
/// assert!(executor.restore(input)?.exit.is_success());
///
/// // Somebody else empties the chain.
/// kernel.with_other_program(|other| other.flush(Table::Filter, "web-input"));
/// assert_eq!(kernel.rules(Table::Filter, "web-input"), Some(vec![]));
/// assert_eq!(kernel.journal().len(), 3);
/// # Ok::<(), iptables_updater::ExecutorError>(())
/// ```
///
/// # How faithful it is
///
/// Random inputs are run on this simulation and on the real tools, both back ends, and their exit codes,
/// the text on standard error, and the tables afterwards are compared (`tests/memory_differential.rs`).
/// That covers
/// - the commands `:CHAIN`, `-A`, `-I`, `-D` (by rule and by number), `-R`, `-C`, `-N`, `-X`, `-E`, `-F`,
///   `-P`, counters before a line, comments, several blocks, and lines that are no command;
/// - addresses, interfaces and protocols; the matches `tcp`, `udp`, `icmp`, `icmp6`, `multiport`, `comment`,
///   `state`, `conntrack --ctstate`, `mark`, `limit`, `set`; jumps, gotos and the verdicts; the targets
///   `LOG`, `NFLOG`, `REJECT`, `MARK`, `SET`, `MASQUERADE`, `SNAT`, `DNAT`, `REDIRECT`, with the tables
///   and kernel chains in which each is refused;
/// - a rule's stored form, and `-D` and `-C` by that form;
/// - what is atomic, which line is blamed, loops of chains, and nf_tables' limit of nested chains.
///
/// What it doesn't do:
/// - Other matches and targets of iptables are known by name alone. Their options are kept word for
///   word, in the order given, and never refused. Rules of `recent` and `connlimit`, which the real
///   tools don't find again by their saved text, are found here.
/// - Counters are always 0, and `-Z` only checks that the chain is there. `-L` and `-S` print nothing.
/// - No packet is judged.
/// - Where iptables-nft uses freed memory (`-R` of a rule that the same block has written), it may crash;
///   the simulation answers what the tool answers if it survives.
/// - A set is a name ([`define_set`](Self::define_set)): its family isn't checked, and it can't be deleted while a rule names it.
/// - Host names, and services and protocols outside a short list, are unknown.
/// - Text is UTF-8, and is cut at a character where iptables cuts it at a byte.
/// - There is one iptables: tables of the other back end, and rules made with `nft`, don't exist.
#[derive(Clone)]
pub struct MemoryExecutor {
    dialect: Dialect,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    kernel: kernel::Kernel,
    journal: Vec<JournalEntry>,
    faults: Faults,
}

impl MemoryExecutor {
    /// Empty tables.
    pub fn new(version: IpVersion, backend: Backend) -> Self {
        let dialect = Dialect { version, backend };
        Self {
            dialect,
            shared: Arc::new(Mutex::new(Shared {
                kernel: kernel::Kernel::new(dialect),
                journal: Vec::new(),
                faults: Faults::default(),
            })),
        }
    }

    /// A panic of another holder doesn't spoil the tables: each change is whole before it is stored.
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every restore and save through this executor or a clone, oldest first. What
    /// [another program](Self::with_other_program) did isn't in it.
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.shared().journal.clone()
    }

    /// Forgets the journal.
    pub fn clear_journal(&self) {
        self.shared().journal.clear();
    }

    /// The `nth` restore from now, 1 being the next, goes wrong.
    pub fn fail_restore(&self, nth: usize, fault: Fault) {
        self.shared().faults.add(Awaits::Restore, nth, fault);
    }

    /// The `nth` save from now, 1 being the next, goes wrong.
    pub fn fail_save(&self, nth: usize, fault: Fault) {
        self.shared().faults.add(Awaits::Save, nth, fault);
    }

    /// Another program holds the xtables lock during the next restores, this many. On nf_tables, which
    /// takes no lock, nothing comes of it.
    pub fn hold_lock(&self, restores: usize) {
        self.shared().faults.hold_lock(restores);
    }

    /// Forgets all faults that haven't come up yet, and releases the lock.
    pub fn clear_faults(&self) {
        self.shared().faults.clear();
    }

    /// Makes a set, so that rules may name it.
    pub fn define_set(&self, name: impl Into<String>) {
        self.shared().kernel.sets.insert(name.into());
    }

    /// Destroys a set. Rules that name it stay, as in no real kernel.
    pub fn undefine_set(&self, name: &str) {
        self.shared().kernel.sets.remove(name);
    }

    /// The rules of one chain as iptables-save prints them, without `-A chain`; `None` if there is no
    /// such chain. A kernel chain is there even while nobody has written to it.
    pub fn rules(&self, table: Table, chain: &str) -> Option<Vec<String>> {
        save::chain(&self.shared().kernel, table, chain)
    }

    /// The names of all chains of a table as iptables-save prints them: kernel chains first.
    pub fn chains(&self, table: Table) -> Vec<String> {
        save::chains(&self.shared().kernel, table)
    }

    /// What `iptables-save -t` prints now. Neither the journal nor a fault takes note of it.
    pub fn save_text(&self, table: Table) -> String {
        save::table(&self.shared().kernel, table)
    }

    /// Lets another program write to the tables: its changes aren't in the journal and meet no fault.
    pub fn with_other_program<T>(&self, write: impl FnOnce(&mut OtherProgram<'_>) -> T) -> T {
        let mut shared = self.shared();
        write(&mut OtherProgram::new(&mut shared.kernel))
    }
}

impl fmt::Debug for MemoryExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryExecutor")
            .field("ip_version", &self.dialect.version)
            .field("backend", &self.dialect.backend)
            .field("calls", &self.shared().journal.len())
            .finish_non_exhaustive()
    }
}

impl Executor for MemoryExecutor {
    fn ip_version(&self) -> IpVersion {
        self.dialect.version
    }

    fn backend(&self) -> Backend {
        self.dialect.backend
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        let mut shared = self.shared();
        let outcome = match shared.faults.due(Awaits::Restore, self.dialect) {
            Some(Fault::Fails(class)) => words::restore(class, self.dialect, input),
            Some(Fault::Hangs) => words::killed(Exit::TimedOut),
            Some(Fault::KilledBeforeCommit) => words::killed(Exit::Signal(9)),
            Some(late @ (Fault::HangsAfterCommit | Fault::KilledAfterCommit)) => {
                input::restore(&mut shared.kernel, input);
                words::killed(if late == Fault::HangsAfterCommit {
                    Exit::TimedOut
                } else {
                    Exit::Signal(9)
                })
            }
            Some(Fault::SaveTruncated) | None => input::restore(&mut shared.kernel, input),
        };
        shared.journal.push(JournalEntry {
            call: JournalCall::Restore(input.to_owned()),
            outcome: outcome.clone(),
        });
        Ok(outcome)
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        let mut shared = self.shared();
        let fault = shared.faults.due(Awaits::Save, self.dialect);
        let whole = || Outcome::success(save::table(&shared.kernel, table));
        let outcome = match fault {
            Some(Fault::Fails(class)) => words::save(class, self.dialect, table),
            Some(Fault::Hangs | Fault::HangsAfterCommit) => words::killed(Exit::TimedOut),
            Some(Fault::KilledBeforeCommit | Fault::KilledAfterCommit) => {
                words::killed(Exit::Signal(9))
            }
            Some(Fault::SaveTruncated) => words::truncated(whole()),
            None => whole(),
        };
        shared.journal.push(JournalEntry {
            call: JournalCall::Save(table),
            outcome: outcome.clone(),
        });
        Ok(outcome)
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
