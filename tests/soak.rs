//! A long life: eight threads ask a worker for anything, calls of iptables fail, hang and are killed, and a second
//! program damages our chains. At the end the table is exact, and memory, threads and descriptors are what they were.
//!
//! `IPTABLES_UPDATER_SOAK_SECONDS` is how long that goes on for each kernel (8 by default; 120 and more by hand),
//! and `IPTABLES_UPDATER_SEED` what is asked for.

#[path = "soak/callers.rs"]
mod callers;
mod common;
#[path = "soak/faults.rs"]
mod faults;
#[path = "soak/footprint.rs"]
mod footprint;
#[path = "soak/second.rs"]
mod second;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use callers::{Caller, wanted};
use common::{Kernel, some_kernels};
use faults::Faulty;
use footprint::Footprint;
use iptables_updater::worker::{self, Handle, WorkerConfig};
use iptables_updater::{Backend, IpVersion, IptablesUpdater, Table, UpdateMode};
use second::{Second, found};

const CALLERS: usize = 8;

/// The callers and the second program work for so long; afterwards nobody does anything.
fn round(
    kernel: Kernel,
    handle: &Handle<Faulty>,
    callers: &mut [Caller],
    second: &mut Second,
    time: Duration,
) {
    let end = Instant::now() + time;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                second.act(kernel);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let threads: Vec<_> = callers
            .iter_mut()
            .map(|caller| {
                scope.spawn(move || {
                    while Instant::now() < end {
                        caller.act(handle);
                    }
                    caller.settle(handle);
                })
            })
            .collect();
        let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        over.store(true, Ordering::SeqCst);
        second.join().expect("the second program");
        for caller in ended {
            caller.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Taken by the worker itself, so that no refresh of its own is under way.
fn footprint(handle: &Handle<Faulty>) -> Footprint {
    handle.call(|_| Ok(Footprint::at_rest())).unwrap()
}

/// Each counts what the whole process holds: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_long_life_on_nf_tables() {
    soak("a_long_life_on_nf_tables", IpVersion::V4, Backend::NfTables);
}

#[test]
fn a_long_life_on_legacy() {
    soak("a_long_life_on_legacy", IpVersion::V4, Backend::Legacy);
}

#[test]
fn a_long_life_on_nf_tables_v6() {
    let backend = Backend::NfTables;
    soak("a_long_life_on_nf_tables_v6", IpVersion::V6, backend);
}

#[test]
fn a_long_life_on_legacy_v6() {
    soak("a_long_life_on_legacy_v6", IpVersion::V6, Backend::Legacy);
}

fn soak(name: &str, version: IpVersion, backend: Backend) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let number = |variable: &str, default: u64| {
        std::env::var(variable).map_or(default, |n| n.parse().unwrap())
    };
    let time = Duration::from_secs(number("IPTABLES_UPDATER_SOAK_SECONDS", 8));
    let seed = number("IPTABLES_UPDATER_SEED", 1);
    some_kernels(name, &[Kernel { version, backend }], |kernel| {
        println!("{kernel:?}: seed {seed}, {time:?}");
        let executor = Faulty::new(kernel, seed);
        let faults = executor.counts();
        let updater = IptablesUpdater::builder(Table::Filter)
            .chain_prefix("web-")
            .update_mode(UpdateMode::Minimal);
        let config = WorkerConfig::default().with_refresh_interval(Duration::from_secs(1));
        let handle = worker::spawn(updater.open(executor).unwrap(), config);
        let mut second = Second::new(seed);
        let mut callers: Vec<_> = (0..CALLERS).map(|n| Caller::new(n, seed)).collect();

        // A quarter to warm up, the rest in three rounds.
        round(kernel, &handle, &mut callers, &mut second, time / 4);
        let warm = footprint(&handle);
        println!("  warm: {warm}");
        for _ in 0..3 {
            round(kernel, &handle, &mut callers, &mut second, time / 4);
            println!("  then: {}", footprint(&handle));
        }
        let end = footprint(&handle);

        faults.stop();
        handle.refresh().unwrap();
        handle.cleanup().unwrap();
        let asked: u64 = callers.iter().map(|caller| caller.asked).sum();
        let repeated: u64 = callers.iter().map(|caller| caller.repeated).sum();
        println!("  {asked} requests, {repeated} of them repeated; {faults}; {second}");
        println!("  {}", handle.stats().unwrap());
        let (ours, theirs) = found(kernel);
        assert_eq!(ours, wanted(&callers), "seed {seed}");
        assert_eq!(theirs, second.wanted(), "seed {seed}");
        let mut updater = handle.shutdown().unwrap();
        assert!(updater.verify().unwrap().is_empty());
        faults.assert_all_kinds();
        end.assert_not_beyond(&warm);
    });
}
