//! Tells whether a chain still holds what we wrote, without understanding its rules.
//!
//! iptables prints most rules otherwise than they were written, so text against text says nothing. But what it
//! printed of a chain after our own write, it prints again as long as nobody changes the chain. A hash of
//! each printed rule is kept for that: learned at the first reading after the write, if the number of rules
//! and their targets agree with what was written.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;
use std::ops::Range;

use crate::{ChainName, SavedChain, SavedRule};

/// The hash of a rule as iptables-save prints it, without counters. Never zero, so that one which isn't known takes no
/// more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Print(NonZeroU64);

impl Print {
    pub(crate) fn of(saved: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        saved.hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MAX))
    }
}

/// What was learned of each chain since it was last written; `None` for a rule that has come since.
#[derive(Default)]
pub(crate) struct Fingerprints(HashMap<ChainName, Box<[Option<Print>]>>);

/// All of them if they are few: there may be tens of thousands of chains.
impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: usize = self.0.values().map(|prints| prints.len()).sum();
        if self.0.len() + rules > 64 {
            return write!(f, "Fingerprints of {} chains", self.0.len());
        }
        f.debug_tuple("Fingerprints").field(&self.0).finish()
    }
}

/// How a chain differs from what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Rules that aren't ours, as iptables-save prints them.
    pub(crate) foreign: Vec<String>,
    /// Places in the written rules of those that are gone.
    pub(crate) lost: Vec<usize>,
}

impl Fingerprints {
    /// The chain is written or deleted: what it looked like says nothing any more.
    pub(crate) fn forget(&mut self, chain: &ChainName) {
        self.0.remove(chain);
    }

    /// In place of some rules of the chain others were written; the rest is as it was.
    pub(crate) fn splice(&mut self, chain: &ChainName, removed: Range<usize>, inserted: usize) {
        if let Some(prints) = self.0.get_mut(chain) {
            let mut all = std::mem::take(prints).into_vec();
            all.splice(removed, std::iter::repeat_n(None, inserted));
            *prints = all.into_boxed_slice();
        }
    }

    /// Compares a chain with what was written into it, of which the targets are given; `None` if nothing differs.
    pub(crate) fn compare<'r, 's: 'r>(
        &mut self,
        name: &ChainName,
        written: impl Iterator<Item = Option<&'r str>> + Clone,
        saved: SavedChain<'s>,
    ) -> Option<Difference> {
        if let Some(known) = self.0.get_mut(name) {
            return compare_known(known, written, saved);
        }
        if !written.clone().eq(saved.rules().map(SavedRule::target)) {
            let foreign = saved.rules().map(|rule| rule.text().to_owned());
            return Some(Difference {
                foreign: foreign.collect(),
                lost: (0..written.count()).collect(),
            });
        }
        let prints = saved.rules().map(|rule| Some(Print::of(rule.text())));
        self.0.insert(name.clone(), prints.collect());
        None
    }
}

/// Compares a chain of which at least some rules are known, and learns the others if it is as it should be.
fn compare_known<'r, 's: 'r>(
    known: &mut [Option<Print>],
    written: impl Iterator<Item = Option<&'r str>>,
    saved: SavedChain<'s>,
) -> Option<Difference> {
    let as_many = known.len() == saved.rules().len();
    let mut prints = known.iter().zip(saved.rules());
    if as_many && prints.all(|(print, rule)| *print == Some(Print::of(rule.text()))) {
        return None;
    }
    let targets: Vec<_> = written.collect();
    let mut all = known.iter().zip(&targets).zip(saved.rules());
    let alike = all.all(|((print, target), rule)| match print {
        Some(print) => *print == Print::of(rule.text()),
        None => *target == rule.target(),
    });
    if !as_many || !alike {
        return Some(difference(known, &targets, saved));
    }
    for (print, rule) in known.iter_mut().zip(saved.rules()) {
        print.get_or_insert_with(|| Print::of(rule.text()));
    }
    None
}

