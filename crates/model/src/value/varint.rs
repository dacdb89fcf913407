//! Integers of any size: two's complement, big-endian, at least one byte.

use super::{Invalid, invalid};
use num_bigint::BigInt;
use std::cmp::Ordering;

/// The integer of these bytes; of none, zero.
pub fn decode(bytes: &[u8]) -> BigInt {
    BigInt::from_signed_bytes_be(bytes)
}

/// The shortest bytes of an integer.
pub fn encode(value: &BigInt) -> Vec<u8> {
    value.to_signed_bytes_be()
}

/// Parses an optional sign and decimal digits.
pub fn parse(text: &str) -> Result<BigInt, Invalid> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.strip_prefix('+').unwrap_or(text).parse() {
        Ok(value) if all_digits => Ok(value),
        _ => invalid(format!("unable to make BigInteger from '{text}'")),
    }
}

/// Compares two integers without decoding them; of no bytes, as zero.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a_negative, b_negative) = (is_negative(a), is_negative(b));
    if a_negative != b_negative {
        return b_negative.cmp(&a_negative);
    }
    let sign = if a_negative { 0xff } else { 0 };
    let (a, b) = (significant(a, sign), significant(b, sign));
    let by_length = a.len().cmp(&b.len());
    let by_length = if a_negative { by_length.reverse() } else { by_length };
    by_length.then_with(|| a.cmp(b))
}

fn is_negative(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| 0x80 <= *first)
}

/// What is left without the leading bytes that only repeat the sign.
fn significant(bytes: &[u8], sign: u8) -> &[u8] {
    let start = bytes.iter().position(|byte| *byte != sign);
    &bytes[start.unwrap_or(bytes.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes() {
        let check = |value: i64, bytes: &[u8]| {
            assert_eq!(encode(&BigInt::from(value)), bytes);
            assert_eq!(decode(bytes), BigInt::from(value));
        };
        check(0, &[0]);
        check(127, &[0x7f]);
        check(128, &[0, 0x80]);
        check(-128, &[0x80]);
        check(-129, &[0xff, 0x7f]);
        assert_eq!(parse("+12"), Ok(BigInt::from(12)));
        for text in ["", "-", "1_000", "1.0", "--1", "+-1", "0x1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn compares_as_numbers(
            a in prop::collection::vec(any::<u8>(), 0..20),
            b in prop::collection::vec(any::<u8>(), 0..20),
            extension in 0usize..4,
        ) {
            prop_assert_eq!(compare(&a, &b), decode(&a).cmp(&decode(&b)));
            let sign = if is_negative(&a) { 0xff } else { 0 };
            let longer = [&vec![sign; extension][..], &a].concat();
            prop_assert_eq!(compare(&a, &longer), Ordering::Equal);
            prop_assert_eq!(parse(&decode(&a).to_string()), Ok(decode(&a)));
        }
    }
}
