//! Roles, grants and service levels as rows of `system.roles`, `role_members`, `role_attributes`,
//! `role_permissions` and `service_levels_v2`, and back. Pure; every row is foreign.
//!
//! Invariants
//!  - *round-trip*: what [`mutations`] stores, [`load`] gives back.

use crate::rows::Row;
use crate::rows::partition::{PartitionWriter, Value, boolean, int, text};
use crate::schema::Schema;
use auth::{Change, Permission, ServiceLevel, State, Workload};
use model::TableSchema;
use model::value::collection::list_elements;
use model::value::duration::Duration as CqlDuration;
use model::value::scalar::{decode_duration, encode_duration};
use mutation::FrozenMutation;
use std::collections::BTreeMap;
use std::time::Duration;

/// The tables, in the order in which [`load`] reads them.
pub const TABLES: [&str; 5] =
    ["service_levels_v2", "roles", "role_attributes", "role_permissions", "role_members"];

/// Whether writes of clients to this system table change roles or grants.
pub fn is_one(table: &TableSchema) -> bool {
    table.keyspace == "system" && TABLES.contains(&table.name.as_str())
}

/// The mutations of changes, all with `timestamp` and the one before.
pub fn mutations<L>(schema: &Schema<L>, changes: &[Change], timestamp: i64) -> Vec<FrozenMutation> {
    let mut out = Vec::new();
    for change in changes {
        write(schema, change, timestamp, &mut out);
    }
    let (written, asked) = (out.len(), changes.len());
    assert!(asked <= written, "round-trip: {asked} changes in {written} partitions");
    out
}

fn write<L>(schema: &Schema<L>, change: &Change, timestamp: i64, out: &mut Vec<FrozenMutation>) {
    let table = |name: &str| &*schema.table("system", name).expect("a system table").schema;
    let mut edit = |name: &str, key: &str, edit: &dyn Fn(&mut PartitionWriter<'_>)| {
        let mut partition = PartitionWriter::new(table(name), &[key.as_bytes()], timestamp);
        edit(&mut partition);
        out.push(partition.freeze());
    };
    match change {
        Change::Role { name, can_login, is_superuser, salted_hash } => {
            let hash = salted_hash.as_deref();
            edit("roles", name, &|partition| {
                let cells = vec![
                    ("can_login", boolean(*can_login)),
                    ("is_superuser", boolean(*is_superuser)),
                    ("salted_hash", hash.and_then(text)),
                ];
                partition.row(&[], cells);
            });
        }
        Change::Forget(name) => {
            for table in ["roles", "role_members", "role_attributes", "role_permissions"] {
                edit(table, name, &|partition| partition.delete_rows(&[]));
            }
        }
        Change::Member { role, member, is_member } => {
            edit("roles", member, &|partition| {
                let element = Value::Element(role.as_bytes().to_vec(), *is_member);
                partition.cells(&[], vec![("member_of", Some(element))]);
            });
            edit("role_members", role, &|partition| match is_member {
                true => partition.row(&[member.as_bytes()], Vec::new()),
                false => partition.delete_rows(&[member.as_bytes()]),
            });
        }
        Change::Attribute { role, name, value } => {
            edit("role_attributes", role, &|partition| match value {
                Some(value) => partition.row(&[name.as_bytes()], vec![("value", text(value))]),
                None => partition.delete_rows(&[name.as_bytes()]),
            });
        }
        Change::Grants { role, resource, permissions } => {
            edit("role_permissions", role, &|partition| {
                let names = permissions.iter().map(|it| it.name().as_bytes().to_vec()).collect();
                match permissions.is_empty() {
                    true => partition.delete_rows(&[resource.as_bytes()]),
                    false => {
                        let cells = vec![("permissions", Some(Value::Set(names)))];
                        partition.row(&[resource.as_bytes()], cells);
                    }
                }
            });
        }
        Change::Level { name, level } => edit("service_levels_v2", name, &|partition| {
            partition.delete_rows(&[]);
            if let Some(level) = level {
                partition.row(&[], level_cells(level));
            }
        }),
    }
}

