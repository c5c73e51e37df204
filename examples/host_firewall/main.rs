//! A small host's whole firewall, IPv4 and IPv6: loopback, established, the ICMP that must pass, an allow-list read
//! from a file and read again when it changes, and the rest logged and dropped.
//!
//! `cargo run --example host_firewall [-- nf_tables|legacy|simulated [FILE]] [--dry-run] [--watch]`
//!
//! The file has a line for each service, and `#` begins a comment; `any` is every address of both IP versions:
//! ```text
//! allow tcp 22 from 192.0.2.0/24
//! allow udp 51820 from any
//! ```
//! `--dry-run` shows what would change and ends; `--watch` goes on for ever. Without a file it is a demonstration.

#[path = "../common/mod.rs"]
mod common;
mod policy;

use std::error::Error;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, thread};

use common::AnyExecutor;
use iptables_updater::{IpVersion, IptablesUpdater, Request, Table};

type Firewall = IptablesUpdater<AnyExecutor>;

const DEMO: [&str; 3] = [
    "allow tcp 22 from 192.0.2.0/24\nallow tcp 443 from any\n",
    "allow tcp 22 from 192.0.2.0/24\nallow tcp 22 from 2001:db8::/32\nallow tcp 443 from any\n",
    "allow tcp 22 from 192.0.2.0/24\nallow tcp https\n", // not what it should be: the old policy stays
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut executors = common::executors()?;
    let mut firewalls = Vec::new();
    for version in [IpVersion::V4, IpVersion::V6] {
        let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("fw-");
        firewalls.push(builder.open(executors(version)?)?);
    }
    let flag = |flag: &str| std::env::args().any(|word| word == flag);
    let (dry_run, watch) = (flag("--dry-run"), flag("--watch"));
    let words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    let file = words.map(PathBuf::from).nth(1);

    let folder = tempfile::tempdir()?;
    let demo = if file.is_some() { &[][..] } else { &DEMO[..] };
    let file = file.unwrap_or_else(|| folder.path().join("allow"));
    if let Some(first) = demo.first() {
        fs::write(&file, first)?;
    }
    let mut read = stamp(&file);
    load(&mut firewalls, &file, dry_run)?;
    let mut changes = demo.iter().skip(1);
    if dry_run {
        return Ok(());
    }
    loop {
        match changes.next() {
            Some(text) => fs::write(&file, text)?,
            None if watch => {}
            None => break,
        }
        // An editor may take the file away before it puts the new one there.
        read = loop {
            match stamp(&file) {
                now @ Some(_) if now != read => break now,
                _ => thread::sleep(Duration::from_millis(200)),
            }
        };
        // A mistake in the file, or of iptables, must not end the program: what was programmed stands.
        if let Err(error) = load(&mut firewalls, &file, false) {
            println!("\nThe old policy stays: {error}");
        }
    }
    Ok(())
}

/// What tells that the file was written again; `None` while it isn't there.
fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Shows what the file changes, and unless it is a dry run, does it.
fn load(firewalls: &mut [Firewall], file: &Path, dry: bool) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let allow = policy::allow_list(&text)?;
    for firewall in firewalls {
        let chains = policy::chains(firewall.ip_version(), &allow)?;
        let plan = firewall.plan(&[Request::rewrite(chains.clone())])?;
        let (diff, version) = (plan.diff(), firewall.ip_version());
        println!(
            "\n== {version}: {}",
            if plan.is_empty() {
                "nothing changes"
            } else {
                "this changes"
            }
        );
        print!(
            "{}",
            if std::io::stdout().is_terminal() {
                diff.coloured()
            } else {
                diff
            }
        );
        if !dry {
            firewall.rewrite_chains(chains)?;
            firewall.ensure_rule_inserted("INPUT", "-j fw-input")?;
            firewall.cleanup()?;
        }
    }
    Ok(())
}
