//! The elements of a partition, from bytes in a window to fragments: what lies in the slice is
//! decoded, the rest is stepped over.

use crate::mx::clustering::BoundKind;
use crate::mx::header::Shape;
use crate::mx::marker::read_marker_body;
use crate::mx::partition::{Head, Kind};
use crate::mx::row::{RowDecoder, RowFlags};
use crate::mx::slicer::{Place, Slicer};
use crate::mx::window::Window;
use crate::table::Mapping;
use mutation::{ClusteringRange, Fragment, Tombstone};
use reader::ReadError;
use std::cmp::Ordering;
use std::rc::Rc;
use stdx::{Bytes, Damaged};

/// What came of an attempt to take an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The window must have this many bytes.
    Need(usize),
    /// One was taken.
    Taken,
    /// The partition ended.
    PartitionEnd,
    /// The window ended, which was meant to end before the partition.
    Limit,
    /// All that comes lies after the slice.
    Beyond,
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
    latest: Option<(Vec<u8>, i8)>,
    /// Whether an element may be the static row.
    at_start: bool,
    scratch: Vec<u8>,
}

impl Elements {
    /// Takes what lies in `ranges`.
    pub(super) fn new(
        mapping: Rc<Mapping>,
        ranges: Vec<ClusteringRange>,
        with_static: bool,
    ) -> Elements {
        Elements {
            mapping,
            slicer: Slicer::new(ranges),
            with_static,
            decoder: RowDecoder::default(),
            prefix: Vec::new(),
            latest: None,
            at_start: true,
            scratch: Vec::new(),
        }
    }

    /// Goes behind the head of a partition.
    pub(super) fn start_partition(&mut self) {
        self.slicer.restart();
        self.latest = None;
        self.at_start = true;
    }

    /// Goes behind the element at `position`, where `open` holds.
    pub(super) fn resume(&mut self, position: (&[u8], i8), open: Tombstone) {
        self.slicer.resume(&self.mapping.schema.order, position, open);
        self.latest = Some((position.0.to_vec(), position.1));
        self.at_start = false;
    }

    /// The range tombstone that holds in the output.
    pub(super) fn emitted(&self) -> Tombstone {
        self.slicer.emitted()
    }

    /// Closes what is open at the end of the partition or of the stretch.
    pub(super) fn finish(&mut self, out: &mut Vec<Fragment>) {
        self.slicer.finish(out);
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
        let position = window.position();
        let at = |error: Damaged| window.file().damaged(error.what, position + error.at);
        let rest = window.rest();
        let mapping = self.mapping.clone();
        let head = match Head::parse(rest, &mapping.shape, &mut self.prefix) {
            Ok(head) => head,
            Err(_) if !window.is_loaded() && rest.len() < head_bytes_max(&mapping.shape) => {
                return Ok(Step::Need(2 * rest.len() + 1));
            }
            Err(error) => return Err(at(error)),
        };
        let total = head.total_bytes();
        if window.remaining() < total {
            return Err(at(Damaged::new("element past the end of the partition", 0)));
        }
        if skipping && head.kind != Kind::End {
            window.skip(total);
            return Ok(Step::Taken);
        }
        let Some(body) = rest.get(head.head_bytes..total as usize) else {
            return Ok(Step::Need(total as usize));
        };
        let body_at = head.head_bytes as u64;
        let step = match head.kind {
            Kind::End => {
                if !self.slicer.current().is_none() && !skipping {
                    let what = "a range tombstone is open at the end of the partition";
                    return Err(at(Damaged::new(what, 0)));
                }
                Step::PartitionEnd
            }
            Kind::Static(flags) => {
                self.static_row(flags, body, out).map_err(|error| at(error.from_base(body_at)))?;
                Step::Taken
            }
            Kind::Row(flags) => {
                self.check_order(0).map_err(at)?;
                self.row(flags, body, out).map_err(|error| at(error.from_base(body_at)))?
            }
            Kind::Marker(kind) => {
                self.check_order(kind.weight()).map_err(at)?;
                self.marker(kind, body, out).map_err(|error| at(error.from_base(body_at)))?
            }
        };
        self.at_start = false;
        if step != Step::Beyond {
            window.skip(total);
        }
        Ok(step)
    }

    /// *ordered*, as the consumer checks it.
    fn check_order(&mut self, weight: i8) -> Result<(), Damaged> {
        let order = &self.mapping.schema.order;
        let Some((prefix, latest)) = &mut self.latest else {
            self.latest = Some((self.prefix.clone(), weight));
            return Ok(());
        };
        let compared = order.compare((prefix, *latest), (&self.prefix, weight));
        if compared == Ordering::Greater || (compared == Ordering::Equal && weight == 0) {
            return Err(Damaged::new("rows or range tombstones out of order", 0));
        }
        prefix.clone_from(&self.prefix);
        *latest = weight;
        Ok(())
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
            if let Some(row) = self.decoder.decode(flags, body, &shape.statics, &shape.bases)? {
                out.push(Fragment::StaticRow { row: Bytes::copy_from(row) });
            }
        }
        Ok(())
    }

    fn row(
        &mut self,
        flags: RowFlags,
        body: &[u8],
        out: &mut Vec<Fragment>,
    ) -> Result<Step, Damaged> {
        match self.slicer.row(&self.mapping.schema.order, &self.prefix, out) {
            Place::Before => return Ok(Step::Taken),
            Place::Done => return Ok(Step::Beyond),
            Place::Inside => {}
        }
        let shape = &self.mapping.shape;
        if let Some(row) = self.decoder.decode(flags, body, &shape.regulars, &shape.bases)? {
            // Key and row share one allocation.
            self.scratch.clear();
            self.scratch.extend_from_slice(&self.prefix);
            self.scratch.extend_from_slice(row);
            let both = Bytes::copy_from(&self.scratch);
            let split = self.prefix.len();
            let row = both.slice(split..both.len());
            out.push(Fragment::Row { key: both.slice(0..split), row });
        }
        Ok(Step::Taken)
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
            _ => Ok(Step::Taken),
        }
    }
}

fn head_bytes_max(shape: &Shape) -> usize {
    Head::bytes_max(shape.clustering.len())
}
