//! What a write that depends on what is there does, on the shard that owns the partition.
//!
//! A plan belongs to a shard. What travels is the statement's text and its values; the owner finds
//! the plan in its own cache, or makes it.
//!
//! Invariants
//!  - *metadata-fits-rows*: a row of a result has a value for each column that its metadata names.
//!    The shard of the connection makes the metadata, the owner the rows: the columns travel with
//!    the statements, and one that the owner does not know any more is null.

use super::build::{Write, add_to};
use super::guardrails::{check_sizes, tell_exceeded};
use super::present::{ReadPlan, Step};
use super::view_keys::check_view_keys;
use crate::error::CqlError;
use crate::parameters::Parameters;
use crate::processor::Processor;
use crate::request::{Request, Warnings};
use crate::response::{Response, ResponseKind, Rows};
use crate::session::BatchForm;
use cluster::Traffic;
use functions::Calls;
use model::ColumnId;
use mutation::page::ReadCommand;
use mutation::{FrozenMutation, MutationBuilder};
use plan::Statement;
use plan::metadata::ResultMetadata;
use plan::values::Value;
use replication::{Consistency, Owner, Proposed, Round};
use std::rc::Rc;
use stdx::Put;

/// A write on its way to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedStatement {
    pub(super) text: String,
    pub(super) keyspace: Option<String>,
    /// Which one of a batch.
    pub(super) part: Option<usize>,
    pub(super) values: Vec<OwnedValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnedValue {
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

/// How writes that depend on what is there have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Of conditional writes: the rows of the result.
    pub(crate) body: Vec<u8>,
    pub(crate) row_count: u32,
    /// Whether these rows are `[applied]` alone.
    pub(crate) is_bare: bool,
    pub(super) applied: bool,
    pub(super) warnings: Vec<String>,
}

impl Outcome {
    /// Of conditional writes: `[applied]` with each of these rows, or alone.
    fn of_rows(applied: bool, rows: &[Vec<u8>]) -> Outcome {
        let mut body = Vec::new();
        let is_bare = rows.is_empty();
        let bare = Vec::new();
        for row in if is_bare { std::slice::from_ref(&bare) } else { rows } {
            body.put_i32(1);
            body.put_u8(applied.into());
            body.put(row);
        }
        let row_count = rows.len().max(1) as u32;
        Outcome { body, row_count, is_bare, applied, warnings: Vec::new() }
    }

    /// The answer to the client; `None`: nothing was conditional.
    pub(crate) fn answer(self, metadata: Option<Rc<ResultMetadata>>) -> Response {
        let Some(metadata) = metadata else { return Response::VOID };
        let Outcome { body, row_count, .. } = self;
        let rows = Rows { metadata, row_count, body, paging_state: None };
        Response::of(ResponseKind::Rows(rows))
    }
}

/// What the result of conditional writes shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The columns that the metadata names after `[applied]`, in their order; `None`: null.
    pub(crate) columns: Vec<Option<ColumnId>>,
    pub(crate) form: BatchForm,
}

impl Shown {
    /// Of each statement these columns.
    pub(crate) fn of_statements(columns: &[ColumnId]) -> Shown {
        let columns = columns.iter().copied().map(Some).collect();
        Shown { columns, form: BatchForm::Scylla }
    }
}

/// Writes of one partition, on the shard that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) key: Vec<u8>,
    pub(super) statements: Vec<OwnedStatement>,
    /// The columns of the result come from where its metadata does, so that every row has a value
    /// for each, whatever this shard's plan or schema says (*metadata-fits-rows*).
    pub(super) shown: Option<Shown>,
    pub(super) consistency: Consistency,
    pub(super) now_secs: Option<i32>,
    /// Of writes that are not conditional.
    pub(super) timestamp: i64,
}

impl Work {
    pub(super) async fn run(self, owner: Owner) -> Result<Outcome, CqlError> {
        let stops = || CqlError::Overloaded("the node stops".to_owned());
        let processor = runtime::local::try_get::<Processor>().ok_or_else(stops)?;
        let plain = Parameters::plain(self.consistency);
        let parameters = Parameters { now_secs: self.now_secs, ..plain };
        let warnings = Warnings::default();
        let now_micros = runtime::time::wall_micros();
        let mut analysed = Vec::with_capacity(self.statements.len());
        for owned in &self.statements {
            let statement = processor.statement(&owned.text, owned.keyspace.as_deref()).await?;
            analysed.push((statement, owned.part, owned.values()));
        }
        let calls = Calls::default();
        let called = analysed.iter().any(|(statement, ..)| statement.calls_users);
        let calls = called.then_some(&calls);
        let mut steps = Vec::with_capacity(analysed.len());
        for (statement, part, values) in &analysed {
            let plan = statement.modification(*part)?;
            let request = processor.request(values, &parameters, &warnings, now_micros);
            let request = Request { calls, ..request };
            steps.push(Step { plan, request });
        }
        let mut outcome = self.execute(&processor, &owner, &steps).await?;
        outcome.warnings = warnings.take();
        Ok(outcome)
    }

