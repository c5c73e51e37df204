//! Tells whether a chain still holds what we wrote, without understanding its rules.
//!
//! iptables prints most rules otherwise than they were written, so text against text says nothing. But what it
//! printed of a chain after our own write, it prints again as long as nobody changes the chain. A hash of
//! each printed rule is kept for that: learned at the first reading after the write, if the number of rules
//! and their targets agree with what was written.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::{ChainName, SavedChain, SavedRule};

/// The hash of a rule as iptables-save prints it, without counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Print(u64);

impl Print {
    pub(crate) fn of(saved: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        saved.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What was learned of each chain since it was last written.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints(HashMap<ChainName, Box<[Print]>>);

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

    /// Compares a chain with what was written into it, of which the targets are given; `None` if nothing differs.
    pub(crate) fn compare<'r, 's: 'r>(
        &mut self,
        name: &ChainName,
        written: impl Iterator<Item = Option<&'r str>> + Clone,
        saved: SavedChain<'s>,
    ) -> Option<Difference> {
        if let Some(known) = self.0.get(name) {
            let same = known.len() == saved.rules().len()
                && known
                    .iter()
                    .zip(saved.rules())
                    .all(|(print, rule)| *print == Print::of(rule.text()));
            return (!same).then(|| difference(known, saved));
        }
        if !written.clone().eq(saved.rules().map(SavedRule::target)) {
            let foreign = saved.rules().map(|rule| rule.text().to_owned());
            return Some(Difference {
                foreign: foreign.collect(),
                lost: (0..written.count()).collect(),
            });
        }
        let prints = saved.rules().map(|rule| Print::of(rule.text()));
        self.0.insert(name.clone(), prints.collect());
        None
    }
}

/// Which rules came and which went, told by how often each print occurs.
fn difference(known: &[Print], saved: SavedChain<'_>) -> Difference {
    let mut places = HashMap::<Print, Vec<usize>>::new();
    for (place, print) in known.iter().enumerate().rev() {
        places.entry(*print).or_default().push(place);
    }
    let mut foreign = Vec::new();
    for rule in saved.rules() {
        let ours = places.get_mut(&Print::of(rule.text())).and_then(Vec::pop);
        if ours.is_none() {
            foreign.push(rule.text().to_owned());
        }
    }
    let mut lost: Vec<usize> = places.into_values().flatten().collect();
    lost.sort_unstable();
    Difference { foreign, lost }
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
