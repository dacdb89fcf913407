//! What is known to be large, and writes to it.
//!
//! A table with `large_data_guardrails_enabled` has two limits each for the bytes and the rows of a
//! partition, the bytes of a row and the elements of a collection. A write to what is over the
//! upper one is refused; of a write to what is over the lower one the caller is told, and, once a
//! second for each kind, the log.
//!
//! For a write nothing is read and nothing is counted. [`Known`] has what was found to be large
//! when it passed by:
//!  - what the writers of SSTables recorded in them: the largest partitions, rows, cells and
//!    collections that were over a limit then. A tablet knows what its set of SSTables says;
//!  - rows that became large as a write was merged into a memtable, and their collections. What a
//!    memtable holds of a partition is not summed up: partitions count once they are in an
//!    SSTable.
//!
//! Invariants
//!  - *largest-of-any*: what counts is the most that any one SSTable or memtable holds, never a
//!    sum: what one of them has may be overwritten in another. Dead data counts until it is
//!    compacted away.
//!  - *next-one*: the write that makes something too large is let in; the next one is not.
//!  - *pays-who-asks*: a table without the option compares the lengths of merged rows with a
//!    number that none reaches, and nothing else; one with it looks besides into maps that are
//!    empty as long as nothing is large.
//!  - *bounded*: a memtable notes [`NOTED_MAX`] rows at most.
//!
//! Who writes decides whether it asks: what consensus has agreed on, replays and the system's own
//! writes do not.

use model::TableSchema;
use mutation::{FrozenView, RowView};
use sstable::LargeLimits;
use sstable::scylla::LargeRecord;
use std::rc::Rc;
use stdx::HashMap;

/// Rows that a memtable notes as large at most; what is over them is found by the flush.
const NOTED_MAX: usize = 4096;

/// What may be how large. A limit is met by what is larger; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// Above this the client is told, and SSTables that are written record it.
    pub soft: LargeLimits,
    /// Above this writes are refused; cells are none of its business.
    pub hard: LargeLimits,
}

impl SizeLimits {
    /// Those of a node that was told nothing: only the lower ones.
    pub fn of_soft(soft: LargeLimits) -> SizeLimits {
        let none =
            LargeLimits { partition_bytes: 0, row_bytes: 0, cell_bytes: 0, rows: 0, elements: 0 };
        SizeLimits { soft, hard: none }
    }

    /// From where on SSTables record what is large: the lesser of the two limits.
    pub(crate) fn recorded(&self) -> LargeLimits {
        let cell_bytes = match self.soft.cell_bytes {
            0 => u64::MAX,
            limit => limit,
        };
        let recorded = LargeLimits {
            partition_bytes: self.least(Measure::PartitionBytes),
            row_bytes: self.least(Measure::RowBytes),
            cell_bytes,
            rows: self.least(Measure::PartitionRows),
            elements: self.least(Measure::CollectionElements),
        };
        debug_assert!(
            Measure::ALL.iter().all(|measure| measure.of(&recorded) == self.least(*measure)),
            "largest-of-any: {recorded:?} of {self:?}"
        );
        recorded
    }

    fn least(&self, measure: Measure) -> u64 {
        let set = [measure.of(&self.soft), measure.of(&self.hard)];
        set.into_iter().filter(|limit| *limit != 0).min().unwrap_or(u64::MAX)
    }
}

/// What has a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    PartitionBytes,
    PartitionRows,
    RowBytes,
    CollectionElements,
}

impl Measure {
    const ALL: [Measure; 4] = [
        Measure::PartitionBytes,
        Measure::PartitionRows,
        Measure::RowBytes,
        Measure::CollectionElements,
    ];

    /// What it is called, and its unit.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Measure::PartitionBytes => ("partition size", "bytes"),
            Measure::PartitionRows => ("partition row count", "rows"),
            Measure::RowBytes => ("row size", "bytes"),
            Measure::CollectionElements => ("collection element count", "elements"),
        }
    }

    /// What clients are told: `partition size`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    fn of(self, limits: &LargeLimits) -> u64 {
        match self {
            Measure::PartitionBytes => limits.partition_bytes,
            Measure::PartitionRows => limits.rows,
            Measure::RowBytes => limits.row_bytes,
            Measure::CollectionElements => limits.elements,
        }
    }
}

/// Which ones were met is told by the bits of a byte, in the order of [`Measure::ALL`].
const _: () = assert!(Measure::ALL.len() <= u8::BITS as usize);
const _: () = assert!(Measure::ALL[3] as usize == 3 && Measure::ALL[0] as usize == 0);

