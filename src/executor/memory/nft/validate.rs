//! Whether a table holds together: how deep its chains are nested, and from where its targets work.

use std::collections::HashMap;

use crate::executor::memory::dialect::Errno;
use crate::executor::memory::kernel::{Chain, Chains};
use crate::{KernelChain, Table};

/// A kernel chain and the chains under it, at most.
const LEVELS: usize = 16;

/// Follows every rule from each kernel chain, the one created first before the others.
pub(super) fn table(chains: &Chains, table: Table) -> Result<(), Errno> {
    let mut kernel_chains: Vec<_> = table
        .kernel_chains()
        .iter()
        .filter_map(|hook| Some((*hook, chains.get(hook.name())?)))
        .collect();
    kernel_chains.sort_by_key(|(_, chain)| chain.created);
    for (hook, chain) in kernel_chains {
        let mut walk = Walk {
            chains,
            hook,
            passed: HashMap::new(),
        };
        walk.chain(chain, 0)?;
    }
    Ok(())
}

struct Walk<'a> {
    chains: &'a Chains,
    hook: KernelChain,
    /// Chains that were found good, with the greatest depth at which they were.
    passed: HashMap<&'a str, usize>,
}

impl<'a> Walk<'a> {
    fn chain(&mut self, chain: &'a Chain, level: usize) -> Result<(), Errno> {
        if level == LEVELS {
            return Err(Errno::TooManyLinks);
        }
        for entry in chain.live() {
            if entry.rule.refused_from(self.hook) {
                return Err(Errno::Invalid);
            }
            let Some(target) = entry.rule.chain() else {
                continue;
            };
            let passed = self.passed.get(target).is_some_and(|at| *at > level);
            if !passed && let Some(next) = self.chains.get(target) {
                self.chain(next, level + 1)?;
                self.passed.insert(target, level + 1);
            }
        }
        Ok(())
    }
}
