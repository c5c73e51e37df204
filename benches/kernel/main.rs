//! Ours against the raw tool, side by side in one run, on the real kernel: prints ratios, and writes
//! `benches/RESULTS.md`.
//!
//! `cargo bench --bench kernel`; `-- legacy 20000` measures one back end at one size, and writes nothing. Needs root and iptables; runs in a network namespace of its own.

mod raw;
mod report;
mod work;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use iptables_updater::{
    Backend, CommandExecutor, IpVersion, IptablesUpdater, Table, UpdateMode, UpdaterBuilder,
};
use nix::sched::{CloneFlags, unshare};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use raw::Raw;
use report::Row;

type Updater = IptablesUpdater<CommandExecutor>;

/// How often two things are measured in turns, the best of each being taken: up to twenty times, as long as all of it
/// takes less than this.
const PATIENCE: Duration = Duration::from_secs(6);

/// What begins the part of RESULTS.md that is made with the other bench.
const PURE: &str = "# Without iptables";

/// What is measured on one back end at one size.
struct Bench {
    backend: Backend,
    chains: usize,
    rows: Vec<Row>,
}

/// What ours took.
#[derive(Clone, Copy)]
struct Ours {
    time: Duration,
    processes: u64,
}

fn ours(updater: &mut Updater, work: impl FnOnce(&mut Updater)) -> Ours {
    let before = updater.stats();
    let start = Instant::now();
    work(updater);
    let time = start.elapsed();
    let after = updater.stats();
    let processes = after.restores + after.saves - before.restores - before.saves;
    Ours { time, processes }
}

/// Measures both in turns, so that what else the machine does meets both; the best of each.
fn in_turns(mut turn: impl FnMut(usize) -> (Ours, Duration)) -> (Ours, Duration) {
    let start = Instant::now();
    let (mut ours, mut other) = turn(0);
    for number in 1..20 {
        if start.elapsed() > PATIENCE {
            break;
        }
        let next = turn(number);
        ours.time = ours.time.min(next.0.time);
        other = other.min(next.1);
    }
    (ours, other)
}

