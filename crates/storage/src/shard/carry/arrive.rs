//! What a node takes: files of SSTables that are written as they come, and then join their table
//! all together.

use super::super::open::open_all;
use super::super::upload::{check_content, started, take_over, without_level};
use super::super::{Shard, backup};
use crate::compaction::{Obsolete, random_uuid};
use crate::error::StorageError;
use crate::shard::open::Opened;
use crate::table::dir::prepare_dir;
use crate::table::{Table, TokenRanges, pass_gate};
use model::{TableId, TableSchema, Token};
use runtime::io::{ALIGNMENT, AlignedBuf, File, IoClass, IoError, OpenOptions, fs};
use sstable::store::output::write_whole;
use sstable::store::toc::Toc;
use sstable::{Component, Descriptor, Generation, Version, store};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::checksum::{crc32, crc32_join};

const CLASS: IoClass = IoClass::Streaming;

/// An SSTable whose files are all here, and which is not in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Where it came from, for people.
    source: String,
    descriptor: Descriptor,
    /// Their suffixes, and CRC32 of all bytes of each.
    files: Vec<(String, u32)>,
}

/// An SSTable whose files come in. On the shard that writes them.
pub struct ArrivingSstable {
    table: Rc<Table>,
    toc: Toc,
    arrived: Arrived,
}

/// A file that comes in, in blocks, in any order.
pub struct ArrivingFile {
    table: Rc<Table>,
    file: File,
    suffix: String,
    bytes: u64,
    /// The place of each block, its bytes and their CRC32.
    blocks: RefCell<BTreeMap<u64, (u64, u32)>>,
}

/// Where an SSTable or its data breaks a rule.
fn damaged(table: &Table, one: &Arrived, component: Component, what: String) -> StorageError {
    let file = one.descriptor.path(&table.dir, component);
    StorageError::Damaged { file, what: format!("{what} (it was {})", one.source) }
}

impl Shard {
    /// See [`crate::Storage::receive`].
    pub(crate) async fn receive(
        &self,
        id: TableId,
        (version, source): (&str, String),
        toc: &[u8],
    ) -> Result<ArrivingSstable, StorageError> {
        let table = self.table(id).ok_or(StorageError::UnknownTable(id))?;
        let refused = |what: &str| StorageError::Shard(format!("{source}: {what}"));
        let Some(version) = Version::of(version) else {
            return Err(refused(&store::name::refusal(version)));
        };
        let parsed = Toc::parse(toc).filter(|toc| !is_temporary(toc));
        let parsed = parsed.ok_or_else(|| refused("its TOC.txt is no list of components"))?;
        prepare_dir(&self.config.data_dir, &table).await?;
        let _gate = pass_gate(&table, 1).await;
        if table.dropped.get() {
            return Err(StorageError::UnknownTable(id));
        }
        let descriptor = Descriptor { version, generation: Generation::generate() };
        let marker = descriptor.path(&table.dir, Component::TemporaryToc);
        write_whole(&marker, toc, CLASS).await?;
        fs::sync_dir(&table.dir).await?;
        let arrived = Arrived { source, descriptor, files: Vec::new() };
        Ok(ArrivingSstable { table: table.clone(), toc: parsed, arrived })
    }
}

/// Whether a TOC names a file that no SSTable has.
fn is_temporary(toc: &Toc) -> bool {
    toc.suffixes().any(|suffix| suffix.ends_with(".tmp"))
}

impl ArrivingSstable {
    /// Begins a file of so many bytes; refused where the TOC does not name it.
    pub async fn create(&self, suffix: &str, bytes: u64) -> Result<ArrivingFile, StorageError> {
        let Arrived { source, descriptor, files } = &self.arrived;
        let is_named = self.toc.suffixes().any(|named| named == suffix);
        let is_there = files.iter().any(|(there, _)| there == suffix);
        if !is_named || is_there || suffix == Component::Toc.suffix() {
            let what = format!("{source}: its TOC.txt names no file {suffix:?}, or it came twice");
            return Err(StorageError::Shard(what));
        }
        let _gate = pass_gate(&self.table, 1).await;
        if self.table.dropped.get() {
            return Err(StorageError::UnknownTable(self.table.id));
        }
        let path = self.table.dir.join(descriptor.file_name_of(suffix));
        let file = File::open(&path, OpenOptions::create_new()).await?;
        let (table, suffix) = (self.table.clone(), suffix.to_owned());
        Ok(ArrivingFile { table, file, suffix, bytes, blocks: RefCell::default() })
    }

