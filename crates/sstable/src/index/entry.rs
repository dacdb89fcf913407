//! Entries of Index.db: key, position of the partition, promoted index (storage-format
//! reference, section 5).

use stdx::{Cursor, Damaged, Put};

/// The head of an entry; its promoted index follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead<'a> {
    /// The partition key.
    pub key: &'a [u8],
    /// Where the partition starts in the uncompressed data.
    pub position: u64,
    /// Bytes of the promoted index that follows; 0 for none.
    pub promoted_bytes: u64,
}

impl<'a> EntryHead<'a> {
    /// Reads a head.
    pub fn parse(cursor: &mut Cursor<'a>) -> Result<EntryHead<'a>, Damaged> {
        let key = cursor.u16_bytes("index key cut short")?;
        let position = cursor.vint("index position cut short")?;
        let promoted_bytes = cursor.vint("size of a promoted index cut short")?;
        Ok(EntryHead { key, position, promoted_bytes })
    }

    /// Appends the head.
    pub fn put(&self, out: &mut Vec<u8>) {
        debug_assert!(self.key.len() <= u16::MAX as usize, "a key of {} bytes", self.key.len());
        out.put_u16_bytes(self.key);
        out.put_vint(self.position);
        out.put_vint(self.promoted_bytes);
    }
}

/// The most bytes that a head takes.
pub const HEAD_BYTES_MAX: usize = 2 + u16::MAX as usize + 2 * stdx::vint::SIZE_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_entries() {
        let check = |key: u32, position: u64, bytes: &[u8]| {
            let key = key.to_be_bytes();
            let head = EntryHead { key: &key, position, promoted_bytes: 0 };
            let mut out = Vec::new();
            head.put(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(EntryHead::parse(&mut Cursor::new(&out)).unwrap(), head);
            for cut in 0..out.len() {
                assert!(EntryHead::parse(&mut Cursor::new(&out[..cut])).is_err());
            }
        };
        check(5, 0, &[0, 4, 0, 0, 0, 5, 0, 0]);
        check(1, 123, &[0, 4, 0, 0, 0, 1, 0x7b, 0]);
        check(2, 243, &[0, 4, 0, 0, 0, 2, 0x80, 0xf3, 0]);
    }
}
