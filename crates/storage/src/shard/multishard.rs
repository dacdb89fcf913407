//! Reads over all shards of a node: the part that a shard does for a reader which another one
//! drives, and the way there.
//!
//! Between two visits a read rests here: its source lies with the streaming semaphore, which
//! gives it up when others need the room. What it read and how far it came the driver knows; who
//! does not come back leaves nothing that others wait for.
//!
//! Invariants
//!  - *same-place*: a source that rested is used only where the driver stands, in the version of
//!    the schema that it was opened with; otherwise one is opened.
//!  - *goes-on*: a visit brings something, or says that nothing more comes.
//!  - *one-map*: driver and shard divide the table alike: where a tablet has gone to another shard
//!    meanwhile, and one of the two does not know yet, the read ends, and is begun anew.
//!  - *no-more-than-told*: a visit is charged for no more than [`Shard::visit_bytes`] told of its
//!    range, as far as `sstable` can tell that.

use super::Shard;
use super::read::SourceOptions;
use model::{TableId, Token, Uuid};
use mutation::{Fragment, RingBound};
use reader::multishard::wire::{SendPlace, decode, encode};
use reader::multishard::{MultishardOptions, MultishardSource, ShardReader, VisitFuture, Visited};
use reader::place::{At, Place};
use reader::semaphore::{BASE_BYTES, Permit, ReadSemaphore, Reading};
use reader::{Budget, EvictableSource, OpenSource, PartitionScope, ReadError, Slice, Source};
use runtime::time::Instant;
use runtime::{ShardId, local, on_shard};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use stdx::HashMap;

/// How long a source rests at most.
const REST_MAX: Duration = Duration::from_secs(60);
/// With more reads at rest than this, those are looked for that nobody comes back to.
const SWEEP_COUNT: usize = 64;
/// What a visit brings grows by this part of what it was asked for: it holds little more than that.
const GROWTH_PART: usize = 4;
/// A row that is thought to be behind the last byte that was asked for.
const ROW_BYTES: usize = 16 << 10;
/// What a fill that has to wait is charged for while it does.
const IO_BYTES: usize = 16 << 10;

/// The reads that rest on a shard, by the number that their driver drew.
#[derive(Default)]
pub(crate) struct ShardReads {
    resting: RefCell<HashMap<u64, Resting>>,
}

struct Resting {
    permit: Permit,
    /// Its source lies with the semaphore.
    source: EvictableSource,
    version: Uuid,
    since: Instant,
}

/// One visit, as it is sent.
struct Request {
    read: u64,
    table: TableId,
    /// As its driver knew them when it began.
    hand_overs: u64,
    place: SendPlace,
    options: SourceOptions,
    bytes_max: usize,
}

/// What a visit brought, as it is sent: encoded fragments, and whether nothing more comes.
pub(crate) type Reply = Result<(Vec<u8>, bool), ReadError>;

impl ShardReads {
    fn take(&self, read: u64) -> Option<Resting> {
        self.resting.borrow_mut().remove(&read)
    }

    fn put(&self, read: u64, resting: Resting) {
        let mut all = self.resting.borrow_mut();
        if SWEEP_COUNT < all.len() {
            let now = resting.since;
            all.retain(|_, one| !one.permit.is_evicted() || now - one.since < REST_MAX);
        }
        let before = all.insert(read, resting);
        debug_assert!(before.is_none(), "same-place: two rest as {read}");
    }

    pub(crate) fn clear(&self) {
        let all = self.resting.take();
        drop(all);
    }
}

/// What a visit needs of the shard that it comes to.
pub(crate) struct Host<'h> {
    pub(crate) reads: &'h ShardReads,
    pub(crate) semaphore: &'h Rc<ReadSemaphore>,
    pub(crate) reading: Reading,
}

impl Host<'_> {
    /// One visit of a read that another shard drives. `open` makes the way to sources of the
    /// table, where one is needed.
    pub(crate) async fn visit(
        self,
        (read, place): (u64, Place),
        bytes_max: usize,
        open: impl FnOnce() -> OpenSource,
    ) -> Reply {
        let Host { reads, semaphore, reading } = self;
        let version = reading.schema.version;
        let (permit, source) = match reads.take(read) {
            None => (semaphore.admit(&reading, None).await?, None),
            Some(Resting { mut permit, mut source, version: opened_with, .. }) => {
                let rested = permit.resume();
                if rested.is_none() {
                    permit.admit_again(None).await?;
                }
                source.resume(rested);
                let usable = opened_with == version && go_to(&mut source, &place);
                (permit, usable.then_some(source))
            }
        };
        let mut source = source.unwrap_or_else(|| {
            let order = Rc::new(reading.schema.order.clone());
            EvictableSource::at(order, place, open())
        });
        let visited = read_on(&mut source, &permit, bytes_max).await;
        let Ok((encoded, at_end)) = visited else {
            permit.fail();
            return visited;
        };
        let goes_on = !at_end || matches!(source.place().at, At::Inside(_));
        if let Some(inner) = source.pause().filter(|_| goes_on) {
            permit.pause(inner, Some(REST_MAX));
            let since = Instant::now();
            reads.put(read, Resting { permit, source, version, since });
        }
        Ok((encoded, at_end))
    }
}

impl Shard {
    /// See [`crate::Storage::visit_bytes`].
    pub(crate) fn visit_bytes(
        &self,
        table: TableId,
        tokens: (Token, Token),
        bytes_max: usize,
    ) -> usize {
        let sources = self.table(table).map_or(0, |table| table.scan_bytes(tokens));
        // What it brings may end with a row more than it was asked for.
        BASE_BYTES + IO_BYTES + sources + bytes_max + bytes_max / GROWTH_PART + ROW_BYTES
    }

