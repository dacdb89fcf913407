//! The nodes, and where their replicas are: each stretch of the ring, of sixteen, begins at another
//! node and has its copies on those that follow.

use cluster::{SchemaChange, TableEntry};
use messaging::{HostId, Messaging, Plain, Verbs};
use model::{Keyspace, TableSchema, Token, Type, Uuid};
use mutation::page::{PageView, Partitions, ReadCommand, Resume, RowPiece, RowShape};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder, Tombstone};
use reader::LocalFuture;
use replication::coordinator::nodes::Planted;
use replication::hints::{self, Hints};
use replication::placement::{Places, Replica, Replicas, Sides};
use replication::plan::holders::Neighbor;
use replication::transactions::{self, Part};
use replication::wire::verb;
use replication::{
    Config, Consistency, Coordinator, Executor, Language, Owner, Proposed, ReadError,
};
use replication::{ReadOptions, TransactionId, WriteError, WriteKind, WriteOptions};
use runtime::sim::{Disk, NodeId, Options, World};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::SyncMode;
use testkit::config::{boot_config, change, entry};
use testkit::rows;

/// Reads, and writes, of a partition of `l` in a second.
pub(super) const LIMIT: u32 = 10;
pub(super) const SECOND: Duration = Duration::from_secs(1);
const PORT: u16 = 7000;
const PARTS_LOG2: u32 = 4;
/// Where hints are.
pub(super) const HINTS: &str = "/node/hints";

/// What all nodes know.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) copies: u32,
    /// The data centre of each node.
    centers: Vec<u16>,
    shards: Vec<u16>,
    addresses: Vec<SocketAddr>,
    /// Who is thought to be alive.
    pub(super) alive: Vec<AtomicBool>,
    /// Whether each node sees itself, if it has a copy, as the first of those who have one.
    pub(super) all_lead: AtomicBool,
    /// Every table is on this node alone.
    pub(super) is_single: AtomicBool,
    /// Nodes lack every feature that is asked for.
    pub(super) is_old: AtomicBool,
    lives: AtomicU64,
}

/// It, as one node sees it.
struct Ring {
    known: Arc<Known>,
    me: usize,
}

pub(super) fn id_of(node: usize) -> Uuid {
    Uuid::from_u128(0x1000 + node as u128)
}

fn center_name(center: u16) -> String {
    format!("dc{}", center + 1)
}

impl Ring {
    fn index(&self, host: Uuid) -> usize {
        (host.as_u128() - 0x1000) as usize
    }

    fn of_part(&self, part: u64) -> Rc<[Replica]> {
        let count = self.known.centers.len();
        let first = part as usize % count;
        let copies = (self.known.copies as usize).min(count);
        let nodes = (first..first + copies).map(|node| node % count);
        let mut replicas: Vec<Replica> = nodes
            .zip(0..)
            .map(|(node, rank)| Replica {
                rank,
                sides: Sides::Both,
                host_id: id_of(node),
                is_here: node == self.me,
                is_local_dc: self.known.centers.get(self.me) == Some(&self.known.centers[node]),
                dc: self.known.centers[node],
                // Whoever is asked hands over to the shard that owns the token.
                shard: (part % u64::from(self.known.shards[node])) as u16,
            })
            .collect();
        replicas.sort_by_key(|replica| (!replica.is_here, !replica.is_local_dc));
        if self.known.all_lead.load(Ordering::Relaxed) {
            replicas.iter_mut().zip(0..).for_each(|(replica, rank)| replica.rank = rank);
        }
        replicas.into()
    }
}

fn part_of(token: Token) -> u64 {
    (token.0 as u64 ^ 1 << 63) >> (64 - PARTS_LOG2)
}

