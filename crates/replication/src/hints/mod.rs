//! Hints: writes that a replica has missed, kept on the disk of the node that coordinated them
//! until the replica is there again.
//!
//! Each shard has hints of its own, and for each node a queue: hints wait in memory, together with
//! others, for a second at most; they are written to a segment; when the node is alive the segment
//! ends and is sent, hint by hint, as HINT, which the node applies as it does any write, but for
//! what is of before a truncation (`serve`).
//! What is sent is what was written: the bytes of the mutation, with its timestamps. So it does not
//! matter how often a hint is sent, nor what has been written since.
//!
//! A hint brings replicas together sooner than a read or a repair would. No level but ANY counts
//! it: what was acknowledged at QUORUM is on a quorum, whatever becomes of hints.
//!
//! Invariants
//!  - *counted-for-any-alone*: a hint is an acknowledgement only of a write at ANY of which no
//!    replica is alive, and only once it is on the disk.
//!  - *survives*: what was written is sent after restarts and crashes too, with however many shards
//!    the node starts.
//!  - *bounded*: hints in memory, on the disk and on their way have bounds ([`decide`]).
//!  - *within-window*, *not-too-old*, *as-slow-as-told*: see [`decide`]; *in-order*,
//!    *sent-or-stays*: see `replay`; *as-written*, *one-form*, *foreign-is-damaged*: see [`form`].
//!
//! What this node itself could not write is no hint: it lacked memory or disk, as it would for the
//! hint.
//!
//! In reading order: [`form`] (bytes), [`decide`] (both pure), `file` (segments), `truncated`
//! (tables that were emptied), `queue`, `replay`, this (the hints of a shard), [`point`] (whether
//! all were sent).

pub mod decide;
mod file;
pub mod form;
pub mod point;
mod queue;
mod replay;
mod truncated;

use crate::error::WriteError;
use crate::placement::Places;
use crate::wire;
use cluster::traffic::Count;
use cluster::{Cluster, TableKind};
use decide::{Bounds, Denied, Enabled, Now};
use model::{TableId, Uuid};
use mutation::FrozenMutation;
use queue::Queue;
use runtime::Erased;
use runtime::group::STREAMING;
use runtime::io::{IoError, fs};
use runtime::sync::{Notify, OneshotReceiver};
use runtime::task::Scope;
use runtime::time::{Instant, sleep, timeout, wall_micros};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use truncated::Truncated;

/// Hints on their way at a time, of one shard, unless the options say how many.
const CONCURRENCY: usize = 8;
/// Their bytes; a larger one goes alone.
const FLYING_BYTES_MAX: usize = 10 << 20;
/// Bytes that wait to be written, of one shard.
const IN_PROGRESS_BYTES_MAX: usize = 10 << 20;
/// The part of the disk that hints of all shards may have.
const DISK_PART: u64 = 10;
/// Between two looks at who is down.
const LOOK: Duration = Duration::from_secs(1);
/// How long a stop waits for hints to be written.
const STOP_TIME: Duration = Duration::from_secs(10);

/// What changes while the node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub enabled: Enabled,
    /// How long a node may be down until nothing more is kept for it.
    pub window: Duration,
    /// Hints of a shard on their way at a time; 0: 8.
    pub concurrency: usize,
    /// To one node, of all shards together; 0: no bound.
    pub bytes_per_second: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            enabled: Enabled::default(),
            window: Duration::from_secs(3 * 60 * 60),
            concurrency: 0,
            bytes_per_second: 1 << 20,
        }
    }
}

/// How hints are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub folder: PathBuf,
    /// Bytes on the disk, of all shards together; `None`: a tenth of it.
    pub disk_bytes_max: Option<u64>,
    /// A segment ends when it has so many bytes.
    pub segment_bytes: u64,
    pub options: Options,
}

