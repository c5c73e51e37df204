//! Owns a set of chains in one iptables table and keeps them exactly as you want them.
// The crate page is written with the updater itself.

mod chain;
mod error;
mod excerpt;
mod executor;
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
pub use executor::Executor;
pub use hook::HookChain;
pub use index::{ChainState, Index, IndexUpdate};
pub use outcome::{Exit, Outcome};
pub use platform::{Backend, IpVersion};
pub use restore_input::{Command, Origin, RestoreInput};
pub use rule::{IntoRule, Rule};
pub use save::{Counters, SavedChain, SavedRule, SavedTable};
pub use table::{KernelChain, Table, UnknownTable};
pub use transaction::{Deletion, Delta, Rewrite, Stub, Transaction};
