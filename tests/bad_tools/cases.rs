//! The programs that misbehave, and how what is done with them has to end.

use super::swap::Tool;
use Ends::{Claims, NotRun, Restore, Save};
use iptables_updater::{Exit, FailureClass, SaveError};

/// How an operation has to end.
#[derive(Debug, Clone, Copy)]
pub enum Ends {
    /// iptables-restore ran, ended so, and that is of this class.
    Restore(FailureClass, Exit),
    /// iptables-save ran, and its output can't be trusted.
    Save(fn(&SaveError) -> bool),
    /// The program couldn't be started, for this reason.
    NotRun(std::io::ErrorKind),
    /// It claims to have done it.
    Claims,
}
const AMBIGUOUS: FailureClass = FailureClass::Ambiguous;

/// What `iptables-restore` is, and how a rewrite then ends.
pub const RESTORES: &[(&str, Tool<'_>, Ends)] = &[
    (
        "hangs",
        Tool::Script("sleep 1000"),
        Restore(AMBIGUOUS, Exit::TimedOut),
    ),
    (
        "hangs with children and grandchildren",
        Tool::Script("(sleep 1001 & sleep 1002 & wait) & sleep 1003 & wait"),
        Restore(AMBIGUOUS, Exit::TimedOut),
    ),
    (
        "closes its pipes and hangs with a child",
        Tool::Script("exec >&- 2>&- 0<&-; sleep 1000 & wait"),
        Restore(AMBIGUOUS, Exit::TimedOut),
    ),
    (
        "stops itself",
        Tool::Script("kill -STOP $$"),
        Restore(AMBIGUOUS, Exit::TimedOut),
    ),
    (
        "is deaf to signals",
        Tool::Script("trap '' TERM INT HUP PIPE; while :; do sleep 1; done"),
        Restore(AMBIGUOUS, Exit::TimedOut),
    ),
    (
        "ends, and leaves a child that holds its pipes",
        Tool::Script(
            "sleep 1000 & echo 'iptables-restore: line 2 failed: Chain already exists.' >&2; exit 4",
        ),
        Restore(FailureClass::ChainExists, Exit::Code(4)),
    ),
    (
        "ends well, and leaves a child that holds its pipes",
        Tool::Script("sleep 1000 & exit 0"),
        Claims,
    ),
    (
        "prints megabytes on standard error",
        Tool::Script("head -c 9000000 /dev/zero | tr '\\0' x >&2; exit 1"),
        Restore(FailureClass::Refused, Exit::Code(1)),
    ),
    (
        "prints on standard error without end",
        Tool::Script("exec yes >&2"),
        Restore(AMBIGUOUS, Exit::TimedOut),
    ),
    (
        "prints megabytes on standard output",
        Tool::Script("head -c 9000000 /dev/zero; exit 1"),
        Restore(AMBIGUOUS, Exit::Flooded),
    ),
    (
        "prints on standard output without end",
        Tool::Script("exec yes"),
        Restore(AMBIGUOUS, Exit::Flooded),
    ),
    (
        "prints on standard output without end, through a child",
        Tool::Script("yes & wait"),
        Restore(AMBIGUOUS, Exit::Flooded),
    ),
    (
        "prints on both without end",
        Tool::Script("yes >&2 & yes & wait"),
        Restore(AMBIGUOUS, Exit::Flooded),
    ),
    (
        "says why on standard output only",
        Tool::Script("echo 'iptables-restore: line 2 failed'; exit 1"),
        Restore(AMBIGUOUS, Exit::Code(1)),
    ),
    (
        "fails without a word",
        Tool::Script("exit 1"),
        Restore(AMBIGUOUS, Exit::Code(1)),
    ),
    (
        "does nothing, and says that all is well",
        Tool::Script("exit 0"),
        Claims,
    ),
    (
        "reads everything and does nothing",
        Tool::Script("cat >/dev/null"),
        Claims,
    ),
    (
        "kills itself",
        Tool::Script("kill -9 $$"),
        Restore(AMBIGUOUS, Exit::Signal(9)),
    ),
    (
        "crashes",
        Tool::Script("kill -SEGV $$"),
        Restore(AMBIGUOUS, Exit::Signal(11)),
    ),
    (
        "is terminated",
        Tool::Script("kill -TERM $$"),
        Restore(AMBIGUOUS, Exit::Signal(15)),
    ),
    (
        "closes its input unread",
        Tool::Script("exec 0<&-; sleep 0.1; exit 2"),
        Restore(AMBIGUOUS, Exit::Code(2)),
    ),
    (
        "reads one byte of its input",
        Tool::Script("head -c 1 >/dev/null; echo 'iptables-restore: line 1 failed' >&2; exit 1"),
        Restore(AMBIGUOUS, Exit::Code(1)),
    ),
    (
        "talks gibberish",
        Tool::Script("head -c 3000 /dev/urandom >&2; exit 77"),
        Restore(FailureClass::Refused, Exit::Code(77)),
    ),
    (
        "isn't there",
        Tool::Missing,
        NotRun(std::io::ErrorKind::NotFound),
    ),
    (
        "isn't executable",
        Tool::NotExecutable,
        NotRun(std::io::ErrorKind::PermissionDenied),
    ),
    (
        "is a folder",
        Tool::Folder,
        NotRun(std::io::ErrorKind::PermissionDenied),
    ),
    (
        "has an interpreter that isn't there",
        Tool::File("#!/no/such/interpreter\n"),
        NotRun(std::io::ErrorKind::NotFound),
    ),
];

/// What `iptables-save` is, and how a reading then ends.
pub const SAVES: &[(&str, Tool<'_>, Ends)] = &[
    (
        "hangs",
        Tool::Script("sleep 1000 & wait"),
        Save(failed(Exit::TimedOut)),
    ),
    (
        "prints half a table and hangs",
        Tool::Script("echo '*filter'; sleep 1000"),
        Save(failed(Exit::TimedOut)),
    ),
    (
        "prints without end",
        Tool::Script("exec yes"),
        Save(failed(Exit::Flooded)),
    ),
    (
        "prints without end and without a newline",
        Tool::Script("echo '*filter'; exec cat /dev/zero"),
        Save(failed(Exit::Flooded)),
    ),
    (
        "prints nothing",
        Tool::Script("exit 0"),
        Save(|error| *error == SaveError::NoTable),
    ),
    (
        "prints half a table",
        Tool::Script("echo '*filter'; echo ':INPUT ACCEPT [0:0]'"),
        Save(|error| *error == SaveError::NoCommit { line: 2 }),
    ),
    (
        "prints the table on standard error",
        Tool::Script("printf '*filter\\nCOMMIT\\n' >&2"),
        Save(|error| *error == SaveError::NoTable),
    ),
    (
        "prints another table",
        Tool::Script("printf '*nat\\nCOMMIT\\n'"),
        Save(|error| *error == SaveError::NoTable),
    ),
    (
        "prints gibberish",
        Tool::Script("head -c 3000 /dev/zero | tr '\\0' '\\377'; echo; echo x"),
        Save(|error| matches!(error, SaveError::Unexpected { line: 1, .. })),
    ),
    (
        "crashes",
        Tool::Script("kill -SEGV $$"),
        Save(failed(Exit::Signal(11))),
    ),
    (
        "isn't there",
        Tool::Missing,
        NotRun(std::io::ErrorKind::NotFound),
    ),
];

/// Whether it is a failure with that exit: a function of each, as a table can't hold one that captures.
const fn failed(exit: Exit) -> fn(&SaveError) -> bool {
    match exit {
        Exit::TimedOut => |error| ends(error, Exit::TimedOut),
        Exit::Signal(_) => |error| ends(error, Exit::Signal(11)),
        _ => |error| ends(error, Exit::Flooded),
    }
}

fn ends(error: &SaveError, expected: Exit) -> bool {
    matches!(error, SaveError::Failed { class, exit, .. } if *class == AMBIGUOUS && *exit == expected)
}
