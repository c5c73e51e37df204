//! Hook rules that differ in what they match alone. ip6tables (legacy) 1.8.9 takes one for another; whatever the version,
//! none but the rule that was meant is ever deleted. On the real kernel.

mod common;

use common::{Kernel, each_kernel};
use iptables_updater::{
    Chain, CommandExecutor, Error, Executor as _, IptablesUpdater, Placement, Position, Table,
};

fn rule(port: u16) -> String {
    format!("-p tcp -m tcp --dport {port} -j web-a")
}

fn open(kernel: Kernel) -> IptablesUpdater<CommandExecutor> {
    let mut updater = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(kernel.executor())
        .unwrap();
    updater
        .rewrite_chains([Chain::new("web-a", ["-j RETURN"]).unwrap()])
        .unwrap();
    updater
}

fn input(kernel: Kernel) -> Vec<String> {
    kernel.rules(Table::Filter, "INPUT").unwrap()
}

/// Done as asked, or refused with nothing changed.
fn done_or_refused(
    kernel: Kernel,
    updater: &mut IptablesUpdater<CommandExecutor>,
    act: impl FnOnce(&mut IptablesUpdater<CommandExecutor>) -> Result<(), Error>,
    expected: &[String],
) {
    let before = input(kernel);
    let confuses = updater.executor().confuses_rules();
    match act(updater) {
        Ok(()) => assert_eq!(input(kernel), expected),
        Err(Error::CantTellApart { .. }) if confuses => assert_eq!(input(kernel), before),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn of_rules_that_differ_in_a_match_only_the_one_that_is_meant_is_touched() {
    each_kernel(
        "of_rules_that_differ_in_a_match_only_the_one_that_is_meant_is_touched",
        |kernel| {
            let mut updater = open(kernel);
            // What isn't there is put, whatever stands there.
            for port in [3, 2, 1] {
                updater
                    .ensure_rule_inserted("INPUT", rule(port).as_str())
                    .unwrap();
            }
            let all = [1, 2, 3].map(rule);
            assert_eq!(input(kernel), all);
            // What isn't there is removed already.
            updater
                .ensure_rule_removed("INPUT", rule(9).as_str())
                .unwrap();
            updater.delete_rule("INPUT", rule(8).as_str()).unwrap();
            assert_eq!(input(kernel), all);
            updater
                .ensure_rule(Position::Prepend, "INPUT", rule(2).as_str())
                .unwrap();
            assert_eq!(input(kernel), all);
            done_or_refused(
                kernel,
                &mut updater,
                |updater| updater.ensure_rule_inserted("INPUT", rule(3).as_str()),
                &[3, 1, 2].map(rule),
            );
            let without_2: Vec<_> = input(kernel)
                .into_iter()
                .filter(|r| *r != rule(2))
                .collect();
            done_or_refused(
                kernel,
                &mut updater,
                |updater| updater.ensure_rule_removed("INPUT", rule(2).as_str()),
                &without_2,
            );
            // Somebody else has emptied the chain: a refresh puts all again.
            let mut wanted = input(kernel);
            wanted.sort();
            kernel.must_restore("*filter\n-F INPUT\nCOMMIT\n");
            updater.refresh().unwrap();
            let mut found = input(kernel);
            found.sort();
            assert_eq!(found, wanted);
            assert!(updater.verify().unwrap().is_empty());
        },
    );
}

#[test]
fn of_rules_of_others_none_is_touched() {
    each_kernel("of_rules_of_others_none_is_touched", |kernel| {
        let mut updater = open(kernel);
        kernel.must_restore("*filter\n-A INPUT -p tcp -m tcp --dport 22 -j web-a\nCOMMIT\n");
        let others = rule(22);
        updater
            .ensure_rule_removed("INPUT", rule(1).as_str())
            .unwrap();
        assert_eq!(input(kernel), std::slice::from_ref(&others));
        updater
            .ensure_rule_inserted("INPUT", rule(1).as_str())
            .unwrap();
        assert_eq!(input(kernel), [rule(1), others.clone()]);
        done_or_refused(
            kernel,
            &mut updater,
            |updater| updater.ensure_rule_removed("INPUT", rule(1).as_str()),
            std::slice::from_ref(&others),
        );
        let mut expected = vec![rule(4), rule(5)];
        expected.extend(input(kernel));
        done_or_refused(
            kernel,
            &mut updater,
            |updater| {
                let rules = [rule(4), rule(5)];
                let hooked = updater.ensure_hooks("INPUT", &rules, Placement::Top);
                hooked.map(drop)
            },
            &expected,
        );
    });
}
