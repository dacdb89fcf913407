//! Variable-length integers as Cassandra writes them (storage-format reference, section 2).
//!
//! The number of leading one bits of the first byte is the number of extra bytes (0 to 8); the
//! value follows, most significant bits first. Signed values are zig-zag coded.

/// The most bytes that a vint takes.
pub const SIZE_MAX: usize = 9;

/// How many bytes `value` takes: 1 to 9.
pub const fn size(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    if bits > 56 { SIZE_MAX } else { bits.div_ceil(7) }
}

/// The bytes of `value`, and how many of them count.
#[inline]
pub fn encode(value: u64) -> ([u8; SIZE_MAX], usize) {
    let mut out = [0u8; SIZE_MAX];
    let count = size(value);
    if count == SIZE_MAX {
        out[0] = 0xff;
        out[1..].copy_from_slice(&value.to_be_bytes());
        return (out, count);
    }
    // The bytes that count first, behind as many ones as bytes follow: 7 at most here.
    let (extra, front) = (count as u32 - 1, value << (8 * (8 - count)));
    let ones = !(u64::MAX >> extra);
    out[..8].copy_from_slice(&(front | ones).to_be_bytes());
    (out, count)
}

/// Reads one vint; `None` when the slice ends first.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first() {
        Some(&first) if first < 0x80 => Some((first as u64, 1)),
        _ => read_long(bytes),
    }
}

#[inline]
fn read_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let (first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let head = (*first as u32 & (0xff >> (extra + 1))) as u64;
    if let Some(tail) = rest.first_chunk::<8>()
        && extra != 0
    {
        // Where more bytes follow, as nearly always, they are taken at once.
        let tail = u64::from_be_bytes(*tail) >> (64 - 8 * extra);
        return Some(((head << (8 * (extra - 1))) << 8 | tail, 1 + extra));
    }
    let tail = rest.get(..extra)?;
    let value = tail.iter().fold(head, |value, byte| (value << 8) | *byte as u64);
    Some((value, 1 + extra))
}

/// Signed to unsigned, small magnitudes first.
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: u64, hex: &str) {
        let (bytes, count) = encode(value);
        let text: String = bytes[..count].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, hex, "{value}");
        assert_eq!(read(&bytes[..count]), Some((value, count)));
        assert_eq!(size(value), count);
    }

    #[test]
    fn vectors_of_the_reference() {
        check(0, "00");
        check(127, "7f");
        check(128, "8080");
        check(255, "80ff");
        check(16383, "bfff");
        check(16384, "c04000");
        check(256000, "c3e800");
        check(2097151, "dfffff");
        check(2097152, "e0200000");
        check(1 << 28, "f010000000");
        check(1 << 35, "f80800000000");
        check(1 << 42, "fc040000000000");
        check(1 << 49, "fe02000000000000");
        check((1 << 56) - 1, "feffffffffffffff");
        check(1 << 56, "ff0100000000000000");
        check(u64::MAX, "ffffffffffffffffff");
    }

    proptest! {
        #[test]
        fn round_trips(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let (bytes, count) = encode(value);
            prop_assert_eq!(count, size(value));
            prop_assert_eq!(read(&bytes[..count]), Some((value, count)));
            prop_assert_eq!(read(&bytes[..count - 1]), None);
            for more in 1..10 {
                let more = [&bytes[..count], &[0xa5; 10][..more]].concat();
                prop_assert_eq!(read(&more), Some((value, count)));
            }
            let mut put = vec![7];
            crate::Put::put_vint(&mut put, value);
            prop_assert_eq!(&put[1..], &bytes[..count]);
            prop_assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }
    }
}
