//! Messages about nodes that join and leave ([`crate::moves`]).
//!
//! ```text
//! MOVE_BARRIER  nothing             -> nothing
//! MOVE_STEP     session:be64        -> progress
//! MOVE_PAGE     command             -> stretch
//! MOVE_FILES    session:be64 table:16 after:be64 last:be64     -> gift
//! MOVE_BLOCK    gift:be64 sstable:be32 file:be16 offset:be64   -> bytes
//! MOVE_END      gift:be64, which is not needed any more          -> (one way)
//! MOVE_WARM     session:be64 table:16 after:be64 last:be64     -> warm
//!
//! gift          gift:be64 sstable*; nothing at all: not as files
//! sstable       source:(length:be16 utf8) version:(length:be16 utf8) files:be16 file+
//! file          suffix:(length:be16 utf8) bytes:be64
//! warm          more:u8 [reached:be64] partition*
//! partition     key:be32_bytes ranges:be16 range*, as a command has them
//! progress      done:u8 parts:be32 parts_done:be32 rows:be64 bytes:be64 text:(length:be16 utf8)
//! ```

use super::{command, end, flag};
use model::{TableId, Token};
use stdx::{Cursor, Damaged, Put};
use storage::{WarmPage, WarmPartition};

/// Bytes of a block of a file; the last one of a file may be shorter.
pub(crate) const BLOCK_BYTES: usize = 512 << 10;

/// What another node asks for as files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) session: u64,
    pub(crate) table: TableId,
    /// After the first token, up to and including the second.
    pub(crate) range: (Token, Token),
}

/// A block that another node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) gift: u64,
    pub(crate) sstable: u32,
    pub(crate) file: u16,
    pub(crate) offset: u64,
}

/// An SSTable of a gift: what it is called there, for people, its version, and its files with
/// their bytes, of which the TOC is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) source: String,
    pub(crate) version: String,
    pub(crate) files: Vec<(String, u64)>,
}

/// SSTables that are given, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gift {
    pub(crate) number: u64,
    pub(crate) sstables: Vec<Offered>,
}

impl Gift {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.sstables.iter().flat_map(|one| &one.files);
        files.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= usize::from(u16::MAX), "one-form: a name of {} bytes", text.len());
    out.put_u16(text.len() as u16);
    out.put(text.as_bytes());
}

fn text(cursor: &mut Cursor<'_>) -> Result<String, Damaged> {
    let length = usize::from(cursor.u16("the length of a name")?);
    let text = std::str::from_utf8(cursor.take(length, "a name")?);
    Ok(text.map_err(|_| cursor.damaged("a name that is no text"))?.to_owned())
}

impl Wanted {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Wanted { session, table, range: (after, last) } = self;
        assert!(after < last && *session != 0, "one-form: {self:?}");
        let mut out = Vec::with_capacity(40);
        out.put_u64(*session);
        out.put(table.as_bytes());
        out.put_i64(after.0);
        out.put_i64(last.0);
        debug_assert!(out.len() == 40, "one-form: {} bytes", out.len());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Wanted, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let session = cursor.u64("a session")?;
        let table = TableId::from_bytes(cursor.array("a table id")?);
        let token = |cursor: &mut Cursor<'_>| cursor.u64("a token").map(|it| Token(it as i64));
        let range = (token(&mut cursor)?, token(&mut cursor)?);
        end(&cursor)?;
        match range.0 < range.1 && session != 0 {
            true => Ok(Wanted { session, table, range }),
            false => Err(Damaged::new("a range of nothing, or of no session", 0)),
        }
    }
}

impl Block {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(22);
        out.put_u64(self.gift);
        out.put_u32(self.sstable);
        out.put_u16(self.file);
        out.put_u64(self.offset);
        debug_assert!(out.len() == 22, "one-form: {} bytes", out.len());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Block, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let gift = cursor.u64("a gift")?;
        let (sstable, file) = (cursor.u32("an SSTable")?, cursor.u16("a file")?);
        let offset = cursor.u64("a place in a file")?;
        end(&cursor)?;
        Ok(Block { gift, sstable, file, offset })
    }
}

/// `None`: not as files.
pub(crate) fn encode_gift(gift: Option<&Gift>) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(Gift { number, sstables }) = gift else { return out };
    out.put_u64(*number);
    for Offered { source, version, files } in sstables {
        assert!(!files.is_empty(), "one-form: {source} has no file");
        put_text(&mut out, source);
        put_text(&mut out, version);
        out.put_u16(files.len() as u16);
        for (suffix, bytes) in files {
            put_text(&mut out, suffix);
            out.put_u64(*bytes);
        }
    }
    out
}

