//! Chains and rules that are shared with other programs: on the simulated and the real kernel, both back ends, IPv4
//! and IPv6.

mod common;

use common::bed::{Bed, each_bed};
use iptables_updater::{
    Chain, Error, Existed, FailureClass, IptablesUpdater, KernelChain, Policy, Position, Table,
};

#[test]
fn a_chain_is_made_once_and_never_emptied() {
    each_bed("a_chain_is_made_once_and_never_emptied", |bed: Bed| {
        let mut updater = bed.open();
        for name in ["web-portals", "their-portals"] {
            assert_eq!(updater.ensure_chain(name).unwrap(), Existed::No);
            bed.other(&format!("-A {name} -j ACCEPT"));
            bed.journal.take();
            assert_eq!(updater.ensure_chain(name).unwrap(), Existed::Yes);
            assert_eq!(bed.journal.counts(), (1, 0));
            assert_eq!(bed.rules(name).unwrap(), ["-j ACCEPT"]);
        }
        assert_eq!(updater.ensure_chain("INPUT").unwrap(), Existed::Yes);
        // It is no orphan, and is made again if it is gone.
        updater.cleanup().unwrap();
        assert_eq!(bed.web_chains(), ["web-portals"]);
        assert!(updater.verify().unwrap().is_empty());
        bed.other("-F\n-X");
        assert_eq!(updater.refresh().unwrap().missing, ["web-portals"]);
        assert_eq!(bed.web_chains(), ["web-portals"]);
        assert_eq!(updater.delete_chain("web-portals").unwrap(), Existed::Yes);
        assert_eq!(updater.delete_chain("web-portals").unwrap(), Existed::No);
        assert!(updater.refresh().unwrap().is_empty());
    });
}

#[test]
fn a_rule_that_stands_anywhere_is_left_where_it_is() {
    each_bed(
        "a_rule_that_stands_anywhere_is_left_where_it_is",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.other("-A INPUT -p udp -j DROP");
            let rule = "-p TCP --dport 22 -m comment --comment \"it's ssh\" -j ACCEPT";
            let ensured = updater
                .ensure_rule(Position::Prepend, "INPUT", rule)
                .unwrap();
            assert_eq!(ensured, Existed::No);
            let ours = bed.rules("INPUT").unwrap()[0].clone();
            bed.other("-I INPUT -p icmp -j DROP");
            let before = bed.rules("INPUT").unwrap();
            bed.journal.take();
            let ensured = updater
                .ensure_rule(Position::Append, "INPUT", rule)
                .unwrap();
            assert_eq!(ensured, Existed::Yes);
            assert_eq!(bed.journal.counts(), (1, 0));
            assert_eq!(bed.rules("INPUT").unwrap(), before);
            // A refresh leaves it, and puts it back where it was asked for last.
            assert!(updater.refresh().unwrap().is_empty());
            bed.other("-F INPUT\n-A INPUT -p icmp -j DROP");
            assert_eq!(updater.refresh().unwrap().hooks.len(), 1);
            assert_eq!(bed.rules("INPUT").unwrap(), ["-p icmp -j DROP", &*ours]);
            assert_eq!(updater.delete_rule("INPUT", rule).unwrap(), Existed::Yes);
            assert_eq!(updater.delete_rule("INPUT", rule).unwrap(), Existed::No);
            assert!(updater.refresh().unwrap().is_empty());
            assert_eq!(bed.rules("INPUT").unwrap(), ["-p icmp -j DROP"]);
        },
    );
}

#[test]
fn rules_are_ensured_in_an_ensured_chain_but_not_in_a_programmed_one() {
    each_bed(
        "rules_are_ensured_in_an_ensured_chain_but_not_in_a_programmed_one",
        |bed: Bed| {
            let mut updater = bed.open();
            updater.ensure_chain("web-portals").unwrap();
            updater
                .ensure_rule(Position::Append, "web-portals", "-p tcp -j RETURN")
                .unwrap();
            assert_eq!(bed.rules("web-portals").unwrap(), ["-p tcp -j RETURN"]);
            updater
                .rewrite_chains([Chain::new("web-own", ["-j RETURN"]).unwrap()])
                .unwrap();
            let error = updater
                .ensure_rule(Position::Append, "web-own", "-j DROP")
                .unwrap_err();
            assert!(matches!(error, Error::HookInOwned { .. }), "{error}");
            bed.other("-F\n-X");
            updater.refresh().unwrap();
            assert_eq!(bed.rules("web-portals").unwrap(), ["-p tcp -j RETURN"]);
        },
    );
}

#[test]
fn chains_of_others_are_emptied_and_deleted_only_where_that_is_allowed() {
    each_bed(
        "chains_of_others_are_emptied_and_deleted_only_where_that_is_allowed",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.other(":theirs - [0:0]\n-A theirs -j ACCEPT\n-A FORWARD -j theirs");
            bed.journal.take();
            for error in [
                updater.flush_chain("theirs").unwrap_err(),
                updater.delete_chain("theirs").unwrap_err(),
                updater.flush_chain("FORWARD").unwrap_err(),
                updater.delete_chain("FORWARD").unwrap_err(),
            ] {
                assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
                assert!(error.to_string().contains("allow_foreign("), "{error}");
            }
            assert_eq!(bed.journal.counts(), (0, 0));
            updater.allow_foreign("theirs").unwrap();
            let error = updater.delete_chain("theirs").unwrap_err();
            assert_eq!(error.class(), Some(FailureClass::ChainBusy), "{error}");
            assert_eq!(bed.rules("theirs").unwrap(), ["-j ACCEPT"]);
            assert_eq!(updater.flush_chain("theirs").unwrap(), Existed::Yes);
            assert_eq!(bed.rules("theirs").unwrap(), [] as [&str; 0]);
            bed.other("-D FORWARD -j theirs");
            assert_eq!(updater.delete_chain("theirs").unwrap(), Existed::Yes);
            assert_eq!(updater.delete_chain("theirs").unwrap(), Existed::No);
            assert_eq!(updater.flush_chain("theirs").unwrap(), Existed::No);
            updater
                .rewrite_chains([Chain::new("web-a", ["-j RETURN"]).unwrap()])
                .unwrap();
            assert_eq!(updater.flush_chain("web-a").unwrap(), Existed::Yes);
            assert_eq!(bed.rules("web-a").unwrap(), [] as [&str; 0]);
        },
    );
}

