//! Works out what a batch of rewrites and deletions changes, before anything is run.
//!
//! Pure: a [`Transaction`] borrows the [`Index`], records rewrites and deletions, and computes the
//! [`Delta`]: what to write, which stubs to put, what to delete, and how the index looks afterwards. Its cost
//! grows with what it touches, not with the number of chains that the index holds. Dropped, it leaves nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::index::IndexUpdate;
use crate::{Chain, ChainName, ChainState, Error, Index};

/// One change of an owned chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The chain shall hold just these contents.
    Rewrite(Chain),
    /// The chain shall no longer be programmed: it goes, or a stub stands in for it.
    Delete(ChainName),
}

impl Change {
    /// The chain that it changes.
    pub fn chain(&self) -> &ChainName {
        match self {
            Self::Rewrite(chain) => chain.name(),
            Self::Delete(name) => name,
        }
    }
}

/// Rewrites and deletions over an [`Index`], to become one commit.
///
/// ```
/// use iptables_updater::{Chain, Change, Index, Prefixes, Transaction};
///
/// let mut index = Index::new(Prefixes::new(["web-"])?);
/// let mut transaction = Transaction::new(&index);
/// transaction.request(&[Change::Rewrite(Chain::new("web-input", ["-j web-tls"])?)], 0)?;
/// let delta = transaction.delta();
/// assert_eq!(delta.stubs()[0].chain, "web-tls"); // required, and nobody has programmed it
///
/// index.apply(delta.into_update());
/// assert!(index.is_required("web-tls"));
/// # Ok::<(), iptables_updater::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Transaction<'i> {
    index: &'i Index,
    /// The last change made to each chain.
    changes: IndexMap<ChainName, Recorded>,
    /// Chains that the dataplane has lost: they are written again whatever they hold.
    missing: BTreeSet<ChainName>,
}

/// A change as it was asked for.
#[derive(Debug, Clone)]
struct Recorded {
    change: Change,
    /// The request that made it.
    request: usize,
    /// What the chain requires then; `None` where it is programmed with just these contents.
    requires: Option<Vec<ChainName>>,
}

/// What a [`Transaction`] does to the dataplane and to the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    rewrites: Vec<Rewrite>,
    stubs: Vec<Stub>,
    deletions: Vec<Deletion>,
    unchanged: usize,
    update: IndexUpdate,
}

/// A chain to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewrite {
    /// The chain with its new contents.
    pub chain: Chain,
    /// The request that asked for it, from 0; `None` where the chain is only put back.
    pub request: Option<usize>,
}

/// A chain for which a stub is to stand in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stub {
    /// The chain's name.
    pub chain: ChainName,
    /// A request that made it necessary, from 0; `None` where the stub is only put back.
    pub request: Option<usize>,
}

/// A chain to be deleted after the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deletion {
    /// The chain's name.
    pub chain: ChainName,
    /// A request that made it needless, from 0.
    pub request: Option<usize>,
    /// Whether the commit puts a stub into it first, because it holds something else now, or may do so.
    pub stub_first: bool,
}

impl Delta {
    /// Chains to be written, by name.
    pub fn rewrites(&self) -> &[Rewrite] {
        &self.rewrites
    }

    /// Chains for which a stub is to stand in, by name.
    pub fn stubs(&self) -> &[Stub] {
        &self.stubs
    }

    /// Chains to be deleted after the commit, by name.
    pub fn deletions(&self) -> &[Deletion] {
        &self.deletions
    }

    /// All chains that are written or deleted.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &ChainName> {
        let rewrites = self.rewrites.iter().map(|rewrite| rewrite.chain.name());
        let stubs = self.stubs.iter().map(|stub| &stub.chain);
        let deletions = self.deletions.iter().map(|deletion| &deletion.chain);
        rewrites.chain(stubs).chain(deletions)
    }

    /// How many chains were asked to hold what they hold already.
    pub fn unchanged(&self) -> usize {
        self.unchanged
    }

    /// Whether the dataplane needs no change.
    pub fn is_empty(&self) -> bool {
        self.rewrites.is_empty() && self.stubs.is_empty() && self.deletions.is_empty()
    }

    /// What to [`apply`](Index::apply) to the index when the commit has succeeded.
    pub fn into_update(self) -> IndexUpdate {
        self.update
    }
}

