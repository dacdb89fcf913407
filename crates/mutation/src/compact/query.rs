//! From fragments to a page of an answer.

use super::columns::{ColumnPlan, ColumnSteps, Sight};
use super::sink::{PartitionSink, Step};
use crate::fragment::Fragment;
use crate::page::{Page, Partitions, ReadCommand, Resume, RowPiece, RowShape};
use crate::range::Direction;
use crate::row::{self, LiveCells, RowView};
use crate::tombstone::Tombstone;
use model::TableSchema;
use model::key::{clustering_components, partition_key_component};
use stdx::Put;

/// Takes what a command slices and writes its page: applies deletions and expiry, leaves out what
/// is dead, counts, and stops at the command's limits. One allocation per page of up to 512 bytes,
/// more as it grows.
///
/// What is read comes as fragments ([`QueryCompactor::consume`]) or, from whoever has no fragments,
/// borrowed piece by piece in the same order: `begin`, `static_row`, `row` and `change`, `end`.
/// After [`Step::Stop`] every answer is `Stop`.
pub struct QueryCompactor<'c> {
    schema: &'c TableSchema,
    command: &'c ReadCommand,
    statics: ColumnPlan<'c>,
    regulars: ColumnPlan<'c>,
    page: Page,
    partition: Option<Partition>,
    /// Whether rows live by their markers alone.
    by_marker: bool,
    stopped: bool,
}

/// A row on its way into a page, in steps.
#[derive(Debug)]
pub struct RowSteps<'r> {
    row: RowView<'r>,
    /// Where it starts in the page, and its values if it is written whole.
    start: usize,
    values_at: usize,
    /// Else the piece that comes next.
    piece: usize,
    columns: ColumnSteps<'r>,
}

/// The partition at hand.
struct Partition {
    tombstone: Tombstone,
    range: Tombstone,
    /// Whether one of them is there.
    is_shadowed: bool,
    /// Where it starts in the page, where its key and its static flag stand: of rows in pieces all
    /// in one place, for only rows are there.
    start: usize,
    key_at: usize,
    static_at: usize,
    /// Where its row count stands: before its rows.
    counts_at: usize,
    static_live: bool,
    /// Rows in this page, and in those before it.
    rows_here: u32,
    rows_before: u64,
}

impl Partition {
    fn rows(&self) -> u64 {
        self.rows_before + self.rows_here as u64
    }
}

/// What a row's key takes in a page beside its bytes: lengths, as a rule.
const KEY_ROOM_BYTES: usize = 16;

/// The room that a page has at first: a page of many rows is not to grow step by step, and most of
/// those with a small limit not at all. Who asks for as many as there are gets no more than a
/// thread has at hand: a block that the allocator has to look for costs as much as a row.
fn first_bytes(command: &ReadCommand) -> usize {
    const ROW_BYTES: u64 = 96;
    match command.row_limit {
        ..=8 => 512,
        rows @ ..=100 => (rows * ROW_BYTES).max(4096) as usize,
        _ => 4096,
    }
}

