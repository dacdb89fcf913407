//! The catalog as the tables of this node hold it.

use crate::node_tables::{ReadFailed, read_partition, read_table};
use auth::State;
use catalog::access_tables;
use catalog::schema_tables::stored::{self, Stored};
use catalog::topology::{self, Topology};
use std::collections::BTreeMap;
use storage::Storage;

/// The rows that the schema is loaded from. Shard 0 has them.
pub(crate) async fn schema_rows(storage: &Storage) -> Result<Stored, ReadFailed> {
    let mut rows = Stored::default();
    for table in stored::TABLES {
        rows.add(table, read_table(storage, stored::keyspace_of(table), table).await?);
    }
    Ok(rows)
}

/// The rows that the schema of one keyspace is loaded from. Shard 0 has them.
pub(crate) async fn keyspace_rows(storage: &Storage, name: &str) -> Result<Stored, ReadFailed> {
    let mut rows = Stored::default();
    for table in stored::TABLES.into_iter().filter(|table| !stored::PER_TABLE.contains(table)) {
        let place = (stored::keyspace_of(table), table);
        let of_table = read_partition(storage, place, name.as_bytes()).await?;
        if matches!(table, "tables" | "views") {
            for id in of_table.iter().filter_map(|row| row.get("id")) {
                for of_one in stored::PER_TABLE {
                    let place = (stored::keyspace_of(of_one), of_one);
                    rows.add(of_one, read_partition(storage, place, id).await?);
                }
            }
        }
        rows.add(table, of_table);
    }
    Ok(rows)
}

/// Roles, grants and service levels. Shard 0 has them.
pub(crate) async fn access(storage: &Storage) -> Result<State, ReadFailed> {
    let mut rows = BTreeMap::new();
    for table in access_tables::TABLES {
        rows.insert(table, read_table(storage, "system", table).await?);
    }
    Ok(access_tables::load(&rows))
}

/// The nodes of the cluster. Shard 0 has them.
pub(crate) async fn topology(storage: &Storage) -> Result<Topology, ReadFailed> {
    let rows = read_partition(storage, ("system", topology::TABLE), topology::KEY).await?;
    topology::load(&rows).map_err(|damaged| ReadFailed { what: damaged.to_string() })
}
