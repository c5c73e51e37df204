//! Brings one IP version's filter table to the compiled chains, through the library's worker.

use std::collections::BTreeMap;
use std::time::Duration;

use iptables_updater::worker::{self, Handle, WorkerConfig};
use iptables_updater::{
    Backend, Chain, CommandExecutor, Error, Executor, FailureClass, IpVersion, IptablesUpdater,
    Request, Table,
};
use log::{error, info};

use crate::compile::{HOOKS, PREFIX};

#[derive(Debug)]
pub struct Programmer<E> {
    pub version: IpVersion,
    handle: Handle<E>,
    /// What the worker has taken over.
    programmed: BTreeMap<String, Chain>,
    /// What a previous run left keeps working until this is true.
    started: bool,
}

impl Programmer<CommandExecutor> {
    pub fn open(version: IpVersion, backend: Option<Backend>) -> Result<Self, Error> {
        let mut executor = CommandExecutor::builder(version);
        if let Some(backend) = backend {
            executor = executor.backend(backend);
        }
        Self::with(version, executor.build()?)
    }
}

impl<E: Executor + Send + 'static> Programmer<E> {
    fn with(version: IpVersion, executor: E) -> Result<Self, Error> {
        let updater = IptablesUpdater::builder(Table::Filter)
            .chain_prefix(PREFIX)
            .open(executor)?;
        let config = WorkerConfig::default().with_refresh_interval(Duration::from_secs(30));
        Ok(Self {
            version,
            handle: worker::spawn(updater, config),
            programmed: BTreeMap::new(),
            started: false,
        })
    }

    /// Whatever fails is logged, fails closed where that is possible, and is tried again at the next call.
    pub fn program(&mut self, wanted: &BTreeMap<String, Chain>) {
        let version = self.version;
        match self.chains(wanted) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return error!("{version}: {error}"),
        }
        if self.started {
            return;
        }
        for (chain, rule) in HOOKS {
            if let Err(error) = self.handle.ensure_rule_inserted(chain, rule) {
                return error!("{version}: hook {chain} {rule}: {error}");
            }
        }
        match self.handle.cleanup() {
            Ok(_) => {
                info!("{version}: first snapshot programmed, leftovers removed");
                self.started = true;
            }
            Err(error) => error!("{version}: cleanup: {error}"),
        }
    }

    /// One request for each chain, all in one commit: where one is refused, the others are applied.
    /// True: everything stands, except for what is refused for good and has become a stub.
    fn chains(&mut self, wanted: &BTreeMap<String, Chain>) -> Result<bool, Error> {
        let rewrites: Vec<Chain> = wanted
            .iter()
            .filter(|(name, chain)| self.programmed.get(*name) != Some(chain))
            .map(|(_, chain)| chain.clone())
            .collect();
        let gone = self.programmed.keys();
        let gone: Vec<String> = gone
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        if rewrites.is_empty() && gone.is_empty() {
            return Ok(true);
        }
        let mut requests: Vec<Request> = rewrites
            .iter()
            .map(|chain| Request::rewrite([chain.clone()]))
            .collect();
        for name in &gone {
            requests.push(Request::delete([name.as_str()])?);
        }
        let results = self
            .handle
            .call(move |updater| Ok(updater.apply(&requests)))?;

        let mut complete = true;
        let mut refused = Vec::new();
        let names = rewrites.iter().map(|chain| chain.name().as_str());
        for (name, result) in names.chain(gone.iter().map(String::as_str)).zip(results) {
            match result {
                Ok(()) => match wanted.get(name) {
                    Some(chain) => drop(self.programmed.insert(name.to_owned(), chain.clone())),
                    None => drop(self.programmed.remove(name)),
                },
                Err(error) => {
                    error!("{}: chain {name}: {error}", self.version);
                    if error.class().is_some_and(FailureClass::may_pass) {
                        complete = false;
                    } else if wanted.contains_key(name) {
                        refused.push(name.to_owned());
                    }
                }
            }
        }
        // Its old contents would let through what the new ones forbid: the library's stub drops.
        for name in refused {
            self.programmed.remove(&name);
            self.handle.delete_chains([name.as_str()])?;
        }
        Ok(complete)
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
