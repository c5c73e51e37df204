//! A match or target while its options are read, and what is kept of it.

use super::dialect::Dialect;
use super::extensions::{Opt, Spec};
use super::getopt::LongOption;
use super::values::{self, Kind, Named};
use crate::{IpVersion, words};

/// An extension that a line has loaded.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) name: &'static str,
    kind: Options,
}

#[derive(Debug, Clone)]
enum Options {
    Known(&'static Spec, Vec<Option<Given>>),
    /// Word for word.
    Kept(Vec<String>),
}

#[derive(Debug, Clone)]
struct Given {
    inverted: bool,
    /// The value as saved; `None` where it isn't.
    text: Option<String>,
}

impl Loaded {
    pub(super) fn known(spec: &'static Spec) -> Self {
        Self {
            name: spec.name,
            kind: Options::Known(spec, vec![None; spec.options.len()]),
        }
    }

    pub(super) fn kept(name: &'static str) -> Self {
        Self {
            name,
            kind: Options::Kept(Vec::new()),
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self.kind, Options::Kept(_))
    }

    /// Keeps one more word as it is.
    pub(super) fn keep(&mut self, word: &str) {
        if let Options::Kept(words) = &mut self.kind {
            words.push(word.to_owned());
        }
    }

    /// The options that it adds to those that the line may have.
    pub(super) fn long_options(&self, extension: usize, all: &mut Vec<LongOption>) {
        let Options::Known(spec, _) = &self.kind else {
            return;
        };
        for (option, opt) in spec.options.iter().enumerate() {
            for name in std::iter::once(&opt.name).chain(opt.aliases) {
                all.push(LongOption {
                    name,
                    takes: opt.takes(),
                    extension,
                    option,
                });
            }
        }
    }

    /// The option takes another word after its value: what is said if there is none.
    pub(super) fn second_word(&self, option: usize) -> Option<String> {
        let Options::Known(spec, _) = &self.kind else {
            return None;
        };
        let opt = &spec.options[option];
        matches!(opt.kind, Kind::Set | Kind::TcpFlags)
            .then(|| format!("--{} requires two args.", opt.name))
    }

    /// Whether the option names a set.
    pub(super) fn names_set(&self, option: usize) -> bool {
        match &self.kind {
            Options::Known(spec, _) => spec.options[option].kind == Kind::Set,
            Options::Kept(_) => false,
        }
    }

    pub(super) fn take(
        &mut self,
        option: usize,
        inverted: bool,
        value: &str,
        second: Option<&str>,
        dialect: Dialect,
        protocol: Option<(u8, bool)>,
    ) -> Result<(), String> {
        let name = self.name;
        let Options::Known(spec, given) = &mut self.kind else {
            return Ok(());
        };
        let opt: &Opt = &spec.options[option];
        let again = given[option].is_some()
            || (opt.saved == "tcp-flags"
                && spec
                    .options
                    .iter()
                    .zip(given.iter())
                    .any(|(other, given)| other.saved == opt.saved && given.is_some()));
        if again {
            return Err(match opt.twice {
                Some(text) => text.to_owned(),
                None => format!("{name}: option \"--{}\" can only be used once.\n", opt.name),
            });
        }
        if inverted && !opt.invert {
            return Err(format!(
                "{name}: option \"--{}\" cannot be inverted.\n",
                opt.name
            ));
        }
        let named = Named {
            extension: name,
            option: opt.name,
            dialect,
            protocol,
        };
        if name == "multiport" {
            match protocol {
                Some((6 | 17 | 136 | 132 | 33, false)) => {}
                Some(_) => {
                    return Err(
                        "multiport only works with TCP, UDP, UDPLITE, SCTP and DCCP".to_owned()
                    );
                }
                None => {
                    return Err(
                        "multiport needs `-p tcp', `-p udp', `-p udplite', `-p sctp' or `-p dccp'"
                            .to_owned(),
                    );
                }
            }
        }
        given[option] = Some(Given {
            inverted,
            text: values::normal(opt.kind, named, value, second)?,
        });
        Ok(())
    }

