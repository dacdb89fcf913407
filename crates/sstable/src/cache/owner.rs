//! What the cache knows an index file by while it is open.

use super::IndexCache;
use runtime::io::File;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// What pages belong to: their address names it in caches.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) file: File,
    pub(super) len: u64,
    /// Where something of it may be: these are told when the file is closed.
    caches: RefCell<Vec<Weak<IndexCache>>>,
}

impl Owner {
    /// Of a file of `len` bytes, of which nothing is cached yet.
    pub(super) fn new(file: File, len: u64) -> Owner {
        Owner { file, len, caches: RefCell::default() }
    }

    /// Notes where it is cached.
    pub(super) fn cached_in(&self, cache: &Rc<IndexCache>) {
        let mut caches = self.caches.borrow_mut();
        if !caches.iter().any(|known| known.as_ptr() == Rc::as_ptr(cache)) {
            caches.retain(|known| 0 < known.strong_count());
            caches.push(Rc::downgrade(cache));
        }
        let here = |known: &&Weak<IndexCache>| known.as_ptr() == Rc::as_ptr(cache);
        debug_assert!(caches.iter().filter(here).count() == 1, "orphans-first: told once");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for cache in self.caches.take().iter().filter_map(Weak::upgrade) {
            cache.forget(std::ptr::from_ref(self) as usize);
        }
    }
}
