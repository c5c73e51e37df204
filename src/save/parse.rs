//! Reads a whole output of `iptables-save`: what stands around the blocks, and the block asked for.

use std::ops::Range;

use super::block::Block;
use super::{Chain, Rule};
use crate::error::SaveError;
use crate::{Table, excerpt};

/// What is kept of the output.
pub(super) struct Parsed {
    pub(super) chains: Vec<Chain>,
    pub(super) rules: Vec<Rule>,
    pub(super) notices: Vec<Range<usize>>,
}

pub(super) fn parse(text: &str, table: Table) -> Result<Parsed, SaveError> {
    let mut found = None;
    let mut notices = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let line = line_at(text, at);
        if let Some(name) = block_name(line) {
            let ours = name == table.name();
            if ours && found.is_some() {
                return Err(unexpected(text, at));
            }
            // The others are read as well: only that tells a block's end from a comment that looks like one.
            let block = Block::read(text, at + line.len() + 1)?;
            at = block.end;
            if ours {
                found = Some(block.finish());
            }
            continue;
        }
        if !(line.is_empty() || line.starts_with('#')) {
            return Err(unexpected(text, at));
        }
        match notice(line, table) {
            Some(Notice::Incompatible) => {
                return Err(SaveError::Incompatible {
                    line: line_number(text, at),
                    notice: excerpt::short(line),
                });
            }
            Some(Notice::Other) => notices.push(at..at + line.len()),
            None => {}
        }
        at += line.len() + 1;
    }
    match found {
        Some((chains, rules)) => Ok(Parsed {
            chains,
            rules,
            notices,
        }),
        None => Err(SaveError::NoTable),
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
