//! Parsers of components by name, for fuzzing: bytes in, whether they are well-formed out.

use crate::compress::algorithm::{Algorithm, Contexts};
use crate::compress::{Chunks, ChunksError, Dictionary};
use crate::filter::Filter;
use crate::index::entry::EntryHead;
use crate::index::promoted::PromotedIndex;
use crate::index::summary::Summary;
use crate::index::trie::{parse_partitions, parse_rows};
use crate::mx::header::{SerializationHeader, Shape};
use crate::mx::layout::{Bases, DeletionForm};
use crate::mx::marker::read_marker_body;
use crate::mx::partition::{Head, Kind, PartitionHead};
use crate::mx::row::RowDecoder;
use crate::scylla::Metadata;
use crate::statistics::Statistics;
use crate::store::Version;
use crate::store::toc::Toc;
use crate::testing::schema_of_header;
use stdx::{Cursor, Damaged};

/// A component whose parser takes all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentKind {
    /// Summary.db.
    Summary,
    /// Filter.db.
    Filter,
    /// Statistics.db.
    Statistics,
    /// CompressionInfo.db.
    CompressionInfo,
    /// Scylla.db.
    Scylla,
    /// TOC.txt.
    Toc,
    /// Entries of Index.db, with their promoted indexes.
    Index,
    /// Partitions.db.
    Partitions,
    /// A row index of Rows.db; behind it, in four bytes, where its header stands.
    Rows,
    /// A compressed chunk, behind a byte that names the algorithm.
    Chunk,
    /// Partitions of Data.db, uncompressed, of a table with one column of each structure.
    Data,
}

impl ComponentKind {
    /// All of them.
    pub const ALL: [ComponentKind; 11] = [
        ComponentKind::Summary,
        ComponentKind::Filter,
        ComponentKind::Statistics,
        ComponentKind::CompressionInfo,
        ComponentKind::Scylla,
        ComponentKind::Toc,
        ComponentKind::Index,
        ComponentKind::Partitions,
        ComponentKind::Rows,
        ComponentKind::Chunk,
        ComponentKind::Data,
    ];
}

/// Parses the bytes of a component of a version and forgets the result: must never panic, loop, or
/// allocate much more than `bytes`.
pub fn parse_component(kind: ComponentKind, version: Version, bytes: &[u8]) -> Result<(), Damaged> {
    match kind {
        ComponentKind::Summary => Summary::parse(bytes, u64::MAX).map(drop),
        ComponentKind::Filter => Filter::parse(bytes, version.filter_form()).map(drop),
        ComponentKind::Statistics => parse_statistics(bytes, version),
        ComponentKind::CompressionInfo => match Chunks::parse(bytes, u64::MAX, version) {
            Err(ChunksError::Damaged(damaged)) => Err(damaged),
            _ => Ok(()),
        },
        ComponentKind::Scylla => Metadata::parse(bytes).map(drop),
        ComponentKind::Toc => match Toc::parse(bytes) {
            Some(_) => Ok(()),
            None => Err(Damaged::new("not a TOC", 0)),
        },
        ComponentKind::Index => parse_index(bytes, version.deletion_form()),
        ComponentKind::Partitions => parse_partitions(bytes),
        ComponentKind::Rows => parse_rows(bytes),
        ComponentKind::Chunk => parse_chunk(bytes),
        ComponentKind::Data => parse_data(bytes, version.deletion_form()),
    }
}

fn parse_statistics(bytes: &[u8], version: Version) -> Result<(), Damaged> {
    let parsed = Statistics::parse(bytes, version)?;
    let other = crate::statistics::with_level(bytes, version, 7)?;
    Statistics::parse(&other, version)?;
    if let Some(schema) = schema_of_header(&parsed.header) {
        let _ = Shape::new(&parsed.header, &schema);
        let _ = parsed.header.check_types(&schema);
    }
    Ok(())
}

fn parse_chunk(bytes: &[u8]) -> Result<(), Damaged> {
    let (first, bytes) = bytes.split_first().ok_or(Damaged::new("no algorithm", 0))?;
    let algorithm = Algorithm::ALL[*first as usize % Algorithm::ALL.len()];
    let (dictionary, body) = bytes.split_at(bytes.len() / 4);
    let dictionary = Dictionary::new(dictionary.to_vec());
    let contexts = Contexts::default();
    let mut out = [0; 4096];
    for (dictionary, body) in [(None, bytes), (Some(&dictionary), body)] {
        for length in [0, 100, 4096] {
            let _ = algorithm.decompress(body, dictionary, &contexts, &mut out[..length]);
        }
    }
    Ok(())
}

fn parse_index(bytes: &[u8], form: DeletionForm) -> Result<(), Damaged> {
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        let head = EntryHead::parse(&mut cursor)?;
        let length = usize::try_from(head.promoted_bytes);
        let length = length.map_err(|_| cursor.damaged("promoted index past the end"))?;
        let promoted = cursor.take(length, "promoted index past the end")?;
        if !promoted.is_empty() {
            let promoted = PromotedIndex::parse(promoted.to_vec(), form)?;
            for index in 0..promoted.count() {
                promoted.block(index, &[None])?;
            }
        }
    }
    Ok(())
}

/// The table of [`ComponentKind::Data`].
fn data_shape() -> Shape {
    let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
    let (int, text) = (class("Int32Type"), class("UTF8Type"));
    let map = format!("{}({int},{text})", class("MapType"));
    let header = SerializationHeader {
        bases: Bases::EPOCH,
        partition_key: int.clone(),
        clustering: vec![int.clone(), text.clone()],
        statics: vec![("s".to_string(), text)],
        regulars: vec![
            ("a".to_string(), int),
            ("b".to_string(), class("CounterColumnType")),
            ("c".to_string(), map),
        ],
    };
    let schema = schema_of_header(&header).expect("the classes are known");
    Shape::new(&header, &schema).expect("a schema made of a header fits it")
}

fn parse_data(bytes: &[u8], form: DeletionForm) -> Result<(), Damaged> {
    let shape = data_shape();
    let (mut prefix, mut decoder) = (Vec::new(), RowDecoder::default());
    let mut rest = bytes;
    while !rest.is_empty() {
        let head = PartitionHead::parse(rest, form)?;
        rest = &rest[head.bytes..];
        loop {
            let head = Head::parse(rest, &shape, &mut prefix)?;
            let total = usize::try_from(head.total_bytes()).unwrap_or(usize::MAX);
            let body = rest.get(head.head_bytes..total);
            let body = body.ok_or(Damaged::new("element past the end", 0))?;
            rest = &rest[total..];
            match head.kind {
                Kind::End => break,
                Kind::Static(flags) => {
                    decoder.decode(flags, body, &shape.statics, &shape.bases)?;
                }
                Kind::Row(flags) => {
                    decoder.decode(flags, body, &shape.regulars, &shape.bases)?;
                }
                Kind::Marker(kind) => {
                    read_marker_body(kind, body, &shape.bases)?;
                }
            }
        }
    }
    Ok(())
}
