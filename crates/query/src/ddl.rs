//! Executing statements that change the schema: `plan::ddl` decides, the registry makes changes
//! durable.
//!
//! It touches neither rows nor tables of the system.

use crate::error::CqlError;
use crate::processor::Processor;
use crate::response::{Response, ResponseKind};
use crate::session::Session;
use cluster::{Authorizer, ChangeError, Cluster, Schema, centers, features};
use functions::Engine;
use plan::ddl::{Context, Rules, decide, function_definition, warnings};
use runtime::time::{Instant, sleep};
use std::time::Duration;
use syntax::ast::SchemaStatement;

/// How long a statement waits for tablets to follow, and between two looks at them.
const FOLLOW_MAX: Duration = Duration::from_secs(3);
const FOLLOW_LOOK: Duration = Duration::from_millis(10);

/// Executes a statement that changes the schema. `timestamp`: what is bound to a marker of its
/// `USING TIMESTAMP`.
pub(crate) async fn execute(
    processor: &Processor,
    session: &Session,
    statement: &SchemaStatement,
    timestamp: Option<i64>,
) -> Result<Response, CqlError> {
    let cluster = runtime::local::get::<Cluster>();
    cluster.formed().await;
    let data_centers = centers::data_centers(&cluster.topology(), cluster.node());
    let nodes = data_centers.iter().map(|center| center.owners).sum::<usize>().max(1);
    let rules = Rules::of(&processor.options().analysis).among(nodes as i64);
    let met = &processor.options().met;
    let context = Context {
        keyspace: session.keyspace().map(|name| name.to_string()),
        data_centers,
        table_id: Cluster::new_table_id(),
        log_id: Cluster::new_table_id(),
        now_micros: runtime::time::wall_micros(),
        timestamp,
        rules: rules.clone(),
        has_views: cluster.topology().allows(features::VIEWS),
        changes_many: cluster.topology().allows(features::KEYSPACE_MULTI_RF_CHANGE),
        has_cdc: cluster.topology().allows(features::CDC),
        has_streams: cluster.has_streams(),
    };
    if let SchemaStatement::CreateFunction(create) = statement {
        let function = function_definition(&cluster.schema(), create, &context)?;
        Box::pin(processor.check_function(&function)).await?;
    }
    let owned = statement.clone();
    let change = move |schema: &Schema| decide(schema, &owned, &context);
    // Who creates something may do everything with it, where that counts.
    let counts = cluster.access().authorizer() != Authorizer::AllowAll && creates_own(statement);
    let creator = session.role().filter(|_| counts);
    let events = cluster.change_schema_for(creator, change).await.map_err(|error| match error {
        ChangeError::Refused(error) => {
            if let plan::Error::Forbidden(rule, _) = &error {
                met.count(*rule);
            }
            error.into()
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
    if let Some(name) = replicated(statement) {
        followed(&cluster, name).await;
        let thin = centers::thin(&cluster.schema(), &cluster.topology(), cluster.node());
        for thin in thin.iter().filter(|thin| thin.keyspace == name) {
            tracing::warn!(target: "schema", "{thin}");
        }
    }
    let keyspace = session.keyspace();
    let schema = cluster.schema();
    let warnings = warnings(&schema, statement, &rules, keyspace.as_deref()).into_iter();
    let warnings = warnings.inspect(|(rule, _)| rule.iter().for_each(|rule| met.count(*rule)));
    let warnings = warnings.map(|(_, text)| text).collect();
    Ok(Response { warnings, ..Response::of(kind) })
}

/// Waits until the tablets of a keyspace have as many replicas as it wants now, but not for long:
/// where there is little to move, statements that follow find it done.
async fn followed(cluster: &Cluster, name: &str) {
    let until = Instant::now() + FOLLOW_MAX;
    let follows = || {
        let schema = cluster.schema();
        schema.keyspace(name).is_some_and(|entry| entry.keyspace.previous.is_some())
    };
    while follows() && Instant::now() < until {
        sleep(FOLLOW_LOOK).await;
    }
}

/// The keyspace whose replication it says.
fn replicated(statement: &SchemaStatement) -> Option<&str> {
    match statement {
        SchemaStatement::CreateKeyspace(it) => Some(&it.name.text),
        SchemaStatement::AlterKeyspace(it) => Some(&it.name.text),
        _ => None,
    }
}

/// Whether it creates what has permissions of its own: who may read a view, the view of an index
/// or a log is said of its table.
fn creates_own(statement: &SchemaStatement) -> bool {
    matches!(statement, SchemaStatement::CreateKeyspace(_) | SchemaStatement::CreateTable(_))
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
