//! The dataplane as a plain map, read from what iptables-save prints by nothing of the library.

use std::collections::{BTreeMap, BTreeSet};

pub const NAMES: [&str; 3] = ["web-a", "web-b", "web-c"];

/// Chains of ours, as bits.
pub type Set = u8;

pub fn has(set: Set, chain: usize) -> bool {
    set & (1 << chain) != 0
}

/// Each chain with its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plane(pub BTreeMap<String, Vec<String>>);

impl Plane {
    pub fn of(saved: &str) -> Self {
        let mut chains = BTreeMap::<String, Vec<String>>::new();
        for line in saved.lines() {
            if let Some(rest) = line.strip_prefix(':') {
                let name = rest.split(' ').next().unwrap();
                chains.insert(name.to_owned(), Vec::new());
            } else if let Some(rest) = line.strip_prefix("-A ") {
                let (chain, rule) = rest.split_once(' ').unwrap();
                chains.get_mut(chain).unwrap().push(rule.to_owned());
            }
        }
        Self(chains)
    }

    pub fn rules(&self, chain: usize) -> Option<&[String]> {
        self.0.get(NAMES[chain]).map(Vec::as_slice)
    }

    /// What isn't ours.
    pub fn foreign(&self) -> BTreeMap<&str, &[String]> {
        let foreign = self.0.iter().filter(|(name, _)| !name.starts_with("web-"));
        foreign
            .map(|(name, rules)| (name.as_str(), rules.as_slice()))
            .collect()
    }

    fn targets<'p>(&'p self, chain: &str) -> impl Iterator<Item = &'p str> + use<'p> {
        let rules = self.0.get(chain).into_iter().flatten();
        rules.filter_map(|rule| rule.rsplit_once("-j ").map(|(_, target)| target))
    }

    /// The chains that are jumped to from these, directly or through others.
    pub fn reached<'p>(&'p self, from: impl IntoIterator<Item = &'p str>) -> BTreeSet<&'p str> {
        let mut queue: Vec<&str> = from.into_iter().collect();
        let mut reached = BTreeSet::new();
        while let Some(chain) = queue.pop() {
            for target in self.targets(chain) {
                if reached.insert(target) {
                    queue.push(target);
                }
            }
        }
        reached
    }

    /// Jumps to chains of ours that aren't there.
    pub fn dangling(&self) -> Vec<(&str, &str)> {
        let jumps = self.0.keys().flat_map(|chain| {
            self.targets(chain)
                .map(move |target| (chain.as_str(), target))
        });
        jumps
            .filter(|(_, target)| target.starts_with("web-") && !self.0.contains_key(*target))
            .collect()
    }

    /// Whether any rule jumps to that chain of ours.
    pub fn is_referred_to(&self, chain: usize) -> bool {
        self.0
            .keys()
            .any(|from| self.targets(from).any(|target| target == NAMES[chain]))
    }

    /// Whether a packet could go round in a circle.
    pub fn has_reachable_circle(&self) -> bool {
        let reachable = self.reached(["INPUT", "FORWARD", "OUTPUT"]);
        reachable
            .into_iter()
            .any(|chain| self.reached([chain]).contains(chain))
    }
}
