//! The kernel's side of nf_tables: a batch of messages, applied as a whole or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use super::cache::Reference;
use super::validate;
use crate::executor::memory::dialect::{Dialect, Errno, Refusal};
use crate::executor::memory::kernel::Chains;
use crate::executor::memory::rule::Rule;
use crate::{KernelChain, Table};

/// One message, with the line that it came from.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) line: usize,
    pub(super) operation: Operation,
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    AddKernelChain(KernelChain),
    AddChain(String),
    DeleteChain(String),
    Policy(String, Option<bool>),
    Rename {
        from: String,
        has_handle: bool,
        to: String,
    },
    /// Empties a chain, or all.
    Flush(Option<String>),
    Append {
        chain: String,
        id: u64,
        rule: Arc<Rule>,
    },
    Insert {
        chain: String,
        before: Option<Reference>,
        id: u64,
        rule: Arc<Rule>,
    },
    Replace {
        chain: String,
        old: Reference,
        id: u64,
        rule: Arc<Rule>,
    },
    Delete {
        chain: String,
        rule: Reference,
    },
}

impl Operation {
    /// Whether it adds or deletes rules of this chain, or of any.
    pub(super) fn is_on_rules_of(&self, name: Option<&str>) -> bool {
        match self {
            Self::Append { chain, .. }
            | Self::Insert { chain, .. }
            | Self::Replace { chain, .. }
            | Self::Delete { chain, .. } => name.is_none_or(|name| name == chain),
            _ => false,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::AddKernelChain(_) => "CHAIN_ADD",
            Self::AddChain(_) => "CHAIN_USER_ADD",
            Self::DeleteChain(_) => "CHAIN_DEL",
            Self::Policy(..) => "CHAIN_UPDATE",
            Self::Rename { .. } => "CHAIN_RENAME",
            Self::Flush(_) => "RULE_FLUSH",
            Self::Append { .. } => "RULE_APPEND",
            Self::Insert { .. } => "RULE_INSERT",
            Self::Replace { .. } => "RULE_REPLACE",
            Self::Delete { .. } => "RULE_DELETE",
        }
    }

    fn object(&self) -> String {
        match self {
            Self::AddKernelChain(hook) => format!("chain {hook}"),
            Self::AddChain(name) | Self::DeleteChain(name) | Self::Policy(name, _) => {
                format!("chain {name}")
            }
            Self::Rename { to, .. } => format!("chain {to}"),
            Self::Flush(name) => format!("rule in chain {}", name.as_deref().unwrap_or("(null)")),
            Self::Append { chain, .. }
            | Self::Insert { chain, .. }
            | Self::Replace { chain, .. }
            | Self::Delete { chain, .. } => format!("rule in chain {chain}"),
        }
    }
}

/// Applies the messages. If the table wouldn't hold together, they are gone through once more, now
/// with a look at the whole table after each new rule, so that the culprits can be named: each rule
/// after the first one that broke it, innocent or not.
pub(super) fn run(
    chains: &Chains,
    messages: &[Message],
    table: Table,
    dialect: Dialect,
) -> Result<Chains, Vec<Refusal>> {
    if messages.is_empty() {
        return Ok(chains.clone());
    }
    let batch = Batch::new(chains, table, dialect, false);
    let batch = batch.apply(messages)?;
    if !batch.needs_validation || validate::table(&batch.chains, table).is_ok() {
        return Ok(batch.commit());
    }
    let careful = Batch::new(chains, table, dialect, true).apply(messages)?;
    Ok(careful.commit())
}

struct Batch {
    chains: Chains,
    table: Table,
    dialect: Dialect,
    /// Look at the whole table after each new rule.
    careful: bool,
    needs_validation: bool,
    /// Rules that took the place of others, by the old rule's number.
    replaced: HashMap<u64, u64>,
    /// Rules of this batch, by the number that the tool gave them.
    added: HashMap<u64, u64>,
    /// The chain, by its name and its number, and its new name.
    renames: Vec<(String, u64, String)>,
}

impl Batch {
    fn new(chains: &Chains, table: Table, dialect: Dialect, careful: bool) -> Self {
        let mut chains = chains.clone();
        chains.exists = true;
        Self {
            chains,
            table,
            dialect,
            careful,
            needs_validation: false,
            replaced: HashMap::new(),
            added: HashMap::new(),
            renames: Vec::new(),
        }
    }

    /// The kernel goes through all messages even after a refusal.
    fn apply(mut self, messages: &[Message]) -> Result<Self, Vec<Refusal>> {
        let mut refusals = Vec::new();
        for message in messages {
            if let Err(errno) = self.operation(&message.operation) {
                refusals.push(Refusal {
                    line: message.line,
                    operation: message.operation.name(),
                    errno,
                    object: message.operation.object(),
                });
            }
        }
        if refusals.is_empty() {
            Ok(self)
        } else {
            Err(refusals)
        }
    }

