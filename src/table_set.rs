//! Several tables and both IP versions of one program, worked with as one.

use std::collections::BTreeSet;

use log::warn;

use crate::error::{ChainNameError, Error, ExecutorError, FailureClass, SaveError, TableSetError};
use crate::updater::{Wanted, read_hook};
use crate::{
    Chain, ChainName, Changes, CleanupReport, Drift, Executor, HookChain, IntoRule, IpVersion,
    IptablesUpdater, Place, Request, Table, UpdaterBuilder,
};

/// What became of a call at each place.
#[derive(Debug, Clone)]
#[must_use = "a call may have failed at one place and succeeded at the others"]
pub struct Outcomes<T>(Vec<(Place, Result<T, Error>)>);

impl<T> Outcomes<T> {
    /// Each place with what became of the call there, in the order in which they were opened.
    pub fn iter(&self) -> std::slice::Iter<'_, (Place, Result<T, Error>)> {
        self.0.iter()
    }

    /// The values, if all succeeded.
    ///
    /// # Errors
    /// [`Error::Place`]: the first place at which it failed, and why.
    pub fn all(self) -> Result<Vec<(Place, T)>, Error> {
        let outcomes = self.0.into_iter();
        outcomes
            .map(|(place, result)| match result {
                Ok(value) => Ok((place, value)),
                Err(error) => Err(at(place, error)),
            })
            .collect()
    }
}

fn at(place: Place, error: Error) -> Error {
    let source = Box::new(error);
    Error::Place { place, source }
}

