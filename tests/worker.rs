//! The worker: queueing, batches, order, answers. On the simulated kernel.

mod common;

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::gated::{all_succeed, chain, held_up, spawn, wait_until, watched};
use iptables_updater::worker::{Handle, Ticket, WorkerConfig};
use iptables_updater::{
    Chain, CleanupReport, Error, FailureClass, IptablesUpdater, MemoryExecutor, Request, Table,
};

#[test]
fn a_single_request_is_done_and_answered() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        handle.rewrite_chains([chain("web-a")]).unwrap();
        assert!(gated.kernel.rules(Table::Filter, "web-a").is_some());
        assert_eq!(handle.stats().unwrap().requests, 1);
    });
}

#[test]
fn what_is_queued_together_is_one_batch_in_order() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let first = held_up(&gated, &handle);
        let tickets: Vec<_> = ["web-a", "web-b", "web-c"]
            .map(|name| handle.rewrite_chains_later([chain(name)]))
            .into_iter()
            .chain([handle.delete_chains_later(["web-b"])])
            .collect();
        gated.open();
        first.wait().unwrap();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!(gated.batches(), [vec!["web-first"], vec!["web-a", "web-c"]]);
        assert_eq!(handle.stats().unwrap().batch_requests.max, 4);
    });
}

#[test]
fn one_bad_request_of_a_batch_fails_alone() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let first = held_up(&gated, &handle);
        let good = handle.rewrite_chains_later([chain("web-a")]);
        let bad = Chain::new("web-bad", ["-j no-such-chain"]).unwrap();
        let bad = handle.rewrite_chains_later([bad]);
        let foreign = handle.delete_chains_later(["other"]);
        let also_good = handle.request_later(Request::rewrite([chain("web-b")]));
        gated.open();
        assert_eq!(
            bad.wait().unwrap_err().class(),
            Some(FailureClass::TargetAbsent)
        );
        assert!(matches!(foreign.wait(), Err(Error::NotOwned { .. })));
        for ticket in [first, good, also_good] {
            ticket.wait().unwrap();
        }
        assert_eq!(handle.stats().unwrap().requests_failed, 2);
    });
}

#[test]
fn everything_else_runs_by_itself_at_its_place_in_the_order() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let first = held_up(&gated, &handle);
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = Arc::clone(&order);
            move |result: Result<(), Error>| {
                result.unwrap();
                order.lock().unwrap().push(name);
            }
        };
        handle
            .rewrite_chains_later([chain("web-a")])
            .on_done(note("a"));
        handle
            .rewrite_chains_later([chain("web-b")])
            .on_done(note("b"));
        handle
            .ensure_rule_inserted_later("INPUT", "-j web-b")
            .on_done(note("hook"));
        handle
            .rewrite_chains_later([chain("web-c")])
            .on_done(note("c"));
        handle
            .delete_chains_later(["web-a"])
            .on_done(note("delete a"));
        gated.open();
        first.wait().unwrap();
        handle.cleanup().unwrap();
        let order = order.lock().unwrap().clone();
        assert_eq!(order, ["a", "b", "hook", "c", "delete a"]);
        // first; a and b; the hook (counted, inserted); c and the stub of a; the deletion of a.
        let batches = gated.batches();
        assert_eq!(batches[1], ["web-a", "web-b"]);
        assert_eq!(batches[4], ["web-a", "web-c"]);
    });
}

#[test]
fn blocking_calls_return_the_value_or_the_error() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        handle
            .set_missing_chain_override("web-x", ["-j RETURN"])
            .unwrap();
        let jump = Chain::new("web-a", ["-j web-x"]).unwrap();
        handle.rewrite_chains([jump]).unwrap();
        assert_eq!(
            gated.kernel.rules(Table::Filter, "web-x").unwrap(),
            ["-j RETURN"]
        );
        let late = handle.set_missing_chain_override("web-x", ["-j DROP"]);
        assert!(matches!(late, Err(Error::OverrideTooLate { .. })));
        handle.ensure_rule_appended("INPUT", "-j web-a").unwrap();
        handle.ensure_rule_removed("INPUT", "-j web-a").unwrap();
        assert!(
            handle
                .ensure_rule_inserted("INPUT", "-j no-such-chain")
                .is_err()
        );
        assert!(handle.verify().unwrap().is_empty());
        assert!(handle.refresh().unwrap().is_empty());
        assert_eq!(handle.refresh_all().unwrap().rewritten, ["web-a"]);
        assert_eq!(handle.cleanup().unwrap(), CleanupReport::default());
        let table = handle.call(|updater| Ok(updater.table())).unwrap();
        assert_eq!(table, Table::Filter);
        // What is wrong is told at once, and not queued.
        gated.close();
        assert!(handle.ensure_rule_inserted("INPUT", "-6").is_err());
        assert!(handle.delete_chains(["a b"]).is_err());
        assert!(
            handle
                .set_missing_chain_override("web-y", ["-t nat"])
                .is_err()
        );
        gated.open();
    });
}

