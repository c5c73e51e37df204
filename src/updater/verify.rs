//! Finds what somebody else has changed, without changing anything.

use std::collections::{BTreeMap, HashMap};

use log::warn;

use super::hooks::{Hooks, Wanted};
use super::placement::look_at_groups;
use super::{Fight, IptablesUpdater};
use crate::error::{Error, FailureClass};
use crate::fingerprint::{Difference, Fingerprints, Print};
use crate::restore_input::{Builder, Command};
use crate::{ChainName, ChainState, Executor, HookChain, Index, Rule, SavedTable};

/// How the dataplane differs from what was programmed and ensured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drift {
    /// Programmed chains that aren't there, by name.
    pub missing: Vec<ChainName>,
    /// Stubs that aren't there, by name.
    pub missing_stubs: Vec<ChainName>,
    /// Programmed chains and stubs that hold something else than was written, by name.
    pub changed: Vec<ChangedChain>,
    /// Hook rules that aren't as they were ensured, by chain, and in each in the order in which they were.
    pub hooks: Vec<HookDrift>,
    /// Hook rules that had to be moved again and again. They count as no drift by themselves.
    pub fights: Vec<Fight>,
    /// What iptables-save remarked about the table: there may be rules that it can't show.
    pub notices: Vec<String>,
}

impl Drift {
    /// Whether everything is as it was programmed and ensured.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
            && self.missing_stubs.is_empty()
            && self.changed.is_empty()
            && self.hooks.is_empty()
    }

    /// The chains that have to be written again.
    pub(super) fn chains(&self) -> impl Iterator<Item = &ChainName> {
        let changed = self.changed.iter().map(|changed| &changed.chain);
        self.missing
            .iter()
            .chain(&self.missing_stubs)
            .chain(changed)
    }
}

/// A chain of ours that somebody else has written into.
///
/// If neither list has anything, the rules are the same in another order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedChain {
    /// The chain.
    pub chain: ChainName,
    /// Rules that aren't ours, as iptables-save prints them.
    pub foreign: Vec<String>,
    /// Rules of ours that are gone, in their order.
    pub lost: Vec<Rule>,
}

impl ChangedChain {
    fn of(chain: &ChainName, difference: Difference, written: &[Rule]) -> Self {
        let lost = difference.lost.into_iter();
        Self {
            chain: chain.clone(),
            foreign: difference.foreign,
            lost: lost.map(|place| written[place].clone()).collect(),
        }
    }
}

/// A hook rule that isn't as it was ensured.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookDrift {
    /// The chain in which it should stand, or shouldn't.
    pub chain: HookChain,
    /// The rule.
    pub rule: Rule,
    /// What is wrong with it.
    pub problem: HookProblem,
}

/// What is wrong with a hook rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookProblem {
    /// It isn't there.
    Gone,
    /// It isn't at its end of the chain.
    OutOfPlace,
    /// It is there several times.
    Repeated,
    /// It was removed, and is there again.
    Back,
}

/// What a reading found, with what a repair needs to know beside.
pub(super) struct Survey {
    pub(super) drift: Drift,
    /// How many instances of each hook rule there are, where that is known.
    pub(super) instances: HashMap<(HookChain, Rule), usize>,
    /// The chains in which hook rules that were ensured one by one aren't as they should be.
    pub(super) hooked: Vec<HookChain>,
    /// Whether hook rules that were ensured together aren't as they should be.
    pub(super) groups_drifted: bool,
    /// Whether there was a canary, and it is gone or silent.
    pub(super) canary_gone: bool,
}

/// What a reading says of one hook rule.
enum Look {
    Fine,
    Wrong(HookProblem),
    /// Text can't say whether the rule is there: iptables has to.
    Unsure,
}

impl<E: Executor> IptablesUpdater<E> {
    /// Compares the dataplane with what was programmed and ensured: one reading, and a check by iptables of
    /// each hook rule that the reading can't tell of. Nothing is changed.
    ///
    /// The contents of a chain are compared with what iptables-save printed of it at the first reading after it
    /// was written, if the number of rules and their targets were those written. (A change by somebody else
    /// between the write and that reading that leaves both as they are goes unseen.) Chains that still hold what
    /// a previous run left aren't looked at.
    ///
    /// ```
    /// # use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table};
    /// # let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    /// # let mut filter = IptablesUpdater::builder(Table::Filter)
    /// #     .chain_prefix("web-")
    /// #     .open(kernel.clone())?;
    /// filter.rewrite_chains([Chain::new("web-input", ["-j DROP"])?])?;
    /// assert!(filter.verify()?.is_empty());
    /// kernel.with_other_program(|other| other.flush(Table::Filter, "web-input"));
    /// assert_eq!(filter.verify()?.changed[0].chain, "web-input");
    /// # Ok::<(), iptables_updater::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table can't be read, or a hook rule can't be checked.
    pub fn verify(&mut self) -> Result<Drift, Error> {
        Ok(self.survey()?.drift)
    }

