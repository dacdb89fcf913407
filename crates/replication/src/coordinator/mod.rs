//! The coordinator of one shard: takes reads and writes to where the data is.
//!
//! In reading order: this; `batch` (by shards), `here` (this node as a replica), [`held`] (batches
//! that this node keeps), [`nodes`] (tables that are on several nodes), `due`, `forget`, `replay`
//! and `logged` (batches that are applied, that are left, and on their way), `claims` (what
//! transactions hold in memory), `lwt` (rounds of conditional writes where there is one replica),
//! `acceptor` (this node as one of several),
//! `derived` (what writes change in views), [`build`] (views of tables that have data), `cdc` (what
//! writes add to logs of changes), `transact` (outcomes of transactions), `rate` (limits of
//! partitions), [`row_ttl`] (rows that say when they expire).

mod acceptor;
mod batch;
pub mod build;
mod cdc;
mod claims;
mod derived;
mod due;
mod forget;
pub mod held;
mod here;
mod logged;
pub(crate) mod lwt;
pub mod nodes;
mod rate;
mod replay;
pub mod row_ttl;
mod transact;
pub mod verify;

pub use derived::{Counters as ViewCounters, Outbox};

use crate::counter;
use crate::epochs::Epochs;
use crate::error::{ReadError, WriteError, read_failed, write_failed};
use crate::hints::{Bringer, Hints};
use crate::options::{BatchKind, Consistency, ReadOptions, WriteKind, WriteOptions};
use crate::plan::{Requirement, requirement};
use crate::range;
use crate::rate::Counts;
use crate::scan::Scan;
use crate::virtual_read;
use ::derived::log::{LogRows, Origin};
use cdc::{Logged, Logging};
use cluster::traffic::{Failure, InFlight, Work};
use cluster::{Cluster, Replication, Schema, TableEntry, TableKind, Traffic};
use messaging::Messaging;
use model::{TableId, TableSchema, Token};
use mutation::page::{Page, Partitions, ReadCommand};
use mutation::{FrozenMutation, FrozenView};
use runtime::Erased;
use runtime::group::STREAMING;
use runtime::sync::{Sender, channel};
use runtime::task::{Scope, join_all};
use runtime::time::{Mark, timeout};
use std::cell::Cell;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use storage::{Begun, Storage};

/// How coordinators behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a batch of several shards is remembered after it was applied: at least the time
    /// after which an applied write is durable (nothing in batch sync mode, otherwise more than
    /// the period).
    pub batch_memory: Duration,
    /// How old a batch is that is kept for a coordinator when it is replayed: at least the time
    /// that coordinators take for one.
    pub batch_age: Duration,
    /// Bytes of batches that are replayed in a second; 0: no bound.
    pub replay_bytes_per_second: u64,
}

impl Config {
    /// With a memory, and else the defaults of the options.
    pub const fn new(batch_memory: Duration) -> Config {
        let batch_age = Duration::from_secs(4);
        Config { batch_memory, batch_age, replay_bytes_per_second: 1 << 20 }
    }
}

/// One mutation of a batch with its place.
#[derive(Clone, Debug)]
pub struct BatchEntry {
    pub table: Rc<TableEntry>,
    pub token: Token,
    pub mutation: FrozenMutation,
}

impl BatchEntry {
    /// Asserts *owner-only*.
    pub(crate) fn check(&self) {
        check_place(&self.table, self.token, &self.mutation);
    }
}

/// Asserts that a mutation is of that table, and of the partition at `token`, so that it goes to
/// its owner (*owner-only*).
#[inline]
pub(crate) fn check_place(table: &TableEntry, token: Token, mutation: &FrozenMutation) {
    if cfg!(debug_assertions)
        && let Ok(view) = mutation.view()
    {
        let id = view.table();
        debug_assert!(id == table.schema.id, "owner-only: a write of {id} goes to another table");
        let own = Token::of(view.key());
        debug_assert!(own == token, "owner-only: a write of {own:?} goes to {token:?}");
    }
}

