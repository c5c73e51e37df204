//! The worker's own life: panics, shutdown, what it does by itself, and errors that nobody collects. On the
//! simulated kernel.

mod common;

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::gated::{all_succeed, chain, held_up, spawn, updater, wait_until, watched};
use iptables_updater::memory::Fault;
use iptables_updater::worker::{self, WorkerConfig};
use iptables_updater::{Error, FailureClass, Table};

#[test]
fn a_callback_that_panics_does_not_stop_the_worker() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let ticket = held_up(&gated, &handle);
        ticket.on_done(|_| panic!("as told to"));
        gated.open();
        handle.rewrite_chains([chain("web-a")]).unwrap();
    });
}

#[test]
fn an_executor_that_panics_leaves_nobody_waiting() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default().with_queue_limit(3));
        let running = held_up(&gated, &handle);
        let queued = handle.rewrite_chains_later([chain("web-a")]);
        let alone = handle.cleanup_later();
        let (sent, received) = mpsc::channel();
        handle
            .rewrite_chains_later([chain("web-b")])
            .on_done(move |result| sent.send(result.is_err()).unwrap());
        let blocked = {
            let handle = handle.clone();
            std::thread::spawn(move || handle.rewrite_chains([chain("web-c")]))
        };
        gated.gate.panics.store(true, Ordering::SeqCst);
        gated.open();
        let gone = |result: Result<(), Error>| matches!(result, Err(Error::WorkerGone { .. }));
        assert!(gone(running.wait()));
        assert!(gone(queued.wait()));
        assert!(gone(alone.wait().map(drop)));
        assert!(received.recv_timeout(Duration::from_secs(20)).unwrap());
        assert!(gone(blocked.join().unwrap()));
        assert!(gone(handle.rewrite_chains([chain("web-d")])));
        assert!(gone(handle.stats().map(drop)));
        assert!(gone(handle.shutdown().map(drop)));
    });
}

#[test]
fn dropping_the_last_handle_lets_the_worker_finish_and_stop() {
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let first = held_up(&gated, &handle);
        let tickets = ["web-a", "web-b"].map(|name| handle.rewrite_chains_later([chain(name)]));
        drop(handle.clone());
        drop(handle);
        gated.open();
        first.wait().unwrap();
        all_succeed(tickets);
        // The thread gives its clone of the gate up.
        wait_until("the worker goes on", || Arc::strong_count(&gated.gate) == 1);
    });
}

#[test]
fn a_shutdown_does_what_is_queued_and_gives_the_updater_back() {
    watched(|gated| {
        let config = WorkerConfig::default().with_batch_spacing(Duration::from_secs(3_600));
        let handle = spawn(&gated, config);
        let other = handle.clone();
        let first = held_up(&gated, &handle);
        let last = handle.rewrite_chains_later([chain("web-last")]);
        let opener = {
            let gated = gated.clone();
            std::thread::spawn(move || gated.open())
        };
        let updater = handle.shutdown().unwrap();
        opener.join().unwrap();
        first.wait().unwrap();
        last.wait().unwrap();
        assert_eq!(updater.programmed_chains(), [&"web-first", &"web-last"]);
        assert!(matches!(
            other.rewrite_chains([chain("web-a")]),
            Err(Error::WorkerGone { .. })
        ));
        assert!(matches!(other.shutdown(), Err(Error::WorkerGone { .. })));
    });
}

#[test]
fn a_worker_refreshes_again_and_again_though_one_fails() {
    watched(|gated| {
        let interval = Duration::from_millis(20);
        let handle = spawn(
            &gated,
            WorkerConfig::default().with_refresh_interval(interval),
        );
        handle.rewrite_chains([chain("web-a")]).unwrap();
        let there = || gated.kernel.rules(Table::Filter, "web-a").is_some();
        for _ in 0..3 {
            gated
                .kernel
                .fail_save(1, Fault::Fails(FailureClass::NoPrivilege));
            gated
                .kernel
                .with_other_program(|other| other.flush_table(Table::Filter));
            wait_until("it isn't repaired", there);
        }
        let stats = handle.stats().unwrap();
        assert!(stats.refreshes_failed >= 1, "{stats}");
        assert!(stats.chains_repaired >= 3, "{stats}");
    });
}

#[test]
fn a_worker_that_finds_its_canary_gone_refreshes_at_once() {
    watched(|gated| {
        let interval = Duration::from_millis(10);
        let handle = spawn(
            &gated,
            WorkerConfig::default().with_canary_interval(interval),
        );
        handle.rewrite_chains([chain("web-a")]).unwrap();
        let there = |name: &str| gated.kernel.rules(Table::Filter, name).is_some();
        for _ in 0..3 {
            wait_until("there is no canary", || there("web-~canary"));
            gated
                .kernel
                .with_other_program(|other| other.flush_table(Table::Filter));
            wait_until("it isn't repaired", || there("web-a"));
        }
    });
}

#[test]
fn a_worker_cleans_up_once_and_again_only_if_that_failed() {
    watched(|gated| {
        let make_orphan = || {
            gated.kernel.with_other_program(|other| {
                assert!(
                    other
                        .restore("*filter\n:web-old - [0:0]\nCOMMIT\n")
                        .exit
                        .is_success()
                );
            });
        };
        make_orphan();
        let updater = updater(&gated);
        gated
            .kernel
            .fail_save(1, Fault::Fails(FailureClass::NoPrivilege));
        let config = WorkerConfig::default().with_cleanup_after(Duration::from_millis(20));
        let handle = worker::spawn(updater, config);
        let there = || gated.kernel.rules(Table::Filter, "web-old").is_some();
        wait_until("it isn't cleaned up", || !there());
        assert_eq!(handle.stats().unwrap().refreshes_failed, 1);
        make_orphan();
        std::thread::sleep(Duration::from_millis(100));
        assert!(there(), "it was cleaned up twice");
    });
}

/// What was logged at `warn` and above.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            LOG.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[test]
fn an_error_that_nobody_collects_is_logged_with_what_it_was() {
    static LOGGER: Logger = Logger;
    log::set_logger(&LOGGER).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    watched(|gated| {
        let handle = spawn(&gated, WorkerConfig::default());
        let logged = |text: &str| {
            let log = LOG.lock().unwrap();
            log.iter()
                .any(|line| line.contains("nobody collected") && line.contains(text))
        };
        // Dropped before the answer, and after it.
        drop(handle.delete_chains_later(["unowned-early"]));
        wait_until("it isn't logged", || logged("unowned-early"));
        let ticket = handle.delete_chains_later(["unowned-late"]);
        wait_until("no answer", || ticket.is_answered());
        assert!(!logged("unowned-late"));
        drop(ticket);
        assert!(logged("unowned-late"));
        // Nobody misses a success, and an error that was collected is no news.
        drop(handle.rewrite_chains_later([chain("web-a")]));
        handle.delete_chains(["unowned-seen"]).unwrap_err();
        assert!(!logged("unowned-seen"));
    });
}

#[test]
fn a_time_without_end_is_one() {
    watched(|gated| {
        let config = WorkerConfig::default()
            .with_refresh_interval(Duration::MAX)
            .with_canary_interval(Duration::MAX)
            .with_cleanup_after(Duration::MAX);
        let handle = spawn(&gated, config);
        gated.open();
        let ticket = handle.rewrite_chains_later([chain("web-a")]);
        let in_time = ticket.wait_timeout(Duration::MAX);
        in_time.expect("an answer").unwrap();
        handle.stats().unwrap();
    });
}
