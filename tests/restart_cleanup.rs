//! Graceful restart, cleanup and refresh: on the simulated and the real kernel, both back ends, IPv4 and IPv6.

mod common;

use common::bed::{Bed, Call, each_bed, stub};
use iptables_updater::{Backend, Chain, ChainState, CleanupReport, Error, FailureClass, Outcome};

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

/// What a previous run and other programs left: web-foo -> web-bar, web-baz -> web-biff, two foreign chains.
const LEFT: &str = "\
:INPUT DROP [10:505]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [40:1600]
:ignore-me - [0:0]
:ignore-me-too - [0:0]
:web-foo - [0:0]
:web-bar - [0:0]
:web-baz - [0:0]
:web-biff - [0:0]
-A web-foo -p tcp -j web-bar
-A web-baz -p udp -j web-biff
-A web-biff -p tcp -j DROP
-A ignore-me -j ignore-me-too
-A ignore-me-too -j DROP";

#[test]
fn a_restart_keeps_old_contents_until_the_cleanup() {
    each_bed(
        "a_restart_keeps_old_contents_until_the_cleanup",
        |bed: Bed| {
            bed.other(LEFT);
            let mut updater = bed.open();
            assert_eq!(updater.index().state("web-baz"), ChainState::Leftover);
            let foo = [
                "-p tcp -j web-bar",
                "-p tcp -j web-baz",
                "-p udp -j web-boff",
            ];
            updater
                .rewrite_chains([chain("web-foo", &foo), chain("web-bar", &["-j ACCEPT"])])
                .unwrap();
            let check_kept = || {
                assert_eq!(bed.rules("web-foo").unwrap(), foo);
                assert_eq!(bed.rules("web-bar").unwrap(), ["-j ACCEPT"]);
                assert_eq!(bed.rules("web-boff").unwrap(), stub("web-boff"));
                assert_eq!(bed.rules("ignore-me").unwrap(), ["-j ignore-me-too"]);
                assert_eq!(bed.rules("ignore-me-too").unwrap(), ["-j DROP"]);
                assert!(bed.save().contains(":INPUT DROP"));
            };
            check_kept();
            assert_eq!(bed.rules("web-baz").unwrap(), ["-p udp -j web-biff"]);
            assert_eq!(bed.rules("web-biff").unwrap(), ["-p tcp -j DROP"]);

            bed.journal.take();
            let report = updater.cleanup().unwrap();
            check_kept();
            assert_eq!(report.stubbed, ["web-baz"]);
            assert_eq!(report.deleted, ["web-biff"]);
            assert_eq!(bed.rules("web-baz").unwrap(), stub("web-baz"));
            assert_eq!(bed.rules("web-biff"), None);
            assert_eq!(bed.journal.counts(), (1, 2));
        },
    );
}

#[test]
fn a_deletion_during_the_restart_stubs_at_once() {
    each_bed("a_deletion_during_the_restart_stubs_at_once", |bed: Bed| {
        bed.other(LEFT);
        let mut updater = bed.open();
        updater
            .rewrite_chains([
                chain("web-foo", &["-j web-bar"]),
                chain("web-bar", &["-j ACCEPT"]),
                chain("web-baz", &["-j ACCEPT"]),
            ])
            .unwrap();
        updater.delete_chains(["web-bar", "web-baz"]).unwrap();
        assert_eq!(bed.rules("web-foo").unwrap(), ["-j web-bar"]);
        assert_eq!(bed.rules("web-bar").unwrap(), stub("web-bar"));
        assert_eq!(bed.rules("web-baz"), None);
        // The same of a chain that was never programmed.
        updater.delete_chains(["web-biff"]).unwrap();
        assert_eq!(bed.rules("web-biff"), None);
    });
}

#[test]
fn a_leftover_chain_that_is_required_and_deleted_is_a_stub_at_once() {
    each_bed(
        "a_leftover_chain_that_is_required_and_deleted_is_a_stub_at_once",
        |bed: Bed| {
            bed.other(LEFT);
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-new", &["-j web-baz"])])
                .unwrap();
            assert_eq!(bed.rules("web-baz").unwrap(), ["-p udp -j web-biff"]);
            updater.delete_chains(["web-baz"]).unwrap();
            assert_eq!(bed.rules("web-baz").unwrap(), stub("web-baz"));
        },
    );
}

#[test]
fn a_leftover_chain_that_has_vanished_is_no_longer_relied_on() {
    each_bed(
        "a_leftover_chain_that_has_vanished_is_no_longer_relied_on",
        |bed: Bed| {
            bed.other(LEFT);
            let mut updater = bed.open();
            bed.other("-F\n-X web-baz");
            bed.journal.take();
            updater
                .rewrite_chains([chain("web-new", &["-j web-baz"])])
                .unwrap();
            assert_eq!(bed.rules("web-baz").unwrap(), stub("web-baz"));
            assert_eq!(bed.journal.counts(), (2, 1));
        },
    );
}

