//! What stands in for a chain that is required and that nobody has programmed.

use std::collections::HashMap;
use std::fmt;

use crate::{ChainName, Error, IpVersion, Prefixes, Rule, Table};

/// Makes the rules of a stub: IP version and chain name in, rules out.
pub(crate) type StubMaker = Box<dyn Fn(IpVersion, &ChainName) -> Vec<Rule> + Send>;

/// The contents of stubs: made for any chain, unless overridden for one.
pub(crate) struct Stubs {
    maker: StubMaker,
    overrides: HashMap<ChainName, Vec<Rule>>,
}

impl Stubs {
    pub(crate) fn new(maker: StubMaker) -> Self {
        Self {
            maker,
            overrides: HashMap::new(),
        }
    }

    pub(crate) fn set_override(&mut self, chain: ChainName, rules: Vec<Rule>) {
        self.overrides.insert(chain, rules);
    }

    /// The rules of one chain's stub. A stub that requires an owned chain is refused: that chain could
    /// be missing too.
    pub(crate) fn rules(
        &self,
        version: IpVersion,
        chain: &ChainName,
        prefixes: &Prefixes,
    ) -> Result<Vec<Rule>, Error> {
        let rules = match self.overrides.get(chain) {
            Some(rules) => rules.clone(),
            None => (self.maker)(version, chain),
        };
        check(chain, &rules, prefixes)?;
        Ok(rules)
    }
}

/// Refuses stub rules that jump or go to an owned chain.
pub(crate) fn check(chain: &ChainName, rules: &[Rule], prefixes: &Prefixes) -> Result<(), Error> {
    let mut targets = rules.iter().filter_map(Rule::target);
    match targets.find_map(|target| prefixes.owned(target)) {
        Some(target) => Err(Error::StubRequires {
            chain: chain.clone(),
            target,
        }),
        None => Ok(()),
    }
}

/// The default stub: one rule that drops, with a comment that says why. In `nat` both back ends refuse
/// `DROP`, so there the packet goes back where it came from.
pub(crate) fn default_maker(table: Table) -> StubMaker {
    let verdict = match table {
        Table::Nat => "RETURN",
        Table::Filter | Table::Mangle | Table::Raw | Table::Security => "DROP",
    };
    Box::new(move |_, chain| {
        let comment = format!("missing chain {chain}");
        let words = ["-m", "comment", "--comment", &comment, "-j", verdict];
        // A comment of a fixed text and a checked name is always a rule.
        Rule::from_words(words).into_iter().collect()
    })
}

impl fmt::Debug for Stubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stubs")
            .field("overrides", &self.overrides.len())
            .finish_non_exhaustive()
    }
}
