//! The permissions that a statement needs, and the resources that statements name. Pure.

pub mod resources;

use resources::{home, of_keyspace};

use crate::ddl;
use crate::error::Error;
use crate::plan::Plan;
use crate::types;
use auth::{Need, Permission, Resource};
use cluster::{Cluster, Schema};
use model::{TableSchema, Type};
use syntax::ast::{AlterView, CreateAggregate, IfPresent, QualifiedName, SchemaStatement};

/// The needs of what reads and writes rows; what others need depends on the session's keyspace.
/// `called` are functions and aggregates of users.
pub fn of_plan(schema: &Schema, plan: &Plan, called: &[Resource]) -> Vec<Need> {
    let mut needs = Vec::new();
    match plan {
        Plan::Select(plan) => {
            let table = &plan.fragments_of.as_ref().unwrap_or(&plan.table).schema;
            needs.extend(of_read(table));
        }
        Plan::Modify(plan) => of_write(&plan.table.schema, plan.is_conditional(), &mut needs),
        Plan::Batch(plan) => {
            for statement in &plan.statements {
                of_write(&statement.table.schema, statement.is_conditional(), &mut needs);
            }
        }
        Plan::Truncate(table, _) => of_write(&table.schema, false, &mut needs),
        Plan::Prune(plan) => of_write(&plan.base.schema, true, &mut needs),
        Plan::Values(_) | Plan::Use(_) | Plan::Schema(..) | Plan::Describe(_) | Plan::Access(_) => {
        }
    }
    for function in called {
        needs.push(Need::new(Permission::Execute, function.clone()));
        for part in parts(schema, function) {
            needs.push(Need::new(Permission::Execute, part));
        }
    }
    let mut distinct: Vec<Need> = Vec::with_capacity(needs.len());
    for need in needs {
        if !distinct.contains(&need) {
            distinct.push(need);
        }
    }
    distinct
}

/// The functions that an aggregate is made of; none of a function.
fn parts(schema: &Schema, resource: &Resource) -> Vec<Resource> {
    let Resource::Function { keyspace, name, arguments } = resource else { return Vec::new() };
    let entry = schema.keyspace(keyspace);
    let aggregate = entry.and_then(|entry| entry.aggregate(name, arguments));
    let parts = aggregate.map(|it| it.functions()).unwrap_or_default();
    parts.iter().map(|(name, types)| Resource::function(keyspace, name, types)).collect()
}

/// Every role may read the tables that drivers need.
fn of_read(table: &TableSchema) -> Option<Need> {
    let for_all = match table.keyspace.as_str() {
        "system_schema" | "system_virtual_schema" => true,
        "system" => matches!(table.name.as_str(), "local" | "peers" | "peers_v2" | "one_row"),
        _ => false,
    };
    (!for_all).then(|| Need::new(Permission::Select, of_table(table)))
}

/// A table; the base of a view or a log, which has the base's rows.
fn of_table(table: &TableSchema) -> Resource {
    let base = match (&table.view, &table.log) {
        (Some(view), _) => &view.base_name,
        (None, Some(log)) => &log.base_name,
        (None, None) => &table.name,
    };
    Resource::table(&table.keyspace, base)
}

/// A condition reveals what is stored.
fn of_write(table: &TableSchema, is_conditional: bool, needs: &mut Vec<Need>) {
    let resource = Resource::table(&table.keyspace, &table.name);
    if is_conditional {
        needs.push(Need::new(Permission::Select, resource.clone()));
    }
    needs.push(Need::new(Permission::Modify, resource));
}

/// Whether a statement writes into the tables of roles and grants.
pub fn writes_access(plan: &Plan) -> bool {
    match plan {
        Plan::Modify(plan) => Cluster::is_access_table(&plan.table.schema),
        Plan::Batch(plan) => {
            plan.statements.iter().any(|it| Cluster::is_access_table(&it.table.schema))
        }
        _ => false,
    }
}

