//! The registry of one shard: the present snapshot of the catalog, and the way to the next.
//!
//! The thin edge of a state machine that is pure (`catalog`). A command goes through shard 0:
//! decided under the lock, its new tables added to storage (no statement can name them yet), its
//! rows written as one entry of the schema log, then applied on all shards, then announced to
//! clients. What a crash interrupts is either in the log or not.
//!
//! Invariants
//!  - *durable-before-visible*: no shard shows a snapshot that a crash could take back.
//!  - *one-writer*: commands are made on shard 0 only, one after the other, each with later
//!    timestamps than all before.
//!  - *as-decided*: a node that follows another one shows what that one decided, and tells its
//!    clients, whatever it was that it missed.
//!  - *whole-snapshots*: a shard's snapshot is replaced as a whole, by the same command on every
//!    shard; a reference to one never changes.

mod convert;
mod divide;
mod follow;
mod formed;
pub(crate) mod order;
mod steps;

use crate::access::{Access, groups};
use crate::at_last::{Attempt, at_last};
use crate::auto_snapshots::AutoSnapshots;
use crate::event::{Event, Events, SchemaEvent, Subscribers};
use crate::node::NodeInfo;
use crate::peers::{self, Activity, Lives, Peers};
use crate::placement::{Placement, Replicas};
use crate::schema::{Catalog, Schema, TableEntry};
use crate::settings::{Live, Settings};
use crate::uuids::time_uuid_now;
use crate::virtual_tables::{Providers, VirtualRows, VirtualWriter};
use catalog::placement::{Here, Repairs, SCALE, TabletStep};
use catalog::streams::Streams;
use catalog::{Command, Moment, SchemaChange, Topology, TopologyChange};
use model::{TableId, TableSchema, Token, Uuid};
use mutation::FrozenMutation;
use order::{Order, Proposed};
use runtime::Erased;
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Scope, race};
use runtime::time::sleep;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use steps::Steps;
use storage::Storage;

/// Schema changes that wait for their turn at most.
const WAITING_MAX: usize = 4096;

/// Why a schema change did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError<E> {
    /// The decision said no.
    Refused(E),
    /// It could not be made durable, or not be carried out: the reason.
    Failed(String),
}

impl<E: fmt::Display> fmt::Display for ChangeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Refused(error) => write!(f, "{error}"),
            ChangeError::Failed(reason) => write!(f, "schema change failed: {reason}"),
        }
    }
}

pub use convert::Stored;
pub use divide::Resizes;
pub(crate) use steps::tell_deriving;

/// Steps of tablets, each with its number, by table.
pub type TabletSteps = BTreeMap<TableId, Vec<(usize, TabletStep)>>;

/// What one shard knows of the cluster. Lives in `runtime::local`.
pub struct Cluster {
    node: NodeInfo,
    catalog: Rc<RefCell<Catalog>>,
    subscribers: Subscribers,
    virtual_tables: Providers,
    /// Shard 0: whose turn it is to change the catalog.
    turn: Semaphore,
    is_stopping: Cell<bool>,
    /// Shard 0: whether a change has its turn.
    is_changing: Cell<bool>,
    /// Shard 0: the latest timestamp of the last command; the next one has later ones.
    last_timestamp: Cell<i64>,
    /// Shard 0: what commands of this node come after besides.
    not_before: Cell<i64>,
    /// Shard 0: that of the last command which is durable.
    durable_until: Cell<i64>,
    /// That of the last command which this shard shows.
    shown_until: Cell<i64>,
    /// Changes run here, so that a client that disconnects does not stop one halfway.
    changes: Scope,
    /// Shard 0 of a node that belongs to a group: who orders its commands and those of others.
    order: RefCell<Option<Rc<dyn Order>>>,
    /// Shard 0: tables that storage has to divide anew.
    dividing: divide::Dividing,
    auto_snapshots: AutoSnapshots,
    /// Tablets of a new table for each shard.
    tablets_scale: Live<f64>,
    access: Access,
    peers: Peers,
    /// What this node does, on shard 0 of a node that has others.
    activity: Cell<Option<Activity>>,
    /// Of the topology that this shard shows.
    placement: RefCell<Rc<Placement>>,
    /// The shard shows another snapshot.
    changed: Notify,
}

