//! How an updater is set up and opened.

use std::collections::BTreeSet;
use std::fmt;

use log::{info, warn};

use super::run::Runner;
use super::{HookPolicy, Hooks, IptablesUpdater, Printed, Shared, UpdateMode};
use crate::error::Error;
use crate::fingerprint::Fingerprints;
use crate::retry::{Clock, RetryPolicy, SystemClock};
use crate::stats::Stats;
use crate::stub::{StubMaker, Stubs, default_maker};
use crate::{ChainName, Executor, Index, IpVersion, Prefixes, Rule, Table};

/// What an [`IptablesUpdater`] shall own and how it shall behave.
#[must_use = "a builder does nothing until it is opened"]
pub struct UpdaterBuilder {
    table: Table,
    prefixes: Vec<String>,
    stub_maker: Option<StubMaker>,
    retry: RetryPolicy,
    clock: Box<dyn Clock>,
    hook_policy: HookPolicy,
    update_mode: UpdateMode,
}

impl UpdaterBuilder {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            prefixes: Vec::new(),
            stub_maker: None,
            retry: RetryPolicy::default(),
            clock: Box::new(SystemClock),
            hook_policy: HookPolicy::default(),
            update_mode: UpdateMode::default(),
        }
    }

    /// The updater owns the chains whose names begin with this; give it as often as needed.
    ///
    /// Choose what no other program uses: whatever a chain of that name holds, a
    /// [`cleanup`](IptablesUpdater::cleanup) removes it unless it was programmed.
    pub fn chain_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefixes.push(prefix.into());
        self
    }

    /// What stands in for a chain that is required and not programmed.
    ///
    /// The default is one commented rule that drops (in `nat`, where both back ends refuse `DROP`, a
    /// commented `RETURN`), so that a missing policy fails closed.
    ///
    /// ```
    /// use iptables_updater::{IptablesUpdater, Rule, Table};
    ///
    /// let reject = Rule::new("-j REJECT")?;
    /// let builder = IptablesUpdater::builder(Table::Filter)
    ///     .chain_prefix("web-")
    ///     .stub_maker(move |_version, _chain| vec![reject.clone()]);
    /// # Ok::<(), iptables_updater::RuleError>(())
    /// ```
    pub fn stub_maker(
        mut self,
        maker: impl Fn(IpVersion, &ChainName) -> Vec<Rule> + Send + 'static,
    ) -> Self {
        self.stub_maker = Some(Box::new(maker));
        self
    }

    /// How often failures that may pass are tried again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// When hook rules of [`ensure_hooks`](IptablesUpdater::ensure_hooks) that stand together, but not at their place,
    /// are moved there.
    pub fn hook_policy(mut self, policy: HookPolicy) -> Self {
        self.hook_policy = policy;
        self
    }

    /// Whether a programmed chain that gets new contents is written anew, or changed in place.
    ///
    /// ```
    /// use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table, UpdateMode};
    ///
    /// let mut filter = IptablesUpdater::builder(Table::Filter)
    ///     .chain_prefix("web-")
    ///     .update_mode(UpdateMode::Minimal)
    ///     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// let ports = |last: u16| (1..=last).map(|port| format!("-p tcp --dport {port} -j ACCEPT"));
    /// filter.rewrite_chains([Chain::new("web-input", ports(999))?])?;
    /// filter.rewrite_chains([Chain::new("web-input", ports(1_000))?])?; // appends a rule
    /// assert_eq!(filter.stats().chains_edited, 1);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    pub fn update_mode(mut self, mode: UpdateMode) -> Self {
        self.update_mode = mode;
        self
    }

    /// The time source, for tests.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Opens the updater: reads the table once, to learn which owned chains a previous run has left.
    ///
    /// Nothing is changed. Such chains keep their contents while something requires them and nothing is
    /// programmed under their names, until the first [`cleanup`](IptablesUpdater::cleanup).
    ///
    /// # Errors
    /// - [`Error::Prefix`]: there is no prefix, or one that can't be.
    /// - [`Error::Save`]: the table can't be read.
    /// - [`Error::Executor`]: iptables can't be run.
    pub fn open<E: Executor>(self, executor: E) -> Result<IptablesUpdater<E>, Error> {
        let prefixes = Prefixes::new(self.prefixes)?;
        let mut runner = Runner {
            executor,
            table: self.table,
            retry: self.retry,
            clock: self.clock,
            stats: Stats::default(),
            killed: false,
        };
        let (leftover, notices) = runner.save(|saved| {
            let owned = saved
                .chains()
                .filter_map(|chain| prefixes.owned(chain.name()));
            let notices = saved.notices().map(str::to_owned);
            (owned.collect::<Vec<_>>(), notices.collect::<Vec<_>>())
        })?;
        for notice in notices {
            warn!("{}: {:?}", runner.place(), crate::excerpt::short(&notice));
        }
        info!(
            "opened {}: {} chains of a previous run",
            runner.place(),
            leftover.len()
        );
        Ok(IptablesUpdater {
            runner,
            index: Index::new(prefixes).with_leftover(leftover),
            stubs: Stubs::new(self.stub_maker.unwrap_or_else(|| default_maker(self.table))),
            hooks: Hooks::default(),
            fingerprints: Fingerprints::default(),
            doubtful: BTreeSet::new(),
            shared: Shared::default(),
            groups: Vec::new(),
            hook_policy: self.hook_policy,
            update_mode: self.update_mode,
            printed: Printed::default(),
        })
    }
}

impl fmt::Debug for UpdaterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdaterBuilder")
            .field("table", &self.table)
            .field("prefixes", &self.prefixes)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
