//! A cached partition: one object when it is small and wholly known; otherwise a head and a
//! copy-on-write list of runs.
//!
//! ```text
//! whole  := tablet:be32 flags:u8 key:vint_bytes [ts:be64 deletion_time:be64] [static:vint_bytes]
//!           run                             flags: 01 partition tombstone | 02 static row
//! part   := slot:be32 run                   the slot of its [`RunRef`]
//! ```

use super::run::{Marks, RunView};
use super::run_list::{RunList, RunRef};
use super::{RowCache, TabletId};
use mutation::{ClusteringPosition, Tombstone};
use std::rc::Rc;
use stdx::{Bytes, Cursor, Damaged, Put};

/// The kind of an arena object: a whole partition.
pub(super) const WHOLE: u8 = 1;
/// The kind of an arena object: a run of a large partition.
pub(super) const PART: u8 = 2;

const HAS_TOMBSTONE: u8 = 0x01;
const HAS_STATIC: u8 = 0x02;
const _: () = assert!(HAS_TOMBSTONE & HAS_STATIC == 0 && WHOLE != PART);

/// Bytes of a part before its run.
pub(super) const PART_HEAD_BYTES: usize = 4;

/// What a partition has beside its rows. Known as soon as the partition is.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) tombstone: Tombstone,
    /// Empty: none.
    pub(super) static_row: Bytes,
}

/// A view of a whole partition's object.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeView<'a> {
    pub(super) tablet: TabletId,
    pub(super) key: &'a [u8],
    pub(super) tombstone: Tombstone,
    pub(super) static_row: &'a [u8],
    /// Where the run begins in the object.
    pub(super) run_at: usize,
    bytes: &'a [u8],
}

impl<'a> WholeView<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> WholeView<'a> {
        WholeView::read(bytes).expect("own-bytes: `write_whole` wrote them")
    }

    fn read(bytes: &'a [u8]) -> Result<WholeView<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let tablet = TabletId(cursor.u32("tablet")?);
        let flags = cursor.u8("flags")?;
        let key = cursor.vint_bytes("key")?;
        let mut tombstone = Tombstone::NONE;
        if flags & HAS_TOMBSTONE != 0 {
            let timestamp = cursor.i64("timestamp")?;
            tombstone = Tombstone { timestamp, deletion_time: cursor.i64("deletion time")? };
        }
        let static_row = match flags & HAS_STATIC {
            0 => &[],
            _ => cursor.vint_bytes("static row")?,
        };
        let run_at = cursor.offset();
        Ok(WholeView { tablet, key, tombstone, static_row, run_at, bytes })
    }

    #[inline]
    pub(super) fn run(&self) -> RunView<'a> {
        debug_assert!(self.run_at < self.bytes.len(), "own-bytes: no run");
        RunView::of(&self.bytes[self.run_at..])
    }
    pub(super) fn head(&self) -> Head {
        Head { tombstone: self.tombstone, static_row: Bytes::copy_from(self.static_row) }
    }
    /// Whether it is known not to exist.
    pub(super) fn is_absent(&self) -> bool {
        self.tombstone.is_none() && self.static_row.is_empty() && self.run().is_empty()
    }
}

/// Appends all of a whole partition's object but its run.
pub(super) fn write_whole(
    out: &mut Vec<u8>,
    tablet: TabletId,
    key: &[u8],
    (tombstone, static_row): (Tombstone, &[u8]),
) {
    // That of a view may be empty: what it is found by is a column's value.
    debug_assert!(key.len() <= usize::from(u16::MAX), "a key of {} bytes", key.len());
    let mut flags = if tombstone.is_none() { 0 } else { HAS_TOMBSTONE };
    flags |= if static_row.is_empty() { 0 } else { HAS_STATIC };
    out.put_u32(tablet.0);
    out.put_u8(flags);
    out.put_vint_bytes(key);
    if !tombstone.is_none() {
        out.put_i64(tombstone.timestamp);
        out.put_i64(tombstone.deletion_time);
    }
    if !static_row.is_empty() {
        out.put_vint_bytes(static_row);
    }
}

/// The slot of a part, and its run.
pub(super) fn read_part(bytes: &[u8]) -> (u32, &[u8]) {
    let (slot, run) = bytes.split_first_chunk().expect("own-bytes: a part has a slot");
    (u32::from_be_bytes(*slot), run)
}

/// A partition that is not one object.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) key: Bytes,
    pub(super) head: Head,
    pub(super) runs: Rc<RunList>,
}

impl Large {
    /// About what it takes on the heap, without its runs.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Large>() + 96 + self.key.len() + self.head.static_row.len()
    }
}

/// One run, copied out of the cache.
#[derive(Debug)]
pub(crate) struct Run {
    bytes: Bytes,
    marks: Marks,
    /// Where it was copied from, if that is a run of a list.
    origin: Option<(Rc<RowCache>, Rc<RunRef>)>,
}

impl Run {
    /// Of the bytes of a run.
    pub(super) fn new(bytes: Bytes, origin: Option<(Rc<RowCache>, Rc<RunRef>)>) -> Run {
        Run { bytes, marks: Marks::default(), origin }
    }
    /// What it says.
    pub(crate) fn view(&self) -> RunView<'_> {
        RunView::of(&self.bytes).marking(&self.marks)
    }
    /// A part of what `view` gave, shared.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        self.bytes.slice_ref(part)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Which rows were wanted decides which stay when the run's turn comes.
        if let Some((cache, run)) = &self.origin
            && let Some(handle) = run.handle.get()
            && let Ok(mut store) = cache.store.try_borrow_mut()
        {
            debug_assert!(store.arena.kind(handle) == PART, "linked-or-garbage: a run of a list");
            store.mark_rows(handle, self.marks.rows());
        }
    }
}

/// What comes next in a partition.
#[derive(Debug)]
pub(crate) enum Stretch {
    /// All of an interval that holds the position asked for; it may begin before it.
    Known(Run),
    /// Nothing is known of what lies from `from` up to `to`, in table order.
    Gap { from: ClusteringPosition, to: ClusteringPosition },
    /// The position asked for is the end of the partition, in that direction.
    End,
}
