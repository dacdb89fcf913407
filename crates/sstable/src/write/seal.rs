//! Sealing: the components that are written when the data is complete, and the rename that makes
//! an SSTable of them (storage-format reference, section 1.1).
//!
//! Invariants
//!  - *toc-agrees*: what the TOC names is what was written, each once.
//!  - *statistics-agree*: minimums are not above maximums, and counts are those of the file.

use crate::compress::Compression;
use crate::compress::output::{DataSummary, crc_file};
use crate::filter::{Filter, put_words};
use crate::mx::header::SerializationHeader;
use crate::mx::layout::NO_DELETION_TIME;
use crate::scylla::{Metadata, SHARE, features, schema_part};
use crate::statistics::cardinality::Cardinality;
use crate::statistics::{Collector, CommitlogPosition, PARTITIONER, Statistics, Stats};
use crate::store::output::write_whole;
use crate::store::{Component, Descriptor, Generation};
use crate::write::index::{IndexWriter, WrittenIndex};
use crate::write::options::{Sealed, WriterOptions};
use model::{DecoratedKey, TableSchema};
use runtime::io::{IoClass, IoError, fs};
use runtime::task::yield_if_needed;
use std::path::PathBuf;
use std::rc::Rc;
use stdx::checksum::crc32;

/// Words of a filter that are serialized before others may run.
const STEP_WORDS: usize = 16 << 10;

/// What a writer leaves behind when data and index are durable.
pub(super) struct Written {
    pub(super) dir: PathBuf,
    pub(super) descriptor: Descriptor,
    pub(super) schema: Rc<TableSchema>,
    pub(super) header: SerializationHeader,
    pub(super) options: WriterOptions,
    pub(super) class: IoClass,
    pub(super) data: DataSummary,
    pub(super) index: WrittenIndex,
    pub(super) filter: Option<Filter>,
    pub(super) cardinality: Cardinality,
    pub(super) stats: Collector,
    pub(super) first: DecoratedKey,
    pub(super) last: DecoratedKey,
    pub(super) partitions: u64,
}

/// The components of an SSTable that is written with these options.
pub(super) fn components(options: &WriterOptions) -> Vec<Component> {
    let mut components = vec![
        Component::Data,
        Component::Statistics,
        Component::Digest,
        Component::Toc,
        Component::Scylla,
    ];
    components.extend(IndexWriter::components(options.version.has_trie_index()));
    assert!(options.version.is_written(), "{} is not written", options.version.name());
    components.push(match options.compression {
        Compression::None => Component::Crc,
        Compression::Chunks { .. } => Component::CompressionInfo,
    });
    if options.bloom_fp_chance < 1.0 {
        components.push(Component::Filter);
    }
    components
}

/// Writes the remaining components and makes the SSTable exist.
pub(super) async fn seal(written: Written) -> Result<Sealed, IoError> {
    let Written { dir, descriptor, options, class, data, .. } = &written;
    let mut small: Vec<(Component, Vec<u8>)> = Vec::new();
    small.push((Component::Digest, data.digest.to_string().into_bytes()));
    match &data.side {
        Err(checksums) => small.push((Component::Crc, crc_file(checksums))),
        Ok(chunks) => {
            let mut out = Vec::new();
            chunks.put(&mut out);
            small.push((Component::CompressionInfo, out));
        }
    }
    if let Some(filter) = &written.filter {
        let mut out = Vec::new();
        filter.put_head(&mut out);
        for step in filter.words().chunks(STEP_WORDS) {
            put_words(step, &mut out);
            yield_if_needed().await;
        }
        small.push((Component::Filter, out));
    }
    let statistics = statistics(&written).to_bytes(written.descriptor.version);
    small.push((Component::Statistics, statistics));
    let stats = &written.stats;
    if let Some(summary) = &written.index.summary {
        let mut out = Vec::new();
        let summary = summary.clone().finish(&written.first.key, &written.last.key);
        summary.expect("a file with partitions has a summary").put(&mut out);
        small.push((Component::Summary, out));
    }
    let named = components(options);
    let toc = crate::store::toc::to_bytes(&named);
    let metadata = metadata(&written, &small, crc32(&toc)).to_bytes();
    small.push((Component::Scylla, metadata));
    let index_bytes: u64 = written.index.files.iter().map(|(_, _, bytes)| bytes).sum();
    let there = small.iter().map(|(component, _)| component);
    let there = there.chain(written.index.files.iter().map(|(component, ..)| component));
    let there = there.filter(|component| named.contains(component)).count();
    // Data.db and the TOC are neither.
    let all = small.len() + written.index.files.len();
    assert!(there == all && all + 2 == named.len(), "toc-agrees: {there} of {named:?}");
    let mut disk_bytes = data.file_bytes + index_bytes + toc.len() as u64;
    for (component, bytes) in &small {
        write_whole(&descriptor.path(dir, *component), bytes, *class).await?;
        disk_bytes += bytes.len() as u64;
    }
    fs::sync_dir(dir).await?;
    let temporary = descriptor.path(dir, Component::TemporaryToc);
    fs::rename(&temporary, descriptor.path(dir, Component::Toc)).await?;
    fs::sync_dir(dir).await?;
    Ok(Sealed {
        descriptor: *descriptor,
        first: written.first.clone(),
        last: written.last.clone(),
        partitions: written.partitions,
        rows: stats.rows,
        data_file_bytes: data.file_bytes,
        disk_bytes,
        timestamps: (stats.timestamps.min_or(0), stats.timestamps.max_or(0)),
    })
}

