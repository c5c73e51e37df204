//! Any bytes as what iptables-save printed.

use iptables_updater::{Backend, Chain, Outcome, Policy, SavedTable, Table};

use super::canned::{Canned, builder};
use super::presentable;

pub fn save(data: &[u8]) {
    for table in [Table::Filter, Table::Nat] {
        match SavedTable::parse(data, table) {
            Ok(saved) => whole(&saved, data),
            Err(error) => presentable(&error),
        }
    }
    used(data);
}

fn whole(saved: &SavedTable<'_>, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut names = std::collections::HashSet::new();
    let mut rules = 0;
    for chain in saved.chains() {
        assert!(names.insert(chain.name()), "{:?} twice", chain.name());
        assert!(!chain.name().contains('\n'));
        let found = saved.chain(chain.name()).expect("a chain by its name");
        assert_eq!(found.rules().len(), chain.rules().len());
        for rule in chain.rules() {
            rules += 1;
            assert!(text.contains(rule.text()));
            let _ = rule.counters();
            if let Some(target) = rule.target() {
                assert!(rule.text().contains(target));
            }
        }
    }
    assert!(rules <= text.lines().count());
    assert!(saved.references().count() <= rules);
    assert!(
        saved
            .notices()
            .all(|notice| notice.starts_with('#') && !notice.contains('\n'))
    );
    let odd = |name: &str| name.is_empty() || name.contains(' ');
    if !names.iter().any(|name| odd(name)) {
        printed_again(saved);
    }
}

/// Printed as iptables-save does, it reads the same.
fn printed_again(saved: &SavedTable<'_>) {
    let mut text = format!("*{}\n", saved.table());
    for chain in saved.chains() {
        text.push_str(&format!(
            ":{} {} [0:0]\n",
            chain.name(),
            chain.policy().map_or("-", Policy::name)
        ));
    }
    for chain in saved.chains() {
        for rule in chain.rules() {
            text.push_str(&format!("-A {} {}\n", chain.name(), rule.text()));
        }
    }
    text.push_str("COMMIT\n");
    let again = SavedTable::parse(text.as_bytes(), saved.table()).expect(&text);
    let view = |saved: &SavedTable<'_>| {
        let chains = saved.chains().map(|chain| {
            let rules = chain.rules();
            let rules =
                rules.map(|rule| (rule.text().to_owned(), rule.target().map(str::to_owned)));
            (
                chain.name().to_owned(),
                chain.policy(),
                rules.collect::<Vec<_>>(),
            )
        });
        chains.collect::<Vec<_>>()
    };
    assert_eq!(view(&again), view(saved), "{text:?}");
}

/// An updater that reads this of its table writes to its own chains all the same, and to no other.
fn used(data: &[u8]) {
    let opened = builder().open(Canned {
        saved: Outcome::success(data),
        restored: Outcome::success(""),
        backend: Backend::NfTables,
    });
    let mut updater = match opened {
        Ok(updater) => updater,
        Err(error) => return presentable(&error),
    };
    let chain = Chain::new("web-a", ["-j web-b", "-j RETURN"]).unwrap();
    let results = [
        updater.chains().map(drop),
        updater.rules("web-a").map(drop),
        updater.rules_with_counters("INPUT").map(drop),
        updater.verify().map(drop),
        updater.rewrite_chains([chain]).map(drop),
        updater.ensure_rule_inserted("INPUT", "-j web-a"),
        updater.verify().map(drop),
        updater.refresh().map(drop),
        updater.cleanup().map(drop),
        updater.delete_chains(["web-a"]).map(drop),
        updater.cleanup().map(drop),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        presentable(&error);
    }
}
