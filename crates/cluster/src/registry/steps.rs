//! What changes of the schema mean for the storage of every shard: a pure list of steps, and each
//! step.
//!
//! Invariants
//!  - *what-lasts*: only what is there after all changes is created, only what was there before
//!    them is altered or dropped.

use crate::schema::Schema;
use catalog::{Command, SchemaChange};
use model::{TableId, TableSchema, TabletMap};
use std::rc::Rc;
use storage::{Log, SnapshotTag, Storage};

/// What changes mean for storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) created: Vec<(TableSchema, TabletMap)>,
    pub(super) altered: Vec<TableSchema>,
    pub(super) dropped: Vec<TableId>,
}

impl Steps {
    /// Only what is there in the end is created, only what was there before is dropped.
    pub(super) fn between(before: &Schema, after: &Schema, changes: &[SchemaChange]) -> Steps {
        let mut steps = Steps::default();
        for change in changes {
            match change {
                SchemaChange::CreateTable(table) => {
                    if let Some(entry) = after.table_by_id(table.id) {
                        let made = ((*entry.schema).clone(), (*entry.tablets).clone());
                        steps.created.push(made);
                    }
                }
                SchemaChange::AlterTable(table) if before.table_by_id(table.id).is_some() => {
                    steps.altered.push(table.clone());
                }
                SchemaChange::DropTable { keyspace, name } => {
                    steps.dropped.extend(before.table(keyspace, name).map(|it| it.schema.id));
                }
                SchemaChange::DropKeyspace(name) => {
                    let tables = before.keyspace(name).into_iter().flat_map(|it| &it.tables);
                    steps.dropped.extend(tables.map(|(_, table)| table.schema.id));
                }
                _ => {}
            }
        }
        steps.check(before, after);
        steps
    }

    /// Asserts *what-lasts*.
    fn check(&self, before: &Schema, after: &Schema) {
        let created = self.created.iter().map(|(table, _)| table.id);
        let is_new = created.clone().all(|id| before.table_by_id(id).is_none());
        assert!(is_new, "what-lasts: a table is created that was there before");
        let lasts = created.clone().all(|id| after.table_by_id(id).is_some());
        assert!(lasts, "what-lasts: a table is created that is not there after all");
        let was = self.dropped.iter().all(|id| before.table_by_id(*id).is_some());
        assert!(was, "what-lasts: a table is dropped that was not there before");
        let is_gone = self.dropped.iter().all(|id| after.table_by_id(*id).is_none());
        assert!(is_gone, "what-lasts: a table is dropped that is there after all");
        let was = self.altered.iter().all(|table| before.table_by_id(table.id).is_some());
        assert!(was, "what-lasts: a table is altered that was not there before");
        let count = |schema: &Schema| schema.tables().count();
        let (was, is) = (count(before), count(after));
        let (more, fewer) = (self.created.len(), self.dropped.len());
        debug_assert!(was + more == is + fewer, "what-lasts: {was} + {more} - {fewer} is not {is}");
    }

    pub(super) fn created_ids(&self) -> Vec<TableId> {
        self.created.iter().map(|(table, _)| table.id).collect()
    }
}

/// Makes new tables known to the storage of every shard.
pub(super) async fn add_tables(tables: Vec<(TableSchema, TabletMap)>) -> Result<(), String> {
    if tables.is_empty() {
        return Ok(());
    }
    let add = move || async move {
        let storage = runtime::local::get::<Storage>();
        let shards = runtime::shard_count();
        for (table, map) in tables {
            let held = map.shards().iter().all(|shard| *shard < shards);
            assert!(held, "on-shards: a tablet of {} on no shard of this node", table.name);
            let name = format!("{}.{}", table.keyspace, table.name);
            let added = storage.add_table(Rc::new(table), map, Log::Data).await;
            added.map_err(|error| format!("table {name}: {error}"))?;
        }
        Ok(())
    };
    runtime::on_all_shards(add).await.into_iter().collect()
}

/// Removes dropped tables from the storage of every shard. That they are dropped is durable
/// already, so errors are only logged.
/// With `snapshot`, their SSTables stay as one of that name.
pub(super) async fn drop_tables(ids: Vec<TableId>, snapshot: Option<SnapshotTag>) {
    if ids.is_empty() {
        return;
    }
    let remove = move || async move {
        let storage = runtime::local::get::<Storage>();
        for id in ids {
            if let Err(error) = storage.drop_table(id, snapshot.as_ref()).await {
                tracing::warn!(
                    target: "schema", %id, %error,
                    "cannot remove the files of a dropped table"
                );
            }
        }
    };
    runtime::on_all_shards(remove).await;
}

/// The altered tables that lose columns.
pub(super) fn losing_columns(before: &Schema, altered: &[TableSchema]) -> Vec<TableId> {
    let loses = |table: &&TableSchema| {
        let old = before.table_by_id(table.id);
        debug_assert!(old.is_some(), "what-lasts: {} was not there before", table.name);
        old.is_some_and(|old| old.schema.dropped.len() < table.dropped.len())
    };
    altered.iter().filter(loses).map(|table| table.id).collect()
}

