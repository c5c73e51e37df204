//! Why a request to an updater failed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::circle::Circle;
use super::debug::debug_as_sentence;
use super::{
    BadRule, ChainError, ChainNameError, PrefixError, RestoreError, RuleError, TableSetError,
};
use crate::outcome::Exit;
use crate::{ChainName, HookChain, IpVersion, Place, Prefixes, Rule, Table, UnknownName};

/// Why an operation of [`IptablesUpdater`](crate::IptablesUpdater) failed.
///
/// Whatever it is, nothing was half-done: the kernel's table and the updater's own picture of it are
/// as they were before the call, unless the variant says otherwise.
///
/// `{}` and `{:?}` are the same sentence: what it was, why, and what to do; that of the source is part of it. So
/// `fn main() -> Result<(), Error>` prints it, too. `{:#?}` is the structure.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A chain name was refused.
    #[error(transparent)]
    ChainName(#[from] ChainNameError),
    /// A prefix was refused.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// A rule was refused that was made by itself.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A chain was refused.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A table, a kernel chain, a policy, an IP version or a back end isn't called so.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A [`TableSet`](crate::TableSet) can't be opened, or a call to it can't be meant.
    #[error(transparent)]
    TableSet(#[from] TableSetError),
    /// A [`TableSet`](crate::TableSet) failed at one of its places.
    #[error("{place}: {source}")]
    Place {
        /// Where.
        place: Place,
        /// Why.
        source: Box<Error>,
    },
    /// A hook rule was refused.
    #[error("hook rule for chain {chain}: {source}")]
    HookRule {
        /// The chain that it was for.
        chain: String,
        /// The rule's text and what is wrong with it.
        source: BadRule,
    },
    /// The chain isn't one that this updater owns.
    #[error(
        "chain {chain} isn't owned: its name begins with none of this updater's prefixes ({prefixes})"
    )]
    NotOwned {
        /// The chain.
        chain: ChainName,
        /// The prefixes that it has.
        prefixes: Prefixes,
    },
    /// A chain explicitly requires one that the updater doesn't own, so couldn't stand in for.
    #[error(
        "chain {chain} requires {required}, which isn't owned: its name begins with none of this updater's prefixes ({prefixes})"
    )]
    RequiresNotOwned {
        /// The chain.
        chain: ChainName,
        /// What it requires.
        required: ChainName,
        /// The prefixes that it has.
        prefixes: Prefixes,
    },
    /// A chain of others is neither emptied nor deleted, and a kernel chain never deleted.
    #[error("chain {chain} isn't owned, and won't be {act}: call allow_foreign({:?}) first if that is what you want", chain.as_str())]
    NotAllowed {
        /// The chain.
        chain: HookChain,
        /// What was asked for.
        act: ForeignAct,
    },
    /// A hook rule for a chain of our own: its contents come from `rewrite_chains` alone.
    #[error(
        "chain {chain} is owned: give its rules to rewrite_chains, hook rules are for chains of others"
    )]
    HookInOwned {
        /// The chain.
        chain: ChainName,
    },
    /// The chains would require each other in a circle.
    #[error("these chains would jump in a circle: {}", Circle(chains))]
    Cycle {
        /// The circle, each chain once; the last requires the first.
        chains: Vec<ChainName>,
    },
    /// iptables doesn't find the rule by its words, though one stands there that it prints just so.
    #[error(
        "in chain {chain} stands a rule that iptables prints as {rule:?} and doesn't find by these words: another program has saved and restored it (rules of -m recent and -m connlimit are such). Delete it by its number, or leave it"
    )]
    CantMatch {
        /// The chain.
        chain: HookChain,
        /// The rule.
        rule: Rule,
    },
    /// This version of iptables may delete another rule in place of the one that is meant.
    #[error(
        "in chain {chain} this iptables can't tell {rule:?} from {other:?}, and might delete that: nothing was done. It is a fault of ip6tables (legacy) 1.8.9; update it, or use nf_tables"
    )]
    CantTellApart {
        /// The chain.
        chain: HookChain,
        /// The rule to be moved or removed.
        rule: Rule,
        /// The rule that it may be taken for.
        other: Rule,
    },
    /// iptables-restore says that it has deleted more instances of a rule than any chain has: it doesn't do what
    /// it says. What it has done isn't known.
    #[error(
        "iptables-restore claims to find the rule {:?} in chain {chain} however often it deletes it: it doesn't do what it says. What to do: check which program it is", rule.as_str()
    )]
    NeverAbsent {
        /// The chain.
        chain: HookChain,
        /// The rule.
        rule: Rule,
    },
    /// No name is free for a chain of the updater's own.
    #[error(
        "no name is free for a chain of the updater's own: those that begin with one of {prefixes} and go on with ~ are in use, or too long"
    )]
    NoSpareChain {
        /// The prefixes that it has.
        prefixes: Prefixes,
    },
    /// An override of a stub came after the stub was needed.
    #[error(
        "chain {chain} is required already, and its stub may be in force: set its override before anything requires it"
    )]
    OverrideTooLate {
        /// The chain.
        chain: ChainName,
    },
    /// A stub that needs another chain of ours could need a stub itself.
    #[error("the stub of chain {chain} jumps to {target}: a stub can't require an owned chain")]
    StubRequires {
        /// The chain that the stub stands in for.
        chain: ChainName,
        /// The owned chain that it jumps or goes to.
        target: ChainName,
    },
    /// iptables-restore refused or failed.
    #[error(transparent)]
    Restore(#[from] Box<RestoreError>),
    /// iptables-save failed, or what it printed can't be trusted.
    #[error("the {table} table of {version} can't be read: {source}")]
    Save {
        /// The table.
        table: Table,
        /// The IP version.
        version: IpVersion,
        /// Why.
        source: SaveError,
    },
    /// The worker to which the request was given is gone, or can't be waited for.
    #[error("the worker can't answer: {reason}")]
    WorkerGone {
        /// Why.
        reason: NoAnswer,
    },
    /// iptables couldn't be run at all.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

debug_as_sentence!(enum Error, (ChainName, Prefix, Rule, Chain, UnknownName, TableSet, Restore, Executor), {
    Place { place, source },
    HookRule { chain, source },
    CantTellApart { chain, rule, other },
    NeverAbsent { chain, rule },
    NotOwned { chain, prefixes },
    RequiresNotOwned { chain, required, prefixes },
    NotAllowed { chain, act },
    HookInOwned { chain },
    Cycle { chains },
    CantMatch { chain, rule },
    NoSpareChain { prefixes },
    OverrideTooLate { chain },
    StubRequires { chain, target },
    Save { table, version, source },
    WorkerGone { reason },
});

impl Error {
    /// What kind of failure of iptables-restore or iptables-save this is, if it is one.
    pub fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Restore(error) => Some(error.class),
            Self::Save {
                source: SaveError::Failed { class, .. },
                ..
            } => Some(*class),
            Self::Place { source, .. } => source.class(),
            _ => None,
        }
    }

    /// Whether the same call may succeed later, with nothing else changed: [`FailureClass::may_pass`] of its class.
    ///
    /// By then the updater has tried as often as its [`RetryPolicy`](crate::RetryPolicy) says.
    pub fn may_pass(&self) -> bool {
        self.class().is_some_and(FailureClass::may_pass)
    }
}

