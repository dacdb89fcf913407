//! A statement analysed against one version of the schema.

use crate::access::{self, needs};
use crate::batch::{self, BatchPlan};
use crate::error::CqlError;
use crate::fragments;
use crate::markers::{self, Markers, Variables};
use crate::modify::{ModifyPlan, prepare_delete, prepare_insert, prepare_update};
use crate::options::Options;
use crate::parameters::{Value, Values};
use crate::paxos_state;
use crate::response::{BindMetadata, ResultMetadata};
use crate::select::{self, SelectPlan, ValuesPlan};
use crate::term::{Preparer, Receiver, Term};
use cluster::{Cluster, Schema, TableEntry};
use model::{TableSchema, Type, Uuid};
use replication::{Consistency, WriteKind};
use runtime::task::yield_if_needed;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use syntax::ast;

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Plan {
    Select(Box<SelectPlan>),
    Values(Box<ValuesPlan>),
    Modify(Box<ModifyPlan>),
    Batch(Box<BatchPlan>),
    /// With its `USING TIMEOUT`.
    Truncate(Rc<TableEntry>, Option<Term>),
    Use(Rc<str>),
    /// With the marker of its `USING TIMESTAMP`, if it has one.
    Schema(Box<ast::SchemaStatement>, Option<Term>),
    Describe(Box<ast::Describe>),
    /// About roles, grants or service levels.
    Access(Box<ast::AccessStatement>),
}

/// An analysed statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: Rc<str>,
    /// Of names without one.
    pub(crate) keyspace: Option<Rc<str>>,
    /// Of the schema.
    pub(crate) version: Uuid,
    pub(crate) plan: Plan,
    pub(crate) bind: Rc<BindMetadata>,
    /// Whether it calls users' functions or aggregates.
    pub(crate) calls_users: bool,
    dialect: Dialect,
    /// Unlike that of any other analysed statement of this process.
    pub(crate) number: u64,
    /// The permissions that it needs, as far as these do not depend on the session.
    pub(crate) needs: Vec<auth::Need>,
    /// Whether it writes into the tables of roles and grants.
    pub(crate) writes_access: bool,
    /// Whether it reads or writes tables that are not the system's.
    pub(crate) is_load: bool,
}

/// The number of the next statement.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// What an analysis depends on besides text and schema: two that differ in it may bind
/// differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) one_variable_per_name: bool,
    pub(crate) uppercase_operators: bool,
}

impl Dialect {
    /// As currently configured.
    pub(crate) fn of(options: &Options) -> Dialect {
        Dialect {
            one_variable_per_name: options
                .cql_duplicate_bind_variable_names_refer_to_same_variable
                .get(),
            uppercase_operators: options.cql_in_bind_variable_name_uses_uppercase_operator.get(),
        }
    }
}

/// All that a text says by itself; of a long one it is found aside.
#[derive(Debug)]
pub(crate) struct Draft {
    statement: ast::Statement,
    variables: Variables,
    dialect: Dialect,
}

impl Draft {
    /// What `text` says in that dialect.
    pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Draft, CqlError> {
        let parsed = syntax::parse(text)?;
        let variables = Variables::new(parsed.markers, dialect.one_variable_per_name)?;
        Ok(Draft { statement: parsed.statement, variables, dialect })
    }
}

impl Statement {
    /// Parses and analyses `text`.
    pub(crate) fn analyze(
        schema: &Schema,
        text: &str,
        keyspace: Option<&str>,
        options: &Rc<Options>,
    ) -> Result<Statement, CqlError> {
        let draft = Draft::parse(text, Dialect::of(options))?;
        Statement::of(schema, (text, draft), keyspace, options)
    }

    /// Analyses what `text` was parsed as.
    pub(crate) fn of(
        schema: &Schema,
        (text, draft): (&str, Draft),
        keyspace: Option<&str>,
        options: &Rc<Options>,
    ) -> Result<Statement, CqlError> {
        let mut markers = Markers::new(draft.variables, draft.dialect, options.clone());
        let plan = plan(schema, keyspace, &draft.statement, &mut markers)?;
        Statement::finish(schema, text, keyspace, plan, markers)
    }

