//! Which failures are tried again, how often, and with which pauses.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use iptables_updater::memory::{Fault, JournalCall};
use iptables_updater::{
    Backend, Chain, Clock, Error, FailureClass, IpVersion, IptablesUpdater, MemoryExecutor,
    Request, RetryPolicy, Table,
};

/// A clock that stands still and writes down how long it was asked to sleep.
#[derive(Clone)]
struct Sleeps(Arc<Mutex<Vec<Duration>>>, Instant);

impl Clock for Sleeps {
    fn now(&self) -> Instant {
        self.1
    }

    fn sleep(&self, pause: Duration) {
        self.0.lock().unwrap().push(pause);
    }
}

struct Bed {
    kernel: MemoryExecutor,
    updater: IptablesUpdater<MemoryExecutor>,
    sleeps: Sleeps,
}

fn bed(backend: Backend, policy: RetryPolicy) -> Bed {
    let kernel = MemoryExecutor::new(IpVersion::V4, backend);
    let sleeps = Sleeps(Arc::default(), Instant::now());
    let updater = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .retry(policy)
        .clock(sleeps.clone())
        .open(kernel.clone())
        .unwrap();
    kernel.clear_journal();
    Bed {
        kernel,
        updater,
        sleeps,
    }
}

impl Bed {
    /// Rewrites a chain while the next restores fail in this way; the error, restores, saves and pauses.
    fn rewrite(
        &mut self,
        fault: Fault,
        times: usize,
    ) -> (Option<Error>, usize, usize, Vec<Duration>) {
        for nth in 1..=times {
            self.kernel.fail_restore(nth, fault);
        }
        let chain = Chain::new("web-a", ["-j RETURN"]).unwrap();
        let result = self.updater.rewrite_chains([chain]);
        let journal = self.kernel.journal();
        let saves = journal
            .iter()
            .filter(|entry| matches!(entry.call, JournalCall::Save(_)));
        let saves = saves.count();
        let sleeps = self.sleeps.0.lock().unwrap().clone();
        (result.err(), journal.len() - saves, saves, sleeps)
    }
}

