//! What a replica has of the partitions that a command reads, as mutations: all that was written
//! and deleted there, with timestamps. Pure.
//!
//! A stretch begins where its command does and is complete up to where it was cut, if it was: it is
//! cut when as many rows are live in it as the command wants, or when it has enough bytes.
//!
//! Invariants
//!  - *complete-before*: a stretch has all that its replica has from where its command begins up to
//!    where it was cut; nothing of it lies behind.
//!  - *bounded*: a stretch has at most one row and one range more than its bytes allow.
//!  - *ring-order*: its partitions ascend.

use crate::range::check_ranges;
use model::{DecoratedKey, TableSchema};
use mutation::page::{Partitions, ReadCommand, Resume};
use mutation::range::{ClusteringPosition, Direction, RangeAssembler, TombstoneChange};
use mutation::{Fragment, FrozenMutation, MutationBuilder, RowView, Step, Tombstone, row};
use std::cmp::Ordering;
use stdx::{Bytes, Damaged};

/// A stretch has so many bytes at most, and so many at least if there are so many, whatever its
/// command says of a page.
const BYTES_MAX: usize = 4 << 20;
const BYTES_MIN: usize = 64 << 10;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// One a partition, in ring order.
    pub mutations: Vec<FrozenMutation>,
    /// Behind what it is complete; `None`: it was not cut. Its rows are not counted.
    pub reached: Option<Resume>,
}

impl Stretch {
    /// With what comes after it, in the ring's order.
    pub fn then(mut self, mut next: Stretch) -> Stretch {
        assert!(self.reached.is_none(), "complete-before: something is left before what follows");
        self.mutations.append(&mut next.mutations);
        self.reached = next.reached;
        self
    }

    /// How many bytes its mutations have.
    pub fn size_bytes(&self) -> usize {
        self.mutations.iter().map(|one| one.0.len()).sum()
    }

    /// One of another node against the schema, and what was asked for.
    pub fn check(&self, schema: &TableSchema, command: &ReadCommand) -> Result<(), Damaged> {
        check_ranges(command, &schema.order)?;
        let damaged = |what| Err(Damaged::new(what, 0));
        let mut last: Option<DecoratedKey> = None;
        for mutation in &self.mutations {
            let view = mutation.view()?;
            let key = DecoratedKey::new(Bytes::copy_from(view.key()));
            view.check_order(&schema.order)?;
            if view.table() != schema.id || !is_asked_for(command, &key) {
                return damaged("a stretch has another partition");
            }
            if last.is_some_and(|last| key <= last) {
                return damaged("partitions of a stretch out of order");
            }
            last = Some(key);
        }
        let Some(reached) = &self.reached else { return Ok(()) };
        let key = DecoratedKey::new(Bytes::copy_from(&reached.key));
        match is_asked_for(command, &key) && last.is_none_or(|last| last <= key) {
            true => Ok(()),
            false => damaged("a stretch ends elsewhere"),
        }
    }
}

fn is_asked_for(command: &ReadCommand, key: &DecoratedKey) -> bool {
    match &command.partitions {
        Partitions::Key(own) => own[..] == key.key[..],
        Partitions::Range { start, end } => {
            let before = command.resume.as_ref().is_some_and(|resume| resume.key == *key.key);
            let starts = start.place(key.token, &key.key) == Ordering::Greater;
            (before || starts) && end.place(key.token, &key.key) == Ordering::Less
        }
    }
}

/// Makes a stretch of a stream that is sliced as its command says.
pub struct Gatherer<'s> {
    schema: &'s TableSchema,
    command: &'s ReadCommand,
    bytes_max: usize,
    row_limit: u64,
    stretch: Stretch,
    bytes: usize,
    rows: u64,
    partitions: u64,
    open: Option<Open<'s>>,
}

/// The partition at hand.
struct Open<'s> {
    key: DecoratedKey,
    builder: MutationBuilder<'s>,
    ranges: RangeAssembler,
    tombstone: Tombstone,
    static_live: bool,
    rows: u64,
}

