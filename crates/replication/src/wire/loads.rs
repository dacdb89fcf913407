//! What nodes tell of what their tablets hold.
//!
//! ```text
//! TABLET_LOADS  after:16, a table, or 0   -> table*, in the order of their ids, after that one
//! MOVES_STILL   nothing                   -> u8: 1 where nothing moves nor is to
//!
//! table := id:16 tablets:be32 count:be32 (tablet:be32 bytes:be64 requests:be64){count}
//! ```
//! An answer without a table says that there are no more.

use super::{end, flag};
use cluster::TABLETS_MAX;
use model::TableId;
use stdx::{Cursor, Damaged, Put};

/// Bytes of a table that has nothing to tell, and of a tablet.
const TABLE_BYTES: usize = 24;
const TABLET_BYTES: usize = 20;

/// What a node has of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableLoad {
    pub(crate) table: TableId,
    /// How many tablets the table has, as the node sees it.
    pub(crate) count: u32,
    /// Those that the node has, ascending.
    pub(crate) tablets: Vec<TabletLoad>,
}

/// What a node has of a tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TabletLoad {
    pub(crate) tablet: u32,
    pub(crate) bytes: u64,
    /// Reads and writes of its partitions, since the node counts them: sums begin anew when it
    /// starts, and when its storage is divided anew.
    pub(crate) requests: u64,
}

impl TableLoad {
    pub(crate) fn size_bytes(&self) -> usize {
        TABLE_BYTES + self.tablets.len() * TABLET_BYTES
    }

    /// What another node may say.
    fn check(&self) -> Result<(), &'static str> {
        let TableLoad { count, tablets, .. } = self;
        let ascend = tablets.is_sorted_by(|a, b| a.tablet < b.tablet);
        match tablets.last().is_none_or(|last| last.tablet < *count) {
            _ if *count == 0 || TABLETS_MAX < *count => Err("a number of tablets that cannot be"),
            true if ascend => Ok(()),
            _ => Err("tablets that are out of order, or that there are not"),
        }
    }
}

/// `None`: from the first table on.
pub(crate) fn encode_after(after: Option<TableId>) -> Vec<u8> {
    debug_assert!(after.is_none_or(|table| !table.is_nil()), "one-form: a table without an id");
    after.map_or([0; 16], TableId::into_bytes).to_vec()
}

pub(crate) fn decode_after(bytes: &[u8]) -> Result<Option<TableId>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let table = TableId::from_bytes(cursor.array("a table id")?);
    end(&cursor)?;
    Ok(Some(table).filter(|table| !table.is_nil()))
}

pub(crate) fn encode_loads(loads: &[TableLoad]) -> Vec<u8> {
    let mut out = Vec::with_capacity(loads.iter().map(TableLoad::size_bytes).sum());
    debug_assert!(loads.is_sorted_by(|a, b| a.table < b.table), "one-form: tables out of order");
    for load in loads {
        debug_assert_eq!(load.check(), Ok(()), "one-form: {load:?}");
        out.put(load.table.as_bytes());
        out.put_u32(load.count);
        out.put_u32(load.tablets.len() as u32);
        for TabletLoad { tablet, bytes, requests } in &load.tablets {
            out.put_u32(*tablet);
            out.put_u64(*bytes);
            out.put_u64(*requests);
        }
    }
    out
}

pub(crate) fn decode_loads(bytes: &[u8]) -> Result<Vec<TableLoad>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let mut loads: Vec<TableLoad> = Vec::new();
    while !cursor.is_empty() {
        let table = TableId::from_bytes(cursor.array("a table id")?);
        let (count, told) = (cursor.u32("how many tablets")?, cursor.u32("how many are told of")?);
        if cursor.remaining() / TABLET_BYTES < told as usize {
            return Err(cursor.damaged("more tablets than bytes"));
        }
        let mut tablets = Vec::with_capacity(told as usize);
        for _ in 0..told {
            tablets.push(TabletLoad {
                tablet: cursor.u32("a tablet")?,
                bytes: cursor.u64("bytes of a tablet")?,
                requests: cursor.u64("requests of a tablet")?,
            });
        }
        let load = TableLoad { table, count, tablets };
        load.check().map_err(|why| cursor.damaged(why))?;
        if table.is_nil() || loads.last().is_some_and(|before| table <= before.table) {
            return Err(cursor.damaged("tables out of order"));
        }
        loads.push(load);
    }
    debug_assert!(loads.len() * TABLE_BYTES <= bytes.len(), "one-form: tables of no bytes");
    Ok(loads)
}

pub(crate) fn encode_still(still: bool) -> Vec<u8> {
    vec![still.into()]
}

pub(crate) fn decode_still(bytes: &[u8]) -> Result<bool, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let still = flag(&mut cursor, "whether nothing moves")?;
    end(&cursor)?;
    Ok(still)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::foreign::read_as_each;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Bytes and requests, by tablet.
    type Drawn = BTreeMap<u32, (u64, u64)>;

    proptest! {
        /// *one-form*, *foreign-is-damaged*
        #[test]
        fn any_bytes_have_one_form_or_are_damaged(
            tables in prop::collection::btree_map(
                1u128..,
                (1u32..40, prop::collection::btree_map(0u32..40, any::<(u64, u64)>(), 0..9)),
                0..4,
            ),
            after: u128,
            still: bool,
            place: prop::sample::Index,
            byte: u8,
            garbage: Vec<u8>,
        ) {
            let load = |(id, (more, tablets)): (u128, (u32, Drawn))| TableLoad {
                table: TableId::from_u128(id),
                count: tablets.keys().next_back().map_or(0, |last| *last) + more,
                tablets: tablets
                    .into_iter()
                    .map(|(tablet, (bytes, requests))| TabletLoad { tablet, bytes, requests })
                    .collect(),
            };
            let loads: Vec<TableLoad> = tables.into_iter().map(load).collect();
            prop_assert_eq!(decode_loads(&encode_loads(&loads)), Ok(loads.clone()));
            let after = Some(TableId::from_u128(after)).filter(|it| !it.is_nil());
            prop_assert_eq!(decode_after(&encode_after(after)), Ok(after));
            prop_assert_eq!(decode_still(&encode_still(still)), Ok(still));
            let mut changed = encode_loads(&loads);
            if !changed.is_empty() {
                let at = place.index(changed.len());
                changed[at] = byte;
            }
            read_as_each(&changed);
            read_as_each(&garbage);
        }
    }

    #[test]
    fn what_cannot_be_is_damage() {
        let load = |count: u32, tablets: &[(u32, u64)]| {
            let mut bytes = vec![1; 16];
            bytes.put_u32(count);
            bytes.put_u32(tablets.len() as u32);
            for (tablet, size) in tablets {
                bytes.put_u32(*tablet);
                bytes.put_u64(*size);
                bytes.put_u64(7);
            }
            decode_loads(&bytes)
        };
        assert!(load(2, &[(0, 5), (1, 6)]).is_ok());
        assert!(load(2, &[(1, 5), (0, 6)]).is_err());
        assert!(load(2, &[(2, 5)]).is_err());
        assert!(load(0, &[]).is_err() && load(TABLETS_MAX + 1, &[]).is_err());
        // Room is made for what is there, whatever is said.
        let mut bytes = vec![1; 16];
        bytes.extend([0, 0, 0, 9, 255, 255, 255, 255]);
        assert!(decode_loads(&bytes).is_err());
    }
}
