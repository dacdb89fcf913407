//! Damaged files give errors that name them, or the data that was written: never a panic, never
//! other data.

use crate::support;
use crate::support::generate::Generator;
use mutation::Fragment;
use reader::ReadError;
use sstable::store::name::{Parsed, parse_file_name};
use sstable::testing::{ComponentKind, parse_component};
use sstable::{Algorithm, Component, Compression, Descriptor, Table, Version, WriterOptions};
use std::path::Path;
use std::rc::Rc;

struct Case {
    descriptor: Descriptor,
    fragments: Vec<Fragment>,
    files: Vec<(Component, Vec<u8>)>,
}
use testkit::archives;

async fn make(version: Version, compression: Compression) -> Case {
    let mut generator = Generator::new(7);
    let schema = mutation::testing::schema();
    let fragments = generator.partitions(&schema, 6);
    let options =
        WriterOptions { version, compression, column_index_bytes: 100, ..support::options() };
    let table = support::write(schema, &fragments, options).await.unwrap();
    let descriptor = table.descriptor();
    let mut files = Vec::new();
    for component in Component::ALL {
        let path = descriptor.path(Path::new(support::DIR), component);
        if let Ok(bytes) = runtime::io::fs::read_file(path).await {
            files.push((component, bytes));
        }
    }
    Case { descriptor, fragments, files }
}

/// All that is there. `lossy`: what guards a key is damaged, so it may not be found.
async fn read(descriptor: Descriptor, lossy: bool) -> Result<Vec<Fragment>, ReadError> {
    let schema = Rc::new(mutation::testing::schema());
    let table = Table::open(Path::new(support::DIR), descriptor, schema, &support::cache()).await?;
    let all = support::read_all(&table).await?;
    // By key too: what is there is found, or there is an error.
    for partition in all.split_inclusive(|fragment| *fragment == Fragment::PartitionEnd) {
        let Some(Fragment::PartitionStart { key, .. }) = partition.first() else { continue };
        let scope = sstable::Scope::Key(sstable::Lookup::new(key.key.clone()));
        let slice = reader::Slice::full();
        let forward = table.read(scope.clone(), slice.clone(), support::access());
        let found = support::drain(forward).await?;
        assert!(found == partition || (found.is_empty() && lossy), "{key:?} is not found");
        let slice = reader::Slice { reversed: true, ..slice };
        let backward = table.read(scope, slice, support::access());
        assert_eq!(support::drain(backward).await?.len(), found.len());
    }
    Ok(all)
}

