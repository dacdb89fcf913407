//! Entries of Index.db, read forward past the cache: a parsed page takes the place of the bytes
//! that it was made of.
//!
//! Invariants
//!  - *small-steps*: a promoted index is not read with its entry, but for what came with the same
//!    page of the file; these pages go into the cache, as the rows are looked up there next.
//!  - *progress*: every entry takes at least four bytes.
//!  - *within-file*: what is loaded lies in the file, and what is consumed in what is loaded.

use crate::cache::PromotedAt;
use crate::cache::{Access, CachedFile, PAGE_BYTES};
use crate::index::entry::{EntryHead, HEAD_BYTES_MAX};
use crate::mx::layout::DeletionForm;
use reader::ReadError;
use std::ops::Range;
use stdx::{Cursor, Damaged, vint};

/// Of a promoted index, bytes before the blocks at most: header length, deletion time, count.
const FACTS_BYTES_MAX: u64 = 2 * vint::SIZE_MAX as u64 + 13;
/// The most that is read at once.
const STEP_BYTES_MAX: u64 = 128 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Feed {
    file: CachedFile,
    access: Access,
    /// Bytes of the data: positions of partitions lie before that.
    data_bytes: u64,
    /// Loaded from the page of the first unconsumed byte on.
    buf: Vec<u8>,
    /// What of `buf` is consumed.
    at: usize,
    /// The position behind `buf`.
    loaded: u64,
    /// What the next read takes, at least and at most.
    step: u64,
    ahead_max: u64,
    form: DeletionForm,
}

/// The head of an entry.
#[derive(Debug)]
pub(super) struct Head {
    /// The key, in [`Feed::rest`].
    key: Range<usize>,
    /// Where the partition starts in the data.
    pub(super) position: u64,
    promoted_bytes: u64,
    /// Bytes of the head.
    bytes: usize,
}

impl Head {
    /// Bytes of the entry without its promoted index.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Feed {
    /// Stands at the entry that starts at `position`; the first read takes `step` bytes, and no
    /// read more than what is asked for from `ahead_max` on.
    pub(super) fn new(
        file: CachedFile,
        access: Access,
        data_bytes: u64,
        (position, step, ahead_max): (u64, u64, u64),
    ) -> Feed {
        let mut feed = Feed {
            file,
            access,
            data_bytes,
            buf: Vec::new(),
            at: 0,
            loaded: 0,
            step: step.clamp(PAGE_BYTES, STEP_BYTES_MAX),
            ahead_max,
            form: DeletionForm::Plain,
        };
        feed.jump(position.min(feed.file.len()));
        feed
    }

    /// The same for an index with deletion times of that form.
    pub(super) fn with_form(mut self, form: DeletionForm) -> Feed {
        self.form = form;
        self
    }

