//! Segments of hints on the disk: `<hints_directory>/<shard>/<host id>/hints-<number>.log`.
//!
//! A segment is appended to in one life of the process and never again: one that a crash tore is
//! read up to the tear. It is removed when all of it was sent, or is not to be.
//!
//! Invariants
//!  - *one-name*: a segment has one name, which is read back as its number; the numbers of a
//!    node's segments ascend, over restarts too.
//!  - *durable-as-told*: what an append has said to be written is read back after a crash.
//!  - *taken-over*: hints of shards that are no more are those of a shard that is.

use super::form::{self, Hint, Step};
use model::Uuid;
use runtime::io::{AlignedBuf, DmaBuf, File, IoClass, IoError, OpenOptions, fs};
use std::path::{Path, PathBuf};
use stdx::Damaged;

const PREFIX: &str = "hints-";
const SUFFIX: &str = ".log";
/// What is read at a time, unless a hint is larger.
const READ_BYTES: usize = 256 << 10;

/// A segment that is not written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) bytes: u64,
}

fn name_of(number: u64) -> String {
    let name = format!("{PREFIX}{number:016x}{SUFFIX}");
    debug_assert_eq!(number_of(&name), Some(number), "one-name: {name}");
    name
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_plain = digits.len() == 16 && digits.bytes().all(is_digit);
    is_plain.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The folder of a shard's hints.
pub(super) fn of_shard(hints: &Path, shard: u16) -> PathBuf {
    hints.join(shard.to_string())
}

/// The folder of a shard's hints for a node.
pub(super) fn of_host(shard_folder: &Path, host: Uuid) -> PathBuf {
    shard_folder.join(host.to_string())
}

/// The nodes for which a shard has segments, by those.
pub(super) async fn list(shard_folder: &Path) -> Result<Vec<(Uuid, Vec<Segment>)>, IoError> {
    let mut found = Vec::new();
    for entry in entries(shard_folder).await? {
        let Some(host) = host_of(&entry) else { continue };
        let segments = segments(&shard_folder.join(&entry)).await?;
        if !segments.is_empty() {
            found.push((host, segments));
        }
    }
    Ok(found)
}

fn host_of(name: &str) -> Option<Uuid> {
    let host: Uuid = name.parse().ok()?;
    (host.to_string() == name).then_some(host)
}

/// The names in a folder, none where it is not there.
async fn entries(folder: &Path) -> Result<Vec<String>, IoError> {
    match fs::list_dir(folder).await {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn segments(host_folder: &Path) -> Result<Vec<Segment>, IoError> {
    let mut found = Vec::new();
    for name in entries(host_folder).await? {
        if let Some(number) = number_of(&name) {
            found.push(Segment { number, bytes: fs::len(host_folder.join(name)).await? });
        }
    }
    debug_assert!(found.is_sorted_by(|a, b| a.number < b.number), "one-name: {found:?}");
    Ok(found)
}

/// Makes segments of shards that are no more those of `shard`: each shard takes over those whose
/// number leaves its own when it is divided by how many there are. One that a crash left halfway
/// has one of its two names.
pub(super) async fn take_over(hints: &Path, shard: u16, shards: u16) -> Result<(), IoError> {
    assert!(shard < shards, "taken-over: by shard {shard} of {shards}");
    let own = of_shard(hints, shard);
    for name in entries(hints).await? {
        let Some(gone) = name.parse::<u16>().ok().filter(|gone| gone.to_string() == name) else {
            continue;
        };
        if gone < shards || gone % shards != shard {
            continue;
        }
        let folder = of_shard(hints, gone);
        for (host, theirs) in list(&folder).await? {
            let (from, to) = (of_host(&folder, host), of_host(&own, host));
            make_folder(hints, &own, &to).await?;
            let last = segments(&to).await?.last().map_or(0, |segment| segment.number);
            assert!(!theirs.is_empty(), "taken-over: no segments of {host}");
            for (segment, number) in theirs.iter().zip(last + 1..) {
                let (old, new) = (from.join(name_of(segment.number)), to.join(name_of(number)));
                fs::rename(old, new).await?;
            }
            fs::sync_dir(&to).await?;
            tracing::info!(target: "hints", %host, gone, "hints of a shard that is no more");
        }
        fs::remove_dir_all(&folder).await?;
    }
    Ok(())
}

/// Makes the folder of a node, durably.
async fn make_folder(hints: &Path, shard_folder: &Path, folder: &Path) -> Result<(), IoError> {
    if fs::exists(folder).await? {
        return Ok(());
    }
    fs::create_dir_all(folder).await?;
    if let Some(above) = hints.parent().filter(|above| *above != Path::new("")) {
        fs::sync_dir(above).await?;
    }
    fs::sync_dir(hints).await?;
    fs::sync_dir(shard_folder).await
}

/// Removes a segment; one that is not there is removed already.
pub(super) async fn remove(host_folder: &Path, number: u64) -> Result<(), IoError> {
    debug_assert!(0 < number, "one-name: numbers begin with 1");
    match fs::remove_file(host_folder.join(name_of(number))).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// A segment that is written to.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    pub(super) number: u64,
    /// Bytes that were written, and are durable.
    pub(super) bytes: u64,
}

impl Writer {
    /// Makes a segment. `host_folder` is two below `hints`.
    pub(super) async fn create(
        host_folder: &Path,
        host: Uuid,
        number: u64,
    ) -> Result<Writer, IoError> {
        if let Some(shard_folder) = host_folder.parent()
            && let Some(hints) = shard_folder.parent()
        {
            make_folder(hints, shard_folder, host_folder).await?;
        }
        let path = host_folder.join(name_of(number));
        let file = File::open(path, OpenOptions::create_new().buffered()).await?;
        let mut writer = Writer { file, number, bytes: 0 };
        debug_assert!(0 < number, "one-name: numbers begin with 1");
        writer.append(&form::header(host)).await?;
        fs::sync_dir(host_folder).await?;
        Ok(writer)
    }

    /// Writes hints behind those that there are. After an error nothing more is appended.
    pub(super) async fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        debug_assert!(!bytes.is_empty(), "durable-as-told: nothing is written");
        let class = IoClass::Commitlog;
        self.file.write_at(class, self.bytes, AlignedBuf::copy_from(bytes)).await?;
        self.file.fdatasync(class).await?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Hints as they are read back.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    /// Where the next hint begins, in the file and in what was read of it.
    at: u64,
    part: DmaBuf,
    used: usize,
    len: u64,
}

/// What a reader comes to.
#[derive(Debug)]
pub(super) enum Found {
    /// A hint: where it begins, and what it is.
    Hint { at: u64, written_at: i64, request: Vec<u8> },
    /// Bytes that are no hint, which were passed over.
    Damaged(Damaged),
}

impl Reader {
    /// Opens a segment, at a place where a hint begins, or at its begin (0). The inner error says
    /// that it is none.
    pub(super) async fn open(
        host_folder: &Path,
        host: Uuid,
        number: u64,
        at: u64,
    ) -> Result<Result<Reader, Damaged>, IoError> {
        let path = host_folder.join(name_of(number));
        let file = File::open(path, OpenOptions::read_only().buffered()).await?;
        let len = file.len().await?;
        let header = file.read_at(IoClass::Streaming, 0, form::HEADER).await?;
        if let Err(damaged) = form::check_header(&header, host) {
            return Ok(Err(damaged));
        }
        let at = at.max(form::HEADER as u64);
        let part = file.read_at(IoClass::Streaming, at, READ_BYTES).await?;
        Ok(Ok(Reader { file, at, part, used: 0, len }))
    }

    /// Where the next hint begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next hint; `None`: the segment ends.
    pub(super) async fn next(&mut self) -> Result<Option<Found>, IoError> {
        loop {
            let rest = &self.part[self.used..];
            let behind = self.at + rest.len() as u64;
            let needed = match form::step(rest) {
                _ if self.len <= self.at => return Ok(None),
                Step::Hint(Hint { written_at, request }, used) => {
                    let (at, request) = (self.at, request.to_vec());
                    self.pass(used);
                    return Ok(Some(Found::Hint { at, written_at, request }));
                }
                Step::Skip(damaged, used) => {
                    let damaged = damaged.from_base(self.at);
                    self.pass(used);
                    return Ok(Some(Found::Damaged(damaged)));
                }
                Step::Short(needed) if behind < self.len => needed,
                Step::Short(_) => return Ok(Some(self.end(Damaged::new("a torn hint", 0)))),
                Step::Lost(damaged) => return Ok(Some(self.end(damaged))),
            };
            let wanted = needed.max(READ_BYTES);
            self.part = self.file.read_at(IoClass::Streaming, self.at, wanted).await?;
            self.used = 0;
            if self.part.len() < needed {
                return Ok(Some(self.end(Damaged::new("a torn hint", 0))));
            }
        }
    }

    fn pass(&mut self, bytes: usize) {
        debug_assert!(0 < bytes, "foreign-is-damaged: stays where it is");
        self.used += bytes;
        self.at += bytes as u64;
    }

    fn end(&mut self, damaged: Damaged) -> Found {
        debug_assert!(self.at <= self.len, "foreign-is-damaged: behind the end");
        let damaged = damaged.from_base(self.at);
        (self.at, self.used) = (self.len, self.part.len());
        Found::Damaged(damaged)
    }
}
