//! An index file, read in pages of 4096 bytes through a cache.
//!
//! Invariants
//!  - *within-file*: nothing past the end of the file is asked for; who leads there is damage.
//!  - *exact*: what is appended is the range that was asked for, each byte of it once.

use super::body::{Body, PageBytes, PageKind};
use super::owner::Owner;
use super::state::{Claim, Loader, Pin};
use super::{Access, PAGE_BYTES};
use reader::ReadError;
use runtime::io::{DmaBuf, File};
use std::ops::{Deref, Range};
use std::path::Path;
use std::rc::Rc;

/// Pages that one request loads at most.
const RUN_PAGES_MAX: u64 = 64;

/// An index file: Index.db, Partitions.db or Rows.db. Clones are the same file.
#[derive(Clone, Debug)]
pub struct CachedFile {
    owner: Rc<Owner>,
}

/// A page of an index file, which stays in memory while it is held.
#[derive(Clone, Debug)]
pub struct Page {
    bytes: Rc<PageBytes>,
    _pin: Pin,
}

impl Page {
    fn new(body: Body, pin: Pin) -> Page {
        let Body::File(bytes) = body else { unreachable!("a page of a file is bytes") };
        Page { bytes, _pin: pin }
    }
}

impl Deref for Page {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl CachedFile {
    /// A file of `len` bytes.
    pub fn new(file: File, len: u64) -> CachedFile {
        CachedFile { owner: Rc::new(Owner::new(file, len)) }
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.owner.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Its path.
    pub fn path(&self) -> &Path {
        self.owner.file.path()
    }
    /// The file itself, for who reads past the cache.
    pub fn file(&self) -> &File {
        &self.owner.file
    }
    pub(crate) fn owner(&self) -> &Rc<Owner> {
        &self.owner
    }

    /// Damage of this file.
    pub fn damaged(&self, what: &str, at: u64) -> ReadError {
        let file = self.path().display().to_string();
        ReadError::Damaged { file, what: what.to_string(), at }
    }

    /// The page of bytes from `number * PAGE_BYTES` on, loaded by one request if it is not there.
    /// A page past the end of the file is damage: a pointer led there.
    pub async fn page(&self, access: &Access, number: u64) -> Result<Page, ReadError> {
        let mut waited = false;
        loop {
            let page = (PageKind::File, number);
            match access.cache.claim(&self.owner, page, access.read(), waited) {
                Claim::Ready(body, pin) => return Ok(Page::new(body, pin)),
                Claim::Wait(load) => load.ended().await?,
                Claim::Mine(loader) => {
                    return match self.load(access, number, 1).await {
                        Ok(bytes) => Ok(finish(loader, PageBytes::of(bytes))),
                        Err(error) => {
                            loader.fail(&error);
                            Err(error)
                        }
                    };
                }
            }
            waited = true;
        }
    }

    /// The page, if it is there.
    pub fn page_now(&self, access: &Access, number: u64) -> Option<Page> {
        let found = access.cache.get(&self.owner, (PageKind::File, number), access.read());
        found.map(|(body, pin)| Page::new(body, pin))
    }

    /// Appends a range of the file. Pages that are not there and follow each other are loaded by
    /// one request. A range past the end of the file is damage: a length led there.
    pub async fn read(
        &self,
        access: &Access,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.check(&range)?;
        let (mut at, before) = (range.start, out.len());
        let mut waited = false;
        while at < range.end {
            let number = at / PAGE_BYTES;
            let page = (PageKind::File, number);
            match access.cache.claim(&self.owner, page, access.read(), waited) {
                Claim::Ready(body, pin) => {
                    at = copy(&Page::new(body, pin), at, range.end, out);
                    waited = false;
                }
                Claim::Wait(load) => {
                    load.ended().await?;
                    waited = true;
                }
                Claim::Mine(first) => {
                    at = self.load_run(access, first, at..range.end, out).await?;
                    waited = false;
                }
            }
        }
        let read = (out.len() - before) as u64;
        debug_assert!(read == range.end - range.start, "exact: {read} bytes of {range:?}");
        Ok(())
    }

    /// As [`CachedFile::read`], but what is not there does not come into the cache either.
    pub(crate) async fn read_past(
        &self,
        access: &Access,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.check(&range)?;
        let (mut at, before) = (range.start, out.len());
        while at < range.end {
            if let Some(page) = self.page_now(access, at / PAGE_BYTES) {
                at = copy(&page, at, range.end, out);
                continue;
            }
            let bytes = self.owner.file.read_at(access.class, at, (range.end - at) as usize);
            let bytes = bytes.await.map_err(ReadError::Io)?;
            if (bytes.len() as u64) < range.end - at {
                return Err(self.damaged("the file is shorter than it was", at));
            }
            out.extend_from_slice(&bytes);
            at = range.end;
        }
        let read = (out.len() - before) as u64;
        debug_assert!(read == range.end - range.start, "exact: {read} bytes of {range:?}");
        Ok(())
    }

    /// Puts a page that was read past the cache into it, unless it is there.
    pub(crate) fn populate(&self, access: &Access, number: u64, bytes: &[u8]) {
        let left = self.len().saturating_sub(number * PAGE_BYTES);
        debug_assert!(bytes.len() as u64 == left.min(PAGE_BYTES), "exact: page {number}");
        let loader =
            access.cache.claim_absent(&self.owner, (PageKind::File, number), access.read());
        if let Some(loader) = loader {
            drop(finish(loader, PageBytes::Cut(bytes.into())));
        }
    }

    fn check(&self, range: &Range<u64>) -> Result<(), ReadError> {
        if range.end < range.start || self.len() < range.end {
            return Err(
                self.damaged("a length or offset leads past the end of the file", range.start)
            );
        }
        Ok(())
    }

    /// Loads the page that is claimed and those after it that are neither there nor being loaded
    /// (*no-wait-while-loading*), and appends what they have of `wanted`. Answers where it ended.
    async fn load_run(
        &self,
        access: &Access,
        first: Loader,
        wanted: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<u64, ReadError> {
        debug_assert!(!wanted.is_empty() && wanted.end <= self.len(), "within-file: {wanted:?}");
        let number = wanted.start / PAGE_BYTES;
        let last = (wanted.end - 1) / PAGE_BYTES;
        let mut loaders = vec![first];
        for next in number + 1..=last.min(number + RUN_PAGES_MAX - 1) {
            let page = (PageKind::File, next);
            let claimed = access.cache.claim_absent(&self.owner, page, access.read());
            let Some(loader) = claimed else { break };
            access.cache.missed(PageKind::File);
            loaders.push(loader);
        }
        let bytes = match self.load(access, number, loaders.len() as u64).await {
            Ok(bytes) => bytes,
            Err(error) => {
                loaders.into_iter().for_each(|loader| loader.fail(&error));
                return Err(error);
            }
        };
        let cuts = bytes.len().div_ceil(PAGE_BYTES as usize);
        debug_assert!(cuts == loaders.len(), "exact: {cuts} pages for {} loads", loaders.len());
        let mut at = wanted.start;
        for (loader, cut) in loaders.into_iter().zip(bytes.chunks(PAGE_BYTES as usize)) {
            at = copy(&finish(loader, PageBytes::Cut(cut.into())), at, wanted.end, out);
        }
        Ok(at)
    }

    /// Reads pages from the disk by one request.
    async fn load(&self, access: &Access, number: u64, pages: u64) -> Result<DmaBuf, ReadError> {
        let start = number.saturating_mul(PAGE_BYTES);
        if self.len() <= start {
            return Err(self.damaged("an offset leads past the end of the file", start));
        }
        let length = (pages * PAGE_BYTES).min(self.len() - start) as usize;
        debug_assert!(0 < length && pages <= RUN_PAGES_MAX, "within-file: {pages} pages");
        let bytes = self.owner.file.read_at(access.class, start, length).await;
        let bytes = bytes.map_err(ReadError::Io)?;
        if bytes.len() < length {
            return Err(self.damaged("the file is shorter than it was", start));
        }
        debug_assert!(bytes.len() == length, "exact: {} bytes at {start}", bytes.len());
        Ok(bytes)
    }
}

fn finish(loader: Loader, bytes: PageBytes) -> Page {
    let bytes = Rc::new(bytes);
    let pin = loader.finish(Body::File(bytes.clone()));
    Page { bytes, _pin: pin }
}

/// Appends what a page has from `at` to before `end`; answers where that ended.
fn copy(page: &Page, at: u64, end: u64, out: &mut Vec<u8>) -> u64 {
    let from = (at % PAGE_BYTES) as usize;
    let to = page.len().min(from + (end - at) as usize);
    debug_assert!(from < to, "exact: nothing of a page at {at} before {end}");
    out.extend_from_slice(&page[from..to]);
    at + (to - from) as u64
}