impl<'i> Transaction<'i> {
    /// A transaction without changes.
    pub fn new(index: &'i Index) -> Self {
        Self {
            index,
            changes: IndexMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Records the changes of one request, the `number`th of its batch. They take effect together, after those
    /// of the requests before: where a chain is named again, the last change wins.
    ///
    /// # Errors
    /// [`Error::Cycle`]: the chains would require each other in a circle. Nothing of the request is recorded.
    pub fn request(&mut self, changes: &[Change], number: usize) -> Result<(), Error> {
        let mut new_requirements = Vec::new();
        let mut undo = Vec::with_capacity(changes.len());
        for change in changes {
            let name = change.chain();
            let requires = match change {
                Change::Rewrite(chain) if self.index.holds(chain) => None,
                Change::Rewrite(chain) => Some(self.index.requirements(chain)),
                Change::Delete(_) => Some(Vec::new()),
            };
            if requires.is_some() || self.changes.contains_key(name) {
                let before = self.requirements_after(name);
                let after = match &requires {
                    Some(requires) => Cow::Borrowed(&requires[..]),
                    None => Cow::Owned(self.index.requirements_of(name.as_str())),
                };
                let new = after.iter().filter(|r| before.binary_search(r).is_err());
                new_requirements.extend(new.cloned());
            }
            let recorded = Recorded {
                change: change.clone(),
                request: number,
                requires,
            };
            undo.push((name, self.changes.insert(name.clone(), recorded)));
        }
        let circle = self.find_circle(new_requirements);
        if circle.is_err() {
            for (name, before) in undo.into_iter().rev() {
                match before {
                    Some(before) => self.changes.insert(name.clone(), before),
                    // It is the last.
                    None => self.changes.swap_remove(name),
                };
            }
        }
        circle
    }

    /// The dataplane has lost this chain: if the outcome has it, it is written again.
    pub fn restore_missing(&mut self, chain: ChainName) {
        self.missing.insert(chain);
    }

    /// Works out what all this changes.
    pub fn delta(&self) -> Delta {
        Work::new(self).delta()
    }

    /// Looks for a circle through a requirement that is new. There was none before, so a search from the
    /// new requirements' targets meets every one.
    fn find_circle(&self, new_requirements: Vec<ChainName>) -> Result<(), Error> {
        let mut finished = BTreeSet::new();
        new_requirements
            .into_iter()
            .try_for_each(|root| self.search(root, &mut finished))
    }

    /// A depth-first search without recursion: the path may be as long as there are chains.
    fn search(&self, root: ChainName, finished: &mut BTreeSet<ChainName>) -> Result<(), Error> {
        if finished.contains(&root) {
            return Ok(());
        }
        let mut on_path = BTreeSet::from([root.clone()]);
        let rest = self.requirements_after(&root).into_owned().into_iter();
        let mut path = vec![(root, rest)];
        while let Some((_, rest)) = path.last_mut() {
            match rest.next() {
                None => {
                    if let Some((done, _)) = path.pop() {
                        on_path.remove(&done);
                        finished.insert(done);
                    }
                }
                Some(next) if on_path.contains(&next) => {
                    let chains = path.into_iter().map(|(name, _)| name);
                    let chains = chains.skip_while(|name| *name != next).collect();
                    return Err(Error::Cycle { chains });
                }
                Some(next) if finished.contains(&next) => {}
                Some(next) => {
                    let rest = self.requirements_after(&next).into_owned().into_iter();
                    on_path.insert(next.clone());
                    path.push((next, rest));
                }
            }
        }
        Ok(())
    }

    /// What a chain requires once the changes are made.
    fn requirements_after(&self, name: &ChainName) -> Cow<'_, [ChainName]> {
        match self.changes.get(name).map(|recorded| &recorded.requires) {
            Some(Some(requires)) => Cow::Borrowed(requires),
            Some(None) | None => Cow::Owned(self.index.requirements_of(name.as_str())),
        }
    }
}

/// What is known while a delta is worked out.
struct Work<'t> {
    index: &'t Index,
    transaction: &'t Transaction<'t>,
    /// By how much the count of requirers changes, and a request that changed it.
    counts: IndexMap<ChainName, (isize, Option<usize>)>,
}

