//! Programs that misbehave in place of iptables: each ends as an error of a known kind, in time, with nothing left
//! running, open or unreaped, and the updater works on as soon as the program does.
//!
//! There is one test only: it counts what this process has open, and no other may open anything meanwhile.

#[path = "bad_tools/cases.rs"]
mod cases;
mod common;
#[path = "bad_tools/leaks.rs"]
mod leaks;
#[path = "bad_tools/swap.rs"]
mod swap;

use std::time::{Duration, Instant};

use cases::{Ends, RESTORES, SAVES};
use common::each_kernel;
use iptables_updater::{
    Backend, Chain, Error, Executor as _, ExecutorError, IpVersion, MemoryExecutor,
};
use leaks::Held;
use swap::{Tool, open};

/// What each run may take: the shortest lock wait, which comes on top of the limit, is a second.
const LIMIT: Duration = Duration::from_millis(1_300);

#[test]
fn whatever_a_tool_does_the_updater_stays_right() {
    let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    let ground = || swap::Ground::Simulation(kernel.clone());
    probes();
    each_restore(open(ground()), |_| true);
    each_save(open(ground()));
    replaced_by_itself(open(ground()));
    claims_to_delete_without_end(open(ground()));
    each_kernel("whatever_a_tool_does_the_updater_stays_right", |kernel| {
        let ground = || swap::Ground::Kernel(kernel);
        // The bad programs are the same for all: each runs on one of the kernels.
        let place = common::KERNELS.iter().position(|other| *other == kernel);
        each_restore(open(ground()), |number| Some(number % 4) == place);
        if kernel.version == IpVersion::V4 {
            replaced_by_the_other_back_end(kernel);
        }
    });
}

/// What answers `--version` wrongly never becomes an executor.
fn probes() {
    for (script, says) in [
        (
            "echo 'iptables-restore v1.8.9 (ebpf)'",
            "doesn't answer --version",
        ),
        ("echo 'iptables-restore vX.Y'", "doesn't answer --version"),
        (
            "echo 'iptables-restore v99999999999.1 (legacy)'",
            "doesn't answer --version",
        ),
        ("printf '\\033]0;owned\\007'", r"\u{1b}]0;owned\u{7}"),
        (
            "echo 'iptables-restore v1.8.9 (legacy)' >&2",
            "doesn't answer --version",
        ),
        (
            "echo 'iptables-restore v1.8.9 (legacy)'; exit 1",
            "exit code 1",
        ),
        (
            "echo 'iptables-restore v1.8.9 (legacy)'; kill -9 $$",
            "killed by signal 9",
        ),
        (
            "exec yes 'iptables-restore v1.8.9 (legacy)'",
            "printed more than",
        ),
        ("sleep 1000 & wait", "killed at the time limit"),
        ("exit 0", "doesn't answer --version"),
    ] {
        let held = Held::now();
        let folder = swap::Folder::new();
        folder.put("restore", Tool::File(&format!("#!/bin/sh\n{script}\n")));
        let start = Instant::now();
        let error = folder.builder().build().unwrap_err();
        assert!(
            matches!(error, ExecutorError::Version { .. }),
            "{script}: {error}"
        );
        let text = error.to_string();
        assert!(text.contains(says), "{script}: {text}");
        assert!(!text.contains(char::is_control), "{script}: {text}");
        assert!(text.len() < 3_000, "{script}: {} bytes", text.len());
        assert!(
            start.elapsed() < LIMIT * 4,
            "{script}: {:?}",
            start.elapsed()
        );
        held.assert_nothing_more(script, &folder);
    }
    // A version that nobody has seen yet is one.
    let folder = swap::Folder::new();
    let answer = "#!/bin/sh\necho 'iptables-restore v47.11.0-rc1 (nf_tables)'\n";
    folder.put("restore", Tool::File(answer));
    let executor = folder.builder().build().unwrap();
    assert_eq!(executor.backend(), Backend::NfTables);
    assert_eq!(executor.version().to_string(), "47.11.0");
}

fn each_restore(mut bench: swap::Bench, is_wanted: impl Fn(usize) -> bool) {
    bench.updater.rewrite_chains([first(0)]).unwrap();
    bench
        .updater
        .ensure_rule_inserted("INPUT", "-j web-first")
        .unwrap();
    let rows = RESTORES.iter().enumerate();
    for (number, (what, tool, expected)) in rows.filter(|(number, _)| is_wanted(*number)) {
        let held = Held::now();
        let before = bench.updater.index().clone();
        bench.put_restore(*tool);
        let start = Instant::now();
        let result = bench
            .updater
            .rewrite_chains([first(number + 1), second(number)]);
        assert!(start.elapsed() < LIMIT * 6, "{what}: {:?}", start.elapsed());
        check(what, result, *expected);
        let claims = matches!(expected, Ends::Claims);
        if !claims {
            assert_eq!(*bench.updater.index(), before, "{what}");
        }
        held.assert_nothing_more(what, &bench.folder);

        bench.put_good();
        if claims {
            // Only a reading tells that nothing was done.
            let drift = bench.updater.verify().unwrap();
            let lost: Vec<_> = drift.changed.iter().map(|c| c.chain.as_str()).collect();
            assert_eq!(lost, ["web-first"], "{what}");
            assert_eq!(drift.missing, ["web-second"], "{what}");
            bench.updater.refresh().unwrap();
        } else {
            bench
                .updater
                .rewrite_chains([first(number + 1), second(number)])
                .unwrap();
        }
        exact(what, &mut bench, number + 1);
        bench.updater.delete_chains(["web-second"]).unwrap();
        assert_eq!(bench.rules("web-second"), None, "{what}");
    }
}