impl Config {
    pub fn new(folder: impl Into<PathBuf>) -> Config {
        let folder = folder.into();
        let options = Options::default();
        Config { folder, disk_bytes_max: None, segment_bytes: 32 << 20, options }
    }
}

/// What a shard's hints have come to since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub written: Count,
    /// Reads and writes of files that failed.
    pub errors: Count,
    /// Hints that were not kept.
    pub dropped: Count,
    pub sent: Count,
    pub sent_bytes: Count,
    /// Those that could not be sent, each time.
    pub send_errors: Count,
    /// Hints that were not worth sending any more.
    pub discarded: Count,
    /// Segments and hints that were damaged.
    pub damaged: Count,
    /// Hints that other nodes have sent.
    pub received: Count,
}

/// Mistakes that tests plant, to see them caught.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Hints of an earlier life are not looked for.
    ForgetsAtRestart,
    /// The first hint of a segment is not sent.
    SkipsFirst,
}

/// What a replica has missed.
pub(crate) struct Missed<'a> {
    pub(crate) host: Uuid,
    /// When the write began, in microseconds since 1970.
    pub(crate) written_at: i64,
    /// Of the request.
    pub(crate) bytes: usize,
    /// The request, as MUTATION has it.
    pub(crate) request: &'a dyn Fn() -> Vec<u8>,
}

/// The hints of this shard. Lives in `runtime::local`.
pub struct Hints {
    config: Config,
    options: RefCell<Options>,
    disk_bytes_max: u64,
    places: RefCell<Rc<dyn Places>>,
    queues: RefCell<BTreeMap<Uuid, Rc<Queue>>>,
    down_since: RefCell<BTreeMap<Uuid, Instant>>,
    truncated: Truncated,
    in_progress: Cell<usize>,
    on_disk: Cell<u64>,
    /// How many are on their way, and their bytes.
    flying: Cell<(usize, usize)>,
    landed: Notify,
    is_paused: Cell<bool>,
    is_stopping: Cell<bool>,
    counters: Counters,
    planted: Cell<Option<Planted>>,
    writers: Scope,
    senders: Scope,
}

/// Brings mutations that were written at some time to those who have their data now
/// (*follows-the-data*). Above hints; in `runtime::local` of each shard.
pub(crate) struct Bringer(pub(crate) Box<Bring>);

type Bring = dyn Fn(i64, Vec<FrozenMutation>) -> Pin<Box<dyn Future<Output = Brought>>>;
type Brought = Result<(), WriteError>;

