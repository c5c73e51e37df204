//! Reads a line of a restore input as a command, with the checks that need no table.

use std::collections::BTreeSet;

use super::dialect::{Dialect, Stop};
use super::extensions::{self, Spec};
use super::getopt::{Item, LongOption, Words};
use super::loaded::Loaded;
use super::rule::Rule;
use crate::Table;

mod core;
mod whole;

/// The most bytes of a chain's name.
pub(super) const MAX_NAME: usize = 28;
/// The most words of a line.
const MAX_WORDS: usize = 251;
/// The most bytes of a word.
const MAX_WORD: usize = 1_023;

pub(super) const VERDICTS: [&str; 4] = ["ACCEPT", "DROP", "RETURN", "QUEUE"];

/// What a line tells iptables to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) action: Action,
    pub(super) chain: Option<String>,
    /// One, or one for each pair of addresses in lists.
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Append,
    /// Before the rule with this number, from 1.
    Insert(usize),
    Replace(usize),
    Delete,
    DeleteNumber(usize),
    Check,
    New,
    DeleteChain,
    Rename(String),
    Flush,
    Zero,
    ZeroNumber(usize),
    Policy(String),
    List,
}

/// What the parser may know of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) dialect: Dialect,
    pub(super) table: Table,
    pub(super) sets: &'a BTreeSet<String>,
    /// Chains that the input has declared so far: their names don't stand for extensions any more.
    pub(super) declared: &'a BTreeSet<String>,
}

/// Reads a line's words; `None` for one that is skipped without a word (`-6` for IPv4). What the tool
/// says on standard error without stopping goes to `warnings`.
pub(super) fn parse(
    context: Context<'_>,
    words: Vec<String>,
    warnings: &mut String,
) -> Result<Option<Command>, Stop> {
    if words.iter().any(|word| word.len() > MAX_WORD) {
        return Err(parameter("Parameter too long!"));
    }
    if words.len() > MAX_WORDS {
        return Err(parameter("Parser cannot handle more arguments"));
    }
    let mut parser = Parser::new(context, words, warnings);
    while parser.step()? {
        if parser.skip {
            return Ok(None);
        }
    }
    parser.finish().map(Some)
}

pub(super) fn parameter(text: impl Into<String>) -> Stop {
    Stop::Parameter(text.into())
}

/// What holds for the name of a new chain, however it is made.
pub(super) fn check_length_and_lead(name: &str) -> Result<(), Stop> {
    if name.len() > MAX_NAME {
        return Err(parameter(format!(
            "chain name `{name}' too long (must be under {} chars)",
            MAX_NAME + 1
        )));
    }
    match name.chars().next().filter(|c| matches!(c, '-' | '!')) {
        Some(lead) => Err(parameter(format!(
            "chain name not allowed to start with `{lead}'"
        ))),
        None => Ok(()),
    }
}

struct Parser<'a> {
    context: Context<'a>,
    words: Words,
    /// A `!` waits for its option.
    inverted: bool,
    /// Core options seen.
    seen: Vec<char>,
    command: Option<(char, Action)>,
    chain: Option<String>,
    rule: Rule,
    source: Option<(String, bool)>,
    destination: Option<(String, bool)>,
    jump: Option<String>,
    matches: Vec<Loaded>,
    target: Option<Loaded>,
    loaded: Vec<LongOption>,
    warnings: &'a mut String,
    skip: bool,
}

impl<'a> Parser<'a> {
    fn new(context: Context<'a>, words: Vec<String>, warnings: &'a mut String) -> Self {
        Self {
            context,
            words: Words::new(words),
            inverted: false,
            seen: Vec::new(),
            command: None,
            chain: None,
            rule: Rule::default(),
            source: None,
            destination: None,
            jump: None,
            matches: Vec::new(),
            target: None,
            loaded: Vec::new(),
            warnings,
            skip: false,
        }
    }

    fn step(&mut self) -> Result<bool, Stop> {
        let open = self.last_loaded().is_some_and(|loaded| loaded.is_kept());
        let Some(item) = self.words.next(&self.loaded, open) else {
            return Ok(false);
        };
        match item {
            Item::Core(letter, value) => self.core(letter, value)?,
            Item::Extension(extension, option, value) => {
                self.extension(extension, option, &value.unwrap_or_default())?;
            }
            Item::Word(word) if word == "!" && self.inverted => {
                return Err(parameter("multiple consecutive ! not allowed"));
            }
            Item::Word(word) if word == "!" => {
                self.inverted = true;
                return Ok(true);
            }
            Item::Word(word) if open => self.keep(&word),
            Item::Word(word) => return Err(Stop::BadArgument(word)),
            Item::Unknown { word, shown } => self.unknown(word, &shown, open)?,
            Item::NoValue(word) => {
                return Err(parameter(format!("option \"{word}\" requires an argument")));
            }
        }
        self.inverted = false;
        Ok(true)
    }

