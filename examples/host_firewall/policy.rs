//! The chains of the firewall, and how its allow-list is read.

use std::error::Error;

use iptables_updater::{Chain, ChainError, IpVersion, Rule};

const INPUT: [&str; 6] = [
    "-i lo -j ACCEPT",
    "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "-j fw-icmp", // before INVALID: conntrack doesn't know the neighbours of IPv6
    "-m conntrack --ctstate INVALID -j DROP",
    "-j fw-allow",
    "-g fw-drop",
];
const DROP: [&str; 2] = [
    "-m limit --limit 5/min -j LOG --log-prefix \"fw dropped: \"",
    "-j DROP",
];
/// Destination unreachable, echo request, time exceeded, parameter problem.
const ICMP: [u8; 4] = [3, 8, 11, 12];
/// Destination unreachable, packet too big, time exceeded, parameter problem, echo request; who listens to multicast;
/// routers and neighbours, of which the kernel itself takes only what comes from this very link.
const ICMPV6: [u8; 9] = [1, 2, 3, 4, 128, 130, 134, 135, 136];

/// The whole policy.
pub fn chains(version: IpVersion, allow: &[Rule]) -> Result<[Chain; 4], ChainError> {
    let (types, icmp): (&[u8], _) = match version {
        IpVersion::V4 => (&ICMP, "-p icmp --icmp-type"),
        IpVersion::V6 => (&ICMPV6, "-p ipv6-icmp --icmpv6-type"),
    };
    let icmp = types
        .iter()
        .map(|number| format!("{icmp} {number} -j ACCEPT"));
    Ok([
        Chain::new("fw-input", INPUT)?,
        Chain::new("fw-icmp", icmp)?,
        Chain::new("fw-allow", allow)?,
        Chain::new("fw-drop", DROP)?,
    ])
}

/// Reads the file; an error names the line.
pub fn allow_list(text: &str) -> Result<Vec<Rule>, Box<dyn Error>> {
    let mut rules = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<_> = line
            .split('#')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let (end, from) = match words[..] {
            [] => continue,
            ["allow", protocol @ ("tcp" | "udp"), port, "from", from] => {
                (["-p", protocol, "--dport", port, "-j", "ACCEPT"], from)
            }
            _ => {
                return Err(format!(
                    "line {number}: {line:?} isn't `allow tcp|udp PORT from ADDRESS|any`"
                )
                .into());
            }
        };
        let from: &[&str] = if from == "any" { &[] } else { &["-s", from] };
        let rule = Rule::from_words(from.iter().chain(&end))
            .map_err(|error| format!("line {number}: {error}"))?;
        rules.push(match from {
            [] => rule,
            [_, address] if address.contains(':') => rule.only_for(IpVersion::V6),
            _ => rule.only_for(IpVersion::V4),
        });
    }
    Ok(rules)
}
