//! The worker: queueing, batches, answers, shutdown. On the simulated kernel, behind an executor that can be held
//! up, so that a queue builds up, and that can panic.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::bed::NoWaiting;
use iptables_updater::memory::Fault;
use iptables_updater::worker::{self, Handle, Pending, Ticket, WorkerConfig};
use iptables_updater::{
    Backend, Chain, CleanupReport, Error, Executor, ExecutorError, FailureClass, IpVersion,
    IptablesUpdater, MemoryExecutor, Outcome, Request, Table,
};

/// The simulated kernel behind a gate.
#[derive(Clone)]
struct Gated {
    kernel: MemoryExecutor,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    panics: AtomicBool,
    waiting: AtomicUsize,
}

impl Gated {
    fn new() -> Self {
        Self {
            kernel: MemoryExecutor::new(IpVersion::V4, Backend::NfTables),
            gate: Arc::default(),
        }
    }

    fn close(&self) {
        *self.gate.closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.gate.closed.lock().unwrap() = false;
        self.gate.opened.notify_all();
    }

    /// Waits until somebody stands at the gate.
    fn await_caller(&self) {
        wait_until("nobody came to the gate", || {
            self.gate.waiting.load(Ordering::SeqCst) > 0
        });
    }

    fn pass(&self) {
        self.gate.waiting.fetch_add(1, Ordering::SeqCst);
        let mut closed = self.gate.closed.lock().unwrap();
        while *closed {
            closed = self.gate.opened.wait(closed).unwrap();
        }
        self.gate.waiting.fetch_sub(1, Ordering::SeqCst);
        assert!(!self.gate.panics.load(Ordering::SeqCst), "as told to");
    }

    /// The chains that each restore wrote, in order.
    fn batches(&self) -> Vec<Vec<String>> {
        let restores = self.kernel.journal().into_iter();
        let declared = |input: &str| {
            let names = input
                .lines()
                .filter_map(|line| line.strip_prefix(':')?.split(' ').next());
            names.map(str::to_owned).collect()
        };
        restores
            .filter_map(|entry| entry.input().map(declared))
            .collect()
    }
}

impl Executor for Gated {
    fn ip_version(&self) -> IpVersion {
        IpVersion::V4
    }

    fn backend(&self) -> Backend {
        Backend::NfTables
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        self.pass();
        self.kernel.restore(input)
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        self.kernel.save(table)
    }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a body that must not hang.
fn watched(body: impl FnOnce(Gated) + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body(Gated::new());
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_secs(30)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn updater(gated: &Gated) -> IptablesUpdater<Gated> {
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    builder.clock(NoWaiting).open(gated.clone()).unwrap()
}

fn spawn(gated: &Gated, config: WorkerConfig) -> Handle<Gated> {
    worker::spawn(updater(gated), config)
}

fn all_succeed(tickets: impl IntoIterator<Item = Ticket<()>>) {
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}

fn chain(name: &str) -> Chain {
    Chain::new(name, ["-j ACCEPT"]).unwrap()
}

/// Holds the worker up in a first batch, so that what is queued next waits.
fn held_up(gated: &Gated, handle: &Handle<Gated>) -> Ticket<()> {
    gated.close();
    let first = handle.rewrite_chains_later([chain("web-first")]);
    gated.await_caller();
    first
}

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
        let Err(Pending(ticket)) = ticket.wait_timeout(Duration::from_millis(10)) else {
            panic!("it can't be done yet");
        };
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
                .as_other_program(|other| other.flush_table(Table::Filter));
            wait_until("it isn't repaired", there);
        }
        let stats = handle.stats().unwrap();
        assert!(stats.refreshes_failed >= 1, "{stats}");
        assert!(stats.chains_repaired >= 3, "{stats}");
    });
}

#[test]
fn a_worker_cleans_up_once_and_again_only_if_that_failed() {
    watched(|gated| {
        let make_orphan = || {
            gated.kernel.as_other_program(|other| {
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
