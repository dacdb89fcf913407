//! Options with their values, and what completion needs to know of the schema.

use cluster::{Cluster, Schema, Settings, TableKind};
use model::schema::ColumnKind;
use serde_json::{Value, json};

/// Every option of the node.
pub(super) fn listed() -> Value {
    let settings = Settings::of_shard();
    let options = settings.shown().into_iter().map(|option| {
        // As JSON; what is none is shown as it is.
        let value = serde_json::from_str(&option.value).unwrap_or_else(|_| json!(option.value));
        let changes = match (settings.is_live(&option.name), settings.is_obeyed(&option.name)) {
            (true, true) => "live",
            // Accepted for programs that set it.
            (true, false) => "never",
            (false, _) => "restart",
        };
        json!({
            "name": option.name,
            "kind": option.kind,
            "value": value,
            "source": option.source,
            "changes": changes,
        })
    });
    json!({ "options": Value::from_iter(options) })
}

/// Keyspaces, tables and columns.
pub(super) fn schema(cluster: &Cluster) -> Value {
    let schema = cluster.schema();
    let tables = schema.tables().map(|entry| {
        let table = &entry.schema;
        let columns = table.columns.iter().map(|column| {
            let kind = match column.kind {
                ColumnKind::PartitionKey => "partition key",
                ColumnKind::Clustering => "clustering key",
                ColumnKind::Static => "static",
                ColumnKind::Regular => "regular",
            };
            json!({ "name": column.name, "type": column.ty.to_cql(), "kind": kind })
        });
        json!({
            "keyspace": table.keyspace,
            "name": table.name,
            "system": Schema::is_system(&table.keyspace),
            "virtual": entry.kind == TableKind::Virtual,
            "columns": Value::from_iter(columns),
        })
    });
    json!({ "version": schema.version.to_string(), "tables": Value::from_iter(tables) })
}
