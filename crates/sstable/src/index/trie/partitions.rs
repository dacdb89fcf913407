//! Partitions.db: a trie of the shortest prefixes of partition keys that tell them apart, each with
//! a byte of the key's hash and where the partition is; and a footer.
//!
//! Invariants
//!  - *unconfirmed*: an entry says where a partition is if the file has it, not that it has. What
//!    it leads to (Rows.db, Data.db) starts with the key.
//!  - *file-order*: entries come in the order of the data, also where, in `ms`, the order of the
//!    trie is another one among equal tokens.

use super::build::Builder;
use super::key::{KeyForm, TOKEN_BYTES, put_partition_key, put_partition_position, token_bytes};
use super::node::Payload;
use super::rows::{RowsAt, RowsHeader};
use super::walk::{Passed, Place, Walk};
use crate::cache::{Access, CachedFile, PAGE_BYTES};
use crate::compress::data::ReadFile;
use crate::index::pages::CachedPages;
use crate::index::pages::Stop;
use crate::index::{Located, Lookup, RowIndex};
use crate::store::Version;
use model::{DecoratedKey, TableSchema, Token};
use mutation::page::RingBound;
use reader::ReadError;
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::{Bytes, Cursor, Damaged, Put};

/// A byte of hash comes before the position.
const HAS_HASH: u8 = 8;
/// Bytes of the numbers at the end of the file.
const FOOTER_BYTES: u64 = 24;
/// Pages of Partitions.db that a walk over all entries reads at once, at most.
const AHEAD_PAGES_MAX: u64 = 16;
/// Bytes of a partition's head that are read for its key, at first.
const HEAD_BYTES: u64 = 512;

/// Where a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Its header in Rows.db.
    Rows(u64),
    /// Its start in the uncompressed data.
    Data(u64),
}

fn payload_of(hash: (u64, u64), target: Target) -> Payload {
    let number = match target {
        Target::Rows(at) => at as i64,
        Target::Data(at) => !(at as i64),
    };
    let significant = 65 - (number ^ number >> 63).leading_zeros() as usize;
    let width = significant.div_ceil(8);
    debug_assert!((1..=8).contains(&width), "a position of {width} bytes");
    let mut bytes = vec![hash.1 as u8];
    bytes.put(&number.to_be_bytes()[8 - width..]);
    Payload::new(HAS_HASH | (width - 1) as u8, &bytes)
}

/// The byte of hash, if there is one, and where the partition is.
pub(super) fn read_payload(passed: &Passed) -> Result<(Option<u8>, Target), Damaged> {
    let cut = "position of a partition cut short";
    let mut cursor = Cursor::new(passed.bytes());
    let (hash, width) = match passed.bits.checked_sub(HAS_HASH) {
        Some(width) => (Some(cursor.u8(cut)?), width as usize + 1),
        None => (None, passed.bits as usize),
    };
    let bytes = cursor.take(width, cut)?;
    let sign = bytes.first().map_or(0, |first| (*first as i8 >> 7) as i64);
    let number = bytes.iter().fold(sign, |number, byte| number << 8 | *byte as i64);
    Ok((hash, if number < 0 { Target::Data(!number as u64) } else { Target::Rows(number as u64) }))
}

/// Builds Partitions.db.
#[derive(Debug)]
pub struct PartitionsBuilder {
    form: KeyForm,
    trie: Builder,
    /// Entries of one token, which may have to be sorted.
    run: Vec<(Vec<u8>, Payload)>,
    run_token: i64,
    /// The entry whose successor is not known, and the bytes it shares with the one before.
    waiting: Option<(Vec<u8>, Payload, usize)>,
    partitions: u64,
}

impl PartitionsBuilder {
    /// Of a file that has nothing yet.
    pub fn new(form: KeyForm) -> PartitionsBuilder {
        PartitionsBuilder {
            form,
            trie: Builder::new(0),
            run: Vec::new(),
            run_token: 0,
            waiting: None,
            partitions: 0,
        }
    }

