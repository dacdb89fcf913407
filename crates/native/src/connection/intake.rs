//! The reading loop of a connection: from bytes to admitted requests.
//!
//! Invariants
//!  - *charged-first*: a request's memory is charged before its body is taken out of the buffer,
//!    and before a large body is read at all.
//!  - *shed-by-header*: of a request that is shed only the header is parsed.
//!  - *bounded-lag*: a connection whose client sends more than the shard takes in lags behind it
//!    for at most the patience of the admission, by the kind of its work; then it sheds, of each
//!    read what has waited for too long.
//!  - *never-idle*: what was read waits for its turn as long as its time allows, so a shard that
//!    sheds is busy.
//!  - *held-between-waits*: the outbox is held while requests are answered and flushed before
//!    anything is waited for.

use super::response_memory::ResponseMemory;
use super::{Connection, Ended};
use crate::admission::{Charge, Lag, Shed, Turn};
use crate::frame::{self, HEADER_BYTES, Header, Parsed, flag, opcode};
use crate::segment;
use crate::unauthenticated;
use query::{CqlError, Prefetch, Workload};
use runtime::sync::Permit;
use runtime::task::{Either, Scope, race};
use runtime::time::{Instant, sleep_until};
use std::future::Future;
use std::rc::Rc;

/// The largest body of the protocol: what claims more is no request.
const BODY_BYTES_MAX: usize = 256 << 20;
/// Bodies above this are charged before they are read.
const LARGE_BODY_BYTES: usize = 64 << 10;
/// What one read may take in: doubled when a read fills it, halved when it hardly does.
const READ_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 10;
/// Requests between two looks at the clock.
const REQUESTS_PER_LOOK: u32 = 8;
/// The pace of a connection that lags far behind is a fraction of the usual: so many halvings.
const PACE_HALVINGS_MAX: u32 = 6;

