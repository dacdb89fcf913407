//! What a write puts into the log of its table (change data capture).
//!
//! A pure function: from a write of one partition, and where images are asked for what was there
//! before it, to rows of the log. Whoever coordinates a write asks [`LogPlan::read`] what it has to
//! read, gives that to a [`Before`], and sends what [`LogPlan::log`] makes with the write itself.
//! Replicas derive nothing: they apply both together, or neither.
//!
//! A write is cut into *changes* (`split`), each of which is one row of the log, of a range two:
//! its bounds. What was written with different times, or lives for different times, is not one
//! change. Changes of one time are one *set*, numbered from 0; a set is found by its stream and its
//! time.
//!
//! | change | operation | what its row has |
//! |---|---|---|
//! | row or static row written | 1 | values, which columns and elements were deleted, lifetime |
//! | row inserted (with a marker) | 2 | the same; its collections come in a row of operation 1 |
//! | row deleted | 3, expired as a whole -3 | the key |
//! | partition deleted | 4, expired -4 | its key |
//! | range deleted | 5 or 6, 7 or 8 | the bounds: from or after, up to or before a prefix |
//! | state before, after | 0, 9 | columns as they were, as they are |
//!
//! Invariants
//!  - *replayable*: the changes of a partition, applied in order of (time, number), each with its
//!    time, make the state that the writes made: values, lifetimes, deletions. The deletion of a
//!    collection is applied as of just before its time, since an overwrite deletes what was there
//!    and writes in one step.
//!  - *numbered*: the rows of a set have the numbers from 0 on, without a gap; the last one, and
//!    no other, says that it ends the set.
//!  - *as-written*: cells of the log have the time of what they tell of. So rows of the log that
//!    come twice with their write are there once.
//!  - *true-images*: an image shows what a read of the row would show before the set, or after it.
//!    What is older than what is there does not win in an image either. Rows that are not there
//!    have no image.
//!  - *no-vain-read*: where no image is asked for, nothing is read; else the rows that are written
//!    and the columns that are shown.
//!
//! What is not promised, for a read tells of values alone: a write that is older than a deletion
//! that was there before is shown by an image, though it does not come to life; and a row that was
//! never inserted, and loses the last of its cells, is shown once more, with nothing but its key.
//!
//! In reading order: `plan` (what is known once for two schemas), `split` (changes), `before` (what
//! is read), `record` (rows of the log), `image` (rows as they change); `replay` (rows of the log
//! as writes again).

mod before;
mod image;
mod plan;
mod record;
mod replay;
mod split;
#[cfg(test)]
mod tests;

pub use before::Before;
pub use plan::LogPlan;
pub use replay::Replay;

use image::States;
use model::{TableSchema, Uuid};
use mutation::{FrozenMutation, FrozenView, MutationBuilder};
use record::{Body, Record, Scribe, bound_operations, operation};
use smallvec::{SmallVec, smallvec};
use split::{Change, Deed, only_change, split};
use std::convert::Infallible;
use std::slice;

/// Bytes of a stream's id.
pub const STREAM_ID_BYTES: usize = 16;

/// A buffer that has grown beyond this is not kept for the next write.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Mutations of a log: of most writes there is one.
pub type LogRows = SmallVec<[FrozenMutation; 1]>;

/// Who deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Client,
    /// Rows that have expired by their own column are deleted.
    RowTtl,
}

/// A write, and what has to be known to log it.
#[derive(Clone, Copy, Debug)]
pub struct LogWrite<'a> {
    pub write: FrozenView<'a>,
    /// What [`LogPlan::read`] asked for.
    pub before: &'a Before,
    pub origin: Origin,
    /// Seconds since the epoch.
    pub now: i64,
}

