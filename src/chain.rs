//! Chains that we own: their names and their contents.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{ChainError, ChainNameError};
use crate::{IntoRule, IpVersion, KernelChain, Rule, excerpt};

/// The name of a chain that isn't the kernel's: 1 to 28 bytes, checked once.
///
/// ```
/// use iptables_updater::{ChainName, ChainNameError};
///
/// let name: ChainName = "web-input".parse()?;
/// assert_eq!(name.as_str(), "web-input");
/// assert!(matches!(ChainName::new("-x"), Err(ChainNameError::Lead { .. })));
/// # Ok::<(), ChainNameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName(Arc<str>);

/// Targets that iptables handles itself; no chain can have such a name.
const BUILT_IN_TARGETS: [&str; 4] = ["ACCEPT", "DROP", "RETURN", "QUEUE"];

impl ChainName {
    /// The most bytes that a chain's name may have, on both back ends.
    pub const MAX_BYTES: usize = 28;

    /// Checks a name.
    ///
    /// # Errors
    /// A [`ChainNameError`] that says why iptables, or one of its back ends, can't have this chain.
    pub fn new(name: &str) -> Result<Self, ChainNameError> {
        check(name)?;
        Ok(Self(name.into()))
    }

    /// A name that was checked before.
    pub(crate) fn of_kept(name: &str) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) fn check(name: &str) -> Result<(), ChainNameError> {
    check_beginning(name)?;
    if BUILT_IN_TARGETS.contains(&name) {
        let name = name.to_owned();
        return Err(ChainNameError::BuiltInTarget { name });
    }
    match KernelChain::from_name(name) {
        Some(kernel) => Err(ChainNameError::KernelChain(kernel)),
        None => Ok(()),
    }
}

/// What holds for a name and for any beginning of one.
pub(crate) fn check_beginning(name: &str) -> Result<(), ChainNameError> {
    let owned = || excerpt::short(name);
    if name.is_empty() {
        return Err(ChainNameError::Empty);
    }
    if name.len() > ChainName::MAX_BYTES {
        return Err(ChainNameError::TooLong {
            name: owned(),
            length: name.len(),
        });
    }
    let unfit = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'');
    if let Some(character) = name.chars().find(|c| unfit(*c)) {
        let name = owned();
        return Err(ChainNameError::Character { name, character });
    }
    if name.starts_with(['-', '!']) {
        return Err(ChainNameError::Lead { name: owned() });
    }
    Ok(())
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for ChainName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ChainName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for ChainName {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for ChainName {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl FromStr for ChainName {
    type Err = ChainNameError;

    fn from_str(name: &str) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for ChainName {
    type Error = ChainNameError;

    fn try_from(name: &str) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for ChainName {
    type Error = ChainNameError;

    fn try_from(name: String) -> Result<Self, ChainNameError> {
        Self::new(&name)
    }
}

impl TryFrom<&String> for ChainName {
    type Error = ChainNameError;

    fn try_from(name: &String) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<&&str> for ChainName {
    type Error = ChainNameError;

    fn try_from(name: &&str) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl From<&ChainName> for ChainName {
    fn from(name: &ChainName) -> Self {
        name.clone()
    }
}

/// A chain with the rules that it shall hold, and what it requires beside the targets of its rules.
///
/// ```
/// use iptables_updater::{Chain, ChainError};
///
/// let chain = Chain::new("web-input", ["-p tcp --dport 443 -j web-tls", "-j RETURN"])?
///     .requires(["web-extra"])?;
/// assert_eq!(chain.rules().len(), 2);
///
/// let error = Chain::new("web-input", ["-j RETURN", "-j"]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"chain web-input, rule 2: "-j": option -j has no value"#
/// );
/// # Ok::<(), ChainError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Chain {
    name: ChainName,
    /// Shared, so that a clone costs nothing: the same contents wait in a batch and stand in the index.
    rules: Arc<[Rule]>,
    requires: BTreeSet<ChainName>,
}

impl Chain {
    /// A chain that holds these rules, in this order; no rules make an empty chain.
    ///
    /// ```
    /// # use iptables_updater::Chain;
    /// let empty = Chain::new("web-empty", [""; 0])?;
    /// assert!(empty.rules().is_empty());
    /// # Ok::<(), iptables_updater::ChainError>(())
    /// ```
    ///
    /// # Errors
    /// The name isn't a chain's, or a rule is none: [`ChainError`] says which and why.
    pub fn new<N, R>(name: N, rules: R) -> Result<Self, ChainError>
    where
        N: TryInto<ChainName>,
        ChainNameError: From<N::Error>,
        R: IntoIterator,
        R::Item: IntoRule,
    {
        let name = name.try_into().map_err(ChainNameError::from)?;
        let rules = rules_for(name.as_str(), rules)?;
        Ok(Self {
            name,
            rules: rules.into(),
            requires: BTreeSet::new(),
        })
    }

    /// Adds chains that must exist wherever this one does, though no rule of it jumps or goes to them.
    ///
    /// # Errors
    /// One of them isn't a chain's name. Whether the updater owns it is checked when the chain is given to one.
    pub fn requires<I>(mut self, chains: I) -> Result<Self, ChainError>
    where
        I: IntoIterator,
        I::Item: TryInto<ChainName>,
        ChainNameError: From<<I::Item as TryInto<ChainName>>::Error>,
    {
        for chain in chains {
            self.requires
                .insert(chain.try_into().map_err(ChainNameError::from)?);
        }
        Ok(self)
    }

    /// The chain's name.
    pub fn name(&self) -> &ChainName {
        &self.name
    }

    /// Its rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// A chain of rules that were checked when it was given.
    pub(crate) fn of_kept(
        name: ChainName,
        rules: Arc<[Rule]>,
        requires: BTreeSet<ChainName>,
    ) -> Self {
        Self {
            name,
            rules,
            requires,
        }
    }

    /// The chain without the rules that are meant for the other IP version.
    pub(crate) fn for_version(&self, version: IpVersion) -> Self {
        let mut chain = self.clone();
        if self.rules.iter().any(|rule| !rule.is_for(version)) {
            let rules = self.rules.iter().filter(|rule| rule.is_for(version));
            chain.rules = rules.cloned().collect();
        }
        chain
    }

    /// The chains named with [`requires`](Self::requires), sorted.
    pub fn explicit_requirements(&self) -> impl Iterator<Item = &ChainName> {
        self.requires.iter()
    }
}

/// Reads the rules of a chain; an error names the chain and the rule's place.
pub(crate) fn rules_for<R>(chain: &str, rules: R) -> Result<Vec<Rule>, ChainError>
where
    R: IntoIterator,
    R::Item: IntoRule,
{
    let read = |(index, rule): (usize, R::Item)| {
        rule.into_rule(chain).map_err(|source| ChainError::Rule {
            chain: chain.to_owned(),
            number: index + 1,
            source,
        })
    };
    rules.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
