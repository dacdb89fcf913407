//! Prefetching for statements that are about to be executed: the partitions that they name are
//! brought from memory into the processor's caches before the first of them is executed, all at
//! once.
//!
//! Invariants
//!  - *hint-only*: nothing is executed, checked, refused or counted here; a statement that is not
//!    known, or a key that is bound wrongly, is skipped or fetched needlessly.

use crate::processor::Processor;
use model::key::compose_partition_key;
use model::{TableId, Token};
use plan::Plan;
use plan::metadata::BindMetadata;
use std::rc::Rc;

/// Values that are longer than a key usually is are not hashed twice.
const VALUE_BYTES_MAX: usize = 256;

/// What is known of statements that are about to be executed.
#[derive(Debug, Default)]
pub struct Prefetch {
    /// The statement of the tokens.
    named: Option<Named>,
    tokens: Vec<Token>,
    /// A key of several columns is put together here.
    key: Vec<u8>,
}

/// A prepared statement that names partitions by bound values.
#[derive(Debug)]
struct Named {
    id: [u8; 16],
    table: TableId,
    bind: Rc<BindMetadata>,
}

/// The token of a key whose columns are bound at these positions, if they are; several columns are
/// put together in `key`.
pub(crate) fn token_of<'v>(
    positions: &[u16],
    value: impl Fn(u16) -> Option<&'v [u8]>,
    key: &mut Vec<u8>,
) -> Option<Token> {
    let value = |at: &u16| value(*at).filter(|value| value.len() <= VALUE_BYTES_MAX);
    match positions {
        [] => None,
        [only] => value(only).map(Token::of),
        several => {
            if !several.iter().all(|at| value(at).is_some()) {
                return None;
            }
            key.clear();
            compose_partition_key(several.iter().map(|at| value(at).unwrap_or_default()), key);
            Some(Token::of(key))
        }
    }
}

impl Prefetch {
    /// As many statements are worth looking at.
    pub const COUNT_MAX: usize = replication::AHEAD_MAX;
}

impl Processor {
    /// The statement that was prepared with this id is going to be executed; `value` gives what is
    /// bound at a position, where it is bytes.
    pub fn prefetch<'v>(
        &self,
        prefetch: &mut Prefetch,
        id: &[u8],
        value: impl Fn(u16) -> Option<&'v [u8]>,
    ) {
        if prefetch.named.as_ref().is_none_or(|named| named.id != *id) {
            self.fetch_now(prefetch);
            prefetch.named = self.named(id);
        }
        let Some(named) = &prefetch.named else { return };
        prefetch.tokens.extend(token_of(&named.bind.partition_key, value, &mut prefetch.key));
    }

    /// All that comes next is known: has the processor fetch it; whether it was worth it. One
    /// partition alone is not: its own statement has that done.
    pub fn fetch_now(&self, prefetch: &mut Prefetch) -> bool {
        let named = prefetch.named.take().filter(|_| 1 < prefetch.tokens.len());
        if let Some(named) = &named {
            self.coordinator().prefetch_all(named.table, &prefetch.tokens);
        }
        prefetch.tokens.clear();
        named.is_some()
    }

    fn named(&self, id: &[u8]) -> Option<Named> {
        let id: &[u8; 16] = id.try_into().ok()?;
        let statement = self.peek(id)?.as_analysed();
        let table = match &statement.plan {
            Plan::Select(plan) => &plan.table,
            Plan::Modify(plan) => &plan.table,
            _ => return None,
        };
        Some(Named { id: *id, table: table.schema.id, bind: statement.bind.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_that_of_the_key_which_the_values_make() {
        let long = [0; VALUE_BYTES_MAX + 1];
        let values: [Option<&[u8]>; 4] = [Some(b"a"), None, Some(b"bc"), Some(&long)];
        let check = |positions: &[u16], key: Option<&[u8]>| {
            let value = |at: u16| values.get(at as usize).copied().flatten();
            let found = token_of(positions, value, &mut vec![1, 2, 3]);
            assert_eq!(found, key.map(Token::of), "{positions:?}");
        };
        check(&[], None);
        check(&[2], Some(b"bc"));
        check(&[2, 0], Some(b"\0\x02bc\0\0\x01a\0"));
        check(&[1], None);
        check(&[0, 1], None);
        check(&[3], None);
        check(&[4], None);
    }
}
