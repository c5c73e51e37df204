//! Rewrites, deletions, stubs: on the simulated and the real kernel, both back ends, IPv4 and IPv6.

mod common;

use common::bed::{Bed, Call, each_bed, stub};
use iptables_updater::{
    Chain, Changes, Error, FailureClass, IptablesUpdater, Outcome, Request, Rule, Table,
};

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

#[test]
fn what_a_chain_requires_exists_in_the_same_commit_as_a_stub() {
    each_bed(
        "what_a_chain_requires_exists_in_the_same_commit_as_a_stub",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.journal.take();
            let changes = updater
                .rewrite_chains([chain("web-foo", &["-j web-bar"])])
                .unwrap();
            assert_eq!(changes.rewritten, ["web-foo"]);
            assert_eq!(changes.stubbed, ["web-bar"]);
            let (restores, saves) = bed.journal.take();
            assert_eq!(
                restores,
                ["*filter\n\
              :web-bar - [0:0]\n\
              :web-foo - [0:0]\n\
              -A web-bar -m comment --comment \"missing chain web-bar\" -j DROP\n\
              -A web-foo -j web-bar\n\
              COMMIT\n"]
            );
            assert_eq!(saves, 0);
            assert_eq!(bed.rules("web-foo").unwrap(), ["-j web-bar"]);
            assert_eq!(bed.rules("web-bar").unwrap(), stub("web-bar"));
        },
    );
}

#[test]
fn an_explicit_requirement_and_a_goto_get_stubs_too() {
    each_bed(
        "an_explicit_requirement_and_a_goto_get_stubs_too",
        |bed: Bed| {
            let mut updater = bed.open();
            let rules = [
                "--goto=web-far",
                "-m comment --comment \"-j web-no\" -j RETURN",
            ];
            let chain = chain("web-foo", &rules).requires(["web-extra"]).unwrap();
            updater.rewrite_chains([chain]).unwrap();
            assert_eq!(bed.web_chains(), ["web-extra", "web-far", "web-foo"]);
            assert_eq!(updater.required_chains(), [&"web-extra", &"web-far"]);
        },
    );
}

#[test]
fn an_override_stands_in_for_its_chain() {
    each_bed("an_override_stands_in_for_its_chain", |bed: Bed| {
        let mut updater = bed.open();
        updater
            .set_missing_chain_override("web-bar", ["-A web-bar --jump RETURN"])
            .unwrap();
        updater
            .rewrite_chains([chain("web-foo", &["-j web-bar"])])
            .unwrap();
        assert_eq!(bed.rules("web-bar").unwrap(), ["-j RETURN"]);
        let late = updater.set_missing_chain_override("web-bar", ["-j DROP"]);
        assert!(
            matches!(late, Err(Error::OverrideTooLate { .. })),
            "{late:?}"
        );
    });
}

#[test]
fn a_stub_maker_makes_the_stubs_but_none_that_need_chains() {
    each_bed(
        "a_stub_maker_makes_the_stubs_but_none_that_need_chains",
        |bed: Bed| {
            let builder = IptablesUpdater::builder(Table::Filter).stub_maker(|version, chain| {
                let words = ["-m", "comment", "--comment", &format!("{version} {chain}")];
                vec![Rule::from_words(words).unwrap()]
            });
            let mut updater = bed.open_with(builder);
            updater
                .rewrite_chains([chain("web-foo", &["-j web-bar"])])
                .unwrap();
            let expected = format!("-m comment --comment \"{} web-bar\"", bed.version);
            assert_eq!(bed.rules("web-bar").unwrap(), [expected]);

            let builder = IptablesUpdater::builder(Table::Filter)
                .stub_maker(|_, _| vec![Rule::new("-j web-other").unwrap()]);
            let mut updater = bed.open_with(builder);
            bed.journal.take();
            let error = updater
                .rewrite_chains([chain("web-baz", &["-j web-x"])])
                .unwrap_err();
            assert!(matches!(error, Error::StubRequires { .. }), "{error}");
            assert_eq!(bed.journal.counts(), (0, 0));
            assert!(updater.programmed_chains().is_empty());
        },
    );
}

