//! What the process holds: memory, threads, descriptors.

use std::fmt;
use std::time::Duration;

/// What allocators may keep more than they did: fragments, not a leak.
const SLACK_KIB: u64 = 8 << 10;

pub struct Footprint {
    memory_kib: u64,
    threads: u64,
    descriptors: usize,
}

impl Footprint {
    /// The least of some looks: a thread that has done its work may still be on its way out.
    pub fn at_rest() -> Self {
        let mut least = Self::now();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(10));
            let now = Self::now();
            least.memory_kib = least.memory_kib.min(now.memory_kib);
            least.threads = least.threads.min(now.threads);
            least.descriptors = least.descriptors.min(now.descriptors);
        }
        least
    }

    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.and_then(|n| n.parse().ok()).expect("a number")
        };
        Self {
            memory_kib: number("VmRSS:"),
            threads: number("Threads:"),
            descriptors: std::fs::read_dir("/proc/self/fd").expect("fd").count(),
        }
    }

    pub fn assert_not_beyond(&self, before: &Self) {
        assert!(
            self.memory_kib <= before.memory_kib + SLACK_KIB
                && self.threads <= before.threads
                && self.descriptors <= before.descriptors,
            "{before} has become {self}"
        );
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} KiB, {} threads, {} descriptors",
            self.memory_kib, self.threads, self.descriptors
        )
    }
}
