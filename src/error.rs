//! Every way in which something can be refused or fail, in sentences for people and data for programs.

mod debug;
mod request;
mod value;

pub use request::{Error, ExecutorError, FailureClass, RestoreError, SaveError};
pub use value::{BadRule, ChainError, ChainNameError, PrefixError, RuleError};
