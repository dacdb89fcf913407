//! One client: its handshake, its requests, its answers.
//!
//! Lives on: the shard that the server gave it to. A reading loop takes envelopes off the stream
//! and starts a task for each request; a writing loop sends what the tasks answer.
//!
//! Invariants
//!  - *version-fixed*: the first request fixes the protocol version; a later one of another version
//!    is an error.
//!  - *started-first*: nothing but OPTIONS and STARTUP is looked at before STARTUP.
//!  - *requests-bounded*: at most `REQUESTS_MAX` requests are under way; more are left unread.

use crate::compress::Compression;
use crate::frame::{self, HEADER_BYTES, Header, Parsed, flag, opcode};
use crate::outbox::{Carriage, Outbox};
use crate::request::{self, Dialect, Parameters, Request, Statement};
use crate::response::{self, Known, Registered};
use crate::segment::{self, Packing};
use crate::server::Server;
use crate::supported;
use query::{BatchEntry, BatchStatement, CqlError, Session};
use replication::Consistency;
use runtime::net::TcpStream;
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Either, Scope, race};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Requests of one connection under way at once.
const REQUESTS_MAX: usize = 1024;
/// The largest body before STARTUP.
const BODY_BYTES_BEFORE_STARTUP: usize = 64 << 10;

/// Why a connection ends before its client ends it.
struct Ended;

/// One client.
pub(crate) struct Connection {
    server: Rc<Server>,
    stream: TcpStream,
    pub(crate) session: Session,
    outbox: Outbox,
    requests: Semaphore,
    version: Cell<Option<u8>>,
    compression: Cell<Option<Compression>>,
    segments: Cell<Option<Packing>>,
    metadata_ids: Cell<bool>,
    marks_lwt: Cell<bool>,
    started: Cell<bool>,
    registered: Cell<Registered>,
    /// What STARTUP said, for `system.clients`.
    pub(crate) options: RefCell<Vec<(String, String)>>,
    stopping: Notify,
    stopped: Cell<bool>,
}

