//! What a simulated kernel was asked, and what it answered.

use crate::{Outcome, Table};

/// One call of [`Executor::restore`](crate::Executor::restore) or [`save`](crate::Executor::save).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// What was asked.
    pub call: JournalCall,
    /// What was answered.
    pub outcome: Outcome,
}

/// What an executor was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalCall {
    /// `iptables-restore --noflush` with this input.
    Restore(String),
    /// `iptables-save -t` of this table.
    Save(Table),
}

impl JournalEntry {
    /// The input, if it was a restore.
    pub fn input(&self) -> Option<&str> {
        match &self.call {
            JournalCall::Restore(input) => Some(input),
            JournalCall::Save(_) => None,
        }
    }
}
