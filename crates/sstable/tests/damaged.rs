//! Damaged files give errors that name them, or the data that was written: never a panic, never
//! other data.

mod support;

use mutation::Fragment;
use reader::ReadError;
use sstable::testing::{ComponentKind, parse_component};
use sstable::{Component, Compression, Descriptor, Table, Version, WriterOptions};
use std::path::Path;
use std::rc::Rc;
use support::generate::Generator;

struct Case {
    descriptor: Descriptor,
    fragments: Vec<Fragment>,
    files: Vec<(Component, Vec<u8>)>,
}

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
