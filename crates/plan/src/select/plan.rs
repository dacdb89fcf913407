//! The analysis of a `SELECT`: from the tree to a plan that only needs values.

use super::naming::name_of;
use super::project::Projection;
use crate::error::Error;
use crate::markers::{Markers, Receiver};
use crate::metadata::{ColumnSpec, ResultMetadata};
use crate::restrictions::{PartitionPlan, Purpose, Restrictions, analyze};
use crate::term::{Inputs, Preparer, Source, Term};
use cluster::{Schema, TableEntry};
use functions::Aggregate;
use model::{ColumnId, ColumnKind, TableSchema, Type};
use mutation::page::ColumnForm;
use std::rc::Rc;
use syntax::ast;
use syntax::ast::{Direction, Expr, ExprKind, OrderBy, Selection};

/// A `SELECT` ready to be executed.
#[derive(Debug)]
pub struct SelectPlan {
    pub table: Rc<TableEntry>,
    /// Where `table` shows what is stored of another one: that one.
    pub fragments_of: Option<Rc<TableEntry>>,
    pub restrictions: Restrictions,
    pub inputs: Inputs,
    /// What is read, static columns first, and of each the input that it is.
    pub columns: Vec<(ColumnId, ColumnForm)>,
    pub column_inputs: Vec<u16>,
    pub static_count: usize,
    /// The result's columns.
    pub outputs: Vec<Term>,
    /// The outputs are the regular columns read, in their order: rows are copied as they are.
    pub verbatim: bool,
    /// The outputs are columns as they are, and all that is read.
    pub projection: Option<Projection>,
    /// The same of what an index leads to.
    pub found: Option<FoundRows>,
    pub aggregates: Vec<(Aggregate, Option<Term>)>,
    pub grouping: Grouping,
    pub reversed: bool,
    pub ordered: bool,
    pub distinct: bool,
    pub limit: Option<Term>,
    pub per_partition_limit: Option<Term>,
    pub bypass_cache: bool,
    pub allow_filtering: bool,
    /// Reads partitions in their order through the cache, and filters nothing.
    pub is_plain: bool,
    /// Of a table that the node itself writes: its tombstones are mostly dropped tables.
    pub of_system: bool,
    pub timeout: Option<Term>,
    /// Whose timeout it has, where it does not say one itself.
    pub service_level: Option<String>,
    pub metadata: Rc<ResultMetadata>,
}

/// How rows that an index leads to become rows of the result: those whose column has a value that
/// the index was asked for, by columns as they are.
#[derive(Debug)]
pub struct FoundRows {
    pub projection: Projection,
    /// Its place among the regular columns that are read.
    pub column: usize,
}

/// Which rows make one row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each one.
    None,
    /// All.
    All,
    /// Those with equal values of so many partition key and clustering columns.
    By { partition: usize, clustering: usize },
}

