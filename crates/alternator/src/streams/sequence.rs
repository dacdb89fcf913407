//! Sequence numbers: the place of a record in its shard. Pure.
//!
//! ```text
//! number := micros:52 told_apart:62 ordinal:14      (decimal, 39 digits at most)
//! ```
//! `micros`: when the change was written; `told_apart`: what tells its set from others of that
//! time, bits of the time UUID that the log has it under; `ordinal`: of the items that the set
//! changes, in order.
//!
//! Invariants
//!  - *as-logged*: numbers ascend as the log orders its sets, so what lies after a number is a
//!    range of rows.
//!  - *round-trip*: a number says the UUID that it was made of.

use model::Uuid;
use std::fmt;

const ORDINAL_BITS: u32 = 14;
const APART_BITS: u32 = 62;
const MICROS_MAX: i64 = (1 << 52) - 1;
/// Time UUIDs are compared by signed bytes in their second half.
const SIGNS: u64 = 0x8080_8080_8080_8080;
const APART: u64 = (1 << APART_BITS) - 1;
/// 100 ns intervals from the start of the Gregorian calendar to 1970.
const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;

/// More items of one set have the number of the last.
pub(super) const ORDINAL_MAX: usize = (1 << ORDINAL_BITS) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sequence(pub(super) u128);

impl Sequence {
    /// Before all that was written at that time or later.
    pub(crate) fn at(micros: i64) -> Sequence {
        let micros = micros.clamp(0, MICROS_MAX) as u128;
        Sequence(micros << (APART_BITS + ORDINAL_BITS))
    }

    /// Of a set of the log; `None` for a UUID that is of no time.
    pub(super) fn of(uuid: Uuid, ordinal: usize) -> Option<Sequence> {
        let (high, low) = uuid.as_u64_pair();
        if (high >> 12) & 0xf != 1 {
            return None;
        }
        let ticks = (high >> 32) | ((high >> 16) & 0xffff) << 32 | (high & 0x0fff) << 48;
        let micros = i64::try_from(ticks.checked_sub(GREGORIAN)? / 10).ok()?;
        let apart = u128::from((low ^ SIGNS) & APART) << ORDINAL_BITS;
        let ordinal = ordinal.min(ORDINAL_MAX) as u128;
        Some(Sequence(Sequence::at(micros).0 | apart | ordinal))
    }

    /// The UUID of its set, the first one of its time where it is of none.
    pub(crate) fn uuid(self) -> Uuid {
        let ticks = (self.micros() as u64).wrapping_mul(10).wrapping_add(GREGORIAN);
        let high = (ticks & 0xffff_ffff) << 32
            | ((ticks >> 32) & 0xffff) << 16
            | 0x1000
            | (ticks >> 48) & 0x0fff;
        let apart = (self.0 >> ORDINAL_BITS) as u64 & APART;
        // The two highest bits of the half are those of the variant, in all UUIDs.
        let low = (apart ^ (SIGNS & APART)) | 1 << 63;
        Uuid::from_u64_pair(high, low)
    }

    pub(super) fn micros(self) -> i64 {
        (self.0 >> (APART_BITS + ORDINAL_BITS)) as i64
    }

    pub(super) fn next(self) -> Sequence {
        Sequence(self.0.saturating_add(1))
    }

    /// Of a text of digits.
    pub(super) fn parse(text: &str) -> Option<Sequence> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse().ok().map(Sequence) } else { None }
    }
}

/// As the API wants it: 21 digits at least.
impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:021}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uuid(micros: i64, random: u64) -> Uuid {
        let base = Sequence::at(micros).uuid();
        let (high, low) = base.as_u64_pair();
        Uuid::from_u64_pair(high, low & (0b11 << 62) | random & APART)
    }

    #[test]
    fn the_time_is_that_of_the_uuid() {
        let known = Uuid::parse_str("13814000-1dd2-11b2-8000-000000000000").unwrap();
        assert_eq!(Sequence::of(known, 0).unwrap().micros(), 0);
        assert_eq!(Sequence::of(Uuid::from_u128(0), 0), None);
        assert_eq!(Sequence::at(-5), Sequence::at(0));
    }

    proptest! {
        #[test]
        fn numbers_go_both_ways(micros in 0..MICROS_MAX, random: u64, ordinal in 0..=ORDINAL_MAX) {
            let uuid = uuid(micros, random);
            let number = Sequence::of(uuid, ordinal).unwrap();
            prop_assert_eq!(number.uuid(), uuid);
            prop_assert_eq!(number.micros(), micros);
            prop_assert_eq!(Sequence::parse(&number.to_string()), Some(number));
            prop_assert!(number < number.next());
        }

        #[test]
        fn numbers_ascend_as_the_log_does(
            a in (0i64..3, any::<u64>(), 0usize..3),
            b in (0i64..3, any::<u64>(), 0usize..3),
        ) {
            let number = |(micros, random, ordinal): (i64, u64, usize)| {
                Sequence::of(uuid(micros, random), ordinal).unwrap()
            };
            let (x, y) = (uuid(a.0, a.1), uuid(b.0, b.1));
            let (kind, equal) = (model::Type::TimeUuid, std::cmp::Ordering::Equal);
            let order = model::value::compare(&kind, x.as_bytes(), y.as_bytes());
            if order == equal {
                prop_assert_eq!(number(a).cmp(&number(b)), a.2.cmp(&b.2));
            } else {
                prop_assert_eq!(number(a).cmp(&number(b)), order);
            }
        }

        #[test]
        fn foreign_numbers_do_not_panic(number: u128, text: String) {
            let _ = (Sequence(number).uuid(), Sequence(number).next(), Sequence::parse(&text));
        }
    }
}