    /// A file is whole: it is on the disk when this returns.
    pub async fn add(&mut self, file: ArrivingFile) -> Result<(), StorageError> {
        let crc = file.crc()?;
        file.file.fdatasync(CLASS).await?;
        file.file.close().await?;
        debug_assert!(
            !self.arrived.files.iter().any(|(suffix, _)| *suffix == file.suffix),
            "all-or-none: {} twice",
            file.suffix
        );
        self.arrived.files.push((file.suffix, crc));
        Ok(())
    }

    /// All files are here.
    pub fn finish(self) -> Arrived {
        assert!(!self.arrived.files.is_empty(), "all-or-none: an SSTable of no file");
        self.arrived
    }

    /// It is not wanted any more.
    pub fn give_up(self) -> Arrived {
        self.arrived
    }
}

impl ArrivingFile {
    /// Writes a block: of whole units of the disk, unless it is the last.
    pub async fn write(&self, offset: u64, block: &[u8]) -> Result<(), StorageError> {
        let (len, crc) = (block.len() as u64, crc32(block));
        let end = offset.saturating_add(len);
        let is_tail = end == self.bytes;
        let is_whole = len.is_multiple_of(ALIGNMENT as u64) || is_tail;
        if len == 0 || self.bytes < end || !is_whole || !offset.is_multiple_of(ALIGNMENT as u64) {
            let what = format!("a block of {len} bytes at {offset} of {}", self.bytes);
            return Err(StorageError::Shard(format!("{}: {what}", self.suffix)));
        }
        if self.table.dropped.get() {
            return Err(StorageError::UnknownTable(self.table.id));
        }
        let mut buf = AlignedBuf::with_capacity(block.len().next_multiple_of(ALIGNMENT));
        buf.extend_from_slice(block);
        match is_tail {
            true => self.file.write_tail(CLASS, offset, buf).await?,
            false => self.file.write_at(CLASS, offset, buf).await?,
        };
        self.blocks.borrow_mut().insert(offset, (len, crc));
        Ok(())
    }

    /// CRC32 of all of it, once all blocks are there.
    fn crc(&self) -> Result<u32, StorageError> {
        let (mut end, mut crc) = (0, 0);
        for (offset, (len, of_block)) in self.blocks.borrow().iter() {
            if *offset != end {
                break;
            }
            crc = crc32_join(crc, *of_block, *len);
            end += len;
        }
        if end != self.bytes {
            let what = format!("{}: {end} bytes came of {}", self.suffix, self.bytes);
            return Err(StorageError::Shard(what));
        }
        Ok(crc)
    }
}

impl Shard {
    /// See [`crate::Storage::join_arrived`].
    pub(crate) async fn join_arrived(
        self: &Rc<Self>,
        id: TableId,
        range: (Token, Token),
        arrived: Vec<Arrived>,
    ) -> Result<(), StorageError> {
        assert!(runtime::shard_id() == 0, "all-or-none: another shard than the first joins files");
        if arrived.is_empty() {
            return Ok(());
        }
        let table = started(self, id)?;
        let _alone = table.loading.acquire(1).await;
        {
            let _gate = pass_gate(&table, 1).await;
            if table.dropped.get() {
                return Err(StorageError::UnknownTable(id));
            }
            make_known(self, &table, range, &arrived).await?;
            for one in &arrived {
                let suffixes = one.files.iter().map(|(suffix, _)| suffix.as_str());
                backup::link(self, &table, one.descriptor, suffixes).await;
            }
        }
        take_over(id, arrived.iter().map(|one| one.descriptor).collect()).await;
        Ok(())
    }

    /// See [`crate::Storage::drop_arrived`].
    pub(crate) async fn drop_arrived(&self, id: TableId, arrived: &[Arrived]) {
        let Some(table) = self.table(id) else { return };
        let _gate = pass_gate(&table, 1).await;
        remove_all(&table, arrived).await;
    }
}

/// Has files of SSTables go; whether all did. What stays has no TOC, or a record says that it is
/// gone: the next start removes it.
async fn remove_all(table: &Table, arrived: &[Arrived]) -> bool {
    let mut all = true;
    for one in arrived {
        debug_assert!(
            !table.tablets().iter().any(|tablet| tablet.has_sstable(one.descriptor)),
            "all-or-none: {:?} is in a set",
            one.descriptor
        );
        if let Err(error) = store::remove(&table.dir, one.descriptor).await {
            tracing::warn!("files that came and are not wanted stay: {error}");
            all = false;
        }
    }
    all
}