impl Places for Ring {
    fn replicas(&self, table: &TableEntry, token: Token) -> Replicas {
        match &table.schema.keyspace[..] {
            _ if self.known.is_single.load(Ordering::Relaxed) => Replicas::Here,
            "ks" | transactions::KEYSPACE => Replicas::Nodes(self.of_part(part_of(token))),
            _ => Replicas::Here,
        }
    }
    fn stretch(&self, table: &TableEntry, token: Token) -> (Replicas, Token) {
        let end = u128::from(part_of(token) + 1) << (64 - PARTS_LOG2);
        let last = Token(((end - 1) as u64 ^ 1 << 63) as i64);
        (self.replicas(table, token), last)
    }
    fn is_alive(&self, host: Uuid) -> bool {
        self.known.alive[self.index(host)].load(Ordering::Relaxed)
    }
    fn is_in(&self, host: Uuid, data_center: &str) -> bool {
        center_name(self.known.centers[self.index(host)]) == data_center
    }
    fn others(&self) -> Vec<Uuid> {
        (0..self.known.centers.len()).filter(|node| *node != self.me).map(id_of).collect()
    }
    fn enables(&self, _: &str) -> bool {
        !self.known.is_old.load(Ordering::Relaxed)
    }
    /// Every other node is in one of two racks.
    fn neighbors(&self) -> Vec<Neighbor> {
        let rack = |node: usize| (node % 2) as u16;
        let is_near = |node: &usize| self.known.centers[*node] == self.known.centers[self.me];
        let others = (0..self.known.centers.len()).filter(|node| *node != self.me);
        let neighbor = |node| Neighbor {
            host_id: id_of(node),
            is_alive: self.known.alive[node].load(Ordering::Relaxed),
            rack: rack(node),
            is_own_rack: rack(node) == rack(self.me),
        };
        others.filter(is_near).map(neighbor).collect()
    }
}

/// How the nodes of a cluster are, before they start.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    seed: u64,
    /// By their shards and data centres.
    nodes: Vec<(u16, u16)>,
    copies: u32,
    planted: Option<Planted>,
    sync: SyncMode,
    hints: Option<Hinting>,
}

impl Plan {
    /// Nodes with so many shards each, all in one data centre, with three copies.
    pub(super) fn new(seed: u64, shards: &[u16]) -> Plan {
        Plan::with(seed, &shards.iter().map(|shards| (*shards, 0)).collect::<Vec<_>>(), 3, None)
    }

    /// Nodes by their shards and data centres, whose logs are synced before they answer, and which
    /// keep no hints.
    pub(super) fn with(
        seed: u64,
        nodes: &[(u16, u16)],
        copies: u32,
        planted: Option<Planted>,
    ) -> Plan {
        let (nodes, sync) = (nodes.to_vec(), SyncMode::Batch);
        Plan { seed, nodes, copies, planted, sync, hints: None }
    }

    /// The same, which keep hints.
    pub(super) fn hinting(self, hinting: Hinting) -> Plan {
        Plan { hints: Some(hinting), ..self }
    }

    /// The same, whose logs are synced in that way.
    pub(super) fn syncing(self, sync: SyncMode) -> Plan {
        Plan { sync, ..self }
    }

    /// Starts them all.
    pub(super) fn start(self) -> Nodes {
        let Plan { seed, nodes, copies, planted, sync, hints } = self;
        let mut world = World::new(Options::new(seed));
        let ids: Vec<NodeId> = nodes.iter().map(|(shards, _)| world.add_node(*shards)).collect();
        let addresses = ids.iter().map(|id| SocketAddr::new(world.ip(*id), PORT)).collect();
        let known = Arc::new(Known {
            copies,
            centers: nodes.iter().map(|(_, center)| *center).collect(),
            shards: nodes.iter().map(|(shards, _)| *shards).collect(),
            addresses,
            alive: nodes.iter().map(|_| AtomicBool::new(false)).collect(),
            all_lead: AtomicBool::new(false),
            is_single: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            lives: AtomicU64::new(1),
        });
        // Some tables have tablets, which each node deals to its shards.
        let tablets = seed.is_multiple_of(3).then_some(8);
        let mut all = Nodes { world, ids, known, planted, tablets, sync, hints };
        (0..nodes.len()).for_each(|node| all.start(node));
        all
    }
}

/// The simulated cluster.
pub(super) struct Nodes {
    pub(super) world: World,
    ids: Vec<NodeId>,
    pub(super) known: Arc<Known>,
    planted: Option<Planted>,
    tablets: Option<u32>,
    sync: SyncMode,
    pub(super) hints: Option<Hinting>,
}

