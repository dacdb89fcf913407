//! The reader concurrency semaphore: how many reads run on a shard at the same time, and with how
//! much memory. What is too much waits in a queue, where giving up costs nothing.
//!
//! A read takes a [`Permit`]: a unit of count and [`BASE_BYTES`] of memory; the buffers that it
//! fills are charged to it beside that. Between two visits it can leave its source with the
//! semaphore, which drops it when others need the room (an *inactive* read); then the source is
//! made again, see [`crate::EvictableSource`].
//!
//! Invariants
//!  - *fifo*: a read is admitted after all that waited before it, even if there is room.
//!  - *at-once*: what ends in the step in which it begins waits for nobody.
//!  - *units-return*: with no permits, nothing is held. Whoever drops a permit, a buffer or a wait
//!    returns what it had.
//!  - *no-lost-wake*: whoever gives something back lets the head of the queue go on.
//!  - *progress*: over the serialize limit one read, the privileged one, gets memory still; when it
//!    ends, the next one does. Nobody who is inactive stands in the way of the queue's head.
//!
//! Never starts a task: [`ReadSemaphore::run`] has to be run by whoever owns it, or no wait ends
//! by its deadline. Lives on one shard. A permit that need not wait allocates nothing.
//!
//! In reading order: `admission` (the decision), `core` (the state), `pool` (memory that semaphores
//! share), `disk` (how many may wait for it), `diagnostics` (the dump).

mod admission;
mod core;
mod diagnostics;
mod disk;
mod pool;
#[cfg(test)]
mod tests;

pub use admission::{BASE_BYTES, Candidate, Limits, Load, Reason, Verdict, decide};
pub use core::{Reading, State};
pub use diagnostics::{Counters, Line, Snapshot, render};
pub use pool::Pool;

use crate::{ReadError, Source};
use core::{Core, Id, Refusal};
use runtime::sync::Notify;
use runtime::task::race;
use runtime::time::{Instant, sleep_until};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A dump goes to the log at most this often.
const DUMP_PERIOD: Duration = Duration::from_secs(30);

/// See the module.
pub struct ReadSemaphore {
    name: &'static str,
    core: RefCell<Core>,
    /// Tells [`ReadSemaphore::run`] that an earlier deadline came.
    earlier: Notify,
    /// What it sleeps until.
    armed: Cell<Option<Instant>>,
    dumped: Cell<Option<Instant>>,
}

impl ReadSemaphore {
    /// One with these limits; `name` is for the log.
    pub fn new(name: &'static str, limits: Limits) -> Rc<ReadSemaphore> {
        ReadSemaphore::make(name, limits, None)
    }

    /// One that borrows of a pool what its own memory is too small for.
    pub fn sharing(name: &'static str, limits: Limits, pool: &Rc<Pool>) -> Rc<ReadSemaphore> {
        let semaphore = ReadSemaphore::make(name, limits, Some(pool.clone()));
        pool.join(&semaphore);
        semaphore
    }

    fn make(name: &'static str, limits: Limits, pool: Option<Rc<Pool>>) -> Rc<ReadSemaphore> {
        Rc::new(ReadSemaphore {
            name,
            core: RefCell::new(Core::new(name, limits, pool)),
            earlier: Notify::new(),
            armed: Cell::new(None),
            dumped: Cell::new(None),
        })
    }

    /// A permit, if nobody waits and there is room.
    #[inline]
    pub fn try_admit(self: &Rc<Self>, reading: &Reading) -> Option<Permit> {
        let id = self.core.borrow_mut().try_admit(reading)?;
        Some(self.permit(id, None))
    }

    /// Counts a read that neither waits nor lets others run before it has ended, as admitted and
    /// as successful. It needs no permit, whoever waits for one: what it would hold nobody could
    /// see, and whenever it runs it takes as much of the processor. Behind reads that take long it
    /// would only be late.
    #[inline]
    pub fn pass(&self) {
        self.core.borrow_mut().pass();
    }

