//! Runs restores and saves through the executor, again where the failure may pass by itself.

use std::fmt;
use std::time::Duration;

use log::{debug, trace, warn};

use crate::error::{Error, ExecutorError, FailureClass, RestoreError, SaveError};
use crate::failure::Failure;
use crate::retry::{Clock, RetryPolicy};
use crate::save::{SaveReader, SavedTable};
use crate::stats::Stats;
use crate::{Executor, Exit, Outcome, Place, RestoreInput, Table, excerpt};

/// An executor with what is needed to use it patiently.
pub(crate) struct Runner<E> {
    pub(crate) executor: E,
    pub(crate) table: Table,
    pub(crate) retry: RetryPolicy,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) stats: Stats,
    /// Whether a restore was killed since this was last reset: it may have been applied all the same.
    pub(crate) killed: bool,
}

/// How a restore that failed looks to whoever asked for it.
pub(crate) enum Refusal {
    /// It ran and failed, with this class and line.
    Failed(Box<RestoreError>),
    /// It couldn't be run.
    NotRun(Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Failed(error) => Self::Restore(error),
            Refusal::NotRun(error) => error,
        }
    }
}

impl Refusal {
    pub(crate) fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Failed(error) => Some(error.class),
            Self::NotRun(_) => None,
        }
    }
}

impl<E: Executor> Runner<E> {
    /// What it runs on.
    pub(crate) fn place(&self) -> Place {
        Place {
            version: self.executor.ip_version(),
            table: self.table,
        }
    }

    /// Runs a restore. A failure without a reason is tried once less than the policy says: the last try is
    /// for whoever has read the table again.
    pub(crate) fn restore(&mut self, input: &RestoreInput) -> Result<(), Refusal> {
        let spare = self.retry.ambiguous_tries().saturating_sub(1).max(1);
        self.restore_tries(input, spare)
    }

    /// Runs a restore once, or again where a held lock or a race stops it.
    pub(crate) fn restore_last_try(&mut self, input: &RestoreInput) -> Result<(), Refusal> {
        self.restore_tries(input, 1)
    }

    fn restore_tries(&mut self, input: &RestoreInput, ambiguous: u32) -> Result<(), Refusal> {
        trace!("restore input:\n{}", excerpt::of(input.as_str()));
        let mut pauses = self.retry.pauses();
        let started = self.clock.now();
        let mut tries = 0;
        loop {
            let outcome = self
                .executor
                .restore(input.as_str())
                .map_err(|error| Refusal::NotRun(error.into()))?;
            tries += 1;
            self.stats.restores += 1;
            self.killed |= !matches!(outcome.exit, Exit::Code(_));
            self.stats.lines_written += input.commit_line() as u64;
            self.stats.bytes_written += input.as_str().len() as u64;
            let Some(failure) = Failure::of_restore(&outcome, input.as_str()) else {
                return Ok(());
            };
            if !self.may_try_again(failure.class, tries, ambiguous) {
                debug!(
                    "restore of {} failed after {tries} tries in {:?}: {}",
                    self.place(),
                    self.clock.now().saturating_duration_since(started),
                    failure.class
                );
                let error = self.restore_error(input, &outcome, failure, tries);
                return Err(Refusal::Failed(Box::new(error)));
            }
            self.pause(failure.class, pauses.next().unwrap_or_default());
        }
    }

    /// The pauses before the tries that follow a failure without a reason.
    pub(crate) fn unexplained_pauses(&self) -> impl Iterator<Item = Duration> + use<E> {
        let more = self.retry.ambiguous_tries() - 1;
        self.retry
            .pauses()
            .take(usize::try_from(more).unwrap_or(usize::MAX))
    }

    /// Waits before a restore is tried again.
    pub(crate) fn pause(&mut self, class: FailureClass, pause: Duration) {
        warn!("restore of {}: {class}, trying again", self.place());
        self.stats.retries.count(class);
        self.clock.sleep(pause);
    }

