//! How a call fails with a class of failure, in the words of each back end.

use super::Fault;
use crate::executor::memory::dialect::{Dialect, Errno, Refusal, Stop};
use crate::{Backend, Exit, FailureClass, Outcome, Table};

pub(in crate::executor::memory) fn killed(exit: Exit) -> Outcome {
    Outcome {
        exit,
        stdout: Vec::new(),
        stderr: Vec::new(),
    }
}

/// What a save leaves when its end is lost.
pub(in crate::executor::memory) fn truncated(mut outcome: Outcome) -> Outcome {
    let end = outcome.stdout.len() / 2;
    outcome.stdout.truncate(end);
    outcome
}

/// How a restore of this input fails with this class.
pub(in crate::executor::memory) fn restore(
    class: FailureClass,
    dialect: Dialect,
    input: &str,
) -> Outcome {
    let class = Fault::Fails(class)
        .class_on(dialect.backend)
        .unwrap_or(class);
    match dialect.backend {
        Backend::NfTables => nft(class, dialect, input),
        Backend::Legacy => legacy(class, dialect, input),
    }
}

/// The number of the first line that begins so; else of the last before `COMMIT`.
fn line_of(input: &str, start: &str) -> usize {
    let found = input.lines().position(|line| line.starts_with(start));
    found.map_or(last_line(input).max(2) - 1, |at| at + 1)
}

fn last_line(input: &str) -> usize {
    input.lines().count().max(1)
}

fn table_of(input: &str) -> &str {
    let name = input.lines().find_map(|line| line.strip_prefix('*'));
    name.unwrap_or("filter")
}

fn nft(class: FailureClass, dialect: Dialect, input: &str) -> Outcome {
    let program = dialect.restore_program();
    let version = dialect.restore_version();
    let netlink = |reason| {
        let text = format!("{version}: Could not fetch rule set generation id: {reason}\n");
        Outcome::failure(4, text)
    };
    let last = last_line(input);
    match class {
        FailureClass::RuleAbsent => {
            let line = line_of(input, "-D ");
            let reason = "Bad rule (does a matching rule exist in that chain?)";
            dialect.word(&Stop::Failed { line, reason }, line)
        }
        FailureClass::TargetAbsent => {
            let text = "Chain 'gone' does not exist".to_owned();
            dialect.word(&Stop::Parameter(text), last)
        }
        FailureClass::ChainExists => {
            let line = line_of(input, "-N ");
            let reason = "Chain already exists";
            dialect.word(&Stop::Failed { line, reason }, line)
        }
        FailureClass::ChainBusy => refused(dialect, input, "-X ", Errno::Busy),
        FailureClass::TooManyLinks => refused(dialect, input, "-A ", Errno::TooManyLinks),
        FailureClass::Refused => refused(dialect, input, "-A ", Errno::Invalid),
        FailureClass::NoPrivilege => netlink("Permission denied (you must be root)"),
        FailureClass::NoTable => {
            let table = table_of(input);
            let text = format!("{program}: line 1 table name '{table}' invalid");
            dialect.word(&Stop::Parameter(text), 1)
        }
        FailureClass::NoKernelSupport => Outcome::failure(
            1,
            format!(
                "{program}/1.8.9 (nf_tables) Failed to initialize nft: Protocol not supported\n"
            ),
        ),
        FailureClass::Ambiguous => killed(Exit::Signal(9)),
        FailureClass::Race | FailureClass::LockHeld | FailureClass::LockFile => {
            netlink("Resource temporarily unavailable")
        }
    }
}

/// The kernel's refusal of the first line that begins so.
fn refused(dialect: Dialect, input: &str, start: &str, errno: Errno) -> Outcome {
    let line = line_of(input, start);
    let text = input.lines().nth(line - 1).unwrap_or_default();
    let chain = text.split(' ').nth(1).unwrap_or("INPUT");
    let (operation, object) = match errno {
        Errno::Busy => ("CHAIN_DEL", format!("chain {chain}")),
        _ => ("RULE_APPEND", format!("rule in chain {chain}")),
    };
    let refusal = Refusal {
        line,
        operation,
        errno,
        object,
    };
    dialect.word(&Stop::Kernel(vec![refusal]), line)
}

fn legacy(class: FailureClass, dialect: Dialect, input: &str) -> Outcome {
    let program = dialect.restore_program();
    let failed = |start| {
        let line = line_of(input, start);
        dialect.word(&Stop::Failed { line, reason: "" }, line)
    };
    let bare = || dialect.word(&Stop::Bare, last_line(input));
    match class {
        FailureClass::LockHeld => Outcome::failure(
            4,
            "Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.\n",
        ),
        FailureClass::LockFile => Outcome::failure(
            4,
            "Fatal: can't open lock file /run/xtables.lock: Read-only file system\n",
        ),
        FailureClass::NoPrivilege => Outcome::failure(
            4,
            "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
        ),
        FailureClass::RuleAbsent => failed("-D "),
        FailureClass::ChainExists => failed("-N "),
        FailureClass::ChainBusy => failed("-X "),
        FailureClass::TargetAbsent => {
            let text = "Couldn't load target `gone':No such file or directory\n".to_owned();
            dialect.word(&Stop::Parameter(text), line_of(input, "-A "))
        }
        FailureClass::Refused => {
            let text = "unknown option \"--nosuch\"".to_owned();
            dialect.word(&Stop::Parameter(text), line_of(input, "-A "))
        }
        FailureClass::NoTable => {
            let table = table_of(input);
            let text = format!("{program}: unable to initialize table '{table}'");
            dialect.word(&Stop::Parameter(text), 1)
        }
        FailureClass::NoKernelSupport => {
            let mut outcome = bare();
            let warning =
                "Warning: Extension set revision 0 not supported, missing kernel module?\n";
            outcome.stderr.splice(0..0, warning.bytes());
            outcome
        }
        FailureClass::Race | FailureClass::TooManyLinks | FailureClass::Ambiguous => bare(),
    }
}

/// How a save fails with this class. Classes that speak of a line are a passing shortage here.
pub(in crate::executor::memory) fn save(
    class: FailureClass,
    dialect: Dialect,
    table: Table,
) -> Outcome {
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
            format!(
                "{program}/1.8.9 (nf_tables) Failed to initialize nft: Protocol not supported\n"
            ),
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
