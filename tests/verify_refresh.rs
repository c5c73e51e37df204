//! Drift: found without understanding rules, and repaired; on the simulated and the real kernel, both back ends, IPv4 and IPv6.

mod common;

use common::bed::{Bed, each_bed, stub};
use iptables_updater::{Chain, HookProblem};

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

/// Rules that read back otherwise than they are written.
const CHANGED_BY_IPTABLES: &[&str] = &[
    "-p TCP --dport ssh -j ACCEPT",
    "-p 6 -j web-b",
    "-m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT",
    "-m limit --limit 60/minute -j RETURN",
    "-m mark --mark 0x00000001 -j web-b",
    "-j LOG --log-prefix \"x: \" --log-level debug",
    "-m comment --comment \"it's\" -j DROP",
    "-j REJECT",
    "-m recent --name x --set",
];

#[test]
fn an_untouched_table_has_no_drift_and_costs_one_reading() {
    each_bed(
        "an_untouched_table_has_no_drift_and_costs_one_reading",
        |bed: Bed| {
            let mut updater = bed.open();
            let chains = (0..50).map(|n| chain(&format!("web-{n}"), CHANGED_BY_IPTABLES));
            updater.rewrite_chains(chains).unwrap();
            updater
                .ensure_rule_inserted("INPUT", "-p TCP -j web-1")
                .unwrap();
            updater.ensure_rule_inserted("INPUT", "-j web-2").unwrap();
            updater.ensure_rule_appended("INPUT", "-j web-3").unwrap();
            updater.ensure_rule_removed("INPUT", "-j web-4").unwrap();
            bed.journal.take();
            for _ in 0..3 {
                assert!(updater.verify().unwrap().is_empty());
                assert!(updater.refresh().unwrap().is_empty());
                assert_eq!(bed.journal.counts(), (0, 2));
            }
        },
    );
}

#[test]
fn every_change_by_others_in_a_chain_of_ours_is_reported_and_repaired() {
    each_bed(
        "every_change_by_others_in_a_chain_of_ours_is_reported_and_repaired",
        |bed: Bed| {
            let mut updater = bed.open();
            updater
                .rewrite_chains([
                    chain("web-a", CHANGED_BY_IPTABLES),
                    chain("web-c", &["-j RETURN"]),
                ])
                .unwrap();
            assert!(updater.refresh().unwrap().is_empty());
            let good = bed.rules("web-a").unwrap();
            let count = CHANGED_BY_IPTABLES.len();
            for edit in [
                "-I web-a -p udp -j ACCEPT",
                "-A web-a -j web-c",
                "-D web-a 1",
                "-R web-a 3 -p udp -j ACCEPT",
                "-I web-a 5 -m comment --comment \"it's\" -j DROP",
                "-D web-a 1\n-I web-a 2 -p tcp --dport 22 -j ACCEPT",
                "-F web-a",
            ] {
                bed.other(edit);
                let drift = updater.verify().unwrap();
                assert_eq!(drift.changed.len(), 1, "{edit}");
                let changed = &drift.changed[0];
                assert_eq!(changed.chain, "web-a");
                let (foreign, lost) = match edit {
                    "-D web-a 1" => (0, 1),
                    "-F web-a" => (0, count),
                    _ if edit.starts_with("-R") => (1, 1),
                    _ if edit.contains('\n') => (0, 0),
                    _ => (1, 0),
                };
                assert_eq!(
                    (changed.foreign.len(), changed.lost.len()),
                    (foreign, lost),
                    "{edit}"
                );
                bed.journal.take();
                assert_eq!(updater.refresh().unwrap(), drift);
                assert_eq!(bed.journal.counts(), (1, 1));
                assert_eq!(bed.rules("web-a").unwrap(), good);
                assert!(updater.refresh().unwrap().is_empty());
            }
        },
    );
}