impl<'t> Work<'t> {
    fn new(transaction: &'t Transaction<'t>) -> Self {
        let index = transaction.index;
        let mut counts = IndexMap::<ChainName, (isize, Option<usize>)>::new();
        for (name, recorded) in &transaction.changes {
            let Some(after) = &recorded.requires else {
                continue;
            };
            let before = index.requirements_of(name.as_str());
            let gone = before.iter().filter(|r| after.binary_search(r).is_err());
            for gone in gone {
                let count = counts.entry(gone.clone()).or_default();
                *count = (count.0 - 1, count.1.or(Some(recorded.request)));
            }
            let new = after.iter().filter(|r| before.binary_search(r).is_err());
            for new in new {
                let count = counts.entry(new.clone()).or_default();
                *count = (count.0 + 1, Some(recorded.request));
            }
        }
        Self {
            index,
            transaction,
            counts,
        }
    }

    fn delta(&self) -> Delta {
        let mut delta = Delta::default();
        let changed = self.transaction.changes.keys();
        let mut names: Vec<&ChainName> = changed
            .chain(self.counts.keys())
            .chain(&self.transaction.missing)
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.chain(name, &mut delta);
        }
        for (name, (change, _)) in &self.counts {
            if *change != 0 {
                let count = self.index.requirers(name.as_str());
                let count = count.saturating_add_signed(*change);
                delta.update.required.push((name.clone(), count));
            }
        }
        delta
    }

    /// Decides what becomes of one chain.
    fn chain(&self, name: &ChainName, delta: &mut Delta) {
        let before = self.index.state(name.as_str());
        let change = self.transaction.changes.get(name);
        let missing = self.transaction.missing.contains(name);
        let (change_of_count, cause) = self.counts.get(name).copied().unwrap_or_default();
        let count = self.index.requirers(name.as_str());
        let required = count.saturating_add_signed(change_of_count) > 0;
        let request = change.map_or(cause, |recorded| Some(recorded.request));

        let held = change.is_some_and(|recorded| recorded.requires.is_none());
        match change.map(|recorded| &recorded.change) {
            Some(Change::Rewrite(chain)) => {
                if missing || !held {
                    let (name, chain) = (name.clone(), chain.clone());
                    delta.update.touched.push(name.clone());
                    delta.update.programmed.push((name, Some(chain.clone())));
                    delta.rewrites.push(Rewrite { chain, request });
                } else {
                    delta.unchanged += 1;
                }
                return;
            }
            Some(Change::Delete(_)) if before == ChainState::Programmed => {
                delta.update.programmed.push((name.clone(), None));
            }
            _ => {}
        }
        let deleted = change.is_some();
        let after = match before {
            ChainState::Programmed if !deleted => ChainState::Programmed,
            kept @ (ChainState::Leftover | ChainState::Ensured) if !deleted => kept,
            _ if required => ChainState::Stub,
            _ => ChainState::Absent,
        };
        let stub_first = before != ChainState::Stub || missing;
        let name = name.clone();
        match (before, after) {
            (ChainState::Stub, ChainState::Stub) | (ChainState::Absent, ChainState::Absent)
                if !missing || after == ChainState::Absent => {}
            (ChainState::Leftover, ChainState::Leftover)
            | (ChainState::Ensured, ChainState::Ensured) => {}
            (_, ChainState::Programmed) => {
                if let (true, Some(chain)) = (missing, self.index.programmed(name.as_str())) {
                    delta.rewrites.push(Rewrite { chain, request });
                }
            }
            (_, ChainState::Absent) => {
                delta.update.touched.push(name.clone());
                delta.deletions.push(Deletion {
                    chain: name,
                    request,
                    stub_first,
                });
            }
            _ => {
                delta.update.touched.push(name.clone());
                delta.stubs.push(Stub {
                    chain: name,
                    request,
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
