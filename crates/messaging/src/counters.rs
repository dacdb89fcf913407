//! What messages did on a shard, by verb and class.
//!
//! Invariants
//!  - *counted-gauges*: what is queued or in flight was counted once when it came, and once when it
//!    went.

use crate::algorithms::Compression;
use crate::frame::Header;
use crate::names::{Class, Verb};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The counters of a verb in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbCounters {
    /// Requests, messages and streams that left this shard, and their bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    /// The same that came, and were handed to a handler.
    pub received: u64,
    pub received_bytes: u64,
    /// Calls that failed, without those whose time was over.
    pub failed: u64,
    /// Calls whose time was over.
    pub timed_out: u64,
    /// Calls that the caller dropped.
    pub cancelled: u64,
    /// Now: calls that wait for room or for the kernel to take them.
    pub queued: u64,
    /// Now: calls that were sent and have no answer.
    pub in_flight: u64,
    /// Now: handlers that run.
    pub handling: u64,
}

/// The counters of one verb in one class, while they count.
#[derive(Debug, Default)]
pub(crate) struct VerbTally(Cell<VerbCounters>);

impl VerbTally {
    pub(crate) fn count(&self, change: impl FnOnce(&mut VerbCounters)) {
        let mut counters = self.0.get();
        change(&mut counters);
        self.0.set(counters);
    }

    /// One more of what `gauge` shows, until the value is dropped.
    pub(crate) fn during(self: &Rc<Self>, gauge: Gauge) -> During {
        self.count(|it| *gauge.of(it) += 1);
        During { tally: self.clone(), gauge }
    }
}

/// What goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gauge {
    Queued,
    InFlight,
    Handling,
}

impl Gauge {
    fn of(self, counters: &mut VerbCounters) -> &mut u64 {
        match self {
            Gauge::Queued => &mut counters.queued,
            Gauge::InFlight => &mut counters.in_flight,
            Gauge::Handling => &mut counters.handling,
        }
    }
}

/// See [`VerbTally::during`].
#[derive(Debug)]
pub(crate) struct During {
    tally: Rc<VerbTally>,
    gauge: Gauge,
}

impl During {
    pub(crate) fn tally(&self) -> &VerbTally {
        &self.tally
    }

    pub(crate) fn shared_tally(&self) -> Rc<VerbTally> {
        self.tally.clone()
    }

    /// It is shown by another gauge from now on.
    pub(crate) fn becomes(&mut self, gauge: Gauge) {
        debug_assert_ne!(self.gauge, gauge, "counted-gauges: it is shown there already");
        self.tally.count(|it| {
            let before = self.gauge.of(it);
            assert!(0 < *before, "counted-gauges: {:?} goes below 0", self.gauge);
            *before -= 1;
            *gauge.of(it) += 1;
        });
        self.gauge = gauge;
    }
}

impl Drop for During {
    fn drop(&mut self) {
        self.tally.count(|it| {
            let gauge = self.gauge.of(it);
            assert!(0 < *gauge, "counted-gauges: {:?} goes below 0", self.gauge);
            *gauge -= 1;
        });
    }
}

/// Bodies that were compressed one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedWay {
    pub messages: u64,
    /// Their bytes.
    pub raw_bytes: u64,
    /// Those that travelled in their place.
    pub bytes: u64,
    /// What compressing them, or the way back, took.
    pub nanos: u64,
}

impl PackedWay {
    fn add(&mut self, header: &Header, nanos: u64) {
        self.messages += 1;
        self.raw_bytes += u64::from(header.raw_bytes);
        self.bytes += u64::from(header.body_bytes);
        self.nanos = self.nanos.saturating_add(nanos);
        debug_assert!(self.bytes <= self.raw_bytes, "worth-it: {self:?}");
    }
}

/// Bodies that were compressed by one algorithm, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    pub sent: PackedWay,
    pub received: PackedWay,
}

