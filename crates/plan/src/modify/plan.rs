//! The analysis of `INSERT`, `UPDATE` and `DELETE`.

use super::condition::{ConditionPlan, On, add_lists, prepare as prepare_condition};
use super::operation::Operation;
use super::using::UsingPlan;
use crate::error::Error;
use crate::json::JsonRow;
use crate::markers::{Markers, Receiver};
use crate::metadata::ResultMetadata;
use crate::restrictions::{
    ClusteringPlan, KeyValue, PartitionPlan, Purpose, Restrictions, analyze,
};
use crate::tables::{refuse_writes_of_system, refuse_writes_of_views};
use crate::term::{Inputs, JsonColumn, Preparer, Term};
use cluster::{Schema, TableEntry, TableKind};
use model::{Column, ColumnKind, TableSchema, Type};
use std::rc::Rc;
use syntax::ast;
use syntax::ast::{ColumnPath, InsertSource, JsonMissing, Relation};

/// What a statement does to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    /// All of them, in the order of their definition.
    pub const ALL: [Verb; 3] = [Verb::Insert, Verb::Update, Verb::Delete];
}

/// A write ready to be executed.
#[derive(Debug)]
pub struct ModifyPlan {
    pub table: Rc<TableEntry>,
    pub partition: Vec<KeyValue>,
    pub clustering: ClusteringPlan,
    /// What happens to static columns, by column id.
    pub static_operations: Vec<Operation>,
    /// What happens to the row, by column id.
    pub row_operations: Vec<Operation>,
    /// What is written besides columns.
    pub whole: Whole,
    changes_counters: bool,
    pub using: UsingPlan,
    pub condition: Option<ConditionPlan>,
    /// What is read before the write, where it depends on it.
    pub read: Option<Inputs>,
    /// Whether the guardrails of large data look at what it writes, and at what it writes to.
    pub is_guarded: bool,
    pub verb: Verb,
    /// Whether its table is one of the system.
    pub of_system: bool,
}

/// What a write does to rows as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Nothing.
    Nothing,
    /// `INSERT`: the row lives, whatever its columns hold.
    Mark,
    /// `DELETE` of rows: by whole keys, by ranges, or of the partition.
    Delete,
}

impl Whole {
    /// What an `INSERT` does to its row. Rows of compact tables live by their values alone; where
    /// they have none, a marker stands for it.
    fn of_insert(table: &TableSchema) -> Whole {
        match table.compact_storage && !table.regulars().is_empty() {
            true => Whole::Nothing,
            false => Whole::Mark,
        }
    }
}

impl ModifyPlan {
    /// Whether it depends on what is there: it is then executed by the owner.
    #[inline]
    pub fn needs_owner(&self) -> bool {
        self.read.is_some()
    }
    /// Whether it is about static columns alone: no row is named.
    #[inline]
    pub fn is_static_only(&self) -> bool {
        self.whole == Whole::Nothing
            && self.row_operations.is_empty()
            && 0 < self.table.schema.clustering_count
            && self.clustering.is_full()
    }
    /// Whether rows of the partition are read, not its static columns alone.
    pub fn reads_rows(&self) -> bool {
        self.row_operations.iter().any(Operation::needs_read) || self.is_about_row()
    }
    /// Whether it says `IF` of a row, not of static columns alone.
    pub fn is_about_row(&self) -> bool {
        match self.condition.as_ref().map(|condition| condition.on(&self.table.schema)) {
            None | Some(On::Statics) => false,
            Some(On::Row) => !self.is_static_only(),
            Some(On::Regular(_)) => true,
        }
    }
    /// Whether it says `IF`.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        self.condition.is_some()
    }
    /// Whether it changes counters.
    #[inline]
    pub fn is_counter(&self) -> bool {
        self.changes_counters
    }
    /// The result of a conditional write.
    #[inline]
    pub fn result(&self) -> Option<&Rc<ResultMetadata>> {
        self.condition.as_ref().map(|condition| &condition.metadata)
    }
}

fn preparer<'a>(
    schema: &'a Schema,
    table: &'a TableSchema,
    markers: &'a mut Markers,
) -> Preparer<'a> {
    let keyspace = &table.keyspace;
    Preparer { schema, keyspace, table: Some(table), markers, row: None, aggregates: None }
}

