//! Faults of other programs that were reported in public, each as a case that this library has to stand.
//!
//! Cases that have a test elsewhere: absence in all its spellings and duplicates (`hooks`), busy chains and names that
//! begin alike (`restart_cleanup`, `rewrite_delete`), rules that aren't found again (`placement`), nesting too deep
//! (`refused`).

mod common;

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use common::bed::{Bed, each_bed, stub};
use common::{Kernel, each_kernel, each_kernel_of};
use iptables_updater::{
    Backend, Chain, CommandExecutor, Error, Existed, Failure, FailureClass, IpVersion,
    IptablesUpdater, Outcome, Position, Request, Rule, RuleError, SaveError, Table,
};

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

fn nft(words: &str) {
    let output = Command::new("nft")
        .args(words.split(' '))
        .output()
        .expect("nft");
    assert!(output.status.success(), "{words}: {output:?}");
}

/// B01: a native rule that iptables can't show makes the table look empty; nothing may be inserted for that.
#[test]
fn a_table_that_can_not_be_shown_is_an_error_and_no_reason_to_insert() {
    each_kernel_of(
        Backend::NfTables,
        "a_table_that_can_not_be_shown_is_an_error_and_no_reason_to_insert",
        |kernel| {
            let open = || {
                IptablesUpdater::builder(Table::Filter)
                    .chain_prefix("web-")
                    .open(kernel.executor())
            };
            let mut updater = open().unwrap();
            updater
                .rewrite_chains([chain("web-a", &["-j RETURN"])])
                .unwrap();
            updater.ensure_rule_inserted("INPUT", "-j web-a").unwrap();
            kernel.must_restore("*filter\n:theirs - [0:0]\nCOMMIT\n");
            let family = if kernel.version == IpVersion::V4 {
                "ip"
            } else {
                "ip6"
            };
            nft(&format!(
                "add rule {family} filter theirs ct state established accept"
            ));
            for _ in 0..3 {
                let error = updater.refresh().unwrap_err();
                let incompatible = matches!(
                    error,
                    Error::Save {
                        source: SaveError::Incompatible { .. },
                        ..
                    }
                );
                assert!(incompatible, "{error}");
                assert!(updater.cleanup().is_err());
            }
            assert!(open().is_err());
            nft(&format!("flush chain {family} filter theirs"));
            assert_eq!(kernel.rules(Table::Filter, "INPUT").unwrap(), ["-j web-a"]);
            assert!(updater.refresh().unwrap().is_empty());
        },
    );
}

/// B03: a comment with a newline looks like further lines; no rule may be lost over it, or made of it.
#[test]
fn a_comment_that_looks_like_rules_is_a_comment() {
    each_kernel("a_comment_that_looks_like_rules_is_a_comment", |kernel| {
        let comment = "x\n-A INPUT -j web-orphan\nCOMMIT\n:web-evil - [0:0]\n*nat";
        let added = Command::new(kernel.program(""))
            .args([
                "-w",
                "10",
                "-A",
                "FORWARD",
                "-m",
                "comment",
                "--comment",
                comment,
                "-j",
                "ACCEPT",
            ])
            .status();
        assert!(added.unwrap().success());
        kernel.must_restore("*filter\n:web-orphan - [0:0]\nCOMMIT\n");
        let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
        let mut updater = builder.open(kernel.executor()).unwrap();
        let report = updater.cleanup().unwrap();
        assert_eq!(report.deleted, ["web-orphan"]);
        assert!(report.kept.is_empty());
        assert_eq!(updater.rules("FORWARD").unwrap().unwrap().len(), 1);
    });
}

/// B05: a lock that is held for a while is waited for.
#[test]
fn a_lock_that_is_held_for_a_while_is_waited_for() {
    each_kernel_of(
        Backend::Legacy,
        "a_lock_that_is_held_for_a_while_is_waited_for",
        |kernel| {
            let executor = CommandExecutor::builder(kernel.version).backend(kernel.backend);
            let executor = executor.lock_wait(Duration::from_secs(1)).build().unwrap();
            let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
            let mut updater = builder.open(executor).unwrap();
            let file = File::create("/run/xtables.lock").unwrap();
            file.lock().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(1_500));
                    file.unlock().unwrap();
                });
                updater
                    .rewrite_chains([chain("web-a", &["-j RETURN"])])
                    .unwrap();
            });
            assert_eq!(updater.stats().retries.lock_held, 1);
            assert!(updater.stats().lock_wait >= Duration::from_secs(1));
        },
    );
}

