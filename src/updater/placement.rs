//! Several hook rules as one thing: together, in an order, at a place of a chain of others.

use indexmap::IndexSet;
use log::{info, warn};

use super::arrangement::{Arrangement, HookPolicy, Placement};
use super::hooks::Wanted;
use super::printed::Printed;
use super::verify::HookDrift;
use super::{Existed, IptablesUpdater};
use crate::error::{ChainNameError, Error, FailureClass};
use crate::restore_input::{Argument, Builder, Command};
use crate::{Executor, HookChain, IntoRule, Rule, SavedTable};

/// How often the chain is read again when other programs change it meanwhile.
const MOST_ROUNDS: usize = 5;

/// Hook rules that were moved again and again, most likely because another program does the same.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fight {
    /// The chain.
    pub chain: HookChain,
    /// How often they were moved.
    pub moves: u32,
    /// In how many refreshes and calls.
    pub refreshes: u32,
}

/// Hook rules that were ensured together.
#[derive(Debug, Clone)]
pub(super) struct Group {
    chain: HookChain,
    rules: Vec<Rule>,
    placement: Placement,
    looks: u32,
    moves: u32,
}

impl Group {
    /// Its rules, each with the chain.
    pub(super) fn hooks(&self) -> impl Iterator<Item = (&HookChain, &Rule)> {
        self.rules.iter().map(|rule| (&self.chain, rule))
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// Sees to it that these rules stand together in the chain, in this order, at that place, each once.
    ///
    /// If they do, nothing is run but a reading, and no counter is reset. If not, they are put there in one
    /// commit; rules of others are never moved. Rules that stand together in their order elsewhere are left
    /// there, unless the updater was built with [`HookPolicy::Always`]. They are remembered, and kept so by a
    /// refresh. To know them again among others, the updater finds out once how iptables prints them, in a chain
    /// of its own that nothing refers to.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Placement, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// let rules = ["-i eth0 -j web-input", "-i eth1 -j web-input"];
    /// filter.rewrite_chains([Chain::new("web-input", ["-j RETURN"])?])?;
    /// filter.ensure_rule_inserted("INPUT", "-j DROP")?;
    /// filter.ensure_hooks("INPUT", rules, Placement::Before("-j DROP".to_owned()))?;
    /// assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap(), [rules[0], rules[1], "-j DROP"]);
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ensure_rule_inserted`](Self::ensure_rule_inserted); [`Error::CantMatch`] for a rule that iptables doesn't find
    /// again.
    pub fn ensure_hooks<C, R>(
        &mut self,
        chain: C,
        rules: R,
        placement: Placement,
    ) -> Result<Existed, Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
        R: IntoIterator,
        R::Item: IntoRule,
    {
        let chain = self.chain_of_table(chain)?;
        let rules = rules
            .into_iter()
            .map(|rule| self.hook_in(&chain, rule))
            .collect::<Result<IndexSet<_>, _>>()?;
        let mut group = Group {
            chain,
            rules: rules.into_iter().collect(),
            placement,
            looks: 0,
            moves: 0,
        };
        let existed = self.arrange(&mut group)?;
        group.looks += 1;
        // Rules of them again take the place of what was ensured before; those that are no longer among them go.
        let same = |old: &Group| {
            old.chain == group.chain && old.rules.iter().any(|r| group.rules.contains(r))
        };
        let mut dropped = Vec::new();
        if let Some(at) = self.groups.iter().position(same) {
            let old = self.groups.remove(at);
            group.looks += old.looks;
            group.moves += old.moves;
            dropped = old.rules;
            dropped.retain(|rule| !group.rules.contains(rule));
        }
        let chain = group.chain.clone();
        self.groups.push(group);
        for rule in dropped {
            self.carry_out(&chain, &rule, Wanted::Removed)?;
        }
        Ok(existed)
    }

    /// Brings a group to its place, if it isn't fine.
    fn arrange(&mut self, group: &mut Group) -> Result<Existed, Error> {
        self.learn_printed(&group.rules)?;
        let mut last = None;
        for _ in 0..MOST_ROUNDS {
            let arrangement = self.arrangement_of(group)?;
            if arrangement.is_fine(self.hook_policy) {
                return Ok(if last.is_none() {
                    Existed::Yes
                } else {
                    Existed::No
                });
            }
            for rule in &group.rules {
                self.check_confusion(&group.chain, rule, &group.rules)?;
            }
            let commands = moves(group, &arrangement);
            let mut builder = Builder::new(self.runner.table);
            for (command, argument) in commands {
                builder.command(command, &group.chain, argument);
            }
            match self.runner.restore_last_try(&builder.build()) {
                Ok(()) => {
                    group.moves += 1;
                    info!(
                        "{}: hook rules put into {}",
                        self.runner.place(),
                        group.chain
                    );
                    return Ok(Existed::No);
                }
                Err(refusal) => {
                    let again = matches!(
                        refusal.class(),
                        Some(FailureClass::RuleAbsent | FailureClass::Ambiguous)
                    );
                    if !again {
                        return Err(refusal.into());
                    }
                    last = Some(refusal);
                }
            }
        }
        for rule in &group.rules {
            self.check_twin(&group.chain, rule)?;
        }
        match last {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Existed::No),
        }
    }

    fn arrangement_of(&mut self, group: &Group) -> Result<Arrangement, Error> {
        let printed = &self.printed;
        self.runner
            .save(|saved| arrangement_in(saved, group, printed))
    }

    /// Arranges all groups again.
    pub(super) fn arrange_again(&mut self) -> Result<(), Error> {
        let mut groups = std::mem::take(&mut self.groups);
        let mut first = Ok(());
        for group in &mut groups {
            if let Err(error) = self.arrange(group) {
                warn!("hook rules in chain {}: {error}", group.chain);
                first = first.and(Err(error));
            }
        }
        self.groups = groups;
        first
    }

    pub(super) fn grouped_rules(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| group.rules.len() as u64)
            .sum()
    }

    /// A refresh looks at every group.
    pub(super) fn count_looks(&mut self) {
        for group in &mut self.groups {
            group.looks += 1;
        }
    }

    /// Groups that were moved in more than half of all refreshes and calls.
    pub(super) fn fights(&self) -> Vec<Fight> {
        let fights = self
            .groups
            .iter()
            .filter(|group| group.moves >= 3 && group.moves * 2 > group.looks);
        let fights = fights.map(|group| Fight {
            chain: group.chain.clone(),
            moves: group.moves,
            refreshes: group.looks,
        });
        fights.collect()
    }
}

/// How the rules of the groups stand in a reading: those that aren't fine.
pub(super) fn look_at_groups(
    saved: &SavedTable<'_>,
    groups: &[Group],
    printed: &Printed,
    policy: HookPolicy,
) -> Vec<HookDrift> {
    let mut drift = Vec::new();
    for group in groups {
        let arrangement = arrangement_in(saved, group, printed);
        if arrangement.is_fine(policy) {
            continue;
        }
        for (number, rule) in group.rules.iter().enumerate() {
            drift.push(HookDrift {
                chain: group.chain.clone(),
                rule: rule.clone(),
                problem: arrangement.problem(number),
            });
        }
    }
    drift
}

fn arrangement_in(saved: &SavedTable<'_>, group: &Group, printed: &Printed) -> Arrangement {
    let rules = saved.chain(group.chain.as_str()).map(|chain| {
        let texts = chain.rules().map(crate::SavedRule::text);
        texts.collect::<Vec<_>>()
    });
    let ours: Vec<_> = group
        .rules
        .iter()
        // A rule of which it isn't known can only be taken for missing.
        .map(|rule| printed.of(rule).unwrap_or("\n"))
        .collect();
    Arrangement::of(&group.placement, &rules.unwrap_or_default(), &ours)
}

/// The commands that bring a group to its place: all instances go, then each rule is put once.
fn moves<'g>(group: &'g Group, arrangement: &Arrangement) -> Vec<(Command, Argument<'g>)> {
    let mut commands = Vec::new();
    for (rule, count) in group.rules.iter().zip(&arrangement.counts) {
        let delete = (Command::DeleteRule, Argument::Rule(rule));
        commands.extend(std::iter::repeat_n(delete, *count));
    }
    let rules = group.rules.iter();
    if arrangement.behind == arrangement.others {
        commands.extend(rules.map(|rule| (Command::Append, Argument::Rule(rule))));
    } else {
        let numbered = rules.enumerate().map(|(number, rule)| {
            let number = arrangement.behind + number + 1;
            (Command::Insert, Argument::At(number, rule))
        });
        commands.extend(numbered);
    }
    commands
}
