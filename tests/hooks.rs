//! Hook rules in chains of others: on the simulated and the real kernel, both back ends, IPv4 and IPv6.

mod common;

use std::fmt::Write as _;

use common::bed::{Bed, Call, Updater, each_bed};
use iptables_updater::{
    Backend, Chain, ChainNameError, Error, FailureClass, IpVersion, Outcome, Position,
};

fn with_web_foo(bed: &Bed) -> Updater {
    let mut updater = bed.open();
    updater
        .rewrite_chains([Chain::new("web-foo", ["-j RETURN"]).unwrap()])
        .unwrap();
    bed.journal.take();
    updater
}

#[test]
fn a_rule_that_is_not_there_is_inserted_alone() {
    each_bed("a_rule_that_is_not_there_is_inserted_alone", |bed: Bed| {
        bed.other("-A INPUT -p tcp");
        let mut updater = with_web_foo(&bed);
        updater.ensure_rule_inserted("INPUT", "-j web-foo").unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-foo", "-p tcp"]);
        let (restores, _) = bed.journal.take();
        assert_eq!(restores.len(), 2);
        assert_eq!(restores[1], "*filter\n-I INPUT -j web-foo\nCOMMIT\n");
    });
}

#[test]
fn a_rule_that_is_there_is_moved_in_one_commit() {
    each_bed("a_rule_that_is_there_is_moved_in_one_commit", |bed: Bed| {
        bed.other(":web-foo - [0:0]\n-A INPUT -p tcp\n-A INPUT -j web-foo");
        let mut updater = with_web_foo(&bed);
        updater
            .ensure_rule_inserted("INPUT", "-A INPUT -j web-foo")
            .unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-foo", "-p tcp"]);
        let (restores, _) = bed.journal.take();
        assert_eq!(restores.len(), 2);
        assert_eq!(
            restores[1],
            "*filter\n-D INPUT -j web-foo\n-I INPUT -j web-foo\nCOMMIT\n"
        );
        updater
            .ensure_rule_appended("INPUT", "--jump web-foo")
            .unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), ["-p tcp", "-j web-foo"]);
    });
}

#[test]
fn of_several_instances_one_is_left() {
    each_bed("of_several_instances_one_is_left", |bed: Bed| {
        for count in [2, 3, 15, 16, 17, 40] {
            let mut lines = String::from(":web-foo - [0:0]\n-F INPUT");
            for n in 0..count {
                write!(
                    lines,
                    "\n-A INPUT -j web-foo\n-A INPUT -p tcp --dport {}",
                    n + 1
                )
                .unwrap();
            }
            bed.other(&lines);
            let mut updater = with_web_foo(&bed);
            updater.ensure_rule_inserted("INPUT", "-j web-foo").unwrap();
            let rules = bed.rules("INPUT").unwrap();
            assert_eq!(rules[0], "-j web-foo");
            assert_eq!(rules.len(), count + 1);
            assert_eq!(rules.iter().filter(|r| *r == "-j web-foo").count(), 1);
        }
    });
}

#[test]
fn all_instances_are_removed_in_few_restores() {
    each_bed("all_instances_are_removed_in_few_restores", |bed: Bed| {
        let lines = "-A INPUT -j ACCEPT\n".repeat(120);
        bed.other(&format!("-A INPUT -p tcp\n{lines}"));
        let mut updater = with_web_foo(&bed);
        updater.ensure_rule_removed("INPUT", "-j ACCEPT").unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), ["-p tcp"]);
        let restores = bed.journal.counts().0;
        assert!(restores <= 4, "{restores}");
        updater.ensure_rule_removed("INPUT", "-j ACCEPT").unwrap();
        assert_eq!(bed.journal.counts(), (1, 0));
    });
}

#[test]
fn what_can_not_be_there_counts_as_removed() {
    each_bed("what_can_not_be_there_counts_as_removed", |bed: Bed| {
        for (chain, rule) in [
            ("INPUT", "-j ACCEPT"),
            ("INPUT", "-j no-such-chain"),
            ("INPUT", "-g no-such-chain"),
            ("no-such-chain", "-j ACCEPT"),
            ("INPUT", "-m set --match-set no-such-set src -j ACCEPT"),
        ] {
            let mut updater = with_web_foo(&bed);
            updater.ensure_rule_removed(chain, rule).unwrap();
            assert_eq!(bed.journal.counts(), (1, 0), "{chain} {rule}");
        }
    });
}

