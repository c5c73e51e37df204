//! How to test a program that uses this library: without root, and without touching a firewall.
//!
//! The function `let_in` below stands for your program; the tests are at the end. Run them with
//! `cargo test --example testing_your_program`, or see them pass with `cargo run --example testing_your_program`.

use iptables_updater::memory::Fault;
use iptables_updater::{
    Backend, Chain, Clock, Error, Executor, FailureClass, IpVersion, IptablesUpdater,
    MemoryExecutor, Table,
};

/// Your program: lets one network in, through a chain of its own.
fn let_in<E: Executor>(filter: &mut IptablesUpdater<E>, network: &str) -> Result<(), Error> {
    let rules = [format!("-s {network} -j ACCEPT"), "-j DROP".to_owned()];
    filter.rewrite_chains([Chain::new("door-in", rules)?])?;
    filter.ensure_rule_inserted("INPUT", "-j door-in")
}

/// A clock on which the pauses between tries take no time.
struct NoWaiting;

impl Clock for NoWaiting {
    fn now(&self) -> std::time::Instant {
        std::time::Instant::now()
    }

    fn sleep(&self, _pause: std::time::Duration) {}
}

/// A simulated kernel, and an updater on it. Both work on the same tables.
fn on_a_simulated_kernel(backend: Backend) -> (MemoryExecutor, IptablesUpdater<MemoryExecutor>) {
    let kernel = MemoryExecutor::new(IpVersion::V4, backend);
    let filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("door-")
        .clock(NoWaiting)
        .open(kernel.clone());
    (kernel, filter.expect("an empty table can be read"))
}

fn the_network_is_let_in(backend: Backend) {
    let (kernel, mut filter) = on_a_simulated_kernel(backend);
    let_in(&mut filter, "192.0.2.0/24").unwrap();
    let rules = kernel.rules(Table::Filter, "door-in").unwrap();
    assert_eq!(rules, ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"]);
    assert_eq!(
        kernel.rules(Table::Filter, "INPUT").unwrap(),
        ["-j door-in"]
    );
}

fn a_busy_kernel_is_waited_for(backend: Backend) {
    let (kernel, mut filter) = on_a_simulated_kernel(backend);
    // The first restore finds the kernel busy, the second hangs and is killed.
    kernel.fail_restore(1, Fault::Fails(FailureClass::Race));
    kernel.fail_restore(2, Fault::Hangs);
    let_in(&mut filter, "192.0.2.0/24").unwrap();
    assert!(filter.stats().retries.total() >= 1);
    assert!(kernel.rules(Table::Filter, "door-in").is_some());
}

fn a_bad_network_is_refused_and_changes_nothing(backend: Backend) {
    let (kernel, mut filter) = on_a_simulated_kernel(backend);
    let error = let_in(&mut filter, "no-such-host.example").unwrap_err();
    assert!(matches!(error, Error::Chain(_)), "{error}");
    assert!(kernel.rules(Table::Filter, "door-in").is_none());
}

fn what_somebody_else_breaks_is_repaired(backend: Backend) {
    let (kernel, mut filter) = on_a_simulated_kernel(backend);
    let_in(&mut filter, "192.0.2.0/24").unwrap();
    // A firewall script of somebody else starts, and empties everything.
    kernel.with_other_program(|other| other.flush_table(Table::Filter));
    let drift = filter.refresh().unwrap();
    assert_eq!(drift.missing, ["door-in"]);
    assert_eq!(
        kernel.rules(Table::Filter, "INPUT").unwrap(),
        ["-j door-in"]
    );
}

/// A test, for either back end.
type Test = fn(Backend);

const TESTS: [(&str, Test); 4] = [
    ("the network is let in", the_network_is_let_in),
    ("a busy kernel is waited for", a_busy_kernel_is_waited_for),
    (
        "a bad network is refused",
        a_bad_network_is_refused_and_changes_nothing,
    ),
    (
        "what somebody else breaks is repaired",
        what_somebody_else_breaks_is_repaired,
    ),
];

fn main() {
    println!("On simulated kernels.");
    for backend in [Backend::NfTables, Backend::Legacy] {
        for (name, test) in TESTS {
            test(backend);
            println!("{backend}: {name}: ok");
        }
    }
}

#[test]
fn all_of_them_on_both_back_ends() {
    main();
}