#[test]
fn a_deleted_chain_that_is_required_becomes_a_stub() {
    each_bed(
        "a_deleted_chain_that_is_required_becomes_a_stub",
        |bed: Bed| {
            let mut updater = bed.open();
            updater.cleanup().unwrap();
            updater
                .rewrite_chains([
                    chain("web-foo", &["-j web-bar"]),
                    chain("web-bar", &["-j ACCEPT"]),
                ])
                .unwrap();
            assert_eq!(bed.rules("web-bar").unwrap(), ["-j ACCEPT"]);
            let changes = updater.delete_chains(["web-bar"]).unwrap();
            assert_eq!(changes.stubbed, ["web-bar"]);
            assert_eq!(bed.rules("web-foo").unwrap(), ["-j web-bar"]);
            assert_eq!(bed.rules("web-bar").unwrap(), stub("web-bar"));
            // Programming it again replaces the stub; giving up the requirer deletes both.
            updater
                .rewrite_chains([chain("web-bar", &["-j RETURN"])])
                .unwrap();
            assert_eq!(bed.rules("web-bar").unwrap(), ["-j RETURN"]);
            updater.delete_chains(["web-bar", "web-foo"]).unwrap();
            assert_eq!(bed.web_chains(), [] as [&str; 0]);
        },
    );
}

#[test]
fn the_same_contents_again_run_nothing() {
    each_bed("the_same_contents_again_run_nothing", |bed: Bed| {
        let mut updater = bed.open();
        let chains = || [chain("web-foo", &["-j  web-bar"]), chain("web-baz", &[])];
        updater.rewrite_chains(chains()).unwrap();
        bed.journal.take();
        assert_eq!(
            updater.rewrite_chains(chains()).unwrap(),
            Changes::default()
        );
        assert_eq!(
            updater.delete_chains(["web-unknown"]).unwrap(),
            Changes::default()
        );
        assert_eq!(bed.journal.counts(), (0, 0));
    });
}

#[test]
fn a_chain_that_somebody_else_still_refers_to_stays_as_a_stub() {
    each_bed(
        "a_chain_that_somebody_else_still_refers_to_stays_as_a_stub",
        |bed: Bed| {
            let mut updater = bed.open();
            let names = ["web-a", "web-b", "web-c", "web-d", "web-e"];
            updater
                .rewrite_chains(names.map(|name| chain(name, &["-j ACCEPT"])))
                .unwrap();
            bed.other("-A FORWARD -j web-b\n-A FORWARD -j web-d");
            bed.journal.take();
            let changes = updater.delete_chains(names).unwrap();
            assert_eq!(changes.deleted, ["web-a", "web-c", "web-e"]);
            let left: Vec<_> = changes.undeleted.iter().map(|u| u.chain.as_str()).collect();
            assert_eq!(left, ["web-b", "web-d"]);
            for undeleted in &changes.undeleted {
                assert_eq!(
                    undeleted.class,
                    Some(FailureClass::ChainBusy),
                    "{undeleted:?}"
                );
            }
            assert_eq!(bed.rules("web-b").unwrap(), stub("web-b"));
            // One for the stubs, one that fails, a reading that shows what holds which, one for the rest.
            assert_eq!(bed.journal.counts(), (3, 1));
            assert!(
                changes.undeleted[0].reason.contains("FORWARD"),
                "{:?}",
                changes.undeleted
            );
            assert_eq!(bed.web_chains(), ["web-b", "web-d"]);

            bed.other("-F FORWARD");
            let report = updater.cleanup().unwrap();
            assert_eq!(report.deleted, ["web-b", "web-d"]);
            assert_eq!(bed.web_chains(), [] as [&str; 0]);
        },
    );
}

#[test]
fn many_chains_that_others_hold_cost_no_more_restores_than_one() {
    each_bed(
        "many_chains_that_others_hold_cost_no_more_restores_than_one",
        |bed: Bed| {
            let mut updater = bed.open();
            let name = |n: usize| format!("web-{n:03}");
            let chains = (0..300).map(|n| chain(&name(n), &["-j ACCEPT"]));
            updater.rewrite_chains(chains).unwrap();
            let held: Vec<_> = (0..300).filter(|n| n % 5 == 0).map(name).collect();
            let jumps = held.iter().map(|name| format!("-A FORWARD -j {name}"));
            bed.other(&jumps.collect::<Vec<_>>().join("\n"));
            bed.journal.take();
            let changes = updater.delete_chains((0..300).map(name)).unwrap();
            assert_eq!(changes.deleted.len(), 240);
            let left = changes.undeleted.iter().map(|u| u.chain.to_string());
            assert_eq!(left.collect::<Vec<_>>(), held);
            assert_eq!(bed.journal.counts(), (3, 1));
            assert_eq!(bed.web_chains(), held);
            assert_eq!(bed.rules("web-005").unwrap(), stub("web-005"));
        },
    );
}