/// Which lower limits were met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exceeded(u8);

impl Exceeded {
    /// Those of both.
    pub fn and(self, other: Exceeded) -> Exceeded {
        Exceeded(self.0 | other.0)
    }

    pub(crate) fn add(&mut self, measure: Measure) {
        self.0 |= 1 << measure as u8;
    }

    /// Whether none was met.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Which ones.
    pub fn measures(self) -> impl Iterator<Item = Measure> {
        Measure::ALL.into_iter().filter(move |measure| self.0 & (1 << *measure as u8) != 0)
    }
}

/// Writes to what is large, on this shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeWrites {
    /// To what was over a lower limit.
    pub warned: u64,
    /// To what was over an upper limit.
    pub refused: u64,
}

/// From which size on a memtable of a table notes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    /// What is not longer needs no look.
    pub(crate) bytes: usize,
    /// Longer rows are large.
    pub(crate) row_bytes: u64,
    elements: u64,
}

impl Watch {
    /// Nothing is noted.
    pub(crate) const NONE: Watch = Watch { bytes: usize::MAX, row_bytes: 0, elements: 0 };

    pub(crate) fn of(limits: &SizeLimits) -> Watch {
        let row_bytes = limits.least(Measure::RowBytes);
        let elements = limits.least(Measure::CollectionElements);
        // An element takes more than a byte.
        debug_assert!(0 < row_bytes && 0 < elements, "a limit of 0 is none");
        let bytes = usize::try_from(row_bytes.min(elements)).unwrap_or(usize::MAX);
        Watch { bytes, row_bytes, elements }
    }
}

/// What is known to be large, by partition key.
#[derive(Debug, Default)]
pub(crate) struct Known {
    partitions: HashMap<Vec<u8>, KnownPartition>,
    /// Of all partitions.
    rows: usize,
}

#[derive(Debug, Default)]
struct KnownPartition {
    bytes: u64,
    rows: u64,
    /// By clustering key; the static row has an empty one.
    inner: HashMap<Vec<u8>, KnownRow>,
}

#[derive(Debug, Default)]
struct KnownRow {
    bytes: u64,
    /// Elements of collections, by the name of their column.
    collections: Vec<(String, u64)>,
}

impl Known {
    /// What SSTables record.
    pub(crate) fn of(sstables: &[Rc<sstable::Table>]) -> Known {
        let mut known = Known::default();
        for record in sstables.iter().flat_map(|one| &one.scylla().large_records) {
            known.add(record);
        }
        known
    }

    fn add(&mut self, record: &LargeRecord) {
        let partition = self.partitions.entry(record.partition_key.clone()).or_default();
        match record.kind {
            LargeRecord::PARTITION => {
                partition.bytes = partition.bytes.max(record.value);
                partition.rows = partition.rows.max(record.elements);
            }
            LargeRecord::PARTITION_ROWS => partition.rows = partition.rows.max(record.value),
            LargeRecord::ROW => {
                let row = partition.inner.entry(record.clustering_key.clone()).or_default();
                row.bytes = row.bytes.max(record.value);
            }
            LargeRecord::CELL | LargeRecord::COLLECTION => {
                let elements = match record.kind {
                    LargeRecord::CELL => record.elements,
                    _ => record.elements.max(record.value),
                };
                let row = partition.inner.entry(record.clustering_key.clone()).or_default();
                if let Ok(column) = std::str::from_utf8(&record.column)
                    && 0 < elements
                {
                    row.raise(column, elements);
                }
            }
            _ => {}
        }
    }

    /// Notes the size of a row, and elements of its collections, where `watch` wants it.
    pub(crate) fn note<'n>(
        &mut self,
        (key, clustering): (&[u8], &[u8]),
        watch: Watch,
        bytes: u64,
        collections: impl Iterator<Item = (&'n str, u64)>,
    ) {
        let large = watch.row_bytes < bytes;
        let mut collections = collections.filter(|(_, count)| watch.elements < *count).peekable();
        if !large && collections.peek().is_none() {
            return;
        }
        if !self.partitions.contains_key(key) {
            if NOTED_MAX <= self.rows {
                return;
            }
            self.partitions.insert(key.to_vec(), KnownPartition::default());
        }
        let Some(partition) = self.partitions.get_mut(key) else { return };
        if !partition.inner.contains_key(clustering) {
            if NOTED_MAX <= self.rows {
                return;
            }
            self.rows += 1;
            assert!(self.rows <= NOTED_MAX, "bounded: {} rows are noted", self.rows);
            partition.inner.insert(clustering.to_vec(), KnownRow::default());
        }
        let Some(row) = partition.inner.get_mut(clustering) else { return };
        row.bytes = bytes;
        collections.for_each(|(column, count)| row.raise(column, count));
    }