fn check_writable(table: &TableEntry) -> Result<(), Error> {
    match table.kind {
        // Some can be written: whether this one can is found out when it is.
        TableKind::Virtual => Ok(()),
        TableKind::Stored => {
            refuse_writes_of_views(table)?;
            refuse_writes_of_system(table)
        }
    }
}

/// Plans an `INSERT`.
pub fn prepare_insert(
    schema: &Schema,
    entry: &Rc<TableEntry>,
    insert: &ast::Insert,
    markers: &mut Markers,
) -> Result<ModifyPlan, Error> {
    let table = &*entry.schema;
    check_writable(entry)?;
    markers.enter(table);
    if table.is_counter() {
        return Err(Error::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ));
    }
    let (columns, values) = match &insert.source {
        InsertSource::Values { columns, values } => (columns, values),
        InsertSource::Json { text, missing } => {
            return prepare_json(schema, entry, insert, (text, *missing), markers);
        }
    };
    if columns.len() != values.len() {
        return Err(Error::invalid("Unmatched column names/values"));
    }
    let mut preparer = preparer(schema, table, markers);
    let mut keys: Vec<Option<Term>> =
        vec![None; table.partition_key_count + table.clustering_count];
    let (mut statics, mut regulars) = (Vec::new(), Vec::new());
    for (index, (name, value)) in columns.iter().zip(values).enumerate() {
        let column = named(table, name)?;
        if columns[..index].iter().any(|other| other.text == name.text) {
            let text = format!("Multiple definitions found for column {}", name.text);
            return Err(Error::Invalid(text));
        }
        match column.kind {
            ColumnKind::Static => statics.push(Operation::set(column, value, &mut preparer)?),
            ColumnKind::Regular => regulars.push(Operation::set(column, value, &mut preparer)?),
            ColumnKind::PartitionKey | ColumnKind::Clustering => {
                let receiver = Receiver { name: &column.name, ty: &column.ty };
                let term = preparer.prepare(value, receiver)?;
                let mut at = column.position as usize;
                if column.kind == ColumnKind::Clustering {
                    at += table.partition_key_count;
                } else if let Term::Marker(variable, _) = &term {
                    preparer.markers.is_key(*variable, at);
                }
                keys[at] = Some(term);
            }
        }
    }
    let using = UsingPlan::prepare(&insert.using, &mut preparer)?;
    let clustering_keys = keys.split_off(table.partition_key_count);
    check_gaps(table, &keys, &clustering_keys)?;
    let only_statics = regulars.is_empty()
        && !statics.is_empty()
        && 0 < table.clustering_count
        && clustering_keys.iter().all(Option::is_none);
    let partition = (0..).zip(keys).map(|(at, key)| present(table, at, key).map(KeyValue::One));
    let partition = partition.collect::<Result<Vec<KeyValue>, Error>>()?;
    let given = if only_statics { 0 } else { short_key(table, &clustering_keys) };
    let clustering = (table.partition_key_count..).zip(clustering_keys).take(given);
    let clustering = clustering.map(|(at, key)| present(table, at, key));
    let clustering = clustering.collect::<Result<Vec<Term>, Error>>()?;
    check_compact(table, &regulars)?;
    let whole = if only_statics { Whole::Nothing } else { Whole::of_insert(table) };
    let clustering = ClusteringPlan::of_values(clustering);
    let mut inputs = Inputs::default();
    let condition = prepare_condition(table, &insert.condition, &mut inputs, &mut preparer)?;
    let parts = Parts { partition, clustering, statics, regulars, whole, using };
    finish(entry, parts, condition, inputs, Verb::Insert)
}

/// A part of a key without the one before it gives the same error as in a `WHERE`.
fn check_gaps(
    table: &TableSchema,
    partition: &[Option<Term>],
    clustering: &[Option<Term>],
) -> Result<(), Error> {
    let missing = partition.iter().position(Option::is_none);
    if let Some(missing) = missing.filter(|_| partition.iter().any(Option::is_some)) {
        let name = &table.partition_key()[missing].name;
        return Err(Error::Invalid(format!("Some partition key parts are missing: {name}")));
    }
    let missing = clustering.iter().position(Option::is_none);
    let given = clustering.iter().rposition(Option::is_some);
    match (missing, given) {
        (Some(missing), Some(given)) if missing < given => Err(Error::Invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not \
             restricted",
            table.clustering()[given].name,
            table.clustering()[missing].name
        ))),
        _ => Ok(()),
    }
}

