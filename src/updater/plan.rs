//! A dry run: what requests would hand to iptables-restore.

use std::fmt;

use super::IptablesUpdater;
use crate::error::Error;
use crate::restore_input::Builder;
use crate::{Executor, Request, RestoreInput, Transaction};

/// What requests would run, line by line. Shown as text, it is just the inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    commit: Option<RestoreInput>,
    deletion: Option<RestoreInput>,
}

impl Plan {
    /// The input of the commit; `None` where nothing has to be written.
    pub fn commit(&self) -> Option<&RestoreInput> {
        self.commit.as_ref()
    }

    /// The input that deletes needless chains after the commit; `None` where there are none.
    pub fn deletion(&self) -> Option<&RestoreInput> {
        self.deletion.as_ref()
    }

    /// Whether nothing would be run.
    pub fn is_empty(&self) -> bool {
        self.commit.is_none() && self.deletion.is_none()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = self.commit.iter().chain(&self.deletion);
        inputs.into_iter().try_for_each(|input| input.fmt(f))
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// What [`rewrite_chains`](Self::rewrite_chains) and [`delete_chains`](Self::delete_chains) would run
    /// for these requests, as one batch in which all are sound. Nothing is run, and nothing changes.
    ///
    /// On nf_tables, many new chains are created in pieces before the commit, because that is faster: the lines are
    /// the same then, but for `-N` in place of their declarations.
    ///
    /// # Errors
    /// What those calls would refuse before they run anything.
    pub fn plan(&self, requests: &[Request]) -> Result<Plan, Error> {
        for request in requests {
            request.check(self.index.prefixes())?;
        }
        let mut transaction = Transaction::new(&self.index);
        let version = self.runner.executor.ip_version();
        for (number, request) in requests.iter().enumerate() {
            let request = request.for_version(version);
            transaction.request(request.changes(), number)?;
        }
        for chain in &self.doubtful {
            transaction.restore_missing(chain.clone());
        }
        let delta = transaction.delta();
        let commit = match self.editing_commit(&delta, &self.doubtful)? {
            Some(commit) => Some(commit.input),
            None => self.commit_input(&delta)?,
        };
        let mut builder = Builder::new(self.runner.table);
        for deletion in delta.deletions() {
            builder.delete_chain(&deletion.chain, deletion.request);
        }
        let deletion = (!delta.deletions().is_empty()).then(|| builder.build());
        Ok(Plan { commit, deletion })
    }
}
