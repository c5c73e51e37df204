//! A second program that keeps breaking the table, while ours keeps refreshing it.
//!
//! `IPTABLES_UPDATER_SECONDS` is how long each fight lasts (1 by default; by hand 60).

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Kernel, each_kernel};
use iptables_updater::{Chain, IptablesUpdater, Table};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// What belongs to the second program, and must stay as it is.
const THEIRS: &str = "*filter\n:their-chain - [0:0]\n-A their-chain -p tcp -j ACCEPT\nCOMMIT\n";

/// One act of the second program.
fn act(kernel: Kernel, rng: &mut StdRng, saved: &mut String) {
    match rng.random_range(0..4) {
        // A save, and later its restore: what others wrote meanwhile is lost, and what they deleted is back.
        0 => *saved = kernel.save(Table::Filter),
        1 if !saved.is_empty() => {
            // Without --noflush, as the old way of saving and restoring does. It may find chains missing.
            let _ = kernel.restore_flushing(saved);
        }
        2 => kernel.must_restore("*filter\n-F\nCOMMIT\n*filter\n-F INPUT\nCOMMIT\n"),
        _ => {
            let now = kernel.save(Table::Filter);
            let ours: Vec<_> = now
                .lines()
                .filter(|line| line.starts_with("-A web-"))
                .collect();
            if !ours.is_empty() {
                let rule = ours[rng.random_range(0..ours.len())];
                let _ = kernel.restore(&format!(
                    "*filter\n{}\nCOMMIT\n",
                    rule.replacen("-A", "-D", 1)
                ));
            }
        }
    }
    kernel.must_restore(THEIRS);
}

#[test]
fn after_the_fight_one_refresh_is_enough() {
    let seconds = std::env::var("IPTABLES_UPDATER_SECONDS").map_or(1, |n| n.parse().unwrap());
    each_kernel("after_the_fight_one_refresh_is_enough", |kernel| {
        kernel.must_restore(THEIRS);
        let updater = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
        let mut updater = updater.open(kernel.executor()).unwrap();
        let chains = (0..20).map(|n| {
            let next = format!("-j web-{}", n + 1);
            let port = format!("-p tcp -m tcp --dport {} -j ACCEPT", n + 1);
            Chain::new(format!("web-{n}"), [port, next]).unwrap()
        });
        // web-20 is a stub; 15 nested chains are the most on nf_tables, so the hook enters half-way.
        updater.rewrite_chains(chains).unwrap();
        updater.ensure_rule_appended("INPUT", "-j ACCEPT").unwrap();
        updater.ensure_rule_inserted("INPUT", "-j web-10").unwrap();
        let rules = || {
            let saved = kernel.save(Table::Filter);
            let lines = saved
                .lines()
                .filter(|line| !line.starts_with('#') && !line.starts_with(":INPUT"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let wanted = rules();
        assert!(updater.refresh().unwrap().is_empty());

        let over = AtomicBool::new(false);
        let (mut refreshes, mut repairs, mut errors) = (0, 0, Vec::new());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut rng = StdRng::seed_from_u64(7);
                let mut saved = String::new();
                let mut acts = 0;
                while !over.load(Ordering::SeqCst) {
                    act(kernel, &mut rng, &mut saved);
                    acts += 1;
                    std::thread::sleep(Duration::from_millis(50));
                }
                acts
            });
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(if seconds < 10 {
                    100
                } else {
                    1_000
                }));
                refreshes += 1;
                match updater.refresh() {
                    Ok(drift) => repairs += usize::from(!drift.is_empty()),
                    Err(error) => errors.push(error.to_string()),
                }
            }
            over.store(true, Ordering::SeqCst);
            let acts = second.join().unwrap();
            println!(
                "{kernel:?}: {acts} acts, {refreshes} refreshes, {repairs} repaired something"
            );
        });
        assert_eq!(errors, [] as [String; 0]);
        updater.refresh().unwrap();
        assert_eq!(rules(), wanted);
        assert!(updater.verify().unwrap().is_empty());
        assert_eq!(
            kernel.rules(Table::Filter, "their-chain").unwrap(),
            ["-p tcp -j ACCEPT"]
        );
    });
}
