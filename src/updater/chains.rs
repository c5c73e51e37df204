//! Chains as such, ours and those of others: make them, read them, empty and delete them.

use std::collections::BTreeSet;

use log::info;

use super::IptablesUpdater;
use super::run::Refusal;
use crate::error::{ChainNameError, Error, FailureClass};
use crate::restore_input::{Argument, Builder, Command};
use crate::{
    Chain, ChainName, ChainState, Counters, Executor, ForeignAct, HookChain, KernelChain, Policy,
};

/// Whether what was asked for was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Existed {
    /// It was.
    Yes,
    /// It wasn't.
    No,
}

/// A rule as iptables-save prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedRule {
    /// The rule, without its chain. Most rules read back otherwise than they were written.
    pub text: String,
    /// Packets and bytes that it has met, where they were asked for.
    pub counters: Option<Counters>,
}

/// What an updater remembers of chains that it didn't program.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Chains of others that may be emptied and deleted.
    allowed: BTreeSet<HookChain>,
    /// The chain that tells whether the table was flushed, once it is used.
    pub(super) canary: Option<ChainName>,
}

impl Shared {
    pub(super) fn is_canary(&self, name: &str) -> bool {
        self.canary.as_ref().is_some_and(|canary| *canary == *name)
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// Sees to it that a chain is there. One that is there stays as it is: nothing is emptied.
    ///
    /// For an owned chain whose rules come from [`ensure_rule`](Self::ensure_rule), and not from `rewrite_chains`:
    /// a cleanup leaves it, and a refresh makes it again. A kernel chain of the table is always there.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Existed, IpVersion, IptablesUpdater, MemoryExecutor, Position, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// assert_eq!(filter.ensure_chain("web-allow")?, Existed::No);
    /// filter.ensure_rule(Position::Append, "web-allow", "-s 192.0.2.1 -j ACCEPT")?;
    /// assert_eq!(filter.ensure_chain("web-allow")?, Existed::Yes); // with its rule
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The name is none, or no chain of this table; or iptables refused it.
    pub fn ensure_chain<C>(&mut self, chain: C) -> Result<Existed, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = self.chain_of_table(chain)?;
        let HookChain::User(name) = &chain else {
            return Ok(Existed::Yes);
        };
        let existed = self.create(&chain)?;
        if self.index.prefixes().own(name.as_str()) {
            self.index.ensure(name.clone());
        }
        Ok(existed)
    }

