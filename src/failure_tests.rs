//! Texts of iptables 1.8.9 as they were measured, and what they mean.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn class_named(name: &str) -> FailureClass {
    use FailureClass as C;
    match name {
        "LockHeld" => C::LockHeld,
        "Race" => C::Race,
        "Ambiguous" => C::Ambiguous,
        "RuleAbsent" => C::RuleAbsent,
        "TargetAbsent" => C::TargetAbsent,
        "ChainExists" => C::ChainExists,
        "ChainBusy" => C::ChainBusy,
        "TooManyLinks" => C::TooManyLinks,
        "NoPrivilege" => C::NoPrivilege,
        "NoTable" => C::NoTable,
        "NoKernelSupport" => C::NoKernelSupport,
        "LockFile" => C::LockFile,
        "Refused" => C::Refused,
        other => panic!("no class is called {other}"),
    }
}

/// `\n`, `\t`, `\r` and `\\` as they are written in the data.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next().unwrap() {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                other => out.push(other),
            },
            _ => out.push(c),
        }
    }
    out
}

#[test]
fn the_measured_failures_mean_what_they_were_found_to_mean() {
    let mut counts = BTreeMap::<_, usize>::new();
    let data = include_str!("../tests/data/restore-failures.tsv");
    for row in data.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<_> = row.split('\t').collect();
        let [id, tool, exit, class, line, object, input, stderr] = columns[..] else {
            panic!("{row}");
        };
        let outcome = Outcome::failure(exit.parse().unwrap(), unescaped(stderr));
        let failure = Failure::of_restore(&outcome, &unescaped(input)).unwrap();
        assert_eq!(failure.class, class_named(class), "{id} {tool}: {stderr}");
        assert_eq!(failure.line, line.parse().ok(), "{id} {tool}: {stderr}");
        let object = (object != "-").then(|| unescaped(object));
        assert_eq!(failure.object, object, "{id} {tool}: {stderr}");
        *counts.entry(failure.class).or_default() += 1;
    }
    assert_eq!(counts.len(), 9, "{counts:?}");
}

