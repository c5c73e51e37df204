//! Finds the circle for which the kernel refused a commit: through chains whose contents the index doesn't know.
//!
//! A transaction refuses circles of programmed chains. What a previous run left, and the chains of others, it doesn't
//! know; the kernel does, and says no more than that there are too many links, or nothing at all (legacy).

use std::collections::{BTreeMap, BTreeSet};

use log::warn;

use super::IptablesUpdater;
use crate::error::{Error, FailureClass};
use crate::{ChainName, ChainState, Delta, Executor, Exit, Rule};

/// The targets of each chain's rules, built-in ones among them.
type Jumps = BTreeMap<String, Vec<String>>;

impl<E: Executor> IptablesUpdater<E> {
    /// Adds to an error the circle that the delta would close, if that may be the reason and a reading shows one.
    pub(super) fn explain_circle(&mut self, error: Error, delta: &Delta) -> Error {
        let Error::Restore(mut error) = error else {
            return error;
        };
        // Legacy doesn't say whether it is that: it has been read once already, and isn't again without a suspicion.
        let silent = error.class == FailureClass::Ambiguous && matches!(error.exit, Exit::Code(_));
        let suspect = silent && self.needs_leftover(delta);
        if error.class != FailureClass::TooManyLinks && !suspect {
            return Error::Restore(error);
        }
        let index = &self.index;
        let read = self.runner.save(|saved| {
            let mut jumps = Jumps::new();
            for (from, target) in saved.references() {
                let targets = jumps.entry(from.to_owned()).or_default();
                targets.push(target.to_owned());
            }
            // What somebody else has removed is written again with the commit.
            let programmed = index.programmed_contents();
            for (name, contents) in
                programmed.filter(|(name, _)| saved.chain(name.as_str()).is_none())
            {
                insert(name, contents.targets().flatten(), &mut jumps);
            }
            jumps
        });
        match read {
            Ok(mut jumps) => {
                write(delta, &mut jumps);
                let written = delta.rewrites().iter().map(|r| r.chain.name().as_str());
                error.circle = circle(&jumps, written).unwrap_or_default();
            }
            Err(read) => warn!("after a failed restore: {read}"),
        }
        let ours = error.circle.iter();
        let ours = ours.filter_map(|name| self.index.prefixes().owned(name));
        error.leftover = ours
            .filter(|name| self.index.is_leftover(name.as_str()))
            .collect();
        let written = |name: &_| delta.rewrites().iter().any(|r| r.chain.name() == name);
        error.leftover.retain(|name| !written(name));
        Error::Restore(error)
    }

    /// Whether a chain to be written requires one that holds what a previous run left.
    fn needs_leftover(&self, delta: &Delta) -> bool {
        let chains = delta.rewrites().iter().map(|rewrite| &rewrite.chain);
        let mut required = chains.flat_map(|chain| self.index.requirements(chain));
        required.any(|name| self.index.state(name.as_str()) == ChainState::Leftover)
    }
}

/// The jumps as they would be after the commit. Stubs jump to no chain of ours.
fn write(delta: &Delta, jumps: &mut Jumps) {
    let stubs = delta.stubs().iter().map(|stub| &stub.chain);
    let deletions = delta.deletions().iter().map(|deletion| &deletion.chain);
    for chain in stubs.chain(deletions) {
        jumps.remove(chain.as_str());
    }
    for rewrite in delta.rewrites() {
        let targets = rewrite.chain.rules().iter().filter_map(Rule::target);
        insert(rewrite.chain.name(), targets, jumps);
    }
}

fn insert<'r>(chain: &ChainName, targets: impl Iterator<Item = &'r str>, jumps: &mut Jumps) {
    let targets = targets.map(str::to_owned).collect();
    jumps.insert(chain.to_string(), targets);
}

/// A circle that can be reached from one of the roots: each chain once, the last jumps to the first.
fn circle<'j>(jumps: &'j Jumps, roots: impl Iterator<Item = &'j str>) -> Option<Vec<String>> {
    let targets = |chain: &str| jumps.get(chain).map_or(&[][..], Vec::as_slice).iter();
    let mut finished = BTreeSet::new();
    for root in roots {
        // Without recursion: chains may be nested as deep as there are chains.
        let mut on_path = BTreeSet::from([root]);
        let mut path = vec![(root, targets(root))];
        while let Some((chain, rest)) = path.last_mut() {
            let chain = *chain;
            match rest.next().map(String::as_str) {
                Some(next) if on_path.contains(next) => {
                    let names = path.iter().map(|(name, _)| *name);
                    let circle = names.skip_while(|name| *name != next);
                    return Some(circle.map(str::to_owned).collect());
                }
                Some(next) if !finished.contains(next) => {
                    on_path.insert(next);
                    path.push((next, targets(next)));
                }
                Some(_) => {}
                None => {
                    on_path.remove(chain);
                    finished.insert(chain);
                    path.pop();
                }
            }
        }
    }
    None
}
