//! What the tables of both IP versions hold.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

pub const TOOLS: [&str; 2] = ["iptables", "ip6tables"];

pub fn short(backend: &str) -> &str {
    if backend == "nf_tables" {
        "nft"
    } else {
        backend
    }
}

pub fn save(tool: &str, backend: &str) -> String {
    let program = format!("{tool}-{}-save", short(backend));
    let output = Command::new(program)
        .args(["-t", "filter"])
        .output()
        .expect("save");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What is wrong with the tables: the texts that are missing, and those that shouldn't be there.
pub fn wrong(backend: &str, present: &[&str], absent: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for tool in TOOLS {
        let table = save(tool, backend);
        let missing = present.iter().filter(|text| !table.contains(**text));
        wrong.extend(missing.map(|text| format!("{tool} lacks {text:?}")));
        let extra = absent.iter().filter(|text| table.contains(**text));
        wrong.extend(extra.map(|text| format!("{tool} has {text:?}")));
    }
    wrong
}

pub struct Watcher {
    over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Watcher {
    pub fn start(backend: &'static str, present: &'static [&'static str]) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let over = Arc::clone(&over);
            move || {
                let mut looks = 0;
                while !over.load(Ordering::Relaxed) {
                    let wrong = wrong(backend, present, &["missing chain"]);
                    assert_eq!(wrong, [""; 0], "a gap");
                    looks += 1;
                }
                looks
            }
        });
        Self { over, thread }
    }

    /// How often it has looked; a panic if it ever saw a gap.
    pub fn stop(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no gap")
    }
}