    /// Bytes that were written since they were taken.
    pub fn written(&self) -> usize {
        self.trie.written()
    }

    /// What was written since this was called last.
    pub fn take(&mut self, put: impl FnOnce(&[u8])) {
        self.trie.take(put);
    }

    /// Adds a partition, in ring order.
    pub fn add(&mut self, key: &DecoratedKey, hash: (u64, u64), target: Target) {
        if self.run_token != key.token.0 {
            self.end_run();
        }
        let behind = self.partitions == 0 || self.run_token <= key.token.0;
        debug_assert!(behind, "ring order: {key:?} after token {}", self.run_token);
        self.run_token = key.token.0;
        let mut encoded = Vec::with_capacity(TOKEN_BYTES + key.key.len() + 8);
        put_partition_key(key, &self.form, &mut encoded);
        self.run.push((encoded, payload_of(hash, target)));
        self.partitions += 1;
    }

    fn end_run(&mut self) {
        let mut run = std::mem::take(&mut self.run);
        run.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, payload) in run.drain(..) {
            let behind = self.waiting.as_ref().is_none_or(|(before, ..)| *before < key);
            debug_assert!(behind, "told-apart: keys of one encoding");
            let shared = match &self.waiting {
                Some((before, ..)) => before.iter().zip(&key).take_while(|(a, b)| a == b).count(),
                None => 0,
            };
            self.place(shared);
            self.waiting = Some((key, payload, shared));
        }
        self.run = run;
    }

    /// Puts the waiting entry, which shares so many bytes with its successor, into the trie.
    fn place(&mut self, shared: usize) {
        if let Some((key, payload, before)) = self.waiting.take() {
            debug_assert!(before.max(shared) < key.len(), "told-apart: a key prefixes another");
            self.trie.add(&key[..before.max(shared) + 1], payload);
        }
    }

    /// Writes what is left, and the footer.
    pub fn finish(&mut self, first: &[u8], last: &[u8]) {
        self.end_run();
        self.place(0);
        assert!(0 < self.partitions, "a partition index of no partition");
        debug_assert!(Token::of(first) <= Token::of(last), "ring order: the last key is first");
        let keys_bytes = 4 + first.len() + last.len();
        let root = self.trie.finish(keys_bytes + FOOTER_BYTES as usize);
        let keys_at = self.trie.position();
        let mut footer = Vec::with_capacity(keys_bytes + FOOTER_BYTES as usize);
        footer.put_u16_bytes(first);
        footer.put_u16_bytes(last);
        footer.put_u64(keys_at);
        footer.put_u64(self.partitions);
        footer.put_u64(root);
        assert!(root < keys_at, "backwards: a root at {root} behind the trie");
        self.trie.put_raw(&footer);
    }
}

/// The numbers at the end of Partitions.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// Where the first and the last key stand, behind the trie.
    pub(super) keys_at: u64,
    pub(super) count: u64,
    pub(super) root: u64,
}

impl Footer {
    /// Reads the last bytes of a file of `len` bytes.
    pub(super) fn parse(bytes: &[u8], len: u64) -> Result<Footer, Damaged> {
        let cut = "partition index without its footer";
        let start = bytes.len().saturating_sub(FOOTER_BYTES as usize);
        let mut cursor = Cursor::new(&bytes[start..]);
        let (keys_at, count, root) = (cursor.u64(cut)?, cursor.u64(cut)?, cursor.u64(cut)?);
        let keys_bytes = len.saturating_sub(FOOTER_BYTES).checked_sub(keys_at);
        if keys_bytes.is_none() || keys_at <= root || count == 0 {
            return Err(cursor.damaged("impossible footer of a partition index"));
        }
        if keys_bytes.is_some_and(|bytes| 2 * (2 + u16::MAX as u64) < bytes) {
            return Err(cursor.damaged("keys of a partition index too long"));
        }
        Ok(Footer { keys_at, count, root })
    }
}