impl<'s> Gatherer<'s> {
    /// For a settled command.
    pub fn new(schema: &'s TableSchema, command: &'s ReadCommand) -> Gatherer<'s> {
        debug_assert!(command.table == schema.id, "complete-before: a command of another table");
        let before = command.resume.as_ref().map_or(0, |resume| resume.rows_in_partition);
        // Of a range the rows of a partition are not counted apart: a stretch ends in one place.
        let of_partition = match command.partitions {
            Partitions::Key(_) => command.per_partition_limit.saturating_sub(before),
            Partitions::Range { .. } => u64::MAX,
        };
        Gatherer {
            schema,
            command,
            bytes_max: command.bytes_max.clamp(BYTES_MIN, BYTES_MAX),
            row_limit: command.row_limit.min(of_partition).max(1),
            stretch: Stretch::default(),
            bytes: 0,
            rows: 0,
            partitions: 0,
            open: None,
        }
    }

    /// The same, with other limits of bytes.
    #[cfg(test)]
    pub(crate) fn with_bytes_max(mut self, bytes_max: usize) -> Gatherer<'s> {
        self.bytes_max = bytes_max;
        self
    }

    /// Takes the next fragment.
    pub fn consume(&mut self, fragment: Fragment) -> Step {
        if self.stretch.reached.is_some() {
            return Step::Stop;
        }
        match fragment {
            Fragment::PartitionStart { key, tombstone } => self.begin(key, tombstone),
            Fragment::StaticRow { row } => self.static_row(&row),
            Fragment::Row { key, row } => return self.row(key, &row),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                return self.change(TombstoneChange { position, tombstone });
            }
            Fragment::PartitionEnd => return self.end(),
        }
        Step::Continue
    }

    /// What was gathered, when the source is at its end or after [`Step::Stop`].
    pub fn finish(self) -> Stretch {
        assert!(self.open.is_none(), "complete-before: a partition without its end");
        self.stretch
    }

    fn begin(&mut self, key: DecoratedKey, tombstone: Tombstone) {
        assert!(self.open.is_none(), "ring-order: a partition inside another one");
        let mut builder = MutationBuilder::new(self.schema, &key.key);
        builder.delete_partition(tombstone);
        let ranges = RangeAssembler::new(self.command.direction());
        self.open = Some(Open { key, builder, ranges, tombstone, static_live: false, rows: 0 });
    }

    fn static_row(&mut self, blob: &[u8]) {
        let Some(open) = &mut self.open else { return };
        let view = RowView::trusted(blob);
        debug_assert!(open.rows == 0, "ring-order: a static row behind {} rows", open.rows);
        open.static_live = row::is_live(self.schema, view, open.tombstone, self.command.now);
        open.builder.static_row(blob);
    }

    fn row(&mut self, key: Bytes, blob: &[u8]) -> Step {
        let Some(open) = &mut self.open else { return Step::Continue };
        let shadow = open.tombstone.merge(open.ranges.current());
        let is_live = row::is_live(self.schema, RowView::trusted(blob), shadow, self.command.now);
        open.builder.row(&key, blob);
        open.rows += u64::from(is_live);
        self.rows += u64::from(is_live);
        let enough = self.row_limit <= self.rows || self.is_large();
        match enough {
            true => self.cut(match self.command.direction() {
                Direction::Forward => ClusteringPosition::after(key),
                Direction::Reversed => ClusteringPosition::before(key),
            }),
            false => Step::Continue,
        }
    }

    fn change(&mut self, change: TombstoneChange) -> Step {
        let Some(open) = &mut self.open else { return Step::Continue };
        let position = change.position.clone();
        if let Some(range) = open.ranges.change(change) {
            open.builder.delete_range(range);
        }
        // Where the command resumes nothing was read yet.
        let resume = self.command.resume.as_ref().and_then(|resume| resume.after.as_ref());
        let advanced =
            resume.is_none_or(|(prefix, weight)| (&prefix[..], *weight) != position.as_parts());
        let may_end = advanced && position.weight != 0 && !position.prefix.is_empty();
        match may_end && self.is_large() {
            true => self.cut(position),
            false => Step::Continue,
        }
    }

    fn is_large(&self) -> bool {
        let open = self.open.as_ref().map_or(0, |open| open.builder.size_bytes());
        self.bytes_max <= self.bytes + open
    }

    /// The stretch ends inside the partition.
    fn cut(&mut self, position: ClusteringPosition) -> Step {
        let Some(mut open) = self.open.take() else { return Step::Stop };
        let end = TombstoneChange { position: position.clone(), tombstone: Tombstone::NONE };
        if let Some(range) = open.ranges.change(end)
            && !range.range.is_empty(&self.schema.order)
        {
            open.builder.delete_range(range);
        }
        debug_assert!(position.weight != 0, "complete-before: cut at a row, not behind it");
        let key = open.key.key.to_vec();
        self.push(open.builder);
        let after = Some((position.prefix.to_vec(), position.weight));
        self.stretch.reached = Some(Resume { key, after, rows_in_partition: 0 });
        Step::Stop
    }

    fn end(&mut self) -> Step {
        let Some(open) = self.open.take() else { return Step::Continue };
        debug_assert!(open.ranges.current().is_none(), "paired: a range is open at the end");
        let by_statics = open.rows == 0 && open.static_live && self.command.static_only_rows;
        self.rows += u64::from(by_statics);
        self.partitions += u64::from(by_statics || 0 < open.rows);
        let key = open.key.key.to_vec();
        self.push(open.builder);
        let enough = self.row_limit <= self.rows
            || self.command.partition_limit <= self.partitions
            || self.is_large();
        if enough && matches!(self.command.partitions, Partitions::Range { .. }) {
            self.stretch.reached = Some(Resume { key, after: None, rows_in_partition: 0 });
            return Step::Stop;
        }
        Step::Continue
    }

    fn push(&mut self, builder: MutationBuilder<'s>) {
        if builder.is_empty() {
            return;
        }
        let mutation = builder.freeze();
        self.bytes += mutation.0.len();
        self.stretch.mutations.push(mutation);
        debug_assert!(self.stretch.reached.is_none(), "complete-before: one behind the cut");
        debug_assert!(self.stretch.mutations.len() <= self.bytes, "bounded: empty mutations");
    }
}