/// How nodes keep hints.
#[derive(Clone, Debug)]
pub(super) struct Hinting {
    pub(super) config: hints::Config,
    pub(super) planted: Option<hints::Planted>,
}

impl Hinting {
    /// In small segments.
    pub(super) fn new() -> Hinting {
        let config = hints::Config { segment_bytes: 512, ..hints::Config::new(HINTS) };
        Hinting { config, planted: None }
    }
}

impl Nodes {
    /// [`Plan::new`], started.
    pub(super) fn new(seed: u64, shards: &[u16]) -> Nodes {
        Plan::new(seed, shards).start()
    }

    /// [`Plan::with`], started.
    pub(super) fn with(
        seed: u64,
        nodes: &[(u16, u16)],
        copies: u32,
        planted: Option<Planted>,
    ) -> Nodes {
        Plan::with(seed, nodes, copies, planted).start()
    }

    /// All nodes start anew in a version that lacks every feature, or in this one.
    pub(super) fn be_of_version(&mut self, is_old: bool) {
        self.known.is_old.store(is_old, Ordering::Relaxed);
        for node in 0..self.count() {
            self.crash(node);
            self.start(node);
        }
    }

    /// The nodes that have copies of a row, and its first.
    pub(super) fn replicas_of(&self, pk: i32) -> Vec<usize> {
        let ring = Ring { known: self.known.clone(), me: usize::MAX };
        let replicas = ring.of_part(part_of(rows::token(pk)));
        replicas.iter().map(|replica| ring.index(replica.host_id)).collect()
    }

    /// The disk of a node.
    pub(super) fn disk(&mut self, node: usize) -> Disk<'_> {
        self.world.disk(self.ids[node])
    }

    /// From its next start on a node has so many shards.
    pub(super) fn set_shards(&mut self, node: usize, shards: u16) {
        self.world.set_shards(self.ids[node], shards);
    }

    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Starts a node, on what is left of it; then it is known to be alive.
    pub(super) fn start(&mut self, node: usize) {
        let (known, hints) = (self.known.clone(), self.hints.clone());
        let how = (self.planted, self.tablets, self.sync, hints);
        self.world.block_on(self.ids[node], 0, live(node, known, how));
        self.known.alive[node].store(true, Ordering::Relaxed);
    }

    /// Kills a node, which the others know.
    pub(super) fn crash(&mut self, node: usize) {
        self.known.alive[node].store(false, Ordering::Relaxed);
        self.world.crash(self.ids[node]);
    }

    /// Sets the wall clock of a node so many microseconds apart.
    pub(super) fn skew(&mut self, node: usize, micros: i64) {
        self.world.skew_wall_clock(self.ids[node], micros);
    }

    /// Cuts or joins one direction.
    pub(super) fn set_cut_from(&mut self, from: usize, to: usize, cut: bool) {
        self.world.set_cut(self.ids[from], self.ids[to], cut);
    }

    /// Cuts or joins a node and all others.
    pub(super) fn set_cut(&mut self, node: usize, cut: bool) {
        for other in (0..self.ids.len()).filter(|other| *other != node) {
            self.world.set_cut(self.ids[node], self.ids[other], cut);
            self.world.set_cut(self.ids[other], self.ids[node], cut);
        }
    }

    pub(super) fn set_delay(&mut self, from: usize, to: usize, delay: Duration) {
        self.world.set_delay(self.ids[from], self.ids[to], delay);
    }

    pub(super) fn reset(&mut self, a: usize, b: usize) {
        self.world.reset_connections(self.ids[a], self.ids[b]);
    }

    /// Runs something on shard 0 of a node.
    pub(super) fn run<F: Future + 'static>(&mut self, node: usize, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.ids[node], 0, body)
    }

    /// The same on another shard.
    pub(super) fn run_on<F: Future + 'static>(
        &mut self,
        (node, shard): (usize, u16),
        body: F,
    ) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.ids[node], shard, body)
    }
}

