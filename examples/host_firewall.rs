//! A whole small firewall for one host: what may come in stands in a file, which is read again when it changes.
//!
//! ```text
//! # action protocol port [from network]
//! allow tcp 22 from 192.0.2.0/24
//! allow udp 53
//! ```
//!
//! `cargo run --example host_firewall [-- nf_tables|legacy [--dry-run] [FILE]]`
//!
//! Without a FILE it shows itself with one of its own: it loads it, changes it twice, and loads it again.

mod common;

use std::error::Error;
use std::fs;
use std::io::IsTerminal as _;
use std::path::Path;

use common::AnyExecutor;
use iptables_updater::{Chain, IpVersion, IptablesUpdater, Request, Table};

/// One line of the file as a rule; `None` for an empty line or a comment.
fn rule(line: &str) -> Result<Option<String>, Box<dyn Error>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (protocol, port, from) = match words.as_slice() {
        [] => return Ok(None),
        [first, ..] if first.starts_with('#') => return Ok(None),
        ["allow", protocol, port] => (protocol, port, String::new()),
        ["allow", protocol, port, "from", network] => (protocol, port, format!("-s {network} ")),
        _ => return Err(format!("{line:?} isn't `allow PROTOCOL PORT [from NETWORK]`").into()),
    };
    let port: u16 = port.parse()?;
    Ok(Some(format!(
        "{from}-p {protocol} --dport {port} -j ACCEPT"
    )))
}

/// The chains of the policy.
fn policy(list: &str) -> Result<Request, Box<dyn Error>> {
    let allowed: Vec<String> = list
        .lines()
        .filter_map(|line| rule(line).transpose())
        .collect::<Result<_, _>>()?;
    let input = Chain::new(
        "host-input",
        [
            "-i lo -j ACCEPT",
            "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
            // A host that drops these breaks path MTU discovery.
            "-p icmp --icmp-type destination-unreachable -j ACCEPT",
            "-p icmp --icmp-type time-exceeded -j ACCEPT",
            "-p icmp --icmp-type echo-request -m limit --limit 10/second -j ACCEPT",
            "-j host-allowed",
            "-m limit --limit 5/minute -j LOG --log-prefix \"host firewall: \"",
            "-j DROP",
        ],
    )?;
    Ok(Request::rewrite([
        input,
        Chain::new("host-allowed", allowed)?,
    ]))
}

/// Shows what the file changes, and does it.
fn load(
    filter: &mut IptablesUpdater<AnyExecutor>,
    file: &Path,
    dry_run: bool,
) -> Result<(), Box<dyn Error>> {
    let request = policy(&fs::read_to_string(file)?)?;
    let plan = filter.plan(std::slice::from_ref(&request))?;
    let (diff, colours) = (plan.diff(), std::io::stdout().is_terminal());
    print!("{}", if colours { diff.coloured() } else { diff });
    if dry_run {
        println!("(dry run: nothing was done)");
        return Ok(());
    }
    filter
        .apply(&[request])
        .into_iter()
        .collect::<Result<Vec<()>, _>>()?;
    // After the chains are in force, so that there is no instant of half a policy.
    filter.ensure_rule_inserted("INPUT", "-j host-input")?;
    filter.cleanup()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("host-")
        .open(common::executor(IpVersion::V4)?)?;
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let dry_run = arguments.iter().any(|argument| argument == "--dry-run");
    if let Some(file) = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"))
    {
        return load(&mut filter, Path::new(file), dry_run);
    }

    let file = std::env::temp_dir().join(format!("host_firewall.{}", std::process::id()));
    for list in [
        "# the administrators\nallow tcp 22 from 192.0.2.0/24\nallow udp 53\n",
        "allow tcp 22 from 192.0.2.0/24\nallow tcp 443\nallow udp 53\n",
        "allow tcp 22 from 192.0.2.0/24\nallow tpc 443\n",
    ] {
        fs::write(&file, list)?;
        println!("\nthe file has changed:");
        // A bad file changes nothing: the old policy stays in force.
        if let Err(error) = load(&mut filter, &file, dry_run) {
            println!("refused: {error}");
        }
    }
    fs::remove_file(&file)?;
    Ok(())
}
