//! The partition index of the big format: a binary search of the summary, one page of Index.db
//! through the cache, a binary search of the page's tokens.
//!
//! Invariants
//!  - *absence-is-known*: that a key is absent is only said of a page that was read whole, in
//!    order, from the key that the summary names, and, of the last page, to the file's last key.

use crate::cache::partition_page::{PageBuilder, PartitionPage};
use crate::cache::{Access, Body, CachedFile, Claim, PAGE_BYTES, PageKind, Pin};
use crate::compress::data::ReadFile;
use crate::index::feed::Feed;
use crate::index::summary::{Summary, SummaryBuilder};
use crate::index::{Located, Lookup, RowIndex};
use crate::mx::layout::DeletionForm;
use model::{DecoratedKey, Token};
use mutation::page::RingBound;
use reader::ReadError;
use runtime::io::IoClass;
use std::ops::Deref;
use std::rc::Rc;
use stdx::{Bytes, Damaged};

/// Bytes of index per partition, on the average, up to which a page is read at once: there are
/// hardly any promoted indexes to step over.
const DENSE_ENTRY_BYTES: u64 = 256;
/// What is read beyond a page of the index at least: the next entry tells where the data of the
/// page's last partition ends. Mostly these bytes are in the same page of the file.
const BEYOND_BYTES: u64 = 64;
/// The most that is read of a page at once.
const PAGE_STEP_BYTES: u64 = 128 << 10;
/// Entries between two looks at whether somebody else should run.
const YIELD_ENTRIES: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct BigIndex {
    file: CachedFile,
    summary: Summary,
    data_bytes: u64,
    /// What the first read of a page takes.
    step: u64,
    form: DeletionForm,
}

/// A page, which stays in memory while it is held.
struct PinnedPage {
    page: Rc<PartitionPage>,
    _pin: Pin,
}

impl Deref for PinnedPage {
    type Target = PartitionPage;
    fn deref(&self) -> &PartitionPage {
        &self.page
    }
}

impl PinnedPage {
    fn new(body: Body, pin: Pin) -> PinnedPage {
        let Body::Partitions(page) = body else { unreachable!("a page of an index is entries") };
        PinnedPage { page, _pin: pin }
    }
}

impl BigIndex {
    /// The index of `data_bytes` of uncompressed data with about `partitions` partitions.
    pub fn new(file: CachedFile, summary: Summary, data_bytes: u64, partitions: u64) -> BigIndex {
        let dense = file.len() / partitions.max(1) <= DENSE_ENTRY_BYTES;
        let step = if dense { PAGE_STEP_BYTES } else { PAGE_BYTES };
        debug_assert!(summary.first <= summary.last, "absence-is-known: the last key is first");
        BigIndex { file, summary, data_bytes, step, form: DeletionForm::Plain }
    }

    /// The same with deletion times of that form.
    pub fn with_form(mut self, form: DeletionForm) -> BigIndex {
        self.form = form;
        self
    }

    /// Index.db.
    pub fn file(&self) -> &CachedFile {
        &self.file
    }

    /// Summary.db.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// See [`super::PartitionIndex::find`].
    pub async fn find(
        &self,
        lookup: &Lookup,
        access: &Access,
    ) -> Result<Option<Located>, ReadError> {
        let DecoratedKey { token, key } = &lookup.key;
        let number = self.summary.page_of(*token, key);
        let page = self.page(number, access).await?;
        let Some(entry) = page.find(*token, key) else { return Ok(None) };
        debug_assert!(page.key(entry) == &**key, "absence-is-known: another key was found");
        let end = page.end_of(entry).or_else(|| self.start_of_cached(number + 1, access));
        Ok(Some(Located {
            key: Some(lookup.key.clone()),
            position: page.position(entry),
            end,
            rows: page.promoted(entry).map(RowIndex::Promoted),
        }))
    }

