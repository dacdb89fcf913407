//! `/service_levels`: which scheduling groups the connections of clients are in;
//! `/authorization_cache`.

use super::Door;
use super::api::{Answered, Api};
use crate::call::{Answer, Call};
use cluster::TableKind;
use cluster::virtual_tables::VirtualRow;
use model::TableSchema;
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) fn operations(api: &mut Api) {
    let path = "/service_levels/count_connections";
    api.get(path, "Connections of clients, by scheduling group and role", connections);
    let path = "/service_levels/switch_tenants";
    let summary =
        "Moves connections to the groups of their service levels: they move by themselves";
    api.post(path, summary, async |_: &Rc<Door>, _: &Call| Ok(Answer::done()));
    let path = "/authorization_cache/reset";
    let summary = "Forgets what is known of permissions: what is known is always that of now";
    api.post(path, summary, async |_: &Rc<Door>, _: &Call| Ok(Answer::done()));
}

/// As `system.clients` shows them.
async fn connections(door: &Rc<Door>, _: &Call) -> Answered {
    let schema = door.cluster.schema();
    let entry = schema.table("system", "clients").filter(|it| it.kind == TableKind::Virtual);
    let Some(entry) = entry else { return Ok(Answer::json(json!({}))) };
    let rows = match door.cluster.virtual_rows(entry.schema.id) {
        Some(rows) => rows().await,
        None => Vec::new(),
    };
    Ok(Answer::json(json!(counted(&entry.schema, &rows))))
}

/// How many rows of clients there are of each group and role.
fn counted(table: &TableSchema, rows: &[VirtualRow]) -> BTreeMap<String, BTreeMap<String, usize>> {
    let at = |name: &str| table.columns.iter().position(|column| column.name == name);
    let (group, role) = (at("scheduling_group"), at("username"));
    let text = |row: &VirtualRow, at: Option<usize>| {
        let value = at.and_then(|at| row.get(at)?.as_deref());
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    };
    let mut counted: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for row in rows {
        let roles = counted.entry(text(row, group)).or_default();
        *roles.entry(text(row, role)).or_default() += 1;
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Schema;
    use cluster::virtual_tables::row;
    use model::Uuid;

    #[test]
    fn clients_are_counted_by_group_and_role() {
        let schema = Schema::of_system(Uuid::from_u128(1), 1);
        let table = &schema.table("system", "clients").expect("a table").schema;
        let client = |group: &str, role: &str| {
            let text = |text: &str| text.as_bytes().to_vec();
            row(table, vec![("scheduling_group", text(group)), ("username", text(role))])
        };
        let rows = [
            client("sl:default", "anonymous"),
            client("sl:gold", "a"),
            client("sl:gold", "b"),
            client("sl:gold", "a"),
        ];
        let expected = json!({ "sl:default": { "anonymous": 1 }, "sl:gold": { "a": 2, "b": 1 } });
        assert_eq!(json!(counted(table, &rows)), expected);
        assert_eq!(json!(counted(table, &[])), json!({}));
    }
}
