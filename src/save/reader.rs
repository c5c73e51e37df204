//! Reads an output of `iptables-save` while the tool is still printing it.

use std::borrow::Cow;

use super::parse::Parser;
use super::{SavedTable, Whole};
use crate::Table;
use crate::error::SaveError;

/// Takes an output piece by piece, as it comes: once the tool has ended, little is left to do.
pub(crate) struct SaveReader {
    table: Table,
    parser: Parser,
    /// The lines that are there so far.
    text: String,
    /// The beginning of the next one.
    rest: Vec<u8>,
    /// What is wrong with them; nothing is read behind that.
    error: Option<SaveError>,
}

impl SaveReader {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            table,
            parser: Parser::new(table),
            text: String::new(),
            rest: Vec::new(),
            error: None,
        }
    }

    /// Takes the next piece.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(piece);
            return;
        };
        let (lines, rest) = piece.split_at(end + 1);
        self.rest.extend_from_slice(lines);
        self.take_rest();
        self.rest.extend_from_slice(rest);
        self.error = self.parser.read(&self.text, Whole::NotYet).err();
    }

    /// The table, once all pieces are there: as [`SavedTable::parse`] reads it from all of them together.
    pub(crate) fn finish(mut self) -> Result<SavedTable<'static>, SaveError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.take_rest();
        self.parser.read(&self.text, Whole::Yes)?;
        SavedTable::of(self.table, Cow::Owned(self.text), self.parser)
    }

    /// It ends where a line does, or the output: no character is torn apart there.
    fn take_rest(&mut self) {
        self.text.push_str(&String::from_utf8_lossy(&self.rest));
        self.rest.clear();
    }
}
