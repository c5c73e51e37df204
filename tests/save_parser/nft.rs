//! Tables in which nft has put chains and rules of its own.

use std::io::Write as _;
use std::process::{Command, Stdio};

use iptables_updater::{Backend, IpVersion, SaveError, SavedTable, Table};

use crate::common::{Kernel, each_kernel_of};
use crate::kernel::{iptables, saved};

/// Whether these tests can run: `nft` comes in a package of its own (`nftables`).
fn nft_is_there(test: &str) -> bool {
    let found = Command::new("nft")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        assert!(
            std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL").is_none_or(|v| v != "1"),
            "{test} needs nft: install the package nftables"
        );
        let _ = writeln!(std::io::stderr(), "skipped: {test}: nft isn't there");
    }
    found
}

/// Runs `nft` on a script, in which `FAMILY` stands for the kernel's; one that begins with a brace is JSON.
fn nft(kernel: Kernel, script: &str) {
    let family = match kernel.version {
        IpVersion::V4 => "ip",
        IpVersion::V6 => "ip6",
    };
    let mut child = Command::new("nft")
        .args(script.starts_with('{').then_some("-j"))
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nft");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin
        .write_all(script.replace("FAMILY", family).as_bytes())
        .expect("nft reads");
    drop(stdin);
    let output = child.wait_with_output().expect("nft");
    assert!(output.status.success(), "{script}: {output:?}");
}

#[test]
fn a_rule_that_only_nft_can_express_makes_its_table_unreadable() {
    let test = "a_rule_that_only_nft_can_express_makes_its_table_unreadable";
    if !nft_is_there(test) {
        return;
    }
    each_kernel_of(Backend::NfTables, test, |kernel| {
        for table in [Table::Filter, Table::Mangle] {
            iptables(kernel, &["-t", table.name(), "-A", "INPUT", "-j", "ACCEPT"]);
        }
        nft(
            kernel,
            "add rule FAMILY filter INPUT ct state established accept",
        );
        let output = saved(kernel, Table::Filter, &[]);
        let error = SavedTable::parse(&output, Table::Filter).unwrap_err();
        let SaveError::Incompatible { line, notice } = &error else {
            panic!("{error}");
        };
        let expected = "# Table `filter' is incompatible, use 'nft' tool.";
        assert_eq!((*line, notice.as_str()), (1, expected));

        let output = saved(kernel, Table::Mangle, &[]);
        let mangle = SavedTable::parse(&output, Table::Mangle).unwrap();
        assert_eq!(
            mangle.references().collect::<Vec<_>>(),
            [("INPUT", "ACCEPT")]
        );
    });
}

#[test]
fn a_base_chain_that_only_nft_shows_is_a_notice() {
    let test = "a_base_chain_that_only_nft_shows_is_a_notice";
    if !nft_is_there(test) {
        return;
    }
    each_kernel_of(Backend::NfTables, test, |kernel| {
        iptables(kernel, &["-A", "INPUT", "-j", "ACCEPT"]);
        let chain = "add chain FAMILY filter input { type filter hook input priority -10; }";
        nft(kernel, chain);
        let output = saved(kernel, Table::Filter, &[]);
        let read = SavedTable::parse(&output, Table::Filter).unwrap();
        let notice =
            "# Table `filter' contains incompatible base-chains, use 'nft' tool to list them.";
        assert_eq!(read.notices().collect::<Vec<_>>(), [notice]);
        assert_eq!(read.references().collect::<Vec<_>>(), [("INPUT", "ACCEPT")]);
    });
}

#[test]
fn names_that_only_nft_can_give_are_told_apart() {
    let test = "names_that_only_nft_can_give_are_told_apart";
    if !nft_is_there(test) {
        return;
    }
    // nft itself can't write a jump to the empty name.
    let names = ["", "a", "a b", "a b c", "-dash", "ACCEPT"];
    let jumps = [
        ("INPUT", "a b c"),
        ("", "a b"),
        ("-dash", "a b"),
        ("a", "-dash"),
        ("a b", "a"),
        ("a b c", "ACCEPT"),
    ];
    each_kernel_of(Backend::NfTables, test, |kernel| {
        iptables(kernel, &["-P", "INPUT", "DROP"]);
        for name in names {
            let chain = format!(r#"{{"family":"FAMILY","table":"filter","name":"{name}"}}"#);
            nft(
                kernel,
                &format!(r#"{{"nftables":[{{"add":{{"chain":{chain}}}}}]}}"#),
            );
        }
        for (from, to) in jumps {
            let place = format!(r#""family":"FAMILY","table":"filter","chain":"{from}""#);
            let rule = format!(r#"{{{place},"expr":[{{"jump":{{"target":"{to}"}}}}]}}"#);
            nft(
                kernel,
                &format!(r#"{{"nftables":[{{"add":{{"rule":{rule}}}}}]}}"#),
            );
        }
        let output = saved(kernel, Table::Filter, &[]);
        let read = SavedTable::parse(&output, Table::Filter).unwrap();
        for name in names {
            assert!(read.chain(name).is_some(), "{name:?}");
        }
        assert_eq!(read.references().collect::<Vec<_>>(), jumps);
    });
}
