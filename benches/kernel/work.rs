//! The chains that are programmed: so many, with five rules each.

use std::fmt::Write as _;
use std::ops::Range;

use iptables_updater::Chain;

pub fn name(n: usize) -> String {
    format!("web-{n:05}")
}

pub fn rules(n: usize) -> impl Iterator<Item = String> {
    (0..5).map(move |k| {
        format!(
            "-p tcp -m tcp --dport {} -j ACCEPT",
            (n * 5 + k) % 60_000 + 1
        )
    })
}

/// The chains, with one more rule each, if one is given.
pub fn chains(range: Range<usize>, more: Option<&str>) -> Vec<Chain> {
    range
        .map(|n| {
            let rules = rules(n).chain(more.map(str::to_owned));
            Chain::new(name(n), rules).expect("a chain")
        })
        .collect()
}

/// The restore input of the chains with these numbers, in this order.
pub fn input(order: impl IntoIterator<Item = usize> + Clone, more: Option<&str>) -> String {
    let mut input = String::from("*filter\n");
    for n in order.clone() {
        writeln!(input, ":{} - [0:0]", name(n)).expect("text");
    }
    for n in order {
        for rule in rules(n).chain(more.map(str::to_owned)) {
            writeln!(input, "-A {} {rule}", name(n)).expect("text");
        }
    }
    input + "COMMIT\n"
}

/// One chain of so many rules.
pub fn long_chain(rules: usize) -> Chain {
    let rules = (0..rules).map(|n| format!("-s 10.1.{}.{}/32 -j ACCEPT", n / 250, n % 250));
    Chain::new("web-long", rules).expect("a chain")
}

/// What a raw restore is given for it.
pub fn long_input(rules: usize) -> String {
    let mut input = String::from("*filter\n:web-long - [0:0]\n");
    for rule in long_chain(rules).rules() {
        writeln!(input, "-A web-long {rule}").expect("text");
    }
    input + "COMMIT\n"
}

/// Orphans, each of which jumps to the next.
pub fn nested_orphans(depth: usize) -> String {
    let mut input = String::from("*filter\n");
    for n in 0..depth {
        writeln!(input, ":web-old-{n} - [0:0]").expect("text");
    }
    for n in 1..depth {
        writeln!(input, "-A web-old-{} -j web-old-{n}", n - 1).expect("text");
    }
    input + "COMMIT\n"
}

/// What deletes them in one commit.
pub fn without_orphans(depth: usize) -> String {
    let mut input = String::from("*filter\n");
    for n in 0..depth {
        writeln!(input, ":web-old-{n} - [0:0]").expect("text");
    }
    for n in 0..depth {
        writeln!(input, "-X web-old-{n}").expect("text");
    }
    input + "COMMIT\n"
}