/// What the reading loop knows between two reads.
pub(crate) struct Intake<'a> {
    connection: &'a Rc<Connection>,
    requests: &'a Scope,
    events: &'a Scope,
    /// The size of the next read.
    read_bytes: usize,
    /// Bytes to come of a body that is skipped.
    skip: usize,
    /// The charge of a large body that is being read.
    body: Option<Charge>,
    turn: Turn,
    /// The last read found as much as it could take.
    lags: bool,
    /// Since when there was more than could be admitted.
    lags_since: Option<Instant>,
    /// Since when requests of this read have waited.
    waits_since: Option<Instant>,
    /// How often the time that they may wait while the shard is overloaded was halved, because a
    /// read found more than it could take.
    halvings: u32,
    /// What becomes of all further requests of this read.
    sheds: Option<Shed>,
    /// What the requests ask that come next.
    prefetch: Prefetch,
    /// Whether it was fetched.
    is_fetched: bool,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(
        connection: &'a Rc<Connection>,
        requests: &'a Scope,
        events: &'a Scope,
    ) -> Intake<'a> {
        Intake {
            connection,
            requests,
            events,
            read_bytes: *READ_BYTES.start(),
            skip: 0,
            body: None,
            turn: Turn::default(),
            lags: false,
            lags_since: None,
            waits_since: None,
            halvings: 0,
            sheds: None,
            prefetch: Prefetch::default(),
            is_fetched: false,
        }
    }

    /// Reads requests until one side ends.
    pub(crate) async fn run(mut self) {
        let connection = self.connection;
        let (mut input, mut envelopes) = (Vec::new(), Vec::new());
        while !connection.is_stopped() {
            connection.outbox.wait_for_room().await;
            if input.is_empty() && 2 * self.read_bytes < input.capacity() {
                input = Vec::new();
            }
            // Unauthenticated clients get no more room, however much they send.
            let read_bytes = match connection.is_started() {
                true => self.read_bytes,
                false => *READ_BYTES.start(),
            };
            input.reserve(read_bytes);
            let offered = input.capacity() - input.len();
            let reading = connection.stream.read(input);
            let (read, buffer) = match race(reading, connection.stopping.notified()).await {
                Either::Left(read) => read,
                Either::Right(()) => return,
            };
            input = buffer;
            let Ok(read @ 1..) = read else { return };
            connection.enter_group().await;
            self.look_at(read, offered);
            let turn = match connection.is_started() {
                true => None,
                false => Some(connection.handshakes().turn().await),
            };
            connection.outbox.hold();
            let taken = self.take_requests(&mut input, &mut envelopes).await;
            connection.outbox.flush(&connection.stream);
            if turn.is_some() {
                // Others have theirs between those of new connections.
                runtime::task::yield_now().await;
            }
            drop(turn);
            if taken.is_err() {
                return;
            }
            self.turn = Turn::default();
            connection.receives.set(self.body.is_some().then(Instant::now));
        }
    }

    /// What the size of a read tells: whether there is more, and how large the next should be.
    fn look_at(&mut self, read: usize, offered: usize) {
        (self.sheds, self.waits_since) = (None, None);
        self.lags = read == offered;
        if read < offered {
            self.lags_since = None;
            self.halvings = self.halvings.saturating_sub(1);
        } else if self.lags_since.is_some() {
            self.halvings = (self.halvings + 1).min(PACE_HALVINGS_MAX);
        }
        if read == offered {
            self.read_bytes = (2 * self.read_bytes).min(*READ_BYTES.end());
        } else if read < self.read_bytes / 4 {
            self.read_bytes = (self.read_bytes / 2).max(*READ_BYTES.start());
        }
    }

    /// Takes all whole requests off the input.
    async fn take_requests(
        &mut self,
        input: &mut Vec<u8>,
        envelopes: &mut Vec<u8>,
    ) -> Result<(), Ended> {
        let connection = self.connection;
        loop {
            let Some(packing) = connection.segments.get() else {
                let used = self.take_envelopes(input).await?;
                input.drain(..used);
                match connection.segments.get() {
                    None => return Ok(()),
                    // STARTUP was among them: what follows it is in segments.
                    Some(_) => continue,
                }
            };
            let used = match segment::decode(packing, input, envelopes) {
                Ok(Some(used)) => used,
                Ok(None) => return Ok(()),
                Err(segment::Broken(what)) => {
                    return Err(connection.protocol_error(0, what.to_string()));
                }
            };
            input.drain(..used);
            let used = self.take_envelopes(envelopes).await?;
            envelopes.drain(..used);
        }
    }

    /// Starts the request of each whole envelope; how many bytes they took.
    async fn take_envelopes(&mut self, input: &[u8]) -> Result<usize, Ended> {
        let connection = self.connection;
        let (mut used, mut taken) = (self.skip.min(input.len()), 0u32);
        self.skip -= used;
        let carriage = connection.segments.get();
        let mut prefetched = used;
        while let Some(rest) = input.get(used..) {
            if self.sheds_by_header() {
                let shed = self.connection.shed_all(rest);
                if 0 < shed {
                    used += shed;
                    continue;
                }
            }
            if prefetched <= used {
                let (bytes, is_fetched) = connection.prefetch(rest, &mut self.prefetch);
                (prefetched, self.is_fetched) = (used + bytes, is_fetched);
            }
            let Some(header) = self.header_of(rest)? else { break };
            connection.check_version(&header)?;
            let whole = HEADER_BYTES + header.body_bytes;
            let wanted = self.check_size(&header)?;
            let body = rest.get(HEADER_BYTES..whole);
            if wanted && body.is_none() && !self.may_read(&header).await {
                connection.shed(header.stream, Shed::TooLate);
            } else if wanted {
                let Some(body) = body else { break };
                self.start_request(header, body).await?;
                if connection.outbox.is_full() {
                    connection.outbox.flush(&connection.stream);
                    connection.outbox.hold();
                }
            }
            // Of what is not wanted the rest is still to come.
            let here = whole.min(rest.len());
            self.skip = whole - here;
            used += here;
            if carriage != connection.segments.get() {
                break;
            }
            taken += 1;
            if taken.is_multiple_of(REQUESTS_PER_LOOK) && runtime::task::need_preempt() {
                self.yield_now().await;
            }
        }
        Ok(used)
    }

    /// The header at the start of `rest`, if it is there.
    fn header_of(&self, rest: &[u8]) -> Result<Option<Header>, Ended> {
        match frame::parse_header(rest) {
            Parsed::Incomplete => Ok(None),
            Parsed::Header(header) => Ok(Some(header)),
            Parsed::NotARequest => {
                let text = "received a response frame, expected a request".to_string();
                Err(self.connection.protocol_error(0, text))
            }
            Parsed::UnsupportedVersion { version, stream } => {
                Err(self.connection.refuse_version(version, stream))
            }
        }
    }

    /// Lets others have their turn. A connection that lags has so much time for what it has read.
    async fn yield_now(&mut self) {
        self.wait_for(runtime::task::yield_now()).await;
        if self.lags && self.sheds.is_none() {
            // It says so itself when the time is over.
            let _ = self.deadline();
        }
    }

    /// Waits, after the answers that are there were sent (*held-between-waits*).
    async fn wait_for<F: Future>(&self, what: F) -> F::Output {
        self.connection.outbox.flush(&self.connection.stream);
        let output = what.await;
        self.connection.outbox.hold();
        output
    }

    /// Whether what was read is answered without a look at it.
    fn sheds_by_header(&self) -> bool {
        self.sheds.is_some()
            && self.body.is_none()
            && (self.lags || self.connection.admission().has_line())
    }

    /// Whether a body may be taken in. One that never will is refused, and passed over.
    fn check_size(&self, header: &Header) -> Result<bool, Ended> {
        let connection = self.connection;
        let bytes_max = match connection.is_started() {
            true => connection.body_bytes_max(),
            false => unauthenticated::BODY_BYTES_MAX,
        };
        if header.body_bytes <= bytes_max {
            return Ok(true);
        }
        let text =
            format!("request size too large (frame size {}; limit {bytes_max})", header.body_bytes);
        connection.refuse(header.stream, &CqlError::Invalid(text));
        connection.admission().count(|counters| counters.requests_too_large += 1);
        let is_a_request = connection.is_started() && header.body_bytes <= BODY_BYTES_MAX;
        if is_a_request { Ok(false) } else { Err(Ended) }
    }

    /// Whether the body of an envelope may be read; a large one is charged for (*charged-first*).
    async fn may_read(&mut self, header: &Header) -> bool {
        if header.body_bytes <= LARGE_BODY_BYTES || self.body.is_some() {
            return true;
        }
        let Ok(mut charge) = self.admit(header).await else { return false };
        charge.begin();
        self.body = Some(charge);
        true
    }

    /// Handles what changes the connection itself at once, and starts a task for the rest.
    async fn start_request(&mut self, header: Header, body: &[u8]) -> Result<(), Ended> {
        let connection = self.connection;
        if !connection.is_started() {
            connection.check_stage(&header)?;
        }
        match header.opcode {
            opcode::AUTH_RESPONSE => {
                self.body = None;
                let body = connection.unpacked(&header, body)?;
                connection.take_login(&header, &body, self.requests)
            }
            opcode::OPTIONS | opcode::STARTUP | opcode::REGISTER => {
                self.body = None;
                let body = connection.unpacked(&header, body)?;
                let unsent = connection.outbox.unsent_bytes();
                connection.handshake(&header, &body, self.events)?;
                let answered = connection.outbox.unsent_bytes().saturating_sub(unsent);
                connection.count_answered(header.opcode, body.len(), answered);
                self.wait_while_unauthenticated().await;
                Ok(())
            }
            _ => {
                let entry = self.admit_request(&header).await;
                self.body = None;
                match entry {
                    Ok(entry) => self.spawn(header, body, entry).await?,
                    Err(shed) => connection.shed(header.stream, shed),
                }
                Ok(())
            }
        }
    }

    /// An unauthenticated client gets no more responses before it has taken those that are there.
    async fn wait_while_unauthenticated(&self) {
        let (connection, unsent_max) = (self.connection, unauthenticated::UNSENT_BYTES_MAX);
        if !connection.is_started() && unsent_max < connection.outbox.unsent_bytes() {
            self.wait_for(connection.outbox.wait_for_less(unsent_max)).await;
        }
    }

    async fn spawn(
        &self,
        header: Header,
        body: &[u8],
        (mut charge, permit): (Charge, Permit),
    ) -> Result<(), Ended> {
        let connection = self.connection;
        let unpacked = match connection.is_unpacked_at_once(&header, body) {
            true => connection.unpacked(&header, body)?,
            false => self.wait_for(connection.unpacked_slowly(&header, body)).await?,
        };
        if header.flags & flag::COMPRESSED != 0 {
            charge.grow(unpacked.len());
        }
        self.connection.count_request();
        self.connection.takes();
        let (connection, is_fetched) = (self.connection.clone(), self.is_fetched);
        self.requests.run(async move {
            connection.wait_to_run(&header, &mut charge).await;
            let memory = ResponseMemory::new(&connection, &charge, header.body_bytes);
            connection.answer(header, &unpacked, is_fetched, &memory).await;
            drop(memory);
            connection.ran();
            drop((charge, permit));
        });
        Ok(())
    }

    /// Admits a request, or says why it is shed.
    async fn admit_request(&mut self, header: &Header) -> Result<(Charge, Permit), Shed> {
        if let Some(shed) = self.sheds
            && self.sheds_by_header()
        {
            return Err(shed);
        }
        if !self.connection.takes_more() {
            self.turn = Turn::default();
            self.wait_for(self.connection.wait_for_room()).await;
        }
        let requests = &self.connection.requests;
        let permit = match requests.try_acquire(1) {
            Some(permit) => permit,
            None => {
                let deadline = self.deadline()?;
                match self.wait_for(race(requests.acquire(1), sleep_until(deadline))).await {
                    Either::Left(Ok(permit)) => permit,
                    _ => return Err(self.shed_from_now_on(Shed::TooLate)),
                }
            }
        };
        let charge = match self.body.take() {
            Some(charge) => charge,
            None => self.admit(header).await?,
        };
        Ok((charge, permit))
    }

    async fn admit(&mut self, header: &Header) -> Result<Charge, Shed> {
        let admission = self.connection.admission();
        let answer_bytes = self.connection.expected_answer();
        let bytes = admission.limits().charge(header.body_bytes, answer_bytes);
        if let Some(decided) = admission.try_admit(bytes, &mut self.turn) {
            return decided;
        }
        let deadline = self.deadline()?;
        self.turn = Turn::default();
        match self.wait_for(admission.admit(bytes, deadline)).await {
            Ok((charge, turn)) => {
                self.turn = turn;
                Ok(charge)
            }
            Err(shed) => Err(self.shed_from_now_on(shed)),
        }
    }

    /// Until when a request may wait that finds no room; see [`crate::Limits::deadline`].
    fn deadline(&mut self) -> Result<Instant, Shed> {
        if let Some(shed) = self.sheds {
            return Err(shed);
        }
        let admission = self.connection.admission();
        let now = Instant::now();
        let since = *self.lags_since.get_or_insert(now);
        let read_since = *self.waits_since.get_or_insert(now);
        let lag = Lag {
            since,
            read_since,
            halvings: self.halvings,
            is_overloaded: admission.is_overloaded(now),
        };
        let deadline = admission.limits().deadline(self.connection.workload(), lag);
        if now < deadline { Ok(deadline) } else { Err(self.shed_from_now_on(Shed::TooLate)) }
    }

    fn shed_from_now_on(&mut self, shed: Shed) -> Shed {
        self.sheds = Some(shed);
        // What is shed early says little about those who may wait for longer.
        if self.connection.workload() != Some(Workload::Interactive) {
            self.connection.admission().overloaded(Instant::now());
        }
        shed
    }
}