#[test]
fn a_batch_has_no_more_requests_and_bytes_than_it_may() {
    watched(|gated| {
        let config = WorkerConfig::default().with_max_batch_requests(3);
        let handle = spawn(&gated, config);
        let first = held_up(&gated, &handle);
        let tickets: Vec<_> = (0..7)
            .map(|n| handle.rewrite_chains_later([chain(&format!("web-{n}"))]))
            .collect();
        gated.open();
        first.wait().unwrap();
        all_succeed(tickets);
        let sizes: Vec<_> = gated.batches().iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 3, 3, 1]);
    });
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default().with_max_batch_bytes(150));
        let first = held_up(&gated, &handle);
        let large = Chain::new("web-large", vec!["-j ACCEPT"; 20]).unwrap();
        let chains = [chain("web-a"), chain("web-b"), large, chain("web-c")];
        let tickets = chains.map(|chain| handle.rewrite_chains_later([chain]));
        gated.open();
        first.wait().unwrap();
        all_succeed(tickets);
        let batches = gated.batches();
        assert_eq!(
            batches[1..],
            [vec!["web-a", "web-b"], vec!["web-large"], vec!["web-c"]]
        );
    });
}

#[test]
fn spacing_gathers_what_comes_meanwhile() {
    watched(|gated| {
        let spacing = Duration::from_millis(200);
        let handle = spawn(&gated, WorkerConfig::default().with_batch_spacing(spacing));
        handle.rewrite_chains([chain("web-first")]).unwrap();
        let tickets: Vec<_> = (0..5)
            .map(|n| {
                std::thread::sleep(Duration::from_millis(2));
                handle.rewrite_chains_later([chain(&format!("web-{n}"))])
            })
            .collect();
        all_succeed(tickets);
        assert_eq!(gated.batches().len(), 2);
    });
}

#[test]
fn a_full_queue_makes_its_callers_wait() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default().with_queue_limit(2));
        let first = held_up(&gated, &handle);
        let second = handle.rewrite_chains_later([chain("web-a")]);
        let third = handle.rewrite_chains_later([chain("web-b")]);
        let (sent, received) = mpsc::channel();
        let other = handle.clone();
        let caller = std::thread::spawn(move || {
            let ticket = other.rewrite_chains_later([chain("web-c")]);
            sent.send(()).unwrap();
            ticket.wait().unwrap();
        });
        assert!(received.recv_timeout(Duration::from_millis(100)).is_err());
        gated.open();
        received.recv_timeout(Duration::from_secs(20)).unwrap();
        caller.join().unwrap();
        for ticket in [first, second, third] {
            ticket.wait().unwrap();
        }
    });
}

#[test]
fn a_ticket_can_be_waited_for_in_part_or_asked() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let ticket = held_up(&gated, &handle);
        assert!(!ticket.is_answered());
        let Err(pending) = ticket.wait_timeout(Duration::from_millis(10)) else {
            panic!("it can't be done yet");
        };
        assert_eq!(format!("{pending:?}"), pending.to_string());
        assert!(pending.to_string().ends_with("no answer within the time"));
        let ticket = pending.into_ticket();
        gated.open();
        ticket
            .wait_timeout(Duration::from_secs(20))
            .unwrap()
            .unwrap();
        let ticket = handle.stats_later();
        wait_until("no answer", || ticket.is_answered());
        assert_eq!(ticket.wait().unwrap().requests, 1);
    });
}

#[test]
fn callbacks_are_called_before_or_after_the_answer_and_may_queue_but_not_wait() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let ticket = held_up(&gated, &handle);
        let (sent, received) = mpsc::channel();
        let (inner, late) = (handle.clone(), sent.clone());
        ticket.on_done(move |result| {
            result.unwrap();
            let refused = inner.rewrite_chains([chain("web-blocking")]);
            assert!(matches!(refused, Err(Error::WorkerGone { .. })));
            let queued = inner.rewrite_chains_later([chain("web-queued")]);
            queued.on_done(move |result| sent.send(result).unwrap());
        });
        gated.open();
        received
            .recv_timeout(Duration::from_secs(20))
            .unwrap()
            .unwrap();
        let ticket = handle.stats_later();
        wait_until("no answer", || ticket.is_answered());
        ticket.on_done(move |stats| late.send(stats.map(drop)).unwrap());
        received
            .recv_timeout(Duration::from_secs(20))
            .unwrap()
            .unwrap();
    });
}

#[test]
fn sixteen_threads_are_all_answered() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let handle = handle.clone();
                scope.spawn(move || {
                    let tickets: Vec<_> = (0..100)
                        .map(|n| {
                            handle
                                .rewrite_chains_later([chain(&format!("web-{thread}-{}", n % 10))])
                        })
                        .collect();
                    all_succeed(tickets);
                });
            }
        });
        let updater = handle.shutdown().unwrap();
        assert_eq!(updater.programmed_chains().len(), 160);
        assert_eq!(updater.stats().requests, 1_600);
        let chains = gated.kernel.chains(Table::Filter);
        let chains: BTreeSet<_> = chains
            .iter()
            .filter(|name| name.starts_with("web-"))
            .collect();
        assert_eq!(chains.len(), 160);
    });
}

#[test]
fn handles_and_tickets_go_from_thread_to_thread() {
    fn send_and_sync<T: Send + Sync>() {}
    fn send<T: Send>() {}
    send_and_sync::<Handle<MemoryExecutor>>();
    send_and_sync::<WorkerConfig>();
    send_and_sync::<Error>();
    send_and_sync::<Request>();
    send::<Ticket<()>>();
    send::<IptablesUpdater<MemoryExecutor>>();
    send::<IptablesUpdater<iptables_updater::CommandExecutor>>();
}
