//! A simulated node that speaks CQL: statement in, rows out as text.
//!
//! Invariants
//!  - *replayable*: everything runs in one `runtime::sim` world, from one seed.

use cluster::{BootConfig, Cluster, NodeConfig, SchemaChange};
use model::{Keyspace, Uuid, value};
use query::{
    BatchEntry, BatchStatement, CqlError, Parameters, Processor, Response, ResponseKind, Rows,
    Session, Value, Values,
};
use replication::{Consistency, Coordinator};
use runtime::sim::{Options, World};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;
use storage::SyncMode;

/// A connection to a node, as a test sees it.
pub struct CqlEnv {
    processor: Rc<Processor>,
    session: Session,
}

impl CqlEnv {
    /// Runs `body` on shard 0 of a new node with the keyspace `ks` in use.
    pub fn run<F, Fut>(seed: u64, shards: u16, body: F)
    where
        F: FnOnce(CqlEnv) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let mut world = World::new(Options::new(seed));
        let node = world.add_node(shards);
        world.block_on(node, 0, async move { body(CqlEnv::start().await).await });
    }

    /// Boots the node of this simulated shard 0, or what is left of it after a crash.
    pub async fn start() -> CqlEnv {
        cluster::boot(boot_config()).await.expect("a start");
        let config = replication::Config { batch_memory: Duration::ZERO };
        Coordinator::start(config).await.expect("a start");
        let functions = functions::Limits {
            enabled: true,
            time: Duration::from_millis(20),
            ..functions::Limits::standard()
        };
        Processor::start(query::Config { functions, ..query::Config::standard() }).await;
        let create = |schema: &cluster::Schema| {
            let missing = schema.keyspace("ks").is_none();
            Ok::<_, ()>(if missing {
                vec![SchemaChange::CreateKeyspace(keyspace())]
            } else {
                vec![]
            })
        };
        runtime::local::get::<Cluster>().change_schema(create).await.expect("a keyspace");
        let env =
            CqlEnv { processor: runtime::local::get::<Processor>(), session: Session::internal() };
        env.ok("USE ks").await;
        env
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
        let decide = move |_: &cluster::Schema| Ok::<_, ()>(changes);
        runtime::local::get::<Cluster>().change_schema(decide).await.expect("a schema change");
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

    /// The rows of a statement, or its error.
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
        other => return format!("{other:?}"),
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

fn keyspace() -> Keyspace {
    Keyspace {
        name: "ks".to_owned(),
        replication: vec![
            ("class".into(), "SimpleStrategy".into()),
            ("replication_factor".into(), "1".into()),
        ],
        durable_writes: true,
        initial_tablets: None,
        storage: Vec::new(),
    }
}

fn boot_config() -> BootConfig {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut storage = storage::Config::new("/node", Uuid::nil());
    storage.sync = SyncMode::Batch;
    storage.segment_bytes = 1 << 20;
    storage.commitlog_bytes_max = 16 << 20;
    storage.memtable_bytes_max = 4 << 20;
    BootConfig {
        node: NodeConfig {
            cluster_name: "test".into(),
            data_center: "dc1".into(),
            rack: "r1".into(),
            listen_address: address,
            broadcast_address: address,
            rpc_address: address,
            listen_port: 7000,
            rpc_port: Some(9042),
            num_tokens: 1,
            initial_tokens: Vec::new(),
        },
        storage,
    }
}
