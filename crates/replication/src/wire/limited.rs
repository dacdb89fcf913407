//! A read or write of a client to partitions of tables that limit how often they are asked.
//!
//! ```text
//! LIMITED := asks:u8 rule:u8 (draw:be64, where the rule is to decide), then the request as its
//!            own verb has it -> what that verb answers
//! ```
//! It is sent where all nodes know it (`catalog::features::PER_PARTITION_RATE_LIMIT`).

use crate::rate::{Draw, Limit};
use messaging::Head;
use stdx::{Cursor, Damaged};

/// What is asked for besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Write,
    Data,
    Digest,
    Mutations,
}

impl Asks {
    const ALL: [Asks; 4] = [Asks::Write, Asks::Data, Asks::Digest, Asks::Mutations];
}

/// What comes before a request.
pub(crate) fn head(asks: Asks, limit: Limit) -> Head {
    let mut out = Head::new();
    let code = Asks::ALL.iter().position(|one| *one == asks);
    out.push(code.expect("all have a code") as u8);
    match limit {
        Limit::Counts => out.push(0),
        Limit::Decides(draw) => {
            out.push(1);
            out.extend_from_slice(&draw.to_wire().to_be_bytes());
        }
    }
    debug_assert!(out.len() <= 10, "one-form: a head of {} bytes", out.len());
    out
}

/// See [`head`]; and the request.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Asks, Limit, &[u8]), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let asks = Asks::ALL.get(usize::from(cursor.u8("what is asked for")?)).copied();
    let asks = asks.ok_or(Damaged::new("what is asked for", 0))?;
    let limit = match cursor.u8("rule of a limit")? {
        0 => Limit::Counts,
        1 => {
            let draw = Draw::from_wire(cursor.u64("draw of a request")?);
            Limit::Decides(draw.ok_or_else(|| cursor.damaged("draw of a request"))?)
        }
        _ => return Err(cursor.damaged("rule of a limit")),
    };
    debug_assert!(cursor.rest().len() < bytes.len(), "one-form: a request without a head");
    Ok((asks, limit, cursor.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::foreign::read_as_each;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_limited_request_comes_back(asks in 0usize..4, draw: Option<u64>, rest: Vec<u8>) {
            let limit = draw.map_or(Limit::Counts, |draw| Limit::Decides(Draw::of(draw)));
            let bytes = [&head(Asks::ALL[asks], limit)[..], &rest].concat();
            prop_assert_eq!(decode(&bytes), Ok((Asks::ALL[asks], limit, &rest[..])));
        }

        #[test]
        fn any_bytes_are_a_limited_request_in_its_only_form_or_damage(
            first in 0u8..6,
            second in 0u8..4,
            bytes: Vec<u8>,
        ) {
            read_as_each(&[&[first, second][..], &bytes].concat());
        }
    }
}
