//! The matches and targets that this simulation knows, with their options as they are saved.

use super::getopt::Takes;
use super::values::{Kind, Mark};
use crate::{IpVersion, KernelChain, Table};

/// A match or target.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// In the order in which they are saved.
    pub(super) options: &'static [Opt],
    /// What is saved if nothing was given.
    pub(super) default: &'static str,
    /// Only in rules for this protocol.
    pub(super) protocol: Option<u8>,
    /// Only for this IP version.
    pub(super) version: Option<IpVersion>,
    /// Options of which one has to be given, by the message if none is.
    pub(super) one_of: Option<&'static str>,
    /// No two options at once.
    pub(super) exclusive: bool,
}

/// One option of an extension.
#[derive(Debug)]
pub(super) struct Opt {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    /// The name under which it is saved.
    pub(super) saved: &'static str,
    pub(super) kind: Kind,
    pub(super) invert: bool,
    pub(super) required: bool,
    /// What is said if it is given twice, where that isn't the usual sentence.
    pub(super) twice: Option<&'static str>,
}

impl Opt {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            aliases: &[],
            saved: name,
            kind,
            invert: false,
            required: false,
            twice: None,
        }
    }

    const fn inverted(self) -> Self {
        Self {
            invert: true,
            ..self
        }
    }

    const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    const fn saved(self, saved: &'static str) -> Self {
        Self { saved, ..self }
    }

    const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn twice(self, twice: &'static str) -> Self {
        Self {
            twice: Some(twice),
            ..self
        }
    }

    pub(super) const fn takes(&self) -> Takes {
        match self.kind {
            Kind::Flag | Kind::Syn => Takes::Nothing,
            _ => Takes::Value,
        }
    }
}

impl Spec {
    const fn new(name: &'static str, options: &'static [Opt]) -> Self {
        Self {
            name,
            options,
            default: "",
            protocol: None,
            version: None,
            one_of: None,
            exclusive: false,
        }
    }

    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    const fn protocol(self, number: u8) -> Self {
        Self {
            protocol: Some(number),
            ..self
        }
    }

    const fn version(self, version: IpVersion) -> Self {
        Self {
            version: Some(version),
            ..self
        }
    }

    const fn one_of(self, message: &'static str) -> Self {
        Self {
            one_of: Some(message),
            exclusive: true,
            ..self
        }
    }
}

const SPORT: Opt = Opt::new("source-port", Kind::Port)
    .aliases(&["sport"])
    .saved("sport")
    .inverted()
    .twice("Only one `--source-port' allowed");
const DPORT: Opt = Opt::new("destination-port", Kind::Port)
    .aliases(&["dport"])
    .saved("dport")
    .inverted()
    .twice("Only one `--destination-port' allowed");
const ONE_TCP_FLAGS: &str = "Only one of `--syn' or `--tcp-flags'  allowed";

/// Matches; the protocols' own are loaded with `-p` alone.
pub(super) const MATCHES: &[Spec] = &[
    Spec::new(
        "tcp",
        &[
            SPORT,
            DPORT,
            Opt::new("tcp-option", Kind::Word).inverted(),
            Opt::new("tcp-flags", Kind::TcpFlags)
                .inverted()
                .twice(ONE_TCP_FLAGS),
            Opt::new("syn", Kind::Syn)
                .saved("tcp-flags")
                .inverted()
                .twice(ONE_TCP_FLAGS),
        ],
    )
    .protocol(6),
    Spec::new("udp", &[SPORT, DPORT]).protocol(17),
    Spec::new(
        "icmp",
        &[Opt::new("icmp-type", Kind::IcmpType).inverted().required()],
    )
    .protocol(1)
    .version(IpVersion::V4),
    Spec::new(
        "icmp6",
        &[Opt::new("icmpv6-type", Kind::IcmpType)
            .inverted()
            .required()],
    )
    .protocol(58)
    .version(IpVersion::V6),
    Spec::new(
        "comment",
        &[Opt::new("comment", Kind::Text(0, 255)).required()],
    ),
    Spec::new(
        "multiport",
        &[
            Opt::new("source-ports", Kind::Ports)
                .aliases(&["sports"])
                .saved("sports")
                .inverted(),
            Opt::new("destination-ports", Kind::Ports)
                .aliases(&["dports"])
                .saved("dports")
                .inverted(),
            Opt::new("ports", Kind::Ports).inverted(),
        ],
    )
    .one_of("multiport expection an option"),
    Spec::new(
        "state",
        &[Opt::new("state", Kind::States).inverted().required()],
    ),
    Spec::new(
        "conntrack",
        &[
            Opt::new("ctstate", Kind::States).inverted(),
            Opt::new("ctproto", Kind::Word).inverted(),
            Opt::new("ctorigsrc", Kind::Word).inverted(),
            Opt::new("ctorigdst", Kind::Word).inverted(),
            Opt::new("ctdir", Kind::Word),
        ],
    ),
    Spec::new(
        "mark",
        &[Opt::new("mark", Kind::Mark).inverted().required()],
    ),
    Spec::new(
        "limit",
        &[
            Opt::new("limit", Kind::Rate),
            Opt::new("limit-burst", Kind::Number(0, 10_000, Some(5))),
        ],
    )
    .default("--limit 3/hour"),
    Spec::new(
        "set",
        &[Opt::new("match-set", Kind::Set)
            .aliases(&["set"])
            .inverted()
            .twice("--match-set can be specified only once")],
    ),
];

