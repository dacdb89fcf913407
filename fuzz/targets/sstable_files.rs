//! Whole SSTables of which one component is damaged: opened and read in every way, they yield
//! fragments or an error that names the damage.
//!
//! The first byte chooses the SSTable, the second the component. Then come patches: a place of two
//! bytes, and a byte to be combined with what stands there. A patch of 255 cuts the file there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{ColumnId, DecoratedKey, TableSchema, Token};
use mutation::page::RingBound;
use mutation::{Cell, ClusteringPosition, Fragment, Marker, RowBuilder, Tombstone, testing};
use reader::{Budget, ReadError, Slice, Source};
use runtime::io::{IoClass, fs};
use runtime::sim::{Options, World};
use sstable::{
    Access, Algorithm, Component, Compression, Descriptor, Generation, IndexCache, Lookup, Scope,
    Table, Version, Writer, WriterOptions,
};
use std::path::Path;
use std::rc::Rc;
use std::sync::LazyLock;

const DIR: &str = "/t";
const PARTITIONS: i32 = 3;

/// An SSTable as files.
struct Files {
    descriptor: Descriptor,
    contents: Vec<(Component, Vec<u8>)>,
}

static SAMPLES: LazyLock<Vec<Files>> = LazyLock::new(|| {
    let mut samples = Vec::new();
    let zstd = Compression::Chunks { algorithm: Algorithm::ZSTD, chunk_bytes: 512 };
    let lz4 = Compression::Chunks { algorithm: Algorithm::Lz4, chunk_bytes: 512 };
    for version in [Version::Me, Version::Ms] {
        for compression in [Compression::None, lz4, zstd] {
            samples.push(write(version, compression));
        }
    }
    samples
});

fn in_simulation<T: 'static, F: Future<Output = T> + 'static>(test: F) -> T {
    let mut world = World::new(Options { buggify: false, ..Options::new(1) });
    let node = world.add_node(1);
    world.block_on(node, 0, async move {
        fs::create_dir_all(DIR).await.unwrap();
        test.await
    })
}

fn fragments() -> Vec<Fragment> {
    let key = |number| DecoratedKey::new(testing::partition_key(number).into());
    let mut keys: Vec<DecoratedKey> = (0..PARTITIONS).map(key).collect();
    keys.sort();
    let mut out = Vec::new();
    for key in keys {
        out.push(Fragment::PartitionStart { key, tombstone: Tombstone::NONE });
        for number in 0..9 {
            let timestamp = 1_700_000_000_000_000 + number as i64;
            let at = |position, tombstone| Fragment::RangeTombstoneChange { position, tombstone };
            let prefix = testing::clustering(number, "x");
            if number == 4 {
                let position = ClusteringPosition::before(prefix.clone().into());
                out.push(at(position, Tombstone::new(timestamp, 1_700_000_000)));
            }
            let mut row = RowBuilder::new(Vec::new());
            row.marker(Marker::Live { timestamp });
            row.cell(ColumnId(3), Cell::live(timestamp, b"a value of some length"));
            out.push(Fragment::Row { key: prefix.clone().into(), row: row.finish().into() });
            if number == 6 {
                out.push(at(ClusteringPosition::after(prefix.into()), Tombstone::NONE));
            }
        }
        out.push(Fragment::PartitionEnd);
    }
    out
}

fn schema() -> TableSchema {
    testing::schema()
}

fn write(version: Version, compression: Compression) -> Files {
    in_simulation(async move {
        let options = WriterOptions::of_schema(&schema(), "memtable").unwrap();
        let options =
            WriterOptions { version, compression, column_index_bytes: 100, ..options };
        let (dir, generation) = (Path::new(DIR), Generation::Number(1));
        let schema = Rc::new(schema());
        let writer = Writer::create(dir, generation, schema, options, IoClass::Flush).await;
        let mut writer = writer.unwrap();
        for fragment in fragments() {
            writer.write(&fragment).await.unwrap();
        }
        let descriptor = writer.finish().await.unwrap().unwrap().descriptor;
        let mut contents = Vec::new();
        for component in Component::ALL {
            // Scylla.db has digests of the others: with it, hardly any damage is parsed.
            let kept = component != Component::Scylla;
            if let Ok(bytes) = fs::read_file(descriptor.path(dir, component)).await
                && kept
            {
                let toc = String::from_utf8_lossy(&bytes).replace("Scylla.db\n", "");
                let is_toc = component == Component::Toc;
                contents.push((component, if is_toc { toc.into_bytes() } else { bytes }));
            }
        }
        Files { descriptor, contents }
    })
}

async fn drain(mut source: impl Source) -> Result<usize, ReadError> {
    let (mut out, mut count) = (Vec::new(), 0);
    loop {
        source.fill(Budget::BATCH, &mut out).await?;
        if out.is_empty() {
            return Ok(count);
        }
        count += out.len();
        assert!(count < 1 << 20, "fragments without end");
        out.clear();
    }
}

async fn read(descriptor: Descriptor) -> Result<(), ReadError> {
    let cache = IndexCache::new(1 << 20);
    let table = Table::open(Path::new(DIR), descriptor, Rc::new(schema()), &cache).await?;
    let bound = |token, after| RingBound { token, key: None, after };
    for reversed in [false, true] {
        let slice = Slice { reversed, ..Slice::full() };
        let scope =
            Scope::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) };
        let whole = table.read(scope, slice.clone(), Access::new(IoClass::Query, &cache));
        let _ = drain(whole).await;
        for number in 0..PARTITIONS {
            let key = Lookup::new(testing::partition_key(number).into());
            let access = Access::new(IoClass::Query, &cache);
            let _ = drain(table.read(Scope::Key(key.clone()), slice.clone(), access)).await;
            let position = |number| testing::clustering(number, "x").into();
            let range = mutation::ClusteringRange {
                start: ClusteringPosition::before(position(5)),
                end: ClusteringPosition::after(position(7)),
            };
            let some = Slice { ranges: vec![range], ..slice.clone() };
            let access = Access::new(IoClass::Query, &cache);
            let _ = drain(table.read(Scope::Key(key), some, access)).await;
        }
    }
    table.verify(IoClass::Query).await
}

fuzz_target!(|input: &[u8]| {
    let [sample, component, patches @ ..] = input else { return };
    let sample = &SAMPLES[*sample as usize % SAMPLES.len()];
    let (component, content) = &sample.contents[*component as usize % sample.contents.len()];
    let mut content = content.clone();
    for patch in patches.chunks_exact(3) {
        let at = u16::from_be_bytes([patch[0], patch[1]]) as usize % content.len().max(1);
        match patch[2] {
            255 => content.truncate(at),
            bits => content.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits),
        }
    }
    let (component, descriptor) = (*component, sample.descriptor);
    in_simulation(async move {
        for (other, bytes) in &sample.contents {
            let bytes = if *other == component { &content } else { bytes };
            let path = descriptor.path(Path::new(DIR), *other);
            fs::write_file_atomic(path, bytes).await.unwrap();
        }
        let _ = read(descriptor).await;
    });
});
