//! How far a scan of a table is. Pure.
//!
//! ```text
//! place := version:u8=1 kind:u8 [key:vint_bytes] [prefix:vint_bytes weight:u8]
//! kind  := 0 at the start | 1 after a partition | 2 within one | 3 at the end
//! ```

use model::{ClusteringOrder, Token};
use std::cmp::Ordering;
use stdx::{Cursor, Damaged, Put};

const VERSION: u8 = 1;

/// How far a scan is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum Place {
    Start,
    /// All of that partition is done, or all before a position in it: a prefix and its weight.
    At {
        key: Vec<u8>,
        before: Option<(Vec<u8>, i8)>,
    },
    End,
}

impl Place {
    /// The token that is done, or at hand; none at the end.
    pub(in crate::coordinator) fn token(&self) -> Option<i64> {
        match self {
            Place::Start => Some(Token::MIN.0),
            Place::At { key, .. } => Some(Token::of(key).0),
            Place::End => None,
        }
    }

    /// Which of two is further, in a table of that order.
    pub(in crate::coordinator) fn compare(
        &self,
        other: &Place,
        order: &ClusteringOrder,
    ) -> Ordering {
        let rank = |place: &Place| match place {
            Place::Start => 0,
            Place::At { .. } => 1,
            Place::End => 2,
        };
        let (Place::At { key: a, before: x }, Place::At { key: b, before: y }) = (self, other)
        else {
            return rank(self).cmp(&rank(other));
        };
        let by_key = (Token::of(a), a).cmp(&(Token::of(b), b));
        by_key.then_with(|| match (x, y) {
            (Some((x, x_weight)), Some((y, y_weight))) => {
                order.compare((x, *x_weight), (y, *y_weight))
            }
            // All of the partition is further than a part of it.
            (x, y) => y.is_some().cmp(&x.is_some()),
        })
    }

    pub(in crate::coordinator) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Place::Start => out.put_u8(0),
            Place::At { key, before } => {
                out.put_u8(1 + u8::from(before.is_some()));
                out.put_vint_bytes(key);
                if let Some((prefix, weight)) = before {
                    out.put_vint_bytes(prefix);
                    out.put_u8(*weight as u8);
                }
            }
            Place::End => out.put_u8(3),
        }
        debug_assert!(Place::decode(&out).as_ref() == Ok(self), "with-the-step: {self:?}");
        out
    }

    pub(in crate::coordinator) fn decode(bytes: &[u8]) -> Result<Place, Damaged> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8("version of a place")? != VERSION {
            return Err(Damaged::new("unknown version of a place", 0));
        }
        let place = match cursor.u8("kind of a place")? {
            0 => Place::Start,
            kind @ (1 | 2) => {
                let key = cursor.vint_bytes("key of a place")?.to_vec();
                let mut before = None;
                if kind == 2 {
                    let prefix = cursor.vint_bytes("prefix of a place")?.to_vec();
                    before = match cursor.u8("weight of a place")? as i8 {
                        weight @ (-1 | 1) => Some((prefix, weight)),
                        _ => return Err(cursor.damaged("a place neither before nor after")),
                    };
                }
                Place::At { key, before }
            }
            3 => Place::End,
            _ => return Err(Damaged::new("unknown kind of a place", 1)),
        };
        if !cursor.is_empty() {
            return Err(cursor.damaged("bytes after a place"));
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Type;
    use stdx::Prng;

    fn any(prng: &mut Prng) -> Place {
        let mut text = || vec![b'a' + prng.below(3) as u8; prng.below(3) as usize];
        let (key, prefix) = (text(), text());
        let mut clustering = Vec::new();
        model::key::push_clustering(&prefix, &mut clustering);
        match prng.below(6) {
            0 => Place::Start,
            1 => Place::End,
            2 => Place::At { key, before: None },
            3 => Place::At { key, before: Some((clustering, -1)) },
            _ => Place::At { key, before: Some((clustering, 1)) },
        }
    }

    #[test]
    fn places_are_read_back_and_damage_is_found() {
        let mut prng = Prng::from_seed(1);
        for _ in 0..500 {
            let place = any(&mut prng);
            let bytes = place.encode();
            assert_eq!(Place::decode(&bytes), Ok(place));
            for cut in 0..bytes.len() {
                assert!(Place::decode(&bytes[..cut]).is_err());
            }
            let mut noise = vec![0; prng.below(12) as usize];
            prng.fill(&mut noise);
            let _ = Place::decode(&noise);
        }
    }

    #[test]
    fn places_are_in_the_order_of_a_scan() {
        let order = ClusteringOrder { columns: vec![(Type::Text, true)] };
        let mut prng = Prng::from_seed(2);
        let mut places: Vec<Place> = (0..200).map(|_| any(&mut prng)).collect();
        places.sort_by(|a, b| a.compare(b, &order));
        assert_eq!((&places[0], places.last()), (&Place::Start, Some(&Place::End)));
        for pair in places.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            assert_eq!(a.compare(b, &order).is_eq(), a == b);
            assert!(a.token().unwrap_or(i64::MAX) <= b.token().unwrap_or(i64::MAX));
        }
    }
}
