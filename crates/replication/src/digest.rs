//! Whether two replicas would answer the same page. Pure.
//!
//! One replica sends its page, the others send what this makes of theirs. Where all are equal the
//! page is the answer (*equal-is-merged*):
//!
//! > The rows of a page are those live rows of a replica that lie from where the command began up
//! > to where the page resumes. Let the pages of A and B be equal. What is dead in both, or not
//! > there, is dead when both are merged: the merged cell is one of the two, and what covered it
//! > or made it expire is there too. What is live in both stays live: the newer one of two live
//! > cells is newer than all deletions of both, and is shown as it was, for both show the same
//! > value. A row is there if one of its parts is live; the parts of A may be deleted in B and
//! > those of B in A. So where no wanted column shows that a part is live in both, the page tells
//! > which parts are ([`mutation::ColumnForm::Liveness`]), and equal pages have them in common.
//!
//! This holds for more than two by induction, but not for counters: the sum of a counter's shards
//! may be equal where the shards differ. Counters are always read as mutations.
//!
//! Invariants
//!  - *equal-is-merged*: see above; the test merges what makes equal pages.
//!  - *told-last*: what tells the liveness of rows stands last among static and regular columns,
//!    and no client sees it.

use model::TableSchema;
use model::key::{clustering_components, partition_key_component};
use mutation::page::{ColumnForm, LIVENESS, Page, PageColumn, PageColumns, PageView, ReadCommand};
use mutation::page::{Resume, RowPiece, RowShape};
use stdx::Put;
use stdx::checksum::crc32;

/// Of a page: two hashes that have nothing in common, and the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    pub hash: u64,
    pub crc: u32,
    pub bytes: u32,
}

impl Digest {
    /// Of all that a page says but how it came about.
    pub fn of(page: &Page) -> Digest {
        let mut counts = [0; 16];
        counts[..8].copy_from_slice(&page.row_count.to_be_bytes());
        counts[8..].copy_from_slice(&page.partition_count.to_be_bytes());
        let hash = match &page.resume {
            None => stdx::hash_one((&page.bytes[..], &counts[..])),
            Some(Resume { key, after, rows_in_partition }) => {
                let mut counts = counts.to_vec();
                counts.put_u32_bytes(key);
                counts.put_u64(*rows_in_partition);
                if let Some((prefix, weight)) = after {
                    counts.put_u32_bytes(prefix);
                    counts.put_u8(*weight as u8);
                }
                stdx::hash_one((&page.bytes[..], &counts[..]))
            }
        };
        Digest { hash, crc: crc32(&page.bytes), bytes: page.bytes.len() as u32 }
    }
}

/// The command as replicas are asked, whose pages are to be compared.
pub fn comparable(command: &ReadCommand) -> ReadCommand {
    let told = (LIVENESS, ColumnForm::Liveness);
    let (statics, regulars) = command.columns.split_at(command.static_count);
    debug_assert!(!command.columns.contains(&told), "told-last: it is told already");
    let told = std::slice::from_ref(&told);
    ReadCommand {
        table: command.table,
        partitions: command.partitions.clone(),
        ranges: command.ranges.clone(),
        columns: [statics, told, regulars, told].concat(),
        static_count: command.static_count + 1,
        shape: RowShape::Whole,
        resume: command.resume.clone(),
        ..*command
    }
}

/// The page of a comparable command as the command itself wants it.
pub fn finish(
    schema: &TableSchema,
    command: &ReadCommand,
    asked: &ReadCommand,
    page: Page,
) -> Page {
    let told = asked.columns.len() - command.columns.len();
    assert!(told == 0 || told == 2, "told-last: {told} columns more");
    if told == 0 && command.shape == RowShape::Whole {
        return page;
    }
    let mut bytes = Vec::with_capacity(page.bytes.len());
    for partition in PageView::trusted(&page.bytes, asked.layout()).partitions() {
        match &command.shape {
            RowShape::Pieces(pieces) => {
                let key = (partition.key(), schema.partition_key_count);
                for row in partition.rows() {
                    put_pieces(&mut bytes, pieces, key, (row.clustering(), row.columns()), told);
                }
            }
            RowShape::Whole => put_partition(&mut bytes, &partition),
        }
    }
    debug_assert!((page.row_count == 0) == bytes.is_empty(), "told-last: {} rows", page.row_count);
    Page { bytes, ..page }
}

/// A row as a response frame has it.
fn put_pieces(
    out: &mut Vec<u8>,
    pieces: &[RowPiece],
    (key, key_count): (&[u8], usize),
    (clustering, columns): (&[u8], PageColumns<'_>),
    told: usize,
) {
    let put = |out: &mut Vec<u8>, value: Option<&[u8]>| match value {
        Some(value) => out.put_u32_bytes(value),
        None => out.put_i32(-1),
    };
    for piece in pieces {
        match piece {
            RowPiece::PartitionKey(position) => {
                put(out, partition_key_component(key, key_count, usize::from(*position)));
            }
            RowPiece::Clustering(position) => {
                put(out, clustering_components(clustering).nth(usize::from(*position)));
            }
            RowPiece::Regulars => {
                let count = columns.size_hint().1.unwrap_or(0).saturating_sub(told.min(1));
                match columns.values(count) {
                    Some(values) => out.put(values),
                    None => columns.clone().take(count).for_each(|column| put(out, column.value)),
                }
            }
        }
    }
}

/// A partition without what tells the liveness of its rows.
fn put_partition(out: &mut Vec<u8>, partition: &mutation::page::PagePartition<'_>) {
    out.put_vint_bytes(partition.key());
    let statics = partition.statics().map(|columns| without_last(columns));
    match statics.filter(|(any, _)| *any) {
        Some((_, columns)) => {
            out.put_u8(1);
            out.put_u32_bytes(&columns);
        }
        None => out.put_u8(0),
    }
    out.put_u32(partition.row_count() as u32);
    let length_at = out.len();
    out.put_u32(0);
    for row in partition.rows() {
        out.put_vint_bytes(row.clustering());
        out.put_u32_bytes(&without_last(row.columns()).1);
    }
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Whether one of the columns but the last is there, and their bytes.
fn without_last(columns: PageColumns<'_>) -> (bool, Vec<u8>) {
    let count = columns.size_hint().1.unwrap_or(0);
    debug_assert!(0 < count, "told-last: a row without columns");
    let (mut any, mut bytes) = (false, Vec::new());
    for PageColumn { value, times } in columns.take(count.saturating_sub(1)) {
        let Some(value) = value else {
            bytes.put_i32(-1);
            continue;
        };
        any = true;
        bytes.put_u32_bytes(value);
        if let Some(times) = times {
            bytes.put_i64(times.timestamp);
            bytes.put_i64(times.expiry);
            bytes.put_i32(times.ttl);
        }
    }
    (any, bytes)
}

#[cfg(test)]
mod tests;
