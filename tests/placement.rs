//! Several hook rules as one thing, among the rules of others: on the simulated and the real kernel, both back ends,
//! IPv4 and IPv6.

mod common;

use common::bed::{Bed, each_bed};
use common::{each_kernel, each_kernel_of};
use iptables_updater::{
    Backend, Chain, Error, Existed, HookPolicy, HookProblem, IpVersion, IptablesUpdater, Placement,
    Position, Table,
};

/// Two hook rules that iptables prints otherwise than they are written.
const OURS: [&str; 2] = ["-p TCP -j web-a", "-p udp --dport domain -j web-b"];
const PRINTED: [&str; 2] = ["-p tcp -j web-a", "-p udp -m udp --dport 53 -j web-b"];

fn with_chains(bed: &Bed, policy: HookPolicy) -> common::bed::Updater {
    let builder = IptablesUpdater::builder(Table::Filter).hook_policy(policy);
    let mut updater = bed.open_with(builder);
    let chains = ["web-a", "web-b"].map(|name| Chain::new(name, ["-j RETURN"]).unwrap());
    updater.rewrite_chains(chains).unwrap();
    updater
}

fn before(words: &str) -> Placement {
    Placement::Before(words.to_owned())
}

fn after(words: &str) -> Placement {
    Placement::After(words.to_owned())
}

#[test]
fn hooks_stand_together_at_their_place_and_a_second_call_writes_nothing() {
    each_bed(
        "hooks_stand_together_at_their_place_and_a_second_call_writes_nothing",
        |bed: Bed| {
            let theirs = ["-p icmp -j ACCEPT", "-j theirs", "-p sctp -j DROP"];
            for (placement, at) in [
                (Placement::Top, 0),
                (Placement::Bottom, 3),
                (before("-j theirs"), 1),
                (after("-j theirs"), 2),
                (before("-j no-such"), 3),
                (after("-j no-such"), 0),
            ] {
                bed.other(":theirs - [0:0]\n-F INPUT");
                bed.other(&theirs.map(|rule| format!("-A INPUT {rule}")).join("\n"));
                let mut updater = with_chains(&bed, HookPolicy::Always);
                let existed = updater
                    .ensure_hooks("INPUT", OURS, placement.clone())
                    .unwrap();
                assert_eq!(existed, Existed::No);
                let mut wanted: Vec<_> = theirs.to_vec();
                wanted.splice(at..at, PRINTED);
                let normal = |rules: Vec<String>| {
                    rules
                        .iter()
                        .map(|rule| rule.replace("ipv6-icmp", "icmp"))
                        .collect::<Vec<_>>()
                };
                assert_eq!(normal(bed.rules("INPUT").unwrap()), wanted, "{placement:?}");
                bed.journal.take();
                let existed = updater
                    .ensure_hooks("INPUT", OURS, placement.clone())
                    .unwrap();
                assert_eq!(existed, Existed::Yes);
                assert!(updater.refresh().unwrap().is_empty());
                assert_eq!(bed.journal.counts(), (0, 2));
                // The scratch chain is gone.
                assert_eq!(bed.web_chains(), ["web-a", "web-b"]);
                updater.cleanup().unwrap();
            }
        },
    );
}

#[test]
fn what_others_do_to_hooks_is_repaired_in_one_commit() {
    each_bed(
        "what_others_do_to_hooks_is_repaired_in_one_commit",
        |bed: Bed| {
            let mut updater = with_chains(&bed, HookPolicy::WhenMissing);
            bed.other("-A INPUT -p sctp -j DROP");
            updater.ensure_hooks("INPUT", OURS, Placement::Top).unwrap();
            for (edit, problem) in [
                ("-D INPUT -p tcp -j web-a", HookProblem::Gone),
                ("-A INPUT -p tcp -j web-a", HookProblem::Repeated),
                (
                    "-D INPUT 1\n-A INPUT -p tcp -j web-a",
                    HookProblem::OutOfPlace,
                ),
                ("-I INPUT 2 -p udp -j ACCEPT", HookProblem::OutOfPlace),
                ("-F INPUT\n-A INPUT -p sctp -j DROP", HookProblem::Gone),
            ] {
                bed.other(edit);
                let drift = updater.verify().unwrap();
                assert!(
                    drift.hooks.iter().any(|hook| hook.problem == problem),
                    "{edit}: {drift:?}"
                );
                bed.journal.take();
                updater.refresh().unwrap();
                assert_eq!(bed.journal.counts().0, 1, "{edit}");
                let rules = bed.rules("INPUT").unwrap();
                assert_eq!(rules[..2], PRINTED, "{edit}");
                let theirs: Vec<_> = rules[2..]
                    .iter()
                    .filter(|rule| !rule.contains("udp"))
                    .collect();
                assert_eq!(theirs, ["-p sctp -j DROP"], "{edit}");
            }
        },
    );
}

