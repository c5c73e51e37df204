//! Legacy: each command is done at once on a copy of the table, and the kernel judges the whole.

use std::collections::HashSet;
use std::sync::Arc;

use super::command::{Action, Command, MAX_NAME, VERDICTS, parameter};
use super::dialect::{Dialect, Stop};
use super::input::no_policy;
use super::kernel::Chains;
use super::rule::{Rule, Target};
use crate::{KernelChain, Table, excerpt};

/// The most bytes of a name that `-E` gives, and how many of them the kernel keeps: more than a chain
/// may have that is declared.
const MAX_NEW_NAME: (usize, usize) = (31, 29);

/// The copy of a table that a block works on.
#[derive(Debug)]
pub(super) struct Block {
    chains: Chains,
    table: Table,
    dialect: Dialect,
    /// Rules with a greater number are new: only those can be refused.
    before: u64,
}

impl Block {
    pub(super) fn new(chains: &Chains, table: Table, dialect: Dialect) -> Self {
        let mut chains = chains.clone();
        let before = chains.fresh();
        Self {
            chains,
            table,
            dialect,
            before,
        }
    }

    pub(super) fn declare(
        &mut self,
        line: usize,
        name: &str,
        policy: Option<&str>,
    ) -> Result<(), Stop> {
        if name.len() > MAX_NAME {
            return Err(parameter(format!(
                "Invalid chain name `{name}' ({MAX_NAME} chars max)"
            )));
        }
        let is_kernel_chain = self.is_kernel_chain(name);
        if !is_kernel_chain {
            if self.chains.has(name) {
                self.flush(name);
            } else if VERDICTS.contains(&name) {
                return Err(parameter(format!(
                    "error creating chain '{name}':File exists"
                )));
            } else {
                self.chains.add_chain(name);
            }
        }
        let policy = policy.ok_or_else(|| no_policy(self.dialect, line))?;
        if policy == "-" {
            return Ok(());
        }
        self.policy(name, policy).map_err(|reason| {
            Stop::Other(format!(
                "Can't set policy `{policy}' on `{name}' line {line}: {reason}"
            ))
        })
    }

    /// Does a command; a warning may be the answer.
    pub(super) fn run(&mut self, line: usize, command: Command) -> Result<String, Stop> {
        let failed = || Stop::Failed { line, reason: "" };
        let chain = command.chain.as_deref();
        let mut warning = String::new();
        let mut rules = Vec::new();
        for rule in command.rules {
            rules.push(Arc::new(self.resolve(rule, &mut warning)?));
        }
        let name = chain.unwrap_or("");
        let done = match command.action {
            Action::Append
            | Action::Insert(_)
            | Action::Replace(_)
            | Action::Delete
            | Action::Check => rules
                .into_iter()
                .all(|rule| self.on_rule(&command.action, name, rule)),
            Action::DeleteNumber(number) => self.delete_at(name, number - 1),
            Action::New => self.create(name),
            Action::DeleteChain => self.delete_chains(chain),
            Action::Rename(to) => self.rename(name, &to),
            Action::Flush if chain.is_some() => self.chains.has(name) && self.flush(name),
            Action::Flush => {
                self.chains.flush_all();
                self.chains.bury_all();
                true
            }
            Action::ZeroNumber(number) => self
                .chains
                .get(name)
                .is_some_and(|chain| number <= chain.entries.len()),
            Action::Zero | Action::List => chain.is_none_or(|name| self.chains.has(name)),
            Action::Policy(policy) => self.policy(name, &policy).is_ok(),
        };
        if done { Ok(warning) } else { Err(failed()) }
    }

    /// Finds out what a target's name means: a chain comes before an extension.
    fn resolve(&self, mut rule: Rule, warning: &mut String) -> Result<Rule, Stop> {
        match &rule.target {
            Target::Extension(target) if self.chains.has(target.name) => {
                *warning = format!("Warning: using chain {}, not extension\n", target.name);
                rule.target = Target::Chain {
                    name: target.name.to_owned(),
                    goto: false,
                };
            }
            Target::Chain { name, goto: true } if !self.chains.has(name) => {
                return Err(parameter(format!("goto '{name}' is not a chain")));
            }
            Target::Chain { name, goto: false } if !self.chains.has(name) => {
                return Err(parameter(format!(
                    "Couldn't load target `{name}':No such file or directory\n"
                )));
            }
            _ => {}
        }
        Ok(rule)
    }

