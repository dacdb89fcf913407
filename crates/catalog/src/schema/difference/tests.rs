use super::*;
use crate::schema::testing::{keyspace, table};
use model::schema::NullInput;
use model::{ColumnKind, TableSchema, Type, UserType, Uuid};
use proptest::prelude::*;

/// A random change of few names, so that many are of what is there.
fn change(schema: &Schema, kind: u8, name: u8, variant: u8, id: u128) -> Option<SchemaChange> {
    let (space, thing) =
        (["a", "b"][usize::from(name & 1)], ["t", "u"][usize::from(name >> 1 & 1)]);
    let (keyspace_name, name) = (space.to_owned(), thing.to_owned());
    let ty = [Type::Int, Type::Text][usize::from(variant & 1)].clone();
    let present = schema.table(space, thing).map(|it| (*it.schema).clone());
    let user = || UserType {
        keyspace: space.into(),
        name: thing.into(),
        fields: (0..=variant).map(|number| (format!("f{number}"), ty.clone())).collect(),
    };
    let used = schema.user_type(space, thing).map(|it| it.to_type().freeze());
    let takes = used.unwrap_or(ty.clone());
    let function = || UserFunction {
        keyspace: space.into(),
        name: thing.into(),
        arguments: vec![("x".into(), takes.clone()), ("y".into(), ty.clone())],
        returns: takes.clone(),
        null_input: NullInput::Called,
        language: "lua".into(),
        body: format!("return {variant}"),
    };
    let aggregate = || UserAggregate {
        keyspace: space.into(),
        name: thing.into(),
        arguments: vec![ty.clone()],
        state_function: "f".into(),
        state_type: takes.clone(),
        reduce_function: None,
        final_function: None,
        initial: Some(variant.to_string()),
        returns: takes.clone(),
    };
    Some(match kind {
        0 | 1 => {
            let mut made = keyspace(space, Some(u32::from(variant) + 1));
            made.durable_writes = variant & 1 == 0;
            match kind {
                0 => SchemaChange::CreateKeyspace(made),
                _ => SchemaChange::AlterKeyspace(made),
            }
        }
        2 => SchemaChange::DropKeyspace(keyspace_name),
        3 | 4 => {
            let columns = [("p", "int", ColumnKind::PartitionKey)];
            let made = table(space, thing, id, &columns);
            let value = schema.user_type(space, "u").map_or(ty, |it| it.to_type().freeze());
            SchemaChange::CreateTable(made.edit().regular("v", value).build().ok()?)
        }
        5 => SchemaChange::AlterTable(altered(present?, variant, id)?),
        6 => SchemaChange::DropTable { keyspace: keyspace_name, name },
        7 => SchemaChange::CreateType(user()),
        8 => SchemaChange::AlterType(user()),
        // As statements have it, of what nothing mentions.
        9 if schema.keyspace(space).is_some_and(|it| mentions_nothing(it)) => {
            SchemaChange::DropType { keyspace: keyspace_name, name }
        }
        9 => return None,
        10 => SchemaChange::CreateFunction(function()),
        11 => {
            let arguments = function().argument_types().cloned().collect();
            SchemaChange::DropFunction { keyspace: keyspace_name, name, arguments }
        }
        12 => SchemaChange::CreateAggregate(aggregate()),
        _ => {
            let arguments = aggregate().arguments;
            SchemaChange::DropAggregate { keyspace: keyspace_name, name, arguments }
        }
    })
}

fn mentions_nothing(keyspace: &KeyspaceEntry) -> bool {
    let (functions, aggregates) = (&keyspace.functions, &keyspace.aggregates);
    keyspace.tables.is_empty() && functions.is_empty() && aggregates.is_empty()
}

fn altered(mut present: TableSchema, variant: u8, id: u128) -> Option<TableSchema> {
    if variant & 1 == 0 {
        present.options.comment = format!("{id}");
        return Some(present);
    }
    present.edit().regular(&format!("c{id}"), Type::Int).build().ok()
}

proptest! {
    #[test]
    fn there_and_back(steps in proptest::collection::vec((0u8..14, 0u8..4, 0u8..4), 0..60)) {
        let mut all: Vec<Schema> = vec![Schema::of_system(Uuid::from_u128(1), 2)];
        for (number, (kind, name, variant)) in steps.into_iter().enumerate() {
            let last = all.last().expect("the first");
            let id = 1000 + number as u128;
            let Some(change) = change(last, kind, name, variant, id) else { continue };
            let micros = 10 * (number as i64 + 1);
            all.extend(last.after(vec![change], micros, 2).ok());
        }
        for (at, before) in all.iter().enumerate() {
            for after in [at, at.midpoint(all.len()), all.len() - 1].map(|it| &all[it]) {
                let changes = after.changes_since(before);
                prop_assert_eq!(changes.changes.is_empty(), before.keyspaces == after.keyspaces);
                let found = before.apply(&changes, after.version);
                prop_assert!(found == *after, "{:?} lead elsewhere", changes);
            }
        }
    }
}

#[test]
fn what_differs_is_what_changes() {
    let columns = [("p", "int", ColumnKind::PartitionKey)];
    let made = |id| SchemaChange::CreateTable(table("ks", "t", id, &columns));
    let empty: Schema = Schema::of_system(Uuid::from_u128(1), 2);
    let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
    let before = empty.after(vec![space, made(1)], 5, 2).expect("a table");
    let drop = SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() };
    let after = before.after(vec![drop.clone(), made(2)], 6, 2).expect("another table");
    let changes = after.changes_since(&before).changes;
    let [first, SchemaChange::CreateTable(second)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((first, second.id), (&drop, Uuid::from_u128(2)));
    let gone = empty.changes_since(&after).changes;
    assert_eq!(gone, [SchemaChange::DropKeyspace("ks".into())]);
}