#[test]
fn what_is_not_an_absence_is_an_error() {
    each_bed("what_is_not_an_absence_is_an_error", |bed: Bed| {
        let mut updater = with_web_foo(&bed);
        let before = bed.rules("INPUT");
        for rule in [
            "-m no-such-match",
            "--no-such-option",
            "-p no-such-protocol",
        ] {
            let error = updater.ensure_rule_removed("INPUT", rule).unwrap_err();
            assert_eq!(error.class(), Some(FailureClass::Refused), "{error}");
            let error = updater.ensure_rule_inserted("INPUT", rule).unwrap_err();
            assert_eq!(error.class(), Some(FailureClass::Refused), "{error}");
            assert_eq!(bed.journal.counts(), (2, 0), "{rule}");
        }
        assert_eq!(bed.rules("INPUT"), before);
    });
}

#[test]
fn an_insertion_that_fails_is_one_clear_error_and_is_not_remembered() {
    each_bed(
        "an_insertion_that_fails_is_one_clear_error_and_is_not_remembered",
        |bed: Bed| {
            let mut updater = with_web_foo(&bed);
            let error = updater
                .ensure_rule_inserted("INPUT", "-j web-nope")
                .unwrap_err();
            assert_eq!(error.class(), Some(FailureClass::TargetAbsent), "{error}");
            assert!(error.to_string().contains("web-nope"), "{error}");
            let (restores, saves) = bed.journal.counts();
            assert!(restores <= 2 && saves <= 1, "{restores} {saves}");
            let error = updater
                .ensure_rule_inserted("no-such-chain", "-j ACCEPT")
                .unwrap_err();
            assert_eq!(error.class(), Some(FailureClass::TargetAbsent), "{error}");
            bed.journal.take();
            updater.refresh_all().unwrap();
            let (restores, _) = bed.journal.take();
            assert!(
                restores
                    .iter()
                    .all(|r| !r.contains("INPUT") && !r.contains("no-such"))
            );
        },
    );
}

#[test]
fn a_chain_of_ours_that_somebody_removed_is_put_back_for_its_hook() {
    each_bed(
        "a_chain_of_ours_that_somebody_removed_is_put_back_for_its_hook",
        |bed: Bed| {
            let mut updater = with_web_foo(&bed);
            bed.other("-F\n-X");
            updater.ensure_rule_inserted("INPUT", "-j web-foo").unwrap();
            assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-foo"]);
            assert_eq!(bed.rules("web-foo").unwrap(), ["-j RETURN"]);
        },
    );
}

#[test]
fn of_insert_remove_insert_the_last_is_remembered() {
    each_bed(
        "of_insert_remove_insert_the_last_is_remembered",
        |bed: Bed| {
            let mut updater = with_web_foo(&bed);
            for (insert, expected) in [
                (true, vec!["-j web-foo"]),
                (false, vec![]),
                (true, vec!["-j web-foo"]),
            ] {
                if insert {
                    updater.ensure_rule_inserted("INPUT", "-j web-foo").unwrap();
                } else {
                    updater.ensure_rule_removed("INPUT", "-j web-foo").unwrap();
                }
                assert_eq!(bed.rules("INPUT").unwrap(), expected);
                // Somebody does the opposite; a refresh knows better.
                bed.other(if insert {
                    "-D INPUT -j web-foo"
                } else {
                    "-A INPUT -j web-foo"
                });
                updater.refresh_all().unwrap();
                assert_eq!(bed.rules("INPUT").unwrap(), expected);
            }
        },
    );
}

#[test]
fn rules_that_read_back_otherwise_are_found_all_the_same() {
    each_bed(
        "rules_that_read_back_otherwise_are_found_all_the_same",
        |bed: Bed| {
            let mut updater = with_web_foo(&bed);
            for rule in [
                "-p TCP --dport ssh -j ACCEPT",
                "-m comment --comment \"it's \\\"here\\\"\" -j web-foo",
                "-m conntrack --ctstate ESTABLISHED,NEW -j ACCEPT",
                "-m limit --limit 60/minute -j RETURN",
                "-m mark --mark 1 -j RETURN",
                "-m recent --name x --set -j ACCEPT",
                "-m connlimit --connlimit-above 10 -j DROP",
            ] {
                for _ in 0..3 {
                    updater.ensure_rule_inserted("INPUT", rule).unwrap();
                    assert_eq!(bed.rules("INPUT").unwrap().len(), 1, "{rule}");
                }
                updater.ensure_rule_removed("INPUT", rule).unwrap();
                assert_eq!(bed.rules("INPUT").unwrap().len(), 0, "{rule}");
            }
        },
    );
}

