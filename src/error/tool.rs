//! Why iptables couldn't be run, and why what iptables-save printed can't be used.

use std::path::PathBuf;
use std::sync::Arc;

use super::FailureClass;
use super::debug::debug_as_sentence;
use crate::outcome::Exit;

/// Why a table couldn't be read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// iptables-save itself failed.
    #[error("iptables-save failed: {class}; {exit}, it said {stderr:?}. What to do: {}", class.advice())]
    Failed {
        /// What kind of failure it is.
        class: FailureClass,
        /// How the process ended.
        exit: Exit,
        /// What it printed on standard error, cut short where it is long.
        stderr: String,
    },
    /// The output ends before the table's `COMMIT`: some of it was lost, though iptables-save may have
    /// ended with exit code 0.
    #[error(
        "the output of iptables-save ends at line {line} without the table's COMMIT: some of it was lost, try again"
    )]
    NoCommit {
        /// The last line, from 1.
        line: usize,
    },
    /// The table isn't in the output at all.
    #[error("the output of iptables-save doesn't have the table")]
    NoTable,
    /// `iptables-nft-save` can't express a native nftables rule in this table and shows nothing of it.
    #[error(
        "iptables-save can't show the table: it holds rules that only nft can express (line {line}: {notice:?}). What to do: move those rules into a table of their own with nft"
    )]
    Incompatible {
        /// The line of the notice, from 1.
        line: usize,
        /// What it printed.
        notice: String,
    },
    /// A line that can't be in the output of iptables-save.
    #[error("line {line} isn't what iptables-save prints: {text:?}")]
    Unexpected {
        /// The line, from 1.
        line: usize,
        /// Its text, cut short where it is long.
        text: String,
    },
    /// A rule's quote isn't closed before the output ends.
    #[error("the rule that begins in line {line} has a quote that is never closed")]
    UnterminatedQuote {
        /// The line in which the rule begins, from 1.
        line: usize,
    },
}

debug_as_sentence!(enum SaveError, (), {
    Failed { class, exit, stderr },
    NoCommit { line },
    NoTable {},
    Incompatible { line, notice },
    Unexpected { line, text },
    UnterminatedQuote { line },
});

/// iptables couldn't be run. `{:?}` is the sentence, as that of [`Error`](crate::Error).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// There is no such program.
    #[error("{} isn't there: install the package `iptables`, add its folder to PATH (/usr/sbin?), or give the path", program.display())]
    NotFound {
        /// The program.
        program: PathBuf,
    },
    /// The file is there, but isn't a program that may be executed.
    #[error("{} isn't executable: check its permissions, or give the path of the right one", program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
    },
    /// It couldn't be started, or its pipes failed.
    #[error("{} can't be run: {source}", program.display())]
    Io {
        /// The program.
        program: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// What it answered to `--version` isn't the answer of an iptables.
    #[error("{} doesn't answer --version as iptables does: {exit}, it said {output:?}", program.display())]
    Version {
        /// The program.
        program: PathBuf,
        /// How the process ended.
        exit: Exit,
        /// What it printed, cut short where it is long.
        output: String,
    },
    /// An error of an executor that isn't part of this library.
    #[error(transparent)]
    Other(#[from] Arc<dyn std::error::Error + Send + Sync>),
}

debug_as_sentence!(enum ExecutorError, (Other), {
    NotFound { program },
    NotExecutable { program },
    Io { program, source },
    Version { program, exit, output },
});
