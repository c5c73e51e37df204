//! One policy for IPv4 and IPv6, in filter and nat: opened, refreshed and cleaned up together.
//!
//! `cargo run --example dual_stack [-- nf_tables|legacy]`

mod common;

use std::error::Error;

use iptables_updater::{Chain, IpVersion, Rule, Table, TableSet};

fn main() -> Result<(), Box<dyn Error>> {
    let mut executors = common::executors()?;
    let mut set = TableSet::builder()
        .chain_prefix("web-")
        .table(Table::Filter)
        .optional_table(Table::Nat)
        .version(IpVersion::V4)
        .optional_version(IpVersion::V6)
        .open(&mut executors)?;

    let rules = [
        Rule::new("-s 192.0.2.0/24 -j ACCEPT")?.only_for(IpVersion::V4),
        Rule::new("-s 2001:db8::/32 -j ACCEPT")?.only_for(IpVersion::V6),
        Rule::new("-p tcp --dport 443 -j ACCEPT")?,
        Rule::new("-j DROP")?,
    ];
    let chain = Chain::new("web-input", rules)?;
    for (place, result) in set.rewrite_chains(Table::Filter, [chain]) {
        println!("{place}: {result:?}");
    }
    for (place, result) in set.ensure_rule_inserted(Table::Filter, "INPUT", "-j web-input") {
        println!("{place}: hooked: {result:?}");
    }
    for (place, result) in set.cleanup() {
        println!("{place}: cleaned up: {}", result.is_ok());
    }
    for (place, error) in set.absent() {
        println!("{place}: absent: {error}");
    }
    for outcome in set.in_table(Table::Filter, |_, updater| updater.rules("web-input")) {
        println!("\n{}:", outcome.0);
        for rule in outcome.1?.unwrap_or_default() {
            println!("    {}", rule.text);
        }
    }
    Ok(())
}
