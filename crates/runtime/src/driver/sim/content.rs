//! The content of a simulated file.
//!
//! Logs reserve whole segments and write little of them, so that zeros behind the last byte that
//! was written are not kept.
//!
//! Invariants
//!  - *zeros-behind*: what is behind the bytes that are kept, up to the length, reads as zeros.

use std::borrow::Cow;

#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// At most `len`.
    bytes: Vec<u8>,
    len: usize,
}

impl Content {
    pub(crate) fn len(&self) -> usize {
        debug_assert!(self.bytes.len() <= self.len, "zeros-behind: bytes behind the end");
        self.len
    }

    /// Cuts it off, or adds zeros.
    pub(crate) fn resize(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.len = len;
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let over = self.bytes.len().saturating_sub(offset).min(bytes.len());
        if self.bytes.len() < offset {
            // A gap.
            self.bytes.resize(offset, 0);
        }
        self.bytes[offset..offset + over].copy_from_slice(&bytes[..over]);
        self.bytes.extend_from_slice(&bytes[over..]);
        self.len = self.len.max(end);
        debug_assert!(end <= self.bytes.len(), "zeros-behind: a write is not kept");
    }

    /// What is there of `len` bytes at `offset`.
    pub(crate) fn read(&self, offset: usize, len: usize) -> Cow<'_, [u8]> {
        let start = offset.min(self.len);
        let end = start.saturating_add(len).min(self.len);
        if end <= self.bytes.len() {
            return Cow::Borrowed(&self.bytes[start..end]);
        }
        let mut found = vec![0; end - start];
        let kept = &self.bytes[start.min(self.bytes.len())..];
        found[..kept.len()].copy_from_slice(kept);
        Cow::Owned(found)
    }

    /// Changes it as a whole.
    pub(crate) fn edit(&mut self, edit: impl Fn(&mut Vec<u8>)) {
        let mut all = self.read(0, self.len).into_owned();
        edit(&mut all);
        *self = Content { len: all.len(), bytes: all };
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        self.read(0, self.len) == other.read(0, other.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    #[test]
    fn it_is_as_a_vector_with_all_its_zeros() {
        let (mut grown, mut cut) = (0, 0);
        for seed in 0..200 {
            let mut prng = Prng::from_seed(seed);
            let (mut content, mut model) = (Content::default(), Vec::<u8>::new());
            for _ in 0..20 {
                let (at, len) = (prng.below(40) as usize, prng.below(20) as usize);
                match prng.below(4) {
                    0 => {
                        grown += usize::from(model.len() < at);
                        cut += usize::from(at < model.len());
                        content.resize(at);
                        model.resize(at, 0);
                    }
                    1 => {
                        let edit = |all: &mut Vec<u8>| all.iter_mut().for_each(|it| *it ^= 1);
                        content.edit(edit);
                        edit(&mut model);
                    }
                    _ => {
                        let bytes: Vec<u8> = (0..len).map(|_| prng.below(256) as u8).collect();
                        content.write(at, &bytes);
                        model.resize(model.len().max(at + len), 0);
                        model[at..at + len].copy_from_slice(&bytes);
                    }
                }
                assert_eq!(content.len(), model.len(), "seed {seed}");
                let start = at.min(model.len());
                let end = (at + len).min(model.len());
                assert_eq!(*content.read(at, len), model[start..end], "seed {seed}");
                assert_eq!(*content.read(0, usize::MAX), model[..], "seed {seed}");
                assert_eq!(content, content.clone());
            }
        }
        assert!(0 < grown && 0 < cut, "{grown} grew, {cut} were cut");
    }
}
