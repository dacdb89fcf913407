//! How SSTables are written: as the table says, else as the node.

use super::*;
use model::schema::TableOptions;
use sstable::{Version, WriterDefaults, store};
use testkit::SimNode;

#[test]
fn a_table_is_written_as_it_says_or_as_its_node() {
    let mut node = SimNode::new(3, 1);
    node.run(async {
        let sstables = WriterDefaults { version: Version::Ms, ..WriterDefaults::default() };
        let config = Config { sstables, index_cache_bytes: 8 << 10, ..config() };
        let data_dir = config.data_dir.clone();
        let storage = open(config).await;
        let mut schema = schema(1, "t1");
        let dir = crate::table::dir::directory(&data_dir, &schema);
        let mut row = 0;
        for format in [None, Some("me"), Some("ms"), None] {
            schema.options.set_extension(TableOptions::SSTABLE_FORMAT, format);
            schema.options.set_extension(TableOptions::COLUMN_INDEX_KIB, format.map(|_| "1"));
            storage.alter_table(Rc::new(schema.clone()));
            let last = row + 40;
            while row < last {
                storage.apply(write(&schema, 5, row, 1, &[7; 100])).await.unwrap();
                row += 1;
            }
            storage.flush(schema.id).await.unwrap();
        }
        let listing = store::list(&dir).await.unwrap();
        let version = |version| {
            listing.tables.iter().filter(|found| found.descriptor.version == version).count()
        };
        assert_eq!((version(Version::Me), version(Version::Ms)), (1, 3));
        assert_eq!(rows(&storage, &schema, 5).await.len(), row as usize);
        storage.stop().await.unwrap();
    });
}
