//! Every public operation, with every fault at every call that it makes, on both back ends of the simulated kernel.
//!
//! Either the operation succeeds after all, and all is as without the fault; or its error is typed and the index
//! is as it was. Whatever happened, a program that starts anew reaches the wanted table.

mod common;

use std::collections::BTreeSet;

use common::bed::NoWaiting;
use iptables_updater::memory::{Fault, JournalCall};
use iptables_updater::{
    Backend, Chain, Error, Executor, Failure, FailureClass, Index, IpVersion, IptablesUpdater,
    MemoryExecutor, Placement, Position, Request, Table,
};

type Updater = IptablesUpdater<MemoryExecutor>;

/// An operation, to be done on what [`start`] has set up.
type Operation = (&'static str, fn(&mut Updater) -> Result<(), Error>);

const OPERATIONS: &[Operation] = &[
    ("rewrite", |u| {
        let chains = [
            chain("web-a", &["-j web-new", "-j web-left"]),
            chain("web-d", &["-j web-c"]),
        ];
        u.rewrite_chains(chains).map(drop)
    }),
    ("rewrite nothing", |u| {
        u.rewrite_chains([chain("web-c", &["-j RETURN"])]).map(drop)
    }),
    ("delete", |u| u.delete_chains(["web-a", "web-c"]).map(drop)),
    ("override", |u| {
        u.set_missing_chain_override("web-later", ["-j RETURN"])
    }),
    ("insert", |u| u.ensure_rule_inserted("FORWARD", "-j web-a")),
    ("insert again", |u| {
        u.ensure_rule_inserted("INPUT", "-j web-a")
    }),
    ("append", |u| u.ensure_rule_appended("INPUT", "-j web-c")),
    ("remove", |u| u.ensure_rule_removed("INPUT", "-j web-a")),
    ("remove nothing", |u| {
        u.ensure_rule_removed("OUTPUT", "-j DROP")
    }),
    ("ensure chain", |u| u.ensure_chain("web-kept").map(drop)),
    ("ensure rule", |u| {
        u.ensure_rule(Position::Append, "FORWARD", "-j web-c")
            .map(drop)
    }),
    ("ensure hooks", |u| {
        let hooks = ["-p tcp -j web-c", "-p udp -j web-c"];
        u.ensure_hooks("FORWARD", hooks, Placement::Top).map(drop)
    }),
    ("canary", |u| u.verify_canary().map(drop)),
    ("cleanup", |u| u.cleanup().map(drop)),
    ("refresh", |u| u.refresh().map(drop)),
    ("refresh all", |u| u.refresh_all().map(drop)),
    ("verify", |u| u.verify().map(drop)),
    ("apply", |u| u.apply(&requests()).into_iter().collect()),
];

const FAULTS: &[Fault] = &[
    Fault::Fails(FailureClass::LockHeld),
    Fault::Fails(FailureClass::Race),
    Fault::Fails(FailureClass::Ambiguous),
    Fault::Fails(FailureClass::RuleAbsent),
    Fault::Fails(FailureClass::TargetAbsent),
    Fault::Fails(FailureClass::ChainBusy),
    Fault::Fails(FailureClass::TooManyLinks),
    Fault::Fails(FailureClass::NoPrivilege),
    Fault::Fails(FailureClass::NoTable),
    Fault::Fails(FailureClass::NoKernelSupport),
    Fault::Fails(FailureClass::LockFile),
    Fault::Fails(FailureClass::Refused),
    Fault::Hangs,
    Fault::HangsAfterCommit,
    Fault::KilledBeforeCommit,
    Fault::KilledAfterCommit,
    Fault::SaveTruncated,
];

fn requests() -> [Request; 2] {
    [
        Request::rewrite([chain("web-e", &["-j web-c"])]),
        Request::delete(["web-c"]).unwrap(),
    ]
}

/// How the index may look after an operation that failed: as before; of several requests, some may have
/// succeeded.
fn after_failure(backend: Backend, operation: &str, before: Index) -> Vec<Index> {
    let mut may = vec![before];
    if operation == "apply" {
        for request in requests() {
            let (_, mut updater) = start(backend);
            updater.apply(&[request]).remove(0).unwrap();
            may.push(updater.index().clone());
        }
    }
    may
}

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

fn open(kernel: &MemoryExecutor) -> Updater {
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .clock(NoWaiting)
        .open(kernel.clone())
        .unwrap()
}

/// Two chains left by a previous run, one of them required; a chain of others; programmed chains, a stub and a hook.
fn start(backend: Backend) -> (MemoryExecutor, Updater) {
    let kernel = MemoryExecutor::new(IpVersion::V4, backend);
    kernel.with_other_program(|other| {
        let left = "*filter\n:other - [0:0]\n:web-left - [0:0]\n:web-orphan - [0:0]\n\
             -A other -p tcp -j ACCEPT\n-A web-left -j ACCEPT\n-A web-orphan -j web-left\nCOMMIT\n";
        assert!(other.restore(left).exit.is_success());
    });
    let mut updater = open(&kernel);
    let chains = [
        chain("web-a", &["-j web-b", "-j web-left"]),
        chain("web-c", &["-j RETURN"]),
    ];
    updater.rewrite_chains(chains).unwrap();
    updater.ensure_rule_inserted("INPUT", "-j web-a").unwrap();
    kernel.clear_journal();
    (kernel, updater)
}

/// What a program that starts anew makes of the kernel: always the same.
fn start_anew(kernel: &MemoryExecutor) -> String {
    kernel.clear_faults();
    let mut updater = open(kernel);
    updater
        .rewrite_chains([
            chain("web-a", &["-j web-b"]),
            chain("web-z", &["-j RETURN"]),
        ])
        .unwrap();
    for hook in ["INPUT", "FORWARD"] {
        for rule in ["-j web-c", "-p tcp -j web-c", "-p udp -j web-c"] {
            updater.ensure_rule_removed(hook, rule).unwrap();
        }
        updater.ensure_rule_inserted(hook, "-j web-a").unwrap();
    }
    updater.cleanup().unwrap();
    assert!(updater.verify().unwrap().is_empty());
    rules(kernel)
}

fn rules(kernel: &MemoryExecutor) -> String {
    let saved = kernel.save_text(Table::Filter);
    let lines = saved.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// One operation with faults; what became of it.
fn try_one(
    backend: Backend,
    operation: &Operation,
    inject: impl Fn(&MemoryExecutor),
    without: &(Index, String),
    wanted: &str,
    label: &str,
) -> bool {
    let (name, operate) = operation;
    let (kernel, mut updater) = start(backend);
    let before = updater.index().clone();
    let failed_before = updater.stats().chains_undeleted;
    inject(&kernel);
    let result = operate(&mut updater);
    kernel.clear_faults();
    match &result {
        Ok(()) => {
            assert_eq!(updater.index(), &without.0, "{backend} {name} {label}");
            // A deletion is best effort: its failure is reported, not returned. And who is told that a rule
            // isn't there has to believe it.
            let legacy = backend == Backend::Legacy; // says the same of a busy chain
            let lie = label.contains("Absent") || legacy && label.contains("ChainBusy");
            if updater.stats().chains_undeleted == failed_before && !lie {
                assert_eq!(rules(&kernel), without.1, "{backend} {name} {label}");
            }
        }
        Err(Error::Restore(_) | Error::Save { .. }) => {
            let may = after_failure(backend, name, before);
            assert!(may.contains(updater.index()), "{backend} {name} {label}");
        }
        Err(error) => panic!("{backend} {name} {label}: {error}"),
    }
    assert!(rules(&kernel).contains("-A other -p tcp -j ACCEPT\n"));
    // The same program goes on, or another is started in its place.
    updater.refresh_all().unwrap();
    assert!(
        updater.verify().unwrap().is_empty(),
        "{backend} {name} {label}"
    );
    assert_eq!(start_anew(&kernel), wanted, "{backend} {name} {label}");
    result.is_ok()
}

#[test]
fn no_fault_at_any_call_of_any_operation_does_lasting_harm() {
    let mut combinations = 0;
    let mut outcomes = BTreeSet::new();
    for backend in [Backend::NfTables, Backend::Legacy] {
        for operation in OPERATIONS {
            // Without a fault: what it comes to, and how many calls it makes.
            let (kernel, mut updater) = start(backend);
            operation.1(&mut updater).unwrap();
            let without = (updater.index().clone(), rules(&kernel));
            let calls = kernel.journal();
            let wanted = start_anew(&kernel);
            let saves = calls
                .iter()
                .filter(|entry| matches!(entry.call, JournalCall::Save(_)));
            let (saves, restores) = (saves.clone().count(), calls.len() - saves.count());

            for fault in FAULTS {
                // One call further than there are: what a failure leads to has calls of its own.
                for nth in 1..=restores + 1 {
                    let inject = |kernel: &MemoryExecutor| kernel.fail_restore(nth, *fault);
                    let label = format!("restore {nth} {fault:?}");
                    let ok = try_one(backend, operation, inject, &without, &wanted, &label);
                    outcomes.insert((operation.0, ok));
                    combinations += 1;
                }
                for nth in 1..=saves + 1 {
                    let inject = |kernel: &MemoryExecutor| kernel.fail_save(nth, *fault);
                    let label = format!("save {nth} {fault:?}");
                    try_one(backend, operation, inject, &without, &wanted, &label);
                    combinations += 1;
                }
                // And from some call on, for good.
                for nth in 1..=restores {
                    let inject = |kernel: &MemoryExecutor| {
                        for later in nth..nth + 40 {
                            kernel.fail_restore(later, *fault);
                            kernel.fail_save(later, *fault);
                        }
                    };
                    let label = format!("all from {nth} on {fault:?}");
                    let ok = try_one(backend, operation, inject, &without, &wanted, &label);
                    outcomes.insert((operation.0, ok));
                    combinations += 1;
                }
            }
            let held = |kernel: &MemoryExecutor| kernel.hold_lock(5);
            try_one(
                backend,
                operation,
                held,
                &without,
                &wanted,
                "lock held for five",
            );
            combinations += 1;
        }
    }
    println!("{combinations} combinations");
    // Each operation that runs something was seen to succeed in spite of a fault, and to fail.
    for (name, _) in OPERATIONS {
        let silent = matches!(*name, "rewrite nothing" | "override" | "refresh" | "verify");
        assert!(silent || outcomes.contains(&(*name, true)), "{name}");
        assert!(silent || outcomes.contains(&(*name, false)), "{name}");
    }
}

#[test]
fn an_injected_failure_is_told_as_the_class_that_it_says() {
    let input = "*filter\n:web-a - [0:0]\n-A web-a -j web-b\n-D web-a -j web-b\n-X web-a\nCOMMIT\n";
    for backend in [Backend::NfTables, Backend::Legacy] {
        for fault in FAULTS {
            let mut kernel = MemoryExecutor::new(IpVersion::V4, backend);
            kernel.fail_restore(1, *fault);
            let outcome = kernel.restore(input).unwrap();
            let found = Failure::of_restore(&outcome, input).map(|failure| failure.class);
            let expected = match (backend, fault) {
                // A restore has nothing to truncate; the input is refused for what is wrong with it.
                (_, Fault::SaveTruncated) => found,
                // Legacy has no words of its own for it.
                (Backend::Legacy, Fault::Fails(FailureClass::NoPrivilege)) => {
                    Some(FailureClass::LockFile)
                }
                _ => fault.class_on(backend),
            };
            assert_eq!(found, expected, "{backend} {fault:?} {outcome:?}");
        }
    }
}
