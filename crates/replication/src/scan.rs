//! Reading a range of a ring without tablets, where every shard has partitions between those of
//! the others: what the shards send is merged partition by partition, in ring order. Pure: the
//! caller sends the requests and hands in the pages.
//!
//! ```text
//! asks -> pages of some shards -> take -> asks -> .. -> no asks: finish
//! ```
//! A shard is asked for its part of what is left of the limits: all of them at first, then each one
//! when the merge has come to the end of what it sent. A table that fits in one page costs one
//! request per shard.
//!
//! Invariants
//!  - *in-order*: a partition is taken when every shard has sent all that it has before it.
//!  - *exact*: an answer never exceeds the limits of its command, but for the row that makes its
//!    bytes reach theirs; it ends where one of them is reached, or the range.
//!  - *resumable*: an answer resumes behind all that it holds and before all that it does not.
//!  - *bounded-over-read*: unused rows of a shard are fewer than it was asked for last.

use crate::range::{check_page, settle};
use model::{Sharder, Token};
use mutation::page::{
    Page, PagePartition, PageView, Partitions, ROWS_HEADER_BYTES, ReadCommand, Resume, RingBound,
};
use std::ops::Range;

/// The least that a shard is asked for, if there is so much left: a request has a price of its own.
const ROWS_MIN: u64 = 16;
const BYTES_MIN: usize = 16 << 10;
const TOMBSTONES_MIN: u64 = 100;
/// A partition with so many rows is a large one, however many rows are wanted.
const MANY_ROWS_MAX: u64 = 1000;

const _: () = assert!(ROWS_MIN <= MANY_ROWS_MAX, "the bounds of a clamp");

/// One page in the making.
pub struct Scan {
    /// Settled.
    command: ReadCommand,
    streams: Vec<Stream>,
    answer: Page,
    /// The partition that was taken last.
    last: Option<Last>,
    /// The answer ends within a partition that was sent in full.
    cut: Option<Resume>,
    /// The only shard that is asked at first: it has the rest of a partition of many rows.
    alone: Option<usize>,
}

/// What one shard sends.
struct Stream {
    /// What it sent last.
    page: Vec<u8>,
    head: Option<Head>,
    /// Where what it has to send goes on, behind its page.
    place: Place,
    /// Rows of the first partition of its page that were answered before it.
    rows_before: u64,
}

enum Place {
    /// Nothing was asked of it yet.
    Start,
    /// Behind this, which has that token.
    Behind(Token, Resume),
    End,
}

/// The first partition of a page that was not taken yet.
struct Head {
    token: Token,
    /// In the page.
    bytes: Range<usize>,
    /// Of these the last ones are its rows.
    rows_bytes: usize,
    row_count: u64,
    /// Rows of it that were answered before those in the page.
    rows_before: u64,
    /// Whether the page resumed in it.
    goes_on: bool,
}

struct Last {
    /// Where it begins in the answer.
    at: usize,
    /// Where its rows are announced there.
    header_at: usize,
}

impl Scan {
    /// The scan of a settled command for a range.
    pub fn new(command: ReadCommand, sharder: Sharder) -> Scan {
        let is_range = matches!(command.partitions, Partitions::Range { .. });
        assert!(is_range, "a scan of one partition");
        let is_settled = command.resume.as_ref().is_none_or(|resume| resume.after.is_some());
        assert!(is_settled, "resumable: a command that is not settled");
        let stream = |shard| Stream {
            page: Vec::new(),
            head: None,
            place: match &command.resume {
                None => Place::Start,
                Some(resume) => {
                    let token = Token::of(&resume.key);
                    let is_owner = sharder.shard_of(token) == shard;
                    Place::Behind(token, if is_owner { resume.clone() } else { done(&resume.key) })
                }
            },
            rows_before: 0,
        };
        let shards = sharder.shards();
        assert!(0 < shards, "in-order: a ring on no shard");
        let streams = (0..shards).map(stream).collect();
        // It may well fill the page.
        let many = (command.row_limit / u64::from(shards)).clamp(ROWS_MIN, MANY_ROWS_MAX);
        let wide = command.resume.as_ref().filter(|resume| many <= resume.rows_in_partition);
        let alone: Option<usize> =
            wide.map(|resume| sharder.shard_of(Token::of(&resume.key)).into());
        let exists = alone.is_none_or(|owner| owner < usize::from(shards));
        assert!(exists, "in-order: the owner {alone:?} of {shards} shards");
        Scan { command, streams, answer: Page::default(), last: None, cut: None, alone }
    }