impl Cluster {
    /// `last_timestamp`: that of the last command which is durable, and which `catalog` shows.
    pub(crate) fn new(node: NodeInfo, catalog: Catalog, last_timestamp: i64) -> Cluster {
        let placement = Placement::new(&catalog.topology, &node);
        let catalog = Rc::new(RefCell::new(catalog));
        Cluster {
            placement: RefCell::new(Rc::new(placement)),
            node,
            catalog: catalog.clone(),
            subscribers: Subscribers::default(),
            virtual_tables: Providers::default(),
            turn: Semaphore::new(1, WAITING_MAX),
            is_stopping: Cell::new(false),
            is_changing: Cell::new(false),
            last_timestamp: Cell::new(last_timestamp),
            not_before: Cell::new(0),
            durable_until: Cell::new(last_timestamp),
            shown_until: Cell::new(last_timestamp),
            changes: Scope::new(),
            order: RefCell::new(None),
            dividing: divide::Dividing::default(),
            auto_snapshots: AutoSnapshots::of_shard(),
            tablets_scale: Settings::of_shard().register(SCALE_OPTION, SCALE, possible_scale),
            access: Access::new(catalog),
            peers: Peers::default(),
            activity: Cell::default(),
            changed: Notify::new(),
        }
    }

    /// The identity of this node.
    pub fn node(&self) -> &NodeInfo {
        &self.node
    }

    /// The present snapshot.
    pub fn schema(&self) -> Rc<Schema> {
        self.catalog.borrow().schema.clone()
    }

    /// The present snapshot, as a whole.
    pub(crate) fn catalog(&self) -> Catalog {
        self.catalog.borrow().clone()
    }

    /// Roles and grants.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The nodes of the cluster, as this shard knows them; none before this node has joined them.
    pub fn topology(&self) -> Arc<Topology> {
        self.catalog.borrow().topology.clone()
    }

    /// Waits until this shard shows another snapshot. Who waits for something looks at the snapshot
    /// first, and again afterwards.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The same, until so much time is over.
    pub async fn changed_within(&self, time: Duration) {
        race(self.changed(), sleep(time)).await;
    }

    /// What this node did in the last seconds: on shard 0, and of a node that knows others.
    pub fn activity(&self) -> Option<Activity> {
        self.activity.get()
    }

    pub(crate) fn set_activity(&self, activity: Activity) {
        self.activity.set(Some(activity));
    }

    /// The streams that changes of a table go to: its own, or those of the ring.
    #[inline]
    pub fn streams(&self, table: &TableEntry) -> Arc<Streams> {
        match table.streams.is_empty() {
            true => self.catalog.borrow().topology.streams().clone(),
            false => table.streams.clone(),
        }
    }

    /// How the other nodes are, as this shard knows.
    pub fn lives(&self) -> Rc<Lives> {
        self.peers.lives()
    }

    pub(crate) fn set_lives(&self, lives: Lives) {
        self.peers.replace(lives);
    }

    /// Who has a token of a table, and is read.
    #[inline]
    pub fn replicas(&self, table: &TableEntry, token: Token) -> Replicas {
        self.placement.borrow().replicas(table, token)
    }

    /// Who is to have what is written to a token of a table.
    #[inline]
    pub fn writers(&self, table: &TableEntry, token: Token) -> Replicas {
        self.placement.borrow().writers(table, token)
    }

    /// Where the data is, under the topology that this shard shows.
    pub fn placement(&self) -> Rc<Placement> {
        self.placement.borrow().clone()
    }

    /// The topology is another one: where nodes are, and data.
    fn place(&self) {
        let topology = self.topology();
        self.placement.replace(Rc::new(Placement::new(&topology, &self.node)));
        peers::tell_addresses(&topology, self.node.host_id);
    }

    /// Whether a node answers; this one does.
    pub fn is_alive(&self, host_id: Uuid) -> bool {
        let lives = self.peers.lives();
        host_id == self.node.host_id || lives.get(&host_id).is_some_and(|life| life.is_alive)
    }

    /// Changes the nodes of the cluster. `decide` sees them as they are when the change has its
    /// turn, with the rest of the catalog, and says why nothing can be changed.
    pub async fn change_topology<F>(&self, decide: F) -> Result<(), ChangeError<String>>
    where
        F: Fn(&Catalog) -> Result<Vec<TopologyChange>, String> + Send + 'static,
    {
        let decided = move |catalog: &Catalog, moment: Moment| {
            let changes = decide(catalog).map_err(ChangeError::Refused)?;
            if changes.is_empty() {
                return Ok((None, ()));
            }
            let command = Command::of_topology(&catalog.topology, changes, moment.micros);
            Ok((Some(command.map_err(ChangeError::Refused)?), ()))
        };
        self.change_catalog(decided).await.map(drop)
    }