fn statistics(written: &Written) -> Statistics {
    let Written { stats, options, data, .. } = written;
    let (min_clustering, max_clustering) = stats.clustering_bounds();
    assert!(min_clustering.len() == max_clustering.len(), "statistics-agree: clustering");
    let partitions = stats.partition_sizes.count();
    assert!(partitions == written.partitions, "statistics-agree: {partitions} partitions");
    assert!(stats.cell_counts.count() == partitions, "statistics-agree: partitions by cells");
    if let Some((lower, upper)) = options.commitlog {
        debug_assert!(lower <= upper, "statistics-agree: commitlog from {lower:?} to {upper:?}");
    }
    let none = CommitlogPosition::NONE;
    let (commitlog_lower, commitlog_upper) = options.commitlog.unwrap_or((none, none));
    let compression_ratio = match data.side {
        Ok(_) => data.file_bytes as f64 / data.data_bytes.max(1) as f64,
        Err(_) => -1.0,
    };
    Statistics {
        partitioner: PARTITIONER.to_string(),
        bloom_fp_chance: options.bloom_fp_chance,
        cardinality: written.cardinality.to_bytes(),
        stats: Stats {
            partition_sizes: stats.partition_sizes.clone(),
            cell_counts: stats.cell_counts.clone(),
            commitlog_upper,
            min_timestamp: stats.timestamps.min_or(0),
            max_timestamp: stats.timestamps.max_or(0),
            min_deletion_time: stats.deletion_times.min_or(NO_DELETION_TIME).into(),
            max_deletion_time: stats.deletion_times.max_or(NO_DELETION_TIME).into(),
            min_ttl: stats.ttls.min_or(0),
            max_ttl: stats.ttls.max_or(0),
            compression_ratio,
            tombstones: stats.tombstones.clone(),
            level: options.level,
            repaired_at: options.repaired_at,
            min_clustering,
            max_clustering,
            legacy_counter_shards: false,
            columns_count: stats.cells,
            rows_count: stats.rows,
            commitlog_lower,
            commitlog_intervals: options.commitlog.into_iter().collect(),
            host_id: options.host_id,
            additions: Default::default(),
        },
        header: written.header.clone(),
    }
}

fn metadata(written: &Written, small: &[(Component, Vec<u8>)], toc_crc: u32) -> Metadata {
    let Written { stats, options, .. } = written;
    assert!(written.first <= written.last, "statistics-agree: {:?} is the first", written.first);
    let identifier = match written.descriptor.generation {
        Generation::Time(uuid) => Some(uuid),
        Generation::Number(_) => None,
    };
    let mut digests: Vec<(u32, u32)> = small
        .iter()
        .filter_map(|(component, bytes)| Some((component.number()?, crc32(bytes))))
        .collect();
    let index = written.index.files.iter().map(|(component, crc, _)| (*component, *crc));
    let others = [(Component::Data, written.data.digest), (Component::Toc, toc_crc)];
    for (component, crc) in index.chain(others) {
        digests.extend(component.number().map(|number| (number, crc)));
    }
    digests.sort_unstable();
    let once = digests.windows(2).all(|pair| pair[0].0 < pair[1].0);
    assert!(once, "toc-agrees: two digests of a component");
    let mut timestamps = vec![(1, stats.live_timestamps.min_or(i64::MAX))];
    timestamps.push((2, stats.marker_timestamps.min_or(i64::MAX)));
    Metadata {
        tokens: Some((written.first.token.0, written.last.token.0)),
        features: features::ALL,
        run_id: options.run_id.or(identifier),
        extensions: share_of(options),
        large_data: vec![
            (1, stats.large_partition),
            (2, stats.large_row),
            (3, stats.large_cell),
            (4, stats.many_rows),
            (5, stats.many_elements),
        ],
        origin: options.origin.clone(),
        version: concat!("Nereid ", env!("CARGO_PKG_VERSION")).to_string(),
        timestamps,
        sstable_id: identifier,
        schema: schema_part(&written.schema),
        digests,
        large_records: stats.large_records(),
        ..Metadata::default()
    }
}

/// The extension attribute of a file with one part of a ring.
fn share_of(options: &WriterOptions) -> Vec<(String, String)> {
    options.share.map(|share| (SHARE.to_string(), share.to_string())).into_iter().collect()
}
