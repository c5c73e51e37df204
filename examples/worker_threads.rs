//! Many threads share one updater through a worker: what they ask for at the same time becomes one commit, and whoever asks
//! for something bad takes the error alone.
//!
//! `cargo run --example worker_threads [-- nf_tables|legacy]`

mod common;

use std::error::Error;
use std::thread;

use iptables_updater::worker::{self, WorkerConfig};
use iptables_updater::{Chain, IpVersion, IptablesUpdater, Table};

/// How many containers come up at once.
const CONTAINERS: u16 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let updater = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("net-")
        .open(common::executor(IpVersion::V4)?)?;
    let worker = worker::spawn(updater, WorkerConfig::default());

    // A method that waits: when it returns, the chain is in force.
    worker.rewrite_chains([Chain::new("net-forward", [""; 0])?])?;
    worker.ensure_rule_inserted("FORWARD", "-j net-forward")?;

    thread::scope(|scope| {
        for number in 1..=CONTAINERS {
            let worker = &worker;
            scope.spawn(move || {
                // Number 7 has a typing error in its policy.
                let protocol = if number == 7 { "tpc" } else { "tcp" };
                let rule = format!("-p {protocol} --dport {} -j ACCEPT", 8_000 + number);
                let chain = Chain::new(format!("net-c{number}"), [rule.as_str(), "-j DROP"]);
                let result = chain
                    .map_err(Into::into)
                    .and_then(|chain| worker.rewrite_chains([chain]));
                if let Err(error) = result {
                    println!("container {number}: {error}");
                }
            });
        }
    });

    // One that doesn't wait: the ticket tells later what became of it.
    let jumps = (1..=CONTAINERS)
        .filter(|number| *number != 7)
        .map(|number| format!("-o veth{number} -j net-c{number}"));
    let ticket = worker.rewrite_chains_later([Chain::new("net-forward", jumps)?]);
    println!("asked for the dispatching chain; meanwhile this thread does something else");
    ticket.wait()?;

    let updater = worker.shutdown()?;
    let stats = updater.stats();
    println!(
        "{} requests in {} batches, {} failed, {} runs of iptables-restore",
        stats.requests, stats.batch_requests.count, stats.requests_failed, stats.restores
    );
    assert_eq!(updater.programmed_chains().len(), usize::from(CONTAINERS));
    assert_eq!(stats.requests_failed, 1);
    Ok(())
}
