//! A rule in the form in which it is stored, compared and saved.

use super::dialect::Dialect;
use super::extensions;
use super::general::{TCP, protocol_name};
use crate::{KernelChain, Table};

/// A rule; two are the same to `-D` and `-C` if they are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// `! -s 192.0.2.1/32` and the like, empty if not given.
    pub(super) source: String,
    pub(super) destination: String,
    pub(super) input: Interface,
    pub(super) output: Interface,
    /// Number, and whether every other one is meant.
    pub(super) protocol: Option<(u8, bool)>,
    /// Legacy keeps that `-p all` was given, for IPv6; it isn't saved.
    pub(super) any_protocol: bool,
    pub(super) fragment: String,
    pub(super) matches: Vec<Extension>,
    pub(super) target: Target,
}

/// An interface.
#[derive(Debug, Clone, Default)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) inverted: bool,
    /// Legacy keeps `+`, which every packet has, but doesn't save it.
    pub(super) silent: bool,
}

/// What isn't saved isn't compared either.
impl PartialEq for Interface {
    fn eq(&self, other: &Self) -> bool {
        let name = |interface: &Self| (!interface.silent).then(|| interface.name.clone());
        self.inverted == other.inverted
            && name(self).unwrap_or_default() == name(other).unwrap_or_default()
    }
}

impl Eq for Interface {}

/// A match or a target of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// What a rule does with a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Target {
    #[default]
    None,
    /// `ACCEPT`, `DROP`, `RETURN`, `QUEUE`.
    Verdict(&'static str),
    Chain {
        name: String,
        goto: bool,
    },
    Extension(Extension),
}

impl Rule {
    /// The chain to which the rule leads.
    pub(super) fn chain(&self) -> Option<&str> {
        match &self.target {
            Target::Chain { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(super) fn rename_target(&mut self, from: &str, to: &str) {
        if let Target::Chain { name, .. } = &mut self.target
            && name == from
        {
            to.clone_into(name);
        }
    }

    /// Whether every packet that comes to the rule leaves the chain here, as legacy's check of loops
    /// sees it.
    pub(super) fn ends_chain(&self) -> bool {
        matches!(self.target, Target::Verdict(_))
            && self.matches.is_empty()
            && self.protocol.is_none()
            && !self.any_protocol
            && [
                &self.source,
                &self.destination,
                &self.fragment,
                &self.input.name,
                &self.output.name,
            ]
            .iter()
            .all(|text| text.is_empty())
    }

    /// Whether the kernel refuses the rule in this table, whatever leads to it.
    pub(super) fn refused_in(&self, table: Table, dialect: Dialect) -> bool {
        let protocol = |number| self.protocol == Some((number, false));
        let bad_match = self.matches.iter().any(|m| {
            let needs = extensions::MATCHES
                .iter()
                .find(|spec| spec.name == m.name)
                .and_then(|spec| spec.protocol);
            match needs {
                // nf_tables makes plain comparisons of ports.
                Some(6 | 17) if !dialect.is_legacy() => false,
                Some(number) => !protocol(number),
                None => false,
            }
        });
        let bad_target = match &self.target {
            Target::Extension(target) => {
                extensions::only_table(target.name).is_some_and(|only| only != table)
                    || (target.name == "REJECT"
                        && target.text.ends_with("tcp-reset")
                        && !protocol(TCP))
                    || (target.name == "TRACE" && table != Table::Raw && dialect.is_legacy())
            }
            Target::Verdict("QUEUE") => !dialect.is_legacy(),
            _ => false,
        };
        bad_match || bad_target || (!dialect.is_legacy() && self.excludes_any_address())
    }

    /// Compares an address with no bits at all, which nf_tables refuses before it looks for a target.
    pub(super) fn excludes_any_address(&self) -> bool {
        let addresses = [&self.source, &self.destination];
        let mut excluded = addresses.iter().filter(|text| text.starts_with("! "));
        excluded.any(|text| any(text))
    }

    /// Whether the kernel refuses the rule where packets come to it from this kernel chain.
    pub(super) fn refused_from(&self, chain: KernelChain) -> bool {
        match &self.target {
            Target::Extension(target) => {
                extensions::only_from(target.name).is_some_and(|only| !only.contains(&chain))
            }
            _ => false,
        }
    }

    /// Hands packets to a queue of the kernel's that nf_tables doesn't have here.
    pub(super) fn is_queue(&self) -> bool {
        self.target == Target::Verdict("QUEUE")
    }

    /// Whether nf_tables has to look at the table as a whole when the rule is added.
    pub(super) fn needs_validation(&self) -> bool {
        self.target != Target::None || !self.matches.is_empty()
    }

    /// The rule as saved, without its chain.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut push = |part: &str| {
            if !part.is_empty() {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(part);
            }
        };
        push(&self.source);
        push(&self.destination);
        push(&self.input.text("-i"));
        push(&self.output.text("-o"));
        if let Some((number, inverted)) = self.protocol {
            let not = if inverted { "! " } else { "" };
            push(&format!("{not}-p {}", protocol_name(number)));
        }
        push(&self.fragment);
        for m in &self.matches {
            push("-m");
            push(m.name);
            push(&m.text);
        }
        match &self.target {
            Target::None => {}
            Target::Verdict(verdict) => push(&format!("-j {verdict}")),
            Target::Chain { name, goto } => {
                push(&format!("{} {name}", if *goto { "-g" } else { "-j" }));
            }
            Target::Extension(target) => {
                push(&format!("-j {}", target.name));
                push(&target.text);
            }
        }
        text
    }
}

fn any(network: &str) -> bool {
    network.ends_with(" 0.0.0.0/0") || network.ends_with(" ::/0")
}

impl Interface {
    fn text(&self, option: &str) -> String {
        if self.name.is_empty() || self.silent {
            return String::new();
        }
        let not = if self.inverted { "! " } else { "" };
        format!("{not}{option} {}", self.name)
    }
}