#[test]
fn a_held_lock_is_waited_for_and_never_read_as_absence() {
    each_bed(
        "a_held_lock_is_waited_for_and_never_read_as_absence",
        |bed: Bed| {
            let mut updater = with_web_foo(&bed);
            let held = "Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.\n";
            let busy = "iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Resource temporarily unavailable\n";
            let text = if bed.backend == Backend::Legacy {
                held
            } else {
                busy
            };
            for _ in 0..9 {
                bed.journal
                    .fault(Call::Restore, 0, Outcome::failure(4, text));
            }
            updater.ensure_rule_inserted("INPUT", "-j web-foo").unwrap();
            assert_eq!(bed.journal.counts(), (11, 0));
            assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-foo"]);
            for _ in 0..10 {
                bed.journal
                    .fault(Call::Restore, 0, Outcome::failure(4, text));
            }
            let error = updater
                .ensure_rule_removed("INPUT", "-j web-foo")
                .unwrap_err();
            let Error::Restore(error) = error else {
                panic!("{error}")
            };
            assert!(matches!(
                error.class,
                FailureClass::LockHeld | FailureClass::Race
            ));
            assert_eq!(error.tries, 10);
            assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-foo"]);
        },
    );
}

#[test]
fn hooks_are_for_chains_of_others_in_this_table() {
    each_bed(
        "hooks_are_for_chains_of_others_in_this_table",
        |bed: Bed| {
            let mut updater = with_web_foo(&bed);
            let error = updater
                .ensure_rule_inserted("web-foo", "-j ACCEPT")
                .unwrap_err();
            assert!(matches!(error, Error::HookInOwned { .. }), "{error}");
            let error = updater
                .ensure_rule_inserted("PREROUTING", "-j ACCEPT")
                .unwrap_err();
            let no_chain = matches!(error, Error::ChainName(ChainNameError::NotInTable { .. }));
            assert!(no_chain, "{error}");
            let error = updater
                .ensure_rule_inserted("INPUT", "-A OUTPUT -j ACCEPT")
                .unwrap_err();
            assert!(matches!(error, Error::HookRule { .. }), "{error}");
            assert_eq!(bed.journal.counts(), (0, 0));
        },
    );
}

type Act = fn(&mut Updater, &str) -> Result<(), Error>;

#[test]
fn of_one_rule_in_two_spellings_the_last_wish_counts() {
    each_bed(
        "of_one_rule_in_two_spellings_the_last_wish_counts",
        |bed: Bed| {
            let (first, second) = match bed.version {
                IpVersion::V4 => ("-s 10.0.0.1/8 -j web-foo", "-s 10.0.0.0/8 -j web-foo"),
                IpVersion::V6 => ("-s fd00::1/8 -j web-foo", "-s fd00::/8 -j web-foo"),
            };
            let acts: [(&str, Act); 5] = [
                ("insert", |updater, rule| {
                    updater.ensure_rule_inserted("INPUT", rule)
                }),
                ("append", |updater, rule| {
                    updater.ensure_rule_appended("INPUT", rule)
                }),
                ("anywhere", |updater, rule| {
                    updater
                        .ensure_rule(Position::Prepend, "INPUT", rule)
                        .map(drop)
                }),
                ("remove", |updater, rule| {
                    updater.ensure_rule_removed("INPUT", rule)
                }),
                ("delete", |updater, rule| {
                    updater.delete_rule("INPUT", rule).map(drop)
                }),
            ];
            for (before, one) in acts {
                for (after, other) in acts {
                    let what = format!("{before}, then {after}");
                    let mut updater = with_web_foo(&bed);
                    // Another rule with the same target has nothing to do with it.
                    updater
                        .ensure_rule_inserted("INPUT", "-i lo -j web-foo")
                        .unwrap();
                    one(&mut updater, first).unwrap();
                    other(&mut updater, second).unwrap();
                    let expected = bed.rules("INPUT").unwrap();
                    let stands = !matches!(after, "remove" | "delete");
                    assert_eq!(expected.len(), 1 + usize::from(stands), "{what}");
                    for _ in 0..3 {
                        let drift = updater.refresh().unwrap();
                        assert!(drift.is_empty(), "{what}: {drift:#?}");
                        assert_eq!(bed.rules("INPUT").unwrap(), expected, "{what}");
                    }
                    bed.other("-F INPUT");
                    updater.refresh().unwrap();
                    assert_eq!(bed.rules("INPUT").unwrap().len(), expected.len(), "{what}");
                    bed.other("-F INPUT");
                }
            }
        },
    );
}
