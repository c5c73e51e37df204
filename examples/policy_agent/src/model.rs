//! What stands in etcd: keys and values, read into types.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Deserialize;

/// What all keys begin with.
pub const ROOT: &str = "/policy_agent/v1/";

/// What the names of the workloads' interfaces begin with. What comes from one that isn't known is dropped.
pub const INTERFACES: &str = "cali";

/// An interface of a workload, and the profiles that say who may talk to it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub interface: Interface,
    pub profiles: Vec<String>,
}

/// The name of a workload's interface: `cali…`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Interface(String);

impl Interface {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Interface {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.starts_with(INTERFACES) && name.len() <= 15 && name.bytes().all(fits) {
            Ok(Self(name))
        } else {
            Err(format!(
                "{name:?} is no interface of a workload: {INTERFACES}…"
            ))
        }
    }
}

/// The rules of a profile. What none of them allows is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(default)]
    pub inbound: Vec<PolicyRule>,
    #[serde(default)]
    pub outbound: Vec<PolicyRule>,
}

/// A rule; what isn't given matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    pub action: Action,
    pub protocol: Option<Protocol>,
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Where it comes from (inbound) or goes to (outbound).
    pub net: Option<Net>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Allow,
    Deny,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

/// `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Net {
    pub address: IpAddr,
    pub prefix: u8,
}

impl TryFrom<String> for Net {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bad = || format!("{text:?} is no network such as 10.0.0.0/8");
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix > most {
            return Err(bad());
        }
        Ok(Self { address, prefix })
    }
}

/// What a key names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Key<'k> {
    /// `host/<host>/workload/<orchestrator>/<workload>/endpoint/<id>`: the host, and all that tells it from others.
    Endpoint { host: &'k str, id: String },
    /// `policy/profile/<id>/rules`.
    Profile(&'k str),
}

impl<'k> Key<'k> {
    fn read(key: &'k str) -> Option<Self> {
        let parts: Vec<&str> = key.strip_prefix(ROOT)?.split('/').collect();
        match parts.as_slice() {
            [
                "host",
                host,
                "workload",
                orchestrator,
                workload,
                "endpoint",
                id,
            ] => {
                let id = format!("{orchestrator}/{workload}/{id}");
                Some(Self::Endpoint { host, id })
            }
            ["policy", "profile", id, "rules"] => Some(Self::Profile(id)),
            _ => None,
        }
    }
}

/// All that is known of one host's policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    host: String,
    pub endpoints: BTreeMap<String, Endpoint>,
    pub profiles: BTreeMap<String, Profile>,
}

impl State {
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ..Self::default()
        }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Takes a value over, or its absence. What can't be read counts as absent, so that it fails closed.
    ///
    /// # Errors
    /// The value can't be read, and why.
    pub fn set(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), serde_json::Error> {
        match Key::read(key) {
            Some(Key::Endpoint { host, id }) if host == self.host => {
                put(&mut self.endpoints, id, value)
            }
            Some(Key::Profile(id)) => put(&mut self.profiles, id.to_owned(), value),
            _ => Ok(()),
        }
    }

    /// The profiles that some endpoint names.
    pub fn wanted_profiles(&self) -> BTreeSet<&str> {
        let endpoints = self.endpoints.values();
        let names = endpoints.flat_map(|endpoint| &endpoint.profiles);
        names.map(String::as_str).collect()
    }
}

fn put<T: for<'de> Deserialize<'de>>(
    map: &mut BTreeMap<String, T>,
    id: String,
    value: Option<&[u8]>,
) -> Result<(), serde_json::Error> {
    map.remove(&id);
    if let Some(value) = value {
        map.insert(id, serde_json::from_slice(value)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "/policy_agent/v1/host/a/workload/k8s/web/endpoint/eth0";
    const PROFILE: &str = "/policy_agent/v1/policy/profile/web/rules";

    #[test]
    fn values_are_read_and_gone_when_they_are_bad() {
        let mut state = State::new("a");
        let endpoint = br#"{"interface":"cali1","profiles":["web"]}"#;
        state.set(ENDPOINT, Some(endpoint)).unwrap();
        let profile =
            br#"{"inbound":[{"action":"allow","protocol":"tcp","ports":[80],"net":"10.0.0.0/8"}]}"#;
        state.set(PROFILE, Some(profile)).unwrap();
        assert_eq!(state.endpoints["k8s/web/eth0"].interface.as_str(), "cali1");
        assert_eq!(state.profiles["web"].inbound[0].ports, [80]);
        assert_eq!(
            state.wanted_profiles().into_iter().collect::<Vec<_>>(),
            ["web"]
        );
        for bad in [
            &b"{"[..],
            b"7",
            br#"{"inbound":[{"action":"alow"}]}"#,
            b"\xff",
        ] {
            state.set(PROFILE, Some(profile)).unwrap();
            assert!(state.set(PROFILE, Some(bad)).is_err());
            assert!(state.profiles.is_empty());
        }
        for interface in ["eth0", "cali1 -j ACCEPT", "cali-and-too-long", ""] {
            let bad = format!(r#"{{"interface":"{interface}","profiles":[]}}"#);
            assert!(state.set(ENDPOINT, Some(bad.as_bytes())).is_err());
        }
        state.set(ENDPOINT, None).unwrap();
        assert!(state.endpoints.is_empty());
    }

    #[test]
    fn other_hosts_and_other_keys_are_none_of_ours() {
        let mut state = State::new("b");
        for key in [
            ENDPOINT,
            "/policy_agent/v1/x",
            "/other",
            "/policy_agent/v1/policy/profile/x",
        ] {
            state.set(key, Some(b"not even JSON")).unwrap();
        }
        assert_eq!(state, State::new("b"));
    }

    #[test]
    fn networks_are_checked() {
        let net = |text: &str| Net::try_from(text.to_owned());
        assert!(net("10.0.0.0/8").is_ok() && net("fd00::/8").is_ok());
        for bad in [
            "10.0.0.0",
            "10.0.0.0/33",
            "fd00::/129",
            "host/8",
            "10.0.0.0/8 -j ACCEPT",
        ] {
            assert!(net(bad).is_err(), "{bad}");
        }
    }
}
