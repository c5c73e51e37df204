//! Every class of failure, provoked on the real kernel on each back end where it exists.

mod common;

use std::fs;
use std::time::Duration;

use common::{Kernel, each_kernel, each_kernel_of};
use iptables_updater::{
    Backend, CommandExecutor, Executor, Exit, Failure, FailureClass, Outcome, Table,
};

/// What stands before each case: `web-a` is referred to, and holds one rule.
const BEFORE: &str = "*filter\n:web-a - [0:0]\n:web-b - [0:0]\n:web-empty - [0:0]\n\
     -A INPUT -j web-a\n-A web-a -j web-b\nCOMMIT\n";

fn failure(kernel: Kernel, input: &str) -> Failure {
    let outcome = kernel.executor().restore(input).unwrap();
    Failure::of_restore(&outcome, input).unwrap_or_else(|| panic!("{kernel:?} accepted {input}"))
}

#[test]
fn each_refusal_of_a_line_lands_in_its_class_with_its_line_and_name() {
    use Backend::{Legacy, NfTables};
    use FailureClass as C;
    each_kernel(
        "each_refusal_of_a_line_lands_in_its_class_with_its_line_and_name",
        |kernel| {
            kernel.must_restore(BEFORE);
            let before = kernel.save(Table::Filter);
            // Lines, class, named line and name; the input's second line is the first of these.
            for (backend, lines, class, line, object) in [
                (
                    NfTables,
                    "-A web-a -j no-such",
                    C::TargetAbsent,
                    3,
                    Some("no-such"),
                ),
                (
                    Legacy,
                    "-A web-a -j no-such",
                    C::TargetAbsent,
                    2,
                    Some("no-such"),
                ),
                (
                    NfTables,
                    "-A web-a -g no-such",
                    C::TargetAbsent,
                    3,
                    Some("no-such"),
                ),
                (
                    Legacy,
                    "-A web-a -g no-such",
                    C::TargetAbsent,
                    2,
                    Some("no-such"),
                ),
                (
                    NfTables,
                    "-D web-a -j no-such",
                    C::TargetAbsent,
                    3,
                    Some("no-such"),
                ),
                (
                    Legacy,
                    "-D web-a -j no-such",
                    C::TargetAbsent,
                    2,
                    Some("no-such"),
                ),
                (NfTables, "-A no-such -j ACCEPT", C::TargetAbsent, 2, None),
                (Legacy, "-A no-such -j ACCEPT", C::TargetAbsent, 2, None),
                (NfTables, "-I no-such -j ACCEPT", C::TargetAbsent, 2, None),
                (Legacy, "-I no-such -j ACCEPT", C::TargetAbsent, 2, None),
                (NfTables, "-D web-a -j ACCEPT", C::RuleAbsent, 2, None),
                (Legacy, "-D web-a -j ACCEPT", C::RuleAbsent, 2, None),
                (NfTables, "-C web-a -j ACCEPT", C::RuleAbsent, 2, None),
                (Legacy, "-C web-a -j ACCEPT", C::RuleAbsent, 2, None),
                (NfTables, "-D no-such -j ACCEPT", C::RuleAbsent, 2, None),
                (Legacy, "-D no-such -j ACCEPT", C::RuleAbsent, 2, None),
                (
                    NfTables,
                    ":web-b - [0:0]\n-X web-b",
                    C::ChainBusy,
                    3,
                    Some("web-b"),
                ),
                (Legacy, ":web-b - [0:0]\n-X web-b", C::ChainBusy, 3, None),
                (NfTables, "-A web-b -j web-a", C::TooManyLinks, 2, None),
                (Legacy, "-A web-b -j web-a", C::Ambiguous, 3, None),
                (NfTables, "-A web-a -m no-such", C::Refused, 2, None),
                (Legacy, "-A web-a -m no-such", C::Refused, 2, None),
                (NfTables, "-A web-a --no-such", C::Refused, 2, None),
                (Legacy, "-A web-a --no-such", C::Refused, 2, None),
                (NfTables, "-A web-a -p tcp --dport x", C::Refused, 2, None),
                (Legacy, "-A web-a -p tcp --dport x", C::Refused, 2, None),
                (NfTables, "-A web-a -j MASQUERADE", C::Refused, 2, None),
                (Legacy, "-A web-a -j MASQUERADE", C::Ambiguous, 3, None),
            ] {
                if backend != kernel.backend {
                    continue;
                }
                let failure = failure(kernel, &format!("*filter\n{lines}\nCOMMIT\n"));
                assert_eq!(failure.class, class, "{kernel:?} {lines}");
                assert_eq!(failure.line, Some(line), "{kernel:?} {lines}");
                assert_eq!(failure.object.as_deref(), object, "{kernel:?} {lines}");
            }
            // What a rule says can't pass itself off as what iptables says.
            let forged = "-A web-a -m conntrack --ctstate \"x) Another app is currently holding the xtables lock. x\"";
            let forgery = failure(kernel, &format!("*filter\n{forged}\nCOMMIT\n"));
            assert_eq!((forgery.class, forgery.line), (C::Refused, Some(2)));
            let set = "-A web-a -m set --match-set no-such src -j ACCEPT";
            let failure = failure(kernel, &format!("*filter\n{set}\nCOMMIT\n"));
            assert_eq!((failure.class, failure.line), (C::TargetAbsent, Some(2)));
            assert_eq!(failure.object.as_deref(), Some("no-such"));
            let rules = |save: &str| {
                let lines = save.lines().filter(|line| !line.starts_with('#'));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(rules(&kernel.save(Table::Filter)), rules(&before));
        },
    );
}

#[test]
fn an_extension_that_the_kernel_lacks_is_told_from_a_wrong_rule() {
    each_kernel(
        "an_extension_that_the_kernel_lacks_is_told_from_a_wrong_rule",
        |kernel| {
            let input = "*filter\n:a - [0:0]\n-A a -j LED --led-trigger-id x\nCOMMIT\n";
            let outcome = kernel.executor().restore(input).unwrap();
            // Where the kernel has it, there is nothing to see.
            if let Some(failure) = Failure::of_restore(&outcome, input) {
                assert_eq!(failure.class, FailureClass::NoKernelSupport, "{outcome:?}");
                assert_eq!(failure.object.as_deref(), Some("LED"));
            }
        },
    );
}

#[test]
fn nesting_too_deep_is_one_of_too_many_links() {
    each_kernel("nesting_too_deep_is_one_of_too_many_links", |kernel| {
        let nested = |depth: usize| {
            let declared: String = (0..depth).map(|n| format!(":d{n} - [0:0]\n")).collect();
            let jumps: String = (1..depth)
                .map(|n| format!("-A d{} -j d{n}\n", n - 1))
                .collect();
            format!("*filter\n{declared}{jumps}-A INPUT -j d0\nCOMMIT\n")
        };
        kernel.must_restore(&nested(15));
        kernel.must_restore("*filter\n-F\n-X\nCOMMIT\n");
        match kernel.backend {
            Backend::NfTables => {
                assert_eq!(
                    failure(kernel, &nested(16)).class,
                    FailureClass::TooManyLinks
                );
            }
            Backend::Legacy => kernel.must_restore(&nested(40)),
        }
    });
}

#[test]
fn a_table_that_is_not_there_is_said_so() {
    each_kernel("a_table_that_is_not_there_is_said_so", |kernel| {
        let failure = failure(kernel, "*no-such\nCOMMIT\n");
        assert_eq!(failure.class, FailureClass::NoTable);
        assert_eq!(failure.object.as_deref(), Some("no-such"));
    });
}

#[test]
fn a_held_lock_is_a_held_lock() {
    each_kernel_of(Backend::Legacy, "a_held_lock_is_a_held_lock", |kernel| {
        let file = fs::File::create("/run/xtables.lock").unwrap();
        file.lock().unwrap();
        let builder = CommandExecutor::builder(kernel.version).backend(kernel.backend);
        let mut executor = builder.lock_wait(Duration::from_secs(1)).build().unwrap();
        let outcome = executor.restore("*filter\nCOMMIT\n").unwrap();
        let failure = Failure::of_restore(&outcome, "*filter\nCOMMIT\n").unwrap();
        assert_eq!(failure.class, FailureClass::LockHeld);
    });
}

#[test]
fn a_lock_file_that_can_not_be_opened_is_said_so() {
    each_kernel_of(
        Backend::Legacy,
        "a_lock_file_that_can_not_be_opened_is_said_so",
        |kernel| {
            fs::create_dir("/run/xtables.lock").unwrap();
            let failure = failure(kernel, "*filter\nCOMMIT\n");
            assert_eq!(failure.class, FailureClass::LockFile);
        },
    );
}

#[test]
fn a_missing_privilege_is_told_from_a_missing_table_where_that_can_be() {
    each_kernel(
        "a_missing_privilege_is_told_from_a_missing_table_where_that_can_be",
        |kernel| {
            let without = |words: &[&str]| {
                let words = ["setpriv"].iter().chain(words).copied();
                let builder = CommandExecutor::builder(kernel.version).backend(kernel.backend);
                builder.prefix(words).build().unwrap()
            };
            let input = "*filter\nCOMMIT\n";
            for words in [
                &["--bounding-set=-net_admin"][..],
                &["--reuid=65534", "--regid=65534", "--clear-groups"],
            ] {
                let mut executor = without(words);
                let restored: Outcome = executor.restore(input).unwrap();
                let restored = Failure::of_restore(&restored, input).unwrap().class;
                let saved = Failure::of_save(&executor.save(Table::Nat).unwrap()).unwrap();
                assert_eq!(saved.class, FailureClass::NoPrivilege, "{words:?}");
                let expected = match (kernel.backend, words.len()) {
                    (Backend::NfTables, _) => FailureClass::NoPrivilege,
                    // Legacy doesn't say more: the advice names the privilege beside the table, and beside the file.
                    (Backend::Legacy, 1) => FailureClass::NoTable,
                    (Backend::Legacy, _) => FailureClass::LockFile,
                };
                assert_eq!(restored, expected, "{words:?}");
                assert!(
                    restored.advice().contains("privilege")
                        || restored.advice().contains("root")
                        || restored == FailureClass::LockFile
                );
            }
        },
    );
}

#[test]
fn a_run_that_was_killed_says_nothing() {
    each_kernel("a_run_that_was_killed_says_nothing", |kernel| {
        let script = "if [ \"$2\" = --version ]; then exec \"$@\"; fi; kill -9 $$";
        let builder = CommandExecutor::builder(kernel.version).backend(kernel.backend);
        let mut executor = builder.prefix(["sh", "-c", script, "sh"]).build().unwrap();
        let outcome = executor.restore("*filter\nCOMMIT\n").unwrap();
        assert_eq!(outcome.exit, Exit::Signal(9));
        let failure = Failure::of_restore(&outcome, "*filter\nCOMMIT\n").unwrap();
        assert_eq!(failure.class, FailureClass::Ambiguous);
    });
}

#[test]
fn a_kernel_that_is_short_of_something_is_a_race_or_says_nothing() {
    // The shortage is made with strace, which answers system calls of the real tool with an error.
    let strace = std::process::Command::new("strace").arg("-V").output();
    if strace.is_err() && std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL").is_none() {
        eprintln!(
            "skipped: a_kernel_that_is_short_of_something_is_a_race_or_says_nothing: no strace"
        );
        return;
    }
    each_kernel(
        "a_kernel_that_is_short_of_something_is_a_race_or_says_nothing",
        |kernel| {
            let cases: &[_] = match kernel.backend {
                Backend::NfTables => &[
                    ("sendto:error=EAGAIN", FailureClass::Race),
                    ("sendto:error=ENOBUFS", FailureClass::Race),
                    ("sendto:error=EINTR", FailureClass::Race),
                    ("recvmsg:error=ENOMEM", FailureClass::Race),
                    ("sendmsg:error=ENOBUFS", FailureClass::Race),
                    ("sendmsg:error=EPERM", FailureClass::NoPrivilege),
                    ("sendmsg:error=EMSGSIZE", FailureClass::Refused),
                    ("socket:error=EMFILE", FailureClass::Race),
                    (
                        "socket:error=EPROTONOSUPPORT",
                        FailureClass::NoKernelSupport,
                    ),
                ],
                // Legacy hides every errno of the kernel.
                Backend::Legacy => &[
                    ("setsockopt:error=EAGAIN", FailureClass::Ambiguous),
                    ("setsockopt:error=EINVAL", FailureClass::Ambiguous),
                    ("flock:error=EAGAIN", FailureClass::LockHeld),
                ],
            };
            let input = "*filter\n:a - [0:0]\nCOMMIT\n";
            for (inject, class) in cases {
                let inject = format!("inject={inject}");
                let words = ["strace", "-qq", "-o", "/dev/null", "-e", &inject];
                let builder = CommandExecutor::builder(kernel.version).backend(kernel.backend);
                let builder = builder.prefix(words).lock_wait(Duration::from_secs(1));
                let outcome = builder.build().unwrap().restore(input).unwrap();
                let failure = Failure::of_restore(&outcome, input).unwrap();
                assert_eq!(failure.class, *class, "{inject}: {outcome:?}");
            }
        },
    );
}
