//! Keeps a host's chains as its policy wants them, through a worker for each IP version.

use std::collections::BTreeMap;
use std::time::Duration;

use iptables_updater::worker::{self, Handle, WorkerConfig};
use iptables_updater::{Backend, Chain, CommandExecutor, Error, IpVersion, IptablesUpdater, Table};
use log::{info, warn};

use crate::compile::{self, Chains, FORWARD, PREFIX};
use crate::etcd::Change;
use crate::model::State;

/// How often what other programs have broken is repaired.
const REFRESH: Duration = Duration::from_secs(10);

/// The policy, and the table of each IP version.
pub struct Agent {
    state: State,
    tables: Vec<TableOf>,
}

struct TableOf {
    version: IpVersion,
    worker: Handle<CommandExecutor>,
    /// What iptables has taken so far.
    programmed: Chains,
    cleaned_up: bool,
}

impl Agent {
    /// Opens the filter tables. What a previous run left there stays in force for the time being.
    ///
    /// # Errors
    /// iptables can't be run.
    pub fn open(host: &str, backend: Option<Backend>) -> Result<Self, Error> {
        let tables = [IpVersion::V4, IpVersion::V6].into_iter().map(|version| {
            let mut executor = CommandExecutor::builder(version);
            if let Some(backend) = backend {
                executor = executor.backend(backend);
            }
            let updater = IptablesUpdater::builder(Table::Filter)
                .chain_prefix(PREFIX)
                .open(executor.build()?)?;
            let config = WorkerConfig::default().with_refresh_interval(REFRESH);
            Ok(TableOf {
                version,
                worker: worker::spawn(updater, config),
                programmed: Chains::new(),
                cleaned_up: false,
            })
        });
        Ok(Self {
            state: State::new(host),
            tables: tables.collect::<Result<_, Error>>()?,
        })
    }

    /// Everything that stands in etcd now: what isn't among it is gone.
    pub fn snapshot(&mut self, all: &[Change]) {
        self.state = State::new(self.state.host());
        self.change(all);
        for table in &mut self.tables {
            if !table.cleaned_up {
                table.take_over();
            }
        }
    }

    /// What has changed.
    pub fn change(&mut self, changes: &[Change]) {
        for (key, value) in changes {
            if let Err(error) = self.state.set(key, value.as_deref()) {
                warn!("{key}: {error}; it counts as absent");
            }
        }
        for table in &mut self.tables {
            table.program(&compile::chains(&self.state, table.version));
        }
    }
}

impl TableOf {
    /// Writes what differs. Each chain is a request of its own, so that a bad one hurts no other; the worker puts
    /// them into one commit.
    fn program(&mut self, wanted: &Chains) {
        let mut tickets = BTreeMap::new();
        for (name, rules) in wanted {
            if self.programmed.get(name) == Some(rules) {
                continue;
            }
            match Chain::new(name.as_str(), rules) {
                Ok(chain) => {
                    let ticket = self.worker.rewrite_chains_later([chain]);
                    tickets.insert(name.clone(), (Some(rules.clone()), ticket));
                }
                Err(error) => warn!("{}: {error}", self.version),
            }
        }
        for name in self.programmed.keys() {
            if !wanted.contains_key(name) {
                let ticket = self.worker.delete_chains_later([name.as_str()]);
                tickets.insert(name.clone(), (None, ticket));
            }
        }
        let count = tickets.len();
        for (name, (rules, ticket)) in tickets {
            match (ticket.wait(), rules) {
                (Ok(()), Some(rules)) => drop(self.programmed.insert(name, rules)),
                (Ok(()), None) => drop(self.programmed.remove(&name)),
                // It is tried again with the next change.
                (Err(error), _) => warn!("{}: chain {name}: {error}", self.version),
            }
        }
        if count > 0 {
            info!("{}: {count} chains changed", self.version);
        }
    }

    /// The first policy is in force: packets are sent through it, and what a previous run left is removed.
    fn take_over(&mut self) {
        let hooked = self
            .worker
            .ensure_rule_inserted("FORWARD", format!("-j {FORWARD}"));
        match hooked.and_then(|()| self.worker.cleanup()) {
            Ok(report) => {
                info!(
                    "{}: {} old chains deleted",
                    self.version,
                    report.deleted.len()
                );
                self.cleaned_up = true;
            }
            Err(error) => warn!("{}: {error}", self.version),
        }
    }
}