    /// A permit, when there is room. At the deadline the wait ends with [`ReadError::TimedOut`];
    /// where the queue is full, or where little of the time is left when its turn comes, with
    /// [`ReadError::Overloaded`].
    pub async fn admit(
        self: &Rc<Self>,
        reading: &Reading,
        deadline: Option<Instant>,
    ) -> Result<Permit, ReadError> {
        if let Some(mut permit) = self.try_admit(reading) {
            permit.deadline = deadline;
            return Ok(permit);
        }
        let entered = self.with(|core| core.enqueue(reading, None, deadline));
        let id = entered.map_err(|refusal| self.refused(refusal, None))?;
        self.arm();
        // From here on the permit frees the slot, also when this future is dropped.
        let permit = self.permit(id, deadline);
        self.wait(id).await?;
        let state = self.core.borrow().slot(id).state;
        debug_assert!(state == State::Active, "fifo: admitted in {state:?}");
        Ok(permit)
    }

    /// A permit that was not admitted: what it is charged is seen, and limits nobody but others.
    pub fn track(self: &Rc<Self>, reading: &Reading) -> Permit {
        let id = self.with(|core| core.track(reading.clone()));
        self.permit(id, None)
    }

    fn permit(self: &Rc<Self>, id: Id, deadline: Option<Instant>) -> Permit {
        Permit { semaphore: self.clone(), id, deadline }
    }

    async fn wait(&self, id: Id) -> Result<(), ReadError> {
        let polled = std::future::poll_fn(|cx| match self.with(|core| core.poll(id, cx.waker())) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        });
        polled.await.map_err(|refusal| self.refused(refusal, Some(id)))
    }

    /// Ends waits by their deadlines and inactive reads by their time, until it is dropped.
    pub async fn run(&self) {
        loop {
            let first = self.core.borrow().first_deadline();
            self.armed.set(first);
            match first {
                None => self.earlier.notified().await,
                Some(deadline) => {
                    race(sleep_until(deadline), self.earlier.notified()).await;
                    let now = Instant::now();
                    if let Some(id) = self.with(|core| core.expire(now)) {
                        self.dump("timed out", Some(id));
                    }
                }
            }
        }
    }

    /// Tells `run` of a deadline before the one that it sleeps for.
    fn arm(&self) {
        let first = self.core.borrow().first_deadline();
        let Some(first) = first else { return };
        if self.armed.get().is_none_or(|armed| first < armed) {
            self.armed.set(Some(first));
            self.earlier.notify_one();
        }
        debug_assert!(self.armed.get() <= Some(first), "no-lost-wake: before {first:?}");
    }

    /// Drops the inactive reads for which `chosen` says so: of a table that is dropped.
    pub fn evict_where(&self, chosen: impl Fn(&Reading) -> bool) {
        self.with(|core| core.evict_where(chosen));
    }

    /// Sets other limits. Who has more than they allow keeps it.
    pub fn set_limits(&self, limits: Limits) {
        self.with(|core| {
            core.limits = limits;
            core.pump();
        });
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.core.borrow().limits
    }
    /// What the next decision will look at.
    pub fn load(&self) -> Load {
        self.core.borrow().load()
    }
    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.core.borrow().counters()
    }
    /// How many wait.
    pub fn waiting_count(&self) -> usize {
        self.core.borrow().waiting_count()
    }
    /// Everything, for the dump.
    pub fn snapshot(&self) -> Snapshot {
        self.core.borrow().snapshot()
    }

    /// A step of the core; then what it evicted is dropped, which may take more steps.
    fn with<R>(&self, step: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.borrow_mut();
        let result = step(&mut core);
        while let Some(evicted) = core.evicted.pop_front() {
            std::mem::drop(core);
            std::mem::drop(evicted);
            core = self.core.borrow_mut();
        }
        let pool = core.take_gave_back();
        std::mem::drop(core);
        if let Some(pool) = pool {
            pool.wake();
        }
        result
    }

    /// Lets go on who can: the pool has got something back.
    fn look(&self) {
        self.with(Core::pump);
    }

    fn refused(&self, refusal: Refusal, trigger: Option<Id>) -> ReadError {
        match refusal {
            // Told by `run`.
            Refusal::TimedOut => ReadError::TimedOut,
            Refusal::QueueFull => {
                self.dump("wait queue overload", trigger);
                ReadError::Overloaded(format!("{}: too many reads wait", self.name))
            }
            Refusal::Shed => {
                let what = "shed: too little time is left for the read";
                ReadError::Overloaded(format!("{}: {what}", self.name))
            }
        }
    }

    fn dump(&self, reason: &str, trigger: Option<Id>) {
        let now = Instant::now();
        if self.dumped.get().is_some_and(|dumped| now - dumped < DUMP_PERIOD) {
            return;
        }
        self.dumped.set(Some(now));
        let trigger = trigger.and_then(|id| self.core.borrow().line(id));
        let text = render(&self.snapshot(), reason, trigger.as_ref());
        tracing::warn!(target: "reader_concurrency_semaphore", "{text}");
    }
}

