//! Faults that a test can inject, in the words of each back end.

use super::dialect::{Dialect, Errno, Refusal, Stop};
use crate::{Backend, Exit, FailureClass, Outcome, Table};

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

pub(super) fn killed(exit: Exit) -> Outcome {
    Outcome {
        exit,
        stdout: Vec::new(),
        stderr: Vec::new(),
    }
}

/// What a save leaves when its end is lost.
pub(super) fn truncated(mut outcome: Outcome) -> Outcome {
    let end = outcome.stdout.len() / 2;
    outcome.stdout.truncate(end);
    outcome
}

/// How a restore of this input fails with this class.
pub(super) fn restore(class: FailureClass, dialect: Dialect, input: &str) -> Outcome {
    let version = dialect.restore_version();
    let legacy = dialect.is_legacy();
    let last = input.lines().count().max(1);
    let line_of = |start: &str| {
        let found = input.lines().position(|line| line.starts_with(start));
        found.map_or(last.saturating_sub(1).max(1), |at| at + 1)
    };
    let failed = |line, reason| dialect.word(&Stop::Failed { line, reason }, line);
    let kernel = |line: usize, operation, errno| {
        let words: Vec<_> = input
            .lines()
            .nth(line - 1)
            .unwrap_or_default()
            .split(' ')
            .collect();
        let chain = words.get(1).copied().unwrap_or("INPUT");
        let object = match operation {
            "CHAIN_DEL" => format!("chain {chain}"),
            _ => format!("rule in chain {chain}"),
        };
        let refusal = Refusal {
            line,
            operation,
            errno,
            object,
        };
        dialect.word(&Stop::Kernel(vec![refusal]), line)
    };
    let bare = || dialect.word(&Stop::Bare, last);
    let table = input
        .lines()
        .find_map(|line| line.strip_prefix('*'))
        .unwrap_or("filter");
    let program = dialect.restore_program();
    match Fault::Fails(class).class_on(dialect.backend).unwrap_or(class) {
        FailureClass::LockHeld => Outcome::failure(
            4,
            "Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.\n",
        ),
        FailureClass::LockFile => Outcome::failure(
            4,
            "Fatal: can't open lock file /run/xtables.lock: Read-only file system\n",
        ),
        FailureClass::Race => Outcome::failure(
            4,
            format!(
                "{version}: Could not fetch rule set generation id: Resource temporarily unavailable\n"
            ),
        ),
        FailureClass::Ambiguous if legacy => bare(),
        FailureClass::Ambiguous => killed(Exit::Signal(9)),
        FailureClass::RuleAbsent => failed(
            line_of("-D "),
            "Bad rule (does a matching rule exist in that chain?)",
        ),
        FailureClass::TargetAbsent if legacy => dialect.word(
            &Stop::Parameter("Couldn't load target `gone':No such file or directory\n".to_owned()),
            line_of("-A "),
        ),
        FailureClass::TargetAbsent => dialect.word(
            &Stop::Parameter("Chain 'gone' does not exist".to_owned()),
            last,
        ),
        FailureClass::ChainBusy if legacy => failed(line_of("-X "), ""),
        FailureClass::ChainBusy => kernel(line_of("-X "), "CHAIN_DEL", Errno::Busy),
        FailureClass::TooManyLinks => kernel(line_of("-A "), "RULE_APPEND", Errno::TooManyLinks),
        FailureClass::NoPrivilege if legacy => Outcome::failure(
            4,
            "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
        ),
        FailureClass::NoPrivilege => Outcome::failure(
            4,
            format!(
                "{version}: Could not fetch rule set generation id: Permission denied (you must be root)\n"
            ),
        ),
        FailureClass::NoTable if legacy => dialect.word(
            &Stop::Parameter(format!("{program}: unable to initialize table '{table}'")),
            1,
        ),
        FailureClass::NoTable => dialect.word(
            &Stop::Parameter(format!("{program}: line 1 table name '{table}' invalid")),
            1,
        ),
        FailureClass::NoKernelSupport if legacy => {
            let mut outcome = bare();
            let mut stderr =
                b"Warning: Extension set revision 0 not supported, missing kernel module?\n".to_vec();
            stderr.append(&mut outcome.stderr);
            Outcome { stderr, ..outcome }
        }
        FailureClass::NoKernelSupport => Outcome::failure(
            1,
            format!("{program}/1.8.9 (nf_tables) Failed to initialize nft: Protocol not supported\n"),
        ),
        FailureClass::Refused => dialect.word(
            &Stop::Parameter("unknown option \"--nosuch\"".to_owned()),
            line_of("-"),
        ),
    }
}

/// How a save fails with this class. Classes that speak of a line are a passing shortage here.
pub(super) fn save(class: FailureClass, dialect: Dialect, table: Table) -> Outcome {
    let program = dialect.save_program();
    let version = format!("{program} v1.8.9 ({})", dialect.backend);
    let (code, text) = match (class, dialect.backend) {
        (FailureClass::NoPrivilege, Backend::NfTables) => (
            4,
            format!(
                "{version}: Could not fetch rule set generation id: Permission denied (you must be root)\n"
            ),
        ),
        (FailureClass::NoPrivilege, Backend::Legacy) => (
            1,
            format!("{version}: Cannot initialize: Permission denied (you must be root)\n"),
        ),
        (FailureClass::NoTable, Backend::NfTables) => {
            (1, format!("Table `{table}' does not exist\n"))
        }
        (FailureClass::NoTable | FailureClass::NoKernelSupport, Backend::Legacy) => (
            1,
            format!(
                "{version}: Cannot initialize: Table does not exist (do you need to insmod?)\n"
            ),
        ),
        (FailureClass::NoKernelSupport, Backend::NfTables) => (
            1,
            format!("{program}/1.8.9 (nf_tables) Failed to initialize nft: Protocol not supported\n"),
        ),
        (_, Backend::NfTables) => (
            4,
            format!(
                "{version}: Could not fetch rule set generation id: Resource temporarily unavailable\n"
            ),
        ),
        (_, Backend::Legacy) => (
            1,
            format!("{version}: Cannot initialize: Resource temporarily unavailable\n"),
        ),
    };
    Outcome::failure(code, text)
}