    /// Takes what is there, and says which shards have to be asked for what next; none: the answer
    /// is complete.
    pub fn asks(&mut self) -> Vec<(u16, ReadCommand)> {
        if let Some(owner) = self.alone {
            return vec![(owner as u16, self.ask_alone(owner))];
        }
        while !self.is_full() {
            let Some(next) = self.lowest() else { break };
            if self.streams[next].head.is_none() {
                // What was read with many tombstones is answered all the same.
                let enough = self.command.tombstone_limit <= self.answer.tombstones_seen;
                return if enough { Vec::new() } else { self.hungry() };
            }
            self.take_partition(next);
        }
        Vec::new()
    }

    /// Takes a page that a shard was asked for.
    pub fn take(&mut self, shard: u16, page: Page) {
        let stream = &mut self.streams[usize::from(shard)];
        assert!(stream.head.is_none(), "in-order: shard {shard} was asked too early");
        let is_at_end = matches!(stream.place, Place::End);
        assert!(!is_at_end, "in-order: shard {shard} was asked behind its end");
        stream.rows_before = match &stream.place {
            Place::Behind(_, Resume { after: Some(_), rows_in_partition, .. }) => {
                *rows_in_partition
            }
            _ => 0,
        };
        self.answer.tombstones_seen += page.tombstones_seen;
        self.answer.opened.0 += page.opened.0;
        let resumed = match &stream.place {
            Place::Behind(_, resume) => Some(resume.key.clone()),
            _ => None,
        };
        let alone = self.alone.take();
        assert!(alone.is_none_or(|owner| owner == usize::from(shard)), "in-order: {shard} is next");
        let alone = alone.is_some();
        let began = match &stream.place {
            Place::Behind(token, _) => *token,
            _ => Token::MIN,
        };
        stream.place = match (page.resume, &resumed) {
            (Some(resume), _) => Place::Behind(Token::of(&resume.key), resume),
            (None, Some(key)) if alone => Place::Behind(Token::of(key), done(key)),
            (None, _) => Place::End,
        };
        let goes_on = !matches!(&stream.place, Place::Behind(token, _) if *token < began);
        assert!(goes_on, "resumable: shard {shard} goes back before {began:?}");
        stream.page = page.bytes;
        stream.read_head(0, &self.command, resumed.as_deref(), began);
    }

    /// The answer.
    pub fn finish(mut self) -> Page {
        self.answer.resume = match (self.cut.take(), self.lowest()) {
            (Some(cut), _) => Some(cut),
            (None, None) => None,
            (None, Some(next)) => {
                let Stream { head, place, .. } = &self.streams[next];
                match (head, place) {
                    (None, Place::Behind(_, resume)) => Some(resume.clone()),
                    _ => self.behind_last(),
                }
            }
        };
        check_page(&self.command, &self.answer);
        self.answer
    }

    /// Behind the partition that was taken last.
    fn behind_last(&self) -> Option<Resume> {
        match &self.last {
            Some(last) => self.key_of(last).map(done),
            None => self.command.resume.clone(),
        }
    }

    fn key_of(&self, last: &Last) -> Option<&[u8]> {
        let bytes = self.answer.bytes.get(last.at..)?;
        let mut partitions = PageView::trusted(bytes, self.command.layout()).partitions();
        partitions.next().map(|partition| partition.key())
    }

    fn is_full(&self) -> bool {
        let Page { row_count, partition_count, bytes, .. } = &self.answer;
        let command = &self.command;
        // The last partition may go on.
        let is_whole = || match self.lowest().map(|next| &self.streams[next]) {
            Some(Stream { head: None, place: Place::Behind(_, resume), .. }) => {
                resume.after.is_none()
            }
            _ => true,
        };
        self.cut.is_some()
            || command.row_limit <= *row_count
            || command.bytes_max <= bytes.len()
            || (command.partition_limit <= *partition_count && is_whole())
    }

    /// The shard that has what comes next (*in-order*).
    fn lowest(&self) -> Option<usize> {
        let start = match &self.command.partitions {
            Partitions::Range { start, .. } => start.token,
            Partitions::Key(_) => Token::MIN,
        };
        let mut lowest: Option<(usize, (Token, u8))> = None;
        for (shard, stream) in self.streams.iter().enumerate() {
            // Two shards have no token in common. Where one was not asked yet, or only for what
            // is behind the partition of another, that other one comes first.
            let place = match (&stream.head, &stream.place) {
                (Some(head), _) => (head.token, 0),
                (None, Place::Start) => (start, 2),
                (None, Place::Behind(token, Resume { after: Some(_), .. })) => (*token, 1),
                (None, Place::Behind(token, _)) => (*token, 2),
                (None, Place::End) => continue,
            };
            let apart = lowest.is_none_or(|(_, least)| place.1 != 0 || place != least);
            debug_assert!(apart, "in-order: two shards have {:?}", place.0);
            if lowest.is_none_or(|(_, least)| place < least) {
                lowest = Some((shard, place));
            }
        }
        lowest.map(|(shard, _)| shard)
    }

