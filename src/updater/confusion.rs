//! Keeps an iptables that takes one rule for another from hitting the wrong one.
//!
//! Which rule `-D` deletes is for iptables to say. ip6tables (legacy) 1.8.9 compares what two rules match with a mask of the
//! wrong length, so that for it `-p tcp --dport 1 -j x` may be `-p tcp --dport 2 -j x`. With such a version a rule counts
//! as standing if one is printed as it is, and one that stands is deleted only where iptables confuses it with no other
//! rule of the chain.

use super::IptablesUpdater;
use crate::error::{Error, FailureClass};
use crate::{Executor, HookChain, Rule};

impl<E: Executor> IptablesUpdater<E> {
    /// How many rules of the chain are printed as this one.
    pub(super) fn count_printed(&mut self, chain: &HookChain, rule: &Rule) -> Result<usize, Error> {
        match self.learn_printed(std::slice::from_ref(rule)) {
            // What it names doesn't exist, so it stands nowhere.
            Err(error) if error.class().is_some_and(FailureClass::is_absence) => return Ok(0),
            learned => learned?,
        }
        let printed = self.printed.of(rule);
        self.runner.save(|saved| {
            let rules = saved
                .chain(chain.as_str())
                .map(super::super::save::SavedChain::rules);
            let texts = rules
                .into_iter()
                .flatten()
                .map(super::super::save::SavedRule::text);
            texts.filter(|text| Some(*text) == printed).count()
        })
    }

    /// Refuses to delete a rule that stands in the chain where iptables may hit another, which isn't one of `together`:
    /// those are deleted in the same commit.
    pub(super) fn check_confusion(
        &mut self,
        chain: &HookChain,
        rule: &Rule,
        together: &[Rule],
    ) -> Result<(), Error> {
        if !self.runner.executor.confuses_rules() || self.count_printed(chain, rule)? == 0 {
            return Ok(());
        }
        let ours: Vec<_> = std::iter::once(rule)
            .chain(together)
            .filter_map(|rule| self.printed.of(rule))
            .collect();
        let others = self.runner.save(|saved| {
            let rules = saved
                .chain(chain.as_str())
                .map(super::super::save::SavedChain::rules);
            let rules = rules.into_iter().flatten();
            let others = rules.filter(|other| other.target() == rule.target());
            let texts = others.map(super::super::save::SavedRule::text);
            let texts = texts.filter(|text| !ours.contains(text));
            texts
                .filter_map(|text| Rule::new(text).ok())
                .collect::<Vec<_>>()
        })?;
        if others.is_empty() || !self.is_one_of(rule, &others)? {
            return Ok(());
        }
        let mut found = None;
        for other in others {
            if self.is_one_of(rule, std::slice::from_ref(&other))? {
                found = Some(other);
                break;
            }
        }
        match found {
            Some(other) => Err(Error::CantTellApart {
                chain: chain.clone(),
                rule: rule.clone(),
                other,
            }),
            None => Ok(()),
        }
    }
}
