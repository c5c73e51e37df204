//! The seam to the outside world: whoever runs iptables-restore and iptables-save for an updater.

mod binaries;
mod command;
mod lock;
pub mod memory;
mod process;
mod version;

pub use command::{CommandExecutor, CommandExecutorBuilder};
pub use version::ToolVersion;

use std::time::Duration;

use crate::error::ExecutorError;
use crate::{Backend, IpVersion, Outcome, Table};

/// Runs `iptables-restore --noflush` and `iptables-save` for one IP version.
///
/// An executor only runs and reports: what the outcome means is the updater's business. Both calls
/// block until the process has ended, or was killed at a time limit of the executor's own.
///
/// `Ok` means that the process ran, however it ended; `Err` that it couldn't be run.
pub trait Executor {
    /// The IP version whose tables this executor reads and writes.
    fn ip_version(&self) -> IpVersion;

    /// The back end of iptables on the other side.
    fn backend(&self) -> Backend;

    /// Runs `iptables-restore --noflush` with this input. It is one block, `*table` to `COMMIT`.
    ///
    /// # Errors
    /// The program couldn't be run.
    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError>;

    /// Runs `iptables-save -t table`.
    ///
    /// # Errors
    /// The program couldn't be run.
    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError>;

    /// Runs `iptables-save -t table`, and hands on what it prints while it does: the outcome's `stdout` is empty then.
    ///
    /// A reader is done sooner so than if it had to wait for the whole of a large table. An executor that has
    /// all of it at once may do without, as this does unless it is implemented; so does one that wraps another one and
    /// has something to say about each [`save`](Self::save).
    ///
    /// # Errors
    /// The program couldn't be run.
    fn save_in_pieces(
        &mut self,
        table: Table,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, ExecutorError> {
        let mut outcome = self.save(table)?;
        take(&std::mem::take(&mut outcome.stdout));
        Ok(outcome)
    }

    /// Runs `iptables-save -c -t table`: the same, with the counters of each rule. An executor that has no
    /// counters may leave them out, as this does unless it is implemented.
    ///
    /// # Errors
    /// The program couldn't be run.
    fn save_with_counters(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        self.save(table)
    }

    /// How long restores have waited for the xtables lock so far, as far as that is known.
    fn lock_wait(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether this iptables may take one rule for another where it looks for one by its text (`-C`, `-D`). Hook rules
    /// are handled with more care then, and at a higher price: what can't be told apart is refused. An executor that wraps
    /// another one hands this on.
    fn confuses_rules(&self) -> bool {
        false
    }
}

impl<E: Executor + ?Sized> Executor for &mut E {
    fn ip_version(&self) -> IpVersion {
        (**self).ip_version()
    }

    fn backend(&self) -> Backend {
        (**self).backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        (**self).restore(input)
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        (**self).save(table)
    }

    fn save_in_pieces(
        &mut self,
        table: Table,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, ExecutorError> {
        (**self).save_in_pieces(table, take)
    }

    fn save_with_counters(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        (**self).save_with_counters(table)
    }

    fn lock_wait(&self) -> Duration {
        (**self).lock_wait()
    }

    fn confuses_rules(&self) -> bool {
        (**self).confuses_rules()
    }
}

impl<E: Executor + ?Sized> Executor for Box<E> {
    fn ip_version(&self) -> IpVersion {
        (**self).ip_version()
    }

    fn backend(&self) -> Backend {
        (**self).backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        (**self).restore(input)
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        (**self).save(table)
    }

    fn save_in_pieces(
        &mut self,
        table: Table,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, ExecutorError> {
        (**self).save_in_pieces(table, take)
    }

    fn save_with_counters(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        (**self).save_with_counters(table)
    }

    fn lock_wait(&self) -> Duration {
        (**self).lock_wait()
    }

    fn confuses_rules(&self) -> bool {
        (**self).confuses_rules()
    }
}
