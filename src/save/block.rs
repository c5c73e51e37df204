//! Reads one `*table … COMMIT` block: declarations of chains and rules.
//!
//! Names of chains are nft's to choose: they may be empty, hold blanks and quotes, or look like options.
//! A declaration is therefore read from its right end, and a rule's chain is looked up among the
//! names declared, the longest first.

use std::collections::HashMap;
use std::ops::Range;

use super::parse::{line_at, line_number, unexpected};
use super::words::{self, Words};
use super::{Chain, Counters, Rule};
use crate::error::SaveError;

pub(super) struct Block<'t> {
    text: &'t str,
    chains: Vec<Chain>,
    /// In the order read.
    rules: Vec<Rule>,
    /// Whether the rules of each chain stand together, as iptables-save prints them.
    grouped: bool,
    /// Where the text after the block begins.
    pub(super) end: usize,
    by_name: HashMap<&'t str, usize>,
    /// The lengths of the names that hold blanks, longest first.
    blank_lengths: Vec<usize>,
    /// The chain of the last rule: most often the next one's too.
    current: usize,
}

impl<'t> Block<'t> {
    /// Reads the block whose first line after `*table` begins at `at`.
    pub(super) fn read(text: &'t str, at: usize) -> Result<Self, SaveError> {
        let mut block = Self {
            text,
            chains: Vec::new(),
            rules: Vec::new(),
            grouped: true,
            end: at,
            by_name: HashMap::new(),
            blank_lengths: Vec::new(),
            current: 0,
        };
        while !block.line()? {}
        Ok(block)
    }

    /// The chains, and their rules in the order of the chains.
    pub(super) fn finish(mut self) -> (Vec<Chain>, Vec<Rule>) {
        if !self.grouped {
            // Stable: the rules of a chain keep their order.
            self.rules.sort_by_key(|rule| rule.chain);
            let mut start = 0;
            for chain in &mut self.chains {
                let end = start + chain.rules.len();
                chain.rules = start..end;
                start = end;
            }
        }
        (self.chains, self.rules)
    }

    /// Reads a line, or the lines of a rule; true at the closing `COMMIT`.
    fn line(&mut self) -> Result<bool, SaveError> {
        let at = self.end;
        let Some(first) = self.text.as_bytes().get(at) else {
            return Err(self.cut_off());
        };
        if matches!(first, b'-' | b'[') {
            self.end = self.rule(at)?;
            return Ok(false);
        }
        let line = line_at(self.text, at);
        // At the output's end the newline may be missing.
        self.end = (at + line.len() + 1).min(self.text.len());
        match first {
            b':' => {
                let declared = self.declaration(at + 1..at + line.len());
                declared.ok_or_else(|| self.wrong(at))?;
            }
            b'#' | b'\n' => {}
            _ if line == "COMMIT" => return Ok(true),
            _ => return Err(self.wrong(at)),
        }
        Ok(false)
    }

    /// `NAME POLICY [packets:bytes]`; the counters may be missing. `None` if it is anything else.
    fn declaration(&mut self, at: Range<usize>) -> Option<()> {
        let line = &self.text[at.clone()];
        let last = line.rsplit_once(' ');
        let with_counters = last.and_then(|(head, last)| Some((head, counters(last)?)));
        let (head, counters) = match with_counters {
            Some((head, counters)) => (head, Some(counters)),
            None => (line, None),
        };
        let (name, policy) = head.rsplit_once(' ')?;
        let named = !policy.is_empty() && policy.bytes().all(|b| b.is_ascii_uppercase());
        if !named && policy != "-" {
            return None;
        }
        let policy_at = at.start + name.len() + 1;
        let policy = named.then(|| policy_at..policy_at + policy.len());
        if let Some(known) = self.by_name.get(name) {
            // nft can have a chain PREROUTING beside the kernel's: there are two lines for them, and
            // iptables can't tell the two apart either.
            let known = &mut self.chains[*known];
            known.policy = known.policy.take().or(policy);
            return Some(());
        }
        self.by_name.insert(name, self.chains.len());
        if name.contains(' ')
            && let Err(place) = self
                .blank_lengths
                .binary_search_by(|length| name.len().cmp(length))
        {
            self.blank_lengths.insert(place, name.len());
        }
        self.chains.push(Chain {
            name: at.start..at.start + name.len(),
            policy,
            counters,
            rules: 0..0,
        });
        Some(())
    }

    /// Reads `-A NAME …` or `[packets:bytes] -A NAME …`; gives the place after it.
    fn rule(&mut self, start: usize) -> Result<usize, SaveError> {
        let name_at = self.lead(start).ok_or_else(|| self.wrong(start))?;
        let (chain, name_end) = self.chain_at(name_at).ok_or_else(|| self.wrong(start))?;
        let blank = self.text.as_bytes().get(name_end) == Some(&b' ');
        let text_at = name_end + usize::from(blank);
        let odd_names = !self.blank_lengths.is_empty() || self.by_name.contains_key("");
        let is_odd_name = |name: &str| odd_names && self.by_name.contains_key(name);
        let Some(Words { end, target }) = words::read(self.text, text_at, is_odd_name) else {
            return Err(SaveError::UnterminatedQuote {
                line: line_number(self.text, start),
            });
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
        Ok((end + 1).min(self.text.len()))
    }

    /// Where the chain's name begins, behind the counters, if there are any, and `-A `.
    fn lead(&self, start: usize) -> Option<usize> {
        let rest = &self.text.as_bytes()[start..];
        if rest.starts_with(b"-A ") {
            return Some(start + 3);
        }
        let blank = rest.iter().position(|b| matches!(b, b' ' | b'\n'))?;
        counters(&self.text[start..start + blank])?;
        rest[blank..]
            .starts_with(b" -A ")
            .then_some(start + blank + 4)
    }

    /// The declared chain whose name stands there, and where the name ends.
    fn chain_at(&self, at: usize) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let ends = |end: usize| matches!(bytes.get(end), None | Some(b' ' | b'\n'));
        for length in &self.blank_lengths {
            let end = at + length;
            if ends(end)
                && let Some(chain) = self.text.get(at..end).and_then(|n| self.by_name.get(n))
            {
                return Some((*chain, end));
            }
        }
        if let Some(current) = self.chains.get(self.current) {
            let name = &bytes[current.name.clone()];
            let end = at + name.len();
            if bytes[at..].starts_with(name) && ends(end) {
                // A name that holds blanks was found above, if at all.
                return Some((self.current, end));
            }
        }
        let end = words::end_of_word(bytes, at);
        let chain = self.by_name.get(&self.text[at..end])?;
        Some((*chain, end))
    }

    /// The line that begins there is wrong; if the output ends in it, it is what was left of one.
    fn wrong(&self, at: usize) -> SaveError {
        if self.text[at..].contains('\n') {
            unexpected(self.text, at)
        } else {
            self.cut_off()
        }
    }

    fn cut_off(&self) -> SaveError {
        let written = self.text.strip_suffix('\n').unwrap_or(self.text);
        SaveError::NoCommit {
            line: line_number(written, written.len()),
        }
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