impl Connection {
    pub(crate) fn new(server: Rc<Server>, stream: TcpStream) -> Connection {
        let session = Session::new(stream.peer_addr());
        Connection {
            server,
            stream,
            session,
            outbox: Outbox::new(),
            requests: Semaphore::new(REQUESTS_MAX, 1),
            version: Cell::new(None),
            compression: Cell::new(None),
            segments: Cell::new(None),
            metadata_ids: Cell::new(false),
            marks_lwt: Cell::new(false),
            started: Cell::new(false),
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

    /// Reads no further request; those under way are answered.
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
            connection.outbox.send_all(&connection.stream).await;
            // The client is gone, or was told all: the reading loop must not wait for it.
            connection.stop();
        });
        self.read_requests(&requests, &events).await;
        requests.join().await;
        self.outbox.close();
        let _ = sending.await;
        let _ = self.stream.shutdown_both();
        events.cancel().await;
    }

    async fn read_requests(self: &Rc<Self>, requests: &Scope, events: &Scope) {
        let mut input = Vec::with_capacity(16 << 10);
        let mut envelopes = Vec::new();
        while !self.stopped.get() {
            self.outbox.wait_for_room().await;
            let (read, buffer) = match race(self.stream.read(input), self.stopping.notified()).await
            {
                Either::Left(read) => read,
                Either::Right(()) => return,
            };
            input = buffer;
            if !matches!(read, Ok(1..)) {
                return;
            }
            if self.take_requests(&mut input, &mut envelopes, requests, events).await.is_err() {
                return;
            }
        }
    }

    /// Takes all whole requests off the input.
    async fn take_requests(
        self: &Rc<Self>,
        input: &mut Vec<u8>,
        envelopes: &mut Vec<u8>,
        requests: &Scope,
        events: &Scope,
    ) -> Result<(), Ended> {
        loop {
            let Some(packing) = self.segments.get() else {
                let used = self.take_envelopes(input, requests, events).await?;
                input.drain(..used);
                match self.segments.get() {
                    None => return Ok(()),
                    // STARTUP was among them: what follows it is in segments.
                    Some(_) => continue,
                }
            };
            let used = match segment::decode(packing, input, envelopes) {
                Ok(Some(used)) => used,
                Ok(None) => return Ok(()),
                Err(segment::Broken(what)) => {
                    return Err(self.protocol_error(0, what.to_string()));
                }
            };
            input.drain(..used);
            let used = self.take_envelopes(envelopes, requests, events).await?;
            envelopes.drain(..used);
        }
    }

    /// Starts the request of each whole envelope; how many bytes they took.
    async fn take_envelopes(
        self: &Rc<Self>,
        input: &[u8],
        requests: &Scope,
        events: &Scope,
    ) -> Result<usize, Ended> {
        let mut used = 0;
        let carriage = self.segments.get();
        while let Some(rest) = input.get(used..) {
            let header = match frame::parse_header(rest) {
                Parsed::Incomplete => break,
                Parsed::Header(header) => header,
                Parsed::NotARequest => {
                    return Err(self.protocol_error(0, "a response where a request belongs".into()));
                }
                Parsed::UnsupportedVersion { version, stream } => {
                    let text = format!("Invalid or unsupported protocol version: {version}");
                    return Err(self.protocol_error(stream, text));
                }
            };
            self.check_header(&header)?;
            let Some(body) = rest.get(HEADER_BYTES..HEADER_BYTES + header.body_bytes) else {
                break;
            };
            used += HEADER_BYTES + header.body_bytes;
            self.start_request(header, body, requests, events).await?;
            if carriage != self.segments.get() {
                break;
            }
        }
        Ok(used)
    }

    fn check_header(&self, header: &Header) -> Result<(), Ended> {
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
        let bytes_max = match self.started.get() {
            true => self.server.config().body_bytes_max,
            false => BODY_BYTES_BEFORE_STARTUP,
        };
        if bytes_max < header.body_bytes {
            let text = format!(
                "request size too large (frame size {}; limit {bytes_max})",
                header.body_bytes
            );
            self.refuse(header.stream, &CqlError::Invalid(text));
            return Err(Ended);
        }
        Ok(())
    }

    /// Handles what changes the connection itself at once, and starts a task for the rest.
    async fn start_request(
        self: &Rc<Self>,
        header: Header,
        body: &[u8],
        requests: &Scope,
        events: &Scope,
    ) -> Result<(), Ended> {
        let compressed = header.flags & flag::COMPRESSED != 0 && self.segments.get().is_none();
        let body = match compressed {
            false => body.to_vec(),
            true => self.unpacked(&header, body)?,
        };
        match header.opcode {
            opcode::OPTIONS | opcode::STARTUP | opcode::REGISTER | opcode::AUTH_RESPONSE => {
                self.handshake(&header, &body, events)
            }
            _ if !self.started.get() => {
                let text = "Unexpected message, expecting STARTUP or OPTIONS".to_string();
                Err(self.protocol_error(header.stream, text))
            }
            _ => {
                let Ok(permit) = self.requests.acquire(1).await else { return Err(Ended) };
                let connection = self.clone();
                requests.spawn(async move {
                    connection.answer(header, &body).await;
                    drop(permit);
                });
                Ok(())
            }
        }
    }

    fn unpacked(&self, header: &Header, body: &[u8]) -> Result<Vec<u8>, Ended> {
        let Some(compression) = self.compression.get() else {
            let text = "compressed request, but STARTUP chose no compression".to_string();
            return Err(self.protocol_error(header.stream, text));
        };
        compression
            .unpack(body, self.server.config().body_bytes_max)
            .map_err(|what| self.protocol_error(header.stream, what.to_string()))
    }

    fn dialect(&self, version: u8) -> Dialect {
        Dialect { version, metadata_ids: 5 <= version || self.metadata_ids.get() }
    }

    fn handshake(
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
                let entries = supported::entries(&self.server.facts());
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
        if self.started.get() {
            return Err(self.protocol_error(stream, "STARTUP was sent already".to_string()));
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
                    let text = "Snappy is not a compression of protocol version 5".to_string();
                    return Err(self.protocol_error(stream, text));
                }
                Some(compression) => Some(compression),
                None => {
                    let text = format!("Unknown compression algorithm: {name}");
                    return Err(self.protocol_error(stream, text));
                }
            },
        };
        self.marks_lwt.set(find(supported::LWT_MARK).is_some());
        self.metadata_ids.set(find(supported::METADATA_ID).is_some());
        let pairs = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.options.replace(pairs.collect());
        self.started.set(true);
        self.outbox.push(|out| response::empty(out, version, stream, opcode::READY));
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
            let mut source = self.server.cluster().subscribe();
            events.spawn(async move {
                while let Some(event) = source.next().await {
                    let registered = connection.registered.get();
                    connection.outbox.push(|out| response::event(out, version, registered, &event));
                }
                // It fell too far behind: only a new connection can tell it all.
                connection.stop();
            });
        }
        self.outbox.push(|out| response::empty(out, version, stream, opcode::READY));
        Ok(())
    }

    /// Answers a request that only the processor can answer.
    async fn answer(&self, header: Header, body: &[u8]) {
        let (version, stream) = (header.version, header.stream);
        let dialect = self.dialect(version);
        let has_payload = header.flags & flag::CUSTOM_PAYLOAD != 0;
        let request = match request::parse(header.opcode, dialect, has_payload, body) {
            Ok(request) => request,
            Err(damaged) => {
                return self.refuse(stream, &CqlError::Protocol(damaged.to_string()));
            }
        };
        let answer = match request {
            Request::Query { text, parameters } => {
                self.query(dialect, stream, text, &parameters).await
            }
            Request::Prepare { text, keyspace } => {
                self.prepare(dialect, stream, text, keyspace).await
            }
            Request::Execute { id, metadata_id, parameters } => {
                self.execute(dialect, stream, id, metadata_id, &parameters).await
            }
            Request::Batch { kind, entries, parameters } => {
                self.batch(dialect, stream, kind, &entries, &parameters).await
            }
            _ => Err(CqlError::Protocol("unexpected message".to_string())),
        };
        if let Err(error) = answer {
            self.refuse(stream, &error);
        }
    }

    async fn query(
        &self,
        dialect: Dialect,
        stream: i16,
        text: &str,
        parameters: &Parameters<'_>,
    ) -> Result<(), CqlError> {
        let bound = processor_parameters(dialect, parameters)?;
        let response = self.server.processor().query(&self.session, text, &bound).await?;
        let known = Known { skip_metadata: parameters.skip_metadata, metadata_id: None };
        self.outbox.push(|out| response::result(out, dialect, stream, known, &response));
        Ok(())
    }

    async fn prepare(
        &self,
        dialect: Dialect,
        stream: i16,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<(), CqlError> {
        let prepared = self.server.processor().prepare(&self.session, text, keyspace).await?;
        let marks_lwt = self.marks_lwt.get();
        self.outbox.push(|out| response::prepared(out, dialect, stream, marks_lwt, &prepared));
        Ok(())
    }

    async fn execute(
        &self,
        dialect: Dialect,
        stream: i16,
        id: &[u8],
        metadata_id: Option<&[u8]>,
        parameters: &Parameters<'_>,
    ) -> Result<(), CqlError> {
        let bound = processor_parameters(dialect, parameters)?;
        let processor = self.server.processor();
        let unprepared = || CqlError::Unprepared { id: id.to_vec() };
        let prepared = processor.prepared(id).ok_or_else(unprepared)?;
        let response = processor.execute(&self.session, &prepared, &bound).await?;
        // Before version 5 clients cannot be told that the columns they remember are outdated.
        let skip_metadata = parameters.skip_metadata && !prepared.has_changed();
        let known = Known { skip_metadata, metadata_id };
        self.outbox.push(|out| response::result(out, dialect, stream, known, &response));
        Ok(())
    }

    async fn batch(
        &self,
        dialect: Dialect,
        stream: i16,
        kind: query::syntax::ast::BatchKind,
        entries: &[request::Entry<'_>],
        parameters: &Parameters<'_>,
    ) -> Result<(), CqlError> {
        let bound = processor_parameters(dialect, parameters)?;
        let processor = self.server.processor();
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
        let response = processor.batch(&self.session, kind, &statements, &bound).await?;
        let known = Known::default();
        self.outbox.push(|out| response::result(out, dialect, stream, known, &response));
        Ok(())
    }

    fn refuse(&self, stream: i16, error: &CqlError) {
        let version = self.version.get().unwrap_or(frame::VERSION_MAX);
        self.outbox.push(|out| response::error(out, version, stream, error));
    }

    /// Tells the client what it did wrong; the connection cannot go on.
    fn protocol_error(&self, stream: i16, text: String) -> Ended {
        tracing::debug!(target: "cql_server", "client {}: {text}", self.stream.peer_addr());
        self.refuse(stream, &CqlError::Protocol(text));
        Ended
    }
}

fn processor_parameters<'a>(
    dialect: Dialect,
    parameters: &'a Parameters<'a>,
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
    })
}
