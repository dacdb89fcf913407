//! Files in, chunks of whole records out.
//!
//! Invariants
//!  - *whole-records*: a chunk begins and ends where records do, and chunks in their order are the
//!    bytes of the files, less what was skipped.
//!  - *bounded*: what is held of a file is a chunk, and the record that a chunk ends before, which
//!    has at most [`RECORD_BYTES_MAX`].
//!  - *placed*: a chunk says where it begins and ends, such that reading can go on from there.

use crate::csv::{Dialect, End};
use crate::parquet::Lines;
use flate2::read::MultiGzDecoder;
use model::Type;
use runtime::io::{AlignedBuf, IoClass};
use runtime::io::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a chunk, unless its only record is longer.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// No record is longer.
pub(crate) const RECORD_BYTES_MAX: usize = 32 << 20;

/// How records are written in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    Csv(Dialect),
    /// JSON, an object on each line.
    Json,
}

impl Records {
    /// The record at the start of `bytes`, if its end is there.
    pub(crate) fn end(&self, bytes: &[u8], is_last: bool) -> Option<End> {
        match self {
            Records::Csv(dialect) => dialect.end(bytes, is_last),
            Records::Json => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => {
                    let end = at - usize::from(bytes[..at].ends_with(b"\r"));
                    Some(End { bytes: end, bytes_with_end: at + 1, lines: 1, is_open: false })
                }
                None if is_last => {
                    let all = bytes.len();
                    Some(End { bytes: all, bytes_with_end: all, lines: 0, is_open: false })
                }
                None => None,
            },
        }
    }
}

/// A place between two records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The file's number.
    pub(crate) file: usize,
    /// Bytes before it in the file, uncompressed.
    pub(crate) offset: u64,
    /// Line ends before it in the file.
    pub(crate) lines: u64,
    /// Records before it in all files, headers not counted.
    pub(crate) records: u64,
}

/// Some records of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: Position,
    pub(crate) end: Position,
    pub(crate) bytes: Vec<u8>,
    /// Whether the file ends with it.
    pub(crate) is_last: bool,
}

/// What of the files is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) records: Records,
    pub(crate) has_header: bool,
    /// The types of the table's columns.
    pub(crate) types: Vec<(String, Type)>,
    /// Records that are passed over at the start.
    pub(crate) skip: u64,
    /// Records after those.
    pub(crate) records_max: Option<u64>,
}

/// The bytes of a file, in order.
enum Bytes {
    Plain {
        file: File,
        buf: AlignedBuf,
    },
    /// What is decompressed or piped: read by a helper thread.
    Stream(Option<Box<dyn Read + Send>>),
}

impl Bytes {
    async fn open(path: &Path, offset: u64, types: &[(String, Type)]) -> Result<Bytes, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        if is_plain(path) {
            let options = OpenOptions::read_only().buffered();
            let file = File::open(path, options).await.map_err(|error| error.to_string())?;
            return Ok(Bytes::Plain { file, buf: AlignedBuf::new() });
        }
        let stream = stream(path, types).map_err(|error| named(&error))?;
        let mut bytes = Bytes::Stream(Some(stream));
        // What is compressed can only be read from its start.
        let (mut left, mut passed) = (offset, Vec::new());
        while left != 0 {
            passed.clear();
            let wanted = left.min(CHUNK_BYTES as u64) as usize;
            let read = bytes.next(0, wanted, &mut passed).await.map_err(|error| named(&error))?;
            if read == 0 {
                return Err(named(&"the file is shorter than it was"));
            }
            left -= read as u64;
        }
        Ok(bytes)
    }

    /// Appends up to `wanted` bytes; 0 at the end.
    async fn next(
        &mut self,
        offset: u64,
        wanted: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, String> {
        match self {
            Bytes::Plain { file, buf } => {
                let buf_again = std::mem::replace(buf, AlignedBuf::new());
                let read = file.read_into(IoClass::Query, offset, wanted, buf_again).await;
                let read = read.map_err(|error| error.to_string())?;
                out.extend_from_slice(read.as_slice());
                let count = read.as_slice().len();
                *buf = read.into_buffer();
                Ok(count)
            }
            Bytes::Stream(place) => {
                let Some(mut stream) = place.take() else { return Ok(0) };
                let work = move || {
                    let mut bytes = Vec::new();
                    let read = stream.by_ref().take(wanted as u64).read_to_end(&mut bytes);
                    (read.map(|_| bytes), stream)
                };
                let (read, stream) = runtime::task::compute(work).await;
                *place = Some(stream);
                let bytes = read.map_err(|error| error.to_string())?;
                out.extend_from_slice(&bytes);
                Ok(bytes.len())
            }
        }
    }
}

/// Whether a file's bytes are those of its records.
pub(crate) fn is_plain(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    path != Path::new("-") && !matches!(extension, Some("gz" | "zst" | "parquet"))
}

#[allow(clippy::disallowed_methods, reason = "decoders read by themselves, on a helper thread")]
fn stream(path: &Path, types: &[(String, Type)]) -> std::io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let file = std::fs::File::open(path)?;
    Ok(match path.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => Box::new(Lines::open(path, types)?),
        Some("gz") => Box::new(MultiGzDecoder::new(std::io::BufReader::new(file))),
        _ => Box::new(zstd::Decoder::new(file)?),
    })
}

