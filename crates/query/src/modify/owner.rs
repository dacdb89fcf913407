//! Writes that depend on what is there: executed on the shard that owns the partition, which runs
//! one of them at a time.
//!
//! A plan belongs to a shard. What travels is the statement's text and its values; the owner finds
//! the plan in its own cache, or makes it.

use super::build::{Existing, ListElements, Write, add_to};
use super::plan::ModifyPlan;
use crate::error::CqlError;
use crate::parameters::{Parameters, Value};
use crate::processor::Processor;
use crate::request::{Request, Warnings};
use crate::restrictions::Nulls;
use crate::select::RowCells;
use crate::statement::Statement;
use crate::term::RowCell;
use cluster::TableEntry;
use model::Token;
use mutation::MutationBuilder;
use mutation::page::{Page, PageView, Partitions, ReadCommand, SendRange};
use replication::{Consistency, Owner, WriteKind};
use std::rc::Rc;

/// A write on its way to its owner.
#[derive(Clone, Debug)]
pub(crate) struct OwnedStatement {
    text: String,
    keyspace: Option<String>,
    /// Which one of a batch.
    part: Option<usize>,
    values: Vec<OwnedValue>,
}

#[derive(Clone, Debug)]
enum OwnedValue {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl OwnedStatement {
    pub(crate) fn new(
        statement: &Statement,
        part: Option<usize>,
        values: &[Value<'_>],
    ) -> OwnedStatement {
        let owned = |value: &Value<'_>| match value {
            Value::Null => OwnedValue::Null,
            Value::Unset => OwnedValue::Unset,
            Value::Bytes(bytes) => OwnedValue::Bytes(bytes.to_vec()),
        };
        OwnedStatement {
            text: statement.text.to_string(),
            keyspace: statement.keyspace.as_deref().map(str::to_owned),
            part,
            values: values.iter().map(owned).collect(),
        }
    }

    fn values(&self) -> Vec<Value<'_>> {
        self.values
            .iter()
            .map(|value| match value {
                OwnedValue::Null => Value::Null,
                OwnedValue::Unset => Value::Unset,
                OwnedValue::Bytes(bytes) => Value::Bytes(bytes),
            })
            .collect()
    }
}

/// How a write that depends on its row has ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Of conditional writes: the row of the result.
    pub(crate) row: Option<Vec<u8>>,
    warnings: Vec<String>,
}

/// Executes writes of one partition on its owner: all of them, if all conditions hold.
pub(crate) async fn on_owner(
    table: &Rc<TableEntry>,
    key: Vec<u8>,
    statements: Vec<OwnedStatement>,
    request: &Request<'_>,
    timestamp: i64,
) -> Result<Outcome, CqlError> {
    let options = request.write_options(WriteKind::Cas);
    let (consistency, now_secs) = (request.parameters.consistency, request.parameters.now_secs);
    let token = Token::of(&key);
    let owned_key = key.clone();
    let change = move |owner: Owner| async move {
        run(owner, owned_key, statements, consistency, now_secs, timestamp).await
    };
    let mut outcome = request.coordinator.on_owner(table, token, &key, &options, change).await??;
    std::mem::take(&mut outcome.warnings).into_iter().for_each(|text| request.warn(text));
    Ok(outcome)
}

