//! *toc-last* and *garbage-is-marked*: a crash at any moment of writing or removing leaves an
//! SSTable that is whole, or nothing after the clean-up of the next start.

use crate::support;
use crate::support::generate::Generator;
use crate::support::{DIR, options, read_all};
use mutation::Fragment;
use runtime::io::{IoClass, fs};
use sstable::store::{State, clean_up, remove};
use sstable::{Generation, Table, Version, Writer, WriterOptions};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::SimNode;

async fn write(version: Version, fragments: &[Fragment]) {
    let options = WriterOptions { version, column_index_bytes: 200, ..options() };
    let schema = Rc::new(mutation::testing::schema());
    let generation = Generation::Number(1);
    let writer = Writer::create(Path::new(DIR), generation, schema, options, IoClass::Flush);
    let mut writer = writer.await.unwrap();
    for fragment in fragments {
        writer.write(fragment).await.unwrap();
    }
    writer.finish().await.unwrap();
}

/// Cleans up; whether the SSTable is there, whole.
async fn check(fragments: &[Fragment]) -> bool {
    let dir = Path::new(DIR);
    let listing = clean_up(dir).await.unwrap();
    let Some(found) = listing.tables.first() else {
        let left = fs::list_dir(dir).await.unwrap();
        assert!(left.is_empty(), "files are left: {left:?}");
        return false;
    };
    assert_eq!(found.state, State::Complete, "{found:?}");
    let schema = Rc::new(mutation::testing::schema());
    let table = Table::open(dir, found.descriptor, schema, &support::cache()).await.unwrap();
    table.verify(IoClass::System).await.unwrap();
    assert_eq!(read_all(&table).await.unwrap(), fragments);
    true
}

/// Whether the SSTable was sealed before the crash, and whether it was there after it.
fn crash_while_writing(seed: u64, removing: bool) -> (bool, bool) {
    let mut prng = Prng::from_seed(seed);
    let version = [Version::Me, Version::Ms][(seed % 2) as usize];
    let schema = mutation::testing::schema();
    let fragments = Rc::new(Generator::new(seed).partitions(&schema, 20));
    let mut node = SimNode::new(seed, 1);
    let written = fragments.clone();
    node.run(async move {
        fs::create_dir_all(DIR).await.unwrap();
        for dir in ["/", "/data", "/data/ks", DIR] {
            fs::sync_dir(dir).await.unwrap();
        }
        if removing {
            write(version, &written).await;
        }
    });
    node.crash();
    let done = Rc::new(Cell::new(false));
    let (written, ended) = (fragments.clone(), done.clone());
    let id = node.id();
    node.world().start(id, move |_| {
        let (written, ended) = (written.clone(), ended.clone());
        async move {
            if removing {
                let dir = Path::new(DIR);
                let found = clean_up(dir).await.unwrap().tables;
                remove(dir, found[0].descriptor).await.unwrap();
            } else {
                write(version, &written).await;
            }
            ended.set(true);
        }
    });
    let limit = prng.between(100, 40_000);
    node.world().run_for(Duration::from_micros(prng.below(limit)));
    node.crash();
    let there = node.run(async move { check(&fragments).await });
    (done.get(), there)
}

#[test]
fn a_crash_while_writing_leaves_all_or_nothing() {
    let mut seen = [false; 3];
    for seed in 0..60 {
        let (sealed, there) = crash_while_writing(seed, false);
        assert!(there || !sealed, "a sealed SSTable is gone, seed {seed}");
        seen[sealed as usize + there as usize] = true;
    }
    assert!(seen[0] && seen[2], "the crashes came all too early or too late: {seen:?}");
}

#[test]
fn a_crash_while_removing_leaves_all_or_nothing() {
    let mut seen = [false; 3];
    for seed in 100..200 {
        let (removed, there) = crash_while_writing(seed, true);
        assert!(!there || !removed, "a removed SSTable is back, seed {seed}");
        seen[removed as usize + !there as usize] = true;
    }
    assert!(seen[0] && seen[2], "the crashes came all too early or too late: {seen:?}");
}
