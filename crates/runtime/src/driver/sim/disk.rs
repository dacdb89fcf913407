//! A simulated disk: a tree of files as the node sees it, and as a crash would leave it.
//!
//! Invariants
//!  - *synced-survives*, *unsynced-may-not*: see `crate::sim`.
//!  - *live-is-durable-plus-pending*: applying all pending changes, in order, to the durable image
//!    gives the live one, unless a sync failed.
//!  - *one-name*: a name of a directory stands for one inode, which is on the disk.
//!  - *marks-cover*: a sync covers changes that were made before it, and settles all of these.

use super::content::Content;
use crate::driver::fs_op::{DirEntry, FsOp, FsOutput, Metadata, Space};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Component, Path};
use stdx::Prng;

/// What a disk loses or keeps as one.
const SECTOR: usize = 512;

/// A file or directory, by its place in the list; never used again.
pub(crate) type Inode = usize;

const ROOT: Inode = 0;

/// Files up to this size, with so many changes, are compared whole by the assertions.
const CHECKED_BYTES_MAX: usize = 4096;
const CHECKED_PENDING_MAX: usize = 16;

const _: () = assert!(SECTOR.is_power_of_two(), "unsynced-may-not: torn at sectors");

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

#[derive(Debug, Default)]
struct FileNode {
    live: Content,
    durable: Content,
    pending: VecDeque<Change>,
    /// The number of changes that were made durable or forgotten.
    settled: u64,
    /// A failed sync forgot some, so that the images differ without pending changes.
    diverged: bool,
    modified_micros: i64,
}

#[derive(Debug, Default)]
struct DirNode {
    live: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
}

#[derive(Debug)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

impl FileNode {
    /// *live-is-durable-plus-pending*: of small files all bytes, of others the length.
    fn check(&self) {
        let small =
            self.live.len() <= CHECKED_BYTES_MAX && self.pending.len() <= CHECKED_PENDING_MAX;
        debug_assert!(
            self.diverged || !small || self.replayed() == self.live,
            "live-is-durable-plus-pending: {} pending changes",
            self.pending.len()
        );
        debug_assert!(
            self.diverged || !self.pending.is_empty() || self.durable.len() == self.live.len(),
            "synced-survives: {} bytes of {} are durable",
            self.durable.len(),
            self.live.len()
        );
    }

    /// The durable content with all pending changes.
    fn replayed(&self) -> Content {
        let mut content = self.durable.clone();
        self.pending.iter().for_each(|change| apply(&mut content, change));
        content
    }

    /// *marks-cover*.
    fn check_mark(&self, mark: u64) {
        let made = self.settled + self.pending.len() as u64;
        debug_assert!(mark == u64::MAX || mark <= made, "marks-cover: {mark} of {made} changes");
    }
}

/// A name in a directory.
type Place = (Inode, String);

#[derive(Clone, Debug)]
enum DirChange {
    Set { at: Place, inode: Inode },
    Remove { at: Place, inode: Inode },
    Rename { from: Place, to: Place, inode: Inode },
}

impl DirChange {
    fn inode(&self) -> Inode {
        match self {
            DirChange::Set { inode, .. }
            | DirChange::Remove { inode, .. }
            | DirChange::Rename { inode, .. } => *inode,
        }
    }

    fn concerns(&self, dir: Inode) -> bool {
        match self {
            DirChange::Set { at, .. } | DirChange::Remove { at, .. } => at.0 == dir,
            DirChange::Rename { from, to, .. } => from.0 == dir || to.0 == dir,
        }
    }
}

/// The result of a disk operation: a value, or an error number.
pub(crate) type Outcome<T> = Result<T, i32>;

#[derive(Debug)]
pub(crate) struct SimDisk {
    nodes: Vec<Node>,
    pending: Vec<DirChange>,
    locked: Vec<Inode>,
    pub(crate) capacity: Option<u64>,
    pub(crate) error_one_in: u64,
    pub(crate) slowness: u32,
}

