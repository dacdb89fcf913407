//! A node that speaks CQL: statement in, rows out as text. Simulated, or on real shards.
//!
//! Invariants
//!  - *as-a-literal*: a value is shown as the literal that a statement would have for it, so that
//!    an expected row is read as CQL.
//!  - *all-parts*: a node is all of its layers up to the processor, started in the order of a
//!    server.

use crate::SimNode;
use crate::config::{boot_config, change, keyspace};
use cluster::SchemaChange;
use model::value;
use query::{
    BatchEntry, BatchStatement, CqlError, Parameters, Processor, Response, ResponseKind, Rows,
    Session, Value, Values,
};
use replication::Consistency;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use storage::SyncMode;

/// A connection to a node, as a test sees it.
pub struct CqlEnv {
    processor: Rc<Processor>,
    session: Session,
}

impl CqlEnv {
    /// Runs `body` on shard 0 of a new simulated node with the keyspace `ks` in use.
    pub fn run<F, Fut>(seed: u64, shards: u16, body: F)
    where
        F: FnOnce(CqlEnv) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let mut node = SimNode::new(seed, shards);
        node.run(async move { body(CqlEnv::start().await).await });
    }

    /// The same on a node of one shard and on one of two.
    pub fn run_on_one_and_two<F, Fut>(body: F)
    where
        F: Fn(CqlEnv) -> Fut + Clone + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        for shards in [1, 2] {
            CqlEnv::run(shards.into(), shards, body.clone());
        }
    }

    /// Runs `body` on shard 0 of a new node on real shards, with real files.
    pub fn run_on_real<F, Fut>(shards: u16, body: F)
    where
        F: FnOnce(CqlEnv) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        crate::real::run(shards, |directory| async move {
            body(CqlEnv::start_in(&directory.to_string_lossy(), SyncMode::Batch).await).await;
            CqlEnv::stop().await;
        });
    }

    /// Starts the node of this shard 0, or what is left of it after a crash.
    pub async fn start() -> CqlEnv {
        CqlEnv::start_in("/node", SyncMode::Batch).await
    }

    /// The same with files in a directory, and a commitlog that is synced so.
    pub async fn start_in(directory: &str, sync: SyncMode) -> CqlEnv {
        crate::rows::start(boot_config(directory, sync)).await;
        let functions = functions::Limits {
            enabled: true,
            time: Duration::from_millis(20),
            ..functions::Limits::standard()
        };
        Processor::start(query::Config { functions, ..query::Config::standard() }).await;
        change(|schema| match schema.keyspace("ks") {
            Some(_) => Vec::new(),
            None => vec![SchemaChange::CreateKeyspace(keyspace("ks", 1, None))],
        })
        .await;
        CqlEnv::of_this_shard().await
    }

    /// One more connection to the node of this shard, which has started.
    pub async fn of_this_shard() -> CqlEnv {
        let env =
            CqlEnv { processor: runtime::local::get::<Processor>(), session: Session::internal() };
        env.ok("USE ks").await;
        env
    }

    /// Stops the node of this shard 0.
    pub async fn stop() {
        Processor::stop().await;
        replication::Coordinator::stop().await;
        cluster::stop().await.expect("a stop");
    }

    /// The processor of shard 0.
    pub fn processor(&self) -> &Rc<Processor> {
        &self.processor
    }

    /// The connection.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Changes the schema without a statement.
    pub async fn change(&self, changes: Vec<SchemaChange>) {
        change(move |_| changes).await;
    }

    /// Executes a statement at consistency ONE.
    pub async fn query(&self, text: &str) -> Result<Response, CqlError> {
        let parameters = Parameters::plain(Consistency::One);
        self.processor.query(&self.session, text, &parameters).await
    }

    /// Executes a statement that must succeed.
    pub async fn ok(&self, text: &str) -> Response {
        match self.query(text).await {
            Ok(response) => response,
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// Has this shard write all of its memtables to SSTables.
    pub async fn flush(&self) {
        let storage = runtime::local::get::<storage::Storage>();
        storage.flush_all().await.expect("a flush");
    }

    /// The rows of a statement as text: literals, columns joined by `, ` and rows by ` | `.
    pub async fn rows(&self, text: &str) -> String {
        rows_text(&self.ok(text).await)
    }

    /// The text of the error of a statement that must fail.
    pub async fn error(&self, text: &str) -> String {
        match self.query(text).await {
            Ok(response) => panic!("{text}: succeeded: {}", rows_text(&response)),
            Err(error) => error.message(),
        }
    }

    /// The rows of a statement, `Void`, its error, or a change: `Created Table ks.t`.
    pub async fn outcome(&self, text: &str) -> String {
        match self.query(text).await {
            Ok(response) => rows_text(&response),
            Err(error) => format!("error: {error}"),
        }
    }

    /// Prepares a statement and executes it with values.
    pub async fn execute(&self, text: &str, values: &[Value<'_>]) -> Result<Response, CqlError> {
        let prepared = self.processor.prepare(&self.session, text, None, None).await?;
        let values = Values::Positional(values);
        let parameters = Parameters { values, ..Parameters::plain(Consistency::One) };
        self.processor.execute(&self.session, &prepared, &parameters).await
    }

    /// All pages of a statement: the rows of each page as text.
    pub async fn pages(&self, text: &str, page_size: i32) -> Vec<String> {
        let mut out = Vec::new();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let parameters = Parameters {
                page_size: Some(page_size),
                paging_state: state.as_deref(),
                ..Parameters::plain(Consistency::One)
            };
            let response = self.processor.query(&self.session, text, &parameters).await;
            let response = response.unwrap_or_else(|error| panic!("{text}: {error}"));
            out.push(rows_text(&response));
            match response.kind {
                ResponseKind::Rows(Rows { paging_state: Some(next), .. }) => state = Some(next),
                _ => return out,
            }
            assert!(out.len() < 10_000, "{text}: pages without end");
        }
    }

    /// Executes a batch of the protocol's BATCH message.
    pub async fn batch(
        &self,
        kind: query::BatchKind,
        statements: &[&str],
    ) -> Result<Response, CqlError> {
        let entry = |text| {
            let statement = BatchStatement::Text(text);
            BatchEntry { statement, values: Values::NONE }
        };
        let entries: Vec<BatchEntry<'_>> = statements.iter().copied().map(entry).collect();
        let parameters = Parameters::plain(Consistency::One);
        self.processor.batch(&self.session, kind, &entries, &parameters).await
    }
}

/// The rows of a response as text.
pub fn rows_text(response: &Response) -> String {
    let rows = match &response.kind {
        ResponseKind::Rows(rows) => rows,
        ResponseKind::Void => return "Void".to_owned(),
        ResponseKind::SetKeyspace(name) => return format!("use {name}"),
        ResponseKind::SchemaChange(it) => {
            return format!("{:?} {:?} {}.{}", it.kind, it.target, it.keyspace, it.name);
        }
    };
    let mut cursor = stdx::Cursor::new(&rows.body);
    let mut lines = Vec::new();
    for _ in 0..rows.row_count {
        let mut cells = Vec::new();
        for column in &rows.metadata.columns {
            let length = cursor.i32("cell length").expect("a cell");
            cells.push(match usize::try_from(length) {
                Err(_) => "null".to_owned(),
                Ok(length) => {
                    let bytes = cursor.take(length, "cell").expect("a cell");
                    value::to_literal(&column.ty, bytes)
                }
            });
        }
        lines.push(cells.join(", "));
    }
    assert!(cursor.is_empty(), "bytes after the last row");
    lines.join(" | ")
}