fn level_cells(level: &ServiceLevel) -> Vec<(&'static str, Option<Value>)> {
    let fits = level.shares.is_none_or(|shares| i32::try_from(shares).is_ok());
    assert!(fits, "round-trip: {:?} shares are no int", level.shares);
    let timeout = level.timeout.map(|timeout| {
        let nanos = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        Value::Atomic(encode_duration(&CqlDuration { months: 0, days: 0, nanos }))
    });
    vec![
        ("shares", level.shares.and_then(|shares| int(shares as i32))),
        ("timeout", timeout),
        ("workload_type", level.workload.and_then(|workload| text(workload.name()))),
    ]
}

/// What rows say, by the table that they are of. What makes no sense is left out: who may do less
/// than meant will say so.
pub fn load(rows: &BTreeMap<&'static str, Vec<Row>>) -> State {
    let of = |table: &str| rows.get(table).into_iter().flatten();
    let mut state = State::default();
    for row in of("service_levels_v2") {
        let Some(name) = string(row, "service_level") else { continue };
        state.apply(Change::Level { name, level: Some(read_level(row)) });
    }
    let is_true = |row: &Row, name| row.get(name).is_some_and(|bytes| bytes[..] == [1]);
    for row in of("roles") {
        let Some(name) = string(row, "role") else { continue };
        let (can_login, is_superuser) = (is_true(row, "can_login"), is_true(row, "is_superuser"));
        let salted_hash = string(row, "salted_hash").filter(|hash| !hash.is_empty());
        state.apply(Change::Role { name, can_login, is_superuser, salted_hash });
    }
    for row in of("roles") {
        let Some(member) = string(row, "role") else { continue };
        for role in strings(row, "member_of") {
            state.apply(Change::Member { role, member: member.clone(), is_member: true });
        }
    }
    for row in of("role_attributes") {
        if let (Some(role), Some(name)) = (string(row, "role"), string(row, "name")) {
            state.apply(Change::Attribute { role, name, value: string(row, "value") });
        }
    }
    for row in of("role_permissions") {
        if let (Some(role), Some(resource)) = (string(row, "role"), string(row, "resource")) {
            let names = strings(row, "permissions");
            let permissions = names.iter().filter_map(|name| Permission::by_name(name)).collect();
            state.apply(Change::Grants { role, resource, permissions });
        }
    }
    state
}

fn read_level(row: &Row) -> ServiceLevel {
    let timeout = row.get("timeout").and_then(|bytes| decode_duration(bytes));
    let timeout = timeout.and_then(|it| u64::try_from(it.nanos).ok());
    let shares = row.get("shares").and_then(|bytes| <[u8; 4]>::try_from(&bytes[..]).ok());
    let shares = shares.and_then(|bytes| u32::try_from(i32::from_be_bytes(bytes)).ok());
    let workload = string(row, "workload_type").and_then(|name| Workload::by_name(&name));
    ServiceLevel { timeout: timeout.map(Duration::from_nanos), workload, shares }
}

fn string(row: &Row, name: &str) -> Option<String> {
    String::from_utf8(row.get(name)?.clone()).ok()
}