    fn on_rule(&mut self, action: &Action, name: &str, rule: Arc<Rule>) -> bool {
        let Some(chain) = self.chains.get(name) else {
            return false;
        };
        // No rule leads to a kernel chain.
        if rule
            .chain()
            .is_some_and(|target| self.is_kernel_chain(target))
        {
            return false;
        }
        let count = chain.entries.len();
        let same = chain.entries.iter().position(|entry| entry.rule == rule);
        let id = self.chains.fresh();
        match action {
            Action::Append => self.chains.append_rule(name, id, rule),
            Action::Insert(number) if number - 1 <= count => {
                self.chains.insert_rule(name, number - 1, id, rule);
            }
            Action::Replace(number) if *number <= count => {
                self.delete_at(name, number - 1);
                self.chains.insert_rule(name, number - 1, id, rule);
            }
            Action::Delete => return same.is_some_and(|at| self.delete_at(name, at)),
            Action::Check => return same.is_some(),
            _ => return false,
        }
        true
    }

    fn delete_at(&mut self, name: &str, at: usize) -> bool {
        let there = self
            .chains
            .get(name)
            .is_some_and(|chain| at < chain.entries.len());
        if there {
            self.chains.kill_rule(name, at);
            self.chains.bury(name);
        }
        there
    }

    fn is_kernel_chain(&self, name: &str) -> bool {
        self.chains
            .get(name)
            .is_some_and(|chain| chain.hook.is_some())
    }

    fn flush(&mut self, name: &str) -> bool {
        self.chains.flush(name);
        self.chains.bury(name);
        true
    }

    fn create(&mut self, name: &str) -> bool {
        let fits = !self.chains.has(name);
        if fits {
            self.chains.add_chain(name);
        }
        fits
    }

    fn delete_chains(&mut self, name: Option<&str>) -> bool {
        let names: Vec<_> = match name {
            Some(name) => vec![name.to_owned()],
            None => self
                .chains
                .iter()
                .filter(|(_, chain)| chain.hook.is_none())
                .map(|(name, _)| name.to_owned())
                .collect(),
        };
        names.iter().all(|name| {
            let free = self
                .chains
                .get(name)
                .is_some_and(|chain| chain.hook.is_none() && chain.entries.is_empty())
                && self.chains.references(name) == 0;
            if free {
                self.chains.remove_chain(name);
            }
            free
        })
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let fits = self.chains.has(from)
            && !self.is_kernel_chain(from)
            && !self.chains.has(to)
            && !VERDICTS.contains(&to)
            && to.len() <= MAX_NEW_NAME.0;
        if fits {
            self.chains
                .rename(from, excerpt::beginning(to, MAX_NEW_NAME.1));
        }
        fits
    }

    fn policy(&mut self, name: &str, policy: &str) -> Result<(), &'static str> {
        if !self.is_kernel_chain(name) {
            return Err("Bad built-in chain name");
        }
        let drops = match policy {
            "DROP" => true,
            "ACCEPT" => false,
            _ => return Err("Bad policy name"),
        };
        self.chains.set_policy(name, drops);
        Ok(())
    }

    pub(super) fn commit(self) -> Result<Chains, Stop> {
        let refused = self.chains.iter().any(|(_, chain)| {
            chain.entries.iter().any(|entry| {
                entry.id > self.before && entry.rule.refused_in(self.table, self.dialect)
            })
        });
        let fits = !refused
            && self
                .table
                .kernel_chains()
                .iter()
                .all(|hook| fits_from(&self.chains, *hook));
        if fits {
            Ok(self.chains)
        } else {
            Err(Stop::Bare)
        }
    }
}

/// Follows the rules from a kernel chain as far as a packet could: no chain may lead back to one that
/// led to it, and no target may be out of its place. What stands after a rule that takes every packet
/// isn't looked at.
fn fits_from(chains: &Chains, hook: KernelChain) -> bool {
    let mut done = HashSet::new();
    let mut way = vec![(hook.name(), 0)];
    let mut on_way = HashSet::from([hook.name()]);
    while let Some((name, at)) = way.last_mut() {
        let next = chains.get(name).and_then(|chain| chain.entries.get(*at));
        *at += 1;
        match next {
            Some(entry) if !entry.rule.ends_chain() => {
                if entry.rule.refused_from(hook) {
                    return false;
                }
                let Some(target) = entry.rule.chain() else {
                    continue;
                };
                if on_way.contains(target) {
                    return false;
                }
                if !done.contains(target) {
                    on_way.insert(target);
                    way.push((target, 0));
                }
            }
            _ => {
                let name = *name;
                on_way.remove(name);
                done.insert(name);
                way.pop();
            }
        }
    }
    true
}
