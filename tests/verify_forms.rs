//! Drift is told rightly for rules that iptables prints otherwise than they are written.
//!
//! `IPTABLES_UPDATER_CHAINS` is the number of chains in the untouched table (60 by default; by hand 2,000).

mod common;

use common::{Kernel, each_kernel};
use iptables_updater::{Chain, IpVersion, IptablesUpdater, Rule, Table};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The forms of the filter table that we and this kernel take.
fn forms(kernel: Kernel) -> Vec<Rule> {
    let forms = include_str!("data/rule-forms.txt");
    let filter = forms
        .lines()
        .filter_map(|line| line.strip_prefix("filter\t"));
    let rules = filter.filter_map(|form| Rule::new(form).ok());
    // IPv4 addresses are no addresses to ip6tables: those forms fall away there.
    rules
        .filter(|rule| {
            let input = format!("*filter\n:try - [0:0]\n-A try {rule}\nCOMMIT\n");
            let taken = kernel.restore(&input).status.success();
            kernel.must_restore("*filter\n:try - [0:0]\n-X try\nCOMMIT\n");
            taken
        })
        .collect()
}

#[test]
fn an_untouched_table_of_all_forms_has_no_drift_and_every_edit_is_reported() {
    let count = std::env::var("IPTABLES_UPDATER_CHAINS").map_or(60, |n| n.parse().unwrap());
    each_kernel(
        "an_untouched_table_of_all_forms_has_no_drift_and_every_edit_is_reported",
        |kernel| {
            let _ = std::process::Command::new("ipset")
                .args([
                    "create",
                    "okset",
                    "hash:ip",
                    "family",
                    if kernel.version == IpVersion::V4 {
                        "inet"
                    } else {
                        "inet6"
                    },
                ])
                .status();
            // What the forms jump to.
            kernel.must_restore("*filter\n:BAR - [0:0]\nCOMMIT\n");
            let forms = forms(kernel);
            let most = if kernel.version == IpVersion::V4 {
                120
            } else {
                90
            };
            assert!(forms.len() > most, "{}", forms.len());
            let updater = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
            let mut updater = updater.open(kernel.executor()).unwrap();
            let mut rng = StdRng::seed_from_u64(5);
            // Every form is somewhere; 2 to 6 rules a chain.
            let mut next = 0;
            let chains: Vec<_> = (0..count)
                .map(|n| {
                    let size = rng.random_range(2..=6).max(forms.len().div_ceil(count));
                    let rules = (0..size).map(|k| &forms[(next + k) % forms.len()]);
                    let chain = Chain::new(format!("web-{n}"), rules).unwrap();
                    next += size;
                    chain
                })
                .collect();
            assert!(next >= forms.len());
            updater.rewrite_chains(chains.clone()).unwrap();
            for _ in 0..3 {
                assert!(updater.verify().unwrap().is_empty());
            }

            let wanted = kernel.save(Table::Filter);
            let mut edits = [0; 4];
            for _ in 0..60 {
                let chain = &chains[rng.random_range(0..chains.len())];
                let (name, size) = (chain.name(), chain.rules().len());
                let at = rng.random_range(1..=size);
                let kind = rng.random_range(0..4);
                let edit = match kind {
                    0 => format!("-R {name} {at} -p 99 -j DROP"),
                    1 => format!("-I {name} {at} -p 99 -j DROP"),
                    2 => format!("-D {name} {at}"),
                    // The same rules in another order.
                    _ => format!("-D {name} 1\n-A {name} {}", chain.rules()[0]),
                };
                if kind == 3
                    && kernel
                        .rules(Table::Filter, name.as_str())
                        .unwrap()
                        .windows(2)
                        .all(|w| w[0] == w[1])
                {
                    continue;
                }
                kernel.must_restore(&format!("*filter\n{edit}\nCOMMIT\n"));
                let drift = updater.verify().unwrap();
                assert_eq!(drift.changed.len(), 1, "{edit}");
                assert_eq!(drift.changed[0].chain, *name, "{edit}");
                updater.refresh().unwrap();
                edits[kind] += 1;
            }
            assert!(edits.iter().all(|kind| *kind > 5), "{edits:?}");
            let rules = |saved: &str| {
                let lines = saved.lines().filter(|line| line.starts_with("-A"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(rules(&kernel.save(Table::Filter)), rules(&wanted));
            println!(
                "{kernel:?}: {} forms in {count} chains; edits {edits:?}",
                forms.len()
            );
        },
    );
}
