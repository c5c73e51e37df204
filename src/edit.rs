//! Works out how to change a chain in place, and how that fails if the chain isn't what it is taken for.
//!
//! iptables changes a chain by a rule's text or by its number. The number alone is blind: if somebody else has
//! inserted a rule above, it hits another. The text alone can't say where a new rule goes. So an edit in the middle of a
//! chain sets a jump to an empty chain of its own, the marker, before and behind the rules to be replaced, removes these
//! by their text and then the two jumps by the numbers that they must have now. Had a rule stood elsewhere, one of the two
//! numbers hits something else, a jump is left over, the marker can't be deleted, and nothing of the whole commit is done.
//! (A rule that stands twice is found in the first place, so the same catches it.)

use std::ops::Range;

use crate::index::Contents;
use crate::restore_input::{Argument, Builder, Command};
use crate::{Chain, ChainName, HookChain, Rule};

/// How many comparisons of two rules an edit may cost: to find a rule by its text, iptables compares it with each rule
/// before it. On nf_tables 1.8.9 one takes about 1 µs.
const MAX_COMPARISONS: usize = 20_000;

/// The change of one chain in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    chain: HookChain,
    /// How many rules before it stay as they are.
    kept: usize,
    /// How many rules after those are removed.
    removed: usize,
    /// How many come in their place.
    inserted: usize,
    steps: Vec<Step>,
}

/// One line of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Check(Rule),
    Append(Rule),
    /// At this number.
    Insert(usize, Rule),
    Delete(Rule),
    DeleteNumber(usize),
}

impl Edit {
    /// The edit that makes a chain's contents the new ones, where that takes fewer lines than to write them all
    /// and where the rules around it can be told from the others.
    pub(crate) fn between(old: &Contents, new: &Chain, marker: &ChainName) -> Option<Self> {
        let old: Vec<&str> = old.rules().collect();
        let all: Vec<&str> = new.rules().iter().map(Rule::as_str).collect();
        let alike = |(a, b): &(&&str, &&str)| a == b;
        let mut before = old.iter().zip(&all).take_while(alike).count();
        let mut behind = {
            let old = old[before..].iter().rev();
            old.zip(all[before..].iter().rev()).take_while(alike)
        }
        .count();
        if before + behind == old.len() && before > 0 && behind > 0 {
            // Nothing is removed, so a rule beside the place has to tell where it is: it is written again.
            if old[..before - 1].contains(&old[before - 1]) {
                behind -= 1;
            } else {
                before -= 1;
            }
        }
        let removed = &old[before..old.len() - behind];
        let inserted = &new.rules()[before..all.len() - behind];
        let mut edit = Self {
            chain: HookChain::User(new.name().clone()),
            kept: before,
            removed: removed.len(),
            inserted: inserted.len(),
            steps: Vec::new(),
        };
        if !removed.is_empty() {
            // The first of two alike is the one that iptables finds.
            let found_before = removed.iter().any(|rule| old[..before].contains(rule));
            if found_before || removed.len() * (before + removed.len()) > MAX_COMPARISONS {
                return None;
            }
            edit.replace(removed, inserted, marker);
        } else if behind == 0 {
            let last = old.last().map(|last| Rule::of_kept_text(last));
            edit.steps.extend(last.map(Step::Check));
            edit.steps
                .extend(inserted.iter().cloned().map(Step::Append));
        } else {
            edit.steps.push(Step::Check(Rule::of_kept_text(old[0])));
            edit.insert(inserted);
        }
        (edit.steps.len() < all.len()).then_some(edit)
    }

    /// Between two jumps to the marker, which are at their numbers again if the rules were between them.
    fn replace(&mut self, removed: &[&str], inserted: &[Rule], marker: &ChainName) {
        let jump = Rule::of_kept_text(&format!("-j {marker}"));
        let first = self.kept + 1;
        self.steps.push(Step::Insert(first, jump.clone()));
        let behind = first + 1 + removed.len();
        self.steps.push(Step::Insert(behind, jump));
        let removed = removed.iter().map(|rule| Rule::of_kept_text(rule));
        self.steps.extend(removed.map(Step::Delete));
        self.steps.push(Step::DeleteNumber(first + 1));
        self.steps.push(Step::DeleteNumber(first));
        self.insert(inserted);
    }

    fn insert(&mut self, rules: &[Rule]) {
        let numbered = (self.kept + 1..).zip(rules.iter().cloned());
        let steps = numbered.map(|(number, rule)| Step::Insert(number, rule));
        self.steps.extend(steps);
    }

    /// The name of the chain that it changes.
    pub(crate) fn chain(&self) -> &str {
        self.chain.as_str()
    }

    /// The places of the rules that it removes.
    pub(crate) fn removed(&self) -> Range<usize> {
        self.kept..self.kept + self.removed
    }

    /// How many rules come in their place.
    pub(crate) fn inserted(&self) -> usize {
        self.inserted
    }

    /// Adds its lines to a restore input.
    pub(crate) fn write<'a>(&'a self, builder: &mut Builder<'a>) {
        for step in &self.steps {
            let (command, argument) = match step {
                Step::Check(rule) => (Command::Check, Argument::Rule(rule)),
                Step::Append(rule) => (Command::Append, Argument::Rule(rule)),
                Step::Insert(number, rule) => (Command::Insert, Argument::At(*number, rule)),
                Step::Delete(rule) => (Command::DeleteRule, Argument::Rule(rule)),
                Step::DeleteNumber(number) => (Command::DeleteRule, Argument::Number(*number)),
            };
            builder.command(command, &self.chain, argument);
        }
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
