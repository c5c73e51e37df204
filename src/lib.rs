//! Owns a set of chains in an iptables table and keeps them exactly as you want them: in atomic commits, failing
//! closed, next to other programs that write the same table. Both back ends (nf_tables and legacy), IPv4 and IPv6.
//!
//! ```text
//!  rewrite_chains ─┐   Transaction: which chains change,
//!  delete_chains  ─┼─► which stubs are needed, which ─► iptables-restore ─► what failed, where,
//!  ensure_rule_…  ─┘   chains are needless              (one atomic block)  is it worth a retry?
//! ```
//!
//! ```
//! use iptables_updater::{Backend, Chain, IpVersion, IptablesUpdater, MemoryExecutor, Table};
//!
//! // On a host: CommandExecutor::new(IpVersion::V4)?
//! let executor = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
//! let mut filter = IptablesUpdater::builder(Table::Filter)
//!     .chain_prefix("web-") // every chain of that name is ours, and no other
//!     .open(executor)?;
//!
//! filter.rewrite_chains([
//!     Chain::new("web-input", ["-p tcp --dport 443 -j web-tls", "-j RETURN"])?,
//!     Chain::new("web-tls", ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"])?,
//! ])?;
//! filter.ensure_rule_inserted("INPUT", "-j web-input")?;
//! filter.cleanup()?; // whatever a previous run left is gone
//! # Ok::<(), iptables_updater::Error>(())
//! ```
//!
//! An error's text says what failed, where, why, and what to do, that of its sources included: a program prints it, and
//! needs to walk through nothing. [`source`](std::error::Error::source) gives them as values, to one that looks for a type
//! of error, such as an [`std::io::Error`]; a report that prints them all says the end of the sentence again.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! # fn run() -> Result<(), iptables_updater::Error> { Ok(()) }
//! fn main() -> ExitCode {
//!     match run() {
//!         Ok(()) => ExitCode::SUCCESS,
//!         Err(error) => {
//!             eprintln!("web-firewall: {error}");
//!             ExitCode::FAILURE
//!         }
//!     }
//! }
//! ```
//!
//! `fn main() -> Result<(), Error>`, or with a boxed error, prints the same sentence: it is what `{:?}` of every error of this
//! crate is, and `{:#?}` is the structure.
//!
//! The [`guide`] explains the rest, a page a subject: ownership, stubs, restarts, errors, batches and threads, living
//! with other programs, testing, performance, and how to come from another library.
//!
//! # Where things are
//!
//! - [`IptablesUpdater`] is what a program works with; it owns the chains of one [`Table`] by prefix.
//! - [`Chain`], [`Rule`], [`ChainName`], [`HookChain`] are what it is given: checked once, on the way in.
//! - [`Executor`] is the seam to iptables; [`CommandExecutor`] runs the real programs.
//! - [`MemoryExecutor`] is iptables in memory: for the tests of your program, without root.
//! - [`TableSet`] works with several tables and both IP versions as one.
//! - [`worker`] drives an updater for callers on many threads.
//! - [`Error`] says what went wrong and what to do; [`FailureClass`] tells a program what kind it is.
//! - [`Transaction`] and [`Index`], [`RestoreInput`], [`SavedTable`] and [`Failure`] are the pure parts behind it.
//!
//! # Words
//!
//! *Owned* is a chain whose name begins with one of the updater's prefixes; *programmed*, one whose contents
//! were given with [`rewrite_chains`](IptablesUpdater::rewrite_chains); *required*, one that a programmed chain jumps
//! or goes to, or names explicitly. What is required and not programmed is a *stub*, which drops; what is neither
//! is an *orphan*, which a [`cleanup`](IptablesUpdater::cleanup) removes. A *hook rule* is a rule of ours in a chain
//! of others.
//!
//! # Logging
//!
//! Through [`log`], with targets that begin with `iptables_updater::`. At `info`: a line for each batch, cleanup and
//! hook rule that changes something. At `warn`: every retry, every repair, orphans that stay, chains that can't be
//! deleted, errors that nobody collected. At `debug` and `trace`: what is run, and the restore inputs, cut short
//! where they are long. At `error`: a worker or a callback that panicked.

// A library's caller decides what to print and when to stop; tests may.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

mod batch;
mod chain;
mod deadline;
mod edit;
mod error;
mod excerpt;
mod executor;
mod failure;
mod fingerprint;
pub mod guide;
mod hook;
mod index;
mod named;
mod options;
mod outcome;
mod place;
mod platform;
mod prefixes;
mod restore_input;
mod retry;
mod rule;
mod save;
mod stats;
mod stub;
mod table;
mod table_set;
mod transaction;
mod updater;
mod words;
pub mod worker;

pub use batch::Request;
pub use chain::{Chain, ChainName};
pub use error::{
    BadRule, ChainError, ChainNameError, Error, ExecutorError, FailureClass, ForeignAct, NoAnswer,
    PrefixError, RestoreError, RuleError, SaveError, TableSetError,
};
pub use executor::memory::{self, MemoryExecutor};
pub use executor::{CommandExecutor, CommandExecutorBuilder, Executor, ToolVersion};
pub use failure::Failure;
pub use hook::HookChain;
pub use index::{ChainState, Index, IndexUpdate};
pub use named::UnknownName;
pub use outcome::{Exit, Outcome};
pub use place::Place;
pub use platform::{Backend, IpVersion};
pub use prefixes::Prefixes;
pub use restore_input::{Command, Origin, RestoreInput};
pub use retry::{Clock, RetryPolicy, SystemClock};
pub use rule::{IntoRule, Rule};
pub use save::{Counters, SavedChain, SavedRule, SavedTable};
pub use stats::{Retries, Stats, Tally};
pub use table::{KernelChain, Policy, Table};
pub use table_set::{Outcomes, TableSet, TableSetBuilder};
pub use transaction::{Change, Deletion, Delta, Rewrite, Stub, Transaction};
pub use updater::{
    ChangedChain, Changes, CleanupReport, Drift, Existed, Fight, Graph, HookDrift, HookPolicy,
    HookProblem, IptablesUpdater, KeptOrphan, ListedRule, Placement, Plan, PlanDiff, Position,
    Undeleted, UpdateMode, UpdaterBuilder,
};

/// The README's program has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