    pub(super) fn survey(&mut self) -> Result<Survey, Error> {
        let mut stubs = self.possible_stubs()?;
        let Self {
            runner,
            index,
            hooks,
            fingerprints,
            shared,
            groups,
            printed,
            hook_policy,
            ..
        } = self;
        let (mut drift, seen, of_groups, canary_gone) = runner.save(|saved| {
            index.retain_leftover(|chain| saved.chain(chain.as_str()).is_some());
            stubs.retain(|chain, _| index.state(chain.as_str()) == ChainState::Stub);
            let drift = compare_chains(saved, index, &stubs, fingerprints);
            let of_groups = look_at_groups(saved, groups, printed, *hook_policy);
            let canary_gone = shared.canary.as_ref().is_some_and(|canary| {
                let canary = saved.chain(canary.as_str());
                canary.is_none_or(|canary| canary.rules().len() != 1)
            });
            (drift, look_at_hooks(saved, hooks), of_groups, canary_gone)
        })?;
        let groups_drifted = !of_groups.is_empty();
        let mut instances = HashMap::new();
        for Seen {
            chain,
            rule,
            wanted,
            look,
            mut count,
        } in seen
        {
            let problem = match look {
                Look::Fine => None,
                Look::Wrong(problem) => Some(problem),
                Look::Unsure => {
                    let stands = self.stands(&chain, &rule)?;
                    count = if stands { None } else { Some(0) };
                    match (stands, wanted) {
                        (true, Wanted::Removed) => Some(HookProblem::Back),
                        (false, Wanted::Removed) | (true, Wanted::Anywhere(_)) => None,
                        (true, _) => Some(HookProblem::OutOfPlace),
                        (false, _) => Some(HookProblem::Gone),
                    }
                }
            };
            if let Some(count) = count {
                instances.insert((chain.clone(), rule.clone()), count);
            }
            if let Some(problem) = problem {
                drift.hooks.push(HookDrift {
                    chain,
                    rule,
                    problem,
                });
            }
        }
        for notice in &drift.notices {
            warn!(
                "{}: {:?}",
                self.runner.place(),
                crate::excerpt::short(notice)
            );
        }
        let mut hooked: Vec<_> = drift.hooks.iter().map(|hook| hook.chain.clone()).collect();
        hooked.dedup();
        drift.hooks.extend(of_groups);
        drift.fights = self.fights();
        Ok(Survey {
            drift,
            instances,
            hooked,
            groups_drifted,
            canary_gone,
        })
    }

    /// What each stub should hold that is in force, or is due because what a previous run left has vanished.
    fn possible_stubs(&self) -> Result<BTreeMap<ChainName, Vec<Rule>>, Error> {
        let unprogrammed = self.index.unprogrammed();
        unprogrammed
            .map(|chain| Ok((chain.clone(), self.stub(chain)?)))
            .collect()
    }

