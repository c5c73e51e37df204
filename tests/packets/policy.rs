//! A policy that is written in ever other ways, each of which allows and forbids the same.
//!
//! `INPUT` lets through what it isn't told to drop, so that a gap in the hook is a leak. `web-input` accepts the allowed
//! port through `web-allow`, then asks `web-gate`, which drops all ports of the test, the allowed one too, and then
//! accepts: so a gap in `web-allow` is a drop, and a gap in `web-gate` a leak. `web-gate` may be deleted at any time: its
//! stub drops as well. `web-noise` decides nothing of all that; its stub stands behind the allowed port.

use std::collections::BTreeMap;

use iptables_updater::{
    Chain, CommandExecutor, IpVersion, IptablesUpdater, Table, UpdateMode, UpdaterBuilder,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::common::Kernel;
use crate::traffic::{ALLOWED, FORBIDDEN};

const HOOK: &str = "-j web-input";
/// More new chains than the library writes in one piece on nf_tables.
const MANY: usize = 600;

pub struct Acts {
    kernel: Kernel,
    rng: StdRng,
    updater: IptablesUpdater<CommandExecutor>,
    /// Counts the chains that `web-allow` goes to, so that each is a new one.
    fresh: u64,
    /// How often each kind of act was done.
    pub done: BTreeMap<&'static str, u64>,
}

fn builder(mode: UpdateMode) -> UpdaterBuilder {
    let builder = IptablesUpdater::builder(Table::Filter).update_mode(mode);
    builder.chain_prefix("web-")
}

fn chain(name: &str, rules: Vec<String>) -> Chain {
    Chain::new(name, rules).expect("a good chain")
}

fn both(port: &str, verdict: &str) -> [String; 2] {
    ["tcp", "udp"].map(|proto| format!("-p {proto} -m {proto} --dport {port} {verdict}"))
}

impl Acts {
    /// Puts the policy in force.
    pub fn start(kernel: Kernel, seed: u64) -> Self {
        let updater = builder(UpdateMode::Whole)
            .open(kernel.executor())
            .expect("open");
        let mut acts = Self {
            kernel,
            rng: StdRng::seed_from_u64(seed),
            updater,
            fresh: 0,
            done: BTreeMap::new(),
        };
        acts.rewrite_all();
        acts.hook();
        acts
    }

    fn noise(&mut self) -> Vec<String> {
        let count = self.rng.random_range(0..4);
        let mut rule = || {
            let port = self.rng.random_range(1..7_000);
            format!("-p udp -m udp --sport 9 --dport {port} -j RETURN")
        };
        (0..count).map(|_| rule()).collect()
    }

    fn input(&mut self) -> Chain {
        let mut rules = self.noise();
        if self.kernel.version == IpVersion::V6 {
            // Neighbour discovery has to get through as ARP does.
            rules.push("-p ipv6-icmp -j ACCEPT".to_owned());
        }
        rules.push("-j web-allow".to_owned());
        if self.rng.random_bool(0.5) {
            rules.push("-j web-noise".to_owned());
        }
        if self.rng.random_bool(0.3) {
            rules.push(format!("-s {} -j web-gate", self.anywhere()));
        }
        rules.extend(["-j web-gate".to_owned(), "-j ACCEPT".to_owned()]);
        chain("web-input", rules)
    }

    fn anywhere(&self) -> &'static str {
        match self.kernel.version {
            IpVersion::V4 => "10.77.0.0/24",
            IpVersion::V6 => "fd77::/64",
        }
    }

    /// `web-allow`, with or without a chain that didn't exist before.
    fn allow(&mut self) -> Vec<Chain> {
        let mut rules = self.noise();
        let mut chains = Vec::new();
        if self.rng.random_bool(0.5) {
            rules.extend(both(&ALLOWED.to_string(), "-j ACCEPT"));
        } else {
            self.fresh += 1;
            let to = format!("web-to-{}", self.fresh);
            rules.extend(both(&ALLOWED.to_string(), &format!("-j {to}")));
            chains.push(chain(&to, vec!["-j ACCEPT".to_owned()]));
        }
        chains.push(chain("web-allow", rules));
        chains
    }

    fn gate(&mut self) -> Chain {
        let mut rules = self.noise();
        // Twice, so that somebody may take away either.
        rules.extend(both("7000:7999", "-j DROP"));
        rules.extend(both(&FORBIDDEN.to_string(), "-j DROP"));
        rules.extend(self.noise());
        chain("web-gate", rules)
    }

    fn noise_chain(&mut self) -> Chain {
        chain("web-noise", self.noise())
    }

    fn all(&mut self) -> Vec<Chain> {
        let mut chains = self.allow();
        chains.extend([self.input(), self.gate(), self.noise_chain()]);
        chains
    }

    fn rewrite(&mut self, chains: Vec<Chain>) {
        self.updater.rewrite_chains(chains).expect("rewrite");
        // The chains that `web-allow` went to before; the newest may be in use.
        let newest = format!("web-to-{}", self.fresh);
        let names = self.updater.programmed_chains().into_iter();
        let old: Vec<_> = names
            .map(|name| name.as_str().to_owned())
            .filter(|name| name.starts_with("web-to-") && *name != newest)
            .collect();
        if old.len() > 5 {
            self.updater
                .delete_chains(old.iter().map(String::as_str))
                .expect("delete");
        }
    }

    fn rewrite_all(&mut self) {
        let chains = self.all();
        self.rewrite(chains);
    }

    fn hook(&mut self) {
        self.updater
            .ensure_rule_inserted("INPUT", HOOK)
            .expect("hook");
    }

    /// One act, by chance.
    pub fn act(&mut self) {
        // A staged commit takes long, so it is rare; but one there must be.
        let first = self.done.is_empty();
        let what = match self.rng.random_range(0..100) {
            _ if first => {
                self.stage();
                "staged commit"
            }
            0..20 => {
                self.rewrite_all();
                "rewrite of all"
            }
            20..40 => {
                let chains = match self.rng.random_range(0..4) {
                    0 => vec![self.input()],
                    1 => self.allow(),
                    2 => vec![self.gate()],
                    _ => vec![self.noise_chain()],
                };
                self.rewrite(chains);
                "rewrite of one"
            }
            40..55 => {
                let gone = ["web-gate", "web-noise"];
                let gone = &gone[self.rng.random_range(0..2)..];
                self.updater
                    .delete_chains(gone.iter().copied())
                    .expect("delete");
                "delete to stubs"
            }
            55..60 => {
                self.hook();
                "hook"
            }
            60..62 => {
                self.stage();
                "staged commit"
            }
            62..78 => {
                self.damage();
                self.updater.refresh().expect("refresh");
                "damage and refresh"
            }
            78..82 => {
                self.updater.refresh_all().expect("refresh_all");
                "forced refresh"
            }
            82..86 => {
                self.updater.cleanup().expect("cleanup");
                "cleanup"
            }
            _ => {
                self.restart();
                "restart"
            }
        };
        *self.done.entry(what).or_default() += 1;
    }

    /// The gate and the way of the allowed port go through many new chains; they are deleted
    /// once nothing goes there any longer.
    fn stage(&mut self) {
        let run = self.done.get("staged commit").copied().unwrap_or(0);
        let names: Vec<_> = (0..MANY).map(|n| format!("web-m{run}-{n:03}")).collect();
        let mut chains: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(n, name)| {
                // The last drops what the gate drops; the last but one accepts what is allowed.
                let rules = match MANY - n {
                    1 => both("7000:7999", "-j DROP").into(),
                    2 => vec!["-j ACCEPT".to_owned()],
                    _ => vec!["-j RETURN".to_owned()],
                };
                chain(name, rules)
            })
            .collect();
        let gate = names.iter().filter(|name| **name != names[MANY - 2]);
        chains.push(chain(
            "web-gate",
            gate.map(|name| format!("-j {name}")).collect(),
        ));
        let to = format!("-j {}", names[MANY - 2]);
        chains.push(chain("web-allow", both(&ALLOWED.to_string(), &to).into()));
        self.rewrite(chains);
        self.rewrite_all();
        self.updater
            .delete_chains(names.iter().map(String::as_str))
            .expect("delete");
    }

    /// A second program writes what changes no verdict on either port.
    fn damage(&mut self) {
        let forbidden = FORBIDDEN.to_string();
        let lines = match self.rng.random_range(0..6) {
            0 => format!("-I web-gate -p udp -m udp --dport {forbidden} -j DROP"),
            1 => ":web-noise - [0:0]".to_owned(),
            2 => ":web-orphan - [0:0]\n-A web-orphan -j web-noise".to_owned(),
            // Duplicates of the hook, and something of theirs before it.
            3 => format!("-I INPUT {HOOK}\n-I INPUT -p tcp -m tcp --dport 9 -j ACCEPT"),
            4 => "-I web-allow -p tcp -m tcp --dport 9 -j ACCEPT\n-A web-input -j DROP".to_owned(),
            // One of the two ways in which the gate drops, where it is programmed so.
            _ => both("7000:7999", "-j DROP")
                .map(|rule| format!("-D web-gate {rule}"))
                .join("\n"),
        };
        let _ = self.kernel.restore(&format!("*filter\n{lines}\nCOMMIT\n"));
    }

    /// The program dies; a new one finds its chains, programs them one after the other, and cleans up.
    fn restart(&mut self) {
        let modes = [UpdateMode::Whole, UpdateMode::Minimal];
        let mode = modes[self.rng.random_range(0..2)];
        self.updater = builder(mode).open(self.kernel.executor()).expect("open");
        let input = self.input();
        self.rewrite(vec![input]);
        if self.rng.random_bool(0.5) {
            self.hook();
        }
        let allow = self.allow();
        self.rewrite(allow);
        self.hook();
        if self.rng.random_bool(0.5) {
            let gate = self.gate();
            self.rewrite(vec![gate]);
        }
        self.updater.cleanup().expect("cleanup");
    }

    /// The same policy as a program writes it that calls iptables once for each rule.
    pub fn write_rule_by_rule(&mut self) {
        for chain in self.all() {
            let _ = self.kernel.iptables(&format!("-N {}", chain.name()));
            let run = |words: &str| {
                let output = self.kernel.iptables(words);
                assert!(output.status.success(), "{words}: {output:?}");
            };
            run(&format!("-F {}", chain.name()));
            for rule in chain.rules() {
                run(&format!("-A {} {}", chain.name(), rule.as_str()));
            }
        }
        *self.done.entry("rule by rule").or_default() += 1;
    }
}
