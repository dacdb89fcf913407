//! Statements that change the schema: from the tree to `cluster::SchemaChange`.
//!
//! Invariants
//!  - *decided-on-the-schema*: [`decide`] is pure and sees the schema that its changes apply to;
//!    it runs under the schema lock, so "does it exist" is never answered from an old snapshot.
//!  - *ids-for-life*: a column keeps its id through every ALTER; a new column gets one that no
//!    column of the table ever had.
//!  - *only-what-works*: an option that would be stored and not honoured is refused.
//!
//! It touches neither rows nor tables of the system: the registry makes changes durable.
//!
//! In reading order: [`keyspace`], [`types`], [`table`], [`alter`], [`user_type`], [`options`]
//! (what `WITH` says of tables), [`compaction`], [`properties`], [`function`].

mod alter;
mod compaction;
mod function;
mod guardrails;
mod keyspace;
mod options;
mod properties;
mod row_ttl;
mod table;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod types;
mod user_type;

pub(crate) use compaction::checked as checked_compaction;
pub(crate) use guardrails::Rules;
pub(crate) use options::speculative_retry;

use crate::error::CqlError;
use crate::processor::Processor;
use crate::response::{Response, ResponseKind};
use crate::session::Session;
use cluster::{Authorizer, ChangeError, Cluster, KeyspaceEntry, Schema, SchemaChange};
use functions::Engine;
use model::Uuid;
use std::rc::Rc;
use syntax::ast::{QualifiedName, SchemaStatement};

/// Characters of a keyspace's or table's name at most: the name is part of file names.
const NAME_CHARS_MAX: usize = 192;

/// What a decision depends on besides the schema and the statement.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The keyspace in use.
    pub(crate) keyspace: Option<String>,
    /// The data centers of the cluster, each with its racks.
    pub(crate) data_centers: Vec<(String, Vec<String>)>,
    /// The id that a new table gets.
    pub(crate) table_id: Uuid,
    /// Microseconds: when columns are dropped that the statement gives no time for.
    pub(crate) now_micros: i64,
    /// The value of a marker in `USING TIMESTAMP`, where there is one.
    pub(crate) timestamp: Option<i64>,
    pub(crate) rules: Rules,
}

/// Changes, in order; none if there is nothing to do.
pub(crate) type Decision = Result<Vec<SchemaChange>, CqlError>;

/// Executes a statement that changes the schema. `timestamp`: what is bound to a marker of its
/// `USING TIMESTAMP`.
pub(crate) async fn execute(
    processor: &Processor,
    session: &Session,
    statement: &SchemaStatement,
    timestamp: Option<i64>,
) -> Result<Response, CqlError> {
    let cluster = runtime::local::get::<Cluster>();
    let node = cluster.node();
    let rules = Rules::of(processor.options());
    let met = &processor.options().met;
    let context = Context {
        keyspace: session.keyspace().map(|name| name.to_string()),
        data_centers: vec![(node.data_center.clone(), vec![node.rack.clone()])],
        table_id: Cluster::new_table_id(),
        now_micros: runtime::time::wall_micros(),
        timestamp,
        rules: rules.clone(),
    };
    if let SchemaStatement::CreateFunction(create) = statement {
        let function = function::definition(&cluster.schema(), create, &context)?;
        Box::pin(processor.check_function(&function)).await?;
    }
    let owned = statement.clone();
    let change = move |schema: &Schema| decide(schema, &owned, &context);
    // Who creates something may do everything with it, where that counts.
    let counts = cluster.access().authorizer() != Authorizer::AllowAll;
    let creator = session.role().filter(|_| counts);
    let events = cluster.change_schema_for(creator, change).await.map_err(|error| match error {
        ChangeError::Refused(error) => {
            if let CqlError::Forbidden(rule, _) = &error {
                met.count(*rule);
            }
            error
        }
        ChangeError::Failed(reason) => CqlError::Server(reason),
    })?;
    if changes_functions(statement) {
        forget_functions().await;
    }
    let kind = match events.into_iter().next() {
        Some(event) => ResponseKind::SchemaChange(event),
        None => ResponseKind::Void,
    };
    let keyspace = session.keyspace();
    let schema = cluster.schema();
    let warnings = guardrails::warnings(&schema, statement, &rules, keyspace.as_deref(), met);
    Ok(Response { warnings, ..Response::of(kind) })
}

