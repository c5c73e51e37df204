//! The set-up of a service proxy: four chains in nat, and the jumps to them in an order that matters. Portals come
//! first; node ports come last, so that nothing of others is taken from them. Callable again and again.
//!
//! `cargo run --example kube_portals [-- nf_tables|legacy]`

mod common;

use std::error::Error;

use iptables_updater::{
    Executor, HookPolicy, IpVersion, IptablesUpdater, KernelChain, Placement, Table,
};

type Proxy = IptablesUpdater<Box<dyn Executor + Send>>;

/// Chain, the kernel chain from which it is reached, where its jump stands, and what its jump matches and says.
const JUMPS: [(&str, KernelChain, Placement, &str); 4] = [
    (
        "KUBE-PORTALS-CONTAINER",
        KernelChain::Prerouting,
        Placement::Top,
        "-m comment --comment \"service portals, before node ports\"",
    ),
    (
        "KUBE-PORTALS-HOST",
        KernelChain::Output,
        Placement::Top,
        "-m comment --comment \"service portals, before node ports\"",
    ),
    (
        "KUBE-NODEPORT-CONTAINER",
        KernelChain::Prerouting,
        Placement::Bottom,
        "-m addrtype --dst-type LOCAL -m comment --comment \"node ports, after all else\"",
    ),
    (
        "KUBE-NODEPORT-HOST",
        KernelChain::Output,
        Placement::Bottom,
        "-m addrtype --dst-type LOCAL -m comment --comment \"node ports, after all else\"",
    ),
];

/// Makes the chains, and puts the jumps to them at their places, unless they are there.
fn set_up(proxy: &mut Proxy) -> Result<(), iptables_updater::Error> {
    for (chain, ..) in &JUMPS {
        proxy.ensure_chain(*chain)?;
    }
    for (chain, from, placement, words) in &JUMPS {
        proxy.ensure_hooks(*from, [format!("{words} -j {chain}")], placement.clone())?;
    }
    Ok(())
}

fn show(proxy: &mut Proxy, title: &str) -> Result<(), Box<dyn Error>> {
    println!("\n== {title}\n");
    for chain in [KernelChain::Prerouting, KernelChain::Output] {
        for rule in proxy.rules(chain)?.unwrap_or_default() {
            println!("    -A {chain} {}", rule.text);
        }
    }
    Ok(())
}

/// What another program does to nat.
fn other(proxy: &mut Proxy, line: &str) -> Result<(), Box<dyn Error>> {
    let input = format!("*nat\n{line}\nCOMMIT\n");
    let outcome = proxy.executor_mut().restore(&input)?;
    assert!(outcome.exit.is_success(), "{outcome:?}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let executor = common::executor(IpVersion::V4)?;
    let mut proxy = IptablesUpdater::builder(Table::Nat)
        .chain_prefix("KUBE-")
        .hook_policy(HookPolicy::Always)
        .open(executor)?;

    set_up(&mut proxy)?;
    show(&mut proxy, "Set up")?;
    set_up(&mut proxy)?;
    show(&mut proxy, "Set up again: nothing was written")?;

    other(&mut proxy, "-I PREROUTING -p tcp -j RETURN")?;
    set_up(&mut proxy)?;
    show(
        &mut proxy,
        "Another program has put a rule first: the portals are before it again",
    )?;

    other(&mut proxy, "-A PREROUTING -p udp -j RETURN")?;
    set_up(&mut proxy)?;
    show(
        &mut proxy,
        "It has put one last, behind the node ports: they are behind it again",
    )?;

    other(&mut proxy, "-D PREROUTING 1")?;
    set_up(&mut proxy)?;
    show(
        &mut proxy,
        "It has deleted the jump to the portals: it is back",
    )?;

    other(&mut proxy, "-F")?;
    set_up(&mut proxy)?;
    show(&mut proxy, "It has flushed nat: all is back")
}