/// Starts all that a node needs, and joins the others.
async fn live(
    me: usize,
    known: Arc<Known>,
    (planted, tablets, sync, hints): (Option<Planted>, Option<u32>, SyncMode, Option<Hinting>),
) {
    let mut config = boot_config("/node", sync);
    config.node.data_center = center_name(known.centers[me]);
    cluster::boot(config).await.expect("a start");
    let joined = known.clone();
    let ring = move || Ring { known: joined.clone(), me };
    let memory = match sync {
        SyncMode::Batch => Duration::ZERO,
        SyncMode::Periodic { period } => 2 * period,
    };
    let config = Config::new(memory);
    Coordinator::start_joined(config, ring, planted).await.expect("a start");
    if let Some(Hinting { config, planted }) = hints {
        Hints::start(config, planted).await.expect("a start");
    }
    let copies = known.copies;
    let centers = known.centers.iter().max().copied().unwrap_or(0) + 1;
    change(move |schema| {
        if schema.keyspace("ks").is_some() {
            return Vec::new();
        }
        let tables =
            ["t", "c", "r", "l", "s", "b", "g"].map(|name| SchemaChange::CreateTable(table(name)));
        let mut changes = vec![SchemaChange::CreateKeyspace(keyspace(copies, centers, tablets))];
        changes.extend(tables);
        let outcomes = Keyspace {
            name: transactions::KEYSPACE.to_owned(),
            ..keyspace(copies, centers, tablets)
        };
        changes.push(SchemaChange::CreateKeyspace(outcomes));
        let id = Uuid::from_u128(0x3000);
        changes.push(SchemaChange::CreateTable(transactions::outcomes_schema(id)));
        changes
    })
    .await;
    let life = known.lives.fetch_add(1, Ordering::Relaxed);
    let join = move || {
        let known = known.clone();
        async move {
            let mut verbs = Verbs::new();
            replication::serve(&mut verbs);
            if known.is_old.load(Ordering::Relaxed) {
                be_old(&mut verbs);
            }
            let host = HostId(id_of(me).as_u128());
            let config = messaging::Config::new("test", host, life);
            let messaging = Messaging::start(config, verbs, Rc::new(Plain));
            for (node, address) in known.addresses.iter().enumerate().filter(|it| it.0 != me) {
                messaging.set_peer(HostId(id_of(node).as_u128()), *address);
            }
            if runtime::shard_id() == 0 {
                messaging.listen(known.addresses[me]).expect("a free port");
            }
            let coordinator = runtime::local::get::<Coordinator>();
            coordinator.join_hints();
            coordinator.set_executor(Language::Cql, Rc::new(Executes));
        }
    };
    runtime::on_all_shards(join).await;
}

/// What a node knows that has heard neither of turns of repairs nor of times of hints.
fn be_old(verbs: &mut Verbs) {
    for verb in
        [verb::SYNC_BEGIN, verb::SYNC_KEEP, verb::SYNC_KNOWS, verb::MUTATIONS, verb::READ_DIGESTS]
    {
        verbs.forget(verb);
    }
    verbs.forget(verb::HINT);
    verbs.forget(verb::SYNC_END);
    verbs.on_one_way(verb::SYNC_END, |request| async move {
        let session = request.take_payload().try_into();
        let session = session.expect("an old node is told of a session alone");
        Coordinator::end_repair_session(u128::from_be_bytes(session));
    });
}

/// With as many copies in each of several data centres.
fn keyspace(copies: u32, centers: u16, tablets: Option<u32>) -> Keyspace {
    let mut keyspace = testkit::config::keyspace("ks", copies, tablets);
    if 1 < centers {
        let class = ("class".to_owned(), "NetworkTopologyStrategy".to_owned());
        let each = (copies / u32::from(centers)).to_string();
        let factors = (0..centers).map(|center| (center_name(center), each.clone()));
        keyspace.replication = std::iter::once(class).chain(factors).collect();
    }
    keyspace
}

