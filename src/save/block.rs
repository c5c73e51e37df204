//! Reads one `*table … COMMIT` block: declarations of chains and rules.
//!
//! Names of chains are nft's to choose: they may be empty, hold blanks and quotes, or look like options.
//! A declaration is therefore read from its right end, and a rule's chain is looked up among the
//! names declared, the longest first.

use std::ops::Range;

use super::chains::Chains;
use super::parse::{line_at, line_number, unexpected};
use super::words::{self, Words};
use super::{Chain, Counters, Rule, Whole};
use crate::Policy;
use crate::error::SaveError;

pub(super) struct Block {
    chains: Chains,
    /// In the order read.
    rules: Vec<Rule>,
    /// Whether the rules of each chain stand together, as iptables-save prints them.
    grouped: bool,
    /// Where the text after the block begins; before its end is found, how far it is read.
    pub(super) end: usize,
    /// How long the text has to be before a rule is looked at again that wasn't whole: twice as long each time, so
    /// that no text is read again and again.
    worth_a_look: usize,
    /// The lengths of the names that hold blanks, longest first.
    blank_lengths: Vec<usize>,
    /// The chain of the last rule: most often the next one's too.
    current: usize,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Read,
    /// It closes the block.
    Commit,
    /// The rest of it isn't there yet.
    Unfinished,
}

impl Block {
    /// A block whose first line after `*table` begins there.
    pub(super) fn new(at: usize) -> Self {
        Self {
            chains: Chains::default(),
            rules: Vec::new(),
            grouped: true,
            end: at,
            worth_a_look: 0,
            blank_lengths: Vec::new(),
            current: 0,
        }
    }

    /// Reads on to the end of the block, or of the text; whether it was that of the block.
    pub(super) fn read(&mut self, text: &str, whole: Whole) -> Result<bool, SaveError> {
        if whole == Whole::NotYet && text.len() < self.worth_a_look {
            return Ok(false);
        }
        while self.end < text.len() {
            match self.line(text, whole)? {
                Line::Read => {}
                Line::Commit => return Ok(true),
                Line::Unfinished => {
                    self.worth_a_look = text.len() + (text.len() - self.end);
                    return Ok(false);
                }
            }
        }
        match whole {
            Whole::Yes => Err(cut_off(text)),
            Whole::NotYet => Ok(false),
        }
    }

    /// The chains, and their rules in the order of the chains.
    pub(super) fn finish(mut self) -> (Chains, Vec<Rule>) {
        if !self.grouped {
            // Stable: the rules of a chain keep their order.
            self.rules.sort_by_key(|rule| rule.chain);
            let mut start = 0;
            for chain in self.chains.chains_mut() {
                let end = start + chain.rules.len();
                chain.rules = start..end;
                start = end;
            }
        }
        (self.chains, self.rules)
    }

    /// Reads a line, or the lines of a rule.
    fn line(&mut self, text: &str, whole: Whole) -> Result<Line, SaveError> {
        let at = self.end;
        let first = text.as_bytes()[at];
        if matches!(first, b'-' | b'[') {
            return self.rule(text, at, whole);
        }
        let line = line_at(text, at);
        // At the output's end the newline may be missing.
        self.end = (at + line.len() + 1).min(text.len());
        match first {
            b':' => {
                let declared = self.declaration(text, at + 1..at + line.len());
                declared.ok_or_else(|| wrong(text, at))?;
            }
            b'#' | b'\n' => {}
            _ if line == "COMMIT" => return Ok(Line::Commit),
            _ => return Err(wrong(text, at)),
        }
        Ok(Line::Read)
    }

    /// `NAME POLICY [packets:bytes]`; the counters may be missing. `None` if it is anything else.
    fn declaration(&mut self, text: &str, at: Range<usize>) -> Option<()> {
        let line = &text[at.clone()];
        let last = line.rsplit_once(' ');
        let with_counters = last.and_then(|(head, last)| Some((head, counters(last)?)));
        let (head, counters) = match with_counters {
            Some((head, counters)) => (head, Some(counters)),
            None => (line, None),
        };
        let (name, policy) = head.rsplit_once(' ')?;
        let policy = match policy {
            "-" => None,
            policy => Some(Policy::from_name(policy)?),
        };
        if let Some(known) = self.chains.find(text, name) {
            // nft can have a chain PREROUTING beside the kernel's: there are two lines for them, and
            // iptables can't tell the two apart either.
            let known = &mut self.chains[known];
            known.policy = known.policy.or(policy);
            return Some(());
        }
        if name.contains(' ')
            && let Err(place) = self
                .blank_lengths
                .binary_search_by(|length| name.len().cmp(length))
        {
            self.blank_lengths.insert(place, name.len());
        }
        let chain = Chain {
            policy,
            counters,
            rules: 0..0,
        };
        let name = at.start..at.start + name.len();
        self.chains.push(text, name, chain);
        Some(())
    }

