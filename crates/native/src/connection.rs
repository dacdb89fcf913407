//! One client: its handshake, its requests, its answers.
//!
//! Lives on: the shard that the server gave it to. A reading loop (`intake`) takes envelopes off
//! the stream and starts a task for each request; a writing loop (`outbox`) sends what they answer.
//!
//! From the ground up: [`Connection`], what its parts share; `level` (its scheduling group),
//! `login` (authentication), `response_memory` (the memory of growing responses), `intake`.
//!
//! Invariants
//!  - *version-fixed*: the first request fixes the protocol version; a later one of another version
//!    is an error.
//!  - *started-first*: only OPTIONS and STARTUP are accepted before STARTUP is done.
//!  - *requests-bounded*: at most `REQUESTS_MAX` requests are in flight; more are left unread.

mod intake;
mod level;
mod login;
mod response_memory;

use crate::admission::{Admission, Charge, Shed, TASK_BYTES, Unread};
use crate::compress::Compression;
use crate::frame::{self, HEADER_BYTES, Header, flag, opcode};
use crate::handshake::Handshakes;
use crate::outbox::{Carriage, Outbox};
use crate::peer::Peer;
use crate::request::{self, Dialect, Parameters, Request, Statement};
use crate::response::{self, Known, Registered};
use crate::segment::Packing;
use crate::service::Service;
use crate::supported;
use crate::tally::{Membership, Tallies};
use intake::Intake;
use query::trace::{Cause, Trace, Traced};
use query::{BatchEntry, BatchForm, BatchStatement, CqlError, Prefetch, Session};
use replication::{Consistency, Room};
use response_memory::ConnectionUsage;
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Scope, compute, yield_if_needed};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tls::Stream;

/// Requests of one connection in flight at once.
const REQUESTS_MAX: usize = 1024;
/// How many requests of a connection run at first; one more after each answer, so that few run
/// before it is known how large the answers are.
const WINDOW_MIN: usize = 8;
/// A body up to this is taken out of the buffer in one go.
const AT_ONCE_BYTES: usize = 256 << 10;
/// A connection that has not moved for so long may be ended where memory is short.
const STUCK_MIN: Duration = Duration::from_secs(30);
/// The same where there is more unread than there is memory for.
const STUCK_IN_FLOOD_MIN: Duration = Duration::from_secs(5);

/// A connection ends before its client ends it.
pub(crate) struct Ended;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before STARTUP.
    Established,
    /// Before the login is done.
    Authenticating,
    /// Requests are answered.
    Ready,
}

impl Stage {
    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Established => "ESTABLISHED",
            Stage::Authenticating => "AUTHENTICATING",
            Stage::Ready => "READY",
        }
    }
}

/// How far the login of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Login {
    /// No login is required, or STARTUP is still to come, or it is done.
    NotAsked,
    /// AUTHENTICATE was sent.
    Asked,
    /// A password is being checked.
    InFlight,
}

/// One client.
pub(crate) struct Connection {
    service: Rc<Service>,
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    pub(crate) session: Session,
    membership: Membership,
    pub(crate) outbox: Outbox,
    pub(crate) requests: Semaphore,
    /// Bytes of the largest of the last answers, about; `None`: there was none yet.
    largest_answer: Cell<Option<usize>>,
    /// Requests that were admitted.
    request_count: Cell<u64>,
    /// Requests that run, and that may.
    running: Cell<usize>,
    window: Cell<usize>,
    ran: Notify,
    /// Admitted requests that have no response yet.
    admitted: Cell<usize>,
    /// One of them has its answer.
    answered: Notify,
    usage: ConnectionUsage,
    /// Since when the rest of a large body is waited for.
    pub(crate) receives: Cell<Option<Instant>>,
    version: Cell<Option<u8>>,
    compression: Cell<Option<Compression>>,
    pub(crate) segments: Cell<Option<Packing>>,
    metadata_ids: Cell<bool>,
    marks_lwt: Cell<bool>,
    knows_rate_limits: Cell<bool>,
    knows_tablets: Cell<bool>,
    started: Cell<bool>,
    login: Cell<Login>,
    registered: Cell<Registered>,
    /// What STARTUP said, for `system.clients`.
    pub(crate) options: RefCell<Vec<(String, String)>>,
    pub(crate) stopping: Notify,
    stopped: Cell<bool>,
}

