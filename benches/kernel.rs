//! Ours against the raw tool, side by side in one run, on the real kernel: prints ratios, and writes
//! `benches/RESULTS.md`.
//!
//! `cargo bench --bench kernel [-- --quick]`. Needs root and iptables; runs in network namespaces of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iptables_updater::{Backend, Chain, CommandExecutor, IpVersion, IptablesUpdater, Table};
use nix::sched::{CloneFlags, unshare};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

/// What is measured on one back end at one size.
struct Run {
    backend: Backend,
    chains: usize,
    results: Vec<(String, Duration, Option<Duration>, u64)>,
}

type Updater = IptablesUpdater<CommandExecutor>;

/// What, how long ours took, how long the raw tool did, and how many processes ours took.
struct Results(Vec<(String, Duration, Option<Duration>, u64)>);

impl Results {
    fn row(
        &mut self,
        what: &str,
        raw: Option<Duration>,
        updater: &mut Updater,
        work: impl FnOnce(&mut Updater),
    ) {
        let before = updater.stats();
        let ours = timed(|| work(updater));
        let after = updater.stats();
        let processes = after.restores + after.saves - before.restores - before.saves;
        self.0.push((what.to_owned(), ours, raw, processes));
    }
}

/// iptables as a program without this library would run it.
struct Raw(&'static str);

impl Raw {
    fn restore(&self, input: &str) -> Duration {
        let start = Instant::now();
        let mut child = Command::new(format!("iptables-{}-restore", self.0))
            .args(["--noflush", "-w", "10"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("iptables-restore");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin
            .write_all(input.as_bytes())
            .expect("the input is read");
        drop(stdin);
        assert!(child.wait().expect("it ends").success());
        start.elapsed()
    }

    fn save(&self) -> Duration {
        let start = Instant::now();
        let output = Command::new(format!("iptables-{}-save", self.0))
            .args(["-t", "filter"])
            .output();
        assert!(output.expect("iptables-save").status.success());
        start.elapsed()
    }

    fn flush(&self) {
        self.restore("*filter\n-F\n-X\nCOMMIT\n");
    }
}

fn name(n: usize) -> String {
    format!("web-{n:05}")
}

fn rules(n: usize) -> impl Iterator<Item = String> {
    (0..5).map(move |k| {
        format!(
            "-p tcp -m tcp --dport {} -j ACCEPT",
            (n * 5 + k) % 60_000 + 1
        )
    })
}

fn input(order: &[usize]) -> String {
    let mut input = String::from("*filter\n");
    for n in order {
        writeln!(input, ":{} - [0:0]", name(*n)).expect("text");
    }
    for n in order {
        for rule in rules(*n) {
            writeln!(input, "-A {} {rule}", name(*n)).expect("text");
        }
    }
    input + "COMMIT\n"
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn run(backend: Backend, chains: usize) -> Run {
    let raw = Raw(match backend {
        Backend::NfTables => "nft",
        Backend::Legacy => "legacy",
    });
    let sorted: Vec<_> = (0..chains).collect();
    let mut random = sorted.clone();
    random.shuffle(&mut StdRng::seed_from_u64(1));
    let contents = |range: std::ops::Range<usize>, with: &str| -> Vec<Chain> {
        range
            .map(|n| {
                let rules = rules(n).chain((!with.is_empty()).then(|| with.to_owned()));
                Chain::new(name(n), rules).expect("a chain")
            })
            .collect()
    };

    let raw_sorted = raw.restore(&input(&sorted));
    let raw_save = raw.save();
    raw.flush();
    // Its time grows with the square: 50,000 chains would take a quarter of an hour.
    let raw_random = (chains <= 20_000).then(|| {
        let time = raw.restore(&input(&random));
        raw.flush();
        time
    });

    let executor = CommandExecutor::builder(IpVersion::V4)
        .backend(backend)
        .build()
        .expect("iptables");
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    let mut updater = builder.open(executor).expect("open");
    let mut results = Results(Vec::new());
    let all = contents(0..chains, "");
    results.row(
        "program all, against sorted raw input",
        Some(raw_sorted),
        &mut updater,
        |u| {
            u.rewrite_chains(all.clone()).expect("program");
        },
    );
    let ours = results.0[0].1;
    if raw_random.is_some() {
        let what = "program all, against raw input in random order";
        results
            .0
            .push((what.to_owned(), ours, raw_random, results.0[0].3));
    }
    results.row("program all again, unchanged", None, &mut updater, |u| {
        u.rewrite_chains(all.clone()).expect("nothing");
    });
    let one = format!(
        "*filter\n:{0} - [0:0]\n{1}COMMIT\n",
        name(7),
        rules(7)
            .map(|rule| format!("-A {} {rule}\n", name(7)))
            .collect::<String>()
    );
    // In turns: what else the machine does meanwhile meets both.
    let (raw_one, ours_one) = (0..10)
        .map(|version| {
            let chain = contents(7..8, &format!("-p udp --dport {}", version + 1));
            let ours = timed(|| drop(updater.rewrite_chains(chain).expect("one")));
            (raw.restore(&one), ours)
        })
        .reduce(|best, next| (best.0.min(next.0), best.1.min(next.1)))
        .expect("ten");
    results.row("rewrite a tenth", None, &mut updater, |u| {
        u.rewrite_chains(contents(100..100 + chains / 10, "-j DROP"))
            .expect("a tenth");
    });
    results.row("delete 100", None, &mut updater, |u| {
        u.delete_chains((0..100).map(|n| name(n + 200)))
            .expect("delete");
    });
    updater.refresh().expect("learn");
    let raw_save_now = raw.save();
    results.row(
        "refresh without drift, against a raw save",
        Some(raw_save_now),
        &mut updater,
        |u| {
            assert!(u.refresh().expect("refresh").is_empty());
        },
    );
    let mut nested = String::from("*filter\n");
    for n in 0..50 {
        writeln!(nested, ":web-old-{n} - [0:0]").expect("text");
    }
    for n in 1..50 {
        writeln!(nested, "-A web-old-{} -j web-old-{n}", n - 1).expect("text");
    }
    raw.restore(&(nested + "COMMIT\n"));
    results.row(
        "cleanup of orphans nested 50 deep, against a raw save",
        Some(raw_save),
        &mut updater,
        |u| {
            assert_eq!(u.cleanup().expect("cleanup").deleted.len(), 50);
        },
    );
    results.0.push((
        "rewrite one chain, against the raw minimal input (best of 10)".to_owned(),
        ours_one,
        Some(raw_one),
        1,
    ));
    Run {
        backend,
        chains,
        results: results.0,
    }
}

fn table(runs: &[Run]) -> String {
    let mut out = String::from(
        "| back end | chains × 5 rules | what | ours | raw | ratio | processes |\n|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        for (what, ours, raw, processes) in &run.results {
            let (raw, ratio) = match raw {
                Some(raw) => {
                    let ratio = ours.as_secs_f64() / raw.as_secs_f64();
                    (
                        format!("{:.1} ms", raw.as_secs_f64() * 1e3),
                        format!("{ratio:.2}"),
                    )
                }
                None => ("-".to_owned(), "-".to_owned()),
            };
            let ours = ours.as_secs_f64() * 1e3;
            writeln!(
                out,
                "| {} | {} | {what} | {ours:.1} ms | {raw} | {ratio} | {processes} |",
                run.backend, run.chains
            )
            .expect("text");
        }
    }
    out
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
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
    let sizes: &[usize] = if quick {
        &[1_000]
    } else {
        &[1_000, 10_000, 20_000, 50_000]
    };
    let mut runs = Vec::new();
    for backend in [Backend::NfTables, Backend::Legacy] {
        for size in sizes {
            runs.push(run(backend, *size));
            eprintln!("{}", table(&runs[runs.len() - 1..]));
        }
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = format!(
        "# Measured against the raw tool\n\nMade by `cargo bench --bench kernel`, side by side in one run: iptables {}, \
         Linux {}, {cores} cores. Processes are the runs of iptables that ours took.\n\n{}",
        probe.version(),
        kernel.trim(),
        table(&runs)
    );
    println!("{text}");
    if !quick {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/RESULTS.md");
        fs::write(path, text).expect("RESULTS.md can be written");
    }
}
