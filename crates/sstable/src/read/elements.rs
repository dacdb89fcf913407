//! The elements of a partition, from bytes in a window to fragments: what lies in the slice is
//! decoded, the rest is stepped over.
//!
//! Invariants
//!  - *ordered*: elements come in order, or the file is damaged.
//!  - *once*: a row that was decoded and not handed out is handed out next, or never.

use crate::mx::clustering::BoundKind;
use crate::mx::header::Mapping;
use crate::mx::header::Shape;
use crate::mx::layout::flags;
use crate::mx::marker::read_marker_body;
use crate::mx::partition::{Head, Kind};
use crate::mx::row::{RowDecoder, RowFlags};
use crate::read::slicer::{Place, Slicer};
use crate::read::window::Window;
use crate::read_stats::ReadStats;
use mutation::{ClusteringRange, Fragment, Tombstone};
use reader::ReadError;
use runtime::pieces::PIECE_BYTES;
use std::cmp::Ordering;
use std::rc::Rc;
use stdx::{Bytes, Damaged};

/// What came of an attempt to take an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The window must have this many bytes.
    Need(usize),
    /// Others should have the shard before it goes on: a large row is decoded, and comes next.
    Pause,
    /// One was taken.
    Taken,
    /// The partition ended.
    PartitionEnd,
    /// The window ended, which was meant to end before the partition.
    Limit,
    /// All that comes lies after the slice.
    Beyond,
}

/// What stands at the window, stepped over unless it is the static row or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The window must have this many bytes.
    Need(usize),
    /// The static row.
    Static,
    /// The end of the partition.
    End,
    /// A row, or a change of the range tombstone that is open.
    Element { weight: i8, change: Option<Tombstone> },
}

/// The state among the elements of a partition.
#[derive(Debug)]
pub(super) struct Elements {
    mapping: Rc<Mapping>,
    slicer: Slicer,
    with_static: bool,
    decoder: RowDecoder,
    /// Prefix of the present element, and of the one before it with its weight.
    prefix: Vec<u8>,
    latest: Vec<u8>,
    latest_weight: Option<i8>,
    /// Whether an element may be the static row.
    at_start: bool,
    /// Where the row stands that the decoder holds and that was not handed out yet.
    decoded_at: Option<u64>,
    /// Where the memory comes from, and goes to.
    stats: Rc<ReadStats>,
}

impl Elements {
    /// Takes what lies in `ranges`.
    pub(super) fn new(
        mapping: Rc<Mapping>,
        ranges: Vec<ClusteringRange>,
        with_static: bool,
        stats: Rc<ReadStats>,
    ) -> Elements {
        let spares = stats.spares();
        Elements {
            mapping,
            slicer: Slicer::new(ranges),
            with_static,
            decoder: RowDecoder::in_memory(spares.buffer()),
            prefix: spares.buffer(),
            latest: spares.buffer(),
            latest_weight: None,
            at_start: true,
            decoded_at: None,
            stats,
        }
    }

    /// Goes behind the head of a partition.
    pub(super) fn start_partition(&mut self) {
        self.slicer.restart();
        self.latest_weight = None;
        self.at_start = true;
    }

    /// Goes on at a place of the same partition where `open` holds; what lies between lies outside
    /// of all ranges, and those before `range` are over.
    pub(super) fn jump(
        &mut self,
        range: usize,
        open: Tombstone,
        out: &mut Vec<Fragment>,
    ) -> Result<(), Damaged> {
        debug_assert!(range <= self.slicer.ranges().len(), "ordered: a jump to range {range}");
        self.slicer.finish_before(range, out);
        self.slicer.jump(open)?;
        debug_assert!(self.slicer.current() == open, "ordered: {open:?} is open behind a jump");
        self.at_start = false;
        Ok(())
    }

    /// Goes to a place where `open` holds, anywhere, for a range alone: into it or before it.
    pub(super) fn enter(&mut self, range: usize, open: Tombstone, inside: bool) {
        self.slicer.enter(range, open, inside);
        debug_assert!(self.slicer.next_range() == range, "ordered: range {range} is entered");
        self.latest_weight = None;
        self.at_start = false;
    }

    /// Nothing comes any more before a place in the range that was entered.
    pub(super) fn leave(&mut self, out: &mut Vec<Fragment>) {
        self.slicer.leave(out);
    }

    /// Goes on in the same partition with other ranges, which lie behind all that came.
    pub(super) fn set_ranges(&mut self, ranges: Vec<ClusteringRange>) {
        self.slicer.set_ranges(ranges);
    }

    /// The ranges.
    pub(super) fn ranges(&self) -> &[ClusteringRange] {
        self.slicer.ranges()
    }

