//! Any text as a rule, a name, a prefix: what is accepted is one rule of one chain and nothing else.

use iptables_updater::{
    Backend, Chain, ChainName, IntoRule as _, IpVersion, MemoryExecutor, Prefixes, Rule, Table,
};

use super::canned::{builder, is_ours_alone};
use super::presentable;

const OTHERS: &str =
    "*filter\n:other - [0:0]\n-A other -p tcp -j RETURN\n-A INPUT -j other\nCOMMIT\n";

pub fn rule(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    name(&text);
    match (&*text).into_rule("web-t") {
        Ok(rule) => accepted(&rule),
        Err(error) => presentable(&error),
    }
    match Rule::new(&text) {
        Ok(rule) => accepted(&rule),
        Err(error) => presentable(&error),
    }
    match Rule::from_words(text.split('\t')) {
        Ok(rule) => accepted(&rule),
        Err(error) => presentable(&error),
    }
}

fn name(text: &str) {
    match ChainName::new(text) {
        Ok(name) => {
            let unfit = |c: char| c.is_control() || c.is_whitespace() || c == '"';
            assert_eq!(name.as_str(), text);
            assert!(!text.contains(unfit) && text.len() <= 28, "{text:?}");
            assert!(!text.starts_with(['-', '!']), "{text:?}");
        }
        Err(error) => presentable(&error),
    }
    if let Err(error) = Prefixes::new([text]) {
        presentable(&error);
    }
}

fn accepted(rule: &Rule) {
    let text = rule.as_str();
    assert_eq!(Rule::new(text).as_ref(), Ok(rule));
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.len() <= Rule::MAX_BYTES);
    // A quoted word may be an option, too.
    assert!(
        text.trim_start_matches('"').starts_with(['-', '!']),
        "{text:?}"
    );
    for backend in [Backend::NfTables, Backend::Legacy] {
        written(rule, backend);
    }
}

/// Whatever iptables makes of it, at most one rule comes of it, in its chain.
fn written(rule: &Rule, backend: Backend) {
    let kernel = MemoryExecutor::new(IpVersion::V4, backend);
    kernel.with_other_program(|other| assert!(other.restore(OTHERS).exit.is_success()));
    let before = others(&kernel);
    let mut updater = builder().open(kernel.clone()).unwrap();
    let empty = updater.index().clone();
    let chain = Chain::new("web-t", [rule]).unwrap();
    match updater.rewrite_chains([chain]) {
        Ok(_) => {
            assert_eq!(
                kernel.rules(Table::Filter, "web-t").unwrap().len(),
                1,
                "{rule}"
            );
            assert!(updater.verify().unwrap().is_empty(), "{rule}");
        }
        Err(error) => {
            presentable(&error);
            assert_eq!(kernel.rules(Table::Filter, "web-t"), None, "{rule}");
            assert_eq!(*updater.index(), empty);
        }
    }
    assert_eq!(others(&kernel), before, "{rule}");
    for entry in kernel.journal() {
        entry.input().into_iter().for_each(is_ours_alone);
    }
}

/// The table without our chains.
fn others(kernel: &MemoryExecutor) -> Vec<(String, Vec<String>)> {
    let mut chains = kernel.chains(Table::Filter);
    chains.retain(|name| !name.starts_with("web-"));
    let rules = |name: String| {
        let rules = kernel.rules(Table::Filter, &name).unwrap();
        (name, rules)
    };
    chains.into_iter().map(rules).collect()
}
