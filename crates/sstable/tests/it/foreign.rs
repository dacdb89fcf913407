//! Files that other implementations wrote, where they are there: every undamaged one is read
//! whole and obeys the rules that tie its components together; every damaged one gives its error.
//!
//! The directory is `$NEREID_SHARED/data/sstables`, or `../shared/data/sstables` beside the
//! repository; without it the tests pass and say so.

use crate::support;
use mutation::Fragment;
use reader::ReadError;
use sstable::store::name::{Parsed, parse_file_name};
use sstable::testing::schema_of_header;
use sstable::{Component, Descriptor, Table, Version, Writer};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

fn samples() -> Option<PathBuf> {
    let root = match std::env::var_os("NEREID_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let samples = root.join("data/sstables");
    if samples.is_dir() {
        return Some(samples);
    }
    eprintln!("skipped: there is no {}", samples.display());
    None
}

/// Opens a table of the samples with a schema made of its own header.
async fn open(dir: &Path, descriptor: Descriptor) -> Result<Rc<Table>, ReadError> {
    let bytes = runtime::io::fs::read_file(descriptor.path(dir, Component::Statistics)).await?;
    let damaged = |what: &str| ReadError::Damaged { file: String::new(), what: what.into(), at: 0 };
    let statistics = sstable::statistics::Statistics::parse(&bytes, descriptor.version)
        .map_err(|error| damaged(error.what))?;
    let schema = schema_of_header(&statistics.header).ok_or_else(|| damaged("a header"))?;
    Table::open(dir, descriptor, Rc::new(schema), &support::cache()).await
}

/// A line about a table: what it holds, or what is wrong with it.
async fn describe(dir: &Path, descriptor: Descriptor) -> String {
    let table = match open(dir, descriptor).await {
        Ok(table) => table,
        Err(error) => return format!("open: {}", what(error)),
    };
    let verified = match table.verify(runtime::io::IoClass::Query).await {
        Ok(()) => String::new(),
        Err(error) => format!("verify: {}; ", what(error)),
    };
    let fragments = match support::read_all(&table).await {
        Ok(fragments) => fragments,
        Err(error) => return format!("{verified}read: {}", what(error)),
    };
    if let Err(error) = support::check_keys(&table, &fragments).await {
        return format!("read by key: {}", what(error));
    }
    let dump = support::dump::text(&fragments, &table.mapping().schema);
    let digest = stdx::checksum::crc32(dump.as_bytes());
    let count = |wanted: fn(&Fragment) -> bool| fragments.iter().filter(|f| wanted(f)).count();
    format!(
        "{verified}{} partitions, {} static rows, {} rows, {} changes, digest {digest:08x}; {}",
        count(|f| matches!(f, Fragment::PartitionStart { .. })),
        count(|f| matches!(f, Fragment::StaticRow { .. })),
        count(|f| matches!(f, Fragment::Row { .. })),
        count(|f| matches!(f, Fragment::RangeTombstoneChange { .. })),
        rewrite(&table, &fragments).await,
    )
}

/// Writes again what was read, and compares data and index byte for byte. Known differences: old
/// writers count the end-of-partition byte into the width of the last block of the index, write
/// boundaries at which nothing changes, and have counter shards in another order.
async fn rewrite(table: &Rc<Table>, fragments: &[Fragment]) -> String {
    let dir = Path::new("/data/ks/rewritten");
    let generation = sstable::Generation::Number(1);
    runtime::io::fs::create_dir_all(dir).await.unwrap();
    // `mt` differs from `ms` in keys of one token alone.
    let version = match table.descriptor().version.has_trie_index() {
        true => Version::Ms,
        false => Version::Me,
    };
    let options = sstable::WriterOptions {
        version,
        compression: sstable::Compression::None,
        bases: table.statistics().header.bases,
        ..support::options()
    };
    let class = runtime::io::IoClass::Flush;
    let schema = table.mapping().schema.clone();
    let mut writer = Writer::create(dir, generation, schema, options, class).await.unwrap();
    for fragment in fragments {
        writer.write(fragment).await.unwrap();
    }
    let written = writer.finish().await.unwrap().unwrap();
    let mut out = String::new();
    let index: &[Component] = match version {
        Version::Me => &[Component::Index],
        _ => &[Component::Partitions, Component::Rows],
    };
    for component in [Component::Data].iter().chain(index).copied() {
        if component == Component::Data && table.components().has(Component::CompressionInfo) {
            continue;
        }
        let theirs = table.descriptor().path(table.dir(), component);
        let theirs = runtime::io::fs::read_file(theirs).await.unwrap();
        let ours = runtime::io::fs::read_file(written.descriptor.path(dir, component)).await;
        let ours = ours.unwrap();
        out += match ours == theirs {
            true => " same ",
            false => " other ",
        };
        out += component.suffix();
    }
    sstable::store::remove(dir, written.descriptor).await.unwrap();
    out.trim().to_string()
}

fn what(error: ReadError) -> String {
    match error {
        ReadError::Damaged { file, what, at } => {
            let component = file.rsplit('-').next().unwrap_or_default();
            format!("{component} at {at}: {what}")
        }
        other => panic!("{other}"),
    }
}

fn tables_below(dir: &Path, out: &mut Vec<(PathBuf, Descriptor)>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type().unwrap().is_dir() {
            tables_below(&entry.path(), out);
        } else if let Parsed::Known(descriptor, "TOC.txt") =
            parse_file_name(&entry.file_name().to_string_lossy())
        {
            out.push((dir.to_path_buf(), descriptor));
        }
    }
}

/// Copies the files of a table to the simulated disk.
#[allow(clippy::disallowed_methods)] // The samples are on the disk of the machine.
async fn copy_table(dir: &Path, descriptor: Descriptor, to: &Path) {
    runtime::io::fs::create_dir_all(to).await.unwrap();
    for component in Component::ALL {
        if let Ok(bytes) = std::fs::read(descriptor.path(dir, component)) {
            let path = descriptor.path(to, component);
            runtime::io::fs::write_file_atomic(path, &bytes).await.unwrap();
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods)] // The golden file is on the disk of the machine.
fn every_sample_reads_or_says_why_not() {
    let Some(samples) = samples() else { return };
    let mut tables = Vec::new();
    tables_below(&samples, &mut tables);
    let lines = Rc::new(RefCell::new(Vec::new()));
    let out = lines.clone();
    support::in_simulation(1, async move {
        for (dir, descriptor) in tables {
            let name = dir.strip_prefix(&samples).unwrap();
            let copy = Path::new(support::DIR).join(name);
            copy_table(&dir, descriptor, &copy).await;
            let line = describe(&copy, descriptor).await;
            let version = descriptor.version.name();
            let line = format!("{} {version}-{}: {line}", name.display(), descriptor.generation);
            out.borrow_mut().push(line);
        }
    });
    let lines = lines.take();
    let seen = lines.join("\n") + "\n";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign.golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &seen).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(seen, expected);
}