/// Coordinates this shard's requests. Lives in `runtime::local`.
pub struct Coordinator {
    pub(crate) config: Config,
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) storage: Rc<Storage>,
    pub(crate) shard: u16,
    /// What goes on after a request was answered.
    pub(crate) background: Scope,
    /// Batches to be forgotten.
    pub(crate) applied: Sender<forget::Applied>,
    /// Requests to other nodes to forget batches, under way.
    telling: Rc<Cell<u32>>,
    /// Batches that this node keeps, on the shard that has them.
    held: held::Held,
    replaying: replay::Replaying,
    /// Half-done batches that are tried again.
    pub(crate) retrying: Cell<u32>,
    /// Rounds of conditional writes whose rows are to be removed.
    pub(crate) learned: Sender<lwt::Learned>,
    /// Committed transactions whose outcomes are no longer needed, soon.
    ended: Sender<transact::Ended>,
    /// What this node has accepted of transactions, to be looked after.
    held_by: Sender<transact::Held>,
    /// What transactions hold in memory.
    claims: claims::Claims,
    /// Shard 0: rows that said when they expire.
    pub(crate) expired: row_ttl::Counters,
    /// Of clients, to partitions of tables that have limits for them.
    pub(crate) requests: Counts,
    pub(crate) views: derived::Views,
    logs: cdc::Plans,
    pub(crate) builds: Rc<build::Builds>,
    /// How long requests took and how they ended.
    pub(crate) traffic: Rc<Traffic>,
    /// Requests that go by where the data is.
    pub(crate) epochs: Rc<Epochs>,
    nodes: nodes::Nodes,
}