/// The first and the last key.
pub(super) fn read_keys(bytes: &[u8]) -> Result<(&[u8], &[u8]), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let cut = "key of a partition index cut short";
    Ok((cursor.u16_bytes(cut)?, cursor.u16_bytes(cut)?))
}

/// The trie index of an SSTable: what of it stays in memory, and its files.
#[derive(Debug)]
pub struct TrieIndex {
    partitions: CachedFile,
    rows: CachedFile,
    data: Rc<ReadFile>,
    form: KeyForm,
    first: DecoratedKey,
    last: DecoratedKey,
    count: u64,
    root: u64,
}

/// How pages were asked for so far.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// The page that would go on in order, and how many to read if it is asked for.
    next: u64,
    pages: u64,
}

impl Ahead {
    /// What to read into the cache before this page is taken from it, if more than the page.
    fn range(&mut self, number: u64, file_bytes: u64) -> Option<std::ops::Range<u64>> {
        let in_order = 0 < number && number == self.next;
        self.pages = if in_order { (2 * self.pages).min(AHEAD_PAGES_MAX) } else { 1 };
        self.next = number + self.pages;
        let end = self.next.saturating_mul(PAGE_BYTES).min(file_bytes);
        let start = number.saturating_mul(PAGE_BYTES);
        (1 < self.pages && start < end).then_some(start..end)
    }
}

/// What a partition's entry leads to.
#[derive(Clone, Debug)]
struct Item {
    key: Option<DecoratedKey>,
    position: u64,
    rows: Option<RowsAt>,
}

impl TrieIndex {
    /// Reads the footer of Partitions.db.
    pub async fn open(
        (partitions, rows): (CachedFile, CachedFile),
        data: Rc<ReadFile>,
        version: Version,
        schema: &TableSchema,
        access: &Access,
    ) -> Result<TrieIndex, ReadError> {
        let len = partitions.len();
        let numbers_at = len.saturating_sub(FOOTER_BYTES);
        let wrong = |damaged: Damaged| partitions.damaged(damaged.what, numbers_at);
        let mut bytes = Vec::new();
        partitions.read(access, numbers_at..len, &mut bytes).await?;
        let Footer { keys_at, count, root } = Footer::parse(&bytes, len).map_err(wrong)?;
        bytes.clear();
        partitions.read(access, keys_at..numbers_at, &mut bytes).await?;
        let (first, last) = read_keys(&bytes).map_err(wrong)?;
        let first = DecoratedKey::new(Bytes::copy_from(first));
        let last = DecoratedKey::new(Bytes::copy_from(last));
        if last < first {
            let what = "first and last key of a partition index out of order";
            return Err(wrong(Damaged::new(what, 0)));
        }
        let form = KeyForm::of(version, schema);
        Ok(TrieIndex { partitions, rows, data, form, first, last, count, root })
    }

    /// The first partition.
    pub fn first(&self) -> &DecoratedKey {
        &self.first
    }
    /// The last partition.
    pub fn last(&self) -> &DecoratedKey {
        &self.last
    }
    /// How many partitions there are.
    pub fn partition_count(&self) -> u64 {
        self.count
    }
    /// Partitions.db.
    pub fn partitions(&self) -> &CachedFile {
        &self.partitions
    }
    /// Rows.db.
    pub fn rows(&self) -> &CachedFile {
        &self.rows
    }
    /// Bytes of memory it takes beside what is cached.
    pub fn memory_bytes(&self) -> usize {
        std::mem::size_of::<TrieIndex>() + self.first.key.len() + self.last.key.len()
    }

