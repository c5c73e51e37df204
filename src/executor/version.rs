//! What an iptables says of itself when asked for its version.

use std::fmt;

use crate::Backend;

/// The version of an iptables: `1.8.9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

impl ToolVersion {
    /// The version of these three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether `iptables-restore` takes `-w SECONDS` (since 1.6.2); those before it don't wait for the
    /// xtables lock, nor take it.
    pub fn restore_waits(self) -> bool {
        self >= Self::new(1, 6, 2)
    }

    /// Whether ip6tables (legacy) of that version compares what two rules match with a mask of the wrong length: only in
    /// 1.8.9.
    pub(super) fn confuses_rules_of_ipv6(self) -> bool {
        self == Self::new(1, 8, 9)
    }

    /// Reads the answer to `--version`: `iptables-restore v1.8.9 (nf_tables)`. Before 1.8 there was one back
    /// end, which isn't named.
    pub(super) fn parse(answer: &str) -> Option<(Self, Backend)> {
        let mut words = answer.lines().next()?.split_whitespace();
        let version = words.find_map(|word| word.strip_prefix('v'))?;
        let backend = match words.next() {
            Some("(nf_tables)") => Backend::NfTables,
            Some("(legacy)") | None => Backend::Legacy,
            Some(_) => return None,
        };
        let mut numbers = version.split('.').map(|number| {
            let digits = number.trim_end_matches(|c: char| !c.is_ascii_digit());
            digits.parse::<u32>().ok()
        });
        let major = numbers.next()??;
        let minor = numbers.next()??;
        let patch = numbers.next().flatten().unwrap_or(0);
        Some((Self::new(major, minor, patch), backend))
    }
}

impl fmt::Display for ToolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let nft = Some((ToolVersion::new(1, 8, 9), Backend::NfTables));
        for (answer, expected) in [
            ("iptables-restore v1.8.9 (nf_tables)\n", nft),
            ("ip6tables-nft-restore v1.8.9 (nf_tables)", nft),
            (
                "iptables-restore v1.8.9 (legacy)\n",
                Some((ToolVersion::new(1, 8, 9), Backend::Legacy)),
            ),
            (
                "iptables-restore v1.6.1\n",
                Some((ToolVersion::new(1, 6, 1), Backend::Legacy)),
            ),
            (
                "iptables-restore v1.4.21",
                Some((ToolVersion::new(1, 4, 21), Backend::Legacy)),
            ),
            (
                "iptables-restore v2.0 (nf_tables)",
                Some((ToolVersion::new(2, 0, 0), Backend::NfTables)),
            ),
            ("iptables-restore v1.8.9 (other)", None),
            ("iptables-restore 1.8.9", None),
            ("v", None),
            ("v1", None),
            ("vx.y.z", None),
            ("", None),
        ] {
            assert_eq!(ToolVersion::parse(answer), expected, "{answer}");
        }
    }

    #[test]
    fn restores_wait_since_1_6_2() {
        assert!(!ToolVersion::new(1, 4, 21).restore_waits());
        assert!(!ToolVersion::new(1, 6, 1).restore_waits());
        assert!(ToolVersion::new(1, 6, 2).restore_waits());
        assert!(ToolVersion::new(1, 8, 0).restore_waits());
        assert!(ToolVersion::new(2, 0, 0).restore_waits());
    }
}
