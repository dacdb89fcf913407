//! What a node remembers of repairs that all replicas of a range took part in: `tombstone_gc` of
//! mode `repair` lets merges forget there what was deleted before.
//!
//! Who repairs a range says so to each replica when all of it was compared, and what differed is
//! on the disks of all. Each remembers it for itself, in `system.repair_history`, and tells its
//! shards. A replica that does not hear of it forgets nothing.
//!
//! Invariants
//!  - *all-had-it*: a range is remembered only if each node that is to have its writes took part in
//!    all of it, and what was kept for them had been sent before ([`super::sent`]). The time that
//!    is remembered is that moment.
//!  - *durable-first*: nobody is told before what the repair has brought is durable on all
//!    replicas.
//!  - *last-one*: of one range the last repair is remembered.
//!  - *bounded*: so many ranges are remembered; of others the row stays, and a later one beside it.
//!
//! Lives on shard 0 of each node.

use crate::coordinator::{Coordinator, own_storage};
use cluster::RepairRecord;
use model::{TableId, Token};
use runtime::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Ranges of which the last repair is known.
const RANGES_MAX: usize = 1 << 16;
/// What waits to be written down.
const WAITING_MAX: usize = 1024;

/// See the module. Stands in `runtime::local` of shard 0; of each shard, what tests plant.
pub(crate) struct History {
    last: RefCell<BTreeMap<(TableId, Token, Token), RepairRecord>>,
    turn: Semaphore,
    planted_any: Cell<bool>,
}

impl Default for History {
    fn default() -> History {
        let turn = Semaphore::new(1, WAITING_MAX);
        History { last: RefCell::default(), turn, planted_any: Cell::new(false) }
    }
}

impl History {
    pub(crate) fn of_shard() -> Rc<History> {
        runtime::local::get_or_default::<History>()
    }

    /// A mistake that a test plants (*all-had-it*): any repair is remembered.
    pub(crate) fn plant_any(&self) {
        self.planted_any.set(true);
    }

    pub(crate) fn is_planted(&self) -> bool {
        self.planted_any.get()
    }

    /// The one before, if it is of the same range, unless that is a later one.
    fn replace(&self, record: &RepairRecord) -> Result<Option<RepairRecord>, ()> {
        let key = (record.table, record.tokens.0, record.tokens.1);
        let mut last = self.last.borrow_mut();
        if last.get(&key).is_some_and(|known| record.at < known.at) {
            return Err(());
        }
        if RANGES_MAX <= last.len() && !last.contains_key(&key) {
            return Ok(None);
        }
        let before = last.insert(key, record.clone());
        debug_assert!(last.len() <= RANGES_MAX, "bounded: {} ranges are known", last.len());
        Ok(before)
    }
}

/// All shards may forget what was deleted before.
async fn tell_shards(records: Vec<RepairRecord>) {
    let of_ranges = records.iter().all(|record| record.tokens.0 <= record.tokens.1);
    debug_assert!(of_ranges, "last-one: a repair of no range");
    let tell = move || {
        let records = records.clone();
        async move {
            let Ok(storage) = own_storage() else { return };
            for RepairRecord { table, tokens, at, .. } in records {
                storage.note_repair(table, tokens, at.div_euclid(1000));
                runtime::task::yield_if_needed().await;
            }
        }
    };
    runtime::on_all_shards(tell).await;
}

impl Coordinator {
    /// This node has had part in a repair of all replicas of a range.
    pub(crate) async fn remember_repair(&self, record: RepairRecord) -> Result<(), String> {
        debug_assert!(record.tokens.0 <= record.tokens.1, "last-one: of no range: {record:?}");
        let schema = self.cluster.schema();
        if schema.table_by_id(record.table).is_none() {
            return Ok(());
        }
        let note = move || async move {
            let Ok(coordinator) = crate::coordinator::own_coordinator() else {
                return Err("the node stops".to_owned());
            };
            let history = History::of_shard();
            let turn = history.turn.acquire(1).await;
            let _turn = turn.map_err(|error| error.to_string())?;
            let Ok(earlier) = history.replace(&record) else { return Ok(()) };
            coordinator.cluster.note_repair(&record, earlier.as_ref()).await?;
            tell_shards(vec![record]).await;
            Ok(())
        };
        runtime::on_shard(0, note).await
    }

    /// Reads what earlier lives have remembered. Where that fails, less is forgotten.
    pub(crate) async fn recall_repairs(&self) {
        debug_assert!(runtime::shard_id() == 0, "last-one: recalled on another shard");
        let records = match self.cluster.repair_history().await {
            Ok(records) => records,
            Err(why) => {
                tracing::error!(target: "repair", "what was repaired is not known: {why}");
                return;
            }
        };
        let (history, mut known) = (History::of_shard(), Vec::new());
        for record in records {
            if self.cluster.schema().table_by_id(record.table).is_none() {
                if let Err(why) = self.cluster.forget_repairs(record.table).await {
                    tracing::warn!(target: "repair", "a repair of no table stays: {why}");
                }
                continue;
            }
            if history.replace(&record).is_ok() {
                known.push(record);
            }
            runtime::task::yield_if_needed().await;
        }
        tell_shards(known).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;

    fn record(tokens: (i64, i64), at: i64) -> RepairRecord {
        let (table, repair) = (Uuid::from_u128(1), Uuid::from_u128(at as u128));
        RepairRecord { table, tokens: (Token(tokens.0), Token(tokens.1)), at, repair }
    }

    #[test]
    fn of_one_range_the_last_is_known() {
        let history = History::default();
        assert_eq!(history.replace(&record((1, 5), 10)), Ok(None));
        assert_eq!(history.replace(&record((1, 6), 11)), Ok(None));
        assert_eq!(history.replace(&record((1, 5), 12)), Ok(Some(record((1, 5), 10))));
        assert_eq!(history.replace(&record((1, 5), 11)), Err(()));
        // The same one twice, as when a message comes twice.
        assert_eq!(history.replace(&record((1, 5), 12)), Ok(Some(record((1, 5), 12))));
    }

    #[test]
    fn no_more_ranges_are_known_than_may_be() {
        let history = History::default();
        for token in 0..RANGES_MAX as i64 {
            assert_eq!(history.replace(&record((token, token), 1)), Ok(None));
        }
        assert_eq!(history.replace(&record((-1, -1), 1)), Ok(None));
        assert_eq!(history.replace(&record((-1, -1), 2)), Ok(None), "it is not known");
        assert_eq!(history.replace(&record((0, 0), 2)), Ok(Some(record((0, 0), 1))));
    }
}
