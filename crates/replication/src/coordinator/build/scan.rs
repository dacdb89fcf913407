//! One step of a scan: some rows of this shard, and what is derived from them.
//!
//! Invariants: those of [`super`]; and
//!  - *as-they-are*: rows are derived from as they are stored, but for what deletions of ranges and
//!    of the partition cover: with their dead cells and their tombstones. A write that comes late
//!    must find these in a view, which is not read before it.

use super::place::Place;
use crate::coordinator::Coordinator;
use crate::cursor::Cursor;
use derived::{Buffers, Derived, Deriver, ViewPlan};
use model::{DecoratedKey, TableSchema, Token};
use mutation::page::RingBound;
use mutation::{
    ClusteringPosition, ClusteringRange, Compacted, Fragment, FrozenView, MutationBuilder,
    RowBuilder, RowView, Tombstone, row,
};
use reader::{PartitionScope, ReadError, Slice};
use runtime::io::IoClass;
use runtime::time::wall_micros;
use stdx::Bytes;
use storage::SourceOptions;

/// Rows of a step at most, and of one that ends with a partition at least. Who ends within one has
/// its rest looked up in all SSTables: small partitions are not cut for the sake of few rows.
const ROWS_MAX: usize = 1024;
const ROWS_ENOUGH: usize = ROWS_MAX / 8 * 7;
/// Steps of one read at most, and bytes of their rows. Who opens the SSTables of a table reads a
/// stretch of each: with many of them the rows of one step are few of those.
const STEPS_MAX: usize = 8;
const BYTES_MAX: usize = 1 << 20;

/// Whether rows have what covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum Covers {
    /// Whoever gets them has nothing that it would cover.
    Left,
    /// Deletions of ranges and of the partition are deletions of each row.
    Kept,
}

/// What a step has come to.
pub(in crate::coordinator) struct Step {
    /// Each with the token of the row that it is derived from.
    pub(in crate::coordinator) derived: Vec<(Token, Derived)>,
    pub(in crate::coordinator) to: Place,
}

/// What of a partition a step has read.
struct Piece<'b> {
    key: DecoratedKey,
    builder: MutationBuilder<'b>,
    deleted: Tombstone,
    range: Tombstone,
}

impl Coordinator {
    /// Reads on from a place, and derives: one step.
    pub(in crate::coordinator) async fn scan(
        &self,
        base: &TableSchema,
        plans: &[ViewPlan],
        from: &Place,
        covers: Covers,
    ) -> Result<Step, ReadError> {
        let mut steps = self.scan_steps((base, plans), from, covers, 1).await?;
        Ok(steps.pop().expect("bounded: a read is a step at least"))
    }

    /// The same: as many steps as one read has, each of which goes on where the one before it ends.
    pub(super) async fn scan_some(
        &self,
        base: &TableSchema,
        plans: &[ViewPlan],
        from: &Place,
    ) -> Result<Vec<Step>, ReadError> {
        self.scan_steps((base, plans), from, Covers::Left, STEPS_MAX).await
    }

    async fn scan_steps(
        &self,
        (base, plans): (&TableSchema, &[ViewPlan]),
        from: &Place,
        covers: Covers,
        steps_max: usize,
    ) -> Result<Vec<Step>, ReadError> {
        assert!(0 < steps_max, "bounded: a read of no step");
        let (permit, _) = self.storage.admit_read(base.id).await?;
        let _cpu = permit.need_cpu();
        let (scope, slice, at_end) = rest(from);
        let options = SourceOptions { bypass_cache: true, class: IoClass::Streaming };
        let source = self.storage.open_source(base.id, scope, slice, options)?;
        let mut fragments = Cursor::new(source, Some(&permit));
        let (mut scan, mut steps) = (Scan::new(base, plans, covers), Vec::new());
        while let Some(fragment) = fragments.next(ROWS_MAX).await? {
            let Some(to) = scan.take(&fragment) else { continue };
            // What is read of one partition ends with it.
            let between = at_end == Place::End && matches!(to, Place::At { before: None, .. });
            steps.push(scan.step(to));
            if !between || steps_max <= steps.len() || BYTES_MAX <= scan.bytes {
                return Ok(steps);
            }
        }
        assert!(scan.piece.is_none(), "with-the-step: a partition without its end");
        steps.push(scan.step(at_end));
        Ok(steps)
    }
}

/// What is left to read from a place, and where one is when that is done.
fn rest(from: &Place) -> (PartitionScope, Slice, Place) {
    debug_assert!(*from != Place::End, "with-the-step: nothing is left to read");
    let bound = |token, key, after| RingBound { token, key, after };
    let end = bound(Token::MAX, None, true);
    match from {
        Place::At { key, before: Some((prefix, weight)) } => {
            let prefix = Bytes::copy_from(prefix);
            let start = ClusteringPosition { prefix, weight: *weight };
            let ranges = vec![ClusteringRange { start, end: ClusteringPosition::end() }];
            let scope = PartitionScope::Key(DecoratedKey::new(Bytes::copy_from(key)));
            let slice = Slice { ranges, reversed: false, with_static: false, forwarding: false };
            (scope, slice, Place::At { key: key.clone(), before: None })
        }
        Place::At { key, before: None } => {
            let start = bound(Token::of(key), Some(key.clone()), true);
            (PartitionScope::Range { start, end }, Slice::full(), Place::End)
        }
        Place::Start | Place::End => {
            let start = bound(Token::MIN, None, false);
            (PartitionScope::Range { start, end }, Slice::full(), Place::End)
        }
    }
}

