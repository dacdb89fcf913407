use super::*;
use crate::schema::testing::{CHANGES, change, keyspace, table};
use model::{ColumnKind, Uuid};
use proptest::prelude::*;

proptest! {
    #[test]
    fn there_and_back(steps in proptest::collection::vec((0..CHANGES, 0u8..4, 0u8..4), 0..60)) {
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
