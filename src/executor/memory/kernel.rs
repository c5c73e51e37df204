//! The tables of one network namespace: chains, rules, and who refers to whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::dialect::Dialect;
use super::rule::Rule;
use crate::{KernelChain, Table};

/// Everything that the simulated kernel holds.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    pub(super) dialect: Dialect,
    tables: BTreeMap<Table, Arc<Chains>>,
    pub(super) sets: BTreeSet<String>,
}

/// The chains of one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Chains {
    by_name: BTreeMap<Arc<str>, Arc<Chain>>,
    /// How many live rules lead to a chain.
    references: HashMap<Arc<str>, usize>,
    /// Chains in which dead rules may lie.
    graves: BTreeSet<Arc<str>>,
    /// Whether the table was ever written: iptables-nft creates it then.
    pub(super) exists: bool,
    next: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// The kernel chain that it is, if it is one.
    pub(super) hook: Option<KernelChain>,
    /// The policy is `DROP`.
    pub(super) drops: bool,
    pub(super) entries: Vec<Entry>,
    /// Chains are listed in the order of their creation before they are sorted.
    pub(super) created: u64,
}

/// A rule in its chain. Within a transaction a deleted rule stays in its place, dead: later messages
/// may still name it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) rule: Arc<Rule>,
    pub(super) dead: bool,
}

impl Chain {
    pub(super) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.dead)
    }
}

impl Kernel {
    pub(super) fn new(dialect: Dialect) -> Self {
        let tables = Table::ALL
            .into_iter()
            .map(|table| {
                let mut chains = Chains::default();
                if dialect.is_legacy() {
                    for chain in table.kernel_chains() {
                        chains.add_kernel_chain(*chain);
                    }
                }
                (table, Arc::new(chains))
            })
            .collect();
        Self {
            dialect,
            tables,
            sets: BTreeSet::new(),
        }
    }

    pub(super) fn table(&self, table: Table) -> &Chains {
        &self.tables[&table]
    }

    pub(super) fn set_table(&mut self, table: Table, chains: Chains) {
        self.tables.insert(table, Arc::new(chains));
    }

    pub(super) fn snapshot(&self, table: Table) -> Arc<Chains> {
        Arc::clone(&self.tables[&table])
    }

    pub(super) fn put_back(&mut self, table: Table, chains: Arc<Chains>) {
        self.tables.insert(table, chains);
    }
}

impl Chains {
    pub(super) fn get(&self, name: &str) -> Option<&Chain> {
        self.by_name.get(name).map(AsRef::as_ref)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Chain)> {
        self.by_name
            .iter()
            .map(|(name, chain)| (&**name, chain.as_ref()))
    }

    /// The chains as nf_tables lists them: kernel chains by hook, then the others by creation.
    pub(super) fn listed(&self) -> Vec<(&str, &Chain)> {
        let mut chains: Vec<_> = self.iter().collect();
        chains.sort_by_key(|(_, chain)| (chain.hook.is_none(), chain.hook, chain.created));
        chains
    }

    /// The next number that no rule or chain had.
    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn references(&self, name: &str) -> usize {
        self.references.get(name).copied().unwrap_or(0)
    }

    pub(super) fn add_kernel_chain(&mut self, hook: KernelChain) {
        self.add(hook.name(), Some(hook));
    }

    pub(super) fn add_chain(&mut self, name: &str) {
        self.add(name, None);
    }

    fn add(&mut self, name: &str, hook: Option<KernelChain>) {
        let created = self.fresh();
        let chain = Chain {
            hook,
            drops: false,
            entries: Vec::new(),
            created,
        };
        self.by_name.insert(name.into(), Arc::new(chain));
    }

    pub(super) fn set_policy(&mut self, name: &str, drops: bool) {
        if let Some(chain) = self.by_name.get_mut(name) {
            Arc::make_mut(chain).drops = drops;
        }
    }

