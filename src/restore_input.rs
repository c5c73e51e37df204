//! The text handed to `iptables-restore --noflush`, and where each of its lines comes from.
//!
//! One input is one `*table … COMMIT` block, because iptables commits block by block. Its chains stand
//! sorted by name: nf_tables takes three times as long for them in random order. A declared chain
//! (`:chain -`) is emptied by that line already, so no `-F` follows it: on nf_tables that redundant line
//! makes the whole quadratic.

use std::fmt;

use crate::{ChainName, HookChain, Policy, Rule, Table, words};

/// The policy and counters that a declaration of a user chain carries.
const NO_POLICY: &str = " - [0:0]\n";

/// A restore input: its text, and the chain and request behind each line.
#[derive(Clone, PartialEq, Eq)]
pub struct RestoreInput {
    text: String,
    /// The lines after `*table`, in runs of one command on one chain. The `COMMIT` line is the last.
    runs: Vec<Run>,
    commit_line: usize,
}

/// Lines of one command on one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    first_line: usize,
    command: Command,
    chain: HookChain,
    request: Option<usize>,
}

/// What a line of a restore input tells iptables to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// `:chain -`: create the chain, or empty it.
    Declare,
    /// `-A`: append a rule.
    Append,
    /// `-I`: insert a rule at the top.
    Insert,
    /// `-D`: delete one instance of a rule.
    DeleteRule,
    /// `-C`: fail unless the rule stands in the chain.
    Check,
    /// `-N`: create the chain; fail if it is there.
    Create,
    /// `-F`: empty the chain.
    Flush,
    /// `-P`: set a kernel chain's policy.
    SetPolicy,
    /// `-X`: delete an empty chain.
    DeleteChain,
}

impl Command {
    /// What begins its line.
    const fn word(self) -> &'static str {
        match self {
            Self::Declare => ":",
            Self::Append => "-A ",
            Self::Insert => "-I ",
            Self::DeleteRule => "-D ",
            Self::Check => "-C ",
            Self::Create => "-N ",
            Self::Flush => "-F ",
            Self::SetPolicy => "-P ",
            Self::DeleteChain => "-X ",
        }
    }
}

/// What stands behind a command and its chain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument<'a> {
    Nothing,
    Rule(&'a Rule),
    /// A rule, with the number that it shall have, from 1.
    At(usize, &'a Rule),
    /// The number of a rule in place of the rule, from 1.
    Number(usize),
    Policy(Policy),
}

/// Where a line of a restore input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin<'a> {
    /// What the line does.
    pub command: Command,
    /// The chain that it changes.
    pub chain: &'a HookChain,
    /// The request of the batch that asked for it, from 0; `None` where no single one did.
    pub request: Option<usize>,
}

impl RestoreInput {
    /// The whole text; it ends in a newline.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number of its `COMMIT` line, from 1.
    pub fn commit_line(&self) -> usize {
        self.commit_line
    }

    /// A line's text, by its number from 1.
    pub fn line(&self, number: usize) -> Option<&str> {
        self.text.lines().nth(number.checked_sub(1)?)
    }

    /// The number of the first line whose rule jumps or goes to this target, from 1.
    pub(crate) fn line_to(&self, target: &str) -> Option<usize> {
        let to_it = |line| words::value_of(line, ["-j", "-g"]) == Some(target);
        let at = self.text.lines().position(to_it)?;
        Some(at + 1)
    }

    /// Where a line comes from, by its number from 1; `None` for `*table`, `COMMIT` and beyond.
    pub fn origin(&self, line: usize) -> Option<Origin<'_>> {
        if line >= self.commit_line {
            return None;
        }
        let after = self.runs.partition_point(|run| run.first_line <= line);
        let run = &self.runs[after.checked_sub(1)?];
        Some(Origin {
            command: run.command,
            chain: &run.chain,
            request: run.request,
        })
    }
}

impl fmt::Display for RestoreInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for RestoreInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoreInput")
            .field("lines", &self.commit_line)
            .field("text", &crate::excerpt::of(&self.text))
            .finish_non_exhaustive()
    }
}

