//! What the tests of this crate share.

pub(crate) mod dump;
pub(crate) mod generate;

use model::{TableSchema, Token};
use mutation::Fragment;
use mutation::page::RingBound;
use reader::{Budget, ReadError, Slice, Source};
use runtime::io::{IoClass, fs};
use sstable::{Access, Descriptor, Generation, IndexCache, Scope, Table, Writer, WriterOptions};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use testkit::SimNode;

/// The directory of all tables.
pub(crate) const DIR: &str = "/data/ks/t";

/// Runs a test on one simulated node.
pub(crate) fn in_simulation<F: Future<Output = ()> + 'static>(seed: u64, test: F) {
    SimNode::new(seed, 1).run(async move {
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
    let version = options.version;
    let mut writer = Writer::create(dir, generation, schema.clone(), options, class).await.unwrap();
    for fragment in fragments {
        writer.write(fragment).await.unwrap();
    }
    let sealed = writer.finish().await.unwrap()?;
    assert_eq!(sealed.descriptor, Descriptor { version, generation });
    Some(Table::open(dir, sealed.descriptor, schema, &cache()).await.unwrap())
}

/// All that a source yields.
pub(crate) async fn drain(mut source: impl Source) -> Result<Vec<Fragment>, ReadError> {
    drain_all(&mut source).await
}

/// All that a source of any kind yields.
pub(crate) async fn drain_all(source: &mut dyn Source) -> Result<Vec<Fragment>, ReadError> {
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

/// The rules that tie components together.
pub(crate) async fn check_keys(table: &Rc<Table>, fragments: &[Fragment]) -> Result<(), ReadError> {
    let order = table.mapping().schema.order.clone();
    let mut validator = reader::Validator::new(&order, mutation::Direction::Forward);
    fragments.iter().for_each(|fragment| validator.check(fragment).unwrap());
    validator.finish().unwrap();
    let keys = fragments.iter().filter_map(|fragment| match fragment {
        Fragment::PartitionStart { key, .. } => Some(key.clone()),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    assert_eq!(keys.first(), Some(table.first_key()));
    assert_eq!(keys.last(), Some(table.last_key()));
    assert_eq!(table.partition_count(), keys.len() as u64);
    for key in keys {
        let lookup = sstable::Lookup::new(key.key.clone());
        assert!(table.may_contain(&lookup), "{key:?} is not in the filter");
        for reversed in [false, true] {
            let slice = reader::Slice { reversed, ..reader::Slice::full() };
            let scope = sstable::Scope::Key(lookup.clone());
            let source = table.read(scope, slice, access());
            let one = drain(source).await?;
            let start = fragments.iter().position(
                |f| matches!(f, Fragment::PartitionStart { key: other, .. } if *other == key),
            );
            let rest = &fragments[start.unwrap()..];
            let end = rest.iter().position(|f| *f == Fragment::PartitionEnd).unwrap();
            let rows = |list: &[Fragment]| -> Vec<Fragment> {
                let rows = list.iter().filter(|f| matches!(f, Fragment::Row { .. }));
                rows.cloned().collect()
            };
            if reversed {
                let mut back = rows(&one);
                back.reverse();
                assert_eq!(back, rows(&rest[..=end]));
            } else {
                assert_eq!(one, rest[..=end]);
            }
        }
    }
    Ok(())
}
