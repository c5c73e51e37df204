//! Packets, not rules: while the policy is rewritten, stubbed, staged, refreshed and restarted, nothing that is forbidden
//! is ever delivered, and nothing that is allowed ever dropped. On the real kernel, with a peer in another namespace that
//! floods both.
//!
//! `IPTABLES_UPDATER_PACKETS_SECONDS` makes it longer than a few seconds on each kernel.

mod common;
#[path = "packets/net.rs"]
mod net;
#[path = "packets/policy.rs"]
mod policy;
#[path = "packets/traffic.rs"]
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use common::{Kernel, each_kernel};
use iptables_updater::Table;
use policy::{OTHERWISE, Policy};
use traffic::{Counts, Host};

/// Lets the peer flood the host while the body runs; what became of the packets.
fn under_fire<T>(kernel: Kernel, body: impl FnOnce(&Sender<()>, &Counts) -> T) -> (T, Counts) {
    let counts = Counts::default();
    let (enough, served) = (AtomicBool::new(false), AtomicBool::new(false));
    let (begin, start) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let address = net::host(kernel.version);
    let peer = {
        let (counts, enough) = (&counts, &enough);
        move || {
            start.recv().expect("the host begins");
            traffic::flood(address, counts, enough);
            end.send(()).expect("the host waits for it");
        }
    };
    let value = net::joined(peer, || {
        let host = Host::listen(address);
        thread::scope(|scope| {
            host.serve(scope, &counts, &served);
            let value = body(&begin, &counts);
            enough.store(true, Relaxed);
            ended.recv().expect("the peer ends");
            served.store(true, Relaxed);
            value
        })
    });
    (value, counts)
}

/// Shows the table as soon as a packet has gone wrong, for whoever has to find out why.
fn watch(kernel: Kernel, counts: &Counts, over: &AtomicBool) {
    let mut seen = 0;
    while !over.load(Relaxed) {
        let now = counts.leaked() + counts.dropped();
        if now > seen {
            seen = now;
            let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
            eprintln!("{counts:#?}\n{}\n{snmp}", kernel.save(Table::Filter));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn seconds() -> Duration {
    let seconds = std::env::var("IPTABLES_UPDATER_PACKETS_SECONDS");
    let seconds = seconds.map_or(5, |seconds| seconds.parse().expect("a number"));
    Duration::from_secs(seconds)
}

#[test]
fn nothing_forbidden_gets_in_and_nothing_allowed_is_lost() {
    each_kernel(
        "nothing_forbidden_gets_in_and_nothing_allowed_is_lost",
        |kernel| {
            let (acts, counts) = under_fire(kernel, |begin, counts| {
                kernel.must_restore(OTHERWISE);
                let mut policy = Policy::new(kernel);
                begin.send(()).expect("the peer waits for it");
                let over = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| watch(kernel, counts, &over));
                    let start = Instant::now();
                    while start.elapsed() < seconds() {
                        let before = counts.leaked() + counts.dropped();
                        let act = policy.act();
                        if counts.leaked() + counts.dropped() > before {
                            eprintln!("{:?}: something went wrong during: {act}", start.elapsed());
                        }
                    }
                    over.store(true, Relaxed);
                });
                policy.acts
            });
            eprintln!("{kernel:?}: {acts:?}\n{counts:#?}");
            assert_eq!(counts.leaked(), 0, "{counts:#?}");
            assert_eq!(counts.dropped(), 0, "{counts:#?}");
            // The test has seen something.
            assert!(acts.values().sum::<usize>() > 20, "{acts:?}");
            assert!(
                counts.allowed_datagrams.load(Relaxed) > 1_000,
                "{counts:#?}"
            );
            assert!(
                counts.allowed_connections.load(Relaxed) > 100,
                "{counts:#?}"
            );
        },
    );
}

/// What a program without this library does: the bed sees it at once.
#[test]
fn a_loop_that_flushes_and_appends_leaks_and_drops() {
    each_kernel(
        "a_loop_that_flushes_and_appends_leaks_and_drops",
        |kernel| {
            let ((), counts) = under_fire(kernel, |begin, _| {
                kernel.must_restore(OTHERWISE);
                kernel.must_restore("*filter\n:web-input - [0:0]\n-I INPUT -j web-input\nCOMMIT\n");
                let append = |rules: &[&str]| {
                    for rule in rules {
                        kernel.must_restore(&format!("*filter\n-A web-input {rule}\nCOMMIT\n"));
                    }
                };
                append(&policy::FORBID);
                append(&policy::ALLOW);
                begin.send(()).expect("the peer waits for it");
                for _ in 0..30 {
                    kernel.must_restore("*filter\n-F web-input\nCOMMIT\n");
                    append(&policy::FORBID);
                    append(&policy::ALLOW);
                }
            });
            eprintln!("{kernel:?}: {counts:#?}");
            assert!(counts.leaked() > 0, "{counts:#?}");
            assert!(counts.dropped() > 0, "{counts:#?}");
        },
    );
}
