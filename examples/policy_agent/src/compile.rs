//! Turns policy into chains: a dispatching one, two for each endpoint, two for each profile.
//!
//! ```text
//!                        from a workload
//! FORWARD ─► pa-forward ─┬─ -i cali+ ─► pa-from ─┬─ -i cali1 ─► pa-from-<endpoint> ─► pa-out-<profile>…
//!                        │                       └─ unknown: drop
//!                        │ to a workload
//!                        ├─ -o cali+ ─► pa-to ───┬─ -o cali1 ─► pa-to-<endpoint> ───► pa-in-<profile>…
//!                        │                       └─ unknown: drop
//!                        └─ allowed: accept
//! ```
//!
//! A profile allows a packet by a mark; an endpoint's chain drops what none of its profiles has allowed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use iptables_updater::IpVersion;

use crate::model::{Action, INTERFACES, PolicyRule, Profile, Protocol, State};

/// What the names of all chains begin with.
pub const PREFIX: &str = "pa-";
/// The chain that is hooked into `FORWARD`.
pub const FORWARD: &str = "pa-forward";
/// Says that a profile has allowed the packet.
const MARK: &str = "0x1000000/0x1000000";
/// Says that none has.
const NO_MARK: &str = "0x0/0x1000000";

/// Chains with their rules, by name.
pub type Chains = BTreeMap<String, Vec<String>>;

