//! The index of an SSTable that is being written, in either form.
//!
//! Memory: of the big format the summary and the promoted index of one partition, whose blocks
//! double each time it has grown by `WriterOptions::column_index_scale_bytes`; of the trie
//! formats the open path of two tries (*bounded* of [`crate::index::trie::build`]).

use crate::index::block::Skip;
use crate::index::entry::EntryHead;
use crate::index::promoted::{BlockBound, PromotedBuilder};
use crate::index::summary::SummaryBuilder;
use crate::index::trie::key::{KeyForm, put_position};
use crate::index::trie::partitions::{PartitionsBuilder, Target};
use crate::index::trie::rows::RowsBuilder;
use crate::store::output::Output;
use crate::store::{Component, Descriptor};
use model::{ClusteringOrder, DecoratedKey, TableSchema};
use mutation::Tombstone;
use runtime::io::{IoClass, IoError};
use runtime::task::yield_if_needed;
use std::path::Path;
use stdx::Put;

/// Bytes of a trie that are handed to its file at once.
const GATHERED_MIN: usize = 4 << 10;

/// Writes the index of partitions and that of their rows.
#[derive(Debug)]
pub(super) enum IndexWriter {
    /// Index.db, and what Summary.db will be.
    Big(Box<BigWriter>),
    /// Partitions.db and Rows.db.
    Trie(Box<TrieWriter>),
}

/// A block of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEntry<'a> {
    pub(super) first: &'a BlockBound,
    pub(super) last: &'a BlockBound,
    /// From the start of the partition, and its bytes.
    pub(super) offset: u64,
    pub(super) width: u64,
    /// The range tombstones that are open at its start and behind it.
    pub(super) open: (Tombstone, Tombstone),
}

/// A partition whose blocks were added.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionEntry<'a> {
    pub(super) key: &'a DecoratedKey,
    pub(super) hash: (u64, u64),
    /// Where it starts in the uncompressed data.
    pub(super) position: u64,
    pub(super) tombstone: Tombstone,
    /// Bytes before its rows, and before its end.
    pub(super) header_bytes: u64,
    pub(super) rows_end: u64,
}

/// What is left of an index whose files are durable.
#[derive(Debug)]
pub(super) struct WrittenIndex {
    /// Its files: checksum and bytes of each.
    pub(super) files: Vec<(Component, u32, u64)>,
    /// Of the big format.
    pub(super) summary: Option<SummaryBuilder>,
}

#[derive(Debug)]
pub(super) struct BigWriter {
    index: Output,
    summary: SummaryBuilder,
    promoted: PromotedBuilder,
    head: Vec<u8>,
    /// What of a promoted index is still to be put behind the head of its entry.
    pending: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct TrieWriter {
    partitions_file: Output,
    rows_file: Output,
    partitions: PartitionsBuilder,
    rows: RowsBuilder,
    /// Encoded positions of the block that is added.
    first: Vec<u8>,
    last: Vec<u8>,
}

impl IndexWriter {
    /// The components of an index of that form.
    pub(super) fn components(has_trie: bool) -> [Component; 2] {
        match has_trie {
            true => [Component::Partitions, Component::Rows],
            false => [Component::Index, Component::Summary],
        }
    }

    /// Creates the files, but for the summary, which is small and made last.
    pub(super) async fn create(
        dir: &Path,
        descriptor: Descriptor,
        schema: &TableSchema,
        class: IoClass,
    ) -> Result<IndexWriter, IoError> {
        let output = async |component| {
            let path = descriptor.path(dir, component);
            Output::create(&path, class).await
        };
        if descriptor.version.has_trie_index() {
            return Ok(IndexWriter::Trie(Box::new(TrieWriter {
                partitions_file: output(Component::Partitions).await?,
                rows_file: output(Component::Rows).await?,
                partitions: PartitionsBuilder::new(KeyForm::of(descriptor.version, schema)),
                rows: RowsBuilder::default(),
                first: Vec::new(),
                last: Vec::new(),
            })));
        }
        Ok(IndexWriter::Big(Box::new(BigWriter {
            index: output(Component::Index).await?,
            summary: SummaryBuilder::default(),
            promoted: PromotedBuilder::default(),
            head: Vec::new(),
            pending: Vec::new(),
        })))
    }

    /// A partition starts, when the data has so many bytes on the disk.
    pub(super) fn start(&mut self, key: &[u8], disk_bytes: u64) {
        if let IndexWriter::Big(big) = self {
            debug_assert!(big.pending.is_empty(), "announced-lengths: an entry is cut by the next");
            big.summary.offer(key, big.index.position(), disk_bytes);
        }
    }

