//! Tables, memtables and SSTables without a node.

use model::{DecoratedKey, TableSchema, Token};
use mutation::{CompactionFilter, FrozenMutation, Outside, RingBound};
use reader::{Budget, Slice, Source};
use runtime::io::IoClass;
use sstable::{Generation, Sealed, Writer, WriterOptions};
use std::path::Path;
use std::rc::Rc;
use stdx::Bytes;
use storage::memtable::{KeyRange, Memtable, MemtableSource};

/// One batch from a source.
pub(crate) const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };

/// The table that a CREATE TABLE makes.
pub(crate) fn table(text: &str) -> Result<Rc<TableSchema>, String> {
    let made = plan::offline::schema_of_text(text, 0).map_err(|error| error.to_string())?;
    made.tables.into_iter().next().map(Rc::new).ok_or("no table was made".to_string())
}

/// An empty memtable of a table.
pub(crate) fn memtable(schema: &TableSchema) -> Rc<Memtable> {
    Rc::new(Memtable::new(Rc::new(schema.order.clone())))
}

/// Puts a mutation of ours into a memtable: its key.
pub(crate) fn apply(
    memtable: &Memtable,
    schema: &TableSchema,
    mutation: &FrozenMutation,
) -> DecoratedKey {
    let view = mutation.view().expect("a mutation of ours is well formed");
    let key = DecoratedKey::new(Bytes::copy_from(view.key()));
    memtable.apply(schema, key.clone(), &view);
    key
}

/// All partitions there can be.
pub(crate) fn whole_ring() -> (RingBound, RingBound) {
    let bound = |token, after| RingBound { token, key: None, after };
    (bound(Token::MIN, false), bound(Token::MAX, true))
}

/// All of a memtable.
pub(crate) fn source_of(memtable: &Rc<Memtable>) -> Box<dyn Source> {
    let (start, end) = whole_ring();
    let keys = KeyRange::Between(start, end);
    Box::new(MemtableSource::new(memtable.clone(), keys, Slice::full()))
}

/// Writes an SSTable of all that a source has.
pub(crate) async fn write(
    folder: &Path,
    schema: &Rc<TableSchema>,
    mut source: Box<dyn Source>,
    options: WriterOptions,
    class: IoClass,
) -> Result<Sealed, String> {
    let created = Writer::create(folder, Generation::generate(), schema.clone(), options, class);
    let mut writer = created.await.map_err(|error| error.to_string())?;
    let mut filter = CompactionFilter::new(0, Box::new(|_| Outside::UNKNOWN));
    let (mut batch, mut kept) = (Vec::new(), Vec::new());
    loop {
        source.fill(BATCH, &mut batch).await.map_err(|error| error.to_string())?;
        if batch.is_empty() {
            break;
        }
        batch.drain(..).for_each(|fragment| filter.push(fragment, &mut kept));
        for fragment in &kept {
            writer.write(fragment).await.map_err(|error| error.to_string())?;
        }
        kept.clear();
        runtime::task::yield_if_needed().await;
    }
    let sealed = writer.finish().await.map_err(|error| error.to_string())?;
    sealed.ok_or("nothing was written".to_string())
}