async fn run(
    owner: Owner,
    key: Vec<u8>,
    statements: Vec<OwnedStatement>,
    consistency: Consistency,
    now_secs: Option<i32>,
    timestamp: i64,
) -> Result<Outcome, CqlError> {
    let processor = runtime::local::get::<Processor>();
    let parameters = Parameters { now_secs, ..Parameters::plain(consistency) };
    let warnings = Warnings::default();
    let now_micros = runtime::time::wall_micros();
    let mut analysed = Vec::with_capacity(statements.len());
    for owned in &statements {
        let statement = processor.statement(&owned.text, owned.keyspace.as_deref())?;
        analysed.push((statement, owned.part, owned.values()));
    }
    let schema = owner.schema().clone();
    let mut builder = MutationBuilder::new(&schema, &key);
    let mut conditional = false;
    let mut outcome = Outcome { row: None, warnings: Vec::new() };
    let mut steps = Vec::with_capacity(analysed.len());
    for (statement, part, values) in &analysed {
        let plan = statement.modification(*part)?;
        let request = processor.request(values, &parameters, &warnings, now_micros);
        let page = match plan.read_command(&key, &request)? {
            Some(command) => owner.read(&command).await?,
            None => Page::default(),
        };
        conditional |= plan.is_conditional();
        let (existing, applied) = judge(plan, &page, &request, &mut outcome)?;
        if !applied {
            outcome.warnings = warnings.take();
            return Ok(outcome);
        }
        steps.push((plan, existing, request));
    }
    // Under the partition's lock: later than every conditional write before.
    let timestamp = if conditional { processor.timestamp() } else { timestamp };
    for (plan, existing, request) in &steps {
        let write = Write::of(plan, request, timestamp)?;
        add_to(&mut builder, plan, &write, existing)?;
    }
    if !builder.is_empty() {
        owner.apply(builder.freeze()).await?;
    }
    outcome.warnings = warnings.take();
    Ok(outcome)
}

/// What the row holds that the write needs, and whether its condition holds.
fn judge(
    plan: &ModifyPlan,
    page: &Page,
    request: &Request<'_>,
    outcome: &mut Outcome,
) -> Result<(Existing, bool), CqlError> {
    let Some(read) = &plan.read else { return Ok((Existing::default(), true)) };
    let layout = mutation::page::PageLayout::new(&read.columns, read.static_count);
    let view = PageView::trusted(&page.bytes, layout);
    let key_count = plan.table.schema.partition_key_count;
    let mut cells = RowCells::new(&read.inputs, &read.column_inputs, read.static_count, key_count);
    let partition = view.partitions().next();
    let mut row_exists = false;
    let mut any = false;
    if let Some(partition) = &partition {
        any = true;
        cells.partition(partition.key(), partition.statics());
        if let Some(row) = partition.rows().next() {
            row_exists = true;
            cells.row(row.clustering(), row.columns());
        }
    }
    let exists = if plan.clustering.names_rows(&plan.table.schema) { row_exists } else { any };
    let mut existing = Existing::default();
    for (input, column) in read.lists(&plan.table.schema) {
        if let Some(RowCell::Elements(_, view)) = cells.cells.get(input as usize) {
            let now = request.now_secs();
            let live = view.iter().filter(|(_, cell)| cell.is_live(now));
            let elements: ListElements = live
                .filter_map(|(path, cell)| Some((path.to_vec(), cell.value()?.to_vec())))
                .collect();
            existing.lists.push((column, elements));
        }
    }
    let Some(condition) = &plan.condition else { return Ok((existing, true)) };
    let env = request.env().with_row(&cells.cells);
    let applied = condition.holds(exists, &env)?;
    outcome.row = Some(condition.answer(applied, any, &env)?);
    Ok((existing, applied))
}

impl ModifyPlan {
    /// The read that comes before the write, if one does.
    fn read_command(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Option<ReadCommand>, CqlError> {
        let Some(read) = &self.read else { return Ok(None) };
        let schema = &self.table.schema;
        let ranges = if self.clustering.names_rows(schema) {
            self.clustering.ranges(schema, Nulls::Refused, &request.env())?
        } else {
            vec![SendRange::full()]
        };
        Ok(Some(ReadCommand {
            table: schema.id,
            partitions: Partitions::Key(key.to_vec()),
            ranges,
            reversed: false,
            columns: read.columns.clone(),
            static_count: read.static_count,
            row_limit: 1,
            per_partition_limit: u64::MAX,
            partition_limit: u64::MAX,
            bytes_max: usize::MAX,
            static_only_rows: true,
            tombstone_limit: u64::MAX,
            now: request.now_secs(),
            bypass_cache: false,
            resume: None,
        }))
    }
}
