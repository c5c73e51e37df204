//! Turns the commands of a block into messages for the kernel, as far as the tool can judge them.

use std::sync::Arc;

use super::Step;
use super::batch::{Message, Operation};
use super::cache::{Cache, CachedRule, Reference};
use crate::executor::memory::command::{Action, Command, parameter};
use crate::executor::memory::dialect::Stop;
use crate::executor::memory::kernel::Chains;
use crate::executor::memory::rule::Rule;
use crate::{KernelChain, Table};

pub(super) const NO_CHAIN: &str = "No chain/target/match by that name";
const NO_RULE: &str = "Bad rule (does a matching rule exist in that chain?)";

pub(super) struct Preparation<'a> {
    cache: Cache<'a>,
    table: Table,
    messages: Vec<Message>,
    line: usize,
    next: u64,
    /// What the tool says of a missing chain where it doesn't say what it was doing: the words of the
    /// command before.
    missing: &'static str,
}

type Done = Result<(), &'static str>;

impl<'a> Preparation<'a> {
    pub(super) fn new(
        chains: &'a Chains,
        table: Table,
        loads_rules: bool,
        missing: &'static str,
    ) -> Self {
        Self {
            cache: Cache::new(chains, loads_rules),
            table,
            messages: Vec::new(),
            line: 0,
            next: 0,
            missing,
        }
    }

    pub(super) fn step(&mut self, line: usize, step: Step) -> Result<(), Stop> {
        self.line = line;
        self.missing = match &step {
            Step::Policy(..) => "Bad built-in chain name",
            Step::Declare(_) => self.missing,
            Step::Command(command) => match command.action {
                Action::Policy(_) => "Bad built-in chain name",
                Action::Delete | Action::Check | Action::ZeroNumber(_) => NO_RULE,
                Action::Zero | Action::List => self.missing,
                _ => NO_CHAIN,
            },
        };
        let done = match step {
            Step::Declare(name) => {
                self.declare(&name);
                Ok(())
            }
            Step::Policy(name, policy) => self.policy(&name, &policy),
            Step::Command(command) => self.command(command)?,
        };
        done.map_err(|reason| Stop::Failed { line, reason })
    }

    /// What has been prepared, and the words for a missing chain that stay.
    pub(super) fn finish(self) -> (Vec<Message>, &'static str) {
        (self.messages, self.missing)
    }

    fn send(&mut self, operation: Operation) {
        let line = self.line;
        self.messages.push(Message { line, operation });
    }

    fn kernel_chain(&self, name: &str) -> Option<KernelChain> {
        KernelChain::from_name(name).filter(|chain| self.table.has(*chain))
    }

    /// A kernel chain comes to be when it is first used.
    fn use_kernel_chain(&mut self, name: &str) {
        if let Some(hook) = self.kernel_chain(name)
            && !self.cache.has(name)
        {
            self.cache.add(name, Some(hook));
            self.send(Operation::AddKernelChain(hook));
        }
    }

    fn declare(&mut self, name: &str) {
        if let Some(chain) = self.cache.get(name) {
            // The tool forgets the chain's handle, not its rules: a later line may still find them.
            chain.has_handle = false;
            self.send(Operation::Flush(Some(name.to_owned())));
        } else {
            self.cache.add(name, None);
            self.send(Operation::AddChain(name.to_owned()));
        }
    }

    fn policy(&mut self, name: &str, policy: &str) -> Done {
        let drops = match policy {
            "DROP" => Some(true),
            "ACCEPT" => Some(false),
            "-" => None,
            _ => return Err("Bad policy name"),
        };
        if self.kernel_chain(name).is_none() {
            return Err("Bad built-in chain name");
        }
        self.use_kernel_chain(name);
        self.send(Operation::Policy(name.to_owned(), drops));
        Ok(())
    }

