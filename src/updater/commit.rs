//! One batch of requests, one commit.

use std::collections::{BTreeSet, HashMap, HashSet};

use log::{info, warn};

use super::IptablesUpdater;
use super::deletion::Undeleted;
use super::run::Refusal;
use crate::edit::Edit;
use crate::error::{Error, FailureClass};
use crate::{ChainName, Delta, Executor, Request, RestoreInput, Rule, Transaction, restore_input};

/// What a call has changed in the dataplane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Chains that were written with their contents, by name.
    pub rewritten: Vec<ChainName>,
    /// Chains for which a stub stands in now, by name.
    pub stubbed: Vec<ChainName>,
    /// Chains that are gone, by name.
    pub deleted: Vec<ChainName>,
    /// Chains that should be gone and aren't: they are stubs now.
    pub undeleted: Vec<Undeleted>,
}

/// The rules of the stubs that a delta needs.
pub(super) type StubRules = Vec<(ChainName, Option<usize>, Vec<Rule>)>;

/// What became of a batch that was committed.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) changes: Changes,
    /// Requests that couldn't be part of it, by their place in the batch: they would have closed a circle.
    pub(super) refused: Vec<(usize, Error)>,
}

/// What a batch comes to, worked out before anything is run.
pub(super) struct Work {
    pub(super) delta: Delta,
    /// Requests that couldn't be part of it, by their place in the batch: they would have closed a circle.
    pub(super) refused: Vec<(usize, Error)>,
    /// What was changed in place.
    edits: Vec<Edit>,
}

impl<E: Executor> IptablesUpdater<E> {
    /// Commits requests together, and deletes what is needless then.
    pub(super) fn commit(&mut self, requests: &[&Request]) -> Result<Committed, Error> {
        self.commit_with_missing(requests, BTreeSet::new())
    }

    /// The same, and writes chains again that the dataplane has lost.
    pub(super) fn commit_with_missing(
        &mut self,
        requests: &[&Request],
        missing: BTreeSet<ChainName>,
    ) -> Result<Committed, Error> {
        let missing: BTreeSet<_> = missing.into_iter().chain(self.doubtful.clone()).collect();
        self.runner.killed = false;
        let Work {
            delta,
            refused,
            edits,
        } = match self.run_commit(requests, missing.clone()) {
            Ok(work) => work,
            Err(error) => {
                if self.runner.killed {
                    let delta = self.work_out(requests, &BTreeSet::new()).delta;
                    self.doubtful.extend(delta.chains().cloned());
                }
                if requests.len() > 1 {
                    // Whoever halves the batch will come to the request that is at fault.
                    return Err(error);
                }
                let delta = self.work_out(requests, &missing).delta;
                return Err(self.explain_circle(error, &delta));
            }
        };
        self.doubtful.clear();
        let changes = self.settle(delta, &edits);
        if changes != Changes::default() {
            info!(
                "{}: {} chains rewritten, {} stubbed, {} deleted, {} not deleted",
                self.runner.place(),
                changes.rewritten.len(),
                changes.stubbed.len(),
                changes.deleted.len(),
                changes.undeleted.len()
            );
        }
        Ok(Committed { changes, refused })
    }

    /// Works out what changes and commits it. Where the failure may come from chains that somebody else has
    /// removed, the table is read again and what is lost goes into the same commit.
    fn run_commit(
        &mut self,
        requests: &[&Request],
        mut missing: BTreeSet<ChainName>,
    ) -> Result<Work, Error> {
        let mut work = self.work_out(requests, &missing);
        if self.relies_unseen(&work.delta) {
            missing.extend(self.read_missing()?);
            work = self.work_out(requests, &missing);
        }
        if self.commit_staged(&work.delta)? {
            return Ok(work);
        }
        if let Some(commit) = self.editing_commit(&work.delta, &missing)?
            && let Some(edits) = self.run_editing(commit)?
        {
            work.edits = edits;
            return Ok(work);
        }
        let Some(input) = self.commit_input(&work.delta)? else {
            return Ok(work);
        };
        let refusal = match self.runner.restore(&input) {
            Ok(()) => return Ok(work),
            Err(refusal) => refusal,
        };
        let ambiguous = refusal.class() == Some(FailureClass::Ambiguous);
        if !ambiguous && refusal.class() != Some(FailureClass::TargetAbsent) {
            return Err(refusal.into());
        }
        match self.read_missing() {
            Ok(found) => {
                let missing = missing.into_iter().chain(found).collect();
                self.last_try(requests, &missing, &input, refusal)
            }
            Err(error) => {
                warn!("after a failed restore: {error}");
                Err(refusal.into())
            }
        }
    }

