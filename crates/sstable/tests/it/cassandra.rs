//! Files that Cassandra 5 wrote: `nb` (its default), `oa` (big format without compatibility with
//! older nodes) and `da`, in the archives of `testkit`, with the statements that made them;
//! what is read of them equals golden dumps, which were compared with Cassandra's own.

use crate::support;
use runtime::io::{IoClass, fs};
use sstable::compress::Chunks;
use sstable::statistics::Statistics;
use sstable::store::name::{Parsed, parse_file_name};
use sstable::testing::schema_of_header;
use sstable::{Component, Descriptor, Table};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use testkit::archives;

/// One line for what is not data, then the data.
async fn describe(dir: &Path, descriptor: Descriptor) -> String {
    let bytes = fs::read_file(descriptor.path(dir, Component::Statistics)).await.unwrap();
    let statistics = Statistics::parse(&bytes, descriptor.version).unwrap();
    let schema = Rc::new(schema_of_header(&statistics.header).expect("known classes"));
    let table = Table::open(dir, descriptor, schema.clone(), &support::cache()).await.unwrap();
    table.verify(IoClass::Query).await.unwrap();
    let fragments = support::read_all(&table).await.unwrap();
    support::check_keys(&table, &fragments).await.unwrap();
    let stats = &statistics.stats;
    let mut out = format!(
        "{} {} cells {} rows",
        descriptor.version.name(),
        stats.columns_count,
        stats.rows_count
    );
    if let Ok(bytes) = fs::read_file(descriptor.path(dir, Component::CompressionInfo)).await {
        let chunks = Chunks::parse(&bytes, u64::MAX, descriptor.version).unwrap();
        out += &format!(" {}", chunks.algorithm.class_name());
    }
    out + "\n" + &support::dump::text(&fragments, &schema)
}

#[allow(clippy::disallowed_methods)] // The golden file is on the disk of the machine.
fn check(version: &'static str) {
    let out: Rc<RefCell<BTreeMap<String, String>>> = Rc::default();
    let dumps = out.clone();
    support::in_simulation(1, async move {
        for (path, bytes) in archives::files(&format!("cassandra/{version}")) {
            let path = Path::new(support::DIR).join(path);
            fs::create_dir_all(path.parent().unwrap()).await.unwrap();
            fs::write_file_atomic(&path, &bytes).await.unwrap();
        }
        for entry in fs::list_dir(support::DIR).await.unwrap() {
            let dir = Path::new(support::DIR).join(&entry.name);
            for file in fs::list_dir(&dir).await.unwrap() {
                if let Parsed::Known(descriptor, "Data.db") = parse_file_name(&file.name) {
                    let dump = describe(&dir, descriptor).await;
                    out.borrow_mut().insert(entry.name.clone(), dump);
                }
            }
        }
    });
    let seen: String =
        dumps.take().iter().map(|(name, dump)| format!("# {name} {dump}\n")).collect();
    let golden = format!("tests/it/cassandra/{version}.golden");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &seen).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    for (seen, expected) in seen.lines().zip(expected.lines()) {
        assert_eq!(seen, expected);
    }
    assert_eq!(seen.len(), expected.len());
}

#[test]
fn files_of_cassandra_4_and_of_5_compatible_with_it() {
    check("nb");
}

#[test]
fn files_of_cassandra_5_in_the_big_format() {
    check("oa");
}

#[test]
fn files_of_cassandra_5_in_the_trie_format() {
    check("da");
}