impl<'a, T> IntoIterator for &'a Outcomes<T> {
    type Item = &'a (Place, Result<T, Error>);
    type IntoIter = std::slice::Iter<'a, (Place, Result<T, Error>)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> IntoIterator for Outcomes<T> {
    type Item = (Place, Result<T, Error>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Updaters of one program for several tables and IP versions, opened, refreshed and cleaned up together.
///
/// A call goes to each table that it names, in each IP version; rules that are meant for one only
/// ([`Rule::only_for`](crate::Rule::only_for)) are left out of the other. Tables aren't committed together, because iptables can't: each
/// place has an outcome of its own.
///
/// ```
/// use iptables_updater::{Backend, Chain, IpVersion, MemoryExecutor, Table, TableSet};
///
/// let mut set = TableSet::builder()
///     .chain_prefix("web-")
///     .table(Table::Filter)
///     .table(Table::Nat)
///     .version(IpVersion::V4)
///     .optional_version(IpVersion::V6)
///     .open(|version| Ok(MemoryExecutor::new(version, Backend::NfTables)))?;
/// let chain = Chain::new("web-input", ["-j RETURN"])?;
/// set.rewrite_chains(Table::Filter, [chain]).all()?;
/// for outcome in set.ensure_rule_inserted(Table::Filter, "INPUT", "-j web-input") {
///     println!("{}: {:?}", outcome.0, outcome.1);
/// }
/// for (place, report) in set.cleanup() {
///     println!("{place}: {report:?}");
/// }
/// # Ok::<(), iptables_updater::Error>(())
/// ```
#[derive(Debug)]
pub struct TableSet<E> {
    members: Vec<(Place, IptablesUpdater<E>)>,
    absent: Vec<(Place, Error)>,
}

/// What a [`TableSet`] shall hold.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it is opened"]
pub struct TableSetBuilder {
    prefixes: Vec<String>,
    /// With whether each may be missing.
    tables: Vec<(Table, bool)>,
    versions: Vec<(IpVersion, bool)>,
}

impl TableSet<()> {
    /// Begins a set: at least one prefix, one table and one IP version are needed.
    pub fn builder() -> TableSetBuilder {
        TableSetBuilder::default()
    }
}

impl TableSetBuilder {
    /// As [`UpdaterBuilder::chain_prefix`], in every table.
    pub fn chain_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefixes.push(prefix.into());
        self
    }

    /// A table that the program needs.
    pub fn table(mut self, table: Table) -> Self {
        self.tables.push((table, false));
        self
    }

    /// A table that may be missing in the kernel. Calls for it do nothing then.
    pub fn optional_table(mut self, table: Table) -> Self {
        self.tables.push((table, true));
        self
    }

    /// An IP version that the program needs.
    pub fn version(mut self, version: IpVersion) -> Self {
        self.versions.push((version, false));
        self
    }

    /// An IP version that may be missing: its tools or its kernel part. Any other failure is one, so that a host isn't
    /// left without its IPv6 rules because a lock was held at the wrong moment.
    pub fn optional_version(mut self, version: IpVersion) -> Self {
        self.versions.push((version, true));
        self
    }

    /// Opens an updater for each place, with an executor made for each.
    ///
    /// # Errors
    /// - [`Error::Prefix`]: there is no prefix, or one that can't be.
    /// - [`Error::TableSet`]: no table or no IP version is named, or one of them twice.
    /// - [`Error::Place`]: a place can't be opened, and isn't one that may be missing or isn't missing: which, and why.
    pub fn open<E: Executor>(
        self,
        executor: impl FnMut(IpVersion) -> Result<E, ExecutorError>,
    ) -> Result<TableSet<E>, Error> {
        self.open_with(executor, |_, builder| builder)
    }

    /// The same, with further settings of each updater (stub maker, retry, …).
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with<E: Executor>(
        self,
        mut executor: impl FnMut(IpVersion) -> Result<E, ExecutorError>,
        mut settings: impl FnMut(Place, UpdaterBuilder) -> UpdaterBuilder,
    ) -> Result<TableSet<E>, Error> {
        self.check()?;
        let mut set = TableSet {
            members: Vec::new(),
            absent: Vec::new(),
        };
        for (version, version_may_lack) in &self.versions {
            for (table, table_may_lack) in &self.tables {
                let (version, table) = (*version, *table);
                let place = Place { version, table };
                let mut builder = IptablesUpdater::builder(table);
                for prefix in &self.prefixes {
                    builder = builder.chain_prefix(prefix);
                }
                let opened = executor(version)
                    .map_err(Error::from)
                    .and_then(|executor| settings(place, builder).open(executor));
                match opened {
                    Ok(updater) => set.members.push((place, updater)),
                    // The prefixes are the set's, not one place's.
                    Err(error @ Error::Prefix(_)) => return Err(error),
                    Err(error) if (*version_may_lack || *table_may_lack) && is_missing(&error) => {
                        warn!("{place} is left out: {error}");
                        set.absent.push((place, error));
                    }
                    Err(error) => return Err(at(place, error)),
                }
            }
        }
        Ok(set)
    }

    fn check(&self) -> Result<(), TableSetError> {
        if self.tables.is_empty() {
            return Err(TableSetError::NoTable);
        }
        if self.versions.is_empty() {
            return Err(TableSetError::NoVersion);
        }
        if let Some(table) = repeated(&self.tables) {
            return Err(TableSetError::TableTwice { table });
        }
        match repeated(&self.versions) {
            Some(version) => Err(TableSetError::VersionTwice { version }),
            None => Ok(()),
        }
    }
}

/// What is named a second time.
fn repeated<T: Copy + PartialEq>(list: &[(T, bool)]) -> Option<T> {
    let is_repeated = |at: usize| list[..at].iter().any(|(other, _)| *other == list[at].0);
    (0..list.len())
        .find(|at| is_repeated(*at))
        .map(|at| list[at].0)
}

/// Whether it says that the tools or the kernel part aren't there, in contrast to what fails just now.
fn is_missing(error: &Error) -> bool {
    match error {
        Error::Executor(ExecutorError::NotFound { .. })
        | Error::Save {
            source: SaveError::NoTable,
            ..
        } => true,
        _ => matches!(
            error.class(),
            Some(FailureClass::NoTable | FailureClass::NoKernelSupport)
        ),
    }
}

impl<E: Executor> TableSet<E> {
    /// The places that were opened.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.members.iter().map(|(place, _)| *place)
    }

    /// Optional places that couldn't be opened, and why.
    pub fn absent(&self) -> &[(Place, Error)] {
        &self.absent
    }