/// A chain's name: what it is for, and the id if that fits, else a hash of it.
fn name(kind: &str, id: &str) -> String {
    let plain = id
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let whole = format!("{PREFIX}{kind}-{id}");
    if plain && !id.is_empty() && whole.len() <= 28 {
        return whole;
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{PREFIX}{kind}-{:016x}", hasher.finish())
}

/// The chains of a policy, for one IP version.
pub fn chains(state: &State, version: IpVersion) -> Chains {
    let mut chains = Chains::new();
    let accept = |option| format!("{option} {INTERFACES}+ -m mark --mark {MARK} -j ACCEPT");
    let forward = [
        format!("-i {INTERFACES}+ -j {PREFIX}from"),
        format!("-o {INTERFACES}+ -j {PREFIX}to"),
        accept("-i"),
        accept("-o"),
    ];
    chains.insert(FORWARD.to_owned(), forward.to_vec());
    for (kind, option, of_profile) in [("from", "-i", "out"), ("to", "-o", "in")] {
        let mut dispatch = Vec::new();
        for (id, endpoint) in &state.endpoints {
            let chain = name(kind, id);
            // Going there, not jumping: what returns goes on in `pa-forward`.
            dispatch.push(format!(
                "{option} {} -g {chain}",
                endpoint.interface.as_str()
            ));
            let mut rules = vec![
                "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT".to_owned(),
                format!("-j MARK --set-xmark {NO_MARK}"),
            ];
            for profile in &endpoint.profiles {
                rules.push(format!("-j {}", name(of_profile, profile)));
                rules.push(format!("-m mark --mark {MARK} -j RETURN"));
            }
            rules.push("-j DROP".to_owned());
            chains.insert(chain, rules);
        }
        dispatch.push("-j DROP".to_owned());
        chains.insert(format!("{PREFIX}{kind}"), dispatch);
    }
    for id in state.wanted_profiles() {
        // What isn't there, or can't be read, isn't programmed: the library's stub drops.
        if let Some(profile) = state.profiles.get(id) {
            chains.insert(name("in", id), profile_rules(profile, true, version));
            chains.insert(name("out", id), profile_rules(profile, false, version));
        }
    }
    chains
}

fn profile_rules(profile: &Profile, inbound: bool, version: IpVersion) -> Vec<String> {
    let rules = if inbound {
        &profile.inbound
    } else {
        &profile.outbound
    };
    rules
        .iter()
        .filter_map(|rule| Some((matches(rule, inbound, version)?, rule.action)))
        .flat_map(|(matches, action)| match action {
            Action::Deny => vec![format!("{matches}-j DROP")],
            Action::Allow => vec![
                format!("{matches}-j MARK --set-xmark {MARK}"),
                format!("-m mark --mark {MARK} -j RETURN"),
            ],
        })
        .collect()
}

/// What a rule matches, in the words of iptables; `None` if it is about the other IP version.
fn matches(rule: &PolicyRule, inbound: bool, version: IpVersion) -> Option<String> {
    let mut words = String::new();
    if let Some(net) = rule.net {
        let v4 = version == IpVersion::V4;
        if net.address.is_ipv4() != v4 {
            return None;
        }
        let option = if inbound { "-s" } else { "-d" };
        words += &format!("{option} {}/{} ", net.address, net.prefix);
    }
    let protocol = match (rule.protocol, version) {
        (Some(Protocol::Icmp), IpVersion::V6) => Some("icmpv6"),
        (Some(Protocol::Icmp), IpVersion::V4) => Some("icmp"),
        (Some(Protocol::Udp), _) => Some("udp"),
        (Some(Protocol::Tcp), _) => Some("tcp"),
        // Ports are those of TCP, if nothing else is said.
        (None, _) => (!rule.ports.is_empty()).then_some("tcp"),
    };
    if let Some(protocol) = protocol {
        words += &format!("-p {protocol} ");
    }
    if !rule.ports.is_empty() {
        let ports: Vec<String> = rule.ports.iter().map(ToString::to_string).collect();
        words += &format!("-m multiport --dports {} ", ports.join(","));
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use iptables_updater::{Backend, Chain, IptablesUpdater, MemoryExecutor, Table};

    use super::*;

    fn state() -> State {
        let mut state = State::new("a");
        let endpoint = br#"{"interface":"cali1","profiles":["web","missing"]}"#;
        let key = "/policy_agent/v1/host/a/workload/k8s/web-1/endpoint/eth0";
        state.set(key, Some(endpoint)).unwrap();
        let profile = br#"{"inbound":[
            {"action":"deny","net":"10.6.6.0/24"},
            {"action":"allow","protocol":"tcp","ports":[80,443],"net":"10.0.0.0/8"},
            {"action":"allow","protocol":"icmp"},
            {"action":"allow","net":"fd00::/8"}],"outbound":[{"action":"allow"}]}"#;
        let key = "/policy_agent/v1/policy/profile/web/rules";
        state.set(key, Some(profile)).unwrap();
        state
    }

    #[test]
    fn each_ip_version_gets_its_own_rules() {
        let chains_of = |version| chains(&state(), version).remove("pa-in-web").unwrap();
        let mark = "-j MARK --set-xmark 0x1000000/0x1000000";
        let done = "-m mark --mark 0x1000000/0x1000000 -j RETURN";
        assert_eq!(
            chains_of(IpVersion::V4),
            [
                "-s 10.6.6.0/24 -j DROP",
                &format!("-s 10.0.0.0/8 -p tcp -m multiport --dports 80,443 {mark}"),
                done,
                &format!("-p icmp {mark}"),
                done,
            ]
        );
        assert_eq!(
            chains_of(IpVersion::V6),
            [
                &format!("-p icmpv6 {mark}"),
                done,
                &format!("-s fd00::/8 {mark}"),
                done
            ]
        );
    }

    #[test]
    fn a_profile_that_is_not_there_is_a_stub_that_drops() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let kernel = MemoryExecutor::new(version, Backend::NfTables);
            let mut filter = IptablesUpdater::builder(Table::Filter)
                .chain_prefix(PREFIX)
                .open(kernel.clone())
                .unwrap();
            let chains = chains(&state(), version).into_iter();
            let chains = chains.map(|(name, rules)| Chain::new(name, rules).unwrap());
            let changes = filter.rewrite_chains(chains).unwrap();
            assert_eq!(changes.stubbed, ["pa-in-missing", "pa-out-missing"]);
            let stub = kernel.rules(Table::Filter, "pa-in-missing").unwrap();
            assert!(stub[0].ends_with("-j DROP"));
        }
    }

    #[test]
    fn long_and_odd_ids_make_names_that_chains_can_have() {
        let long = "k8s/a-very-long-name-of-a-workload/eth0";
        let names = [long, "", "a b", "x\n-j ACCEPT", "ü", "web"].map(|id| name("from", id));
        for (at, name) in names.iter().enumerate() {
            assert!(iptables_updater::ChainName::new(name).is_ok(), "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
        assert_eq!(names[5], "pa-from-web");
    }
}
