//! Typed state to chains. Pure: the same state always gives the same chains.

use std::collections::BTreeMap;

use iptables_updater::{Chain, IpVersion};
use log::warn;
use sha2::{Digest as _, Sha256};

use crate::model::{Action, Endpoint, InterfaceName, PolicyRule, Ports, Profile, Protocol, State};

pub const PREFIX: &str = "pa-";

/// The rules that lead into our chains: kernel chain and rule.
pub const HOOKS: [(&str, &str); 3] = [
    ("FORWARD", "-j pa-FORWARD"),
    ("INPUT", "-j pa-INPUT"),
    ("OUTPUT", "-j pa-OUTPUT"),
];

/// "Allowed so far". A verdict of ACCEPT inside an endpoint's chain would skip the chain of the endpoint on
/// the packet's other side, so allowing sets this bit, and the top chain accepts.
const ALLOW: &str = "-j MARK --set-xmark 0x1/0x1";
const FORGET: &str = "-j MARK --set-xmark 0x0/0x1";
const RETURN_IF_ALLOWED: &str = "-m mark --mark 0x1/0x1 -j RETURN";

/// multiport takes 15 ports, and a range counts as two.
const MULTIPORT_SLOTS: usize = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// What a workload sends.
    From,
    /// What a workload receives.
    To,
}

/// The chains that shall exist, by name.
///
/// One that the library refuses is logged and left out: the others aren't hurt, and a stub stands in for it.
pub fn compile(
    state: &State,
    version: IpVersion,
    interface_prefix: &str,
) -> BTreeMap<String, Chain> {
    let mut chains = BTreeMap::new();
    let mut add = |name: String, rules: Vec<String>| match Chain::new(
        name.as_str(),
        rules.iter().map(String::as_str),
    ) {
        Ok(chain) => drop(chains.insert(name, chain)),
        Err(error) => warn!("{version}: chain {name} is left out: {error}"),
    };
    let endpoints = by_interface(state);
    for (name, dispatches) in [
        ("pa-FORWARD", &["pa-from", "pa-to"][..]),
        ("pa-INPUT", &["pa-from"]),
        ("pa-OUTPUT", &["pa-to"]),
    ] {
        let mut rules = vec![FORGET.to_owned()];
        rules.extend(dispatches.iter().map(|chain| format!("-j {chain}")));
        rules.push("-m mark --mark 0x1/0x1 -j ACCEPT".to_owned());
        add(name.to_owned(), rules);
    }
    for direction in [Direction::From, Direction::To] {
        let (name, side) = match direction {
            Direction::From => ("pa-from", "-i"),
            Direction::To => ("pa-to", "-o"),
        };
        let interfaces = endpoints.keys();
        let mut rules: Vec<String> = interfaces
            .map(|interface| {
                let chain = endpoint_chain(direction, interface);
                format!("{side} {} -g {chain}", interface.as_str())
            })
            .collect();
        // An interface of a workload that we know nothing of, or nothing that we understand.
        rules.push(format!("{side} {interface_prefix}+ -j DROP"));
        add(name.to_owned(), rules);
        for (interface, endpoint) in &endpoints {
            let rules = endpoint_rules(direction, endpoint, version);
            add(endpoint_chain(direction, interface), rules);
        }
        for (id, profile) in &state.profiles {
            let rules = profile_rules(direction, profile, version);
            add(profile_chain(direction, id), rules);
        }
    }
    chains
}

/// Where two endpoints claim one interface, the one whose key sorts first has it.
fn by_interface(state: &State) -> BTreeMap<&InterfaceName, &Endpoint> {
    let mut endpoints = BTreeMap::new();
    for (id, endpoint) in &state.endpoints {
        if endpoints.contains_key(&endpoint.interface) {
            let interface = endpoint.interface.as_str();
            warn!("endpoint {id} is left out: another one has interface {interface}");
        } else {
            endpoints.insert(&endpoint.interface, endpoint);
        }
    }
    endpoints
}

