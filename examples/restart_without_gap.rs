//! A program dies and another takes over: the old chains stay in force until the new ones are, and what nobody wants any
//! longer is removed in the end.
//!
//! `cargo run --example restart_without_gap [-- nf_tables|legacy]`

mod common;

use std::error::Error;

use common::AnyExecutor;
use iptables_updater::{Chain, Executor, IpVersion, IptablesUpdater, Table};

fn open(executor: AnyExecutor) -> Result<IptablesUpdater<AnyExecutor>, iptables_updater::Error> {
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("gate-")
        .open(executor)
}

/// Prints what iptables-save shows of the chains.
fn show(what: &str, updater: &mut IptablesUpdater<AnyExecutor>) -> Result<(), Box<dyn Error>> {
    println!("\n{what}:");
    let save = updater.executor_mut().save(Table::Filter)?;
    let text = String::from_utf8_lossy(&save.stdout).into_owned();
    for line in text.lines().filter(|line| line.contains("gate-")) {
        println!("  {line}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut first = open(common::executor(IpVersion::V4)?)?;
    first.rewrite_chains([
        Chain::new("gate-input", ["-j gate-web", "-j gate-mail"])?,
        Chain::new("gate-web", ["-p tcp --dport 443 -j ACCEPT"])?,
        Chain::new("gate-mail", ["-p tcp --dport 25 -j ACCEPT"])?,
    ])?;
    first.ensure_rule_inserted("INPUT", "-j gate-input")?;
    show(
        "The first run has programmed its chains, and dies",
        &mut first,
    )?;
    let executor = first.into_executor(); // no cleanup, no farewell

    let mut second = open(executor)?;
    // It has read the dispatching chain's policy, but not that of the web server yet.
    second.rewrite_chains([Chain::new("gate-input", ["-j gate-web"])?])?;
    second.ensure_rule_inserted("INPUT", "-j gate-input")?;
    show(
        "The second run has programmed gate-input only; gate-web still holds what the first run left",
        &mut second,
    )?;

    second.rewrite_chains([Chain::new("gate-web", ["-p tcp --dport 8443 -j ACCEPT"])?])?;
    show("Now gate-web as well, in one commit", &mut second)?;

    let report = second.cleanup()?;
    show("After the cleanup", &mut second)?;
    println!("\ndeleted: {:?}", report.deleted);
    assert_eq!(report.deleted, ["gate-mail"]);
    Ok(())
}