    /// The partition of a key, if the index does not rule it out.
    pub async fn find(
        &self,
        lookup: &Lookup,
        access: &Access,
    ) -> Result<Option<Located>, ReadError> {
        let mut walk = self.walk(access);
        let (root, mut place) = (self.root, Place::new());
        let token = token_bytes(lookup.key.token);
        let mut is_leaf =
            self.run(&mut walk, |walk| walk.seek(root, &token, true, &mut place)).await?;
        if !is_leaf && place.depth() as usize == TOKEN_BYTES {
            // Another partition has the token.
            let mut key = Vec::new();
            put_partition_key(&lookup.key, &self.form, &mut key);
            is_leaf = self.run(&mut walk, |walk| walk.seek(root, &key, true, &mut place)).await?;
        }
        if !is_leaf {
            return Ok(None);
        }
        let node = place.node();
        let Some(passed) = self.run(&mut walk, |walk| walk.payload(node)).await? else {
            return Err(self.partitions.damaged("a leaf of a trie without its payload", node));
        };
        let (hash, target) = read_payload(&passed).map_err(|error| self.damaged(error, node))?;
        if hash.is_some_and(|hash| hash != lookup.hash.1 as u8) {
            return Ok(None);
        }
        let item = self.item(target, access, Some(&lookup.key)).await?;
        let Some(Item { key, position, rows }) = item else { return Ok(None) };
        let end = self.end_at_hand(&mut walk, &place, access).filter(|end| position < *end);
        Ok(Some(Located { key, position, end, rows: rows.map(RowIndex::Trie) }))
    }

    /// Where the partition after a place starts, if that is known without I/O.
    fn end_at_hand(
        &self,
        walk: &mut Walk<CachedPages>,
        place: &Place,
        access: &Access,
    ) -> Option<u64> {
        let data_bytes = self.data.len();
        let Some(passed) = walk.next(place, &mut Place::new()).ok()? else {
            return Some(data_bytes);
        };
        let position = match read_payload(&passed).ok()?.1 {
            Target::Data(position) => position,
            Target::Rows(at) => {
                let page = self.rows.page_now(access, at / PAGE_BYTES)?;
                let rest = page.get((at % PAGE_BYTES) as usize..)?;
                RowsHeader::parse(&mut Cursor::new(rest), at).ok()?.position
            }
        };
        Some(position).filter(|position| *position <= data_bytes)
    }

    /// Where the first partition at or after a bound starts in the data; the data's length if
    /// there is none.
    pub async fn lower_bound(
        self: &Rc<Self>,
        bound: &RingBound,
        access: &Access,
    ) -> Result<u64, ReadError> {
        if bound.place(self.first.token, &self.first.key).is_ge() {
            return Ok(0);
        }
        if bound.place(self.last.token, &self.last.key).is_lt() {
            return Ok(self.data.len());
        }
        let mut entries = TrieEntries::new(self, bound, access);
        entries.fill(1).await?;
        let position = entries.queue.front().map_or(self.data.len(), |item| item.position);
        debug_assert!(position <= self.data.len(), "within-file: {position}");
        Ok(position)
    }

    fn walk(&self, access: &Access) -> Walk<CachedPages> {
        Walk::new(CachedPages { file: self.partitions.clone(), access: access.clone() })
    }

    /// Takes a step, with the pages that it needs.
    async fn run<T>(
        &self,
        walk: &mut Walk<CachedPages>,
        step: impl FnMut(&mut Walk<CachedPages>) -> Result<T, Stop>,
    ) -> Result<T, ReadError> {
        self.run_ahead(walk, &mut Ahead::default(), step).await
    }

    /// As [`TrieIndex::run`], and pages that follow each other are read more at a time.
    async fn run_ahead<T>(
        &self,
        walk: &mut Walk<CachedPages>,
        ahead: &mut Ahead,
        mut step: impl FnMut(&mut Walk<CachedPages>) -> Result<T, Stop>,
    ) -> Result<T, ReadError> {
        loop {
            match step(walk) {
                Ok(value) => {
                    walk.settle();
                    return Ok(value);
                }
                Err(Stop::Need(number)) => {
                    let CachedPages { file, access } = walk.pages();
                    if let Some(range) = ahead.range(number, file.len()) {
                        let mut bytes = Vec::new();
                        file.read(access, range, &mut bytes).await?;
                    }
                    let page = file.page(access, number).await?;
                    debug_assert!(!page.is_empty(), "within-file: page {number} is empty");
                    walk.hold(number, page);
                }
                Err(Stop::Damaged(damaged)) => {
                    return Err(self.partitions.damaged(damaged.what, damaged.at));
                }
            }
        }
    }