/// Which rules came and which went, told by how often each print occurs. Of those that aren't known, each is taken to be
/// the first with its target that nothing else accounts for.
fn difference(
    known: &[Option<Print>],
    targets: &[Option<&str>],
    saved: SavedChain<'_>,
) -> Difference {
    let mut places = HashMap::<Print, Vec<usize>>::new();
    for (place, print) in known.iter().enumerate().rev() {
        if let Some(print) = print {
            places.entry(*print).or_default().push(place);
        }
    }
    let mut foreign = Vec::new();
    for rule in saved.rules() {
        let ours = places.get_mut(&Print::of(rule.text())).and_then(Vec::pop);
        if ours.is_none() {
            foreign.push(rule);
        }
    }
    let mut lost: Vec<usize> = places.into_values().flatten().collect();
    for (place, target) in targets.iter().enumerate() {
        if known[place].is_none() {
            match foreign.iter().position(|rule| rule.target() == *target) {
                Some(found) => drop(foreign.remove(found)),
                None => lost.push(place),
            }
        }
    }
    lost.sort_unstable();
    let foreign = foreign.into_iter().map(|rule| rule.text().to_owned());
    Difference {
        foreign: foreign.collect(),
        lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rule, SavedTable, Table};

    fn compare(
        prints: &mut Fingerprints,
        written: &[&str],
        saved: &[&str],
    ) -> Option<(Vec<String>, Vec<usize>)> {
        let name = ChainName::new("web-a").unwrap();
        let written: Vec<_> = written
            .iter()
            .map(|rule| Rule::new(rule).unwrap())
            .collect();
        let mut text = String::from("*filter\n:web-a - [0:0]\n");
        for rule in saved {
            text += &format!("-A web-a {rule}\n");
        }
        text += "COMMIT\n";
        let table = SavedTable::parse(text.as_bytes(), Table::Filter).unwrap();
        let difference = prints.compare(
            &name,
            written.iter().map(Rule::target),
            table.chain("web-a").unwrap(),
        );
        difference.map(|d| (d.foreign, d.lost))
    }

    #[test]
    fn what_was_printed_after_the_write_is_what_is_expected() {
        let mut prints = Fingerprints::default();
        let written = ["-s 192.0.2.1 -j ACCEPT", "-p tcp -j web-b", "-j DROP"];
        let printed = ["-s 192.0.2.1/32 -j ACCEPT", "-p tcp -j web-b", "-j DROP"];
        assert_eq!(compare(&mut prints, &written, &printed), None);
        assert_eq!(compare(&mut prints, &written, &printed), None);
        let edited = ["-s 192.0.2.9/32 -j ACCEPT", "-p tcp -j web-b", "-j DROP"];
        assert_eq!(
            compare(&mut prints, &written, &edited),
            Some((vec!["-s 192.0.2.9/32 -j ACCEPT".to_owned()], vec![0]))
        );
        let reordered = ["-p tcp -j web-b", "-s 192.0.2.1/32 -j ACCEPT", "-j DROP"];
        assert_eq!(
            compare(&mut prints, &written, &reordered),
            Some((vec![], vec![]))
        );
        let doubled = [printed[0], printed[0], printed[1], printed[2]];
        assert_eq!(
            compare(&mut prints, &written, &doubled),
            Some((vec![printed[0].to_owned()], vec![]))
        );
        assert_eq!(
            compare(&mut prints, &written, &printed[..2]),
            Some((vec![], vec![2]))
        );
        prints.forget(&ChainName::new("web-a").unwrap());
        assert_eq!(compare(&mut prints, &written, &edited), None);
    }

    #[test]
    fn what_was_written_in_place_is_learned_and_the_rest_still_known() {
        let name = ChainName::new("web-a").unwrap();
        let written = ["-s 192.0.2.1 -j ACCEPT", "-p tcp -j web-b", "-j DROP"];
        let printed = ["-s 192.0.2.1/32 -j ACCEPT", "-p tcp -j web-b", "-j DROP"];
        let mut prints = Fingerprints::default();
        // Of a chain that wasn't read yet, nothing becomes known by a change.
        prints.splice(&name, 0..1, 1);
        assert_eq!(compare(&mut prints, &written, &printed), None);
        prints.splice(&name, 1..2, 2);
        let written = [written[0], "-p udp -j web-c", "-p 1 -j web-d", written[2]];
        let printed = [
            printed[0],
            "-p udp -j web-c",
            "-p icmp -j web-d",
            printed[2],
        ];
        let edited = [&["-s 192.0.2.9/32 -j ACCEPT"], &printed[1..]].concat();
        let foreign = vec![edited[0].to_owned()];
        assert_eq!(
            compare(&mut prints, &written, &edited),
            Some((foreign, vec![0])),
            "the first rule is still known"
        );
        assert_eq!(
            compare(&mut prints, &written, &[printed[0], printed[2], printed[3]]),
            Some((vec![], vec![1]))
        );
        assert_eq!(compare(&mut prints, &written, &printed), None);
        let edited = [printed[0], printed[1], "-p sctp -j web-d", printed[3]];
        assert_eq!(
            compare(&mut prints, &written, &edited),
            Some((vec![edited[2].to_owned()], vec![2])),
            "the new ones are known now"
        );
    }

    #[test]
    fn what_can_not_be_our_write_is_not_learned() {
        for (written, printed) in [
            (vec!["-j ACCEPT"], vec![]),
            (vec!["-j ACCEPT"], vec!["-j ACCEPT", "-j ACCEPT"]),
            (vec!["-j ACCEPT"], vec!["-j DROP"]),
            (vec!["-j web-b"], vec!["-j web-c"]),
            (vec!["-p tcp"], vec!["-p tcp -j DROP"]),
        ] {
            let mut prints = Fingerprints::default();
            assert!(
                compare(&mut prints, &written, &printed).is_some(),
                "{printed:?}"
            );
        }
    }
}
