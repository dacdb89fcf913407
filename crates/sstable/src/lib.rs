//! sstable.
