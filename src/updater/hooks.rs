//! Hook rules: rules of ours in chains that we don't own.

use std::collections::HashMap;

use indexmap::IndexMap;
use log::{info, warn};

use super::placement::Group;
use super::run::Refusal;
use super::{Existed, IptablesUpdater, Position};
use crate::error::{ChainNameError, Error, FailureClass};
use crate::fingerprint::Print;
use crate::restore_input::{Builder, Command};
use crate::{ChainState, Executor, HookChain, IntoRule, Rule};

/// What was ensured, in the order in which it was: a refresh goes through it again.
#[derive(Debug, Default)]
pub(super) struct Hooks(IndexMap<(HookChain, Rule), Hook>);

/// One remembered hook rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hook {
    pub(super) wanted: Wanted,
    /// What iptables-save prints of it, once that is known.
    pub(super) print: Option<Print>,
}

/// What is wanted of a hook rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One instance, at the top.
    Inserted,
    /// One instance, at the bottom.
    Appended,
    /// An instance, wherever it stands; if there is none, at this end.
    Anywhere(Position),
    /// No instance.
    Removed,
}

/// Reads the chain and the rule of a hook, before it is known which updater gets it.
pub(crate) fn read_hook<C>(chain: C, rule: impl IntoRule) -> Result<(HookChain, Rule), Error>
where
    C: TryInto<HookChain>,
    ChainNameError: From<C::Error>,
{
    let chain = chain.try_into().map_err(ChainNameError::from)?;
    let rule = read_rule(&chain, rule)?;
    Ok((chain, rule))
}

fn read_rule(chain: &HookChain, rule: impl IntoRule) -> Result<Rule, Error> {
    let rule = rule.into_rule(chain.as_str());
    rule.map_err(|source| Error::HookRule {
        chain: chain.to_string(),
        source,
    })
}

impl Hooks {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in the order in which they were ensured.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&HookChain, &Rule, &Hook)> {
        self.0
            .iter()
            .map(|((chain, rule), hook)| (chain, rule, hook))
    }

    /// The chains in which there are any, each once.
    pub(super) fn chains(&self) -> Vec<HookChain> {
        let mut chains: Vec<_> = self.0.keys().map(|(chain, _)| chain.clone()).collect();
        chains.sort_unstable();
        chains.dedup();
        chains
    }

    pub(super) fn learn(&mut self, chain: &HookChain, rule: &Rule, print: Option<Print>) {
        if let Some(hook) = self.0.get_mut(&(chain.clone(), rule.clone())) {
            hook.print = print;
        }
    }

    pub(super) fn forget_all(&mut self, chain: &HookChain, rules: impl IntoIterator<Item = Rule>) {
        for rule in rules {
            self.0.shift_remove(&(chain.clone(), rule));
        }
    }

    /// What is ensured again is the latest: among several at the top it is the first.
    pub(super) fn remember(&mut self, chain: HookChain, rule: Rule, wanted: Wanted) {
        let key = (chain, rule);
        self.0.shift_remove(&key);
        let print = None;
        self.0.insert(key, Hook { wanted, print });
    }
}

impl Wanted {
    pub(super) fn command(self) -> Option<Command> {
        match self {
            Self::Inserted => Some(Command::Insert),
            Self::Appended => Some(Command::Append),
            Self::Anywhere(position) => Some(position.command()),
            Self::Removed => None,
        }
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// Sees to it that just one instance of the rule stands in the chain, at the top.
    ///
    /// If there was an instance before, there is no instant without one: it is deleted and put at the top
    /// in one commit; duplicates go in the same. Whether a rule is the same one is for iptables to say, not for
    /// text. The rule is remembered, and put back by a refresh; what was wanted of it before, in whatever spelling, is
    /// forgotten.
    ///
    /// The chain is a kernel chain or another program's. The rule may be written as `-A chain …`.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.rewrite_chains([Chain::new("web-input", ["-p tcp --dport 443 -j ACCEPT"])?])?;
    /// filter.ensure_rule_inserted("INPUT", "-i eth0 -j web-input")?;
    /// filter.ensure_rule_inserted("INPUT", "-i eth0 -j web-input")?; // nothing more
    /// assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap(), ["-i eth0 -j web-input"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The chain or the rule is refused ([`Error::ChainName`], [`Error::HookRule`], [`Error::HookInOwned`]),
    /// or iptables refuses it: then nothing is changed, and nothing remembered.
    pub fn ensure_rule_inserted<C>(&mut self, chain: C, rule: impl IntoRule) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.ensure(chain, rule, Wanted::Inserted)
    }