#[test]
fn chains_and_stubs_that_were_removed_are_reported_and_put_back() {
    each_bed(
        "chains_and_stubs_that_were_removed_are_reported_and_put_back",
        |bed: Bed| {
            let mut updater = bed.open();
            updater
                .rewrite_chains([
                    chain("web-a", &["-j web-b", "-j web-stub"]),
                    chain("web-b", &[]),
                ])
                .unwrap();
            updater.ensure_rule_inserted("INPUT", "-j web-a").unwrap();
            bed.other(":mine - [0:0]\n-A mine -j ACCEPT\n-F web-stub");
            let drift = updater.refresh().unwrap();
            assert_eq!(drift.changed[0].chain, "web-stub");
            assert_eq!(bed.rules("web-stub").unwrap(), stub("web-stub"));

            bed.other("-F web-a\n-X web-b\n-F web-stub\n-X web-stub");
            let drift = updater.refresh().unwrap();
            assert_eq!(drift.missing, ["web-b"]);
            assert_eq!(drift.missing_stubs, ["web-stub"]);
            assert_eq!(drift.changed[0].chain, "web-a");
            assert_eq!(bed.rules("web-a").unwrap(), ["-j web-b", "-j web-stub"]);

            // Somebody flushes everything, as a reload of a firewall does.
            bed.other("-F\n-X");
            let drift = updater.refresh().unwrap();
            assert_eq!(drift.hooks[0].problem, HookProblem::Gone);
            assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-a"]);
            assert!(updater.refresh().unwrap().is_empty());
        },
    );
}

#[test]
fn hook_rules_out_of_place_gone_repeated_or_back_are_reported_and_repaired() {
    each_bed(
        "hook_rules_out_of_place_gone_repeated_or_back_are_reported_and_repaired",
        |bed: Bed| {
            let mut updater = bed.open();
            updater.rewrite_chains([chain("web-a", &[])]).unwrap();
            updater
                .ensure_rule_inserted("INPUT", "-p TCP --dport ssh -j ACCEPT")
                .unwrap();
            updater.ensure_rule_inserted("INPUT", "-j web-a").unwrap();
            updater
                .ensure_rule_appended("INPUT", "-p udp -j DROP")
                .unwrap();
            updater
                .ensure_rule_removed("INPUT", "-p icmp -j DROP")
                .unwrap();
            let wanted = [
                "-j web-a",
                "-p tcp -m tcp --dport 22 -j ACCEPT",
                "-p udp -j DROP",
            ];
            for learned in [false, true] {
                for (edit, problem) in [
                    ("-I INPUT -p sctp", HookProblem::OutOfPlace),
                    ("-A INPUT -p sctp", HookProblem::OutOfPlace),
                    ("-D INPUT -j web-a", HookProblem::Gone),
                    ("-D INPUT -p udp -j DROP", HookProblem::Gone),
                    ("-A INPUT -p icmp -j DROP", HookProblem::Back),
                    ("-F INPUT", HookProblem::Gone),
                ] {
                    if learned {
                        assert!(updater.refresh().unwrap().is_empty());
                    } else {
                        updater.refresh_all().unwrap();
                    }
                    assert_eq!(bed.rules("INPUT").unwrap(), wanted);
                    bed.other(edit);
                    let drift = updater.verify().unwrap();
                    let problems: Vec<_> = drift.hooks.iter().map(|hook| hook.problem).collect();
                    assert!(
                        problems.contains(&problem),
                        "{learned} {edit}: {problems:?}"
                    );
                    updater.refresh().unwrap();
                    let left: Vec<_> = bed.rules("INPUT").unwrap();
                    let left: Vec<_> = left.iter().filter(|rule| *rule != "-p sctp").collect();
                    assert_eq!(left, wanted, "{learned} {edit}");
                    bed.other("-F INPUT");
                    updater.refresh().unwrap();
                }
            }
            // A second instance, once ours is known.
            bed.other("-F INPUT");
            updater.refresh().unwrap();
            assert!(updater.refresh().unwrap().is_empty());
            bed.other("-A INPUT -j web-a");
            assert!(
                updater
                    .verify()
                    .unwrap()
                    .hooks
                    .iter()
                    .any(|h| h.problem == HookProblem::Repeated)
            );
            updater.refresh().unwrap();
            assert_eq!(bed.rules("INPUT").unwrap(), wanted);
        },
    );
}

#[test]
fn leftover_chains_are_not_looked_at_until_the_restart_ends() {
    each_bed(
        "leftover_chains_are_not_looked_at_until_the_restart_ends",
        |bed: Bed| {
            bed.other(":web-old - [0:0]\n-A web-old -j ACCEPT");
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-a", &["-j web-old"])])
                .unwrap();
            assert!(updater.verify().unwrap().is_empty());
            // It vanishes: a stub has to stand in for it.
            bed.other("-F\n-X web-old");
            let drift = updater.refresh().unwrap();
            assert_eq!(drift.changed.len(), 1);
            assert_eq!(bed.rules("web-a").unwrap(), ["-j web-old"]);
            assert_eq!(bed.rules("web-old").unwrap(), stub("web-old"));
        },
    );
}
