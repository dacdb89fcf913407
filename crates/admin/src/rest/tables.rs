//! The tables that a request names, and what is done to them on every shard.

use super::Door;
use super::api::Answered;
use crate::call::{Answer, Call};
use cluster::{KeyspaceEntry, Schema, TableEntry, TableKind};
use model::TableId;
use std::future::Future;
use std::rc::Rc;
use storage::{CompactionKind, Storage};

/// What the API says of the parameter `cf`.
pub(super) const CF: &str = "Tables, with commas between; all without it";

/// The stored tables of the keyspace of the path that the parameter `cf` lists; all without it.
pub(super) fn named(door: &Door, call: &Call) -> Result<Vec<TableId>, Answer> {
    listed(door, call, call.segment("keyspace"), "cf")
}

/// The keyspace of that name.
pub(super) fn keyspace(door: &Door, name: &str) -> Result<Rc<KeyspaceEntry>, Answer> {
    let unknown = || Answer::refused(400, format!("Can't find a keyspace {name}"));
    door.cluster.schema().keyspace(name).cloned().ok_or_else(unknown)
}

/// The table of that name.
pub(super) fn table(door: &Door, keyspace: &str, name: &str) -> Result<Rc<TableEntry>, Answer> {
    let unknown = || {
        let text = format!("Can't find a column family {name} in keyspace {keyspace}");
        Answer::refused(400, text)
    };
    door.cluster.schema().table(keyspace, name).cloned().ok_or_else(unknown)
}

/// The same of any keyspace and parameter.
pub(super) fn listed(
    door: &Door,
    call: &Call,
    keyspace: &str,
    parameter: &str,
) -> Result<Vec<TableId>, Answer> {
    let entry = self::keyspace(door, keyspace)?;
    let stored = |kind| kind == TableKind::Stored;
    let names = call.parameter(parameter).unwrap_or("");
    if names.is_empty() {
        let tables = entry.tables.values().filter(|table| stored(table.kind));
        return Ok(tables.map(|table| table.schema.id).collect());
    }
    let found = |name| entry.tables.get(name).or_else(|| view_of_index(&entry, name));
    let tables = names.split(',').map(|name| match found(name) {
        Some(table) if stored(table.kind) => Ok(table.schema.id),
        _ => {
            let text = format!("Can't find a column family {name} in keyspace {keyspace}");
            Err(Answer::refused(400, text))
        }
    });
    tables.collect()
}

/// The view that answers the index of that name.
pub(super) fn view_of_index<'k>(
    keyspace: &'k KeyspaceEntry,
    index: &str,
) -> Option<&'k Rc<TableEntry>> {
    let mut indexes = keyspace.tables.values().flat_map(|table| &table.schema.indexes);
    let found = indexes.find(|known| known.name == index)?;
    keyspace.tables.get(&found.view_name())
}

/// The name of the index that a table answers, if it is the view of one.
pub(super) fn index_of_view(schema: &Schema, keyspace: &str, view: &str) -> Option<String> {
    let keyspace = schema.keyspace(keyspace)?;
    let of = keyspace.tables.get(view)?.schema.view.as_ref()?;
    let base = keyspace.tables.get(&of.base_name)?;
    let found = base.schema.indexes.iter().find(|index| index.view_name() == view);
    found.map(|index| index.name.clone())
}

/// The table that `name` of the path is: `keyspace:table`.
pub(super) fn one(door: &Door, call: &Call) -> Result<Rc<TableEntry>, Answer> {
    let Some((keyspace, name)) = call.segment("name").split_once(':') else {
        let text = "Column family name should be in keyspace:column_family format";
        return Err(Answer::refused(400, text));
    };
    table(door, keyspace, name)
}

/// Flushes tables. The logs go on in new segments, so that those before can go once all that they
/// hold is flushed.
pub(super) async fn flush(tables: Vec<TableId>) -> Result<(), Answer> {
    runtime::on_all_shards(|| async {
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            storage.close_log_segments();
        }
    })
    .await;
    let flushed = |storage: Rc<Storage>, table| async move {
        storage.flush(table).await.map_err(|error| error.to_string())
    };
    on_each(tables, flushed).await
}

/// Lets tables be compacted by themselves, or not: then what goes on ends first, so that nobody who
/// has asked for it sees files go.
pub(super) async fn set_auto_compaction(tables: Vec<TableId>, wanted: bool) -> Answered {
    let set = move |storage: Rc<Storage>, table| async move {
        storage.set_auto_compaction(table, wanted);
        if !wanted {
            stop_compacting(&storage, table).await;
        }
        Ok(())
    };
    on_each(tables, set).await?;
    Ok(Answer::done())
}

/// Ends what the strategy of a table has asked for.
async fn stop_compacting(storage: &Storage, table: TableId) {
    storage.stop_compactions(CompactionKind::Minor, Some(&[table]));
    let kind = CompactionKind::Minor.name();
    for one in storage.running_compactions() {
        if one.table == table && one.kind == kind {
            storage.end_of_compaction(one.id).await;
        }
    }
}

/// Lets merges forget deletions of tables, or not.
pub(super) async fn set_tombstone_gc(tables: Vec<TableId>, wanted: bool) -> Answered {
    let set = move |storage: Rc<Storage>, table| async move {
        storage.set_tombstone_gc(table, wanted);
        Ok(())
    };
    on_each(tables, set).await?;
    Ok(Answer::done())
}

/// The sum of what all shards say of a table.
pub(super) async fn sum_of(
    table: TableId,
    ask: impl Fn(&Storage, TableId) -> u64 + Copy + Send + 'static,
) -> u64 {
    let asked = runtime::on_all_shards(move || async move {
        runtime::local::try_get::<Storage>().map_or(0, |storage| ask(&storage, table))
    });
    asked.await.into_iter().sum()
}

/// Every stored table of the node.
pub(super) fn all(schema: &Schema) -> Vec<TableId> {
    let tables = schema.keyspaces.values().flat_map(|entry| entry.tables.values());
    tables.filter(|table| table.kind == TableKind::Stored).map(|table| table.schema.id).collect()
}

/// Does something to each of the tables on every shard, one after the other. The answer to a
/// failure names the shard that met it first; a table that was dropped meanwhile is passed over.
pub(super) async fn on_each<F, Fut>(tables: Vec<TableId>, act: F) -> Result<(), Answer>
where
    F: Fn(Rc<Storage>, TableId) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Result<(), String>>,
{
    let acted = runtime::on_all_shards(move || {
        let tables = tables.clone();
        async move {
            let storage = runtime::local::get::<Storage>();
            for table in tables {
                if storage.table_stats(table).is_some() {
                    act(storage.clone(), table).await?;
                }
            }
            Ok::<(), String>(())
        }
    })
    .await;
    for (shard, result) in acted.into_iter().enumerate() {
        if let Err(text) = result {
            return Err(Answer::refused(500, format!("shard {shard}: {text}")));
        }
    }
    Ok(())
}
