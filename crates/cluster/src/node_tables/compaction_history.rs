//! The rows of `system.compaction_history`: compactions that have ended, for a week.
//!
//! SSTables are identified by the UUIDs of their names; numbers, as in older clusters, as UUIDs
//! without a time.

use crate::schema::Schema;
use catalog::rows::Row;
use catalog::rows::partition::{PartitionWriter, Value, bigint, int, text};
use catalog::uuids::time_uuid;
use model::Uuid;
use model::value::collection::{fields, list_elements, map_entries};
use mutation::{FrozenMutation, PurgeCounts};
use stdx::Put;
use storage::{CompactedSstable, FinishedCompaction, Generation};

/// The table.
pub(crate) const TABLE: &str = "compaction_history";

/// Seconds for which the row of a compaction is kept: a week.
const HISTORY_SECS: i32 = 604_800;

const TRIED: &str = "total_tombstone_purge_attempt";
const KEPT_FOR_MEMTABLES: &str = "total_tombstone_purge_failure_due_to_overlapping_with_memtable";
const KEPT_FOR_SSTABLES: &str =
    "total_tombstone_purge_failure_due_to_overlapping_with_uncompacting_sstable";

/// The row of a compaction that has ended on a shard.
pub(crate) fn compacted(schema: &Schema, shard: u16, done: &FinishedCompaction) -> FrozenMutation {
    let history = &schema.table("system", TABLE).expect("a system table").schema;
    let (job, ended, purges) = (&done.job, done.ended_micros, done.purges);
    debug_assert!(job.started_micros <= ended, "ended-later: {} to {ended}", job.started_micros);
    let kept = purges.kept_for_memtables + purges.kept_for_sstables;
    debug_assert!(kept <= purges.tried, "purged: {kept} of {} were kept", purges.tried);
    let partition = PartitionWriter::new(history, &[job.id.as_bytes()], ended);
    let mut partition = partition.expires_after(HISTORY_SECS);
    let bytes = |count: u64| bigint(count.min(i64::MAX as u64) as i64);
    let merged = done.merged.iter().map(|(inputs, fragments)| {
        (inputs.to_be_bytes().to_vec(), fragments.to_be_bytes().to_vec())
    });
    let cells = vec![
        ("bytes_in", bytes(job.bytes_in)),
        ("bytes_out", bytes(done.bytes_out)),
        ("columnfamily_name", text(&job.name)),
        ("compacted_at", bigint(ended.div_euclid(1000))),
        ("compaction_type", text(job.kind)),
        ("keyspace_name", text(&job.keyspace)),
        ("rows_merged", Some(Value::Entries(merged.collect()))),
        ("shard_id", int(shard.into())),
        ("sstables_in", list_of(&done.inputs, ended)),
        ("sstables_out", list_of(&done.outputs, ended)),
        ("started_at", bigint(job.started_micros.div_euclid(1000))),
        (TRIED, bytes(purges.tried)),
        (KEPT_FOR_MEMTABLES, bytes(purges.kept_for_memtables)),
        (KEPT_FOR_SSTABLES, bytes(purges.kept_for_sstables)),
    ];
    partition.row(&[], cells);
    partition.freeze()
}

/// A list of user types; the cells of a list are named by UUIDs in its order.
fn list_of(sstables: &[CompactedSstable], micros: i64) -> Option<Value> {
    let element = |(nth, one): (usize, &CompactedSstable)| {
        let name = time_uuid(micros + nth as i64, 0).as_bytes().to_vec();
        let mut value = Vec::new();
        value.put_u32_bytes(one.generation.to_uuid().as_bytes());
        value.put_u32_bytes(one.origin.as_bytes());
        value.put_u32_bytes(&one.disk_bytes.to_be_bytes());
        (name, value)
    };
    Some(Value::Entries(sstables.iter().enumerate().map(element).collect()))
}

/// A compaction that has ended, as the table has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionRecord {
    pub id: Uuid,
    pub keyspace: String,
    pub table: String,
    /// What was done.
    pub kind: String,
    pub shard: i32,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// Milliseconds since 1970.
    pub ended_at: i64,
    /// Bytes on the disk.
    pub bytes_in: i64,
    pub bytes_out: i64,
    /// How many fragments so many inputs had.
    pub merged: Vec<(u32, u64)>,
    /// What became of deletions that were old enough to be forgotten.
    pub purges: PurgeCounts,
    pub inputs: Vec<CompactedSstable>,
    pub outputs: Vec<CompactedSstable>,
}

impl CompactionRecord {
    /// What a row says; what it does not is empty.
    pub(crate) fn of(row: &Row) -> CompactionRecord {
        let bytes = |name: &str| row.get(name).map(Vec::as_slice).unwrap_or_default();
        let text = |name| String::from_utf8_lossy(bytes(name)).into_owned();
        let bigint = |name| bytes(name).try_into().map_or(0, i64::from_be_bytes);
        let count = |name| bigint(name).max(0) as u64;
        let merged = map_entries(bytes("rows_merged")).filter_map(|(inputs, fragments)| {
            let inputs = u32::from_be_bytes(inputs.try_into().ok()?);
            Some((inputs, u64::from_be_bytes(fragments.try_into().ok()?)))
        });
        CompactionRecord {
            id: bytes("id").try_into().map_or(Uuid::nil(), Uuid::from_bytes),
            keyspace: text("keyspace_name"),
            table: text("columnfamily_name"),
            kind: text("compaction_type"),
            shard: bytes("shard_id").try_into().map_or(0, i32::from_be_bytes),
            started_at: bigint("started_at"),
            ended_at: bigint("compacted_at"),
            bytes_in: bigint("bytes_in"),
            bytes_out: bigint("bytes_out"),
            merged: merged.collect(),
            purges: PurgeCounts {
                tried: count(TRIED),
                kept_for_memtables: count(KEPT_FOR_MEMTABLES),
                kept_for_sstables: count(KEPT_FOR_SSTABLES),
            },
            inputs: sstables_of(bytes("sstables_in")),
            outputs: sstables_of(bytes("sstables_out")),
        }
    }
}

fn sstables_of(list: &[u8]) -> Vec<CompactedSstable> {
    let sstable = |element: &[u8]| {
        let mut fields = fields(element).map_while(Result::ok).map(Option::unwrap_or_default);
        let generation = Uuid::from_slice(fields.next()?).ok()?;
        Some(CompactedSstable {
            generation: Generation::of_uuid(generation),
            origin: String::from_utf8_lossy(fields.next()?).into_owned(),
            disk_bytes: u64::from_be_bytes(fields.next()?.try_into().ok()?),
        })
    };
    list_elements(list).map_while(Result::ok).flatten().filter_map(sstable).collect()
}
