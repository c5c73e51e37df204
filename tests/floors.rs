//! No module imports from a higher floor: the layers of the design, read off the source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module below `src` with its floor. Modules of one floor may use each other.
const FLOORS: &[(&str, u8)] = &[
    // 0: values, validated once, and what needs nothing but them.
    ("chain", 0),
    ("error", 0),
    ("excerpt", 0),
    ("hook", 0),
    ("options", 0),
    ("named", 0),
    ("outcome", 0),
    ("place", 0),
    ("platform", 0),
    ("prefixes", 0),
    ("rule", 0),
    ("table", 0),
    ("words", 0),
    // 1: pure, what the updater knows.
    ("index", 1),
    // 2: pure, what goes to iptables and what comes back.
    ("edit", 2),
    ("failure", 2),
    ("fingerprint", 2),
    ("restore_input", 2),
    ("save", 2),
    ("stub", 2),
    ("transaction", 2),
    // 3: what touches the world.
    ("deadline", 3),
    ("executor", 3),
    ("retry", 3),
    // 4: the public operations.
    ("batch", 4),
    ("stats", 4),
    ("table_set", 4),
    ("updater", 4),
    // 5
    ("guide", 5),
    ("worker", 5),
];

/// One use of a module of the crate.
#[derive(Debug)]
struct Use {
    file: PathBuf,
    line: usize,
    from: String,
    to: String,
}

fn source_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// The source without comments, string contents and its module of tests; newlines stay, so that lines can be counted.
fn code_of(text: &str) -> String {
    let text = without_tests(text);
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let in_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = raw_string_length(rest).filter(|_| !in_word) {
            length
        } else if c == '"' {
            string_length(rest)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        code.extend(rest[..skip].matches('\n'));
        rest = &rest[skip..];
    }
    code
}

/// The source with empty lines in place of the module of tests, which ends at the next brace that begins a line.
fn without_tests(text: &str) -> String {
    let Some(start) = text.find("#[cfg(test)]\nmod tests {") else {
        return text.to_owned();
    };
    let end = text[start..]
        .find("\n}\n")
        .map_or(text.len(), |at| start + at + 3);
    let lines: String = text[start..end].matches('\n').collect();
    [&text[..start], &lines, &text[end..]].concat()
}