    /// Removes the chain with whatever is in it.
    pub(super) fn remove_chain(&mut self, name: &str) {
        self.flush(name);
        self.by_name.remove(name);
    }

    /// Gives the chain another name; rules that lead to it lead to it still.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let Some(chain) = self.by_name.remove(from) else {
            return;
        };
        self.by_name.insert(to.into(), chain);
        if let Some(count) = self.references.remove(from) {
            self.references.insert(to.into(), count);
            for chain in self.by_name.values_mut() {
                if chain.entries.iter().any(|e| e.rule.chain() == Some(from)) {
                    for entry in &mut Arc::make_mut(chain).entries {
                        Arc::make_mut(&mut entry.rule).rename_target(from, to);
                    }
                }
            }
        }
    }

    /// Puts a rule at this place among all entries, the dead ones included.
    pub(super) fn insert_rule(&mut self, chain: &str, at: usize, id: u64, rule: Arc<Rule>) {
        let Some(held) = self.by_name.get_mut(chain) else {
            return;
        };
        if let Some(target) = rule.chain() {
            *self.references.entry(target.into()).or_default() += 1;
        }
        let dead = false;
        Arc::make_mut(held)
            .entries
            .insert(at, Entry { id, rule, dead });
    }

    pub(super) fn append_rule(&mut self, chain: &str, id: u64, rule: Arc<Rule>) {
        let at = self.get(chain).map_or(0, |chain| chain.entries.len());
        self.insert_rule(chain, at, id, rule);
    }

    /// Lets the rule at this place die.
    pub(super) fn kill_rule(&mut self, name: &str, at: usize) {
        let Some(chain) = self.by_name.get_mut(name) else {
            return;
        };
        let entry = &mut Arc::make_mut(chain).entries[at];
        if entry.dead {
            return;
        }
        entry.dead = true;
        if !self.graves.contains(name) {
            self.graves.insert(name.into());
        }
        if let Some(target) = entry.rule.chain()
            && let Some(count) = self.references.get_mut(target)
        {
            *count -= 1;
            if *count == 0 {
                self.references.remove(target);
            }
        }
    }

    /// Lets all rules of the chain die.
    pub(super) fn flush(&mut self, chain: &str) {
        let count = self.get(chain).map_or(0, |chain| chain.entries.len());
        for at in 0..count {
            self.kill_rule(chain, at);
        }
    }

    pub(super) fn flush_all(&mut self) {
        let names: Vec<_> = self.by_name.keys().cloned().collect();
        for name in names {
            self.flush(&name);
        }
    }

    /// Buries the dead of the chain.
    pub(super) fn bury(&mut self, name: &str) {
        if self.graves.remove(name)
            && let Some(chain) = self.by_name.get_mut(name)
        {
            Arc::make_mut(chain).entries.retain(|entry| !entry.dead);
        }
    }

    pub(super) fn bury_all(&mut self) {
        while let Some(name) = self.graves.first().cloned() {
            self.bury(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Target;
    use super::*;

    fn jump(name: &str) -> Arc<Rule> {
        Arc::new(Rule {
            target: Target::Chain {
                name: name.to_owned(),
                goto: false,
            },
            ..Rule::default()
        })
    }

    #[test]
    fn references_are_counted_through_deletions_and_renames() {
        let mut chains = Chains::default();
        for name in ["a", "b"] {
            chains.add_chain(name);
        }
        for id in 1..=3 {
            chains.append_rule("a", id, jump("b"));
        }
        assert_eq!(chains.references("b"), 3);
        chains.kill_rule("a", 1);
        chains.kill_rule("a", 1);
        assert_eq!(chains.references("b"), 2);
        chains.rename("b", "c");
        assert_eq!((chains.references("b"), chains.references("c")), (0, 2));
        assert_eq!(chains.get("a").unwrap().live().count(), 2);
        chains.bury("a");
        assert_eq!(chains.get("a").unwrap().entries.len(), 2);
        chains.remove_chain("a");
        assert_eq!(chains.references("c"), 0);
    }
}
