//! Reads an output of `iptables-save`: what stands around the blocks, and the block asked for.

use std::ops::Range;

use super::block::Block;
use super::chains::Chains;
use super::{Rule, Whole};
use crate::error::SaveError;
use crate::{Table, excerpt};

/// What is kept of the output.
pub(super) struct Parsed {
    pub(super) chains: Chains,
    pub(super) rules: Vec<Rule>,
    pub(super) notices: Vec<Range<usize>>,
}

/// Reads an output as far as it has come, and on from there when more of it has.
///
/// The text is given at each reading: the same as before, with more at its end. What is kept are places in it.
pub(super) struct Parser {
    table: Table,
    /// How far it is read.
    at: usize,
    /// The block that is being read, and whether it is the one asked for.
    open: Option<(Block, bool)>,
    found: Option<Block>,
    notices: Vec<Range<usize>>,
}

impl Parser {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            at: 0,
            open: None,
            found: None,
            notices: Vec::new(),
        }
    }

    /// Reads on. A text that isn't whole yet ends with a line's newline.
    pub(super) fn read(&mut self, text: &str, whole: Whole) -> Result<(), SaveError> {
        loop {
            if let Some((mut block, ours)) = self.open.take() {
                if !block.read(text, whole)? {
                    self.open = Some((block, ours));
                    return Ok(());
                }
                self.at = block.end;
                if ours {
                    self.found = Some(block);
                }
            }
            if self.at >= text.len() {
                return Ok(());
            }
            self.line(text)?;
        }
    }

    /// Reads a line that stands around the blocks, or opens one.
    fn line(&mut self, text: &str) -> Result<(), SaveError> {
        let at = self.at;
        let line = line_at(text, at);
        self.at = at + line.len() + 1;
        if let Some(name) = block_name(line) {
            let ours = name == self.table.name();
            if ours && self.found.is_some() {
                return Err(unexpected(text, at));
            }
            // The others are read as well: only that tells a block's end from a comment that looks like one.
            self.open = Some((Block::new(self.at), ours));
            return Ok(());
        }
        if !(line.is_empty() || line.starts_with('#')) {
            return Err(unexpected(text, at));
        }
        match notice(line, self.table) {
            Some(Notice::Incompatible) => {
                return Err(SaveError::Incompatible {
                    line: line_number(text, at),
                    notice: excerpt::short(line),
                });
            }
            Some(Notice::Other) => self.notices.push(at..at + line.len()),
            None => {}
        }
        Ok(())
    }

    /// What was found, once the whole text is read.
    pub(super) fn finish(self) -> Result<Parsed, SaveError> {
        let (chains, rules) = self.found.ok_or(SaveError::NoTable)?.finish();
        Ok(Parsed {
            chains,
            rules,
            notices: self.notices,
        })
    }
}

/// The table's name, if the line opens a block.
fn block_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix('*')?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (!name.is_empty() && name.bytes().all(fits)).then_some(name)
}

enum Notice {
    /// The table isn't printed at all.
    Incompatible,
    /// It is, but something of it is missing.
    Other,
}

/// What iptables-nft-save has to say about this table.
fn notice(line: &str, table: Table) -> Option<Notice> {
    let said = line
        .strip_prefix("# Table `")?
        .strip_prefix(table.name())?
        .strip_prefix("' ")?;
    Some(if said.starts_with("is incompatible") {
        Notice::Incompatible
    } else {
        Notice::Other
    })
}

/// The line that begins there, without its newline.
pub(super) fn line_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    rest.find('\n').map_or(rest, |end| &rest[..end])
}

/// The number of the line in which that place lies, from 1.
pub(super) fn line_number(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// The line that begins there isn't one of iptables-save's.
pub(super) fn unexpected(text: &str, at: usize) -> SaveError {
    SaveError::Unexpected {
        line: line_number(text, at),
        text: excerpt::short(line_at(text, at)),
    }
}
