//! What a merge writes: SSTables of one run, cut at a size, between tokens.
//!
//! Invariants
//!  - *apart*: no two outputs of a merge share a token.
//!  - *none-left*: what was not handed to the set is removed when the merge ends, as far as the
//!    disk lets it; a crash leaves garbage, or whole SSTables whose content the inputs have.

use super::super::Shard;
use super::Adjust;
use crate::compaction::{Job, random_uuid};
use model::{Token, Uuid};
use mutation::Fragment;
use reader::ReadError;
use sstable::{Descriptor, Generation, Writer, WriterOptions};
use std::rc::Rc;

/// The outputs of a merge.
pub(super) struct Outputs<'j> {
    shard: &'j Shard,
    job: &'j Job,
    adjust: Adjust<'j>,
    /// Partitions that one of them will have, about.
    partitions: u64,
    run_id: Uuid,
    /// The one that is being written.
    writer: Option<(Descriptor, Writer)>,
    /// Of the last partition.
    last: Option<Token>,
    /// Bytes of data of those that are sealed.
    sealed_bytes: u64,
    /// Sealed, and not in the set yet.
    sealed: Vec<Rc<sstable::Table>>,
}

impl<'j> Outputs<'j> {
    pub(super) fn new(shard: &'j Shard, job: &'j Job, adjust: Adjust<'j>) -> Outputs<'j> {
        let bytes: u64 = job.inputs.iter().map(|one| one.data_bytes()).sum();
        let partitions: u64 = job.inputs.iter().map(|one| one.partition_count()).sum();
        let part = job.bytes_max as f64 / bytes.max(1) as f64;
        assert!(0.0 <= job.part && job.part <= 1.0, "a part of the inputs: {}", job.part);
        Outputs {
            shard,
            job,
            adjust,
            partitions: (partitions as f64 * part.min(job.part)).ceil() as u64,
            run_id: job.run.unwrap_or_else(random_uuid),
            writer: None,
            last: None,
            sealed_bytes: 0,
            sealed: Vec::new(),
        }
    }

    /// Writes a fragment; true where an output was sealed before it.
    pub(super) async fn write(&mut self, fragment: &Fragment) -> Result<bool, ReadError> {
        let mut sealed = false;
        if let Fragment::PartitionStart { key, .. } = fragment {
            let is_full =
                self.writer.as_ref().is_some_and(|(_, one)| self.job.bytes_max <= one.data_bytes());
            if is_full && self.last != Some(key.token) {
                self.seal().await?;
                sealed = true;
            }
            if self.writer.is_none() {
                self.writer = Some(self.create().await?);
            }
            assert!(self.last <= Some(key.token), "apart: {key:?} after {:?}", self.last);
            self.last = Some(key.token);
        }
        let (_, writer) = self.writer.as_mut().expect("a partition begins before its fragments");
        writer.write(fragment).await.map_err(ReadError::Io)?;
        Ok(sealed)
    }

    async fn create(&self) -> Result<(Descriptor, Writer), ReadError> {
        assert!(self.writer.is_none(), "apart: two outputs are being written");
        let table = &self.job.table;
        let schema = table.schema();
        let node = self.shard.sstables.get();
        let options = WriterOptions::of_table(&schema, "compaction", node);
        let mut options = options.map_err(ReadError::Overloaded)?;
        options.host_id = Some(self.shard.config.host_id);
        options.estimated_partitions = self.partitions;
        options.level = self.job.level;
        options.run_id = Some(self.run_id);
        // Inputs with more than the tablet's part are read without the rest (`Tablet::part_of`).
        options.share = self.job.tablet.share;
        (self.adjust)(&mut options);
        let (generation, class) = (Generation::generate(), self.job.class());
        let descriptor = Descriptor { version: options.version, generation };
        assert!(!self.job.tablet.has_sstable(descriptor), "once-in-set: {descriptor:?} is there");
        let created = Writer::create(&table.dir, generation, schema, options, class);
        Ok((descriptor, created.await.map_err(ReadError::Io)?))
    }

    /// Makes what was written an SSTable.
    pub(super) async fn seal(&mut self) -> Result<(), ReadError> {
        let Some((descriptor, writer)) = self.writer.take() else { return Ok(()) };
        self.sealed_bytes += writer.data_bytes();
        match self.finish(writer).await {
            Ok(opened) => {
                let before = self.sealed.last().map(|one| one.last_key().token);
                let first = opened.as_ref().map(|one| one.first_key().token);
                assert!(first.is_none() || before < first, "apart: {first:?} after {before:?}");
                debug_assert!(
                    opened.iter().all(|one| one.stats().level == self.job.level),
                    "levels-apart: an output says that it is of another level than {}",
                    self.job.level
                );
                self.sealed.extend(opened);
                Ok(())
            }
            Err(error) => {
                // It may be there or not.
                self.job.table.remove_sstable(descriptor).await;
                Err(error)
            }
        }
    }

    async fn finish(&self, writer: Writer) -> Result<Option<Rc<sstable::Table>>, ReadError> {
        let Some(sealed) = writer.finish().await.map_err(ReadError::Io)? else { return Ok(None) };
        let (table, cache) = (&self.job.table, &self.shard.index_cache);
        let opened = sstable::Table::open(&table.dir, sealed.descriptor, table.schema(), cache);
        opened.await.map(Some)
    }

    /// The sealed ones, for the set.
    pub(super) fn take_sealed(&mut self) -> Vec<Rc<sstable::Table>> {
        debug_assert!(
            self.sealed.is_sorted_by(|a, b| a.last_key().token < b.first_key().token),
            "apart: outputs share a token"
        );
        std::mem::take(&mut self.sealed)
    }

    /// The token up to which everything is sealed, right after a seal.
    pub(super) fn last_token(&self) -> Option<Token> {
        self.last
    }

    /// Whether one is not sealed yet.
    pub(super) fn is_writing(&self) -> bool {
        self.writer.is_some()
    }

    /// Bytes of data written, before compression.
    pub(super) fn bytes_written(&self) -> u64 {
        self.sealed_bytes + self.writer.as_ref().map_or(0, |(_, writer)| writer.data_bytes())
    }

    /// Removes what is not in the set.
    pub(super) async fn abort(mut self) {
        // What is left is garbage that the next start removes, or has the content of the inputs.
        if let Some((_, writer)) = self.writer.take() {
            let _ = writer.abort().await;
        }
        for one in self.take_sealed() {
            self.job.table.remove_sstable(one.descriptor()).await;
        }
    }
}
