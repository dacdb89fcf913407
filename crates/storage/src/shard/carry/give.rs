//! What a node gives: SSTables under second names, of which blocks are read.

use super::super::Shard;
use super::super::snapshot::link_into;
use crate::error::StorageError;
use crate::table::dir::{GIVEN, prepare_dir};
use crate::table::{Table, TokenRanges, pass_gate};
use model::{TableId, Token};
use runtime::io::{File, IoClass, IoError, OpenOptions, fs};
use runtime::{local, on_all_shards};
use sstable::store::dir::{Found, State};
use sstable::store::toc::Toc;
use sstable::{Component, Descriptor, store};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A file of an SSTable that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFile {
    /// The end of its name.
    pub suffix: String,
    pub bytes: u64,
}

/// An SSTable that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenSstable {
    /// In the directory of what is given.
    pub descriptor: Descriptor,
    /// The TOC is the first.
    pub files: Vec<GivenFile>,
}

/// SSTables with all that a table has in a range. They are there until they are released.
#[derive(Debug)]
pub struct Given {
    dir: PathBuf,
    pub sstables: Vec<GivenSstable>,
}

impl Given {
    /// Bytes of a file from a place on, at most so many; none behind its end. The numbers are
    /// places in the lists; the error names the file.
    pub async fn read(
        &self,
        (sstable, file): (usize, usize),
        offset: u64,
        bytes_max: usize,
    ) -> Result<Vec<u8>, StorageError> {
        let Some((one, file)) =
            self.sstables.get(sstable).and_then(|one| Some((one, one.files.get(file)?)))
        else {
            let what = format!("no file {file} of SSTable {sstable} is given");
            return Err(StorageError::Shard(what));
        };
        let path = self.dir.join(one.descriptor.file_name_of(&file.suffix));
        let wanted = file.bytes.saturating_sub(offset).min(bytes_max as u64) as usize;
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let source = File::open(&path, OpenOptions::read_only()).await?;
        let block = source.read_at(IoClass::Streaming, offset, wanted).await?.to_vec();
        source.close().await?;
        if block.len() < wanted {
            let what = format!("it ends before {}, where it was longer", offset + wanted as u64);
            return Err(StorageError::Damaged { file: path, what });
        }
        debug_assert!(block.len() == wanted, "linked-stays: {} of {wanted} bytes", block.len());
        Ok(block)
    }

    /// Removes the second names.
    pub async fn release(&self) -> Result<(), IoError> {
        let parent = self.dir.parent().and_then(Path::file_name);
        assert!(parent.is_some_and(|name| name == GIVEN), "linked-stays: {:?} goes", self.dir);
        remove(&self.dir).await
    }
}