impl<'c> QueryCompactor<'c> {
    /// For a stream of what `command` reads, from its resume point on. Panics where it wants rows
    /// in pieces of something else than [`RowShape::Pieces`] allows.
    pub fn new(schema: &'c TableSchema, command: &'c ReadCommand) -> QueryCompactor<'c> {
        let layout = command.layout();
        if let RowShape::Pieces(_) = command.shape {
            let single = matches!(command.partitions, Partitions::Key(_));
            assert!(single && command.static_count == 0, "pieces are of one partition's rows");
        }
        QueryCompactor {
            schema,
            command,
            statics: ColumnPlan::new(layout.statics()),
            regulars: ColumnPlan::new(layout.regulars()),
            page: Page { bytes: Vec::with_capacity(first_bytes(command)), ..Page::default() },
            partition: None,
            by_marker: schema.lives_by_marker(),
            stopped: false,
        }
    }

    /// Takes the next fragment.
    pub fn consume(&mut self, fragment: &Fragment) -> Step {
        PartitionSink::fragment(self, fragment)
    }

    /// The page of a partition that is known up to a position only, in the direction of the read,
    /// unless it was left before: then the page goes on there.
    pub fn finish_within(mut self, position: (&[u8], i8)) -> Page {
        if self.partition.is_some() {
            self.cut(position);
        }
        self.finish()
    }

    /// The page: complete after [`Step::Stop`], or when the source is at its end.
    pub fn finish(mut self) -> Page {
        if let Some(partition) = self.partition.take() {
            let end = self.close(&partition);
            self.page.bytes.truncate(end);
        }
        self.page
    }

    /// A partition and its own deletion. Panics inside another one.
    pub fn begin(&mut self, key: &[u8], tombstone: Tombstone) -> Step {
        if self.stopped {
            return Step::Stop;
        }
        assert!(self.partition.is_none(), "a partition started inside another one");
        let resume = self.command.resume.as_ref();
        let resume = resume.filter(|resume| resume.key[..] == *key);
        if resume.is_some_and(|resume| resume.after.is_none()) {
            return Step::NextPartition; // It was answered in full.
        }
        let start = self.page.bytes.len();
        let (mut key_at, mut static_at, mut counts_at) = (start, start, start);
        if self.command.shape == RowShape::Whole {
            self.page.bytes.put_vint_bytes(key);
            static_at = self.page.bytes.len();
            key_at = static_at - key.len();
            self.page.bytes.put_u8(0);
            counts_at = self.page.bytes.len();
            self.page.bytes.put_u64(0);
        }
        if !tombstone.is_none() {
            self.page.tombstones_seen += 1;
        }
        self.partition = Some(Partition {
            tombstone,
            range: Tombstone::NONE,
            is_shadowed: !tombstone.is_none(),
            start,
            key_at,
            static_at,
            counts_at,
            static_live: false,
            rows_here: 0,
            rows_before: resume.map_or(0, |resume| resume.rows_in_partition),
        });
        Step::Continue
    }

    /// The static row of the partition, before any row.
    pub fn static_row(&mut self, row: RowView<'_>) -> Step {
        let Some(partition) = &mut self.partition else { return self.outside() };
        if self.command.shape != RowShape::Whole {
            return Step::Continue; // Of columns that the table has no more.
        }
        let sight =
            Sight { shadow: partition.tombstone.merge(row.deletion()), now: self.command.now };
        let bytes = &mut self.page.bytes;
        bytes.truncate(partition.static_at);
        bytes.put_u8(1);
        bytes.put_u32(0);
        let values_at = bytes.len();
        let any = self.statics.write(self.schema, row, sight, bytes);
        partition.static_live =
            any || row::is_live(self.schema, row, partition.tombstone, sight.now);
        let tells = !any && partition.static_live && self.statics.tells_liveness();
        if tells {
            put_liveness(self.schema, row, sight, bytes);
        }
        if any || tells {
            patch_length(bytes, values_at);
        } else {
            bytes.truncate(partition.static_at);
            bytes.put_u8(0);
        }
        partition.counts_at = bytes.len();
        bytes.put_u64(0);
        Step::Continue
    }

    /// As [`QueryCompactor::row`], of a row's blob that was vouched for: with little work for rows
    /// of which nothing is deleted and nothing expires.
    pub fn row_blob(&mut self, key: &[u8], blob: &[u8]) -> Step {
        if self.regulars.is_plain()
            && self.partition.as_ref().is_some_and(|partition| !partition.is_shadowed)
            && let Some((has_marker, cells)) = RowView::plain_cells(blob)
        {
            let start = self.page.bytes.len();
            self.page.bytes.reserve(self.regulars.bytes_max(blob) + key.len() + KEY_ROOM_BYTES);
            let any = self.put_plain(key, cells);
            let by_marker = has_marker && !self.regulars.tells_liveness();
            let by_value = has_marker || !self.by_marker;
            if any.is_some_and(|any| (any && by_value) || by_marker) {
                return self.count_row(key);
            }
            self.page.bytes.truncate(start);
        }
        self.row(key, RowView::trusted(blob))
    }

    /// Appends a row whose columns are these; whether any is there. `None`: it was not to be had
    /// so, and what was appended is of no use.
    #[inline]
    fn put_plain(&mut self, key: &[u8], cells: LiveCells<'_>) -> Option<bool> {
        let bytes = &mut self.page.bytes;
        let RowShape::Pieces(pieces) = &self.command.shape else {
            bytes.put_vint_bytes(key);
            bytes.put_u32(0);
            let values_at = bytes.len();
            let any = self.regulars.write_live(cells, bytes)?;
            patch_length(bytes, values_at);
            return Some(any);
        };
        let mut any = false;
        for piece in pieces {
            match piece {
                RowPiece::Regulars => any = self.regulars.write_live(cells.clone(), bytes)?,
                of_key => put_piece(bytes, of_key, key, (self.schema, self.command)),
            }
        }
        Some(any)
    }

    /// A row, with its full clustering prefix.
    pub fn row(&mut self, key: &[u8], row: RowView<'_>) -> Step {
        let Some(partition) = &mut self.partition else { return self.outside() };
        let shadow = partition.tombstone.merge(partition.range);
        let sight = Sight { shadow: shadow.merge(row.deletion()), now: self.command.now };
        let bytes = &mut self.page.bytes;
        let start = bytes.len();
        let any = match &self.command.shape {
            RowShape::Whole => {
                bytes.put_vint_bytes(key);
                bytes.put_u32(0);
                let values_at = bytes.len();
                let any = self.regulars.write(self.schema, row, sight, bytes);
                if !any && self.regulars.tells_liveness() {
                    put_liveness(self.schema, row, sight, bytes);
                }
                patch_length(bytes, values_at);
                any
            }
            RowShape::Pieces(pieces) => {
                let mut any = false;
                for piece in pieces {
                    match piece {
                        RowPiece::Regulars => {
                            any = self.regulars.write(self.schema, row, sight, bytes);
                        }
                        of_key => put_piece(bytes, of_key, key, (self.schema, self.command)),
                    }
                }
                any
            }
        };
        self.end_of_row(key, row, start, any)
    }

    /// Begins to take a row as [`QueryCompactor::row`] does, in steps; nothing else may come before
    /// [`QueryCompactor::end_row`]. `None`: it is not wanted, as `row` would say.
    pub fn begin_row<'r>(&mut self, key: &[u8], row: RowView<'r>) -> Option<RowSteps<'r>> {
        let partition = self.partition.as_ref()?;
        let shadow = partition.tombstone.merge(partition.range);
        let sight = Sight { shadow: shadow.merge(row.deletion()), now: self.command.now };
        let bytes = &mut self.page.bytes;
        // As a rule it takes less in the page; so that the page does not move as it grows.
        bytes.reserve(row.bytes().len());
        let start = bytes.len();
        if let RowShape::Whole = self.command.shape {
            bytes.put_vint_bytes(key);
            bytes.put_u32(0);
        }
        let columns = ColumnSteps::new(row, sight);
        Some(RowSteps { row, start, values_at: bytes.len(), piece: 0, columns })
    }

    /// Goes on with at most so many elements of collections; whether the row is taken.
    pub fn step_row(&mut self, key: &[u8], steps: &mut RowSteps<'_>, elements_max: usize) -> bool {
        let (schema, bytes) = (self.schema, &mut self.page.bytes);
        let RowShape::Pieces(pieces) = &self.command.shape else {
            return self.regulars.step(schema, &mut steps.columns, elements_max, bytes);
        };
        while let Some(piece) = pieces.get(steps.piece) {
            match piece {
                RowPiece::Regulars => {
                    if !self.regulars.step(schema, &mut steps.columns, elements_max, bytes) {
                        return false;
                    }
                }
                of_key => put_piece(bytes, of_key, key, (schema, self.command)),
            }
            steps.piece += 1;
        }
        true
    }

    /// Ends a row that is taken.
    pub fn end_row(&mut self, key: &[u8], steps: RowSteps<'_>) -> Step {
        let RowSteps { row, start, values_at, columns, .. } = steps;
        if let RowShape::Whole = self.command.shape {
            if !columns.is_any_live() && self.regulars.tells_liveness() {
                put_liveness(self.schema, row, columns.sight(), &mut self.page.bytes);
            }
            patch_length(&mut self.page.bytes, values_at);
        }
        self.end_of_row(key, row, start, columns.is_any_live())
    }

    /// A row is in the page from `start` on, with values of which `any` are live.
    #[inline]
    fn end_of_row(&mut self, key: &[u8], row: RowView<'_>, start: usize, any: bool) -> Step {
        let Some(partition) = &mut self.partition else { return self.outside() };
        let shadow = partition.tombstone.merge(partition.range);
        let bytes = &mut self.page.bytes;
        let is_seen = any && !self.by_marker;
        if !is_seen && !row::is_live(self.schema, row, shadow, self.command.now) {
            bytes.truncate(start);
            self.page.tombstones_seen += 1;
            if self.command.tombstone_limit <= self.page.tombstones_seen {
                return self.cut((key, self.weight_after_row()));
            }
            return Step::Continue;
        }
        self.count_row(key)
    }

    /// A live row is in the page.
    #[inline]
    fn count_row(&mut self, key: &[u8]) -> Step {
        let Some(partition) = &mut self.partition else { return self.outside() };
        partition.rows_here += 1;
        self.page.row_count += 1;
        if self.command.per_partition_limit <= partition.rows() {
            return self.leave_partition();
        }
        if self.is_full(self.page.bytes.len()) {
            return self.cut((key, self.weight_after_row()));
        }
        Step::Continue
    }

    /// From `position` (a clustering prefix and its weight) on, in the direction of the read, this
    /// range tombstone holds.
    pub fn change(&mut self, position: (&[u8], i8), tombstone: Tombstone) -> Step {
        let Some(partition) = &mut self.partition else { return self.outside() };
        partition.range = tombstone;
        partition.is_shadowed = !partition.tombstone.merge(tombstone).is_none();
        self.page.tombstones_seen += 1;
        // A page that starts inside a range begins with the change that opens it: cutting there
        // again would not get us any further.
        let resume = self.command.resume.as_ref().and_then(|resume| resume.after.as_ref());
        let advanced = resume.is_none_or(|(prefix, weight)| (&prefix[..], *weight) != position);
        if self.command.tombstone_limit <= self.page.tombstones_seen && advanced {
            return self.cut(position);
        }
        Step::Continue
    }

    /// The end of the partition; of one that was left before it need not come.
    pub fn end(&mut self) -> Step {
        let step = match self.partition {
            Some(_) => self.leave_partition(),
            None => self.outside(),
        };
        if step == Step::NextPartition { Step::Continue } else { step }
    }

    /// What to do after a piece of a partition that was left before.
    fn outside(&self) -> Step {
        if self.stopped { Step::Stop } else { Step::NextPartition }
    }

    /// Ends the page inside the partition.
    fn cut(&mut self, (prefix, weight): (&[u8], i8)) -> Step {
        if let Some(partition) = self.partition.take() {
            let key = self.key(&partition).to_vec();
            let rows_in_partition = partition.rows();
            let after = Some((prefix.to_vec(), weight));
            self.page.resume = Some(Resume { key, after, rows_in_partition });
            let end = self.write_counts(&partition);
            self.page.bytes.truncate(end);
        }
        self.stopped = true;
        Step::Stop
    }

    /// The partition is done: ends the page if that is enough.
    fn leave_partition(&mut self) -> Step {
        let Some(partition) = self.partition.take() else { return self.outside() };
        let end = self.close(&partition);
        let enough = self.command.partition_limit <= self.page.partition_count;
        let full = self.is_full(end) || enough;
        let single = matches!(self.command.partitions, Partitions::Key(_));
        if full && !single {
            let key = self.key(&partition).to_vec();
            self.page.resume = Some(Resume { key, after: None, rows_in_partition: 0 });
        }
        self.page.bytes.truncate(end);
        if !full && !single {
            return Step::NextPartition;
        }
        self.stopped = true;
        Step::Stop
    }

    /// Counts a partition all of whose fragments have come; one with nothing but a live static
    /// row yields a row. Says where the page ends then.
    fn close(&mut self, partition: &Partition) -> usize {
        let without_rows = partition.rows() == 0;
        if without_rows && partition.static_live && self.command.static_only_rows {
            self.page.row_count += 1;
            self.page.partition_count += 1;
            return self.page.bytes.len();
        }
        self.write_counts(partition)
    }

    /// Completes the partition's header. Says where the page ends then: a partition without rows
    /// goes out of it.
    fn write_counts(&mut self, partition: &Partition) -> usize {
        if partition.rows_here == 0 {
            return partition.start;
        }
        if partition.rows_before == 0 {
            self.page.partition_count += 1;
        }
        let at = partition.counts_at;
        let bytes = &mut self.page.bytes;
        if self.command.shape != RowShape::Whole {
            return bytes.len();
        }
        let rows_bytes = u32::try_from(bytes.len() - at - 8).expect("a page is under 4 GiB");
        bytes[at..at + 4].copy_from_slice(&partition.rows_here.to_be_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&rows_bytes.to_be_bytes());
        bytes.len()
    }

    /// The key of a partition that stands in the page, or is the only one that is read.
    fn key(&self, partition: &Partition) -> &[u8] {
        match self.command.shape {
            RowShape::Whole => &self.page.bytes[partition.key_at..partition.static_at],
            RowShape::Pieces(_) => key_of(self.command),
        }
    }

    /// Whether a page of `bytes` bytes and what was counted is full.
    fn is_full(&self, bytes: usize) -> bool {
        self.command.row_limit <= self.page.row_count
            || self.command.bytes_max <= bytes
            || self.command.tombstone_limit <= self.page.tombstones_seen
    }

    fn weight_after_row(&self) -> i8 {
        match self.command.direction() {
            Direction::Forward => 1,
            Direction::Reversed => -1,
        }
    }
}

