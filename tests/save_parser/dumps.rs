//! Every dump of the folder `shared/dumps`, where it lies beside the checkout or is named by
//! `IPTABLES_UPDATER_SHARED`: saves of many versions and programs, some of them not quite saves.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use iptables_updater::{SaveError, SavedTable, Table};

/// The files that aren't saves: the first line that is wrong, and why.
const INVALID: &[(&str, usize, &str)] = &[
    ("assignment02.rules", 3, "a shell prompt before the save"),
    ("docker-no-userland-proxy-2020.rules", 2, "carriage returns"),
    (
        "multipath-routing.rules",
        75,
        "-I: written by hand for iptables-restore",
    ),
    (
        "openwrt-attitude-adjustment.rules",
        1,
        "a shell prompt, carriage returns, wrapped lines",
    ),
    (
        "veroneau.rules",
        2,
        "a blank at the end of every line, of *filter too",
    ),
];

fn dumps() -> Option<Vec<PathBuf>> {
    let shared = std::env::var_os("IPTABLES_UPDATER_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let files = std::fs::read_dir(shared.join("dumps")).ok()?;
    let mut dumps: Vec<_> = files
        .map(|file| file.expect("the folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "rules"))
        .collect();
    dumps.sort();
    Some(dumps)
}

/// Chains and rules of each table, counted by the beginnings of the lines alone.
fn naive_count(text: &str) -> BTreeMap<&str, (usize, usize)> {
    let mut tables = BTreeMap::new();
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
            tables.insert(table, (0, 0));
        }
        let Some((chains, rules)) = tables.get_mut(table) else {
            continue;
        };
        if line.starts_with(':') {
            *chains += 1;
        } else if line.starts_with("-A ") || line.starts_with('[') {
            *rules += 1;
        }
    }
    tables
}

#[test]
fn every_dump_is_read_as_counted_or_refused_with_the_line() {
    let Some(dumps) = dumps() else {
        let test = "every_dump_is_read_as_counted_or_refused_with_the_line";
        let _ = writeln!(std::io::stderr(), "skipped: {test}: no folder shared/dumps");
        return;
    };
    assert!(!dumps.is_empty());
    for path in dumps {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let output = std::fs::read(&path).expect(&name);
        let text = std::str::from_utf8(&output).expect(&name);
        let invalid = INVALID.iter().find(|(file, ..)| *file == name);
        let counts = naive_count(text);
        for table in Table::ALL {
            let read = SavedTable::parse(&output, table);
            if let Some((_, line, why)) = invalid {
                let error = read.expect_err(&name);
                assert_eq!(line_of(&error), Some(*line), "{name} ({why}): {error}");
                println!("{name}: {error} ({why})");
                continue;
            }
            let counted = counts.get(table.name());
            match (read, counted) {
                (Ok(saved), Some(counted)) => {
                    let rules = saved.chains().map(|chain| chain.rules().len()).sum();
                    assert_eq!((saved.chains().len(), rules), *counted, "{name} {table}");
                }
                (Err(SaveError::NoTable), None) => {}
                (read, counted) => panic!("{name} {table}: {counted:?}, but {read:?}"),
            }
        }
    }
}

fn line_of(error: &SaveError) -> Option<usize> {
    match error {
        SaveError::Unexpected { line, .. }
        | SaveError::NoCommit { line }
        | SaveError::UnterminatedQuote { line } => Some(*line),
        _ => None,
    }
}
