//! Every way in which something can be refused or fail, in sentences for people and data for programs.

mod circle;
mod class;
mod debug;
mod request;
mod restore;
mod tool;
mod value;

pub use class::FailureClass;
pub(crate) use debug::debug_as_sentence;
pub use request::{Error, ForeignAct, NoAnswer};
pub use restore::RestoreError;
pub use tool::{ExecutorError, SaveError};
pub use value::{BadRule, ChainError, ChainNameError, PrefixError, RuleError, TableSetError};