/// The key of the only partition that a command reads.
fn key_of(command: &ReadCommand) -> &[u8] {
    match &command.partitions {
        Partitions::Key(key) => key,
        Partitions::Range { .. } => &[],
    }
}

/// A column of that key.
fn key_value(command: &ReadCommand, key_count: usize, position: u16) -> Option<&[u8]> {
    partition_key_component(key_of(command), key_count, position as usize)
}

/// Appends a column of the keys of a row.
// Always, for the same reason as `ColumnPlan::write_live`.
#[inline(always)]
fn put_piece(
    out: &mut Vec<u8>,
    piece: &RowPiece,
    key: &[u8],
    (schema, command): (&TableSchema, &ReadCommand),
) {
    let value = match piece {
        RowPiece::Regulars => return,
        RowPiece::Clustering(position) => clustering_components(key).nth(*position as usize),
        RowPiece::PartitionKey(position) => {
            key_value(command, schema.partition_key_count, *position)
        }
    };
    put_value(out, value);
}

/// Appends a value as the native protocol has it.
#[inline]
fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => out.put_u32_bytes(value),
        None => out.put_i32(-1),
    }
}

/// Puts what keeps a row in place of the null that ends its columns.
fn put_liveness(schema: &TableSchema, row: RowView<'_>, sight: Sight, bytes: &mut Vec<u8>) {
    debug_assert!(bytes.ends_with(&(-1i32).to_be_bytes()), "a row without its liveness");
    bytes.truncate(bytes.len() - 4);
    let parts = row::live_parts(schema, row, sight.shadow, sight.now);
    bytes.put_u32_bytes(&parts.to_be_bytes());
}

fn patch_length(bytes: &mut [u8], values_at: usize) {
    let length = u32::try_from(bytes.len() - values_at).expect("a row is under 4 GiB");
    bytes[values_at - 4..values_at].copy_from_slice(&length.to_be_bytes());
}

impl PartitionSink for QueryCompactor<'_> {
    #[inline]
    fn begin(&mut self, key: &[u8], tombstone: Tombstone) -> Step {
        QueryCompactor::begin(self, key, tombstone)
    }
    #[inline]
    fn static_row(&mut self, row: RowView<'_>) -> Step {
        QueryCompactor::static_row(self, row)
    }
    #[inline]
    fn row_blob(&mut self, key: &[u8], blob: &[u8]) -> Step {
        QueryCompactor::row_blob(self, key, blob)
    }
    #[inline]
    fn change(&mut self, position: (&[u8], i8), tombstone: Tombstone) -> Step {
        QueryCompactor::change(self, position, tombstone)
    }
    #[inline]
    fn end(&mut self) -> Step {
        QueryCompactor::end(self)
    }
}
