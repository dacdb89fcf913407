//! Parameters of a statement: bound values, consistency, paging.

use crate::trace::Trace;
use plan::values::Values;
use replication::{Consistency, Room};

/// The parameters of QUERY, EXECUTE and BATCH.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    /// How many copies must answer.
    pub consistency: Consistency,
    /// The same for the conditions of lightweight transactions.
    pub serial_consistency: Option<Consistency>,
    /// Of the bind markers; a batch's values are with its entries.
    pub values: Values<'a>,
    /// Rows per page; none or not positive: all rows in one.
    pub page_size: Option<i32>,
    /// Where to go on: what `Rows::paging_state` of the page before said.
    pub paging_state: Option<&'a [u8]>,
    /// Microseconds, of writes that do not say `USING TIMESTAMP`.
    pub timestamp: Option<i64>,
    /// Version 5: the keyspace of unqualified names.
    pub keyspace: Option<&'a str>,
    /// Version 5: seconds since the epoch, instead of the clock.
    pub now_secs: Option<i32>,
    /// The client has the result metadata already.
    pub skip_metadata: bool,
    /// 3, 4 or 5.
    pub protocol_version: u8,
    /// The partition that it names was prefetched already (see `Processor::fetch_now`).
    pub is_fetched: bool,
    /// Where the client has asked for a trace.
    pub trace: Option<&'a Trace>,
    /// Memory for the response; `None`: unlimited.
    pub room: Option<&'a dyn Room>,
}

impl Parameters<'_> {
    /// Without values, paging or timestamp.
    pub const fn plain(consistency: Consistency) -> Parameters<'static> {
        Parameters {
            consistency,
            serial_consistency: None,
            values: Values::NONE,
            page_size: None,
            paging_state: None,
            timestamp: None,
            keyspace: None,
            now_secs: None,
            skip_metadata: false,
            protocol_version: 4,
            is_fetched: false,
            trace: None,
            room: None,
        }
    }
}