#[test]
fn a_refresh_puts_a_stub_where_a_leftover_chain_has_vanished() {
    each_bed(
        "a_refresh_puts_a_stub_where_a_leftover_chain_has_vanished",
        |bed: Bed| {
            bed.other(LEFT);
            let mut updater = bed.open();
            // By name alone: no rule jumps to it, so that it can be deleted.
            let new = chain("web-new", &["-j RETURN"]);
            updater
                .rewrite_chains([new.requires(["web-baz"]).unwrap()])
                .unwrap();
            bed.other("-F web-baz\n-X web-baz");
            let drift = updater.refresh().unwrap();
            assert_eq!(drift.missing_stubs, ["web-baz"]);
            assert_eq!(bed.rules("web-baz").unwrap(), stub("web-baz"));
        },
    );
}

#[test]
fn a_circle_that_a_leftover_chain_closes_is_named_and_can_be_resolved() {
    each_bed(
        "a_circle_that_a_leftover_chain_closes_is_named_and_can_be_resolved",
        |bed: Bed| {
            let left =
                "-A web-a -j web-b\n-A web-b -j web-c\n-A web-c -j RETURN\n-A INPUT -j web-a";
            let left = format!(":web-a - [0:0]\n:web-b - [0:0]\n:web-c - [0:0]\n{left}");
            let new = || chain("web-c", &["-p tcp -j web-b", "-j RETURN"]);
            for resolve in [false, true] {
                bed.other(&left);
                let mut updater = bed.open();
                let before = bed.save();
                let error = updater.rewrite_chains([new()]).unwrap_err();
                let text = error.to_string();
                for part in [
                    "circle: web-c -> web-b -> web-c",
                    "web-b with contents of a previous run",
                    "in the same call",
                    "cleanup",
                ] {
                    assert!(text.contains(part), "{text}");
                }
                let Error::Restore(error) = error else {
                    panic!("{error}");
                };
                assert_eq!(error.circle, ["web-c", "web-b"]);
                assert_eq!(error.leftover, ["web-b"]);
                assert_eq!(bed.rules("web-c").unwrap(), ["-j RETURN"]);
                assert_eq!(bed.rules("web-b").unwrap(), ["-j web-c"]);
                assert_eq!(bed.save().lines().count(), before.lines().count());
                // What the error advises helps.
                if resolve {
                    updater.cleanup().unwrap();
                    updater.rewrite_chains([new()]).unwrap();
                    assert_eq!(bed.rules("web-b").unwrap(), stub("web-b"));
                } else {
                    let with = chain("web-b", &["-j ACCEPT"]);
                    updater.rewrite_chains([new(), with]).unwrap();
                }
                bed.other("-F\n-X");
            }
        },
    );
}

#[test]
fn a_cleanup_with_nothing_to_do_is_one_reading() {
    each_bed("a_cleanup_with_nothing_to_do_is_one_reading", |bed: Bed| {
        bed.other(":other - [0:0]\n-A other -j DROP");
        let mut updater = bed.open();
        updater
            .rewrite_chains([chain("web-a", &["-j web-b"])])
            .unwrap();
        bed.journal.take();
        assert_eq!(updater.cleanup().unwrap(), CleanupReport::default());
        assert_eq!(bed.journal.counts(), (0, 1));
    });
}

#[test]
fn orphans_go_in_one_restore_however_deep_or_circular() {
    each_bed(
        "orphans_go_in_one_restore_however_deep_or_circular",
        |bed: Bed| {
            use std::fmt::Write as _;
            let mut lines = String::new();
            for n in 0..50 {
                writeln!(lines, ":web-deep-{n} - [0:0]").unwrap();
            }
            for n in 0..49 {
                writeln!(lines, "-A web-deep-{n} -j web-deep-{}", n + 1).unwrap();
            }
            lines += ":web-x - [0:0]\n:web-y - [0:0]\n:web-policy-z - [0:0]\n-A web-x -j web-y\n-A web-y -j web-x";
            bed.other(&lines);
            let mut updater = bed.open();
            bed.journal.take();
            let report = updater.cleanup().unwrap();
            assert_eq!(report.deleted.len(), 53);
            assert_eq!(bed.journal.counts(), (1, 2));
            assert_eq!(bed.web_chains(), [] as [&str; 0]);
        },
    );
}