    /// Lets this updater empty and delete a chain that it doesn't own.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Existed, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// assert!(filter.flush_chain("KUBE-SVC-OLD").is_err()); // it isn't ours
    /// filter.allow_foreign("KUBE-SVC-OLD")?;
    /// assert_eq!(filter.flush_chain("KUBE-SVC-OLD")?, Existed::No);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The name is none, or no chain of this table.
    pub fn allow_foreign<C>(&mut self, chain: C) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = self.chain_of_table(chain)?;
        self.shared.allowed.insert(chain);
        Ok(())
    }

    /// Empties a chain. An owned one is programmed to be empty; one of others has to be
    /// [allowed](Self::allow_foreign). A chain that isn't there is no error.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, Existed, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.rewrite_chains([Chain::new("web-input", ["-j DROP"])?])?;
    /// assert_eq!(filter.flush_chain("web-input")?, Existed::Yes);
    /// assert_eq!(kernel.rules(Table::Filter, "web-input").unwrap(), [""; 0]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAllowed`]; or iptables refused it.
    pub fn flush_chain<C>(&mut self, chain: C) -> Result<Existed, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = self.chain_of_table(chain)?;
        if let HookChain::User(name) = &chain
            && self.index.is_programmed(name.as_str())
        {
            return self.empty_owned(name);
        }
        self.check_allowed(&chain, ForeignAct::Flush)?;
        self.on_chain(&chain, &[Command::Flush])
    }

    /// Deletes a chain with its rules. An owned one as [`delete_chains`](Self::delete_chains) does; one of others has to
    /// be [allowed](Self::allow_foreign), and may not be referred to. A chain that isn't there is no error.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Existed, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.ensure_chain("web-allow")?;
    /// assert_eq!(filter.delete_chain("web-allow")?, Existed::Yes);
    /// assert_eq!(filter.delete_chain("web-allow")?, Existed::No);
    /// assert!(filter.delete_chain("INPUT").is_err()); // the kernel's
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAllowed`], always for a kernel chain; [`Error::Restore`] of the class
    /// [`ChainBusy`](FailureClass::ChainBusy) where rules refer to it.
    pub fn delete_chain<C>(&mut self, chain: C) -> Result<Existed, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = self.chain_of_table(chain)?;
        let HookChain::User(name) = &chain else {
            let act = ForeignAct::Delete;
            return Err(Error::NotAllowed { chain, act });
        };
        if self.index.prefixes().own(name.as_str()) {
            if self.index.state(name.as_str()) != ChainState::Absent {
                return self.delete_owned(name);
            }
        } else {
            self.check_allowed(&chain, ForeignAct::Delete)?;
        }
        self.on_chain(&chain, &[Command::Flush, Command::DeleteChain])
    }

    /// Whether the chain is in the table.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// if !filter.chain_exists("DOCKER-USER")? {
    ///     println!("Docker hasn't started yet");
    /// }
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The name is none; or the table can't be read.
    pub fn chain_exists<C>(&mut self, chain: C) -> Result<bool, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = chain.try_into().map_err(ChainNameError::from)?;
        self.runner
            .save(|saved| saved.chain(chain.as_str()).is_some())
    }

    /// The names of all chains in the table, in the order of iptables-save.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// filter.ensure_chain("web-allow")?;
    /// assert_eq!(filter.chains()?, ["INPUT", "FORWARD", "OUTPUT", "web-allow"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table can't be read.
    pub fn chains(&mut self) -> Result<Vec<String>, Error> {
        self.runner.save(|saved| {
            saved
                .chains()
                .map(|chain| chain.name().to_owned())
                .collect()
        })
    }

    /// The rules of any chain, as iptables-save prints them; `None` if there is no such chain.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// filter.ensure_rule_inserted("INPUT", "-s 192.0.2.1 -j ACCEPT")?;
    /// let rules = filter.rules("INPUT")?.unwrap();
    /// assert_eq!(rules[0].text, "-s 192.0.2.1/32 -j ACCEPT"); // as iptables-save prints it
    /// assert!(filter.rules("DOCKER-USER")?.is_none());
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The name is none; or the table can't be read.
    pub fn rules<C>(&mut self, chain: C) -> Result<Option<Vec<ListedRule>>, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = chain.try_into().map_err(ChainNameError::from)?;
        self.runner.save(|saved| listed(saved, &chain))
    }

    /// The same with the packets and bytes that each rule has met.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// filter.ensure_rule_inserted("INPUT", "-j ACCEPT")?;
    /// for rule in filter.rules_with_counters("INPUT")?.unwrap() {
    ///     let packets = rule.counters.map_or(0, |counters| counters.packets);
    ///     println!("{}: {packets} packets", rule.text);
    /// }
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`rules`](Self::rules).
    pub fn rules_with_counters<C>(&mut self, chain: C) -> Result<Option<Vec<ListedRule>>, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = chain.try_into().map_err(ChainNameError::from)?;
        self.runner
            .save_with_counters(|saved| listed(saved, &chain))
    }

    /// What becomes of a packet that reaches the end of a kernel chain.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, KernelChain, MemoryExecutor, Policy, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// assert_eq!(filter.policy(KernelChain::Forward)?, Policy::Accept);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table doesn't have that chain, or can't be read.
    pub fn policy(&mut self, chain: KernelChain) -> Result<Policy, Error> {
        HookChain::Kernel(chain).check_in(self.runner.table)?;
        let policy = self
            .runner
            .save(|saved| saved.chain(chain.name())?.policy())?;
        // A chain that nobody has touched yet accepts.
        Ok(policy.unwrap_or(Policy::Accept))
    }

    /// Sets that. It isn't remembered: a refresh doesn't set it again.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, KernelChain, MemoryExecutor, Policy, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// filter.set_policy(KernelChain::Forward, Policy::Drop)?;
    /// assert_eq!(filter.policy(KernelChain::Forward)?, Policy::Drop);
    /// assert!(filter.set_policy(KernelChain::Prerouting, Policy::Drop).is_err()); // not in filter
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table doesn't have that chain; or iptables refused it.
    pub fn set_policy(&mut self, chain: KernelChain, policy: Policy) -> Result<(), Error> {
        let chain = HookChain::Kernel(chain);
        chain.check_in(self.runner.table)?;
        let mut builder = Builder::new(self.runner.table);
        builder.command(Command::SetPolicy, &chain, Argument::Policy(policy));
        self.runner.restore(&builder.build())?;
        info!("{}: policy of {chain} is {policy}", self.runner.place());
        Ok(())
    }

    fn empty_owned(&mut self, name: &ChainName) -> Result<Existed, Error> {
        let none: [&str; 0] = [];
        self.rewrite_chains([Chain::new(name, none)?])?;
        Ok(Existed::Yes)
    }

    fn delete_owned(&mut self, name: &ChainName) -> Result<Existed, Error> {
        let changes = self.delete_chains([name])?;
        let gone = changes.deleted.contains(name) || changes.stubbed.contains(name);
        Ok(if gone { Existed::Yes } else { Existed::No })
    }

    /// Makes those of the ensured chains that `may_be_gone` isn't sure of.
    pub(super) fn ensure_chains_again(
        &mut self,
        may_be_gone: impl Fn(&ChainName) -> bool,
    ) -> Result<(), Error> {
        let ensured = self.index.ensured_chains();
        let ensured: Vec<_> = ensured.filter(|name| may_be_gone(name)).cloned().collect();
        for name in ensured {
            self.create(&HookChain::User(name))?;
        }
        Ok(())
    }

    fn create(&mut self, chain: &HookChain) -> Result<Existed, Error> {
        let mut builder = Builder::new(self.runner.table);
        builder.command(Command::Create, chain, Argument::Nothing);
        match self.runner.restore(&builder.build()) {
            Ok(()) => Ok(Existed::No),
            Err(refusal) if refusal.class() == Some(FailureClass::ChainExists) => Ok(Existed::Yes),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Commands on a chain, in one commit; a chain that isn't there is no error.
    fn on_chain(&mut self, chain: &HookChain, commands: &[Command]) -> Result<Existed, Error> {
        let mut builder = Builder::new(self.runner.table);
        for command in commands {
            builder.command(*command, chain, Argument::Nothing);
        }
        match self.runner.restore(&builder.build()) {
            Ok(()) => Ok(Existed::Yes),
            Err(Refusal::Failed(error))
                if error.class == FailureClass::TargetAbsent && error.line == Some(2) =>
            {
                Ok(Existed::No)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    pub(super) fn chain_of_table<C>(&self, chain: C) -> Result<HookChain, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = chain.try_into().map_err(ChainNameError::from)?;
        chain.check_in(self.runner.table)?;
        Ok(chain)
    }

    fn check_allowed(&self, chain: &HookChain, act: ForeignAct) -> Result<(), Error> {
        let owned = self.index.prefixes().own(chain.as_str());
        if owned || self.shared.allowed.contains(chain) {
            return Ok(());
        }
        let chain = chain.clone();
        Err(Error::NotAllowed { chain, act })
    }
}

fn listed(saved: &crate::SavedTable<'_>, chain: &HookChain) -> Option<Vec<ListedRule>> {
    let rules = saved.chain(chain.as_str())?.rules();
    let rules = rules.map(|rule| ListedRule {
        text: rule.text().to_owned(),
        counters: rule.counters(),
    });
    Some(rules.collect())
}