/// Reads files.
pub(crate) struct Feed {
    wanted: Wanted,
    at: Position,
    bytes: Option<Bytes>,
    /// What was read and given to nobody.
    ahead: Vec<u8>,
    /// Whether nothing follows [`Feed::ahead`] in its file.
    is_ended: bool,
    /// The names in the header, once one was read.
    header: Option<Vec<u8>>,
}

impl Feed {
    /// From a place in the files on.
    pub(crate) fn new(wanted: Wanted, at: Position) -> Feed {
        Feed { wanted, at, bytes: None, ahead: Vec::new(), is_ended: false, header: None }
    }

    /// The first file's header, where files have one.
    pub(crate) async fn header(&mut self) -> Result<Option<Vec<u8>>, String> {
        if self.wanted.has_header && self.header.is_none() {
            let first = Position { file: 0, ..Position::default() };
            let mut one = Feed::new(self.wanted.clone(), first);
            one.open().await?;
            self.header = one.header;
        }
        Ok(self.header.clone())
    }

    fn name(&self) -> String {
        let path = self.wanted.files.get(self.at.file);
        path.map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn placed(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.name(), self.at.lines + 1)
    }

    /// Opens the file that is at hand, and takes its header.
    async fn open(&mut self) -> Result<(), String> {
        let path = self.wanted.files[self.at.file].clone();
        self.bytes = Some(Bytes::open(&path, self.at.offset, &self.wanted.types).await?);
        self.is_ended = false;
        if self.at.offset != 0 || !self.wanted.has_header {
            return Ok(());
        }
        let Some(end) = self.record().await? else {
            return Err(self.placed("the file has no header"));
        };
        let mut header = self.ahead[..end.bytes].to_vec();
        if header.starts_with(b"\xef\xbb\xbf") {
            header.drain(..3);
        }
        if self.header.as_ref().is_some_and(|first| *first != header) {
            return Err(self.placed("the header is not the one of the first file"));
        }
        self.header = Some(header);
        self.pass(end);
        Ok(())
    }

    /// The first record of what is ahead, read as far as needed; `None` at the end of the file.
    async fn record(&mut self) -> Result<Option<End>, String> {
        loop {
            if !self.ahead.is_empty() || self.is_ended {
                if self.ahead.is_empty() {
                    return Ok(None);
                }
                if let Some(end) = self.wanted.records.end(&self.ahead, self.is_ended) {
                    return Ok(Some(end));
                }
            }
            self.fill().await?;
        }
    }

    /// Reads more: at least a chunk, and as much again as is there of a long record.
    async fn fill(&mut self) -> Result<(), String> {
        if RECORD_BYTES_MAX < self.ahead.len() {
            let limit = RECORD_BYTES_MAX >> 20;
            return Err(self.placed(&format!("a record of more than {limit} MiB")));
        }
        let name = self.name();
        let Some(bytes) = &mut self.bytes else { unreachable!("a file that is read is open") };
        let offset = self.at.offset + self.ahead.len() as u64;
        let wanted = CHUNK_BYTES.max(self.ahead.len());
        let read = bytes.next(offset, wanted, &mut self.ahead).await;
        let read = read.map_err(|error| format!("{name}: {error}"))?;
        self.is_ended = read == 0;
        Ok(())
    }

    /// Passes over a record that is not counted.
    fn pass(&mut self, end: End) {
        self.ahead.drain(..end.bytes_with_end);
        self.at.offset += end.bytes_with_end as u64;
        self.at.lines += u64::from(end.lines);
    }

    /// The next records (*whole-records*); `None`: that was all.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, String> {
        while self.at.file < self.wanted.files.len() && self.may_read() {
            if self.bytes.is_none() {
                self.open().await?;
            }
            if self.at.records < self.wanted.skip {
                match self.record().await? {
                    Some(end) => {
                        self.pass(end);
                        self.at.records += 1;
                    }
                    None => self.close(),
                }
                continue;
            }
            while self.ahead.len() < CHUNK_BYTES && !self.is_ended {
                self.fill().await?;
            }
            if self.record().await?.is_none() {
                self.close();
                continue;
            }
            return Ok(Some(self.cut()));
        }
        Ok(None)
    }

    fn may_read(&self) -> bool {
        let last = self.wanted.records_max.map(|count| self.wanted.skip.saturating_add(count));
        last.is_none_or(|last| self.at.records < last)
    }

    /// Cuts a chunk off what is ahead, which begins with a whole record.
    fn cut(&mut self) -> Chunk {
        let start = self.at;
        let mut bytes = 0;
        while bytes < CHUNK_BYTES && self.may_read() {
            let rest = &self.ahead[bytes..];
            if rest.is_empty() {
                break;
            }
            let Some(end) = self.wanted.records.end(rest, self.is_ended) else { break };
            bytes += end.bytes_with_end;
            self.at.lines += u64::from(end.lines);
            self.at.records += 1;
        }
        let rest = self.ahead.split_off(bytes);
        let bytes = std::mem::replace(&mut self.ahead, rest);
        self.at.offset += bytes.len() as u64;
        let is_last = self.is_ended && self.ahead.is_empty();
        Chunk { start, end: self.at, bytes, is_last }
    }

    fn close(&mut self) {
        self.bytes = None;
        self.ahead.clear();
        let next =
            Position { file: self.at.file + 1, records: self.at.records, ..Position::default() };
        self.at = next;
        self.is_ended = false;
    }
}