pub(crate) fn decode_gift(bytes: &[u8]) -> Result<Option<Gift>, Damaged> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut cursor = Cursor::new(bytes);
    let number = cursor.u64("a gift")?;
    let mut sstables = Vec::new();
    while !cursor.is_empty() {
        let (source, version) = (text(&mut cursor)?, text(&mut cursor)?);
        let count = cursor.u16("how many files")?;
        let mut files = Vec::new();
        for _ in 0..count {
            files.push((text(&mut cursor)?, cursor.u64("bytes of a file")?));
        }
        if files.is_empty() {
            return Err(cursor.damaged("an SSTable of no file"));
        }
        sstables.push(Offered { source, version, files });
    }
    debug_assert!(cursor.is_empty(), "one-form: something is left");
    Ok(Some(Gift { number, sstables }))
}

pub(crate) fn encode_end(gift: u64) -> Vec<u8> {
    gift.to_be_bytes().to_vec()
}

pub(crate) fn decode_end(bytes: &[u8]) -> Result<u64, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let gift = cursor.u64("a gift")?;
    end(&cursor)?;
    Ok(gift)
}

/// What is warm in a node's caches: what another one reads ahead.
pub(crate) fn encode_warm(page: &WarmPage) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + 32 * page.partitions.len());
    out.put_u8(page.reached.is_some().into());
    if let Some(reached) = page.reached {
        out.put_i64(reached.0);
    }
    for WarmPartition { key, ranges } in &page.partitions {
        out.put_u32_bytes(key);
        command::put_ranges(&mut out, ranges);
    }
    out
}

pub(crate) fn decode_warm(bytes: &[u8]) -> Result<WarmPage, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let reached = match flag(&mut cursor, "whether more is warm")? {
        true => Some(Token(cursor.i64("up to which token")?)),
        false => None,
    };
    let mut partitions = Vec::new();
    while !cursor.is_empty() {
        let key = command::key(&mut cursor)?;
        partitions.push(WarmPartition { key, ranges: command::ranges(&mut cursor)? });
    }
    debug_assert!(cursor.is_empty(), "one-form: something is left");
    Ok(WarmPage { partitions, reached })
}

/// How far a node is with what a stage asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub is_done: bool,
    /// Ranges of tables, each from one node, and how many of them are over.
    pub parts: u32,
    pub parts_done: u32,
    /// What was written here. Mutations, which are partitions or pieces of them.
    pub mutations: u64,
    pub bytes: u64,
    /// What it waits for, or what went wrong last; empty: nothing.
    pub text: String,
}

const TEXT_MAX: usize = 4096;

pub(crate) fn encode_step(session: u64) -> Vec<u8> {
    assert!(session != 0, "one-form: a step of no session");
    session.to_be_bytes().to_vec()
}

pub(crate) fn decode_step(bytes: &[u8]) -> Result<u64, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let session = cursor.u64("a session")?;
    end(&cursor)?;
    if session == 0 { Err(Damaged::new("a step of no session", 0)) } else { Ok(session) }
}

