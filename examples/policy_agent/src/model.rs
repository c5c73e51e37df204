//! What etcd holds: keys and JSON to typed values. Pure: no etcd, no iptables.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use iptables_updater::IpVersion;
use serde::Deserialize;

pub const ROOT: &str = "/policy_agent/v1/";

/// What a key is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An endpoint of this host: the key's part after the host.
    Endpoint(String),
    /// A profile's rules, by the profile's id.
    Profile(String),
}

impl Key {
    /// None: the key is about something else, another host's endpoint for example.
    pub fn parse(key: &str, host: &str) -> Option<Self> {
        let words: Vec<&str> = key.strip_prefix(ROOT)?.split('/').collect();
        if words.iter().any(|word| word.is_empty()) {
            return None;
        }
        match words[..] {
            [
                "host",
                of,
                "workload",
                orchestrator,
                workload,
                "endpoint",
                id,
            ] if of == host => Some(Self::Endpoint(format!("{orchestrator}/{workload}/{id}"))),
            ["policy", "profile", id, "rules"] => Some(Self::Profile(id.to_owned())),
            _ => None,
        }
    }
}

/// An interface of a workload. An unknown field is an error everywhere: what it would have restricted, nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub interface: InterfaceName,
    /// The addresses that it may send from.
    #[serde(default)]
    pub nets: Vec<Net>,
    /// Tried in order; what no profile allows is dropped.
    #[serde(default)]
    pub profiles: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(default)]
    pub inbound: Vec<PolicyRule>,
    #[serde(default)]
    pub outbound: Vec<PolicyRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    pub action: Action,
    pub protocol: Option<Protocol>,
    /// Destination ports; none means any.
    #[serde(default)]
    pub ports: Vec<Ports>,
    /// The peer: the source of what comes in, the destination of what goes out.
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
    Sctp,
    Icmp,
    Icmpv6,
}

impl Protocol {
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::Sctp)
    }
}

/// A port or a range of them, as `80` or `"8000:8999"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct Ports {
    pub first: u16,
    pub last: u16,
}

impl TryFrom<serde_json::Value> for Ports {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        let text = match &value {
            serde_json::Value::Number(number) => number.to_string(),
            serde_json::Value::String(text) => text.clone(),
            other => return Err(format!("{other} is no port")),
        };
        let (first, last) = text.split_once(':').unwrap_or((&text, &text));
        let port = |text: &str| {
            text.parse::<u16>()
                .map_err(|e| format!("port {text:?}: {e}"))
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(format!("port range {text} is backwards"));
        }
        Ok(Self { first, last })
    }
}

/// An address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Net {
    address: IpAddr,
    length: u8,
}

impl Net {
    pub fn is_of(&self, version: IpVersion) -> bool {
        self.address.is_ipv4() == (version == IpVersion::V4)
    }
}

impl TryFrom<String> for Net {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|e| format!("net {text:?}: {e}"))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(longest), str::parse);
        let length = length.map_err(|e| format!("net {text:?}: {e}"))?;
        if length > longest {
            return Err(format!(
                "net {text:?}: the prefix is longer than the address"
            ));
        }
        Ok(Self { address, length })
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A name that an interface can have, and that is no pattern for iptables (`+` would match others).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct InterfaceName(String);

impl InterfaceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 15 || !name.bytes().all(plain) {
            return Err(format!("{name:?} is no interface's name"));
        }
        Ok(Self(name))
    }
}

/// Everything that could be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub endpoints: BTreeMap<String, Endpoint>,
    pub profiles: BTreeMap<String, Profile>,
}

impl State {
    /// Takes a key's new value over. What can't be understood counts as not there, and so fails closed: a profile
    /// becomes the library's stub, an endpoint's interface falls to the end of the dispatch chain.
    ///
    /// # Errors
    /// Why the value can't be understood, for the log.
    pub fn put(&mut self, key: Key, json: &[u8], interface_prefix: &str) -> Result<(), String> {
        match key {
            Key::Endpoint(id) => {
                self.endpoints.remove(&id);
                let endpoint: Endpoint = serde_json::from_slice(json).map_err(|e| e.to_string())?;
                let interface = endpoint.interface.as_str();
                if !interface.starts_with(interface_prefix) {
                    return Err(format!(
                        "interface {interface} doesn't begin with {interface_prefix}"
                    ));
                }
                self.endpoints.insert(id, endpoint);
            }
            Key::Profile(id) => {
                self.profiles.remove(&id);
                let profile: Profile = serde_json::from_slice(json).map_err(|e| e.to_string())?;
                let rules = profile.inbound.iter().chain(&profile.outbound);
                for rule in rules {
                    rule.check()?;
                }
                self.profiles.insert(id, profile);
            }
        }
        Ok(())
    }

    pub fn delete(&mut self, key: &Key) {
        match key {
            Key::Endpoint(id) => drop(self.endpoints.remove(id)),
            Key::Profile(id) => drop(self.profiles.remove(id)),
        }
    }
}

impl PolicyRule {
    fn check(&self) -> Result<(), String> {
        if !self.ports.is_empty() && !self.protocol.is_some_and(Protocol::has_ports) {
            return Err("ports need a protocol that has ports".to_owned());
        }
        let other_version = match self.protocol {
            Some(Protocol::Icmp) => IpVersion::V6,
            Some(Protocol::Icmpv6) => IpVersion::V4,
            _ => return Ok(()),
        };
        match &self.net {
            Some(net) if net.is_of(other_version) => Err(format!(
                "net {net} is of another IP version than the protocol"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
