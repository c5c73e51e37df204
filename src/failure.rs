//! Tells from what iptables printed what kind of failure it was, at which line, and what it names.

mod patterns;

use crate::{Exit, FailureClass, Outcome};
use patterns::ROWS;

/// What a failed run of iptables-restore or iptables-save says.
///
/// The exit code alone decides nothing (4 stands for a held lock as well as for a rule that the kernel refuses), so
/// the text on standard error is compared with a table of patterns, measured on iptables 1.8.9. Each line
/// is matched from its beginning, because iptables repeats what its caller wrote: a rule must not be able to
/// pass itself off as a held lock.
///
/// ```
/// use iptables_updater::{Failure, FailureClass, Outcome};
///
/// let input = "*filter\n-D INPUT -j web-input\nCOMMIT\n";
/// // The legacy back end says no more than this where the rule to delete isn't there:
/// let outcome = Outcome::failure(1, "iptables-restore: line 2 failed\n");
/// let failure = Failure::of_restore(&outcome, input).unwrap();
/// assert_eq!(failure.class, FailureClass::RuleAbsent);
/// assert_eq!(failure.line, Some(2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure it is.
    pub class: FailureClass,
    /// The line of the input that is named, from 1; the first if there are several.
    pub line: Option<usize>,
    /// The chain, target, set or table that the message names.
    pub object: Option<String>,
    /// Whether every rule from that line on was refused with it (nf_tables). The kernel checks the table as a
    /// whole after each rule then, so the line is the one that completes what is wrong, not always the one to
    /// blame.
    pub cascade: bool,
}

impl Failure {
    /// What a run of iptables-restore with this input says; `None` if it succeeded, whatever it printed.
    pub fn of_restore(outcome: &Outcome, input: &str) -> Option<Self> {
        Self::of(outcome, input)
    }

    /// What a run of iptables-save says; `None` if it succeeded. That doesn't mean that its output is whole.
    pub fn of_save(outcome: &Outcome) -> Option<Self> {
        Self::of(outcome, "")
    }

    fn of(outcome: &Outcome, input: &str) -> Option<Self> {
        if outcome.exit.is_success() {
            return None;
        }
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        let lines = telling_lines(&stderr);
        let named = lines.iter().find_map(|line| line_named(line));
        let killed = !matches!(outcome.exit, Exit::Code(_));
        let hit = ROWS.iter().find_map(|row| {
            let mut lines = lines.iter();
            let (line, object) = lines.find_map(|line| Some((line, captures(row.text, line)?)))?;
            Some((
                row.class,
                line_named(line).or(named),
                object.map(str::to_owned),
            ))
        });
        let (class, line, object) = match hit {
            _ if killed => (FailureClass::Ambiguous, None, None),
            Some((Some(class), line, object)) => (class, line, object),
            // `line N failed` and no more: what that line does says what it means.
            Some((None, line, object)) => (bare(line, input), line, object),
            None if lines.iter().all(|line| line.is_empty()) => {
                (FailureClass::Ambiguous, None, None)
            }
            None => (FailureClass::Refused, named, None),
        };
        Some(Self {
            class,
            line,
            object,
            cascade: line.is_some_and(|line| cascade(&stderr, line, input)),
        })
    }
}

/// How many lines at the beginning and at the end of standard error are compared with the table.
const TELLING: usize = 500;

/// The lines that may tell what went wrong, without the program's name. Where there are very many, those in the
/// middle repeat what is said before: a warning for each rule, or a refusal of each.
fn telling_lines(stderr: &str) -> Vec<&str> {
    let lines = || stderr.lines().map(without_program);
    if lines().nth(2 * TELLING).is_none() {
        return lines().collect();
    }
    let mut last: Vec<_> = lines().rev().take(TELLING).collect();
    last.reverse();
    lines().take(TELLING).chain(last).collect()
}