/// Targets of extensions.
pub(super) const TARGETS: &[Spec] = &[
    Spec::new(
        "LOG",
        &[
            Opt::new("log-prefix", Kind::Text(1, 29)),
            Opt::new("log-level", Kind::LogLevel),
            Opt::new("log-tcp-sequence", Kind::Flag),
            Opt::new("log-tcp-options", Kind::Flag),
            Opt::new("log-ip-options", Kind::Flag),
            Opt::new("log-uid", Kind::Flag),
            Opt::new("log-macdecode", Kind::Flag),
        ],
    ),
    Spec::new(
        "NFLOG",
        &[
            Opt::new("nflog-prefix", Kind::NflogPrefix),
            Opt::new("nflog-group", Kind::Number(0, 65_535, Some(0))),
            Opt::new("nflog-threshold", Kind::Number(0, 65_535, Some(1))),
        ],
    ),
    Spec::new("REJECT", &[Opt::new("reject-with", Kind::RejectWith)]),
    Spec::new(
        "MARK",
        &[
            Opt::new("set-xmark", Kind::SetMark(Mark::Xor)),
            Opt::new("set-mark", Kind::SetMark(Mark::Set)).saved("set-xmark"),
            Opt::new("and-mark", Kind::SetMark(Mark::And)).saved("set-xmark"),
            Opt::new("or-mark", Kind::SetMark(Mark::Or)).saved("set-xmark"),
            Opt::new("xor-mark", Kind::SetMark(Mark::Flip)).saved("set-xmark"),
        ],
    )
    .one_of("MARK: One of the --set-xmark, --{and,or,xor,set}-mark options is required"),
    Spec::new(
        "MASQUERADE",
        &[
            Opt::new("to-ports", Kind::ToPorts),
            Opt::new("random", Kind::Flag),
            Opt::new("random-fully", Kind::Flag),
        ],
    ),
    Spec::new(
        "SNAT",
        &[
            Opt::new("to-source", Kind::Nat).required(),
            Opt::new("random", Kind::Flag),
            Opt::new("random-fully", Kind::Flag),
            Opt::new("persistent", Kind::Flag),
        ],
    ),
    Spec::new(
        "DNAT",
        &[
            Opt::new("to-destination", Kind::Nat).required(),
            Opt::new("random", Kind::Flag),
            Opt::new("persistent", Kind::Flag),
        ],
    ),
    Spec::new(
        "REDIRECT",
        &[
            Opt::new("to-ports", Kind::ToPorts),
            Opt::new("random", Kind::Flag),
        ],
    ),
    Spec::new(
        "NFQUEUE",
        &[Opt::new("queue-num", Kind::Number(0, 65_535, None))],
    )
    .default("--queue-num 0"),
    Spec::new(
        "SET",
        &[
            Opt::new("add-set", Kind::Set).twice("--add-set can be specified only once"),
            Opt::new("exist", Kind::Flag),
            Opt::new("del-set", Kind::Set).twice("--del-set can be specified only once"),
        ],
    ),
    Spec::new("TRACE", &[]),
    Spec::new("NOTRACK", &[]),
];

/// Matches that iptables has and that are kept here word for word.
pub(super) const OTHER_MATCHES: &[&str] = &[
    "addrtype",
    "ah",
    "bpf",
    "cgroup",
    "cluster",
    "connbytes",
    "connlabel",
    "connlimit",
    "connmark",
    "cpu",
    "dccp",
    "devgroup",
    "dscp",
    "ecn",
    "esp",
    "hashlimit",
    "helper",
    "ipcomp",
    "iprange",
    "ipvs",
    "length",
    "mac",
    "nfacct",
    "osf",
    "owner",
    "physdev",
    "pkttype",
    "policy",
    "quota",
    "rateest",
    "recent",
    "rpfilter",
    "sctp",
    "socket",
    "statistic",
    "string",
    "tcpmss",
    "time",
    "tos",
    "u32",
];

/// The same for targets.
pub(super) const OTHER_TARGETS: &[&str] = &[
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DSCP",
    "HMARK",
    "IDLETIMER",
    "LED",
    "NETMAP",
    "RATEEST",
    "SECMARK",
    "SYNPROXY",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TPROXY",
];

/// The only table that takes a target, where there is one.
pub(super) fn only_table(target: &str) -> Option<Table> {
    Some(match target {
        "REJECT" => Table::Filter,
        "MASQUERADE" | "SNAT" | "DNAT" | "REDIRECT" | "NETMAP" => Table::Nat,
        "TPROXY" | "TCPOPTSTRIP" | "CHECKSUM" | "DSCP" | "TOS" => Table::Mangle,
        "CT" | "NOTRACK" => Table::Raw,
        _ => return None,
    })
}

/// The only kernel chains from which a target works, where there are such.
pub(super) fn only_from(target: &str) -> Option<&'static [KernelChain]> {
    use KernelChain::{Input, Output, Postrouting, Prerouting};
    Some(match target {
        "MASQUERADE" => &[Postrouting],
        "SNAT" => &[Postrouting, Input],
        "DNAT" | "REDIRECT" => &[Prerouting, Output],
        _ => return None,
    })
}