impl Connection {
    pub(crate) fn new(service: Rc<Service>, stream: Stream, peer: Peer) -> Connection {
        let session = peer.session();
        let outbox = Outbox::new(service.admission().clone());
        let group = session.group(service.cluster().access());
        let membership = Membership::new(group, service.tallies());
        Connection {
            service,
            stream,
            peer,
            session,
            membership,
            outbox,
            requests: Semaphore::new(REQUESTS_MAX, 1),
            largest_answer: Cell::new(None),
            request_count: Cell::new(0),
            running: Cell::new(0),
            window: Cell::new(WINDOW_MIN),
            ran: Notify::new(),
            admitted: Cell::new(0),
            answered: Notify::new(),
            usage: ConnectionUsage::default(),
            receives: Cell::new(None),
            version: Cell::new(None),
            compression: Cell::new(None),
            segments: Cell::new(None),
            metadata_ids: Cell::new(false),
            marks_lwt: Cell::new(false),
            knows_rate_limits: Cell::new(false),
            knows_tablets: Cell::new(false),
            started: Cell::new(false),
            login: Cell::new(Login::NotAsked),
            registered: Cell::new(Registered::default()),
            options: RefCell::new(Vec::new()),
            stopping: Notify::new(),
            stopped: Cell::new(false),
        }
    }

    /// The protocol version, once it is known.
    pub(crate) fn version(&self) -> Option<u8> {
        self.version.get()
    }

    /// Whether STARTUP is done.
    pub(crate) fn is_started(&self) -> bool {
        self.started.get()
    }

    pub(crate) fn stage(&self) -> Stage {
        match (self.started.get(), self.login.get()) {
            (true, _) => Stage::Ready,
            (false, Login::NotAsked) => Stage::Established,
            (false, Login::Asked | Login::InFlight) => Stage::Authenticating,
        }
    }

    /// Whether a login is expected; it is in progress from now on.
    pub(crate) fn begins_login(&self) -> bool {
        let is_expected = self.login.get() == Login::Asked;
        if is_expected {
            self.login.set(Login::InFlight);
        }
        is_expected
    }

    /// Its requests are answered from now on.
    pub(crate) fn logged_in(&self) {
        self.login.set(Login::NotAsked);
        self.started.set(true);
    }

    pub(crate) fn processor(&self) -> &query::Processor {
        self.service.processor()
    }

    /// Requests that were admitted.
    pub(crate) fn request_count(&self) -> u64 {
        self.request_count.get()
    }

    /// A request was admitted.
    pub(crate) fn count_request(&self) {
        self.request_count.set(self.request_count.get() + 1);
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        self.service.tallies()
    }

    pub(crate) fn cluster(&self) -> &cluster::Cluster {
        self.service.cluster()
    }

