//! How the real programs are run: what they are given, and what becomes of those that misbehave.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{each_kernel, each_kernel_of};
use iptables_updater::{
    Backend, CommandExecutor, CommandExecutorBuilder, Executor, ExecutorError, Exit, Failure,
    FailureClass, IpVersion, Table, ToolVersion,
};

const NFT: &str = "iptables-restore v1.8.9 (nf_tables)";
const LEGACY: &str = "iptables-restore v1.8.9 (legacy)";

/// A folder with a program that answers `--version` and otherwise does what the script says.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn new(version: &str, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = Self { folder };
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; exit; fi\n{script}\n"
        );
        // Written here, it would be open for writing in whatever another test starts at that moment, and couldn't be run.
        let write = ["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"];
        let mut sh = Command::new("sh");
        let written = sh.args(write).arg(fake.path("tool")).arg(text).status();
        assert!(written.unwrap().success());
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn builder(&self) -> CommandExecutorBuilder {
        CommandExecutor::builder(IpVersion::V4)
            .programs(self.path("tool"), self.path("tool"))
            .env("FOLDER", self.folder.path())
            .env("PATH", "/usr/bin:/bin")
    }

    fn executor(&self) -> CommandExecutor {
        self.builder().build().unwrap()
    }

    /// What the script has written into a file of the folder.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn the_back_end_and_the_version_are_those_that_the_program_tells() {
    for (answer, backend, version) in [
        (NFT, Backend::NfTables, ToolVersion::new(1, 8, 9)),
        (LEGACY, Backend::Legacy, ToolVersion::new(1, 8, 9)),
        (
            "iptables-restore v1.6.1",
            Backend::Legacy,
            ToolVersion::new(1, 6, 1),
        ),
    ] {
        let executor = Fake::new(answer, "").executor();
        assert_eq!((executor.backend(), executor.version()), (backend, version));
        assert_eq!(executor.ip_version(), IpVersion::V4);
    }
    let text = Fake::new(NFT, "").executor().to_string();
    assert_eq!(text, "tool v1.8.9 (nf_tables, IPv4)");
}

#[test]
fn arguments_and_environment_are_just_what_is_needed() {
    let script = "echo \"$@\" >> \"$FOLDER/args\"; env > \"$FOLDER/env\"; cat > \"$FOLDER/input\"";
    for (answer, wait) in [
        (NFT, " -w 3"),
        (LEGACY, " -w 3"),
        ("iptables-restore v1.6.1", ""),
    ] {
        let fake = Fake::new(answer, script);
        let builder = fake.builder().lock_wait(Duration::from_millis(2_100));
        // The oldest takes the lock itself: not that of this machine.
        let builder = builder.env("XTABLES_LOCKFILE", fake.path("lock"));
        let mut executor = builder.build().unwrap();
        let outcome = executor.restore("*filter\nCOMMIT\n").unwrap();
        assert_eq!(outcome.exit, Exit::Code(0));
        assert_eq!(fake.read("input"), "*filter\nCOMMIT\n");
        executor.save(Table::Nat).unwrap();
        assert_eq!(fake.read("input"), "");
        assert_eq!(fake.read("args"), format!("--noflush{wait}\n-t nat\n"));
        assert!(fake.read("env").lines().any(|line| line == "LC_ALL=C"));
    }
}

#[test]
fn the_lock_file_is_moved_only_by_the_executor_itself() {
    // The environment of this process can't be changed safely in a test: env(1) as the prefix does it.
    let fake = Fake::new(NFT, "echo \"${XTABLES_LOCKFILE-unset}\"");
    let mut executor = fake.executor();
    assert_eq!(executor.restore("").unwrap().stdout, b"unset\n");
    let builder = fake.builder().env("XTABLES_LOCKFILE", "/elsewhere");
    assert_eq!(
        builder.build().unwrap().restore("").unwrap().stdout,
        b"/elsewhere\n"
    );
}