    fn command(&mut self, command: Command) -> Result<Done, Stop> {
        let chain = command.chain.as_deref();
        let name = chain.unwrap_or("");
        Ok(match command.action {
            Action::New => self.create(name),
            Action::DeleteChain => self.delete_chains(chain),
            Action::Rename(to) => self.rename(name, &to),
            Action::Flush => self.flush(chain),
            Action::Zero => self.zero(chain),
            Action::ZeroNumber(number) => self.zero_rule(name, number),
            Action::List => match chain {
                Some(name) if !self.cache.has(name) && self.kernel_chain(name).is_none() => {
                    Err(self.missing)
                }
                _ => Ok(()),
            },
            Action::Policy(policy) => self.policy(name, &policy),
            Action::DeleteNumber(number) => self.delete_number(name, number),
            action => {
                for rule in command.rules {
                    let done = self.on_rule(&action, name, rule)?;
                    if done.is_err() {
                        return Ok(done);
                    }
                }
                Ok(())
            }
        })
    }

    fn on_rule(&mut self, action: &Action, name: &str, rule: Rule) -> Result<Done, Stop> {
        if let Some(target) = rule.chain()
            && !self.cache.has(target)
            && self.kernel_chain(target).is_none()
        {
            return Err(parameter(format!("Chain '{target}' does not exist")));
        }
        let rule = Arc::new(rule);
        Ok(match action {
            Action::Append => self.append(name, rule),
            Action::Insert(number) => self.insert(name, *number, rule),
            Action::Replace(number) => self.replace(name, *number, rule),
            Action::Delete => self.find(name, &rule).map(|at| self.delete(name, at)),
            _ => self.find(name, &rule).map(|_| ()),
        })
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn append(&mut self, name: &str, rule: Arc<Rule>) -> Done {
        self.use_kernel_chain(name);
        let id = self.fresh();
        let chain = self.cache.get(name).ok_or(NO_CHAIN)?;
        chain.rules.push(CachedRule {
            reference: Reference::InBatch(id),
            rule: Arc::clone(&rule),
        });
        self.send(Operation::Append {
            chain: name.to_owned(),
            id,
            rule,
        });
        Ok(())
    }

    fn insert(&mut self, name: &str, number: usize, rule: Arc<Rule>) -> Done {
        self.use_kernel_chain(name);
        let id = self.fresh();
        let chain = self.cache.get(name).ok_or(NO_CHAIN)?;
        let at = number - 1;
        let before = match chain.rules.get(at) {
            _ if at == 0 => None,
            Some(found) => Some(found.reference),
            None if chain.rules.get(at - 1).is_some() => return self.append(name, rule),
            None => return Err("Index of insertion too big"),
        };
        chain.rules.insert(
            at,
            CachedRule {
                reference: Reference::InBatch(id),
                rule: Arc::clone(&rule),
            },
        );
        self.send(Operation::Insert {
            chain: name.to_owned(),
            before,
            id,
            rule,
        });
        Ok(())
    }

    fn replace(&mut self, name: &str, number: usize, rule: Arc<Rule>) -> Done {
        let id = self.fresh();
        let chain = self.cache.get(name).ok_or(NO_CHAIN)?;
        let cached = chain
            .rules
            .get_mut(number - 1)
            .ok_or("Index of replacement too big")?;
        let old = cached.reference;
        // The tool goes on naming the rule by the old one's handle, if that had one.
        if matches!(old, Reference::InBatch(_)) {
            cached.reference = Reference::InBatch(id);
        }
        cached.rule = Arc::clone(&rule);
        self.send(Operation::Replace {
            chain: name.to_owned(),
            old,
            id,
            rule,
        });
        Ok(())
    }

    /// The place of the first rule that is the same.
    fn find(&mut self, name: &str, rule: &Rule) -> Result<usize, &'static str> {
        let chain = self.cache.get(name).ok_or(NO_RULE)?;
        chain
            .rules
            .iter()
            .position(|cached| *cached.rule == *rule)
            .ok_or(NO_RULE)
    }