fn strings(row: &Row, name: &str) -> Vec<String> {
    let elements = row.get(name).map(|bytes| list_elements(bytes));
    let text =
        |part: Result<Option<&[u8]>, stdx::Damaged>| String::from_utf8(part.ok()??.to_vec()).ok();
    elements.into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::testing::rows;
    use auth::PermissionSet;
    use auth::decide::{Decision, LevelOptions, Otherwise, RoleOptions};
    use model::Uuid;

    /// Carries out decisions and writes them down; what is read back is the same each time.
    fn check(steps: &[&dyn Fn(&State) -> Decision]) -> State {
        let schema = Schema::<()>::of_system(Uuid::from_u128(1), 2);
        let (mut state, mut written, mut timestamp) = (State::default(), Vec::new(), 10);
        for (index, step) in steps.iter().enumerate() {
            let changes = step(&state).expect("a change");
            timestamp += 2;
            written.extend(mutations(&schema, &changes, timestamp));
            changes.into_iter().for_each(|change| state.apply(change));
            let table = |name| &schema.table("system", name).expect("a system table").schema;
            let found = load(&TABLES.map(|name| (name, rows(table(name), &written))).into());
            assert_eq!(shown(&found), shown(&state), "step {index}");
        }
        state
    }

    fn shown(state: &State) -> String {
        let roles: Vec<_> = state.roles().collect();
        let grants: Vec<_> = state.grantees().map(|role| state.grants_of(role)).collect();
        let levels: Vec<_> = state.levels().collect();
        format!("{roles:?} {grants:?} {levels:?} {:?}", state.attachments())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let select = PermissionSet::of(&[Permission::Select, Permission::Modify]);
        let on = auth::Resource::table("ks", "t");
        let refused = Otherwise::Refused;
        let role = |hash: &str| RoleOptions {
            can_login: Some(true),
            is_superuser: Some(false),
            salted_hash: Some(hash.to_owned()),
            attributes: Some(vec![("color".to_owned(), "red".to_owned())]),
        };
        let level = LevelOptions {
            timeout: Some(Some(Duration::from_millis(575))),
            workload: Some(Some(Workload::Batch)),
            shares: Some(7),
        };
        let unsaid = LevelOptions { timeout: Some(None), ..LevelOptions::default() };
        let superuser = RoleOptions { is_superuser: Some(true), ..RoleOptions::default() };
        let no_attributes = RoleOptions { attributes: Some(Vec::new()), ..RoleOptions::default() };
        let none = RoleOptions::default;
        let state = check(&[
            &|it| it.create_role("a", role("h"), None, refused),
            &|it| it.create_role("b", none(), Some("a"), refused),
            &|it| it.create_role("c", none(), None, refused),
            &|it| it.grant_role("a", "b"),
            &|it| it.grant_role("c", "b"),
            &|it| it.grant("b", select, &on),
            &|it| it.create_level("gold", &level, refused),
            &|it| it.attach_level("gold", "a"),
            &|it| it.alter_level("gold", &unsaid),
            &|it| it.alter_role("a", superuser.clone(), refused),
            &|it| it.alter_role("a", no_attributes.clone(), refused),
            &|it| it.revoke_role("c", "b"),
            &|it| it.revoke("b", PermissionSet::of(&[Permission::Select]), &on),
            &|it| it.drop_role("b", refused),
            &|it| it.create_role("b", none(), None, refused),
            &|it| it.drop_level("gold", refused),
        ]);
        let a = state.role("a").expect("a role");
        assert!(a.is_superuser && a.attributes.is_empty());
        assert_eq!(a.salted_hash.as_deref(), Some("h"));
        assert!(state.role("b").expect("a role").member_of.is_empty());
    }

    #[test]
    fn rows_that_make_no_sense_are_left_out() {
        let row = |cells: &[(&str, &[u8])]| -> Row {
            cells.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect()
        };
        let tables = BTreeMap::from([
            ("roles", vec![row(&[("role", &[0xff])]), row(&[("role", b"a")]), row(&[])]),
            ("role_permissions", vec![row(&[("role", b"a"), ("resource", b"data")])]),
            (
                "service_levels_v2",
                vec![row(&[("service_level", b"x"), ("timeout", b"\xff"), ("shares", b"1")])],
            ),
        ]);
        let state = load(&tables);
        assert_eq!(state.roles().map(|(name, _)| name).collect::<Vec<_>>(), ["a"]);
        assert!(!state.role("a").is_some_and(|it| it.can_login || it.is_superuser));
        assert_eq!(state.level("x"), Some(&ServiceLevel::default()));
    }
}