/// Whether functions may be changed or removed by it.
fn changes_functions(statement: &SchemaStatement) -> bool {
    matches!(
        statement,
        SchemaStatement::CreateFunction(_)
            | SchemaStatement::DropFunction(_)
            | SchemaStatement::DropKeyspace(_)
            | SchemaStatement::AlterType(_)
    )
}

/// Lets every shard forget what it has compiled of functions that the schema has no more.
async fn forget_functions() {
    runtime::on_all_shards(|| async {
        let schema = runtime::local::get::<Cluster>().schema();
        if let Some(engine) = runtime::local::try_get::<Engine>() {
            engine.retain(&schema);
        }
    })
    .await;
}

/// The changes that a statement asks for.
pub(crate) fn decide(schema: &Schema, statement: &SchemaStatement, context: &Context) -> Decision {
    let later = |what: &str| Err(CqlError::invalid(format!("{what} is not supported yet")));
    match statement {
        SchemaStatement::CreateKeyspace(it) => keyspace::create(schema, it, context),
        SchemaStatement::AlterKeyspace(it) => keyspace::alter(schema, it, context),
        SchemaStatement::DropKeyspace(it) => keyspace::drop(schema, it),
        SchemaStatement::CreateTable(it) => table::create(schema, it, context),
        SchemaStatement::AlterTable(it) => alter::decide(schema, it, context),
        SchemaStatement::DropTable(it) => table::drop(schema, it, context),
        SchemaStatement::CreateType(it) => user_type::create(schema, it, context),
        SchemaStatement::AlterType(it) => user_type::alter(schema, it, context),
        SchemaStatement::DropType(it) => user_type::drop(schema, it, context),
        SchemaStatement::CreateIndex(_) => later("CREATE INDEX"),
        SchemaStatement::DropIndex(it) => absent(schema, it, context, "Index"),
        SchemaStatement::CreateView(_) => later("CREATE MATERIALIZED VIEW"),
        SchemaStatement::AlterView(_) => later("ALTER MATERIALIZED VIEW"),
        SchemaStatement::DropView(it) => absent(schema, it, context, "Materialized view"),
        SchemaStatement::CreateFunction(it) => function::create(schema, it, context),
        SchemaStatement::DropFunction(it) => function::drop(schema, it, context),
        SchemaStatement::CreateAggregate(it) => function::create_aggregate(schema, it, context),
        SchemaStatement::DropAggregate(it) => function::drop_aggregate(schema, it, context),
    }
}

/// DROP of something of which there can be none yet.
fn absent(
    schema: &Schema,
    statement: &syntax::ast::Drop,
    context: &Context,
    what: &str,
) -> Decision {
    if statement.if_exists {
        return Ok(Vec::new());
    }
    let keyspace = named_keyspace(&statement.name, context)?;
    need_keyspace(schema, keyspace)?;
    let name = &statement.name.name.text;
    Err(CqlError::invalid(format!("{what} '{name}' does not exist in keyspace '{keyspace}'")))
}

/// The keyspace that a name says, or the one in use.
pub(crate) fn named_keyspace<'a>(
    name: &'a QualifiedName,
    context: &'a Context,
) -> Result<&'a str, CqlError> {
    let said = name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str());
    said.or(context.keyspace.as_deref()).ok_or_else(|| {
        CqlError::invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename",
        )
    })
}

/// The keyspace of that name.
pub(crate) fn need_keyspace<'a>(
    schema: &'a Schema,
    name: &str,
) -> Result<&'a Rc<KeyspaceEntry>, CqlError> {
    let unknown = || CqlError::invalid(format!("Keyspace '{name}' does not exist"));
    schema.keyspace(name).ok_or_else(unknown)
}

/// An error if the keyspace is the system's.
pub(crate) fn refuse_system(keyspace: &str) -> Result<(), CqlError> {
    if Schema::is_system(keyspace) {
        return Err(CqlError::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    Ok(())
}

/// Whether a name consists of letters, digits and underscores, so that it can name a file.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