/// Plans a `SELECT` from `table`.
pub fn prepare(
    schema: &Schema,
    table: &Rc<TableEntry>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<SelectPlan, Error> {
    let (entry, table) = (table.clone(), &*table.schema);
    refuse_unsupported(table, select)?;
    markers.enter(table);
    let mut inputs = Inputs::default();
    let mut aggregates = Vec::new();
    let (mut outputs, mut specs) =
        selection(schema, table, select, markers, &mut inputs, &mut aggregates)?;
    let selected = inputs.count();
    let mut preparer = preparer(schema, table, markers);
    let purpose = if select.allow_filtering { Purpose::SelectFiltering } else { Purpose::Select };
    let restrictions = analyze(table, &select.filter, purpose, &mut preparer, &mut inputs)?;
    let grouping = grouping(table, select, !aggregates.is_empty())?;
    let mut one = |expr: &Option<Expr>, name: &str, ty: &Type| {
        expr.as_ref().map(|expr| preparer.prepare(expr, Receiver { name, ty })).transpose()
    };
    let per_partition_limit = &select.per_partition_limit;
    let per_partition_limit = one(per_partition_limit, "[per_partition_limit]", &Type::Int)?;
    let limit = one(&select.limit, "[limit]", &Type::Int)?;
    let timeout = one(&select.using.timeout, "[timeout]", &Type::Duration)?;
    check_limits(select, grouping)?;
    let reversed = reversed(table, select, &restrictions)?;
    if select.distinct {
        check_distinct(table, (&inputs, selected), &restrictions)?;
    }
    if grouping != Grouping::None {
        outputs =
            outputs.into_iter().map(|term| first_of(term, &inputs, &mut aggregates)).collect();
    }
    if select.json {
        (outputs, specs) = as_json(table, outputs, specs);
    }
    let (columns, column_inputs, static_count) = columns_read(&inputs);
    let verbatim = is_verbatim(&inputs, &outputs, grouping) && restrictions.pass_all();
    let projection = Projection::of(&inputs, &column_inputs, &outputs, table.partition_key_count)
        .filter(|_| grouping == Grouping::None);
    let (projection, found) = projections(&restrictions, projection, &columns[static_count..]);
    Ok(SelectPlan {
        is_plain: is_plain(select, reversed, &restrictions),
        allow_filtering: select.allow_filtering,
        restrictions,
        inputs,
        columns,
        column_inputs,
        static_count,
        outputs,
        verbatim,
        projection,
        found,
        aggregates,
        grouping,
        reversed,
        ordered: !select.order_by.is_empty(),
        distinct: select.distinct,
        limit,
        per_partition_limit,
        bypass_cache: select.bypass_cache,
        of_system: matches!(&entry.schema.keyspace[..], "system" | "system_schema"),
        timeout,
        service_level: select.using.service_level.as_ref().map(|name| name.text.clone()),
        metadata: Rc::new(ResultMetadata::new(specs)),
        table: entry,
        fragments_of: None,
    })
}

/// Of all rows, or of those that an index leads to, if they need no look at terms; `columns`: the
/// regular ones that are read.
fn projections(
    restrictions: &Restrictions,
    projection: Option<Projection>,
    columns: &[(ColumnId, ColumnForm)],
) -> (Option<Projection>, Option<FoundRows>) {
    if restrictions.pass_all() {
        return (projection, None);
    }
    let looked_up = restrictions.looked_up.filter(|_| restrictions.filters.is_empty());
    let place = |id| columns.iter().position(|(column, _)| *column == id);
    let found = projection.zip(looked_up.and_then(place));
    (None, found.map(|(projection, column)| FoundRows { projection, column }))
}

/// Whether it is nothing out of the ordinary, which statistics count.
fn is_plain(select: &ast::Select, reversed: bool, restrictions: &Restrictions) -> bool {
    !select.bypass_cache
        && !select.allow_filtering
        && !reversed
        && restrictions.pass_all()
        && matches!(restrictions.partition, PartitionPlan::Keys(_))
}

impl SelectPlan {
    /// Whether rows have to pass filters.
    #[inline]
    pub fn is_filtered(&self) -> bool {
        !self.restrictions.filters.is_empty()
    }

    /// Whether token ranges are read, not partitions by their keys.
    #[inline]
    pub fn reads_ranges(&self) -> bool {
        let by_key = matches!(self.restrictions.partition, PartitionPlan::Keys(_));
        !by_key && self.restrictions.index.is_none()
    }

    /// Whether rows are read in reverse.
    #[inline]
    pub fn is_reversed(&self) -> bool {
        self.reversed
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

fn refuse_unsupported(table: &TableSchema, select: &ast::Select) -> Result<(), Error> {
    // There are no indexes that could answer these.
    let unindexed = "ANN ordering by vector requires the column to be indexed";
    match select.order_by.first() {
        Some(OrderBy::Nearest(column, _)) => {
            crate::restrictions::find(table, column)?;
            Err(Error::invalid(unindexed))
        }
        Some(OrderBy::Function(expr, _)) => Err(match &expr.kind {
            ExprKind::Call(call) if call.function.name.text == "ann" => Error::invalid(unindexed),
            ExprKind::Call(call) if call.function.name.text == "bm25" => {
                Error::invalid("No fulltext index found for ORDER BY BM25()")
            }
            _ => Error::invalid(
                "Only ANN() and BM25() are supported as scoring functions in ORDER BY",
            ),
        }),
        _ => Ok(()),
    }
}

fn selection(
    schema: &Schema,
    table: &TableSchema,
    select: &ast::Select,
    markers: &mut Markers,
    inputs: &mut Inputs,
    aggregates: &mut Vec<(Aggregate, Option<Term>)>,
) -> Result<(Vec<Term>, Vec<ColumnSpec>), Error> {
    let keyspace: Rc<str> = Rc::from(table.keyspace.as_str());
    let name: Rc<str> = Rc::from(table.name.as_str());
    let spec = |column: &str, ty: Type| ColumnSpec {
        keyspace: keyspace.clone(),
        table: name.clone(),
        name: Rc::from(column),
        ty,
    };
    let (mut outputs, mut specs) = (Vec::new(), Vec::new());
    let Selection::Items(items) = &select.selection else {
        for column in table.columns.iter().filter(|column| !table.is_hidden(column.id)) {
            let wanted = !select.distinct
                || matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static);
            if wanted {
                outputs.push(Term::Column(inputs.add(column, ColumnForm::Value)));
                specs.push(spec(&column.name, column.ty.clone()));
            }
        }
        return Ok((outputs, specs));
    };
    let mut preparer = preparer(schema, table, markers);
    preparer.row = Some(inputs);
    preparer.aggregates = Some(aggregates);
    for item in items {
        let (term, mut ty) = preparer.select(&item.expr)?;
        if let ExprKind::Column(column) = &preparer.without_needless_casts(&item.expr).kind
            && let Some(column) = table.column(&column.text)
        {
            ty = column.ty.clone();
        }
        outputs.push(term);
        let expr = preparer.without_needless_casts(&item.expr);
        let shown = item.alias.as_ref().map_or_else(|| name_of(expr), |a| a.text.clone());
        specs.push(spec(&shown, ty));
    }
    Ok((outputs, specs))
}

fn grouping(
    table: &TableSchema,
    select: &ast::Select,
    has_aggregates: bool,
) -> Result<Grouping, Error> {
    if select.group_by.is_empty() {
        return Ok(if has_aggregates { Grouping::All } else { Grouping::None });
    }
    let keys = &table.columns[..table.partition_key_count + table.clustering_count];
    let fixed = |name: &str| {
        select.filter.iter().any(|relation| match (&relation.subject, &relation.test) {
            (ast::Subject::Path(path), ast::Test::Compare(ast::Comparison::Equal, _)) => {
                path.column().text == name
            }
            _ => false,
        })
    };
    let mut at = 0;
    for expr in &select.group_by {
        let ExprKind::Column(name) = &expr.kind else {
            return Err(Error::invalid("GROUP BY functions are not supported yet"));
        };
        let column = crate::restrictions::find(table, name)?;
        if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            return Err(Error::Invalid(format!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                name.text
            )));
        }
        while keys.get(at).is_some_and(|key| key.name != name.text && fixed(&key.name)) {
            at += 1;
        }
        if keys.get(at).is_none_or(|key| key.name != name.text) {
            return Err(Error::Invalid(format!(
                "Group by currently only support groups of columns following their declared \
                 order in the PRIMARY KEY, got {}",
                name.text
            )));
        }
        at += 1;
    }
    if keys_left(at, table, &fixed) {
        return Err(Error::invalid(
            "Group by is not supported on only a part of the partition key",
        ));
    }
    if select.distinct && table.partition_key_count < at {
        return Err(Error::invalid(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
        ));
    }
    let partition = at.min(table.partition_key_count);
    Ok(Grouping::By { partition, clustering: at - partition })
}