/// `t (pk int PRIMARY KEY, v int)`, `c (pk int PRIMARY KEY, v counter)`,
/// `r (pk int, ck int, v int, w int, PRIMARY KEY (pk, ck))`, `s`, which is as `r` with a static
/// column `st`, `b`, whose `v` is a blob, `g`, which is as `t` and forgets deletions of before a
/// repair, and `l`, which is as `t` and limits requests to
/// partitions, with the same ids on all nodes.
fn table(name: &str) -> TableSchema {
    let id = Uuid::from_u128(0x2000 + u128::from(name.as_bytes()[0]));
    let builder = TableSchema::builder("ks", name, id).partition_key("pk", Type::Int);
    let builder = match name {
        "t" => builder.regular("v", Type::Int),
        "l" => {
            let limits = ["max_reads_per_second", "max_writes_per_second"];
            let limits = limits.map(|name| (name.to_owned(), LIMIT.to_string()));
            let mut table = builder.regular("v", Type::Int).build().expect("a table");
            table.options.per_partition_rate_limit = limits.to_vec();
            return table;
        }
        "g" => {
            let mut table = builder.regular("v", Type::Int).build().expect("a table");
            let by_repair = [("mode", "repair"), ("propagation_delay_in_seconds", "0")];
            let pairs = by_repair.map(|(key, value)| (key.to_owned(), value.to_owned()));
            table.options.tombstone_gc = pairs.to_vec();
            return table;
        }
        "c" => builder.regular("v", Type::Counter),
        "b" => builder.clustering("ck", Type::Int).regular("v", Type::Blob),
        "s" => {
            let builder = builder.clustering("ck", Type::Int).static_column("st", Type::Int);
            builder.regular("v", Type::Int).regular("w", Type::Int)
        }
        _ => builder.clustering("ck", Type::Int).regular("v", Type::Int).regular("w", Type::Int),
    };
    builder.build().expect("a table")
}

pub(super) fn write_options(consistency: Consistency) -> WriteOptions {
    let kind = WriteKind::Simple;
    WriteOptions { consistency, timeout: 2 * SECOND, kind, limit: None }
}

pub(super) fn coordinator() -> Rc<Coordinator> {
    runtime::local::get::<Coordinator>()
}

/// Sets `v` of a row of `t`, at `timestamp`.
pub(super) async fn put(
    pk: i32,
    value: i32,
    timestamp: i64,
    level: Consistency,
) -> Result<(), WriteError> {
    let table = entry("ks", "t");
    let mutation = rows::put(&table, pk, value, timestamp);
    coordinator().write(&table, rows::token(pk), mutation, &write_options(level)).await
}

/// `v` of a row of `t`.
pub(super) async fn get(pk: i32, level: Consistency) -> Result<Option<i32>, ReadError> {
    get_of("t", pk, level).await.map(|value| value.map(|value| i32::from_be_bytes(four(&value))))
}

pub(super) fn four(bytes: &[u8]) -> [u8; 4] {
    bytes.try_into().expect("an int")
}

/// The value of a counter.
pub(super) async fn count(pk: i32, level: Consistency) -> Result<Option<i64>, ReadError> {
    let eight = |value: Vec<u8>| i64::from_be_bytes(value[..].try_into().expect("a bigint"));
    get_of("c", pk, level).await.map(|value| value.map(eight))
}

async fn get_of(name: &str, pk: i32, level: Consistency) -> Result<Option<Vec<u8>>, ReadError> {
    let table = entry("ks", name);
    let command = rows::read_of(&table, Partitions::Key(rows::key(pk).to_vec()), 10);
    let options = ReadOptions::new(level, 2 * SECOND);
    let in_pieces = runtime::random_u64().is_multiple_of(2);
    if !in_pieces {
        let page = coordinator().read(&table, rows::token(pk), &command, &options).await?;
        return Ok(rows::pairs(&command, &page).pop().map(|(_, value)| value));
    }
    // As statements read one partition: the bytes of a response.
    let shape = RowShape::Pieces([RowPiece::Regulars].into_iter().collect());
    let command = ReadCommand { shape, ..command };
    let page = coordinator().read(&table, rows::token(pk), &command, &options).await?;
    Ok((0 < page.row_count).then(|| {
        assert_eq!(page.row_count, 1);
        let (length, value) = page.bytes.split_at(4);
        assert_eq!(u32::from_be_bytes(length.try_into().expect("a length")) as usize, value.len());
        value.to_vec()
    }))
}

