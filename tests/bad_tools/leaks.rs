//! What this process holds: descriptors, threads, children, and processes that descend from a tool.

use std::fs;
use std::path::Path;
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
    processes(|folder| {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
        (parent == own).then(|| stat.clone())
    })
}

/// Processes whose environment has the mark: whatever a tool has started, whoever its parent is now.
fn descendants(mark: &str) -> Vec<String> {
    processes(|folder| {
        let environment = fs::read(folder.join("environ")).ok()?;
        let marked = String::from_utf8_lossy(&environment).contains(mark);
        let command = || fs::read_to_string(folder.join("cmdline")).ok();
        if marked { command() } else { None }
    })
}

fn processes(look: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    folders.filter_map(|entry| look(&entry.path())).collect()
}

/// The most memory that this process has had.
fn peak_kilobytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}