    pub(crate) fn handshakes(&self) -> &Handshakes {
        self.service.handshakes()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    pub(crate) fn admission(&self) -> &Rc<Admission> {
        self.service.admission()
    }

    pub(crate) fn usage(&self) -> &ConnectionUsage {
        &self.usage
    }

    /// Waits while the client does not read its answers, while as many requests run as may, and
    /// while memory is short. Others are admitted meanwhile.
    pub(crate) async fn wait_to_run(&self, header: &Header, charge: &mut Charge) {
        charge.begin();
        loop {
            if !self.outbox.has_room() {
                charge.stall(self.outbox.wait_for_room()).await;
            }
            if !self.may_run() {
                self.ran.notified().await;
                continue;
            }
            charge.run(header.body_bytes, self.expected_answer()).await;
            if self.outbox.has_room() && self.may_run() {
                break;
            }
            charge.pause();
        }
        self.running.set(self.running.get() + 1);
    }

    /// Whether one more request may run, by the number of those that run and by what the client
    /// would leave unread of all their answers.
    fn may_run(&self) -> bool {
        let running = self.running.get();
        running < self.window.get() && self.has_room_for_answers(running)
    }

    /// Whether its client has room for one more answer than those of so many requests. For one
    /// there always is, and for no more before it is known how large they are.
    fn has_room_for_answers(&self, requests: usize) -> bool {
        if requests == 0 {
            return true;
        }
        self.largest_answer.get().is_some_and(|bytes| {
            let unread = self.outbox.unsent_bytes() + requests * (bytes + TASK_BYTES);
            self.admission().may_be_unread(unread)
        })
    }

    /// Waits until one more request may be admitted, given what the client leaves unread.
    pub(crate) async fn wait_for_room(&self) {
        while !self.takes_more() {
            self.outbox.wait_for_room().await;
            if !self.has_room_for_answers(self.admitted.get()) {
                self.answered.notified().await;
            }
        }
    }

    /// Whether one more request may be admitted, given what the client leaves unread.
    pub(crate) fn takes_more(&self) -> bool {
        self.outbox.has_room() && self.has_room_for_answers(self.admitted.get())
    }

    /// A request was admitted.
    pub(crate) fn takes(&self) {
        self.admitted.set(self.admitted.get() + 1);
    }

    /// How large the next answer may be, by those before.
    pub(crate) fn expected_answer(&self) -> usize {
        let unknown = || self.admission().limits().unknown_answer_bytes();
        self.largest_answer.get().unwrap_or_else(unknown)
    }

    /// A request has its answer: one more may run, and one in its place.
    pub(crate) fn ran(&self) {
        self.admitted.set(self.admitted.get() - 1);
        self.answered.notify_one();
        self.running.set(self.running.get() - 1);
        self.ran.notify_one();
        if self.window.get() < REQUESTS_MAX {
            self.window.set(self.window.get() + 1);
            self.ran.notify_one();
        }
    }

    /// Answers a request that was shed.
    pub(crate) fn shed(&self, stream: i16, shed: Shed) {
        self.admission().count(|counters| counters.requests_shed += 1);
        let version = self.version.get().unwrap_or(frame::VERSION_MAX);
        self.outbox.push_plain(|out| response::overloaded(out, version, stream, shed.text()));
    }

    /// Refuses all whole requests at the start of `input`, up to one that is anything but a plain
    /// request; how many bytes they have.
    pub(crate) fn shed_all(&self, input: &[u8]) -> usize {
        let Some(version) = self.version.get().filter(|_| self.started.get()) else { return 0 };
        let (bytes_max, mut used, mut count) = (self.body_bytes_max(), 0, 0);
        let mut refusal = Vec::new();
        response::overloaded(&mut refusal, version, 0, Shed::TooLate.text());
        self.outbox.push_plain(|out| {
            while let Some(rest) = input.get(used..)
                && let Some(header) = frame::parse_request(rest, version)
                && header.body_bytes <= bytes_max
                && HEADER_BYTES + header.body_bytes <= rest.len()
            {
                frame::put_on_stream(out, &refusal, header.stream);
                used += HEADER_BYTES + header.body_bytes;
                count += 1;
            }
        });
        self.admission().count(|counters| counters.requests_shed += count);
        used
    }

    /// Has memory fetch what the next whole requests at the start of `input` are going to look for;
    /// how many bytes these have, and whether something was fetched. A single one is not parsed.
    pub(crate) fn prefetch(&self, input: &[u8], prefetch: &mut Prefetch) -> (usize, bool) {
        let version = self.version.get().filter(|_| self.started.get());
        let Some(version) = version else { return (0, false) };
        let dialect = self.dialect(version);
        let opaque = match self.segments.get() {
            None => flag::CUSTOM_PAYLOAD | flag::COMPRESSED,
            Some(_) => flag::CUSTOM_PAYLOAD,
        };
        let processor = self.service.processor();
        let (mut used, mut first) = (0, true);
        for _ in 0..Prefetch::COUNT_MAX {
            let Some(rest) = input.get(used..) else { break };
            let Some(header) = frame::parse_request(rest, version) else { break };
            let whole = HEADER_BYTES + header.body_bytes;
            let Some(body) = rest.get(HEADER_BYTES..whole) else { break };
            used += whole;
            if std::mem::take(&mut first) && whole == rest.len() {
                return (used, false);
            }
            if header.opcode == opcode::EXECUTE
                && header.flags & opaque == 0
                && let Ok(glance) = request::glance(dialect, body)
            {
                processor.prefetch(prefetch, glance.id, |at| glance.value(at));
            }
        }
        (used, processor.fetch_now(prefetch))
    }

    /// Appends an answer, and remembers how large it is. These bytes are what is returned.
    fn push(&self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let bytes = self.outbox.push(encode);
        let before = self.largest_answer.get().unwrap_or(0);
        self.largest_answer.set(Some(bytes.max(before - before / 8)));
        bytes
    }

    /// Appends a large result, which is put together in pieces.
    async fn push_large(
        &self,
        dialect: Dialect,
        stream: i16,
        known: Known<'_>,
        response: &query::Response,
    ) -> usize {
        let own = response::large_result(dialect, stream, &known, response).await;
        self.push(|out| match out.is_empty() {
            true => *out = own,
            false => out.extend_from_slice(&own),
        })
    }

    /// Whether the client has neither taken what is sent to it nor sent the rest of a body for too
    /// long.
    pub(crate) fn is_stuck(&self, now: Instant, unread: Unread) -> bool {
        let min = match unread {
            Unread::Little => return false,
            Unread::Much => STUCK_MIN,
            Unread::Flood => STUCK_IN_FLOOD_MIN,
        };
        let long = |since: Option<Instant>| since.is_some_and(|since| min <= now - since);
        long(self.receives.get()) || long(self.outbox.sends_since())
    }

    /// Ends it, whatever is in flight.
    pub(crate) fn end(&self) {
        self.stop();
        let _ = self.stream.shutdown_both();
    }

    /// Reads no further request; those in flight are answered.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.stopping.notify_all();
    }

