//! What this process holds: descriptors, threads, children, and processes that descend from a tool.

use std::fs;
use std::time::{Duration, Instant};

use super::swap::Folder;

/// What was held at one time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    descriptors: usize,
    threads: usize,
    children: Vec<String>,
}

impl Held {
    pub fn now() -> Self {
        let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
        Self {
            descriptors: count("fd"),
            threads: count("task"),
            children: children(),
        }
    }

    /// What was served for the last run ends by itself, at once; and no more than before is held then.
    #[track_caller]
    pub fn assert_nothing_more(&self, what: &str, folder: &Folder) {
        let start = Instant::now();
        loop {
            let now = Self::now();
            let descendants = descendants(folder.mark());
            let more = now.descriptors > self.descriptors
                || now.threads > self.threads
                || now.children != self.children
                || !descendants.is_empty();
            if !more {
                break;
            }
            assert!(
                start.elapsed() < Duration::from_secs(3),
                "{what}: {self:?} became {now:?}, running: {descendants:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        // An output without end that were kept whole would be gigabytes.
        let peak = peak_kilobytes();
        assert!(peak < 500_000, "{what}: {peak} kB");
    }
}

/// Children of this process, zombies included, as `/proc` shows them.
fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let is_ours = |stat: &String| {
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        fields.and_then(|fields| fields.split(' ').nth(1)) == Some(&own)
    };
    processes("stat").filter(is_ours).collect()
}

/// Processes whose environment has the mark: whatever a tool has started, whoever its parent is now.
fn descendants(mark: &str) -> Vec<String> {
    let marked = processes("environ").filter(|environment| environment.contains(mark));
    marked.collect()
}

fn processes(file: &'static str) -> impl Iterator<Item = String> {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let texts = folders.filter_map(move |entry| fs::read(entry.path().join(file)).ok());
    texts.map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// The most memory that this process has had.
fn peak_kilobytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}
