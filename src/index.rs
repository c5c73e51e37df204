//! What an updater knows about its chains: which are programmed, which are required, what stands in for the rest.

mod contents;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::{Chain, ChainName, Prefixes, Rule};
pub(crate) use contents::Contents;

/// An updater's picture of its owned chains.
///
/// It holds what was programmed, how many programmed chains require each chain, and which chains of a
/// previous run still hold their old contents. Everything else is derived from these; the only way to
/// change it is to [`apply`](Self::apply) the outcome of a [`Transaction`](crate::Transaction).
#[derive(Clone, PartialEq, Eq)]
pub struct Index {
    prefixes: Prefixes,
    /// The chains that are programmed or required.
    chains: HashMap<ChainName, Known>,
    /// Chains that stood in the dataplane when the updater was opened and that it hasn't touched since.
    /// Empty once the period of graceful restart has ended.
    leftover: HashSet<ChainName>,
    /// Chains that have to be there, whatever they hold.
    ensured: HashSet<ChainName>,
}

/// A chain that is programmed or required.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    /// What it was programmed with.
    contents: Option<Contents>,
    /// How many programmed chains require it.
    requirers: usize,
}

/// What stands under the name of an owned chain, as far as the index knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
            chains: HashMap::new(),
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
        if self.is_programmed(name) {
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

    /// Whether a chain of that name is programmed.
    pub fn is_programmed(&self, name: &str) -> bool {
        self.contents(name).is_some()
    }

    /// The chain of that name as it was programmed. It is made anew, since what an index keeps is smaller; which IP
    /// version a rule was [only for](Rule::only_for) isn't kept.
    pub fn programmed(&self, name: &str) -> Option<Chain> {
        let (name, contents) = self.contents(name)?;
        Some(contents.chain(name))
    }

    /// What the chain of that name was programmed with.
    pub(crate) fn contents(&self, name: &str) -> Option<(&ChainName, &Contents)> {
        let (name, known) = self.chains.get_key_value(name)?;
        Some((name, known.contents.as_ref()?))
    }

    /// Whether the chain is programmed with just these contents.
    pub(crate) fn holds(&self, chain: &Chain) -> bool {
        let known = self.contents(chain.name().as_str());
        known.is_some_and(|(_, contents)| contents.are_of(chain))
    }

    /// The names of all programmed chains, in no particular order.
    pub fn programmed_chains(&self) -> impl Iterator<Item = &ChainName> {
        self.programmed_contents().map(|(name, _)| name)
    }

    /// All programmed chains, in no particular order.
    pub(crate) fn programmed_contents(&self) -> impl Iterator<Item = (&ChainName, &Contents)> {
        let chains = self.chains.iter();
        chains.filter_map(|(name, known)| Some((name, known.contents.as_ref()?)))
    }

    /// Whether a programmed chain requires that chain.
    pub fn is_required(&self, name: &str) -> bool {
        self.requirers(name) > 0
    }

    /// How many programmed chains require that chain.
    pub fn requirers(&self, name: &str) -> usize {
        self.chains.get(name).map_or(0, |known| known.requirers)
    }

    /// All required chains, programmed or not, in no particular order.
    pub fn required_chains(&self) -> impl Iterator<Item = &ChainName> {
        let required = self.chains.iter().filter(|(_, known)| known.requirers > 0);
        required.map(|(name, _)| name)
    }

    /// The required chains that aren't programmed: a stub stands in for each, or what a previous run left.
    pub fn unprogrammed(&self) -> impl Iterator<Item = &ChainName> {
        let chains = self.chains.iter();
        let unprogrammed = chains.filter(|(_, known)| known.contents.is_none());
        unprogrammed.map(|(name, _)| name)
    }

    /// The chains that should be in the dataplane, programmed or not, in no particular order.
    pub(crate) fn expected(&self) -> impl Iterator<Item = &ChainName> {
        self.chains.keys()
    }

    /// All chains of which something is known, in no particular order; some may come twice.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &ChainName> {
        self.expected().chain(&self.leftover).chain(&self.ensured)
    }

    /// Whether the chain holds what a previous run left in it.
    pub fn is_leftover(&self, name: &str) -> bool {
        self.leftover.contains(name)
    }

    /// What a chain requires: owned targets of its rules, and what it names explicitly. Sorted, each once.
    pub fn requirements(&self, chain: &Chain) -> Vec<ChainName> {
        let targets = chain.rules().iter().filter_map(Rule::target);
        self.requirements_from(targets, chain.explicit_requirements().cloned())
    }

    /// What the programmed chain of that name requires, in the same way.
    pub(crate) fn requirements_of(&self, name: &str) -> Vec<ChainName> {
        self.contents(name).map_or_else(Vec::new, |(_, contents)| {
            self.requirements_from(contents.targets().flatten(), contents.requires())
        })
    }

    fn requirements_from<'a>(
        &self,
        targets: impl Iterator<Item = &'a str>,
        explicit: impl Iterator<Item = ChainName>,
    ) -> Vec<ChainName> {
        let mut requirements: Vec<ChainName> = targets
            .filter_map(|target| self.prefixes.owned(target))
            .chain(explicit)
            .collect();
        requirements.sort_unstable();
        requirements.dedup();
        requirements
    }

    /// Takes over what a transaction worked out, once it is in the dataplane.
    pub fn apply(&mut self, update: IndexUpdate) {
        for (name, chain) in update.programmed {
            let contents = chain.as_ref().map(Contents::of);
            self.change(name, |known| known.contents = contents);
        }
        for (name, count) in update.required {
            self.change(name, |known| known.requirers = count);
        }
        for name in update.touched {
            self.leftover.remove(&name);
            self.ensured.remove(&name);
        }
    }

    /// Changes what is known of a chain, and forgets one that is neither programmed nor required.
    fn change(&mut self, name: ChainName, change: impl FnOnce(&mut Known)) {
        let mut entry = match self.chains.entry(name) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Known::default()),
        };
        change(entry.get_mut());
        if *entry.get() == Known::default() {
            entry.remove();
        }
    }

    /// The chain has to be there, whatever it holds, until it is rewritten or deleted. What is programmed is there
    /// anyway.
    pub fn ensure(&mut self, name: ChainName) {
        if !self.is_programmed(name.as_str()) {
            self.ensured.insert(name);
        }
    }

    /// The chains that have to be there, whatever they hold, in no particular order.
    pub fn ensured_chains(&self) -> impl Iterator<Item = &ChainName> {
        self.ensured.iter()
    }

    /// Forgets leftover chains that are no longer in the dataplane: a stub has to stand in for them.
    pub fn retain_leftover(&mut self, still_there: impl FnMut(&ChainName) -> bool) {
        self.leftover.retain(still_there);
    }

    /// Ends the period of graceful restart: no chain is left to its old contents any more.
    pub fn end_grace(&mut self) {
        self.leftover.clear();
    }
}

/// In numbers: an index may hold tens of thousands of chains.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("prefixes", &self.prefixes)
            .field("programmed", &self.programmed_chains().count())
            .field("required", &self.required_chains().count())
            .field("leftover", &self.leftover.len())
            .field("ensured", &self.ensured.len())
            .finish_non_exhaustive()
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