/// The length of the raw string with which the text begins, with however many hashes: no backslash escapes in it.
fn raw_string_length(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let content = after[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let end = content.find(&closing)?;
    Some(1 + hashes + 1 + end + closing.len())
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let closing = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        closing
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The path of modules that a file is: `src/updater/plan/diff.rs` is `updater::plan::diff`.
fn modules_of(src: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(src).unwrap().with_extension("");
    path.iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect()
}

/// The first names of a path that goes on with `rest`: `a` of `a::b`, `a` and `c` of `{a::b, c}`.
fn first_names(rest: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        let text = text.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let Some(group) = rest.trim_start().strip_prefix('{') else {
        return vec![word(rest)];
    };
    let mut depth = 0;
    let mut names = vec![word(group)];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// What the crate's root gives out, by the module that it comes from: `Chain` is `chain`'s.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in root
        .split(';')
        .filter_map(|s| s.trim().strip_prefix("pub use "))
    {
        let (module, rest) = statement.split_once("::").unwrap();
        let names = rest.replace(['{', '}', '\n', ':'], " ").replace(',', " ");
        for name in names.split_whitespace() {
            exports.insert(name.to_owned(), module.to_owned());
        }
    }
    exports
}

/// The modules that a file uses, with the line of each use.
fn uses(file: &Path, from: &[String], code: &str, exports: &BTreeMap<String, String>) -> Vec<Use> {
    let mut uses = Vec::new();
    for (at, keyword) in code
        .match_indices("crate::")
        .chain(code.match_indices("super::"))
    {
        let before = &code[..at];
        // `$crate::`, or a later part of `super::super::`, which its beginning has dealt with.
        if before.ends_with("::") || before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let (mut up, mut rest) = (0, &code[at..]);
        while let Some(after) = rest.strip_prefix("super::") {
            (up, rest) = (up + 1, after);
        }
        if keyword == "super::" && up < from.len() {
            continue; // Stays in its own module of the top.
        }
        let rest = rest.strip_prefix("crate::").unwrap_or(rest);
        for name in first_names(rest) {
            let to = exports.get(&name).cloned().unwrap_or(name);
            uses.push(Use {
                file: file.to_owned(),
                line: before.matches('\n').count() + 1,
                from: from[0].clone(),
                to,
            });
        }
    }
    uses
}

/// What is wrong with a use, if something is.
fn fault(one: &Use, floors: &BTreeMap<&str, u8>) -> Option<String> {
    let place = format!("{}:{}", one.file.display(), one.line);
    match (floors.get(&*one.from), floors.get(&*one.to)) {
        (Some(from), Some(to)) if to > from => Some(format!(
            "{place}: {} (floor {from}) uses {} (floor {to})",
            one.from, one.to
        )),
        (Some(_), Some(_)) => None,
        _ => Some(format!(
            "{place}: {} -> {}: no floor is known",
            one.from, one.to
        )),
    }
}

#[test]
fn no_import_points_upwards() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let exports = exports(&code_of(&fs::read_to_string(src.join("lib.rs")).unwrap()));
    assert_eq!(exports["MemoryExecutor"], "executor");
    let mut files = Vec::new();
    source_files(&src, &mut files);
    files.sort();
    let (mut faults, mut seen, mut count) = (Vec::new(), Vec::new(), 0);
    for file in &files {
        let modules = modules_of(&src, file);
        if modules == ["lib"] {
            continue;
        }
        // Tests in files of their own may use whatever they like.
        if modules.last().is_some_and(|name| name.ends_with("tests")) {
            continue;
        }
        let text = fs::read_to_string(file).unwrap();
        seen.push(modules[0].clone());
        if !floors.contains_key(&*modules[0]) {
            faults.push(format!("{}: no floor is known", file.display()));
        }
        let found = uses(file, &modules, &code_of(&text), &exports);
        count += found.len();
        faults.extend(found.iter().filter_map(|one| fault(one, &floors)));
    }
    for module in floors
        .keys()
        .filter(|module| !seen.iter().any(|s| s == *module))
    {
        faults.push(format!("{module} has a floor, and no file"));
    }
    // That it sees anything at all.
    assert!(count > 200, "only {count} uses found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_points_upwards_is_found_in_every_form() {
    let exports = exports("pub use chain::{Chain, ChainName};\npub use updater::Plan;\n");
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let faults = |modules: &[&str], code: &str| {
        let modules: Vec<String> = modules.iter().map(|name| (*name).to_owned()).collect();
        let found = uses(Path::new("x.rs"), &modules, &code_of(code), &exports);
        found
            .iter()
            .filter(|one| fault(one, &floors).is_some())
            .count()
    };
    assert_eq!(faults(&["chain"], "use crate::worker::Handle;"), 1);
    assert_eq!(
        faults(
            &["chain"],
            "use crate::{rule::{A, B}, executor::C,\n    Plan};"
        ),
        2
    );
    assert_eq!(faults(&["chain"], "fn f() -> crate::Plan {}"), 1);
    assert_eq!(faults(&["chain"], "use super::worker;"), 1);
    assert_eq!(
        faults(&["save", "parse"], "use super::super::updater::X;"),
        1
    );
    assert_eq!(faults(&["save", "parse"], "use super::updater;"), 0);
    assert_eq!(
        faults(
            &["worker"],
            "use crate::{Plan, Chain}; use crate::updater::X;"
        ),
        0
    );
    assert_eq!(
        faults(
            &["chain"],
            "/// [`crate::Plan`]\nf(\"crate::Plan\"); // crate::worker"
        ),
        0
    );
    assert_eq!(
        faults(
            &["chain"],
            "#[cfg(test)]\nmod tests {\n    use crate::Plan;\n}\n\nuse crate::worker;"
        ),
        1,
        "what stands behind the tests counts, the tests don't"
    );
    for raw in [r#"r"a\""#, "r#\"a\"b\"#", "r##\"a\"#b\"##"] {
        let code = format!("const A: &str = {raw}; use crate::worker;");
        assert_eq!(faults(&["chain"], &code), 1, "{code}");
        let code = format!("const A: &str = \"\"; f({raw}, \"crate::worker\");");
        assert_eq!(faults(&["chain"], &code), 0, "{code}");
    }
    assert_eq!(faults(&["chain"], "use crate::nobody_knows;"), 1);
    assert_eq!(faults(&["nobody"], "use crate::chain;"), 1);
}