    /// What is loaded and not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        debug_assert!(self.at <= self.buf.len(), "within-file: {} consumed", self.at);
        &self.buf[self.at..]
    }
    /// Where `rest` starts in the file.
    pub(super) fn position(&self) -> u64 {
        self.loaded - self.buf.len() as u64 + self.at as u64
    }
    /// Whether nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        debug_assert!(self.position() <= self.file.len(), "within-file: at {}", self.position());
        self.position() == self.file.len()
    }

    /// Forgets what is loaded and goes on at `position`.
    fn jump(&mut self, position: u64) {
        debug_assert!(position <= self.file.len(), "within-file: to {position}");
        self.buf.clear();
        self.at = 0;
        self.loaded = position;
    }

    /// Loads such that `rest` has at least `want` bytes, or all there are.
    async fn load(&mut self, want: u64) -> Result<(), ReadError> {
        let here = (self.buf.len() - self.at) as u64;
        if want <= here || self.loaded == self.file.len() {
            return Ok(());
        }
        let position = self.position();
        let kept = match self.buf.is_empty() {
            // A page is read whole, as the disk does.
            true => (self.loaded % PAGE_BYTES) as usize,
            false => {
                let drop = self.at - (position % PAGE_BYTES).min(self.at as u64) as usize;
                self.buf.drain(..drop);
                self.at - drop
            }
        };
        let start = if self.buf.is_empty() { self.loaded - kept as u64 } else { self.loaded };
        let need = self.loaded.saturating_add(want - here);
        let ahead = start.saturating_add(self.step).min(self.ahead_max);
        let end = need.max(ahead).next_multiple_of(PAGE_BYTES).min(self.file.len());
        debug_assert!(start < end && self.loaded <= end, "progress: {start} to {end}");
        self.step = (self.step * 2).min(STEP_BYTES_MAX);
        let read = self.file.read_past(&self.access, start..end, &mut self.buf).await;
        if let Err(error) = read {
            self.jump(position);
            return Err(error);
        }
        self.at = kept;
        self.loaded = end;
        assert!(self.position() == position, "within-file: {position} moved as it was loaded");
        let base = end - self.buf.len() as u64;
        debug_assert!(base.is_multiple_of(PAGE_BYTES) || end == self.file.len(), "whole pages");
        Ok(())
    }

    /// The entry here; `None` at the end of the file.
    pub(super) async fn head(&mut self) -> Result<Option<Head>, ReadError> {
        if self.is_at_end() {
            return Ok(None);
        }
        let mut want = 1;
        loop {
            self.load(want).await?;
            match self.parse_head() {
                Ok(head) => return Ok(Some(head)),
                Err(_) if self.loaded < self.file.len() && want < HEAD_BYTES_MAX as u64 => {
                    want = (self.rest().len() as u64 + 1).max(2 * want);
                }
                Err(error) => return Err(self.damaged(error)),
            }
        }
    }

    fn parse_head(&self) -> Result<Head, Damaged> {
        let mut cursor = Cursor::new(self.rest());
        let head = EntryHead::parse(&mut cursor)?;
        let bytes = cursor.offset();
        let left = self.file.len() - self.position() - bytes as u64;
        if left < head.promoted_bytes {
            return Err(Damaged::new("promoted index past the end", 0));
        }
        if self.data_bytes <= head.position {
            return Err(Damaged::new("partition past the end of the data", 0));
        }
        let key = 2..2 + head.key.len();
        debug_assert!(4 <= bytes && key.end < bytes, "progress: a head of {bytes} bytes");
        Ok(Head { key, position: head.position, promoted_bytes: head.promoted_bytes, bytes })
    }

    /// The key of an entry that [`Feed::head`] gave and that is not consumed.
    pub(super) fn key(&self, head: &Head) -> &[u8] {
        &self.rest()[head.key.clone()]
    }

    /// Goes over an entry to the next; answers what is to be known of its promoted index.
    pub(super) async fn consume(&mut self, head: &Head) -> Result<Option<PromotedAt>, ReadError> {
        debug_assert!(head.bytes <= self.rest().len(), "within-file: a head that is not loaded");
        self.at += head.bytes;
        if head.promoted_bytes == 0 {
            return Ok(None);
        }
        self.load(head.promoted_bytes.min(FACTS_BYTES_MAX)).await?;
        let start = self.position();
        let promoted = parse_facts(self.rest(), start, head.promoted_bytes, self.form);
        let promoted = promoted.map_err(|error| self.damaged(error))?;
        self.keep(start..start + head.promoted_bytes);
        self.skip(head.promoted_bytes);
        Ok(Some(promoted))
    }

    /// Goes over an entry of whose promoted index nothing is to be known.
    pub(super) fn pass(&mut self, head: &Head) {
        self.skip(head.bytes as u64 + head.promoted_bytes);
    }

    /// Goes over entries without promoted index, at most `count` of them, as long as they are
    /// loaded whole and start before `end`: most entries, for a fraction of what [`Feed::head`]
    /// costs.
    pub(super) fn pass_small(
        &mut self,
        end: u64,
        count: usize,
        mut take: impl FnMut(&[u8], u64) -> Result<(), Damaged>,
    ) -> Result<(), ReadError> {
        let left = end.saturating_sub(self.position());
        let limit = usize::try_from(left).map_or(self.buf.len(), |left| self.at + left);
        for _ in 0..count {
            if limit <= self.at {
                break;
            }
            let Some((key, position, bytes)) = small_entry(&self.buf[self.at..]) else { break };
            // Damage is told by who parses the entry again.
            if self.data_bytes <= position {
                break;
            }
            debug_assert!(4 <= bytes, "progress: an entry of {bytes} bytes");
            take(key, position).map_err(|error| self.damaged(error))?;
            self.at += bytes;
        }
        Ok(())
    }

    /// Goes forward within the file.
    fn skip(&mut self, count: u64) {
        let here = (self.buf.len() - self.at) as u64;
        if count <= here {
            self.at += count as usize;
        } else {
            let position = self.position() + count;
            self.jump(position);
            self.step = PAGE_BYTES;
        }
    }

    /// Puts the whole pages that are loaded and have something of a promoted index into the cache.
    fn keep(&self, range: Range<u64>) {
        debug_assert!(range.end <= self.file.len(), "within-file: {range:?} is kept");
        let base = self.loaded - self.buf.len() as u64;
        let first = (range.start / PAGE_BYTES).max(base.div_ceil(PAGE_BYTES));
        for number in first..range.end.min(self.loaded).div_ceil(PAGE_BYTES) {
            let start = number * PAGE_BYTES;
            let end = (start + PAGE_BYTES).min(self.file.len());
            let bytes = self.buf.get((start - base) as usize..(end - base) as usize);
            let Some(bytes) = bytes else { return };
            self.file.populate(&self.access, number, bytes);
        }
    }

    /// The data position of the entry here, as far as it is loaded; the length of the data at the
    /// end of the file.
    pub(super) fn loaded_position(&self) -> Option<u64> {
        if self.is_at_end() {
            return Some(self.data_bytes);
        }
        self.parse_head().ok().map(|head| head.position)
    }

    /// Damage at an offset from here.
    pub(super) fn damaged(&self, damaged: Damaged) -> ReadError {
        self.file.damaged(damaged.what, self.position().saturating_add(damaged.at))
    }
}