/// Whether a statement reads or writes tables that are not the system's.
pub fn is_load(plan: &Plan) -> bool {
    let of_users = |table: &TableSchema| !Schema::is_system(&table.keyspace);
    match plan {
        Plan::Select(plan) => of_users(&plan.fragments_of.as_ref().unwrap_or(&plan.table).schema),
        Plan::Modify(plan) => of_users(&plan.table.schema),
        Plan::Batch(plan) => plan.statements.iter().any(|it| of_users(&it.table.schema)),
        Plan::Truncate(table, _) => of_users(&table.schema),
        Plan::Prune(plan) => of_users(&plan.base.schema),
        Plan::Values(_) | Plan::Use(_) | Plan::Schema(..) | Plan::Describe(_) | Plan::Access(_) => {
            false
        }
    }
}

/// The needs of a change of the schema; names without a keyspace are of `keyspace`, the session's.
pub fn of_schema(
    schema: &Schema,
    statement: &SchemaStatement,
    keyspace: Option<&str>,
) -> Result<Vec<Need>, Error> {
    use Permission::{Alter, Create, Drop};
    let one = |permission, resource| Ok(vec![Need::new(permission, resource)]);
    let all_of =
        |name: &QualifiedName| Ok::<_, Error>(Resource::Keyspace(home(name, keyspace)?.to_owned()));
    // Who may alter or drop a table may do so with its log.
    let table = |name: &QualifiedName| {
        let owner = home(name, keyspace)?;
        let known = schema.table(owner, &name.name.text).filter(|it| it.schema.log.is_some());
        Ok::<_, Error>(match known {
            Some(log) => of_table(&log.schema),
            None => Resource::table(owner, &name.name.text),
        })
    };
    match statement {
        SchemaStatement::CreateKeyspace(_) => one(Create, Resource::AllKeyspaces),
        SchemaStatement::AlterKeyspace(it) => one(Alter, Resource::Keyspace(it.name.text.clone())),
        SchemaStatement::DropKeyspace(it) => one(Drop, Resource::Keyspace(it.name.text.clone())),
        SchemaStatement::CreateTable(it) => one(Create, all_of(&it.name)?),
        SchemaStatement::AlterTable(it) => one(Alter, table(&it.name)?),
        SchemaStatement::DropTable(it) => one(Drop, table(&it.name)?),
        SchemaStatement::CreateType(it) => one(Create, all_of(&it.name)?),
        SchemaStatement::AlterType(it) => one(Alter, all_of(&it.name)?),
        SchemaStatement::DropType(it) => one(Drop, all_of(&it.name)?),
        SchemaStatement::CreateIndex(it) => one(Alter, table(&it.table)?),
        // Of the base, which is in the keyspace of its view.
        SchemaStatement::CreateView(it) => {
            let owner = home(&it.name, keyspace)?;
            let owner = it.base.keyspace.as_ref().map_or(owner, |name| &name.text);
            one(Alter, Resource::table(owner, &it.base.name.text))
        }
        // That there is none is reported by the execution.
        SchemaStatement::DropIndex(it) => {
            let base = ddl::indexed(schema, home(&it.name, keyspace)?, &it.name.name.text);
            Ok(base.map(|base| Need::new(Alter, of_table(&base.schema))).into_iter().collect())
        }
        SchemaStatement::AlterView(AlterView { name, .. })
        | SchemaStatement::DropView(syntax::ast::Drop { name, .. }) => {
            let view = schema.table(home(name, keyspace)?, &name.name.text);
            Ok(view.map(|view| Need::new(Alter, of_table(&view.schema))).into_iter().collect())
        }
        SchemaStatement::CreateFunction(it) => {
            let types = it.arguments.iter().map(|(_, ty)| ty);
            let signature = (&it.name, resolved(schema, keyspace, &it.name, types)?);
            of_new_function(schema, keyspace, signature, it.if_present)
        }
        SchemaStatement::CreateAggregate(it) => of_new_aggregate(schema, it, keyspace),
        SchemaStatement::DropFunction(it) | SchemaStatement::DropAggregate(it) => {
            let owner = home(&it.name, keyspace)?;
            let name = &it.name.name.text;
            let mut known: Vec<Resource> = of_keyspace(schema, owner, name);
            if let Some(written) = &it.arguments {
                let types = resolved(schema, keyspace, &it.name, written.iter())?;
                let wanted = Resource::function(owner, name, &types);
                known.retain(|function| *function == wanted);
            }
            // Which of several is meant, or that there is none, is reported by the execution.
            Ok(match known[..] {
                [_] => known.into_iter().map(|it| Need::new(Drop, it)).collect(),
                _ => Vec::new(),
            })
        }
    }
}

