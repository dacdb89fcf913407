//! Reading Index.db from the disk.

use crate::compress::data::ReadFile;
use crate::index::entry::{EntryHead, HEAD_BYTES_MAX};
use crate::index::summary::{Summary, SummaryBuilder};
use crate::mx::window::Window;
use crate::table::Table;
use model::{DecoratedKey, Token, token};
use mutation::page::RingBound;
use reader::ReadError;
use runtime::io::{ALIGNMENT, IoClass};
use std::rc::Rc;
use stdx::{Bytes, Cursor};

/// A page of the index up to this long is read at once.
const PAGE_BYTES_MAX: u64 = 256 << 10;

/// A partition key as it is looked up in many SSTables: hashed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The key with its token.
    pub key: DecoratedKey,
    /// Both words of its murmur3 hash, for filters.
    pub hash: (u64, u64),
}

impl Lookup {
    /// Hashes a key.
    pub fn new(key: Bytes) -> Lookup {
        let hash = token::murmur3(&key);
        Lookup { key: DecoratedKey::new(key), hash }
    }
}

/// An entry of the index.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The partition.
    pub key: DecoratedKey,
    /// Where it starts in the uncompressed data.
    pub position: u64,
    /// Where the next one starts, if that is known without more I/O.
    pub end: Option<u64>,
    /// Its promoted index; empty for none.
    pub promoted: Vec<u8>,
}

/// Walks over the entries of the index.
#[derive(Debug)]
pub struct IndexCursor {
    window: Window,
    data_bytes: u64,
}

impl IndexCursor {
    /// A cursor at an entry that starts at `position`.
    fn new(index: Rc<ReadFile>, data_bytes: u64, position: u64, class: IoClass) -> IndexCursor {
        let end = index.len();
        let mut window = Window::new(index, class);
        window.reset(position.min(end), end);
        IndexCursor { window, data_bytes }
    }

    /// The head at the cursor and its length; `None` at the end.
    async fn head(&mut self) -> Result<Option<(EntryHead<'_>, usize)>, ReadError> {
        if self.window.remaining() == 0 {
            return Ok(None);
        }
        let mut want = 1;
        loop {
            self.window.load(want).await?;
            let mut cursor = Cursor::new(self.window.rest());
            match EntryHead::parse(&mut cursor) {
                Ok(_) => break,
                Err(_) if !self.window.is_loaded() && want < HEAD_BYTES_MAX => {
                    want = (self.window.rest().len() + 1).max(2 * want);
                }
                Err(error) => {
                    let at = self.window.position() + error.at;
                    return Err(self.window.file().damaged(error.what, at));
                }
            }
        }
        // Parsed again, so that the borrow of the loop ends.
        let mut cursor = Cursor::new(self.window.rest());
        let head = EntryHead::parse(&mut cursor);
        let head = head.map_err(|error| self.window.file().damaged(error.what, 0))?;
        let bytes = cursor.offset();
        let at = self.window.position();
        if self.window.remaining() - (bytes as u64) < head.promoted_bytes {
            return Err(self.window.file().damaged("promoted index past the end", at));
        }
        if self.data_bytes <= head.position {
            return Err(self.window.file().damaged("partition past the end of the data", at));
        }
        Ok(Some((head, bytes)))
    }

    /// Takes the entry at the cursor.
    pub async fn next(&mut self) -> Result<Option<Entry>, ReadError> {
        let Some((head, bytes)) = self.head().await? else {
            return Ok(None);
        };
        let key = DecoratedKey::new(Bytes::copy_from(head.key));
        let (position, promoted_bytes) = (head.position, head.promoted_bytes as usize);
        self.window.consume(bytes);
        self.window.load(promoted_bytes).await?;
        let promoted = self.window.rest()[..promoted_bytes].to_vec();
        self.window.consume(promoted_bytes);
        let end = self.loaded_position();
        Ok(Some(Entry { key, position, end, promoted }))
    }

    /// The data position of the entry at the cursor, as far as it is loaded.
    fn loaded_position(&self) -> Option<u64> {
        if self.window.remaining() == 0 {
            return Some(self.data_bytes);
        }
        let head = EntryHead::parse(&mut Cursor::new(self.window.rest())).ok()?;
        Some(head.position)
    }
}

