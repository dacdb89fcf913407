//! From fragments to a page of an answer.

use super::columns::{ColumnPlan, Sight};
use crate::fragment::Fragment;
use crate::page::{Page, Partitions, ReadCommand, Resume};
use crate::range::{ClusteringPosition, Direction};
use crate::row::{self, RowView};
use crate::tombstone::Tombstone;
use model::TableSchema;
use stdx::{Bytes, Put};

/// What the reader of the source has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give the next fragment.
    Continue,
    /// Nothing more is wanted of this partition: skip to the next one. Fragments of this one are
    /// ignored, and its end need not come.
    NextPartition,
    /// The page is full or all is answered.
    Stop,
}

/// Consumes the fragments of what a command slices and writes its page: applies deletions and
/// expiry, leaves out what is dead, counts, and stops at the command's limits. One allocation per
/// page of up to 512 bytes, more as it grows.
pub struct QueryCompactor<'c> {
    schema: &'c TableSchema,
    command: &'c ReadCommand,
    statics: ColumnPlan<'c>,
    regulars: ColumnPlan<'c>,
    page: Page,
    partition: Option<Partition>,
    stopped: bool,
}

/// The partition at hand.
struct Partition {
    key: Bytes,
    tombstone: Tombstone,
    range: Tombstone,
    /// Where it starts in the page, and where its static flag stands.
    start: usize,
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

impl<'c> QueryCompactor<'c> {
    /// For a stream of what `command` reads, from its resume point on.
    pub fn new(schema: &'c TableSchema, command: &'c ReadCommand) -> QueryCompactor<'c> {
        let layout = command.layout();
        QueryCompactor {
            schema,
            command,
            statics: ColumnPlan::new(layout.statics()),
            regulars: ColumnPlan::new(layout.regulars()),
            page: Page { bytes: Vec::with_capacity(512), ..Page::default() },
            partition: None,
            stopped: false,
        }
    }

