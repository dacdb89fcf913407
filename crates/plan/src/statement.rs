//! A statement analysed against one version of the schema.

use crate::error::Error;
use crate::fragments;
use crate::listing;
use crate::markers::{self, Dialect, Markers, Receiver, Variables};
use crate::metadata::{BindMetadata, ResultMetadata};
use crate::modify::{
    BatchPlan, ModifyPlan, prepare_batch, prepare_delete, prepare_insert, prepare_update,
};
use crate::needs;
use crate::options::Options;
use crate::paxos_state;
use crate::plan::Plan;
use crate::prune;
use crate::select;
use crate::tables::{refuse_writes_of_system, table};
use crate::term::{Preparer, Term};
use crate::values::{Value, Values};
use cluster::{Schema, TableEntry};
use model::{TableSchema, Type, Uuid};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use syntax::ast;

/// An analysed statement.
#[derive(Debug)]
pub struct Statement {
    pub text: Rc<str>,
    /// Of names without one.
    pub keyspace: Option<Rc<str>>,
    /// Of the schema.
    pub version: Uuid,
    pub plan: Plan,
    pub bind: Rc<BindMetadata>,
    /// Whether it calls users' functions or aggregates.
    pub calls_users: bool,
    pub dialect: Dialect,
    /// Unlike that of any other analysed statement of this process.
    pub number: u64,
    /// The permissions that it needs, as far as these do not depend on the session.
    pub needs: Vec<auth::Need>,
    /// Whether it writes into the tables of roles and grants.
    pub writes_access: bool,
    /// Whether it reads or writes tables that are not the system's.
    pub is_load: bool,
}

/// The number of the next statement.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// All that a text says by itself; of a long one it is found aside.
#[derive(Debug)]
pub struct Draft {
    statement: ast::Statement,
    variables: Variables,
    dialect: Dialect,
}

impl Draft {
    /// What `text` says in that dialect.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Draft, Error> {
        let parsed = syntax::parse(text)?;
        let variables = Variables::new(parsed.markers, dialect.one_variable_per_name)?;
        Ok(Draft { statement: parsed.statement, variables, dialect })
    }
}

impl Statement {
    /// Parses and analyses `text`.
    pub fn analyze(
        schema: &Schema,
        text: &str,
        keyspace: Option<&str>,
        options: &Rc<Options>,
    ) -> Result<Statement, Error> {
        let draft = Draft::parse(text, Dialect::of(options))?;
        Statement::of(schema, (text, draft), keyspace, options)
    }

    /// Analyses what `text` was parsed as.
    pub fn of(
        schema: &Schema,
        (text, draft): (&str, Draft),
        keyspace: Option<&str>,
        options: &Rc<Options>,
    ) -> Result<Statement, Error> {
        let mut markers = Markers::new(draft.variables, draft.dialect, options.clone());
        let plan = plan(schema, keyspace, &draft.statement, &mut markers)?;
        Statement::finish(schema, text, keyspace, plan, markers)
    }