    /// Has tablets make steps on their way to other nodes. `decide` sees the catalog as it is when
    /// the change has its turn, and says why nothing can be changed.
    pub async fn change_tablets<F>(&self, decide: F) -> Result<(), ChangeError<String>>
    where
        F: Fn(&Catalog) -> Result<TabletSteps, String> + Send + 'static,
    {
        let decided = move |catalog: &Catalog, moment: Moment| {
            let steps = decide(catalog).map_err(ChangeError::Refused)?;
            if steps.is_empty() {
                return Ok((None, ()));
            }
            let named = steps.values().all(|steps| !steps.is_empty());
            assert!(named, "one-writer: a table of which no tablet makes a step");
            let command = Command::of_tablets(&catalog.schema, &steps, moment.micros);
            Ok((Some(command.map_err(ChangeError::Refused)?), ()))
        };
        self.change_catalog(decided).await.map(drop)
    }

    /// Notes with tablets that they were repaired, of each table in which ranges, from their first
    /// token to their last, before which millisecond since 1970.
    pub async fn note_repairs(
        &self,
        repairs: BTreeMap<TableId, Repairs>,
    ) -> Result<(), ChangeError<Infallible>> {
        assert!(!repairs.is_empty(), "one-writer: no table was repaired");
        let decided = move |catalog: &Catalog, moment: Moment| {
            Ok((Command::of_repairs(&catalog.schema, &repairs, moment.micros), ()))
        };
        self.change_catalog(decided).await.map(drop)
    }

    /// Changes the schema. `decide` runs on shard 0, alone, and sees the schema as it is then; what
    /// it returns is made durable as one, then carried out and shown on every shard, then told to
    /// subscribers. Returns the events, one per change, when all shards of this node show the new
    /// schema. No changes: nothing happens, `Ok` with an empty list.
    ///
    /// Where a change of another node comes first `decide` runs again, on the schema after that.
    /// Once begun it runs to its end, also when the returned future is dropped.
    pub async fn change_schema<E, F>(&self, decide: F) -> Result<Vec<SchemaEvent>, ChangeError<E>>
    where
        F: Fn(&Schema) -> Result<Vec<SchemaChange>, E> + Send + 'static,
        E: Send + 'static,
    {
        self.change_schema_for(None, decide).await
    }

    /// The same for a role, which may do everything with what it creates.
    pub async fn change_schema_for<E, F>(
        &self,
        creator: Option<String>,
        decide: F,
    ) -> Result<Vec<SchemaEvent>, ChangeError<E>>
    where
        F: Fn(&Schema) -> Result<Vec<SchemaChange>, E> + Send + 'static,
        E: Send + 'static,
    {
        let decided = move |catalog: &Catalog, moment: Moment| {
            let changes = decide(&catalog.schema).map_err(ChangeError::Refused)?;
            let events: Vec<SchemaEvent> = changes.iter().map(SchemaEvent::of).collect();
            debug_assert!(events.len() == changes.len(), "told: an event per change");
            if changes.is_empty() {
                return Ok((None, events));
            }
            let command = catalog.change_schema(changes, creator.as_deref(), moment);
            Ok((Some(command.map_err(ChangeError::Failed)?), events))
        };
        let (events, told) = self.change_catalog(decided).await?;
        if !told {
            tell(events.clone()).await;
        }
        Ok(events)
    }

