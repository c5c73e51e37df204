//! A failed run of iptables-restore, as data and as a sentence.

use std::fmt;

use super::FailureClass;
use super::circle::Circle;
use super::debug::debug_as_sentence;
use crate::outcome::Exit;
use crate::{Backend, ChainName, IpVersion, Table, excerpt};

/// iptables-restore failed: what it was given, what it said, what that means.
///
/// The input is one block, so nothing of it was applied.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreError {
    /// What kind of failure it is.
    pub class: FailureClass,
    /// The table.
    pub table: Table,
    /// The IP version.
    pub version: IpVersion,
    /// The back end.
    pub backend: Backend,
    /// The line of the input that is at fault, from 1: the one that iptables named. Where a jump target is missing,
    /// nf_tables names only the target and the `COMMIT` line; then it is the first line that jumps there, so that both
    /// back ends tell the same. Legacy names the `COMMIT` line where the kernel refuses the whole.
    pub line: Option<usize>,
    /// That line, cut short where it is long.
    pub text: Option<String>,
    /// The chain to which that line belongs.
    pub chain: Option<String>,
    /// The request of the batch to which that line belongs, from 0.
    pub request: Option<usize>,
    /// Whether every rule from that line on was refused with it (`nf_tables`): then the kernel refused the
    /// table that they make together, and the line may not be the one to blame.
    pub cascade: bool,
    /// The chain, target or set that the message names.
    pub object: Option<String>,
    /// Chains that would lead to each other in a circle, if a reading after the failure shows one: each once; the
    /// last jumps to the first. Those of others may be among them.
    pub circle: Vec<String>,
    /// Which chains of the circle hold what a previous run left, because nobody has programmed them yet.
    pub leftover: Vec<ChainName>,
    /// How the process ended.
    pub exit: Exit,
    /// What it printed on standard error, cut short where it is long.
    pub stderr: String,
    /// How often it was tried.
    pub tries: u32,
}

debug_as_sentence!(struct RestoreError {
    class, table, version, backend, line, text, chain, request, cascade, object, circle, leftover, exit, stderr, tries
});

impl std::error::Error for RestoreError {}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "iptables-restore failed on table {} ({}, {}): {}",
            self.table, self.version, self.backend, self.class
        )?;
        if let Some(object) = &self.object {
            write!(f, ": {object:?}")?;
        }
        if let Some(line) = self.line {
            write!(f, "; at line {line}")?;
            if let Some(text) = &self.text {
                write!(f, " ({text:?})")?;
            }
        }
        if let Some(chain) = &self.chain {
            write!(f, " of chain {chain}")?;
        }
        if self.tries > 1 {
            write!(f, "; tried {} times", self.tries)?;
        }
        write!(f, "; {}", self.exit)?;
        if !self.stderr.is_empty() {
            write!(f, ", it said {:?}", self.stderr.trim_end())?;
        }
        if !self.circle.is_empty() {
            let circle = Circle(&self.circle);
            write!(f, "; these chains would jump in a circle: {circle}")?;
        }
        if self.leftover.is_empty() {
            return write!(f, ". What to do: {}", self.class.advice());
        }
        let leftover: Vec<_> = self.leftover.iter().map(ChainName::as_str).collect();
        let leftover = excerpt::short(&leftover.join(", "));
        write!(
            f,
            ", {leftover} with contents of a previous run. What to do: rewrite {leftover} in the same call, or delete it first; or call cleanup first, which ends the restart: stubs take the place of old contents then"
        )
    }
}
