//! Many threads, one worker, the real kernel: every ticket is answered, and the table is what it should be.
//!
//! `IPTABLES_UPDATER_REQUESTS` is the number of requests of each of the 16 threads (30 by default; by hand 500).

mod common;

use std::collections::BTreeMap;

use common::each_kernel;
use iptables_updater::worker::{self, WorkerConfig};
use iptables_updater::{Chain, IptablesUpdater, Table};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const THREADS: usize = 16;

/// What a thread's chains should hold in the end; its chains are its own, so its own order decides.
type Model = BTreeMap<String, Vec<String>>;

/// A random request of a thread on one of its eight chains: contents, or `None` to delete it.
fn random(thread: usize, rng: &mut StdRng) -> (String, Option<Vec<String>>) {
    let at = rng.random_range(0..8);
    let name = format!("web-{thread}-{at}");
    if rng.random_bool(0.2) {
        return (name, None);
    }
    let rules = (0..rng.random_range(0..4)).map(|_| {
        let port = rng.random_range(1..1000);
        match rng.random_range(0..3) {
            0 => format!("-p tcp -m tcp --dport {port} -j ACCEPT"),
            1 => format!("-p udp -m udp --sport {port} -j DROP"),
            // Only to chains further on: no circles.
            _ if at < 7 => format!("-j web-{thread}-{}", rng.random_range(at + 1..8)),
            _ => "-j RETURN".to_owned(),
        }
    });
    (name, Some(rules.collect()))
}

#[test]
fn requests_of_many_threads_come_to_what_each_asked_for_last() {
    let count = std::env::var("IPTABLES_UPDATER_REQUESTS").map_or(30, |n| n.parse().unwrap());
    each_kernel(
        "requests_of_many_threads_come_to_what_each_asked_for_last",
        |kernel| {
            let updater = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
            let updater = updater.open(kernel.executor()).unwrap();
            let handle = worker::spawn(updater, WorkerConfig::default());
            let run = |thread: usize| {
                let mut rng = StdRng::seed_from_u64(thread as u64);
                let mut model = Model::new();
                let mut tickets = Vec::new();
                for _ in 0..count {
                    let (name, rules) = random(thread, &mut rng);
                    tickets.push(match &rules {
                        Some(rules) => {
                            let chain = Chain::new(name.as_str(), rules).unwrap();
                            handle.rewrite_chains_later([chain])
                        }
                        None => handle.delete_chains_later([name.as_str()]),
                    });
                    match rules {
                        Some(rules) => model.insert(name, rules),
                        None => model.remove(&name),
                    };
                    if rng.random_bool(0.1) {
                        // Now and then a thread waits for what it has asked for.
                        for ticket in tickets.drain(..) {
                            ticket.wait().unwrap();
                        }
                    }
                }
                for ticket in tickets {
                    ticket.wait().unwrap();
                }
                model
            };
            let models: Vec<Model> = std::thread::scope(|scope| {
                let run = &run;
                let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || run(t))).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            });
            let updater = handle.shutdown().unwrap();

            let mut wanted: Model = models.into_iter().flatten().collect();
            let jumps = wanted.values().flatten();
            let jumps = jumps
                .filter_map(|rule| rule.strip_prefix("-j "))
                .filter(|t| *t != "RETURN");
            let required: Vec<_> = jumps.map(str::to_owned).collect();
            for chain in required {
                let stub = format!("-m comment --comment \"missing chain {chain}\" -j DROP");
                wanted.entry(chain).or_insert_with(|| vec![stub]);
            }
            let mut found = Model::new();
            for line in kernel.save(Table::Filter).lines() {
                if let Some(header) = line.strip_prefix(":web-") {
                    let name = header.split(' ').next().unwrap();
                    found.insert(format!("web-{name}"), Vec::new());
                } else if let Some((chain, rule)) =
                    line.strip_prefix("-A ").and_then(|l| l.split_once(' '))
                {
                    found.get_mut(chain).unwrap().push(rule.to_owned());
                }
            }
            assert_eq!(found, wanted);
            let stats = updater.stats();
            assert_eq!(stats.requests, (THREADS * count) as u64);
            assert_eq!(stats.requests_failed, 0);
            let mean = stats.requests / stats.batch_requests.count;
            println!(
                "{kernel:?}: {} restores, {mean} requests a batch\n{stats}",
                stats.restores
            );
        },
    );
}
