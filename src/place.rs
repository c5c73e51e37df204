//! One table of one IP version: what one updater works on.

use std::fmt;

use crate::{IpVersion, Table};

/// One table of one IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The IP version.
    pub version: IpVersion,
    /// The table.
    pub table: Table,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} of {}", self.table, self.version)
    }
}
