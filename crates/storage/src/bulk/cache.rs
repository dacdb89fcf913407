//! The row cache of a tablet without SSTables.
//!
//! Invariants
//!  - *gives-back*: once it is closed it holds nothing.

use crate::cache::{RowCache, RowCacheStats, TabletCache};
use crate::memtable::Memtable;
use crate::table::cache_update;
use model::{DecoratedKey, TableSchema, Token};
use reader::ReadError;
use runtime::Erased;
use runtime::task::yield_if_needed;
use std::rc::Rc;

/// The cache of a table with one tablet, of which there are no SSTables but those that memtables
/// which were merged would have become (*for-tools-alone*).
pub struct LoneCache {
    cache: Rc<RowCache>,
    tablet: Rc<TabletCache>,
    schema: Rc<TableSchema>,
}

impl LoneCache {
    /// An empty one that may hold so many bytes.
    pub fn new(schema: Rc<TableSchema>, bytes_max: usize) -> LoneCache {
        let cache = RowCache::new(bytes_max, bytes_max);
        let tablet = cache.open(Rc::new(schema.order.clone()), (Token::MIN, Token::MAX));
        LoneCache { cache, tablet, schema }
    }

    /// Merges a memtable, as a flush does once its SSTable is written. Partitions that are not
    /// cached are made of the memtable if `is_new` says that nothing else has anything of them.
    pub fn merge<'a>(
        &'a self,
        memtable: &'a Rc<Memtable>,
        is_new: impl Fn(&DecoratedKey) -> bool + 'a,
    ) -> Erased<'a, Result<(), ReadError>> {
        Erased::new(move || async move {
            let mut update = self.tablet.begin_update(&self.schema);
            cache_update::merge_into(&mut update, memtable, &is_new).await?;
            update.finish();
            Ok(())
        })
    }

    /// How many rows are known of a partition that is one object of the cache.
    pub fn rows_of(&self, key: &DecoratedKey) -> Option<usize> {
        self.tablet.with_whole(key, |whole| whole.run.row_count())
    }

    /// Forgets all, and frees it bit by bit.
    pub fn clear(&self) -> Erased<'_, ()> {
        Erased::new(move || async move {
            self.tablet.invalidate();
            while self.cache.reclaim_step() {
                yield_if_needed().await;
            }
        })
    }

    /// Gives all of its memory back bit by bit, so that little is left to do when it is dropped.
    pub fn close(&self) -> Erased<'_, ()> {
        Erased::new(move || async move {
            self.cache.set_limit(0);
            self.clear().await;
            let left = self.cache.stats().partitions;
            assert!(left == 0, "gives-back: {left} partitions stay");
        })
    }

    /// What it holds and has done.
    pub fn stats(&self) -> RowCacheStats {
        self.cache.stats()
    }
}
