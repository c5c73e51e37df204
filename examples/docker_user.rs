//! A policy in Docker's DOCKER-USER chain: our rules come before Docker's own, and Docker's stay as they are.
//!
//! `cargo run --example docker_user [-- nf_tables|legacy]`

mod common;

use std::error::Error;

use iptables_updater::{Chain, Executor, IpVersion, IptablesUpdater, Placement, Table};

/// What Docker has set up before this program starts.
const DOCKER: &str = "*filter\n:DOCKER-USER - [0:0]\n-A DOCKER-USER -j RETURN\n\
     -A FORWARD -j DOCKER-USER\nCOMMIT\n";

fn main() -> Result<(), Box<dyn Error>> {
    let mut executor = common::executor(IpVersion::V4)?;
    assert!(executor.restore(DOCKER)?.exit.is_success());

    let mut policy = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("policy-")
        .open(executor)?;
    policy.rewrite_chains([
        Chain::new(
            "policy-in",
            ["-s 192.0.2.0/24 -j RETURN", "-j policy-log", "-j DROP"],
        )?,
        Chain::new(
            "policy-log",
            ["-m limit --limit 5/min -j LOG --log-prefix \"denied \""],
        )?,
    ])?;
    // Docker ends its chain with RETURN: what is appended there is never reached, so we go to the top.
    policy.ensure_hooks("DOCKER-USER", ["-i eth0 -j policy-in"], Placement::Top)?;
    policy.cleanup()?;

    for chain in ["FORWARD", "DOCKER-USER", "policy-in", "policy-log"] {
        for rule in policy.rules(chain)?.unwrap_or_default() {
            println!("-A {chain} {}", rule.text);
        }
    }
    println!("{}", policy.stats());
    Ok(())
}