/// B07, B15: a missing target is named, costs no row of tries, and is no error any longer once it is there.
#[test]
fn a_missing_target_is_named_and_forgotten_once_it_is_there() {
    each_bed(
        "a_missing_target_is_named_and_forgotten_once_it_is_there",
        |bed: Bed| {
            let mut updater = bed.open();
            let wanted = || chain("web-a", &["-j theirs"]);
            let rewrite = updater.rewrite_chains([wanted()]).unwrap_err();
            let hook = updater.ensure_rule_inserted("INPUT", "-j theirs");
            for (error, at) in [(rewrite, "web-a"), (hook.unwrap_err(), "INPUT")] {
                let Error::Restore(error) = error else {
                    panic!("{error}")
                };
                assert_eq!(error.class, FailureClass::TargetAbsent);
                assert_eq!(error.object.as_deref(), Some("theirs"));
                // Only legacy names the line itself.
                assert_eq!(error.chain.as_deref(), Some(at), "{error}");
                assert!(error.text.unwrap().ends_with(" -j theirs"));
                assert_eq!(error.tries, 1);
            }
            bed.other(":theirs - [0:0]");
            updater.rewrite_chains([wanted()]).unwrap();
            updater.ensure_rule_inserted("INPUT", "-j theirs").unwrap();
            assert_eq!(bed.rules("web-a").unwrap(), ["-j theirs"]);
        },
    );
}

/// B09: one request that names a chain of others that is missing doesn't stop the rest.
#[test]
fn one_missing_chain_of_others_does_not_stop_the_rest() {
    each_bed(
        "one_missing_chain_of_others_does_not_stop_the_rest",
        |bed: Bed| {
            let mut updater = bed.open();
            let requests = [
                Request::rewrite([chain("web-a", &["-j ACCEPT"])]),
                Request::rewrite([chain("web-b", &["-j MARK-DROP-OF-OTHERS"])]),
                Request::rewrite([chain("web-c", &["-j ACCEPT"])]),
            ];
            let results = updater.apply(&requests);
            assert!(results[0].is_ok() && results[2].is_ok());
            let Err(Error::Restore(error)) = &results[1] else {
                panic!("{results:?}")
            };
            assert_eq!(error.class, FailureClass::TargetAbsent);
            assert_eq!(
                (error.chain.as_deref(), error.request),
                (Some("web-b"), Some(1))
            );
            assert_eq!(bed.web_chains(), ["web-a", "web-c"]);
        },
    );
}

/// B11: an empty value doesn't swallow the option behind it.
#[test]
fn an_empty_value_is_refused_before_anything_runs() {
    assert!(matches!(
        Rule::new("-s  -j RETURN"),
        Err(RuleError::MissingValue { .. })
    ));
    assert!(matches!(
        Rule::new("-s \"\" -j RETURN"),
        Err(RuleError::EmptyValue { .. })
    ));
    assert!(matches!(
        Rule::from_words(["-s", "", "-j", "RETURN"]),
        Err(RuleError::EmptyValue { .. })
    ));
    assert!(matches!(
        Rule::new("-j"),
        Err(RuleError::MissingValue { .. })
    ));
}

/// B13: a comment with blanks is found again, however it is quoted.
#[test]
fn a_comment_with_blanks_is_found_again() {
    each_bed("a_comment_with_blanks_is_found_again", |bed: Bed| {
        let mut updater = bed.open();
        let words = [
            "-m",
            "comment",
            "--comment",
            "Comment \"text\" it's \\ so",
            "-j",
            "ACCEPT",
        ];
        let rule = Rule::from_words(words).unwrap();
        for existed in [Existed::No, Existed::Yes, Existed::Yes] {
            assert_eq!(
                updater
                    .ensure_rule(Position::Append, "INPUT", &rule)
                    .unwrap(),
                existed
            );
        }
        updater.ensure_rule_removed("INPUT", &rule).unwrap();
        assert_eq!(bed.rules("INPUT").unwrap(), [] as [&str; 0]);
    });
}