/// Key, position and length of an entry that is there whole and has no promoted index.
fn small_entry(bytes: &[u8]) -> Option<(&[u8], u64, usize)> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*length) as usize)?;
    let (position, size) = vint::read(rest)?;
    (*rest.get(size)? == 0).then_some((key, position, 2 + key.len() + size + 1))
}

/// Reads what stands before the blocks of a promoted index of `len` bytes that starts at `start`.
fn parse_facts(
    bytes: &[u8],
    start: u64,
    len: u64,
    form: DeletionForm,
) -> Result<PromotedAt, Damaged> {
    let bytes = &bytes[..bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
    let mut cursor = Cursor::new(bytes);
    let header_bytes = cursor.vint("promoted index cut short")?;
    let tombstone = form.read(&mut cursor)?;
    let count = cursor.vint("promoted index cut short")?;
    let facts_bytes = cursor.offset() as u64;
    let blocks = u32::try_from(count).ok().filter(|count| {
        let fits = 4 * u64::from(*count) <= len - facts_bytes;
        fits && 0 < *count
    });
    let blocks = blocks.ok_or(cursor.damaged("promoted index with no or too many blocks"))?;
    let blocks_at = start + facts_bytes;
    debug_assert!(facts_bytes + 4 * u64::from(blocks) <= len, "small-steps: {blocks} blocks");
    Ok(PromotedAt { start, len, blocks_at, blocks, header_bytes, tombstone, form })
}
