//! Tables that were emptied while there were hints: those from before do not bring rows back.
//!
//! Kept in one small file beside the hints of the shard, which is replaced as a whole.
//!
//! Invariants
//!  - *stays-empty*: it is on the disk before the rows of the table go.
//!  - *foreign-is-damaged*: a file that cannot be understood counts as one in which all tables were
//!    truncated when it was read.

use model::{TableId, Uuid};
use runtime::io::{IoError, fs};
use runtime::sync::Semaphore;
use runtime::time::wall_micros;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

const NAME: &str = "truncated";

/// `(table:16 at:be64)* crc32:be32`, by table.
fn encode(tables: &BTreeMap<TableId, i64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 * tables.len() + 4);
    for (table, at) in tables {
        out.put(table.as_bytes());
        out.put_i64(*at);
    }
    out.put_u32(crc32(&out));
    out
}

fn decode(bytes: &[u8]) -> Result<BTreeMap<TableId, i64>, Damaged> {
    let Some((told, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(Damaged::new("truncated tables", 0));
    };
    if crc32(told) != u32::from_be_bytes(*sum) {
        return Err(Damaged::new("checksum of truncated tables", told.len() as u64));
    }
    let (mut cursor, mut tables) = (Cursor::new(told), BTreeMap::new());
    while !cursor.is_empty() {
        let table = Uuid::from_bytes(cursor.array("a truncated table")?);
        let at = cursor.i64("when a table was truncated")?;
        if tables.last_key_value().is_some_and(|(last, _)| table <= *last) {
            return Err(cursor.damaged("order of truncated tables"));
        }
        tables.insert(table, at);
    }
    Ok(tables)
}

/// Truncations that wait for their turn at most.
const WAITING_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Truncated {
    path: PathBuf,
    tables: RefCell<BTreeMap<TableId, i64>>,
    /// Of all tables.
    floor: Option<i64>,
    turn: Semaphore,
}

impl Truncated {
    pub(super) async fn read(shard_folder: &Path) -> Result<Truncated, IoError> {
        let path = shard_folder.join(NAME);
        let (mut floor, mut tables) = (None, BTreeMap::new());
        match fs::read_file(&path).await {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
            Ok(bytes) => match decode(&bytes) {
                Ok(found) => tables = found,
                Err(damaged) => {
                    let path = path.display();
                    tracing::error!(target: "hints", "all hints are dropped: {path}: {damaged}");
                    floor = Some(wall_micros());
                }
            },
        }
        let turn = Semaphore::new(1, WAITING_MAX);
        Ok(Truncated { path, tables: RefCell::new(tables), floor, turn })
    }

    /// When a table was truncated.
    pub(super) fn at(&self, table: TableId) -> Option<i64> {
        self.tables.borrow().get(&table).copied().max(self.floor)
    }

    /// Notes that a table was truncated; those that are no more are forgotten.
    pub(super) async fn note(
        &self,
        table: TableId,
        at: i64,
        is_there: &dyn Fn(TableId) -> bool,
    ) -> Result<(), String> {
        let turn = self.turn.acquire(1).await;
        let _turn = turn.map_err(|error| error.to_string())?;
        let mut tables = self.tables.borrow().clone();
        tables.retain(|table, _| is_there(*table));
        let latest = tables.get(&table).copied().max(Some(at));
        tables.insert(table, latest.unwrap_or(at));
        let bytes = encode(&tables);
        debug_assert_eq!(decode(&bytes).as_ref(), Ok(&tables), "foreign-is-damaged: our own");
        let failed = |error: IoError| error.to_string();
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).await.map_err(failed)?;
        }
        fs::write_file_atomic(&self.path, &bytes).await.map_err(failed)?;
        self.tables.replace(tables);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tables_are_read_back(tables: BTreeMap<u128, i64>, at in any::<prop::sample::Index>()) {
            let tables = tables.into_iter().map(|(table, at)| (Uuid::from_u128(table), at));
            let tables: BTreeMap<TableId, i64> = tables.collect();
            let mut bytes = encode(&tables);
            prop_assert_eq!(decode(&bytes), Ok(tables));
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_tables_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut bytes = bytes;
            bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
            if let Ok(tables) = decode(&bytes) {
                prop_assert_eq!(encode(&tables), bytes);
            }
        }
    }
}
