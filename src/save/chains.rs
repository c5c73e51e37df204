//! The chains of a saved table, in the order printed, and found by their names.

use std::hash::BuildHasher as _;
use std::ops::Range;

use indexmap::IndexMap;
use indexmap::map::raw_entry_v1::{RawEntryApiV1 as _, RawEntryMut};

use super::Chain;

/// Chains by the place of their name in the text: the names themselves are held only there.
#[derive(Debug, Clone, Default)]
pub(super) struct Chains(IndexMap<Range<usize>, Chain>);

impl Chains {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of the chain with that name, from 0.
    pub(super) fn find(&self, text: &str, name: &str) -> Option<usize> {
        let hash = self.0.hasher().hash_one(name);
        let chains = self.0.raw_entry_v1();
        chains.index_from_hash(hash, |at| text[at.clone()] == *name)
    }

    /// Adds a chain with a name that none has so far.
    pub(super) fn push(&mut self, text: &str, name: Range<usize>, chain: Chain) {
        let hash = self.0.hasher().hash_one(&text[name.clone()]);
        let chains = self.0.raw_entry_mut_v1();
        if let RawEntryMut::Vacant(entry) = chains.from_hash(hash, |at| *at == name) {
            entry.insert_hashed_nocheck(hash, name, chain);
        }
    }

    pub(super) fn get(&self, number: usize) -> Option<(&Range<usize>, &Chain)> {
        self.0.get_index(number)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&Range<usize>, &Chain)> {
        self.0.iter()
    }

    /// All of them, to be changed, without their names.
    pub(super) fn chains_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.0.values_mut()
    }
}

impl std::ops::Index<usize> for Chains {
    type Output = Chain;

    fn index(&self, number: usize) -> &Chain {
        &self.0[number]
    }
}

impl std::ops::IndexMut<usize> for Chains {
    fn index_mut(&mut self, number: usize) -> &mut Chain {
        &mut self.0[number]
    }
}
