//! What a chain holds before and after a plan, as far as the updater knows.

use crate::error::Error;
use crate::{Chain, ChainName, ChainState, Index, Rule};

/// One chain, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedChain {
    pub(super) name: ChainName,
    pub(super) before: Contents,
    pub(super) after: Contents,
}

/// What stands under a chain's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    /// No chain.
    Absent,
    /// The contents given with `rewrite_chains`.
    Programmed(Chain),
    /// A stub with these rules.
    Stub(Vec<Rule>),
    /// What a previous run left: the index doesn't know the rules.
    Leftover,
    /// A chain that was only ensured to be there: whatever was put into it.
    Ensured,
}

impl Contents {
    /// What stands there as the index knows it.
    pub(super) fn of(
        index: &Index,
        name: &ChainName,
        stub: impl FnOnce() -> Result<Vec<Rule>, Error>,
    ) -> Result<Self, Error> {
        if let Some(chain) = index.programmed(name.as_str()) {
            return Ok(Self::Programmed(chain));
        }
        Ok(match index.state(name.as_str()) {
            ChainState::Programmed | ChainState::Absent => Self::Absent,
            ChainState::Stub => Self::Stub(stub()?),
            ChainState::Leftover => Self::Leftover,
            ChainState::Ensured => Self::Ensured,
        })
    }

    /// The rules; none where they aren't known.
    pub(super) fn rules(&self) -> &[Rule] {
        match self {
            Self::Programmed(chain) => chain.rules(),
            Self::Stub(rules) => rules,
            Self::Absent | Self::Leftover | Self::Ensured => &[],
        }
    }

    /// Whether a chain stands there whose rules aren't known.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::Leftover | Self::Ensured)
    }
}
