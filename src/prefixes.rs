//! The prefixes that mark a chain as owned.

use std::fmt;

use crate::chain::{check, check_beginning};
use crate::error::PrefixError;
use crate::{ChainName, excerpt};

/// Targets of extensions: a chain of that name would hide the target.
const EXTENSION_TARGETS: [&str; 46] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CLUSTERIP",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DNAT",
    "DNPT",
    "DSCP",
    "ECN",
    "HL",
    "HMARK",
    "IDLETIMER",
    "LED",
    "LOG",
    "MARK",
    "MASQUERADE",
    "MIRROR",
    "NETMAP",
    "NFLOG",
    "NFQUEUE",
    "NOTRACK",
    "RATEEST",
    "REDIRECT",
    "REJECT",
    "ROUTE",
    "SAME",
    "SECMARK",
    "SET",
    "SNAT",
    "SNPT",
    "SYNPROXY",
    "TARPIT",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TPROXY",
    "TRACE",
    "TTL",
    "ULOG",
    "XOR",
    "ACCOUNT",
    "CHAOS",
    "DELUDE",
];

/// Which chains an updater owns: those whose names begin with one of these.
///
/// ```
/// use iptables_updater::{PrefixError, Prefixes};
///
/// let prefixes = Prefixes::new(["web-", "db-"])?;
/// assert!(prefixes.own("web-input") && !prefixes.own("DOCKER"));
/// # Ok::<(), PrefixError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prefixes(Vec<String>);

impl Prefixes {
    /// Checks the prefixes.
    ///
    /// # Errors
    /// There is none, or one of them would own a target of iptables.
    pub fn new<I>(prefixes: I) -> Result<Self, PrefixError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let prefixes = prefixes.into_iter();
        let prefixes: Vec<String> = prefixes.map(|p| p.as_ref().to_owned()).collect();
        if prefixes.is_empty() {
            return Err(PrefixError::None);
        }
        for prefix in &prefixes {
            check_beginning(prefix).map_err(|source| PrefixError::Name {
                prefix: excerpt::short(prefix),
                source,
            })?;
            let owns = |target: &&&'static str| target.starts_with(prefix.as_str());
            if let Some(target) = EXTENSION_TARGETS.iter().find(owns) {
                let prefix = prefix.clone();
                return Err(PrefixError::Target { prefix, target });
            }
        }
        Ok(Self(prefixes))
    }

    /// The prefixes, as they were given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The owned chain of that name, if it is one's.
    pub(crate) fn owned(&self, name: &str) -> Option<ChainName> {
        self.own(name).then(|| ChainName::of_kept(name))
    }

    /// Whether a chain of that name is an owned one: a kernel chain or a built-in target never is,
    /// whatever the prefixes.
    pub fn own(&self, name: &str) -> bool {
        let begins = |prefix: &String| name.starts_with(prefix.as_str());
        self.0.iter().any(begins) && check(name).is_ok()
    }
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_owns_the_chains_that_begin_with_it() {
        let prefixes = Prefixes::new(["web-", "IN"]).unwrap();
        for name in ["web-", "web-a", "INX", "IN"] {
            assert!(prefixes.own(name), "{name}");
            assert_eq!(prefixes.owned(name).unwrap(), name);
        }
        // A kernel chain is nobody's, and no more is a chain that we couldn't write.
        for name in [
            "we",
            "Web-a",
            "INPUT",
            "web-a b",
            "web-ccccccccccccccccccccccccc",
            "",
        ] {
            assert!(!prefixes.own(name), "{name}");
            assert_eq!(prefixes.owned(name), None);
        }
        assert!(!Prefixes::new(["ACCEP"]).unwrap().own("ACCEPT"));
        assert_eq!(prefixes.to_string(), "web-, IN");
    }

    #[test]
    fn prefixes_that_own_nothing_or_a_target_are_refused() {
        assert_eq!(Prefixes::new([] as [&str; 0]), Err(PrefixError::None));
        for prefix in ["", "-x", "a b", "a\nb"] {
            let error = Prefixes::new(["web-", prefix]).unwrap_err();
            assert!(matches!(&error, PrefixError::Name { .. }), "{error}");
            assert!(!error.to_string().contains(char::is_control), "{error}");
        }
        let long = "c".repeat(29);
        assert!(matches!(
            Prefixes::new([&long]),
            Err(PrefixError::Name { .. })
        ));
        assert!(Prefixes::new([&long[1..]]).is_ok());
        for prefix in ["REJECT", "REJ", "L", "CT", "MASQ"] {
            let error = Prefixes::new([prefix]).unwrap_err();
            assert!(matches!(&error, PrefixError::Target { .. }), "{error}");
        }
        assert!(Prefixes::new(["REJECT-"]).is_ok());
    }
}
