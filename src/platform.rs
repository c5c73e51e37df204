//! What kind of iptables this is: IP version and back end.

use crate::named::written_by_name;

/// IPv4 (`iptables`) or IPv6 (`ip6tables`): two separate sets of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpVersion {
    /// IPv4, `iptables`.
    V4,
    /// IPv6, `ip6tables`.
    V6,
}

impl IpVersion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// `IPv4` or `IPv6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

written_by_name!(IpVersion, "IP version");

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

impl Backend {
    /// Both.
    pub const ALL: [Self; 2] = [Self::NfTables, Self::Legacy];

    /// The name as `iptables --version` prints it: `nf_tables` or `legacy`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NfTables => "nf_tables",
            Self::Legacy => "legacy",
        }
    }
}

written_by_name!(Backend, "back end");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for version in IpVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        let error = "nft".parse::<Backend>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"no back end is called "nft": there are nf_tables, legacy"#
        );
    }
}
