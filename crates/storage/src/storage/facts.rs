//! What there is to tell of a table's SSTables, for operators.
//!
//! Lives on: every shard. Sees: the SSTables of this shard.
//!
//! Invariants
//!  - *ascend*: bounds of histograms ascend, and the smallest of something is no larger than the
//!    largest.

use super::Storage;
use model::{TableId, TableSchema};
use reader::ReadError;
use runtime::Erased;
use runtime::io::{IoClass, IoError, fs};
use sstable::store::relocate::QUARANTINE;
use sstable::{Access, Component, Lookup, Version, store};
use std::path::PathBuf;
use std::rc::Rc;
use stdx::Bytes;

/// An SSTable.
#[derive(Clone, Debug, PartialEq)]
pub struct SstableFacts {
    pub dir: PathBuf,
    pub generation: String,
    pub version: Version,
    pub level: u32,
    /// When it was written, in microseconds since 1970, where its name says so.
    pub made_at: Option<i64>,
    /// Bytes of all its files.
    pub disk_bytes: u64,
    /// Uncompressed.
    pub data_bytes: u64,
    /// Bytes of the files that say where partitions are.
    pub index_bytes: u64,
    /// Bytes of its filter's file.
    pub filter_bytes: u64,
    /// Compressed to uncompressed bytes; -1 without compression.
    pub compression_ratio: f64,
    pub repaired_at: i64,
    pub rows: u64,
    /// Partitions, about.
    pub partitions: u64,
    /// Deletions, and cells that expire.
    pub tombstones: u64,
    /// Of these the ones that are older than `gc_grace_seconds`: a compaction may drop them.
    pub droppable: u64,
    /// Of the oldest and of the newest write.
    pub timestamps: (i64, i64),
}

/// The SSTables of a table in figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableFacts {
    /// SSTables of each level of leveled compaction.
    pub levels: Vec<u64>,
    /// How many partitions have so many bytes: bounds that ascend.
    pub partition_bytes: Vec<(i64, u64)>,
    /// How many partitions have so many cells.
    pub partition_cells: Vec<(i64, u64)>,
    /// Estimated bytes of the smallest and of the largest partition.
    pub partition_bytes_min: u64,
    pub partition_bytes_max: u64,
    /// Partitions of all SSTables, duplicates counted.
    pub partitions: u64,
    /// Estimated bytes of all partitions.
    pub partition_bytes_sum: f64,
    /// Bytes of memory of filters and of what is kept of indexes.
    pub memory_bytes: u64,
    /// Bytes of data, uncompressed, and on the disk.
    pub data_bytes: u64,
    pub file_bytes: u64,
}

/// Adds one histogram to another; both ascend.
pub fn merge_histograms(into: &mut Vec<(i64, u64)>, other: &[(i64, u64)]) {
    debug_assert!(into.is_sorted_by(|a, b| a.0 < b.0), "ascend: {into:?}");
    debug_assert!(other.is_sorted_by(|a, b| a.0 < b.0), "ascend: {other:?}");
    for (bound, count) in other {
        match into.binary_search_by_key(bound, |(known, _)| *known) {
            Ok(at) => into[at].1 += count,
            Err(at) => into.insert(at, (*bound, *count)),
        }
    }
}

impl TableFacts {
    /// With those of another shard.
    pub fn merge(&mut self, other: &TableFacts) {
        let count = self.levels.len().max(other.levels.len());
        self.levels.resize(count, 0);
        self.levels.iter_mut().zip(&other.levels).for_each(|(mine, its)| *mine += its);
        merge_histograms(&mut self.partition_bytes, &other.partition_bytes);
        merge_histograms(&mut self.partition_cells, &other.partition_cells);
        if 0 < other.partitions {
            self.partition_bytes_min = match self.partitions {
                0 => other.partition_bytes_min,
                _ => self.partition_bytes_min.min(other.partition_bytes_min),
            };
        }
        self.partition_bytes_max = self.partition_bytes_max.max(other.partition_bytes_max);
        debug_assert!(
            self.partition_bytes_min <= self.partition_bytes_max,
            "ascend: the smallest of {} bytes, the largest of {}",
            self.partition_bytes_min,
            self.partition_bytes_max
        );
        self.partitions += other.partitions;
        self.partition_bytes_sum += other.partition_bytes_sum;
        self.memory_bytes += other.memory_bytes;
        self.data_bytes += other.data_bytes;
        self.file_bytes += other.file_bytes;
    }