    /// The updater of one place, for whatever the set has no call for.
    pub fn updater(&mut self, place: Place) -> Option<&mut IptablesUpdater<E>> {
        let mut members = self.members.iter_mut();
        let member = members.find(|(member, _)| *member == place)?;
        Some(&mut member.1)
    }

    /// Does something at each place.
    pub fn each<T>(
        &mut self,
        work: impl FnMut(Place, &mut IptablesUpdater<E>) -> Result<T, Error>,
    ) -> Outcomes<T> {
        self.at(|_| true, work)
    }

    /// Does something in each IP version of one table. A table that isn't in the set is an error at each; one that is
    /// [absent](Self::absent) has no outcome.
    pub fn in_table<T>(
        &mut self,
        table: Table,
        work: impl FnMut(Place, &mut IptablesUpdater<E>) -> Result<T, Error>,
    ) -> Outcomes<T> {
        let members = self.members.iter().map(|(place, _)| place.table);
        let absent = self.absent.iter().map(|(place, _)| place.table);
        if !members.chain(absent).any(|named| named == table) {
            return self.not_in_set(table);
        }
        self.at(|place| place.table == table, work)
    }

    fn not_in_set<T>(&self, table: Table) -> Outcomes<T> {
        let members = self.members.iter().map(|(place, _)| place.version);
        let absent = self.absent.iter().map(|(place, _)| place.version);
        let versions: BTreeSet<IpVersion> = members.chain(absent).collect();
        let places = versions.into_iter().map(|version| Place { version, table });
        let refused = places.map(|place| {
            let error = TableSetError::NotInSet { table };
            (place, Err(error.into()))
        });
        Outcomes(refused.collect())
    }

    fn at<T>(
        &mut self,
        meant: impl Fn(Place) -> bool,
        mut work: impl FnMut(Place, &mut IptablesUpdater<E>) -> Result<T, Error>,
    ) -> Outcomes<T> {
        let members = self.members.iter_mut();
        let members = members.filter(|(place, _)| meant(*place));
        let outcomes = members.map(|(place, updater)| (*place, work(*place, updater)));
        Outcomes(outcomes.collect())
    }

    /// As [`IptablesUpdater::rewrite_chains`], in each IP version of the table.
    pub fn rewrite_chains(
        &mut self,
        table: Table,
        chains: impl IntoIterator<Item = Chain>,
    ) -> Outcomes<Changes> {
        let chains: Vec<_> = chains.into_iter().collect();
        self.in_table(table, |_, updater| updater.rewrite_chains(chains.clone()))
    }

    /// As [`IptablesUpdater::delete_chains`], in each IP version of the table.
    pub fn delete_chains<I>(&mut self, table: Table, chains: I) -> Outcomes<Changes>
    where
        I: IntoIterator,
        I::Item: TryInto<ChainName>,
        ChainNameError: From<<I::Item as TryInto<ChainName>>::Error>,
    {
        let request = Request::delete(chains);
        self.in_table(table, |_, updater| updater.apply_one(&request.clone()?))
    }

    /// As [`IptablesUpdater::ensure_rule_inserted`], in each IP version of the table for which the rule is meant.
    pub fn ensure_rule_inserted<C>(
        &mut self,
        table: Table,
        chain: C,
        rule: impl IntoRule,
    ) -> Outcomes<()>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let hook = read_hook(chain, rule);
        self.in_table(table, |place, updater| {
            let (chain, rule) = hook.clone()?;
            if rule.is_for(place.version) {
                updater.ensure_hook(chain, rule, Wanted::Inserted)?;
            }
            Ok(())
        })
    }

    /// As [`IptablesUpdater::verify`], at each place.
    pub fn verify(&mut self) -> Outcomes<Drift> {
        self.each(|_, updater| updater.verify())
    }

    /// As [`IptablesUpdater::refresh`], at each place.
    pub fn refresh(&mut self) -> Outcomes<Drift> {
        self.each(|_, updater| updater.refresh())
    }

    /// As [`IptablesUpdater::cleanup`], at each place.
    pub fn cleanup(&mut self) -> Outcomes<CleanupReport> {
        self.each(|_, updater| updater.cleanup())
    }
}
