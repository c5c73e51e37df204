//! The saves under `tests/data/saves`: what is in them, and that iptables-save prints them so.

use iptables_updater::{IpVersion, Policy, SaveError, SavedTable, Table};

use crate::common::{each_kernel, in_namespace};

fn file(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/saves");
    std::fs::read(format!("{folder}/{name}.save")).expect(name)
}

#[test]
fn each_file_has_the_chains_rules_and_references_it_was_written_with() {
    let cases = [
        ("fresh", Table::Filter, 3, 0, 0),
        ("docker-like", Table::Nat, 5, 5, 2),
        ("docker-like", Table::Filter, 7, 11, 4),
        ("kube-like", Table::Nat, 10, 14, 9),
        ("firewalld-like", Table::Filter, 9, 14, 7),
        ("firewalld-like", Table::Mangle, 6, 1, 1),
        ("counters", Table::Filter, 4, 4, 1),
        ("v6-host", Table::Raw, 2, 1, 0),
        ("v6-host", Table::Filter, 4, 5, 1),
        ("comments", Table::Filter, 4, 5, 3),
        ("nft-names", Table::Filter, 9, 7, 6),
    ];
    for (name, table, chains, rules, between_chains) in cases {
        let output = file(name);
        let saved = SavedTable::parse(&output, table).expect(name);
        assert_eq!(saved.chains().len(), chains, "chains of {name}");
        let count: usize = saved.chains().map(|chain| chain.rules().len()).sum();
        assert_eq!(count, rules, "rules of {name}");
        let references = saved
            .references()
            .filter(|(_, to)| saved.chain(to).is_some());
        assert_eq!(references.count(), between_chains, "references in {name}");
    }
}

#[test]
fn the_awkward_files_read_as_meant() {
    let output = file("nft-names");
    let saved = SavedTable::parse(&output, Table::Filter).unwrap();
    assert_eq!(saved.notices().len(), 1);
    let references: Vec<_> = saved.references().collect();
    assert_eq!(
        references,
        [
            ("INPUT", ""),
            ("INPUT", "a b"),
            ("INPUT", "q\"r"),
            ("", "-dash"),
            ("a", "PREROUTING"),
            ("a b", "a"),
            ("q\"r", "RETURN"),
        ]
    );
    assert!(matches!(
        SavedTable::parse(&output, Table::Nat),
        Err(SaveError::Incompatible { line: 23, .. })
    ));

    let output = file("comments");
    let saved = SavedTable::parse(&output, Table::Filter).unwrap();
    assert!(saved.chain("EVIL").is_none());
    let references: Vec<_> = saved.references().collect();
    let web = ("INPUT", "web");
    assert_eq!(references, [web, web, web, ("web", "DROP")]);
}

#[test]
fn a_file_that_is_no_save_gives_an_error_that_names_the_line() {
    let error = |name| SavedTable::parse(&file(name), Table::Filter).unwrap_err();
    assert_eq!(error("cut-off"), SaveError::NoCommit { line: 7 });
    let SaveError::Unexpected { line, text } = error("hand-made-crlf") else {
        panic!("{}", error("hand-made-crlf"));
    };
    assert_eq!((line, text.as_str()), (2, "*filter\r"));
}

/// A chain's name and policy, and its rules.
type Chain = (String, Option<Policy>, Vec<String>);

fn chains(saved: &SavedTable<'_>) -> Vec<Chain> {
    saved
        .chains()
        .map(|chain| {
            let rules = chain.rules().map(|rule| rule.text().to_owned());
            let policy = chain.policy();
            (chain.name().to_owned(), policy, rules.collect())
        })
        .collect()
}

/// So the files show what iptables-save prints, not what we believe it does.
#[test]
fn a_file_that_is_loaded_is_saved_the_same() {
    each_kernel("a_file_that_is_loaded_is_saved_the_same", |kernel| {
        let files: &[&str] = match kernel.version {
            IpVersion::V4 => &[
                "fresh",
                "docker-like",
                "kube-like",
                "firewalld-like",
                "counters",
            ],
            IpVersion::V6 => &["fresh", "v6-host"],
        };
        for name in files {
            in_namespace(|| {
                let output = file(name);
                kernel.must_restore(std::str::from_utf8(&output).unwrap());
                for table in Table::ALL {
                    let written = match SavedTable::parse(&output, table) {
                        Ok(written) => written,
                        Err(SaveError::NoTable) => continue,
                        Err(error) => panic!("{name}: {error}"),
                    };
                    let now = kernel.save(table);
                    let now = SavedTable::parse(now.as_bytes(), table).unwrap();
                    assert_eq!(chains(&now), chains(&written), "{name} on {kernel:?}");
                }
            });
        }
    });
}