#[test]
fn chains_that_no_reading_shows_to_be_held_are_found_one_by_one() {
    each_bed(
        "chains_that_no_reading_shows_to_be_held_are_found_one_by_one",
        |bed: Bed| {
            let mut updater = bed.open();
            let names = ["web-a", "web-b", "web-c", "web-d", "web-e"];
            updater
                .rewrite_chains(names.map(|name| chain(name, &["-j ACCEPT"])))
                .unwrap();
            let shown = bed.save();
            bed.other("-A FORWARD -j web-b\n-A FORWARD -j web-d");
            bed.journal.take();
            bed.journal.fault(Call::Save, 0, Outcome::success(shown));
            let changes = updater.delete_chains(names).unwrap();
            assert_eq!(changes.deleted, ["web-a", "web-c", "web-e"]);
            assert_eq!(changes.undeleted.len(), 2);
            assert_eq!(bed.journal.counts(), (4, 1));
        },
    );
}

#[test]
fn chains_that_somebody_removed_are_put_back_where_a_commit_needs_them() {
    each_bed(
        "chains_that_somebody_removed_are_put_back_where_a_commit_needs_them",
        |bed: Bed| {
            let mut updater = bed.open();
            updater
                .rewrite_chains([
                    chain("web-a", &["-j web-b", "-j web-stub"]),
                    chain("web-b", &["-j ACCEPT"]),
                ])
                .unwrap();
            bed.other("-F\n-X");
            bed.journal.take();
            updater
                .rewrite_chains([chain("web-c", &["-j web-b", "-j web-stub"])])
                .unwrap();
            assert_eq!(bed.journal.counts(), (2, 1));
            assert_eq!(bed.rules("web-a").unwrap(), ["-j web-b", "-j web-stub"]);
            assert_eq!(bed.rules("web-b").unwrap(), ["-j ACCEPT"]);
            assert_eq!(bed.rules("web-c").unwrap(), ["-j web-b", "-j web-stub"]);
            assert_eq!(bed.rules("web-stub").unwrap(), stub("web-stub"));
        },
    );
}

#[test]
fn a_plan_is_just_what_then_runs() {
    each_bed("a_plan_is_just_what_then_runs", |bed: Bed| {
        let mut updater = bed.open();
        updater
            .rewrite_chains([chain("web-a", &["-j web-b"]), chain("web-z", &[])])
            .unwrap();
        bed.journal.take();
        let chains = vec![chain("web-a", &["-j web-c"])];
        let plan = updater.plan(&[Request::rewrite(chains.clone())]).unwrap();
        assert_eq!(bed.journal.counts(), (0, 0));
        assert_eq!(updater.index().requirers("web-b"), 1);
        updater.rewrite_chains(chains).unwrap();
        let (restores, _) = bed.journal.take();
        assert_eq!(plan.to_string(), restores.concat());
        assert!(plan.deletion_input().unwrap().as_str().contains("-X web-b"));
        assert!(
            updater
                .plan(&[Request::delete(["web-unknown"]).unwrap()])
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn every_table_takes_its_default_stub() {
    each_bed("every_table_takes_its_default_stub", |bed: Bed| {
        for table in Table::ALL {
            let mut updater = bed.open_with(IptablesUpdater::builder(table));
            updater
                .rewrite_chains([chain("web-a", &["-j web-b"])])
                .unwrap();
            let verdict = if table == Table::Nat {
                "RETURN"
            } else {
                "DROP"
            };
            assert_eq!(
                bed.rules_in(table, "web-b").unwrap(),
                [format!(
                    "-m comment --comment \"missing chain web-b\" -j {verdict}"
                )],
                "{table}"
            );
            let kernel_chain = table.kernel_chains()[0];
            updater
                .ensure_rule_inserted(kernel_chain, "-j web-a")
                .unwrap();
        }
    });
}

#[test]
fn many_chains_in_one_commit_have_no_redundant_line() {
    each_bed(
        "many_chains_in_one_commit_have_no_redundant_line",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.journal.take();
            let chains = (0..500).map(|n| chain(&format!("web-{n:04}"), &["-j ACCEPT", "-j DROP"]));
            updater.rewrite_chains(chains).unwrap();
            let (restores, _) = bed.journal.take();
            assert_eq!(restores.len(), 1);
            assert_eq!(restores[0].lines().count(), 2 + 500 * 3);
            assert!(!restores[0].contains("-F") && !restores[0].contains("--flush"));
            let declared: Vec<_> = restores[0].lines().filter(|l| l.starts_with(':')).collect();
            assert!(declared.is_sorted());
        },
    );
}