    /// Whether nothing is.
    pub(crate) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Looks up what a mutation touches.
    pub(crate) fn look(&self, schema: &TableSchema, view: &FrozenView<'_>, found: &mut Found) {
        let Some(partition) = self.partitions.get(view.key()) else { return };
        found.raise(Measure::PartitionBytes, partition.bytes, None);
        found.raise(Measure::PartitionRows, partition.rows, None);
        if partition.inner.is_empty() {
            return;
        }
        let statics = view.static_row().map(|row| (&[][..], row));
        for (key, row) in statics.into_iter().chain(view.rows()) {
            if let Some(known) = partition.inner.get(key) {
                known.look(schema, row, found);
            }
        }
    }
}

impl KnownRow {
    fn raise(&mut self, column: &str, count: u64) {
        debug_assert!(0 < count, "largest-of-any: {column} has no element");
        match self.collections.iter_mut().find(|(name, _)| name == column) {
            Some((_, known)) => *known = count.max(*known),
            None => self.collections.push((column.to_owned(), count)),
        }
    }

    fn look(&self, schema: &TableSchema, row: RowView<'_>, found: &mut Found) {
        found.raise(Measure::RowBytes, self.bytes, None);
        for (name, count) in &self.collections {
            let column = schema.column(name);
            if column.is_some_and(|column| row.column(column.id).is_some()) {
                found.raise(Measure::CollectionElements, *count, Some(name));
            }
        }
    }
}

/// The most of what a mutation touches (*largest-of-any*).
#[derive(Debug, Default)]
pub(crate) struct Found {
    most: [u64; Measure::ALL.len()],
    /// The column of the collection with the most elements.
    column: String,
}

impl Found {
    fn raise(&mut self, measure: Measure, size: u64, column: Option<&str>) {
        let most = &mut self.most[measure as usize];
        if *most < size {
            *most = size;
            if let Some(column) = column {
                column.clone_into(&mut self.column);
            }
        }
    }

    /// The first of `limits` that is met, and each after it.
    pub(crate) fn over(&self, limits: LargeLimits) -> impl Iterator<Item = (Measure, u64)> {
        debug_assert!(
            self.most[Measure::CollectionElements as usize] == 0 || !self.column.is_empty(),
            "largest-of-any: a collection without its column"
        );
        let all = Measure::ALL.into_iter().zip(self.most);
        all.filter_map(move |(measure, size)| {
            let limit = measure.of(&limits);
            (limit != 0 && limit < size).then_some((measure, limit))
        })
    }