impl Bench {
    fn row(&mut self, what: &'static str, ours: Ours, other: Option<(&'static str, Duration)>) {
        self.rows.push(Row {
            backend: self.backend,
            chains: self.chains,
            what,
            ours: ours.time,
            other,
            processes: ours.processes,
        });
    }

    fn open(&self, settings: impl FnOnce(UpdaterBuilder) -> UpdaterBuilder) -> Updater {
        let executor = CommandExecutor::builder(IpVersion::V4)
            .backend(self.backend)
            .build()
            .expect("iptables");
        let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
        settings(builder).open(executor).expect("open")
    }

    fn run(&mut self) {
        let raw = Raw::new(self.backend);
        let mut updater = self.program(raw);
        self.change(raw, &mut updater);
        self.read(raw, &mut updater);
        raw.flush();
        self.change_in_place(raw);
        raw.flush();
    }

    /// From nothing to all chains; the updater that has them in the end.
    fn program(&mut self, raw: Raw) -> Updater {
        let all = work::chains(0..self.chains, None);
        let sorted = work::input(0..self.chains, None);
        let (program, raw_sorted) = in_turns(|_| {
            let other = raw.restore(&sorted);
            raw.flush();
            let ours = ours(&mut self.open(|builder| builder), |updater| {
                updater.rewrite_chains(all.clone()).expect("program");
            });
            raw.flush();
            (ours, other)
        });
        let what = "program all";
        self.row(what, program, Some(("sorted raw input", raw_sorted)));
        // On nf_tables its time grows with the square: 50,000 chains would take a quarter of an hour.
        if self.chains <= 20_000 {
            let mut order: Vec<_> = (0..self.chains).collect();
            order.shuffle(&mut StdRng::seed_from_u64(1));
            let random = raw.restore(&work::input(order, None));
            raw.flush();
            self.row(what, program, Some(("raw input in random order", random)));
        }
        if self.chains <= 1_000 {
            let peer = raw.by_the_iptables_crate(self.chains);
            raw.flush();
            self.row(what, program, Some(("the `iptables` crate", peer)));
        }
        let mut updater = self.open(|builder| builder);
        updater.rewrite_chains(all.clone()).expect("program");
        let again = ours(&mut updater, |updater| {
            updater.rewrite_chains(all).expect("nothing");
        });
        self.row("program all again, unchanged", again, None);
        updater
    }

    fn change(&mut self, raw: Raw, updater: &mut Updater) {
        let (one, raw_one) = in_turns(|turn| {
            let rule = format!("-p udp --dport {}", turn + 1);
            let chain = work::chains(7..8, Some(&rule));
            let ours = ours(updater, |updater| {
                updater.rewrite_chains(chain).expect("one");
            });
            let other = format!("-p udp --dport {}", turn + 1_001);
            (ours, raw.restore(&work::input(7..8, Some(&other))))
        });
        let other = Some(("the raw minimal input", raw_one));
        self.row("rewrite one chain", one, other);

        let tenth = 100..100 + self.chains / 10;
        let (ten, raw_ten) = in_turns(|turn| {
            let rule = format!("-p udp --dport {}", turn + 1);
            let chains = work::chains(tenth.clone(), Some(&rule));
            let ours = ours(updater, |updater| {
                updater.rewrite_chains(chains).expect("a tenth");
            });
            let input = work::input(tenth.clone(), Some("-p udp --dport 7777"));
            (ours, raw.restore(&input))
        });
        let other = Some(("the same raw input", raw_ten));
        self.row("rewrite a tenth", ten, other);

        let names: Vec<_> = (0..100).map(|n| work::name(n + 200)).collect();
        let deleted = ours(updater, |updater| {
            updater.delete_chains(&names).expect("delete");
        });
        self.row("delete 100 chains", deleted, None);
    }

    fn read(&mut self, raw: Raw, updater: &mut Updater) {
        updater.refresh().expect("learn");
        let (refresh, save) = in_turns(|_| {
            let ours = ours(updater, |updater| {
                assert!(updater.refresh().expect("refresh").is_empty());
            });
            (ours, raw.save())
        });
        self.row("refresh without drift", refresh, Some(("a raw save", save)));

        // The least that any program would have to run: read, delete, read.
        let (cleanup, raw_cleanup) = in_turns(|_| {
            raw.restore(&work::nested_orphans(50));
            let other = raw.save() + raw.restore(&work::without_orphans(50)) + raw.save();
            raw.restore(&work::nested_orphans(50));
            let ours = ours(updater, |updater| {
                assert_eq!(updater.cleanup().expect("cleanup").deleted.len(), 50);
            });
            (ours, other)
        });
        let what = "clean up orphans nested 50 deep";
        self.row(what, cleanup, Some(("a raw save", save)));
        let other = Some(("two raw saves and a restore", raw_cleanup));
        self.row(what, cleanup, other);
    }

    /// One rule more, and one less, in a chain of 5,000 rules.
    fn change_in_place(&mut self, raw: Raw) {
        if self.chains != 1_000 {
            return;
        }
        let mut updater = self.open(|builder| builder.update_mode(UpdateMode::Minimal));
        let (edit, whole) = in_turns(|turn| {
            if turn == 0 {
                updater
                    .rewrite_chains([work::long_chain(5_000)])
                    .expect("written");
            }
            let chain = work::long_chain(5_001 + turn);
            let ours = ours(&mut updater, |updater| {
                updater.rewrite_chains([chain.clone()]).expect("edited");
            });
            (ours, raw.restore(&work::long_input(5_001 + turn)))
        });
        assert!(updater.stats().chains_edited > 0);
        let what = "append a rule to a chain of 5,000, in place";
        self.row(what, edit, Some(("the whole chain in raw input", whole)));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let sizes: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let backends = [Backend::NfTables, Backend::Legacy];
    let chosen = backends
        .iter()
        .filter(|backend| named(&backend.to_string()));
    let chosen: Vec<Backend> = chosen.copied().collect();
    let whole = chosen.is_empty() && sizes.is_empty();
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        println!("skipped: no network namespace can be made");
        return;
    }
    let probe = CommandExecutor::builder(IpVersion::V4)
        .backend(Backend::NfTables)
        .build();
    let Ok(probe) = probe else {
        println!("skipped: {}", probe.expect_err("no iptables"));
        return;
    };
    let sizes = match sizes.as_slice() {
        [] => &[1_000, 10_000, 20_000, 50_000],
        sizes => sizes,
    };
    let backends = match chosen.as_slice() {
        [] => &backends[..],
        chosen => chosen,
    };
    let mut rows = Vec::new();
    for backend in backends {
        for size in sizes {
            let mut bench = Bench {
                backend: *backend,
                chains: *size,
                rows: Vec::new(),
            };
            bench.run();
            eprintln!("{}", report::table(&bench.rows));
            rows.append(&mut bench.rows);
        }
    }
    let text = format!(
        "# Measured against the raw tool\n\n\
         Made by `cargo bench --bench kernel`, side by side in one run, the quicker things in turns, with the best of up to twenty taken. {}; iptables {}; Linux {}; {}. Processes are the runs of iptables that ours took. What needs no \
         iptables (transaction, parse, memory, our own CPU time) is in the second part.\n\n{}",
        machine(),
        probe.version(),
        fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim(),
        rustc(),
        report::table(&rows)
    );
    println!("{text}");
    if whole {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/RESULTS.md");
        // What stands there of the other bench stays.
        let old = fs::read_to_string(path).unwrap_or_default();
        let pure = old.find(PURE).map_or("", |at| &old[at..]);
        fs::write(path, format!("{text}\n{pure}")).expect("RESULTS.md can be written");
    }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |model| {
        model.trim_start_matches(['\t', ' ', ':'])
    });
    format!("{cores} cores of {model}")
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(
        |_| "rustc unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
