//! The row cache of a tablet without SSTables.

use crate::RowCacheStats;
use crate::cache::{RowCache, TabletCache, UpdateStep};
use crate::memtable::{KeyRange, Memtable, MemtableSource};
use model::{DecoratedKey, TableSchema, Token};
use mutation::RingBound;
use reader::{Budget, ReadError, Slice, Source};
use runtime::task::yield_if_needed;
use std::rc::Rc;

/// What is merged between two looks at the clock.
const BATCH: Budget = Budget { fragments_max: 32, bytes_max: 32 << 10 };

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
    pub async fn merge(
        &self,
        memtable: &Rc<Memtable>,
        is_new: impl Fn(&DecoratedKey) -> bool,
    ) -> Result<(), ReadError> {
        let bound = |token, after| RingBound { token, key: None, after };
        let all = KeyRange::Between(bound(Token::MIN, false), bound(Token::MAX, true));
        let mut source = MemtableSource::new(memtable.clone(), all, Slice::full());
        let mut update = self.tablet.begin_update(&self.schema);
        let mut batch = Vec::new();
        loop {
            source.fill(BATCH, &mut batch).await?;
            if batch.is_empty() {
                break;
            }
            for fragment in batch.drain(..) {
                while let UpdateStep::Again = update.fragment(&fragment, &is_new) {
                    yield_if_needed().await;
                }
            }
            yield_if_needed().await;
        }
        update.finish();
        Ok(())
    }

    /// How many rows are known of a partition that is one object of the cache.
    pub fn rows_of(&self, key: &DecoratedKey) -> Option<usize> {
        self.tablet.with_whole(key, |whole| whole.run.row_count())
    }

    /// Forgets all, and frees it bit by bit.
    pub async fn clear(&self) {
        self.tablet.invalidate();
        while self.cache.reclaim_step() {
            yield_if_needed().await;
        }
    }

    /// What it holds and has done.
    pub fn stats(&self) -> RowCacheStats {
        self.cache.stats()
    }
}
