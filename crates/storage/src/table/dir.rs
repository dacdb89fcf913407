//! The directory of a table.

use super::Table;
use model::TableSchema;
use runtime::io::{IoError, fs};
use std::path::{Path, PathBuf};

/// The directory, in that of a table, for SSTables from elsewhere.
pub(crate) const UPLOAD: &str = "upload";
/// The directory, in that of a table, of what came into being there.
pub(crate) const BACKUPS: &str = "backups";
/// The directory, in that of a table, with one directory for each snapshot.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// The directory, in that of a table, with one directory for each range that another node takes.
pub(crate) const GIVEN: &str = "given";

/// `data/keyspace/table-<id without dashes>`.
pub(crate) fn directory(data_dir: &Path, schema: &TableSchema) -> PathBuf {
    data_dir.join(&schema.keyspace).join(format!("{}-{}", schema.name, schema.id.simple()))
}

/// Makes the table's directory durable, before anything in it has to be.
pub(crate) async fn prepare_dir(data_dir: &Path, table: &Table) -> Result<(), IoError> {
    if table.dir_synced.get() {
        return Ok(());
    }
    assert!(table.dir.starts_with(data_dir), "a table outside of the data: {:?}", table.dir);
    fs::create_dir_all(&table.dir).await?;
    if let Some(keyspace) = table.dir.parent() {
        fs::sync_dir(keyspace).await?;
    }
    fs::sync_dir(data_dir).await?;
    table.dir_synced.set(true);
    Ok(())
}

/// Removes what was given before the start ([`GIVEN`]).
pub(crate) async fn remove_given(table_dir: &Path) -> Result<(), IoError> {
    match fs::remove_dir_all(table_dir.join(GIVEN)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
