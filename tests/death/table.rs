//! What stands in the table, read from iptables-save by nothing of the library, and what may stand there.

use std::collections::{BTreeMap, BTreeSet};

use iptables_updater::Table;

use crate::common::{Kernel, bed::stub};
use crate::program::policy;

/// What other programs have in the table.
pub const OTHERS: &str = "*filter\n:other - [0:0]\n:other-too - [0:0]\n-A INPUT -j other\n\
     -A other -p udp -j other-too\n-A other-too -j ACCEPT\n-A FORWARD -j other-too\nCOMMIT\n";

/// Each chain with its rules.
#[derive(Debug)]
pub struct Found(BTreeMap<String, Vec<String>>);

fn is_ours(chain: &str) -> bool {
    chain.starts_with("web-")
}

fn target(rule: &str) -> &str {
    rule.rsplit_once("-j ").map_or("", |(_, target)| target)
}

/// The number of the policy of which a rule is.
fn number(rule: &str) -> usize {
    let port = rule
        .split_once("--dport ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let port = port.unwrap_or_else(|| panic!("not ours: {rule}"));
    port.parse::<usize>().unwrap() - 1_000
}

/// What each chain of a policy holds.
fn written(policy_number: usize) -> BTreeMap<String, Vec<String>> {
    let chains = policy(policy_number).into_iter();
    let chains = chains.map(|chain| {
        let rules = chain.rules().iter().map(ToString::to_string);
        (chain.name().to_string(), rules.collect())
    });
    chains.collect()
}

impl Found {
    pub fn on(kernel: Kernel) -> Self {
        let mut chains = BTreeMap::<String, Vec<String>>::new();
        for line in kernel.save(Table::Filter).lines() {
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

    /// What others have, without our hook rule.
    pub fn others(&self) -> BTreeMap<String, Vec<String>> {
        let others = self.0.iter().filter(|(name, _)| !is_ours(name));
        let without_hook = others.map(|(name, rules)| {
            let rules = rules.iter().filter(|rule| !is_ours(target(rule)));
            (name.clone(), rules.cloned().collect())
        });
        without_hook.collect()
    }

    /// Whether the table is just that of policy 0.
    pub fn is_wanted(&self, others: &BTreeMap<String, Vec<String>>) -> bool {
        let mut wanted = others.clone();
        let input = wanted.get_mut("INPUT").unwrap();
        input.insert(0, "-j web-dispatch".to_owned());
        wanted.extend(written(0));
        wanted.insert("web-missing".to_owned(), stub("web-missing"));
        self.0 == wanted
    }

    fn reached(&self) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut queue = vec!["INPUT"];
        while let Some(chain) = queue.pop() {
            for rule in self.0.get(chain).into_iter().flatten() {
                if reached.insert(target(rule)) {
                    queue.push(target(rule));
                }
            }
        }
        reached
    }

    /// No chain of ours is half-written, no jump leads nowhere, and what a packet can reach is of one policy.
    pub fn check_whole(&self) {
        let mut policies = BTreeMap::new();
        for (name, rules) in self.0.iter().filter(|(name, _)| is_ours(name)) {
            for to in rules
                .iter()
                .map(|rule| target(rule))
                .filter(|to| is_ours(to))
            {
                assert!(self.0.contains_key(to), "{name} jumps to {to}");
            }
            if *rules == stub(name) {
                continue;
            }
            let number = number(&rules[0]);
            let policy = policies.entry(number).or_insert_with(|| written(number));
            assert_eq!(policy.get(name), Some(rules), "{name}");
        }
        let reached = self.reached().into_iter().filter(|name| is_ours(name));
        let numbers = reached
            .map(|name| self.0.get(name).unwrap_or_else(|| panic!("{name}")))
            .filter(|rules| rules[0].contains("--dport"))
            .map(|rules| number(&rules[0]));
        let numbers: BTreeSet<usize> = numbers.collect();
        assert!(numbers.len() <= 1, "{numbers:?}");
        let hooks = self.0["INPUT"].iter().filter(|rule| is_ours(target(rule)));
        assert!(hooks.count() <= 1);
    }

    /// How many chains of ours no packet can reach.
    pub fn unreached(&self) -> usize {
        let reached = self.reached();
        let ours = self.0.keys().filter(|name| is_ours(name));
        ours.filter(|name| !reached.contains(name.as_str())).count()
    }
}
