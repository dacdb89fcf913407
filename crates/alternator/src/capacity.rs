//! `ReturnConsumedCapacity`: units of 1 KB written or 4 KB read, half of these where a read need
//! not be consistent.

use crate::error::Error;
use crate::json::{Object, write_list};
use crate::request::Request;
use std::collections::BTreeMap;

/// Whether a request wants to know what it consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Capacity {
    #[default]
    Untold,
    Total,
    /// By table and index.
    Indexes,
}

impl Capacity {
    pub(crate) fn of(request: &Request<'_>) -> Result<Capacity, Error> {
        Ok(match request.word("ReturnConsumedCapacity", &["NONE", "TOTAL", "INDEXES"])? {
            "TOTAL" => Capacity::Total,
            "INDEXES" => Capacity::Indexes,
            _ => Capacity::Untold,
        })
    }

    /// Half units of a write of so many bytes.
    pub(crate) fn of_write(bytes: usize) -> usize {
        2 * bytes.div_ceil(1024).max(1)
    }

    /// Half units of a read of so many bytes.
    pub(crate) fn of_read(bytes: usize, consistent: bool) -> usize {
        bytes.div_ceil(4096).max(1) * (1 + usize::from(consistent))
    }

    pub(crate) fn is_told(self) -> bool {
        self != Capacity::Untold
    }

    /// Adds it to an answer, if it is wanted.
    pub(crate) fn write(self, object: &mut Object<'_>, table: &str, halves: usize) {
        if self.is_told() {
            self.write_one(object.member("ConsumedCapacity"), table, halves);
        }
    }

    /// What one table has consumed.
    pub(crate) fn write_one(self, out: &mut String, table: &str, halves: usize) {
        let units = format!("{}.{}", halves / 2, halves % 2 * 5);
        let mut inner = Object::open(out);
        inner.string("TableName", table).json("CapacityUnits", &units);
        if self == Capacity::Indexes {
            inner.json("Table", &format!("{{\"CapacityUnits\":{units}}}"));
        }
        inner.close();
    }
}

/// Adds what each of several tables has consumed, in half units, to an answer, if it is wanted.
pub(crate) fn write_consumed(
    capacity: Capacity,
    consumed: &BTreeMap<String, usize>,
    object: &mut Object<'_>,
) {
    if capacity.is_told() {
        write_list(consumed, object.member("ConsumedCapacity"), |(table, halves), out| {
            capacity.write_one(out, table, *halves);
        });
    }
}