/// Whether a column of the partition key is neither among the first `at` nor has one value.
fn keys_left(at: usize, table: &TableSchema, fixed: &impl Fn(&str) -> bool) -> bool {
    table.partition_key().iter().skip(at).any(|column| !fixed(&column.name))
}

fn check_limits(select: &ast::Select, grouping: Grouping) -> Result<(), Error> {
    if grouping == Grouping::All && select.per_partition_limit.is_some() {
        return Err(Error::invalid("PER PARTITION LIMIT is not allowed with aggregate queries."));
    }
    if select.distinct && select.per_partition_limit.is_some() {
        return Err(Error::invalid(
            "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries",
        ));
    }
    Ok(())
}

/// All outputs as one JSON object.
fn as_json(
    table: &TableSchema,
    outputs: Vec<Term>,
    specs: Vec<ColumnSpec>,
) -> (Vec<Term>, Vec<ColumnSpec>) {
    let columns: Vec<(String, Type)> =
        specs.into_iter().map(|spec| (spec.name.to_string(), spec.ty)).collect();
    let spec = ColumnSpec {
        keyspace: Rc::from(table.keyspace.as_str()),
        table: Rc::from(table.name.as_str()),
        name: Rc::from("[json]"),
        ty: Type::Text,
    };
    (vec![Term::JsonObject(columns.into(), outputs)], vec![spec])
}

/// Whether rows come in the opposite of the table's order.
fn reversed(
    table: &TableSchema,
    select: &ast::Select,
    restrictions: &Restrictions,
) -> Result<bool, Error> {
    if select.order_by.is_empty() {
        return Ok(false);
    }
    if restrictions.index.is_some() {
        return Err(Error::invalid("ORDER BY with 2ndary indexes is not supported."));
    }
    if !matches!(restrictions.partition, PartitionPlan::Keys(_)) {
        return Err(Error::invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ));
    }
    if select.distinct {
        return Err(Error::invalid("ORDER BY is not allowed with SELECT DISTINCT queries"));
    }
    let clustering = table.clustering();
    let fixed = restrictions.clustering.single_count();
    let mut at = 0;
    let mut reversed = None;
    for order in &select.order_by {
        let OrderBy::Column(name, direction) = order else { continue };
        let column = crate::restrictions::find(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return Err(Error::Invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY \
                 KEY, got {}",
                name.text
            )));
        }
        let position = column.position as usize;
        while at < position && at < fixed {
            at += 1;
        }
        if at < position {
            return Err(Error::Invalid(format!(
                "Unsupported order by relation - column {} doesn't have an ordering or EQ \
                 relation.",
                clustering[at].name
            )));
        }
        if at != position {
            return Err(Error::invalid(
                "Order by currently only supports the ordering of columns following their \
                 declared order in the PRIMARY KEY",
            ));
        }
        at += 1;
        let descending = *direction == Direction::Descending;
        let this = descending != clustering[position].reversed;
        if reversed.is_some_and(|before| before != this) {
            return Err(Error::invalid("Unsupported order by relation"));
        }
        reversed = Some(this);
    }
    Ok(reversed.unwrap_or(false))
}