    fn finish(
        schema: &Schema,
        text: &str,
        keyspace: Option<&str>,
        (plan, key_count): (Plan, usize),
        markers: Markers,
    ) -> Result<Statement, Error> {
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

    /// The columns of its result.
    #[inline]
    pub fn result(&self) -> Option<Rc<ResultMetadata>> {
        match &self.plan {
            Plan::Select(plan) => Some(plan.metadata.clone()),
            Plan::Values(plan) => Some(plan.metadata().clone()),
            Plan::Modify(plan) => plan.result().cloned(),
            Plan::Batch(plan) => plan.result.clone(),
            Plan::Access(statement) => listing::columns(statement),
            _ => None,
        }
    }

    /// What it is about, as traces tell it.
    pub fn subject(&self) -> String {
        let of = |what: &str, table: &TableEntry| {
            format!("{what} {}.{}", table.schema.keyspace, table.schema.name)
        };
        match &self.plan {
            Plan::Select(plan) => of("reading of", &plan.table),
            Plan::Modify(plan) => of("writing to", &plan.table),
            Plan::Truncate(table, ..) => of("truncating", table),
            Plan::Prune(plan) => of("pruning", &plan.select.table),
            Plan::Batch(plan) => format!("a batch of {} statements", plan.statements.len()),
            Plan::Values(_) => "a selection of no table".to_owned(),
            Plan::Use(keyspace) => format!("use of {keyspace}"),
            Plan::Schema(..) => "a change of the schema".to_owned(),
            Plan::Describe(_) => "a description".to_owned(),
            Plan::Access(_) => "a statement about roles, grants or service levels".to_owned(),
        }
    }

    /// Calls `each` with the tables that it reads or writes.
    pub fn each_table(&self, each: &mut dyn FnMut(&TableSchema)) {
        match &self.plan {
            Plan::Select(plan) => each(&plan.fragments_of.as_ref().unwrap_or(&plan.table).schema),
            Plan::Modify(plan) => each(&plan.table.schema),
            Plan::Truncate(table, ..) => each(&table.schema),
            Plan::Prune(plan) => each(&plan.select.table.schema),
            Plan::Batch(plan) => plan.statements.iter().for_each(|it| each(&it.table.schema)),
            Plan::Values(_)
            | Plan::Use(_)
            | Plan::Schema(..)
            | Plan::Describe(_)
            | Plan::Access(_) => {}
        }
    }

    /// Whether it says `IF`.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        match &self.plan {
            Plan::Modify(plan) => plan.is_conditional(),
            Plan::Batch(plan) => plan.statements.iter().any(ModifyPlan::is_conditional),
            _ => false,
        }
    }

    /// The write that it is, or that is part of it.
    #[inline]
    pub fn modification(&self, part: Option<usize>) -> Result<&ModifyPlan, Error> {
        let found = match (&self.plan, part) {
            (Plan::Modify(plan), None) => Some(&**plan),
            (Plan::Batch(plan), Some(part)) => plan.statements.get(part),
            _ => None,
        };
        found.ok_or_else(|| {
            Error::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are \
                 allowed.",
            )
        })
    }

    /// The values in the order of the variables; their number is checked.
    #[inline]
    pub fn values<'a>(&self, values: &Values<'a>) -> Result<Cow<'a, [Value<'a>]>, Error> {
        match values {
            Values::Positional(values) => {
                let expected = self.bind.count();
                if values.len() != expected {
                    return Err(Error::Invalid(format!(
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
    #[inline]
    pub fn timeout(&self) -> Option<&Term> {
        match &self.plan {
            Plan::Select(plan) => plan.timeout.as_ref(),
            Plan::Values(plan) => plan.timeout(),
            Plan::Truncate(_, timeout) => timeout.as_ref(),
            Plan::Prune(plan) => plan.select.timeout.as_ref(),
            Plan::Modify(plan) => plan.using.timeout.as_ref(),
            Plan::Batch(plan) => plan.using.timeout.as_ref(),
            _ => None,
        }
    }

    /// About how many bytes it takes.
    pub fn size_bytes(&self) -> usize {
        // A plan is some structures per column and marker; the text is a fair measure of those.
        1024 + self.text.len() * 8 + self.bind.count() * 128
    }
}

/// The analysis of a long text, in pieces between which others may have their turn.
#[derive(Debug)]
pub struct Steps<'a> {
    schema: &'a Schema,
    keyspace: Option<&'a str>,
    text: &'a str,
    markers: Markers,
    left: Left,
}

/// What is left of a tree, which may be large and is freed with its pieces.
#[derive(Debug)]
enum Left {
    Batch(BatchPlan, std::vec::IntoIter<ast::Modification>),
    Whole(ast::Statement),
    /// It is planned, but not freed.
    Tree(
        #[expect(dead_code, reason = "freed in a piece of its own")] ast::Statement,
        (Plan, usize),
    ),
    Nothing((Plan, usize)),
}

impl<'a> Steps<'a> {
    /// Of what `text` was parsed as.
    pub fn begin(
        schema: &'a Schema,
        (text, draft): (&'a str, Draft),
        keyspace: Option<&'a str>,
        options: &Rc<Options>,
    ) -> Result<Steps<'a>, Error> {
        let mut markers = Markers::new(draft.variables, draft.dialect, options.clone());
        let left = match draft.statement {
            ast::Statement::Batch(batch) => {
                let plan = BatchPlan::begin(schema, keyspace, &batch, &mut markers)?;
                Left::Batch(plan, batch.statements.into_iter())
            }
            statement => Left::Whole(statement),
        };
        Ok(Steps { schema, keyspace, text, markers, left })
    }

    /// Does the next piece; the last one gives the statement.
    pub fn next(mut self) -> Result<ControlFlow<Statement, Steps<'a>>, Error> {
        let Steps { schema, keyspace, .. } = self;
        let markers = &mut self.markers;
        self.left = match self.left {
            Left::Batch(mut plan, mut statements) => match statements.next() {
                Some(statement) => {
                    plan.add(schema, keyspace, &statement, markers)?;
                    Left::Batch(plan, statements)
                }
                None => Left::Nothing((Plan::Batch(Box::new(plan.finish()?)), 0)),
            },
            Left::Whole(statement) => {
                let plan = plan(schema, keyspace, &statement, markers)?;
                Left::Tree(statement, plan)
            }
            Left::Tree(_, plan) => Left::Nothing(plan),
            Left::Nothing(plan) => {
                let statement = Statement::finish(schema, self.text, keyspace, plan, self.markers)?;
                return Ok(ControlFlow::Break(statement));
            }
        };
        Ok(ControlFlow::Continue(self))
    }
}

fn plan(
    schema: &Schema,
    keyspace: Option<&str>,
    statement: &ast::Statement,
    markers: &mut Markers,
) -> Result<(Plan, usize), Error> {
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
            (Plan::Batch(Box::new(prepare_batch(schema, keyspace, statement, markers)?)), 0)
        }
        ast::Statement::Truncate(truncate) => {
            let table = table(schema, keyspace, &truncate.table)?;
            refuse_writes_of_system(table)?;
            if table.schema.view.is_some() {
                return Err(Error::invalid(
                    "Cannot TRUNCATE materialized view directly; must truncate base table instead",
                ));
            }
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
        ast::Statement::PruneView(statement) => {
            let plan = prune::prepare(schema, keyspace, statement, markers)?;
            let key_count = of_table(&plan.select.table);
            (Plan::Prune(Box::new(plan)), key_count)
        }
        ast::Statement::Access(statement) => (Plan::Access(statement.clone()), 0),
    })
}

fn plan_select(
    schema: &Schema,
    keyspace: Option<&str>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<(Plan, usize), Error> {
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
) -> Result<Option<Term>, Error> {
    if matches!(statement, ast::SchemaStatement::CreateView(_)) && !markers.is_empty() {
        return Err(Error::invalid(
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