    /// See [`super::PartitionIndex::lower_bound`].
    pub async fn lower_bound(&self, bound: &RingBound, access: &Access) -> Result<u64, ReadError> {
        let (first, last) = (&self.summary.first, &self.summary.last);
        if bound.place(last.token, &last.key).is_lt() {
            return Ok(self.data_bytes);
        }
        if bound.place(first.token, &first.key).is_ge() {
            return Ok(0);
        }
        let key = bound.key.as_deref().unwrap_or_default();
        let mut number = self.summary.page_of(bound.token, key);
        while number < self.summary.len() {
            let page = self.page(number, access).await?;
            let entry = page.lower_bound(bound);
            debug_assert!(
                entry == 0 || bound.place(page.token(entry - 1), page.key(entry - 1)).is_lt(),
                "absence-is-known: {bound:?} lies before entry {entry}"
            );
            if entry < page.len() {
                return Ok(page.position(entry));
            }
            number += 1;
            if let Some(end) = page.end
                && self
                    .summary
                    .get(number)
                    .is_some_and(|(token, key)| bound.place(token, key).is_ge())
            {
                return Ok(end);
            }
        }
        Err(self.ends_early())
    }

    /// Where the data of a page's first partition starts, if the page is cached.
    fn start_of_cached(&self, number: usize, access: &Access) -> Option<u64> {
        let page = (PageKind::Partitions, number as u64);
        let (body, pin) = access.cache.get(self.file.owner(), page, access.read())?;
        Some(PinnedPage::new(body, pin).position(0))
    }

    /// A page by the number of its summary entry.
    async fn page(&self, number: usize, access: &Access) -> Result<PinnedPage, ReadError> {
        let mut waited = false;
        loop {
            let page = (PageKind::Partitions, number as u64);
            match access.cache.claim(self.file.owner(), page, access.read(), waited) {
                Claim::Ready(body, pin) => return Ok(PinnedPage::new(body, pin)),
                Claim::Wait(load) => load.ended().await?,
                // The future of a load is large and rare.
                Claim::Mine(loader) => match Box::pin(self.load(number, access)).await {
                    Ok(page) => {
                        let page = Rc::new(page);
                        let pin = loader.finish(Body::Partitions(page.clone()));
                        return Ok(PinnedPage { page, _pin: pin });
                    }
                    Err(error) => {
                        loader.fail(&error);
                        return Err(error);
                    }
                },
            }
            waited = true;
        }
    }

    async fn load(&self, number: usize, access: &Access) -> Result<PartitionPage, ReadError> {
        let (start, end) = self.summary.page_range(number, self.file.len());
        let places = (start, self.step, end.saturating_add(BEYOND_BYTES));
        let feed = Feed::new(self.file.clone(), access.clone(), self.data_bytes, places);
        let mut feed = feed.with_form(self.form);
        let mut builder = PageBuilder::default();
        while feed.position() < end {
            let Some(head) = feed.head().await? else { break };
            let key = feed.key(&head);
            if builder.is_empty() {
                if self.summary.get(number).is_none_or(|(_, sampled)| sampled != key) {
                    let wrong = Damaged::new("the summary leads to another partition", 0);
                    return Err(feed.damaged(wrong));
                }
                let loaded = feed.rest().len().min((end - start) as usize);
                let entries = loaded / head.bytes() + 1;
                builder.reserve(entries, entries * key.len());
            }
            builder.push(key, head.position).map_err(|error| feed.damaged(error))?;
            if let Some(promoted) = feed.consume(&head).await? {
                builder.set_promoted(promoted);
            }
            feed.pass_small(end, YIELD_ENTRIES, |key, position| builder.push(key, position))?;
            runtime::task::yield_if_needed().await;
        }
        if builder.is_empty() {
            return Err(self.ends_early());
        }
        debug_assert!(start < feed.position(), "progress: nothing was read of page {number}");
        if end == self.file.len() {
            // Where the index was cut between two entries, absence would be a lie.
            if builder.last_key() != &*self.summary.last.key {
                return Err(self.ends_early());
            }
        } else if feed.position() != end {
            return Err(feed.damaged(Damaged::new("the summary leads into an entry", 0)));
        }
        Ok(builder.finish(feed.loaded_position()))
    }

