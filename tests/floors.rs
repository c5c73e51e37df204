//! No import points upwards: each module of the library stands on a floor, and uses only what is on its own floor or below.
//!
//! A new module has to be given a floor here.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The modules at the top of `src`, floor by floor, from the values at the bottom to the worker at the top.
const FLOORS: [&[&str]; 7] = [
    // Values, checked once.
    &[
        "chain", "deadline", "error", "excerpt", "hook", "options", "outcome", "platform", "rule",
        "table", "words",
    ],
    // What is known of the chains, and what changes it.
    &["index"],
    // Pure: what a batch comes to, texts for iptables and from it.
    &[
        "edit",
        "failure",
        "fingerprint",
        "restore_input",
        "save",
        "stub",
        "transaction",
    ],
    // The seam to iptables, real and simulated; time and numbers.
    &["executor", "retry", "stats"],
    // What a program works with.
    &["batch", "updater"],
    &["table_set"],
    // A thread that drives it; and what is written about all of it.
    &["guide", "worker"],
];

/// Where they are, if the test runs beside them.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

fn floors() -> BTreeMap<&'static str, usize> {
    let floors = FLOORS.iter().enumerate();
    floors
        .flat_map(|(floor, modules)| modules.iter().map(move |module| (*module, floor)))
        .collect()
}

/// All source files of the library, each with the module at the top to which it belongs.
fn sources(directory: &Path, top: Option<&str>, found: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(directory).expect("the sources") {
        let path = entry.expect("an entry").path();
        let stem = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let module = top.unwrap_or(&stem).to_owned();
        if path.is_dir() {
            sources(&path, Some(&module), found);
        } else if path.extension().is_some_and(|end| end == "rs") && module != "lib" {
            // `rule_tests.rs` belongs to `rule`.
            let tested = module.strip_suffix("_refused_tests");
            let tested = tested.or(module.strip_suffix("_tests"));
            found.push((tested.unwrap_or(&module).to_owned(), path));
        }
    }
}

/// What the crate's root names, and the module from which each comes.
fn re_exports() -> BTreeMap<String, String> {
    let root = fs::read_to_string(Path::new(SOURCES).join("lib.rs")).expect("the root");
    let mut exports = BTreeMap::new();
    for statement in root.split("\npub use ").skip(1) {
        let statement = statement.split(';').next().expect("a statement");
        let (module, _) = statement.split_once("::").expect("a path");
        for name in statement.split(|c: char| !c.is_alphanumeric() && c != '_') {
            exports.insert(name.to_owned(), module.to_owned());
        }
    }
    exports
}

/// The first names of the paths into the crate in a source: `chain` and `Rule` of `use crate::{chain::Prefixes, Rule}`.
fn used(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut names = Vec::new();
    for path in code.split("crate::").skip(1) {
        let name = |text: &str| -> String {
            let word = |c: &char| c.is_alphanumeric() || *c == '_';
            text.chars().take_while(word).collect()
        };
        let Some(list) = path.strip_prefix('{') else {
            names.push(name(path));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (at, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    names.push(name(list[start..at].trim()));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.push(name(list[start..at].trim()));
                    start = at + 1;
                }
                _ => {}
            }
        }
    }
    names.retain(|name| !name.is_empty() && name != "self");
    names
}

#[test]
fn no_import_points_upwards() {
    if fs::read_dir(SOURCES).is_err() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no_import_points_upwards: no sources"
        );
        return;
    }
    let floors = floors();
    let exports = re_exports();
    let mut files = Vec::new();
    sources(Path::new(SOURCES), None, &mut files);
    assert!(files.len() > 80, "{files:?}");
    let mut imports = 0;
    for (module, path) in files {
        let floor = floors.get(module.as_str());
        let floor = floor.unwrap_or_else(|| panic!("{module} ({}) has no floor", path.display()));
        let source = fs::read_to_string(&path).expect("a source");
        // What tests use is no matter of floors.
        let tested = path.to_string_lossy().contains("tests.rs");
        let code = source.split("#[cfg(test)]\nmod tests {").next();
        for name in used(code.unwrap_or_default()) {
            let from = exports.get(&name).unwrap_or(&name);
            let below = floors.get(from.as_str());
            let below = below.unwrap_or_else(|| panic!("{}: what is {name}?", path.display()));
            imports += 1;
            assert!(
                tested || below <= floor,
                "{} on floor {floor} uses {name} of {from} on floor {below}",
                path.display()
            );
        }
    }
    assert!(imports > 300, "{imports}");
}

#[test]
fn paths_are_found_in_any_form() {
    let source = "use crate::{Chain, error::{Error, X}, index::Index};\nfn f() { crate::excerpt::of(x) }\n// crate::no\n";
    assert_eq!(used(source), ["Chain", "error", "index", "excerpt"]);
}
