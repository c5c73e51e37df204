//! Owns a set of chains in one iptables table and keeps them exactly as you want them.

// A library's caller decides what to print and when to stop; tests may.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

mod chain;
mod error;
mod excerpt;
mod executor;
mod failure;
mod hook;
mod index;
mod options;
mod outcome;
mod platform;
mod restore_input;
mod rule;
mod save;
mod table;
mod transaction;
mod words;

pub use chain::{Chain, ChainName, Prefixes};
pub use error::{
    BadRule, ChainError, ChainNameError, Error, ExecutorError, FailureClass, PrefixError,
    RestoreError, RuleError, SaveError,
};
pub use executor::{CommandExecutor, CommandExecutorBuilder, Executor, ToolVersion};
pub use failure::Failure;
pub use hook::HookChain;
pub use index::{ChainState, Index, IndexUpdate};
pub use outcome::{Exit, Outcome};
pub use platform::{Backend, IpVersion};
pub use restore_input::{Command, Origin, RestoreInput};
pub use rule::{IntoRule, Rule};
pub use save::{Counters, SavedChain, SavedRule, SavedTable};
pub use table::{KernelChain, Table, UnknownTable};
pub use transaction::{Change, Deletion, Delta, Rewrite, Stub, Transaction};