    /// The range that comes, or in which we are.
    pub(super) fn next_range(&self) -> usize {
        self.slicer.next_range()
    }

    /// Whether what came last lies before the range that comes.
    pub(super) fn is_before(&self) -> bool {
        self.slicer.is_before()
    }

    /// The range tombstone that holds in the output.
    pub(super) fn emitted(&self) -> Tombstone {
        self.slicer.emitted()
    }

    /// Closes what is open at the end of the partition or of the stretch.
    pub(super) fn finish(&mut self, out: &mut Vec<Fragment>) {
        self.slicer.finish(out);
        debug_assert!(self.slicer.emitted().is_none(), "closed: {:?}", self.slicer.emitted());
    }

    /// Takes the element at the window. `skipping`: steps over it. `bounded`: the window ends
    /// before the partition does.
    pub(super) fn next(
        &mut self,
        window: &mut Window,
        bounded: bool,
        skipping: bool,
        out: &mut Vec<Fragment>,
    ) -> Result<Step, ReadError> {
        if window.remaining() == 0 && bounded {
            return Ok(Step::Limit);
        }
        if let Some(bits) = window.rest().first()
            && bits & flags::END_OF_PARTITION != 0
        {
            return self.end(window, skipping);
        }
        let head = match self.head(window)? {
            Ok(head) => head,
            Err(need) => return Ok(Step::Need(need)),
        };
        let position = window.position();
        let at = |error: Damaged| window.file().damaged(error.what, position + error.at);
        let (rest, total) = (window.rest(), head.total_bytes());
        debug_assert!(total <= window.remaining(), "ordered: {total} bytes past the stretch");
        let mapping = self.mapping.clone();
        if skipping {
            window.skip(total);
            return Ok(Step::Taken);
        }
        if let Kind::Row(_) = head.kind {
            self.check_order(0).map_err(at)?;
            match self.slicer.row(&mapping.schema.order, &self.prefix, out) {
                Place::Before => {
                    self.take(0);
                    window.skip(total);
                    return Ok(Step::Taken);
                }
                Place::Done => return Ok(Step::Beyond),
                Place::Inside => {}
            }
        }
        let Some(body) = rest.get(head.head_bytes..total as usize) else {
            return Ok(Step::Need(total as usize));
        };
        let body_at = head.head_bytes as u64;
        let in_body = |error: Damaged| at(error.from_base(body_at));
        let step = match head.kind {
            Kind::End => return self.end(window, skipping),
            Kind::Static(flags) => {
                self.static_row(flags, body, out).map_err(in_body)?;
                self.at_start = false;
                Step::Taken
            }
            Kind::Row(flags) => {
                if !self.row(flags, (position, body), out).map_err(in_body)? {
                    return Ok(Step::Pause);
                }
                self.take(0);
                Step::Taken
            }
            Kind::Marker(kind) => {
                self.check_order(kind.weight()).map_err(at)?;
                self.marker(kind, body, out).map_err(in_body)?
            }
        };
        if step != Step::Beyond {
            window.skip(total);
        }
        Ok(step)
    }

    /// Takes the end of the partition, which is one byte.
    fn end(&self, window: &mut Window, skipping: bool) -> Result<Step, ReadError> {
        if !self.slicer.current().is_none() && !skipping {
            let what = "a range tombstone is open at the end of the partition";
            return Err(window.file().damaged(what, window.position()));
        }
        window.skip(1);
        Ok(Step::PartitionEnd)
    }

    /// The head of the element at the window, all of which lies in the stretch; or how many bytes
    /// it takes to tell.
    fn head(&mut self, window: &Window) -> Result<Result<Head, usize>, ReadError> {
        let (rest, position) = (window.rest(), window.position());
        let shape = &self.mapping.shape;
        let damaged = |error: Damaged| window.file().damaged(error.what, position + error.at);
        match Head::parse(rest, shape, &mut self.prefix) {
            Ok(head) if window.remaining() < head.total_bytes() => {
                Err(damaged(Damaged::new("element past the end of the partition", 0)))
            }
            Ok(head) => Ok(Ok(head)),
            Err(_) if !window.is_loaded() && rest.len() < head_bytes_max(shape) => {
                Ok(Err(2 * rest.len() + 1))
            }
            Err(error) => Err(damaged(error)),
        }
    }