/// Removes a directory, if it is there.
async fn remove(dir: &Path) -> Result<(), IoError> {
    match fs::remove_dir_all(dir).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

impl Shard {
    /// See [`crate::Storage::give`].
    pub(crate) async fn give(
        &self,
        id: TableId,
        range: (Token, Token),
    ) -> Result<Option<Given>, StorageError> {
        assert!(range.0 < range.1, "ranges-apart: nothing lies in {range:?}");
        let table = self.table(id).ok_or(StorageError::UnknownTable(id))?;
        prepare_dir(&self.config.data_dir, &table).await?;
        let key = crate::compaction::random_uuid().simple().to_string();
        let dir = table.dir.join(GIVEN).join(key);
        fs::create_dir_all(&dir).await?;
        let given = collect(id, range, &dir).await;
        if !matches!(given, Ok(Some(_)))
            && let Err(error) = remove(&dir).await
        {
            tracing::warn!("what was not given after all stays until the next start: {error}");
        }
        given
    }

    /// Links what this shard has of a range; false where some of it has something else as well.
    async fn link_range(
        &self,
        id: TableId,
        range: (Token, Token),
        to: &Path,
    ) -> Result<bool, StorageError> {
        let Some(table) = self.table(id) else { return Ok(true) };
        check(self, &table)?;
        let ranges = TokenRanges::new(vec![range]);
        if wholly_within(&table, &ranges).is_none() {
            return Ok(false);
        }
        let waiting = self.seal_within(&table, &ranges);
        self.await_memtables(waiting).await?;
        let _gate = pass_gate(&table, 1).await;
        let _whole = table.removals.acquire(1).await;
        assert!(table.removals.available() == 0, "linked-stays: SSTables may go");
        check(self, &table)?;
        match wholly_within(&table, &ranges) {
            Some(own) => link_into(&table.dir, &own, to).await.map(|()| true),
            None => Ok(false),
        }
    }
}

/// The SSTables of a shard that have something of the ranges; `None` where one of them has
/// something else (*nothing-else*).
fn wholly_within(table: &Table, ranges: &TokenRanges) -> Option<Vec<Rc<sstable::Table>>> {
    let mut own: Vec<Rc<sstable::Table>> = Vec::new();
    for tablet in table.tablets().iter() {
        let here = ranges.within(tablet.range);
        let all = tablet.sstables.borrow();
        let tokens = |one: &sstable::Table| (one.first_key().token, one.last_key().token);
        let meets = |one: &&Rc<sstable::Table>| here.among(tokens(one)).next().is_some();
        for one in all.iter().filter(meets) {
            if !tablet.holds_all_of(one) || !here.holds_all_of(tokens(one)) {
                return None;
            }
            debug_assert!(!own.iter().any(|other| Rc::ptr_eq(one, other)), "nothing-else: twice");
            own.push(one.clone());
        }
    }
    Some(own)
}

/// Refuses where nobody can tell what there is.
fn check(shard: &Shard, table: &Table) -> Result<(), StorageError> {
    if table.dropped.get() {
        return Err(StorageError::UnknownTable(table.id));
    }
    if !shard.replay_state(table.log).done.get() {
        return Err(StorageError::Shard("the node is still starting".to_owned()));
    }
    match table.broken.borrow().first() {
        Some(broken) => {
            let what = format!("{} at {}", broken.what, broken.at);
            Err(StorageError::Damaged { file: broken.file.clone().into(), what })
        }
        None => Ok(()),
    }
}

async fn collect(
    id: TableId,
    range: (Token, Token),
    dir: &Path,
) -> Result<Option<Given>, StorageError> {
    let to = dir.to_path_buf();
    let link = move || {
        let to = to.clone();
        async move {
            let shard = local::try_get::<Shard>().ok_or("the node stops")?;
            shard.link_range(id, range, &to).await.map_err(|error| error.to_string())
        }
    };
    for (shard, linked) in on_all_shards(link).await.into_iter().enumerate() {
        match linked {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(why) => return Err(StorageError::Shard(format!("shard {shard}: {why}"))),
        }
    }
    let lengths = fs::list_dir(dir).await?;
    let listing = store::list(dir).await?;
    let mut sstables = Vec::with_capacity(listing.tables.len());
    for found in listing.tables {
        assert!(found.state == State::Complete, "has-all: {:?} was linked", found.descriptor);
        sstables.push(given(dir, &found, &lengths).await?);
    }
    Ok(Some(Given { dir: dir.to_path_buf(), sstables }))
}

/// The files of a linked SSTable that its TOC names.
async fn given(
    dir: &Path,
    found: &Found,
    lengths: &[fs::DirEntry],
) -> Result<GivenSstable, StorageError> {
    let descriptor = found.descriptor;
    let path = descriptor.path(dir, Component::Toc);
    let toc = Toc::parse(&fs::read_file(&path).await?);
    let wrong = || StorageError::Damaged { file: path, what: "no list of components".to_owned() };
    let toc = toc.ok_or_else(wrong)?;
    let first = Component::Toc.suffix();
    let named: Vec<&str> = toc.suffixes().filter(|suffix| *suffix != first).collect();
    let there = found.suffixes.iter().map(String::as_str).filter(|suffix| named.contains(suffix));
    let mut files = Vec::with_capacity(named.len() + 1);
    for suffix in [first].into_iter().chain(there) {
        let name = descriptor.file_name_of(suffix);
        let entry = lengths.iter().find(|entry| entry.name == name);
        let bytes = entry.map_or(0, |entry| entry.len);
        files.push(GivenFile { suffix: suffix.to_owned(), bytes });
    }
    debug_assert!(files[0].suffix == first, "has-all: {:?} begins with no TOC", files[0]);
    Ok(GivenSstable { descriptor, files })
}
