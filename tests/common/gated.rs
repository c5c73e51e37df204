//! A worker on the simulated kernel, behind an executor that can be held up, so that a queue builds up, and that can
//! panic.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::bed::NoWaiting;
use iptables_updater::worker::{self, Handle, Ticket, WorkerConfig};
use iptables_updater::{
    Backend, Chain, Executor, ExecutorError, IpVersion, IptablesUpdater, MemoryExecutor, Outcome,
    Table,
};

/// The simulated kernel behind a gate.
#[derive(Clone)]
pub struct Gated {
    pub kernel: MemoryExecutor,
    pub gate: Arc<Gate>,
}

#[derive(Default)]
pub struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    pub panics: AtomicBool,
    waiting: AtomicUsize,
}

impl Gated {
    pub fn new() -> Self {
        Self {
            kernel: MemoryExecutor::new(IpVersion::V4, Backend::NfTables),
            gate: Arc::default(),
        }
    }

    pub fn close(&self) {
        *self.gate.closed.lock().unwrap() = true;
    }

    pub fn open(&self) {
        *self.gate.closed.lock().unwrap() = false;
        self.gate.opened.notify_all();
    }

    /// Waits until somebody stands at the gate.
    pub fn await_caller(&self) {
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
    pub fn batches(&self) -> Vec<Vec<String>> {
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

pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a body that must not hang.
pub fn watched(body: impl FnOnce(Gated) + Send + 'static) {
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

pub fn updater(gated: &Gated) -> IptablesUpdater<Gated> {
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    builder.clock(NoWaiting).open(gated.clone()).unwrap()
}

pub fn spawn(gated: &Gated, config: WorkerConfig) -> Handle<Gated> {
    worker::spawn(updater(gated), config)
}

pub fn all_succeed(tickets: impl IntoIterator<Item = Ticket<()>>) {
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}

pub fn chain(name: &str) -> Chain {
    Chain::new(name, ["-j ACCEPT"]).unwrap()
}

/// Holds the worker up in a first batch, so that what is queued next waits.
pub fn held_up(gated: &Gated, handle: &Handle<Gated>) -> Ticket<()> {
    gated.close();
    let first = handle.rewrite_chains_later([chain("web-first")]);
    gated.await_caller();
    first
}
