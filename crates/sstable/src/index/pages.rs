//! What steps in an index are taken on: pages that are in memory. A step that lacks one says which,
//! and is taken again when it has it.

use crate::cache::{Access, CachedFile, PAGE_BYTES, Page};
use std::fmt::Debug;
use std::ops::Deref;
use stdx::Damaged;

/// The pages of an index file that are in memory.
pub(crate) trait Pages {
    /// One of them: shorter than [`PAGE_BYTES`] only at the end of the file.
    type Page: Deref<Target = [u8]> + Clone + Debug;
    /// A page, if it is at hand.
    fn now(&self, number: u64) -> Option<Self::Page>;
}

/// Why a step could not be ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// This page must be held.
    Need(u64),
    /// The index is damaged; the offset counts from the start of the file.
    Damaged(Damaged),
}

/// The pages of a cached file, as one read sees them.
#[derive(Debug)]
pub(crate) struct CachedPages {
    pub(crate) file: CachedFile,
    pub(crate) access: Access,
}

impl Pages for CachedPages {
    type Page = Page;
    fn now(&self, number: u64) -> Option<Page> {
        let page = self.file.page_now(&self.access, number);
        let short = page.as_ref().is_some_and(|page| page.len() < PAGE_BYTES as usize);
        debug_assert!(!short || self.file.len() / PAGE_BYTES == number, "a page cut short");
        page
    }
}