fn endpoint_rules(direction: Direction, endpoint: &Endpoint, version: IpVersion) -> Vec<String> {
    let mut rules = vec![FORGET.to_owned()];
    if version == IpVersion::V6 {
        // Without neighbour discovery there is no traffic at all, and its sources are link-local.
        let types = match direction {
            Direction::From => [133, 135, 136],
            Direction::To => [134, 135, 136],
        };
        let discovery = types.map(|kind| format!("-p icmpv6 --icmpv6-type {kind} {ALLOW}"));
        rules.extend(discovery);
        rules.push(RETURN_IF_ALLOWED.to_owned());
    }
    if direction == Direction::From {
        // Whoever doesn't send from one of its own addresses is dropped.
        let own = endpoint.nets.iter().filter(|net| net.is_of(version));
        rules.extend(own.map(|net| format!("-s {net} {ALLOW}")));
        rules.push("-m mark ! --mark 0x1/0x1 -j DROP".to_owned());
        rules.push(FORGET.to_owned());
    }
    rules.push("-m conntrack --ctstate INVALID -j DROP".to_owned());
    rules.push(format!(
        "-m conntrack --ctstate RELATED,ESTABLISHED {ALLOW}"
    ));
    rules.push(RETURN_IF_ALLOWED.to_owned());
    for id in &endpoint.profiles {
        rules.push(format!("-j {}", profile_chain(direction, id)));
        rules.push(RETURN_IF_ALLOWED.to_owned());
    }
    rules.push("-j DROP".to_owned());
    rules
}

fn profile_rules(direction: Direction, profile: &Profile, version: IpVersion) -> Vec<String> {
    let rules = match direction {
        Direction::From => &profile.outbound,
        Direction::To => &profile.inbound,
    };
    rules
        .iter()
        .flat_map(|rule| policy_rule(direction, rule, version))
        .collect()
}

/// None where the rule is of the other IP version; several where there are many ports.
fn policy_rule(direction: Direction, rule: &PolicyRule, version: IpVersion) -> Vec<String> {
    let mut matches = String::new();
    if let Some(protocol) = rule.protocol {
        let name = match (protocol, version) {
            (Protocol::Tcp, _) => "tcp",
            (Protocol::Udp, _) => "udp",
            (Protocol::Sctp, _) => "sctp",
            (Protocol::Icmp, IpVersion::V4) => "icmp",
            (Protocol::Icmpv6, IpVersion::V6) => "icmpv6",
            (Protocol::Icmp | Protocol::Icmpv6, _) => return Vec::new(),
        };
        matches += &format!("-p {name} ");
    }
    if let Some(net) = &rule.net {
        if !net.is_of(version) {
            return Vec::new();
        }
        let side = match direction {
            Direction::From => "-d",
            Direction::To => "-s",
        };
        matches += &format!("{side} {net} ");
    }
    let mut port_matches: Vec<String> = port_lists(&rule.ports)
        .into_iter()
        .map(|list| format!("-m multiport --dports {list} "))
        .collect();
    if port_matches.is_empty() {
        port_matches.push(String::new());
    }
    let verdicts = match rule.action {
        Action::Allow => &[ALLOW, RETURN_IF_ALLOWED][..],
        Action::Deny => &["-j DROP"],
    };
    let mut rules = Vec::new();
    for ports in port_matches {
        rules.push(format!("{matches}{ports}{}", verdicts[0]));
    }
    rules.extend(verdicts[1..].iter().map(ToString::to_string));
    rules
}

/// Port lists, each short enough for one rule.
fn port_lists(ports: &[Ports]) -> Vec<String> {
    let mut lists = Vec::new();
    let mut slots = MULTIPORT_SLOTS;
    for Ports { first, last } in ports {
        let (text, needs) = if first == last {
            (first.to_string(), 1)
        } else {
            (format!("{first}:{last}"), 2)
        };
        match lists.last_mut() {
            Some(list) if slots >= needs => {
                *list = format!("{list},{text}");
                slots -= needs;
            }
            _ => {
                lists.push(text);
                slots = MULTIPORT_SLOTS - needs;
            }
        }
    }
    lists
}

fn endpoint_chain(direction: Direction, interface: &InterfaceName) -> String {
    let kind = match direction {
        Direction::From => "fe",
        Direction::To => "te",
    };
    format!("{PREFIX}{kind}-{}", interface.as_str())
}

fn profile_chain(direction: Direction, id: &str) -> String {
    let kind = match direction {
        Direction::From => "po",
        Direction::To => "pi",
    };
    format!("{PREFIX}{kind}-{}", short(id))
}

/// At most 22 bytes that a chain's name may hold, and never the same for two ids: what isn't short and plain
/// is hashed, and only a hash begins with `_`.
fn short(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.len() <= 22 && !id.starts_with('_') && id.bytes().all(plain) {
        return id.to_owned();
    }
    let hash = Sha256::digest(id);
    let hex: String = hash
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("_{hex}")
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
