//! SSTables as sources: the conformance suite of sources, over files that were just written.

use crate::support;
use crate::support::{DIR, everything, in_simulation, options, write};
use mutation::FrozenMutation;
use reader::testing::{Model, conformance};
use reader::{Slice, Source, VecSource};
use sstable::{Algorithm, Compression, Version, WriterOptions};

async fn check(cases: u32, options: WriterOptions) {
    check_both(cases, options.clone(), false).await;
    check_both(cases / 3, options, true).await;
}

async fn check_both(cases: u32, options: WriterOptions, by_index: bool) {
    let options = &options;
    conformance(cases, async |mutations: &[FrozenMutation], slice: &Slice| {
        let all = Model::of(mutations).fragments(&mutation::testing::read_all().partitions);
        let schema = mutation::testing::schema();
        match write(schema.clone(), &all, options.clone()).await {
            Some(table) => {
                let source = table.read(everything(), slice.clone(), support::access());
                let source = if by_index { source.by_index() } else { source };
                Box::new(source) as Box<dyn Source>
            }
            None => Box::new(VecSource::new(&schema.order, Vec::new(), slice)),
        }
    })
    .await;
    assert!(runtime::io::fs::exists(DIR).await.unwrap());
}

#[test]
fn plain_files_conform() {
    in_simulation(1, async { check(90, options()).await });
}

#[test]
fn files_with_many_blocks_conform() {
    let options = WriterOptions { column_index_bytes: 1, ..options() };
    in_simulation(2, async { check(90, options).await });
}

#[test]
fn files_with_a_trie_index_conform() {
    let options = WriterOptions { column_index_bytes: 30, version: Version::Ms, ..options() };
    in_simulation(4, async { check(45, options).await });
}

#[test]
fn trie_indexes_conform() {
    let options = WriterOptions { version: Version::Ms, ..options() };
    in_simulation(4, async { check(50, options).await });
}

#[test]
fn trie_indexes_of_many_blocks_conform() {
    let options = WriterOptions { version: Version::Ms, column_index_bytes: 1, ..options() };
    in_simulation(5, async { check(150, options).await });
}

#[test]
fn compressed_files_conform() {
    let compression = Compression::Chunks { algorithm: Algorithm::Lz4, chunk_bytes: 32 };
    let options = WriterOptions { column_index_bytes: 40, compression, ..options() };
    in_simulation(3, async { check(60, options).await });
}