    /// The asks to all shards that may have something before the first partition at hand.
    fn hungry(&self) -> Vec<(u16, ReadCommand)> {
        let heads = self.streams.iter().filter_map(|stream| Some(stream.head.as_ref()?.token));
        let first = heads.min();
        let is_hungry = |shard: &usize| match &self.streams[*shard] {
            Stream { head: Some(_), .. } | Stream { place: Place::End, .. } => false,
            Stream { place: Place::Start, .. } => true,
            Stream { place: Place::Behind(token, _), .. } => {
                first.is_none_or(|first| *token < first)
            }
        };
        let hungry = (0..self.streams.len()).filter(is_hungry);
        let shards = self.streams.len() as u64;
        hungry.map(|shard| (shard as u16, self.ask(shard, shards))).collect()
    }

    /// The ask for the rest of the partition in which the command resumes.
    fn ask_alone(&self, owner: usize) -> ReadCommand {
        let mut ask = self.ask(owner, 1);
        if let (Partitions::Range { end, .. }, Some(resume)) = (&mut ask.partitions, &ask.resume) {
            let (token, key) = (Token::of(&resume.key), Some(resume.key.clone()));
            *end = RingBound { token, key, after: true };
        }
        ask
    }

    /// What one of so many shards is asked for (*bounded-over-read*).
    fn ask(&self, shard: usize, among: u64) -> ReadCommand {
        let resume = match &self.streams[shard].place {
            Place::Behind(_, resume) => Some(resume.clone()),
            _ => None,
        };
        let part = |left: u64, least: u64| left.div_ceil(among).max(least).min(left);
        let (command, answer) = (&self.command, &self.answer);
        let bytes_left = command.bytes_max.saturating_sub(answer.bytes.len());
        let partitions_left = command.partition_limit.saturating_sub(answer.partition_count);
        let tombstones_left = command.tombstone_limit.saturating_sub(answer.tombstones_seen);
        settle(ReadCommand {
            row_limit: part(command.row_limit.saturating_sub(answer.row_count), ROWS_MIN),
            // The last one may go on.
            partition_limit: part(partitions_left, ROWS_MIN).max(1),
            bytes_max: part(bytes_left as u64, BYTES_MIN as u64) as usize,
            tombstone_limit: part(tombstones_left, TOMBSTONES_MIN),
            resume,
            ..command.clone()
        })
    }

    /// Moves the head of a stream into the answer, as much of it as the limits allow.
    fn take_partition(&mut self, shard: usize) {
        let Scan { command, streams, answer, last, .. } = self;
        let stream = &mut streams[shard];
        let Some(head) = stream.head.take() else { return };
        let bytes = &stream.page[head.bytes.clone()];
        let (rows, most) = (answer.row_count, command.row_limit);
        assert!(rows < most, "exact: {rows} rows of {most}, and one more");
        let room = answer.bytes.len() < command.bytes_max;
        assert!(room, "exact: {} bytes, and more", answer.bytes.len());
        let rows_left = command.row_limit - answer.row_count;
        let bytes_left = command.bytes_max - answer.bytes.len();
        if head.goes_on || rows_left < head.row_count || bytes_left < bytes.len() {
            return self.take_rows(shard, &head, (rows_left, bytes_left));
        }
        let at = answer.bytes.len();
        assert!(head.rows_bytes + ROWS_HEADER_BYTES <= bytes.len(), "exact: rows without header");
        let header_at = at + bytes.len() - head.rows_bytes - ROWS_HEADER_BYTES;
        *last = Some(Last { at, header_at });
        answer.bytes.extend_from_slice(bytes);
        answer.row_count += head.row_count;
        answer.partition_count += 1;
        stream.read_head(head.bytes.end, command, None, head.token);
    }