/// To make an aggregate of functions.
fn of_new_aggregate(
    schema: &Schema,
    it: &CreateAggregate,
    keyspace: Option<&str>,
) -> Result<Vec<Need>, Error> {
    let arguments = resolved(schema, keyspace, &it.name, it.arguments.iter())?;
    let state = resolved(schema, keyspace, &it.name, std::iter::once(&it.state_type))?;
    let owner = home(&it.name, keyspace)?;
    let of_state: Vec<Type> = state.iter().chain(&arguments).cloned().collect();
    let signature = (&it.name, arguments);
    let mut needs = of_new_function(schema, keyspace, signature, it.if_present)?;
    let mut execute = |name: &str, types: &[Type]| {
        let function = Resource::function(owner, name, types);
        needs.push(Need::new(Permission::Execute, function));
    };
    execute(&it.state_function.text, &of_state);
    if let Some(name) = &it.final_function {
        execute(&name.text, &state);
    }
    if let Some(name) = &it.reduce_function {
        execute(&name.text, &[state.clone(), state].concat());
    }
    Ok(needs)
}

/// To make a function, and to replace the one that is there.
fn of_new_function(
    schema: &Schema,
    keyspace: Option<&str>,
    (name, arguments): (&QualifiedName, Vec<Type>),
    if_present: IfPresent,
) -> Result<Vec<Need>, Error> {
    let owner = home(name, keyspace)?;
    let mut needs = vec![Need::new(Permission::Create, Resource::FunctionsIn(owner.to_owned()))];
    let function = Resource::function(owner, &name.name.text, &arguments);
    let is_there = of_keyspace(schema, owner, &name.name.text).contains(&function);
    if if_present == IfPresent::Replace && is_there {
        needs.push(Need::new(Permission::Alter, function));
    }
    Ok(needs)
}

fn resolved<'t>(
    schema: &Schema,
    keyspace: Option<&str>,
    name: &QualifiedName,
    written: impl Iterator<Item = &'t syntax::ast::Type>,
) -> Result<Vec<Type>, Error> {
    let owner = home(name, keyspace)?;
    written.map(|ty| Ok(types::resolve(schema, owner, ty)?.freeze())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl::testing::Node;
    use syntax::ast::Statement;

    #[test]
    fn who_may_alter_or_read_a_table_may_do_so_with_its_views() {
        let space = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
                     'replication_factor': 1}";
        let view = "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM t PRIMARY KEY (p)";
        let node = Node::after(&[
            space,
            "CREATE TABLE t (p int PRIMARY KEY, v int)",
            view,
            "CREATE INDEX i ON t (v)",
        ]);
        let check = |text: &str, keyspace: Option<&str>, expected: &str| {
            let parsed = syntax::parse(text).expect("a statement").statement;
            let Statement::Schema(statement) = parsed else { panic!("no DDL: {text}") };
            let needs = of_schema(&node.schema, &statement, keyspace).expect("needs");
            let needs: Vec<String> =
                needs.iter().map(|it| format!("{:?} {}", it.permission, it.resource)).collect();
            assert_eq!(needs.join(", "), expected, "{text}");
        };
        let of_base = "Alter <table ks.t>";
        check(view, None, of_base);
        check("ALTER MATERIALIZED VIEW mv WITH comment = ''", Some("ks"), of_base);
        check("DROP MATERIALIZED VIEW ks.mv", None, of_base);
        check("CREATE INDEX ON t (v)", Some("ks"), of_base);
        check("DROP INDEX i", Some("ks"), of_base);
        check("DROP INDEX j", Some("ks"), "");
        check("DROP MATERIALIZED VIEW mw", Some("ks"), "");
        let table = &node.schema.table("ks", "mv").expect("the view").schema;
        let read = of_read(table).map(|need| need.resource.to_string());
        assert_eq!(read.as_deref(), Some("<table ks.t>"));
    }
}
