//! The chain of a hook rule: one that we don't own.

use std::fmt;

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