/// Finds the entry of a key: one read of one page of the index, as a rule.
pub async fn find(
    table: &Table,
    lookup: &Lookup,
    class: IoClass,
) -> Result<Option<Entry>, ReadError> {
    let key = &lookup.key;
    let page = table.summary().page_of(key.token, &key.key);
    let (start, end) = table.summary().page_range(page, table.index.len());
    let mut cursor = IndexCursor::new(table.index.clone(), table.data_bytes(), start, class);
    // Up to the end of the block that is read anyway: often the next entry is there.
    let block = ALIGNMENT as u64;
    let aligned = end.div_ceil(block).saturating_mul(block).min(table.index.len());
    cursor.window.set_step((aligned - start).min(PAGE_BYTES_MAX));
    let mut saw_last = false;
    while cursor.window.position() < end {
        let Some((head, bytes)) = cursor.head().await? else { break };
        if head.key == &*key.key {
            return cursor.next().await;
        }
        saw_last = head.key == &*table.last_key().key;
        let skip = bytes as u64 + head.promoted_bytes;
        cursor.window.skip(skip);
    }
    // Where the index was cut between two entries, absence would be a lie.
    if end == table.index.len() && !saw_last {
        return Err(ends_early(table));
    }
    Ok(None)
}

fn ends_early(table: &Table) -> ReadError {
    table.index.damaged("the index ends before the last partition", table.index.len())
}

/// A cursor at the first entry that is not before `bound`, and where its data starts.
pub async fn seek(
    table: &Table,
    bound: &RingBound,
    class: IoClass,
) -> Result<(IndexCursor, u64), ReadError> {
    let data_bytes = table.data_bytes();
    let at = |position| IndexCursor::new(table.index.clone(), data_bytes, position, class);
    if is_before(table.last_key().token, &table.last_key().key, bound) {
        return Ok((at(table.index.len()), data_bytes));
    }
    if !is_before(table.first_key().token, &table.first_key().key, bound) {
        return Ok((at(0), 0));
    }
    let page = table.summary().page_of(bound.token, bound.key.as_deref().unwrap_or_default());
    let (start, _) = table.summary().page_range(page, table.index.len());
    let mut cursor = at(start);
    loop {
        let Some((head, bytes)) = cursor.head().await? else {
            return Err(ends_early(table));
        };
        if !is_before(Token::of(head.key), head.key, bound) {
            let position = head.position;
            return Ok((cursor, position));
        }
        let skip = bytes as u64 + head.promoted_bytes;
        cursor.window.skip(skip);
    }
}

/// Whether a partition lies before a bound of a ring range.
pub fn is_before(token: Token, key: &[u8], bound: &RingBound) -> bool {
    let order = token.cmp(&bound.token).then_with(|| match &bound.key {
        Some(other) => key.cmp(other.as_slice()),
        None => std::cmp::Ordering::Equal,
    });
    order.is_lt() || (order.is_eq() && bound.after)
}

/// Samples an index that has no summary.
pub async fn rebuild_summary(index: Rc<ReadFile>, data: &ReadFile) -> Result<Summary, ReadError> {
    let mut cursor = IndexCursor::new(index.clone(), data.len(), 0, IoClass::System);
    let mut builder = SummaryBuilder::default();
    let (mut first, mut last) = (None, Vec::new());
    loop {
        let at = cursor.window.position();
        let Some((head, bytes)) = cursor.head().await? else { break };
        builder.offer(head.key, at, data.disk_position(head.position));
        first.get_or_insert_with(|| head.key.to_vec());
        last.clear();
        last.extend_from_slice(head.key);
        let skip = bytes as u64 + head.promoted_bytes;
        cursor.window.skip(skip);
    }
    let summary = first.and_then(|first| builder.finish(&first, &last));
    let summary = summary.filter(|summary| summary.is_ordered(index.len()));
    summary.ok_or_else(|| index.damaged("an index without entries, or out of order", 0))
}
