//! The updater: owns the chains of one table and keeps them as its caller wants them.

mod apply;
mod arrangement;
mod builder;
mod canary;
mod chains;
mod circle;
mod cleanup;
mod commit;
mod confusion;
mod deletion;
mod edits;
mod ensure_rule;
mod hooks;
mod instances;
mod placement;
mod plan;
mod printed;
mod refresh;
mod run;
mod spellings;
mod stage;
mod verify;

pub use arrangement::{HookPolicy, Placement};
pub use builder::UpdaterBuilder;
pub use chains::{Existed, ListedRule};
pub use cleanup::{CleanupReport, KeptOrphan};
pub use commit::Changes;
pub use deletion::Undeleted;
pub use edits::UpdateMode;
pub use ensure_rule::Position;
pub(crate) use hooks::{Wanted, read_hook};
pub use placement::Fight;
pub use plan::{Graph, Plan, PlanDiff};
pub use verify::{ChangedChain, Drift, HookDrift, HookProblem};

use std::collections::BTreeSet;

use crate::batch::check_owned;
use crate::chain::rules_for;
use crate::error::{ChainNameError, Error};
use crate::fingerprint::Fingerprints;
use crate::stats::Stats;
use crate::stub::{self, Stubs};
use crate::{Chain, ChainName, Executor, Index, IntoRule, IpVersion, Request, Table};
use chains::Shared;
use hooks::Hooks;
use placement::Group;
use printed::Printed;
use run::Runner;

/// Owns a set of chains in one table of one IP version.
///
/// The chains whose names begin with one of its prefixes are its own: it writes whole chains, each batch
/// in one atomic commit, and sees to it that whatever they jump to exists. What is required and not
/// programmed is a stub that drops. Chains of others are left alone, but for the hook rules that are put
/// into them.
///
/// ```no_run
/// use iptables_updater::{Chain, CommandExecutor, IpVersion, IptablesUpdater, Table};
///
/// # fn main() -> Result<(), iptables_updater::Error> {
/// let executor = CommandExecutor::new(IpVersion::V4)?;
/// let mut filter = IptablesUpdater::builder(Table::Filter)
///     .chain_prefix("web-")
///     .open(executor)?;
///
/// filter.rewrite_chains([
///     Chain::new("web-input", ["-p tcp --dport 443 -j web-tls", "-j RETURN"])?,
///     Chain::new("web-tls", ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"])?,
/// ])?;
/// filter.ensure_rule_inserted("INPUT", "-j web-input")?;
/// let report = filter.cleanup()?;     // whatever a previous run left is gone now
/// # Ok(())
/// # }
/// ```
///
/// # Failure
///
/// A call that returns an error has changed nothing: not the table, which iptables commits as a whole, and
/// not the updater's picture of it. The exceptions are said where they are: a cleanup and a refresh do
/// several things in order.
#[derive(Debug)]
pub struct IptablesUpdater<E> {
    runner: Runner<E>,
    index: Index,
    stubs: Stubs,
    hooks: Hooks,
    fingerprints: Fingerprints,
    /// Chains that a commit may have written although it was reported as failed: written again by the next one.
    doubtful: BTreeSet<ChainName>,
    shared: Shared,
    groups: Vec<Group>,
    update_mode: UpdateMode,
    hook_policy: HookPolicy,
    printed: Printed,
}