    pub(crate) fn tell(
        &self,
        schema: &TableSchema,
        measure: Measure,
        kind: &str,
        limit: u64,
    ) -> String {
        debug_assert!(limit < self.most[measure as usize], "the {kind} limit {limit} is not met");
        let (what, unit) = measure.words();
        let (size, keyspace, table) = (self.most[measure as usize], &schema.keyspace, &schema.name);
        let column = match measure {
            Measure::CollectionElements => format!(", column={}", self.column),
            _ => String::new(),
        };
        format!(
            "Large data guardrail: {what} {size} {unit} exceeds {kind} limit {limit} {unit} \
             (keyspace={keyspace}, table={table}{column})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{C, V, clustering, schema};
    use mutation::{
        Cell, CollectionWriter, FrozenMutation, MutationBuilder, RowBuilder, Tombstone,
    };

    const LIMITS: LargeLimits = LargeLimits {
        partition_bytes: 1000,
        row_bytes: 100,
        cell_bytes: 10,
        rows: 20,
        elements: 5,
    };

    /// A mutation of row `a` of partition `k` that writes a cell, an element, or deletes the row.
    fn write(k: &[u8], a: u32, what: &str) -> FrozenMutation {
        let schema = schema(1, "t");
        let mut builder = MutationBuilder::new(&schema, k);
        let mut row = RowBuilder::new(Vec::new());
        match what {
            "cell" => row.cell(V, Cell::live(1, b"v")),
            "element" => {
                let mut set = CollectionWriter::new(Tombstone::NONE);
                set.push(b"path", Cell::live(1, b""));
                row.collection(C, &set.finish());
            }
            _ => row.tombstone(Tombstone::new(1, 1)),
        }
        builder.row(&clustering(&[a, 0]), &row.finish());
        builder.freeze()
    }

    fn record(kind: u32, value: u64, elements: u64) -> LargeRecord {
        let clustering_key = match kind {
            LargeRecord::PARTITION | LargeRecord::PARTITION_ROWS => Vec::new(),
            _ => clustering(&[7, 0]),
        };
        let (partition_key, column) = (b"k".to_vec(), b"c".to_vec());
        let some =
            LargeRecord { kind, partition_key, clustering_key, column, ..Default::default() };
        LargeRecord { value, elements, ..some }
    }

    fn over(known: &[&Known], mutation: &FrozenMutation) -> Vec<&'static str> {
        let mut found = Found::default();
        let view = mutation.view().unwrap();
        known.iter().for_each(|one| one.look(&schema(1, "t"), &view, &mut found));
        found.over(LIMITS).map(|(measure, _)| measure.name()).collect()
    }

    #[test]
    fn a_write_meets_what_is_known_of_what_it_touches() {
        let check = |kind, value, elements, hit: &[&str], row: &[&str]| {
            let mut known = Known::default();
            known.add(&record(kind, value, elements));
            assert_eq!(over(&[&known], &write(b"k", 7, "element")), hit, "{kind} {value}");
            assert_eq!(over(&[&known], &write(b"k", 7, "deletion")), row, "{kind} {value}");
            let elsewhere = over(&[&known], &write(b"k", 8, "element"));
            let of_partition: Vec<&str> =
                hit.iter().copied().filter(|it| it.starts_with("partition")).collect();
            assert_eq!(elsewhere, of_partition, "{kind} {value}");
            assert!(over(&[&known], &write(b"other", 7, "element")).is_empty());
        };
        let of_partition = ["partition size", "partition row count"];
        check(LargeRecord::PARTITION, 1001, 21, &of_partition, &of_partition);
        check(LargeRecord::PARTITION, 1000, 20, &[], &[]);
        check(LargeRecord::PARTITION_ROWS, 21, 0, &of_partition[1..], &of_partition[1..]);
        check(LargeRecord::ROW, 101, 0, &["row size"], &["row size"]);
        check(LargeRecord::ROW, 100, 0, &[], &[]);
        // A deletion of the row touches no collection.
        check(LargeRecord::CELL, 3, 6, &["collection element count"], &[]);
        check(LargeRecord::COLLECTION, 6, 0, &["collection element count"], &[]);
        check(LargeRecord::CELL, 300, 0, &[], &[]);
    }

    #[test]
    fn sizes_of_several_are_not_added_up() {
        let (mut one, mut other) = (Known::default(), Known::default());
        one.add(&record(LargeRecord::ROW, 90, 0));
        other.add(&record(LargeRecord::ROW, 90, 0));
        assert!(over(&[&one, &other], &write(b"k", 7, "cell")).is_empty());
        other.add(&record(LargeRecord::ROW, 101, 0));
        assert_eq!(over(&[&one, &other], &write(b"k", 7, "cell")), ["row size"]);
    }

    #[test]
    fn memtables_note_what_is_over_the_lesser_limit() {
        let limits = |soft: u64, hard: u64| {
            let limits = |elements, row_bytes| LargeLimits { elements, row_bytes, ..LIMITS };
            SizeLimits { soft: limits(soft, 0), hard: limits(hard, 0) }
        };
        let check = |soft, hard, count: u64, noted: bool| {
            let mut known = Known::default();
            let watch = Watch::of(&limits(soft, hard));
            known.note((b"k", b"c"), watch, 1 << 40, [("c", count)].into_iter());
            assert_eq!(known.rows == 1, noted, "{soft} {hard} {count}");
        };
        check(5, 10, 6, true);
        check(5, 10, 5, false);
        check(0, 10, 6, false);
        check(0, 10, 11, true);
        check(20, 10, 11, true);
        check(0, 0, u64::MAX, false);
        assert_eq!(Watch::of(&limits(0, 0)).bytes, usize::MAX);
    }

    #[test]
    fn notes_are_bounded_and_the_last_size_counts() {
        let watch = Watch::of(&SizeLimits::of_soft(LIMITS));
        let mut known = Known::default();
        for row in 0..NOTED_MAX as u32 + 10 {
            known.note((b"k", &row.to_be_bytes()), watch, 200, [].into_iter());
        }
        known.note((b"other", b""), watch, 200, [].into_iter());
        assert_eq!((known.rows, known.partitions.len()), (NOTED_MAX, 1));
        known.note((b"k", &[0; 4]), watch, 150, [].into_iter());
        assert_eq!(known.partitions[&b"k"[..]].inner[&[0u8; 4][..]].bytes, 150);
    }
}