/// What a conditional change has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Applied,
    /// It was another value.
    Found(Option<i32>),
}

/// Sets `v` of a row of `t` to another value, if it is `from`.
pub(super) async fn change_if(
    pk: i32,
    from: Option<i32>,
    to: i32,
    levels: (Consistency, Consistency),
) -> Result<Changed, WriteError> {
    conditional(pk, levels, Wish::Change { from, to }).await
}

/// Adds to `v` of a row of `t`.
pub(super) async fn add(
    pk: i32,
    more: i32,
    levels: (Consistency, Consistency),
) -> Result<Changed, WriteError> {
    conditional(pk, levels, Wish::Add(more)).await
}

/// A conditional write.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Change { from: Option<i32>, to: i32 },
    Add(i32),
}

impl Wish {
    /// What follows from the value, if anything does.
    fn next(self, found: Option<i32>) -> Option<i32> {
        match self {
            Wish::Change { from, to } => (found == from).then_some(to),
            Wish::Add(more) => Some(found.unwrap_or(0) + more),
        }
    }
}

async fn conditional(
    pk: i32,
    (serial, commit): (Consistency, Consistency),
    wish: Wish,
) -> Result<Changed, WriteError> {
    let (kind, limit) = (WriteKind::Cas, None);
    let options = WriteOptions { consistency: serial, timeout: 2 * SECOND, kind, limit };
    let table = entry("ks", "t");
    let (kind, from, to) = match wish {
        Wish::Change { from, to } => (u8::from(from.is_some()), from.unwrap_or(0), to),
        Wish::Add(more) => (2, 0, more),
    };
    let mut request = vec![Language::Cql as u8, kind];
    for number in [pk, from, to, commit.to_wire().into()] {
        request.extend_from_slice(&number.to_be_bytes());
    }
    let result = coordinator().lead(&table, &rows::key(pk), &options, request).await?;
    match result[..] {
        [0] => Ok(Changed::Applied),
        [1] => Ok(Changed::Found(None)),
        [2, a, b, c, d] => Ok(Changed::Found(Some(i32::from_be_bytes([a, b, c, d])))),
        // The rounds of the leader ended so.
        [3] => Err(WriteError::Timeout {
            consistency: serial,
            received: 0,
            required: 2,
            kind: WriteKind::Cas,
        }),
        [4] => Err(WriteError::Overloaded("nothing was proposed".to_owned())),
        [5, required, alive] => Err(WriteError::Unavailable {
            consistency: serial,
            required: required.into(),
            alive: alive.into(),
        }),
        _ => panic!("{result:?}"),
    }
}

/// What was made of the wish of a transaction to have a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Part(Part),
    /// It has another value.
    Found(Option<i32>),
    /// By another transaction, or nobody knows by whom.
    Not,
}

/// What a transaction makes of a row of `t`: if it has the value `from`, it gets another one, or is
/// only looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub(super) pk: i32,
    pub(super) from: Option<i32>,
    pub(super) to: Option<i32>,
}

const HOLD: u8 = 3;

/// Has a row of `t` held for a transaction.
pub(super) async fn hold(id: TransactionId, step: Step) -> Held {
    let (kind, limit) = (WriteKind::Cas, None);
    let consistency = Consistency::Serial;
    let options = WriteOptions { consistency, timeout: 2 * SECOND, kind, limit };
    let table = entry("ks", "t");
    let mut request = vec![Language::Cql as u8, HOLD];
    for number in [step.pk, step.from.unwrap_or(0), step.to.unwrap_or(0)] {
        request.extend_from_slice(&number.to_be_bytes());
    }
    request.extend([u8::from(step.from.is_some()), u8::from(step.to.is_some())]);
    request.extend(id.to_bytes());
    let key = rows::key(step.pk);
    let result = match coordinator().is_spread(&table) {
        true => coordinator().lead(&table, &key, &options, request).await,
        false => {
            let run = move |owner: Owner| async move { Executes.execute(owner, request).await };
            coordinator().on_owner(&table, rows::token(step.pk), &key, &options, run).await
        }
    };
    match result.as_deref() {
        Ok([0, part @ ..]) => Held::Part(Part::of_bytes(part).expect("a part")),
        Ok([1]) => Held::Found(None),
        Ok([2, a, b, c, d]) => Held::Found(Some(i32::from_be_bytes([*a, *b, *c, *d]))),
        _ => Held::Not,
    }
}

