//! Every form of rule that iptables prints otherwise than it is written is ensured once, however often that is asked.

mod common;

use common::each_kernel;
use iptables_updater::{Existed, IpVersion, IptablesUpdater, Position, Rule, Table};

#[test]
fn three_calls_leave_one_instance_of_each_form() {
    each_kernel("three_calls_leave_one_instance_of_each_form", |kernel| {
        let family = if kernel.version == IpVersion::V4 {
            "inet"
        } else {
            "inet6"
        };
        let set = ["create", "okset", "hash:ip", "family", family];
        let _ = std::process::Command::new("ipset").args(set).status();
        kernel.must_restore("*filter\n:BAR - [0:0]\n:theirs - [0:0]\nCOMMIT\n");
        let updater = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
        let mut updater = updater.open(kernel.executor()).unwrap();
        let (mut tried, mut changed) = (0, 0);
        for form in include_str!("data/rule-forms.txt").lines() {
            let Some(rule) = form
                .strip_prefix("filter\t")
                .and_then(|f| Rule::new(f).ok())
            else {
                continue;
            };
            // What this kernel doesn't take, it can't be asked to keep.
            let Ok(existed) = updater.ensure_rule(Position::Append, "theirs", &rule) else {
                assert_eq!(
                    kernel.rules(Table::Filter, "theirs").unwrap().len(),
                    0,
                    "{rule}"
                );
                continue;
            };
            assert_eq!(existed, Existed::No);
            for _ in 0..2 {
                let again = updater
                    .ensure_rule(Position::Prepend, "theirs", &rule)
                    .unwrap();
                assert_eq!(again, Existed::Yes, "{rule}");
            }
            let rules = kernel.rules(Table::Filter, "theirs").unwrap();
            assert_eq!(rules.len(), 1, "{rule}: {rules:?}");
            tried += 1;
            changed += usize::from(rules[0] != rule.as_str());
            assert_eq!(
                updater.delete_rule("theirs", &rule).unwrap(),
                Existed::Yes,
                "{rule}"
            );
            assert_eq!(
                kernel.rules(Table::Filter, "theirs").unwrap().len(),
                0,
                "{rule}"
            );
        }
        println!("{kernel:?}: {tried} forms, {changed} of them printed otherwise");
        assert!(changed >= 60, "{changed}");
    });
}