impl Progress {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = &self.text[..];
        while TEXT_MAX < text.len() {
            text = &text[..text.floor_char_boundary(TEXT_MAX)];
        }
        debug_assert!(self.parts_done <= self.parts, "one-form: {self:?}");
        let mut out = Vec::with_capacity(27 + text.len());
        out.put_u8(self.is_done.into());
        out.put_u32(self.parts);
        out.put_u32(self.parts_done);
        out.put_u64(self.mutations);
        out.put_u64(self.bytes);
        out.put_u16(text.len() as u16);
        out.put(text.as_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Progress, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let is_done = flag(&mut cursor, "whether a step is done")?;
        let (parts, parts_done) = (cursor.u32("parts")?, cursor.u32("parts that are done")?);
        let (mutations, bytes) = (cursor.u64("mutations")?, cursor.u64("bytes")?);
        let length = usize::from(cursor.u16("the length of a text")?);
        let text = std::str::from_utf8(cursor.take(length, "a text")?);
        let text = text.map_err(|_| cursor.damaged("a text that is none"))?.to_owned();
        end(&cursor)?;
        if parts < parts_done || TEXT_MAX < length {
            return Err(Damaged::new("more parts done than there are, or a long text", 0));
        }
        debug_assert!(cursor.is_empty(), "one-form: something is left");
        Ok(Progress { is_done, parts, parts_done, mutations, bytes, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::foreign::read_as_each;
    use mutation::page::SendRange;
    use proptest::prelude::*;

    proptest! {
        /// *one-form*
        #[test]
        fn any_bytes_have_one_form_or_are_damaged(
            session in 1u64..,
            numbers: (bool, u32, u32, u64, u64),
            text in ".{0,99}",
            place: prop::sample::Index,
            byte: u8,
            garbage: Vec<u8>,
        ) {
            let (is_done, parts, parts_done, mutations, bytes) = numbers;
            let (parts, parts_done) = (parts.max(parts_done), parts.min(parts_done));
            let progress = Progress { is_done, parts, parts_done, mutations, bytes, text };
            prop_assert_eq!(Progress::decode(&progress.encode()), Ok(progress.clone()));
            prop_assert_eq!(decode_step(&encode_step(session)), Ok(session));
            let mut changed = progress.encode();
            let at = place.index(changed.len());
            changed[at] = byte;
            read_as_each(&changed);
            read_as_each(&garbage);
        }
    }

    fn warm() -> impl Strategy<Value = WarmPage> {
        let place = || (prop::collection::vec(any::<u8>(), 0..5), -1i8..=1);
        let range = (place(), place()).prop_map(|(start, end)| SendRange { start, end });
        let ranges = prop::collection::vec(range, 0..3);
        let partition = (prop::collection::vec(any::<u8>(), 0..9), ranges);
        let partition = partition.prop_map(|(key, ranges)| WarmPartition { key, ranges });
        (prop::collection::vec(partition, 0..4), prop::option::of(any::<i64>()))
            .prop_map(|(partitions, reached)| WarmPage { partitions, reached: reached.map(Token) })
    }

    proptest! {
        /// *one-form*
        #[test]
        fn what_is_warm_has_one_form_or_is_damaged(
            page in warm(),
            place: prop::sample::Index,
            byte: u8,
            garbage: Vec<u8>,
        ) {
            let mut changed = encode_warm(&page);
            prop_assert_eq!(decode_warm(&changed), Ok(page));
            let at = place.index(changed.len());
            changed[at] = byte;
            read_as_each(&changed);
            read_as_each(&garbage);
        }
    }

    fn offered() -> impl Strategy<Value = Offered> {
        let files = prop::collection::vec((".{0,9}", any::<u64>()), 1..4);
        (".{0,9}", ".{0,3}", files).prop_map(|(source, version, files)| Offered {
            source,
            version,
            files,
        })
    }

    proptest! {
        /// *one-form*
        #[test]
        fn messages_about_files_have_one_form_or_are_damaged(
            numbers: (u64, u32, u16, u64),
            session in 1u64..,
            after in any::<i64>().prop_filter("not the last", |it| *it < i64::MAX),
            sstables in prop::collection::vec(offered(), 0..3),
            place: prop::sample::Index,
            byte: u8,
            garbage: Vec<u8>,
        ) {
            let (gift, sstable, file, offset) = numbers;
            let block = Block { gift, sstable, file, offset };
            prop_assert_eq!(Block::decode(&block.encode()), Ok(block));
            let range = (Token(after), Token(i64::MAX));
            let wanted = Wanted { session, table: TableId::from_u128(gift.into()), range };
            prop_assert_eq!(Wanted::decode(&wanted.encode()), Ok(wanted));
            prop_assert_eq!(decode_end(&encode_end(gift)), Ok(gift));
            let given = Some(Gift { number: gift, sstables });
            let mut changed = encode_gift(given.as_ref());
            prop_assert_eq!(decode_gift(&changed), Ok(given));
            prop_assert_eq!(decode_gift(&encode_gift(None)), Ok(None));
            let at = place.index(changed.len());
            changed[at] = byte;
            read_as_each(&changed);
            read_as_each(&garbage);
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = "\u{e9}".repeat(TEXT_MAX);
        let told = Progress::decode(&Progress { text, ..Progress::default() }.encode());
        let told = told.expect("a progress").text;
        assert!(told.len() <= TEXT_MAX && TEXT_MAX - 2 < told.len(), "{}", told.len());
    }
}
