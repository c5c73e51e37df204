//! Which lines an edit has, and that they come to the new contents or fail.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Table;

fn contents(rules: &[&str]) -> Chain {
    Chain::new("web-a", rules).unwrap()
}

fn edit(old: &[&str], new: &[&str]) -> Option<Edit> {
    let marker = ChainName::new("web-~m").unwrap();
    Edit::between(&Contents::of(&contents(old)), &contents(new), &marker)
}

/// The lines of the edit, each without its chain.
fn lines(old: &[&str], new: &[&str]) -> Option<Vec<String>> {
    let edit = edit(old, new)?;
    let mut builder = Builder::new(Table::Filter);
    edit.write(&mut builder);
    let input = builder.build();
    let lines = input.as_str().lines().filter(|line| line.starts_with('-'));
    Some(lines.map(|line| line.replacen(" web-a", "", 1)).collect())
}

const A: &str = "-s 192.0.2.1 -j ACCEPT";
const B: &str = "-s 192.0.2.2 -j ACCEPT";
const C: &str = "-s 192.0.2.3 -j ACCEPT";
const D: &str = "-s 192.0.2.4 -j ACCEPT";
const E: &str = "-s 192.0.2.5 -j ACCEPT";
const F: &str = "-s 192.0.2.6 -j ACCEPT";
const N: &str = "-s 198.51.100.1 -j ACCEPT";

#[test]
fn at_the_ends_nothing_has_to_be_removed() {
    let appended = lines(&[A, B, C], &[A, B, C, N]).unwrap();
    assert_eq!(appended, [format!("-C {C}"), format!("-A {N}")]);
    let inserted = lines(&[A, B, C], &[N, A, B, C]).unwrap();
    assert_eq!(inserted, [format!("-C {A}"), format!("-I 1 {N}")]);
}

#[test]
fn what_is_replaced_is_between_two_jumps_to_the_marker() {
    let replaced = lines(&[A, B, C, D, E, F], &[A, N, C, D, E, F]);
    assert_eq!(replaced, None, "it takes as many lines as the whole");
    let many = [&[A, B, C, D], &[F; 10][..]].concat();
    let new = [&[A, N, D], &[F; 10][..]].concat();
    let lines = lines(&many, &new).unwrap();
    assert_eq!(
        lines,
        [
            "-I 2 -j web-~m",
            "-I 5 -j web-~m",
            &format!("-D {B}"),
            &format!("-D {C}"),
            "-D 3",
            "-D 2",
            &format!("-I 2 {N}"),
        ]
    );
}

#[test]
fn an_insertion_in_the_middle_writes_a_rule_beside_it_again() {
    let tail = [E; 10];
    let with = |rules: &[&'static str]| [rules, &tail].concat();
    let lines_of = |old: &[&'static str], new: &[&'static str]| lines(&with(old), &with(new));
    let before = lines_of(&[A, B, C], &[A, B, N, C]).unwrap();
    assert_eq!(before[2], format!("-D {B}"));
    assert_eq!(before[5..], [format!("-I 2 {B}"), format!("-I 3 {N}")]);
    // B stands before, too, so that it can't tell the place.
    let behind = lines_of(&[B, A, B, C], &[B, A, B, N, C]).unwrap();
    assert_eq!(behind[2], format!("-D {C}"));
    assert_eq!(behind[5..], [format!("-I 4 {N}"), format!("-I 5 {C}")]);
    // Neither can C.
    assert_eq!(lines_of(&[B, C, A, B, C], &[B, C, A, B, N, C]), None);
}

#[test]
fn a_change_that_costs_as_much_as_the_whole_is_none() {
    assert_eq!(lines(&[A, B], &[C, D]), None);
    assert_eq!(lines(&[], &[A, B]), None);
    assert_eq!(lines(&[A, B], &[]), None);
    let old: Vec<String> = (0..3_000).map(|n| format!("-m mark --mark {n}")).collect();
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    // Ten rules at the end of 3,000 cost 30,000 comparisons.
    assert_eq!(edit(&old, &old[..2_990]), None);
    assert!(edit(&old, &old[..2_995]).is_some());
}

/// iptables on one chain: the rules afterwards, or `None` where a line fails.
fn run(edit: &Edit, chain: &[&str]) -> Option<Vec<String>> {
    let mut rules: Vec<String> = chain.iter().map(|rule| (*rule).to_owned()).collect();
    for step in &edit.steps {
        let place = |rule: &Rule| rules.iter().position(|held| held == rule.as_str());
        match step {
            Step::Check(rule) => drop(place(rule)?),
            Step::Append(rule) => rules.push(rule.to_string()),
            Step::Insert(number, rule) => {
                if *number > rules.len() + 1 {
                    return None;
                }
                rules.insert(number - 1, rule.to_string());
            }
            Step::Delete(rule) => {
                let place = place(rule)?;
                rules.remove(place);
            }
            Step::DeleteNumber(number) => {
                if *number > rules.len() {
                    return None;
                }
                rules.remove(number - 1);
            }
        }
    }
    // A chain that is jumped to can't be deleted.
    let marked = rules.iter().any(|rule| rule == "-j web-~m");
    (!marked).then_some(rules)
}

/// What somebody else does to a chain: rules inserted, removed or moved, at places given as fractions.
fn damage() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, &'static str)>> {
    let rule = prop::sample::select(vec![A, B, C, D]);
    prop::collection::vec((0..3u8, any::<prop::sample::Index>(), rule), 1..4)
}

