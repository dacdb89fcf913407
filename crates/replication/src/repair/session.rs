//! What one replica of a range keeps while it is repaired: where it reads, what it has read
//! ahead, and what is being compared. A replica that is asked keeps it for who asks; that one keeps
//! its own.
//!
//! Each question names the place at which it begins, so a session that is lost (its node has
//! started anew, it was not used for long, there were too many) is made anew by the next one, from
//! there. What is asked about a buffer names the round in which it was filled.
//!
//! Invariants
//!  - *bounded*: so many sessions on a shard, each with one buffer; one more takes the place of one
//!    that nobody has used for a while, or is refused.
//!  - *not-for-ever*: a session that nobody uses any more is gone after [`IDLE_MAX`].
//!  - *same-round*: what is told of a buffer is of the round that was asked for, or nothing.

use super::scan::{Scan, Wanted};
use crate::coordinator::Coordinator;
use crate::coordinator::nodes::{Cause, refused};
use crate::sync::buffer::{Buffer, Told};
use crate::sync::decide::mutations_of;
use crate::sync::unit::{Edge, Hashing, Sum, Unit, compare_edges};
use crate::wire::sync::{Compare, Compared, Fetch, Read};
use crate::wire::{Refusal, RefusalKind};
use model::TableSchema;
use mutation::FrozenMutation;
use reader::ReadError;
use runtime::group::STREAMING;
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long a session is kept that nobody uses.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(300);
/// After so long another one may take its place.
const IDLE_MIN: Duration = Duration::from_secs(10);
/// What a buffer has at most, whoever asks.
pub(crate) const BUFFER_BYTES_MAX: u32 = 1 << 20;
/// Buffers have together so much of a shard's memory: one part of so many.
pub(crate) const MEMORY_PART: usize = 10;
/// Sessions of a shard, at most and at least.
const SESSIONS_MAX: usize = 32;
const SESSIONS_MIN: usize = 2;

/// See the module.
pub(crate) struct Session {
    wanted: Wanted,
    schema: Rc<TableSchema>,
    hashing: Hashing,
    bytes_max: usize,
    scan: Option<Scan>,
    buffer: Buffer,
    /// What is being compared.
    working: Vec<Unit>,
    is_compared: bool,
}

impl Session {
    /// One that has read nothing.
    pub(crate) fn new(read: &Read, schema: Rc<TableSchema>) -> Session {
        debug_assert!(read.table == schema.id, "same-round: of another table");
        let hashing = Hashing::new(read.seed, None);
        let bytes_max = read.bytes_max.min(BUFFER_BYTES_MAX) as usize;
        let after = read.after.clone();
        Session {
            wanted: wanted(read),
            buffer: Buffer::new(schema.clone(), hashing.clone(), bytes_max, after),
            schema,
            hashing,
            bytes_max,
            scan: None,
            working: Vec::new(),
            is_compared: false,
        }
    }

    /// Whether it is about the same.
    fn is_of(&self, read: &Read) -> bool {
        self.wanted == wanted(read)
    }

    /// Fills the buffer behind a place.
    pub(crate) async fn read(&mut self, after: Option<&Edge>) -> Result<Told, ReadError> {
        self.go_to(after);
        debug_assert!(self.buffer.after() == after, "same-round: it begins elsewhere");
        (self.working, self.is_compared) = (Vec::new(), false);
        while !self.buffer.is_full() {
            let scan = match &mut self.scan {
                Some(scan) => scan,
                None => self.scan.insert(Scan::open(self.wanted, after)?),
            };
            match scan.next().await? {
                Some(fragment) => self.buffer.push(fragment),
                None => self.buffer.end(),
            }
        }
        debug_assert!(self.buffer.is_full(), "bounded: it reads on");
        Ok(self.buffer.told())
    }

    /// Leaves what lies before a place; where that cannot be, it begins there anew.
    fn go_to(&mut self, after: Option<&Edge>) {
        if self.buffer.after() == after {
            return;
        }
        if after.is_some() && self.buffer.is_full() && self.buffer.told().reached.as_ref() == after
        {
            return drop(self.buffer.take(after));
        }
        stdx::probe!("a replica reads a part of a range again");
        self.scan = None;
        let (schema, hashing) = (self.schema.clone(), self.hashing.clone());
        self.buffer = Buffer::new(schema, hashing, self.bytes_max, after.cloned());
    }

    /// What it has up to an edge, if it came that far.
    pub(crate) fn cut(&mut self, upto: Option<&Edge>) -> Option<&[Unit]> {
        if self.is_compared || !self.buffer.is_full() {
            return None;
        }
        let reached = self.buffer.told().reached;
        let is_there = compare_edges(&self.schema, upto, reached.as_ref()).is_le();
        let begins = self.buffer.after();
        let is_onward = begins.is_none() || compare_edges(&self.schema, begins, upto).is_lt();
        if !is_there || !is_onward {
            return None;
        }
        (self.working, self.is_compared) = (self.buffer.take(upto), true);
        Some(&self.working)
    }

    /// What it has up to an edge, unless it is what who asks has.
    pub(crate) fn compare(&mut self, compare: &Compare) -> Compared {
        match self.cut(compare.upto.as_ref()) {
            None => Compared::Gone,
            Some(own) if Sum::of(own) == compare.sum => Compared::Same,
            Some(own) => Compared::Other(own.iter().map(Unit::short).collect()),
        }
    }

    /// Some of that.
    pub(crate) fn fetch(&self, fetch: &Fetch) -> Option<Vec<FrozenMutation>> {
        let known = |place: &u32| (*place as usize) < self.working.len();
        if !self.is_compared || !fetch.places.iter().all(known) {
            return None;
        }
        debug_assert!(!fetch.places.is_empty(), "same-round: nothing is fetched");
        let units = fetch.places.iter().map(|place| &self.working[*place as usize]);
        Some(mutations_of(&self.schema, units))
    }

