//! The tables of iptables and the kernel chains that each of them has.

use crate::named::written_by_name;

/// One table of iptables.
///
/// One [`IptablesUpdater`](crate::IptablesUpdater) owns chains in one table of one IP version.
///
/// ```
/// use iptables_updater::{KernelChain, Table};
///
/// assert_eq!("nat".parse(), Ok(Table::Nat));
/// assert!(Table::Filter.has(KernelChain::Input));
/// assert!(!Table::Filter.has(KernelChain::Prerouting));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// `filter`: accept or drop.
    Filter,
    /// `nat`: rewrite addresses; both back ends refuse the target `DROP` here.
    Nat,
    /// `mangle`: alter packets and marks.
    Mangle,
    /// `raw`: before connection tracking.
    Raw,
    /// `security`: `SELinux` marks.
    Security,
}

impl Table {
    /// Every table, in the order in which this library lists them.
    pub const ALL: [Self; 5] = [
        Self::Filter,
        Self::Nat,
        Self::Mangle,
        Self::Raw,
        Self::Security,
    ];

    /// The name as iptables spells it: `filter`, `nat`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Mangle => "mangle",
            Self::Raw => "raw",
            Self::Security => "security",
        }
    }

    /// The kernel chains of this table (`nat` has `INPUT` since Linux 2.6.36).
    pub const fn kernel_chains(self) -> &'static [KernelChain] {
        use KernelChain::{Forward, Input, Output, Postrouting, Prerouting};
        match self {
            Self::Filter | Self::Security => &[Input, Forward, Output],
            Self::Nat => &[Prerouting, Input, Output, Postrouting],
            Self::Mangle => &[Prerouting, Input, Forward, Output, Postrouting],
            Self::Raw => &[Prerouting, Output],
        }
    }

    /// Whether this table has that kernel chain.
    pub fn has(self, chain: KernelChain) -> bool {
        self.kernel_chains().contains(&chain)
    }
}

written_by_name!(Table, "table");

/// A built-in chain: where the kernel hands packets to a table.
///
/// Kernel chains are hooked (a rule of ours is put into them), never flushed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelChain {
    /// `PREROUTING`: every packet that arrives, before routing.
    Prerouting,
    /// `INPUT`: packets for this host.
    Input,
    /// `FORWARD`: packets that pass through.
    Forward,
    /// `OUTPUT`: packets that this host makes.
    Output,
    /// `POSTROUTING`: every packet that leaves, after routing.
    Postrouting,
}

impl KernelChain {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::Prerouting,
        Self::Input,
        Self::Forward,
        Self::Output,
        Self::Postrouting,
    ];

    /// The name as iptables spells it: `INPUT`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Input => "INPUT",
            Self::Forward => "FORWARD",
            Self::Output => "OUTPUT",
            Self::Postrouting => "POSTROUTING",
        }
    }

    /// The kernel chain of that name, if it is one's. [`FromStr`](std::str::FromStr) gives an error for people.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|chain| chain.name() == name)
    }
}

written_by_name!(KernelChain, "kernel chain");

/// What becomes of a packet that reaches the end of a kernel chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// It goes on.
    Accept,
    /// It is dropped.
    Drop,
}

impl Policy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Accept, Self::Drop];

    /// The name as iptables spells it: `ACCEPT` or `DROP`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "ACCEPT",
            Self::Drop => "DROP",
        }
    }

    /// The policy of that name, if it is one's. [`FromStr`](std::str::FromStr) gives an error for people.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

written_by_name!(Policy, "policy");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for table in Table::ALL {
            assert_eq!(table.name().parse(), Ok(table));
        }
        for chain in KernelChain::ALL {
            assert_eq!(KernelChain::from_name(chain.name()), Some(chain));
            assert_eq!(chain.name().parse(), Ok(chain));
        }
        for policy in Policy::ALL {
            assert_eq!(Policy::from_name(policy.name()), Some(policy));
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("FILTER".parse::<Table>().is_err());
        assert_eq!(KernelChain::from_name("input"), None);
    }
    #[test]
    fn a_name_is_padded_as_a_text_is() {
        assert_eq!(
            format!("{:>7}|{:<6}|", Table::Nat, Policy::Drop),
            "    nat|DROP  |"
        );
    }
}