/// `selected`: so many of the inputs are those of the selection, the others of conditions.
fn check_distinct(
    table: &TableSchema,
    (inputs, selected): (&Inputs, usize),
    restrictions: &Restrictions,
) -> Result<(), Error> {
    let of_rows = "SELECT DISTINCT with WHERE clause only supports restriction by partition key \
                   and/or static columns.";
    let mut key_columns = vec![false; table.partition_key_count];
    for (index, input) in inputs.iter().enumerate() {
        match input.source {
            Source::PartitionKey(position) => key_columns[position as usize] = true,
            Source::Static(_) => {}
            _ if selected <= index => return Err(Error::invalid(of_rows)),
            Source::Clustering(_) | Source::Regular(_) => {
                return Err(Error::invalid(
                    "SELECT DISTINCT queries must only request partition key columns and/or \
                     static columns",
                ));
            }
        }
    }
    if !restrictions.clustering.is_full() {
        return Err(Error::invalid(of_rows));
    }
    // Where partitions are named the answer says which ones anyway.
    let named = matches!(restrictions.partition, PartitionPlan::Keys(_));
    match key_columns.iter().position(|requested| !requested) {
        None => Ok(()),
        Some(_) if named => Ok(()),
        Some(missing) => Err(Error::Invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            table.columns[missing].name
        ))),
    }
}

/// Beside aggregates a column is that of the group's first row.
fn first_of(term: Term, inputs: &Inputs, aggregates: &mut Vec<(Aggregate, Option<Term>)>) -> Term {
    match term {
        Term::Column(index) => {
            let ty = inputs.get(index).ty.clone();
            aggregates.push((Aggregate::First(ty), Some(Term::Column(index))));
            Term::Aggregate((aggregates.len() - 1) as u16)
        }
        Term::Attribute(..) => {
            aggregates.push((Aggregate::First(Type::BigInt), Some(term)));
            Term::Aggregate((aggregates.len() - 1) as u16)
        }
        Term::Call(function, arguments) => {
            let arguments = arguments.into_iter().map(|a| first_of(a, inputs, aggregates));
            Term::Call(function, arguments.collect())
        }
        Term::Parts(ty, parts) => {
            let parts = parts.into_iter().map(|part| first_of(part, inputs, aggregates));
            Term::Parts(ty, parts.collect())
        }
        Term::Field(inner, index) => {
            Term::Field(Box::new(first_of(*inner, inputs, aggregates)), index)
        }
        Term::Element(inner, ty, key) => {
            Term::Element(Box::new(first_of(*inner, inputs, aggregates)), ty, key)
        }
        other => other,
    }
}

/// The columns to be read, static ones first, each with its input.
pub fn columns_read(inputs: &Inputs) -> (Vec<(ColumnId, ColumnForm)>, Vec<u16>, usize) {
    let (mut statics, mut regulars) = (Vec::new(), Vec::new());
    for (index, input) in inputs.iter().enumerate() {
        match input.source {
            Source::Static(id) => statics.push(((id, input.form), index as u16)),
            Source::Regular(id) => regulars.push(((id, input.form), index as u16)),
            Source::PartitionKey(_) | Source::Clustering(_) => {}
        }
    }
    let static_count = statics.len();
    statics.append(&mut regulars);
    let (columns, inputs) = statics.into_iter().unzip();
    (columns, inputs, static_count)
}

fn is_verbatim(inputs: &Inputs, outputs: &[Term], grouping: Grouping) -> bool {
    let in_order = |(index, term): (usize, &Term)| match term {
        Term::Column(input) => *input as usize == index,
        _ => false,
    };
    let plain =
        |form, source: &Source| form == ColumnForm::Value && matches!(source, Source::Regular(_));
    grouping == Grouping::None
        && inputs.count() == outputs.len()
        && outputs.iter().enumerate().all(in_order)
        && inputs.iter().all(|input| plain(input.form, &input.source))
}