/// The right to read. Dropping it gives back all that it holds.
pub struct Permit {
    semaphore: Rc<ReadSemaphore>,
    id: Id,
    deadline: Option<Instant>,
}

impl Permit {
    /// Whether the read may go on: to be asked between batches.
    pub fn check(&self) -> Result<(), ReadError> {
        if self.semaphore.core.borrow().is_killed(self.id) {
            return Err(self.killed());
        }
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                self.semaphore.dump("timed out", Some(self.id));
                Err(ReadError::TimedOut)
            }
            _ => Ok(()),
        }
    }

    /// Counts the read as failed, whatever it was that failed.
    pub fn fail(&self) {
        self.semaphore.with(|core| core.fail(self.id));
    }

    /// Counts SSTables that the read opened.
    pub fn count_sstables(&self, count: u64) {
        self.semaphore.core.borrow_mut().counters.sstables_read += count;
    }

    /// The read uses the processor while the guard lives.
    pub fn need_cpu(&self) -> NeedCpu<'_> {
        self.semaphore.with(|core| core.need_cpu(self.id, true));
        NeedCpu { permit: self }
    }

    /// Runs `future`; whenever it has to wait, so does the read, and not for the processor.
    pub async fn awaiting<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut waits = Awaits { permit: self, waiting: None };
        std::future::poll_fn(|cx| waits.poll(future.as_mut(), cx)).await
    }

    /// Charges bytes that the read has already; an error: the read is to end.
    pub fn consume(&self, bytes: usize) -> Result<Units, ReadError> {
        let mut units = self.no_units();
        units.set(bytes)?;
        Ok(units)
    }

    /// Charges bytes before they are used, and waits for them where others have too many.
    pub async fn request_memory(&self, bytes: usize) -> Result<Units, ReadError> {
        let mut units = self.no_units();
        if !self.semaphore.with(|core| core.request_memory(self.id, bytes as i64, self.deadline)) {
            self.semaphore.arm();
            let mut cancel = CancelRequest { permit: self, armed: true };
            self.semaphore.wait(self.id).await?;
            let state = self.semaphore.core.borrow().slot(self.id).state;
            debug_assert!(state == State::Active, "progress: got memory in {state:?}");
            cancel.armed = false;
        }
        units.bytes = bytes as i64;
        Ok(units)
    }

    /// Of nothing, to be set later.
    pub fn no_units(&self) -> Units {
        let generation = self.semaphore.core.borrow().generation(self.id);
        Units { semaphore: self.semaphore.clone(), slot: (self.id, generation), bytes: 0 }
    }

    /// Leaves the source of the read with the semaphore, for at most `for_max`. The permit keeps
    /// what it holds until the source is evicted.
    pub fn pause(&self, source: Box<dyn Source>, for_max: Option<Duration>) {
        let until = for_max.map(|span| Instant::now() + span);
        self.semaphore.with(|core| core.pause(self.id, source, until));
        self.semaphore.arm();
    }

    /// Takes the source back; `None`: it was evicted, and the permit is to be admitted again.
    pub fn resume(&self) -> Option<Box<dyn Source>> {
        self.semaphore.with(|core| core.resume(self.id))
    }

    /// Whether its source was evicted and it has not been admitted again.
    pub fn is_evicted(&self) -> bool {
        self.semaphore.core.borrow().slot(self.id).state == State::Evicted
    }

    /// Waits as [`ReadSemaphore::admit`] does, after the source was evicted.
    pub async fn admit_again(&mut self, deadline: Option<Instant>) -> Result<(), ReadError> {
        assert!(self.is_evicted(), "a permit that was not evicted is admitted again");
        let semaphore = self.semaphore.clone();
        self.deadline = deadline;
        let Some(reading) = semaphore.core.borrow().reading(self.id) else {
            unreachable!("a permit's slot says what it reads");
        };
        let entered = semaphore.with(|core| core.enqueue(&reading, Some(self.id), deadline));
        entered.map_err(|refusal| semaphore.refused(refusal, Some(self.id)))?;
        semaphore.arm();
        let mut cancel = CancelAgain { permit: self, armed: true };
        semaphore.wait(cancel.permit.id).await?;
        debug_assert!(!cancel.permit.is_evicted(), "units-return: admitted again, and evicted");
        cancel.armed = false;
        Ok(())
    }

    fn killed(&self) -> ReadError {
        self.semaphore.dump("kill limit triggered", Some(self.id));
        let name = self.semaphore.name;
        ReadError::Overloaded(format!("{name}: the read was killed: reads use too much memory"))
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let has_more = {
            let mut core = self.semaphore.core.borrow_mut();
            core.release(self.id);
            !core.evicted.is_empty() || core.gave_back
        };
        if has_more {
            self.semaphore.with(|_| {});
        }
    }
}

