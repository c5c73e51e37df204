//! Whatever text is accepted as a rule adds exactly one rule to exactly the chain named, or is refused by
//! the tool and adds nothing: random texts and mutated real rules on the real kernel.
//!
//! `IPTABLES_UPDATER_RULES=10000` sets how many of each are tried; the numbers are the same in each run.

#[path = "../common/mod.rs"]
mod common;
mod mutate;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::{Kernel, each_kernel};
use iptables_updater::{IpVersion, Rule, Table};
use mutate::Random;

const BEFORE: &str = "-m comment --comment before -j RETURN";
const AFTER: &str = "-m comment --comment after -j RETURN";

/// Rules beside those of the list: IPv6, and what the list has few of.
const MORE_FORMS: &[(Table, &str)] = &[
    (Table::Filter, "-s 2001:db8::/32 -d 2001:db8::1 -j ACCEPT"),
    (Table::Filter, "! -s 2001:db8::1/ffff:: -j DROP"),
    (Table::Filter, "-p ipv6-icmp --icmpv6-type 128 -j ACCEPT"),
    (Table::Filter, "-m frag --fragfirst -j DROP"),
    (Table::Filter, "-m hl --hl-lt 5 -j DROP"),
    (Table::Filter, "-m rt --rt-type 0 -j DROP"),
    (
        Table::Filter,
        "-j REJECT --reject-with icmp6-adm-prohibited",
    ),
    (
        Table::Nat,
        "-p tcp -j DNAT --to-destination [2001:db8::1]:80",
    ),
    (Table::Mangle, "-j HL --hl-dec 1"),
    (Table::Filter, "-p tcp --dport 80 -g BAR"),
    (
        Table::Filter,
        "-m policy --dir in --pol ipsec --proto esp -j ACCEPT",
    ),
    (
        Table::Filter,
        "-m recent --set --name x -m policy --dir in --pol none",
    ),
    (Table::Filter, "-j BAR -m comment --comment \"to bar\""),
    (Table::Filter, "-f -j BAR"),
    (
        Table::Filter,
        "-i lo -o lo -p udp -m udp --sport 1 --dport 2 -j BAR",
    ),
    (
        Table::Filter,
        "-m comment --comment \"a \\\"quoted\\\" -A x\" -m comment --comment -h -j LOG --log-prefix \"-h \"",
    ),
    (Table::Raw, "-p tcp -j CT --notrack"),
    (Table::Security, "-p tcp -j ACCEPT"),
];

fn forms() -> Vec<(Table, String)> {
    let listed = include_str!("../data/rule-forms.txt")
        .lines()
        .filter_map(|line| {
            let (table, rule) = line.split_once('\t')?;
            Some((table.parse().expect("a table"), rule.to_owned()))
        });
    let more = MORE_FORMS
        .iter()
        .map(|(table, rule)| (*table, (*rule).to_owned()));
    listed.chain(more).collect()
}

/// The rules of all tables as saved: the chains under test, and every other line.
struct State {
    tested: BTreeMap<String, Vec<String>>,
    others: Vec<String>,
}

impl State {
    fn read(kernel: Kernel) -> Self {
        let mut tested = BTreeMap::new();
        let mut others = Vec::new();
        for table in Table::ALL {
            for line in kernel
                .save(table)
                .lines()
                .filter(|line| !line.starts_with('#'))
            {
                let word = |n| line.split(' ').nth(n).unwrap_or_default();
                if let Some(chain) = word(0).strip_prefix(":tested-") {
                    tested.insert(format!("tested-{chain}"), Vec::new());
                } else if let (true, Some(rules)) = (word(0) == "-A", tested.get_mut(word(1))) {
                    // A rule that matches everything and does nothing has no words: `-s 0/0`.
                    rules.push(line.get(word(1).len() + 4..).unwrap_or_default().to_owned());
                } else {
                    others.push(line.to_owned());
                }
            }
        }
        Self { tested, others }
    }
}

/// What a chain under test must hold, from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Before,
    Tested,
    After,
}

