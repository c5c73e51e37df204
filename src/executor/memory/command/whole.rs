//! The commands themselves, and the checks of a line as a whole.

use super::{Action, Command, MAX_NAME, Parser, VERDICTS, check_length_and_lead, parameter};
use crate::executor::memory::dialect::Stop;
use crate::executor::memory::general::{self, number};
use crate::executor::memory::loaded::Loaded;
use crate::executor::memory::rule::{Extension, Interface, Rule, Target};
use crate::{KernelChain, Table};

impl Parser<'_> {
    pub(super) fn command(&mut self, letter: char, value: Option<String>) -> Result<(), Stop> {
        if self.inverted {
            return Err(parameter("unexpected '!' flag"));
        }
        if let Some((first, _)) = &self.command {
            return Err(parameter(format!("Cannot use -{letter} with -{first}")));
        }
        let optional = matches!(letter, 'X' | 'F' | 'Z' | 'L' | 'S');
        if letter == 'N' {
            self.check_new_name(value.as_deref().unwrap_or(""))?;
        }
        self.chain = match value {
            None if optional => self.words.value(),
            value => value,
        };
        let action = match letter {
            'A' => Action::Append,
            'I' => Action::Insert(self.number()?.unwrap_or(1)),
            'R' => Action::Replace(
                self.number()?
                    .ok_or_else(|| parameter("-R requires a rule number"))?,
            ),
            'D' => match self.number()? {
                Some(number) => Action::DeleteNumber(number),
                None => Action::Delete,
            },
            'C' => Action::Check,
            'N' => Action::New,
            'X' => Action::DeleteChain,
            'E' => Action::Rename(
                self.words
                    .value()
                    .ok_or_else(|| parameter("-E requires old-chain-name and new-chain-name"))?,
            ),
            'F' => Action::Flush,
            'Z' => match self.number()? {
                Some(number) => Action::ZeroNumber(number),
                None => Action::Zero,
            },
            'P' => Action::Policy(
                self.words
                    .value()
                    .ok_or_else(|| parameter("-P requires a chain and a policy"))?,
            ),
            _ => {
                self.number()?;
                Action::List
            }
        };
        self.command = Some((letter, action));
        Ok(())
    }

    fn number(&mut self) -> Result<Option<usize>, Stop> {
        let Some(word) = self.words.value() else {
            return Ok(None);
        };
        number(&word)
            .filter(|n| (1..=i32::MAX as u64).contains(n))
            .and_then(|n| usize::try_from(n).ok())
            .map(Some)
            .ok_or_else(|| parameter(format!("Invalid rule number `{word}'")))
    }

    pub(super) fn finish(mut self) -> Result<Command, Stop> {
        let policy = match &self.command {
            Some((_, Action::Policy(policy))) => Some(policy.as_str()),
            _ => None,
        };
        let drops = policy == Some("DROP") || self.jump.as_deref() == Some("DROP");
        if self.context.table == Table::Nat && drops {
            return Err(parameter(
                "\nThe \"nat\" table is not intended for filtering, the use of DROP is therefore inhibited.\n\n",
            ));
        }
        for loaded in self.matches.iter().chain(&self.target) {
            loaded.finish().map_err(Stop::Parameter)?;
        }
        let Some((letter, action)) = self.command.take() else {
            return Err(parameter("no command specified"));
        };
        if self.inverted {
            return Err(parameter("nothing appropriate following !"));
        }
        let on_rule = matches!(letter, 'A' | 'I' | 'R' | 'D' | 'C');
        // Addresses are read for other commands too.
        let rules = self.rules()?;
        let rules = if on_rule { rules } else { Vec::new() };
        if letter == 'R' && rules.len() != 1 {
            return Err(parameter(
                "Replacement rule does not specify a unique address",
            ));
        }
        self.options_fit(letter, &action)?;
        if let Some(chain) = self.chain.as_deref().filter(|chain| chain.len() > MAX_NAME) {
            return Err(parameter(format!(
                "chain name `{chain}' too long (must be under {} chars)",
                MAX_NAME + 1
            )));
        }
        if on_rule {
            self.interfaces_fit()?;
            self.protocols_fit(&rules, &action)?;
        }
        Ok(Command {
            action,
            chain: self.chain,
            rules,
        })
    }

    /// Which options go with which command.
    fn options_fit(&self, letter: char, action: &Action) -> Result<(), Stop> {
        let rule = matches!(letter, 'A' | 'I' | 'R' | 'C') || *action == Action::Delete;
        for option in &self.seen {
            let fits = match option {
                's' | 'd' | 'p' | 'i' | 'o' | 'f' | 'j' => rule,
                'c' => matches!(letter, 'A' | 'I' | 'R'),
                'n' | 'x' | '0' => letter == 'L',
                _ => true,
            };
            if !fits {
                return Err(parameter(format!(
                    "Illegal option `-{option}' with this command"
                )));
            }
        }
        Ok(())
    }

    fn interfaces_fit(&self) -> Result<(), Stop> {
        let chain = self.chain.as_deref().and_then(KernelChain::from_name);
        let (option, used) = match chain {
            Some(KernelChain::Prerouting | KernelChain::Input) => ('o', self.seen.contains(&'o')),
            Some(KernelChain::Postrouting | KernelChain::Output) => ('i', self.seen.contains(&'i')),
            _ => return Ok(()),
        };
        match (used, &self.chain) {
            (true, Some(chain)) => Err(parameter(format!("Can't use -{option} with {chain}\n"))),
            _ => Ok(()),
        }
    }

    /// nf_tables makes the comparison of ports itself, and so checks the protocol.
    fn protocols_fit(&self, rules: &[Rule], action: &Action) -> Result<(), Stop> {
        if self.context.dialect.is_legacy() || matches!(action, Action::DeleteNumber(_)) {
            return Ok(());
        }
        let protocol = rules.first().and_then(|rule| rule.protocol);
        for loaded in &self.matches {
            let needs = match loaded.name {
                "tcp" => (general::TCP, "TCP match requires '-p tcp'"),
                "udp" => (general::UDP, "UDP match requires '-p udp'"),
                _ => continue,
            };
            if protocol.map(|(number, _)| number) != Some(needs.0) {
                return Err(parameter(needs.1));
            }
        }
        Ok(())
    }

    /// The rules that the line means: one for each pair of addresses.
    fn rules(&mut self) -> Result<Vec<Rule>, Stop> {
        let legacy = self.context.dialect.is_legacy();
        let version = self.context.dialect.version;
        let extension = |loaded: &Loaded| Extension {
            name: loaded.name,
            text: loaded.text(version),
        };
        if !legacy {
            self.merge_matches();
            for interface in [&mut self.rule.input, &mut self.rule.output] {
                // nf_tables keeps nothing of an interface that every packet has.
                if interface.name == "+" && !interface.inverted {
                    *interface = Interface::default();
                }
            }
        }
        self.rule.matches = self.matches.iter().map(extension).collect();
        if let Some(target) = &self.target {
            self.rule.target = Target::Extension(extension(target));
        }
        let sources = self.addresses('s', self.source.as_ref())?;
        let destinations = self.addresses('d', self.destination.as_ref())?;
        let several = sources.len() > 1 || destinations.len() > 1;
        let inverted = [&self.source, &self.destination]
            .into_iter()
            .flatten()
            .any(|(_, inverted)| *inverted);
        if several && inverted {
            return Err(parameter(
                "! not allowed with multiple source or destination IP addresses",
            ));
        }
        let mut rules = Vec::new();
        for source in &sources {
            for destination in &destinations {
                rules.push(Rule {
                    source: source.clone(),
                    destination: destination.clone(),
                    ..self.rule.clone()
                });
            }
        }
        Ok(rules)
    }

    /// Matches as nf_tables keeps them.
    fn merge_matches(&mut self) {
        let version = self.context.dialect.version;
        self.matches.retain(|loaded| !loaded.says_nothing());
        let mut merged: Vec<Loaded> = Vec::with_capacity(self.matches.len());
        for loaded in self.matches.drain(..) {
            let native = loaded.compares_ports(version);
            match merged
                .iter_mut()
                .find(|other| native && other.name == loaded.name && other.compares_ports(version))
            {
                Some(other) => other.merge(&loaded),
                None => merged.push(loaded),
            }
        }
        self.matches = merged;
    }

    fn addresses(&self, letter: char, given: Option<&(String, bool)>) -> Result<Vec<String>, Stop> {
        let Some((list, inverted)) = given else {
            return Ok(vec![String::new()]);
        };
        list.split(',')
            .map(|text| {
                let network = general::network(self.context.dialect.version, text)
                    .map_err(Stop::Parameter)?;
                Ok(match (inverted, network.any) {
                    (true, _) => format!("! -{letter} {}", network.text),
                    (false, true) => String::new(),
                    (false, false) => format!("-{letter} {}", network.text),
                })
            })
            .collect()
    }

    /// `-N` refuses more names than a declaration does.
    fn check_new_name(&self, name: &str) -> Result<(), Stop> {
        check_length_and_lead(name)?;
        if VERDICTS.contains(&name) || self.target_named(name).is_some() {
            return Err(parameter("chain name may not clash with target name"));
        }
        if name.contains(|c: char| c.is_ascii_whitespace() || c == '\u{b}') {
            return Err(parameter(format!("Invalid chain name `{name}'")));
        }
        Ok(())
    }
}