    /// The same of a long text: others have their turn between the statements of a batch, and
    /// before the tree is freed, which may be large.
    pub(crate) async fn in_steps(
        schema: &Schema,
        (text, draft): (&str, Draft),
        keyspace: Option<&str>,
        options: &Rc<Options>,
    ) -> Result<Statement, CqlError> {
        let mut markers = Markers::new(draft.variables, draft.dialect, options.clone());
        let plan = match draft.statement {
            ast::Statement::Batch(batch) => {
                let mut plan = BatchPlan::begin(schema, keyspace, &batch, &mut markers)?;
                for statement in batch.statements {
                    plan.add(schema, keyspace, &statement, &mut markers)?;
                    drop(statement);
                    yield_if_needed().await;
                }
                (Plan::Batch(Box::new(plan.finish()?)), 0)
            }
            statement => {
                let plan = plan(schema, keyspace, &statement, &mut markers)?;
                yield_if_needed().await;
                drop(statement);
                plan
            }
        };
        yield_if_needed().await;
        Statement::finish(schema, text, keyspace, plan, markers)
    }

    fn finish(
        schema: &Schema,
        text: &str,
        keyspace: Option<&str>,
        (plan, key_count): (Plan, usize),
        markers: Markers,
    ) -> Result<Statement, CqlError> {
        Ok(Statement {
            text: Rc::from(text),
            keyspace: keyspace.map(Rc::from),
            version: schema.version,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            needs: needs::of_plan(schema, &plan, &markers.called),
            writes_access: needs::writes_access(&plan),
            is_load: needs::is_load(&plan),
            plan,
            calls_users: !markers.called.is_empty(),
            dialect: markers.dialect(),
            bind: Rc::new(markers.finish(key_count)?),
        })
    }

    /// As which it was analysed.
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The error of a statement that has no time.
    pub(crate) fn timed_out(&self, consistency: Consistency) -> CqlError {
        let kind = match &self.plan {
            Plan::Modify(plan) if plan.is_conditional() => WriteKind::Cas,
            Plan::Batch(_) => WriteKind::Batch,
            Plan::Truncate(table, _) => {
                let TableSchema { keyspace, name, .. } = &*table.schema;
                return CqlError::Truncate(format!(
                    "Error during truncate: Timeout during TRUNCATE TABLE of {keyspace}.{name}"
                ));
            }
            Plan::Modify(_) => WriteKind::Simple,
            _ => {
                let (received, required, data_present) = (0, 1, false);
                return CqlError::ReadTimeout { consistency, received, required, data_present };
            }
        };
        CqlError::WriteTimeout { consistency, received: 0, required: 1, kind }
    }

    /// The columns of its result.
    pub(crate) fn result(&self) -> Option<Rc<ResultMetadata>> {
        match &self.plan {
            Plan::Select(plan) => Some(plan.metadata.clone()),
            Plan::Values(plan) => Some(plan.metadata().clone()),
            Plan::Modify(plan) => plan.result().cloned(),
            Plan::Batch(plan) => plan.result.clone(),
            Plan::Access(statement) => access::columns(statement),
            _ => None,
        }
    }

    /// What it is about, as traces tell it.
    pub(crate) fn subject(&self) -> String {
        let of = |what: &str, table: &TableEntry| {
            format!("{what} {}.{}", table.schema.keyspace, table.schema.name)
        };
        match &self.plan {
            Plan::Select(plan) => of("reading of", &plan.table),
            Plan::Modify(plan) => of("writing to", &plan.table),
            Plan::Truncate(table, ..) => of("truncating", table),
            Plan::Batch(plan) => format!("a batch of {} statements", plan.statements.len()),
            Plan::Values(_) => "a selection of no table".to_owned(),
            Plan::Use(keyspace) => format!("use of {keyspace}"),
            Plan::Schema(..) => "a change of the schema".to_owned(),
            Plan::Describe(_) => "a description".to_owned(),
            Plan::Access(_) => "a statement about roles, grants or service levels".to_owned(),
        }
    }