    fn damaged(&self, damaged: Damaged, node: u64) -> ReadError {
        self.partitions.damaged(damaged.what, node.saturating_add(damaged.at))
    }

    /// What an entry leads to; `None` if its key is seen to be another than the wanted one.
    async fn item(
        &self,
        target: Target,
        access: &Access,
        wanted: Option<&DecoratedKey>,
    ) -> Result<Option<Item>, ReadError> {
        debug_assert!(wanted.is_none_or(|key| key.token == Token::of(&key.key)), "{wanted:?}");
        let item = match target {
            Target::Data(position) => Item { key: None, position, rows: None },
            Target::Rows(at) => match self.header(at, access, wanted).await? {
                Some(item) => item,
                None => return Ok(None),
            },
        };
        if self.data.len() <= item.position {
            let what = "partition past the end of the data";
            return Err(self.partitions.damaged(what, item.position));
        }
        Ok(Some(item))
    }

    /// Reads a header in Rows.db: one page, as a rule.
    async fn header(
        &self,
        at: u64,
        access: &Access,
        wanted: Option<&DecoratedKey>,
    ) -> Result<Option<Item>, ReadError> {
        let page = self.rows.page(access, at / PAGE_BYTES).await?;
        let start = (at % PAGE_BYTES) as usize;
        let mut bytes = Vec::new();
        let mut rest = page.get(start..).unwrap_or_default();
        loop {
            let error = match RowsHeader::parse(&mut Cursor::new(rest), at) {
                Ok(header) => {
                    let key = match wanted {
                        Some(wanted) if &*wanted.key != header.key => return Ok(None),
                        Some(wanted) => wanted.clone(),
                        None => DecoratedKey::new(Bytes::copy_from(header.key)),
                    };
                    let RowsHeader { position, rows, .. } = header;
                    return Ok(Some(Item { key: Some(key), position, rows: Some(rows) }));
                }
                Err(error) => error,
            };
            debug_assert!(rest.len() <= RowsHeader::BYTES_MAX + 2 * PAGE_BYTES as usize, "bounded");
            let more = at + rest.len() as u64;
            let end = (more + PAGE_BYTES).min(self.rows.len());
            if end <= more || RowsHeader::BYTES_MAX < rest.len() {
                return Err(self.rows.damaged(error.what, at + error.at));
            }
            bytes.clear();
            self.rows.read(access, at..end, &mut bytes).await?;
            rest = &bytes;
        }
    }

    /// The key that a partition in the data starts with.
    async fn key_at(&self, position: u64, access: &Access) -> Result<DecoratedKey, ReadError> {
        let (mut bytes, mut want) = (Vec::new(), HEAD_BYTES);
        loop {
            let end = self.data.round_up(position.saturating_add(want)).min(self.data.len());
            debug_assert!(position < end, "within-file: a key at {position}");
            bytes.clear();
            self.data.read(access.class, position..end, &mut bytes).await?;
            match Cursor::new(&bytes).u16_bytes("partition key cut short") {
                Ok(key) => return Ok(DecoratedKey::new(Bytes::copy_from(key))),
                Err(_) if end < self.data.len() && want == HEAD_BYTES => {
                    want = 2 + u16::MAX as u64;
                }
                Err(error) => return Err(self.data.damaged(error.what, position)),
            }
        }
    }
}

/// A walk over the partitions of a trie index.
#[derive(Debug)]
pub struct TrieEntries {
    index: Rc<TrieIndex>,
    access: Access,
    walk: Walk<CachedPages>,
    reading: Ahead,
    /// Where the walk starts, until it has.
    start: Option<RingBound>,
    place: Place,
    scratch: Place,
    /// What comes next, in *file-order*; and the entry behind it, which has another token.
    queue: VecDeque<Item>,
    ahead: Option<Passed>,
    ended: bool,
    /// The position of the partition answered last.
    last: Option<u64>,
}

