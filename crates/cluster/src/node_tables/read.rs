//! Whole system tables from the storage of a shard.

use catalog::rows::{Row, page};
use catalog::system_tables::{self, Home};
use model::TableSchema;
use mutation::page::ReadCommand;
use std::fmt;
use storage::Storage;

/// Bytes of a page of a system table, about: rows of a larger one hold the shard for milliseconds
/// while they are decoded.
const PAGE_BYTES: usize = 128 << 10;

/// Why a system table cannot be read: which one, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadFailed {
    pub(crate) what: String,
}

impl ReadFailed {
    /// What was being done.
    pub(crate) const STEP: &str = "read a system table";
}

impl fmt::Display for ReadFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", ReadFailed::STEP, self.what)
    }
}

/// All rows of a system table of this shard.
pub(crate) async fn read_table(
    storage: &Storage,
    keyspace: &str,
    name: &str,
) -> Result<Vec<Row>, ReadFailed> {
    read(storage, (keyspace, name), page::read_all).await
}

/// The rows of one of its partitions.
pub(crate) async fn read_partition(
    storage: &Storage,
    table: (&str, &str),
    key: &[u8],
) -> Result<Vec<Row>, ReadFailed> {
    read(storage, table, |table, now| page::read_partition(table, key, now)).await
}

async fn read(
    storage: &Storage,
    (keyspace, name): (&str, &str),
    command: impl FnOnce(&TableSchema, i64) -> ReadCommand,
) -> Result<Vec<Row>, ReadFailed> {
    let table = system_tables::table(keyspace, name);
    let now = runtime::time::wall_micros().div_euclid(1_000_000);
    let mut command = command(&table, now);
    command.bytes_max = command.bytes_max.min(PAGE_BYTES);
    let home = system_tables::home(table.id);
    assert!(home.is_some_and(|home| home != Home::Virtual), "{keyspace}.{name} is computed");
    let mut found = Vec::new();
    loop {
        runtime::task::yield_if_needed().await;
        let page = storage.read(&command).await;
        let page =
            page.map_err(|error| ReadFailed { what: format!("{keyspace}.{name}: {error:?}") })?;
        let decoded = page::decode(&table, &command, &page, &mut found);
        decoded.map_err(|damaged| ReadFailed { what: damaged.to_string() })?;
        if !page::advance(&mut command, &page) {
            return Ok(found);
        }
    }
}