impl SimDisk {
    pub(crate) fn new() -> SimDisk {
        SimDisk {
            nodes: vec![Node::Dir(DirNode::default())],
            pending: Vec::new(),
            locked: Vec::new(),
            capacity: None,
            error_one_in: 0,
            slowness: 1,
        }
    }

    /// Whether this request fails.
    pub(crate) fn fails(&self, prng: &mut Prng) -> bool {
        self.error_one_in != 0 && prng.one_in(self.error_one_in)
    }

    // Files.

    /// Opens a file by the kernel's flags.
    pub(crate) fn open(&mut self, path: &Path, flags: i32) -> Outcome<Inode> {
        let (dir, name) = self.parent(path)?;
        match self.lookup(dir, &name)? {
            Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => Err(libc::EEXIST),
            Some(inode) => {
                if matches!(self.nodes[inode], Node::Dir(_)) {
                    return Err(libc::EISDIR);
                }
                if flags & libc::O_TRUNC != 0 {
                    self.resize(inode, 0);
                    debug_assert_eq!(self.len(inode), 0, "a file that was emptied");
                }
                Ok(inode)
            }
            None if flags & libc::O_CREAT == 0 => Err(libc::ENOENT),
            None => {
                let inode = self.add(Node::File(FileNode::default()));
                self.link((dir, name), inode);
                Ok(inode)
            }
        }
    }

    pub(crate) fn len(&self, inode: Inode) -> u64 {
        self.file(inode).live.len() as u64
    }

