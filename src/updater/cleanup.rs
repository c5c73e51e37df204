//! Removes what nobody wants any longer, and checks that what is wanted is there.

use std::collections::{BTreeMap, BTreeSet};

use log::{info, warn};

use super::deletion::Undeleted;
use super::{IptablesUpdater, Shared};
use crate::error::Error;
use crate::restore_input::Builder;
use crate::save::SavedTable;
use crate::{ChainName, ChainState, Executor, Index, Rule};

/// What a cleanup found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanupReport {
    /// Orphans that are gone now, by name.
    pub deleted: Vec<ChainName>,
    /// Orphans that others refer to, by name: untouched.
    pub kept: Vec<KeptOrphan>,
    /// Orphans that iptables couldn't delete, though no reference shows, by name.
    pub undeleted: Vec<Undeleted>,
    /// Chains of a previous run for which a stub stands in now, because they are required and nobody has
    /// programmed them, by name.
    pub stubbed: Vec<ChainName>,
    /// Chains that should have been there and weren't, by name: somebody else had removed them, and they
    /// were written again.
    pub repaired: Vec<ChainName>,
    /// What iptables-save remarked about the table: there may be rules that it can't show.
    pub notices: Vec<String>,
}

/// An orphan that stays, because a chain that isn't an orphan refers to it, directly or through others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptOrphan {
    /// The orphan.
    pub chain: ChainName,
    /// The chains whose rules jump or go to it, by name.
    pub referrers: Vec<String>,
}

/// What one reading of the table tells a cleanup.
struct Reading {
    /// The owned chains that are there.
    present: BTreeSet<ChainName>,
    /// The chains that refer to each orphan.
    referrers: BTreeMap<ChainName, BTreeSet<String>>,
    notices: Vec<String>,
}

impl Reading {
    fn of(saved: &SavedTable<'_>, index: &Index, shared: &Shared) -> Self {
        let prefixes = index.prefixes();
        let present = saved
            .chains()
            .filter_map(|chain| prefixes.owned(chain.name()));
        let mut referrers = BTreeMap::<_, BTreeSet<_>>::new();
        for (from, target) in saved.references() {
            if is_orphan(index, shared, target)
                && let Some(target) = prefixes.owned(target)
            {
                referrers.entry(target).or_default().insert(from.to_owned());
            }
        }
        Self {
            present: present.collect(),
            referrers,
            notices: saved.notices().map(str::to_owned).collect(),
        }
    }
}

/// Whether a chain of that name, if we own it, is wanted by nobody.
fn is_orphan(index: &Index, shared: &Shared, name: &str) -> bool {
    !index.is_programmed(name)
        && !index.is_required(name)
        && index.state(name) != ChainState::Ensured
        && !shared.is_canary(name)
}

impl<E: Executor> IptablesUpdater<E> {
    /// Ends the graceful restart and removes orphans: owned chains in the dataplane that are neither programmed
    /// nor required, however deep or circular they refer to each other.
    ///
    /// Chains of a previous run that are required and weren't programmed become stubs. Orphans that a chain
    /// outside refers to stay as they are, and are reported. At last it checks that all programmed chains
    /// and stubs are there; if not, [`refresh_all`](Self::refresh_all) repairs it, and the report says so.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// kernel.with_other_program(|previous_run| previous_run.restore("*filter\n:web-old - [0:0]\nCOMMIT\n"));
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.rewrite_chains([Chain::new("web-input", ["-j DROP"])?])?;
    /// let report = filter.cleanup()?;
    /// assert_eq!(report.deleted, ["web-old"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table can't be read, or iptables refused to put the stubs: the graceful restart goes on then. Or
    /// the repair failed. Orphans that can't be deleted are no error.
    pub fn cleanup(&mut self) -> Result<CleanupReport, Error> {
        let result = self.clean_up();
        self.count_failure(&result);
        result
    }

    fn clean_up(&mut self) -> Result<CleanupReport, Error> {
        let mut reading = self.read()?;
        let mut report = CleanupReport {
            notices: std::mem::take(&mut reading.notices),
            ..CleanupReport::default()
        };
        self.index
            .retain_leftover(|chain| reading.present.contains(chain));
        let due = self.leftover_required()?;
        let deletable = self.sort_out_orphans(&reading, &due, &mut report);
        self.runner.stats.orphans_found += (deletable.len() + report.kept.len()) as u64;
        if !due.is_empty() || !deletable.is_empty() {
            self.stub_and_delete(&due, deletable, &mut report)?;
            reading = self.read()?;
        }
        for chain in due.keys() {
            self.fingerprints.forget(chain);
        }
        self.index.end_grace();
        report.stubbed = due.into_keys().collect();
        self.repair(&reading, &mut report)?;
        let stats = &mut self.runner.stats;
        stats.chains_stubbed += report.stubbed.len() as u64;
        stats.chains_deleted += report.deleted.len() as u64;
        stats.chains_undeleted += report.undeleted.len() as u64;
        info!(
            "cleanup of {}: {} orphans deleted, {} kept, {} not deleted, {} chains stubbed, {} repaired",
            self.runner.place(),
            report.deleted.len(),
            report.kept.len(),
            report.undeleted.len(),
            report.stubbed.len(),
            report.repaired.len()
        );
        Ok(report)
    }