    /// The way of every change: `decide` sees the catalog as it is when the change has its turn,
    /// and again where a change of another node came first; it returns a command, if something is
    /// to change, and what it has to say. That, and whether subscribers were told.
    pub(crate) async fn change_catalog<T, E, F>(
        &self,
        decide: F,
    ) -> Result<(T, bool), ChangeError<E>>
    where
        F: Fn(&Catalog, Moment) -> Result<(Option<Command>, T), ChangeError<E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let change = move |cluster: Rc<Cluster>| async move {
            let order = cluster.order.borrow().clone();
            match order {
                Some(order) => cluster.change_in_order(&*order, decide).await,
                None if cluster.has_others() => Err(ChangeError::Failed(
                    "this node takes no part in its cluster now: nothing can be changed".to_owned(),
                )),
                None => {
                    let decided = cluster.in_turn_here(|| async {
                        let (command, said) = decide(&cluster.catalog(), cluster.moment())?;
                        if let Some(command) = command {
                            let done = cluster.carry_out(command, Vec::new()).await;
                            done.map_err(ChangeError::Failed)?;
                        }
                        Ok((said, false))
                    });
                    decided.await
                }
            }
        };
        self.on_first_shard(change).await
    }

    async fn change_in_order<T, E>(
        &self,
        order: &dyn Order,
        decide: impl Fn(&Catalog, Moment) -> Result<(Option<Command>, T), ChangeError<E>>,
    ) -> Result<(T, bool), ChangeError<E>> {
        let _turn = order.turn().await.map_err(ChangeError::Failed)?;
        loop {
            order.barrier().await.map_err(ChangeError::Failed)?;
            let catalog = self.catalog();
            let (command, said) = decide(&catalog, self.moment())?;
            let Some(command) = command else { return Ok((said, false)) };
            let last = command.last_timestamp();
            match order.propose(&catalog, command).await.map_err(ChangeError::Failed)? {
                Proposed::Shown { told } => {
                    let shown = self.shown_until.get();
                    debug_assert!(last <= shown, "shown-before-told: {last} after {shown}");
                    return Ok((said, told));
                }
                Proposed::Lost => {}
            }
        }
    }

    /// Waits until this node shows all commands that took effect before, on whichever node: for who
    /// is told of something that it does not know.
    pub async fn catch_up(&self) -> Result<(), String> {
        let barrier = || async {
            let cluster = runtime::local::try_get::<Cluster>();
            let order = cluster.and_then(|cluster| cluster.order.borrow().clone());
            match order {
                Some(order) => order.barrier().await,
                None => Ok(()),
            }
        };
        runtime::on_shard(0, barrier).await
    }

    /// Whether there are other nodes, without whom nothing is decided.
    fn has_others(&self) -> bool {
        self.topology().present().any(|member| member.host_id != self.node.host_id)
    }

    /// From now on commands are ordered with those of other nodes. On shard 0.
    pub(crate) fn set_order(&self, order: Option<Rc<dyn Order>>) {
        assert!(runtime::shard_id() == 0, "one-writer: commands are ordered on shard 0");
        self.order.replace(order);
    }

    /// What the next command takes from its surroundings.
    fn moment(&self) -> Moment {
        let (micros, random) = (self.next_micros(), runtime::random_u64());
        let Here { host_id, shards } = self.node.here();
        let scale = self.tablets_scale.get();
        assert!(possible_scale(&scale).is_ok(), "one-writer: {scale} tablets for each shard");
        Moment { micros, random, host_id, shards, scale }
    }

    /// Runs a change on shard 0, to its end, also when the returned future is dropped.
    async fn on_first_shard<T, E, F, Fut>(&self, change: F) -> Result<T, ChangeError<E>>
    where
        F: FnOnce(Rc<Cluster>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, ChangeError<E>>> + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let run = move || async move {
            let stops = || Err(ChangeError::Failed("the node stops".to_owned()));
            let Some(cluster) = runtime::local::try_get::<Cluster>() else { return stops() };
            let task = cluster.changes.spawn(change(cluster.clone()));
            task.await.unwrap_or_else(|_| stops())
        };
        runtime::on_shard(0, run).await
    }

    /// The same, when it has its turn.
    pub(crate) async fn in_turn<T, E, F, Fut>(&self, change: F) -> Result<T, ChangeError<E>>
    where
        F: FnOnce(Rc<Cluster>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, ChangeError<E>>> + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let change = |cluster: Rc<Cluster>| async move {
            cluster.in_turn_here(|| change(cluster.clone())).await
        };
        self.on_first_shard(change).await
    }

    async fn in_turn_here<T, E, Fut>(
        &self,
        change: impl FnOnce() -> Fut,
    ) -> Result<T, ChangeError<E>>
    where
        Fut: Future<Output = Result<T, ChangeError<E>>>,
    {
        let turn = self.turn.acquire(1).await;
        let _turn = turn.map_err(|error| ChangeError::Failed(error.to_string()))?;
        assert!(!self.is_changing.replace(true), "one-writer: two changes at once");
        let changed = change().await;
        self.is_changing.set(false);
        changed
    }

    /// Events from now on.
    pub fn subscribe(&self) -> Events {
        self.subscribers.subscribe()
    }

    /// Notifies the subscribers of this shard.
    pub fn publish(&self, event: &Event) {
        self.subscribers.publish(event);
    }

    /// Gives the virtual table `system.name` its rows on this shard (every shard must). Panics
    /// when there is no such virtual table.
    pub fn provide(&self, name: &str, rows: VirtualRows) {
        self.virtual_tables.provide(&self.schema(), ("system", name), rows);
    }

    /// The same for a virtual table of `system_distributed`.
    pub fn provide_distributed(&self, name: &str, rows: VirtualRows) {
        self.virtual_tables.provide(&self.schema(), ("system_distributed", name), rows);
    }

    /// Lets the virtual table `system.name` be written on this shard (every shard must).
    pub(crate) fn provide_writer(&self, name: &str, writer: VirtualWriter) {
        self.virtual_tables.provide_writer(&self.schema(), name, writer);
    }

    /// The provider of the rows of a virtual table; `None`: it has no rows.
    pub fn virtual_rows(&self, id: TableId) -> Option<VirtualRows> {
        self.virtual_tables.rows(id)
    }

    /// Writes to a virtual table. Most are read-only: the error says why.
    pub fn write_virtual<'a>(
        &'a self,
        table: &'a TableSchema,
        mutation: &'a FrozenMutation,
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move { self.virtual_tables.write(table, mutation).await })
    }

    /// An id for a new table: a time-based UUID, never given twice.
    pub fn new_table_id() -> Uuid {
        time_uuid_now()
    }

    /// Waits for changes in progress, refuses new ones.
    pub(crate) fn stop(&self) -> Erased<'_, ()> {
        Erased::new(move || async move {
            self.is_stopping.set(true);
            self.turn.close();
            self.changes.join().await;
            self.dividing.stop().await;
            let (shown, durable) = (self.shown_until.get(), self.durable_until.get());
            assert!(
                shown <= durable,
                "durable-before-visible: {shown} is shown, {durable} durable"
            );
            assert!(!self.is_changing.get(), "one-writer: a change goes on after the stop");
        })
    }

    /// The latest timestamp of the last command that is durable.
    pub(crate) fn last_timestamp(&self) -> i64 {
        self.durable_until.get()
    }

    /// The time of the next command, later than all before.
    pub(crate) fn next_micros(&self) -> i64 {
        let (now, last) = (runtime::time::wall_micros(), self.last_timestamp.get());
        assert!(self.durable_until.get() <= last, "durable-before-visible: after the last one");
        now.max(last.max(self.not_before.get()) + 1)
    }

    /// Commands of this node have later timestamps from now on.
    pub(crate) fn pass(&self, micros: i64) {
        debug_assert!(runtime::shard_id() == 0, "one-writer: commands are made on shard 0");
        self.not_before.set(self.not_before.get().max(micros));
    }

    /// Makes a command durable, then visible; `beside`: rows that are written with it.
    pub(crate) fn carry_out(
        &self,
        command: Command,
        beside: Vec<FrozenMutation>,
    ) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            assert!(runtime::shard_id() == 0, "one-writer: a command is made on another shard");
            assert!(self.is_changing.get(), "one-writer: a command is made out of turn");
            let last = command.last_timestamp();
            let before_last = self.last_timestamp.replace(last);
            assert!(before_last < last, "one-writer: timestamp {last} after {before_last}");
            let before = self.schema();
            let mut rows = command.rows(&before);
            assert!(!rows.is_empty(), "durable-before-visible: a command that writes nothing");
            rows.extend(beside);
            let steps = match command.schema_after(&before) {
                Some(after) => Steps::between(&before, &after, command.schema_changes()),
                None => Steps::default(),
            };

            self.add_tables(&steps).await?;
            if let Err(error) = self.keep(rows).await {
                steps::drop_tables(steps.created_ids(), None).await;
                return Err(error);
            }
            let durable = self.durable_until.replace(last);
            assert!(durable < last, "durable-before-visible: {last} after {durable}");
            let present = self.schema().version;
            assert!(present == before.version, "one-writer: schema {present} came in between");
            steps::flush_tables(steps::losing_columns(&before, &steps.altered)).await;
            let version = command.version();
            show(command, Read::default(), steps.altered).await;
            if let Some(version) = version {
                self.drop_with_snapshots(&before, steps.dropped).await;
                tracing::info!(target: "schema", %version, "schema changed");
            }
            Ok(())
        })
    }

    /// Writes rows of the catalog as one entry (*decided-is-done*).
    pub(crate) async fn keep(&self, rows: Vec<FrozenMutation>) -> Result<(), String> {
        let storage = runtime::local::get::<Storage>();
        let write = async || storage.apply_all(rows.clone()).await.map_err(Attempt::from);
        at_last("writing the catalog", || self.goes_on(), write).await
    }

    /// Makes tables that are created known to the storage of every shard (*decided-is-done*).
    async fn add_tables(&self, steps: &Steps) -> Result<(), String> {
        let add = async || {
            let added = steps::add_tables(steps.created.clone()).await;
            if added.is_err() {
                steps::drop_tables(steps.created_ids(), None).await;
            }
            added.map_err(Attempt::passing)
        };
        at_last("creating tables", || self.goes_on(), add).await
    }

    /// Whether what fails is to be tried again: what was decided with others is, until the node
    /// stops. Where it is alone, who asked for it is told, and asks again.
    fn goes_on(&self) -> bool {
        !self.is_stopping.get() && self.order.borrow().is_some()
    }

    /// Carries out a command of this node that was ordered with those of others, when it has its
    /// turn. Subscribers are not told. Once begun it runs to its end, also when the returned future
    /// is dropped: the group may stop while a disk fails.
    pub(crate) fn carry_out_own(
        &self,
        command: Command,
        beside: Vec<FrozenMutation>,
    ) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            let done = self.in_turn(move |cluster| async move {
                cluster.carry_out(command, beside).await.map_err(ChangeError::<Infallible>::Failed)
            });
            done.await.map_err(|error| format!("{error:?}"))
        })
    }

    /// Replaces this shard's snapshot by the next one; the scheduling groups of levels that it does
    /// not have any longer.
    fn install(&self, command: &Command) -> Vec<runtime::group::Group> {
        let last = command.last_timestamp();
        let shown = self.shown_until.replace(last);
        assert!(shown < last, "one-writer: a command of {last} is shown after one of {shown}");
        let is_durable = runtime::shard_id() != 0 || last <= self.durable_until.get();
        assert!(is_durable, "durable-before-visible: {last} is shown and not durable");
        {
            let mut present = self.catalog.borrow_mut();
            let (schema, topology) = (present.schema.clone(), present.topology.clone());
            let access = std::mem::take(&mut present.access);
            *present = Catalog { schema, access, topology }.apply(command);
        }
        let next = self.schema();
        convert::show_converted(&next, command.schema_changes());
        for moved in command.tablets() {
            let entry = next.table_by_id(moved.table);
            // Nobody goes by those that a table is being given.
            if let Some(entry) = entry.filter(|entry| !entry.replicas.is_empty()) {
                entry.local.show(entry.replicas.clone());
                let shown = crate::schema::ShardLocal::are_shown(entry, &entry.replicas);
                assert!(shown, "whole-snapshots: other tablets of {}", moved.table);
            }
        }
        let version = command.version().unwrap_or(next.version);
        assert!(next.version == version, "whole-snapshots: {} is not {version}", next.version);
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            let changes = command.schema_changes().iter();
            changes.for_each(|change| steps::tell_durable_writes(&storage, &next, change));
            steps::tell_copies(&storage, &next, command);
            // In the step that shows the views, so that whoever sees them knows: writes that begin
            // from now on are derived.
            if !command.schema_changes().is_empty() {
                steps::tell_deriving(&storage, &next);
            }
        }
        let is_level = |change: &auth::Change| matches!(change, auth::Change::Level { .. });
        let of_levels = command.access_changes().iter().any(is_level);
        if of_levels { self.access.arrange_groups() } else { Vec::new() }
    }

    /// Shows on which shards of this node a table lies from now on.
    fn show_shards(&self, table: TableId, map: &model::TabletMap) {
        {
            let mut present = self.catalog.borrow_mut();
            let before = present.schema.version;
            let schema = (*present.schema).clone().with_shards(table, map);
            assert!(schema.version == before, "whole-snapshots: shards are no part of a version");
            present.schema = Rc::new(schema);
        }
        self.changed.notify_all();
    }

    /// Replaces roles, grants and service levels by what their tables were found to hold.
    pub(crate) fn replace_access(&self, state: auth::State) -> Vec<runtime::group::Group> {
        let mut present = self.catalog.borrow_mut();
        let before = std::mem::take(&mut present.access);
        let generation = before.generation();
        present.access = state.replacing(&before);
        let is_newer = generation < present.access.generation();
        assert!(is_newer, "whole-snapshots: answers of the access before would still hold");
        drop(present);
        self.access.arrange_groups()
    }

    /// Removes dropped tables; takes a snapshot of each, if `auto_snapshot` is set.
    async fn drop_with_snapshots(&self, before: &Schema, ids: Vec<TableId>) {
        let auto = self.auto_snapshots.order("pre-drop", None);
        steps::drop_tables(ids.clone(), auto.as_ref().map(|order| order.tag.clone())).await;
        let made = auto.as_ref().map(|order| (&order.tag, order.ttl));
        let storage = runtime::local::get::<Storage>();
        for table in ids.iter().filter_map(|id| before.table_by_id(*id)) {
            self.forget_truncation(table.schema.id).await;
            let keyspace = before.keyspace(&table.schema.keyspace).map(|it| &it.keyspace);
            if let Err(error) = storage.complete_dropped(&table.schema, keyspace, made).await {
                let TableSchema { keyspace, name, .. } = &*table.schema;
                tracing::warn!(
                    target: "snapshot",
                    "cannot complete the snapshot of dropped table {keyspace}.{name}: {error}"
                );
            }
        }
    }

    /// Takes a snapshot of a table that is about to be truncated, if `auto_snapshot` is set.
    pub fn snapshot_before_truncation<'a>(
        &'a self,
        table: &'a TableSchema,
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move {
            let Some(order) = self.auto_snapshots.order("truncated", Some(&table.name)) else {
                return Ok(());
            };
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            storage.take_snapshot(vec![table.id], order).await.map_err(|error| error.to_string())
        })
    }
}