#[test]
fn who_stands_together_is_left_there_unless_asked_to_be_first_always() {
    each_bed(
        "who_stands_together_is_left_there_unless_asked_to_be_first_always",
        |bed: Bed| {
            let mut updater = with_chains(&bed, HookPolicy::WhenMissing);
            updater.ensure_hooks("INPUT", OURS, Placement::Top).unwrap();
            bed.other("-I INPUT -p sctp -j DROP");
            bed.journal.take();
            assert!(updater.refresh().unwrap().is_empty());
            assert_eq!(bed.journal.counts(), (0, 1));
            assert_eq!(bed.rules("INPUT").unwrap()[0], "-p sctp -j DROP");

            let mut updater = with_chains(&bed, HookPolicy::Always);
            updater.ensure_hooks("INPUT", OURS, Placement::Top).unwrap();
            assert_eq!(bed.rules("INPUT").unwrap()[..2], PRINTED);
            for _ in 0..4 {
                bed.other("-D INPUT -p sctp -j DROP\n-I INPUT -p sctp -j DROP");
                assert!(!updater.refresh().unwrap().is_empty());
                assert_eq!(bed.rules("INPUT").unwrap()[..2], PRINTED);
            }
            let fights = updater.verify().unwrap().fights;
            assert_eq!(fights.len(), 1);
            assert_eq!((fights[0].moves, fights[0].refreshes), (5, 5));
        },
    );
}

#[test]
fn two_agents_that_both_want_the_top_come_to_rest() {
    each_bed(
        "two_agents_that_both_want_the_top_come_to_rest",
        |bed: Bed| {
            let mut agents = ["one", "two"].map(|name| {
                let builder = IptablesUpdater::builder(Table::Filter).chain_prefix(name);
                let mut agent = builder.open(bed.executor()).unwrap();
                agent
                    .rewrite_chains([Chain::new(name, ["-j RETURN"]).unwrap()])
                    .unwrap();
                agent
                    .ensure_hooks("INPUT", [format!("-j {name}")], Placement::Top)
                    .unwrap();
                agent
            });
            bed.journal.take();
            for _ in 0..20 {
                for agent in &mut agents {
                    agent.refresh().unwrap();
                }
            }
            assert_eq!(bed.journal.counts(), (0, 40));
            assert_eq!(bed.rules("INPUT").unwrap(), ["-j two", "-j one"]);
        },
    );
}

#[test]
fn rules_that_iptables_does_not_find_again_are_never_doubled() {
    each_kernel(
        "rules_that_iptables_does_not_find_again_are_never_doubled",
        |kernel| {
            let updater = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
            let mut updater = updater.open(kernel.executor()).unwrap();
            let mut lost_ones = 0;
            for rule in [
                "-m recent --name x --set -j ACCEPT",
                "-m connlimit --connlimit-above 10 -j DROP",
            ] {
                for existed in [Existed::No, Existed::Yes] {
                    assert_eq!(
                        updater
                            .ensure_rule(Position::Append, "INPUT", rule)
                            .unwrap(),
                        existed
                    );
                }
                // Another program saves and restores the table: iptables finds the rule no longer.
                let saved = kernel.save(Table::Filter);
                assert!(kernel.restore_flushing(&saved).status.success());
                let found = kernel.iptables(&format!("-C INPUT {rule}"));
                let lost = !found.status.success();
                lost_ones += usize::from(lost);
                assert_eq!(
                    updater
                        .ensure_rule(Position::Append, "INPUT", rule)
                        .unwrap(),
                    Existed::Yes
                );
                assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap().len(), 1);
                let inserted = updater.ensure_rule_inserted("INPUT", rule);
                assert_eq!(matches!(inserted, Err(Error::CantMatch { .. })), lost);
                assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap().len(), 1);
                kernel.must_restore("*filter\n-F INPUT\nCOMMIT\n");
            }
            // Only in IPv4: there the field that isn't printed differs.
            let expected = if kernel.version == IpVersion::V4 {
                2
            } else {
                0
            };
            assert_eq!(lost_ones, expected, "{kernel:?}");
            // Of what names a set that isn't there, there is no such rule.
            updater
                .ensure_rule_removed("INPUT", "-m recent --name x --set -j no-such")
                .unwrap();
        },
    );
}

#[test]
fn hooks_that_are_no_longer_wanted_go() {
    each_bed("hooks_that_are_no_longer_wanted_go", |bed: Bed| {
        let mut updater = with_chains(&bed, HookPolicy::WhenMissing);
        let doubled = [OURS[0], OURS[1], OURS[0]];
        updater
            .ensure_hooks("INPUT", doubled, Placement::Top)
            .unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), PRINTED);
        updater
            .ensure_hooks("INPUT", [OURS[1]], Placement::Top)
            .unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), [PRINTED[1]]);
        assert!(updater.refresh().unwrap().is_empty());
        updater
            .ensure_hooks("INPUT", [OURS[1], OURS[0]], Placement::Top)
            .unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), [PRINTED[1], PRINTED[0]]);
    });
}

#[test]
fn a_rule_that_iptables_never_finds_again_is_put_once() {
    each_kernel_of(
        Backend::NfTables,
        "a_rule_that_iptables_never_finds_again_is_put_once",
        |kernel| {
            let updater = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
            let mut updater = updater.open(kernel.executor()).unwrap();
            let rule = "-m limit --limit 5/min --limit-burst 0 -j ACCEPT";
            for existed in [Existed::No, Existed::Yes, Existed::Yes] {
                let found = updater
                    .ensure_rule(Position::Append, "INPUT", rule)
                    .unwrap();
                assert_eq!(found, existed, "{kernel:?}");
            }
            assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap().len(), 1);
        },
    );
}
