//! Messages about nodes that join and leave ([`crate::moves`]).
//!
//! ```text
//! MOVE_BARRIER  nothing             -> nothing
//! MOVE_STEP     session:be64        -> progress
//! MOVE_PAGE     command             -> stretch
//!
//! progress      done:u8 parts:be32 parts_done:be32 rows:be64 bytes:be64 text:(length:be16 utf8)
//! ```

use super::{end, flag};
use stdx::{Cursor, Damaged, Put};

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
            for bytes in [changed, garbage] {
                if let Ok(progress) = Progress::decode(&bytes) {
                    prop_assert_eq!(progress.encode(), &bytes[..]);
                }
                if let Ok(session) = decode_step(&bytes) {
                    prop_assert_eq!(encode_step(session), &bytes[..]);
                }
            }
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
