//! Why a chain name, a rule, a chain or a set of tables was refused, before anything was run.

use super::debug::debug_as_sentence;
use crate::{IpVersion, KernelChain, Table};

/// Why a text can't be the name of a chain of ours.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainNameError {
    /// The name is empty.
    #[error("a chain name can't be empty")]
    Empty,
    /// Both back ends refuse names of more than 28 bytes.
    #[error(
        "chain name {name:?} has {length} bytes, iptables takes at most {}",
        crate::ChainName::MAX_BYTES
    )]
    TooLong {
        /// The name, cut short where it is very long.
        name: String,
        /// Its length in bytes.
        length: usize,
    },
    /// A blank, a control character or a quote: the line would be read as other words.
    #[error(
        "chain name {name:?} has {character:?} in it: blanks, control characters and quotes can't stand in a name"
    )]
    Character {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
    /// A leading `-` or `!`: legacy creates such a chain and can't address it afterwards.
    #[error("chain name {name:?} begins with {:?}: iptables would read it as an option", name.chars().next().unwrap_or_default())]
    Lead {
        /// The name.
        name: String,
    },
    /// `ACCEPT`, `DROP`, `RETURN` or `QUEUE`.
    #[error("{name} is a built-in target, no chain can have its name")]
    BuiltInTarget {
        /// The name.
        name: String,
    },
    /// The kernel's own chains can be hooked, but not owned. (nf_tables would silently create a user
    /// chain of that name in a table that doesn't have the kernel chain.)
    #[error("{0} is a kernel chain: it can be hooked, but not owned")]
    KernelChain(KernelChain),
    /// The chain of a hook rule: this table has no such kernel chain.
    #[error("table {table} has no kernel chain {chain}: it has {}", names(*table))]
    NotInTable {
        /// The table.
        table: Table,
        /// The chain.
        chain: KernelChain,
    },
}

debug_as_sentence!(enum ChainNameError, (KernelChain), {
    Empty {},
    TooLong { name, length },
    Character { name, character },
    Lead { name },
    BuiltInTarget { name },
    NotInTable { table, chain },
});

fn names(table: Table) -> String {
    let names: Vec<_> = table.kernel_chains().iter().map(|c| c.name()).collect();
    names.join(", ")
}

/// Why a prefix can't mark chains as owned.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// No prefix was given: nothing would be owned.
    #[error(
        "an updater needs at least one chain prefix: the chains whose names begin with it are the ones it owns"
    )]
    None,
    /// No chain name can begin like this.
    #[error("no chain name can begin with the prefix {prefix:?}: {source}")]
    Name {
        /// The prefix.
        prefix: String,
        /// Why.
        source: ChainNameError,
    },
    /// A jump to that target of iptables would be taken for a jump to an owned chain.
    #[error("prefix {prefix:?} would own the target {target} of iptables: choose a longer one")]
    Target {
        /// The prefix.
        prefix: String,
        /// The target whose name begins with it.
        target: &'static str,
    },
}

debug_as_sentence!(enum PrefixError, (), {
    None {},
    Name { prefix, source },
    Target { prefix, target },
});

