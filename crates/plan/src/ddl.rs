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
//! (what `WITH` says of tables), [`compaction`], [`properties`], [`function`], [`derived`] (views
//! and indexes, and what changes of tables mean for them), [`cdc`] (the same of logs of changes).

mod alter;
mod cdc;
mod compaction;
mod derived;
mod function;
mod guardrails;
mod keyspace;
mod names;
mod options;
mod properties;
mod racks;
mod row_ttl;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod types;
mod user_type;

pub use compaction::checked as checked_compaction;
pub use derived::{indexed, is_of_index};
pub use function::definition as function_definition;
pub use guardrails::Rules;
pub use table::defaults as table_defaults;

use crate::error::Error;
use crate::guardrail::Guardrail;
use cluster::{DataCenter, KeyspaceEntry, Schema, SchemaChange};
use model::Uuid;
use std::rc::Rc;
use syntax::ast::{QualifiedName, SchemaStatement};

/// Characters of a keyspace's or table's name at most: the name is part of file names.
const NAME_CHARS_MAX: usize = 192;

/// What a decision depends on besides the schema and the statement.
#[derive(Clone, Debug)]
pub struct Context {
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The data centers of the cluster.
    pub data_centers: Vec<DataCenter>,
    /// The id that a new table gets, and that of its log.
    pub table_id: Uuid,
    pub log_id: Uuid,
    /// Microseconds: when columns are dropped that the statement gives no time for.
    pub now_micros: i64,
    /// The value of a marker in `USING TIMESTAMP`, where there is one.
    pub timestamp: Option<i64>,
    pub rules: Rules,
    /// Whether all nodes of the cluster can have views and indexes.
    pub has_views: bool,
    /// Whether they count levels by what each tablet has, so that keyspaces with tablets may get
    /// any number of copies at once.
    pub changes_many: bool,
    /// Whether they can have logs of changes, and whether there are streams of the ring for them.
    pub has_cdc: bool,
    pub has_streams: bool,
}

/// Changes, in order; none if there is nothing to do.
pub type Decision = Result<Vec<SchemaChange>, Error>;

/// The changes that a statement asks for.
pub fn decide(schema: &Schema, statement: &SchemaStatement, context: &Context) -> Decision {
    let changes = asked(schema, statement, context)?;
    changes.iter().try_for_each(names::check)?;
    Ok(changes)
}

/// These changes of tables, which no statement asks for, with what they mean for logs of changes.
pub fn with_logs(schema: &Schema, changes: Vec<SchemaChange>, context: &Context) -> Decision {
    cdc::follow(schema, changes, context)
}

fn asked(schema: &Schema, statement: &SchemaStatement, context: &Context) -> Decision {
    match statement {
        SchemaStatement::CreateKeyspace(it) => keyspace::create(schema, it, context),
        SchemaStatement::AlterKeyspace(it) => {
            derived::check_keyspaces(schema, keyspace::alter(schema, it, context)?, context)
        }
        SchemaStatement::DropKeyspace(it) => keyspace::drop(schema, it),
        SchemaStatement::CreateTable(it) => {
            cdc::follow(schema, table::create(schema, it, context)?, context)
        }
        SchemaStatement::AlterTable(it) => {
            derived::refuse_view(schema, &it.name, "ALTER", context)?;
            cdc::check_altered(schema, &it.name, &it.action, context)?;
            let changes = derived::follow(schema, alter::decide(schema, it, context)?)?;
            cdc::follow(schema, changes, context)
        }
        SchemaStatement::DropTable(it) => {
            derived::refuse_view(schema, &it.name, "DROP", context)?;
            cdc::check_dropped(schema, &it.name, context)?;
            let changes = derived::follow(schema, table::drop(schema, it, context)?)?;
            cdc::follow(schema, changes, context)
        }
        SchemaStatement::CreateType(it) => user_type::create(schema, it, context),
        SchemaStatement::AlterType(it) => user_type::alter(schema, it, context),
        SchemaStatement::DropType(it) => user_type::drop(schema, it, context),
        SchemaStatement::CreateIndex(it) => derived::create_index(schema, it, context),
        SchemaStatement::DropIndex(it) => derived::drop_index(schema, it, context),
        SchemaStatement::CreateView(it) => derived::create_view(schema, it, context),
        SchemaStatement::AlterView(it) => derived::alter_view(schema, it, context),
        SchemaStatement::DropView(it) => derived::drop_view(schema, it, context),
        SchemaStatement::CreateFunction(it) => function::create(schema, it, context),
        SchemaStatement::DropFunction(it) => function::drop(schema, it, context),
        SchemaStatement::CreateAggregate(it) => function::create_aggregate(schema, it, context),
        SchemaStatement::DropAggregate(it) => function::drop_aggregate(schema, it, context),
    }
}

/// The warnings that a statement gives rise to, on the schema as it made it, each with the
/// guardrail that it has met, if one.
pub fn warnings(
    schema: &Schema,
    statement: &SchemaStatement,
    rules: &Rules,
    keyspace: Option<&str>,
) -> Vec<(Option<Guardrail>, String)> {
    let mut warnings = guardrails::warnings(schema, statement, rules, keyspace);
    let of_views = derived::warnings(schema, statement, rules, keyspace).into_iter();
    warnings.extend(of_views.map(|text| (None, text)));
    warnings
}

/// The keyspace that a name says, or the one in use.
pub fn named_keyspace<'a>(name: &'a QualifiedName, context: &'a Context) -> Result<&'a str, Error> {
    let said = name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str());
    said.or(context.keyspace.as_deref()).ok_or_else(|| {
        Error::invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename",
        )
    })
}

/// The keyspace of that name.
pub fn need_keyspace<'a>(schema: &'a Schema, name: &str) -> Result<&'a Rc<KeyspaceEntry>, Error> {
    let unknown = || Error::invalid(format!("Keyspace '{name}' does not exist"));
    schema.keyspace(name).ok_or_else(unknown)
}

/// An error if nobody but the nodes makes and removes what is in the keyspace.
pub fn refuse_system(keyspace: &str) -> Result<(), Error> {
    if Schema::is_of_nodes(keyspace) {
        return Err(Error::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    Ok(())
}

/// Whether a name consists of letters, digits and underscores, so that it can name a file.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