impl IptablesUpdater<()> {
    /// Begins an updater for a table. At least one [`chain_prefix`](UpdaterBuilder::chain_prefix) is needed.
    pub fn builder(table: Table) -> UpdaterBuilder {
        UpdaterBuilder::new(table)
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// Gives chains just these contents, in one commit.
    ///
    /// What a chain held before is gone, other chains are untouched. Each chain that the outcome requires
    /// exists in the same commit, as a stub if nobody has programmed it; stubs that nobody requires any
    /// longer are deleted afterwards. Chains that hold these contents already cost nothing.
    ///
    /// # Errors
    /// - [`Error::NotOwned`], [`Error::RequiresNotOwned`]: outside the updater's prefixes.
    /// - [`Error::Cycle`]: the chains would lead to each other in a circle. Both back ends accept one that no
    ///   packet can reach yet, and refuse it later, when a hook makes it reachable.
    /// - [`Error::Restore`]: iptables refused it; the error has the line, the chain and the reason.
    pub fn rewrite_chains(
        &mut self,
        chains: impl IntoIterator<Item = Chain>,
    ) -> Result<Changes, Error> {
        self.apply_one(&Request::rewrite(chains))
    }

    /// Gives chains up: a chain that others require becomes a stub, the others are deleted.
    ///
    /// Before it is deleted, a chain is made a stub in the commit: if a rule of somebody else still refers to
    /// it, it stays as that, and [`Changes::undeleted`] says so; a later [`cleanup`](Self::cleanup) tries again.
    /// Deleting a chain that isn't there is no error.
    ///
    /// # Errors
    /// As [`rewrite_chains`](Self::rewrite_chains).
    pub fn delete_chains<I>(&mut self, chains: I) -> Result<Changes, Error>
    where
        I: IntoIterator,
        I::Item: TryInto<ChainName>,
        ChainNameError: From<<I::Item as TryInto<ChainName>>::Error>,
    {
        self.apply_one(&Request::delete(chains)?)
    }

    /// Sets what stands in for this chain while it is required and not programmed, in place of what the stub
    /// maker makes.
    ///
    /// # Errors
    /// [`Error::OverrideTooLate`] where the chain is required already; [`Error::StubRequires`] where the
    /// rules jump to an owned chain; [`Error::NotOwned`]; a rule or the name is none.
    pub fn set_missing_chain_override<N, R>(&mut self, chain: N, rules: R) -> Result<(), Error>
    where
        N: TryInto<ChainName>,
        ChainNameError: From<N::Error>,
        R: IntoIterator,
        R::Item: IntoRule,
    {
        let chain = chain.try_into().map_err(ChainNameError::from)?;
        let prefixes = self.index.prefixes();
        check_owned(&chain, prefixes)?;
        if self.index.is_required(chain.as_str()) {
            return Err(Error::OverrideTooLate { chain });
        }
        let rules = rules_for(chain.as_str(), rules)?;
        stub::check(&chain, &rules, prefixes)?;
        self.stubs.set_override(chain, rules);
        Ok(())
    }

    /// The table in which it owns chains.
    pub fn table(&self) -> Table {
        self.runner.table
    }

    /// The IP version whose table that is.
    pub fn ip_version(&self) -> IpVersion {
        self.runner.executor.ip_version()
    }

    /// What it knows about its chains: which are programmed, which are required, how each stands.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The names of the programmed chains, sorted.
    pub fn programmed_chains(&self) -> Vec<&ChainName> {
        let mut names: Vec<_> = self.index.programmed_chains().collect();
        names.sort_unstable();
        names
    }

    /// The names of the chains that programmed chains require, sorted; programmed or not.
    pub fn required_chains(&self) -> Vec<&ChainName> {
        let mut names: Vec<_> = self.index.required_chains().collect();
        names.sort_unstable();
        names
    }

    /// What it has done so far, in numbers.
    pub fn stats(&self) -> Stats {
        Stats {
            hook_rules: self.hooks.len() as u64 + self.grouped_rules(),
            lock_wait: self.runner.executor.lock_wait(),
            ..self.runner.stats
        }
    }

    /// The executor, to look at.
    pub fn executor(&self) -> &E {
        &self.runner.executor
    }

    /// The executor, to change. What is run behind the updater's back is drift to it.
    pub fn executor_mut(&mut self) -> &mut E {
        &mut self.runner.executor
    }

    /// Gives the executor back. The chains stay as they are.
    pub fn into_executor(self) -> E {
        self.runner.executor
    }
}
