//! A real kernel for tests: each test body runs in a network namespace of its own.
//!
//! The body runs on a thread that has left the machine's network namespace with `unshare`; its child
//! processes inherit that, so nothing here can reach the machine's own rules. The thread has a private
//! `/run` too, so that a test may hold the xtables lock without stopping the others.
//!
//! Without root or without the binaries a test reports itself as skipped, by name, on standard error;
//! with `IPTABLES_UPDATER_REQUIRE_KERNEL=1` that is a failure.

// Each test file uses its own part of this.
#![allow(dead_code, clippy::missing_panics_doc)]

pub mod bed;
pub mod gated;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use iptables_updater::{Backend, CommandExecutor, IpVersion, Table};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// The iptables of one IP version and back end, in a fresh network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    pub version: IpVersion,
    pub backend: Backend,
}

pub const KERNELS: [Kernel; 4] = {
    const fn kernel(version: IpVersion, backend: Backend) -> Kernel {
        Kernel { version, backend }
    }
    [
        kernel(IpVersion::V4, Backend::NfTables),
        kernel(IpVersion::V4, Backend::Legacy),
        kernel(IpVersion::V6, Backend::NfTables),
        kernel(IpVersion::V6, Backend::Legacy),
    ]
};

/// Runs the body once for each IP version and back end, each time in a fresh network namespace.
/// `test` is the test's name, for the report when it is skipped.
pub fn each_kernel(test: &str, body: impl Fn(Kernel) + Sync) {
    some_kernels(test, &KERNELS, body);
}

/// The same for one back end, IPv4 and IPv6.
pub fn each_kernel_of(backend: Backend, test: &str, body: impl Fn(Kernel) + Sync) {
    let kernels: Vec<_> = KERNELS
        .into_iter()
        .filter(|kernel| kernel.backend == backend)
        .collect();
    some_kernels(test, &kernels, body);
}

/// The same for the kernels given.
pub fn some_kernels(test: &str, kernels: &[Kernel], body: impl Fn(Kernel) + Sync) {
    if let Some(reason) = missing() {
        assert!(
            std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL").is_none_or(|v| v != "1"),
            "{test} needs a kernel: {reason}"
        );
        // Around the test harness's capture, so that it is seen without --nocapture.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
        return;
    }
    for kernel in kernels {
        in_namespace(|| body(*kernel));
    }
}

/// Runs the body on a thread with its own network namespace and its own empty `/run`.
pub fn in_namespace<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("unshare");
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private /");
            mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("own /run");
            body()
        });
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Why no kernel test can run here, if none can.
pub fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    KERNELS
        .iter()
        .flat_map(|kernel| {
            [
                kernel.program("restore"),
                kernel.program("save"),
                kernel.program(""),
            ]
        })
        .find_map(|program| {
            let found = Command::new(&program)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
            (!found).then(|| format!("{program} isn't there"))
        })
}

impl Kernel {
    /// The executor of the library for this kernel.
    pub fn executor(self) -> CommandExecutor {
        CommandExecutor::builder(self.version)
            .backend(self.backend)
            .build()
            .expect("iptables")
    }

    /// `iptables-nft-restore` and the like; the plain command for an empty `tool`.
    pub fn program(self, tool: &str) -> String {
        let base = match self.version {
            IpVersion::V4 => "iptables",
            IpVersion::V6 => "ip6tables",
        };
        let backend = match self.backend {
            Backend::NfTables => "nft",
            Backend::Legacy => "legacy",
        };
        let dash = if tool.is_empty() { "" } else { "-" };
        format!("{base}-{backend}{dash}{tool}")
    }

    /// Runs `iptables-restore --noflush` as another program would.
    pub fn restore(self, input: &str) -> Output {
        self.restore_bytes(input.as_bytes())
    }

    pub fn restore_bytes(self, input: &[u8]) -> Output {
        self.restore_with(&["--noflush", "-w", "10"], input)
    }

    /// Runs `iptables-restore` without `--noflush`: all that the input's tables held is gone.
    pub fn restore_flushing(self, input: &str) -> Output {
        self.restore_with(&["-w", "10"], input.as_bytes())
    }

    fn restore_with(self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(self.program("restore"))
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("iptables-restore");
        let mut stdin = child.stdin.take().expect("stdin");
        // The tool may stop reading at an error: its exit code says more than a broken pipe.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("iptables-restore")
    }

    /// The same, where it has to succeed.
    pub fn must_restore(self, input: &str) {
        let output = self.restore(input);
        assert!(
            output.status.success(),
            "{self:?}: {input}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Runs the plain command: `kernel.iptables("-A INPUT -j ACCEPT")`; words are split at blanks.
    pub fn iptables(self, words: &str) -> Output {
        Command::new(self.program(""))
            .args(["-w", "10"])
            .args(words.split(' '))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .expect("iptables")
    }

    /// The table as `iptables-save` prints it.
    pub fn save(self, table: Table) -> String {
        let output = Command::new(self.program("save"))
            .args(["-t", table.name()])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .expect("iptables-save");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The rules of one chain as saved, without `-A chain`; `None` if there is no such chain.
    pub fn rules(self, table: Table, chain: &str) -> Option<Vec<String>> {
        let saved = self.save(table);
        let header = format!(":{chain} ");
        if !saved.lines().any(|line| line.starts_with(&header)) {
            return None;
        }
        let start = format!("-A {chain} ");
        Some(
            saved
                .lines()
                .filter_map(|line| line.strip_prefix(&start))
                .map(str::to_owned)
                .collect(),
        )
    }

    /// The names of the chains of the table that begin with the prefix, sorted.
    pub fn chains(self, table: Table, prefix: &str) -> Vec<String> {
        let mut chains: Vec<_> = self
            .save(table)
            .lines()
            .filter_map(|line| line.strip_prefix(':')?.split(' ').next())
            .filter(|name| name.starts_with(prefix))
            .map(str::to_owned)
            .collect();
        chains.sort();
        chains
    }
}