    fn operation(&mut self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            // A chain that is there keeps its rules, and gets the policy that comes with the message.
            Operation::AddKernelChain(hook) if self.chains.has(hook.name()) => {
                self.chains.set_policy(hook.name(), false);
            }
            Operation::AddKernelChain(hook) => self.chains.add_kernel_chain(*hook),
            Operation::AddChain(name) => {
                if self.chains.has(name) {
                    return Err(Errno::Exists);
                }
                self.chains.add_chain(name);
            }
            Operation::DeleteChain(name) => {
                let chain = self.chains.get(name).ok_or(Errno::Missing)?;
                if chain.live().next().is_some() || self.chains.references(name) > 0 {
                    return Err(Errno::Busy);
                }
                self.chains.remove_chain(name);
            }
            Operation::Policy(name, drops) => {
                // The message creates the chain if an earlier one has deleted it.
                if !self.chains.has(name)
                    && let Some(hook) = KernelChain::from_name(name)
                {
                    self.chains.add_kernel_chain(hook);
                }
                if let Some(drops) = drops {
                    self.chains.set_policy(name, *drops);
                }
            }
            Operation::Rename {
                from,
                has_handle,
                to,
            } => {
                let chain = self.chains.get(from).filter(|_| *has_handle);
                let created = chain.ok_or(Errno::Missing)?.created;
                if self.chains.has(to) || self.renames.iter().any(|(.., other)| other == to) {
                    return Err(Errno::Exists);
                }
                self.renames.push((from.clone(), created, to.clone()));
            }
            Operation::Flush(Some(name)) => {
                if !self.chains.has(name) {
                    return Err(Errno::Missing);
                }
                self.chains.flush(name);
            }
            Operation::Flush(None) => self.chains.flush_all(),
            Operation::Append { chain, id, rule } => {
                let at = self.chains.get(chain).ok_or(Errno::Missing)?.entries.len();
                self.add(chain, at, *id, rule)?;
            }
            Operation::Insert {
                chain,
                before,
                id,
                rule,
            } => {
                let at = match before {
                    Some(reference) => self.place(chain, *reference)?,
                    None => 0,
                };
                self.add(chain, at, *id, rule)?;
            }
            Operation::Replace {
                chain,
                old,
                id,
                rule,
            } => {
                let Reference::Handle(_) = old else {
                    return Err(Errno::Missing);
                };
                let at = self.place(chain, *old)?;
                self.fits(chain, rule)?;
                self.kill(chain, at)?;
                self.add(chain, at + 1, *id, rule)?;
                if let (Reference::Handle(old), Some(new)) = (old, self.added.get(id)) {
                    self.replaced.insert(*old, *new);
                }
            }
            Operation::Delete { chain, rule } => {
                let at = self.place(chain, *rule)?;
                self.kill(chain, at)?;
            }
        }
        Ok(())
    }

    /// Where the rule stands, dead or alive.
    fn place(&self, chain: &str, reference: Reference) -> Result<usize, Errno> {
        let id = match reference {
            Reference::Handle(id) => Some(self.replaced.get(&id).copied().unwrap_or(id)),
            Reference::InBatch(id) => self.added.get(&id).copied(),
            Reference::Lost => None,
        };
        let entries = &self.chains.get(chain).ok_or(Errno::Missing)?.entries;
        entries
            .iter()
            .position(|entry| Some(entry.id) == id)
            .ok_or(Errno::Missing)
    }

    fn kill(&mut self, chain: &str, at: usize) -> Result<(), Errno> {
        let dead = |chain: &crate::executor::memory::kernel::Chain| chain.entries[at].dead;
        if self.chains.get(chain).is_none_or(dead) {
            return Err(Errno::Missing);
        }
        self.chains.kill_rule(chain, at);
        Ok(())
    }

    /// What the kernel checks of a rule by itself.
    fn fits(&self, chain: &str, rule: &Rule) -> Result<(), Errno> {
        let hook = self.chains.get(chain).ok_or(Errno::Missing)?.hook;
        if rule.refused_in(self.table, self.dialect)
            || hook.is_some_and(|hook| rule.refused_from(hook))
        {
            return Err(if rule.is_queue() && !rule.excludes_any_address() {
                Errno::Missing
            } else {
                Errno::Invalid
            });
        }
        match rule.chain().map(|target| self.chains.get(target)) {
            Some(None) => Err(Errno::Missing),
            Some(Some(target)) if target.hook.is_some() => Err(Errno::NotSupported),
            _ => Ok(()),
        }
    }

    fn add(&mut self, chain: &str, at: usize, number: u64, rule: &Arc<Rule>) -> Result<(), Errno> {
        self.fits(chain, rule)?;
        let id = self.chains.fresh();
        self.added.insert(number, id);
        self.chains.insert_rule(chain, at, id, Arc::clone(rule));
        self.needs_validation |= rule.needs_validation();
        if self.careful {
            validate::table(&self.chains, self.table)?;
        }
        Ok(())
    }

    fn commit(mut self) -> Chains {
        self.chains.bury_all();
        for (at, (from, created, to)) in self.renames.iter().enumerate() {
            // The last name given to a chain is the one that stays. A chain that has been deleted takes
            // its new name along, even if there is another of its old name now.
            let later = &self.renames[at + 1..];
            let there = self.chains.get(from).is_some_and(|c| c.created == *created);
            if there && !later.iter().any(|(_, other, _)| other == created) {
                self.chains.rename(from, to);
            }
        }
        self.chains
    }
}