#[test]
fn what_happens_at_run_time_means_what_it_was_found_to_mean() {
    use FailureClass as C;
    let held = "Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.\n";
    let deprecated = format!("Ignoring deprecated --wait-interval option.\n{held}");
    let generation = |reason| {
        format!(
            "ip6tables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: {reason}\n"
        )
    };
    let initialize = |reason| {
        format!("iptables-nft-restore/1.8.9 (nf_tables) Failed to initialize nft: {reason}\n")
    };
    let send = |reason, again| {
        format!("sendmsg() failed: {reason}\niptables-nft-restore: line 3 failed: {again}.\n")
    };
    for (class, exit, stderr) in [
        (
            C::RuleAbsent,
            4,
            "iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_DELETE failed (No such file or directory): rule in chain INPUT\n",
        ),
        (C::LockHeld, 4, held),
        (C::LockHeld, 4, &deprecated),
        (
            C::LockHeld,
            4,
            "Can't lock /run/xtables.lock: No locks available\nAnother app is currently holding the xtables lock. Perhaps you want to use the -w option?\n",
        ),
        (
            C::LockHeld,
            4,
            "Another app is currently holding the xtables lock. Perhaps you want to use the -w option?\n",
        ),
        (
            C::LockFile,
            4,
            "Fatal: can't open lock file /run/xtables.lock: Is a directory\n",
        ),
        (
            C::LockFile,
            4,
            "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
        ),
        (
            C::NoPrivilege,
            4,
            &generation("Permission denied (you must be root)"),
        ),
        (
            C::NoPrivilege,
            1,
            "iptables-save v1.8.9 (legacy): Cannot initialize: Permission denied (you must be root)\n",
        ),
        (
            C::NoPrivilege,
            3,
            "iptables v1.8.9 (legacy): can't initialize iptables table `filter': Permission denied (you must be root)\nPerhaps iptables or your kernel needs to be upgraded.\n",
        ),
        (
            C::NoPrivilege,
            1,
            "Failed to list table names in /proc/net/ip_tables_names: Permission denied\n",
        ),
        (C::NoPrivilege, 1, &initialize("Operation not permitted")),
        (
            C::NoPrivilege,
            1,
            &send(
                "Operation not permitted",
                "Permission denied (you must be root)",
            ),
        ),
        (
            C::NoTable,
            2,
            "iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'filter'\nError occurred at line: 1\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
        ),
        (C::NoTable, 1, "Table `nosuch' does not exist\n"),
        (
            C::NoTable,
            1,
            "iptables-save v1.8.9 (legacy): Cannot initialize: Table does not exist (do you need to insmod?)\n",
        ),
        (C::Race, 4, &generation("Resource temporarily unavailable")),
        (C::Race, 4, &generation("Interrupted system call")),
        (C::Race, 4, &generation("No buffer space available")),
        (C::Race, 4, &generation("Memory allocation problem")),
        (
            C::Race,
            1,
            &send(
                "Resource temporarily unavailable",
                "Resource temporarily unavailable",
            ),
        ),
        (
            C::Race,
            1,
            &send("Cannot allocate memory", "Memory allocation problem"),
        ),
        (C::Race, 1, &initialize("Too many open files")),
        (C::Race, 1, &initialize("Cannot allocate memory")),
        (
            C::Race,
            1,
            "iptables-save v1.8.9 (legacy): Cannot initialize: Resource temporarily unavailable\n",
        ),
        (
            C::Race,
            4,
            "iptables v1.8.9 (nf_tables): \nline 2: CHAIN_USER_ADD failed (File exists): chain ZZ\n",
        ),
        (
            C::Race,
            4,
            "iptables-nft-restore v1.8.9 (nf_tables): \nline 2: CHAIN_USER_ADD failed (No such file or directory): chain T2\nline 3: RULE_APPEND failed (No such file or directory): rule in chain PREROUTING\n",
        ),
        (C::Refused, 4, &generation("Message too long")),
        (C::Refused, 1, &send("Message too long", "Message too long")),
        (C::NoKernelSupport, 1, &initialize("Protocol not supported")),
        (
            C::NoKernelSupport,
            1,
            &initialize("Address family not supported by protocol"),
        ),
        (
            C::ChainBusy,
            4,
            "iptables-nft-restore v1.8.6 (nf_tables): \nline 9: CHAIN_USER_DEL failed (Device or resource busy): chain DOCKER\n",
        ),
        (
            C::Refused,
            1,
            "iptables-nft-restore: unrecognized option '--nosuch'\nTry `iptables-nft-restore -h' for more information.\n",
        ),
        (
            C::Refused,
            3,
            "Error: unsupported layer 4 protocol value\niptables-nft-save v1.8.9 (nf_tables): Parsing nftables rule failed\nPerhaps iptables-nft-save or your kernel needs to be upgraded.\n",
        ),
        (C::Refused, 1, "something that nobody has seen\n"),
        (C::Ambiguous, 1, ""),
        (C::Ambiguous, 1, "\n"),
    ] {
        let outcome = Outcome::failure(exit, stderr);
        assert_eq!(
            Failure::of_restore(&outcome, "").unwrap().class,
            class,
            "{stderr}"
        );
        assert_eq!(Failure::of_save(&outcome).unwrap().class, class, "{stderr}");
    }
}

#[test]
fn success_is_no_failure_and_a_killed_run_says_nothing() {
    let warning =
        "# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n";
    let mut outcome = Outcome::failure(0, warning);
    assert_eq!(Failure::of_save(&outcome), None);
    for exit in [Exit::Signal(9), Exit::TimedOut] {
        outcome = Outcome::failure(1, "iptables-restore: line 2 failed\n");
        outcome.exit = exit;
        let failure = Failure::of_restore(&outcome, "*filter\n-D a -j b\nCOMMIT\n").unwrap();
        assert_eq!(
            (failure.class, failure.line),
            (FailureClass::Ambiguous, None)
        );
    }
}

#[test]
fn a_bare_failure_means_what_the_line_does() {
    let input = "*filter\n:a - [0:0]\n-A a -j b\n-I a -j b\n-D a -j b\n-C a -j b\n-X a\nCOMMIT\n";
    for (line, class) in [
        (2, FailureClass::Ambiguous),
        (3, FailureClass::TargetAbsent),
        (4, FailureClass::TargetAbsent),
        (5, FailureClass::RuleAbsent),
        (6, FailureClass::RuleAbsent),
        (7, FailureClass::ChainBusy),
        (8, FailureClass::Ambiguous),
        (99, FailureClass::Ambiguous),
    ] {
        let outcome = Outcome::failure(1, format!("iptables-restore: line {line} failed\n"));
        let failure = Failure::of_restore(&outcome, input).unwrap();
        assert_eq!((failure.class, failure.line), (class, Some(line)));
    }
}