#[test]
fn an_orphan_that_others_refer_to_is_kept_with_all_that_it_needs() {
    each_bed(
        "an_orphan_that_others_refer_to_is_kept_with_all_that_it_needs",
        |bed: Bed| {
            bed.other(
            ":other - [0:0]\n:web-a - [0:0]\n:web-b - [0:0]\n:web-c - [0:0]\n:web-d - [0:0]\n\
             -A other -j web-a\n-A web-a -j web-b\n-A web-b -j RETURN\n-A web-c -j web-a\n-A web-c -j web-d",
        );
            let mut updater = bed.open();
            let report = updater.cleanup().unwrap();
            assert_eq!(report.deleted, ["web-c", "web-d"]);
            let kept: Vec<_> = report
                .kept
                .iter()
                .map(|k| (k.chain.as_str(), k.referrers.clone()))
                .collect();
            assert_eq!(
                kept,
                [
                    ("web-a", vec!["other".to_owned()]),
                    ("web-b", vec!["web-a".to_owned()])
                ]
            );
            assert_eq!(bed.rules("other").unwrap(), ["-j web-a"]);
            assert_eq!(bed.rules("web-a").unwrap(), ["-j web-b"]);
            assert_eq!(bed.rules("web-b").unwrap(), ["-j RETURN"]);
            // Not a prefix of a name, but the name, is what counts as a reference.
            bed.other("-F other\n:web-a-longer - [0:0]\n-A other -j web-a-longer");
            assert_eq!(updater.cleanup().unwrap().deleted, ["web-a", "web-b"]);
        },
    );
}

#[test]
fn chains_lost_during_a_cleanup_are_put_back_and_reported() {
    each_bed(
        "chains_lost_during_a_cleanup_are_put_back_and_reported",
        |bed: Bed| {
            bed.other(":web-orphan - [0:0]");
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-foo", &["-j web-boff"])])
                .unwrap();
            bed.journal.take();
            // The second reading of the cleanup sees a table that somebody has emptied.
            let empty = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n-A DOCKER -j RETURN\nCOMMIT\n";
            bed.journal.fault(Call::Save, 1, Outcome::success(empty));
            let report = updater.cleanup().unwrap();
            assert_eq!(report.deleted, ["web-orphan"]);
            assert_eq!(report.repaired, ["web-boff", "web-foo"]);
            assert!(report.kept.is_empty() && report.undeleted.is_empty());
            assert_eq!(bed.journal.counts(), (2, 2));
            assert_eq!(bed.rules("web-foo").unwrap(), ["-j web-boff"]);
            assert_eq!(bed.rules("web-boff").unwrap(), stub("web-boff"));
        },
    );
}

#[test]
fn a_flushed_table_is_repaired_by_a_cleanup() {
    each_bed("a_flushed_table_is_repaired_by_a_cleanup", |bed: Bed| {
        let mut updater = bed.open();
        updater
            .rewrite_chains([chain("web-foo", &["-j web-boff"])])
            .unwrap();
        updater.ensure_rule_inserted("INPUT", "-j web-foo").unwrap();
        bed.other("-F\n-X");
        let report = updater.cleanup().unwrap();
        assert_eq!(report.repaired, ["web-boff", "web-foo"]);
        assert_eq!(bed.rules("web-foo").unwrap(), ["-j web-boff"]);
        assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-foo"]);
        assert!(updater.cleanup().unwrap().repaired.is_empty());
    });
}

#[test]
fn a_reference_that_no_save_shows_leaves_the_orphan_and_costs_the_others_nothing() {
    each_bed(
        "a_reference_that_no_save_shows_leaves_the_orphan_and_costs_the_others_nothing",
        |bed: Bed| {
            bed.other(":web-a - [0:0]\n:web-b - [0:0]\n:web-c - [0:0]\n:web-d - [0:0]\n-A web-d -j ACCEPT");
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-x", &["-j web-d"])])
                .unwrap();
            // What a native nft rule may do: the reading shows no reference to web-b.
            let shown = bed.save();
            bed.other("-A FORWARD -j web-b");
            bed.journal.fault(Call::Save, 0, Outcome::success(shown));
            let report = updater.cleanup().unwrap();
            assert_eq!(report.deleted, ["web-a", "web-c"]);
            assert_eq!(report.undeleted.len(), 1);
            assert_eq!(report.undeleted[0].chain, "web-b");
            assert_eq!(report.stubbed, ["web-d"]);
            assert_eq!(bed.rules("web-d").unwrap(), stub("web-d"));
            assert!(report.kept.is_empty());
        },
    );
}

