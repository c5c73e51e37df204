//! Where hook rules shall stand in their chain, and how they stand there: worked out from its rules alone.

use super::verify::HookProblem;

/// Where in a chain hook rules shall stand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// First of all.
    Top,
    /// Last of all.
    Bottom,
    /// Just before the first rule of others that has these words in it, one after the other, as iptables-save
    /// prints it: `-j DOCKER-USER`. If there is none, at the bottom.
    Before(String),
    /// Just after the last such rule. If there is none, at the top.
    After(String),
}

/// When hook rules that stand together in their order are moved to their place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookPolicy {
    /// Only when one of them is missing, repeated or out of order. So two programs that both want to be first
    /// don't fight for ever: whoever was put last is first.
    #[default]
    WhenMissing,
    /// Whenever they aren't at their place.
    Always,
}

/// How hook rules stand among the rules of their chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// How many instances of each rule there are.
    pub(super) counts: Vec<usize>,
    /// Behind how many rules of others they shall stand, out of how many.
    pub(super) behind: usize,
    pub(super) others: usize,
    /// Whether they stand together, in their order, each once.
    together: bool,
    /// Whether they stand at their place, if they do.
    at_place: bool,
}

impl Arrangement {
    /// Works out how the rules stand among all of their chain, both as they are printed.
    pub(super) fn of(placement: &Placement, current: &[&str], ours: &[&str]) -> Self {
        let is_ours = |text: &&str| ours.contains(text);
        let others: Vec<&str> = current.iter().copied().filter(|t| !is_ours(t)).collect();
        let behind = match placement {
            Placement::Top => 0,
            Placement::Bottom => others.len(),
            Placement::Before(words) => {
                let first = others.iter().position(|text| has_words(text, words));
                first.unwrap_or(others.len())
            }
            Placement::After(words) => {
                let last = others.iter().rposition(|text| has_words(text, words));
                last.map_or(0, |last| last + 1)
            }
        };
        let start = current.iter().position(is_ours).unwrap_or(0);
        let counts: Vec<_> = ours
            .iter()
            .map(|ours| current.iter().filter(|text| *text == ours).count())
            .collect();
        let once = counts.iter().all(|count| *count == 1);
        Self {
            together: once && current[start..].starts_with(ours),
            at_place: start == behind,
            counts,
            behind,
            others: others.len(),
        }
    }

    pub(super) fn is_fine(&self, policy: HookPolicy) -> bool {
        self.together && (self.at_place || policy == HookPolicy::WhenMissing)
    }

    /// What is wrong with the rule of that number, if the whole isn't fine.
    pub(super) fn problem(&self, number: usize) -> HookProblem {
        match self.counts[number] {
            0 => HookProblem::Gone,
            1 => HookProblem::OutOfPlace,
            _ => HookProblem::Repeated,
        }
    }
}

/// Whether the words stand in the text one after the other, as whole words.
fn has_words(text: &str, words: &str) -> bool {
    let text: Vec<_> = text.split(' ').collect();
    let words: Vec<_> = words.split_whitespace().collect();
    !words.is_empty() && text.windows(words.len()).any(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_in_rules_of_others() {
        let ours = ["-j a", "-j b"];
        let before = || Placement::Before("-j x".to_owned());
        let after = || Placement::After("-j x".to_owned());
        for (placement, current, together, at_place, behind) in [
            (Placement::Top, vec!["-j a", "-j b", "-j x"], true, true, 0),
            (Placement::Top, vec!["-j x", "-j a", "-j b"], true, false, 0),
            (Placement::Top, vec!["-j b", "-j a"], false, true, 0),
            (Placement::Top, vec!["-j a", "-j x", "-j b"], false, true, 0),
            (Placement::Top, vec!["-j a", "-j b", "-j a"], false, true, 0),
            (Placement::Top, vec![], false, true, 0),
            (
                Placement::Bottom,
                vec!["-j x", "-j a", "-j b"],
                true,
                true,
                1,
            ),
            (
                Placement::Bottom,
                vec!["-j a", "-j b", "-j x"],
                true,
                false,
                1,
            ),
            (
                before(),
                vec!["-j y", "-j a", "-j b", "-p tcp -j x"],
                true,
                true,
                1,
            ),
            (
                before(),
                vec!["-j xx", "-j x", "-j a", "-j b"],
                true,
                false,
                1,
            ),
            (before(), vec!["-j y", "-j a", "-j b"], true, true, 1),
            (
                after(),
                vec!["-j x", "-j y", "-j x", "-j a", "-j b"],
                true,
                true,
                3,
            ),
            (after(), vec!["-j y", "-j a", "-j b"], true, false, 0),
        ] {
            let found = Arrangement::of(&placement, &current, &ours);
            let found = (found.together, found.at_place, found.behind);
            assert_eq!(
                found,
                (together, at_place, behind),
                "{placement:?} {current:?}"
            );
        }
    }
}