impl Line {
    fn is(self, rule: &str) -> bool {
        match self {
            Self::Before => rule == BEFORE,
            Self::After => rule == AFTER,
            Self::Tested => rule != BEFORE && rule != AFTER,
        }
    }
}

struct Tried<'a> {
    table: Table,
    rule: &'a Rule,
    /// The text that was accepted as the rule.
    written: &'a str,
    chain: String,
    /// The chain for the text as it was written.
    as_written: String,
    /// `None` once the tool has refused the block that makes the chain.
    lines: Option<Vec<Line>>,
}

impl Tried<'_> {
    fn restore(&self, kernel: Kernel, lines: &str) -> bool {
        let input = format!("*{}\n{lines}COMMIT\n", self.table);
        kernel.restore(&input).status.success()
    }
}

#[derive(Debug, Default)]
struct Figures {
    loaded: usize,
    refused: usize,
    loaded_as_written: usize,
    not_found_again: Vec<String>,
}

/// Some rules, each in a chain of its own. After each step every table must hold what it should and
/// nothing else.
struct Group<'a> {
    kernel: Kernel,
    untouched: State,
    tried: Vec<Tried<'a>>,
}

impl<'a> Group<'a> {
    fn new(kernel: Kernel, rules: &'a [(Table, &'a str, Rule)]) -> Self {
        let tried = rules
            .iter()
            .enumerate()
            .map(|(n, (table, written, rule))| Tried {
                table: *table,
                rule,
                written,
                chain: format!("tested-{n}"),
                as_written: format!("tested-{n}-written"),
                lines: None,
            });
        Self {
            kernel,
            untouched: State::read(kernel),
            tried: tried.collect(),
        }
    }

    fn verify(&self, step: &str) -> State {
        let kernel = self.kernel;
        let state = State::read(kernel);
        let rules = || self.tried.iter().map(|it| it.rule).collect::<Vec<_>>();
        assert_eq!(
            state.others,
            self.untouched.others,
            "{kernel:?}, {step}: one of {:#?}",
            rules()
        );
        for it in &self.tried {
            let found = state.tested.get(&it.chain);
            let as_expected = match (found, &it.lines) {
                (Some(found), Some(lines)) => {
                    found.len() == lines.len()
                        && lines.iter().zip(found).all(|(line, rule)| line.is(rule))
                }
                (None, None) => true,
                _ => false,
            };
            let (rule, lines) = (it.rule, &it.lines);
            assert!(
                as_expected,
                "{kernel:?}, {step}: {rule} left {found:?}, not {lines:?}"
            );
        }
        state
    }

    /// Loads each rule between two others, as rendered and as written.
    fn append(&mut self, figures: &mut Figures) {
        let kernel = self.kernel;
        for it in &mut self.tried {
            if it.restore(kernel, &block(&it.chain, it.rule.as_str())) {
                it.lines = Some(vec![Line::Before, Line::Tested, Line::After]);
                figures.loaded += 1;
            } else {
                figures.refused += 1;
            }
            let as_written = it.restore(kernel, &block(&it.as_written, it.written));
            let (rule, written) = (it.rule, it.written);
            assert!(
                !as_written || it.lines.is_some(),
                "{kernel:?} takes {written:?} and refuses {rule}"
            );
        }
        let state = self.verify("appended");
        for it in &self.tried {
            // 1.8.9 takes `-ieth0` for an interface of that whole name: there the two differ, to our credit.
            let words = |text: &str| text.split_whitespace().count();
            if words(it.written) != words(it.rule.as_str()) {
                continue;
            }
            if let Some(as_written) = state.tested.get(&it.as_written) {
                let (rule, written) = (it.rule, it.written);
                let rendered = state.tested.get(&it.chain);
                assert_eq!(
                    Some(as_written),
                    rendered,
                    "{kernel:?}: {written:?} became {rule}"
                );
                figures.loaded_as_written += 1;
                if let Ok(saved) = Rule::new(&as_written[1]) {
                    assert_eq!(saved.target(), rule.target(), "{kernel:?}: {written:?}");
                }
            }
        }
    }

    /// Deletes each rule by its text, then inserts it. What couldn't be appended must not find something
    /// else to delete, or another place to go.
    fn delete_and_insert(&mut self, figures: &mut Figures) {
        let kernel = self.kernel;
        for it in self.tried.iter_mut().filter(|it| it.lines.is_none()) {
            let chain = &it.chain;
            let lines = format!(":{chain} - [0:0]\n-A {chain} {BEFORE}\n-A {chain} {AFTER}\n");
            assert!(it.restore(kernel, &lines));
            it.lines = Some(vec![Line::Before, Line::After]);
        }
        for it in &mut self.tried {
            let found = it.restore(kernel, &format!("-D {} {}\n", it.chain, it.rule));
            if let Some(lines) = it.lines.as_mut().filter(|lines| lines.len() == 3) {
                if found {
                    lines.remove(1);
                } else {
                    figures.not_found_again.push(it.rule.to_string());
                }
            }
        }
        self.verify("deleted");
        for it in &mut self.tried {
            if it.restore(kernel, &format!("-I {} {}\n", it.chain, it.rule)) {
                it.lines.get_or_insert_default().insert(0, Line::Tested);
            }
        }
        self.verify("inserted");
    }

    fn clean_up(self) {
        for table in Table::ALL {
            let mut flush = String::new();
            let mut delete = String::new();
            for it in self.tried.iter().filter(|it| it.table == table) {
                for chain in [&it.chain, &it.as_written] {
                    let _ = writeln!(flush, ":{chain} - [0:0]");
                    let _ = writeln!(delete, "-X {chain}");
                }
            }
            self.kernel
                .must_restore(&format!("*{table}\n{flush}{delete}COMMIT\n"));
        }
    }
}