/// Writes memtables on every shard. Cells that are newer than the drop of their column come back
/// with a column of its name, and only SSTables keep those of columns that are not there.
pub(super) async fn flush_tables(ids: Vec<TableId>) {
    if ids.is_empty() {
        return;
    }
    let flush = move || async move {
        let storage = runtime::local::get::<Storage>();
        for id in ids {
            if let Err(error) = storage.flush(id).await {
                tracing::warn!(
                    target: "schema", %id, %error,
                    "cannot flush a table before columns are dropped"
                );
            }
        }
    };
    runtime::on_all_shards(flush).await;
}

/// Tells storage whether the writes of tables that a change concerns are logged.
pub(super) fn tell_durable_writes(storage: &Storage, next: &Schema, change: &SchemaChange) {
    match change {
        SchemaChange::AlterKeyspace(keyspace) => {
            let tables = next.keyspace(&keyspace.name).into_iter().flat_map(|it| &it.tables);
            let ids = tables.map(|(_, table)| table.schema.id);
            ids.for_each(|id| storage.set_durable_writes(id, keyspace.durable_writes));
        }
        SchemaChange::CreateTable(table) => {
            let durable =
                next.keyspace(&table.keyspace).is_none_or(|it| it.keyspace.durable_writes);
            storage.set_durable_writes(table.id, durable);
        }
        _ => {}
    }
}

/// Tells storage whether there is one copy of a table, where a command may have changed that.
pub(super) fn tell_copies(storage: &Storage, next: &Schema, command: &Command) {
    for change in command.schema_changes() {
        match change {
            SchemaChange::AlterKeyspace(keyspace) => {
                let tables = next.keyspace(&keyspace.name).into_iter().flat_map(|it| &it.tables);
                tables
                    .for_each(|(_, table)| storage.set_single(table.schema.id, table.is_single()));
            }
            SchemaChange::CreateTable(table) => {
                let entry = next.table_by_id(table.id);
                storage.set_single(table.id, entry.is_some_and(|entry| entry.is_single()));
            }
            _ => {}
        }
    }
    for moved in command.tablets() {
        let entry = next.table_by_id(moved.table);
        storage.set_single(moved.table, entry.is_some_and(|entry| entry.is_single()));
    }
}

/// Tells storage of which tables the writes bring others with them: of those that have views.
pub(crate) fn tell_deriving(storage: &Storage, next: &Schema) {
    for table in next.tables() {
        debug_assert!(
            table.schema.view.is_none() || table.views.is_empty(),
            "what-lasts: a view of a view"
        );
        storage.set_deriving(table.schema.id, !table.views.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::schema::testing::{keyspace, table};
    use model::{ColumnKind, Uuid};

    #[test]
    fn storage_learns_only_what_lasts() {
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let made = |name, id| SchemaChange::CreateTable(table("ks", name, id, &columns));
        let drop =
            |name: &str| SchemaChange::DropTable { keyspace: "ks".into(), name: name.into() };
        let empty = Schema::of_system(Uuid::from_u128(1), 2);
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let before = empty.after(vec![space, made("a", 1), made("b", 2)], 5, 2).unwrap();
        let check = |changes: Vec<SchemaChange>, created: &[u128], dropped: &[u128]| {
            let after = before.after(changes.clone(), 6, 2).unwrap();
            let steps = Steps::between(&before, &after, &changes);
            let ids = |ids: &[u128]| ids.iter().map(|id| Uuid::from_u128(*id)).collect::<Vec<_>>();
            assert_eq!(steps.created_ids(), ids(created));
            assert_eq!(steps.dropped, ids(dropped));
        };
        check(vec![made("c", 3)], &[3], &[]);
        check(vec![made("c", 3), drop("c")], &[], &[]);
        check(vec![drop("a"), made("a", 4)], &[4], &[1]);
        check(vec![SchemaChange::DropKeyspace("ks".into())], &[], &[1, 2]);
    }

    #[test]
    fn tables_that_lose_columns_are_found() {
        let columns = [("pk", "int", ColumnKind::PartitionKey), ("v", "int", ColumnKind::Regular)];
        let old = table("ks", "t", 1, &columns);
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let empty = Schema::of_system(Uuid::from_u128(1), 2);
        let made = vec![space, SchemaChange::CreateTable(old.clone())];
        let before = empty.after(made, 5, 2).unwrap();
        let lost = old.edit().drop_column("v", 5).build().unwrap();
        let again = lost.edit().regular("v", model::Type::Int).build().unwrap();
        let more = old.edit().regular("w", model::Type::Int).build().unwrap();
        let check = |altered: &[&TableSchema], expected: &[TableId]| {
            let altered: Vec<TableSchema> = altered.iter().map(|it| (*it).clone()).collect();
            assert_eq!(losing_columns(&before, &altered), expected);
        };
        check(&[], &[]);
        check(&[&more], &[]);
        check(&[&lost], &[old.id]);
        let after = before.after(vec![SchemaChange::AlterTable(lost)], 6, 2).unwrap();
        assert!(losing_columns(&after, &[again]).is_empty());
    }
}