    /// Whether iptables finds the rule in the chain.
    pub(super) fn stands(&mut self, chain: &HookChain, rule: &Rule) -> Result<bool, Error> {
        if self.runner.executor.confuses_rules() {
            return Ok(self.count_printed(chain, rule)? > 0);
        }
        let mut builder = Builder::new(self.runner.table);
        builder.rule(Command::Check, chain, rule);
        match self.runner.restore(&builder.build()) {
            Ok(()) => Ok(true),
            Err(refusal) if refusal.class().is_some_and(FailureClass::is_absence) => Ok(false),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

fn compare_chains(
    saved: &SavedTable<'_>,
    index: &Index,
    stubs: &BTreeMap<ChainName, Vec<Rule>>,
    fingerprints: &mut Fingerprints,
) -> Drift {
    let mut drift = Drift {
        notices: saved.notices().map(str::to_owned).collect(),
        ..Drift::default()
    };
    // In the order of the save, each looked up in the index: the other way round it takes three times as long.
    let mut found = 0;
    for chain in saved.chains() {
        let Some((name, contents)) = index.contents(chain.name()) else {
            continue;
        };
        found += 1;
        if let Some(difference) = fingerprints.compare(name, contents.targets(), chain) {
            let rules = contents.rules().map(Rule::of_kept_text);
            let changed = ChangedChain::of(name, difference, &rules.collect::<Vec<_>>());
            drift.changed.push(changed);
        }
    }
    let programmed = index.programmed_chains();
    if found < programmed.count() {
        let gone = |name: &&ChainName| saved.chain(name.as_str()).is_none();
        let missing = index.programmed_chains().filter(gone);
        drift.missing.extend(missing.cloned());
    }
    for (name, rules) in stubs {
        let Some(chain) = saved.chain(name.as_str()) else {
            drift.missing_stubs.push(name.clone());
            continue;
        };
        let targets = rules.iter().map(Rule::target);
        if let Some(difference) = fingerprints.compare(name, targets, chain) {
            let changed = ChangedChain::of(name, difference, rules);
            drift.changed.push(changed);
        }
    }
    for name in index.ensured_chains() {
        if saved.chain(name.as_str()).is_none() {
            drift.missing.push(name.clone());
        }
    }
    drift.missing.sort_unstable();
    drift.changed.sort_unstable_by(|a, b| a.chain.cmp(&b.chain));
    drift
}

/// One hook rule in a reading.
struct Seen {
    chain: HookChain,
    rule: Rule,
    wanted: Wanted,
    look: Look,
    /// How many instances there are, if that is known.
    count: Option<usize>,
}

/// Looks for the hook rules where they should stand. What is found there for the first time since it was
/// put is learned.
fn look_at_hooks(saved: &SavedTable<'_>, hooks: &mut Hooks) -> Vec<Seen> {
    let mut seen = Vec::new();
    for chain in hooks.chains() {
        let rules: Vec<_> = saved.chain(chain.as_str()).map_or_else(Vec::new, |saved| {
            let rules = saved.rules();
            rules
                .map(|rule| (Print::of(rule.text()), rule.target()))
                .collect()
        });
        let mut counts = HashMap::<Print, usize>::new();
        for (print, _) in &rules {
            *counts.entry(*print).or_default() += 1;
        }
        let places = places(hooks, &chain, rules.len());
        for (rule, wanted, print, place) in places {
            let at_place = place.and_then(|place| rules.get(place));
            let print = print.or_else(|| {
                let (found, target) = at_place?;
                (*target == rule.target()).then_some(*found)
            });
            let mut count = print.map(|print| counts.get(&print).copied().unwrap_or(0));
            let alike = || rules.iter().any(|(_, target)| *target == rule.target());
            if wanted == Wanted::Removed {
                count = (!alike()).then_some(0);
            }
            if matches!(wanted, Wanted::Anywhere(_)) && !alike() {
                count = Some(0);
            }
            let look = match (wanted, count) {
                (Wanted::Anywhere(_), Some(0)) => Look::Wrong(HookProblem::Gone),
                (Wanted::Anywhere(_) | Wanted::Removed, Some(_)) => Look::Fine,
                (_, None) => Look::Unsure,
                (_, Some(0)) => Look::Wrong(HookProblem::Gone),
                (_, Some(1)) if at_place.map(|(found, _)| *found) == print => Look::Fine,
                (_, Some(1)) => Look::Wrong(HookProblem::OutOfPlace),
                (_, Some(_)) => Look::Wrong(HookProblem::Repeated),
            };
            if matches!(look, Look::Fine) && matches!(wanted, Wanted::Inserted | Wanted::Appended) {
                hooks.learn(&chain, &rule, print);
            }
            seen.push(Seen {
                chain: chain.clone(),
                rule,
                wanted,
                look,
                count,
            });
        }
    }
    seen
}

type Place = (Rule, Wanted, Option<Print>, Option<usize>);

/// Where in a chain of that many rules each of its hook rules should stand: what was inserted last is
/// first, what was appended last is last.
fn places(hooks: &Hooks, chain: &HookChain, rules: usize) -> Vec<Place> {
    let of_chain = || hooks.iter().filter(|(of, ..)| *of == chain);
    let count = |wanted| {
        of_chain()
            .filter(|(_, _, hook)| hook.wanted == wanted)
            .count()
    };
    let mut inserted = count(Wanted::Inserted);
    let mut appended = count(Wanted::Appended);
    of_chain()
        .map(|(_, rule, hook)| {
            let place = match hook.wanted {
                Wanted::Inserted => {
                    inserted -= 1;
                    Some(inserted)
                }
                Wanted::Appended => {
                    let place = rules.checked_sub(appended);
                    appended -= 1;
                    place
                }
                Wanted::Anywhere(_) | Wanted::Removed => None,
            };
            (rule.clone(), hook.wanted, hook.print, place)
        })
        .collect()
}