#[test]
fn what_may_pass_is_tried_ten_times_with_growing_pauses() {
    let fault = Fault::Fails(FailureClass::Race);
    let mut bed = bed(Backend::NfTables, RetryPolicy::default());
    let (error, restores, saves, pauses) = bed.rewrite(fault, 20);
    let Some(Error::Restore(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!((error.class, error.tries), (FailureClass::Race, 10));
    assert_eq!((restores, saves), (10, 0));
    assert_eq!(pauses.len(), 9);
    assert_eq!(pauses[0], Duration::from_millis(10));
    assert!(pauses.is_sorted());
    assert!(*pauses.last().unwrap() <= Duration::from_millis(200));
    assert_eq!(bed.updater.stats().retries.race, 9);
}

#[test]
fn what_passes_in_time_is_no_error() {
    for (backend, fault) in [
        (Backend::NfTables, Fault::Fails(FailureClass::Race)),
        (Backend::Legacy, Fault::Fails(FailureClass::LockHeld)),
    ] {
        let (error, restores, ..) = bed(backend, RetryPolicy::default()).rewrite(fault, 9);
        assert!(error.is_none());
        assert_eq!(restores, 10);
    }
}

#[test]
fn what_is_not_explained_is_tried_three_times_with_a_reading_before_the_last() {
    for (backend, fault) in [
        (Backend::Legacy, Fault::Fails(FailureClass::Ambiguous)),
        (Backend::NfTables, Fault::KilledBeforeCommit),
        (Backend::NfTables, Fault::Hangs),
    ] {
        let (error, restores, saves, _) = bed(backend, RetryPolicy::default()).rewrite(fault, 20);
        let Some(Error::Restore(error)) = error else {
            panic!("{error:?}");
        };
        assert_eq!((error.class, error.tries), (FailureClass::Ambiguous, 3));
        assert_eq!((restores, saves), (3, 1));
        let (error, restores, saves, _) = bed(backend, RetryPolicy::default()).rewrite(fault, 2);
        assert!(error.is_none());
        assert_eq!((restores, saves), (3, 1));
    }
}

#[test]
fn what_will_not_pass_is_an_error_at_once() {
    for backend in [Backend::NfTables, Backend::Legacy] {
        for class in [
            FailureClass::Refused,
            FailureClass::NoPrivilege,
            FailureClass::NoTable,
            FailureClass::NoKernelSupport,
        ] {
            let mut bed = bed(backend, RetryPolicy::default());
            let (error, restores, saves, pauses) = bed.rewrite(Fault::Fails(class), 20);
            assert!(error.is_some());
            assert_eq!(
                (restores, saves, pauses.len()),
                (1, 0, 0),
                "{backend} {class:?}"
            );
        }
    }
}

#[test]
fn the_policy_is_the_callers() {
    let policy = RetryPolicy::default()
        .with_tries(4)
        .with_first_pause(Duration::from_millis(100))
        .with_max_pause(Duration::from_millis(120));
    let fault = Fault::Fails(FailureClass::Race);
    let (_, restores, _, pauses) = bed(Backend::NfTables, policy).rewrite(fault, 20);
    assert_eq!(restores, 4);
    assert_eq!(pauses, [100, 120, 120].map(Duration::from_millis));
    let (_, restores, ..) = bed(Backend::NfTables, RetryPolicy::never()).rewrite(fault, 20);
    assert_eq!(restores, 1);
    let (_, restores, ..) = bed(Backend::NfTables, RetryPolicy::never()).rewrite(Fault::Hangs, 20);
    assert_eq!(restores, 1);
}

#[test]
fn an_error_is_for_people() {
    let mut bed = bed(Backend::NfTables, RetryPolicy::default());
    let chain = Chain::new("web-a", ["-j RETURN", "-p tcp --dport none -j ACCEPT"]).unwrap();
    let error = bed.updater.rewrite_chains([chain]).unwrap_err();
    let text = error.to_string();
    for part in [
        "table filter (IPv4, nf_tables)",
        "iptables refused it",
        "at line 4 (\"-A web-a -p tcp --dport none -j ACCEPT\") of chain web-a",
        "exit code 2, it said",
        "What to do: correct the line",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

type Repair = fn(&mut IptablesUpdater<MemoryExecutor>);

#[test]
fn what_a_killed_commit_may_have_written_is_written_again() {
    let rules = |kernel: &MemoryExecutor| kernel.rules(Table::Filter, "web-a").unwrap();
    let chain = |rule| Chain::new("web-a", [rule]).unwrap();
    let repairs: [Repair; 3] = [
        |updater| drop(updater.refresh().unwrap()),
        |updater| {
            let again = Chain::new("web-a", ["-p tcp -j DROP"]).unwrap();
            updater.rewrite_chains([again]).unwrap();
        },
        |updater| drop(updater.rewrite_chains([Chain::new("web-b", ["-j RETURN"]).unwrap()])),
    ];
    for backend in [Backend::NfTables, Backend::Legacy] {
        for repair in repairs {
            for delete in [false, true] {
                let Bed {
                    kernel,
                    mut updater,
                    ..
                } = bed(backend, RetryPolicy::default());
                updater.rewrite_chains([chain("-p tcp -j DROP")]).unwrap();
                for nth in 1..=3 {
                    kernel.fail_restore(nth, Fault::KilledAfterCommit);
                }
                let failed = if delete {
                    updater.delete_chains(["web-a"])
                } else {
                    updater.rewrite_chains([chain("-p udp -j DROP")])
                };
                let class = failed.unwrap_err().class();
                assert_eq!(class, Some(FailureClass::Ambiguous));
                assert_ne!(rules(&kernel), ["-p tcp -j DROP"], "the fault is none");
                repair(&mut updater);
                assert_eq!(rules(&kernel), ["-p tcp -j DROP"], "{backend} {delete}");
                kernel.clear_journal();
                updater.rewrite_chains([chain("-p tcp -j DROP")]).unwrap();
                assert!(kernel.journal().is_empty(), "once is enough");
            }
        }
    }
}

#[test]
fn what_a_killed_commit_may_have_written_is_a_stub_before_it_is_deleted() {
    for backend in [Backend::NfTables, Backend::Legacy] {
        let mut bed = bed(backend, RetryPolicy::never());
        bed.updater
            .rewrite_chains([Chain::new("web-a", ["-j web-b"]).unwrap()])
            .unwrap();
        bed.kernel.with_other_program(|other| {
            let outcome = other.command(Table::Filter, "-A INPUT -j web-b");
            assert!(outcome.exit.is_success());
        });
        bed.kernel.fail_restore(1, Fault::KilledAfterCommit);
        bed.updater
            .rewrite_chains([Chain::new("web-b", ["-j ACCEPT"]).unwrap()])
            .unwrap_err();
        // Nobody requires the stub any longer, but another program keeps the chain: it mustn't let anything through.
        let changes = bed
            .updater
            .rewrite_chains([Chain::new("web-a", ["-j RETURN"]).unwrap()])
            .unwrap();
        assert_eq!(changes.undeleted.len(), 1);
        let rules = bed.kernel.rules(Table::Filter, "web-b").unwrap();
        assert_eq!(
            rules,
            ["-m comment --comment \"missing chain web-b\" -j DROP"]
        );
    }
}

/// A race that lasts costs all tries once; every part of the batch that often again would be hours for a large one.
#[test]
fn a_race_that_lasts_is_waited_for_once_a_batch_and_not_once_a_part() {
    let mut bed = bed(Backend::NfTables, RetryPolicy::default());
    for nth in 1..=2_000 {
        bed.kernel
            .fail_restore(nth, Fault::Fails(FailureClass::Race));
    }
    let names = (0..100).map(|number| format!("web-{number}"));
    let requests: Vec<_> = names
        .map(|name| Request::rewrite([Chain::new(name, ["-j RETURN"]).unwrap()]))
        .collect();
    let results = bed.updater.apply(&requests);
    let races = results.iter().filter_map(|result| result.as_ref().err());
    let races = races.filter(|error| error.class() == Some(FailureClass::Race));
    assert_eq!(races.count(), 100);
    // Ten for the whole, one for each of the 198 parts.
    assert_eq!(bed.kernel.journal().len(), 10 + 198);
    assert_eq!(bed.sleeps.0.lock().unwrap().len(), 9);
    // The next call is as patient as ever.
    bed.kernel.clear_journal();
    assert!(bed.updater.apply(&requests[..1])[0].is_err());
    assert_eq!(bed.kernel.journal().len(), 10);
}
