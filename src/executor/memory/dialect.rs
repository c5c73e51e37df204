//! How each back end words a failure: program names, exit codes, line numbers.

use std::fmt::Write as _;

use crate::{Backend, IpVersion, Outcome};

/// The most bytes of a kernel report that iptables-nft keeps, its closing NUL included.
const REPORT: usize = 1024;

/// Which iptables is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) version: IpVersion,
    pub(super) backend: Backend,
}

/// Why a run stopped, before it is worded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// A parameter problem: exit code 2, the text after the program's name and version.
    Parameter(String),
    /// A word where none belongs: exit code 2, without the program's name.
    BadArgument(String),
    /// A command that couldn't be done. Only nf_tables gives the reason.
    Failed { line: usize, reason: &'static str },
    /// A line outside any table, or the kernel's refusal on legacy: no reason on either back end.
    Bare,
    /// Exit code 1, the text after the program's name and version.
    Other(String),
    /// What the kernel refused, nf_tables only.
    Kernel(Vec<Refusal>),
    /// The input ended inside a table.
    NoCommit,
    /// `-h` or `-V`: success, and nothing after it is read.
    Information(String),
}

/// One refused message of an nf_tables batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) line: usize,
    /// `RULE_APPEND` and the like.
    pub(super) operation: &'static str,
    pub(super) errno: Errno,
    /// `rule in chain X`, `chain X`.
    pub(super) object: String,
}

/// The kernel's reasons that this simulation knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errno {
    Missing,
    Exists,
    Busy,
    Invalid,
    TooManyLinks,
    NotSupported,
}

impl Errno {
    const fn text(self) -> &'static str {
        match self {
            Self::Missing => "No such file or directory",
            Self::Exists => "File exists",
            Self::Busy => "Device or resource busy",
            Self::Invalid => "Invalid argument",
            Self::TooManyLinks => "Too many links",
            Self::NotSupported => "Operation not supported",
        }
    }
}

impl Dialect {
    pub(super) fn is_legacy(self) -> bool {
        self.backend == Backend::Legacy
    }

    const fn base(self) -> &'static str {
        match self.version {
            IpVersion::V4 => "iptables",
            IpVersion::V6 => "ip6tables",
        }
    }

    /// What the restore program calls itself: legacy never says that it is legacy here.
    pub(super) fn restore_program(self) -> String {
        match self.backend {
            Backend::NfTables => format!("{}-nft-restore", self.base()),
            Backend::Legacy => format!("{}-restore", self.base()),
        }
    }

    pub(super) fn save_program(self) -> String {
        match self.backend {
            Backend::NfTables => format!("{}-nft-save", self.base()),
            Backend::Legacy => format!("{}-save", self.base()),
        }
    }

    /// `iptables-restore v1.8.9 (legacy)`.
    pub(super) fn restore_version(self) -> String {
        format!("{} v1.8.9 ({})", self.restore_program(), self.backend)
    }

    pub(super) fn word(self, stop: &Stop, line: usize) -> Outcome {
        let program = self.restore_program();
        let version = self.restore_version();
        let trailer = || {
            format!(
                "Error occurred at line: {line}\nTry `{program} -h' or '{program} --help' for more information.\n"
            )
        };
        match stop {
            Stop::Parameter(text) => {
                Outcome::failure(2, format!("{version}: {text}\n{}", trailer()))
            }
            Stop::BadArgument(word) => {
                Outcome::failure(2, format!("Bad argument `{word}'\n{}", trailer()))
            }
            Stop::Failed { line, reason } if !self.is_legacy() => {
                Outcome::failure(1, format!("{program}: line {line} failed: {reason}.\n"))
            }
            Stop::Failed { line, .. } => {
                Outcome::failure(1, format!("{program}: line {line} failed\n"))
            }
            Stop::Bare => Outcome::failure(1, format!("{program}: line {line} failed\n")),
            Stop::Other(text) => Outcome::failure(1, format!("{version}: {text}\n")),
            Stop::Kernel(refusals) => {
                Outcome::failure(4, format!("{version}: {}\n", report(refusals)))
            }
            Stop::NoCommit => Outcome::failure(
                1,
                format!("{program}: COMMIT expected at line {}\n", line + 1),
            ),
            Stop::Information(text) => Outcome::success(text.clone()),
        }
    }
}

/// The refusals one after the other, in the bounded buffer that iptables-nft has for them: one that
/// doesn't fit is cut, and overwritten by a later one that is shorter.
fn report(refusals: &[Refusal]) -> String {
    let mut kept = String::new();
    let mut cut = String::new();
    for refusal in refusals {
        let mut text = String::new();
        let _ = write!(
            text,
            "\nline {}: {} failed ({}): {}",
            refusal.line,
            refusal.operation,
            refusal.errno.text(),
            refusal.object
        );
        let room = REPORT - kept.len();
        if text.len() <= room {
            kept.push_str(&text);
            cut.clear();
            // The last byte is the buffer's closing NUL.
            kept.truncate(REPORT - 1);
        } else {
            text.truncate(room.saturating_sub(1));
            cut = text;
        }
    }
    kept + &cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stderr(backend: Backend, version: IpVersion, stop: &Stop, line: usize) -> String {
        let outcome = Dialect { version, backend }.word(stop, line);
        String::from_utf8(outcome.stderr).unwrap()
    }

    #[test]
    fn each_back_end_has_its_own_words() {
        let missing = Stop::Parameter("Chain 'x' does not exist".to_owned());
        assert_eq!(
            stderr(Backend::NfTables, IpVersion::V4, &missing, 5),
            "iptables-nft-restore v1.8.9 (nf_tables): Chain 'x' does not exist\nError occurred at line: 5\nTry `iptables-nft-restore -h' or 'iptables-nft-restore --help' for more information.\n"
        );
        let failed = Stop::Failed {
            line: 3,
            reason: "Chain already exists",
        };
        for (backend, text) in [
            (
                Backend::NfTables,
                "ip6tables-nft-restore: line 3 failed: Chain already exists.\n",
            ),
            (Backend::Legacy, "ip6tables-restore: line 3 failed\n"),
        ] {
            assert_eq!(stderr(backend, IpVersion::V6, &failed, 9), text);
        }
    }

    #[test]
    fn a_long_report_is_cut_where_its_buffer_ends() {
        let refusal = |line, object: &str| Refusal {
            line,
            operation: "RULE_APPEND",
            errno: Errno::Invalid,
            object: object.to_owned(),
        };
        let long = vec![refusal(1, &"x".repeat(500)); 3];
        assert_eq!(report(&long).len(), REPORT - 1);
        let mut then_short = long.clone();
        then_short.push(refusal(2, "y"));
        assert!(report(&then_short).ends_with("(Invalid argument): y"));
    }
}
