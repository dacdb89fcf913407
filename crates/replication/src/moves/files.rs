//! Taking a range as files: the SSTables that have it are copied whole (`storage`, `carry`).
//!
//! ```text
//! MOVE_FILES   the giver flushes what it has in memory of the range, and keeps its SSTables
//! MOVE_BLOCK   block by block of their files, some at once; each is written where it is to be
//! (in the epoch of the stage) they join the table, all in one step, on the disk
//! MOVE_END     the giver lets go
//! ```
//! It is tablets that are taken so, and rings that go to a node as a whole: what lies in other
//! ranges of a ring lies in SSTables that have something else as well. Counters go so, too: a cell
//! has the shares of all nodes, and those of a node that counts are merged by their clocks,
//! however they come.
//!
//! Invariants
//!  - *session-guards*: what was copied joins while its stage lasts, or goes.
//!  - *room-first*: nothing is copied that would take of the disk what clients' writes leave free.
//!  - *few-at-once*: no more than so many blocks of a range are under way.

use super::pace;
use super::part::{PAUSE, Part, State, is_on, refused};
use crate::coordinator::Coordinator;
use crate::epochs::Epochs;
use crate::wire::moves::{BLOCK_BYTES, Block, Gift, Offered, Wanted, decode_gift, encode_end};
use crate::wire::{RefusalKind, verb};
use messaging::{CallError, HostId, Messaging, Payload, Target, ToShard, Verb};
use model::{TableSchema, Token};
use runtime::task::join_all;
use runtime::time::sleep;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use storage::{Arrived, ArrivingFile, ArrivingSstable, Storage, StorageError};

/// Blocks of a file that are asked for at once.
const BLOCKS_AT_ONCE: usize = 4;
/// How long a giver may take to flush what it has in memory, and to read a block.
const GIFT_MAX: Duration = Duration::from_secs(120);
const BLOCK_MAX: Duration = Duration::from_secs(60);
/// So often a block is asked for, where the way to the giver fails.
const TRIES: usize = 5;

/// Whether SSTables can have this part and nothing else.
pub(super) fn is_for_files(part: &Part) -> bool {
    part.tablet.is_some() || (part.after, part.last) == (Token::MIN, Token::MAX)
}

/// What takes a part.
struct Taker<'t> {
    coordinator: &'t Rc<Coordinator>,
    storage: Rc<Storage>,
    session: u64,
    state: &'t State,
    part: &'t Part,
}

/// How it ended.
pub(super) enum Outcome {
    /// It is there.
    Whole,
    /// Its SSTables have something else as well: it is to be taken as rows.
    NotAsFiles,
    /// Why it is not there. It may be had as rows.
    Failed(String),
}

/// Takes a part. An error says why it cannot be taken now, in any way.
pub(super) async fn take(
    coordinator: &Rc<Coordinator>,
    (session, state): (u64, &State),
    part: &Part,
) -> Result<Outcome, String> {
    let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
    let me = coordinator.cluster.node().host_id;
    debug_assert!(part.from != me, "all-that-went: a node takes from itself");
    let taker = Taker { coordinator, storage, session, state, part };
    let TableSchema { keyspace, name, .. } = &*part.table.schema;
    let told = |why: String| format!("{keyspace}.{name} from node {}: {why}", part.from);
    match taker.take().await {
        Ok(Outcome::Failed(why)) => Ok(Outcome::Failed(told(why))),
        taken => taken.map_err(told),
    }
}

