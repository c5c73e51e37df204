//! Faults that a test can inject, and when they come up.

use super::dialect::Dialect;
use crate::{Backend, FailureClass};

pub(super) mod words;

/// What shall go wrong with a call, see [`MemoryExecutor::fail_restore`](super::MemoryExecutor::fail_restore).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The call fails with this class and changes nothing. The exit code and the words are those that
    /// the back end has for it; where it has none, those of the nearest class: see
    /// [`Fault::class_on`].
    Fails(FailureClass),
    /// The call doesn't end before the time limit, and changes nothing.
    Hangs,
    /// The call doesn't end before the time limit, but has done its work by then.
    HangsAfterCommit,
    /// The process is killed before it changes anything.
    KilledBeforeCommit,
    /// The process is killed when it has changed everything.
    KilledAfterCommit,
    /// A save loses the end of its output, with exit code 0. A restore isn't touched by it.
    SaveTruncated,
}

impl Fault {
    /// The class that a restore which fails this way shows on this back end; `None` for
    /// [`Fault::SaveTruncated`].
    ///
    /// Legacy hides what the kernel says, so a [`Race`](FailureClass::Race) or
    /// [`TooManyLinks`](FailureClass::TooManyLinks) is [`Ambiguous`](FailureClass::Ambiguous) there.
    /// nf_tables has no lock: [`LockHeld`](FailureClass::LockHeld) and
    /// [`LockFile`](FailureClass::LockFile) are a [`Race`](FailureClass::Race) there.
    pub const fn class_on(self, backend: Backend) -> Option<FailureClass> {
        let class = match self {
            Self::Fails(class) => class,
            Self::SaveTruncated => return None,
            Self::Hangs
            | Self::HangsAfterCommit
            | Self::KilledBeforeCommit
            | Self::KilledAfterCommit => FailureClass::Ambiguous,
        };
        Some(match (backend, class) {
            (Backend::Legacy, FailureClass::Race | FailureClass::TooManyLinks) => {
                FailureClass::Ambiguous
            }
            (Backend::NfTables, FailureClass::LockHeld | FailureClass::LockFile) => {
                FailureClass::Race
            }
            (_, class) => class,
        })
    }
}

/// Which calls a fault waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    Restore,
    Save,
}

/// Faults that wait for their call.
#[derive(Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<(Awaits, usize, Fault)>,
    lock_held: usize,
}

impl Faults {
    pub(super) fn add(&mut self, awaits: Awaits, nth: usize, fault: Fault) {
        self.waiting.push((awaits, nth.max(1), fault));
    }

    pub(super) fn hold_lock(&mut self, calls: usize) {
        self.lock_held = calls;
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The fault of the call that is made now.
    pub(super) fn due(&mut self, call: Awaits, dialect: Dialect) -> Option<Fault> {
        let mut due = None;
        self.waiting.retain_mut(|(awaits, nth, fault)| {
            if *awaits != call {
                return true;
            }
            *nth -= 1;
            if *nth == 0 {
                due = due.or(Some(*fault));
            }
            *nth > 0
        });
        // Only legacy takes the lock, and only to write.
        if due.is_none() && call == Awaits::Restore && dialect.is_legacy() && self.lock_held > 0 {
            self.lock_held -= 1;
            due = Some(Fault::Fails(FailureClass::LockHeld));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpVersion;

    #[test]
    fn a_fault_waits_for_its_call() {
        let dialect = |backend| Dialect {
            version: IpVersion::V4,
            backend,
        };
        let legacy = dialect(Backend::Legacy);
        let mut faults = Faults::default();
        faults.add(Awaits::Restore, 2, Fault::Hangs);
        faults.add(Awaits::Save, 1, Fault::SaveTruncated);
        assert_eq!(faults.due(Awaits::Restore, legacy), None);
        assert_eq!(faults.due(Awaits::Save, legacy), Some(Fault::SaveTruncated));
        assert_eq!(faults.due(Awaits::Restore, legacy), Some(Fault::Hangs));
        assert_eq!(faults.due(Awaits::Restore, legacy), None);

        faults.hold_lock(1);
        let held = Some(Fault::Fails(FailureClass::LockHeld));
        assert_eq!(faults.due(Awaits::Save, legacy), None);
        assert_eq!(
            faults.due(Awaits::Restore, dialect(Backend::NfTables)),
            None
        );
        assert_eq!(faults.due(Awaits::Restore, legacy), held);
        assert_eq!(faults.due(Awaits::Restore, legacy), None);
    }
}
