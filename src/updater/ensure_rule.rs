//! Rules that have to be somewhere in a chain, as kube-proxy's are.

use super::hooks::Wanted;
use super::{Existed, IptablesUpdater};
use crate::error::{ChainNameError, Error, FailureClass};
use crate::restore_input::{Builder, Command};
use crate::{Executor, HookChain, IntoRule, Rule};

/// At which end of a chain a rule is put if it isn't there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// At the top.
    Prepend,
    /// At the bottom.
    Append,
}

impl Position {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Prepend => Command::Insert,
            Self::Append => Command::Append,
        }
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// Sees to it that the rule stands in the chain. If it stands anywhere, it is left where it is.
    ///
    /// Whether it stands is for iptables to say (`-C`), not for text. Calling it again changes nothing. The
    /// rule is remembered: a refresh puts it back if it is gone.
    ///
    /// The chain is a kernel chain, another program's, or an owned one that isn't programmed (see
    /// [`ensure_chain`](Self::ensure_chain)).
    ///
    /// ```
    /// # use iptables_updater::{Backend, Existed, IpVersion, IptablesUpdater, MemoryExecutor, Position, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// assert_eq!(filter.ensure_rule(Position::Prepend, "FORWARD", "-i eth1 -j DROP")?, Existed::No);
    /// assert_eq!(filter.ensure_rule(Position::Prepend, "FORWARD", "-i eth1 -j DROP")?, Existed::Yes);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ensure_rule_inserted`](Self::ensure_rule_inserted).
    pub fn ensure_rule<C>(
        &mut self,
        position: Position,
        chain: C,
        rule: impl IntoRule,
    ) -> Result<Existed, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let (chain, rule) = self.hook_of(chain, rule)?;
        let overtaken = self.other_spellings(&chain, &rule)?;
        let existed = self.put_if_absent(position, &chain, &rule)?;
        self.hooks.forget_all(&chain, overtaken);
        self.hooks.remember(chain, rule, Wanted::Anywhere(position));
        Ok(existed)
    }

    /// Deletes all instances of the rule from the chain. Unlike
    /// [`ensure_rule_removed`](Self::ensure_rule_removed) it isn't remembered: whatever was ensured of this rule is
    /// forgotten.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Existed, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    /// filter.ensure_rule_inserted("FORWARD", "-i eth1 -j DROP")?;
    /// assert_eq!(filter.delete_rule("FORWARD", "-i eth1 -j DROP")?, Existed::Yes);
    /// assert_eq!(filter.delete_rule("FORWARD", "-i eth1 -j DROP")?, Existed::No);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ensure_rule_removed`](Self::ensure_rule_removed).
    pub fn delete_rule<C>(&mut self, chain: C, rule: impl IntoRule) -> Result<Existed, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        let (chain, rule) = self.hook_of(chain, rule)?;
        let mut forgotten = self.other_spellings(&chain, &rule)?;
        let existed = self.carry_out(&chain, &rule, Wanted::Removed)?;
        forgotten.push(rule);
        self.hooks.forget_all(&chain, forgotten);
        Ok(existed)
    }

    /// Puts the rule, unless iptables finds it or one stands there that it prints just so.
    pub(super) fn put_if_absent(
        &mut self,
        position: Position,
        chain: &HookChain,
        rule: &Rule,
    ) -> Result<Existed, Error> {
        if self.stands(chain, rule)? || self.has_twin(chain, rule)? {
            return Ok(Existed::Yes);
        }
        let mut builder = Builder::new(self.runner.table);
        builder.rule(position.command(), chain, rule);
        let input = builder.build();
        let mut pauses = self.runner.unexplained_pauses();
        let mut repaired = false;
        loop {
            let Err(refusal) = self.runner.restore_last_try(&input) else {
                return Ok(Existed::No);
            };
            if refusal.class() == Some(FailureClass::Ambiguous)
                && let Some(pause) = pauses.next()
            {
                self.runner.pause(FailureClass::Ambiguous, pause);
                // It may have been applied, and the same again would put a second instance.
                if self.stands(chain, rule)? {
                    return Ok(Existed::No);
                }
            } else if repaired || !self.repair_target(&refusal, rule)? {
                return Err(refusal.into());
            } else {
                repaired = true;
            }
        }
    }
}