/// Why a text can't be a rule.
///
/// Most of these would be accepted by iptables and do something else: the catalogue behind them was
/// measured on iptables 1.8.9.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A rule without a word.
    #[error("a rule can't be empty: it would match every packet and do nothing")]
    Empty,
    /// Newline, NUL and other control characters end or split the line.
    #[error("control character {character:?} at byte {at}: it would end or split the line")]
    ControlCharacter {
        /// The character.
        character: char,
        /// Its place in the text, in bytes from 0.
        at: usize,
    },
    /// iptables would swallow the rest of the line, the newline included, into one word.
    #[error("the quote that opens at byte {at} is never closed")]
    UnterminatedQuote {
        /// The place of the quote, in bytes from 0.
        at: usize,
    },
    /// The line is longer than iptables reads at once: the rest would run as a new command.
    #[error("the rule has {length} bytes, iptables takes lines in which it may have {max}")]
    TooLong {
        /// The rule's length as rendered, in bytes.
        length: usize,
        /// The most that fits beside the longest chain name.
        max: usize,
    },
    /// More words than iptables takes in a line.
    #[error("the rule has {count} words, iptables takes {max}")]
    TooManyWords {
        /// The number of words.
        count: usize,
        /// The most that fit.
        max: usize,
    },
    /// One word is longer than iptables takes.
    #[error("a word of {length} bytes begins with {start:?}, iptables takes {max}")]
    WordTooLong {
        /// How the word begins.
        start: String,
        /// Its length in bytes.
        length: usize,
        /// The most that iptables takes.
        max: usize,
    },
    /// The first word isn't an option: iptables would take it for a rule number.
    #[error("a rule begins with an option or with !, not with {word:?}")]
    NoOption {
        /// The first word.
        word: String,
    },
    /// The option makes the line another command, another table, the other IP version, or ends it.
    #[error(
        "{option:?} has no place in a rule: it names a command, a table, an IP version or an output option"
    )]
    ForbiddenOption {
        /// The option as iptables would read it.
        option: String,
    },
    /// An option without its value.
    #[error("option {option} has no value{}", found.as_ref().map(|f| format!(": {f:?} follows")).unwrap_or_default())]
    MissingValue {
        /// The option.
        option: String,
        /// What stands in the value's place.
        found: Option<String>,
    },
    /// An empty value: unquoted, the next option would be swallowed as the value.
    #[error("{option:?} is followed by an empty value")]
    EmptyValue {
        /// The option, or the word before the empty one.
        option: String,
    },
    /// iptables would cut the text short without a word.
    #[error("the text of {option} has {length} bytes, iptables keeps {max} and cuts off the rest")]
    TextTooLong {
        /// The option.
        option: String,
        /// The length of its value in bytes.
        length: usize,
        /// How many bytes iptables keeps.
        max: usize,
    },
    /// A list of addresses: iptables makes a rule of each.
    #[error(
        "{option} {value:?} lists several addresses, of which iptables makes several rules: write one rule for each"
    )]
    SeveralAddresses {
        /// `-s` or `-d`.
        option: String,
        /// Its value.
        value: String,
    },
    /// A host name: it may have several addresses, or none just now.
    #[error(
        "{option} {value:?} isn't an address: a host name may stand for several rules, or for none while it can't be resolved"
    )]
    HostName {
        /// `-s` or `-d`.
        option: String,
        /// Its value.
        value: String,
    },
    /// A blank in the name of an interface, a set or a list: iptables-save prints it without quotes, and what follows
    /// the blank would be read as further options.
    #[error(
        "{option} {value:?} has a blank in it: iptables-save prints such a name without quotes, so it would be read back as another rule"
    )]
    BlankInName {
        /// The option.
        option: String,
        /// Its value, cut short where it is long.
        value: String,
    },
    /// Nothing that `-j` or `-g` can name is called so: over 28 bytes, or a blank or a double quote in it.
    #[error(
        "no chain or target can be called {target:?}: a name has at most {} bytes, no blank and no double quote",
        crate::ChainName::MAX_BYTES
    )]
    TargetName {
        /// The target, cut short where it is long.
        target: String,
    },
    /// Two of `-j` and `-g`.
    #[error("a rule has one target, this one has {first:?} and {second:?}")]
    TwoTargets {
        /// The first target.
        first: String,
        /// The second.
        second: String,
    },
    /// The rule was written with its chain (`-A chain …`), and it isn't the one that it is for.
    #[error("the rule is written for chain {written:?}, but belongs to {expected:?}")]
    OtherChain {
        /// The chain that the text names.
        written: String,
        /// The chain that the rule is for.
        expected: String,
    },
}

debug_as_sentence!(enum RuleError, (), {
    Empty {},
    ControlCharacter { character, at },
    UnterminatedQuote { at },
    TooLong { length, max },
    TooManyWords { count, max },
    WordTooLong { start, length, max },
    NoOption { word },
    ForbiddenOption { option },
    MissingValue { option, found },
    EmptyValue { option },
    TextTooLong { option, length, max },
    SeveralAddresses { option, value },
    HostName { option, value },
    BlankInName { option, value },
    TargetName { target },
    TwoTargets { first, second },
    OtherChain { written, expected },
});

/// Why a [`Chain`](crate::Chain) can't be made.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// Its name, or the name of a chain that it requires, is no chain name.
    #[error(transparent)]
    Name(#[from] ChainNameError),
    /// One of its rules is no rule.
    #[error("chain {chain}, rule {number}: {source}")]
    Rule {
        /// The chain.
        chain: String,
        /// Which of its rules, from 1.
        number: usize,
        /// The rule's text and what is wrong with it.
        source: BadRule,
    },
}

debug_as_sentence!(enum ChainError, (Name), {
    Rule { chain, number, source },
});

/// A text that was given as a rule, and why it is none.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {source}")]
pub struct BadRule {
    /// The text, cut short where it is long.
    pub text: String,
    /// Why.
    pub source: RuleError,
}

debug_as_sentence!(struct BadRule { text, source });

/// Why a [`TableSet`](crate::TableSet) can't be opened, or a call to it can't be meant.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableSetError {
    /// No table was named: there would be nothing in the set.
    #[error("a table set needs at least one table")]
    NoTable,
    /// No IP version was named: there would be nothing in the set.
    #[error("a table set needs at least one IP version")]
    NoVersion,
    /// A table was named twice: two updaters would own the same chains, and each delete those of the other.
    #[error("table {table} is named twice in a table set")]
    TableTwice {
        /// The table.
        table: Table,
    },
    /// An IP version was named twice, in the same way.
    #[error("{version} is named twice in a table set")]
    VersionTwice {
        /// The IP version.
        version: IpVersion,
    },
    /// A call for a table with which the set wasn't built.
    #[error("table {table} isn't in this table set: name it before the set is opened")]
    NotInSet {
        /// The table.
        table: Table,
    },
}

debug_as_sentence!(enum TableSetError, (), {
    NoTable {},
    NoVersion {},
    TableTwice { table },
    VersionTwice { version },
    NotInSet { table },
});

impl From<std::convert::Infallible> for ChainNameError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
