//! Deletion of needless chains: best effort, in as few restores as can be.

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
    /// Deletes chains, all in one restore if nobody refers to one of them. Where iptables names the chain
    /// that it can't delete, that one is left out; where it doesn't, the batch is halved.
    pub(super) fn delete_best_effort(
        &mut self,
        chains: Vec<ChainName>,
    ) -> (Vec<ChainName>, Vec<Undeleted>) {
        let mut deleted = Vec::new();
        let mut undeleted = Vec::new();
        let mut batches = vec![chains];
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
