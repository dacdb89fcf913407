//! The table of `perf-alternator`, its items, and the requests of one shard.

use super::http::{Connection, Outcome};
use super::options::Options;
use super::request::{self, POPULATED_TOGETHER, TABLE};
use crate::load::{Workers, Workload};
use cluster::Cluster;
use runtime::task::join_all;
use runtime::time::sleep;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

/// Connections that populate.
const POPULATING: u64 = 8;
/// A server may make and drop a table behind its answer: so often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_MAX: usize = 1200;

/// Makes the table anew, and waits until it can be used.
pub(super) async fn make_table(options: &Options, address: SocketAddr) -> Result<(), String> {
    let mut connection = Connection::connect(address).await?;
    let named = request::of_table();
    if connection.answer(("DeleteTable", &named)).await.is_ok() {
        for _ in 0..LOOKS_MAX {
            if connection.answer(("DescribeTable", &named)).await.is_err() {
                break;
            }
            sleep(LOOK).await;
        }
    }
    connection.answer(("CreateTable", &request::create(options.workload))).await?;
    for _ in 0..LOOKS_MAX {
        let described = connection.answer(("DescribeTable", &named)).await?;
        let described: serde_json::Value =
            serde_json::from_str(&described).map_err(|error| format!("DescribeTable: {error}"))?;
        let table = &described["Table"];
        let indexes = table["GlobalSecondaryIndexes"].as_array().into_iter().flatten();
        let mut states = indexes.map(|it| &it["IndexStatus"]).chain([&table["TableStatus"]]);
        if states.all(|state| state == "ACTIVE") {
            return Ok(());
        }
        sleep(LOOK).await;
    }
    Err(format!("{TABLE} does not become active"))
}

/// Writes all items.
pub(super) async fn populate(options: &Options, address: SocketAddr) -> Result<(), String> {
    let requests = request::Requests::of(options);
    let parts = (0..POPULATING).map(|part| {
        let requests = &requests;
        async move {
            let mut connection = Connection::connect(address).await?;
            let mut body = String::new();
            let first = part * POPULATED_TOGETHER;
            let step = (POPULATING * POPULATED_TOGETHER) as usize;
            for number in (first..options.partitions).step_by(step) {
                let asked = requests.populate(number, &mut body);
                let answer = connection.answer(asked).await;
                answer.map_err(|error| format!("population: {error}"))?;
            }
            Ok::<(), String>(())
        }
    });
    join_all(parts).await.into_iter().collect()
}

/// Flushes the table, and its indexes, of a node in this process.
pub(super) async fn flush() -> Result<(), String> {
    let schema = runtime::local::get::<Cluster>().schema();
    let keyspace = format!("alternator_{TABLE}");
    let tables = schema.tables().filter(|table| table.schema.keyspace == keyspace);
    let ids: Vec<_> = tables.map(|table| table.schema.id).collect();
    let flushed = runtime::on_all_shards(move || {
        let ids = ids.clone();
        async move {
            let storage = runtime::local::get::<storage::Storage>();
            for id in ids {
                storage.flush(id).await.map_err(|error| error.to_string())?;
            }
            Ok(())
        }
    });
    flushed.await.into_iter().collect()
}

/// A shard's part of the test. Lives in `runtime::local`.
pub(super) struct Requests {
    requests: request::Requests,
    address: SocketAddr,
    prng: RefCell<Prng>,
    turn: Turn,
    /// Connections with nothing under way, and the memory of requests.
    free: RefCell<Vec<(Connection, String)>>,
    workers: Workers,
}

/// Numbers of items in turn, of those that are this shard's.
struct Turn {
    first: u64,
    count: u64,
    next: Cell<u64>,
}

impl Turn {
    fn of_shard(partitions: u64) -> Turn {
        let (shard, shards) = (u64::from(runtime::shard_id()), u64::from(runtime::shard_count()));
        let count = (partitions / shards).max(1);
        Turn { first: shard * count, count, next: Cell::new(0) }
    }

    /// The first of so many.
    fn next(&self, items: u64) -> u64 {
        let next = self.next.get();
        // Those that go together do not go over the end.
        let at = if self.count < next + items { 0 } else { next };
        self.next.set(at + items);
        self.first + at
    }
}

/// Gives every shard its workload.
pub(super) async fn start(options: &Options, address: SocketAddr) {
    let options = options.clone();
    runtime::on_all_shards(move || {
        let options = options.clone();
        async move {
            runtime::local::set(Rc::new(Requests {
                requests: request::Requests::of(&options),
                address,
                prng: RefCell::new(Prng::from_seed(runtime::shard_id() as u64 + 1)),
                turn: Turn::of_shard(options.partitions),
                free: RefCell::default(),
                workers: Workers::new(&options.plan),
            }));
        }
    })
    .await;
}

impl Workload for Requests {
    type Error = String;

    fn workers(&self) -> &Workers {
        &self.workers
    }

    fn operations(&self) -> u64 {
        self.requests.operations()
    }

    async fn operate(&self) -> Result<(), String> {
        let free = self.free.borrow_mut().pop();
        let (mut connection, mut body) = match free {
            Some(free) => free,
            None => (Connection::connect(self.address).await?, String::new()),
        };
        let number = match self.requests.is_in_turn() {
            true => self.turn.next(self.requests.items()),
            false => self.prng.borrow_mut().next_u64(),
        };
        let asked = self.requests.next(number, &mut body);
        let (operation, outcome) = (asked.0, connection.ask(asked).await?);
        self.free.borrow_mut().push((connection, body));
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Refused(status, text) => Err(format!("{operation}: status {status}: {text}")),
        }
    }
}