impl TrieEntries {
    /// From the first partition at or after a bound on.
    pub fn new(index: &Rc<TrieIndex>, start: &RingBound, access: &Access) -> TrieEntries {
        TrieEntries {
            index: index.clone(),
            access: access.clone(),
            walk: index.walk(access),
            reading: Ahead::default(),
            start: Some(start.clone()),
            place: Place::new(),
            scratch: Place::new(),
            queue: VecDeque::new(),
            ahead: None,
            ended: false,
            last: None,
        }
    }

    /// The next partition; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Located>, ReadError> {
        self.fill(2).await?;
        let Some(Item { key, position, rows }) = self.queue.pop_front() else { return Ok(None) };
        let end = self.queue.front().map_or(self.index.data.len(), |next| next.position);
        if self.last.is_some_and(|last| position <= last) || end <= position {
            let what = "positions of partitions out of order";
            return Err(self.index.partitions.damaged(what, position));
        }
        debug_assert!(end <= self.index.data.len(), "file-order: {position} to {end}");
        self.last = Some(position);
        let rows = rows.map(RowIndex::Trie);
        Ok(Some(Located { key, position, end: Some(end), rows }))
    }

    /// Has so many partitions at hand, or all that are left.
    async fn fill(&mut self, count: usize) -> Result<(), ReadError> {
        if let Some(bound) = self.start.take() {
            self.begin(&bound).await?;
        }
        while self.queue.len() < count && !self.ended {
            self.group().await?;
        }
        Ok(())
    }

    /// Goes to the first partition at or after a bound. The trie alone does not tell of every
    /// partition whether it is before it: of those that may be, the keys are read.
    async fn begin(&mut self, bound: &RingBound) -> Result<(), ReadError> {
        let index = self.index.clone();
        let weight = if bound.key.is_none() && bound.after { 1 } else { -1 };
        let mut key = Vec::new();
        put_partition_position(bound.token, None, weight, &index.form, &mut key);
        let (root, place) = (index.root, &mut self.place);
        let is_leaf = index.run(&mut self.walk, |walk| walk.seek(root, &key, false, place)).await?;
        let same_token = bound.key.is_some() && TOKEN_BYTES <= self.place.depth() as usize;
        if is_leaf {
            self.place.before_node();
        }
        if !is_leaf && !same_token {
            return Ok(());
        }
        self.group().await?;
        for item in std::mem::take(&mut self.queue) {
            let key = match item.key.clone() {
                Some(key) => key,
                None => index.key_at(item.position, &self.access).await?,
            };
            if bound.place(key.token, &key.key).is_ge() {
                self.queue.push_back(Item { key: Some(key), ..item });
            }
        }
        Ok(())
    }

    /// Takes the next partition and those that may have its token.
    async fn group(&mut self) -> Result<(), ReadError> {
        let index = self.index.clone();
        let from = self.queue.len();
        let mut next = match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.step().await?,
        };
        while let Some(passed) = next {
            if from < self.queue.len() && (passed.shared as usize) < TOKEN_BYTES {
                self.ahead = Some(passed);
                break;
            }
            let node = self.place.node();
            let (_, target) = read_payload(&passed).map_err(|error| index.damaged(error, node))?;
            self.queue.extend(index.item(target, &self.access, None).await?);
            next = self.step().await?;
        }
        self.ended = next.is_none();
        self.queue.make_contiguous()[from..].sort_by_key(|item| item.position);
        Ok(())
    }

    async fn step(&mut self) -> Result<Option<Passed>, ReadError> {
        let TrieEntries { index, walk, reading, place, scratch, .. } = self;
        let passed = index.run_ahead(walk, reading, |walk| walk.next(place, scratch)).await?;
        std::mem::swap(place, scratch);
        Ok(passed)
    }
}

#[cfg(test)]
mod tests;