    async fn execute(
        &self,
        processor: &Processor,
        owner: &Owner,
        steps: &[Step<'_>],
    ) -> Result<Outcome, CqlError> {
        let table = owner.schema().clone();
        let conditional = self.shown.is_some();
        debug_assert_eq!(conditional, steps.iter().any(|step| step.plan.is_conditional()));
        let shown = self.shown.as_ref().map_or(&[][..], |shown| &shown.columns);
        let read = ReadPlan::new(&table, steps, shown);
        let Some(Step { request, .. }) = steps.first() else { return Ok(Outcome::default()) };
        let command = request.step(|_| read.command(&table, &self.key, steps)).await?;
        loop {
            let round = match conditional {
                true => Some(owner.begin(processor.timestamp()).await?),
                false => None,
            };
            let judged = self.judge(owner, steps, &read, &command, round.as_ref()).await?;
            let (outcome, mutation) = judged;
            let proposed = match (round, mutation) {
                (Some(round), Some(mutation)) => {
                    owner.propose(round, mutation, self.consistency).await?
                }
                (Some(round), None) => owner.finish(round).await?,
                (None, mutation) => {
                    if let Some(mutation) = mutation {
                        self.apply(owner, steps, mutation).await?;
                    }
                    Proposed::Chosen
                }
            };
            if proposed == Proposed::Chosen {
                let is_held = outcome.applied || !conditional;
                Traffic::of_shard().cas.condition_not_met.add((!is_held).into());
                return Ok(outcome);
            }
        }
    }

    /// What the partition has now, and what follows from it: the result, and what is to be written.
    async fn judge(
        &self,
        owner: &Owner,
        steps: &[Step<'_>],
        read: &ReadPlan,
        command: &ReadCommand,
        round: Option<&Round>,
    ) -> Result<(Outcome, Option<FrozenMutation>), CqlError> {
        let table = owner.schema();
        let Some(Step { request, .. }) = steps.first() else { return Ok(Default::default()) };
        let page = owner.read(command).await?;
        let (found, rows) = request.step(|_| read.judge(table, &page, steps)).await?;
        let applied = found.iter().all(|found| found.holds);
        let outcome = match self.shown.as_ref().map(|shown| shown.form) {
            None => Outcome::default(),
            Some(BatchForm::Scylla) => Outcome::of_rows(applied, &rows),
            Some(BatchForm::Cassandra) if applied => Outcome::of_rows(applied, &[]),
            Some(BatchForm::Cassandra) => {
                let page = match steps.iter().any(|step| step.plan.is_about_row()) {
                    true => page,
                    false => owner.read(&ReadPlan::first_row(command.clone())).await?,
                };
                let rows = request.step(|_| read.existing_rows(table, &page, steps)).await?;
                Outcome::of_rows(applied, &rows)
            }
        };
        if !applied {
            return Ok((outcome, None));
        }
        let timestamp = round.map_or(self.timestamp, Round::timestamp);
        let build = || {
            let mut builder = MutationBuilder::new(table, &self.key);
            for (Step { plan, request }, found) in steps.iter().zip(&found) {
                let write = Write::of(plan, request, timestamp)?;
                add_to(&mut builder, plan, &write, &found.existing)?;
            }
            Ok::<_, CqlError>((!builder.is_empty()).then(|| builder.freeze()))
        };
        let mutation = request.step(|_| build()).await?;
        if let (Some(mutation), Some(step)) = (&mutation, steps.first()) {
            check_view_keys(&step.plan.table, mutation)?;
        }
        if let Some(mutation) = &mutation
            && let Some(step) = steps.iter().find(|step| step.plan.is_guarded)
        {
            check_sizes(table, mutation, &step.request)?;
        }
        Ok((outcome, mutation))
    }

    /// Writes without a condition.
    async fn apply(
        &self,
        owner: &Owner,
        steps: &[Step<'_>],
        mutation: FrozenMutation,
    ) -> Result<(), CqlError> {
        debug_assert!(self.shown.is_none(), "a condition without a round");
        if let Some(step) = steps.iter().find(|step| step.plan.is_guarded) {
            tell_exceeded(owner.schema(), owner.check_sizes(&mutation)?, &step.request);
        }
        Ok(owner.apply(mutation).await?)
    }
}
