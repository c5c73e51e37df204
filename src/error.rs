//! Every way in which something can be refused or fail, in sentences for people and data for programs.

mod circle;
mod debug;
mod request;
mod restore;
mod value;

pub(crate) use debug::debug_as_sentence;
pub use request::{Error, ExecutorError, FailureClass, ForeignAct, NoAnswer, SaveError};
pub use restore::RestoreError;
pub use value::{BadRule, ChainError, ChainNameError, PrefixError, RuleError, TableSetError};