/// See [`Permit::need_cpu`].
pub struct NeedCpu<'p> {
    permit: &'p Permit,
}

impl Drop for NeedCpu<'_> {
    fn drop(&mut self) {
        self.permit.semaphore.with(|core| core.need_cpu(self.permit.id, false));
    }
}

/// The state of [`Permit::awaiting`].
struct Awaits<'p> {
    permit: &'p Permit,
    waiting: Option<Instant>,
}

impl Awaits<'_> {
    fn poll<F: Future>(&mut self, future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = future.poll(cx);
        self.set(polled.is_pending());
        polled
    }

    fn set(&mut self, waiting: bool) {
        if waiting == self.waiting.is_some() {
            return;
        }
        let now = Instant::now();
        let since = std::mem::replace(&mut self.waiting, waiting.then_some(now));
        self.permit.semaphore.with(|core| {
            if let Some(since) = since {
                core.waited(now - since, now);
            }
            core.awaits(self.permit.id, waiting);
        });
    }
}

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

struct CancelRequest<'p> {
    permit: &'p Permit,
    armed: bool,
}

impl Drop for CancelRequest<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.permit.semaphore.with(|core| core.cancel_request(self.permit.id));
        }
    }
}

struct CancelAgain<'p> {
    permit: &'p Permit,
    armed: bool,
}

impl Drop for CancelAgain<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.permit.semaphore.with(|core| core.cancel_again(self.permit.id));
        }
    }
}

/// Memory that a read is charged, until this or its permit is dropped.
pub struct Units {
    semaphore: Rc<ReadSemaphore>,
    /// And its generation.
    slot: (Id, u32),
    bytes: i64,
}

impl Units {
    /// Bytes charged.
    pub fn bytes(&self) -> usize {
        debug_assert!(0 <= self.bytes, "units-return: {} bytes", self.bytes);
        self.bytes as usize
    }

    /// Charges so many bytes from now on; an error: the read is to end.
    pub fn set(&mut self, bytes: usize) -> Result<(), ReadError> {
        let more = bytes as i64 - self.bytes;
        if more <= 0 {
            self.bytes += more;
            debug_assert!(0 <= self.bytes, "units-return: {} bytes", self.bytes);
            self.semaphore.with(|core| core.give_back(self.slot, -more));
            return Ok(());
        }
        if !self.semaphore.with(|core| core.consume(self.slot, more)) {
            self.semaphore.dump("kill limit triggered", Some(self.slot.0));
            let name = self.semaphore.name;
            let what = "the read was killed: reads use too much memory";
            return Err(ReadError::Overloaded(format!("{name}: {what}")));
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        if 0 < self.bytes {
            self.semaphore.with(|core| core.give_back(self.slot, self.bytes));
        }
    }
}
