//! A policy in ever new forms, each of which accepts what is allowed and drops what is forbidden, and all that can be done
//! to it without a gap.

use std::collections::BTreeMap;

use iptables_updater::{Chain, CommandExecutor, IptablesUpdater, Request, Table, UpdateMode};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::common::Kernel;

type Updater = IptablesUpdater<CommandExecutor>;

/// How many chains are more than one piece of a staged commit.
const MANY: usize = 700;

/// What decides of a packet if our chains don't: just the wrong thing.
pub const OTHERWISE: &str = "*filter\n\
    -A INPUT -p udp --dport 7000:7003 -j DROP\n-A INPUT -p tcp --dport 7000:7003 -j DROP\n\
    -A INPUT -p udp --dport 7100:7103 -j ACCEPT\n-A INPUT -p tcp --dport 7100:7103 -j ACCEPT\nCOMMIT\n";

pub const ALLOW: [&str; 2] = [
    "-p udp --dport 7000:7003 -j ACCEPT",
    "-p tcp --dport 7000:7003 -j ACCEPT",
];
pub const FORBID: [&str; 2] = [
    "-p udp --dport 7100:7103 -j DROP",
    "-p tcp --dport 7100:7103 -j DROP",
];

/// The updater under test, and how often each thing was done.
pub struct Policy {
    kernel: Kernel,
    updater: Option<Updater>,
    random: StdRng,
    /// The chains beside `web-input` of the form in force.
    parts: Vec<String>,
    next: usize,
    pub acts: BTreeMap<&'static str, usize>,
}

fn open(kernel: Kernel, mode: UpdateMode) -> Updater {
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .update_mode(mode)
        .open(kernel.executor())
        .expect("open")
}

fn chain(name: &str, rules: Vec<String>) -> Chain {
    Chain::new(name, rules).expect("a chain")
}

fn owned(rules: [&str; 2]) -> Vec<String> {
    rules.map(str::to_owned).to_vec()
}

impl Policy {
    /// Puts the policy in force.
    pub fn new(kernel: Kernel) -> Self {
        let mut policy = Self {
            kernel,
            updater: Some(open(kernel, UpdateMode::Whole)),
            random: StdRng::seed_from_u64(1),
            parts: Vec::new(),
            next: 0,
            acts: BTreeMap::new(),
        };
        policy.rewrite(0);
        policy.hook();
        policy
    }

    fn updater(&mut self) -> &mut Updater {
        self.updater.as_mut().expect("it is open")
    }

    fn hook(&mut self) {
        let hooked = self.updater().ensure_rule_inserted("INPUT", "-j web-input");
        hooked.expect("hooked");
    }

    /// Does one thing, chosen by chance; what that was.
    pub fn act(&mut self) -> &'static str {
        type Act = fn(&mut Policy);
        let acts: [(&'static str, Act); 8] = [
            ("rewrite", |policy| policy.rewrite(0)),
            ("rewrite a part", Self::rewrite_part),
            ("stub", Self::stub),
            ("stage", |policy| policy.rewrite(MANY)),
            ("refresh", Self::refresh),
            ("refresh all", Self::refresh_all),
            ("restart", Self::restart),
            ("hook again", Self::hook),
        ];
        // The big one less often: it takes a hundred times as long as the others.
        let weights = [8, 8, 4, 1, 4, 2, 2, 2];
        let mut draw = self.random.random_range(0..weights.iter().sum());
        let place = weights.iter().position(|weight| {
            let hit = draw < *weight;
            draw = if hit { 0 } else { draw - weight };
            hit
        });
        let (name, act) = acts[place.expect("one of them")];
        act(self);
        *self.acts.entry(name).or_default() += 1;
        name
    }

