//! Prints an updater's statistics in the text form that Prometheus reads.
//!
//! `cargo run --example stats_prometheus [-- nf_tables|legacy]`

mod common;

use std::error::Error;
use std::fmt::{self, Write as _};

use iptables_updater::{Chain, IpVersion, IptablesUpdater, Request, Stats, Table};

/// One counter as Prometheus reads it.
fn counter(out: &mut String, name: &str, help: &str, values: &[(&str, u64)]) -> fmt::Result {
    writeln!(out, "# HELP iptables_updater_{name} {help}")?;
    writeln!(out, "# TYPE iptables_updater_{name} counter")?;
    for (label, value) in values {
        writeln!(out, "iptables_updater_{name}{label} {value}")?;
    }
    Ok(())
}

fn prometheus(stats: &Stats) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let retries = &stats.retries;
    counter(
        &mut out,
        "restores_total",
        "Runs of iptables-restore.",
        &[("", stats.restores)],
    )?;
    counter(
        &mut out,
        "saves_total",
        "Runs of iptables-save.",
        &[("", stats.saves)],
    )?;
    counter(
        &mut out,
        "retries_total",
        "Runs repeated, by what had gone wrong.",
        &[
            ("{class=\"lock_held\"}", retries.lock_held),
            ("{class=\"race\"}", retries.race),
            ("{class=\"ambiguous\"}", retries.ambiguous),
        ],
    )?;
    counter(
        &mut out,
        "requests_total",
        "Requests to rewrite or delete chains.",
        &[
            ("{result=\"ok\"}", stats.requests - stats.requests_failed),
            ("{result=\"failed\"}", stats.requests_failed),
        ],
    )?;
    counter(
        &mut out,
        "chains_total",
        "Chains, by what was done with them.",
        &[
            ("{done=\"rewritten\"}", stats.chains_rewritten),
            ("{done=\"unchanged\"}", stats.chains_unchanged),
            ("{done=\"stubbed\"}", stats.chains_stubbed),
            ("{done=\"deleted\"}", stats.chains_deleted),
            ("{done=\"undeleted\"}", stats.chains_undeleted),
            ("{done=\"repaired\"}", stats.chains_repaired),
        ],
    )?;
    writeln!(
        out,
        "# HELP iptables_updater_batch_seconds Time that batches took."
    )?;
    writeln!(out, "# TYPE iptables_updater_batch_seconds summary")?;
    let time = &stats.batch_time;
    writeln!(
        out,
        "iptables_updater_batch_seconds_sum {}",
        time.total.as_secs_f64()
    )?;
    writeln!(out, "iptables_updater_batch_seconds_count {}", time.count)?;
    Ok(out)
}

fn main() -> Result<(), Box<dyn Error>> {
    let executor = common::executor(IpVersion::V4)?;
    let mut filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(executor)?;
    let results = filter.apply(&[
        Request::rewrite([Chain::new("web-a", ["-j web-b"])?]),
        Request::rewrite([Chain::new("web-bad", ["-p no-such-protocol"])?]),
    ]);
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        println!("refused, and counted: {error}");
    }
    filter.refresh()?;
    println!("\n{}", prometheus(&filter.stats())?);
    println!("The same for people:\n{}", filter.stats());
    Ok(())
}
