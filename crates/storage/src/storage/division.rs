//! The door to how tables are divided on a shard.

use super::Storage;
use crate::compaction::files::part_of_tablet;
use crate::error::StorageError;
use crate::table::{Table, Tablet};
use model::{TableId, TabletMap, Token};
use runtime::Erased;
use std::rc::Rc;

impl Storage {
    /// Divides a table anew while it is open, on this shard: see `shard::divide`. Of each token the
    /// new map names the shard that the old one does; an error otherwise, and for a ring without
    /// tablets. The same division again does nothing. Nothing of it is durable: the next start says
    /// how the table is divided.
    pub fn divide(&self, id: TableId, map: TabletMap) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move { self.shard().divide(id, map).await })
    }

    /// Has a tablet, or the parts that it is in here, go to another shard of this node while
    /// reads and writes go on: see `shard::hand_over`. An error says why it stays, as a whole or in
    /// part; asking again goes on. Nothing of it is durable: the next start says how the table is
    /// divided. On any shard, for each table once at a time. Nobody truncates the table meanwhile.
    pub fn hand_over(
        &self,
        id: TableId,
        range: (Token, Token),
        to: u16,
    ) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move { self.shard().hand_over(id, range, to).await })
    }

    /// For tests: a mistake from now on, what was written last to a tablet is not handed over.
    #[doc(hidden)]
    pub fn plant_hasty_hand_overs(&self) {
        self.shard().hasty_hand_overs.set(true);
    }

    /// The shard of this node that has a token, where it is not this one.
    #[inline]
    pub fn elsewhere(&self, id: TableId, token: Token) -> Option<u16> {
        self.shard().elsewhere(id, token)
    }

    /// How a table is divided now on this shard.
    pub fn tablet_map(&self, id: TableId) -> Option<Rc<TabletMap>> {
        Some(self.shard().table(id)?.map())
    }

    /// What each tablet of this shard holds and was asked for. What several tablets have counts by
    /// what of it is theirs, about. Reads nothing.
    pub fn tablet_loads(&self, id: TableId) -> Vec<TabletLoad> {
        let Some(table) = self.shard().table(id) else { return Vec::new() };
        let load = |tablet: &Rc<Tablet>| TabletLoad {
            tablet: tablet.index.get(),
            bytes: bytes_of(&table, tablet),
            requests: tablet.requests.get(),
        };
        table.tablets().iter().map(load).collect()
    }
}

/// What a tablet of a shard holds, and was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TabletLoad {
    /// Its number in [`Storage::tablet_map`].
    pub tablet: usize,
    /// Of its SSTables on the disk and of what is in memory.
    pub bytes: u64,
    /// Reads and writes of single partitions, since the tablet is as it is.
    pub requests: u64,
}

fn bytes_of(table: &Table, tablet: &Tablet) -> u64 {
    let of_sstable = |one: &Rc<sstable::Table>| match tablet.holds_all_of(one) {
        true => one.disk_bytes(),
        false => {
            let part = part_of_tablet((one.first_key().token, one.last_key().token), tablet);
            debug_assert!((0.0..=1.0).contains(&part), "parts-of-all: {part} of an SSTable");
            (one.disk_bytes() as f64 * part) as u64
        }
    };
    let on_disk: u64 = tablet.sstables.borrow().iter().map(of_sstable).sum();
    let sealed = tablet.sealed.borrow();
    let in_memory = sealed.iter().map(|one| one.bytes() / table.holders_of(one).len().max(1));
    let in_memory = in_memory.sum::<usize>() + tablet.active.borrow().bytes();
    on_disk + in_memory as u64
}