    /// Up to `len` bytes at `offset`.
    pub(crate) fn read(&self, inode: Inode, offset: u64, len: usize) -> Cow<'_, [u8]> {
        self.file(inode).live.read(offset as usize, len)
    }

    pub(crate) fn write(
        &mut self,
        inode: Inode,
        offset: u64,
        bytes: &[u8],
        now_micros: i64,
    ) -> Outcome<usize> {
        let end = offset as usize + bytes.len();
        self.check_room(inode, end)?;
        let file = self.file_mut(inode);
        let change = Change::Write { offset: offset as usize, bytes: bytes.to_vec() };
        apply(&mut file.live, &change);
        file.pending.push_back(change);
        file.modified_micros = now_micros;
        debug_assert!(end <= file.live.len(), "live-is-durable-plus-pending: a write is not there");
        file.check();
        Ok(bytes.len())
    }

    /// A write that was in flight when the node died: any of its sectors may have arrived.
    pub(crate) fn write_interrupted(
        &mut self,
        inode: Inode,
        offset: u64,
        bytes: &[u8],
        prng: &mut Prng,
    ) {
        let change = Change::Write { offset: offset as usize, bytes: bytes.to_vec() };
        let file = self.file_mut(inode);
        file.diverged = true;
        apply_torn(&mut file.durable, &change, prng);
    }

    pub(crate) fn resize(&mut self, inode: Inode, len: u64) {
        let file = self.file_mut(inode);
        let change = Change::Resize(len as usize);
        apply(&mut file.live, &change);
        file.pending.push_back(change);
        debug_assert_eq!(file.live.len() as u64, len, "live-is-durable-plus-pending: the size");
        file.check();
    }

    pub(crate) fn allocate(&mut self, inode: Inode, end: u64) -> Outcome<()> {
        self.check_room(inode, end as usize)?;
        if self.len(inode) < end {
            self.resize(inode, end);
        }
        debug_assert!(end <= self.len(inode), "live-is-durable-plus-pending: {end} bytes reserved");
        Ok(())
    }

    /// How many changes a sync that starts now covers.
    pub(crate) fn sync_mark(&self, inode: Inode) -> u64 {
        let file = self.file(inode);
        file.settled + file.pending.len() as u64
    }

    /// Makes the changes up to `mark` durable.
    pub(crate) fn sync(&mut self, inode: Inode, mark: u64) {
        let file = self.file_mut(inode);
        file.check_mark(mark);
        while file.settled < mark {
            let Some(change) = file.pending.pop_front() else { break };
            apply(&mut file.durable, &change);
            file.settled += 1;
        }
        debug_assert!(
            mark <= file.settled || file.pending.is_empty(),
            "marks-cover: {} settled of {mark}",
            file.settled
        );
        file.check();
    }

    /// A sync that fails: of the changes up to `mark` some are durable, and no later sync will
    /// care for the others.
    pub(crate) fn sync_failed(&mut self, inode: Inode, mark: u64, prng: &mut Prng) {
        let file = self.file_mut(inode);
        file.check_mark(mark);
        file.diverged = true;
        while file.settled < mark {
            let Some(change) = file.pending.pop_front() else { break };
            if prng.one_in(2) {
                apply(&mut file.durable, &change);
            }
            file.settled += 1;
        }
    }

    pub(crate) fn unlock(&mut self, inode: Inode) {
        let before = self.locked.len();
        self.locked.retain(|locked| *locked != inode);
        debug_assert_eq!(before - self.locked.len(), 1, "one-name: inode {inode} was not locked");
    }

    // Paths.

    /// Carries a path operation out. A lock gives the inode that is locked.
    pub(crate) fn perform(&mut self, op: &FsOp) -> Outcome<Result<FsOutput, Inode>> {
        match op {
            FsOp::CreateDirAll(path) => self.create_dir_all(path)?,
            FsOp::SyncDir(path) => {
                let dir = self.resolve_dir(path)?;
                self.sync_dir(dir);
            }
            FsOp::Rename(from, to) => self.rename(from, to)?,
            FsOp::RemoveFile(path) => {
                let (dir, name) = self.parent(path)?;
                let inode = self.lookup(dir, &name)?.ok_or(libc::ENOENT)?;
                if matches!(self.nodes[inode], Node::Dir(_)) {
                    return Err(libc::EISDIR);
                }
                self.unlink((dir, name), inode);
            }
            FsOp::RemoveDirAll(path) => {
                let (dir, name) = self.parent(path)?;
                let inode = self.lookup(dir, &name)?.ok_or(libc::ENOENT)?;
                self.remove_tree((dir, name), inode)?;
            }
            FsOp::ListDir(path) => return self.list(path).map(|list| Ok(FsOutput::Entries(list))),
            FsOp::Metadata(path) => {
                let inode = self.resolve(path)?;
                return Ok(Ok(FsOutput::Metadata(self.metadata(inode))));
            }
            FsOp::Space(path) => {
                self.resolve(path)?;
                return Ok(Ok(FsOutput::Space(self.space())));
            }
            FsOp::HardLink(existing, new) => {
                let inode = self.resolve(existing)?;
                let (dir, name) = self.parent(new)?;
                if self.lookup(dir, &name)?.is_some() {
                    return Err(libc::EEXIST);
                }
                self.link((dir, name), inode);
            }
            FsOp::Lock(path) => {
                let inode = self.open(path, libc::O_CREAT)?;
                if self.locked.contains(&inode) {
                    return Ok(Ok(FsOutput::Held(Some(1))));
                }
                self.locked.push(inode);
                return Ok(Err(inode));
            }
        }
        Ok(Ok(FsOutput::Done))
    }

    /// The paths of all files.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![(ROOT, String::new())];
        while let Some((dir, path)) = dirs.pop() {
            let Node::Dir(node) = &self.nodes[dir] else { continue };
            for (name, inode) in &node.live {
                let path = format!("{path}/{name}");
                match self.nodes[*inode] {
                    Node::Dir(_) => dirs.push((*inode, path)),
                    Node::File(_) => found.push(path),
                }
            }
        }
        found.sort();
        found
    }

    /// The file of a path.
    pub(crate) fn find_file(&self, path: &Path) -> Option<Inode> {
        let inode = self.resolve(path).ok()?;
        matches!(self.nodes[inode], Node::File(_)).then_some(inode)
    }

    /// Changes the content of a file durably.
    pub(crate) fn edit(&mut self, inode: Inode, edit: impl Fn(&mut Vec<u8>)) {
        let file = self.file_mut(inode);
        file.live.edit(&edit);
        file.durable.edit(&edit);
        for change in &mut file.pending {
            // What is still pending must not undo the edit: the live content is the truth now.
            match change {
                Change::Write { offset, bytes } => {
                    let end = (*offset + bytes.len()).min(file.live.len());
                    let start = (*offset).min(end);
                    *bytes = file.live.read(start, end - start).into_owned();
                }
                Change::Resize(len) => *len = (*len).min(file.live.len()),
            }
        }
        // What is pending was made for another content: a crash decides between both.
        file.diverged |= !file.pending.is_empty();
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) {
        for inode in 0..self.nodes.len() {
            if matches!(self.nodes[inode], Node::File(_)) {
                self.sync(inode, u64::MAX);
            } else {
                self.sync_dir(inode);
            }
        }
        debug_assert!(self.pending.is_empty(), "synced-survives: a name that no directory has");
    }

    /// The machine dies: keeps what was synced, and of the rest what it likes.
    pub(crate) fn crash(&mut self, prng: &mut Prng) {
        debug_assert!(1 <= self.slowness, "a disk takes its time");
        // Journals keep a prefix; nothing promises it.
        let pending = std::mem::take(&mut self.pending);
        let kept = match prng.one_in(2) {
            true => prng.below(pending.len() as u64 + 1) as usize,
            false => usize::MAX,
        };
        for (index, change) in pending.into_iter().enumerate() {
            if index < kept && (kept != usize::MAX || prng.one_in(2)) {
                self.settle(&change);
            }
        }
        self.locked.clear();
        let reachable = self.reachable();
        for (inode, node) in self.nodes.iter_mut().enumerate() {
            match node {
                // It cannot be opened again.
                _ if !reachable.contains(&inode) => *node = Node::File(FileNode::default()),
                Node::Dir(dir) => dir.live = dir.durable.clone(),
                Node::File(file) if file.pending.is_empty() && !file.diverged => {}
                Node::File(file) => {
                    file.diverged = false;
                    file.settled += file.pending.len() as u64;
                    for change in std::mem::take(&mut file.pending) {
                        match prng.below(3) {
                            0 => {}
                            1 => apply(&mut file.durable, &change),
                            _ => apply_torn(&mut file.durable, &change, prng),
                        }
                    }
                    file.live = file.durable.clone();
                }
            }
        }
        self.check_restarted();
    }

    /// A disk that has just come up shows what is durable, and nothing is pending.
    fn check_restarted(&self) {
        debug_assert!(self.pending.is_empty(), "synced-survives: names are pending after a crash");
        debug_assert!(self.locked.is_empty(), "synced-survives: locks outlive their process");
        debug_assert!(
            matches!(self.nodes[ROOT], Node::Dir(_)),
            "one-name: the root is a directory"
        );
        for node in &self.nodes {
            match node {
                Node::File(file) => {
                    debug_assert!(
                        file.pending.is_empty(),
                        "synced-survives: pending after a crash"
                    );
                    file.check();
                }
                Node::Dir(dir) => {
                    debug_assert_eq!(dir.live, dir.durable, "synced-survives: names");
                }
            }
        }
    }

    /// What the durable directories lead to.
    fn reachable(&self) -> BTreeSet<Inode> {
        let mut reachable = BTreeSet::from([ROOT]);
        let mut dirs = vec![ROOT];
        while let Some(dir) = dirs.pop() {
            let Node::Dir(node) = &self.nodes[dir] else { continue };
            for inode in node.durable.values() {
                if reachable.insert(*inode) {
                    dirs.push(*inode);
                }
            }
        }
        reachable
    }

    fn create_dir_all(&mut self, path: &Path) -> Outcome<()> {
        let mut dir = ROOT;
        for name in names(path)? {
            dir = match self.lookup(dir, &name)? {
                Some(inode) => inode,
                None => {
                    let inode = self.add(Node::Dir(DirNode::default()));
                    self.link((dir, name), inode);
                    inode
                }
            };
        }
        if matches!(self.nodes[dir], Node::Dir(_)) { Ok(()) } else { Err(libc::ENOTDIR) }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Outcome<()> {
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        let inode = self.lookup(from.0, &from.1)?.ok_or(libc::ENOENT)?;
        if let Some(replaced) = self.lookup(to.0, &to.1)?
            && let Node::Dir(dir) = &self.nodes[replaced]
            && !dir.live.is_empty()
        {
            return Err(libc::ENOTEMPTY);
        }
        let moved = self.dir_mut(from.0).live.remove(&from.1);
        debug_assert_eq!(moved, Some(inode), "one-name: what is renamed is another");
        self.dir_mut(to.0).live.insert(to.1.clone(), inode);
        self.pending.push(DirChange::Rename { from, to, inode });
        Ok(())
    }

    fn remove_tree(&mut self, at: Place, inode: Inode) -> Outcome<()> {
        if let Node::Dir(dir) = &self.nodes[inode] {
            for (name, child) in dir.live.clone() {
                self.remove_tree((inode, name), child)?;
            }
        }
        self.unlink(at, inode);
        Ok(())
    }

    fn list(&self, path: &Path) -> Outcome<Vec<DirEntry>> {
        let dir = self.resolve_dir(path)?;
        let Node::Dir(dir) = &self.nodes[dir] else { return Err(libc::ENOTDIR) };
        let entry = |(name, inode): (&String, &Inode)| {
            let Metadata { is_dir, len, .. } = self.metadata(*inode);
            DirEntry { name: name.clone(), is_dir, is_file: !is_dir, len }
        };
        Ok(dir.live.iter().map(entry).collect())
    }

    fn metadata(&self, inode: Inode) -> Metadata {
        match &self.nodes[inode] {
            Node::Dir(_) => Metadata { is_dir: true, len: 0, modified_micros: 0 },
            Node::File(file) => {
                let (len, modified_micros) = (file.live.len() as u64, file.modified_micros);
                Metadata { is_dir: false, len, modified_micros }
            }
        }
    }

    fn sync_dir(&mut self, dir: Inode) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if change.concerns(dir) {
                self.settle(&change);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// Makes a change of a directory durable.
    fn settle(&mut self, change: &DirChange) {
        debug_assert!(change.inode() < self.nodes.len(), "one-name: {change:?} of no inode");
        match change {
            DirChange::Set { at, inode } => {
                self.dir_mut(at.0).durable.insert(at.1.clone(), *inode);
            }
            DirChange::Remove { at, inode } => self.forget(at, *inode),
            DirChange::Rename { from, to, inode } => {
                self.forget(from, *inode);
                self.dir_mut(to.0).durable.insert(to.1.clone(), *inode);
            }
        }
    }

    fn forget(&mut self, at: &Place, inode: Inode) {
        let durable = &mut self.dir_mut(at.0).durable;
        if durable.get(&at.1) == Some(&inode) {
            durable.remove(&at.1);
        }
    }

    fn link(&mut self, at: Place, inode: Inode) {
        debug_assert!(inode < self.nodes.len(), "one-name: {} is no inode", inode);
        let before = self.dir_mut(at.0).live.insert(at.1.clone(), inode);
        debug_assert_eq!(before, None, "one-name: {} is taken", at.1);
        self.pending.push(DirChange::Set { at, inode });
    }

    fn unlink(&mut self, at: Place, inode: Inode) {
        let removed = self.dir_mut(at.0).live.remove(&at.1);
        debug_assert_eq!(removed, Some(inode), "one-name: {} is another", at.1);
        self.pending.push(DirChange::Remove { at, inode });
    }

    fn add(&mut self, node: Node) -> Inode {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn check_room(&self, inode: Inode, end: usize) -> Outcome<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let grows = end.saturating_sub(self.file(inode).live.len()) as u64;
        if grows == 0 {
            return Ok(());
        }
        if self.used() + grows <= capacity { Ok(()) } else { Err(libc::ENOSPC) }
    }

    /// Bytes of all files.
    fn used(&self) -> u64 {
        let files = self.files();
        let sizes = files.iter().filter_map(|path| self.find_file(Path::new(path)));
        sizes.map(|inode| self.len(inode)).sum()
    }

    fn space(&self) -> Space {
        match self.capacity {
            Some(total) => Space { free: total.saturating_sub(self.used()), total },
            None => Space { free: u64::MAX, total: u64::MAX },
        }
    }

    fn parent(&self, path: &Path) -> Outcome<Place> {
        let mut names = names(path)?;
        let name = names.pop().ok_or(libc::EISDIR)?;
        let mut dir = ROOT;
        for name in names {
            dir = self.lookup(dir, &name)?.ok_or(libc::ENOENT)?;
        }
        match self.nodes[dir] {
            Node::Dir(_) => Ok((dir, name)),
            Node::File(_) => Err(libc::ENOTDIR),
        }
    }

    fn resolve(&self, path: &Path) -> Outcome<Inode> {
        let mut inode = ROOT;
        for name in names(path)? {
            inode = self.lookup(inode, &name)?.ok_or(libc::ENOENT)?;
        }
        Ok(inode)
    }

    fn resolve_dir(&self, path: &Path) -> Outcome<Inode> {
        let inode = self.resolve(path)?;
        if matches!(self.nodes[inode], Node::Dir(_)) { Ok(inode) } else { Err(libc::ENOTDIR) }
    }

    fn lookup(&self, dir: Inode, name: &str) -> Outcome<Option<Inode>> {
        match &self.nodes[dir] {
            Node::Dir(dir) => Ok(dir.live.get(name).copied()),
            Node::File(_) => Err(libc::ENOTDIR),
        }
    }

    fn file(&self, inode: Inode) -> &FileNode {
        match &self.nodes[inode] {
            Node::File(file) => file,
            Node::Dir(_) => unreachable!("a file's inode is a file"),
        }
    }

    fn file_mut(&mut self, inode: Inode) -> &mut FileNode {
        match &mut self.nodes[inode] {
            Node::File(file) => file,
            Node::Dir(_) => unreachable!("a file's inode is a file"),
        }
    }

    fn dir_mut(&mut self, inode: Inode) -> &mut DirNode {
        match &mut self.nodes[inode] {
            Node::Dir(dir) => dir,
            Node::File(_) => unreachable!("a directory's inode is a directory"),
        }
    }
}

/// The names of a path; relative paths start at the root.
fn names(path: &Path) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir => drop(names.pop()),
            Component::Prefix(_) => return Err(libc::EINVAL),
        }
    }
    Ok(names)
}

fn apply(content: &mut Content, change: &Change) {
    match change {
        Change::Write { offset, bytes } => content.write(*offset, bytes),
        Change::Resize(len) => content.resize(*len),
    }
}

/// Applies any of the sectors of a write; a change of size wholly or not at all.
fn apply_torn(content: &mut Content, change: &Change, prng: &mut Prng) {
    match change {
        Change::Write { offset, bytes } => {
            let mut at = 0;
            while at < bytes.len() {
                let end = ((offset + at) / SECTOR + 1) * SECTOR - offset;
                let end = end.min(bytes.len());
                debug_assert!(at < end, "unsynced-may-not: no sector at {at}");
                if prng.one_in(2) {
                    content.write(offset + at, &bytes[at..end]);
                }
                at = end;
            }
        }
        Change::Resize(_) if prng.one_in(2) => apply(content, change),
        Change::Resize(_) => {}
    }
}