    /// Looks at the element at the window.
    pub(super) fn look(&mut self, window: &mut Window) -> Result<Look, ReadError> {
        let head = match self.head(window)? {
            Ok(head) => head,
            Err(need) => return Ok(Look::Need(need)),
        };
        let position = window.position();
        let at = |error: Damaged| window.file().damaged(error.what, position + error.at);
        let (rest, total) = (window.rest(), head.total_bytes());
        let shape = &self.mapping.shape;
        let look = match head.kind {
            Kind::End => return Ok(Look::End),
            Kind::Static(_) if self.at_start => return Ok(Look::Static),
            Kind::Static(_) => {
                return Err(at(Damaged::new("a static row after other rows", 0)));
            }
            Kind::Row(_) => Look::Element { weight: 0, change: None },
            Kind::Marker(kind) => {
                let Some(body) = rest.get(head.head_bytes..total as usize) else {
                    return Ok(Look::Need(total as usize));
                };
                let changed = read_marker_body(kind, body, &shape.bases);
                let (_, after) =
                    changed.map_err(|error| at(error.from_base(head.head_bytes as u64)))?;
                Look::Element { weight: kind.weight(), change: Some(after) }
            }
        };
        debug_assert!(0 < total, "ordered: an element of no byte");
        self.at_start = false;
        window.skip(total);
        Ok(look)
    }

    /// The prefix of the element that was looked at last.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How rows are read.
    pub(super) fn mapping(&self) -> Rc<Mapping> {
        self.mapping.clone()
    }

    /// *ordered*, as the consumer checks it.
    fn check_order(&self, weight: i8) -> Result<(), Damaged> {
        let Some(latest_weight) = self.latest_weight else { return Ok(()) };
        let order = &self.mapping.schema.order;
        let compared = order.compare((&self.latest, latest_weight), (&self.prefix, weight));
        if compared == Ordering::Greater || (compared == Ordering::Equal && weight == 0) {
            return Err(Damaged::new("rows or range tombstones out of order", 0));
        }
        Ok(())
    }

    /// The present element is the latest one.
    fn take(&mut self, weight: i8) {
        debug_assert!((-1..=1).contains(&weight), "ordered: a weight of {weight}");
        std::mem::swap(&mut self.prefix, &mut self.latest);
        self.latest_weight = Some(weight);
        self.at_start = false;
    }

    fn static_row(
        &mut self,
        flags: RowFlags,
        body: &[u8],
        out: &mut Vec<Fragment>,
    ) -> Result<(), Damaged> {
        if !self.at_start {
            return Err(Damaged::new("a static row after other rows", 0));
        }
        if self.with_static {
            let shape = &self.mapping.shape;
            self.decoded_at = None;
            if let Some(row) = self.decoder.decode(flags, body, &shape.statics, &shape.bases)? {
                out.push(Fragment::StaticRow { row: Bytes::copy_from(row) });
            }
        }
        Ok(())
    }

    /// Takes a row; of a large one it is only decoded at first, and handed out when it is asked for
    /// again. Whether it was handed out.
    fn row(
        &mut self,
        flags: RowFlags,
        (position, body): (u64, &[u8]),
        out: &mut Vec<Fragment>,
    ) -> Result<bool, Damaged> {
        let shape = &self.mapping.shape;
        let (columns, bases) = (&shape.regulars, &shape.bases);
        let both = if self.decoded_at.take() == Some(position) {
            Some(self.decoder.row())
        } else {
            let both = self.decoder.decode_behind(&self.prefix, flags, body, columns, bases)?;
            if both.is_some_and(|both| PIECE_BYTES < both.len()) {
                self.decoded_at = Some(position);
                return Ok(false);
            }
            both
        };
        if let Some(both) = both {
            // Key and row share one allocation.
            let both = Bytes::copy_from(both);
            let split = self.prefix.len();
            debug_assert!(both[..split] == self.prefix[..], "once: a row under another key");
            let row = both.slice(split..both.len());
            out.push(Fragment::Row { key: both.slice(0..split), row });
        }
        Ok(true)
    }

    fn marker(
        &mut self,
        kind: BoundKind,
        body: &[u8],
        out: &mut Vec<Fragment>,
    ) -> Result<Step, Damaged> {
        let (before, after) = read_marker_body(kind, body, &self.mapping.shape.bases)?;
        if before != self.slicer.current() {
            return Err(Damaged::new("a range tombstone ends or starts where another is open", 0));
        }
        let position = (&*self.prefix, kind.weight());
        match self.slicer.change(&self.mapping.schema.order, position, after, out) {
            Place::Done => Ok(Step::Beyond),
            _ => {
                debug_assert!(self.slicer.current() == after, "ordered: {after:?} is open");
                self.take(kind.weight());
                Ok(Step::Taken)
            }
        }
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        let spares = self.stats.spares();
        spares.keep_buffer(std::mem::take(&mut self.latest));
        spares.keep_buffer(std::mem::take(&mut self.prefix));
        spares.keep_buffer(self.decoder.take_memory());
    }
}

fn head_bytes_max(shape: &Shape) -> usize {
    Head::bytes_max(shape.clustering.len())
}