    /// Calls `each` with the tables that it reads or writes.
    pub(crate) fn each_table(&self, each: &mut dyn FnMut(&TableSchema)) {
        match &self.plan {
            Plan::Select(plan) => each(&plan.fragments_of.as_ref().unwrap_or(&plan.table).schema),
            Plan::Modify(plan) => each(&plan.table.schema),
            Plan::Truncate(table, ..) => each(&table.schema),
            Plan::Batch(plan) => plan.statements.iter().for_each(|it| each(&it.table.schema)),
            Plan::Values(_)
            | Plan::Use(_)
            | Plan::Schema(..)
            | Plan::Describe(_)
            | Plan::Access(_) => {}
        }
    }

    /// Whether it says `IF`.
    pub(crate) fn is_conditional(&self) -> bool {
        match &self.plan {
            Plan::Modify(plan) => plan.is_conditional(),
            Plan::Batch(plan) => plan.statements.iter().any(ModifyPlan::is_conditional),
            _ => false,
        }
    }

    /// The write that it is, or that is part of it.
    pub(crate) fn modification(&self, part: Option<usize>) -> Result<&ModifyPlan, CqlError> {
        let found = match (&self.plan, part) {
            (Plan::Modify(plan), None) => Some(&**plan),
            (Plan::Batch(plan), Some(part)) => plan.statements.get(part),
            _ => None,
        };
        found.ok_or_else(|| {
            CqlError::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are \
                 allowed.",
            )
        })
    }

    /// The values in the order of the variables; their number is checked.
    pub(crate) fn values<'a>(&self, values: &Values<'a>) -> Result<Cow<'a, [Value<'a>]>, CqlError> {
        match values {
            Values::Positional(values) => {
                let expected = self.bind.count();
                if values.len() != expected {
                    return Err(CqlError::Invalid(format!(
                        "Invalid amount of bind variables: expected {expected} got {}",
                        values.len()
                    )));
                }
                Ok(Cow::Borrowed(values))
            }
            Values::Named(values) => Ok(Cow::Owned(markers::order(&self.bind, values)?)),
        }
    }

    /// Its `USING TIMEOUT`.
    pub(crate) fn timeout(&self) -> Option<&Term> {
        match &self.plan {
            Plan::Select(plan) => plan.timeout.as_ref(),
            Plan::Values(plan) => plan.timeout(),
            Plan::Truncate(_, timeout) => timeout.as_ref(),
            Plan::Modify(plan) => plan.using.timeout.as_ref(),
            Plan::Batch(plan) => plan.using.timeout.as_ref(),
            _ => None,
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn size_bytes(&self) -> usize {
        // A plan is some structures per column and marker; the text is a fair measure of those.
        1024 + self.text.len() * 8 + self.bind.count() * 128
    }
}

fn plan(
    schema: &Schema,
    keyspace: Option<&str>,
    statement: &ast::Statement,
    markers: &mut Markers,
) -> Result<(Plan, usize), CqlError> {
    let of_table = |entry: &Rc<TableEntry>| entry.schema.partition_key_count;
    Ok(match statement {
        ast::Statement::Select(select) => plan_select(schema, keyspace, select, markers)?,
        ast::Statement::Insert(insert) => {
            let entry = table(schema, keyspace, &insert.table)?;
            let plan = prepare_insert(schema, entry, insert, markers)?;
            (Plan::Modify(Box::new(plan)), of_table(entry))
        }
        ast::Statement::Update(update) => {
            let entry = table(schema, keyspace, &update.table)?;
            let plan = prepare_update(schema, entry, update, markers)?;
            (Plan::Modify(Box::new(plan)), of_table(entry))
        }
        ast::Statement::Delete(delete) => {
            let entry = table(schema, keyspace, &delete.table)?;
            let plan = prepare_delete(schema, entry, delete, markers)?;
            (Plan::Modify(Box::new(plan)), of_table(entry))
        }
        ast::Statement::Batch(statement) => {
            (Plan::Batch(Box::new(batch::prepare(schema, keyspace, statement, markers)?)), 0)
        }
        ast::Statement::Truncate(truncate) => {
            let table = table(schema, keyspace, &truncate.table)?;
            refuse_writes_of_system(table)?;
            markers.enter(&table.schema);
            let timeout = truncate.using.timeout.as_ref();
            let timeout = timeout.map(|expr| {
                let keyspace = &table.schema.keyspace;
                let mut preparer = Preparer {
                    schema,
                    keyspace,
                    table: None,
                    markers,
                    row: None,
                    aggregates: None,
                };
                preparer.prepare(expr, Receiver { name: "[timeout]", ty: &Type::Duration })
            });
            (Plan::Truncate(table.clone(), timeout.transpose()?), 0)
        }
        ast::Statement::Use(name) => (Plan::Use(Rc::from(name.text.as_str())), 0),
        ast::Statement::Schema(statement) => {
            let timestamp = dropped_at(schema, statement, markers)?;
            (Plan::Schema(statement.clone(), timestamp), 0)
        }
        ast::Statement::Describe(statement) => (Plan::Describe(statement.clone()), 0),
        ast::Statement::PruneView(_) => {
            return Err(CqlError::invalid("Materialized views are not supported yet"));
        }
        ast::Statement::Access(statement) => (Plan::Access(statement.clone()), 0),
    })
}

fn plan_select(
    schema: &Schema,
    keyspace: Option<&str>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<(Plan, usize), CqlError> {
    let Some(source) = &select.from else {
        let plan = select::prepare_values(schema, keyspace, select, markers)?;
        return Ok((Plan::Values(Box::new(plan)), 0));
    };
    if let Some(base) = paxos_state::base_of(schema, keyspace, source.table())
        && matches!(source, ast::Source::Table(_))
    {
        let select = paxos_state::select(&base.schema, select);
        return plan_select(schema, None, &select, markers);
    }
    let entry = table(schema, keyspace, source.table())?;
    let plan = match source {
        ast::Source::Table(_) => select::prepare(schema, entry, select, markers)?,
        ast::Source::MutationFragments(_) => fragments::prepare(schema, entry, select, markers)?,
    };
    Ok((Plan::Select(Box::new(plan)), entry.schema.partition_key_count))
}

/// The marker in `ALTER TABLE .. DROP .. USING TIMESTAMP ?`; the only one that there may be.
fn dropped_at(
    schema: &Schema,
    statement: &ast::SchemaStatement,
    markers: &mut Markers,
) -> Result<Option<Term>, CqlError> {
    if matches!(statement, ast::SchemaStatement::CreateView(_)) && !markers.is_empty() {
        return Err(CqlError::invalid(
            "Cannot use query parameters in CREATE MATERIALIZED VIEW statements",
        ));
    }
    let ast::SchemaStatement::AlterTable(alter) = statement else { return Ok(None) };
    let ast::AlterTableAction::Drop { timestamp: Some(expr), .. } = &alter.action else {
        return Ok(None);
    };
    if matches!(expr.kind, ast::ExprKind::Literal(_)) {
        return Ok(None);
    }
    let keyspace = alter.name.keyspace.as_ref().map_or("", |name| name.text.as_str());
    let mut preparer =
        Preparer { schema, keyspace, table: None, markers, row: None, aggregates: None };
    let receiver = Receiver { name: "[timestamp]", ty: &Type::BigInt };
    preparer.prepare(expr, receiver).map(Some)
}

/// The table that a name names.
pub(crate) fn table<'s>(
    schema: &'s Schema,
    keyspace: Option<&str>,
    name: &ast::QualifiedName,
) -> Result<&'s Rc<TableEntry>, CqlError> {
    let keyspace = match (&name.keyspace, keyspace) {
        (Some(name), _) => &name.text,
        (None, Some(keyspace)) => keyspace,
        (None, None) => {
            return Err(CqlError::invalid(
                "No keyspace has been specified. USE a keyspace, or explicitly specify \
                 keyspace.tablename",
            ));
        }
    };
    if schema.keyspace(keyspace).is_none() {
        return Err(CqlError::Invalid(format!("Keyspace '{keyspace}' does not exist")));
    }
    let unknown = || CqlError::Invalid(format!("unconfigured table {}", name.name.text));
    schema.table(keyspace, &name.name.text).ok_or_else(unknown)
}

/// An error for the tables that the node itself lives by: what clients could write into them would
/// be believed at the next start.
pub(crate) fn refuse_writes_of_system(table: &TableEntry) -> Result<(), CqlError> {
    match table.schema.keyspace.as_str() {
        // Superusers may: who executes it asks.
        _ if Cluster::is_access_table(&table.schema) => Ok(()),
        keyspace @ ("system" | "system_schema") => {
            Err(CqlError::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")))
        }
        _ => Ok(()),
    }
}