    fn read(&mut self) -> Result<Reading, Error> {
        let (index, shared) = (&self.index, &self.shared);
        self.runner.save(|saved| Reading::of(saved, index, shared))
    }

    /// The chains that hold what a previous run left and are required, with the stubs that replace it.
    fn leftover_required(&self) -> Result<BTreeMap<ChainName, Vec<Rule>>, Error> {
        let leftover = self
            .index
            .unprogrammed()
            .filter(|c| self.index.is_leftover(c.as_str()));
        leftover
            .map(|chain| Ok((chain.clone(), self.stub(chain)?)))
            .collect()
    }

    /// Which orphans can go. Those that stay are put into the report.
    fn sort_out_orphans(
        &self,
        reading: &Reading,
        due: &BTreeMap<ChainName, Vec<Rule>>,
        report: &mut CleanupReport,
    ) -> Vec<ChainName> {
        let present = reading.present.iter().map(ChainName::as_str);
        let mut deletable: BTreeSet<&str> = present
            .filter(|c| is_orphan(&self.index, &self.shared, c))
            .collect();
        // A chain that becomes a stub in the same commit refers to nothing then.
        let outside = |from: &String, deletable: &BTreeSet<&str>| {
            !due.contains_key(from.as_str()) && !deletable.contains(from.as_str())
        };
        let mut targets = BTreeMap::<&str, Vec<&str>>::new();
        for (target, froms) in &reading.referrers {
            for from in froms {
                targets.entry(from).or_default().push(target.as_str());
            }
        }
        let roots = reading.referrers.iter();
        let roots = roots.filter(|(_, froms)| froms.iter().any(|from| outside(from, &deletable)));
        let mut kept: Vec<&str> = roots.map(|(target, _)| target.as_str()).collect();
        while let Some(chain) = kept.pop() {
            if deletable.remove(chain) {
                kept.extend(targets.get(chain).into_iter().flatten());
            }
        }
        for (chain, froms) in &reading.referrers {
            if deletable.contains(chain.as_str()) || !reading.present.contains(chain) {
                continue;
            }
            let referrers = froms.iter().filter(|from| outside(from, &deletable));
            let referrers: Vec<_> = referrers.cloned().collect();
            warn!(
                "orphan {chain} stays: {} refer to it",
                crate::excerpt::short(&format!("{referrers:?}"))
            );
            report.kept.push(KeptOrphan {
                chain: chain.clone(),
                referrers,
            });
        }
        let present = reading.present.iter();
        let deletable = present.filter(|chain| deletable.contains(chain.as_str()));
        deletable.cloned().collect()
    }

    /// Puts the stubs and deletes the orphans, in one commit if nobody refers to one of them after all.
    fn stub_and_delete(
        &mut self,
        due: &BTreeMap<ChainName, Vec<Rule>>,
        deletable: Vec<ChainName>,
        report: &mut CleanupReport,
    ) -> Result<(), Error> {
        let mut stubs = Builder::new(self.runner.table);
        for (chain, rules) in due {
            stubs.contents(chain, rules, None);
        }
        let mut all = stubs.clone();
        for chain in &deletable {
            all.delete_chain(chain, None);
        }
        let Err(refusal) = self.runner.restore(&all.build()) else {
            report.deleted = deletable;
            return Ok(());
        };
        if deletable.is_empty() {
            return Err(refusal.into());
        }
        if !due.is_empty() {
            self.runner.restore(&stubs.build())?;
        }
        (report.deleted, report.undeleted) = self.delete_best_effort(deletable);
        Ok(())
    }

    /// Puts back what should be there and isn't.
    fn repair(&mut self, reading: &Reading, report: &mut CleanupReport) -> Result<(), Error> {
        let wanted = self.index.expected();
        let wanted = wanted.chain(self.index.ensured_chains());
        let mut lost: Vec<_> = wanted
            .filter(|chain| !reading.present.contains(*chain))
            .cloned()
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        lost.sort_unstable();
        warn!(
            "{}: somebody else has removed chains of ours: {}",
            self.runner.place(),
            crate::excerpt::of(&format!("{lost:?}"))
        );
        self.write_everything()?;
        report.repaired = lost;
        Ok(())
    }
}
