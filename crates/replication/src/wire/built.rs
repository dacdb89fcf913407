//! Which views are built on a node.
//!
//! ```text
//! VIEWS_BUILT  nothing  -> (view:16)*, ascending
//! ```

use model::TableId;
use std::collections::BTreeSet;
use stdx::{Cursor, Damaged, Put};

pub(crate) fn encode(views: &BTreeSet<TableId>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 * views.len());
    views.iter().for_each(|view| out.put(view.as_bytes()));
    debug_assert!(out.len() == 16 * views.len(), "one-form: {} bytes", out.len());
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Result<BTreeSet<TableId>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let mut views = BTreeSet::new();
    while !cursor.is_empty() {
        let view = TableId::from_bytes(cursor.array("a view")?);
        if views.last().is_some_and(|last| view <= *last) {
            return Err(cursor.damaged("views out of order"));
        }
        views.insert(view);
    }
    Ok(views)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::foreign::read_as_each;
    use proptest::prelude::*;

    proptest! {
        /// *one-form*, *foreign-is-damaged*
        #[test]
        fn any_bytes_have_one_form_or_are_damaged(
            views in prop::collection::btree_set(any::<u128>(), 0..5),
            garbage in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let views: BTreeSet<TableId> = views.into_iter().map(TableId::from_u128).collect();
            prop_assert_eq!(decode(&encode(&views)), Ok(views));
            read_as_each(&garbage);
        }
    }
}