    fn delete(&mut self, name: &str, at: usize) {
        if let Some(chain) = self.cache.get(name) {
            let rule = chain.rules.remove(at).reference;
            let chain = name.to_owned();
            if matches!(rule, Reference::InBatch(_)) {
                // The rule gets a new number to be deleted by. An insertion before it went by the old.
                for message in &mut self.messages {
                    if let Operation::Insert { before, .. } = &mut message.operation
                        && *before == Some(rule)
                    {
                        *before = Some(Reference::Lost);
                    }
                }
            }
            self.send(Operation::Delete { chain, rule });
        }
    }

    fn delete_number(&mut self, name: &str, number: usize) -> Done {
        let chain = self.cache.get(name).ok_or(NO_CHAIN)?;
        if number > chain.rules.len() {
            return Err("Index of deletion too big");
        }
        self.delete(name, number - 1);
        Ok(())
    }

    fn flush(&mut self, chain: Option<&str>) -> Done {
        match chain {
            Some(name) => {
                self.use_kernel_chain(name);
                if !self.cache.has(name) {
                    return Err(NO_CHAIN);
                }
            }
            // Nothing to flush, not even what this block has written.
            None if !self.cache.table_exists() => return Ok(()),
            None => {}
        }
        // What the block did to these rules before needn't be done at all.
        self.messages
            .retain(|message| !message.operation.is_on_rules_of(chain));
        self.send(Operation::Flush(chain.map(str::to_owned)));
        match chain {
            Some(name) => self.cache.clear_rules(name),
            None => {
                for name in self.cache.names() {
                    self.cache.clear_rules(&name);
                }
            }
        }
        Ok(())
    }

    /// A kernel chain's counters are set by a message that carries its policy, as the cache has it: a
    /// policy that the block has set before is undone.
    fn zero(&mut self, chain: Option<&str>) -> Done {
        let names = match chain {
            Some(name) => vec![name.to_owned()],
            None => self.cache.names(),
        };
        for name in names {
            let held = self.cache.get(&name).ok_or(self.missing)?;
            if held.hook.is_some() {
                let drops = held.drops;
                self.send(Operation::Policy(name, Some(drops)));
            }
        }
        Ok(())
    }

    /// A rule's counters are set by putting the rule in its own place.
    fn zero_rule(&mut self, name: &str, number: usize) -> Done {
        let chain = self.cache.get(name).ok_or(NO_RULE)?;
        // That there is no such rule is found, and forgotten.
        match chain
            .rules
            .get(number - 1)
            .map(|found| Arc::clone(&found.rule))
        {
            Some(rule) => self.replace(name, number, rule),
            None => Ok(()),
        }
    }

    fn create(&mut self, name: &str) -> Done {
        if self.cache.has(name) || self.kernel_chain(name).is_some() {
            return Err("Chain already exists");
        }
        self.cache.add(name, None);
        self.send(Operation::AddChain(name.to_owned()));
        Ok(())
    }

    fn delete_chains(&mut self, chain: Option<&str>) -> Done {
        let names = match chain {
            Some(name) => vec![name.to_owned()],
            None => self.cache.names(),
        };
        for name in names {
            let held = self.cache.get(&name).ok_or(NO_CHAIN)?;
            let stays = held.hook.is_some() && (held.drops || !held.rules.is_empty());
            self.cache.remove(&name);
            if !stays {
                self.send(Operation::DeleteChain(name));
            } else if chain.is_some() {
                return Err("Directory not empty");
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Done {
        if self.cache.has(to) || self.kernel_chain(to).is_some() {
            return Err("File exists");
        }
        let has_handle = self.cache.get(from).ok_or(NO_CHAIN)?.has_handle;
        self.send(Operation::Rename {
            from: from.to_owned(),
            has_handle,
            to: to.to_owned(),
        });
        Ok(())
    }
}