/// B17, B31: repeating a set-up changes nothing, and copies that others have made go.
#[test]
fn a_set_up_can_be_repeated() {
    each_bed("a_set_up_can_be_repeated", |bed: Bed| {
        for round in 0..3 {
            let mut updater = bed.open();
            updater
                .rewrite_chains([chain("web-a", &["-j RETURN"])])
                .unwrap();
            updater.ensure_rule_inserted("INPUT", "-j web-a").unwrap();
            updater.cleanup().unwrap();
            assert_eq!(bed.rules("INPUT").unwrap(), ["-j web-a"], "{round}");
            assert_eq!(bed.rules("web-a").unwrap(), ["-j RETURN"]);
            bed.other("-A INPUT -j web-a\n-A INPUT -j web-a");
        }
    });
}

/// B19: where only the COMMIT line is named, the error says that, and the tries are few.
#[test]
fn a_refusal_of_the_whole_table_says_so() {
    each_bed("a_refusal_of_the_whole_table_says_so", |bed: Bed| {
        let mut updater = bed.open();
        let error = updater
            .rewrite_chains([chain("web-a", &["-j MASQUERADE"])])
            .unwrap_err();
        let Error::Restore(error) = error else {
            panic!("{error}")
        };
        match bed.backend {
            Backend::Legacy => {
                assert_eq!(error.class, FailureClass::Ambiguous);
                assert_eq!((error.text.as_deref(), error.tries), (Some("COMMIT"), 3));
            }
            Backend::NfTables => {
                assert_eq!((error.class, error.tries), (FailureClass::Refused, 1));
                assert_eq!(error.chain.as_deref(), Some("web-a"));
            }
        }
    });
}

/// B21, B25: a chain that is still referred to stays as a stub; once the hook is gone, whatever its words read back
/// as, the chain goes.
#[test]
fn a_hooked_chain_goes_once_its_hook_is_gone() {
    each_bed("a_hooked_chain_goes_once_its_hook_is_gone", |bed: Bed| {
        let mut updater = bed.open();
        let hook = "-p TCP --dport ssh -m comment --comment \"it's ours\" -j web-a";
        updater
            .rewrite_chains([chain("web-a", &["-j ACCEPT"])])
            .unwrap();
        updater.ensure_rule_inserted("INPUT", hook).unwrap();
        let changes = updater.delete_chains(["web-a"]).unwrap();
        assert_eq!(changes.undeleted[0].class, Some(FailureClass::ChainBusy));
        assert_eq!(bed.rules("web-a").unwrap(), stub("web-a"));
        let kept = updater.cleanup().unwrap().kept;
        assert_eq!(kept[0].referrers, ["INPUT"]);
        updater.ensure_rule_removed("INPUT", hook).unwrap();
        assert_eq!(updater.cleanup().unwrap().deleted, ["web-a"]);
    });
}

/// B27: on a fresh boot no table is registered yet.
#[test]
fn a_fresh_boot_is_no_error() {
    each_kernel("a_fresh_boot_is_no_error", |kernel: Kernel| {
        for table in Table::ALL {
            let builder = IptablesUpdater::builder(table).chain_prefix("web-");
            let mut updater = builder.open(kernel.executor()).unwrap();
            assert!(updater.verify().unwrap().is_empty(), "{table}");
            let kernel_chains = updater.chains().unwrap();
            assert_eq!(kernel_chains.len(), table.kernel_chains().len(), "{table}");
        }
    });
}

/// B29: what a check prints means nothing, only how it ends.
#[test]
fn a_check_that_prints_something_has_still_succeeded() {
    let input = "*filter\n-C INPUT -j ACCEPT\nCOMMIT\n";
    let mut outcome = Outcome::success("-A INPUT -j ACCEPT\n");
    outcome.stderr = b"iptables: Bad rule (does a matching rule exist in that chain?).\n".to_vec();
    assert_eq!(Failure::of_restore(&outcome, input), None);
}
