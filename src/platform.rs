//! What kind of iptables this is: IP version and back end.

use std::fmt;

/// IPv4 (`iptables`) or IPv6 (`ip6tables`): two separate sets of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpVersion {
    /// IPv4, `iptables`.
    V4,
    /// IPv6, `ip6tables`.
    V6,
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Which of its two kernel interfaces an iptables binary writes to.
///
/// A kernel can hold rules of both at once, and each binary sees only its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Backend {
    /// `iptables-nft`: translates to nf_tables; names failing lines, takes no lock.
    NfTables,
    /// `iptables-legacy`: replaces whole tables under the xtables lock; hides the kernel's error.
    Legacy,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NfTables => "nf_tables",
            Self::Legacy => "legacy",
        })
    }
}