    /// The checks when the whole line is read.
    pub(super) fn finish(&self) -> Result<(), String> {
        let Options::Known(spec, given) = &self.kind else {
            return Ok(());
        };
        if let Some(message) = spec.one_of
            && given.iter().all(Option::is_none)
        {
            return Err(message.to_owned());
        }
        if self.name == "conntrack" && given.iter().all(Option::is_none) {
            return Err("conntrack: At least one option is required".to_owned());
        }
        if self.name == "set" && given.iter().all(Option::is_none) {
            return Err("You must specify `--match-set' with proper arguments".to_owned());
        }
        for (at, (opt, value)) in spec.options.iter().zip(given).enumerate() {
            if opt.required && value.is_none() {
                return Err(format!(
                    "{}: option \"--{}\" must be specified\n",
                    spec.name, opt.name
                ));
            }
            let others = spec.options.iter().zip(given).enumerate();
            if spec.exclusive
                && value.is_some()
                && let Some((_, (other, _))) = others
                    .into_iter()
                    .find(|(i, (_, v))| *i != at && v.is_some())
            {
                return Err(format!(
                    "{}: option \"--{}\" cannot be used together with \"--{}\".\n",
                    spec.name, opt.name, other.name
                ));
            }
        }
        Ok(())
    }

    /// Whether nf_tables makes a plain comparison of ports of it.
    pub(super) fn compares_ports(&self, version: IpVersion) -> bool {
        matches!(self.name, "tcp" | "udp") && !self.text(version).is_empty()
    }

    /// nf_tables reads all comparisons of ports in a rule as those of one match: a later one replaces
    /// the port of an earlier one, and a `!` stays whichever it came with.
    pub(super) fn merge(&mut self, later: &Self) {
        let (Options::Known(_, given), Options::Known(_, more)) = (&mut self.kind, &later.kind)
        else {
            return;
        };
        for (given, more) in given.iter_mut().zip(more) {
            let Some(more) = more else {
                continue;
            };
            let inverted = more.inverted || given.as_ref().is_some_and(|given| given.inverted);
            *given = Some(Given {
                inverted,
                text: more.text.clone(),
            });
        }
    }

    /// Says only that something isn't the whole range of ports: nothing on nf_tables.
    pub(super) fn says_nothing(&self) -> bool {
        match &self.kind {
            Options::Known(spec, given) => {
                matches!(spec.name, "tcp" | "udp")
                    && given.iter().flatten().any(|given| given.inverted)
                    && given.iter().flatten().all(|given| given.text.is_none())
            }
            Options::Kept(_) => false,
        }
    }

    /// The options as saved.
    pub(super) fn text(&self, version: IpVersion) -> String {
        let mut text = String::new();
        match &self.kind {
            Options::Known(spec, given) => {
                for (opt, given) in spec.options.iter().zip(given) {
                    let Some(Given {
                        inverted,
                        text: Some(value),
                    }) = given
                    else {
                        continue;
                    };
                    let not = if *inverted { "! " } else { "" };
                    push(&mut text, &format!("{not}--{}", opt.saved));
                    push(&mut text, value);
                }
                if text.is_empty() {
                    text.push_str(default(spec, version));
                }
            }
            Options::Kept(kept) => {
                for word in kept {
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    words::push_word(&mut text, word, false);
                }
            }
        }
        text
    }
}

fn default(spec: &Spec, version: IpVersion) -> &'static str {
    match (spec.name, version) {
        ("REJECT", IpVersion::V4) => "--reject-with icmp-port-unreachable",
        ("REJECT", IpVersion::V6) => "--reject-with icmp6-port-unreachable",
        _ => spec.default,
    }
}

fn push(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}
