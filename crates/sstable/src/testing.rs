//! For tests and fuzzing: parsers by name, and generators of schemas and rows.

use crate::compress::{Chunks, ChunksError};
use crate::filter::Filter;
use crate::index::entry::EntryHead;
use crate::index::promoted::PromotedIndex;
use crate::index::summary::Summary;
use crate::scylla::Metadata;
use crate::statistics::Statistics;
use crate::store::Version;
use crate::store::toc::Toc;
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
}

impl ComponentKind {
    /// All of them.
    pub const ALL: [ComponentKind; 7] = [
        ComponentKind::Summary,
        ComponentKind::Filter,
        ComponentKind::Statistics,
        ComponentKind::CompressionInfo,
        ComponentKind::Scylla,
        ComponentKind::Toc,
        ComponentKind::Index,
    ];
}

/// Parses the bytes of a component and forgets the result: must never panic, loop, or allocate
/// much more than `bytes`.
pub fn parse_component(kind: ComponentKind, bytes: &[u8]) -> Result<(), Damaged> {
    match kind {
        ComponentKind::Summary => Summary::parse(bytes, u64::MAX).map(drop),
        ComponentKind::Filter => Filter::parse(bytes).map(drop),
        ComponentKind::Statistics => Statistics::parse(bytes, Version::Me).map(drop),
        ComponentKind::CompressionInfo => match Chunks::parse(bytes, u64::MAX) {
            Err(ChunksError::Damaged(damaged)) => Err(damaged),
            _ => Ok(()),
        },
        ComponentKind::Scylla => Metadata::parse(bytes).map(drop),
        ComponentKind::Toc => match Toc::parse(bytes) {
            Some(_) => Ok(()),
            None => Err(Damaged::new("not a TOC", 0)),
        },
        ComponentKind::Index => parse_index(bytes),
    }
}

fn parse_index(bytes: &[u8]) -> Result<(), Damaged> {
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        let head = EntryHead::parse(&mut cursor)?;
        let length = usize::try_from(head.promoted_bytes);
        let length = length.map_err(|_| cursor.damaged("promoted index past the end"))?;
        let promoted = cursor.take(length, "promoted index past the end")?;
        if !promoted.is_empty() {
            let promoted = PromotedIndex::parse(promoted.to_vec())?;
            for index in 0..promoted.count() {
                promoted.block(index, &[None])?;
            }
        }
    }
    Ok(())
}
