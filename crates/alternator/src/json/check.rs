//! Whether a text is JSON: one walk over all of it.
//!
//! Invariants
//!  - *bounded-depth*: as of [`super`].

use super::DEPTH_MAX;
use crate::error::Error;
use std::ops::Range;

/// The check of a text.
pub(super) struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// Where the value is that a whole text is, without space around it. If it is an object,
    /// `member` is told where the name and the value of each member are.
    pub(super) fn whole(
        text: &[u8],
        mut member: impl FnMut(Range<usize>, Range<usize>),
    ) -> Result<Range<usize>, Error> {
        let mut walk = Walk { text, at: 0 };
        walk.space();
        let start = walk.at;
        match walk.peek() {
            b'{' => walk.list(b'}', |walk| {
                let (name, value) = walk.member(0)?;
                member(name, value);
                Ok(())
            })?,
            _ => walk.value(0)?,
        }
        let end = walk.at;
        walk.space();
        match walk.at == text.len() {
            true => Ok(start..end),
            false => Err(walk.refuse("something after the end of the value")),
        }
    }

    fn refuse(&self, what: &str) -> Error {
        Error::serialization(format!("the request is not JSON: {what}, at {}", self.at))
    }

    #[inline]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        match self.text.get(self.at) == Some(&byte) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err(self.no(byte)),
        }
    }

    #[cold]
    fn no(&self, byte: u8) -> Error {
        self.refuse(&format!("no '{}'", byte as char))
    }

    /// *bounded-depth*
    fn value(&mut self, depth: usize) -> Result<(), Error> {
        if depth == DEPTH_MAX {
            return Err(Error::validation(format!(
                "Nesting Levels have exceeded supported limits: the request is nested deeper than \
                 {DEPTH_MAX} levels"
            )));
        }
        match self.peek() {
            b'{' => self.list(b'}', |walk| walk.member(depth).map(|_| ())),
            b'[' => self.list(b']', |walk| walk.value(depth + 1)),
            b'"' => self.string(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    /// A member of an object at that depth: where its name is, and its value.
    fn member(&mut self, depth: usize) -> Result<(Range<usize>, Range<usize>), Error> {
        let name = self.at;
        self.string()?;
        let name = name..self.at;
        self.space();
        self.expect(b':')?;
        self.space();
        let value = self.at;
        self.value(depth + 1)?;
        Ok((name, value..self.at))
    }

    fn list(
        &mut self,
        end: u8,
        mut part: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.at += 1;
        self.space();
        if self.peek() == end {
            self.at += 1;
            return Ok(());
        }
        loop {
            part(self)?;
            self.space();
            if self.peek() != b',' {
                return self.expect(end);
            }
            self.at += 1;
            self.space();
        }
    }

    fn string(&mut self) -> Result<(), Error> {
        self.expect(b'"')?;
        loop {
            self.at = plain_until(self.text, self.at);
            match self.text.get(self.at) {
                None => return Err(self.refuse("a string without an end")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.refuse("a control character in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
                if digits.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(self.refuse("an escape without four digits"));
                }
                self.at += 6;
            }
            _ => return Err(self.refuse("an unknown escape")),
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        match self.text[self.at..].starts_with(word.as_bytes()) {
            true => {
                self.at += word.len();
                Ok(())
            }
            false => Err(self.refuse("an unknown word")),
        }
    }

    fn number(&mut self) -> Result<(), Error> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.digits()? {
            1 => {}
            count if self.text[self.at - count] == b'0' => {
                return Err(self.refuse("a number that begins with 0"));
            }
            _ => {}
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<usize, Error> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        match self.at - start {
            0 => Err(self.refuse("no value")),
            count => Ok(count),
        }
    }
}

/// Where the first byte stands, from there on, that a string does not have as it is: a quote, a
/// backslash or a control character; the end, if there is none.
#[inline]
pub(super) fn plain_until(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    // Most names, and those of types, end here.
    let Some((eight, after)) = rest.split_first_chunk() else { return from + plain_bytes(rest) };
    match plain_of_eight(*eight) {
        8 => from + 8 + plain_bytes(after),
        plain => from + plain,
    }
}

/// How many of these are plain, up to the first that is not.
#[inline(never)]
fn plain_bytes(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk() {
        match plain_of_block(block) {
            BLOCK => rest = after,
            plain => return text.len() - rest.len() + plain,
        }
    }
    while let Some((eight, after)) = rest.split_first_chunk() {
        match plain_of_eight(*eight) {
            8 => rest = after,
            plain => return text.len() - rest.len() + plain,
        }
    }
    let plain = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
    text.len() - rest.len() + plain
}

fn is_plain(byte: u8) -> bool {
    (0x20 <= byte) & (byte != b'"') & (byte != b'\\')
}

/// The same of eight.
#[inline]
fn plain_of_eight(eight: [u8; 8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH_BITS: u64 = ONES << 7;
    let word = u64::from_le_bytes(eight);
    // The lowest byte that is marked is one that is meant; of those above some may not be.
    let equal = |byte: u8| {
        let differs = word ^ (ONES * u64::from(byte));
        differs.wrapping_sub(ONES) & !differs
    };
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let found = (equal(b'"') | equal(b'\\') | control) & HIGH_BITS;
    found.trailing_zeros() as usize / 8
}

/// Bytes of a block.
const BLOCK: usize = 32;

/// The same of a block: the least place of a byte that is not plain. Without branches, so that the
/// compiler makes a few vector instructions of it.
#[inline]
fn plain_of_block(block: &[u8; BLOCK]) -> usize {
    let mut least = BLOCK as u8;
    for (at, byte) in block.iter().enumerate() {
        // All bits of the place of a byte that is plain.
        let place = at as u8 | u8::from(!is_plain(*byte)).wrapping_sub(1);
        least = least.min(place);
    }
    usize::from(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_byte_that_is_not_plain_is_found(
            bytes in prop::collection::vec(
                prop_oneof![4 => 0x20u8..0x7f, 1 => any::<u8>(), 1 => Just(b'"')],
                0..100,
            ),
            from in 0usize..104,
        ) {
            let is_plain = |byte: &u8| 0x20 <= *byte && !matches!(byte, b'"' | b'\\');
            let rest = bytes.get(from..).unwrap_or_default();
            let expected = from + rest.iter().take_while(|byte| is_plain(byte)).count();
            prop_assert_eq!(plain_until(&bytes, from), expected);
        }
    }
}