#[test]
fn a_refresh_writes_all_chains_then_the_hooks_in_their_order() {
    each_bed(
        "a_refresh_writes_all_chains_then_the_hooks_in_their_order",
        |bed: Bed| {
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-a", &["-j web-b"])])
                .unwrap();
            updater.ensure_rule_inserted("INPUT", "-j ACCEPT").unwrap();
            updater.ensure_rule_inserted("INPUT", "-j web-a").unwrap();
            updater.ensure_rule_appended("INPUT", "-j RETURN").unwrap();
            updater.ensure_rule_inserted("INPUT", "-j DROP").unwrap();
            updater.ensure_rule_removed("INPUT", "-j DROP").unwrap();
            let wanted = ["-j web-a", "-j ACCEPT", "-j RETURN"];
            assert_eq!(bed.rules("INPUT").unwrap(), wanted);

            bed.other("-F\n-X\n-A INPUT -j DROP\n-A INPUT -p tcp");
            bed.journal.take();
            updater.refresh_all().unwrap();
            assert_eq!(
                bed.rules("INPUT").unwrap(),
                ["-j web-a", "-j ACCEPT", "-p tcp", "-j RETURN"]
            );
            assert_eq!(bed.rules("web-a").unwrap(), ["-j web-b"]);
            assert_eq!(bed.rules("web-b").unwrap(), stub("web-b"));
            let (restores, _) = bed.journal.take();
            assert!(restores[0].contains("-A web-a -j web-b"));
            let first = |text: &str| restores.iter().position(|r| r.contains(text)).unwrap();
            assert!(first("-I INPUT -j ACCEPT") < first("-I INPUT -j web-a"));
            assert!(first("-I INPUT -j web-a") < first("-A INPUT -j RETURN"));
            assert!(first("-A INPUT -j RETURN") < first("-D INPUT -j DROP"));
        },
    );
}

#[test]
fn a_save_that_lost_output_is_read_again_and_never_taken_for_an_empty_table() {
    each_bed(
        "a_save_that_lost_output_is_read_again_and_never_taken_for_an_empty_table",
        |bed: Bed| {
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-a", &["-j ACCEPT"])])
                .unwrap();
            bed.journal.take();
            bed.journal.fault(Call::Save, 0, Outcome::success(""));
            bed.journal.fault(
                Call::Save,
                0,
                Outcome::success("*filter\n:INPUT ACCEPT [0:0]\n"),
            );
            assert!(updater.cleanup().unwrap().repaired.is_empty());
            assert_eq!(bed.journal.counts(), (0, 3));
            for _ in 0..3 {
                bed.journal.fault(Call::Save, 0, Outcome::success(""));
            }
            let error = updater.cleanup().unwrap_err();
            assert!(matches!(error, Error::Save { .. }), "{error}");
            assert_eq!(bed.journal.counts(), (0, 3));
            assert_eq!(bed.rules("web-a").unwrap(), ["-j ACCEPT"]);
        },
    );
}

#[test]
fn a_refused_stub_leaves_the_restart_going_on() {
    each_bed("a_refused_stub_leaves_the_restart_going_on", |bed: Bed| {
        bed.other(LEFT);
        let mut updater = bed.open();
        updater
            .rewrite_chains([chain("web-new", &["-j web-baz"])])
            .unwrap();
        for _ in 0..20 {
            let text = match bed.backend {
                Backend::NfTables => {
                    "iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n"
                }
                Backend::Legacy => {
                    "Fatal: can't open lock file /run/xtables.lock: Permission denied\n"
                }
            };
            bed.journal
                .fault(Call::Restore, 0, Outcome::failure(4, text));
        }
        let error = updater.cleanup().unwrap_err();
        let class = error.class().unwrap();
        assert!(
            matches!(class, FailureClass::NoPrivilege | FailureClass::LockFile),
            "{error}"
        );
        assert_eq!(updater.index().state("web-baz"), ChainState::Leftover);
    });
}

#[test]
fn a_leftover_chain_required_by_name_alone_is_looked_for() {
    each_bed(
        "a_leftover_chain_required_by_name_alone_is_looked_for",
        |bed| {
            bed.other(":web-x - [0:0]\n:web-y - [0:0]\n-A web-y -j RETURN");
            let mut updater = bed.open();
            bed.other(":web-x - [0:0]\n-X web-x");
            let chain = Chain::new("web-a", ["-j RETURN"]).unwrap();
            let chain = chain.requires(["web-x", "web-y"]).unwrap();
            updater.rewrite_chains([chain]).unwrap();
            assert_eq!(bed.rules("web-x"), Some(stub("web-x")));
            assert_eq!(bed.rules("web-y").unwrap(), ["-j RETURN"]);
        },
    );
}