#[test]
fn the_table_can_be_looked_at() {
    each_bed("the_table_can_be_looked_at", |bed: Bed| {
        let mut updater = bed.open();
        bed.other(":theirs - [0:0]\n-A theirs -p tcp --dport 80 -j ACCEPT");
        assert!(updater.chain_exists("theirs").unwrap());
        assert!(!updater.chain_exists("no-such").unwrap());
        assert_eq!(
            updater.chains().unwrap(),
            ["INPUT", "FORWARD", "OUTPUT", "theirs"]
        );
        let rules = updater.rules("theirs").unwrap().unwrap();
        assert_eq!(rules[0].text, "-p tcp -m tcp --dport 80 -j ACCEPT");
        assert_eq!(rules[0].counters, None);
        assert_eq!(updater.rules("no-such").unwrap(), None);
        let rules = updater.rules_with_counters("theirs").unwrap().unwrap();
        if let Some(counters) = rules[0].counters {
            assert_eq!((counters.packets, counters.bytes), (0, 0));
        }
    });
}

#[test]
fn policies_are_read_and_set() {
    each_bed("policies_are_read_and_set", |bed: Bed| {
        let mut updater = bed.open();
        assert_eq!(updater.policy(KernelChain::Input).unwrap(), Policy::Accept);
        bed.other("-A INPUT -p tcp -j ACCEPT");
        for _ in 0..2 {
            updater
                .set_policy(KernelChain::Input, Policy::Drop)
                .unwrap();
            assert_eq!(updater.policy(KernelChain::Input).unwrap(), Policy::Drop);
        }
        assert_eq!(bed.rules("INPUT").unwrap(), ["-p tcp -j ACCEPT"]);
        assert!(updater.policy(KernelChain::Prerouting).is_err());
        let mut nat = bed.open_with(IptablesUpdater::builder(Table::Nat));
        assert!(nat.set_policy(KernelChain::Forward, Policy::Drop).is_err());
    });
}

#[test]
fn a_flushed_table_silences_the_canary() {
    each_bed("a_flushed_table_silences_the_canary", |bed: Bed| {
        let mut updater = bed.open();
        updater
            .rewrite_chains([Chain::new("web-a", ["-j RETURN"]).unwrap()])
            .unwrap();
        bed.journal.take();
        for _ in 0..3 {
            assert!(updater.verify_canary().unwrap());
        }
        // Put once, looked at twice; no reading.
        assert_eq!(bed.journal.counts(), (3, 0));
        updater.cleanup().unwrap();
        assert!(updater.verify_canary().unwrap());
        for flush in ["-F", "-F\n-X"] {
            bed.other(flush);
            assert!(!updater.verify_canary().unwrap());
            assert!(!updater.verify_canary().unwrap());
            updater.refresh().unwrap();
            assert!(updater.verify_canary().unwrap());
            assert_eq!(bed.rules("web-a").unwrap(), ["-j RETURN"]);
        }
    });
}

#[test]
fn a_programmed_chain_may_jump_to_an_ensured_one_whose_rules_stay() {
    each_bed(
        "a_programmed_chain_may_jump_to_an_ensured_one_whose_rules_stay",
        |bed: Bed| {
            let mut updater = bed.open();
            updater.ensure_chain("web-portals").unwrap();
            updater
                .ensure_rule(Position::Append, "web-portals", "-p tcp -j RETURN")
                .unwrap();
            let changes = updater
                .rewrite_chains([Chain::new("web-a", ["-j web-portals"]).unwrap()])
                .unwrap();
            assert!(changes.stubbed.is_empty());
            updater.cleanup().unwrap();
            assert_eq!(bed.rules("web-portals").unwrap(), ["-p tcp -j RETURN"]);
            bed.other("-F\n-X");
            updater.refresh().unwrap();
            assert_eq!(bed.rules("web-a").unwrap(), ["-j web-portals"]);
            assert_eq!(bed.rules("web-portals").unwrap(), ["-p tcp -j RETURN"]);
            // Given up, it is a stub as any other.
            updater.delete_chains(["web-portals"]).unwrap();
            assert_eq!(
                bed.rules("web-portals").unwrap(),
                common::bed::stub("web-portals")
            );
            // Programmed, it is so.
            updater.ensure_chain("web-own").unwrap();
            updater
                .rewrite_chains([Chain::new("web-own", ["-j DROP"]).unwrap()])
                .unwrap();
            updater.delete_chains(["web-own"]).unwrap();
            updater.refresh().unwrap();
            assert_eq!(bed.web_chains(), ["web-a", "web-portals"]);
        },
    );
}
