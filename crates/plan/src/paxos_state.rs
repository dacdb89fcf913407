//! `"t$paxos"`: the state of conditional writes to the table `t`, as a table beside it.
//!
//! The state of all tables is in `system.paxos`; a read of `"t$paxos"` reads the rows of it that
//! belong to t. It cannot be written or altered, and `DESCRIBE` shows it only by name. No table
//! that a statement creates can have such a name.

use crate::error::Error;
use cluster::{Schema, TableEntry, TableKind};
use model::TableSchema;
use std::rc::Rc;
use syntax::ast;

const SUFFIX: &str = "$paxos";

/// The table whose state the table `name` of `keyspace` would be.
pub fn base<'s>(
    schema: &'s Schema,
    keyspace: Option<&str>,
    name: &str,
) -> Option<&'s Rc<TableEntry>> {
    let base = schema.table(keyspace?, name.strip_suffix(SUFFIX)?)?;
    let stored = base.kind == TableKind::Stored && !Schema::is_system(&base.schema.keyspace);
    stored.then_some(base)
}

/// The same, of a name as a statement has it.
pub fn base_of<'s>(
    schema: &'s Schema,
    keyspace: Option<&str>,
    name: &ast::QualifiedName,
) -> Option<&'s Rc<TableEntry>> {
    let keyspace = name.keyspace.as_ref().map(|name| name.text.as_str()).or(keyspace);
    base(schema, keyspace, &name.name.text)
}

/// A read of `"t$paxos"` as the read of `system.paxos` that it is.
pub fn select(base: &TableSchema, select: &ast::Select) -> ast::Select {
    let id = base.id.hyphenated();
    let text = format!("SELECT * FROM system.paxos WHERE cf_id = {id} ALLOW FILTERING");
    let parsed = syntax::parse(&text).map(|parsed| parsed.statement);
    let Ok(ast::Statement::Select(all)) = parsed else { unreachable!("it is a SELECT: {text}") };
    let mut select = select.clone();
    select.from = all.from;
    select.filter.extend(all.filter);
    select.allow_filtering = true;
    select
}

/// The refusal to change `"t$paxos"`.
pub fn refusal(base: &TableSchema) -> Error {
    Error::Unauthorized(format!(
        "{}.{}{SUFFIX} is the state of conditional writes, and is not user-modifiable.",
        base.keyspace, base.name
    ))
}

/// What `DESCRIBE` says of it: its name, and the statement that would create it, as a comment.
pub fn description(schema: &Schema, base: &TableSchema) -> Option<(String, String)> {
    let mut shown = (*schema.table("system", "paxos")?.schema).clone();
    shown.keyspace.clone_from(&base.keyspace);
    shown.name = format!("{}{SUFFIX}", base.name);
    let create = shown.to_cql_create();
    let text = format!(
        "/* Do NOT execute this statement! It's only for informational purposes.\n   \
         A paxos state table is created automatically when enabling LWT on a base table.\n\n\
         {create}\n*/"
    );
    Some((shown.name, text))
}