    /// The extension whose options may follow.
    fn last_loaded(&mut self) -> Option<&mut Loaded> {
        match &mut self.target {
            Some(target) => Some(target),
            None => self.matches.last_mut(),
        }
    }

    fn keep(&mut self, word: &str) {
        let inverted = self.inverted;
        if let Some(loaded) = self.last_loaded() {
            if inverted {
                loaded.keep("!");
            }
            loaded.keep(word);
        }
    }

    /// An option nobody knows may belong to the protocol's match, which `-p` loads by itself.
    fn unknown(&mut self, word: String, shown: &str, open: bool) -> Result<(), Stop> {
        let own = self.rule.protocol.and_then(|(number, _)| {
            let spec = extensions::MATCHES
                .iter()
                .find(|spec| spec.protocol == Some(number) && self.fits(spec))?;
            let loaded = self.matches.iter().any(|m| m.name == spec.name);
            (!loaded).then_some(spec)
        });
        if let Some(spec) = own {
            self.load_match(Loaded::known(spec));
            let mut options = Vec::new();
            Loaded::known(spec).long_options(0, &mut options);
            let name = word.trim_start_matches("--");
            let name = name.split('=').next().unwrap_or(name);
            if word.starts_with("--") && options.iter().any(|o| o.name.starts_with(name)) {
                self.words.again(word);
                // The `!` stands before the option that is read again.
                if self.inverted {
                    self.words.again("!".to_owned());
                }
                return Ok(());
            }
        }
        if open {
            self.keep(&word);
            return Ok(());
        }
        Err(parameter(format!("unknown option \"{shown}\"")))
    }

    fn fits(&self, spec: &Spec) -> bool {
        spec.version
            .is_none_or(|version| version == self.context.dialect.version)
    }

    fn load_match(&mut self, loaded: Loaded) {
        loaded.long_options(self.matches.len(), &mut self.loaded);
        self.matches.push(loaded);
    }

    fn extension(&mut self, extension: usize, option: usize, value: &str) -> Result<(), Stop> {
        let second = match self
            .loaded_at(extension)
            .and_then(|l| l.second_word(option))
        {
            Some(message) => Some(self.words.value().ok_or_else(|| parameter(message))?),
            None => None,
        };
        let names_set = self
            .loaded_at(extension)
            .is_some_and(|loaded| loaded.names_set(option));
        if names_set {
            self.check_set(value, second.as_deref().unwrap_or(""))?;
        }
        let (inverted, dialect, protocol) =
            (self.inverted, self.context.dialect, self.rule.protocol);
        let Some(loaded) = self.loaded_at(extension) else {
            return Ok(());
        };
        loaded
            .take(
                option,
                inverted,
                value,
                second.as_deref(),
                dialect,
                protocol,
            )
            .map_err(Stop::Parameter)
    }

    /// Matches are numbered from 0; the target has the last number there is.
    fn loaded_at(&mut self, extension: usize) -> Option<&mut Loaded> {
        if extension == usize::MAX {
            self.target.as_mut()
        } else {
            self.matches.get_mut(extension)
        }
    }

    fn check_set(&self, name: &str, directions: &str) -> Result<(), Stop> {
        if name.len() > 31 {
            return Err(parameter(format!(
                "setname `{name}' too long, max 31 characters."
            )));
        }
        if !self.context.sets.contains(name) {
            return Err(parameter(format!("Set {name} doesn't exist.\n")));
        }
        let count = directions.split(',').count();
        if count > 6 {
            return Err(parameter("Can't be more src/dst options than 6."));
        }
        if directions.split(',').any(|d| !matches!(d, "src" | "dst")) {
            return Err(parameter(
                "You must spefify (the comma separated list of) 'src' or 'dst'.",
            ));
        }
        Ok(())
    }
}

/// What `-p` calls the match, where its own name differs.
fn alias(name: &str) -> Option<&'static str> {
    (name == "icmp6").then_some("icmpv6")
}

/// The target of that name, if an extension has it.
fn target_named(name: &str) -> Option<Loaded> {
    if let Some(spec) = extensions::TARGETS.iter().find(|spec| spec.name == name) {
        return Some(Loaded::known(spec));
    }
    let kept = extensions::OTHER_TARGETS.iter().find(|t| **t == name)?;
    Some(Loaded::kept(kept))
}
