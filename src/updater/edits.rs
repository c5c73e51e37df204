//! Changes chains in place, where that is asked for and smaller than to write them anew.

use std::collections::BTreeSet;

use log::debug;

use super::IptablesUpdater;
use super::run::Refusal;
use crate::edit::Edit;
use crate::error::{Error, FailureClass};
use crate::restore_input::Builder;
use crate::{ChainName, Delta, Executor, RestoreInput};

/// How a programmed chain is given new contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UpdateMode {
    /// The chain is emptied and written anew, in one commit. Whatever somebody else had put into it is gone; the
    /// counters of its rules begin at zero.
    #[default]
    Whole,
    /// Where old and new contents begin or end alike, only what differs is changed: the other rules keep their packet
    /// counters, and one rule more in a chain of 5,000 is two lines instead of 5,000.
    ///
    /// The commit is as atomic as ever, and fails as a whole if the rules to be removed, or the rule beside which others are
    /// put, aren't just where they should be: then the chains are written [whole](Self::Whole). What somebody else
    /// has put elsewhere into the chain stays, until a [`refresh`](IptablesUpdater::refresh) removes it. Of the rules that stay,
    /// at most one is written again: that before, or behind, an insertion in the middle of a chain.
    ///
    /// On legacy every restore reads and writes the whole table, so what is saved there is the counters.
    Minimal,
}

/// A commit in which some chains are changed in place.
pub(super) struct EditingCommit {
    pub(super) input: RestoreInput,
    pub(super) edits: Vec<Edit>,
}

impl<E: Executor> IptablesUpdater<E> {
    /// The commit that changes in place what it can, but for chains that aren't as they were written; `None` where that
    /// is nothing.
    pub(super) fn editing_commit(
        &self,
        delta: &Delta,
        missing: &BTreeSet<ChainName>,
    ) -> Result<Option<EditingCommit>, Error> {
        if self.update_mode != UpdateMode::Minimal {
            return Ok(None);
        }
        let Ok(marker) = self.spare_chain("marker") else {
            return Ok(None);
        };
        let mut edits = Vec::new();
        let mut whole = Vec::new();
        for rewrite in delta.rewrites() {
            let name = rewrite.chain.name();
            let old = self.index.contents(name.as_str());
            let old = old.filter(|_| !missing.contains(name));
            match old.and_then(|(_, old)| Edit::between(old, &rewrite.chain, &marker)) {
                Some(edit) => edits.push(edit),
                None => whole.push(rewrite),
            }
        }
        if edits.is_empty() {
            return Ok(None);
        }
        let stubs = self.stub_rules(delta)?;
        let mut builder = Builder::new(self.runner.table);
        for rewrite in whole {
            let chain = &rewrite.chain;
            builder.contents(chain.name(), chain.rules(), rewrite.request);
        }
        for (chain, request, rules) in &stubs {
            builder.contents(chain, rules, *request);
        }
        if edits.iter().any(|edit| !edit.removed().is_empty()) {
            builder.passing_chain(&marker, &[]);
        }
        for edit in &edits {
            edit.write(&mut builder);
        }
        let input = builder.build();
        Ok(Some(EditingCommit { input, edits }))
    }

    /// Runs it; the edits that were done, or `None` where everything has to be written whole.
    pub(super) fn run_editing(
        &mut self,
        commit: EditingCommit,
    ) -> Result<Option<Vec<Edit>>, Error> {
        let refusal = match self.runner.restore_last_try(&commit.input) {
            Ok(()) => return Ok(Some(commit.edits)),
            Err(refusal) => refusal,
        };
        match &refusal {
            Refusal::NotRun(_) => return Err(refusal.into()),
            Refusal::Failed(error) if error.class == FailureClass::LockHeld => {
                return Err(refusal.into());
            }
            Refusal::Failed(error) => debug!(
                "{}: chains couldn't be changed in place, writing them whole: {error}",
                self.runner.place()
            ),
        }
        self.runner.stats.edits_refused += 1;
        Ok(None)
    }
}
