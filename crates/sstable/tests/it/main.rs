//! Files that are written and read again, by us and by others, on simulated disks. One program, so
//! that what stands below is linked once; a test is named by its module: `cargo test -p sstable
//! --test it scrub::`.

mod bounded;
mod cassandra;
mod contract;
mod damaged;
mod foreign;
mod roundtrip;
mod scrub;
mod sealing;
mod support;
mod trie;