fn damaged(
    chain: &[&'static str],
    damage: Vec<(u8, prop::sample::Index, &'static str)>,
) -> Vec<&'static str> {
    let mut chain = chain.to_vec();
    for (kind, place, rule) in damage {
        match kind {
            0 => chain.insert(place.index(chain.len() + 1), rule),
            1 if !chain.is_empty() => drop(chain.remove(place.index(chain.len()))),
            _ if !chain.is_empty() => {
                let moved = chain.remove(place.index(chain.len()));
                chain.insert(place.index(chain.len() + 1) / 2, moved);
            }
            _ => {}
        }
    }
    chain
}

/// Two lists that have much in common.
fn two_lists() -> impl Strategy<Value = (Vec<&'static str>, Vec<&'static str>)> {
    let few = || prop::collection::vec(prop::sample::select(vec![A, B, C, E, N]), 0..3);
    let long = || prop::collection::vec(prop::sample::select(vec![A, B, C, D, E, F, N]), 0..12);
    (long(), few(), few(), long()).prop_map(|(top, old, new, bottom)| {
        let with = |middle: &[&'static str]| [&top, middle, &bottom].concat();
        (with(&old), with(&new))
    })
}

proptest! {
    #[test]
    fn an_edit_comes_to_the_new_contents((old, new) in two_lists()) {
        if let Some(edit) = edit(&old, &new) {
            prop_assert_eq!(run(&edit, &old).unwrap(), new.clone());
            prop_assert!(edit.steps.len() < new.len());
            let (kept, removed, inserted) = (edit.kept, edit.removed, edit.inserted);
            prop_assert_eq!(&old[..kept], &new[..kept]);
            prop_assert_eq!(&old[kept + removed..], &new[kept + inserted..]);
        }
    }

    /// Whatever somebody else has made of the chain: each rule that the edit doesn't remove is still there, those that it
    /// does remove are as many fewer as they should be, and what is new stands where they stood.
    #[test]
    fn an_edit_of_another_chain_hits_no_other_rule((old, new) in two_lists(), damage in damage()) {
            let other = damaged(&old, damage);
        if let Some(edit) = edit(&old, &new)
            && let Some(after) = run(&edit, &other)
        {
            let (kept, removed, inserted) = (edit.kept, edit.removed, edit.inserted);
            let mut expected = counts(&other);
            for rule in &old[kept..kept + removed] {
                *expected.entry(rule).or_default() -= 1;
            }
            for rule in &new[kept..kept + inserted] {
                *expected.entry(rule).or_default() += 1;
            }
            expected.retain(|_, count| *count != 0);
            let after: Vec<&str> = after.iter().map(String::as_str).collect();
            prop_assert_eq!(counts(&after), expected);
            if removed > 0 {
                let mut before = other[kept..kept + removed].to_vec();
                let mut meant = old[kept..kept + removed].to_vec();
                before.sort_unstable();
                meant.sort_unstable();
                prop_assert_eq!(before, meant, "it stood elsewhere");
                prop_assert_eq!(&after[kept..kept + inserted], &new[kept..kept + inserted]);
            }
        }
    }
}

fn counts<'a>(rules: &[&'a str]) -> BTreeMap<&'a str, i64> {
    let mut counts = BTreeMap::new();
    for rule in rules {
        *counts.entry(*rule).or_default() += 1;
    }
    counts
}