#[test]
fn a_prefix_runs_the_programs() {
    let fake = Fake::new(NFT, "echo \"$VIA $@\"");
    let builder = fake.builder().prefix(["env", "VIA=prefix"]);
    let outcome = builder.build().unwrap().save(Table::Raw).unwrap();
    assert_eq!(outcome.stdout, b"prefix -t raw\n");

    let builder = fake.builder().prefix(["no-such-prefix"]);
    let error = builder.build().unwrap_err();
    assert!(
        matches!(&error, ExecutorError::NotFound { program } if program == Path::new("no-such-prefix"))
    );
    // What is missing behind a prefix, only the prefix can tell.
    let builder = CommandExecutor::builder(IpVersion::V4)
        .programs("/no/such/restore", "/no/such/save")
        .prefix(["env"]);
    let error = builder.build().unwrap_err();
    assert!(matches!(error, ExecutorError::Version { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/restore"), "{error}");
}

#[test]
fn what_is_no_iptables_is_said_so_at_once() {
    for (make, expected) in [
        (None, "isn't there"),
        (Some((0o644, NFT)), "isn't executable"),
        (
            Some((0o755, "some other program 2.0")),
            "doesn't answer --version",
        ),
    ] {
        let fake = Fake::new(make.map_or("", |(_, answer)| answer), "");
        match make {
            None => fs::remove_file(fake.path("tool")).unwrap(),
            Some((mode, _)) => {
                let permissions = fs::Permissions::from_mode(mode);
                fs::set_permissions(fake.path("tool"), permissions).unwrap();
            }
        }
        let error = fake.builder().build().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart_and_outputs_kept_apart() {
    let fake = Fake::new(NFT, "echo out; echo err >&2; exit 4");
    let outcome = fake.executor().restore("").unwrap();
    assert_eq!(outcome.exit, Exit::Code(4));
    assert_eq!(
        (&*outcome.stdout, &*outcome.stderr),
        (&b"out\n"[..], &b"err\n"[..])
    );
    let fake = Fake::new(NFT, "kill -9 $$");
    assert_eq!(fake.executor().restore("").unwrap().exit, Exit::Signal(9));
}

#[test]
fn floods_and_deaf_ears_block_nobody() {
    let input = "x".repeat(3_000_000);
    for (script, stderr) in [
        // A megabyte on standard error before the input is read.
        ("head -c 1000000 /dev/zero >&2; cat >/dev/null", 1_000_000),
        // The input is closed early, or never read.
        ("exec 0<&-; echo done >&2", 5),
        ("echo done >&2", 5),
    ] {
        let outcome = Fake::new(NFT, script).executor().restore(&input).unwrap();
        assert_eq!(outcome.exit, Exit::Code(0), "{script}");
        assert_eq!(outcome.stderr.len(), stderr, "{script}");
    }
}

#[test]
fn whatever_hangs_is_killed_with_all_that_it_started() {
    for script in [
        "sleep 1000",
        "sleep 1000 & echo $! > \"$FOLDER/pid\"; wait",
        // It closes its pipes and hangs all the same.
        "exec >&- 2>&- 0<&-; sleep 1000",
    ] {
        let fake = Fake::new(NFT, &format!("echo $$ > \"$FOLDER/self\"\n{script}"));
        let limit = Duration::from_millis(300);
        let builder = fake.builder().lock_wait(Duration::ZERO).time_limit(limit);
        let mut executor = builder.build().unwrap();
        let start = Instant::now();
        let outcome = executor.restore("*filter\nCOMMIT\n").unwrap();
        assert_eq!(outcome.exit, Exit::TimedOut, "{script}");
        // The limit begins after the shortest lock wait, which is a second.
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{script}: {:?}",
            start.elapsed()
        );
        for name in ["self", "pid"] {
            if let Ok(pid) = fs::read_to_string(fake.path(name)) {
                let state = format!("/proc/{}/status", pid.trim());
                let alive = fs::read_to_string(state).is_ok_and(|s| !s.contains("State:\tZ"));
                assert!(!alive, "{script}: {name} survived");
            }
        }
    }
}

#[test]
fn a_limit_without_end_is_one() {
    let run = |builder: CommandExecutorBuilder| {
        let builder = builder.lock_wait(Duration::MAX).time_limit(Duration::MAX);
        let mut executor = builder.build().unwrap();
        let outcome = executor.restore("*filter\nCOMMIT\n").unwrap();
        assert!(outcome.exit.is_success(), "{outcome:?}");
    };
    run(Fake::new(NFT, "").builder());
    each_kernel("a_limit_without_end_is_one", |kernel| {
        run(CommandExecutor::builder(kernel.version).backend(kernel.backend));
    });
}

#[test]
fn a_process_that_keeps_the_pipes_of_a_program_that_has_ended_is_not_waited_for() {
    let fake = Fake::new(NFT, "setsid sleep 20 & echo started; exit 3");
    let start = Instant::now();
    let outcome = fake.executor().restore("").unwrap();
    assert_eq!(outcome.exit, Exit::Code(3));
    assert_eq!(outcome.stdout, b"started\n");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn nothing_is_left_behind() {
    let fake = Fake::new(NFT, "cat; echo err >&2");
    let mut executor = fake.executor();
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    executor.restore("warm up").unwrap();
    let descriptors = count("fd");
    for _ in 0..50 {
        executor.restore("some input").unwrap();
    }
    // Other tests of this program run meanwhile: only growth by the number of runs would be a leak.
    assert!(
        count("fd") < descriptors + 40,
        "{descriptors} {}",
        count("fd")
    );
    let zombies = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| stat.contains(") Z ") && stat.contains(&format!(" {} ", std::process::id())))
        .count();
    assert!(zombies < 5, "{zombies}");
}

#[test]
fn the_real_programs_are_found_and_run() {
    each_kernel("the_real_programs_are_found_and_run", |kernel| {
        let mut executor = kernel.executor();
        assert_eq!(executor.backend(), kernel.backend);
        assert_eq!(executor.ip_version(), kernel.version);
        assert!(executor.version().restore_waits());
        let saved = executor.save(Table::Filter).unwrap();
        assert!(
            String::from_utf8(saved.stdout)
                .unwrap()
                .contains(":INPUT ACCEPT [0:0]\n")
        );
        let outcome = executor
            .restore("*filter\n:a - [0:0]\n-A a -j ACCEPT\nCOMMIT\n")
            .unwrap();
        assert_eq!(outcome.exit, Exit::Code(0));
        assert_eq!(kernel.rules(Table::Filter, "a").unwrap(), ["-j ACCEPT"]);
        let outcome = executor
            .restore("*filter\n-A a -m no-such-match\nCOMMIT\n")
            .unwrap();
        assert_eq!(outcome.exit, Exit::Code(2));
        assert!(
            String::from_utf8(outcome.stderr)
                .unwrap()
                .contains("no-such-match")
        );
    });
}

#[test]
fn a_lock_that_stays_held_ends_the_wait() {
    each_kernel_of(
        Backend::Legacy,
        "a_lock_that_stays_held_ends_the_wait",
        |kernel| {
            let file = fs::File::create("/run/xtables.lock").unwrap();
            file.lock().unwrap();
            let builder = CommandExecutor::builder(kernel.version).backend(kernel.backend);
            let mut executor = builder.lock_wait(Duration::from_secs(1)).build().unwrap();
            let outcome = executor.restore("*filter\nCOMMIT\n").unwrap();
            assert_eq!(outcome.exit, Exit::Code(4));
            let text = String::from_utf8(outcome.stderr).unwrap();
            assert!(text.contains("holding the xtables lock"), "{text}");
            file.unlock().unwrap();
            assert_eq!(
                executor.restore("*filter\nCOMMIT\n").unwrap().exit,
                Exit::Code(0)
            );
        },
    );
}

#[test]
fn for_a_version_without_w_the_lock_is_taken_and_held_by_the_executor() {
    // The real legacy program behind a script that reports an old version and refuses -w, as that did.
    each_kernel_of(
        Backend::Legacy,
        "for_a_version_without_w_the_lock_is_taken_and_held_by_the_executor",
        |kernel| {
            let restore = kernel.program("restore");
            let script = format!(
                "for word; do if [ \"$word\" = -w ]; then echo \"invalid option -- 'w'\" >&2; exit 1; fi; done\n\
                 if flock --nonblock /run/xtables.lock true; then echo 'the lock is free' >&2; exit 9; fi\n\
                 XTABLES_LOCKFILE=/run/own.lock exec {restore} \"$@\""
            );
            let fake = Fake::new("iptables-restore v1.6.1", &script);
            let builder = CommandExecutor::builder(kernel.version)
                .programs(fake.path("tool"), kernel.program("save"))
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .lock_wait(Duration::from_secs(1));
            let mut executor = builder.build().unwrap();
            let input = "*filter\n:a - [0:0]\n-A a -j ACCEPT\nCOMMIT\n";
            let outcome = executor.restore(input).unwrap();
            assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            assert_eq!(kernel.rules(Table::Filter, "a").unwrap(), ["-j ACCEPT"]);

            let file = fs::File::create("/run/xtables.lock").unwrap();
            file.lock().unwrap();
            let outcome = executor.restore(input).unwrap();
            let failure = Failure::of_restore(&outcome, input).unwrap();
            assert_eq!(failure.class, FailureClass::LockHeld);
            assert!(executor.lock_wait() >= Duration::from_millis(900));
            file.unlock().unwrap();
            assert_eq!(executor.restore(input).unwrap().exit, Exit::Code(0));
            drop(file);
            fs::remove_file("/run/xtables.lock").unwrap();
            fs::create_dir("/run/xtables.lock").unwrap();
            let failure = Failure::of_restore(&executor.restore(input).unwrap(), input).unwrap();
            assert_eq!(failure.class, FailureClass::LockFile);
        },
    );
}
