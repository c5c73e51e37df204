//! Works out what a batch of rewrites and deletions changes, before anything is run.
//!
//! Pure: a [`Transaction`] borrows the [`Index`], records rewrites and deletions, and computes the
//! [`Delta`]: what to write, which stubs to put, what to delete, and how the index looks afterwards. Its cost
//! grows with what it touches, not with the number of chains that the index holds. Dropped, it leaves nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::IndexUpdate;
use crate::{Chain, ChainName, ChainState, Error, Index};

/// Rewrites and deletions over an [`Index`], to become one commit.
///
/// ```
/// use iptables_updater::{Chain, Index, Prefixes, Transaction};
///
/// let mut index = Index::new(Prefixes::new(["web-"])?);
/// let mut transaction = Transaction::new(&index);
/// transaction.rewrite(Chain::new("web-input", ["-j web-tls"])?, None);
/// let delta = transaction.delta()?;
/// assert_eq!(delta.stubs()[0].chain, "web-tls");   // required, and nobody has programmed it
///
/// index.apply(delta.into_update());
/// assert!(index.is_required("web-tls"));
/// # Ok::<(), iptables_updater::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Transaction<'i> {
    index: &'i Index,
    /// The last change made to each chain, with the request that made it.
    changes: BTreeMap<ChainName, (Change, Option<usize>)>,
    /// Chains that the dataplane has lost: they are written again whatever they hold.
    missing: BTreeSet<ChainName>,
}

#[derive(Debug, Clone)]
enum Change {
    Rewrite(Chain),
    Delete,
}

/// What a [`Transaction`] does to the dataplane and to the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    rewrites: Vec<Rewrite>,
    stubs: Vec<Stub>,
    deletions: Vec<Deletion>,
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
    /// Whether the commit puts a stub into it first, because it holds something else now.
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
            changes: BTreeMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// The chain shall hold these contents. `request` says on whose behalf, for the messages.
    pub fn rewrite(&mut self, chain: Chain, request: Option<usize>) {
        let name = chain.name().clone();
        self.changes.insert(name, (Change::Rewrite(chain), request));
    }

    /// The chain shall no longer be programmed: it goes, or a stub stands in for it.
    pub fn delete(&mut self, chain: ChainName, request: Option<usize>) {
        self.changes.insert(chain, (Change::Delete, request));
    }

    /// The dataplane has lost this chain: if the outcome has it, it is written again.
    pub fn restore_missing(&mut self, chain: ChainName) {
        self.missing.insert(chain);
    }

    /// Works out what all this changes.
    ///
    /// # Errors
    /// [`Error::Cycle`]: the chains would require each other in a circle.
    pub fn delta(&self) -> Result<Delta, Error> {
        let work = Work::new(self);
        work.check_cycles()?;
        Ok(work.delta())
    }
}

/// What is known while a delta is worked out.
struct Work<'t> {
    index: &'t Index,
    transaction: &'t Transaction<'t>,
    /// Requirements of the changed chains, before and after.
    edges: BTreeMap<&'t ChainName, Edges>,
    /// By how much the count of requirers changes, and the last request that changed it.
    counts: BTreeMap<ChainName, (isize, Option<usize>)>,
}

struct Edges {
    before: Vec<ChainName>,
    after: Vec<ChainName>,
}

impl<'t> Work<'t> {
    fn new(transaction: &'t Transaction<'t>) -> Self {
        let index = transaction.index;
        let mut edges = BTreeMap::new();
        let mut counts = BTreeMap::<ChainName, (isize, Option<usize>)>::new();
        for (name, (change, request)) in &transaction.changes {
            let requirements = |chain: Option<&Chain>| {
                chain.map_or_else(Vec::new, |chain| index.requirements(chain))
            };
            let before = requirements(index.programmed(name.as_str()));
            let after = match change {
                Change::Rewrite(chain) => requirements(Some(chain)),
                Change::Delete => Vec::new(),
            };
            for gone in before.iter().filter(|r| after.binary_search(r).is_err()) {
                let count = counts.entry(gone.clone()).or_default();
                *count = (count.0 - 1, count.1.or(*request));
            }
            for new in after.iter().filter(|r| before.binary_search(r).is_err()) {
                let count = counts.entry(new.clone()).or_default();
                *count = (count.0 + 1, *request);
            }
            edges.insert(name, Edges { before, after });
        }
        Self {
            index,
            transaction,
            edges,
            counts,
        }
    }

    fn delta(&self) -> Delta {
        let mut delta = Delta::default();
        let changed = self.transaction.changes.keys();
        let names: BTreeSet<&ChainName> = changed
            .chain(self.counts.keys())
            .chain(&self.transaction.missing)
            .collect();
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
        let request = change.map_or(cause, |(_, request)| *request);

        match change {
            Some((Change::Rewrite(chain), _)) => {
                if missing || self.index.programmed(name.as_str()) != Some(chain) {
                    let (name, chain) = (name.clone(), chain.clone());
                    delta.update.touched.push(name.clone());
                    delta.update.programmed.push((name, Some(chain.clone())));
                    delta.rewrites.push(Rewrite { chain, request });
                }
                return;
            }
            Some((Change::Delete, _)) if before == ChainState::Programmed => {
                delta.update.programmed.push((name.clone(), None));
            }
            _ => {}
        }
        let deleted = change.is_some();
        let after = match before {
            ChainState::Programmed if !deleted => ChainState::Programmed,
            ChainState::Leftover if !deleted => ChainState::Leftover,
            _ if required => ChainState::Stub,
            _ => ChainState::Absent,
        };
        let (name, stub_first) = (name.clone(), before != ChainState::Stub);
        match (before, after) {
            (ChainState::Stub, ChainState::Stub) | (ChainState::Absent, ChainState::Absent)
                if !missing || after == ChainState::Absent => {}
            (ChainState::Leftover, ChainState::Leftover) => {}
            (_, ChainState::Programmed) => {
                if let (true, Some(chain)) = (missing, self.index.programmed(name.as_str())) {
                    let chain = chain.clone();
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

    /// Looks for a circle through a requirement that is new. There was none before, so a search from the
    /// new requirements' targets meets every one.
    fn check_cycles(&self) -> Result<(), Error> {
        let mut finished = BTreeSet::new();
        for Edges { before, after } in self.edges.values() {
            for root in after.iter().filter(|r| before.binary_search(r).is_err()) {
                self.search(root, &mut finished)?;
            }
        }
        Ok(())
    }

    /// A depth-first search without recursion: the path may be as long as there are chains.
    fn search(&self, root: &ChainName, finished: &mut BTreeSet<ChainName>) -> Result<(), Error> {
        if finished.contains(root) {
            return Ok(());
        }
        let mut path = vec![(root.clone(), self.requirements_after(root).into_iter())];
        let mut on_path = BTreeSet::from([root.clone()]);
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
                    let rest = self.requirements_after(&next).into_iter();
                    on_path.insert(next.clone());
                    path.push((next, rest));
                }
            }
        }
        Ok(())
    }

    fn requirements_after(&self, name: &ChainName) -> Vec<ChainName> {
        match self.edges.get(name) {
            Some(edges) => edges.after.clone(),
            None => match self.index.programmed(name.as_str()) {
                Some(chain) => self.index.requirements(chain),
                None => Vec::new(),
            },
        }
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
