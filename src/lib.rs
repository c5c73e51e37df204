//! Owns a set of chains in one iptables table and keeps them exactly as you want them.
// The crate page is written with the updater itself.

mod chain;
mod error;
mod excerpt;
mod executor;
mod hook;
mod options;
mod outcome;
mod platform;
mod restore_input;
mod rule;
mod table;
mod words;

pub use chain::{Chain, ChainName, Prefixes};
pub use error::{
    BadRule, ChainError, ChainNameError, Error, ExecutorError, FailureClass, PrefixError,
    RestoreError, RuleError, SaveError,
};
pub use executor::Executor;
pub use executor::memory::{
    Fault, JournalCall, JournalEntry, MemoryExecutor, OtherProgram, SavedTable,
};
pub use hook::HookChain;
pub use outcome::{Exit, Outcome};
pub use platform::{Backend, IpVersion};
pub use restore_input::{Command, Origin, RestoreInput};
pub use rule::{IntoRule, Rule};
pub use table::{KernelChain, Table, UnknownTable};