/// Replaces the content of a file, reads, and puts the content back.
async fn with_content(case: &Case, component: Component, bytes: &[u8]) -> bool {
    let path = case.descriptor.path(Path::new(support::DIR), component);
    runtime::io::fs::write_file_atomic(&path, bytes).await.unwrap();
    // The digest of the index is only compared when all of it is read (`Table::verify`).
    let index = [Component::Index, Component::Partitions, Component::Rows].contains(&component);
    let lossy = index || component == Component::Data;
    let result = read(case.descriptor, lossy).await;
    let (_, original) = case.files.iter().find(|(other, _)| *other == component).unwrap();
    runtime::io::fs::write_file_atomic(&path, original).await.unwrap();
    match result {
        Ok(seen) => {
            // Without compression nothing guards the bytes of the data but its own rules.
            if component != Component::Data {
                assert_eq!(seen, case.fragments, "{component:?} damaged unseen");
            }
            true
        }
        Err(ReadError::Damaged { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

async fn check(version: Version, compression: Compression) {
    let case = make(version, compression).await;
    assert_eq!(read(case.descriptor, false).await.unwrap(), case.fragments);
    for (component, bytes) in &case.files {
        let step = (bytes.len() / 150).max(1);
        for at in (0..bytes.len()).step_by(step) {
            let cut_is_fine = with_content(&case, *component, &bytes[..at]).await;
            // Four bytes at the end of row indexes that no reader needs.
            let trailer = *component == Component::Rows && bytes.len() <= at + 4;
            let optional = matches!(component, Component::Digest | Component::Crc | Component::Toc);
            let needed = !optional && !trailer;
            assert!(!cut_is_fine || !needed, "{component:?} cut at {at} of {} unseen", bytes.len());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let fine = with_content(&case, *component, &flipped).await;
            let guarded = compression != Compression::None && *component == Component::Data;
            assert!(!fine || !guarded, "{component:?} flipped at {at} unseen");
        }
    }
}

#[test]
fn damage_is_seen_or_harmless() {
    support::in_simulation(1, async { check(Version::Me, Compression::None).await });
}

#[test]
fn damage_of_compressed_files_is_seen() {
    support::in_simulation(2, async { check(Version::Me, Compression::LZ4).await });
}

#[test]
fn damage_of_a_trie_index_is_seen_or_harmless() {
    support::in_simulation(3, async { check(Version::Ms, Compression::None).await });
}

/// Bytes of data that nothing guards but its own rules are guarded where a read asks for it.
#[test]
fn reads_that_ask_for_it_see_every_flipped_bit() {
    support::in_simulation(4, async {
        let case = make(Version::Me, Compression::None).await;
        let path = case.descriptor.path(Path::new(support::DIR), Component::Data);
        let data = runtime::io::fs::read_file(&path).await.unwrap();
        let open = async || {
            let (dir, schema) = (Path::new(support::DIR), Rc::new(mutation::testing::schema()));
            Table::open(dir, case.descriptor, schema, &support::cache()).await.unwrap()
        };
        let read = async |table: &Rc<Table>| {
            let (scope, slice) = (support::everything(), reader::Slice::full());
            support::drain(table.read_checked(scope, slice, support::access())).await
        };
        assert_eq!(read(&open().await).await.unwrap(), case.fragments);
        for at in (0..data.len()).step_by(data.len() / 20) {
            let mut flipped = data.clone();
            flipped[at] ^= 4;
            runtime::io::fs::write_file_atomic(&path, &flipped).await.unwrap();
            let error = read(&open().await).await.unwrap_err();
            assert!(error.to_string().contains("CRC.db"), "{error}");
        }
    });
}

/// Opens a table of the files of Cassandra with a schema made of its header, and reads it in every
/// way.
async fn read_foreign(dir: &Path, descriptor: Descriptor) -> Result<Vec<Fragment>, ReadError> {
    let path = descriptor.path(dir, Component::Statistics);
    let bytes = runtime::io::fs::read_file(&path).await?;
    let damaged = |what: &str, at| {
        let file = path.display().to_string();
        ReadError::Damaged { file, what: what.to_string(), at }
    };
    let statistics = sstable::statistics::Statistics::parse(&bytes, descriptor.version);
    let statistics = statistics.map_err(|error| damaged(error.what, error.at))?;
    let schema = sstable::testing::schema_of_header(&statistics.header);
    let schema = Rc::new(schema.ok_or_else(|| damaged("a class that is not known", 0))?);
    let table = Table::open(dir, descriptor, schema, &support::cache()).await?;
    let all = support::read_all(&table).await?;
    let bound = |token, after| mutation::page::RingBound { token, key: None, after };
    let (start, end) = (bound(model::Token::MIN, false), bound(model::Token::MAX, true));
    let slice = reader::Slice { reversed: true, ..reader::Slice::full() };
    let scope = sstable::Scope::Range { start, end };
    support::drain(table.read(scope, slice.clone(), support::access())).await?;
    for fragment in &all {
        let Fragment::PartitionStart { key, .. } = fragment else { continue };
        let scope = sstable::Scope::Key(sstable::Lookup::new(key.key.clone()));
        support::drain(table.read(scope, slice.clone(), support::access())).await?;
    }
    Ok(all)
}

/// Damage of files of Cassandra: most of their components have no checksum, so that other data may
/// come of it, but nothing else than data or an error that names the file.
async fn check_foreign(version: &str, tables: &[&str]) {
    let mut prng = stdx::Prng::from_seed(9);
    let mut seen = 0;
    let files = archives::files(&format!("cassandra/{version}"));
    for name in tables {
        let dir = Path::new(support::DIR).join(name);
        runtime::io::fs::create_dir_all(&dir).await.unwrap();
        let mine = files.iter().filter(|(path, _)| path.starts_with(name));
        let mine: Vec<_> = mine.collect();
        let mut descriptor = None;
        for (path, bytes) in &mine {
            let path = Path::new(support::DIR).join(path);
            runtime::io::fs::write_file_atomic(&path, bytes).await.unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            if let Parsed::Known(one, "Data.db") = parse_file_name(&name) {
                descriptor = Some(one);
            }
        }
        let descriptor = descriptor.unwrap();
        let whole = read_foreign(&dir, descriptor).await.unwrap();
        for (path, bytes) in mine.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let path = Path::new(support::DIR).join(path);
            for round in 0..24 {
                let at = prng.below(bytes.len() as u64) as usize;
                let mut damaged = bytes.clone();
                match round % 3 {
                    0 => damaged.truncate(at),
                    _ => damaged[at] ^= 1 << prng.below(8),
                }
                runtime::io::fs::write_file_atomic(&path, &damaged).await.unwrap();
                match read_foreign(&dir, descriptor).await {
                    Ok(fragments) => seen += (fragments != whole) as usize,
                    Err(ReadError::Damaged { file, .. }) => {
                        assert!(file.contains(descriptor.version.name()), "{file}");
                        seen += 1;
                    }
                    Err(other) => panic!("{other} of {}", path.display()),
                }
            }
            runtime::io::fs::write_file_atomic(&path, bytes).await.unwrap();
        }
    }
    assert!(100 < seen, "hardly anything was damaged");
}

#[test]
fn damage_of_files_of_cassandra_is_named() {
    let tables = ["comp_none", "comp_zstd", "comp_deflate", "wide", "counters", "tombs"];
    for version in ["nb", "oa", "da"] {
        support::in_simulation(5, async move { check_foreign(version, &tables).await });
    }
}

#[test]
fn damage_of_each_compression_is_seen() {
    for (seed, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        let version = if seed % 2 == 0 { Version::Me } else { Version::Ms };
        let compression = Compression::Chunks { algorithm, chunk_bytes: 1024 };
        support::in_simulation(6, async move {
            let case = make(version, compression).await;
            let changed = [Component::Data, Component::CompressionInfo];
            for (component, bytes) in &case.files {
                for at in (0..bytes.len()).step_by((bytes.len() / 25).max(1)) {
                    if !changed.contains(component) {
                        continue;
                    }
                    assert!(!with_content(&case, *component, &bytes[..at]).await);
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 1 << (at % 8);
                    assert!(!with_content(&case, *component, &flipped).await, "{component:?}");
                }
            }
        });
    }
}

#[test]
fn parsers_take_any_bytes() {
    let mut prng = stdx::Prng::from_seed(1);
    for round in 0..20_000 {
        let mut bytes = vec![0; prng.below(120) as usize];
        prng.fill(&mut bytes);
        if round % 2 == 0 {
            bytes.iter_mut().step_by(2).for_each(|byte| *byte &= 3);
        }
        let version = *prng.pick(&Version::ALL).unwrap();
        for kind in ComponentKind::ALL {
            let _ = parse_component(kind, version, &bytes);
        }
        // Behind the head of a partition, so that elements are reached.
        let head: &[u8] = match version.has_unsigned_times() {
            true => &[0, 0, 0x80],
            false => &[0, 0, 0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0],
        };
        let _ = parse_component(ComponentKind::Data, version, &[head, &bytes].concat());
    }
}