    /// Reads the table and hands it to `read`.
    pub(crate) fn save<T>(&mut self, read: impl FnOnce(&SavedTable<'_>) -> T) -> Result<T, Error> {
        self.save_by(E::save_in_pieces, read)
    }

    /// The same with the counters of each rule.
    pub(crate) fn save_with_counters<T>(
        &mut self,
        read: impl FnOnce(&SavedTable<'_>) -> T,
    ) -> Result<T, Error> {
        let at_once = |executor: &mut E, table: Table, take: &mut dyn FnMut(&[u8])| {
            let outcome = executor.save_with_counters(table)?;
            take(&outcome.stdout);
            Ok(outcome)
        };
        self.save_by(at_once, read)
    }

    fn save_by<T>(
        &mut self,
        save: impl Fn(&mut E, Table, &mut dyn FnMut(&[u8])) -> Result<Outcome, ExecutorError>,
        read: impl FnOnce(&SavedTable<'_>) -> T,
    ) -> Result<T, Error> {
        let mut pauses = self.retry.pauses();
        let mut tries = 0;
        loop {
            let mut reader = SaveReader::new(self.table);
            let outcome = save(&mut self.executor, self.table, &mut |piece| {
                reader.read(piece);
            })?;
            tries += 1;
            self.stats.saves += 1;
            let source = match Self::saved(&outcome, reader) {
                Ok(saved) => return Ok(read(&saved)),
                Err(source) => source,
            };
            // Lost output comes with exit code 0, too; another try may be luckier.
            let class = match &source {
                SaveError::Failed { class, .. } => *class,
                SaveError::NoCommit { .. } | SaveError::NoTable => FailureClass::Ambiguous,
                _ => FailureClass::Refused,
            };
            if !self.may_try_again(class, tries, self.retry.ambiguous_tries()) {
                return Err(Error::Save {
                    table: self.table,
                    version: self.executor.ip_version(),
                    source,
                });
            }
            warn!("save of {}: {source}, trying again", self.place());
            self.stats.retries.count(class);
            self.clock.sleep(pauses.next().unwrap_or_default());
        }
    }

    /// What was read, if the tool itself has nothing to say against it.
    fn saved(outcome: &Outcome, reader: SaveReader) -> Result<SavedTable<'static>, SaveError> {
        if let Some(failure) = Failure::of_save(outcome) {
            return Err(SaveError::Failed {
                class: failure.class,
                exit: outcome.exit,
                stderr: excerpt::of_bytes(&outcome.stderr),
            });
        }
        reader.finish()
    }

    fn may_try_again(&self, class: FailureClass, tries: u32, ambiguous: u32) -> bool {
        let most = match class {
            FailureClass::Ambiguous => ambiguous,
            _ => self.retry.tries(),
        };
        class.may_pass() && tries < most
    }

    fn restore_error(
        &self,
        input: &RestoreInput,
        outcome: &Outcome,
        failure: Failure,
        tries: u32,
    ) -> RestoreError {
        let line = line_at_fault(input, &failure);
        let origin = line.and_then(|line| input.origin(line));
        RestoreError {
            class: failure.class,
            table: self.table,
            version: self.executor.ip_version(),
            backend: self.executor.backend(),
            line,
            text: line.and_then(|line| input.line(line)).map(excerpt::short),
            chain: origin.map(|origin| origin.chain.to_string()),
            request: origin.and_then(|origin| origin.request),
            cascade: failure.cascade,
            object: failure.object,
            circle: Vec::new(),
            leftover: Vec::new(),
            exit: outcome.exit,
            stderr: excerpt::of_bytes(&outcome.stderr),
            tries,
        }
    }
}

/// The line that iptables names; where it names the `COMMIT` line and a target that is missing (nf_tables looks for
/// targets only there), the first line to that target.
fn line_at_fault(input: &RestoreInput, failure: &Failure) -> Option<usize> {
    let named = failure.line?;
    let missing = match &failure.object {
        Some(object) if failure.class == FailureClass::TargetAbsent => object,
        _ => return Some(named),
    };
    if named < input.commit_line() {
        return Some(named);
    }
    input.line_to(missing).or(Some(named))
}

impl<E> fmt::Debug for Runner<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("table", &self.table)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
