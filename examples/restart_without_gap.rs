//! A program crashes and starts again: what it had programmed stands until it is programmed anew, so that no packet
//! meets a hole in between; what it no longer wants goes at the cleanup.
//!
//! `cargo run --example restart_without_gap [-- nf_tables|legacy|simulated]`

mod common;

use std::error::Error;

use common::AnyExecutor;
use iptables_updater::{Chain, Executor, IpVersion, IptablesUpdater, Table};

fn main() -> Result<(), Box<dyn Error>> {
    let executor = common::executor(IpVersion::V4)?;

    let mut first = open(executor)?;
    first.rewrite_chains([
        Chain::new(
            "web-input",
            [
                "-p tcp --dport 443 -j web-tls",
                "-p tcp --dport 22 -j web-ssh",
            ],
        )?,
        Chain::new("web-tls", ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"])?,
        Chain::new("web-ssh", ["-s 198.51.100.7 -j ACCEPT", "-j DROP"])?,
    ])?;
    first.ensure_rule_inserted("INPUT", "-j web-input")?;
    let before = show(
        &mut first,
        "1. The first run has programmed its policy, and hooked it",
    )?;

    // Nothing of the updater is written anywhere: its whole memory is lost here, and the kernel's isn't.
    let executor = first.into_executor();
    let mut second = open(executor)?;
    let after = show(
        &mut second,
        "2. It has crashed, and a second run has opened: nothing has changed",
    )?;
    assert_eq!(before, after);

    // The new version of the program has no use for ssh, and has yet to work out what web-tls shall hold.
    second.rewrite_chains([Chain::new("web-input", ["-p tcp --dport 443 -j web-tls"])?])?;
    second.ensure_rule_inserted("INPUT", "-j web-input")?;
    let save = show(
        &mut second,
        "3. It has programmed web-input. That needs web-tls, which keeps its old rules: no stub cuts the traffic",
    )?;
    assert!(save.contains("-A web-tls -s 192.0.2.0/24 -j ACCEPT"));

    let tls = [
        "-s 192.0.2.0/24 -j ACCEPT",
        "-s 203.0.113.0/24 -j ACCEPT",
        "-j DROP",
    ];
    second.rewrite_chains([Chain::new("web-tls", tls)?])?;
    let save = show(
        &mut second,
        "4. It has programmed web-tls: the new rules took the old ones' place in one commit",
    )?;
    assert!(save.contains("203.0.113.0/24") && save.contains("web-ssh"));

    let report = second.cleanup()?;
    println!("\nCleaned up, deleted: {:?}", report.deleted);
    let save = show(
        &mut second,
        "5. It has cleaned up: web-ssh, which nobody wants any longer, is gone",
    )?;
    assert!(!save.contains("web-ssh"));
    Ok(())
}

fn open(executor: AnyExecutor) -> Result<IptablesUpdater<AnyExecutor>, iptables_updater::Error> {
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(executor)
}

/// Prints what iptables-save shows now, without its comments and counters, and gives it back.
fn show(filter: &mut IptablesUpdater<AnyExecutor>, title: &str) -> Result<String, Box<dyn Error>> {
    let saved = String::from_utf8(filter.executor_mut().save(Table::Filter)?.stdout)?;
    let lines = saved.lines().filter(|line| line.starts_with([':', '-']));
    let lines: Vec<_> = lines
        .map(|line| line.split(" [").next().unwrap_or(line))
        .map(|line| format!("    {line}\n"))
        .collect();
    println!("\n== {title}\n\n{}", lines.concat());
    Ok(lines.concat())
}