    /// Serves the client until one side ends.
    pub(crate) async fn serve(self: Rc<Self>) {
        let requests = Scope::new();
        let events = Scope::new();
        let sender = Scope::new();
        let connection = self.clone();
        let sending = sender.spawn(async move {
            let enter = async || connection.enter_group().await;
            connection.outbox.send_all(&connection.stream, enter).await;
            // The client has disconnected, or all was sent: the reading loop must not wait for it.
            connection.stop();
        });
        Intake::new(&self, &requests, &events).run().await;
        requests.join().await;
        self.outbox.close();
        let _ = sending.await;
        let _ = self.stream.shutdown_both();
        events.cancel().await;
    }

    /// *version-fixed*.
    pub(crate) fn check_version(&self, header: &Header) -> Result<(), Ended> {
        match self.version.get() {
            None => self.version.set(Some(header.version)),
            Some(version) if version == header.version => {}
            Some(version) => {
                let text = format!(
                    "Invalid message version. Got {} but previous messages on this connection \
                     had version {version}",
                    header.version
                );
                return Err(self.protocol_error(header.stream, text));
            }
        }
        Ok(())
    }

    /// The largest body, compressed or not, that is taken in.
    pub(crate) fn body_bytes_max(&self) -> usize {
        let config = &self.service.config;
        config.body_bytes_max.min(config.limits.body_bytes_max())
    }

    /// The body of an envelope as it was before the client compressed it.
    pub(crate) fn unpacked(&self, header: &Header, body: &[u8]) -> Result<Vec<u8>, Ended> {
        let Some(compression) = self.compression_of(header)? else { return Ok(body.to_vec()) };
        let unpacked = compression.unpack(body, self.body_bytes_max());
        unpacked.map_err(|what| self.protocol_error(header.stream, what.to_string()))
    }

    /// The same, of one that would hold the shard for long.
    pub(crate) async fn unpacked_slowly(
        &self,
        header: &Header,
        body: &[u8],
    ) -> Result<Vec<u8>, Ended> {
        let mut copy = Vec::with_capacity(body.len());
        for piece in body.chunks(AT_ONCE_BYTES / 4) {
            copy.extend_from_slice(piece);
            yield_if_needed().await;
        }
        let Some(compression) = self.compression_of(header)? else { return Ok(copy) };
        let bytes_max = self.body_bytes_max();
        let unpacked = compute(move || compression.unpack(&copy, bytes_max)).await;
        unpacked.map_err(|what| self.protocol_error(header.stream, what.to_string()))
    }

    /// Whether taking out the body of an envelope is little work.
    pub(crate) fn is_unpacked_at_once(&self, header: &Header, body: &[u8]) -> bool {
        let is_packed = header.flags & flag::COMPRESSED != 0 && self.segments.get().is_none();
        let compression = self.compression.get().filter(|_| is_packed);
        let claimed = compression.map_or(0, |compression| compression.claimed_len(body));
        body.len().max(claimed.min(self.body_bytes_max())) <= AT_ONCE_BYTES
    }

    /// What the body of an envelope is compressed by. Only before version 5 are they by themselves.
    fn compression_of(&self, header: &Header) -> Result<Option<Compression>, Ended> {
        if header.flags & flag::COMPRESSED == 0 || self.segments.get().is_some() {
            return Ok(None);
        }
        match self.compression.get() {
            Some(compression) => Ok(Some(compression)),
            None => {
                let text = "compressed request, but STARTUP did not enable compression".to_string();
                Err(self.protocol_error(header.stream, text))
            }
        }
    }

