//! Random requests of eight threads for a long time, with faults in every tenth run of iptables and a second program in
//! the table: memory, threads and descriptors stay flat, and the table is exact in the end.
//!
//! `IPTABLES_UPDATER_SOAK_SECONDS` is how long each kernel is soaked (6 by default; by hand 1,800);
//! `IPTABLES_UPDATER_SOAK_SEED` begins with other numbers.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use common::{Kernel, each_kernel};
use iptables_updater::worker::{self, Handle, WorkerConfig};
use iptables_updater::{
    Backend, Chain, CommandExecutor, Error, Executor, ExecutorError, Exit, IpVersion,
    IptablesUpdater, Outcome, Table, UpdateMode,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const THREADS: u64 = 8;
/// The time is parted into so many rounds, after each of which everything is at rest and counted.
const ROUNDS: u32 = 6;

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// iptables, one run in ten of which is stopped or killed.
struct Faulty {
    inner: CommandExecutor,
    random: StdRng,
}

impl Executor for Faulty {
    fn confuses_rules(&self) -> bool {
        self.inner.confuses_rules()
    }

    fn ip_version(&self) -> IpVersion {
        self.inner.ip_version()
    }

    fn backend(&self) -> Backend {
        self.inner.backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        let killed = |stdout: Vec<u8>| Outcome {
            exit: Exit::Signal(9),
            ..Outcome::success(stdout)
        };
        match self.random.random_range(0..30) {
            0 => Ok(Outcome::failure(
                4,
                "Another app is currently holding the xtables lock; waited 10s.\n",
            )),
            // Before it did anything, or after it had done everything.
            1 => Ok(killed(Vec::new())),
            2 => {
                let outcome = self.inner.restore(input)?;
                Ok(if outcome.exit.is_success() {
                    killed(outcome.stdout)
                } else {
                    outcome
                })
            }
            _ => self.inner.restore(input),
        }
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        let mut outcome = self.inner.save(table)?;
        if self.random.random_range(0..30) == 0 {
            outcome.stdout.truncate(outcome.stdout.len() / 2);
        }
        Ok(outcome)
    }
}

/// What one thread wants of the table: its chains and its hooks are its own.
#[derive(Debug, Clone, Default)]
struct Wanted {
    chains: BTreeMap<String, Vec<String>>,
    hooks: BTreeSet<String>,
}

/// A thread that asks for things, and remembers what it asked for.
struct Client {
    number: u64,
    random: StdRng,
    wanted: Wanted,
}

impl Client {
    /// Other contents for a chain: now and then all new, else with one rule replaced or added.
    fn contents(&mut self, chain: &str, place: u64) -> Vec<String> {
        let old = self.wanted.chains.get(chain).cloned().unwrap_or_default();
        if old.len() < 10 || self.random.random_bool(0.2) {
            let count = self.random.random_range(0..15);
            return (0..count).map(|_| self.rule(place)).collect();
        }
        let mut new = old;
        let at = self.random.random_range(0..new.len());
        if self.random.random_bool(0.5) {
            new.remove(at);
        }
        let rule = self.rule(place);
        new.insert(at, rule);
        new
    }

    fn rule(&mut self, place: u64) -> String {
        let port = self.random.random_range(1..1000);
        match self.random.random_range(0..3) {
            0 => format!("-p tcp -m tcp --dport {port} -j ACCEPT"),
            1 => format!("-p udp -m udp --sport {port} -j DROP"),
            // Only to chains further on: no circles.
            _ if place < 5 => {
                let to = self.random.random_range(place + 1..6);
                format!("-j web-{}-{to}", self.number)
            }
            _ => "-j RETURN".to_owned(),
        }
    }

    /// Asks for something, again until it is done. How often it failed.
    fn act(&mut self, worker: &Handle<Faulty>) -> u64 {
        let place = self.random.random_range(0..6);
        let chain = format!("web-{}-{place}", self.number);
        let hook = format!("-i eth{place} -j web-{}-0", self.number);
        match self.random.random_range(0..40) {
            0..24 => {
                let rules = self.contents(&chain, place);
                self.wanted.chains.insert(chain.clone(), rules.clone());
                again(|| worker.rewrite_chains([Chain::new(chain.as_str(), &rules)?]))
            }
            // What a hook leads to can't be deleted.
            24..30 if place > 0 || self.wanted.hooks.is_empty() => {
                self.wanted.chains.remove(&chain);
                again(|| worker.delete_chains([chain.as_str()]))
            }
            24..34 => {
                // A hook needs its chain.
                let chain = format!("web-{}-0", self.number);
                let rules = self.wanted.chains.entry(chain.clone()).or_default().clone();
                self.wanted.hooks.insert(hook.clone());
                again(|| {
                    worker.rewrite_chains([Chain::new(chain.as_str(), &rules)?])?;
                    worker.ensure_rule_inserted("INPUT", hook.as_str())
                })
            }
            34..37 => {
                self.wanted.hooks.remove(&hook);
                again(|| worker.ensure_rule_removed("INPUT", hook.as_str()))
            }
            37 => again(|| worker.refresh().map(drop)),
            38 => again(|| worker.cleanup().map(drop)),
            _ => again(|| worker.refresh_all().map(drop)),
        }
    }
}

fn again(mut ask: impl FnMut() -> Result<(), Error>) -> u64 {
    for failures in 0..50 {
        match ask() {
            Ok(()) => return failures,
            Err(error) => log::debug!("{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("it failed 50 times: {}", ask().unwrap_err());
}

/// What another program does: its own chain, and damage to ours.
fn second_writer(kernel: Kernel, random: &mut StdRng) {
    match random.random_range(0..4) {
        0 => drop(kernel.restore("*filter\n-F web-3-0\nCOMMIT\n")),
        1 => drop(kernel.restore("*filter\n-A web-4-1 -p sctp -j DROP\nCOMMIT\n")),
        2 => drop(kernel.restore("*filter\n-D INPUT 1\nCOMMIT\n")),
        _ => {}
    }
    let port = random.random_range(1..100);
    kernel.must_restore(&format!(
        "*filter\n:their-chain - [0:0]\n-A their-chain -p udp -m udp --dport {port} -j ACCEPT\nCOMMIT\n"
    ));
}

/// What this process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    kibibytes: usize,
    threads: usize,
    descriptors: usize,
}

fn held() -> Held {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let words = line.expect("the line").split_whitespace().next();
        words.expect("a word").parse().expect("a number")
    };
    Held {
        kibibytes: number("VmRSS:"),
        threads: number("Threads:"),
        descriptors: fs::read_dir("/proc/self/fd").expect("procfs").count(),
    }
}

/// What the table should hold of ours.
fn expected(clients: &[Client]) -> BTreeMap<String, Vec<String>> {
    let wanted = clients.iter().map(|client| client.wanted.clone());
    let chains = wanted.flat_map(|wanted| wanted.chains);
    let mut expected: BTreeMap<String, Vec<String>> = chains.collect();
    let jumps = expected.values().flatten();
    let targets = jumps.filter_map(|rule| rule.strip_prefix("-j "));
    let targets = targets
        .filter(|target| *target != "RETURN")
        .map(str::to_owned);
    for chain in targets.collect::<Vec<_>>() {
        let stub = format!("-m comment --comment \"missing chain {chain}\" -j DROP");
        expected.entry(chain).or_insert_with(|| vec![stub]);
    }
    expected
}

fn found(kernel: Kernel) -> BTreeMap<String, Vec<String>> {
    let chains = kernel.chains(Table::Filter, "web-").into_iter();
    let rules = chains.map(|chain| {
        let rules = kernel.rules(Table::Filter, &chain).expect("it is there");
        (chain, rules)
    });
    rules.collect()
}

#[test]
fn hours_of_faults_leave_nothing_behind() {
    let seconds = from_env("IPTABLES_UPDATER_SOAK_SECONDS", 6);
    let seed = from_env("IPTABLES_UPDATER_SOAK_SEED", 1);
    each_kernel("hours_of_faults_leave_nothing_behind", |kernel| {
        eprintln!("{kernel:?}: seed {seed}");
        let updater = IptablesUpdater::builder(Table::Filter)
            .chain_prefix("web-")
            .update_mode(UpdateMode::Minimal)
            .open(Faulty {
                inner: kernel.executor(),
                random: StdRng::seed_from_u64(seed),
            })
            .expect("open");
        let config = WorkerConfig::default().with_refresh_interval(Duration::from_millis(700));
        let worker = worker::spawn(updater, config);
        let mut clients: Vec<Client> = (0..THREADS)
            .map(|number| Client {
                number,
                random: StdRng::seed_from_u64(seed + number),
                wanted: Wanted::default(),
            })
            .collect();
        let mut writer_random = StdRng::seed_from_u64(seed + 99);
        let (acts, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                for client in &mut clients {
                    scope.spawn(|| {
                        while !over.load(Relaxed) {
                            failures.fetch_add(client.act(&worker), Relaxed);
                            acts.fetch_add(1, Relaxed);
                        }
                    });
                }
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        second_writer(kernel, &mut writer_random);
                        thread::sleep(Duration::from_millis(60));
                    }
                });
                thread::sleep(Duration::from_secs(seconds) / ROUNDS);
                over.store(true, Relaxed);
            });
            // On the worker's own thread, so that it runs nothing meanwhile; a reader of a pipe may need a moment to end.
            let at_rest = worker.call(|_| {
                thread::sleep(Duration::from_millis(20));
                Ok(held())
            });
            rounds.push(at_rest.expect("counted"));
        }
        again(|| worker.refresh().map(drop));
        // What couldn't be deleted at once, because a fault came in between.
        again(|| worker.cleanup().map(drop));
        let stats = worker.stats().expect("its counters");
        eprintln!(
            "{kernel:?}: {acts:?} acts, {failures:?} failed first; {} restores, {} saves, {} edits, {} refused, {} repaired\n\
             {rounds:?}",
            stats.restores,
            stats.saves,
            stats.chains_edited,
            stats.edits_refused,
            stats.chains_repaired,
        );
        assert_eq!(found(kernel), expected(&clients));
        let hooks = clients.iter().flat_map(|client| &client.wanted.hooks);
        let mut input = kernel.rules(Table::Filter, "INPUT").expect("it is there");
        input.sort();
        let mut hooks: Vec<_> = hooks.cloned().collect();
        hooks.sort();
        assert_eq!(input, hooks);
        let theirs = kernel.rules(Table::Filter, "their-chain");
        assert_eq!(theirs.expect("it is there").len(), 1);

        // The first round warms up.
        let (first, last) = (rounds[1], rounds[rounds.len() - 1]);
        assert_eq!(last.threads, first.threads, "{rounds:?}");
        assert_eq!(last.descriptors, first.descriptors, "{rounds:?}");
        assert!(last.kibibytes < first.kibibytes + 4_096, "{rounds:?}");
    });
}
