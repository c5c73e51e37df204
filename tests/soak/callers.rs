//! The threads that ask: each has chains and hook rules of its own, so its own order decides what is wanted of it.

use std::collections::BTreeSet;

use iptables_updater::worker::{Handle, Ticket};
use iptables_updater::{Chain, Error};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::faults::Faulty;
use crate::second::Contents;

/// How often a request is made before its failure is one of the test.
const TRIES: usize = 10;

pub struct Caller {
    number: usize,
    rng: StdRng,
    chains: Contents,
    hooks: BTreeSet<String>,
    under_way: Vec<(Ask, Ticket<()>)>,
    pub asked: u64,
    /// Requests that failed and were made again: the second program was quicker than a few tries.
    pub repeated: u64,
}

#[derive(Debug, Clone)]
enum Ask {
    Rewrite(String, Vec<String>),
    Delete(String),
    Ensure(String),
    Remove(String),
}

impl Ask {
    fn make(&self, handle: &Handle<Faulty>) -> Ticket<()> {
        match self {
            Self::Rewrite(name, rules) => {
                handle.rewrite_chains_later([Chain::new(name.as_str(), rules).unwrap()])
            }
            Self::Delete(name) => handle.delete_chains_later([name.as_str()]),
            Self::Ensure(rule) => handle.ensure_rule_inserted_later("INPUT", rule.as_str()),
            Self::Remove(rule) => handle.ensure_rule_removed_later("INPUT", rule.as_str()),
        }
    }
}

impl Caller {
    pub fn new(number: usize, seed: u64) -> Self {
        Self {
            number,
            rng: StdRng::seed_from_u64(seed.wrapping_mul(1_000) + number as u64),
            chains: Contents::new(),
            hooks: BTreeSet::new(),
            under_way: Vec::new(),
            asked: 0,
            repeated: 0,
        }
    }

    fn chain(&self, at: usize) -> String {
        format!("web-{}-{at}", self.number)
    }

    /// One request. Chain 0 is where hook rules jump to: it is there before they are, and never deleted.
    pub fn act(&mut self, handle: &Handle<Faulty>) {
        let hooked = self.chain(0);
        let port = 100 * (self.number + 1) + self.rng.random_range(0..3);
        // Told apart by ip6tables 1.8.9, too, which ignores what a match has to say.
        let hook = format!("-i eth{port} -p tcp -j {hooked}");
        let at = self.rng.random_range(0..8);
        let ready = self.chains.contains_key(&hooked);
        let ask = match self.rng.random_range(0..100) {
            _ if !ready => Ask::Rewrite(hooked, self.rules(0)),
            0..15 => Ask::Delete(self.chain(at.max(1))),
            15..25 => Ask::Ensure(hook),
            25..32 => Ask::Remove(hook),
            32..34 => return self.must("refresh", |_| handle.refresh()),
            34..35 => return self.must("refresh_all", |_| handle.refresh_all()),
            35..37 => return self.must("cleanup", |_| handle.cleanup()),
            37..42 => return self.pass_by(handle),
            _ => Ask::Rewrite(self.chain(at), self.rules(at)),
        };
        self.ask(handle, ask);
        if self.rng.random_bool(0.2) {
            self.settle(handle);
        }
    }

    /// A chain of a name that never was and never comes again: what is kept by name would grow.
    fn pass_by(&mut self, handle: &Handle<Faulty>) {
        let name = format!("web-{}-once-{}", self.number, self.asked);
        let rules = self.rules(0);
        self.ask(handle, Ask::Rewrite(name.clone(), rules));
        // Apart, or the batch would come to nothing.
        self.settle(handle);
        self.ask(handle, Ask::Delete(name));
    }

    fn ask(&mut self, handle: &Handle<Faulty>, ask: Ask) {
        match ask.clone() {
            Ask::Rewrite(name, rules) => drop(self.chains.insert(name, rules)),
            Ask::Delete(name) => drop(self.chains.remove(&name)),
            Ask::Ensure(rule) => drop(self.hooks.insert(rule)),
            Ask::Remove(rule) => drop(self.hooks.remove(&rule)),
        }
        self.asked += 1;
        let ticket = ask.make(handle);
        self.under_way.push((ask, ticket));
    }

    fn rules(&mut self, at: usize) -> Vec<String> {
        let count = self.rng.random_range(0..4);
        (0..count)
            .map(|_| {
                let port = self.rng.random_range(1..1_000);
                match self.rng.random_range(0..3) {
                    0 => format!("-p tcp -m tcp --dport {port} -j ACCEPT"),
                    1 => format!("-p udp -m udp --sport {port} -j DROP"),
                    // Only to chains further on: no circles.
                    _ if at < 7 => {
                        let further = self.rng.random_range(at + 1..8);
                        format!("-j {}", self.chain(further))
                    }
                    _ => "-j RETURN".to_owned(),
                }
            })
            .collect()
    }

    /// Waits for everything that is under way. From the first that failed on, all is made again, one by one and in
    /// order.
    pub fn settle(&mut self, handle: &Handle<Faulty>) {
        let under_way = std::mem::take(&mut self.under_way);
        let mut again = Vec::new();
        for (ask, ticket) in under_way {
            let result = ticket.wait();
            if let Err(error) = &result {
                println!("  to be made again: {ask:?}: {error}");
            }
            if result.is_err() || !again.is_empty() {
                again.push(ask);
            }
        }
        for ask in again {
            self.repeated += 1;
            self.must("a request again", |_| ask.make(handle).wait());
        }
    }

    /// Calls until it succeeds; it must within a few tries.
    fn must<T>(&mut self, what: &str, call: impl Fn(&Self) -> Result<T, Error>) {
        self.asked += 1;
        let mut errors = Vec::new();
        while let Err(error) = call(self) {
            println!("  to be made again: {what}: {error}");
            errors.push(error.to_string());
            self.repeated += 1;
            assert!(errors.len() < TRIES, "{what}: {errors:#?}");
        }
    }
}

/// What should stand of what all have asked for: with the stubs, and the hook rules in `INPUT`.
pub fn wanted(callers: &[Caller]) -> Contents {
    let mut wanted = Contents::new();
    let mut hooks = Vec::new();
    for caller in callers {
        wanted.extend(caller.chains.clone());
        hooks.extend(caller.hooks.iter().cloned());
    }
    let jumps = wanted.values().flatten();
    let targets = jumps.filter_map(|rule| rule.strip_prefix("-j "));
    let targets: Vec<_> = targets
        .filter(|t| *t != "RETURN")
        .map(str::to_owned)
        .collect();
    for chain in targets {
        let stub = format!("-m comment --comment \"missing chain {chain}\" -j DROP");
        wanted.entry(chain).or_insert_with(|| vec![stub]);
    }
    hooks.sort();
    wanted.insert("INPUT".to_owned(), hooks);
    wanted
}
