//! What a programmed chain holds, kept small.

use crate::{Chain, ChainName, Rule};

/// What parts the rules from the chains required by name: no rule has a control character in it.
const END_OF_RULES: char = '\0';

/// The contents of a chain as one text: a rule a line, and behind a zero, where there are any, the chains that
/// are required by name.
///
/// A program may hold a quarter of a million rules: an allocation for each would take three times the room of
/// their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents(Box<str>);

impl Contents {
    pub(crate) fn of(chain: &Chain) -> Self {
        let rules: Vec<&str> = chain.rules().iter().map(Rule::as_str).collect();
        let requires = chain.explicit_requirements().map(ChainName::as_str);
        let requires: Vec<&str> = requires.collect();
        let mut text = rules.join("\n");
        if !requires.is_empty() {
            text.push(END_OF_RULES);
            text += &requires.join("\n");
        }
        Self(text.into_boxed_str())
    }

    /// Whether that is what the chain shall hold.
    pub(crate) fn are_of(&self, chain: &Chain) -> bool {
        let (rules, required) = self.parts();
        let explicit = chain.explicit_requirements().map(ChainName::as_str);
        is_joined(rules, chain.rules().iter().map(Rule::as_str)) && is_joined(required, explicit)
    }

    /// The chain of that name with these contents.
    pub(crate) fn chain(&self, name: &ChainName) -> Chain {
        let rules = self.rules().map(Rule::of_kept_text).collect();
        Chain::of_kept(name.clone(), rules, self.requires().collect())
    }

    /// The rules, in order.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &str> + Clone {
        self.parts().0.lines()
    }

    /// What each rule jumps or goes to, in order.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Option<&str>> + Clone {
        self.rules().map(Rule::target_of)
    }

    /// The chains that it requires by name.
    pub(crate) fn requires(&self) -> impl Iterator<Item = ChainName> {
        self.parts().1.lines().map(ChainName::of_kept)
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once(END_OF_RULES).unwrap_or((&self.0, ""))
    }
}

/// Whether the text is just these lines. Quicker than to look for its newlines first.
fn is_joined<'l>(text: &str, lines: impl Iterator<Item = &'l str>) -> bool {
    let mut rest = Some(text);
    for (number, line) in lines.enumerate() {
        if number > 0 {
            rest = rest.and_then(|rest| rest.strip_prefix('\n'));
        }
        rest = rest.and_then(|rest| rest.strip_prefix(line));
    }
    rest == Some("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_comes_back_as_it_was() {
        let comment = r#"-m comment --comment "-j \"x\" " -j ACCEPT"#;
        for rules in [
            &[][..],
            &["-j DROP"],
            &[comment, "-g web-b"],
            &[comment, "-p tcp", comment],
        ] {
            for required in [&[][..], &["web-x"], &["web-x", "web-y"]] {
                let chain = Chain::new("web-a", rules).unwrap();
                let chain = chain.requires(required.iter().copied()).unwrap();
                let contents = Contents::of(&chain);
                assert_eq!(contents.chain(chain.name()), chain);
                assert!(contents.are_of(&chain));
                let targets: Vec<_> = chain.rules().iter().map(Rule::target).collect();
                assert!(contents.targets().eq(targets));
            }
        }
    }

    #[test]
    fn any_difference_is_one() {
        let chain = |rules: &[&str], required: &[&str]| {
            let chain = Chain::new("web-a", rules).unwrap();
            chain.requires(required.iter().copied()).unwrap()
        };
        let contents = Contents::of(&chain(&["-p tcp", "-j DROP"], &["web-x"]));
        for other in [
            chain(&["-p tcp", "-j DROP"], &[]),
            chain(&["-p tcp", "-j DROP"], &["web-y"]),
            chain(&["-p tcp", "-j DROP"], &["web-x", "web-y"]),
            chain(&["-j DROP", "-p tcp"], &["web-x"]),
            chain(&["-p tcp"], &["web-x"]),
            chain(&["-p tcp", "-j DROP", "-j DROP"], &["web-x"]),
            chain(&[], &["web-x"]),
        ] {
            assert!(!contents.are_of(&other), "{other:?}");
        }
    }
}
