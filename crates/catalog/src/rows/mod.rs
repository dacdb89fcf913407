//! System tables as rows by column name: writing one partition ([`partition`]), reading a whole
//! table ([`page`]). Pure; what is read is foreign.

pub mod page;
pub mod partition;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::collections::BTreeMap;
use std::fmt;

/// A row's values by column name, keys among them; nulls are missing.
pub type Row = BTreeMap<String, Vec<u8>>;

/// A row that is not what it should be: of which table, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSchema {
    pub table: String,
    pub what: String,
}

impl fmt::Display for DamagedSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged: {}", self.table, self.what)
    }
}
