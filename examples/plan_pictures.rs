//! A plan, before anything is run: as a difference, and as a graph in the languages of Graphviz and Mermaid.
//!
//! `cargo run --example plan_pictures [-- FOLDER]`: prints them, or writes `plan.diff`, `plan.dot` and `plan.mmd` into the folder.

use std::error::Error;
use std::fs;
use std::path::Path;

use iptables_updater::{
    Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Request, Table,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))?;
    filter.rewrite_chains([
        Chain::new("web-input", ["-p tcp --dport 443 -j web-tls", "-j web-old"])?,
        Chain::new("web-tls", ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"])?,
        Chain::new("web-old", ["-j RETURN"])?,
    ])?;
    filter.ensure_rule_inserted("INPUT", "-j web-input")?;

    let input = [
        "-p tcp --dport 443 -j web-tls",
        "-p udp --dport 443 -g web-quic",
        "-j web-later", // nobody has programmed it: a stub
    ];
    let plan = filter.plan(&[
        Request::rewrite([
            Chain::new("web-input", input)?,
            Chain::new("web-quic", ["-s 192.0.2.0/24 -j ACCEPT"])?,
        ]),
        Request::delete(["web-old"])?,
    ])?;
    let graph = plan.graph();
    let pictures = [
        ("plan.diff", plan.diff().to_string()),
        ("plan.dot", graph.to_dot()),
        ("plan.mmd", graph.to_mermaid()),
    ];
    match std::env::args().nth(1) {
        Some(folder) => {
            for (name, text) in pictures {
                let path = Path::new(&folder).join(name);
                fs::write(&path, text)?;
                println!("{}", path.display());
            }
        }
        None => {
            for (name, text) in pictures {
                println!("== {name}\n{text}");
            }
        }
    }
    Ok(())
}