impl Hints {
    /// Starts the hints of every shard, with those that earlier lives have left. Runs on shard 0,
    /// after `cluster::boot`.
    pub fn start(config: Config, planted: Option<Planted>) -> Erased<'static, Result<(), String>> {
        Erased::new(move || async move {
            assert!(runtime::shard_id() == 0, "survives: hints are started on shard 0");
            let start = move || {
                let config = config.clone();
                async move { Hints::start_here(config, planted).await }
            };
            let started = runtime::on_all_shards(start).await;
            let started: Result<(), IoError> = started.into_iter().collect();
            started.map_err(|error| format!("cannot read the hints: {error}"))
        })
    }

    async fn start_here(config: Config, planted: Option<Planted>) -> Result<(), IoError> {
        let (shard, shards) = (runtime::shard_id(), runtime::shard_count());
        fs::create_dir_all(&config.folder).await?;
        let disk_bytes_max = match config.disk_bytes_max {
            Some(bytes) => bytes,
            None => fs::space(&config.folder).await?.total / DISK_PART,
        };
        file::take_over(&config.folder, shard, shards).await?;
        let folder = file::of_shard(&config.folder, shard);
        let found = match planted {
            Some(Planted::ForgetsAtRestart) => Vec::new(),
            _ => file::list(&folder).await?,
        };
        let bytes = found.iter().flat_map(|(_, segments)| segments).map(|segment| segment.bytes);
        let hints = Rc::new(Hints {
            options: RefCell::new(config.options.clone()),
            disk_bytes_max: disk_bytes_max / u64::from(shards),
            places: RefCell::new(runtime::local::get::<Cluster>()),
            queues: RefCell::default(),
            down_since: RefCell::default(),
            truncated: Truncated::read(&folder).await?,
            in_progress: Cell::new(0),
            on_disk: Cell::new(bytes.sum()),
            flying: Cell::new((0, 0)),
            landed: Notify::new(),
            is_paused: Cell::new(false),
            is_stopping: Cell::new(false),
            counters: Counters::default(),
            planted: Cell::new(planted),
            writers: Scope::new(),
            senders: Scope::new(),
            config,
        });
        for (host, segments) in found {
            let count = segments.len();
            tracing::info!(target: "hints", %host, count, "hints of an earlier run");
            hints.start_queue(host, segments);
        }
        drop(hints.senders.spawn(look(hints.clone())));
        let present = runtime::local::try_get::<Hints>();
        assert!(present.is_none(), "survives: a shard has its hints once");
        runtime::local::set(hints);
        Ok(())
    }

    /// Writes what waits, on every shard, and ends. Runs on shard 0.
    pub fn stop() -> Erased<'static, ()> {
        Erased::new(move || async move {
            let stop = || async {
                let Some(hints) = Hints::of_shard() else { return };
                runtime::local::clear::<Hints>();
                hints.is_stopping.set(true);
                hints.senders.cancel().await;
                hints.queues.borrow().values().for_each(|queue| queue.wake());
                let _ = timeout(STOP_TIME, hints.writers.join()).await;
                hints.writers.cancel().await;
            };
            runtime::on_all_shards(stop).await;
        })
    }

    /// Those of this shard, while it has any.
    pub fn of_shard() -> Option<Rc<Hints>> {
        runtime::local::try_get()
    }

    /// From now on, where nodes are is what `places` says: for tests without a cluster.
    pub(crate) fn join(&self, places: Rc<dyn Places>) {
        self.places.replace(places);
    }

    /// Sets what changes while the node runs.
    pub fn set(&self, options: Options) {
        self.options.replace(options);
        self.landed.notify_all();
    }

    pub fn options(&self) -> Options {
        self.options.borrow().clone()
    }

    /// Keeps hints, but sends none until it is told otherwise.
    pub fn pause(&self, is_paused: bool) {
        self.is_paused.set(is_paused);
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes that wait to be written, and that are on the disk.
    pub fn bytes(&self) -> (usize, u64) {
        (self.in_progress.get(), self.on_disk.get())
    }

    /// Hints that are on their way.
    pub fn in_flight(&self) -> usize {
        self.flying.get().0
    }

    /// Nodes for which there are hints.
    pub fn hosts(&self) -> Vec<Uuid> {
        let queues = self.queues.borrow();
        queues.values().filter(|queue| !queue.is_empty()).map(|queue| queue.host).collect()
    }

    /// Keeps what a replica has missed, if it may be.
    pub(crate) fn keep(&self, missed: &Missed<'_>) {
        if let Err(denied) = self.add(missed, false) {
            self.deny(missed.host, denied);
        }
    }

    /// The same, and waits until it is on the disk; whether it is. One that is denied never is.
    pub(crate) async fn keep_durably(&self, missed: &Missed<'_>) -> Result<bool, Denied> {
        match self.add(missed, true) {
            Ok(Some(told)) => Ok(told.await.unwrap_or(false)),
            Ok(None) => unreachable!("told-when-durable: who asks is told"),
            Err(denied) => {
                self.deny(missed.host, denied);
                Err(denied)
            }
        }
    }

    fn deny(&self, host: Uuid, denied: Denied) {
        self.counters.dropped.add(1);
        tracing::debug!(target: "hints", %host, "a hint is not kept: {denied:?}");
    }

    fn add(
        &self,
        missed: &Missed<'_>,
        is_asked: bool,
    ) -> Result<Option<OneshotReceiver<bool>>, Denied> {
        let Missed { host, written_at, bytes, request } = *missed;
        self.may_keep(host, bytes)?;
        let request = request();
        debug_assert_eq!(bytes, request.len(), "as-written: another length");
        let Some(request) = self.worth_sending(written_at, request) else {
            return Err(Denied::NotKept);
        };
        let hint = form::Hint { written_at, request: &request };
        let bytes = request.len() + form::OVERHEAD;
        self.in_progress.set(self.in_progress.get() + bytes);
        Ok(self.queue(host).add(&hint, is_asked))
    }

    fn may_keep(&self, host: Uuid, request: usize) -> Result<(), Denied> {
        if self.is_stopping.get() {
            return Err(Denied::Disabled);
        }
        let (places, options) = (self.places.borrow().clone(), self.options.borrow());
        let is_enabled = match &options.enabled {
            Enabled::No => false,
            Enabled::Everywhere => true,
            Enabled::In(names) => names.iter().any(|name| places.is_in(host, name)),
        };
        let bounds = Bounds {
            window: options.window,
            in_progress: IN_PROGRESS_BYTES_MAX,
            on_disk: self.disk_bytes_max,
        };
        let now = Now {
            is_enabled,
            down_for: self.down_for(host, &*places),
            in_progress: self.in_progress.get(),
            on_disk: self.on_disk.get(),
        };
        decide::may_keep(request, &bounds, &now)
    }

    /// How long a node has been down, as far as this shard has seen.
    fn down_for(&self, host: Uuid, places: &dyn Places) -> Option<Duration> {
        let mut down = self.down_since.borrow_mut();
        if places.is_alive(host) {
            down.remove(&host);
            return None;
        }
        Some(down.entry(host).or_insert_with(Instant::now).elapsed())
    }

    /// What of a request is still to be sent: all of it, a part, or nothing.
    fn worth_sending(&self, written_at: i64, request: Vec<u8>) -> Option<Vec<u8>> {
        let mutations = wire::decode_mutations(&request).ok()?;
        let schema = runtime::local::try_get::<Cluster>()?.schema();
        let now = wall_micros();
        let is_worth = |mutation: &FrozenMutation| {
            let Ok(view) = mutation.view() else { return false };
            let table = schema.table_by_id(view.table());
            table.filter(|table| table.kind == TableKind::Stored).is_some_and(|table| {
                let grace = decide::grace_of(&table.schema);
                let truncated = self.truncated.at(table.schema.id);
                decide::may_send(written_at, now, grace, truncated)
            })
        };
        let all = mutations.len();
        debug_assert!(0 < all, "as-written: a hint of nothing");
        let worth: Vec<_> = mutations.into_iter().filter(is_worth).collect();
        match worth.len() {
            0 => None,
            some if some == all => Some(request),
            _ => Some(wire::encode_mutations(&worth)),
        }
    }

    fn queue(&self, host: Uuid) -> Rc<Queue> {
        if let Some(queue) = self.queues.borrow().get(&host) {
            return queue.clone();
        }
        let Some(own) = Hints::of_shard() else { unreachable!("survives: of a shard that is") };
        own.start_queue(host, Vec::new())
    }

    fn start_queue(self: &Rc<Hints>, host: Uuid, segments: Vec<file::Segment>) -> Rc<Queue> {
        debug_assert!(!host.is_nil(), "survives: a node without a name");
        debug_assert!(!self.is_stopping.get(), "survives: the shard's hints have stopped");
        let shard_folder = file::of_shard(&self.config.folder, runtime::shard_id());
        let folder = file::of_host(&shard_folder, host);
        let queue = Rc::new(Queue::new(host, folder, segments));
        drop(self.writers.spawn_in(STREAMING, queue::write(self.clone(), queue.clone())));
        drop(self.senders.spawn_in(STREAMING, replay::send(self.clone(), queue.clone())));
        let before = self.queues.borrow_mut().insert(host, queue.clone());
        assert!(before.is_none(), "survives: a node has one queue");
        queue
    }

    fn may_send_to(&self, host: Uuid) -> bool {
        let places = self.places.borrow();
        !self.is_paused.get() && (places.is_alive(host) || places.has_left(host))
    }

    fn end_progress(&self, bytes: usize) {
        let before = self.in_progress.get();
        assert!(bytes <= before, "bounded: {bytes} bytes of {before} were written");
        self.in_progress.set(before - bytes);
    }

    /// What this shard may send to one node.
    fn bytes_per_second(&self) -> u64 {
        let all = self.options.borrow().bytes_per_second;
        all.div_ceil(u64::from(runtime::shard_count()))
    }

    /// Waits until one more may be on its way.
    async fn fly(self: &Rc<Hints>, bytes: usize) -> InFlight {
        loop {
            let (count, sum) = self.flying.get();
            let concurrency = match self.options.borrow().concurrency {
                0 => CONCURRENCY,
                some => some,
            };
            let fits = count < concurrency && sum.saturating_add(bytes) <= FLYING_BYTES_MAX;
            debug_assert!(count != 0 || sum == 0, "bounded: {sum} bytes of no hint");
            if fits || count == 0 {
                self.flying.set((count + 1, sum + bytes));
                return InFlight { hints: self.clone(), bytes };
            }
            self.landed.notified().await;
        }
    }

    /// Drops what is kept of a table that is about to be empty: on the disk before its rows go.
    /// Times are those of this node's clock.
    pub(crate) async fn forget_table(&self, table: TableId, at: i64) -> Result<(), String> {
        if self.places.borrow().others().is_empty() {
            return Ok(());
        }
        let schema = runtime::local::get::<Cluster>().schema();
        let is_there = |table: TableId| schema.table_by_id(table).is_some();
        self.truncated.note(table, at, &is_there).await
    }

    /// When a table was truncated, in microseconds by this node's clock.
    pub(crate) fn truncated_at(&self, table: TableId) -> Option<i64> {
        self.truncated.at(table)
    }

    /// Drops all hints that there are, or those for one node.
    pub fn discard(&self, of: Option<Uuid>) -> Erased<'_, ()> {
        Erased::new(move || async move {
            for queue in self.queues_of(of.as_slice()) {
                // What waits to be written now may stay where the disk does not take it in time.
                let _ = timeout(STOP_TIME, queue.end_segment()).await;
                queue.discard();
            }
        })
    }

    /// The queues for these nodes; of none: all.
    fn queues_of(&self, hosts: &[Uuid]) -> Vec<Rc<Queue>> {
        let queues = self.queues.borrow();
        let is_asked = |queue: &&Rc<Queue>| hosts.is_empty() || hosts.contains(&queue.host);
        queues.values().filter(is_asked).cloned().collect()
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    fn is_planted(&self, planted: Planted) -> bool {
        self.planted.get() == Some(planted)
    }
}

/// A hint on its way.
struct InFlight {
    hints: Rc<Hints>,
    bytes: usize,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let (count, sum) = self.hints.flying.get();
        let counted = 0 < count && self.bytes <= sum;
        assert!(counted, "bounded: {} bytes of {sum}, {count} hints", self.bytes);
        self.hints.flying.set((count - 1, sum - self.bytes));
        self.hints.landed.notify_all();
    }
}

/// Looks who is down, so that it is known since when.
async fn look(hints: Rc<Hints>) {
    loop {
        let places = hints.places.borrow().clone();
        let others = places.others();
        debug_assert!(others.iter().all(|host| !host.is_nil()), "within-window: {others:?}");
        hints.down_since.borrow_mut().retain(|host, _| others.contains(host));
        for host in others {
            hints.down_for(host, &*places);
        }
        drop(places);
        sleep(LOOK).await;
    }
}