    /// Adds a block of rows of the partition. `fixed` has the lengths of clustering values.
    pub(super) fn push(
        &mut self,
        block: BlockEntry<'_>,
        order: &ClusteringOrder,
        fixed: &[Option<usize>],
    ) {
        let BlockEntry { first, last, offset, width, open } = block;
        debug_assert!(0 < width, "contiguous-blocks: an empty block at {offset}");
        debug_assert!(
            order
                .compare((&first.prefix, first.kind.weight()), (&last.prefix, last.kind.weight()))
                .is_le(),
            "ordered: a block from {first:?} to {last:?}"
        );
        match self {
            IndexWriter::Big(big) => {
                big.promoted.push(first, last, (offset, width), open.1, fixed);
            }
            IndexWriter::Trie(trie) => {
                let TrieWriter { rows, first: start, last: end, .. } = &mut **trie;
                for (bound, encoded) in [(first, &mut *start), (last, &mut *end)] {
                    encoded.clear();
                    put_position(order, (&bound.prefix, bound.kind.weight()), encoded);
                }
                rows.push(start, end, Skip { offset, open: open.0 });
            }
        }
    }

    /// Blocks of the present partition, and about how many bytes they take.
    pub(super) fn blocks(&self) -> (u64, usize) {
        match self {
            IndexWriter::Big(big) => {
                (big.promoted.block_count() as u64, big.promoted.block_bytes())
            }
            IndexWriter::Trie(trie) => (trie.rows.blocks(), trie.rows.bytes()),
        }
    }

    /// Ends a partition. [`IndexWriter::flush`] has to be awaited before the next one where it
    /// [is due](IndexWriter::is_due).
    pub(super) fn end(&mut self, entry: PartitionEntry<'_>) {
        let PartitionEntry { key, hash, position, tombstone, header_bytes, rows_end } = entry;
        debug_assert!(0 < header_bytes && header_bytes <= rows_end, "contiguous-blocks: {entry:?}");
        match self {
            IndexWriter::Big(big) => {
                let BigWriter { index, promoted, head, pending, .. } = &mut **big;
                debug_assert!(pending.is_empty(), "announced-lengths: an entry is cut by the next");
                *pending = promoted.finish(header_bytes, tombstone);
                let promoted_bytes = pending.iter().map(|piece| piece.len() as u64).sum();
                head.clear();
                EntryHead { key: &key.key, position, promoted_bytes }.put(head);
                index.put(head);
            }
            IndexWriter::Trie(trie) => {
                let header = trie.rows.finish(rows_end, &key.key, position, tombstone);
                let target = header.map_or(Target::Data(position), Target::Rows);
                trie.partitions.add(key, hash, target);
            }
        }
    }

    /// Whether [`IndexWriter::flush`] is to be called now.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        match self {
            IndexWriter::Big(big) => !big.pending.is_empty() || big.index.is_due(),
            IndexWriter::Trie(trie) => {
                GATHERED_MIN <= trie.partitions.written() || GATHERED_MIN <= trie.rows.written()
            }
        }
    }

    /// Writes out what is gathered.
    pub(super) async fn flush(&mut self) -> Result<(), IoError> {
        match self {
            IndexWriter::Big(big) => {
                for piece in std::mem::take(&mut big.pending) {
                    big.index.put(&piece);
                    big.index.flush().await?;
                    yield_if_needed().await;
                }
                big.index.flush().await
            }
            IndexWriter::Trie(trie) => {
                let TrieWriter { partitions_file, rows_file, partitions, rows, .. } = &mut **trie;
                partitions.take(|bytes| partitions_file.put(bytes));
                rows.take(|bytes| rows_file.put(bytes));
                partitions_file.flush().await?;
                rows_file.flush().await
            }
        }
    }

    /// Writes what is left and makes the files durable.
    pub(super) async fn finish(
        mut self,
        first: &DecoratedKey,
        last: &DecoratedKey,
    ) -> Result<WrittenIndex, IoError> {
        if let IndexWriter::Trie(trie) = &mut self {
            trie.partitions.finish(&first.key, &last.key);
            trie.rows.end_file();
        }
        self.flush().await?;
        let (outputs, summary) = match self {
            IndexWriter::Big(big) => (vec![(Component::Index, big.index)], Some(big.summary)),
            IndexWriter::Trie(trie) => {
                let TrieWriter { partitions_file, rows_file, .. } = *trie;
                let partitions = (Component::Partitions, partitions_file);
                (vec![partitions, (Component::Rows, rows_file)], None)
            }
        };
        let mut files = Vec::new();
        for (component, output) in outputs {
            assert!(0 < output.position(), "an empty {}", component.suffix());
            files.push((component, output.crc(), output.position()));
            output.finish().await?;
        }
        Ok(WrittenIndex { files, summary })
    }
}