    /// Reads `-A NAME …` or `[packets:bytes] -A NAME …`.
    fn rule(&mut self, text: &str, start: usize, whole: Whole) -> Result<Line, SaveError> {
        let name_at = lead(text, start).ok_or_else(|| wrong(text, start))?;
        let found = self.chain_at(text, name_at);
        let (chain, name_end) = found.ok_or_else(|| wrong(text, start))?;
        let blank = text.as_bytes().get(name_end) == Some(&b' ');
        let text_at = name_end + usize::from(blank);
        let odd_names = !self.blank_lengths.is_empty() || self.chains.find(text, "").is_some();
        let is_odd_name = |name: &str| odd_names && self.chains.find(text, name).is_some();
        let Some(Words { end, target }) = words::read(text, text_at, is_odd_name) else {
            return match whole {
                Whole::NotYet => Ok(Line::Unfinished),
                Whole::Yes => Err(SaveError::UnterminatedQuote {
                    line: line_number(text, start),
                }),
            };
        };
        self.current = chain;
        let place = self.rules.len();
        let of_chain = &mut self.chains[chain].rules;
        if of_chain.end == 0 {
            *of_chain = place..place;
        }
        self.grouped &= of_chain.end == place;
        of_chain.end += 1;
        self.rules.push(Rule {
            chain,
            text: text_at..end,
            target,
        });
        self.end = (end + 1).min(text.len());
        Ok(Line::Read)
    }

    /// The declared chain whose name stands there, and where the name ends.
    fn chain_at(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let bytes = text.as_bytes();
        let ends = |end: usize| matches!(bytes.get(end), None | Some(b' ' | b'\n'));
        for length in &self.blank_lengths {
            let end = at + length;
            if ends(end)
                && let Some(name) = text.get(at..end)
                && let Some(chain) = self.chains.find(text, name)
            {
                return Some((chain, end));
            }
        }
        if let Some((name, _)) = self.chains.get(self.current) {
            let name = &bytes[name.clone()];
            let end = at + name.len();
            if bytes[at..].starts_with(name) && ends(end) {
                // A name that holds blanks was found above, if at all.
                return Some((self.current, end));
            }
        }
        let end = words::end_of_word(bytes, at);
        let chain = self.chains.find(text, &text[at..end])?;
        Some((chain, end))
    }
}

/// Where the chain's name begins, behind the counters, if there are any, and `-A `.
fn lead(text: &str, start: usize) -> Option<usize> {
    let rest = &text.as_bytes()[start..];
    if rest.starts_with(b"-A ") {
        return Some(start + 3);
    }
    let blank = rest.iter().position(|b| matches!(b, b' ' | b'\n'))?;
    counters(&text[start..start + blank])?;
    rest[blank..]
        .starts_with(b" -A ")
        .then_some(start + blank + 4)
}

/// The line that begins there is wrong; if the output ends in it, it is what was left of one.
fn wrong(text: &str, at: usize) -> SaveError {
    if text[at..].contains('\n') {
        unexpected(text, at)
    } else {
        cut_off(text)
    }
}

fn cut_off(text: &str) -> SaveError {
    let written = text.strip_suffix('\n').unwrap_or(text);
    SaveError::NoCommit {
        line: line_number(written, written.len()),
    }
}

/// `[packets:bytes]`.
pub(super) fn counters(text: &str) -> Option<Counters> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let (packets, bytes) = inner.split_once(':')?;
    // `parse` would take a plus sign.
    let number = |digits: &str| {
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        if plain { digits.parse().ok() } else { None }
    };
    Some(Counters {
        packets: number(packets)?,
        bytes: number(bytes)?,
    })
}