    fn add(&mut self, one: &sstable::Table) {
        let stats = one.stats();
        let level = stats.level as usize;
        if self.levels.len() <= level && level < 64 {
            self.levels.resize(level + 1, 0);
        }
        if let Some(count) = self.levels.get_mut(level) {
            *count += 1;
        }
        let bytes: Vec<(i64, u64)> = stats.partition_sizes.bounded().collect();
        let cells: Vec<(i64, u64)> = stats.cell_counts.bounded().collect();
        let partitions = stats.partition_sizes.count();
        self.merge(&TableFacts {
            levels: Vec::new(),
            partition_bytes_min: bytes.first().map_or(0, |(bound, _)| (*bound).max(0) as u64),
            partition_bytes_max: bytes.last().map_or(0, |(bound, _)| (*bound).max(0) as u64),
            partition_bytes: bytes,
            partition_cells: cells,
            partitions,
            partition_bytes_sum: stats.partition_sizes.mean() * partitions as f64,
            memory_bytes: one.memory_bytes() as u64,
            data_bytes: one.data_bytes(),
            file_bytes: match stats.compression_ratio {
                ratio if 0.0 < ratio => (one.data_bytes() as f64 * ratio) as u64,
                _ => one.data_bytes(),
            },
        });
    }
}

impl Storage {
    /// The SSTables of a table in figures; of an unknown one nothing.
    pub fn table_facts(&self, id: TableId) -> TableFacts {
        let mut facts = TableFacts::default();
        let tables = self.shard().table(id);
        tables.iter().flat_map(|table| table.sstables()).for_each(|one| facts.add(&one));
        facts
    }

