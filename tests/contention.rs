//! Eight processes that write the same table at once: no update is lost, none fails.
//!
//! `IPTABLES_UPDATER_SECONDS` is how long they write (1 by default; by hand 30).

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Kernel, each_kernel};
use iptables_updater::{
    Backend, Chain, CommandExecutor, HookPolicy, IpVersion, IptablesUpdater, Placement, Table,
};

const AGENT: &str = "IPTABLES_UPDATER_TEST_AGENT";

/// One of the processes: this test program again, told so by its environment. Prints how many updates it made, and
/// what its chains hold in the end.
#[test]
fn agent() {
    let Ok(task) = std::env::var(AGENT) else {
        return;
    };
    let words: Vec<_> = task.split(' ').collect();
    let [prefix, version, backend, seconds, ours] = words[..] else {
        panic!("{task}");
    };
    let version = if version == "4" {
        IpVersion::V4
    } else {
        IpVersion::V6
    };
    let backend = if backend == "nft" {
        Backend::NfTables
    } else {
        Backend::Legacy
    };
    let kernel = Kernel { version, backend };
    let end = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
    let mut count = 0_u32;
    let content = |n: u32| format!("-p tcp -m tcp --dport {} -j ACCEPT", n % 60_000 + 1);
    if ours == "ours" {
        let executor = CommandExecutor::builder(version)
            .backend(backend)
            .build()
            .unwrap();
        let updater = IptablesUpdater::builder(Table::Filter).chain_prefix(prefix);
        let mut updater = updater.open(executor).unwrap();
        while Instant::now() < end {
            count += 1;
            let chains =
                ["a", "b"].map(|c| Chain::new(format!("{prefix}{c}"), [content(count)]).unwrap());
            updater.rewrite_chains(chains).unwrap();
        }
        println!("agent: {count} {}", updater.stats().lock_wait.as_millis());
    } else {
        while Instant::now() < end {
            count += 1;
            let rule = content(count);
            let input = format!(
                "*filter\n:{prefix}a - [0:0]\n:{prefix}b - [0:0]\n-A {prefix}a {rule}\n-A {prefix}b {rule}\nCOMMIT\n"
            );
            kernel.must_restore(&input);
        }
        println!("agent: {count} 0");
    }
}

/// Runs eight agents at once; the updates of each, checked against the table.
fn run(kernel: Kernel, seconds: u64, kind: &str) -> (u32, u32) {
    let version = if kernel.version == IpVersion::V4 {
        "4"
    } else {
        "6"
    };
    let backend = if kernel.backend == Backend::NfTables {
        "nft"
    } else {
        "legacy"
    };
    let agents: Vec<_> = (0..8)
        .map(|n| {
            let prefix = format!("agent{n}-");
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "agent", "--nocapture"])
                .env(
                    AGENT,
                    format!("{prefix} {version} {backend} {seconds} {kind}"),
                )
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            (prefix, child)
        })
        .collect();
    let (mut updates, mut waited) = (0, 0);
    for (prefix, child) in agents {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{prefix}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, told) = text.split_once("agent: ").unwrap();
        let mut numbers = told
            .split_whitespace()
            .map(|word| word.parse::<u32>().unwrap_or(0));
        let count = numbers.next().unwrap();
        waited += numbers.next().unwrap();
        let rule = format!("-p tcp -m tcp --dport {} -j ACCEPT", count % 60_000 + 1);
        for chain in ["a", "b"] {
            let rules = kernel
                .rules(Table::Filter, &format!("{prefix}{chain}"))
                .unwrap();
            assert_eq!(
                rules,
                [rule.as_str()],
                "{prefix}{chain} after {count} updates"
            );
        }
        updates += count;
    }
    (updates, waited)
}

#[test]
fn eight_processes_lose_no_update_and_meet_no_error() {
    let seconds = std::env::var("IPTABLES_UPDATER_SECONDS").map_or(1, |n| n.parse().unwrap());
    each_kernel(
        "eight_processes_lose_no_update_and_meet_no_error",
        |kernel| {
            let (ours, waited) = run(kernel, seconds, "ours");
            let (raw, _) = run(kernel, seconds, "raw");
            println!(
                "{kernel:?}: ours {ours} updates in {seconds} s, raw tool {raw}, ratio {:.2}; {waited} ms at a held lock",
                f64::from(ours) / f64::from(raw)
            );
        },
    );
}

/// Two agents on threads of their own, each of which wants to be first and refreshes every 100 ms; how many restores
/// the refreshes came to.
fn two_agents(kernel: Kernel, seconds: u64, policy: HookPolicy) -> u64 {
    let end = Instant::now() + Duration::from_secs(seconds);
    let agent = |name: &str| {
        let builder = IptablesUpdater::builder(Table::Filter).chain_prefix(name);
        let mut updater = builder.hook_policy(policy).open(kernel.executor()).unwrap();
        updater
            .rewrite_chains([Chain::new(name, ["-j RETURN"]).unwrap()])
            .unwrap();
        updater
            .ensure_hooks("INPUT", [format!("-j {name}")], Placement::Top)
            .unwrap();
        let before = updater.stats().restores;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
            updater.refresh().unwrap();
        }
        updater.stats().restores - before
    };
    std::thread::scope(|scope| {
        let agent = &agent;
        let agents = ["one", "two"].map(|name| scope.spawn(move || agent(name)));
        agents.into_iter().map(|agent| agent.join().unwrap()).sum()
    })
}

#[test]
fn two_agents_that_both_want_the_top_move_no_more_than_once_each() {
    let seconds = std::env::var("IPTABLES_UPDATER_SECONDS").map_or(1, |n| n.parse().unwrap());
    each_kernel(
        "two_agents_that_both_want_the_top_move_no_more_than_once_each",
        |kernel| {
            let moves = two_agents(kernel, seconds, HookPolicy::WhenMissing);
            let mut hooks = kernel.rules(Table::Filter, "INPUT").unwrap();
            hooks.sort();
            assert_eq!(hooks, ["-j one", "-j two"]);
            assert!(moves <= 2, "{moves}");
            println!("{kernel:?}: {moves} moves in {seconds} s");
        },
    );
}
