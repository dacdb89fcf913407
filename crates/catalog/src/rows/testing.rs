//! A stand-in for storage in tests: merges mutations and answers from them.

use super::Row;
use super::page::{decode, read_all};
use model::{TableSchema, Token};
use mutation::FrozenMutation;
use mutation::compact::{QueryCompactor, Step};
use std::collections::BTreeMap;

/// The live rows of `table` after `mutations`, those of other tables among them.
pub fn rows(table: &TableSchema, mutations: &[FrozenMutation]) -> Vec<Row> {
    let mut partitions = BTreeMap::<(Token, Vec<u8>), FrozenMutation>::new();
    for mutation in mutations {
        let view = mutation.view().expect("a well-formed mutation");
        if view.table() != table.id {
            continue;
        }
        view.check_order(&table.order).expect("rows in order");
        let place = (Token::of(view.key()), view.key().to_vec());
        let merged = match partitions.get(&place) {
            Some(present) => {
                let present = present.view().expect("a well-formed mutation");
                mutation::frozen::merge(table, present, view)
            }
            None => mutation.clone(),
        };
        partitions.insert(place, merged);
    }
    let command = read_all(table, 1);
    let mut compactor = QueryCompactor::new(table, &command);
    'partitions: for mutation in partitions.values() {
        let view = mutation.view().expect("a well-formed mutation");
        for fragment in view.fragments(&table.order) {
            match compactor.consume(&fragment) {
                Step::Continue => {}
                Step::NextPartition => continue 'partitions,
                Step::Stop => panic!("a page over its limits"),
            }
        }
    }
    let mut out = Vec::new();
    decode(table, &command, &compactor.finish(), &mut out).expect("a well-formed page");
    out
}
