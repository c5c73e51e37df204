//! Owns a small policy: each step's plan, and what iptables-save shows then. Runs in a network namespace made for
//! it, or on a simulated kernel where there is no iptables or no privilege for that.
//!
//! `cargo run --example quickstart [-- nf_tables|legacy]`

mod common;

use std::error::Error;

use iptables_updater::{Chain, Executor, IpVersion, IptablesUpdater, Request, Table};

fn main() -> Result<(), Box<dyn Error>> {
    let executor = common::executor(IpVersion::V4)?;
    let mut filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(executor)?;

    title(
        "1. Program two chains. They need a third, web-extra: a stub that drops stands in for it",
    );
    let input = [
        "-p tcp --dport 443 -j web-tls",
        "-p tcp --dport 8443 -j web-extra",
        "-j RETURN",
    ];
    let tls = ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"];
    let chains = [Chain::new("web-input", input)?, Chain::new("web-tls", tls)?];
    plan(&filter, &Request::rewrite(chains.clone()))?;
    filter.rewrite_chains(chains)?;
    show(&mut filter)?;

    title("2. Hook INPUT: the one instance stands at the top, however often this runs");
    filter.ensure_rule_inserted("INPUT", "-j web-input")?;
    show(&mut filter)?;

    title("3. Program web-extra, and let one more network in: both in one commit");
    let chains = [
        Chain::new("web-extra", ["-s 198.51.100.7 -j ACCEPT"])?,
        Chain::new(
            "web-tls",
            [
                "-s 192.0.2.0/24 -j ACCEPT",
                "-s 203.0.113.0/24 -j ACCEPT",
                "-j DROP",
            ],
        )?,
    ];
    plan(&filter, &Request::rewrite(chains.clone()))?;
    filter.rewrite_chains(chains)?;
    show(&mut filter)?;

    title("4. Delete web-tls: web-input still jumps to it, so it becomes a stub");
    plan(&filter, &Request::delete(["web-tls"])?)?;
    filter.delete_chains(["web-tls"])?;
    show(&mut filter)?;

    title("5. Clean up: whatever a previous run left would go now");
    println!("{:#?}\n", filter.cleanup()?);

    title("6. The same contents once more: nothing is run");
    let again = Request::rewrite([Chain::new("web-extra", ["-s 198.51.100.7 -j ACCEPT"])?]);
    plan(&filter, &again)
}

fn title(text: &str) {
    println!("\n== {text}\n");
}

/// What the request would hand to iptables-restore.
fn plan(filter: &IptablesUpdater<impl Executor>, request: &Request) -> Result<(), Box<dyn Error>> {
    let plan = filter.plan(std::slice::from_ref(request))?;
    if plan.is_empty() {
        println!("The plan: nothing.");
    } else {
        println!("The plan:\n{}\n", indented(&plan.to_string()));
    }
    Ok(())
}

/// What iptables-save shows now.
fn show(filter: &mut IptablesUpdater<impl Executor>) -> Result<(), Box<dyn Error>> {
    let saved = filter.executor_mut().save(Table::Filter)?;
    let saved = String::from_utf8(saved.stdout)?;
    let lines: Vec<_> = saved
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    println!("iptables-save:\n{}", indented(&lines.join("\n")));
    Ok(())
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