    /// The same, with the instance at the bottom.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.ensure_rule_appended("INPUT", "-j DROP")?;
    /// filter.ensure_rule_inserted("INPUT", "-i lo -j ACCEPT")?;
    /// assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap(), ["-i lo -j ACCEPT", "-j DROP"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ensure_rule_inserted`](Self::ensure_rule_inserted).
    pub fn ensure_rule_appended<C>(&mut self, chain: C, rule: impl IntoRule) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.ensure(chain, rule, Wanted::Appended)
    }

    /// Sees to it that no instance of the rule stands in the chain.
    ///
    /// A rule whose chain, target or set doesn't exist can't stand anywhere: that counts as removed. The
    /// removal is remembered: a refresh removes the rule again if somebody's save and restore brought it back.
    ///
    /// ```
    /// # use iptables_updater::{Backend, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.ensure_rule_inserted("INPUT", "-i eth0 -j DROP")?;
    /// filter.ensure_rule_removed("INPUT", "-i eth0 -j DROP")?;
    /// assert!(kernel.rules(Table::Filter, "INPUT").unwrap().is_empty());
    /// filter.ensure_rule_removed("INPUT", "-i eth0 -j DROP")?; // it is no error that there is none
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ensure_rule_inserted`](Self::ensure_rule_inserted).
    pub fn ensure_rule_removed<C>(&mut self, chain: C, rule: impl IntoRule) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.ensure(chain, rule, Wanted::Removed)
    }

    fn ensure<C>(&mut self, chain: C, rule: impl IntoRule, wanted: Wanted) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let (chain, rule) = self.hook_of(chain, rule)?;
        let overtaken = self.other_spellings(&chain, &rule)?;
        self.carry_out(&chain, &rule, wanted)?;
        info!(
            "{}: {wanted:?} in {chain}: {}",
            self.runner.place(),
            crate::excerpt::short(rule.as_str())
        );
        self.hooks.forget_all(&chain, overtaken);
        self.hooks.remember(chain, rule, wanted);
        Ok(())
    }

    /// The same for a hook that was read with [`read_hook`].
    pub(crate) fn ensure_hook(
        &mut self,
        chain: HookChain,
        rule: Rule,
        wanted: Wanted,
    ) -> Result<(), Error> {
        self.ensure(chain, rule, wanted)
    }

    /// The hook rules that stand, or should: those ensured one by one, and those ensured together.
    pub(super) fn standing_hooks(&self) -> Vec<(HookChain, Rule)> {
        let single = self.hooks.iter();
        let single = single.filter(|(.., hook)| hook.wanted != Wanted::Removed);
        let single = single.map(|(chain, rule, _)| (chain, rule));
        let grouped = self.groups.iter().flat_map(Group::hooks);
        single
            .chain(grouped)
            .map(|(chain, rule)| (chain.clone(), rule.clone()))
            .collect()
    }

    /// Checks the chain and the rule of a hook.
    pub(super) fn hook_of<C>(
        &self,
        chain: C,
        rule: impl IntoRule,
    ) -> Result<(HookChain, Rule), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let chain = self.chain_of_table(chain)?;
        let rule = self.hook_in(&chain, rule)?;
        Ok((chain, rule))
    }

    /// Checks the rule of a hook in that chain.
    pub(super) fn hook_in(&self, chain: &HookChain, rule: impl IntoRule) -> Result<Rule, Error> {
        if let HookChain::User(name) = chain
            && self.index.prefixes().own(name.as_str())
            && self.index.state(name.as_str()) != ChainState::Ensured
        {
            let chain = name.clone();
            return Err(Error::HookInOwned { chain });
        }
        read_rule(chain, rule)
    }

    /// Goes through what was ensured in these chains, in that order: in one restore, if it is known how often
    /// each rule stands there now; else one by one. A failure doesn't stop it; the first is returned.
    pub(super) fn reapply_hooks(
        &mut self,
        chains: &[HookChain],
        instances: &HashMap<(HookChain, Rule), usize>,
    ) -> Result<(), Error> {
        let hooks = self.hooks.iter();
        let hooks = hooks.filter(|(chain, ..)| chains.contains(chain));
        let hooks: Vec<_> = hooks
            .map(|(chain, rule, hook)| ((chain.clone(), rule.clone()), hook.wanted))
            .collect();
        for ((chain, rule), _) in &hooks {
            self.hooks.learn(chain, rule, None);
        }
        if self.reapply_together(&hooks, instances) {
            return Ok(());
        }
        let mut first = Ok(());
        for ((chain, rule), wanted) in hooks {
            if let Err(error) = self.carry_out(&chain, &rule, wanted) {
                warn!("hook rule in chain {chain}: {error}");
                first = first.and(Err(error));
            }
        }
        first
    }

    /// Whether one restore could do it. If not, nothing has changed, or it has to be counted anew.
    fn reapply_together(
        &mut self,
        hooks: &[((HookChain, Rule), Wanted)],
        instances: &HashMap<(HookChain, Rule), usize>,
    ) -> bool {
        if self.runner.executor.confuses_rules() {
            return false;
        }
        let mut builder = Builder::new(self.runner.table);
        for (hook, wanted) in hooks {
            let (chain, rule) = hook;
            let Some(count) = instances.get(hook) else {
                return false;
            };
            if matches!(wanted, Wanted::Anywhere(_)) {
                if *count > 0 {
                    continue;
                }
            } else {
                for _ in 0..*count {
                    builder.rule(Command::DeleteRule, chain, rule);
                }
            }
            if let Some(command) = wanted.command() {
                builder.rule(command, chain, rule);
            }
        }
        hooks.is_empty() || self.runner.restore_last_try(&builder.build()).is_ok()
    }

    /// Brings a hook rule about; whether there was an instance of it before.
    pub(super) fn carry_out(
        &mut self,
        chain: &HookChain,
        rule: &Rule,
        wanted: Wanted,
    ) -> Result<Existed, Error> {
        if let Wanted::Anywhere(position) = wanted {
            return self.put_if_absent(position, chain, rule);
        }
        self.check_twin(chain, rule)?;
        if self.runner.executor.confuses_rules() {
            self.check_confusion(chain, rule, &[])?;
            if !self.stands(chain, rule)? {
                return self.put_alone(chain, rule, wanted.command());
            }
        }
        match self.replace_all(chain, rule, wanted.command()) {
            Ok(existed) => Ok(existed),
            Err(refusal) if self.repair_target(&refusal, rule)? => {
                Ok(self.replace_all(chain, rule, wanted.command())?)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Puts a rule that isn't there.
    fn put_alone(
        &mut self,
        chain: &HookChain,
        rule: &Rule,
        put: Option<Command>,
    ) -> Result<Existed, Error> {
        let position = match put {
            None => return Ok(Existed::No),
            Some(Command::Append) => Position::Append,
            Some(_) => Position::Prepend,
        };
        self.put_if_absent(position, chain, rule)
    }

    /// Puts back the chain of ours to which a rule jumps, if it was refused because somebody has removed that;
    /// whether it was so.
    pub(super) fn repair_target(&mut self, refusal: &Refusal, rule: &Rule) -> Result<bool, Error> {
        let Some(target) = rule.target() else {
            return Ok(false);
        };
        let target_gone = refusal.class() == Some(FailureClass::TargetAbsent);
        if !target_gone || !self.index.prefixes().own(target) {
            return Ok(false);
        }
        let missing = self.read_missing()?;
        if !missing.iter().any(|gone| *gone == *target) {
            return Ok(false);
        }
        self.commit_with_missing(&[], missing)?;
        Ok(true)
    }
}