#[test]
fn a_cascade_is_told_from_rules_that_are_wrong_by_themselves() {
    let input = "*filter\n:a - [0:0]\n-A a -j b\n-A a -j c\n-A a -j d\nCOMMIT\n";
    let refused = |lines: &[usize]| {
        let mut stderr = String::from("iptables-nft-restore v1.8.9 (nf_tables): \n");
        for line in lines {
            stderr +=
                &format!("line {line}: RULE_APPEND failed (Invalid argument): rule in chain a\n");
        }
        let failure = Failure::of_restore(&Outcome::failure(4, stderr), input).unwrap();
        (failure.class, failure.line, failure.cascade)
    };
    let class = FailureClass::Refused;
    assert_eq!(refused(&[3]), (class, Some(3), false));
    assert_eq!(refused(&[3, 5]), (class, Some(3), false));
    assert_eq!(refused(&[4, 5]), (class, Some(4), true));
    assert_eq!(refused(&[5]), (class, Some(5), true));
}

#[test]
fn no_text_of_the_caller_passes_itself_off_as_another_failure() {
    let input = "*filter\n-A a -j b\nCOMMIT\n";
    for row in ROWS {
        let text = row.text.replace('*', "3").replace("{}", "x");
        for echo in [
            format!("Bad argument `{text}'"),
            format!("iptables-nft-restore v1.8.9 (nf_tables): unknown option \"{text}\""),
            format!(
                "iptables-restore v1.8.9 (legacy): Invalid target name `{text}' (28 chars max)"
            ),
            format!("iptables-restore v1.8.9 (legacy): host/network `{text}' not found"),
            format!("iptables-restore v1.8.9 (legacy): Bad ctstate \"x) {text}\""),
            format!("iptables-restore v1.8.9 (legacy): Bad ctstate \"x): {text}\""),
            format!("iptables-nft-restore v1.8.9 (nf_tables): Bad value \"iptables: {text}\""),
        ] {
            let stderr = format!(
                "{echo}\nError occurred at line: 2\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n"
            );
            let failure = Failure::of_restore(&Outcome::failure(2, stderr), input).unwrap();
            assert_eq!(failure.class, FailureClass::Refused, "{echo}");
            assert_eq!(failure.line, Some(2));
        }
    }
}

#[test]
fn names_are_found_whatever_they_hold() {
    for name in ["web-tls", "it's", "a b", "", "ünï", "x' is not a chain"] {
        let stderr = format!(
            "iptables-restore v1.8.9 (legacy): goto '{name}' is not a chain\nError occurred at line: 3\n"
        );
        let failure = Failure::of_restore(&Outcome::failure(2, stderr), "").unwrap();
        assert_eq!(failure.class, FailureClass::TargetAbsent);
        assert_eq!(failure.object.as_deref(), Some(name));
    }
}

proptest! {
    #[test]
    fn any_bytes_on_standard_error_are_taken(stderr in prop::collection::vec(any::<u8>(), 0..300), code in 1..200) {
        let _ = Failure::of_restore(&Outcome::failure(code, stderr), "*filter\nCOMMIT\n");
    }

    #[test]
    fn any_line_with_a_program_before_it_is_taken(tail in "[ -~]{0,40}", head in prop::sample::select(vec![
        "iptables-restore", "iptables-restore: ", "iptables-restore v1.8.9 (legacy): ", "iptables-nft-save/1.8.9 (nf_tables) ", "line ", "Can't set policy `",
    ])) {
        let stderr = format!("{head}{tail}");
        let _ = Failure::of_restore(&Outcome::failure(1, stderr), "*filter\nCOMMIT\n");
    }
}

/// A program that prints without end must not cost its caller minutes, and what tells stands at either end.
#[test]
fn of_very_many_lines_the_first_and_the_last_tell() {
    let flood = "y\n".repeat(4 << 20);
    let warning =
        "Warning: Extension x revision 0 not supported, missing kernel module?\n".repeat(5_000);
    let locked = "Another app is currently holding the xtables lock. Stopped waiting after 1s.\n";
    let start = std::time::Instant::now();
    for (stderr, class) in [
        (flood.clone(), FailureClass::Refused),
        (format!("{locked}{flood}"), FailureClass::LockHeld),
        (format!("{flood}{locked}"), FailureClass::LockHeld),
        (
            format!("{warning}iptables-restore: line 9 failed: Chain already exists.\n"),
            FailureClass::ChainExists,
        ),
        (warning, FailureClass::NoKernelSupport),
    ] {
        let failure = Failure::of_restore(&Outcome::failure(1, stderr), "").unwrap();
        assert_eq!(failure.class, class);
    }
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
}
