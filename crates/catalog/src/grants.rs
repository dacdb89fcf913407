//! What changes of the schema mean for grants. Pure.

use crate::schema::{Schema, SchemaChange};
use auth::{Change, Resource, State};

/// What a change of the schema means for grants: what goes takes those on it along, and who
/// creates a keyspace or a table has all on it. Functions are not given to who creates them, as in
/// ScyllaDB, so that replacing them needs permission.
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
        // Who may read or alter a view or a log is said of its base.
        SchemaChange::CreateTable(it)
            if !it.is_derived() && before.table(&it.keyspace, &it.name).is_none() =>
        {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::{keyspace, table};
    use auth::decide::{Otherwise, RoleOptions};
    use model::{ColumnKind, Uuid};

    #[test]
    fn grants_follow_the_schema() {
        let mut state = State::default();
        let made = state.create_role("a", RoleOptions::default(), None, Otherwise::Refused);
        made.expect("a role").into_iter().for_each(|change| state.apply(change));
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let made = table("ks", "t", 1, &columns);
        let empty = Schema::<()>::of_system(Uuid::from_u128(1), 2);
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let shown = |state: &State| {
            let names = |it: &auth::state::Granted| it.resource.name();
            state.grants_of("a").iter().map(names).collect::<Vec<_>>().join(" ")
        };
        let steps = [
            (space, "data/ks functions/ks"),
            (SchemaChange::CreateTable(made.clone()), "data/ks data/ks/t functions/ks"),
            (SchemaChange::AlterTable(made), "data/ks data/ks/t functions/ks"),
            (
                SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() },
                "data/ks functions/ks",
            ),
            (SchemaChange::DropKeyspace("ks".into()), ""),
        ];
        for (change, expected) in steps {
            let after = consequences(&state, &empty, &change, Some("a"));
            after.into_iter().for_each(|change| state.apply(change));
            assert_eq!(shown(&state), expected, "{change:?}");
            assert!(consequences(&state, &empty, &change, None).is_empty());
        }
    }
}
