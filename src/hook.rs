//! The chain of a hook rule: one that we don't own.

use std::fmt;
use std::str::FromStr;

use crate::error::ChainNameError;
use crate::{ChainName, KernelChain, Table};

/// A chain to put a rule of ours into: a kernel chain, or a chain of another program.
///
/// ```
/// use iptables_updater::{HookChain, KernelChain};
///
/// assert_eq!(HookChain::new("INPUT")?, HookChain::Kernel(KernelChain::Input));
/// assert_eq!(HookChain::new("DOCKER-USER")?.to_string(), "DOCKER-USER");
/// # Ok::<(), iptables_updater::ChainNameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookChain {
    /// A chain of the kernel's.
    Kernel(KernelChain),
    /// A chain that another program made.
    User(ChainName),
}

impl HookChain {
    /// The chain of that name.
    ///
    /// # Errors
    /// The text is neither a kernel chain nor a chain's name.
    pub fn new(name: &str) -> Result<Self, ChainNameError> {
        match KernelChain::from_name(name) {
            Some(kernel) => Ok(Self::Kernel(kernel)),
            None => ChainName::new(name).map(Self::User),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Kernel(chain) => chain.name(),
            Self::User(name) => name.as_str(),
        }
    }

    /// Refuses a kernel chain that the table doesn't have.
    pub(crate) fn check_in(&self, table: Table) -> Result<(), ChainNameError> {
        match *self {
            Self::Kernel(chain) if !table.has(chain) => {
                Err(ChainNameError::NotInTable { table, chain })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for HookChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<KernelChain> for HookChain {
    fn from(chain: KernelChain) -> Self {
        Self::Kernel(chain)
    }
}

impl From<ChainName> for HookChain {
    fn from(name: ChainName) -> Self {
        Self::User(name)
    }
}

impl From<&HookChain> for HookChain {
    fn from(chain: &HookChain) -> Self {
        chain.clone()
    }
}

impl From<&ChainName> for HookChain {
    fn from(name: &ChainName) -> Self {
        Self::User(name.clone())
    }
}

impl AsRef<str> for HookChain {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for HookChain {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for HookChain {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl FromStr for HookChain {
    type Err = ChainNameError;

    fn from_str(name: &str) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<&String> for HookChain {
    type Error = ChainNameError;

    fn try_from(name: &String) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<&&str> for HookChain {
    type Error = ChainNameError;

    fn try_from(name: &&str) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for HookChain {
    type Error = ChainNameError;

    fn try_from(name: &str) -> Result<Self, ChainNameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for HookChain {
    type Error = ChainNameError;

    fn try_from(name: String) -> Result<Self, ChainNameError> {
        Self::new(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_holds_a_name_becomes_the_chain() {
        fn made<C: TryInto<HookChain>>(chain: C) -> HookChain
        where
            ChainNameError: From<C::Error>,
        {
            chain.try_into().map_err(ChainNameError::from).unwrap()
        }
        let user = ChainName::new("DOCKER-USER").unwrap();
        let names = ["DOCKER-USER".to_owned()];
        let kept = HookChain::User(user.clone());
        let chains = [
            made("DOCKER-USER"),
            made(&"DOCKER-USER"),
            made(&names[0]),
            made(names[0].clone()),
            made(&user),
            made(user.clone()),
            made(&kept),
            "DOCKER-USER".parse().unwrap(),
        ];
        for chain in chains {
            assert_eq!(chain, HookChain::User(user.clone()));
            assert_eq!(chain, "DOCKER-USER");
            assert_eq!(chain.as_ref(), user.as_ref());
        }
        assert_eq!(made(KernelChain::Input), made("INPUT"));
    }
}