impl Coordinator {
    /// Puts a coordinator on every shard, then finishes the batches and the conditional writes that
    /// an earlier run has left half done. Runs on shard 0, after `cluster::boot`.
    pub fn start(config: Config) -> Erased<'static, Result<(), WriteError>> {
        Coordinator::start_among(config, nodes::Nodes::default)
    }

    /// The same, with what each shard knows of other nodes.
    pub(crate) fn start_among(
        config: Config,
        nodes: impl Fn() -> nodes::Nodes + Clone + Send + 'static,
    ) -> Erased<'static, Result<(), WriteError>> {
        Erased::new(move || async move {
            assert!(runtime::shard_id() == 0, "coordinators are started on shard 0");
            let set = move || {
                let nodes = nodes.clone();
                async move { Coordinator::set(config, nodes()) }
            };
            runtime::on_all_shards(set).await;
            let recalled = runtime::on_all_shards(|| async { derived::recall().await }).await;
            let recalled: Result<Vec<()>, String> = recalled.into_iter().collect();
            recalled.map_err(WriteError::Refused)?;
            let recalled = runtime::on_all_shards(|| async { build::recall().await }).await;
            let recalled: Result<Vec<()>, String> = recalled.into_iter().collect();
            recalled.map_err(WriteError::Refused)?;
            let finished = logged::finish_all(&runtime::local::get::<Coordinator>()).await?;
            tracing::info!(target: "batchlog", batches = finished, "batchlog replayed");
            runtime::local::get::<Coordinator>().recall_repairs().await;
            let finished = lwt::finish_all(&runtime::local::get::<Coordinator>()).await?;
            tracing::info!(target: "paxos", rounds = finished, "conditional writes replayed");
            let redone = runtime::local::get::<Coordinator>().redo_all().await?;
            tracing::info!(target: "paxos", transactions = redone, "transactions replayed");
            runtime::local::get::<Coordinator>().background.spawn(row_ttl::scan_all());
            runtime::local::get::<Coordinator>().background.spawn(transact::keep_finishing());
            let begin = || async { runtime::local::get::<Coordinator>().repair_by_itself() };
            runtime::on_all_shards(begin).await;
            Ok(())
        })
    }

    /// Puts a coordinator on this shard.
    fn set(config: Config, nodes: nodes::Nodes) {
        let (sender, receiver) = channel(forget::FORGETTING_MAX);
        let (learned, rounds) = channel(forget::FORGETTING_MAX);
        let background = Scope::new();
        background.spawn(forget::forget_durable(receiver));
        background.spawn(lwt::forget_durable(rounds));
        let (ended, transactions) = channel(forget::FORGETTING_MAX);
        background.spawn(transact::end_durable(transactions));
        let (held_by, held) = channel(forget::FORGETTING_MAX);
        background.spawn(transact::look_after(held));
        background.spawn(claims::look_after());
        background.spawn(cluster::rates::keep());
        drop(background.spawn_in(STREAMING, replay::keep_replaying()));
        let present = runtime::local::try_get::<Coordinator>();
        assert!(present.is_none(), "a shard has one coordinator");
        runtime::local::set(Rc::new(Bringer(Box::new(|written_at, mutations| {
            Box::pin(async move {
                let coordinator = own_coordinator();
                let stops = |_| WriteError::Overloaded("the node stops".to_owned());
                nodes::complete(&*coordinator.map_err(stops)?, written_at, mutations).await
            })
        }))));
        let storage: Rc<Storage> = runtime::local::get();
        let views = derived::Views::new(&storage);
        background.spawn(derived::keep_bringing(views.outbox.clone()));
        storage.derive_with(Some(Rc::new(derived::Hook::new(&views))));
        runtime::local::set(Rc::new(Coordinator {
            config,
            cluster: runtime::local::get(),
            storage,
            shard: runtime::shard_id(),
            background,
            applied: sender,
            telling: Rc::default(),
            held: held::Held::default(),
            replaying: replay::Replaying::default(),
            retrying: Cell::new(0),
            learned,
            ended,
            held_by,
            claims: claims::Claims::default(),
            expired: row_ttl::Counters::default(),
            requests: Counts::default(),
            views,
            logs: cdc::Plans::default(),
            builds: Rc::default(),
            traffic: Traffic::of_shard(),
            epochs: Rc::default(),
            nodes,
        }));
        let coordinator: Rc<Coordinator> = runtime::local::get();
        coordinator.send_together();
        coordinator.set_executor(nodes::Language::Transactions, Rc::new(transact::Decides));
    }

    /// What is on its way from this shard to views elsewhere.
    pub fn outbox(&self) -> &derived::Outbox {
        &self.views.outbox
    }

    /// What the scans for expired rows have done; zeros but on shard 0.
    pub fn expired(&self) -> &row_ttl::Counters {
        &self.expired
    }

    /// Takes the coordinators off every shard; requests in flight go on. Runs on shard 0.
    pub fn stop() -> Erased<'static, ()> {
        Erased::new(move || async move {
            assert!(runtime::shard_id() == 0, "coordinators are stopped on shard 0");
            let stop = || async {
                let coordinator = runtime::local::get::<Coordinator>();
                runtime::local::clear::<Coordinator>();
                coordinator.storage.derive_with(None);
                coordinator.background.cancel().await;
                // What is on its way to other nodes leaves hints, which stop later.
                coordinator.end_relayed();
                coordinator.end_together();
                if let Some(messaging) = Messaging::current() {
                    messaging.end_callers().await;
                }
            };
            runtime::on_all_shards(stop).await;
        })
    }

    /// The partition at `token` is about to be read or written: if it is on this shard, what
    /// looking for it begins with is fetched meanwhile.
    #[inline]
    pub fn prefetch(&self, table: &TableEntry, token: Token) {
        if table.kind == TableKind::Stored && table.tablets.shard_of(token) == self.shard {
            self.storage.prefetch(table.schema.id, token);
        }
    }

    /// The partitions at these tokens, a few, are about to be read or written one after the other:
    /// those on this shard are fetched.
    pub fn prefetch_all(&self, table: TableId, tokens: &[Token]) {
        self.storage.prefetch_all(table, tokens);
    }

    /// Writes one mutation of the partition at `token`. On its own shard this allocates nothing.
    pub async fn write(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        // Before it is looked what its log is asked for: who waits for the end of what goes by an
        // older answer waits for this.
        let _entered = Epochs::enter(&*self.epochs);
        let mut rows = LogRows::new();
        let mut mutation = mutation;
        if table.log.is_some() {
            match self.begin_logging((table.schema.id, token), mutation, Origin::Client)? {
                Logging::Done(logged) => (mutation, rows) = (logged.write, logged.rows),
                Logging::Waits(imaged) => mutation = self.read_images(imaged, options).await?,
            }
        }
        if let Some(replicas) = self.writers(table, token) {
            let mutation = Logged { write: mutation, rows }.attached();
            return Erased::new(|| self.write_spread(table, replicas, mutation, options)).await;
        }
        self.admit_write(table, options)?;
        check_place(table, token, &mutation);
        let begun = self.begin_write(options, 1);
        let shard = table.tablets.shard_of(token);
        let applied = match rows.is_empty() {
            true => timeout(options.timeout, self.apply(shard, mutation)).await,
            false => {
                let logged = Logged { write: mutation, rows };
                timeout(options.timeout, self.apply_logged(table, (shard, token), logged)).await
            }
        };
        self.end_write(table, options, begun, applied)
    }

    /// Writes many. Logged: all or nothing, also across a crash. Unlogged: what belongs to one
    /// shard is written as one, the rest independently; the first error is returned.
    pub async fn write_batch(
        &self,
        kind: BatchKind,
        mut entries: Vec<BatchEntry>,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let Some(first) = entries.first().map(|entry| entry.table.clone()) else { return Ok(()) };
        let _entered = Epochs::enter(&*self.epochs);
        if entries.iter().any(|entry| entry.table.log.is_some()) {
            entries = self.logged_all(entries, options).await?;
        }
        for entry in entries.iter().filter(|entry| !self.is_spread(&entry.table)) {
            self.admit_write(&entry.table, options)?;
        }
        let begun = self.begin_write(options, entries.len());
        let (began, others) = (begun.began, tables_beside(&first, &entries));
        if entries.iter().any(|entry| self.is_spread(&entry.table)) {
            let written = Box::pin(logged::write_spread(self, kind, entries, options)).await;
            others.iter().for_each(|table| table.local.traffic.record(Work::Write, began));
            return self.end_spread(&first, options, begun, written);
        }
        let groups = batch::by_shard(entries);
        let written = timeout(options.timeout, logged::write(self, kind, groups)).await;
        others.iter().for_each(|table| table.local.traffic.record(Work::Write, began));
        self.end_write(&first, options, begun, written)
    }

    /// Adds to counters: cells of `mutation` are `CellState::CounterUpdate`.
    pub async fn increment(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let _entered = Epochs::enter(&*self.epochs);
        if self.is_spread(table) {
            check_place(table, token, &mutation);
            let begun = self.begin_write(options, 1);
            let led = Box::pin(self.increment_spread(table, token, mutation, options)).await;
            return self.end_spread(table, options, begun, led);
        }
        self.admit_write(table, options)?;
        let begun = self.begin_write(options, 1);
        check_place(table, token, &mutation);
        let (id, host_id) = (table.schema.id, self.cluster.node().host_id);
        debug_assert!(!host_id.is_nil(), "own-shard: a counter's leader without a name");
        let lead =
            move || async move { lead_counter(id, host_id.into_bytes(), mutation).await.map(drop) };
        let shard = table.tablets.shard_of(token);
        self.count_call(shard);
        let led = timeout(options.timeout, runtime::on_shard(shard, lead)).await;
        self.end_write(table, options, begun, led)
    }

    /// Reads one page: of one partition from its shard, of a range tablet by tablet until a limit
    /// of the command is reached. `token` is that of the key, for `Partitions::Key`; a range
    /// ignores it. On the partition's own shard this allocates nothing.
    pub async fn read(
        &self,
        table: &TableEntry,
        token: Token,
        command: &ReadCommand,
        options: &ReadOptions<'_>,
    ) -> Result<Page, ReadError> {
        if let Some(replicas) = self.replicas(table, token) {
            let _entered = Epochs::enter(&*self.epochs);
            return Erased::new(|| self.read_spread(table, replicas, command, options)).await;
        }
        let (required, began, begun) = match self.read_here(table, token, command, options) {
            ControlFlow::Break(read) => return read,
            ControlFlow::Continue(begun) => begun,
        };
        let work = work_of(command, options.consistency);
        let _entered = Epochs::enter(&*self.epochs);
        // Boxed: what need not wait is not to pay for the room that waiting takes.
        let waits = Box::pin(async move {
            match &options.wanted {
                Some(wanted) if !wanted.take().await => Err(unwanted()),
                _ => self.read_waiting(table, command, begun).await,
            }
        });
        self.answer_read(table, (work, began), options, required, waits).await
    }

    /// The same, if nothing has to be waited for; `None`: it is to be read from the beginning.
    pub fn read_now(
        &self,
        table: &TableEntry,
        token: Token,
        command: &ReadCommand,
        options: &ReadOptions<'_>,
    ) -> Option<Result<Page, ReadError>> {
        if self.replicas(table, token).is_some() {
            return None;
        }
        match self.read_here(table, token, command, options) {
            ControlFlow::Break(read) => Some(read),
            ControlFlow::Continue(_) => None,
        }
    }

    /// A page of a table that has no replicas on other nodes, if it is one of a partition of this
    /// shard that is in memory; otherwise how many copies have to answer, and what has begun.
    #[inline]
    fn read_here(
        &self,
        table: &TableEntry,
        token: Token,
        command: &ReadCommand,
        options: &ReadOptions<'_>,
    ) -> ControlFlow<Result<Page, ReadError>, (u32, Mark, Begun)> {
        let consistency = options.consistency;
        let work = work_of(command, consistency);
        let required = match self.admit_read(table, work, options) {
            Ok(required) => required,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        if let (Partitions::Key(key), true) = (&command.partitions, cfg!(debug_assertions)) {
            debug_assert!(Token::of(key) == token, "owner-only: a read of another partition");
        }
        let began = Mark::now();
        let stored_key = table.kind == TableKind::Stored
            && matches!(command.partitions, Partitions::Key(_))
            && table.tablets.shard_of(token) == self.shard;
        if !stored_key {
            return ControlFlow::Continue((required, began, Begun::default()));
        }
        match self.storage.read_at_once(command) {
            ControlFlow::Continue(begun) => ControlFlow::Continue((required, began, begun)),
            ControlFlow::Break(Ok(page)) => {
                range::check_page(command, &page);
                self.traffic.record(&table.local.traffic, work, began);
                ControlFlow::Break(Ok(page))
            }
            ControlFlow::Break(Err(error)) => {
                self.traffic.fail(work, Failure::Other);
                ControlFlow::Break(Err(read_failed(error, consistency, required)))
            }
        }
    }

    /// Takes room for the next page of a request that gathers several, as [`Coordinator::read`]
    /// does for what has to wait.
    pub fn make_room<'a>(
        &'a self,
        table: &'a TableEntry,
        command: &'a ReadCommand,
        options: &'a ReadOptions<'a>,
    ) -> Erased<'a, Result<(), ReadError>> {
        Erased::new(move || async move {
            let Some(wanted) = &options.wanted else { return Ok(()) };
            let consistency = options.consistency;
            let work = work_of(command, consistency);
            let required = match self.is_spread(table) {
                true => 1,
                false => self.admit_read(table, work, options)?,
            };
            match timeout(options.timeout, wanted.take()).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(read_failed(unwanted(), consistency, required)),
                Err(_) => {
                    self.traffic.fail(work, Failure::Timeout);
                    let (received, data_present) = (0, false);
                    Err(ReadError::Timeout { consistency, received, required, data_present })
                }
            }
        })
    }

    /// Refuses what cannot be read or has too few copies; how many copies have to answer.
    #[inline]
    pub(crate) fn admit_read(
        &self,
        table: &TableEntry,
        work: Work,
        options: &ReadOptions<'_>,
    ) -> Result<u32, ReadError> {
        let consistency = options.consistency;
        if consistency == Consistency::Any {
            let text = "ANY ConsistencyLevel is only supported for writes";
            return Err(ReadError::Refused(text.to_string()));
        }
        let needed = self.requirement(&table.replication, consistency);
        let Requirement { required, alive } = needed;
        match needed.is_met() {
            true => Ok(required),
            false => {
                self.traffic.fail(work, Failure::Unavailable);
                assert!(alive < required, "{alive} copies are alive, and {required} required");
                Err(ReadError::Unavailable { consistency, required, alive })
            }
        }
    }

    /// The result of a read that had to wait.
    pub(crate) async fn answer_read(
        &self,
        table: &TableEntry,
        (work, began): (Work, Mark),
        options: &ReadOptions<'_>,
        required: u32,
        waits: Pin<Box<dyn Future<Output = Result<Page, reader::ReadError>> + '_>>,
    ) -> Result<Page, ReadError> {
        let consistency = options.consistency;
        let _under_way = self.traffic.begin(work);
        let read = timeout(options.timeout, waits).await;
        self.traffic.record(&table.local.traffic, work, began);
        match read {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) => {
                self.traffic.fail(work, Failure::Other);
                Err(read_failed(error, consistency, required))
            }
            Err(_) => {
                self.traffic.fail(work, Failure::Timeout);
                let (received, data_present) = (0, false);
                Err(ReadError::Timeout { consistency, received, required, data_present })
            }
        }
    }

    async fn read_waiting(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
        begun: Begun,
    ) -> Result<Page, reader::ReadError> {
        match table.kind {
            TableKind::Stored => self.page_in_turn(table, command, begun).await,
            TableKind::Virtual => self.read_virtual(&table.schema, command).await,
        }
    }

    /// Removes all rows of a table on all shards, those of writes in flight perhaps excepted. Once
    /// it began it runs to its end, also when `patience` is over, which is a timeout.
    pub fn truncate(
        self: &Rc<Coordinator>,
        table: TableId,
        patience: Duration,
    ) -> Erased<'_, Result<(), WriteError>> {
        Erased::new(move || async move {
            let schema = self.cluster.schema();
            if schema.table_by_id(table).is_some_and(|table| self.is_spread(table)) {
                let coordinator = self.clone();
                let task = self
                    .background
                    .spawn(async move { coordinator.truncate_spread(table, patience).await });
                let stops = |_| Err(WriteError::Overloaded("the node stops".to_owned()));
                return task.await.unwrap_or_else(stops);
            }
            self.truncate_alone(table, patience).await
        })
    }

    /// The same on this node.
    pub(crate) fn truncate_alone(
        self: &Rc<Coordinator>,
        table: TableId,
        patience: Duration,
    ) -> Erased<'_, Result<(), WriteError>> {
        Erased::new(move || async move {
            let coordinator = self.clone();
            // A task of its own: it must not stop halfway because its client has disconnected.
            let task = self.background.spawn(async move { coordinator.truncate_all(table).await });
            match timeout(patience, task).await {
                Ok(Ok(done)) => done,
                Ok(Err(_)) => Err(WriteError::Overloaded("the node stops".to_owned())),
                Err(_) => Err(WriteError::Timeout {
                    consistency: Consistency::All,
                    received: 0,
                    required: 1,
                    kind: WriteKind::Simple,
                }),
            }
        })
    }

    async fn truncate_all(&self, table: TableId) -> Result<(), WriteError> {
        let failed = |reason| WriteError::Failure {
            consistency: Consistency::All,
            received: 0,
            required: 1,
            failures: 1,
            kind: WriteKind::Simple,
            reason,
        };
        let schema = self.cluster.schema().table_by_id(table).map(|entry| entry.schema.clone());
        if let Some(schema) = schema.filter(|table| !Schema::is_system(&table.keyspace)) {
            self.cluster.snapshot_before_truncation(&schema).await.map_err(failed)?;
        }
        let at = runtime::time::wall_micros();
        lwt::forget_table(self, table).await?;
        self.settle(table).await?;
        let truncate = move || async move {
            let Ok(storage) = own_storage() else { return Err("the node stops".to_owned()) };
            let shard = runtime::shard_id();
            if let Some(hints) = Hints::of_shard() {
                hints.forget_table(table, at).await?;
            }
            match storage.truncate(table, at).await {
                Ok(place) => Ok(place.map(|place| (shard, place))),
                Err(error) => Err(format!("shard {shard}: {error}")),
            }
        };
        let truncated = runtime::on_all_shards(truncate).await;
        let places = truncated.into_iter().filter_map(Result::transpose);
        let places: Result<Vec<_>, String> = places.collect();
        if let Ok(places) = &places {
            let once = places.is_sorted_by(|a, b| a.0 < b.0);
            assert!(once, "a table was truncated twice on a shard: {places:?}");
        }
        let noted = match &places {
            Ok(places) => self.cluster.note_truncation(table, at, places).await,
            Err(reason) => Err(reason.clone()),
        };
        noted.map_err(failed)
    }

    fn requirement(&self, copies: &Replication, level: Consistency) -> Requirement {
        requirement(level, copies, &self.cluster.node().data_center)
    }

    /// Refuses what cannot be written or has too few copies.
    pub(crate) fn admit_write(
        &self,
        table: &TableEntry,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        if table.kind == TableKind::Virtual {
            let name = &table.schema.name;
            return Err(WriteError::Refused(format!(
                "table {name} is virtual and cannot be written"
            )));
        }
        let needed = self.requirement(&table.replication, options.consistency);
        let Requirement { required, alive } = needed;
        if !needed.is_met() {
            self.traffic.fail(work_of_write(options), Failure::Unavailable);
            assert!(alive < required, "{alive} copies are alive, and {required} required");
            let consistency = options.consistency;
            return Err(WriteError::Unavailable { consistency, required, alive });
        }
        Ok(())
    }

    /// A write begins that has so many mutations.
    pub(crate) fn begin_write(&self, options: &WriteOptions, mutations: usize) -> BegunWrite {
        debug_assert!(0 < mutations, "a write of nothing");
        self.traffic.mutations.add(mutations as u64);
        let in_flight = self.traffic.begin(work_of_write(options));
        BegunWrite { began: Mark::now(), _under_way: in_flight }
    }

    /// Records a write; its result for the client.
    pub(crate) fn end_write<R>(
        &self,
        table: &TableEntry,
        options: &WriteOptions,
        begun: BegunWrite,
        done: Result<Result<R, storage::WriteError>, runtime::time::Elapsed>,
    ) -> Result<R, WriteError> {
        let work = work_of_write(options);
        self.traffic.record(&table.local.traffic, work, begun.began);
        match &done {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => self.traffic.fail(work, Failure::Other),
            Err(_) => self.traffic.fail(work, Failure::Timeout),
        }
        self.answer(table, options, done)
    }

    /// The same of a write that goes to several nodes.
    pub(crate) fn end_spread<R>(
        &self,
        table: &TableEntry,
        options: &WriteOptions,
        begun: BegunWrite,
        done: Result<R, WriteError>,
    ) -> Result<R, WriteError> {
        let work = work_of_write(options);
        self.traffic.record(&table.local.traffic, work, begun.began);
        match &done {
            Ok(_) => {}
            Err(WriteError::Timeout { .. }) => self.traffic.fail(work, Failure::Timeout),
            Err(WriteError::Unavailable { .. }) => self.traffic.fail(work, Failure::Unavailable),
            Err(WriteError::RateLimited(_)) => self.traffic.fail(work, Failure::LimitedThere),
            Err(_) => self.traffic.fail(work, Failure::Other),
        }
        done
    }

    /// Another shard is about to be asked, unless `shard` is this one.
    pub(crate) fn count_call(&self, shard: u16) {
        debug_assert!(shard < runtime::shard_count(), "owner-only: {shard} is no shard");
        self.traffic.cross_shard.add((shard != self.shard).into());
    }

    /// The result of a write for the client.
    pub(crate) fn answer<R>(
        &self,
        table: &TableEntry,
        options: &WriteOptions,
        done: Result<Result<R, storage::WriteError>, runtime::time::Elapsed>,
    ) -> Result<R, WriteError> {
        let WriteOptions { consistency, kind, .. } = *options;
        let required = || self.requirement(&table.replication, consistency).required;
        match done {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(write_failed(error, consistency, kind, required())),
            Err(_) => {
                let (received, required) = (0, required());
                Err(WriteError::Timeout { consistency, received, required, kind })
            }
        }
    }

    /// Applies one mutation on the shard that owns it.
    pub(crate) async fn apply(
        &self,
        shard: u16,
        mutation: FrozenMutation,
    ) -> Result<(), storage::WriteError> {
        if shard == self.shard {
            return self.storage.apply(mutation).await;
        }
        self.count_call(shard);
        let apply = move || async move { own_storage()?.apply(mutation).await };
        Box::pin(runtime::on_shard(shard, apply)).await
    }

    /// As [`Coordinator::apply`], but returns when the write is on the disk.
    pub(crate) async fn apply_durably(
        &self,
        shard: u16,
        mutation: FrozenMutation,
    ) -> Result<(), storage::WriteError> {
        if shard == self.shard {
            return self.storage.apply_durably(mutation).await;
        }
        self.count_call(shard);
        let apply = move || async move { own_storage()?.apply_durably(mutation).await };
        runtime::on_shard(shard, apply).await
    }

    pub(crate) async fn read_on(
        &self,
        shard: u16,
        command: &ReadCommand,
    ) -> Result<Page, reader::ReadError> {
        if shard == self.shard {
            return self.storage.read(command).await;
        }
        self.count_call(shard);
        let command = command.clone();
        let read = move || async move {
            let Ok(storage) = own_storage() else {
                return Err(reader::ReadError::Overloaded("the node stops".to_owned()));
            };
            storage.read(&command).await
        };
        runtime::on_shard(shard, read).await
    }

    pub(crate) async fn read_range(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
    ) -> Result<Page, reader::ReadError> {
        let command = range::settle(command.clone());
        let tablets = &table.tablets;
        if let Some(sharder) = tablets.sharder() {
            let mut scan = Scan::new(command, sharder);
            loop {
                let asks = scan.asks();
                if asks.is_empty() {
                    return Ok(scan.finish());
                }
                let read = async |(shard, ask)| (shard, self.read_on(shard, &ask).await);
                for (shard, page) in join_all(asks.into_iter().map(read)).await {
                    scan.take(shard, page?);
                }
            }
        }
        assert!(0 < tablets.count(), "ring-order: a table without tablets");
        let mut answer = Page::default();
        for index in range::first_tablet(&command, tablets)..tablets.count() {
            let Some(part) = range::part(&command, tablets, index, &answer) else { break };
            let page = self.read_on(tablets.shards()[index], &part).await?;
            range::append(&mut answer, page);
            if answer.resume.is_some() {
                break;
            }
        }
        range::check_page(&command, &answer);
        Ok(answer)
    }

    async fn read_virtual(
        &self,
        schema: &TableSchema,
        command: &ReadCommand,
    ) -> Result<Page, reader::ReadError> {
        let Some(rows) = self.cluster.virtual_rows(schema.id) else { return Ok(Page::default()) };
        let rows = rows().await;
        Ok(virtual_read::answer(schema, rows, &range::settle(command.clone())))
    }
}