impl LogPlan {
    /// The rows of the log, one mutation for each stream. `stream` says which stream takes what was
    /// written at a time in microseconds, `uuid` makes a time UUID of it; each is asked once for
    /// each time, in order. `buffer` is for who logs one write after the other.
    pub fn log<E>(
        &self,
        what: &LogWrite<'_>,
        mut stream: impl FnMut(i64) -> Result<[u8; STREAM_ID_BYTES], E>,
        mut uuid: impl FnMut(i64) -> Uuid,
        buffer: &mut Vec<u8>,
    ) -> Result<LogRows, E> {
        assert!(what.write.table() == self.base.id, "a write of another table");
        let change = if self.has_images() { None } else { only_change(&what.write) };
        let Some(change) = change else { return self.log_any(what, stream, uuid) };
        // As most are: one row, of which nothing was read.
        let scribe = Scribe::new(self, what);
        let id = stream(change.time)?;
        let time_uuid = uuid(change.time).into_bytes();
        let mut out = std::mem::take(buffer);
        out.reserve(scribe.room());
        let mut builder = MutationBuilder::reusing(&self.log, &id, out);
        let set = slice::from_ref(&change);
        put(&scribe, &deltas(set, what.origin), (change.time, time_uuid), &mut builder);
        let (rows, used) = builder.freeze_reused();
        if used.capacity() <= KEPT_BYTES_MAX {
            *buffer = used;
        }
        Ok(smallvec![rows])
    }

    /// The same of any write.
    fn log_any<E>(
        &self,
        what: &LogWrite<'_>,
        mut stream: impl FnMut(i64) -> Result<[u8; STREAM_ID_BYTES], E>,
        mut uuid: impl FnMut(i64) -> Uuid,
    ) -> Result<LogRows, E> {
        let scribe = Scribe::new(self, what);
        let changes = split(what.write);
        let mut states = self.has_images().then(|| States::of(self, what));
        let mut out = Streams { log: &self.log, open: Vec::new(), room: scribe.room() };
        for set in changes.chunk_by(|a, b| a.time == b.time) {
            let time = set[0].time;
            let id = stream(time)?;
            let time_uuid = uuid(time).into_bytes();
            let records = match &mut states {
                None => deltas(set, what.origin),
                Some(states) => {
                    let mut records = states.before(set);
                    records.extend(deltas(set, what.origin));
                    states.apply(set);
                    records.extend(states.after(set));
                    records
                }
            };
            put(&scribe, &records, (time, time_uuid), out.of(id));
        }
        Ok(out.open.into_iter().map(|(_, builder)| builder.freeze()).collect())
    }
}

/// Writes a set of that time.
fn put(
    scribe: &Scribe<'_>,
    records: &[Record<'_>],
    (time, uuid): (i64, [u8; 16]),
    out: &mut MutationBuilder<'_>,
) {
    assert!(!records.is_empty(), "numbered: a set of nothing");
    let last = records.len() - 1;
    for (number, record) in records.iter().enumerate() {
        let key = record::clustering(uuid, number);
        let written = out.row_with(&key, |row| {
            scribe.write(record, time, number == last, row);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = written;
    }
}

/// What is told of a set, in order.
type Records<'r> = SmallVec<[Record<'r>; 1]>;

/// The records of a set of changes.
fn deltas<'r>(set: &'r [Change<'_>], origin: Origin) -> Records<'r> {
    let mut records = Records::new();
    for change in set {
        let (clustering, ttl, body) = match &change.deed {
            Deed::Static(cells) => (&[][..], cells.ttl, Body::Cells(cells)),
            Deed::Insert(key, cells) | Deed::Update(key, cells) => {
                (*key, cells.ttl, Body::Cells(cells))
            }
            Deed::DeleteRow(key) => (*key, 0, Body::Keys),
            Deed::DeletePartition => (&[][..], 0, Body::Keys),
            Deed::DeleteRange(range) => {
                let (start, end) = bound_operations(range);
                let clustering = &range.start.prefix[..];
                records.push(Record { operation: start, ttl: 0, clustering, body: Body::Keys });
                let clustering = &range.end.prefix[..];
                records.push(Record { operation: end, ttl: 0, clustering, body: Body::Keys });
                continue;
            }
        };
        records.push(Record { operation: operation(&change.deed, origin), ttl, clustering, body });
    }
    records
}

/// The mutations of the log that are being made: nearly always one.
struct Streams<'p> {
    log: &'p TableSchema,
    open: Vec<([u8; STREAM_ID_BYTES], MutationBuilder<'p>)>,
    room: usize,
}

impl<'p> Streams<'p> {
    fn of(&mut self, id: [u8; STREAM_ID_BYTES]) -> &mut MutationBuilder<'p> {
        let index = match self.open.iter().position(|(known, _)| *known == id) {
            Some(index) => index,
            None => {
                let out = Vec::with_capacity(self.room);
                self.open.push((id, MutationBuilder::reusing(self.log, &id, out)));
                self.open.len() - 1
            }
        };
        &mut self.open[index].1
    }
}
