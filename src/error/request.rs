//! Why a request to an updater failed.

use std::fmt;

use super::circle::Circle;
use super::debug::debug_as_sentence;
use super::{
    BadRule, ChainError, ChainNameError, ExecutorError, FailureClass, PrefixError, RestoreError,
    RuleError, SaveError, TableSetError,
};
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