/// In one step, which is durable when this returns: the SSTables are those of the table
/// (*all-or-none*). After an error they are not.
async fn make_known(
    shard: &Shard,
    table: &Table,
    range: (Token, Token),
    arrived: &[Arrived],
) -> Result<(), StorageError> {
    let names = || arrived.iter().map(|one| one.descriptor.file_name(Component::Data)).collect();
    let id = random_uuid();
    let sealed = async {
        let record = Obsolete::store(&table.dir, id, names()).await?;
        seal(table, arrived).await?;
        check_all(shard, table, range, arrived).await?;
        record.remove().await?;
        fs::sync_dir(&table.dir).await?;
        Ok(())
    };
    let Err(error) = sealed.await else { return Ok(()) };
    // It may have been removed, and not for good.
    match Obsolete::store(&table.dir, id, names()).await {
        Ok(record) => {
            if remove_all(table, arrived).await
                && let Err(error) = record.remove().await
            {
                tracing::warn!("a record that is not needed any more stays: {error}");
            }
        }
        Err(worse) => {
            tracing::error!("{}: SSTables stay that did not join: {worse}", table.dir.display());
            table.unremoved.borrow_mut().extend(arrived.iter().map(|one| one.descriptor));
        }
    }
    Err(error)
}

/// Each TOC gets its name. What it names is on the disk.
async fn seal(table: &Table, arrived: &[Arrived]) -> Result<(), IoError> {
    for Arrived { descriptor, .. } in arrived {
        let path = |component| descriptor.path(&table.dir, component);
        fs::rename(path(Component::TemporaryToc), path(Component::Toc)).await?;
    }
    fs::sync_dir(&table.dir).await
}

/// Whether the SSTables can be the table's (*checked-before*, *nothing-else*). They go to the level
/// of what is new.
async fn check_all(
    shard: &Shard,
    table: &Table,
    range: (Token, Token),
    arrived: &[Arrived],
) -> Result<(), StorageError> {
    let (schema, ranges) = (table.schema(), TokenRanges::new(vec![range]));
    let descriptors: Vec<Descriptor> = arrived.iter().map(|one| one.descriptor).collect();
    let opened = open_all(shard, table, &descriptors, schema.clone()).await;
    assert!(opened.len() == arrived.len(), "checked-before: {} were opened", opened.len());
    let mut is_changed = false;
    for (one, opened) in arrived.iter().zip(opened) {
        let opened = match opened {
            Opened::Good(opened) => opened,
            Opened::Bad(_, error) => {
                return Err(StorageError::Shard(format!("{error} (it was {})", one.source)));
            }
        };
        check(table, &schema, &opened, one).await?;
        let tokens = (opened.first_key().token, opened.last_key().token);
        if !ranges.holds_all_of(tokens) {
            let what = format!("it has tokens from {} to {}", tokens.0.0, tokens.1.0);
            return Err(damaged(table, one, Component::Data, what));
        }
        for (component, bytes) in without_level(&table.dir, &opened).await? {
            let path = one.descriptor.path(&table.dir, component);
            fs::remove_file(&path).await?;
            write_whole(&path, &bytes, CLASS).await?;
            is_changed = true;
        }
    }
    match is_changed {
        true => Ok(fs::sync_dir(&table.dir).await?),
        false => Ok(()),
    }
}

/// Compares what came with what the SSTable says of itself.
async fn check(
    table: &Table,
    schema: &TableSchema,
    opened: &sstable::Table,
    one: &Arrived,
) -> Result<(), StorageError> {
    check_content(opened, schema).map_err(|why| damaged(table, one, Component::Data, why))?;
    for (suffix, crc) in &one.files {
        let Some(component) = Component::of_suffix(suffix) else { continue };
        let mut expected = opened.scylla().digest_of(component);
        if component == Component::Data && opened.components().has(Component::Digest) {
            let path = one.descriptor.path(&table.dir, Component::Digest);
            let text = String::from_utf8(fs::read_file(path).await?).unwrap_or_default();
            let wrong = || damaged(table, one, Component::Digest, "it is no number".to_owned());
            expected = Some(text.trim().parse().map_err(|_| wrong())?);
        }
        if expected.is_some_and(|expected| expected != *crc) {
            let what = "its bytes have another checksum than its SSTable says".to_owned();
            return Err(damaged(table, one, component, what));
        }
    }
    Ok(())
}
