//! What kind a failure of iptables is: for programs to decide by.

use std::fmt;

/// What kind of failure it is: what it means and what may be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FailureClass {
    /// Another program holds the xtables lock (legacy). Retried.
    LockHeld,
    /// The kernel was short of something, or another program changed the table at the same instant. Retried.
    Race,
    /// The tool didn't say why: the kernel's refusal on legacy, a signal, the time limit. Retried a few times.
    Ambiguous,
    /// The rule to delete or check doesn't stand in that chain.
    RuleAbsent,
    /// A chain, a target or a set that a line names doesn't exist.
    TargetAbsent,
    /// The chain to create is there already.
    ChainExists,
    /// The chain to delete is still referred to.
    ChainBusy,
    /// Chains that lead to each other, or more of them nested than the kernel allows.
    TooManyLinks,
    /// Not root, or without the capability `CAP_NET_ADMIN`.
    NoPrivilege,
    /// The kernel or the tool doesn't have this table.
    NoTable,
    /// The kernel lacks nf_tables, or an extension that a rule uses.
    NoKernelSupport,
    /// The xtables lock file can't be opened (legacy).
    LockFile,
    /// iptables or the kernel refused the line: it is wrong, now and later.
    Refused,
}

impl FailureClass {
    /// Whether the same input may succeed later, with nothing else changed.
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::LockHeld | Self::Race | Self::Ambiguous)
    }

    /// Whether it says that what a line names isn't there.
    pub const fn is_absence(self) -> bool {
        matches!(self, Self::RuleAbsent | Self::TargetAbsent)
    }

    /// What it is, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::LockHeld => "another program holds the xtables lock",
            Self::Race => "the kernel was busy or short of memory",
            Self::Ambiguous => "iptables didn't say why it failed",
            Self::RuleAbsent => "no such rule stands in that chain",
            Self::TargetAbsent => "a chain, target or set that it names doesn't exist",
            Self::ChainExists => "the chain is there already",
            Self::ChainBusy => "the chain is still referred to",
            Self::TooManyLinks => {
                "chains lead to each other in a circle, or are nested deeper than the kernel allows"
            }
            Self::NoPrivilege => "the privilege is missing",
            Self::NoTable => "there is no such table",
            Self::NoKernelSupport => "the kernel lacks what it needs",
            Self::LockFile => "the xtables lock file can't be opened",
            Self::Refused => "iptables refused it",
        }
    }

    /// What to do next.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::LockHeld => "find who holds the lock (`fuser /run/xtables.lock`), or wait longer",
            Self::Race => "try again later",
            Self::Ambiguous => {
                "look at the kernel log (`dmesg`), and try the rules one by one: legacy hides the reason"
            }
            Self::RuleAbsent => "check how the rule reads in iptables-save",
            Self::TargetAbsent => {
                "create the chain or set first, or correct the name; an extension's target needs its library and kernel module"
            }
            Self::ChainExists => "use it as it is, or choose another name",
            Self::ChainBusy => {
                "remove the rules that jump to it (iptables-save shows most of them)"
            }
            Self::TooManyLinks => {
                "break the circle, or nest less: nf_tables allows a kernel chain and 15 chains nested under it"
            }
            Self::NoPrivilege => "run as root or with CAP_NET_ADMIN (legacy needs CAP_NET_RAW too)",
            Self::NoTable => {
                "check that the kernel has the table's module (`modprobe iptable_nat` and the like), and the privilege"
            }
            Self::NoKernelSupport => {
                "load or build the kernel module that it names, or choose the other back end"
            }
            Self::LockFile => "make /run/xtables.lock writable for this process",
            Self::Refused => "correct the line",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())
    }
}
