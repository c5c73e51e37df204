//! What is refused, by the library or by iptables, and what the error tells: on the simulated and the real kernel, both
//! back ends, IPv4 and IPv6.

mod common;

use common::bed::{Bed, each_bed, stub};
use iptables_updater::{Backend, Chain, Error, FailureClass};

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

#[test]
fn only_owned_chains_are_written_deleted_or_required() {
    each_bed(
        "only_owned_chains_are_written_deleted_or_required",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.journal.take();
            let foreign = || chain("docker", &["-j ACCEPT"]);
            for error in [
                updater.rewrite_chains([foreign()]).unwrap_err(),
                updater
                    .rewrite_chains([chain("web-a", &[]), foreign()])
                    .unwrap_err(),
                updater.delete_chains(["docker"]).unwrap_err(),
                updater
                    .set_missing_chain_override("docker", ["-j DROP"])
                    .unwrap_err(),
            ] {
                assert!(matches!(error, Error::NotOwned { .. }), "{error}");
                assert!(error.to_string().contains("docker") && error.to_string().contains("web-"));
            }
            let requires = chain("web-a", &[]).requires(["docker"]).unwrap();
            let error = updater.rewrite_chains([requires]).unwrap_err();
            assert!(matches!(error, Error::RequiresNotOwned { .. }), "{error}");
            assert_eq!(bed.journal.counts(), (0, 0));
            assert!(updater.programmed_chains().is_empty());
        },
    );
}

#[test]
fn a_circle_is_refused_before_anything_runs() {
    each_bed("a_circle_is_refused_before_anything_runs", |bed: Bed| {
        let mut updater = bed.open();
        updater
            .rewrite_chains([chain("web-a", &["-j web-b"])])
            .unwrap();
        bed.journal.take();
        let error = updater
            .rewrite_chains([chain("web-b", &["-g web-a"])])
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("web-a -> web-b -> web-a") || text.contains("web-b -> web-a -> web-b")
        );
        assert_eq!(bed.journal.counts(), (0, 0));
        assert_eq!(bed.rules("web-b").unwrap(), stub("web-b"));
    });
}

#[test]
fn a_circle_through_a_chain_of_others_gives_one_clear_error_soon() {
    each_bed(
        "a_circle_through_a_chain_of_others_gives_one_clear_error_soon",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.other(":other - [0:0]\n-A INPUT -j other");
            updater
                .rewrite_chains([chain("web-a", &["-j RETURN"])])
                .unwrap();
            bed.other("-A other -j web-a");
            bed.journal.take();
            let error = updater
                .rewrite_chains([chain("web-a", &["-j other"])])
                .unwrap_err();
            match bed.backend {
                Backend::NfTables => {
                    assert_eq!(error.class(), Some(FailureClass::TooManyLinks), "{error}");
                    assert_eq!(bed.journal.counts(), (1, 1));
                    let text = error.to_string();
                    assert!(text.contains("circle: web-a -> other -> web-a"), "{text}");
                }
                Backend::Legacy => {
                    assert_eq!(error.class(), Some(FailureClass::Ambiguous), "{error}");
                    assert_eq!(bed.journal.counts(), (3, 1));
                }
            }
            assert_eq!(bed.rules("web-a").unwrap(), ["-j RETURN"]);
            // The index is as it was: the old contents again are no change.
            updater
                .rewrite_chains([chain("web-a", &["-j RETURN"])])
                .unwrap();
            assert_eq!(bed.journal.counts(), (0, 0));
        },
    );
}

#[test]
fn nesting_too_deep_for_nf_tables_is_said_so() {
    each_bed("nesting_too_deep_for_nf_tables_is_said_so", |bed: Bed| {
        let mut updater = bed.open();
        let nested = |depth: usize| {
            (0..depth).map(move |n| {
                let next = format!("-j web-{:02}", n + 1);
                let last = n + 1 == depth;
                chain(
                    &format!("web-{n:02}"),
                    if last {
                        &[]
                    } else {
                        std::slice::from_ref(&next)
                    }
                    .iter()
                    .map(|s: &String| s.as_str())
                    .collect::<Vec<_>>()
                    .as_slice(),
                )
            })
        };
        updater.rewrite_chains(nested(15)).unwrap();
        updater.ensure_rule_inserted("INPUT", "-j web-00").unwrap();
        let deeper = updater.rewrite_chains(nested(16));
        match bed.backend {
            Backend::NfTables => {
                let error = deeper.unwrap_err();
                assert_eq!(error.class(), Some(FailureClass::TooManyLinks));
                let text = error.to_string();
                assert!(
                    text.contains("a kernel chain and 15 chains nested under it"),
                    "{text}"
                );
                assert_eq!(bed.web_chains().len(), 15);
            }
            Backend::Legacy => assert_eq!(deeper.unwrap().rewritten.len(), 2),
        }
    });
}

#[test]
fn a_missing_target_of_others_costs_one_restore_and_one_reading() {
    each_bed(
        "a_missing_target_of_others_costs_one_restore_and_one_reading",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.journal.take();
            let chains = [
                chain("web-a", &["-j RETURN", "-j nowhere"]),
                chain("web-b", &[]),
            ];
            let error = updater.rewrite_chains(chains).unwrap_err();
            assert_eq!(error.class(), Some(FailureClass::TargetAbsent), "{error}");
            assert!(error.to_string().contains("nowhere"), "{error}");
            assert_eq!(bed.journal.counts(), (1, 1));
            assert_eq!(bed.web_chains(), [] as [&str; 0]);
            assert!(updater.programmed_chains().is_empty());
        },
    );
}

#[test]
fn an_error_names_line_chain_and_request_and_changes_nothing() {
    each_bed(
        "an_error_names_line_chain_and_request_and_changes_nothing",
        |bed: Bed| {
            let mut updater = bed.open();
            let before = bed.save();
            let chains = [
                chain("web-a", &["-j ACCEPT"]),
                chain("web-b", &["-j ACCEPT", "--no-such-option 1"]),
            ];
            let Err(Error::Restore(error)) = updater.rewrite_chains(chains) else {
                panic!("an unknown option was accepted");
            };
            assert_eq!(error.class, FailureClass::Refused);
            assert_eq!(error.line, Some(6));
            assert_eq!(error.text.as_deref(), Some("-A web-b --no-such-option 1"));
            assert_eq!(error.chain.as_deref(), Some("web-b"));
            assert_eq!(error.request, Some(0));
            assert!(error.stderr.contains("no-such-option"));
            assert_eq!(bed.web_chains(), [] as [&str; 0]);
            let rules = |save: &str| {
                save.lines()
                    .filter(|l| !l.starts_with('#'))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(rules(&bed.save()), rules(&before));
        },
    );
}