    fn dialect(&self, version: u8) -> Dialect {
        Dialect { version, metadata_ids: 5 <= version || self.metadata_ids.get() }
    }

    /// Answers what changes the connection itself.
    pub(crate) fn handshake(
        self: &Rc<Self>,
        header: &Header,
        body: &[u8],
        events: &Scope,
    ) -> Result<(), Ended> {
        let (version, stream) = (header.version, header.stream);
        let dialect = self.dialect(version);
        let has_payload = header.flags & flag::CUSTOM_PAYLOAD != 0;
        let request = match request::parse(header.opcode, dialect, has_payload, body) {
            Ok(request) => request,
            Err(damaged) => return Err(self.protocol_error(stream, damaged.to_string())),
        };
        match request {
            Request::Options => {
                let entries = supported::entries(&self.service.facts(self.peer));
                self.outbox.push(|out| {
                    let start = frame::begin(out, version, 0, stream, opcode::SUPPORTED);
                    crate::wire::string_multimap(out, &entries);
                    frame::finish(out, start);
                });
                Ok(())
            }
            Request::Startup(options) => self.start(version, stream, &options),
            Request::Register(names) if self.started.get() => {
                self.register(version, stream, &names, events)
            }
            _ => {
                let text = "Unexpected message for the state of this connection".to_string();
                Err(self.protocol_error(stream, text))
            }
        }
    }

    fn start(&self, version: u8, stream: i16, options: &[(&str, &str)]) -> Result<(), Ended> {
        if self.started.get() || self.login.get() != Login::NotAsked {
            return Err(self.protocol_error(stream, "STARTUP was sent more than once".to_string()));
        }
        let find = |key: &str| options.iter().find(|(name, _)| *name == key).map(|(_, v)| *v);
        if find("CQL_VERSION").is_none() {
            let text = "Missing value CQL_VERSION in STARTUP message".to_string();
            return Err(self.protocol_error(stream, text));
        }
        let compression = match find("COMPRESSION") {
            None => None,
            Some(name) => match Compression::by_name(name) {
                Some(Compression::Snappy) if 5 <= version => {
                    let text =
                        "Snappy compression is not supported in protocol version 5".to_string();
                    return Err(self.protocol_error(stream, text));
                }
                Some(compression) => Some(compression),
                None => {
                    let text = format!("Unknown compression algorithm: {name}");
                    return Err(self.protocol_error(stream, text));
                }
            },
        };
        let marks_lwt = find(supported::LWT_MARK).is_some();
        self.marks_lwt.set(marks_lwt);
        if !marks_lwt {
            // A driver that was written for Cassandra.
            self.session.expects(BatchForm::Cassandra);
        }
        self.knows_rate_limits.set(find(supported::RATE_LIMIT_ERROR).is_some());
        self.knows_tablets.set(4 <= version && find(supported::TABLETS).is_some());
        self.metadata_ids.set(find(supported::METADATA_ID).is_some());
        let pairs = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.options.replace(pairs.collect());
        self.welcome(version, stream)?;
        if 5 <= version {
            let packing = if compression.is_some() { Packing::Lz4 } else { Packing::Plain };
            self.segments.set(Some(packing));
            self.outbox.carry(Carriage::Segments(packing));
        } else {
            self.compression.set(compression);
            self.outbox.carry(Carriage::Envelopes(compression));
        }
        Ok(())
    }

    /// Answers STARTUP: requests may come, or first a login.
    fn welcome(&self, version: u8, stream: i16) -> Result<(), Ended> {
        let shows_certificate = self.stream.agreed().is_some_and(|agreed| agreed.peer.is_some());
        let login = match self.session.is_trusted() || self.session.role().is_some() {
            true => cluster::Login::Free,
            false => self.service.cluster().access().authenticator().login(shows_certificate),
        };
        match login {
            cluster::Login::Free => {}
            cluster::Login::ByCertificate => self.log_in_by_certificate(stream)?,
            cluster::Login::ByPassword(class) => {
                self.login.set(Login::Asked);
                self.outbox.push(|out| {
                    let start = frame::begin(out, version, 0, stream, opcode::AUTHENTICATE);
                    crate::wire::string(out, class);
                    frame::finish(out, start);
                });
                return Ok(());
            }
        }
        self.started.set(true);
        self.outbox.push(|out| response::empty(out, version, stream, opcode::READY));
        Ok(())
    }