/// Collects what one commit shall do.
#[derive(Debug, Clone)]
pub(crate) struct Builder<'a> {
    table: Table,
    /// With the command that makes each chain, or makes it empty.
    contents: Vec<(Command, &'a ChainName, &'a [Rule], Option<usize>)>,
    commands: Vec<(Command, &'a HookChain, Argument<'a>)>,
    deletions: Vec<(&'a ChainName, Option<usize>)>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            table,
            contents: Vec::new(),
            commands: Vec::new(),
            deletions: Vec::new(),
        }
    }

    /// The chain shall exist and hold these rules and no others.
    pub(crate) fn contents(
        &mut self,
        chain: &'a ChainName,
        rules: &'a [Rule],
        request: Option<usize>,
    ) {
        self.contents
            .push((Command::Declare, chain, rules, request));
    }

    /// The chain shall be created, and hold these rules; it mustn't be there yet.
    pub(crate) fn new_chain(
        &mut self,
        chain: &'a ChainName,
        rules: &'a [Rule],
        request: Option<usize>,
    ) {
        self.contents.push((Command::Create, chain, rules, request));
    }

    /// The chain shall be emptied, and deleted at the end.
    pub(crate) fn delete_chain(&mut self, chain: &'a ChainName, request: Option<usize>) {
        self.contents.push((Command::Declare, chain, &[], request));
        self.deletions.push((chain, request));
    }

    /// The chain shall be created with these rules, and deleted at the end: it is there for the commands between.
    pub(crate) fn passing_chain(&mut self, chain: &'a ChainName, rules: &'a [Rule]) {
        self.contents.push((Command::Create, chain, rules, None));
        self.deletions.push((chain, None));
    }

    /// A command on a single rule; these keep their order, after all contents.
    pub(crate) fn rule(&mut self, command: Command, chain: &'a HookChain, rule: &'a Rule) {
        self.command(command, chain, Argument::Rule(rule));
    }

    /// A single command; these keep their order, after all contents.
    pub(crate) fn command(
        &mut self,
        command: Command,
        chain: &'a HookChain,
        argument: Argument<'a>,
    ) {
        self.commands.push((command, chain, argument));
    }

    /// How many bytes the chains' contents take as text: all but a little of most inputs.
    fn room(&self) -> usize {
        let rule = |chain: &ChainName, rule: &Rule| {
            "-A  \n".len() + chain.as_str().len() + rule.as_str().len()
        };
        let contents = self.contents.iter().map(|(_, chain, rules, _)| {
            let rules = rules.iter().map(|text| rule(chain, text)).sum::<usize>();
            "-N ".len() + chain.as_str().len() + NO_POLICY.len() + rules
        });
        contents.sum()
    }

    pub(crate) fn build(mut self) -> RestoreInput {
        self.contents.sort_unstable_by_key(|(_, chain, ..)| *chain);
        self.deletions.sort_unstable_by_key(|(chain, _)| *chain);
        let mut writer = Writer {
            // A growing text of megabytes would be moved again and again.
            text: String::with_capacity(self.room() + 1024),
            runs: Vec::with_capacity(2 * self.contents.len()),
            line: 1,
        };
        writer.line(&["*", self.table.name(), "\n"]);
        for (command, chain, _, request) in &self.contents {
            writer.run(*command, HookChain::User((*chain).clone()), *request);
            let end = match command {
                Command::Declare => NO_POLICY,
                _ => "\n",
            };
            writer.line(&[command.word(), chain.as_str(), end]);
        }
        for (_, chain, rules, request) in &self.contents {
            if !rules.is_empty() {
                writer.run(Command::Append, HookChain::User((*chain).clone()), *request);
            }
            for rule in *rules {
                writer.line(&["-A ", chain.as_str(), " ", rule.as_str(), "\n"]);
            }
        }
        for (command, chain, argument) in &self.commands {
            writer.run(*command, (*chain).clone(), None);
            let (word, chain) = (command.word(), chain.as_str());
            match argument {
                Argument::Nothing => writer.line(&[word, chain, "\n"]),
                Argument::Rule(rule) => writer.line(&[word, chain, " ", rule.as_str(), "\n"]),
                Argument::At(number, rule) => {
                    let number = number.to_string();
                    writer.line(&[word, chain, " ", &number, " ", rule.as_str(), "\n"]);
                }
                Argument::Number(number) => {
                    writer.line(&[word, chain, " ", &number.to_string(), "\n"]);
                }
                Argument::Policy(policy) => writer.line(&[word, chain, " ", policy.name(), "\n"]),
            }
        }
        for (chain, request) in &self.deletions {
            writer.run(
                Command::DeleteChain,
                HookChain::User((*chain).clone()),
                *request,
            );
            writer.line(&["-X ", chain.as_str(), "\n"]);
        }
        writer.text.push_str("COMMIT\n");
        RestoreInput {
            text: writer.text,
            runs: writer.runs,
            commit_line: writer.line,
        }
    }
}

