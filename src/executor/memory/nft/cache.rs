//! What iptables-nft believes to be in the table while it works through a block.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::KernelChain;
use crate::executor::memory::kernel::Chains;
use crate::executor::memory::rule::Rule;

/// How a message names a rule to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// By the handle that the kernel gave it.
    Handle(u64),
    /// By a number of this batch: the kernel hasn't given it a handle yet.
    InBatch(u64),
    /// By a number that no rule has any more.
    Lost,
}

#[derive(Debug, Clone)]
pub(super) struct CachedRule {
    pub(super) reference: Reference,
    pub(super) rule: Arc<Rule>,
}

#[derive(Debug, Clone)]
pub(super) struct CachedChain {
    pub(super) hook: Option<KernelChain>,
    pub(super) drops: bool,
    /// The handle that the kernel gave the chain is known.
    pub(super) has_handle: bool,
    pub(super) rules: Vec<CachedRule>,
}

/// The chains as the block has changed them, over those of the kernel.
#[derive(Debug)]
pub(super) struct Cache<'a> {
    kernel: &'a Chains,
    /// `None` for a chain that the block has deleted.
    changed: BTreeMap<String, Option<CachedChain>>,
    /// In the order of their creation.
    created: Vec<String>,
    loads_rules: bool,
}

impl<'a> Cache<'a> {
    pub(super) fn new(kernel: &'a Chains, loads_rules: bool) -> Self {
        Self {
            kernel,
            changed: BTreeMap::new(),
            created: Vec::new(),
            loads_rules,
        }
    }

    pub(super) fn table_exists(&self) -> bool {
        self.kernel.exists
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self.changed.get(name) {
            Some(chain) => chain.is_some(),
            None => self.kernel.has(name),
        }
    }

    pub(super) fn get(&mut self, name: &str) -> Option<&mut CachedChain> {
        if !self.changed.contains_key(name) {
            let chain = self.kernel.get(name)?;
            let rules = if self.loads_rules {
                chain
                    .live()
                    .map(|entry| CachedRule {
                        reference: Reference::Handle(entry.id),
                        rule: Arc::clone(&entry.rule),
                    })
                    .collect()
            } else {
                Vec::new()
            };
            let chain = CachedChain {
                hook: chain.hook,
                drops: chain.drops,
                has_handle: true,
                rules,
            };
            self.changed.insert(name.to_owned(), Some(chain));
        }
        self.changed.get_mut(name)?.as_mut()
    }

    pub(super) fn add(&mut self, name: &str, hook: Option<KernelChain>) {
        let chain = CachedChain {
            hook,
            drops: false,
            has_handle: false,
            rules: Vec::new(),
        };
        self.changed.insert(name.to_owned(), Some(chain));
        self.created.push(name.to_owned());
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.changed.insert(name.to_owned(), None);
        self.created.retain(|created| created != name);
    }

    /// All chains: kernel chains by hook, then the others, oldest first.
    pub(super) fn names(&self) -> Vec<String> {
        let listed = self.kernel.listed();
        let (base, user): (Vec<_>, Vec<_>) = listed
            .into_iter()
            .partition(|(_, chain)| chain.hook.is_some());
        let mut base: Vec<_> = base
            .into_iter()
            .map(|(name, chain)| (chain.hook, name.to_owned()))
            .collect();
        let mut rest: Vec<_> = user.into_iter().map(|(name, _)| name.to_owned()).collect();
        for name in &self.created {
            rest.retain(|other| other != name);
            base.retain(|(_, other)| other != name);
            match self.changed.get(name).and_then(Option::as_ref) {
                Some(chain) if chain.hook.is_some() => base.push((chain.hook, name.clone())),
                _ => rest.push(name.clone()),
            }
        }
        base.sort();
        base.into_iter()
            .map(|(_, name)| name)
            .chain(rest)
            .filter(|name| self.has(name))
            .collect()
    }

    pub(super) fn clear_rules(&mut self, name: &str) {
        if let Some(chain) = self.get(name) {
            chain.rules.clear();
        }
    }
}