    /// Takes the next fragment. After [`Step::Stop`] every answer is `Stop`.
    pub fn consume(&mut self, fragment: &Fragment) -> Step {
        if self.stopped {
            return Step::Stop;
        }
        match fragment {
            Fragment::PartitionStart { key, tombstone } => self.begin(key.key.clone(), *tombstone),
            Fragment::StaticRow { row } => self.static_row(RowView::trusted(row)),
            Fragment::Row { key, row } => self.row(key, RowView::trusted(row)),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.change(position, *tombstone)
            }
            Fragment::PartitionEnd => self.end(),
        }
    }

    /// The page: complete after [`Step::Stop`], or when the source is at its end.
    pub fn finish(mut self) -> Page {
        if self.partition.is_some() {
            self.close();
        }
        self.page
    }

    fn begin(&mut self, key: Bytes, tombstone: Tombstone) -> Step {
        assert!(self.partition.is_none(), "a partition started inside another one");
        let resume = self.command.resume.as_ref();
        let resume = resume.filter(|resume| resume.key[..] == key[..]);
        if resume.is_some_and(|resume| resume.after.is_none()) {
            return Step::NextPartition; // It was answered in full.
        }
        let start = self.page.bytes.len();
        self.page.bytes.put_vint_bytes(&key);
        let static_at = self.page.bytes.len();
        self.page.bytes.put_u8(0);
        let counts_at = self.page.bytes.len();
        self.page.bytes.put_u64(0);
        if !tombstone.is_none() {
            self.page.tombstones_seen += 1;
        }
        self.partition = Some(Partition {
            key,
            tombstone,
            range: Tombstone::NONE,
            start,
            static_at,
            counts_at,
            static_live: false,
            rows_here: 0,
            rows_before: resume.map_or(0, |resume| resume.rows_in_partition),
        });
        Step::Continue
    }

    fn static_row(&mut self, row: RowView<'_>) -> Step {
        let Some(partition) = &mut self.partition else { return Step::NextPartition };
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
        if any {
            patch_length(bytes, values_at);
        } else {
            bytes.truncate(partition.static_at);
            bytes.put_u8(0);
        }
        partition.counts_at = bytes.len();
        bytes.put_u64(0);
        Step::Continue
    }

    fn row(&mut self, key: &Bytes, row: RowView<'_>) -> Step {
        let Some(partition) = &mut self.partition else { return Step::NextPartition };
        let shadow = partition.tombstone.merge(partition.range);
        let sight = Sight { shadow: shadow.merge(row.deletion()), now: self.command.now };
        let bytes = &mut self.page.bytes;
        let start = bytes.len();
        bytes.put_vint_bytes(key);
        bytes.put_u32(0);
        let values_at = bytes.len();
        let any = self.regulars.write(self.schema, row, sight, bytes);
        if !any && !row::is_live(self.schema, row, shadow, sight.now) {
            bytes.truncate(start);
            self.page.tombstones_seen += 1;
            if self.command.tombstone_limit <= self.page.tombstones_seen {
                return self.cut((key, self.weight_after_row()));
            }
            return Step::Continue;
        }
        patch_length(bytes, values_at);
        partition.rows_here += 1;
        self.page.row_count += 1;
        if self.command.per_partition_limit <= partition.rows() {
            return self.leave_partition();
        }
        if self.is_full() {
            return self.cut((key, self.weight_after_row()));
        }
        Step::Continue
    }

    fn change(&mut self, position: &ClusteringPosition, tombstone: Tombstone) -> Step {
        let Some(partition) = &mut self.partition else { return Step::NextPartition };
        partition.range = tombstone;
        if tombstone.is_none() {
            return Step::Continue;
        }
        self.page.tombstones_seen += 1;
        // A page that starts inside a range begins with the change that opens it: cutting there
        // again would not get us any further.
        let resume = self.command.resume.as_ref().and_then(|resume| resume.after.as_ref());
        let advanced =
            resume.is_none_or(|(prefix, weight)| (&prefix[..], *weight) != position.as_parts());
        if self.command.tombstone_limit <= self.page.tombstones_seen && advanced {
            return self.cut(position.as_parts());
        }
        Step::Continue
    }

    fn end(&mut self) -> Step {
        if self.partition.is_none() {
            return Step::Continue; // The end of a partition that was left before.
        }
        match self.leave_partition() {
            Step::NextPartition => Step::Continue,
            step => step,
        }
    }

    /// Ends the page inside the partition.
    fn cut(&mut self, (prefix, weight): (&[u8], i8)) -> Step {
        if let Some(partition) = &self.partition {
            let key = partition.key.to_vec();
            let rows_in_partition = partition.rows();
            let after = Some((prefix.to_vec(), weight));
            self.page.resume = Some(Resume { key, after, rows_in_partition });
        }
        self.write_counts();
        self.stopped = true;
        Step::Stop
    }

    /// The partition is done: ends the page if that is enough.
    fn leave_partition(&mut self) -> Step {
        let key = self.close();
        let full = self.is_full() || self.command.partition_limit <= self.page.partition_count;
        let single = matches!(self.command.partitions, Partitions::Key(_));
        if !full && !single {
            return Step::NextPartition;
        }
        if !single {
            let key = key.to_vec();
            self.page.resume = Some(Resume { key, after: None, rows_in_partition: 0 });
        }
        self.stopped = true;
        Step::Stop
    }

    /// Counts a partition all of whose fragments have come; one with nothing but a live static
    /// row yields a row.
    fn close(&mut self) -> Bytes {
        let Some(partition) = &self.partition else { return Bytes::new() };
        let without_rows = partition.rows() == 0;
        if without_rows && partition.static_live && self.command.static_only_rows {
            self.page.row_count += 1;
            self.page.partition_count += 1;
            return self.partition.take().map_or(Bytes::new(), |partition| partition.key);
        }
        self.write_counts()
    }

    /// Completes the partition's header; takes out a partition without rows.
    fn write_counts(&mut self) -> Bytes {
        let Some(partition) = self.partition.take() else { return Bytes::new() };
        if partition.rows_here == 0 {
            self.page.bytes.truncate(partition.start);
            return partition.key;
        }
        let at = partition.counts_at;
        let bytes = &mut self.page.bytes;
        let rows_bytes = u32::try_from(bytes.len() - at - 8).expect("a page is under 4 GiB");
        bytes[at..at + 4].copy_from_slice(&partition.rows_here.to_be_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&rows_bytes.to_be_bytes());
        if partition.rows_before == 0 {
            self.page.partition_count += 1;
        }
        partition.key
    }

    fn is_full(&self) -> bool {
        self.command.row_limit <= self.page.row_count
            || self.command.bytes_max <= self.page.bytes.len()
            || self.command.tombstone_limit <= self.page.tombstones_seen
    }

    fn weight_after_row(&self) -> i8 {
        match self.command.direction() {
            Direction::Forward => 1,
            Direction::Reversed => -1,
        }
    }
}

fn patch_length(bytes: &mut [u8], values_at: usize) {
    let length = u32::try_from(bytes.len() - values_at).expect("a row is under 4 GiB");
    bytes[values_at - 4..values_at].copy_from_slice(&length.to_be_bytes());
}
