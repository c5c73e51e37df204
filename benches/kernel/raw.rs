//! The competitors: the raw tool, as a program without this library would run it, and the `iptables` crate.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iptables_updater::Backend;

use crate::work;

/// The raw tool of one back end.
#[derive(Clone, Copy)]
pub struct Raw(Backend);

impl Raw {
    pub fn new(backend: Backend) -> Self {
        Self(backend)
    }

    fn program(self) -> &'static str {
        match self.0 {
            Backend::NfTables => "iptables-nft",
            Backend::Legacy => "iptables-legacy",
        }
    }

    pub fn restore(self, input: &str) -> Duration {
        let start = Instant::now();
        let mut child = Command::new(format!("{}-restore", self.program()))
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

    pub fn save(self) -> Duration {
        let start = Instant::now();
        let output = Command::new(format!("{}-save", self.program()))
            .args(["-t", "filter"])
            .output();
        assert!(output.expect("iptables-save").status.success());
        start.elapsed()
    }

    pub fn flush(self) {
        self.restore("*filter\n-F\n-X\nCOMMIT\n");
    }

    /// What the `iptables` crate takes for so many chains: it runs the tool once for each chain and each rule.
    pub fn by_the_iptables_crate(self, chains: usize) -> Duration {
        let mut peer = iptables::new(false).expect("iptables in the PATH");
        peer.cmd = self.program();
        let start = Instant::now();
        for n in 0..chains {
            let chain = work::name(n);
            peer.new_chain("filter", &chain).expect("a chain");
            for rule in work::rules(n) {
                peer.append("filter", &chain, &rule).expect("a rule");
            }
        }
        start.elapsed()
    }
}