struct Writer {
    text: String,
    runs: Vec<Run>,
    line: usize,
}

impl Writer {
    fn run(&mut self, command: Command, chain: HookChain, request: Option<usize>) {
        self.runs.push(Run {
            first_line: self.line,
            command,
            chain,
            request,
        });
    }

    fn line(&mut self, parts: &[&str]) {
        for part in parts {
            self.text.push_str(part);
        }
        self.line += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_to_a_target_is_found_whatever_stands_around_it() {
        let a = ChainName::new("web-a").unwrap();
        let rules = [
            "-m comment --comment \"x -j web-x\" -j web-xy",
            "-p tcp -g web-x -m comment --comment \"y\"",
            "-j web-x",
        ];
        let rules = rules.map(|rule| Rule::new(rule).unwrap());
        let mut builder = Builder::new(Table::Filter);
        builder.contents(&a, &rules, None);
        let input = builder.build();
        assert_eq!(input.line_to("web-x"), Some(4), "{input}");
        assert_eq!(input.line_to("web"), None);
    }

    #[test]
    fn each_line_knows_its_chain_and_request() {
        let [a, b, c] = ["web-a", "web-b", "web-c"].map(|name| ChainName::new(name).unwrap());
        let rules = ["-j web-a", "-j RETURN"].map(|rule| Rule::new(rule).unwrap());
        let input_chain = HookChain::new("INPUT").unwrap();
        let mut builder = Builder::new(Table::Filter);
        builder.contents(&b, &rules, Some(1));
        builder.delete_chain(&c, Some(2));
        builder.contents(&a, &[], Some(0));
        builder.rule(Command::DeleteRule, &input_chain, &rules[0]);
        builder.rule(Command::Insert, &input_chain, &rules[0]);
        let input = builder.build();
        let expected = "\
*filter
:web-a - [0:0]
:web-b - [0:0]
:web-c - [0:0]
-A web-b -j web-a
-A web-b -j RETURN
-D INPUT -j web-a
-I INPUT -j web-a
-X web-c
COMMIT
";
        assert_eq!(input.as_str(), expected);
        assert_eq!(input.commit_line(), 10);
        let origins: Vec<_> = (1..=11)
            .map(|line| {
                let origin = input.origin(line)?;
                Some((origin.command, origin.chain.as_str(), origin.request))
            })
            .collect();
        assert_eq!(
            origins,
            [
                None,
                Some((Command::Declare, "web-a", Some(0))),
                Some((Command::Declare, "web-b", Some(1))),
                Some((Command::Declare, "web-c", Some(2))),
                Some((Command::Append, "web-b", Some(1))),
                Some((Command::Append, "web-b", Some(1))),
                Some((Command::DeleteRule, "INPUT", None)),
                Some((Command::Insert, "INPUT", None)),
                Some((Command::DeleteChain, "web-c", Some(2))),
                None,
                None,
            ]
        );
        assert_eq!(input.line(5), Some("-A web-b -j web-a"));
        assert_eq!(input.line(0), None);
    }
}