    fn register(
        self: &Rc<Self>,
        version: u8,
        stream: i16,
        names: &[&str],
        events: &Scope,
    ) -> Result<(), Ended> {
        let mut registered = self.registered.get();
        let first = registered == Registered::default();
        for name in names {
            if !registered.add(name) {
                let text = format!("Invalid value '{name}' for Type");
                return Err(self.protocol_error(stream, text));
            }
        }
        self.registered.set(registered);
        if first && registered != Registered::default() {
            let connection = self.clone();
            let mut source = self.service.cluster().subscribe();
            events.spawn(async move {
                while let Some(event) = source.next().await {
                    let registered = connection.registered.get();
                    connection.outbox.push(|out| response::event(out, version, registered, &event));
                }
                // The client fell too far behind: it has to reconnect and read the schema again.
                connection.stop();
            });
        }
        self.outbox.push(|out| response::empty(out, version, stream, opcode::READY));
        Ok(())
    }

    /// Answers a request that only the processor can answer. `is_fetched`: what it looks for was
    /// prefetched.
    pub(crate) async fn answer(
        &self,
        header: Header,
        body: &[u8],
        is_fetched: bool,
        room: &dyn Room,
    ) {
        let (version, stream) = (header.version, header.stream);
        let dialect = self.dialect(version);
        let has_payload = header.flags & flag::CUSTOM_PAYLOAD != 0;
        let request = match request::parse(header.opcode, dialect, has_payload, body) {
            Ok(request) => request,
            Err(damaged) => {
                self.refuse(stream, &CqlError::Protocol(damaged.to_string()));
                return;
            }
        };
        let cause = match header.flags & flag::TRACING {
            0 => self.service.processor().traces_unasked(),
            _ => Some(Cause::Asked),
        };
        let answer = match (cause, request) {
            (Some(cause), request) => {
                let request = (request, body.len());
                Box::pin(self.traced(cause, dialect, stream, request, room)).await
            }
            (None, Request::Query { text, parameters }) => {
                self.query(dialect, stream, text, (&parameters, room)).await
            }
            (None, Request::Prepare { text, keyspace }) => {
                Box::pin(self.prepare((dialect, stream), text, keyspace, None)).await
            }
            (None, Request::Execute { id, metadata_id, parameters }) => {
                let known = (metadata_id, is_fetched);
                self.execute(dialect, stream, id, known, (&parameters, room)).await
            }
            (None, Request::Batch { kind, entries, parameters }) => {
                let parameters = (&parameters, room);
                Box::pin(self.batch(dialect, stream, kind, &entries, parameters)).await
            }
            _ => Err(CqlError::Protocol("unexpected message".to_string())),
        };
        let answered = answer.unwrap_or_else(|error| self.refuse(stream, &error));
        self.count_answered(header.opcode, body.len(), answered);
    }

