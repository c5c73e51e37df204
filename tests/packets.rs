//! Packets, not rules: while the policy is rewritten, stubbed, staged, repaired and taken over by a new run, no packet
//! that it forbids at every instant gets through, and none that it allows at every instant is dropped.
//!
//! `IPTABLES_UPDATER_PACKETS_SECONDS` is how long that goes on for each kernel (4 by default; by hand 60), and
//! `IPTABLES_UPDATER_SEED` which acts there are.

mod common;
#[path = "packets/policy.rs"]
mod policy;
#[path = "packets/traffic.rs"]
mod traffic;
#[path = "packets/wire.rs"]
mod wire;

use std::io::Write as _;
use std::time::{Duration, Instant};

use common::{Kernel, each_kernel};
use policy::Acts;
use traffic::Traffic;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |n| n.parse().unwrap())
}

/// Acts for so long while packets flow, and tells how they fared.
fn under_fire(kernel: Kernel, time: Duration, act: impl Fn(&mut Acts)) -> Traffic {
    let traffic = Traffic::default();
    let seed = number("IPTABLES_UPDATER_SEED", 1);
    let work = |wire| {
        let mut acts = Acts::start(kernel, seed);
        traffic.around(wire, || {
            let end = Instant::now() + time;
            while Instant::now() < end {
                act(&mut acts);
            }
        });
        acts
    };
    let (acts, ()) = wire::joined(kernel.version, work, |wire| traffic.send(wire));
    println!(
        "{kernel:?}, seed {seed}: {traffic}\n  acts: {:?}",
        acts.done
    );
    traffic
}

#[test]
fn no_act_of_the_updater_leaks_or_drops_a_packet() {
    let seconds = number("IPTABLES_UPDATER_PACKETS_SECONDS", 4);
    with_ip("no_act_of_the_updater_leaks_or_drops_a_packet", |kernel| {
        let traffic = under_fire(kernel, Duration::from_secs(seconds), Acts::act);
        assert!(traffic.is_much(), "{traffic}");
        assert_eq!((traffic.leaked(), traffic.dropped()), (0, 0), "{traffic}");
    });
}

/// The bed can fail: a program that flushes a chain and appends rule after rule does leak, and does drop.
#[test]
fn writing_rule_by_rule_leaks_and_drops() {
    with_ip("writing_rule_by_rule_leaks_and_drops", |kernel| {
        let traffic = under_fire(kernel, Duration::from_secs(1), Acts::write_rule_by_rule);
        assert!(traffic.leaked() > 0 && traffic.dropped() > 0, "{traffic}");
    });
}

/// Each kernel, where there is iproute2 to join namespaces with.
fn with_ip(test: &str, body: impl Fn(Kernel) + Sync) {
    if common::missing().is_none() && !wire::has_ip() {
        let required = std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL");
        assert!(required.is_none_or(|v| v != "1"), "{test} needs iproute2");
        // Around the test harness's capture, as for the other things that may be missing.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: ip isn't there");
        return;
    }
    each_kernel(test, body);
}