/// The counters of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By verb and class, in the order of the numbers of verbs.
    pub verbs: Vec<(Verb, Class, VerbCounters)>,
    /// Attempts to connect, and those that did.
    pub dials: u64,
    pub dialed: u64,
    /// Connections of others that were taken, and that were refused.
    pub accepted: u64,
    pub refused: u64,
    /// Connections that broke, or were ended for what came by them.
    pub broken: u64,
    /// Bytes over all connections, as they travel.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Bodies that were compressed, or came so, by algorithm, in the order of
    /// [`Compression::ALL`].
    pub packed: [Packed; Compression::ALL.len()],
    /// Now: bytes that messages hold of this shard's memory for them, and what they may hold.
    pub memory_used_bytes: usize,
    pub memory_bytes: usize,
}

/// What was sent or came of one verb, by class.
type OfVerb = [Option<(Verb, Rc<VerbTally>)>; Class::ALL.len()];

/// The counters of a shard, while they count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By the number of the verb. Those that this node does not know are one: number 0.
    verbs: RefCell<Vec<OfVerb>>,
    pub(crate) dials: Cell<u64>,
    pub(crate) dialed: Cell<u64>,
    pub(crate) accepted: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    pub(crate) broken: Cell<u64>,
    pub(crate) sent_bytes: Cell<u64>,
    pub(crate) received_bytes: Cell<u64>,
    packed: Cell<[Packed; Compression::ALL.len()]>,
}

/// Counts some more.
pub(crate) fn add(counter: &Cell<u64>, more: u64) {
    debug_assert!(more <= u64::MAX - counter.get(), "counted: {more} more");
    counter.set(counter.get() + more);
}

impl Tally {
    /// A body was to be compressed by this algorithm before it left, which took so long.
    pub(crate) fn packed(&self, by: Compression, header: &Header, nanos: u64) {
        debug_assert!(header.body_bytes <= header.raw_bytes, "worth-it: {header:?}");
        debug_assert!(header.compression.is_none_or(|one| one == by), "worth-it: {header:?}");
        self.count_packed(by, |it| it.sent.add(header, nanos));
    }

    /// A body came compressed, and was unpacked, which took so long.
    pub(crate) fn unpacked(&self, by: Compression, header: &Header, nanos: u64) {
        debug_assert_eq!(header.compression, Some(by), "worth-it: {header:?}");
        self.count_packed(by, |it| it.received.add(header, nanos));
    }

    fn count_packed(&self, by: Compression, change: impl FnOnce(&mut Packed)) {
        let mut packed = self.packed.get();
        change(&mut packed[by.index()]);
        self.packed.set(packed);
    }

    pub(crate) fn of(&self, verb: Verb, class: Class) -> Rc<VerbTally> {
        debug_assert!(0 < verb.number || verb.name == "unknown", "verb 0 is none: {verb:?}");
        let mut verbs = self.verbs.borrow_mut();
        let number = usize::from(verb.number);
        if verbs.len() <= number {
            verbs.resize_with(number + 1, OfVerb::default);
        }
        verbs[number][class.index()].get_or_insert_with(|| (verb, Rc::default())).1.clone()
    }

    /// What was counted; memory is the caller's to add.
    pub(crate) fn read(&self) -> Counters {
        let verbs = self.verbs.borrow();
        let verbs = verbs.iter().flat_map(|of| Class::ALL.into_iter().zip(of));
        let verbs = verbs.filter_map(|(class, known)| {
            let (verb, tally) = known.as_ref()?;
            Some((*verb, class, tally.0.get()))
        });
        Counters {
            verbs: verbs.collect(),
            dials: self.dials.get(),
            dialed: self.dialed.get(),
            accepted: self.accepted.get(),
            refused: self.refused.get(),
            broken: self.broken.get(),
            sent_bytes: self.sent_bytes.get(),
            received_bytes: self.received_bytes.get(),
            packed: self.packed.get(),
            memory_used_bytes: 0,
            memory_bytes: 0,
        }
    }
}
