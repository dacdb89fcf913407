//! About where a clustering position lies, as bytes that compare as unsigned: what interpolation
//! needs. Never decides anything: a wrong ordinal costs a probe, not a row.

use model::key::clustering_components;
use model::{ClusteringOrder, Type};

/// Bytes of an ordinal.
const BYTES: usize = 32;

const _: () = assert!(8 <= BYTES, "fractions are of eight bytes");

/// The first bytes of a position, made comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ordinal([u8; BYTES]);

/// Fills an ordinal from its front.
struct Filler {
    bytes: [u8; BYTES],
    len: usize,
    descending: bool,
}

impl Filler {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = if self.descending { !byte } else { byte };
            self.len += 1;
        }
    }

    /// A two's complement or IEEE number: `negative` turns all of its bits round.
    fn push_signed(&mut self, value: &[u8], negative: u8) {
        for (index, byte) in value.iter().enumerate() {
            let flip = if index == 0 { 0x80 | (negative & 0x7f) } else { negative };
            self.push(byte ^ flip);
        }
    }

    fn push_value(&mut self, ty: &Type, value: &[u8]) {
        let negative = value.first().is_some_and(|first| first & 0x80 != 0);
        match ty {
            Type::TinyInt
            | Type::SmallInt
            | Type::Int
            | Type::BigInt
            | Type::Counter
            | Type::Time
            | Type::Timestamp => self.push_signed(value, 0),
            Type::Float | Type::Double => {
                self.push_signed(value, if negative { 0xff } else { 0 });
            }
            Type::Boolean | Type::Date => value.iter().for_each(|byte| self.push(*byte)),
            Type::Uuid | Type::TimeUuid if value.len() == 16 => self.push_uuid(ty, value),
            Type::Varint => {
                let length = value.len().min(0x7f) as u8;
                self.push(if negative { 0x80 - length } else { 0x80 + length });
                value.iter().for_each(|byte| self.push(*byte));
            }
            _ => {
                value.iter().take(BYTES).for_each(|byte| self.push(*byte));
                self.push(0);
            }
        }
    }

    fn push_uuid(&mut self, ty: &Type, value: &[u8]) {
        let version = value[6] >> 4;
        if *ty == Type::Uuid {
            self.push(version);
        }
        let order = match version {
            1 => [6, 7, 4, 5, 0, 1, 2, 3],
            _ => [0, 1, 2, 3, 4, 5, 6, 7],
        };
        order.iter().for_each(|index| self.push(value[*index]));
        value[8..].iter().for_each(|byte| self.push(*byte));
    }
}

impl Ordinal {
    /// Of a position.
    pub fn of(order: &ClusteringOrder, (prefix, weight): (&[u8], i8)) -> Ordinal {
        let mut filler = Filler { bytes: [0; BYTES], len: 0, descending: false };
        for (component, (ty, descending)) in clustering_components(prefix).zip(&order.columns) {
            filler.descending = *descending;
            filler.push_value(ty, component);
        }
        if 0 < weight {
            let len = filler.len;
            filler.bytes[len..].fill(0xff);
        }
        Ordinal(filler.bytes)
    }

    /// Behind all that starts with a value of the first column.
    pub fn behind(order: &ClusteringOrder, value: &[u8]) -> Ordinal {
        let mut filler = Filler { bytes: [0; BYTES], len: 0, descending: false };
        if let Some((ty, descending)) = order.columns.first() {
            filler.descending = *descending;
            filler.push_value(ty, value);
        }
        let len = filler.len;
        filler.bytes[len..].fill(0xff);
        Ordinal(filler.bytes)
    }

    /// How far `self` lies between two others, in 2^-32 of the way; `None` where that cannot be
    /// told.
    pub fn fraction(&self, low: &Ordinal, high: &Ordinal) -> Option<u64> {
        if high <= low {
            return None;
        }
        let common = low.0.iter().zip(&high.0).take_while(|(a, b)| a == b).count();
        let start = common.min(BYTES - 8);
        let word = |ordinal: &Ordinal| {
            let chunk = ordinal.0[start..].first_chunk::<8>();
            u64::from_be_bytes(*chunk.expect("an ordinal has eight bytes from there on"))
        };
        let (target, low_word, high_word) = (*self.clamp(low, high), word(low), word(high));
        debug_assert!(low <= &target && &target <= high, "a target beside its bounds");
        let way = word(&target).saturating_sub(low_word) as u128;
        let whole = high_word.checked_sub(low_word).filter(|whole| *whole != 0)? as u128;
        Some(((way << 32) / whole) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::key::push_clustering;

    fn ordinal(ty: Type, descending: bool, value: &[u8]) -> Ordinal {
        let order = ClusteringOrder { columns: vec![(ty, descending)] };
        let mut prefix = Vec::new();
        push_clustering(value, &mut prefix);
        Ordinal::of(&order, (&prefix, 0))
    }

    fn check(ty: Type, ascending: &[&[u8]]) {
        for pair in ascending.windows(2) {
            let of = |value, descending| ordinal(ty.clone(), descending, value);
            assert!(of(pair[0], false) < of(pair[1], false), "{ty:?} {pair:?}");
            assert!(of(pair[1], true) < of(pair[0], true), "{ty:?} {pair:?}");
        }
    }

    #[test]
    fn ordinals_ascend_with_values() {
        let ints: Vec<[u8; 4]> = [i32::MIN, -5, 0, 7, i32::MAX].map(i32::to_be_bytes).into();
        check(Type::Int, &ints.iter().map(|value| &value[..]).collect::<Vec<_>>());
        let floats = [f64::NEG_INFINITY, -2.5, -0.5, 0.0, 0.5, 1e300].map(f64::to_be_bytes);
        check(Type::Double, &floats.iter().map(|value| &value[..]).collect::<Vec<_>>());
        check(Type::Text, &[b"", b"a", b"ab", b"b"]);
        check(Type::Varint, &[&[0xff, 0x00], &[0xff], &[1], &[2], &[1, 0]]);
    }

    #[test]
    fn fractions_interpolate_behind_what_is_common() {
        let of = |value: i32| ordinal(Type::Int, false, &value.to_be_bytes());
        let (low, high) = (of(1000), of(2000));
        assert_eq!(of(1500).fraction(&low, &high), Some(1 << 31));
        assert_eq!(of(1000).fraction(&low, &high), Some(0));
        assert_eq!(of(5000).fraction(&low, &high), Some(1 << 32));
        assert_eq!(of(-1).fraction(&low, &high), Some(0));
        assert_eq!(of(1).fraction(&high, &low), None);
        assert_eq!(of(1).fraction(&low, &low), None);
    }
}