/// Plans an `INSERT JSON`.
fn prepare_json(
    schema: &Schema,
    entry: &Rc<TableEntry>,
    insert: &ast::Insert,
    (text, missing): (&ast::Expr, JsonMissing),
    markers: &mut Markers,
) -> Result<ModifyPlan, Error> {
    let table = &*entry.schema;
    let mut preparer = preparer(schema, table, markers);
    let receiver = Receiver { name: "[json]", ty: &Type::Text };
    let text = preparer.prepare(text, receiver)?;
    let row = Rc::new(JsonRow::new(table));
    let term = |column: &Column| {
        Term::Json(Rc::new(JsonColumn {
            row: row.clone(),
            text: text.clone(),
            name: column.name.clone(),
            ty: column.ty.clone(),
            missing,
        }))
    };
    let operations = |columns: &[Column]| -> Vec<Operation> {
        columns.iter().map(|column| Operation::set_to(column, term(column))).collect()
    };
    let (statics, regulars) = (operations(table.statics()), operations(table.regulars()));
    let partition = table.partition_key().iter().map(|c| KeyValue::One(term(c))).collect();
    let clustering = ClusteringPlan::of_values(table.clustering().iter().map(term).collect());
    let using = UsingPlan::prepare(&insert.using, &mut preparer)?;
    let mut inputs = Inputs::default();
    let condition = prepare_condition(table, &insert.condition, &mut inputs, &mut preparer)?;
    let whole = Whole::of_insert(table);
    let parts = Parts { partition, clustering, statics, regulars, whole, using };
    finish(entry, parts, condition, inputs, Verb::Insert)
}

/// How many clustering columns an `INSERT` must give: all, or, where keys may be short, those up
/// to the last that it gives.
fn short_key(table: &TableSchema, keys: &[Option<Term>]) -> usize {
    if !table.has_short_keys() {
        return keys.len();
    }
    keys.iter().rposition(Option::is_some).map_or(1, |last| last + 1)
}

/// A row of a dense table is its value: an `INSERT` must give one.
fn check_compact(table: &TableSchema, regulars: &[Operation]) -> Result<(), Error> {
    match table.regulars().first() {
        Some(column) if table.is_dense() && regulars.is_empty() => Err(Error::Invalid(format!(
            "Column {} is mandatory for this COMPACT STORAGE table",
            column.name
        ))),
        _ => Ok(()),
    }
}

/// The value of the key column at `at`, which must have one.
fn present(table: &TableSchema, at: usize, key: Option<Term>) -> Result<Term, Error> {
    key.ok_or_else(|| {
        let name = &table.columns[at].name;
        Error::Invalid(format!("Missing mandatory PRIMARY KEY part {name}"))
    })
}

/// Plans an `UPDATE`.
pub fn prepare_update(
    schema: &Schema,
    entry: &Rc<TableEntry>,
    update: &ast::Update,
    markers: &mut Markers,
) -> Result<ModifyPlan, Error> {
    let table = &*entry.schema;
    check_writable(entry)?;
    markers.enter(table);
    let mut preparer = preparer(schema, table, markers);
    let using = UsingPlan::prepare(&update.using, &mut preparer)?;
    let (mut statics, mut regulars) = (Vec::new(), Vec::new());
    let conditional = update.condition != ast::Condition::None;
    for assignment in &update.assignments {
        let column = named(table, assignment.target.column())?;
        let operations = match column.kind {
            ColumnKind::Static => &mut statics,
            ColumnKind::Regular => &mut regulars,
            _ => {
                let text = format!("PRIMARY KEY part {} found in SET part", column.name);
                return Err(Error::Invalid(text));
            }
        };
        operations.push(Operation::assign(column, assignment, conditional, &mut preparer)?);
    }
    if table.is_counter() {
        check_counter_using(&using)?;
    }
    let restrictions = restrict(table, &update.filter, "UPDATE", &mut preparer)?;
    let clustering = restrictions.clustering;
    let partition = key_values(restrictions.partition)?;
    let mut inputs = Inputs::default();
    let condition = prepare_condition(table, &update.condition, &mut inputs, &mut preparer)?;
    if regulars.is_empty() {
        check_statics(table, &clustering, condition.as_ref(), "UPDATE")?;
    } else {
        check_whole_key(table, &clustering, "UPDATE")?;
    }
    let parts = Parts { partition, clustering, statics, regulars, whole: Whole::Nothing, using };
    finish(entry, parts, condition, inputs, Verb::Update)
}