/// What isn't done to a chain of others without [`allow_foreign`](crate::IptablesUpdater::allow_foreign).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForeignAct {
    /// To empty it.
    Flush,
    /// To delete it.
    Delete,
}

impl fmt::Display for ForeignAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "emptied",
            Self::Delete => "deleted",
        })
    }
}

/// Why a worker gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoAnswer {
    /// It was shut down, or has died of a panic, before it came to the request.
    Gone,
    /// Another handle has shut it down.
    ShutDown,
    /// It has died of a panic.
    Panicked,
    /// A callback, which runs on the worker's thread, waits for that thread.
    WaitsForItself,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "it was shut down, or has died of a panic",
            Self::ShutDown => "another handle has shut it down",
            Self::Panicked => "it has died of a panic",
            Self::WaitsForItself => {
                "a callback runs on its thread, so it can't wait for it: take a ticket"
            }
        })
    }
}

/// What kind of failure it is: what it means and what may be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FailureClass {
    /// Another program holds the xtables lock (legacy). Retried.
    LockHeld,
    /// The kernel was short of something, or another program changed the table at the same instant. Retried.
    Race,
    /// The tool didn't say why: the kernel's refusal on legacy, a signal, the time limit. Retried a few times.
    Ambiguous,
    /// The rule to delete or check doesn't stand in that chain.
    RuleAbsent,
    /// A chain, a target or a set that a line names doesn't exist.
    TargetAbsent,
    /// The chain to create is there already.
    ChainExists,
    /// The chain to delete is still referred to.
    ChainBusy,
    /// Chains that lead to each other, or more of them nested than the kernel allows.
    TooManyLinks,
    /// Not root, or without the capability `CAP_NET_ADMIN`.
    NoPrivilege,
    /// The kernel or the tool doesn't have this table.
    NoTable,
    /// The kernel lacks nf_tables, or an extension that a rule uses.
    NoKernelSupport,
    /// The xtables lock file can't be opened (legacy).
    LockFile,
    /// iptables or the kernel refused the line: it is wrong, now and later.
    Refused,
}