    fn ends_early(&self) -> ReadError {
        self.file.damaged(ENDS_EARLY, self.file.len())
    }
}

/// What is wrong with an index without the last partition of its summary.
pub(crate) const ENDS_EARLY: &str = "the index ends before the last partition";

/// A walk over the entries of Index.db, with growing read-ahead.
#[derive(Debug)]
pub struct BigEntries {
    index: Rc<BigIndex>,
    feed: Feed,
    /// Entries before this are passed over.
    start: Option<RingBound>,
    /// Nothing lies at or after the start.
    empty: bool,
    last: Option<DecoratedKey>,
}

impl BigEntries {
    pub(super) fn new(index: &Rc<BigIndex>, start: &RingBound, access: &Access) -> BigEntries {
        let summary = &index.summary;
        let key = start.key.as_deref().unwrap_or_default();
        let (position, _) = summary.page_range(summary.page_of(start.token, key), index.file.len());
        let places = (position, PAGE_BYTES, u64::MAX);
        let feed = Feed::new(index.file.clone(), access.clone(), index.data_bytes, places);
        let feed = feed.with_form(index.form);
        let empty = start.place(summary.last.token, &summary.last.key).is_lt();
        BigEntries { index: index.clone(), feed, start: Some(start.clone()), empty, last: None }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Located>, ReadError> {
        if self.empty {
            return Ok(None);
        }
        loop {
            let Some(head) = self.feed.head().await? else {
                self.empty = true;
                return match self.last.as_ref() == Some(&self.index.summary.last) {
                    true => Ok(None),
                    false => Err(self.index.ends_early()),
                };
            };
            let key = self.feed.key(&head);
            if self.start.as_ref().is_some_and(|start| start.place(Token::of(key), key).is_lt()) {
                self.feed.pass(&head);
                continue;
            }
            self.start = None;
            debug_assert!(head.position < self.index.data_bytes, "within-file: {}", head.position);
            let key = DecoratedKey::new(Bytes::copy_from(key));
            if self.last.as_ref() >= Some(&key) {
                return Err(self.feed.damaged(Damaged::new("keys of the index out of order", 0)));
            }
            self.last = Some(key.clone());
            let rows = self.feed.consume(&head).await?.map(RowIndex::Promoted);
            let end = self.feed.loaded_position();
            return Ok(Some(Located { key: Some(key), position: head.position, end, rows }));
        }
    }
}

/// Samples an index that has no summary.
pub async fn rebuild_summary(file: &CachedFile, data: &ReadFile) -> Result<Summary, ReadError> {
    let access = Access::bypass(IoClass::System);
    let places = (0, PAGE_STEP_BYTES, u64::MAX);
    let mut feed = Feed::new(file.clone(), access, data.len(), places);
    let mut builder = SummaryBuilder::default();
    let (mut first, mut last, mut ordered) = (None, Vec::new(), true);
    loop {
        let at = feed.position();
        let Some(head) = feed.head().await? else { break };
        let key = feed.key(&head);
        builder.offer(key, at, data.disk_position(head.position));
        ordered &= builder.last_ascends();
        first.get_or_insert_with(|| key.to_vec());
        last.clear();
        last.extend_from_slice(key);
        feed.pass(&head);
        runtime::task::yield_if_needed().await;
    }
    let summary = first.and_then(|first| builder.finish(&first, &last));
    let summary = summary.filter(|summary| ordered && summary.is_within(file.len()));
    summary.ok_or_else(|| file.damaged("an index without entries, or out of order", 0))
}

#[cfg(test)]
mod tests;
