//! Schemas for tests.

use super::{KeyspaceEntry, Schema, SchemaChange};
use crate::system_tables;
use model::schema::cdc::{CdcOptions, log_name, log_schema};
use model::schema::{
    Computed, ComputedColumn, Index, IndexTarget, NullInput, UserAggregate, UserFunction, View,
    ViewCondition, ViewOperator,
};
use model::{Column, ColumnId, ColumnKind, Keyspace, TableSchema, Type, UserType, Uuid};

pub fn keyspace(name: &str, initial_tablets: Option<u32>) -> Keyspace {
    Keyspace {
        name: name.to_owned(),
        replication: vec![
            ("class".to_owned(), "org.apache.cassandra.locator.SimpleStrategy".to_owned()),
            ("replication_factor".to_owned(), "1".to_owned()),
        ],
        durable_writes: true,
        previous: None,
        initial_tablets,
        storage: Vec::new(),
    }
}

pub fn table(
    keyspace: &str,
    name: &str,
    id: u128,
    columns: &[(&str, &str, ColumnKind)],
) -> TableSchema {
    let column = |(index, (name, ty, kind)): (usize, &(&str, &str, ColumnKind))| Column {
        id: ColumnId(index as u32),
        name: name.to_string(),
        kind: *kind,
        position: 0,
        ty: Type::from_cql(ty, &|_| None).expect("a type"),
        reversed: false,
    };
    system_tables::arrange(TableSchema {
        id: Uuid::from_u128(id),
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        columns: columns.iter().enumerate().map(column).collect(),
        next_column_id: columns.len() as u32,
        ..system_tables::table("system", "local")
    })
}

/// Kinds of changes that [`change`] can draw.
pub const CHANGES: u8 = 20;

/// One of [`CHANGES`], of few names, so that many are of what is there; `id` is new.
pub fn change<L>(
    schema: &Schema<L>,
    kind: u8,
    name: u8,
    variant: u8,
    id: u128,
) -> Option<SchemaChange> {
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
    let aggregate = || total((space, thing), ty.clone(), takes.clone(), variant);
    Some(match kind {
        0 | 1 => {
            let made = replicated(space, kind == 1, variant);
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
        13 => {
            let arguments = aggregate().arguments;
            SchemaChange::DropAggregate { keyspace: keyspace_name, name, arguments }
        }
        14 => SchemaChange::CreateTable(view(&present?, variant, id)),
        15 => SchemaChange::AlterTable(indexed(present?, variant)),
        16..=18 => log_change(schema, kind, present?, variant, id)?,
        _ => drop_view(keyspace_name, &name, variant),
    })
}

/// A log is made, attached or not, or dropped.
fn log_change<L>(
    schema: &Schema<L>,
    kind: u8,
    base: TableSchema,
    variant: u8,
    id: u128,
) -> Option<SchemaChange> {
    let name = log_name(&base.name);
    Some(match kind {
        16 => SchemaChange::CreateTable(log(&base, id)),
        17 => {
            let mut log = (*schema.table(&base.keyspace, &name)?.schema).clone();
            log.log.as_mut()?.attached = variant & 1 == 0;
            SchemaChange::AlterTable(log)
        }
        _ => SchemaChange::DropTable { keyspace: base.keyspace, name },
    })
}

/// The log of a table.
pub fn log(base: &TableSchema, id: u128) -> TableSchema {
    log_schema(base, CdcOptions::DEFAULT, Uuid::from_u128(id)).expect("a log")
}

fn drop_view(keyspace: String, base: &str, variant: u8) -> SchemaChange {
    SchemaChange::DropTable { keyspace, name: format!("{base}_v{}", variant & 1) }
}

/// A view of a table, of one of two names, with all that a view may have.
pub fn view(base: &TableSchema, variant: u8, id: u128) -> TableSchema {
    let name = format!("{}_v{}", base.name, variant & 1);
    let mut made = TableSchema::builder(&base.keyspace, &name, Uuid::from_u128(id))
        .partition_key("idx_token", Type::BigInt)
        .regular("hidden", Type::Empty);
    // Others may be of other kinds later, where tests change all.
    for column in &base.partition_key()[..1] {
        made = made.clustering_descending(&column.name, column.ty.clone());
    }
    let mut made = made.build().expect("a view");
    let of = |name: &str| made.column(name).expect("a column of the view").id;
    let computed = match variant >> 1 {
        0 => Computed::Token,
        _ => Computed::ElementEntry("some \"map".to_owned()),
    };
    let operators = [ViewOperator::Equal, ViewOperator::In];
    let condition = |operator: &ViewOperator| ViewCondition {
        columns: vec![base.columns[0].name.clone(); usize::from(variant) + 1],
        operator: *operator,
        values: vec![vec![vec![variant, 0, 255]; usize::from(variant) + 1]],
    };
    let view = View {
        base: base.id,
        base_name: base.name.clone(),
        where_clause: format!("\"x\" IS NOT NULL AND y = 'it''s {variant}'"),
        includes_all: variant & 1 == 0,
        filter: operators.iter().take(usize::from(variant & 3)).map(condition).collect(),
        hidden: vec![of("hidden")],
        computed: vec![ComputedColumn { id: of("idx_token"), computed }],
        synchronous: [Some(true), Some(false), None][usize::from(variant) % 3],
        lives_by_marker: false,
    };
    let keys = &made.columns[..2];
    let lives_by_marker = View::must_live_by_marker(base, keys, &view);
    made.view = Some(Box::new(View { lives_by_marker, ..view }));
    made
}

/// A keyspace with tablets and some number of copies; where it `may_follow`, perhaps one whose
/// tablets follow.
fn replicated(name: &str, may_follow: bool, variant: u8) -> Keyspace {
    let mut made = keyspace(name, Some(u32::from(variant) + 1));
    made.durable_writes = variant & 1 == 0;
    let copies = [("dc1", 1 + variant % 3), ("dc2", variant / 3)];
    let copies = copies.map(|(center, copies)| (center.to_owned(), copies.to_string()));
    let class = ("class".to_owned(), "NetworkTopologyStrategy".to_owned());
    made.replication = [class].into_iter().chain(copies).collect();
    let follows = may_follow && variant & 2 == 0;
    made.previous = follows.then(|| made.replication.clone());
    made
}

/// A table with other indexes than before, as many as `variant` says.
pub fn indexed(mut table: TableSchema, variant: u8) -> TableSchema {
    let targets = [IndexTarget::Values, IndexTarget::Keys, IndexTarget::Full];
    let index = |number: u8| Index {
        name: format!("i{}", variant + number),
        column: table.columns[0].name.clone(),
        target: targets[usize::from(number) % targets.len()],
        is_local: number & 1 == 1,
        class: (number & 1 == 0).then(|| "SAI".to_owned()),
        options: vec![("o".repeat(usize::from(number) + 1), "it's".to_owned())],
    };
    table.indexes = (0..variant).map(index).collect();
    table
}

fn mentions_nothing<L>(keyspace: &KeyspaceEntry<L>) -> bool {
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

fn total((space, name): (&str, &str), ty: Type, state: Type, variant: u8) -> UserAggregate {
    UserAggregate {
        keyspace: space.into(),
        name: name.into(),
        arguments: vec![ty],
        state_function: "f".into(),
        state_type: state.clone(),
        reduce_function: None,
        final_function: None,
        initial: Some(variant.to_string()),
        returns: state,
    }
}