impl Taker<'_> {
    async fn take(&self) -> Result<Outcome, String> {
        let gift = match self.ask_for_gift().await {
            Ok(Some(gift)) => gift,
            Ok(None) => return Ok(Outcome::NotAsFiles),
            Err(why) => return Ok(Outcome::Failed(why)),
        };
        let needed = gift.bytes();
        let taken = match self.promise(needed) {
            Ok(()) => Ok(self.take_gift(&gift).await),
            Err(why) => Err(why),
        };
        if taken.is_ok() {
            self.state.promised.set(self.state.promised.get().saturating_sub(needed));
        }
        if let Some(messaging) = Messaging::current() {
            let (target, said) = (self.target(), Payload::from(encode_end(gift.number)));
            // Who does not hear it looks whether the stage is over.
            let _ = messaging.send(target, verb::MOVE_END, said, PAUSE).await;
        }
        taken.map(|taken| taken.map_or_else(Outcome::Failed, |()| Outcome::Whole))
    }

    /// Refuses what has no room (*room-first*).
    fn promise(&self, needed: u64) -> Result<(), String> {
        let (disk, promised) = (self.storage.disk_state(), self.state.promised.get());
        let room = disk.free_bytes.saturating_sub(disk.reserve_bytes).saturating_sub(promised);
        if disk.total_bytes != 0 && room < needed {
            let (needed, room) = (needed >> 20, room >> 20);
            return Err(format!(
                "no room on the disk: {needed} MiB are to come, {room} MiB are free beside the \
                 reserve and what is on its way"
            ));
        }
        self.state.promised.set(promised.saturating_add(needed));
        Ok(())
    }

    /// What the giver gives; `None`: not as files.
    async fn ask_for_gift(&self) -> Result<Option<Gift>, String> {
        let range = (self.part.after, self.part.last);
        let wanted = Wanted { session: self.session, table: self.part.table.schema.id, range };
        let told = match self.ask(verb::MOVE_FILES, wanted.encode(), GIFT_MAX).await {
            Ok(told) => told,
            Err(CallError::Failed(words)) => match refused(&words)? {
                // Whoever asks for rows hears that, too.
                (RefusalKind::UnknownTable, _) => return Ok(None),
                (_, text) => return Err(text),
            },
            Err(error) => return Err(error.to_string()),
        };
        decode_gift(&told).map_err(|damaged| damaged.to_string())
    }

    async fn take_gift(&self, gift: &Gift) -> Result<(), String> {
        let mut arrived = Vec::with_capacity(gift.sstables.len());
        for number in 0..gift.sstables.len() {
            match self.copy(gift, number).await {
                Ok(one) => arrived.push(one),
                Err(why) => {
                    self.give_up(arrived).await;
                    return Err(why);
                }
            }
        }
        debug_assert!(arrived.len() == gift.sstables.len(), "all-that-went: of {}", gift.number);
        // *session-guards*
        let _entered = Epochs::enter(&*self.coordinator.epochs);
        if !is_on(self.coordinator, self.session, self.part) {
            self.give_up(arrived).await;
            return Err(format!("session {} is over", self.session));
        }
        let (id, range) = (self.part.table.schema.id, (self.part.after, self.part.last));
        let sstables = arrived.len();
        match self.storage.join_arrived(id, range, arrived).await {
            Ok(()) => {
                super::note_joined(sstables);
                Ok(())
            }
            Err(StorageError::UnknownTable(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn give_up(&self, arrived: Vec<Arrived>) {
        self.storage.drop_arrived(self.part.table.schema.id, arrived).await;
    }

    /// Copies an SSTable of a gift.
    async fn copy(&self, gift: &Gift, number: usize) -> Result<Arrived, String> {
        let one = &gift.sstables[number];
        debug_assert!(!one.files.is_empty(), "all-that-went: {} has no file", one.source);
        let place = |file: usize| Block {
            gift: gift.number,
            sstable: number as u32,
            file: file as u16,
            offset: 0,
        };
        let toc_bytes = one.files[0].1;
        if BLOCK_BYTES as u64 <= toc_bytes {
            return Err(format!("{}: a TOC of {toc_bytes} bytes", one.source));
        }
        let toc = self.block(place(0)).await?;
        let version = (one.version.as_str(), one.source.clone());
        let id = self.part.table.schema.id;
        let arriving = self.storage.receive(id, version, &toc).await;
        let mut arriving = arriving.map_err(|error| error.to_string())?;
        match self.copy_files(one, &place, &mut arriving).await {
            Ok(()) => Ok(arriving.finish()),
            Err(why) => {
                self.give_up(vec![arriving.give_up()]).await;
                Err(format!("{}: {why}", one.source))
            }
        }
    }

    async fn copy_files(
        &self,
        one: &Offered,
        place: &dyn Fn(usize) -> Block,
        arriving: &mut ArrivingSstable,
    ) -> Result<(), String> {
        for (at, (suffix, bytes)) in one.files.iter().enumerate().skip(1) {
            let file = arriving.create(suffix, *bytes).await.map_err(|error| error.to_string())?;
            self.copy_file(place(at), *bytes, &file).await?;
            arriving.add(file).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Copies a file, some blocks at once (*few-at-once*).
    async fn copy_file(&self, first: Block, bytes: u64, to: &ArrivingFile) -> Result<(), String> {
        let next = Cell::new(first.offset);
        let work = async || {
            loop {
                let offset = next.get();
                if bytes <= offset {
                    return Ok(());
                }
                next.set(offset + BLOCK_BYTES as u64);
                let copied = self.copy_block(Block { offset, ..first }, to).await;
                if copied.is_err() {
                    next.set(bytes);
                    return copied;
                }
            }
        };
        let workers = (bytes.div_ceil(BLOCK_BYTES as u64) as usize).min(BLOCKS_AT_ONCE);
        debug_assert!((bytes == 0) == (workers == 0), "few-at-once: {workers} of {bytes} bytes");
        let done = join_all((0..workers).map(|_| work())).await;
        done.into_iter().collect()
    }

    async fn copy_block(&self, place: Block, to: &ArrivingFile) -> Result<(), String> {
        let is_begin = place.offset.is_multiple_of(BLOCK_BYTES as u64);
        debug_assert!(is_begin, "few-at-once: no block begins at {}", place.offset);
        if !is_on(self.coordinator, self.session, self.part) {
            return Err(format!("session {} is over", self.session));
        }
        let block = self.block(place).await?;
        let written = to.write(place.offset, &block).await;
        written.map_err(|error| format!("what was taken cannot be written: {error}"))?;
        self.state.add_bytes(self.part.from, block.len() as u64);
        super::note_taken(0, block.len() as u64);
        pace::keep(block.len() as u64).await;
        Ok(())
    }

    /// A block; it is asked for again where nobody knows whether it was.
    async fn block(&self, place: Block) -> Result<Vec<u8>, String> {
        for tried in 1.. {
            match self.ask(verb::MOVE_BLOCK, place.encode(), BLOCK_MAX).await {
                Ok(block) => return Ok(block),
                Err(CallError::Failed(words)) => return Err(refused(&words)?.1),
                Err(error) if tried == TRIES => return Err(error.to_string()),
                Err(_) => sleep(PAUSE).await,
            }
        }
        unreachable!("few-at-once: a block is asked for {TRIES} times")
    }

    fn target(&self) -> Target {
        Target::bulk(HostId(self.part.from.as_u128()), ToShard::At(0))
    }

    async fn ask(
        &self,
        verb: Verb,
        payload: Vec<u8>,
        time: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let Some(messaging) = Messaging::current() else {
            let words = crate::wire::Refusal::new(RefusalKind::Failed, "the node stops");
            return Err(CallError::Failed(words.encode()));
        };
        messaging.call(self.target(), verb, Payload::from(payload), time).await
    }
}
