//! Brings the dataplane back to what was programmed.

use std::collections::{BTreeSet, HashMap};

use log::warn;

use super::verify::Survey;
use super::{Changes, Drift, IptablesUpdater};
use crate::error::Error;
use crate::{ChainState, Executor};

impl<E: Executor> IptablesUpdater<E> {
    /// Writes again what somebody else has changed: one reading, one commit of the chains that have drifted,
    /// then the hook rules of each chain in which one isn't as it was ensured, in the order in which they were.
    /// If nothing has drifted, the reading is all that is run.
    ///
    /// Returns what had drifted. How that is found, see [`verify`](Self::verify).
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.rewrite_chains([Chain::new("web-input", ["-j DROP"])?])?;
    /// kernel.with_other_program(|other| other.flush(Table::Filter, "web-input"));
    /// let drift = filter.refresh()?; // what it was, and it is no longer so
    /// assert_eq!(drift.changed[0].chain, "web-input");
    /// assert_eq!(kernel.rules(Table::Filter, "web-input").unwrap(), ["-j DROP"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table can't be read or the commit failed: nothing has changed. Or a hook rule couldn't be put: the
    /// chains and the other hook rules are as wanted, and the first such error is returned.
    pub fn refresh(&mut self) -> Result<Drift, Error> {
        let result = self.repair_drift();
        self.count_failure(&result);
        result
    }

    /// Counts a refresh or a cleanup that failed.
    pub(super) fn count_failure<T>(&mut self, result: &Result<T, Error>) {
        self.runner.stats.refreshes_failed += u64::from(result.is_err());
    }

    fn repair_drift(&mut self) -> Result<Drift, Error> {
        let Survey {
            drift,
            instances,
            hooked,
            groups_drifted,
            canary_gone,
        } = self.survey()?;
        if canary_gone {
            self.restore_canary()?;
        }
        let chains: BTreeSet<_> = drift.chains().cloned().collect();
        if !chains.is_empty() {
            warn!(
                "{}: somebody else has changed chains of ours, writing them again: {}",
                self.runner.place(),
                crate::excerpt::of(&format!("{chains:?}"))
            );
        }
        if !chains.is_empty() || !self.doubtful.is_empty() {
            // First, for the chains that are written again may jump to them.
            self.ensure_chains_again(|name| drift.missing.contains(name))?;
            self.commit_with_missing(&[], chains)?;
        }
        for hook in &drift.hooks {
            warn!(
                "{}: hook rule in chain {}: {:?}: {}",
                self.runner.place(),
                hook.chain,
                hook.problem,
                crate::excerpt::short(hook.rule.as_str())
            );
        }
        let hooks = self.reapply_hooks(&hooked, &instances);
        self.count_looks();
        let groups = if groups_drifted {
            self.arrange_again()
        } else {
            Ok(())
        };
        hooks.and(groups)?;
        Ok(drift)
    }

    /// Writes everything again, whatever stands there: all programmed chains and stubs in one commit, then
    /// the hook rules in the order in which they were ensured.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.rewrite_chains([Chain::new("web-input", ["-j DROP"])?])?;
    /// kernel.with_other_program(|other| other.flush_table(Table::Filter));
    /// filter.refresh_all()?;
    /// assert_eq!(kernel.rules(Table::Filter, "web-input").unwrap(), ["-j DROP"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The commit failed: nothing has changed. Or a hook rule couldn't be put: the chains and the other hook
    /// rules are as wanted, and the first such error is returned.
    pub fn refresh_all(&mut self) -> Result<Changes, Error> {
        let result = self.write_everything();
        self.count_failure(&result);
        result
    }

    pub(super) fn write_everything(&mut self) -> Result<Changes, Error> {
        let programmed = self.index.programmed_chains();
        let stubs = self
            .index
            .unprogrammed()
            .filter(|chain| self.index.state(chain.as_str()) == ChainState::Stub);
        let everything: BTreeSet<_> = programmed.chain(stubs).cloned().collect();
        self.ensure_chains_again(|_| true)?;
        let changes = self.commit_with_missing(&[], everything)?.changes;
        self.restore_canary()?;
        let hooks = self.reapply_hooks(&self.hooks.chains(), &HashMap::new());
        hooks.and(self.arrange_again())?;
        Ok(changes)
    }
}