/// A chain with the rule between two others.
fn block(chain: &str, rule: &str) -> String {
    format!(":{chain} - [0:0]\n-A {chain} {BEFORE}\n-A {chain} {rule}\n-A {chain} {AFTER}\n")
}

fn prepare(kernel: Kernel) {
    for table in Table::ALL {
        kernel.must_restore(&format!(
            "*{table}\n:own-base - [0:0]\n-A own-base -j RETURN\n-A OUTPUT -j own-base\nCOMMIT\n"
        ));
    }
    kernel.must_restore(
        "*filter\n:BAR - [0:0]\n:FOO - [0:0]\n-A BAR -j RETURN\n-A INPUT -j FOO\nCOMMIT\n",
    );
    let family = match kernel.version {
        IpVersion::V4 => "inet",
        IpVersion::V6 => "inet6",
    };
    // Without ipset the rules that name the set are refused, as others are.
    let _ = std::process::Command::new("ipset")
        .args(["create", "okset", "hash:ip", "family", family])
        .output();
}

#[test]
fn what_is_accepted_adds_one_rule_to_the_chain_named_and_changes_nothing_else() {
    let count =
        std::env::var("IPTABLES_UPDATER_RULES").map_or(150, |n| n.parse().expect("a number"));
    let forms = forms();
    let mut random = Random(7);
    let random_texts: Vec<_> = (0..count)
        .map(|_| (Table::Filter, mutate::random_text(&mut random)))
        .collect();
    let mutated: Vec<_> = (0..count)
        .map(|_| mutate::mutated(&mut random, &forms))
        .collect();
    each_kernel(
        "what_is_accepted_adds_one_rule_to_the_chain_named_and_changes_nothing_else",
        |kernel| {
            prepare(kernel);
            for (what, texts) in [
                ("forms", &forms),
                ("random texts", &random_texts),
                ("mutated rules", &mutated),
            ] {
                let accepted: Vec<_> = texts
                    .iter()
                    .filter_map(|(table, text)| {
                        Some((*table, text.as_str(), Rule::new(text).ok()?))
                    })
                    .collect();
                let mut figures = Figures::default();
                for rules in accepted.chunks(60) {
                    let mut group = Group::new(kernel, rules);
                    group.append(&mut figures);
                    group.delete_and_insert(&mut figures);
                    group.clean_up();
                }
                let (offered, accepted) = (texts.len(), accepted.len());
                println!("{kernel:?}: {offered} {what}, {accepted} accepted: {figures:?}");
            }
        },
    );
}