    /// The same, of a partition that goes on, or of which only so many rows and bytes are taken.
    fn take_rows(&mut self, shard: usize, head: &Head, (rows_left, bytes_left): (u64, usize)) {
        let last_key = self.last.as_ref().and_then(|last| self.key_of(last)).map(<[u8]>::to_vec);
        let Scan { command, streams, answer, last, cut, .. } = self;
        let stream = &mut streams[shard];
        let bytes = &stream.page[head.bytes.clone()];
        let mut partitions = PageView::trusted(bytes, command.layout()).partitions();
        let Some(partition) = partitions.next() else { return };
        let goes_on = 0 < head.rows_before;
        answer.partition_count += u64::from(!goes_on);
        let part = match head.row_count <= rows_left && bytes.len() <= bytes_left {
            true => {
                Part { rows: partition.row_count() as u32, bytes: head.rows_bytes, ended: None }
            }
            false => Part::of(&partition, rows_left, bytes_left, head.rows_bytes),
        };
        answer.row_count += u64::from(part.rows.max(1));
        assert!(part.bytes <= head.rows_bytes, "exact: {} bytes of a partition", part.bytes);
        assert!(u64::from(part.rows) <= rows_left.max(1), "exact: {} rows", part.rows);
        let header_at = bytes.len() - head.rows_bytes - ROWS_HEADER_BYTES;
        let rows = &partition.rows_bytes()[..part.bytes];
        match last.as_ref().filter(|_| last_key.as_deref() == Some(partition.key())) {
            Some(last) => add_rows(&mut answer.bytes, last.header_at, part.rows, rows),
            None => {
                let begins_at = answer.bytes.len();
                let at = begins_at + header_at;
                *last = Some(Last { at: begins_at, header_at: at });
                answer.bytes.extend_from_slice(&bytes[..header_at]);
                answer.bytes.extend_from_slice(&[0; ROWS_HEADER_BYTES]);
                add_rows(&mut answer.bytes, at, part.rows, rows);
            }
        }
        if let Some(clustering) = part.ended {
            let weight = if command.reversed { -1 } else { 1 };
            let rows_in_partition = head.rows_before + u64::from(part.rows);
            let after = Some((clustering, weight));
            *cut = Some(Resume { key: partition.key().to_vec(), after, rows_in_partition });
        } else {
            stream.read_head(head.bytes.end, command, None, head.token);
        }
    }
}

/// Behind a partition.
fn done(key: &[u8]) -> Resume {
    Resume { key: key.to_vec(), after: None, rows_in_partition: 0 }
}

/// What of a partition goes into an answer.
struct Part {
    rows: u32,
    bytes: usize,
    /// The clustering key of its last row, where rows are left.
    ended: Option<Vec<u8>>,
}

impl Part {
    /// So many rows, or until there are so many bytes; at least one.
    fn of(partition: &PagePartition<'_>, rows: u64, bytes: usize, rows_bytes: usize) -> Part {
        let mut all = partition.rows();
        let mut part = Part { rows: 0, bytes: 0, ended: None };
        while let Some(row) = all.next() {
            (part.rows, part.bytes) = (part.rows + 1, all.offset());
            if rows <= u64::from(part.rows) || bytes <= part.bytes {
                let is_last = part.bytes == rows_bytes;
                part.ended = (!is_last).then(|| row.clustering().to_vec());
                break;
            }
        }
        part
    }
}

/// Adds rows to the last partition of a page, which announces them at `header_at`.
fn add_rows(page: &mut Vec<u8>, header_at: usize, count: u32, rows: &[u8]) {
    assert!(header_at + ROWS_HEADER_BYTES <= page.len(), "exact: a header behind the page");
    assert!((count == 0) == rows.is_empty(), "exact: {count} rows of {} bytes", rows.len());
    let header = &mut page[header_at..header_at + ROWS_HEADER_BYTES];
    for (at, more) in [(0, count), (4, rows.len() as u32)] {
        let number = header[at..at + 4].first_chunk_mut().expect("four bytes of the header");
        *number = (u32::from_be_bytes(*number) + more).to_be_bytes();
    }
    page.extend_from_slice(rows);
}

impl Stream {
    /// Finds the partition at `at` of the page. `resumed`: the key in which the page resumed.
    /// It is not before `behind`.
    fn read_head(
        &mut self,
        at: usize,
        command: &ReadCommand,
        resumed: Option<&[u8]>,
        behind: Token,
    ) {
        let mut partitions = PageView::trusted(&self.page[at..], command.layout()).partitions();
        debug_assert!(at <= self.page.len(), "in-order: {at} is behind the page");
        self.head = partitions.next().map(|partition| {
            let goes_on = resumed == Some(partition.key());
            Head {
                token: Token::of(partition.key()),
                bytes: at..at + partitions.offset(),
                rows_bytes: partition.rows_bytes().len(),
                row_count: (partition.row_count() as u64).max(1),
                rows_before: if goes_on { self.rows_before } else { 0 },
                goes_on,
            }
        });
        let ascends = self.head.as_ref().is_none_or(|head| behind <= head.token);
        debug_assert!(ascends, "in-order: a partition before {behind:?}");
        if self.head.is_none() {
            self.page = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
