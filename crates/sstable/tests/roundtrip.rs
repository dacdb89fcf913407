//! Random partitions of random tables come back as they were written. With `SSTABLE_DUMP` set to
//! a directory, every file is put there too, for the tools of other implementations.

mod support;

use mutation::Fragment;
use sstable::{Algorithm, Component, Compression, Generation, Writer, WriterOptions};
use std::path::Path;
use std::rc::Rc;
use support::generate::Generator;

/// The files of an SSTable, to the disk of the machine.
#[allow(clippy::disallowed_methods)]
async fn dump(table: &sstable::Table, seed: u64) {
    let Some(root) = std::env::var_os("SSTABLE_DUMP") else { return };
    let dir = Path::new(&root).join("ks").join(format!("t{seed}"));
    std::fs::create_dir_all(&dir).unwrap();
    let descriptor = table.descriptor();
    for component in Component::ALL {
        if let Ok(bytes) = runtime::io::fs::read_file(descriptor.path(table.dir(), component)).await
        {
            std::fs::write(descriptor.path(&dir, component), bytes).unwrap();
        }
    }
}

async fn check(seed: u64, compression: Compression, column_index_bytes: usize) {
    let mut generator = Generator::new(seed);
    let schema = generator.draw(&model::testing::table_schema());
    let fragments = generator.partitions(&schema, 12);
    if fragments.is_empty() {
        return;
    }
    let options = WriterOptions { compression, column_index_bytes, ..support::options() };
    let generation = Generation::Number(seed + 1);
    let schema = Rc::new(schema);
    let dir = Path::new(support::DIR);
    let class = runtime::io::IoClass::Flush;
    let writer = Writer::create(dir, generation, schema.clone(), options, class).await;
    let mut writer = writer.unwrap();
    for fragment in &fragments {
        writer.write(fragment).await.unwrap();
    }
    let sealed = writer.finish().await.unwrap().unwrap();
    let table = sstable::Table::open(dir, sealed.descriptor, schema.clone()).await.unwrap();
    dump(&table, seed).await;
    table.verify(class).await.unwrap();
    let seen = support::read_all(&table).await.unwrap();
    for (index, (seen, written)) in seen.iter().zip(&fragments).enumerate() {
        assert_eq!(seen, written, "fragment {index}, seed {seed}, {schema:?}");
    }
    assert_eq!(seen.len(), fragments.len(), "seed {seed}");
    let elements =
        |f: &&Fragment| matches!(f, Fragment::Row { .. } | Fragment::RangeTombstoneChange { .. });
    assert_eq!(sealed.rows, fragments.iter().filter(elements).count() as u64);
    sstable::store::remove(dir, sealed.descriptor).await.unwrap();
    assert!(sstable::store::list(dir).await.unwrap().tables.is_empty());
}

#[test]
fn random_tables_come_back() {
    support::in_simulation(1, async {
        for seed in 0..300 {
            let compression = match seed % 3 {
                0 => Compression::None,
                1 => Compression::LZ4,
                _ => Compression::Chunks { algorithm: Algorithm::Snappy, chunk_bytes: 1024 },
            };
            let column_index_bytes = if seed % 2 == 0 { 65536 } else { 64 };
            check(seed, compression, column_index_bytes).await;
        }
    });
}