async fn hold_here(owner: &Owner, id: TransactionId, step: Step) -> Result<Held, WriteError> {
    let table = entry("ks", "t");
    let command = rows::read_of(&table, Partitions::Key(rows::key(step.pk).to_vec()), 10);
    loop {
        let begun = owner.begin_to_hold(runtime::time::wall_micros()).await?;
        let Some(round) = begun else { return Ok(Held::Not) };
        let page = owner.read(&command).await;
        let page = page.map_err(|error| WriteError::Overloaded(error.to_string()))?;
        let found = rows::pairs(&command, &page).pop();
        let found = found.map(|(_, value)| i32::from_be_bytes(four(&value)));
        if found == step.from {
            let mutation = match step.to {
                Some(to) => rows::put(&table, step.pk, to, round.timestamp()),
                None => MutationBuilder::new(&table.schema, &rows::key(step.pk)).freeze(),
            };
            let held = owner.hold(round, id, mutation).await?;
            return Ok(held.map_or(Held::Not, Held::Part));
        }
        if owner.finish(round).await? == Proposed::Chosen {
            return Ok(Held::Found(found));
        }
    }
}

/// What executes conditional writes on the node that leads them.
struct Executes;

impl Executor for Executes {
    fn execute(&self, owner: Owner, request: Vec<u8>) -> LocalFuture<'static, Vec<u8>> {
        Box::pin(async move {
            let number = |at: usize| i32::from_be_bytes(four(&request[2 + 4 * at..6 + 4 * at]));
            if request[1] == HOLD {
                let given = |at: usize| (request[14 + at] == 1).then(|| number(1 + at));
                let step = Step { pk: number(0), from: given(0), to: given(1) };
                let id = TransactionId::of_bytes(&request[16..]).expect("a transaction");
                return match hold_here(&owner, id, step).await {
                    Ok(Held::Part(part)) => [&[0][..], &part.to_bytes()].concat(),
                    Ok(Held::Found(None)) => vec![1],
                    Ok(Held::Found(Some(found))) => [&[2], &found.to_be_bytes()[..]].concat(),
                    Ok(Held::Not) | Err(_) => vec![3],
                };
            }
            let wish = match request[1] {
                0 => Wish::Change { from: None, to: number(2) },
                1 => Wish::Change { from: Some(number(1)), to: number(2) },
                _ => Wish::Add(number(2)),
            };
            let commit = Consistency::from_wire(number(3) as u16).expect("a level");
            match execute(&owner, number(0), wish, commit).await {
                Ok(Changed::Applied) => vec![0],
                Ok(Changed::Found(None)) => vec![1],
                Ok(Changed::Found(Some(found))) => [&[2], &found.to_be_bytes()[..]].concat(),
                Err(WriteError::Timeout { .. } | WriteError::Failure { .. }) => vec![3],
                Err(WriteError::Unavailable { required, alive, .. }) => {
                    vec![5, required as u8, alive as u8]
                }
                Err(_) => vec![4],
            }
        })
    }
}

async fn execute(
    owner: &Owner,
    pk: i32,
    wish: Wish,
    commit: Consistency,
) -> Result<Changed, WriteError> {
    let table = entry("ks", "t");
    // Where there is one row, a read of one is cut behind it.
    let limit = if commit == Consistency::One { 10 } else { 1 };
    let command = rows::read_of(&table, Partitions::Key(rows::key(pk).to_vec()), limit);
    loop {
        let round = owner.begin(runtime::time::wall_micros()).await?;
        let page = owner.read(&command).await;
        // Nothing was proposed yet.
        let page = page.map_err(|error| WriteError::Overloaded(error.to_string()))?;
        let found = rows::pairs(&command, &page).pop();
        let found = found.map(|(_, value)| i32::from_be_bytes(four(&value)));
        let (proposed, changed) = match wish.next(found) {
            Some(to) => {
                let mutation = rows::put(&table, pk, to, round.timestamp());
                (owner.propose(round, mutation, commit).await?, Changed::Applied)
            }
            None => (owner.finish(round).await?, Changed::Found(found)),
        };
        if proposed == Proposed::Chosen {
            return Ok(changed);
        }
    }
}