    /// All chains of a new form: the decisions nested somewhere below `web-input`, behind so many chains more, each of which
    /// is reached.
    fn form(&mut self, more: usize) -> Vec<Chain> {
        let mut name = |kind: &str| {
            self.next += 1;
            format!("web-{kind}-{}", self.next)
        };
        let (allow, forbid, gate) = (name("allow"), name("forbid"), name("gate"));
        let mut chains = vec![
            chain(&allow, owned(ALLOW)),
            chain(&forbid, owned(FORBID)),
            chain(&gate, owned(FORBID)),
        ];
        let mut input = Vec::new();
        for _ in 0..more {
            let name = name("more");
            input.push(format!("-p sctp -j {name}"));
            chains.push(chain(&name, vec!["-j RETURN".to_owned()]));
        }
        let mut allowed = allow;
        for _ in 0..self.random.random_range(0..4) {
            self.next += 1;
            let outer = format!("web-outer-{}", self.next);
            chains.push(chain(&outer, vec![format!("-j {allowed}")]));
            allowed = outer;
        }
        let mut decisions = vec![format!("-j {allowed}"), format!("-j {forbid}")];
        if self.random.random_bool(0.5) {
            decisions.swap(0, 1);
        }
        input.extend(decisions);
        // Only what is forbidden comes here, so that a stub hits nothing else.
        for protocol in ["udp", "tcp"] {
            input.push(format!("-p {protocol} --dport 7100:7103 -j {gate}"));
        }
        chains.push(chain("web-input", input));
        chains
    }

    /// A new form in the place of the old, in one commit.
    fn rewrite(&mut self, more: usize) {
        let chains = self.form(more);
        let names = chains.iter().map(|chain| chain.name().to_string());
        let parts = names.filter(|name| name != "web-input").collect();
        let old = std::mem::replace(&mut self.parts, parts);
        let requests = [
            Request::rewrite(chains),
            Request::delete(old).expect("names"),
        ];
        for result in self.updater().apply(&requests) {
            result.expect("applied");
        }
    }

    /// New contents of the chain that accepts, which decide the same.
    fn rewrite_part(&mut self) {
        let allow = self.part("web-allow");
        let mut rules = owned(ALLOW);
        for n in 0..self.random.random_range(0..4) {
            rules.insert(n % 3, format!("-p sctp --dport {n} -j DROP"));
        }
        let rewritten = self.updater().rewrite_chains([chain(&allow, rules)]);
        rewritten.expect("rewritten");
    }

    fn part(&self, kind: &str) -> String {
        let mut parts = self.parts.iter();
        parts
            .find(|part| part.starts_with(kind))
            .expect("it has one")
            .clone()
    }

    /// The gate becomes a stub, and is programmed again.
    fn stub(&mut self) {
        let gate = self.part("web-gate");
        let changes = self.updater().delete_chains([&gate]).expect("stubbed");
        assert_eq!(changes.stubbed, [gate.as_str()]);
        let again = [chain(&gate, owned(FORBID))];
        self.updater().rewrite_chains(again).expect("rewritten");
    }

    /// Somebody else writes into our chains what decides nothing of the test's traffic, and a refresh removes it.
    fn refresh(&mut self) {
        let (allow, gate) = (self.part("web-allow"), self.part("web-gate"));
        self.kernel.must_restore(&format!(
            "*filter\n-I {allow} -p sctp --dport 9 -j DROP\n-F {gate}\nCOMMIT\n"
        ));
        // The first reading learns what iptables prints, if nobody had written in between.
        let drift = self.updater().refresh().expect("refreshed");
        assert!(!drift.changed.is_empty());
    }

    fn refresh_all(&mut self) {
        self.updater().refresh_all().expect("refreshed");
    }

    /// A new process, in either mode: opens, programs the same policy in another form, puts the hook, cleans up.
    fn restart(&mut self) {
        self.updater = None;
        let modes = [UpdateMode::Whole, UpdateMode::Minimal];
        let mode = modes[self.random.random_range(0..2)];
        self.updater = Some(open(self.kernel, mode));
        let chains = self.form(0);
        let names = chains.iter().map(|chain| chain.name().to_string());
        self.parts = names.filter(|name| name != "web-input").collect();
        self.updater().rewrite_chains(chains).expect("rewritten");
        self.hook();
        let report = self.updater().cleanup().expect("cleaned up");
        assert!(!report.deleted.is_empty() && report.kept.is_empty());
        let chains = self.kernel.chains(Table::Filter, "web-");
        assert_eq!(chains.len(), self.parts.len() + 1);
    }
}
