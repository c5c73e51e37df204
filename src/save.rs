//! What `iptables-save` printed of one table: its chains, their rules, and who refers to whom.
//!
//! The text is kept whole and once; chains and rules are places in it.

mod block;
mod chains;
mod parse;
mod reader;
mod words;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::error::SaveError;
use crate::{Policy, Table};
use chains::Chains;
use parse::Parser;
pub(crate) use reader::SaveReader;

/// One table as `iptables-save` printed it.
///
/// What it shows is what iptables can express: of rules made with nft it may leave out parts, jumps included.
///
/// ```
/// use iptables_updater::{Policy, SavedTable, Table};
///
/// let output = b"*filter\n:INPUT ACCEPT [0:0]\n:web - [0:0]\n-A INPUT -p tcp -j web\nCOMMIT\n";
/// let saved = SavedTable::parse(output, Table::Filter)?;
/// let input = saved.chain("INPUT").unwrap();
/// assert_eq!(input.policy(), Some(Policy::Accept));
/// assert_eq!(input.rules().next().unwrap().text(), "-p tcp -j web");
/// assert_eq!(saved.references().collect::<Vec<_>>(), [("INPUT", "web")]);
/// # Ok::<(), iptables_updater::SaveError>(())
/// ```
#[derive(Clone)]
pub struct SavedTable<'a> {
    table: Table,
    text: Cow<'a, str>,
    chains: Chains,
    /// The rules of all chains, one chain after the other: a vector for each would be another allocation for each.
    rules: Vec<Rule>,
    notices: Vec<Range<usize>>,
}

/// Whether all of an output is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    Yes,
    NotYet,
}

/// A chain, as places in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chain {
    policy: Option<Policy>,
    counters: Option<Counters>,
    /// Its part of all rules.
    rules: Range<usize>,
}

/// A rule, as places in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// The place of its chain.
    chain: usize,
    text: Range<usize>,
    target: Option<Range<usize>>,
}

/// How much traffic a chain's policy or a rule has met: `[packets:bytes]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl<'a> SavedTable<'a> {
    /// Reads the output of `iptables-save`, with or without `-c`, of this table or of all.
    ///
    /// It is read strictly: whatever iptables-save doesn't print (a carriage return at a line's end, a
    /// blank after `COMMIT`, a rule of a chain that isn't declared) is an error, in the other tables too.
    /// Bytes that aren't UTF-8 are replaced by U+FFFD.
    ///
    /// # Errors
    /// A [`SaveError`]: the table isn't there, isn't whole or can't be shown, or a line is wrong.
    pub fn parse(output: &'a [u8], table: Table) -> Result<Self, SaveError> {
        let text = String::from_utf8_lossy(output);
        let mut parser = Parser::new(table);
        parser.read(&text, Whole::Yes)?;
        Self::of(table, text, parser)
    }

    /// A table whose whole text that parser has read.
    fn of(table: Table, text: Cow<'a, str>, parser: Parser) -> Result<Self, SaveError> {
        let parse::Parsed {
            chains,
            rules,
            notices,
        } = parser.finish()?;
        Ok(Self {
            table,
            text,
            chains,
            rules,
            notices,
        })
    }

    /// Which table it is.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The chains, in the order printed.
    pub fn chains(&self) -> impl ExactSizeIterator<Item = SavedChain<'_>> {
        let chains = self.chains.iter();
        chains.map(|(name, chain)| self.view(name, chain))
    }

    /// The chain of that name.
    pub fn chain(&self, name: &str) -> Option<SavedChain<'_>> {
        let number = self.chains.find(&self.text, name)?;
        let (name, chain) = self.chains.get(number)?;
        Some(self.view(name, chain))
    }

    /// Every jump and goto: the chain in which it stands and the target that it names.
    ///
    /// Targets are other chains, built-in ones (`ACCEPT`) and those of extensions (`LOG`); each rule
    /// that has one gives a pair, in the order printed.
    pub fn references(&self) -> impl Iterator<Item = (&str, &str)> {
        self.chains()
            .flat_map(|chain| chain.rules().map(move |rule| (chain.name(), rule.target())))
            .filter_map(|(chain, target)| Some((chain, target?)))
    }

    /// What iptables-save remarked on this table, such as that nft has base chains in it that
    /// iptables doesn't show.
    pub fn notices(&self) -> impl ExactSizeIterator<Item = &str> {
        self.notices.iter().map(|at| &self.text[at.clone()])
    }

    fn view<'t>(&'t self, name: &'t Range<usize>, chain: &'t Chain) -> SavedChain<'t> {
        SavedChain {
            text: &self.text,
            name,
            chain,
            rules: &self.rules[chain.rules.clone()],
        }
    }
}

impl fmt::Debug for SavedTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedTable")
            .field("table", &self.table)
            .field("chains", &self.chains.len())
            .field("text", &crate::excerpt::of(&self.text))
            .finish_non_exhaustive()
    }
}

/// One chain of a [`SavedTable`].
#[derive(Clone, Copy)]
pub struct SavedChain<'a> {
    text: &'a str,
    name: &'a Range<usize>,
    chain: &'a Chain,
    rules: &'a [Rule],
}

impl<'a> SavedChain<'a> {
    /// Its name. Made through nft it may be empty, hold blanks or be that of a target.
    pub fn name(self) -> &'a str {
        &self.text[self.name.clone()]
    }

    /// What becomes of a packet that reaches its end. Only kernel chains have a policy.
    pub fn policy(self) -> Option<Policy> {
        self.chain.policy
    }

    /// The policy's counters, where they are printed.
    pub fn counters(self) -> Option<Counters> {
        self.chain.counters
    }

    /// Its rules, in order.
    pub fn rules(self) -> impl ExactSizeIterator<Item = SavedRule<'a>> {
        let Self { text, rules, .. } = self;
        rules.iter().map(move |rule| SavedRule { text, rule })
    }
}

impl fmt::Debug for SavedChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedChain")
            .field("name", &self.name())
            .field("policy", &self.policy())
            .field("rules", &self.rules.len())
            .finish_non_exhaustive()
    }
}

/// One rule of a [`SavedChain`].
#[derive(Clone, Copy)]
pub struct SavedRule<'a> {
    text: &'a str,
    rule: &'a Rule,
}

impl<'a> SavedRule<'a> {
    /// The rule as printed, without `-A chain `. A quoted part may hold newlines.
    ///
    /// It says what the rule is, not how to find it again: 113 of 193 forms of rules read back otherwise than
    /// they were written, so two texts that differ may be the same rule.
    pub fn text(self) -> &'a str {
        &self.text[self.rule.text.clone()]
    }

    /// What `-j` or `-g` names: a chain, a built-in target or a target of an extension.
    pub fn target(self) -> Option<&'a str> {
        Some(&self.text[self.rule.target.clone()?])
    }

    /// Its counters, where they are printed (`iptables-save -c`).
    pub fn counters(self) -> Option<Counters> {
        let before = &self.text[..self.rule.text.start];
        let line = before.rsplit('\n').next()?;
        block::counters(line.split(' ').next()?)
    }
}

impl fmt::Debug for SavedRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedRule")
            .field("text", &self.text())
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