/// The clustering key of a row of `r`.
pub(super) fn clustering(ck: i32) -> Vec<u8> {
    let mut out = Vec::new();
    model::key::push_clustering(&ck.to_be_bytes(), &mut out);
    out
}

/// A write to a partition of `r`.
pub(super) fn rows_of(
    pk: i32,
    build: impl FnOnce(&mut MutationBuilder<'_>, &TableEntry),
) -> FrozenMutation {
    let table = entry("ks", "r");
    let mut builder = MutationBuilder::new(&table.schema, &rows::key(pk));
    build(&mut builder, &table);
    builder.freeze()
}

/// A row of `r`, with a marker or without.
pub(super) fn row(
    ck: i32,
    v: i32,
    timestamp: i64,
) -> impl FnOnce(&mut MutationBuilder<'_>, &TableEntry) {
    move |builder, table| {
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp });
        let column = table.schema.column("v").expect("a column").id;
        row.cell(column, Cell::live(timestamp, &v.to_be_bytes()));
        builder.row(&clustering(ck), &row.finish());
    }
}

/// The deletion of a row of `r`.
pub(super) fn deletion(
    ck: i32,
    timestamp: i64,
) -> impl FnOnce(&mut MutationBuilder<'_>, &TableEntry) {
    move |builder, _| {
        let mut row = RowBuilder::new(Vec::new());
        row.tombstone(Tombstone::new(timestamp, timestamp / 1_000_000));
        builder.row(&clustering(ck), &row.finish());
    }
}

pub(super) async fn write_rows(
    pk: i32,
    mutation: FrozenMutation,
    level: Consistency,
) -> Result<(), WriteError> {
    let table = entry("ks", "r");
    coordinator().write(&table, rows::token(pk), mutation, &write_options(level)).await
}

/// A read of `r`: of one partition, or all.
pub(super) fn command(partition: Option<i32>, row_limit: u64) -> ReadCommand {
    let table = entry("ks", "r");
    let partitions = match partition {
        Some(pk) => Partitions::Key(rows::key(pk).to_vec()),
        None => rows::whole_ring(),
    };
    rows::read_of(&table, partitions, row_limit)
}

/// What pages of a read of `r` have: keys, clustering keys and values; and how many pages.
pub(super) async fn read_rows(
    command: ReadCommand,
    level: Consistency,
) -> Result<(Vec<(i32, i32, Option<i32>)>, u32), ReadError> {
    let table = entry("ks", "r");
    let (mut command, mut out, mut pages) = (command, Vec::new(), 0);
    let token = match &command.partitions {
        Partitions::Key(key) => Token::of(key),
        Partitions::Range { .. } => Token::MIN,
    };
    loop {
        let options = ReadOptions::new(level, 5 * SECOND);
        let page = coordinator().read(&table, token, &command, &options).await?;
        pages += 1;
        assert!(page.row_count <= command.row_limit, "{} rows", page.row_count);
        let view = PageView::parse(&page.bytes, command.layout()).expect("a page");
        for partition in view.partitions() {
            let pk = i32::from_be_bytes(four(partition.key()));
            for row in partition.rows() {
                let ck = model::key::clustering_components(row.clustering()).next();
                let ck = i32::from_be_bytes(four(ck.expect("a clustering key")));
                let value = row.columns().next().and_then(|column| column.value);
                out.push((pk, ck, value.map(|value| i32::from_be_bytes(four(value)))));
            }
        }
        let Some(resume): Option<Resume> = page.resume else { return Ok((out, pages)) };
        command.resume = Some(resume);
    }
}