    /// Whether a chain of a previous run is required by name alone. That it has vanished would go unnoticed:
    /// no rule jumps to it, so the commit wouldn't fail.
    fn relies_unseen(&self, delta: &Delta) -> bool {
        delta.rewrites().iter().any(|rewrite| {
            let chain = &rewrite.chain;
            let mut named = chain.explicit_requirements();
            named.any(|name| {
                let jumps = chain.rules().iter().filter_map(Rule::target);
                self.index.is_leftover(name.as_str())
                    && !jumps.into_iter().any(|to| to == name.as_str())
            })
        })
    }

    /// Creates new chains beforehand, where that is worth it, and commits the rest; whether that was done. If not,
    /// what was created is deleted again, and everything is left to one commit, which finds the fault.
    fn commit_staged(&mut self, delta: &Delta) -> Result<bool, Error> {
        let staged = self.stage(delta);
        if staged.is_empty() {
            return Ok(false);
        }
        let Some(input) = self.commit_input_without(delta, &staged)? else {
            return Ok(true);
        };
        let Err(refusal) = self.runner.restore(&input) else {
            return Ok(true);
        };
        // If it may have been applied, what was created may be reachable now: it is written again then, not deleted.
        if refusal.class() != Some(FailureClass::Ambiguous) {
            self.delete_best_effort(staged);
        }
        Ok(false)
    }