struct Scan<'b> {
    base: &'b TableSchema,
    plans: &'b [ViewPlan],
    covers: Covers,
    now: i64,
    piece: Option<Piece<'b>>,
    derived: Vec<(Token, Derived)>,
    /// Of the step at hand.
    rows: usize,
    /// Of all steps.
    bytes: usize,
    scratch: Vec<u8>,
    /// What pieces are built in, one after the other.
    partition: Vec<u8>,
    buffers: Buffers,
}

impl<'b> Scan<'b> {
    fn new(base: &'b TableSchema, plans: &'b [ViewPlan], covers: Covers) -> Scan<'b> {
        debug_assert!(!plans.is_empty(), "a scan for no view");
        let now = wall_micros().div_euclid(1_000_000);
        let (piece, derived, scratch) = (None, Vec::with_capacity(ROWS_MAX), Vec::new());
        let (partition, buffers, rows, bytes) = (Vec::new(), Buffers::default(), 0, 0);
        Scan { base, plans, covers, now, piece, derived, rows, bytes, scratch, partition, buffers }
    }

    /// The step that ends here.
    fn step(&mut self, to: Place) -> Step {
        debug_assert!(self.piece.is_none(), "with-the-step: a piece is in no step");
        self.rows = 0;
        let next = Vec::with_capacity(ROWS_MAX);
        Step { derived: std::mem::replace(&mut self.derived, next), to }
    }

    /// Takes a fragment; where the step ends, if it ends with that.
    fn take(&mut self, fragment: &Fragment) -> Option<Place> {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                debug_assert!(self.piece.is_none(), "a partition inside another one");
                let buffer = std::mem::take(&mut self.partition);
                let builder = MutationBuilder::reusing(self.base, &key.key, buffer);
                let (deleted, range) = (*tombstone, Tombstone::NONE);
                self.piece = Some(Piece { key: key.clone(), builder, deleted, range });
                None
            }
            Fragment::StaticRow { row } => {
                self.row(None, row);
                None
            }
            Fragment::RangeTombstoneChange { tombstone, .. } => {
                if let Some(piece) = &mut self.piece {
                    piece.range = *tombstone;
                }
                None
            }
            Fragment::Row { key, row } => {
                self.row(Some(key), row);
                let is_full = ROWS_MAX <= self.rows || BYTES_MAX <= self.bytes;
                let piece = self.piece.take_if(|_| is_full)?;
                let before = Some((key.to_vec(), 1));
                let to = Place::At { key: piece.key.key.to_vec(), before };
                self.derive(piece);
                Some(to)
            }
            Fragment::PartitionEnd => {
                let piece = self.piece.take()?;
                let ends = ROWS_ENOUGH <= self.rows || BYTES_MAX <= self.bytes;
                let to = ends.then(|| Place::At { key: piece.key.key.to_vec(), before: None });
                self.derive(piece);
                to
            }
        }
    }

    /// Adds a row, or the static one, to the piece (*as-they-are*).
    fn row(&mut self, key: Option<&Bytes>, bytes: &Bytes) {
        let Some(piece) = &mut self.piece else { return };
        debug_assert!(self.rows < ROWS_MAX || key.is_none(), "bounded: {} rows", self.rows);
        self.rows += 1;
        self.bytes += bytes.len();
        let cover = match key {
            Some(_) => piece.deleted.merge(piece.range),
            None => piece.deleted,
        };
        self.scratch.clear();
        let row = match row::apply_tombstone(RowView::trusted(bytes), cover, &mut self.scratch) {
            Compacted::Unchanged => &bytes[..],
            Compacted::Changed => &self.scratch[..],
            Compacted::Empty => return,
        };
        let mut covered = Vec::new();
        let row = match self.covers {
            Covers::Kept if key.is_some() && !cover.is_none() => {
                let mut dead = RowBuilder::new(Vec::new());
                dead.tombstone(cover);
                let (dead, alive) = (dead.finish(), RowView::trusted(row));
                row::merge(self.base, RowView::trusted(&dead), alive, &mut covered);
                &covered[..]
            }
            _ => row,
        };
        match key {
            Some(key) => piece.builder.row(key, row),
            None => piece.builder.static_row(row),
        }
    }

    fn derive(&mut self, mut piece: Piece<'b>) {
        if piece.builder.is_empty() {
            return;
        }
        let token = piece.key.token;
        let rows = piece.builder.freeze_in_place();
        let write = FrozenView::trusted(rows).expect("a builder made it");
        debug_assert!(write.tombstone().is_none() && write.range_count() == 0, "as-they-are");
        let buffers = std::mem::take(&mut self.buffers);
        let mut deriver = Deriver::reusing(self.base, self.plans, write, self.now, buffers);
        let (derived, buffers) = deriver.finish_reused();
        drop(deriver);
        self.buffers = buffers;
        self.derived.extend(derived.into_iter().map(|one| (token, one)));
        self.partition = piece.builder.into_buffer();
    }
}
