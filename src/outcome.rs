//! What a run of iptables-restore or iptables-save left behind.

use std::fmt;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exit {
    /// It returned this exit code; 0 is success.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It didn't end within the executor's time limit and was killed.
    TimedOut,
    /// It printed more on standard output than the executor keeps, and was killed.
    Flooded,
}

impl Exit {
    /// Whether it is exit code 0.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut => f.write_str("killed at the time limit"),
            Self::Flooded => f.write_str("killed because it printed more than is kept"),
        }
    }
}

/// One run: how it ended and what it printed. The two outputs are never merged: a warning on stderr
/// can come in the middle of a line on stdout.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How the process ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// A run that ended so and printed this.
    pub fn new(exit: Exit, stdout: impl Into<Vec<u8>>, stderr: impl Into<Vec<u8>>) -> Self {
        Self {
            exit,
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    /// A run that succeeded and printed this on standard output.
    pub fn success(stdout: impl Into<Vec<u8>>) -> Self {
        Self::new(Exit::Code(0), stdout, [])
    }

    /// A run that failed with this exit code and text on standard error.
    pub fn failure(code: i32, stderr: impl Into<Vec<u8>>) -> Self {
        Self::new(Exit::Code(code), [], stderr)
    }
}

/// Shows the sizes of the outputs, and the beginning of standard error.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("exit", &self.exit)
            .field("stdout_bytes", &self.stdout.len())
            .field("stderr", &crate::excerpt::of_bytes(&self.stderr))
            .finish()
    }
}