impl FailureClass {
    /// Whether the same input may succeed later, with nothing else changed.
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::LockHeld | Self::Race | Self::Ambiguous)
    }

    /// Whether it says that what a line names isn't there.
    pub const fn is_absence(self) -> bool {
        matches!(self, Self::RuleAbsent | Self::TargetAbsent)
    }

    /// What it is, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::LockHeld => "another program holds the xtables lock",
            Self::Race => "the kernel was busy or short of memory",
            Self::Ambiguous => "iptables didn't say why it failed",
            Self::RuleAbsent => "no such rule stands in that chain",
            Self::TargetAbsent => "a chain, target or set that it names doesn't exist",
            Self::ChainExists => "the chain is there already",
            Self::ChainBusy => "the chain is still referred to",
            Self::TooManyLinks => {
                "chains lead to each other in a circle, or are nested deeper than the kernel allows"
            }
            Self::NoPrivilege => "the privilege is missing",
            Self::NoTable => "there is no such table",
            Self::NoKernelSupport => "the kernel lacks what it needs",
            Self::LockFile => "the xtables lock file can't be opened",
            Self::Refused => "iptables refused it",
        }
    }

    /// What to do next.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::LockHeld => "find who holds the lock (`fuser /run/xtables.lock`), or wait longer",
            Self::Race => "try again later",
            Self::Ambiguous => {
                "look at the kernel log (`dmesg`), and try the rules one by one: legacy hides the reason"
            }
            Self::RuleAbsent => "check how the rule reads in iptables-save",
            Self::TargetAbsent => {
                "create the chain or set first, or correct the name; an extension's target needs its library and kernel module"
            }
            Self::ChainExists => "use it as it is, or choose another name",
            Self::ChainBusy => {
                "remove the rules that jump to it (iptables-save shows most of them)"
            }
            Self::TooManyLinks => {
                "break the circle, or nest less: nf_tables allows a kernel chain and 15 chains nested under it"
            }
            Self::NoPrivilege => "run as root or with CAP_NET_ADMIN (legacy needs CAP_NET_RAW too)",
            Self::NoTable => {
                "check that the kernel has the table's module (`modprobe iptable_nat` and the like), and the privilege"
            }
            Self::NoKernelSupport => {
                "load or build the kernel module that it names, or choose the other back end"
            }
            Self::LockFile => "make /run/xtables.lock writable for this process",
            Self::Refused => "correct the line",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())
    }
}

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

/// iptables couldn't be run. `{:?}` is the sentence, as that of [`Error`].
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
