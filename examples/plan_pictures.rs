//! A plan in pictures: as a diff, as a Graphviz graph and as a Mermaid flowchart; to standard output, or as files
//! into a folder.
//!
//! `cargo run --example plan_pictures [-- nf_tables|legacy|simulated [FOLDER]]`, then for example
//! `dot -Tsvg FOLDER/plan.dot > plan.svg`

mod common;

use std::error::Error;
use std::fs;
use std::path::Path;

use iptables_updater::{Chain, IpVersion, IptablesUpdater, Request, Table};

fn main() -> Result<(), Box<dyn Error>> {
    let mut filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(common::executor(IpVersion::V4)?)?;
    let input = [
        "-p tcp --dport 443 -j web-tls",
        "-p tcp --dport 22 -j web-ssh",
        "-j RETURN",
    ];
    filter.rewrite_chains([
        Chain::new("web-input", input)?,
        Chain::new("web-tls", ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"])?,
        Chain::new("web-ssh", ["-j DROP"])?,
    ])?;
    filter.ensure_rule_inserted("INPUT", "-j web-input")?;

    // What is planned: another network for TLS, a log that stands aside, no ssh, and a chain that nobody writes.
    let input = [
        "-p tcp --dport 443 -j web-tls",
        "-p udp --dport 53 -j web-dns",
        "-g web-log",
    ];
    let tls = [
        "-s 192.0.2.0/24 -j ACCEPT",
        "-s 203.0.113.0/24 -j ACCEPT",
        "-j DROP",
    ];
    let log = Chain::new("web-log", ["-m limit --limit 5/min -j NFLOG"])?;
    let plan = filter.plan(&[
        Request::rewrite([Chain::new("web-input", input)?, Chain::new("web-tls", tls)?]),
        Request::rewrite([log.requires(["web-spare"])?]),
        Request::delete(["web-ssh"])?,
    ])?;

    let pictures = [
        ("plan.diff", plan.diff().to_string()),
        ("plan.dot", plan.graph().to_dot()),
        ("plan.mmd", plan.graph().to_mermaid()),
    ];
    let folder = std::env::args().nth(2);
    for (name, picture) in pictures {
        match &folder {
            Some(folder) => {
                fs::create_dir_all(folder)?;
                let path = Path::new(folder).join(name);
                fs::write(&path, picture)?;
                println!("Written: {}", path.display());
            }
            None => println!("\n== {name}\n\n{picture}"),
        }
    }
    Ok(())
}
