//! Deletion of needless chains: best effort, in as few restores as can be.

use std::collections::{BTreeMap, BTreeSet};

use log::warn;

use super::IptablesUpdater;
use super::run::Refusal;
use crate::error::FailureClass;
use crate::restore_input::Builder;
use crate::{ChainName, Executor, excerpt};

/// A chain that should be gone and isn't.
///
/// Most often a rule of another program still jumps to it; such a reference may even be one that iptables-save
/// can't show. The chain stays as a stub, and the next cleanup tries again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undeleted {
    /// The chain.
    pub chain: ChainName,
    /// What kind of failure stopped it; `None` if iptables couldn't be run.
    pub class: Option<FailureClass>,
    /// The failure in a sentence, cut short where it is long.
    pub reason: String,
}

impl<E: Executor> IptablesUpdater<E> {
    /// Deletes chains, all in one restore if nobody refers to one of them. If somebody does, one reading shows
    /// who, and all chains that are held so are left out at once. References that no reading shows are left: where
    /// iptables names the chain that it can't delete, that one is left out; where it doesn't, the batch is halved.
    pub(super) fn delete_best_effort(
        &mut self,
        chains: Vec<ChainName>,
    ) -> (Vec<ChainName>, Vec<Undeleted>) {
        let mut deleted = Vec::new();
        let mut undeleted = Vec::new();
        let mut batches = vec![chains];
        let mut looked = false;
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            let mut builder = Builder::new(self.runner.table);
            for chain in &batch {
                builder.delete_chain(chain, None);
            }
            let Err(refusal) = self.runner.restore(&builder.build()) else {
                deleted.append(&mut batch);
                continue;
            };
            let busy = refusal.class() == Some(FailureClass::ChainBusy);
            if busy && batch.len() > 1 && !looked {
                looked = true;
                let held = self.held(&batch);
                if !held.is_empty() {
                    batch.retain(|chain| !held.contains_key(chain));
                    undeleted.extend(held.into_iter().map(|(chain, by)| busy_chain(chain, &by)));
                    batches.push(batch);
                    continue;
                }
            }
            if let Some(at) = culprit(&refusal, &batch) {
                undeleted.push(failed(batch.remove(at), &refusal));
                batches.push(batch);
            } else if batch.len() > 1 && worth_halving(&refusal) {
                let second = batch.split_off(batch.len() / 2);
                batches.extend([second, batch]);
            } else {
                undeleted.extend(batch.into_iter().map(|chain| failed(chain, &refusal)));
            }
        }
        deleted.sort_unstable();
        undeleted.sort_unstable_by(|a, b| a.chain.cmp(&b.chain));
        (deleted, undeleted)
    }

    /// Which of the chains can't go, and the chains that refer to each: chains outside the batch, or such as have to
    /// stay themselves. None where the table can't be read.
    fn held(&mut self, batch: &[ChainName]) -> BTreeMap<ChainName, BTreeSet<String>> {
        let batch: BTreeMap<&str, &ChainName> = batch.iter().map(|c| (c.as_str(), c)).collect();
        let read = self.runner.save(|saved| {
            let mut references = BTreeMap::<String, BTreeSet<ChainName>>::new();
            for (from, target) in saved.references() {
                if let Some(target) = batch.get(target) {
                    let targets = references.entry(from.to_owned()).or_default();
                    targets.insert((*target).clone());
                }
            }
            references
        });
        let references = read.unwrap_or_else(|error| {
            warn!("after a deletion that failed: {error}");
            BTreeMap::new()
        });
        let mut held = BTreeMap::<ChainName, BTreeSet<String>>::new();
        let outside = references
            .keys()
            .filter(|from| !batch.contains_key(from.as_str()));
        let mut stay: Vec<&str> = outside.map(String::as_str).collect();
        while let Some(from) = stay.pop() {
            for target in references.get(from).into_iter().flatten() {
                if !held.contains_key(target) {
                    stay.push(target.as_str());
                }
                held.entry(target.clone())
                    .or_default()
                    .insert(from.to_owned());
            }
        }
        held
    }
}

/// Which chain of the batch the failure names.
fn culprit(refusal: &Refusal, batch: &[ChainName]) -> Option<usize> {
    let Refusal::Failed(error) = refusal else {
        return None;
    };
    let named = error.chain.as_deref()?;
    (error.class == FailureClass::ChainBusy)
        .then(|| batch.iter().position(|chain| *chain == *named))
        .flatten()
}

/// Whether fewer chains at once could fare better.
fn worth_halving(refusal: &Refusal) -> bool {
    matches!(
        refusal.class(),
        Some(
            FailureClass::Ambiguous
                | FailureClass::ChainBusy
                | FailureClass::RuleAbsent
                | FailureClass::TargetAbsent
                | FailureClass::Refused
        )
    )
}

fn busy_chain(chain: ChainName, referrers: &BTreeSet<String>) -> Undeleted {
    let class = FailureClass::ChainBusy;
    let referrers: Vec<_> = referrers.iter().map(String::as_str).collect();
    let referrers = excerpt::short(&referrers.join(", "));
    let reason = format!("{class}, by {referrers}. What to do: {}", class.advice());
    warn!("chain {chain} can't be deleted: {reason}");
    Undeleted {
        chain,
        class: Some(class),
        reason,
    }
}

fn failed(chain: ChainName, refusal: &Refusal) -> Undeleted {
    let reason = match refusal {
        Refusal::Failed(error) => excerpt::of(&error.to_string()),
        Refusal::NotRun(error) => excerpt::of(&error.to_string()),
    };
    warn!("chain {chain} can't be deleted: {reason}");
    Undeleted {
        chain,
        class: refusal.class(),
        reason,
    }
}