    async fn visit(self: &Rc<Self>, request: Request) -> Reply {
        let Request { read, table: id, hand_overs, place, options, bytes_max } = request;
        let table = self.readable(id)?;
        if table.hand_overs.get() != hand_overs {
            return Err(ReadError::Moved);
        }
        let reading = Reading { schema: table.schema(), operation: "shard-reader" };
        let (reads, semaphore) = (&self.shard_reads, &self.reads.streaming);
        let host = Host { reads, semaphore, reading };
        let open = || self.opener(id, options);
        host.visit((read, Place::from(&place)), bytes_max, open).await
    }

    fn opener(self: &Rc<Self>, table: TableId, options: SourceOptions) -> OpenSource {
        let shard: Weak<Shard> = Rc::downgrade(self);
        Box::new(move |scope, slice| match shard.upgrade() {
            Some(shard) => shard.open_source(table, scope.clone(), slice.clone(), options),
            None => Err(stopped()),
        })
    }
}

fn stopped() -> ReadError {
    ReadError::Overloaded("the node stops".to_string())
}

/// Moves a source forward to where its driver stands, if it can.
fn go_to(source: &mut EvictableSource, place: &Place) -> bool {
    let mine = source.place();
    if mine.slice != place.slice {
        return false;
    }
    if mine.scope != place.scope {
        let (PartitionScope::Range { end: old, .. }, PartitionScope::Range { start, end }) =
            (&mine.scope, &place.scope)
        else {
            return false;
        };
        if start.token < old.token {
            return false;
        }
        let (start, end): (RingBound, RingBound) = (start.clone(), end.clone());
        source.forward_partitions(&start, &end);
    } else if let (At::Inside(inside), At::After(left)) = (&mine.at, &place.at)
        && inside.key == *left
    {
        source.next_partition();
    } else if let (At::Inside(inside), At::Inside(wanted)) = (&mine.at, &place.at)
        && let Some(asked) = &wanted.asked
        && inside.key == wanted.key
        && inside.asked != wanted.asked
    {
        source.forward_rows(asked.clone());
    }
    source.place() == place
}

/// Reads until there are `bytes_max` bytes, or nothing more.
async fn read_on(source: &mut EvictableSource, permit: &Permit, bytes_max: usize) -> Reply {
    assert!(0 < bytes_max, "goes-on: a visit for nothing");
    let _cpu = permit.need_cpu();
    let mut units = permit.no_units();
    let (mut batch, mut encoded, mut bytes) = (Vec::new(), Vec::new(), 0);
    while bytes < bytes_max {
        let bytes_left = (bytes_max - bytes).min(Budget::BATCH.bytes_max);
        let budget = Budget { bytes_max: bytes_left, ..Budget::BATCH };
        match source.try_fill(budget, &mut batch) {
            Some(filled) => filled?,
            None => {
                let io = permit.request_memory(IO_BYTES).await?;
                permit.awaiting(source.fill(budget, &mut batch)).await?;
                drop(io);
            }
        }
        if batch.is_empty() {
            return Ok((encoded, true));
        }
        let more = batch.iter().map(Fragment::size_bytes).sum::<usize>();
        bytes += more;
        if encoded.capacity() - encoded.len() < more {
            encoded.reserve_exact(more.max(bytes_max / GROWTH_PART));
        }
        batch.drain(..).for_each(|fragment| encode(&fragment, &mut encoded));
        units.set(source.memory_bytes() + encoded.capacity())?;
        runtime::task::yield_if_needed().await;
    }
    Ok((encoded, false))
}

/// A shard of this node, seen from another one.
struct RemoteShard {
    shard: ShardId,
    read: u64,
    table: TableId,
    hand_overs: u64,
    options: SourceOptions,
}

impl ShardReader for RemoteShard {
    fn visit(&self, place: &Place, bytes_max: usize) -> VisitFuture {
        let RemoteShard { shard, read, table, hand_overs, options } = *self;
        let place = SendPlace::from(place);
        let request = Request { read, table, hand_overs, place, options, bytes_max };
        Box::pin(async move {
            let visit = move || async move {
                let shard = local::try_get::<Shard>().ok_or_else(stopped)?;
                shard.visit(request).await
            };
            let (encoded, at_end) = on_shard(shard, visit).await?;
            visited(&encoded, at_end)
        })
    }
}

/// What a reply says.
pub(crate) fn visited(encoded: &[u8], at_end: bool) -> Result<Visited, ReadError> {
    let fragments = decode(encoded).map_err(|damaged| ReadError::Damaged {
        file: "a message between shards".to_string(),
        what: damaged.what.to_string(),
        at: damaged.at,
    })?;
    Ok(Visited { fragments, at_end })
}

impl Shard {
    /// See [`crate::Storage::open_multishard`].
    pub(crate) fn open_multishard(
        &self,
        table: TableId,
        bounds: (RingBound, RingBound),
        slice: Slice,
        options: SourceOptions,
        how: MultishardOptions,
    ) -> Result<MultishardSource, ReadError> {
        let (map, hand_overs) = {
            let table = self.readable(table)?;
            (table.map(), table.hand_overs.get())
        };
        let read = runtime::random_u64();
        let readers = (0..runtime::shard_count()).map(|shard| -> Box<dyn ShardReader> {
            Box::new(RemoteShard { shard, read, table, hand_overs, options })
        });
        Ok(MultishardSource::new(map, bounds, slice, readers.collect(), how))
    }
}
