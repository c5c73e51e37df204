//! A program that uses the library is killed at any instant and at every call of iptables, and started again.
//!
//! Then the table has to be just as wanted: others' chains untouched, nothing of ours left over. Before that, nothing may
//! be half-written. The program is this test itself, run again as a child with its part in an environment variable; it
//! has the network namespace of the thread that started it. `IPTABLES_UPDATER_DEATHS` is the number of deaths on all four
//! kernels together (60 by default, by hand 1,000).

mod common;
#[path = "death/program.rs"]
mod program;
#[path = "death/table.rs"]
mod table;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{KERNELS, Kernel, each_kernel};
use iptables_updater::{IptablesUpdater, Table};
use program::{Part, When};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use table::{Found, OTHERS};

const TEST: &str = "death_at_any_point_is_made_good_by_the_next_start";

/// How many calls of iptables are tried as a boundary, spread over the program also where there are few deaths.
const BOUNDARIES: usize = 36;

/// What was seen on one kernel.
#[derive(Debug, Default)]
struct Seen {
    deaths: usize,
    /// The program had ended before it was killed.
    too_late: usize,
    /// An iptables of the dead program was still running.
    survivors: usize,
    /// Of those where the next start didn't wait for it: the table was as wanted at once.
    right_at_once: usize,
    /// It took a refresh and a cleanup more.
    right_after_refresh: usize,
    /// Chains that the dead had created and nothing reached yet.
    staged: usize,
}

#[test]
fn death_at_any_point_is_made_good_by_the_next_start() {
    if let Some(part) = Part::of_this_process() {
        return part.play();
    }
    let deaths = std::env::var("IPTABLES_UPDATER_DEATHS").map_or(60, |n| n.parse().unwrap());
    each_kernel(TEST, |kernel| {
        let started = Instant::now();
        let seen = kill_again_and_again(kernel, deaths / KERNELS.len());
        println!("{kernel:?}: {seen:?} in {:?}", started.elapsed());
        assert_eq!(seen.deaths, deaths / KERNELS.len());
    });
}

fn kill_again_and_again(kernel: Kernel, deaths: usize) -> Seen {
    let mut rng = StdRng::seed_from_u64(deaths as u64);
    let mut seen = Seen::default();
    kernel.must_restore(OTHERS);
    let others = Found::on(kernel).others();
    // How long the program runs, if nobody kills it.
    let started = Instant::now();
    let status = start(kernel, When::Never).wait().unwrap();
    assert!(status.success(), "{status}");
    let whole = started.elapsed();
    let mut round = 0;
    while seen.deaths < deaths {
        let waits = round % 2 == 0;
        let when = match round % 3 {
            0 => When::Before(1 + round / 3 * 7 % BOUNDARIES),
            1 => When::After(1 + round / 3 * 7 % BOUNDARIES),
            _ => When::Never,
        };
        round += 1;
        let mut child = start(kernel, when);
        if when == When::Never {
            std::thread::sleep(whole.mul_f64(rng.random_range(0.0..1.0)));
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        if status.signal() == Some(9) {
            seen.deaths += 1;
        } else {
            assert!(
                status.success() && when == When::Never,
                "{when:?}: {status}"
            );
            seen.too_late += 1;
        }
        let survivor = somebody_lives();
        seen.survivors += usize::from(survivor);
        if waits {
            await_survivors();
            let found = Found::on(kernel);
            found.check_whole();
            seen.staged += found.unreached();
        }
        start_again(kernel);
        if survivor && !waits {
            await_survivors();
            if Found::on(kernel).is_wanted(&others) {
                seen.right_at_once += 1;
            } else {
                // It wrote when the new program had finished: that is drift like any other.
                start_again(kernel);
                seen.right_after_refresh += 1;
            }
        }
        let found = Found::on(kernel);
        assert!(
            found.is_wanted(&others),
            "{when:?}, waits: {waits}: {found:#?}"
        );
        if seen.deaths % 7 == 0 {
            // Now and then nothing is there when the program starts.
            kernel.must_restore("*filter\n-F\n-X\nCOMMIT\n");
            kernel.must_restore(OTHERS);
        }
    }
    seen
}

/// The program as it should have been: it programs what is wanted, and cleans up.
fn start_again(kernel: Kernel) {
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    let mut updater = builder.open(kernel.executor()).unwrap();
    updater.rewrite_chains(program::policy(0)).unwrap();
    updater
        .ensure_rule_inserted("INPUT", "-j web-dispatch")
        .unwrap();
    let report = updater.cleanup().unwrap();
    assert!(report.undeleted.is_empty(), "{report:?}");
}

fn start(kernel: Kernel, when: When) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(program::VARIABLE, Part { kernel, when }.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether a process other than this one is in this thread's network namespace.
fn somebody_lives() -> bool {
    let here = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let this = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    let mut names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.any(|pid| {
        pid != this
            && pid.bytes().all(|b| b.is_ascii_digit())
            && std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| ns == here)
    })
}

fn await_survivors() {
    let started = Instant::now();
    while somebody_lives() {
        assert!(started.elapsed() < Duration::from_secs(60), "it hangs");
        std::thread::sleep(Duration::from_millis(2));
    }
}