    /// Executes a request and writes down what was done for it. What is refused leaves no trace.
    async fn traced(
        &self,
        cause: Cause,
        dialect: Dialect,
        stream: i16,
        (request, request_bytes): (Request<'_>, usize),
        room: &dyn Room,
    ) -> Result<usize, CqlError> {
        let processor = self.service.processor();
        let trace = processor.begin_trace(&self.session, cause);
        let traced = |command, request, text| Traced { command, request, text, request_bytes };
        let answer = async |known: Known<'_>, mut response: query::Response| {
            response.tracing_id = trace.told_id();
            trace.answered(&response);
            if response::is_large(&response) {
                Box::pin(self.push_large(dialect, stream, known, &response)).await
            } else {
                self.push(|out| response::result(out, dialect, stream, &known, &response))
            }
        };
        match request {
            Request::Query { text, parameters } => {
                let bound = processor_parameters(dialect, &parameters, room)?;
                let bound = query::Parameters { trace: Some(&trace), ..bound };
                let response = processor.query(&self.session, text, &bound).await?;
                let skip_metadata = parameters.skip_metadata;
                let bytes = answer(Known { skip_metadata, ..Known::default() }, response).await;
                let traced = traced("QUERY", "Execute CQL3 query", text);
                processor.end_trace(&trace, traced, &bound);
                Ok(bytes)
            }
            Request::Execute { id, metadata_id, parameters } => {
                let bound = processor_parameters(dialect, &parameters, room)?;
                let bound = query::Parameters { trace: Some(&trace), ..bound };
                let unprepared = || CqlError::Unprepared { id: id.to_vec() };
                let prepared = processor.prepared(id).ok_or_else(unprepared)?;
                let response = processor.execute(&self.session, &prepared, &bound).await?;
                let known = self.known(&prepared, metadata_id, &bound);
                let bytes = answer(known, response).await;
                let text = prepared.text();
                let traced = traced("EXECUTE", "Execute CQL3 prepared query", &text);
                processor.end_trace(&trace, traced, &bound);
                Ok(bytes)
            }
            Request::Batch { kind, entries, parameters } => {
                let bound = processor_parameters(dialect, &parameters, room)?;
                let bound = query::Parameters { trace: Some(&trace), ..bound };
                let statements = self.statements(&entries)?;
                let response = processor.batch(&self.session, kind, &statements, &bound).await?;
                let bytes = answer(Known::default(), response).await;
                let traced = traced("BATCH", "Execute batch of CQL3 queries", "");
                processor.end_trace(&trace, traced, &bound);
                Ok(bytes)
            }
            Request::Prepare { text, keyspace } => {
                let place = (dialect, stream);
                let bytes = self.prepare(place, text, keyspace, Some(&trace)).await?;
                let traced = traced(query::trace::PREPARE, "Preparing CQL3 query", text);
                processor.end_trace(&trace, traced, &query::Parameters::plain(Consistency::One));
                Ok(bytes)
            }
            _ => Err(CqlError::Protocol("unexpected message".to_string())),
        }
    }

    async fn query(
        &self,
        dialect: Dialect,
        stream: i16,
        text: &str,
        (parameters, room): (&Parameters<'_>, &dyn Room),
    ) -> Result<usize, CqlError> {
        let bound = processor_parameters(dialect, parameters, room)?;
        let response = self.service.processor().query(&self.session, text, &bound).await?;
        let known = Known { skip_metadata: parameters.skip_metadata, ..Known::default() };
        if response::is_large(&response) {
            Ok(Box::pin(self.push_large(dialect, stream, known, &response)).await)
        } else {
            Ok(self.push(|out| response::result(out, dialect, stream, &known, &response)))
        }
    }

    async fn prepare(
        &self,
        (dialect, stream): (Dialect, i16),
        text: &str,
        keyspace: Option<&str>,
        trace: Option<&Trace>,
    ) -> Result<usize, CqlError> {
        let processor = self.service.processor();
        let prepared = processor.prepare(&self.session, text, keyspace, trace).await?;
        let (lwt, id) = (self.marks_lwt.get(), trace.and_then(Trace::told_id));
        let result = prepared.result(self.session.batch_form());
        let result = result.as_deref();
        Ok(self.push(|out| response::prepared(out, dialect, stream, lwt, id, &prepared, result)))
    }

    async fn execute(
        &self,
        dialect: Dialect,
        stream: i16,
        id: &[u8],
        (metadata_id, is_fetched): (Option<&[u8]>, bool),
        (parameters, room): (&Parameters<'_>, &dyn Room),
    ) -> Result<usize, CqlError> {
        let mut bound = processor_parameters(dialect, parameters, room)?;
        bound.is_fetched = is_fetched;
        let processor = self.service.processor();
        let unprepared = || CqlError::Unprepared { id: id.to_vec() };
        let prepared = processor.prepared(id).ok_or_else(unprepared)?;
        let response = processor.execute(&self.session, &prepared, &bound).await?;
        let known = self.known(&prepared, metadata_id, &bound);
        if response::is_large(&response) {
            Ok(Box::pin(self.push_large(dialect, stream, known, &response)).await)
        } else {
            Ok(self.push(|out| response::result(out, dialect, stream, &known, &response)))
        }
    }

    /// What a client knows of the rows that a prepared statement answers.
    fn known<'a>(
        &self,
        prepared: &query::Prepared,
        metadata_id: Option<&'a [u8]>,
        bound: &query::Parameters<'_>,
    ) -> Known<'a> {
        let tablet = self.better_tablet(prepared, bound);
        let form = self.session.batch_form();
        if prepared.varies(form) {
            return Known { tablet, ..Known::default() };
        }
        // Before version 5 clients cannot be told that the columns they remember are outdated.
        let told = metadata_id.is_some() || prepared.is_result_known(form);
        Known { skip_metadata: bound.skip_metadata && told, metadata_id, tablet }
    }

