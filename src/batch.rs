//! Requests to an updater: rewrites and deletions, which can be applied together as one commit.

use std::borrow::Cow;

use crate::{Chain, ChainName, ChainNameError, Change, Error, IpVersion, Prefixes, Rule};

/// One call's worth of change to owned chains: it succeeds or fails as a whole.
///
/// ```
/// use iptables_updater::{Chain, Change, Error, Request};
///
/// let mut request = Request::rewrite([Chain::new("web-input", ["-j web-tls"])?]);
/// request.extend([Change::Delete("web-old".parse()?)]); // in the same commit, or not at all
/// assert_eq!(request.changes().len(), 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request(Vec<Change>);

impl Request {
    /// These chains shall hold just these contents. Where one is named twice, the later wins.
    pub fn rewrite(chains: impl IntoIterator<Item = Chain>) -> Self {
        Self(chains.into_iter().map(Change::Rewrite).collect())
    }

    /// These chains shall no longer be programmed: each goes, or a stub stands in for it.
    ///
    /// # Errors
    /// One of them isn't a chain's name.
    pub fn delete<I>(chains: I) -> Result<Self, ChainNameError>
    where
        I: IntoIterator,
        I::Item: TryInto<ChainName>,
        ChainNameError: From<<I::Item as TryInto<ChainName>>::Error>,
    {
        let deletions = chains
            .into_iter()
            .map(|chain| Ok(Change::Delete(chain.try_into()?)));
        deletions.collect::<Result<_, ChainNameError>>().map(Self)
    }

    /// What it changes, in order.
    pub fn changes(&self) -> &[Change] {
        &self.0
    }

    /// The request without the rules that are meant for the other IP version.
    pub(crate) fn for_version(&self, version: IpVersion) -> Cow<'_, Self> {
        let other = |change: &Change| match change {
            Change::Rewrite(chain) => chain.rules().iter().any(|rule| !rule.is_for(version)),
            Change::Delete(_) => false,
        };
        if !self.0.iter().any(other) {
            return Cow::Borrowed(self);
        }
        let changes = self.0.iter().map(|change| match change {
            Change::Rewrite(chain) => Change::Rewrite(chain.for_version(version)),
            Change::Delete(name) => Change::Delete(name.clone()),
        });
        Cow::Owned(Self(changes.collect()))
    }

    /// About how many bytes of restore input it makes.
    pub(crate) fn bytes(&self) -> usize {
        let sizes = self.0.iter().map(|change| {
            let name = change.chain().as_str().len() + ": - [0:0]\n".len();
            let rules = match change {
                Change::Rewrite(chain) => chain.rules(),
                Change::Delete(_) => &[],
            };
            let line = |rule: &Rule| "-A \n".len() + name + rule.as_str().len();
            name + rules.iter().map(line).sum::<usize>()
        });
        sizes.sum()
    }

    /// Refuses chains that aren't owned.
    pub(crate) fn check(&self, prefixes: &Prefixes) -> Result<(), Error> {
        self.0.iter().try_for_each(|change| {
            let chain = change.chain();
            check_owned(chain, prefixes)?;
            let Change::Rewrite(contents) = change else {
                return Ok(());
            };
            let mut explicit = contents.explicit_requirements();
            match explicit.find(|required| !prefixes.own(required.as_str())) {
                None => Ok(()),
                Some(required) => Err(Error::RequiresNotOwned {
                    chain: chain.clone(),
                    required: required.clone(),
                    prefixes: prefixes.clone(),
                }),
            }
        })
    }
}

/// Rewrites and deletions that succeed or fail together, in order.
impl FromIterator<Change> for Request {
    fn from_iter<I: IntoIterator<Item = Change>>(changes: I) -> Self {
        Self(changes.into_iter().collect())
    }
}

impl Extend<Change> for Request {
    fn extend<I: IntoIterator<Item = Change>>(&mut self, changes: I) {
        self.0.extend(changes);
    }
}

/// Refuses a chain that isn't owned.
pub(crate) fn check_owned(chain: &ChainName, prefixes: &Prefixes) -> Result<(), Error> {
    if prefixes.own(chain.as_str()) {
        return Ok(());
    }
    Err(Error::NotOwned {
        chain: chain.clone(),
        prefixes: prefixes.clone(),
    })
}