/// A write that is in flight.
pub(crate) struct BegunWrite {
    began: Mark,
    _under_way: InFlight,
}

/// What a read is counted as.
pub(crate) fn work_of(command: &ReadCommand, level: Consistency) -> Work {
    match &command.partitions {
        _ if level.is_serial() => Work::CasRead,
        Partitions::Key(_) => Work::Read,
        Partitions::Range { .. } => Work::Scan,
    }
}

/// What a write is counted as.
fn work_of_write(options: &WriteOptions) -> Work {
    if options.consistency.is_serial() { Work::CasWrite } else { Work::Write }
}

/// The tables of a batch but `first`, each once.
fn tables_beside(first: &Rc<TableEntry>, entries: &[BatchEntry]) -> Vec<Rc<TableEntry>> {
    let mut tables: Vec<Rc<TableEntry>> = Vec::new();
    for BatchEntry { table, .. } in entries {
        let same = |other: &Rc<TableEntry>| other.schema.id == table.schema.id;
        if !same(first) && !tables.iter().any(same) {
            tables.push(table.clone());
        }
    }
    assert!(tables.len() < entries.len(), "a batch of {} entries", entries.len());
    tables
}

fn unwanted() -> reader::ReadError {
    reader::ReadError::Overloaded("nobody waits for the answer any more".to_owned())
}