    /// What is compared, for who asks.
    pub(crate) fn take_working(&mut self) -> Vec<Unit> {
        assert!(self.is_compared, "same-round: nothing is compared");
        std::mem::take(&mut self.working)
    }
}

fn wanted(read: &Read) -> Wanted {
    let Read { table, range, now, gc_before, .. } = *read;
    Wanted { table, range, now, gc_before }
}

/// The sessions that a shard keeps for others. Stands in `runtime::local`.
#[derive(Default)]
pub(crate) struct Sessions {
    all: RefCell<BTreeMap<u128, Kept>>,
    /// Of those that are being worked on.
    busy: Rc<Cell<usize>>,
    /// Somebody looks for those that are not used.
    is_swept: Cell<bool>,
}

struct Kept {
    session: Session,
    round: u32,
    used: Instant,
}

/// One more is being worked on.
struct Busy(Rc<Cell<usize>>);

impl Busy {
    fn new(count: &Rc<Cell<usize>>) -> Busy {
        count.set(count.get() + 1);
        Busy(count.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        assert!(0 < self.0.get(), "bounded: a session ends twice");
        self.0.set(self.0.get() - 1);
    }
}

/// How many sessions a shard has room for.
pub(crate) fn sessions_max(memory_bytes: usize) -> usize {
    // A buffer, and what of it is compared and on its way.
    let each = 2 * BUFFER_BYTES_MAX as usize;
    const { assert!(SESSIONS_MIN < SESSIONS_MAX, "bounded: room for some") };
    (memory_bytes / MEMORY_PART / each).clamp(SESSIONS_MIN, SESSIONS_MAX)
}

impl Sessions {
    /// Those of this shard.
    pub(crate) fn of_shard() -> Rc<Sessions> {
        runtime::local::get_or_default::<Sessions>()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.borrow().len() + self.busy.get()
    }

    /// Fills the buffer of a session, a new one where there is none.
    pub(crate) async fn read(
        &self,
        coordinator: &Rc<Coordinator>,
        read: &Read,
        schema: Rc<TableSchema>,
    ) -> Result<Told, Refusal> {
        let known = self.all.borrow_mut().remove(&read.session);
        let known = known.map(|kept| kept.session).filter(|session| session.is_of(read));
        if known.is_none() {
            self.make_room(sessions_max(coordinator.storage.memory_bytes()))?;
        }
        let _busy = Busy::new(&self.busy);
        let mut session = known.unwrap_or_else(|| Session::new(read, schema));
        let told = session.read(read.after.as_ref()).await;
        let told = told.map_err(|error| refused(Cause::Read(error)))?;
        let kept = Kept { session, round: read.round, used: Instant::now() };
        let before = self.all.borrow_mut().insert(read.session, kept);
        debug_assert!(before.is_none(), "bounded: a session is there twice");
        self.sweep(coordinator);
        Ok(told)
    }

    /// The least used one goes, if nobody has used it for a while.
    fn make_room(&self, most: usize) -> Result<(), Refusal> {
        debug_assert!(SESSIONS_MIN <= most, "bounded: room for {most}");
        if self.count() < most {
            return Ok(());
        }
        let now = Instant::now();
        let mut all = self.all.borrow_mut();
        let oldest = all.iter().min_by_key(|(_, kept)| kept.used);
        let oldest = oldest.filter(|(_, kept)| IDLE_MIN <= now - kept.used).map(|(id, _)| *id);
        match oldest {
            Some(id) => drop(all.remove(&id)),
            None => {
                let text = format!("{most} ranges are being repaired on this shard");
                return Err(Refusal::new(RefusalKind::Overloaded, text));
            }
        }
        Ok(())
    }

    /// Answers from a session of that round.
    fn of_round<T>(
        &self,
        (session, round): (u128, u32),
        answer: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let mut all = self.all.borrow_mut();
        let kept = all.get_mut(&session).filter(|kept| kept.round == round)?;
        kept.used = Instant::now();
        Some(answer(&mut kept.session))
    }

    pub(crate) fn compare(&self, compare: &Compare) -> Compared {
        let place = (compare.session, compare.round);
        let compared = self.of_round(place, |session| session.compare(compare));
        compared.unwrap_or(Compared::Gone)
    }

    pub(crate) fn fetch(&self, fetch: &Fetch) -> Option<Vec<FrozenMutation>> {
        self.of_round((fetch.session, fetch.round), |session| session.fetch(fetch)).flatten()
    }

    /// Who asks has ended.
    pub(crate) fn end(&self, session: u128) {
        let ended = self.all.borrow_mut().remove(&session);
        drop(ended);
    }

    /// As long as there are sessions, those that are not used any more are looked for.
    fn sweep(&self, coordinator: &Rc<Coordinator>) {
        if self.is_swept.replace(true) {
            return;
        }
        let sweeping = async {
            const { assert!(IDLE_MIN.as_secs() < IDLE_MAX.as_secs(), "not-for-ever: looks") };
            let sessions = Sessions::of_shard();
            let _ends = Ends(sessions.clone());
            while !sessions.all.borrow().is_empty() {
                sleep(IDLE_MIN).await;
                let now = Instant::now();
                let mut all = sessions.all.borrow_mut();
                all.retain(|_, kept| now - kept.used < IDLE_MAX);
            }
        };
        drop(coordinator.background.spawn_in(STREAMING, sweeping));
    }
}

/// When nobody looks for them any more (the node stops), none is kept.
struct Ends(Rc<Sessions>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.is_swept.set(false);
        self.0.all.borrow_mut().clear();
    }
}
