//! What this node gives to others as files, and until when.
//!
//! Invariants
//!  - *given-in-its-stage*: SSTables are given in the stage in which ranges are taken. They are
//!    let go of when the one who gets them says so, when the stage is over, or when nobody has
//!    asked for anything of them for long.

use super::stage_of;
use crate::coordinator::{Coordinator, build, own_coordinator};
use crate::wire::moves::{BLOCK_BYTES, Block, Gift, Offered, Wanted, encode_gift};
use cluster::Stage;
use runtime::group::STREAMING;
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::{Given, GivenSstable, Storage, StorageError};

/// Between two looks whether a stage is over, which nobody tells of.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Who has not asked for so long does not come back: it would have begun again.
const IDLE_MAX: Duration = Duration::from_secs(180);
/// What is given at once. Each has room on the disk.
const GIFTS_MAX: usize = 1024;

/// What is given, by number. In `runtime::local` of the shard that gives.
#[derive(Default)]
struct Gifts {
    by_number: RefCell<BTreeMap<u64, Rc<Giving>>>,
}

struct Giving {
    given: Given,
    session: u64,
    asked_at: Cell<Instant>,
}

fn gifts() -> Rc<Gifts> {
    runtime::local::try_get::<Gifts>().unwrap_or_else(|| {
        let gifts = Rc::new(Gifts::default());
        runtime::local::set(gifts.clone());
        gifts
    })
}

/// Gives what this node has of a range, as a message. Goes on to its end, whoever waits for it.
pub(crate) async fn give(wanted: Wanted) -> Result<Vec<u8>, String> {
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    if stage_of(&coordinator, wanted.session).is_none() {
        coordinator.cluster.catch_up().await?;
    }
    if stage_of(&coordinator, wanted.session) != Some(Stage::ReadOld) {
        return Err(format!("session {} is over", wanted.session));
    }
    let giving = coordinator.background.spawn_in(STREAMING, begin(coordinator.clone(), wanted));
    giving.await.map_err(|_| "the node stops".to_owned())?
}

async fn begin(coordinator: Rc<Coordinator>, wanted: Wanted) -> Result<Vec<u8>, String> {
    let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
    debug_assert!(wanted.range.0 < wanted.range.1, "given-in-its-stage: {wanted:?}");
    let gifts = gifts();
    if GIFTS_MAX <= gifts.by_number.borrow().len() {
        return Err(format!("{GIFTS_MAX} ranges are given as files already"));
    }
    // *moves-lose-nothing* of `coordinator::build`.
    if !build::is_built(&coordinator, wanted.table).await {
        return Ok(encode_gift(None));
    }
    let given = match storage.give(wanted.table, wanted.range).await {
        Ok(Some(given)) => given,
        Ok(None) => return Ok(encode_gift(None)),
        // It was dropped.
        Err(StorageError::UnknownTable(_)) => return Ok(encode_gift(None)),
        Err(error) => return Err(error.to_string()),
    };
    let number = runtime::random_u64();
    let sstables = given.sstables.iter().map(offered).collect();
    let told = encode_gift(Some(&Gift { number, sstables }));
    let giving = Giving { given, session: wanted.session, asked_at: Cell::new(Instant::now()) };
    let before = gifts.by_number.borrow_mut().insert(number, Rc::new(giving));
    assert!(before.is_none(), "given-in-its-stage: gift {number} is there");
    drop(coordinator.background.spawn(keep(coordinator.clone(), number)));
    Ok(told)
}

fn offered(one: &GivenSstable) -> Offered {
    let files = one.files.iter().map(|file| (file.suffix.clone(), file.bytes)).collect();
    debug_assert!(!one.files.is_empty(), "given-in-its-stage: {:?} of no file", one.descriptor);
    Offered {
        source: one.descriptor.file_name_of("Data.db"),
        version: one.descriptor.version.name().to_owned(),
        files,
    }
}

/// Keeps what is given as long as it is to be.
async fn keep(coordinator: Rc<Coordinator>, number: u64) {
    loop {
        sleep(LOOK_EVERY).await;
        let giving = gifts().by_number.borrow().get(&number).cloned();
        let Some(giving) = giving else { return };
        debug_assert!(giving.asked_at.get() <= Instant::now(), "given-in-its-stage: asked later");
        let is_on = stage_of(&coordinator, giving.session) == Some(Stage::ReadOld);
        if !is_on || IDLE_MAX <= Instant::now() - giving.asked_at.get() {
            return end(number).await;
        }
    }
}

/// What was given is not needed any more.
pub(crate) async fn end(number: u64) {
    let giving = gifts().by_number.borrow_mut().remove(&number);
    let Some(giving) = giving else { return };
    debug_assert!(!gifts().by_number.borrow().contains_key(&number), "given-in-its-stage: again");
    if let Err(error) = giving.given.release().await {
        tracing::warn!(target: "moves", "what was given stays until the next start: {error}");
    }
}

/// A block of what is given.
pub(crate) async fn block(asked: Block) -> Result<Vec<u8>, String> {
    let Block { gift, sstable, file, offset } = asked;
    let giving = gifts().by_number.borrow().get(&gift).cloned();
    let giving = giving.ok_or_else(|| format!("nothing is given any more as {gift}"))?;
    giving.asked_at.set(Instant::now());
    let place = (sstable as usize, usize::from(file));
    let block = giving.given.read(place, offset, BLOCK_BYTES).await;
    let block = block.map_err(|error| error.to_string())?;
    debug_assert!(block.len() <= BLOCK_BYTES, "within-limits: a block of {}", block.len());
    Ok(block)
}