/// This shard's storage, unless it has stopped: what other shards ask may come late.
pub(crate) fn own_storage() -> Result<Rc<Storage>, storage::WriteError> {
    runtime::local::try_get().ok_or(storage::WriteError::Stopped)
}

/// This shard's coordinator, unless it has stopped.
pub(crate) fn own_coordinator() -> Result<Rc<Coordinator>, storage::WriteError> {
    runtime::local::try_get().ok_or(storage::WriteError::Stopped)
}

/// What is read before an increment.
const COUNTER_READ: (&str, &str) =
    ("the counter's stored state", "the read before a counter's write");

/// Makes an increment the counter's next state, on the shard that owns it; that state.
async fn lead_counter(
    table: TableId,
    leader: mutation::counter::ShardId,
    update: FrozenMutation,
) -> Result<FrozenMutation, storage::WriteError> {
    let coordinator = own_coordinator()?;
    // The update was made by a builder of this process.
    let view = FrozenView::trusted(&update.0).map_err(storage::WriteError::Damaged)?;
    let storage = coordinator.storage.clone();
    let alone = storage.lock_partition(table, view.key()).await;
    // *one-decides* of `storage`: it has gone while this one waited, or since it was looked up.
    if let Some(owner) = storage.elsewhere(table, Token::of(view.key())) {
        drop(alone);
        let lead = move || lead_counter_boxed(table, leader, update);
        return runtime::on_shard(owner, lead).await;
    }
    let schema = coordinator.cluster.schema();
    let entry = schema.table_by_id(table).ok_or(storage::WriteError::UnknownTable(table))?;
    let schema = entry.schema.clone();
    check_owner(&coordinator, table, view.key());
    let now = runtime::time::wall_micros();
    let command = counter::read_command(&schema, view, now.div_euclid(1_000_000));
    let page = storage.read(&command).await;
    let page = page.map_err(|error| unreadable(error, COUNTER_READ))?;
    range::check_page(&command, &page);
    let resolved = counter::resolve(&schema, view, &command, &page, leader, now);
    let resolved = resolved.map_err(storage::WriteError::Damaged)?;
    storage.apply(resolved.clone()).await?;
    drop(alone);
    Ok(resolved)
}

/// As [`lead_counter`], on the shard that a tablet has gone to.
fn lead_counter_boxed(
    table: TableId,
    leader: mutation::counter::ShardId,
    update: FrozenMutation,
) -> reader::LocalFuture<'static, Result<FrozenMutation, storage::WriteError>> {
    Box::pin(lead_counter(table, leader, update))
}

/// Asserts that this shard owns a partition that it has locked (*owner-only*).
pub(crate) fn check_owner(coordinator: &Coordinator, table: TableId, key: &[u8]) {
    debug_assert!(
        coordinator.storage.elsewhere(table, Token::of(key)).is_none(),
        "owner-only: a partition of another shard is locked"
    );
}

/// A read that a write needed has failed: what is damaged then, and what was waited for.
fn unreadable(
    error: reader::ReadError,
    (what, read): (&'static str, &'static str),
) -> storage::WriteError {
    match error {
        reader::ReadError::Io(error) => storage::WriteError::Log(error),
        reader::ReadError::Damaged { at, .. } => {
            storage::WriteError::Damaged(stdx::Damaged::new(what, at))
        }
        _ => storage::WriteError::Overloaded(read),
    }
}
