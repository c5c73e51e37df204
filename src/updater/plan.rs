//! A dry run: what requests would hand to iptables-restore.

mod contents;
mod diff;
mod dot;
mod edits;
mod graph;
mod mermaid;

use std::collections::BTreeMap;
use std::fmt;

pub use diff::PlanDiff;
pub use graph::Graph;

use super::IptablesUpdater;
use super::commit::Work;
use crate::error::Error;
use crate::restore_input::Builder;
use crate::{ChainName, Delta, Executor, HookChain, Request, RestoreInput, Rule};
use contents::{Contents, PlannedChain};

/// What requests would run, line by line. Shown as text, it is just the inputs.
///
/// For people, [`diff`](Self::diff) shows what changes in each chain, and [`graph`](Self::graph) how the
/// chains hang together.
#[must_use = "a plan changes nothing: it is there to be looked at"]
#[derive(Clone, PartialEq, Eq)]
pub struct Plan {
    commit: Option<RestoreInput>,
    deletion: Option<RestoreInput>,
    /// All chains that the updater knows before or after, by name.
    chains: Vec<PlannedChain>,
    /// The hook rules as they stand; a plan doesn't change them.
    hooks: Vec<(HookChain, Rule)>,
}

impl Plan {
    /// The input of the commit; `None` where nothing has to be written.
    pub fn commit_input(&self) -> Option<&RestoreInput> {
        self.commit.as_ref()
    }

    /// The input that deletes needless chains after the commit; `None` where there are none.
    pub fn deletion_input(&self) -> Option<&RestoreInput> {
        self.deletion.as_ref()
    }

    /// Whether nothing would be run.
    pub fn is_empty(&self) -> bool {
        self.commit.is_none() && self.deletion.is_none()
    }

    /// What would change, as a unified diff of the rules against what is programmed.
    ///
    /// ```
    /// use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Request, Table};
    ///
    /// let mut filter = IptablesUpdater::builder(Table::Filter)
    ///     .chain_prefix("web-")
    ///     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// filter.rewrite_chains([Chain::new("web-in", ["-s 192.0.2.1 -j ACCEPT", "-j DROP"])?])?;
    ///
    /// let rules = ["-s 192.0.2.1 -j ACCEPT", "-s 192.0.2.2 -j ACCEPT", "-j DROP"];
    /// let plan = filter.plan(&[Request::rewrite([Chain::new("web-in", rules)?])])?;
    /// assert_eq!(plan.diff().to_string(), "\
    /// --- programmed
    /// +++ planned
    /// @@ -1,2 +1,3 @@ chain web-in
    ///  -A web-in -s 192.0.2.1 -j ACCEPT
    /// +-A web-in -s 192.0.2.2 -j ACCEPT
    ///  -A web-in -j DROP
    /// ");
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    pub fn diff(&self) -> PlanDiff<'_> {
        PlanDiff::new(&self.chains)
    }

    /// The chains as the plan would leave them, with what leads to what, to be drawn.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Request, Table};
    /// # let filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// let plan = filter.plan(&[Request::rewrite([Chain::new("web-in", ["-j web-tls"])?])])?;
    /// let graph = plan.graph();
    /// assert!(graph.to_dot().contains("n0 -> n1;"));
    /// assert!(graph.to_mermaid().contains("n0 --> n1"));
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    pub fn graph(&self) -> Graph {
        Graph::new(&self.chains, &self.hooks)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("commit", &self.commit)
            .field("deletion", &self.deletion)
            .field("chains", &self.chains.len())
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
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
    /// For its graph, a plan goes through all chains that the updater knows, though it copies no rules.
    ///
    /// # Errors
    /// What those calls would refuse before they run anything.
    pub fn plan(&self, requests: &[Request]) -> Result<Plan, Error> {
        for request in requests {
            request.check(self.index.prefixes())?;
        }
        let requests: Vec<&Request> = requests.iter().collect();
        let Work { delta, refused, .. } = self.work_out(&requests, &self.doubtful);
        if let Some((_, error)) = refused.into_iter().next() {
            return Err(error);
        }
        let commit = match self.editing_commit(&delta, &self.doubtful)? {
            Some(commit) => Some(commit.input),
            None => self.commit_input(&delta)?,
        };
        let mut builder = Builder::new(self.runner.table);
        for deletion in delta.deletions() {
            builder.delete_chain(&deletion.chain, deletion.request);
        }
        let deletion = (!delta.deletions().is_empty()).then(|| builder.build());
        Ok(Plan {
            commit,
            deletion,
            chains: self.planned_chains(&delta)?,
            hooks: self.standing_hooks(),
        })
    }

    /// What each chain holds before and after: all of them, since a plan is looked at when nothing of it has happened yet.
    fn planned_chains(&self, delta: &Delta) -> Result<Vec<PlannedChain>, Error> {
        let mut after = BTreeMap::<&ChainName, Contents>::new();
        for rewrite in delta.rewrites() {
            let contents = Contents::Programmed(rewrite.chain.clone());
            after.insert(rewrite.chain.name(), contents);
        }
        for stub in delta.stubs() {
            after.insert(&stub.chain, Contents::Stub(self.stub(&stub.chain)?));
        }
        for deletion in delta.deletions() {
            after.insert(&deletion.chain, Contents::Absent);
        }
        let mut names: Vec<&ChainName> = self.index.chains().chain(after.keys().copied()).collect();
        names.sort_unstable();
        names.dedup();
        let chains = names.into_iter().map(|name| {
            let before = Contents::of(&self.index, name, || self.stub(name))?;
            let after = after.remove(name).unwrap_or_else(|| before.clone());
            let name = name.clone();
            Ok(PlannedChain {
                name,
                before,
                after,
            })
        });
        chains.collect()
    }
}

#[cfg(test)]
mod tests;
