//! What an updater knows about its chains: which are programmed, which are required, what stands in for the rest.

use std::collections::{HashMap, HashSet};

use crate::{Chain, ChainName, Prefixes};

/// An updater's picture of its owned chains.
///
/// It holds what was programmed, how many programmed chains require each chain, and which chains of a
/// previous run still hold their old contents. Everything else is derived from these; the only way to
/// change it is to [`apply`](Self::apply) the outcome of a [`Transaction`](crate::Transaction).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    prefixes: Prefixes,
    programmed: HashMap<ChainName, Chain>,
    /// How many programmed chains require each chain; never zero.
    required: HashMap<ChainName, usize>,
    /// Chains that stood in the dataplane when the updater was opened and that it hasn't touched since.
    /// Empty once the period of graceful restart has ended.
    leftover: HashSet<ChainName>,
    /// Chains that have to be there, whatever they hold.
    ensured: HashSet<ChainName>,
}

/// What stands under the name of an owned chain, as far as the index knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainState {
    /// The contents given with `rewrite_chains`.
    Programmed,
    /// A stub: it is required, and not programmed.
    Stub,
    /// The contents that a previous run left, until the first cleanup.
    Leftover,
    /// Whatever was put into it since it was ensured to be there.
    Ensured,
    /// Nothing, or an orphan that a cleanup couldn't delete.
    Absent,
}

impl Index {
    /// An index of no chains.
    pub fn new(prefixes: Prefixes) -> Self {
        Self {
            prefixes,
            programmed: HashMap::new(),
            required: HashMap::new(),
            leftover: HashSet::new(),
            ensured: HashSet::new(),
        }
    }

    /// The same with chains that a previous run left in the dataplane: until
    /// [`end_grace`](Self::end_grace) they keep their contents while nothing is programmed under their names.
    #[must_use]
    pub fn with_leftover(mut self, chains: impl IntoIterator<Item = ChainName>) -> Self {
        self.leftover.extend(chains);
        self
    }

    /// The prefixes that mark a chain as owned.
    pub fn prefixes(&self) -> &Prefixes {
        &self.prefixes
    }

    /// What stands under that name.
    pub fn state(&self, name: &str) -> ChainState {
        if self.programmed.contains_key(name) {
            ChainState::Programmed
        } else if self.ensured.contains(name) {
            ChainState::Ensured
        } else if self.leftover.contains(name) {
            ChainState::Leftover
        } else if self.is_required(name) {
            ChainState::Stub
        } else {
            ChainState::Absent
        }
    }

    /// The chain of that name as it was programmed.
    pub fn programmed(&self, name: &str) -> Option<&Chain> {
        self.programmed.get(name)
    }

    /// All programmed chains, in no particular order.
    pub fn programmed_chains(&self) -> impl ExactSizeIterator<Item = &Chain> {
        self.programmed.values()
    }

    /// Whether a programmed chain requires that chain.
    pub fn is_required(&self, name: &str) -> bool {
        self.required.contains_key(name)
    }

    /// How many programmed chains require that chain.
    pub fn requirers(&self, name: &str) -> usize {
        self.required.get(name).copied().unwrap_or(0)
    }

    /// All required chains, programmed or not, in no particular order.
    pub fn required_chains(&self) -> impl ExactSizeIterator<Item = &ChainName> {
        self.required.keys()
    }

    /// The required chains that aren't programmed: a stub stands in for each, or what a previous run left.
    pub fn unprogrammed(&self) -> impl Iterator<Item = &ChainName> {
        self.required
            .keys()
            .filter(|name| !self.programmed.contains_key(*name))
    }

    /// All chains of which something is known, in no particular order; some may come twice.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &ChainName> {
        self.programmed
            .keys()
            .chain(self.required.keys())
            .chain(&self.leftover)
            .chain(&self.ensured)
    }

    /// Whether the chain holds what a previous run left in it.
    pub fn is_leftover(&self, name: &ChainName) -> bool {
        self.leftover.contains(name)
    }

    /// What a chain requires: owned targets of its rules, and what it names explicitly. Sorted, each once.
    pub fn requirements(&self, chain: &Chain) -> Vec<ChainName> {
        let targets = chain.rules().iter().filter_map(|rule| rule.target());
        let mut requirements: Vec<ChainName> = targets
            .filter_map(|target| self.prefixes.owned(target))
            .chain(chain.explicit_requirements().cloned())
            .collect();
        requirements.sort_unstable();
        requirements.dedup();
        requirements
    }

    /// Takes over what a transaction worked out, once it is in the dataplane.
    pub fn apply(&mut self, update: IndexUpdate) {
        for (name, chain) in update.programmed {
            match chain {
                Some(chain) => self.programmed.insert(name, chain),
                None => self.programmed.remove(&name),
            };
        }
        for (name, count) in update.required {
            if count == 0 {
                self.required.remove(&name);
            } else {
                self.required.insert(name, count);
            }
        }
        for name in update.touched {
            self.leftover.remove(&name);
            self.ensured.remove(&name);
        }
    }

    /// The chain has to be there, whatever it holds, until it is rewritten or deleted. What is programmed is there
    /// anyway.
    pub fn ensure(&mut self, name: ChainName) {
        if !self.programmed.contains_key(&name) {
            self.ensured.insert(name);
        }
    }

    /// The chains that have to be there, whatever they hold, in no particular order.
    pub fn ensured_chains(&self) -> impl Iterator<Item = &ChainName> {
        self.ensured.iter()
    }

    /// Forgets leftover chains that are no longer in the dataplane: a stub has to stand in for them.
    pub fn retain_leftover(&mut self, still_there: impl Fn(&ChainName) -> bool) {
        self.leftover.retain(still_there);
    }

    /// Ends the period of graceful restart: no chain is left to its old contents any more.
    pub fn end_grace(&mut self) {
        self.leftover.clear();
    }
}

/// The change of an [`Index`] that a [`Transaction`](crate::Transaction) worked out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexUpdate {
    /// Chains newly programmed, and those no longer programmed.
    pub(crate) programmed: Vec<(ChainName, Option<Chain>)>,
    /// New counts of how many programmed chains require each.
    pub(crate) required: Vec<(ChainName, usize)>,
    /// Chains whose contents are written or deleted: nothing of a previous run is left in them.
    pub(crate) touched: Vec<ChainName>,
}
