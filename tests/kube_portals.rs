//! A service proxy's jumps in nat: portals first, node ports last, whatever other programs do; on the simulated and the
//! real kernel.

mod common;

use common::bed::{Bed, Updater, each_bed};
use iptables_updater::{HookPolicy, IptablesUpdater, Placement, Table};

const CHAINS: [&str; 4] = [
    "web-portals-c",
    "web-portals-h",
    "web-ports-c",
    "web-ports-h",
];

fn set_up(proxy: &mut Updater) {
    for chain in CHAINS {
        proxy.ensure_chain(chain).unwrap();
    }
    let first = "-m comment --comment \"portals, before ports\"";
    let last = "-m addrtype --dst-type LOCAL -m comment --comment \"ports, after all\"";
    for (from, placement, words, chain) in [
        ("PREROUTING", Placement::Top, first, CHAINS[0]),
        ("OUTPUT", Placement::Top, first, CHAINS[1]),
        ("PREROUTING", Placement::Bottom, last, CHAINS[2]),
        ("OUTPUT", Placement::Bottom, last, CHAINS[3]),
    ] {
        proxy
            .ensure_hooks(from, [format!("{words} -j {chain}")], placement)
            .unwrap();
    }
}

/// The targets of a kernel chain's rules, in order.
fn targets(bed: &Bed, chain: &str) -> Vec<String> {
    let rules = bed.rules_in(Table::Nat, chain).unwrap();
    let targets = rules
        .iter()
        .map(|rule| rule.rsplit(' ').next().unwrap().to_owned());
    targets.collect()
}

#[test]
fn portals_stay_first_and_node_ports_last_and_a_second_run_writes_nothing() {
    each_bed(
        "portals_stay_first_and_node_ports_last_and_a_second_run_writes_nothing",
        |bed: Bed| {
            let builder = IptablesUpdater::builder(Table::Nat).hook_policy(HookPolicy::Always);
            let mut proxy = bed.open_with(builder);
            set_up(&mut proxy);
            let (mut before, mut after) = (Vec::new(), Vec::new());
            for (edit, change) in [
                ("", None),
                ("-I PREROUTING -p tcp -j RETURN", Some("RETURN")),
                ("-A PREROUTING -p udp -j ACCEPT", Some("ACCEPT")),
                ("-D PREROUTING 1", None),
                ("-F OUTPUT", None),
                ("-F", None),
            ] {
                bed.other_in(Table::Nat, edit);
                if edit == "-F" {
                    (before, after) = (Vec::new(), Vec::new());
                }
                match change {
                    Some("RETURN") => before.push("RETURN"),
                    Some(target) => after.push(target),
                    None => {}
                }
                set_up(&mut proxy);
                let theirs = [before.clone(), after.clone()].concat();
                let wanted = [vec![CHAINS[0]], theirs, vec![CHAINS[2]]].concat();
                assert_eq!(targets(&bed, "PREROUTING"), wanted, "{edit}");
                assert_eq!(targets(&bed, "OUTPUT"), [CHAINS[1], CHAINS[3]], "{edit}");

                let saved = bed.rules_in(Table::Nat, "PREROUTING");
                bed.journal.take();
                set_up(&mut proxy);
                // All that is run is the attempt to make chains that are there, which fails and writes nothing.
                let (restores, _) = bed.journal.take();
                assert!(
                    restores
                        .iter()
                        .all(|input| input.lines().nth(1).unwrap().starts_with("-N ")),
                    "{restores:?}"
                );
                assert_eq!(bed.rules_in(Table::Nat, "PREROUTING"), saved);
                assert!(proxy.refresh().unwrap().is_empty());
            }
        },
    );
}
