//! One rule in several spellings: `-s 10.0.0.1/8` and `-s 10.0.0.0/8` are the same to iptables, and not to a text.

use super::{IptablesUpdater, run::Refusal};
use crate::error::{Error, FailureClass};
use crate::restore_input::{Argument, Builder, Command};
use crate::{Executor, HookChain, Rule};

impl<E: Executor> IptablesUpdater<E> {
    /// The hook rules remembered for that chain that are this rule in another spelling: what is wanted of it now
    /// takes their place. A refresh would go to and fro between them otherwise.
    ///
    /// Only rules with the same target can be. If there is one, iptables is asked in a restore that changes nothing.
    pub(super) fn other_spellings(
        &mut self,
        chain: &HookChain,
        rule: &Rule,
    ) -> Result<Vec<Rule>, Error> {
        let hooks = self.hooks.iter();
        let others = hooks.filter(|(of, other, _)| {
            *of == chain && *other != rule && other.target() == rule.target()
        });
        let others: Vec<Rule> = others.map(|(_, other, _)| other.clone()).collect();
        if self.runner.executor.confuses_rules() {
            return self.printed_alike(rule, others);
        }
        if others.is_empty() || !self.is_one_of(rule, &others)? {
            return Ok(Vec::new());
        }
        let mut same = Vec::new();
        for other in others {
            if self.is_one_of(rule, std::slice::from_ref(&other))? {
                same.push(other);
            }
        }
        Ok(same)
    }

    /// Those of the others that are printed as the rule.
    fn printed_alike(&mut self, rule: &Rule, mut others: Vec<Rule>) -> Result<Vec<Rule>, Error> {
        for one in others.iter().chain([rule]) {
            match self.learn_printed(std::slice::from_ref(one)) {
                // What it names doesn't exist.
                Err(error) if error.class().is_some_and(FailureClass::is_absence) => {}
                learned => learned?,
            }
        }
        let printed = self.printed.of(rule);
        others.retain(|other| printed.is_some() && self.printed.of(other) == printed);
        Ok(others)
    }

    /// Whether iptables finds the rule among the others, which have the same target.
    pub(super) fn is_one_of(&mut self, rule: &Rule, others: &[Rule]) -> Result<bool, Error> {
        if !self.finds_among(rule, others)? {
            return Ok(false);
        }
        // A tool that says yes to everything has said nothing: this one isn't among them.
        let absent = match rule.target() {
            Some("RETURN") => "ACCEPT",
            _ => "RETURN",
        };
        Ok(!self.finds_among(&Rule::verdict(absent), others)?)
    }

    /// Asks iptables, in a chain that is there just for that question.
    fn finds_among(&mut self, rule: &Rule, others: &[Rule]) -> Result<bool, Error> {
        let Ok(spare) = self.spare_chain("spelling") else {
            return Ok(false);
        };
        let chain = HookChain::User(spare.clone());
        let mut builder = Builder::new(self.runner.table);
        builder.passing_chain(&spare, others);
        builder.rule(Command::Check, &chain, rule);
        builder.command(Command::Flush, &chain, Argument::Nothing);
        match self.runner.restore_last_try(&builder.build()) {
            Ok(()) => Ok(true),
            Err(refusal @ Refusal::NotRun(_)) => Err(refusal.into()),
            Err(refusal) if refusal.class() == Some(FailureClass::LockHeld) => Err(refusal.into()),
            // It isn't found, or one of them can't be put at all.
            Err(_) => Ok(false),
        }
    }
}
