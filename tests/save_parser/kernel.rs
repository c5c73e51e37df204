//! What the real iptables-save prints of awkward rules.

use std::process::{Command, Stdio};

use iptables_updater::{Backend, Counters, IpVersion, Policy, SavedChain, SavedTable, Table};

use crate::common::{Kernel, each_kernel};

/// The output of `iptables-save -t TABLE` with further options, as bytes.
pub fn saved(kernel: Kernel, table: Table, options: &[&str]) -> Vec<u8> {
    let output = Command::new(kernel.program("save"))
        .args(["-t", table.name()])
        .args(options)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .expect("iptables-save");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Runs the plain command with these words, which may hold anything.
pub fn iptables(kernel: Kernel, words: &[&str]) {
    let output = Command::new(kernel.program(""))
        .args(["-w", "10"])
        .args(words)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .expect("iptables");
    assert!(output.status.success(), "{kernel:?} {words:?}: {output:?}");
}

#[test]
fn awkward_comments_and_names_are_read_back() {
    let comments = [
        "two\nlines",
        "x\nCOMMIT\n*nat\n:EVIL - [0:0]\n-A EVIL -j c",
        "a \" -j EVIL \\",
        "it's",
        "\\",
        "\"",
        "\n",
        "",
        "-j",
        "-g",
        "--comment",
        "ünï",
        "\t",
        "# Table `filter' is incompatible, use 'nft' tool.",
    ];
    let names = ["a\"b", "\"c", "d'e\\", "#f", "*g", ":h", "[1:2]", "ü"];
    each_kernel("awkward_comments_and_names_are_read_back", |kernel| {
        for name in names {
            iptables(kernel, &["-N", name]);
        }
        let mut expected = Vec::new();
        for (at, comment) in comments.iter().enumerate() {
            let target = names[at % names.len()];
            let jump = if at % 2 == 0 { "-j" } else { "-g" };
            let words = [
                "-A",
                "INPUT",
                "-m",
                "comment",
                "--comment",
                comment,
                jump,
                target,
            ];
            iptables(kernel, &words);
            expected.push(("INPUT", target));
        }
        for interface in ["e\"f", "\"g", "-j"] {
            iptables(kernel, &["-A", "INPUT", "-i", interface, "-j", "DROP"]);
            expected.push(("INPUT", "DROP"));
        }
        for name in ["\"r", "-j"] {
            let words = [
                "-A", "INPUT", "-m", "recent", "--set", "--name", name, "-j", "DROP",
            ];
            iptables(kernel, &words);
            expected.push(("INPUT", "DROP"));
        }
        for prefix in ["-j", "x: ", "\""] {
            iptables(
                kernel,
                &["-A", "INPUT", "-j", "LOG", "--log-prefix", prefix],
            );
            expected.push(("INPUT", "LOG"));
        }
        for pattern in ["a\\\" -j EVIL b", "a\\", "'\""] {
            let words = [
                "-m", "string", "--algo", "bm", "--string", pattern, "-j", "DROP",
            ];
            iptables(kernel, &[&["-A", "INPUT"][..], &words].concat());
            expected.push(("INPUT", "DROP"));
        }
        // The chains are printed in the order of their names' bytes.
        for name in ["\"c", "#f", "*g", ":h", "[1:2]", "a\"b", "d'e\\", "ü"] {
            iptables(kernel, &["-A", name, "-j", "RETURN"]);
            expected.push((name, "RETURN"));
        }
        for options in [&[][..], &["-c"]] {
            let output = saved(kernel, Table::Filter, options);
            let read = SavedTable::parse(&output, Table::Filter).expect("a save");
            assert_eq!(
                read.references().collect::<Vec<_>>(),
                expected,
                "{kernel:?}"
            );
            assert_eq!(read.chains().len(), 3 + names.len());
            assert_eq!(read.notices().len(), 0);
        }
    });
}

#[test]
fn counters_are_read_where_they_are_asked_for() {
    each_kernel("counters_are_read_where_they_are_asked_for", |kernel| {
        iptables(kernel, &["-N", "own"]);
        iptables(kernel, &["-A", "own", "-c", "7", "800", "-j", "RETURN"]);
        iptables(kernel, &["-A", "own"]);
        let rules = |options: &[&str]| {
            let output = saved(kernel, Table::Filter, options);
            let read = SavedTable::parse(&output, Table::Filter).expect("a save");
            let rules = read.chain("own").expect("own").rules();
            rules
                .map(|rule| (rule.text().to_owned(), rule.counters()))
                .collect::<Vec<_>>()
        };
        let count = |packets, bytes| Some(Counters { packets, bytes });
        let jump = || "-j RETURN".to_owned();
        assert_eq!(rules(&[]), [(jump(), None), (String::new(), None)]);
        // ip6tables-nft 1.8.9 takes the numbers and forgets them.
        let forgets = kernel.version == IpVersion::V6 && kernel.backend == Backend::NfTables;
        let given = if forgets { count(0, 0) } else { count(7, 800) };
        let counted = [(jump(), given), (String::new(), count(0, 0))];
        assert_eq!(rules(&["-c"]), counted);
    });
}

#[test]
fn every_table_of_a_fresh_namespace_has_its_kernel_chains() {
    each_kernel(
        "every_table_of_a_fresh_namespace_has_its_kernel_chains",
        |kernel| {
            for table in Table::ALL {
                let output = saved(kernel, table, &[]);
                let read = SavedTable::parse(&output, table).expect("a save");
                let mut names: Vec<_> = read.chains().map(SavedChain::name).collect();
                names.sort_unstable();
                let mut expected: Vec<_> = table
                    .kernel_chains()
                    .iter()
                    .map(|chain| chain.name())
                    .collect();
                expected.sort_unstable();
                assert_eq!(names, expected, "{table} of {kernel:?}");
                assert!(
                    read.chains()
                        .all(|chain| chain.policy() == Some(Policy::Accept))
                );
            }
        },
    );
}