/// The option that says how many tablets a new table has for each shard.
const SCALE_OPTION: &str = "tablets_initial_scale_factor";

fn possible_scale(scale: &f64) -> Result<(), String> {
    match 0.0 < *scale && *scale <= 1000.0 {
        true => Ok(()),
        false => Err("not above 0 and 1000 at most".to_owned()),
    }
}

/// What was found in the tables of the catalog, where a command does not say how it changed.
#[derive(Clone, Debug, Default)]
struct Read {
    /// Roles, grants and service levels.
    access: Option<auth::State>,
    topology: Option<Arc<Topology>>,
}

/// Shows a durable command on every shard, and what was read after it.
async fn show(command: Command, read: Read, altered: Vec<TableSchema>) {
    let resized: Vec<TableId> = command.resized().collect();
    let show = move || async move {
        if !altered.is_empty() {
            let storage = runtime::local::get::<Storage>();
            altered.into_iter().for_each(|table| storage.alter_table(Rc::new(table)));
        }
        let cluster = runtime::local::get::<Cluster>();
        let before = cluster.topology();
        let mut gone = cluster.install(&command);
        if let Some(access) = read.access {
            gone.append(&mut cluster.replace_access(access));
        }
        if let Some(topology) = read.topology {
            cluster.catalog.borrow_mut().topology = topology;
        }
        if before.version() != cluster.topology().version() {
            cluster.place();
        }
        cluster.changed.notify_all();
        (cluster.schema().version, gone)
    };
    let shown = runtime::on_all_shards(show).await;
    let (versions, gone): (Vec<Uuid>, Vec<_>) = shown.into_iter().unzip();
    let shards = usize::from(runtime::shard_count());
    assert!(versions.len() == shards, "whole-snapshots: on {} shards", versions.len());
    let agree = versions.windows(2).all(|pair| pair[0] == pair[1]);
    assert!(agree, "whole-snapshots: shards show the schemas {versions:?}");
    runtime::local::get::<Cluster>().divide_tables(resized.into_iter());
    groups::retire(gone);
}

/// Notifies the subscribers of every shard.
async fn tell(events: Vec<SchemaEvent>) {
    let tell = move || async move {
        let cluster = runtime::local::get::<Cluster>();
        events.into_iter().for_each(|event| cluster.publish(&Event::Schema(event)));
    };
    runtime::on_all_shards(tell).await;
}
