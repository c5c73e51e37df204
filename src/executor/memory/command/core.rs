//! The options that every line may have, one by one.

use super::{MAX_NAME, Parser, VERDICTS, alias, parameter, target_named};
use crate::IpVersion;
use crate::executor::memory::dialect::Stop;
use crate::executor::memory::loaded::Loaded;
use crate::executor::memory::rule::{Interface, Target};
use crate::executor::memory::{extensions, general};

impl Parser<'_> {
    pub(super) fn core(&mut self, letter: char, value: Option<String>) -> Result<(), Stop> {
        let text = match letter {
            // For these the tool takes the word read last, not the option's value: an attached one
            // (`-jDROP`) is taken with its option.
            's' | 'd' | 'p' | 'i' | 'o' | 'j' => self.words.last(),
            _ => value.clone().unwrap_or_default(),
        };
        match letter {
            'A' | 'I' | 'D' | 'R' | 'C' | 'N' | 'X' | 'E' | 'F' | 'Z' | 'P' | 'L' | 'S' => {
                self.command(letter, value)
            }
            's' => {
                self.once('s', true)?;
                self.source = Some((text, self.inverted));
                Ok(())
            }
            'd' => {
                self.once('d', true)?;
                self.destination = Some((text, self.inverted));
                Ok(())
            }
            'p' => self.protocol(&text),
            'i' | 'o' => self.interface(letter, text),
            'f' => {
                if self.context.dialect.version == IpVersion::V6 {
                    return Err(parameter(
                        "`-f' is not supported in IPv6, use -m frag instead",
                    ));
                }
                self.once('f', true)?;
                let text = if self.inverted { "! -f" } else { "-f" };
                text.clone_into(&mut self.rule.fragment);
                Ok(())
            }
            'j' | 'g' => self.jump(letter, text),
            'm' => self.load(&text),
            'c' => self.counters(&text),
            'n' | 'x' | '0' | 'v' => self.once(letter, false),
            'h' | 'V' => Err(Stop::Information(format!(
                "{}\n",
                self.context.dialect.restore_version()
            ))),
            't' => Err(parameter(format!(
                "The -t option cannot be used in {}.\n",
                self.context.dialect.restore_program()
            ))),
            'w' | 'W' => Err(parameter(format!(
                "You cannot use `-{letter}' from iptables-restore"
            ))),
            '4' | '6' => {
                let version = self.context.dialect.version;
                self.skip = (letter == '4') != (version == IpVersion::V4);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn once(&mut self, letter: char, may_invert: bool) -> Result<(), Stop> {
        if self.seen.contains(&letter) {
            return Err(parameter(format!("multiple -{letter} flags not allowed")));
        }
        self.seen.push(letter);
        if self.inverted && !may_invert {
            return Err(parameter(format!("cannot have ! before -{letter}")));
        }
        Ok(())
    }

    fn protocol(&mut self, text: &str) -> Result<(), Stop> {
        self.once('p', true)?;
        let name = text.to_ascii_lowercase();
        let number = general::protocol(&name).map_err(Stop::Parameter)?;
        if number == 0 && self.inverted {
            return Err(parameter("rule would never match protocol"));
        }
        self.rule.protocol = (number != 0).then_some((number, self.inverted));
        let dialect = self.context.dialect;
        if dialect.version == IpVersion::V6 {
            self.rule.any_protocol = number == 0 && dialect.is_legacy();
            // IPv6 has headers of its own for these.
            if matches!(number, 43 | 44 | 51 | 60) && !self.inverted {
                for part in [
                    "Warning: never matched protocol: ",
                    &name,
                    ". use extension match instead.\n",
                ] {
                    self.warnings.push_str(part);
                }
            }
        }
        Ok(())
    }

    fn interface(&mut self, letter: char, name: String) -> Result<(), Stop> {
        if !name.is_empty() {
            self.once(letter, true)?;
        }
        general::interface(&name).map_err(Stop::Parameter)?;
        self.warnings
            .push_str(&general::interface_warning(&name).unwrap_or_default());
        let interface = Interface {
            silent: name == "+" && self.context.dialect.is_legacy(),
            name,
            inverted: self.inverted,
        };
        match letter {
            'i' => self.rule.input = interface,
            _ => self.rule.output = interface,
        }
        Ok(())
    }

    fn jump(&mut self, letter: char, name: String) -> Result<(), Stop> {
        self.once('j', false)?;
        if name.is_empty() {
            return Err(parameter("Invalid target name (too short)"));
        }
        if name.len() > MAX_NAME {
            return Err(parameter(format!(
                "Invalid target name `{name}' ({MAX_NAME} chars max)"
            )));
        }
        if name.contains(|c: char| c.is_ascii_whitespace() || c == '\u{b}') {
            return Err(parameter(format!("Invalid target name `{name}'")));
        }
        self.rule.target = if letter == 'g' {
            Target::Chain {
                name: name.clone(),
                goto: true,
            }
        } else if let Some(verdict) = VERDICTS.iter().find(|v| **v == name) {
            Target::Verdict(verdict)
        } else if let Some(target) = self.target_named(&name) {
            target.long_options(usize::MAX, &mut self.loaded);
            self.target = Some(target);
            Target::None
        } else {
            Target::Chain {
                name: name.clone(),
                goto: false,
            }
        };
        self.jump = Some(name);
        Ok(())
    }

    /// The target of that name, unless a chain of the input has it.
    pub(super) fn target_named(&self, name: &str) -> Option<Loaded> {
        let declared = self.context.declared.contains(name);
        if declared { None } else { target_named(name) }
    }

    fn load(&mut self, name: &str) -> Result<(), Stop> {
        if self.inverted {
            return Err(parameter("unexpected ! flag before --match"));
        }
        let spec = extensions::MATCHES
            .iter()
            .find(|spec| self.fits(spec) && (spec.name == name || alias(spec.name) == Some(name)));
        let kept = || extensions::OTHER_MATCHES.iter().find(|m| **m == name);
        match (spec, kept()) {
            (Some(spec), _) => self.load_match(Loaded::known(spec)),
            (None, Some(name)) => self.load_match(Loaded::kept(name)),
            (None, None) => {
                return Err(parameter(format!(
                    "Couldn't load match `{name}':No such file or directory\n"
                )));
            }
        }
        Ok(())
    }

    fn counters(&mut self, text: &str) -> Result<(), Stop> {
        self.once('c', false)?;
        let bytes = match text.split_once(',') {
            Some((_, bytes)) => bytes.to_owned(),
            None => self
                .words
                .value()
                .ok_or_else(|| parameter("-c requires packet and byte counter"))?,
        };
        let packets = text.split(',').next().unwrap_or("");
        let numeric = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        if !numeric(packets) {
            return Err(parameter("-c packet counter not numeric"));
        }
        if !numeric(&bytes) {
            return Err(parameter("-c byte counter not numeric"));
        }
        Ok(())
    }
}
