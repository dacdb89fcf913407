//! What the tests of this crate share.
#![allow(dead_code)]

pub(crate) mod generate;

use model::{TableSchema, Token};
use mutation::Fragment;
use mutation::page::RingBound;
use reader::{Budget, ReadError, Slice, Source};
use runtime::io::{IoClass, fs};
use runtime::sim::{Options, World};
use sstable::{
    Access, Descriptor, Generation, IndexCache, Scope, Table, Version, Writer, WriterOptions,
};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;

/// The directory of all tables.
pub(crate) const DIR: &str = "/data/ks/t";

/// Runs a test on one simulated node.
pub(crate) fn in_simulation<F: Future<Output = ()> + 'static>(seed: u64, test: F) {
    let mut world = World::new(Options::new(seed));
    let node = world.add_node(1);
    world.block_on(node, 0, async move {
        fs::create_dir_all(DIR).await.unwrap();
        test.await;
    });
}

/// Writer options of the test table.
pub(crate) fn options() -> WriterOptions {
    WriterOptions::of_schema(&mutation::testing::schema(), "memtable").unwrap()
}

/// A cache that evicts often.
pub(crate) fn cache() -> Rc<IndexCache> {
    IndexCache::new(16 << 10)
}

/// A read of a client.
pub(crate) fn access() -> Access {
    Access::new(IoClass::Query, &cache())
}

/// All partitions.
pub(crate) fn everything() -> Scope {
    let bound = |token, after| RingBound { token, key: None, after };
    Scope::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

/// Writes an SSTable and opens it.
pub(crate) async fn write(
    schema: TableSchema,
    fragments: &[Fragment],
    options: WriterOptions,
) -> Option<Rc<Table>> {
    let schema = Rc::new(schema);
    let generation = Generation::generate();
    let dir = Path::new(DIR);
    let class = IoClass::Flush;
    let mut writer = Writer::create(dir, generation, schema.clone(), options, class).await.unwrap();
    for fragment in fragments {
        writer.write(fragment).await.unwrap();
    }
    let sealed = writer.finish().await.unwrap()?;
    assert_eq!(sealed.descriptor, Descriptor { version: Version::Me, generation });
    Some(Table::open(dir, sealed.descriptor, schema, &cache()).await.unwrap())
}

/// All that a source yields.
pub(crate) async fn drain(mut source: impl Source) -> Result<Vec<Fragment>, ReadError> {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        source.fill(Budget::BATCH, &mut out).await?;
        if out.len() == before {
            return Ok(out);
        }
    }
}

/// All of a table.
pub(crate) async fn read_all(table: &Rc<Table>) -> Result<Vec<Fragment>, ReadError> {
    drain(table.read(everything(), Slice::full(), access())).await
}