/// Plans a `DELETE`.
pub fn prepare_delete(
    schema: &Schema,
    entry: &Rc<TableEntry>,
    delete: &ast::Delete,
    markers: &mut Markers,
) -> Result<ModifyPlan, Error> {
    let table = &*entry.schema;
    check_writable(entry)?;
    markers.enter(table);
    let mut preparer = preparer(schema, table, markers);
    let (mut statics, mut regulars) = (Vec::new(), Vec::new());
    for path in &delete.columns {
        let column = named(table, path.column())?;
        let operations = match column.kind {
            ColumnKind::Static => &mut statics,
            ColumnKind::Regular => &mut regulars,
            _ => {
                return Err(Error::Invalid(format!(
                    "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                    path_name(path)
                )));
            }
        };
        operations.push(Operation::delete(column, path, &mut preparer)?);
    }
    let using = UsingPlan::prepare(&delete.using, &mut preparer)?;
    if using.ttl.is_some() {
        return Err(Error::invalid("TTL attribute is not allowed for DELETE statements"));
    }
    if table.is_counter() {
        check_counter_using(&using)?;
    }
    let restrictions = restrict(table, &delete.filter, "DELETE", &mut preparer)?;
    let clustering = restrictions.clustering;
    let whole = if delete.columns.is_empty() { Whole::Delete } else { Whole::Nothing };
    if !regulars.is_empty() {
        if clustering.has_slice() {
            return Err(Error::invalid("Range deletions are not supported for specific columns"));
        }
        check_whole_key(table, &clustering, "DELETE")?;
    }
    let partition = key_values(restrictions.partition)?;
    let mut inputs = Inputs::default();
    let condition = prepare_condition(table, &delete.condition, &mut inputs, &mut preparer)?;
    if regulars.is_empty() && !statics.is_empty() {
        check_statics(table, &clustering, condition.as_ref(), "DELETE")?;
    }
    if condition.is_some() && whole == Whole::Delete && !clustering.names_rows(table) {
        return Err(Error::invalid(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
             order to delete non static columns",
        ));
    }
    let parts = Parts { partition, clustering, statics, regulars, whole, using };
    let plan = finish(entry, parts, condition, inputs, Verb::Delete)?;
    Ok(ModifyPlan { is_guarded: plan.is_guarded && !delete.bypass_large_data_guardrails, ..plan })
}

/// A column that a write names outside of its conditions.
fn named<'t>(table: &'t TableSchema, name: &ast::Name) -> Result<&'t Column, Error> {
    let unknown = || Error::Invalid(format!("Unknown identifier {}", name.text));
    table.column(&name.text).ok_or_else(unknown)
}

fn path_name(path: &ColumnPath) -> &str {
    &path.column().text
}

fn check_counter_using(using: &UsingPlan) -> Result<(), Error> {
    if using.timestamp.is_some() {
        return Err(Error::invalid("Cannot provide custom timestamp for counter updates"));
    }
    if using.ttl.is_some() {
        return Err(Error::invalid("Cannot provide custom TTL for counter updates"));
    }
    Ok(())
}

fn restrict(
    table: &TableSchema,
    relations: &[Relation],
    statement: &str,
    preparer: &mut Preparer<'_>,
) -> Result<Restrictions, Error> {
    for relation in relations {
        let operator = match relation.test {
            ast::Test::Contains(_) => "CONTAINS",
            ast::Test::ContainsKey(_) => "CONTAINS KEY",
            ast::Test::Like(_) => "LIKE",
            _ => continue,
        };
        let column = match &relation.subject {
            ast::Subject::Path(path) => table.column(path_name(path)),
            _ => None,
        };
        return Err(Error::Invalid(match column.filter(|column| !column.ty.is_collection()) {
            Some(column) if operator != "LIKE" => {
                format!("Cannot use {operator} on non-collection column {}", column.name)
            }
            _ => format!("Cannot use {statement} with {operator}"),
        }));
    }
    let mut inputs = Inputs::default();
    let restrictions = analyze(table, relations, Purpose::Modify, preparer, &mut inputs)?;
    restrictions.refuse_filters(table, relations)?;
    Ok(restrictions)
}

fn key_values(partition: PartitionPlan) -> Result<Vec<KeyValue>, Error> {
    match partition {
        PartitionPlan::Keys(values) => Ok(values),
        _ => Err(Error::invalid("The partition key is not restricted")),
    }
}

