//! The rows of the result, each with its target, and how they are printed.

use std::fmt::Write as _;
use std::time::Duration;

use iptables_updater::Backend;

/// One thing that was measured.
pub struct Row {
    pub backend: Backend,
    pub chains: usize,
    pub what: &'static str,
    pub ours: Duration,
    /// What it is compared with, and how long that took.
    pub other: Option<(&'static str, Duration)>,
    /// How many runs of iptables ours took.
    pub processes: u64,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let (_, other) = self.other?;
        Some(self.ours.as_secs_f64() / other.as_secs_f64())
    }

    /// What was wanted, and whether that was reached; `None` where nothing was.
    fn target(&self) -> Option<(String, bool)> {
        let ratio = self.ratio().unwrap_or(f64::INFINITY);
        let nft = self.backend == Backend::NfTables;
        let other = self.other.map_or("", |(other, _)| other);
        let most = match (self.what, other, self.chains) {
            ("program all", "sorted raw input", 20_000) if nft => 0.45,
            ("program all", "raw input in random order", 20_000) if nft => 0.15,
            ("program all", "sorted raw input", 50_000) if nft => 0.2,
            ("program all", "sorted raw input", 20_000) | ("rewrite one chain", _, 20_000) => 1.05,
            ("refresh without drift", _, 20_000) => 1.15,
            ("clean up orphans nested 50 deep", "a raw save", 20_000) => 2.5,
            ("program all again, unchanged", _, 20_000) => {
                let reached = self.processes == 0 && self.ours <= Duration::from_millis(50);
                return Some(("no process, 50 ms".to_owned(), reached));
            }
            ("delete 100 chains", _, 20_000) => {
                return Some(("2 processes".to_owned(), self.processes <= 2));
            }
            _ => return None,
        };
        Some((format!("≤ {most}"), ratio <= most))
    }
}

pub fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| back end | chains × 5 rules | what | ours | compared with | takes | ratio | target | processes |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let dash = || "-".to_owned();
        let (other, takes) = row.other.map_or((dash(), dash()), |(other, takes)| {
            (other.to_owned(), milliseconds(takes))
        });
        let ratio = row.ratio().map_or_else(dash, |ratio| match ratio {
            small if small < 0.01 => format!("{small:.4}"),
            ratio => format!("{ratio:.2}"),
        });
        let target = row.target().map_or_else(dash, |(target, reached)| {
            let word = if reached { "reached" } else { "missed" };
            format!("{target}: {word}")
        });
        writeln!(
            out,
            "| {} | {} | {} | {} | {other} | {takes} | {ratio} | {target} | {} |",
            row.backend,
            row.chains,
            row.what,
            milliseconds(row.ours),
            row.processes
        )
        .expect("text");
    }
    out
}