    fn last_try(
        &mut self,
        requests: &[&Request],
        missing: &BTreeSet<ChainName>,
        failed: &RestoreInput,
        refusal: Refusal,
    ) -> Result<Work, Error> {
        let work = self.work_out(requests, missing);
        let Some(input) = self.commit_input(&work.delta)? else {
            return Ok(work);
        };
        if input == *failed {
            // Nothing of ours is missing. A refusal with a reason would be the same again.
            let may_pass = refusal.class().is_some_and(FailureClass::may_pass);
            if !may_pass || self.runner.retry.ambiguous_tries() == 1 {
                return Err(refusal.into());
            }
        } else {
            warn!(
                "{}: chains of ours were removed by somebody else, writing them again",
                self.runner.place()
            );
        }
        match self.runner.restore_last_try(&input) {
            Ok(()) => Ok(work),
            Err(Refusal::Failed(mut error)) => {
                if let Refusal::Failed(before) = &refusal {
                    error.tries += before.tries;
                }
                Err(Error::Restore(error))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    pub(super) fn work_out(&self, requests: &[&Request], missing: &BTreeSet<ChainName>) -> Work {
        let mut transaction = Transaction::new(&self.index);
        let mut refused = Vec::new();
        let version = self.runner.executor.ip_version();
        for (number, request) in requests.iter().enumerate() {
            let request = request.for_version(version);
            if let Err(error) = transaction.request(request.changes(), number) {
                refused.push((number, error));
            }
        }
        for chain in missing {
            transaction.restore_missing(chain.clone());
        }
        let delta = transaction.delta();
        Work {
            delta,
            refused,
            edits: Vec::new(),
        }
    }

    /// The input of the commit; `None` where there is nothing to write before the deletions.
    pub(super) fn commit_input(&self, delta: &Delta) -> Result<Option<RestoreInput>, Error> {
        self.commit_input_without(delta, &[])
    }

    /// The same without chains that hold their contents already.
    fn commit_input_without(
        &self,
        delta: &Delta,
        staged: &[ChainName],
    ) -> Result<Option<RestoreInput>, Error> {
        let stubs = self.stub_rules(delta)?;
        let staged: HashSet<&ChainName> = staged.iter().collect();
        if delta.rewrites().len() == staged.len() && stubs.is_empty() {
            return Ok(None);
        }
        let mut builder = restore_input::Builder::new(self.runner.table);
        let rewrites = delta.rewrites().iter();
        for rewrite in rewrites.filter(|rewrite| !staged.contains(rewrite.chain.name())) {
            let chain = &rewrite.chain;
            builder.contents(chain.name(), chain.rules(), rewrite.request);
        }
        for (chain, request, rules) in &stubs {
            builder.contents(chain, rules, *request);
        }
        Ok(Some(builder.build()))
    }

    /// Stubs that are needed, and those that make chains safe before they are deleted.
    pub(super) fn stub_rules(&self, delta: &Delta) -> Result<StubRules, Error> {
        let stubs = delta.stubs().iter().map(|stub| (&stub.chain, stub.request));
        let deletions = delta.deletions().iter();
        let deletions = deletions.filter(|deletion| deletion.stub_first);
        let deletions = deletions.map(|deletion| (&deletion.chain, deletion.request));
        stubs
            .chain(deletions)
            .map(|(chain, request)| Ok((chain.clone(), request, self.stub(chain)?)))
            .collect()
    }

    pub(super) fn stub(&self, chain: &ChainName) -> Result<Vec<Rule>, Error> {
        let version = self.runner.executor.ip_version();
        self.stubs.rules(version, chain, self.index.prefixes())
    }

    /// The commit has succeeded: takes the delta over and deletes what is needless.
    fn settle(&mut self, delta: Delta, edits: &[Edit]) -> Changes {
        let rewritten = delta.rewrites().iter().map(|r| r.chain.name().clone());
        let stubbed = delta.stubs().iter().map(|stub| stub.chain.clone());
        let mut changes = Changes {
            rewritten: rewritten.collect(),
            stubbed: stubbed.collect(),
            ..Changes::default()
        };
        let asked = delta.rewrites().iter().filter(|r| r.request.is_some());
        let asked = asked.count();
        let put_back = delta.rewrites().len() - asked;
        self.runner.stats.chains_rewritten += asked as u64;
        self.runner.stats.chains_repaired += put_back as u64;
        self.runner.stats.chains_unchanged += delta.unchanged() as u64;
        let needless = delta.deletions().iter();
        let needless = needless.map(|deletion| deletion.chain.clone()).collect();
        let edits: HashMap<&str, &Edit> = edits.iter().map(|edit| (edit.chain(), edit)).collect();
        for chain in delta.chains() {
            match edits.get(chain.as_str()) {
                Some(edit) => {
                    self.fingerprints
                        .splice(chain, edit.removed(), edit.inserted());
                }
                None => self.fingerprints.forget(chain),
            }
        }
        self.runner.stats.chains_edited += edits.len() as u64;
        self.index.apply(delta.into_update());
        let (deleted, undeleted) = self.delete_best_effort(needless);
        changes.deleted = deleted;
        changes.undeleted = undeleted;
        let stats = &mut self.runner.stats;
        stats.chains_stubbed += changes.stubbed.len() as u64;
        stats.chains_deleted += changes.deleted.len() as u64;
        stats.chains_undeleted += changes.undeleted.len() as u64;
        changes
    }

    /// Reads the table: which of the chains that should be there aren't. Chains of a previous run that
    /// have vanished are forgotten.
    pub(super) fn read_missing(&mut self) -> Result<BTreeSet<ChainName>, Error> {
        let prefixes = self.index.prefixes();
        let present: BTreeSet<ChainName> = self.runner.save(|saved| {
            let chains = saved.chains();
            let owned = chains.filter_map(|chain| prefixes.owned(chain.name()));
            owned.collect()
        })?;
        self.index.retain_leftover(|chain| present.contains(chain));
        Ok(self
            .index
            .expected()
            .filter(|chain| !present.contains(*chain))
            .cloned()
            .collect())
    }
}
