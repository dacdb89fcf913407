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
    /// What of a record is read: of JSON, the object without what makes an array of the lines.
    pub(crate) fn content<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        if *self != Records::Json {
            return record;
        }
        let text = record.trim_ascii();
        let text = text.strip_prefix(b"[").unwrap_or(text);
        let text = text.strip_suffix(b"]").unwrap_or(text).trim_ascii();
        text.strip_suffix(b",").unwrap_or(text).trim_ascii()
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Files in a simulation, and what is read of them.
    struct Case {
        files: Vec<Vec<u8>>,
        has_header: bool,
        skip: u64,
        records_max: Option<u64>,
    }

    impl Case {
        fn new(files: &[&[u8]]) -> Case {
            let files = files.iter().map(|bytes| bytes.to_vec()).collect();
            Case { files, has_header: false, skip: 0, records_max: None }
        }

        /// The chunks from a position on.
        fn read(&self, from: Position) -> Result<Vec<Chunk>, String> {
            let files: Vec<PathBuf> =
                (0..self.files.len()).map(|index| PathBuf::from(format!("/f{index}"))).collect();
            let contents = self.files.clone();
            let wanted = Wanted {
                files: files.clone(),
                records: Records::Csv(Dialect::new(b',', Some(b'"'), Some(b'\\'))),
                has_header: self.has_header,
                types: Vec::new(),
                skip: self.skip,
                records_max: self.records_max,
            };
            runtime::sim::test(1, move || async move {
                for (path, bytes) in files.iter().zip(&contents) {
                    let written = runtime::io::fs::write_file_atomic(path, bytes).await;
                    written.expect("a file of the simulation");
                }
                let mut feed = Feed::new(wanted, from);
                let mut chunks = Vec::new();
                while let Some(chunk) = feed.next().await? {
                    chunks.push(chunk);
                }
                Ok(chunks)
            })
        }

        fn texts(&self) -> Vec<String> {
            let chunks = self.read(Position::default()).expect("it is read");
            chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.bytes).into_owned()).collect()
        }
    }

    /// About four chunks of records, some of which have line ends in them.
    fn large() -> Vec<u8> {
        let record = |number: u64| format!("{number},\"{}\n\"\n", "x".repeat(number as usize % 90));
        (0..20_000).map(record).collect::<String>().into_bytes()
    }

    #[test]
    fn chunks_are_whole_records() {
        let bytes = large();
        let chunks = Case::new(&[&bytes]).read(Position::default()).expect("it is read");
        assert!(3 < chunks.len(), "{} chunks", chunks.len());
        assert!(chunks.iter().all(|chunk| chunk.bytes.ends_with(b"\"\n")));
        assert!(chunks.iter().all(|chunk| chunk.bytes.len() < 2 * CHUNK_BYTES));
        let whole: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
        assert!(whole == bytes, "other bytes than those of the file");
        let last = chunks.last().expect("a last chunk");
        assert_eq!((last.end.records, last.end.lines, last.is_last), (20_000, 40_000, true));
    }

    /// *placed*: reading goes on behind every chunk.
    #[test]
    fn reading_goes_on_anywhere() {
        let (bytes, more) = (large(), b"a,b\n".to_vec());
        let case = Case::new(&[&bytes, &more]);
        let chunks = case.read(Position::default()).expect("it is read");
        let bytes_of = |chunks: &[Chunk]| chunks.iter().flat_map(|c| c.bytes.clone()).collect();
        for (index, chunk) in chunks.iter().enumerate() {
            // Where chunks are cut may differ; what is in them may not.
            let rest = case.read(chunk.end).expect("it is read");
            let (found, expected): (Vec<u8>, Vec<u8>) =
                (bytes_of(&rest), bytes_of(&chunks[index + 1..]));
            assert!(found == expected, "after chunk {index}");
            let last = rest.last().unwrap_or(chunk);
            assert_eq!(last.end, chunks[chunks.len() - 1].end, "after chunk {index}");
        }
    }

    #[test]
    fn headers_and_parts() {
        let two: [&[u8]; 2] = [b"\xef\xbb\xbfh\n1\n2\n", b"h\n3\n4"];
        let case = Case { has_header: true, ..Case::new(&two) };
        let refused = case.read(Position::default()).expect("a mark of UTF-8 is no header's");
        assert_eq!(refused.len(), 2);
        assert_eq!(case.texts(), ["1\n2\n", "3\n4"]);
        let case = Case { skip: 1, records_max: Some(2), ..case };
        assert_eq!(case.texts(), ["2\n", "3\n"]);
        let case = Case { has_header: true, ..Case::new(&[b"h\n1\n", b"other\n2\n"]) };
        let said = case.read(Position::default()).expect_err("another header");
        assert_eq!(said, "/f1:1: the header is not the one of the first file");
        assert_eq!(Case::new(&[b""]).texts(), [""; 0]);
        let case = Case { has_header: true, ..Case::new(&[b""]) };
        assert_eq!(case.read(Position::default()), Err("/f0:1: the file has no header".into()));
    }

    #[test]
    fn a_record_without_an_end_is_refused() {
        let endless = [b"\"".to_vec(), vec![b'x'; RECORD_BYTES_MAX + CHUNK_BYTES]].concat();
        let said = Case::new(&[&endless]).read(Position::default()).expect_err("a refusal");
        assert_eq!(said, "/f0:1: a record of more than 32 MiB");
    }

    #[test]
    fn arrays_of_lines_are_objects() {
        let content = |text: &'static str| {
            std::str::from_utf8(Records::Json.content(text.as_bytes())).expect("text")
        };
        assert_eq!(content("[{\"a\": [1]},"), "{\"a\": [1]}");
        assert_eq!(content(" {\"a\": 1} ]"), "{\"a\": 1}");
        assert_eq!([content("["), content("]"), content(" , ")], ["", "", ""]);
    }
}
