//! The staged commit of nf_tables: new chains are created in pieces before they can be reached, and the commit that makes
//! them reachable is as atomic as ever. On the simulated and the real kernel.

mod common;

use common::bed::{Bed, Call, Updater, each_bed};
use iptables_updater::{
    Backend, Chain, Error, Exit, FailureClass, IptablesUpdater, Outcome, Request, Table,
};

const CHAINS: usize = 1_200;

/// Many new chains, each of which jumps to the next but one in ten; and a dispatcher, which exists, to all of those.
fn chains(last_rule: &str) -> Vec<Chain> {
    let name = |n: usize| format!("web-{n:04}");
    let mut chains: Vec<_> = (0..CHAINS)
        .map(|n| {
            let last = n % 10 == 9;
            let rules = if last {
                vec![last_rule.to_owned()]
            } else {
                vec![format!("-j {}", name(n + 1))]
            };
            Chain::new(name(n), rules).unwrap()
        })
        .collect();
    let dispatch = (0..CHAINS).step_by(10).map(|n| format!("-j {}", name(n)));
    chains.push(Chain::new("web-dispatch", dispatch).unwrap());
    chains
}

/// The dispatcher is there, and reached.
fn start(bed: &Bed) -> Updater {
    let mut updater = bed.open();
    updater
        .rewrite_chains([Chain::new("web-dispatch", ["-j DROP"]).unwrap()])
        .unwrap();
    updater
        .ensure_rule_inserted("INPUT", "-j web-dispatch")
        .unwrap();
    bed.journal.take();
    updater
}

#[test]
fn what_traffic_can_reach_changes_in_the_last_restore_alone() {
    each_bed(
        "what_traffic_can_reach_changes_in_the_last_restore_alone",
        |bed: Bed| {
            let mut updater = start(&bed);
            let changes = updater.rewrite_chains(chains("-j RETURN")).unwrap();
            assert_eq!(changes.rewritten.len(), CHAINS + 1);
            let (restores, saves) = bed.journal.take();
            match bed.backend {
                Backend::Legacy => assert_eq!(restores.len(), 1),
                Backend::NfTables => {
                    assert_eq!(restores.len(), 4);
                    for piece in &restores[..3] {
                        assert!(
                            !piece.contains("web-dispatch") && !piece.contains("\n:"),
                            "{piece}"
                        );
                    }
                    let last = &restores[3];
                    assert!(last.starts_with(
                        "*filter\n:web-dispatch - [0:0]\n-A web-dispatch -j web-0000\n"
                    ));
                    assert_eq!(last.matches("\n:").count(), 1);
                }
            }
            assert_eq!(saves, 0);
            assert_eq!(bed.rules("web-dispatch").unwrap().len(), CHAINS / 10);
            assert_eq!(bed.rules("web-0009").unwrap(), ["-j RETURN"]);
            assert!(updater.verify().unwrap().is_empty());
            assert_eq!(bed.web_chains().len(), CHAINS + 1);
        },
    );
}

#[test]
fn a_fault_in_a_piece_is_laid_to_its_request_and_leaves_nothing() {
    each_bed(
        "a_fault_in_a_piece_is_laid_to_its_request_and_leaves_nothing",
        |bed: Bed| {
            let mut updater = start(&bed);
            let mut requests: Vec<_> = chains("-j RETURN")
                .into_iter()
                .map(|c| Request::rewrite([c]))
                .collect();
            let bad = Chain::new("web-1109", ["-m no-such-match"]).unwrap();
            requests[1_109] = Request::rewrite([bad]);
            let results = updater.apply(&requests);
            let failed: Vec<_> = (0..results.len())
                .filter(|n| results[*n].is_err())
                .collect();
            assert_eq!(failed, [1_109]);
            assert_eq!(
                results[1_109].as_ref().unwrap_err().class(),
                Some(FailureClass::Refused)
            );
            // The chain that needs it has a stub.
            assert_eq!(
                bed.rules("web-1109").unwrap(),
                common::bed::stub("web-1109")
            );

            bed.other("-F\n-X");
            let mut updater = start(&bed);
            let error = updater
                .rewrite_chains(chains("-m no-such-match"))
                .unwrap_err();
            assert!(matches!(error, Error::Restore(_)), "{error}");
            assert_eq!(bed.web_chains(), ["web-dispatch"]);
            assert_eq!(bed.rules("web-dispatch").unwrap(), ["-j DROP"]);
        },
    );
}

#[test]
fn a_chain_that_is_there_after_all_is_not_touched_before_the_commit() {
    each_bed(
        "a_chain_that_is_there_after_all_is_not_touched_before_the_commit",
        |bed: Bed| {
            let mut updater = start(&bed);
            // Somebody has made it since, and reaches it.
            bed.other(":web-0700 - [0:0]\n-A web-0700 -j ACCEPT\n-A FORWARD -j web-0700");
            updater.rewrite_chains(chains("-j RETURN")).unwrap();
            assert_eq!(bed.rules("web-0700").unwrap(), ["-j web-0701"]);
            assert!(updater.verify().unwrap().is_empty());
            let (restores, _) = bed.journal.take();
            let touched = restores
                .iter()
                .filter(|input| input.contains("\n:web-0700 "))
                .count();
            assert_eq!(touched, 1);
        },
    );
}

#[test]
fn a_death_at_any_piece_leaves_orphans_that_the_next_cleanup_removes() {
    each_bed(
        "a_death_at_any_piece_leaves_orphans_that_the_next_cleanup_removes",
        |bed: Bed| {
            if bed.backend == Backend::Legacy {
                return;
            }
            for pieces in 0..4 {
                let mut updater = start(&bed);
                // From the piece on nothing is run any more, as if this process were dead.
                for n in 0..60 {
                    let dead = "iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n";
                    let dead = Outcome::failure(4, dead);
                    bed.journal
                        .fault(Call::Restore, if n == 0 { pieces } else { 0 }, dead);
                }
                assert!(updater.rewrite_chains(chains("-j RETURN")).is_err());
                assert_eq!(bed.rules("web-dispatch").unwrap(), ["-j DROP"], "{pieces}");
                bed.journal.clear_faults();
                let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
                let mut updater = builder.open(bed.executor()).unwrap();
                updater
                    .rewrite_chains([Chain::new("web-dispatch", ["-j DROP"]).unwrap()])
                    .unwrap();
                let report = updater.cleanup().unwrap();
                assert_eq!(report.deleted.len(), (pieces * 500).min(CHAINS), "{pieces}");
                assert_eq!(bed.web_chains(), ["web-dispatch"]);
                bed.other("-F\n-X");
            }
        },
    );
}

#[test]
fn a_last_restore_that_was_applied_before_it_died_is_done_again() {
    each_bed(
        "a_last_restore_that_was_applied_before_it_died_is_done_again",
        |bed: Bed| {
            let mut updater = start(&bed);
            let killed = || {
                let mut outcome = Outcome::failure(1, "");
                outcome.exit = Exit::Signal(9);
                outcome
            };
            // Twice: that is as often as such a failure is tried before all is left to one commit.
            for _ in 0..2 {
                let skip = if bed.backend == Backend::NfTables {
                    3
                } else {
                    0
                };
                bed.journal.fault(Call::Restore, skip, killed());
            }
            updater.rewrite_chains(chains("-j RETURN")).unwrap();
            assert!(updater.verify().unwrap().is_empty());
            assert_eq!(bed.rules("web-dispatch").unwrap().len(), CHAINS / 10);
            assert!(bed.journal.counts().0 < 12);
        },
    );
}