    /// The replicas that a request should have been sent to, for clients with that extension.
    fn better_tablet(
        &self,
        prepared: &query::Prepared,
        bound: &query::Parameters<'_>,
    ) -> Option<query::Place> {
        if !self.knows_tablets.get() {
            return None;
        }
        self.service.processor().better_place(prepared, bound)
    }

    async fn batch(
        &self,
        dialect: Dialect,
        stream: i16,
        kind: query::BatchKind,
        entries: &[request::Entry<'_>],
        (parameters, room): (&Parameters<'_>, &dyn Room),
    ) -> Result<usize, CqlError> {
        let bound = processor_parameters(dialect, parameters, room)?;
        let processor = self.service.processor();
        let statements = self.statements(entries)?;
        let response = processor.batch(&self.session, kind, &statements, &bound).await?;
        let known = Known::default();
        if response::is_large(&response) {
            Ok(Box::pin(self.push_large(dialect, stream, known, &response)).await)
        } else {
            Ok(self.push(|out| response::result(out, dialect, stream, &known, &response)))
        }
    }

    /// The statements of a batch.
    fn statements<'e>(
        &self,
        entries: &'e [request::Entry<'e>],
    ) -> Result<Vec<BatchEntry<'e>>, CqlError> {
        let processor = self.service.processor();
        let mut statements = Vec::with_capacity(entries.len());
        for entry in entries {
            let statement = match entry.statement {
                Statement::Text(text) => BatchStatement::Text(text),
                Statement::Prepared(id) => {
                    let unprepared = || CqlError::Unprepared { id: id.to_vec() };
                    BatchStatement::Prepared(processor.prepared(id).ok_or_else(unprepared)?)
                }
            };
            statements.push(BatchEntry { statement, values: entry.values.values() });
        }
        Ok(statements)
    }

    /// Answers an error; how many bytes it has.
    pub(crate) fn refuse(&self, stream: i16, error: &CqlError) -> usize {
        let version = self.version.get().unwrap_or(frame::VERSION_MAX);
        if let CqlError::RateLimit(limited) = error
            && !self.knows_rate_limits.get()
        {
            // Retry policies do not try again what this code refuses.
            return self.refuse(stream, &CqlError::Config(limited.to_string()));
        }
        self.service.count_error(error.code());
        self.outbox.push(|out| response::error(out, version, stream, error))
    }

    /// Refuses the version of a message. In the first one a driver asks whether the node speaks it,
    /// and tries an older one then: that is no error, where it is a version that drivers have.
    pub(crate) fn refuse_version(&self, version: u8, stream: i16) -> Ended {
        let text = format!("Invalid or unsupported protocol version: {version}");
        if self.version.get().is_some() || !frame::is_tried_by_drivers(version) {
            return self.protocol_error(stream, text);
        }
        self.service.count_version_refusal();
        let error = CqlError::Protocol(text);
        self.outbox.push(|out| response::error(out, frame::VERSION_MAX, stream, &error));
        Ended
    }

    /// Answers a protocol error; the connection cannot go on.
    pub(crate) fn protocol_error(&self, stream: i16, text: String) -> Ended {
        tracing::debug!(target: "cql_server", "client {}: {text}", self.peer);
        self.refuse(stream, &CqlError::Protocol(text));
        Ended
    }
}

fn processor_parameters<'a>(
    dialect: Dialect,
    parameters: &'a Parameters<'a>,
    room: &'a dyn Room,
) -> Result<query::Parameters<'a>, CqlError> {
    let level = |code: u16| {
        Consistency::from_wire(code).ok_or_else(|| {
            CqlError::Protocol(format!("Unknown code {code} for a consistency level"))
        })
    };
    Ok(query::Parameters {
        consistency: level(parameters.consistency)?,
        serial_consistency: parameters.serial_consistency.map(level).transpose()?,
        values: parameters.values.values(),
        page_size: parameters.page_size,
        paging_state: parameters.paging_state,
        timestamp: parameters.timestamp,
        keyspace: parameters.keyspace,
        now_secs: parameters.now_seconds,
        skip_metadata: parameters.skip_metadata,
        protocol_version: dialect.version,
        is_fetched: false,
        trace: None,
        room: Some(room),
    })
}