/// What a failure without a reason means at that line: so legacy reports most of them, and hides every
/// refusal of the kernel behind the `COMMIT` line.
fn bare(line: Option<usize>, input: &str) -> FailureClass {
    let text = line.and_then(|line| input.lines().nth(line.checked_sub(1)?));
    let command = text.and_then(|text| text.split_ascii_whitespace().next());
    match command {
        Some("-D" | "-C") => FailureClass::RuleAbsent,
        Some("-A" | "-I" | "-F" | "-R" | "-Z") => FailureClass::TargetAbsent,
        Some("-N") => FailureClass::ChainExists,
        Some("-X") => FailureClass::ChainBusy,
        _ => FailureClass::Ambiguous,
    }
}

/// The line without the name of the program that printed it: `iptables-restore v1.8.9 (legacy): `,
/// `iptables-nft-restore: `, `iptables-nft-save/1.8.9 (nf_tables) `, one or two of them.
fn without_program(line: &str) -> &str {
    let once = after_program(line).unwrap_or(line);
    after_program(once).unwrap_or(once)
}

/// What follows a program's name. Each part is taken for what it is only if it looks just so: behind it stands
/// what the caller wrote, brackets and colons among it.
fn after_program(line: &str) -> Option<&str> {
    let (name, rest) = line.split_at(line.find([' ', ':', '/'])?);
    let is_name =
        name.contains("tables") && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_name {
        return None;
    }
    if let Some(text) = rest.strip_prefix(": ") {
        return Some(text);
    }
    let version = rest.strip_prefix(" v").or(rest.strip_prefix('/'))?;
    let numbers = version.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let back_ends = [" (nf_tables)", " (legacy)"];
    let text = back_ends
        .iter()
        .find_map(|b| numbers.strip_prefix(b))
        .unwrap_or(numbers);
    // A name before a list of further lines stands alone.
    let text = text.strip_prefix(':').unwrap_or(text);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// The number of the input line that a line of standard error names, in any of its five shapes.
fn line_named(line: &str) -> Option<usize> {
    const SHAPES: [&str; 4] = [
        "line ",
        "Error occurred at line: ",
        "COMMIT expected at line ",
        "Bad line ",
    ];
    let number = SHAPES.iter().find_map(|shape| line.strip_prefix(shape));
    let number = number.or_else(|| {
        let (_, rest) = line
            .strip_prefix("Can't set policy ")?
            .rsplit_once("' line ")?;
        Some(rest)
    })?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    // Line 0 is the command line.
    digits.parse().ok().filter(|line| *line > 0)
}

/// Whether all rules from this line on were refused.
fn cascade(stderr: &str, first: usize, input: &str) -> bool {
    let refused = stderr
        .lines()
        .map(without_program)
        .filter(|line| captures("line *: RULE_* failed (*", line).is_some());
    let refused = refused.count();
    let lines = input.lines().skip(first - 1);
    let rules = lines.filter(|line| line.starts_with("-A ") || line.starts_with("-I "));
    refused > 0 && refused >= rules.count()
}

/// Compares a line with a pattern, from beginning to end: `*` stands for any text, `{}` for the name to be
/// returned. `Some(None)` where the line agrees and the pattern has no name.
#[allow(
    clippy::option_option,
    reason = "as a regular expression's captures are"
)]
fn captures<'l>(pattern: &str, line: &'l str) -> Option<Option<&'l str>> {
    let mut object = None;
    let mut rest = line;
    let mut pattern = pattern;
    loop {
        let Some(wild) = wildcard(pattern) else {
            return (rest == pattern).then_some(object);
        };
        rest = rest.strip_prefix(&pattern[..wild])?;
        let named = pattern[wild..].starts_with("{}");
        pattern = &pattern[wild + if named { 2 } else { 1 }..];
        // The text ends where what follows in the pattern first occurs; at its end, where the line ends.
        let next = wildcard(pattern);
        let follows = &pattern[..next.unwrap_or(pattern.len())];
        let end = if follows.is_empty() {
            rest.len()
        } else if next.is_none() {
            rest.len().checked_sub(follows.len())?
        } else {
            rest.find(follows)?
        };
        if !rest.is_char_boundary(end) {
            return None;
        }
        if named {
            object = Some(&rest[..end]);
        }
        rest = &rest[end..];
    }
}

/// Where the pattern's first wildcard stands.
fn wildcard(pattern: &str) -> Option<usize> {
    let places = pattern.find('*').into_iter().chain(pattern.find("{}"));
    places.min()
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