    /// The SSTables of a table, with the bytes of their files; of an unknown one none.
    pub fn sstable_facts(&self, id: TableId) -> Erased<'_, Result<Vec<SstableFacts>, IoError>> {
        Erased::new(move || async move {
            let Some(table) = self.shard().table(id) else { return Ok(Vec::new()) };
            let grace = i64::from(table.schema().options.gc_grace_seconds);
            let gc_before = runtime::time::wall_micros().div_euclid(1_000_000) - grace;
            let mut all = Vec::new();
            for one in table.sstables() {
                let (mut disk_bytes, mut index_bytes, mut filter_bytes) = (0, 0, 0);
                let mut gone = false;
                for suffix in one.components().suffixes() {
                    let path = one.dir().join(one.descriptor().file_name_of(suffix));
                    let len = match fs::len(&path).await {
                        Ok(len) => len,
                        // Merged meanwhile.
                        Err(_) if !fs::exists(&path).await? => {
                            gone = true;
                            break;
                        }
                        Err(error) => return Err(error),
                    };
                    disk_bytes += len;
                    match suffix {
                        "Index.db" | "Summary.db" | "Partitions.db" | "Rows.db" => {
                            index_bytes += len
                        }
                        "Filter.db" => filter_bytes += len,
                        _ => {}
                    }
                }
                if gone {
                    continue;
                }
                let (descriptor, stats) = (one.descriptor(), one.stats());
                all.push(SstableFacts {
                    dir: one.dir().to_owned(),
                    generation: descriptor.generation.to_string(),
                    version: descriptor.version,
                    level: stats.level,
                    made_at: descriptor.generation.made_at_micros(),
                    disk_bytes,
                    data_bytes: one.data_bytes(),
                    index_bytes,
                    filter_bytes,
                    compression_ratio: stats.compression_ratio,
                    repaired_at: stats.repaired_at,
                    rows: stats.rows_count,
                    partitions: stats.partition_sizes.count(),
                    tombstones: stats.tombstones.count_until(i64::MAX),
                    droppable: stats.tombstones.count_until(gc_before.saturating_sub(1)),
                    timestamps: one.timestamps(),
                });
            }
            Ok(all)
        })
    }

    /// The paths of the data files of this shard that have something of a partition.
    pub fn files_of_key<'a>(
        &'a self,
        id: TableId,
        key: &'a [u8],
    ) -> Erased<'a, Result<Vec<String>, ReadError>> {
        Erased::new(move || async move {
            let Some(table) = self.shard().table(id) else { return Ok(Vec::new()) };
            let lookup = Lookup::new(Bytes::copy_from(key));
            let access = Access::bypass(IoClass::Query);
            let mut found = Vec::new();
            for one in table.sstables() {
                if stdx::injection::reached("advance_lower_and_check_if_present") {
                    return Err(ReadError::Overloaded("an injected error".to_owned()));
                }
                if one.may_contain(&lookup) && one.index().find(&lookup, &access).await?.is_some() {
                    let path = one.descriptor().path(one.dir(), Component::Data);
                    found.push(path.display().to_string());
                }
            }
            Ok(found)
        })
    }

    /// Memtables of a table that are to be written to SSTables.
    pub fn pending_flushes(&self, id: TableId) -> usize {
        self.shard().table(id).map_or(0, |table| table.sealed_memtables().len())
    }

    /// The class of a table's compaction strategy, as this shard obeys it.
    pub fn compaction_class(&self, id: TableId) -> Option<String> {
        let schema = self.shard().table(id)?.schema();
        let class = schema.options.compaction.iter().find(|(name, _)| name == "class");
        class.map(|(_, class)| class.clone())
    }

    /// Has this shard obey another strategy, with its defaults, until the schema of the table
    /// changes. An unknown table is ignored.
    pub fn set_compaction_class(&self, id: TableId, class: &str) {
        let Some(table) = self.shard().table(id) else { return };
        let mut schema = TableSchema::clone(&table.schema());
        let kept = |name: &str| matches!(name, "enabled");
        schema.options.compaction.retain(|(name, _)| kept(name));
        schema.options.compaction.insert(0, ("class".to_owned(), class.to_owned()));
        self.alter_table(Rc::new(schema));
        self.shard().compaction_wake.notify_one();
    }

    /// Removes what lies in `quarantine/` of tables; how many SSTables that were. On shard 0 alone.
    pub fn drop_quarantined<'a>(
        &'a self,
        tables: &'a [TableId],
    ) -> Erased<'a, Result<u64, IoError>> {
        Erased::new(move || async move {
            assert!(runtime::shard_id() == 0, "what is quarantined is seen to by shard 0");
            let mut dropped = 0;
            for id in tables {
                let Some(table) = self.shard().table(*id) else { continue };
                let _alone = table.loading.acquire(1).await;
                let aside = table.dir.join(QUARANTINE);
                if !fs::exists(&aside).await? {
                    continue;
                }
                for found in store::list(&aside).await?.tables {
                    store::remove(&aside, found.descriptor).await?;
                    dropped += 1;
                }
            }
            Ok(dropped)
        })
    }

    /// Whether merges may forget deletions of the table, as its options say.
    pub fn tombstone_gc(&self, id: TableId) -> bool {
        self.shard().table(id).is_some_and(|table| table.tombstone_gc.get())
    }

    /// Whether merges may forget deletions of the table, from now until the node stops. An unknown
    /// table is ignored.
    pub fn set_tombstone_gc(&self, id: TableId, wanted: bool) {
        if let Some(table) = self.shard().table(id) {
            table.tombstone_gc.set(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_merged_by_their_bounds() {
        let check = |a: &[(i64, u64)], b: &[(i64, u64)], expected: &[(i64, u64)]| {
            let mut sum = a.to_vec();
            merge_histograms(&mut sum, b);
            assert_eq!(sum, expected);
        };
        check(&[], &[(1, 2)], &[(1, 2)]);
        check(&[(1, 1), (5, 2)], &[(1, 3), (3, 4), (9, 1)], &[(1, 4), (3, 4), (5, 2), (9, 1)]);
    }

    #[test]
    fn figures_of_shards_add_up() {
        let one = |levels: &[u64], min, max, partitions| TableFacts {
            levels: levels.to_vec(),
            partition_bytes_min: min,
            partition_bytes_max: max,
            partitions,
            ..TableFacts::default()
        };
        let mut sum = TableFacts::default();
        for other in [one(&[1], 0, 0, 0), one(&[2, 3], 50, 90, 3), one(&[1], 60, 100, 1)] {
            sum.merge(&other);
        }
        assert_eq!(sum, one(&[4, 3], 50, 100, 4));
    }
}