fn check_whole_key(
    table: &TableSchema,
    clustering: &ClusteringPlan,
    statement: &str,
) -> Result<(), Error> {
    if clustering.names_rows(table) {
        return Ok(());
    }
    if table.has_short_keys() && !clustering.has_slice() && 0 < clustering.fixed_count() {
        return Ok(());
    }
    if clustering.has_slice() {
        return Err(Error::Invalid(format!(
            "Slice restrictions are not supported on the clustering columns in {statement} \
             statements"
        )));
    }
    let missing = &table.clustering()[clustering.fixed_count()];
    Err(Error::Invalid(format!("Missing mandatory PRIMARY KEY part {}", missing.name)))
}

/// Refuses what a statement that changes static columns alone cannot say of rows: it names one
/// only for its condition.
fn check_statics(
    table: &TableSchema,
    clustering: &ClusteringPlan,
    condition: Option<&ConditionPlan>,
    statement: &str,
) -> Result<(), Error> {
    let on = condition.map(|condition| condition.on(table));
    match on {
        Some(On::Regular(column)) if !clustering.names_rows(table) => {
            let missing = &table.clustering()[clustering.fixed_count()].name;
            let column = table.column_by_id(column).map_or("", |column| &column.name);
            Err(Error::Invalid(match statement {
                "DELETE" => format!(
                    "DELETE statements must restrict all PRIMARY KEY columns with equality \
                     relations in order to use IF condition on column '{column}', but column \
                     '{missing}' is not restricted"
                ),
                _ => format!("Missing mandatory PRIMARY KEY part {missing}"),
            }))
        }
        Some(On::Regular(_)) => Ok(()),
        Some(On::Row) if clustering.names_rows(table) => Ok(()),
        _ if clustering.is_full() => Ok(()),
        _ => Err(Error::Invalid(format!(
            "Invalid restrictions on clustering columns since the {statement} statement modifies \
             only static columns"
        ))),
    }
}

/// What the three statements have in common.
struct Parts {
    partition: Vec<KeyValue>,
    clustering: ClusteringPlan,
    statics: Vec<Operation>,
    regulars: Vec<Operation>,
    whole: Whole,
    using: UsingPlan,
}

fn finish(
    table: &Rc<TableEntry>,
    parts: Parts,
    condition: Option<ConditionPlan>,
    mut inputs: Inputs,
    verb: Verb,
) -> Result<ModifyPlan, Error> {
    let Parts { partition, clustering, statics, regulars, whole, using } = parts;
    let (mut static_operations, mut row_operations) = (statics, regulars);
    for operations in [&mut static_operations, &mut row_operations] {
        operations.sort_by_key(|operation| operation.column);
        for pair in operations.windows(2) {
            if pair[0].column == pair[1].column && !pair[0].ty.is_multi_cell() {
                let text = format!("Multiple incompatible setting of column {}", pair[0].name);
                return Err(Error::Invalid(text));
            }
        }
    }
    if condition.is_some() {
        let conditional = if verb == Verb::Delete { "deletions" } else { "updates" };
        check_condition(table, &partition, &clustering, &using, conditional)?;
    }
    add_lists(&table.schema, static_operations.iter().chain(&row_operations), &mut inputs);
    let read = (condition.is_some() || 0 < inputs.count()).then_some(inputs);
    Ok(ModifyPlan {
        table: table.clone(),
        partition,
        clustering,
        static_operations,
        row_operations,
        whole,
        changes_counters: table.schema.is_counter() && whole != Whole::Delete,
        using,
        condition,
        read,
        is_guarded: table.schema.options.has_large_data_guardrails(),
        verb,
        of_system: Schema::is_system(&table.schema.keyspace),
    })
}

fn check_condition(
    table: &TableEntry,
    partition: &[KeyValue],
    clustering: &ClusteringPlan,
    using: &UsingPlan,
    conditional: &str,
) -> Result<(), Error> {
    if table.schema.is_counter() {
        return Err(Error::invalid("Conditional updates are not supported on counter tables"));
    }
    if using.timestamp.is_some() {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional updates"));
    }
    let refused = |what: &str| {
        Err(Error::Invalid(format!(
            "IN on the {what} is not supported with conditional {conditional}"
        )))
    };
    if partition.iter().any(|value| matches!(value, KeyValue::Many(_))) {
        return refused("partition key");
    }
    if clustering.has_in() {
        return refused("clustering key columns");
    }
    Ok(())
}
