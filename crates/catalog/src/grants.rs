//! What changes of the schema mean for grants. Pure.

use crate::schema::{Schema, SchemaChange};
use auth::{Change, Resource, State};
use model::TableSchema;

/// What a change of the schema means for grants: what goes takes those on it along, and who
/// creates a keyspace, a table, or a view of a table that was there has all on it. `creator` is
/// said where that counts: of a view of CQL it does not, for who may read it is said of its base.
/// Functions are not given to who creates them, as in ScyllaDB, so that replacing them needs
/// permission.
pub fn consequences<L>(
    state: &State,
    before: &Schema<L>,
    change: &SchemaChange,
    creator: Option<&str>,
) -> Vec<Change> {
    let created = |resources: &[Resource]| -> Vec<Change> {
        let Some(creator) = creator else { return Vec::new() };
        resources.iter().filter_map(|it| state.grant_to_creator(creator, it)).collect()
    };
    match change {
        SchemaChange::CreateKeyspace(it) => {
            created(&[Resource::Keyspace(it.name.clone()), Resource::FunctionsIn(it.name.clone())])
        }
        SchemaChange::CreateTable(it) if is_granted(before, it) => {
            created(&[Resource::table(&it.keyspace, &it.name)])
        }
        SchemaChange::DropKeyspace(name) => {
            let mut gone = state.revoke_all_on(&Resource::Keyspace(name.clone()));
            gone.extend(state.revoke_all_on(&Resource::FunctionsIn(name.clone())));
            gone
        }
        SchemaChange::DropTable { keyspace, name } => {
            state.revoke_all_on(&Resource::table(keyspace, name))
        }
        SchemaChange::DropFunction { keyspace, name, arguments }
        | SchemaChange::DropAggregate { keyspace, name, arguments } => {
            state.revoke_all_on(&Resource::function(keyspace, name, arguments))
        }
        _ => Vec::new(),
    }
}

/// Whether who creates a table is given what there is on it. A view or a log that comes with its
/// table adds nothing to what that gave; a log that comes later is given to nobody.
fn is_granted<L>(before: &Schema<L>, table: &TableSchema) -> bool {
    let is_new = before.table(&table.keyspace, &table.name).is_none();
    let has_base = table.view.as_ref().is_some_and(|view| before.table_by_id(view.base).is_some());
    is_new && (has_base || !table.is_derived())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::{keyspace, log, table, view};
    use auth::decide::{Otherwise, RoleOptions};
    use model::{ColumnKind, Uuid};

    fn state() -> State {
        let mut state = State::default();
        let made = state.create_role("a", RoleOptions::default(), None, Otherwise::Refused);
        made.expect("a role").into_iter().for_each(|change| state.apply(change));
        state
    }

    fn shown(state: &State) -> String {
        let names = |it: &auth::state::Granted| it.resource.name();
        state.grants_of("a").iter().map(names).collect::<Vec<_>>().join(" ")
    }

    fn of_system() -> Schema<()> {
        Schema::of_system(Uuid::from_u128(1), 2)
    }

    fn drop_table(name: &str) -> SchemaChange {
        SchemaChange::DropTable { keyspace: "ks".into(), name: name.into() }
    }

    #[test]
    fn grants_follow_the_schema() {
        let mut state = state();
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let made = table("ks", "t", 1, &columns);
        let empty = of_system();
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let steps = [
            (space, "data/ks functions/ks"),
            (SchemaChange::CreateTable(made.clone()), "data/ks data/ks/t functions/ks"),
            (SchemaChange::AlterTable(made), "data/ks data/ks/t functions/ks"),
            (drop_table("t"), "data/ks functions/ks"),
            (SchemaChange::DropKeyspace("ks".into()), ""),
        ];
        for (change, expected) in steps {
            let after = consequences(&state, &empty, &change, Some("a"));
            after.into_iter().for_each(|change| state.apply(change));
            assert_eq!(shown(&state), expected, "{change:?}");
            assert!(consequences(&state, &empty, &change, None).is_empty());
        }
    }

    #[test]
    fn a_view_is_granted_where_its_table_was_there() {
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let base = table("ks", "t", 1, &columns);
        let made = [keyspace("ks", None)].map(SchemaChange::CreateKeyspace).into_iter();
        let made = made.chain([SchemaChange::CreateTable(base.clone())]).collect();
        let without = of_system();
        let with = without.after(made, 1, 1).expect("a table");
        let (view, log) = (view(&base, 0, 2), log(&base, 3));
        let steps = [
            (&without, SchemaChange::CreateTable(view.clone()), ""),
            (&without, SchemaChange::CreateTable(log.clone()), ""),
            (&with, SchemaChange::CreateTable(log), ""),
            (&with, SchemaChange::CreateTable(view), "data/ks/t_v0"),
            (&with, drop_table("t_v0"), ""),
        ];
        let mut state = state();
        for (before, change, expected) in steps {
            let after = consequences(&state, before, &change, Some("a"));
            after.into_iter().for_each(|change| state.apply(change));
            assert_eq!(shown(&state), expected, "{change:?}");
        }
    }
}