fn each_save(mut bench: swap::Bench) {
    bench.updater.rewrite_chains([first(1), second(0)]).unwrap();
    bench
        .updater
        .ensure_rule_inserted("INPUT", "-j web-first")
        .unwrap();
    for (what, tool, expected) in SAVES {
        let held = Held::now();
        let before = bench.updater.index().clone();
        bench.put_save(*tool);
        let start = Instant::now();
        check(what, bench.updater.verify(), *expected);
        check(what, bench.updater.refresh(), *expected);
        check(what, bench.updater.cleanup(), *expected);
        assert!(start.elapsed() < LIMIT * 8, "{what}: {:?}", start.elapsed());
        assert_eq!(*bench.updater.index(), before, "{what}");
        held.assert_nothing_more(what, &bench.folder);
        bench.put_good();
        exact(what, &mut bench, 1);
    }
}

/// It has always deleted as many instances of a hook rule as it was told to.
fn claims_to_delete_without_end(mut bench: swap::Bench) {
    bench.updater.rewrite_chains([first(1), second(0)]).unwrap();
    bench.put_restore(Tool::Script("cat >/dev/null"));
    let held = Held::now();
    let results = [
        bench.updater.ensure_rule_inserted("INPUT", "-j web-first"),
        bench
            .updater
            .ensure_rule_appended("FORWARD", "-j web-first"),
        bench.updater.ensure_rule_removed("OUTPUT", "-j web-first"),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::NeverAbsent { .. }), "{error}");
    }
    held.assert_nothing_more("claims to delete", &bench.folder);
    bench.put_good();
    bench
        .updater
        .ensure_rule_inserted("INPUT", "-j web-first")
        .unwrap();
    exact("claims to delete", &mut bench, 1);
    assert_eq!(bench.rules("FORWARD").unwrap(), [""; 0]);
}

/// A program that is replaced while it runs, by the same: as a package's update does.
fn replaced_by_itself(mut bench: swap::Bench) {
    for number in 1..5 {
        bench.put_good();
        bench
            .updater
            .rewrite_chains([first(number), second(0)])
            .unwrap();
        bench
            .updater
            .ensure_rule_inserted("INPUT", "-j web-first")
            .unwrap();
        exact("replaced", &mut bench, number);
    }
}

/// The program becomes that of the other back end, and comes back.
fn replaced_by_the_other_back_end(kernel: common::Kernel) {
    let mut bench = open(swap::Ground::Kernel(kernel));
    bench.updater.rewrite_chains([first(1), second(0)]).unwrap();
    bench
        .updater
        .ensure_rule_inserted("INPUT", "-j web-first")
        .unwrap();
    let other = common::KERNELS.into_iter();
    let other = other
        .filter(|other| other.version == kernel.version)
        .find(|other| other.backend != kernel.backend);
    bench.kernel(other.unwrap());
    // The other's table is empty: all of it is found missing, and put.
    let drift = bench.updater.verify().unwrap();
    assert_eq!(drift.missing, ["web-first", "web-second"]);
    assert_eq!(drift.hooks.len(), 1);
    bench.updater.refresh().unwrap();
    exact("the other back end", &mut bench, 1);
    bench.updater.rewrite_chains([first(2)]).unwrap();
    exact("the other back end, rewritten", &mut bench, 2);
    bench.kernel(kernel);
    let drift = bench.updater.verify().unwrap();
    assert_eq!(drift.changed.len(), 1, "{drift:?}");
    bench.updater.refresh().unwrap();
    exact("back again", &mut bench, 2);
}

#[track_caller]
fn check<T: std::fmt::Debug>(what: &str, result: Result<T, Error>, expected: Ends) {
    let as_expected = match (&result, expected) {
        (Err(Error::Restore(error)), Ends::Restore(class, exit)) => {
            error.class == class && error.exit == exit
        }
        (Err(Error::Save { source, .. }), Ends::Save(is)) => is(source),
        (Err(Error::Executor(ExecutorError::Io { source, .. })), Ends::NotRun(kind)) => {
            source.kind() == kind
        }
        (Ok(_), Ends::Claims) => true,
        _ => false,
    };
    assert!(as_expected, "{what}: {result:?}, expected {expected:?}");
    if let Err(error) = result {
        let text = error.to_string();
        assert!(!text.contains(char::is_control), "{what}: {text:?}");
        assert!(text.len() < 10_000, "{what}: {} bytes", text.len());
    }
}

/// The table is just what was asked for, and the updater knows it.
#[track_caller]
fn exact(what: &str, bench: &mut swap::Bench, marks: usize) {
    assert!(bench.updater.verify().unwrap().is_empty(), "{what}");
    assert_eq!(bench.rules("INPUT").unwrap(), ["-j web-first"], "{what}");
    assert_eq!(bench.rules("web-first").unwrap().len(), marks + 1, "{what}");
    assert_eq!(bench.rules("web-second").unwrap().len(), 3_001, "{what}");
    assert_eq!(bench.chains(), ["web-first", "web-second"], "{what}");
}

fn first(marks: usize) -> Chain {
    let rules = (0..marks).map(|number| format!("-p tcp --dport {number} -j RETURN"));
    Chain::new("web-first", rules.chain(["-j ACCEPT".to_owned()])).unwrap()
}

/// More text than a pipe holds.
fn second(mark: usize) -> Chain {
    let rules = (0..3_000).map(|number| format!("-p tcp --dport {number} -j RETURN"));
    Chain::new(
        "web-second",
        rules.chain([format!("-p udp --dport {mark} -j ACCEPT")]),
    )
    .unwrap()
}
