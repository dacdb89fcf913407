//! Responses: what the processor answers, as envelopes of one protocol version.

use crate::frame::{self, flag, opcode};
use crate::request::Dialect;
use crate::wire;
use cluster::{Event, SchemaEvent, SchemaEventKind, SchemaTarget};
use model::Uuid;
use query::{Column, CqlError, Place, Prepared, Response, ResponseKind, ResultMetadata, Rows};
use replication::{Operation, WriteKind};
use runtime::pieces::{self, PIECE_BYTES};
use std::net::SocketAddr;
use std::ops::Range;
use stdx::Put;

/// Kinds of RESULT.
mod kind {
    pub(super) const VOID: u32 = 1;
    pub(super) const ROWS: u32 = 2;
    pub(super) const SET_KEYSPACE: u32 = 3;
    pub(super) const PREPARED: u32 = 4;
    pub(super) const SCHEMA_CHANGE: u32 = 5;
}

/// Flags of result metadata.
mod metadata {
    pub(super) const GLOBAL_TABLE: u32 = 0x01;
    pub(super) const MORE_PAGES: u32 = 0x02;
    pub(super) const NONE: u32 = 0x04;
    pub(super) const CHANGED: u32 = 0x08;
    /// An extension: the prepared statement is conditional.
    pub(super) const LWT: u32 = 0x8000_0000;
}

/// The error code of a request that was shed.
const OVERLOADED: u32 = 0x1001;

/// The key of the payload that tells of a tablet.
const TABLET_PAYLOAD: &str = "tablets-routing-v1";

/// What a client knows already of the rows it asks for, and what it is to know of their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known<'a> {
    pub(crate) skip_metadata: bool,
    pub(crate) metadata_id: Option<&'a [u8]>,
    /// The tablet that it asked the wrong node or shard for. For version 4 on.
    pub(crate) tablet: Option<Place>,
}

/// Appends the envelope of an answer.
pub(crate) fn result(
    out: &mut Vec<u8>,
    dialect: Dialect,
    stream: i16,
    known: &Known<'_>,
    response: &Response,
) {
    let start = begin(out, dialect, stream, known, response);
    if let ResponseKind::Rows(page) = &response.kind {
        out.put(&page.body);
    }
    frame::finish(out, start);
}

/// Whether a result is worth putting together in pieces.
pub(crate) fn is_large(response: &Response) -> bool {
    matches!(&response.kind, ResponseKind::Rows(page) if PIECE_BYTES < page.body.len())
}

/// As [`result`] into memory of its own: rows are copied in pieces, between which others have the
/// shard.
pub(crate) async fn large_result(
    dialect: Dialect,
    stream: i16,
    known: &Known<'_>,
    response: &Response,
) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin(&mut out, dialect, stream, known, response);
    if let ResponseKind::Rows(page) = &response.kind {
        pieces::extend(&mut out, &page.body).await;
    }
    frame::finish(&mut out, start);
    out
}

/// Appends an answer but for its rows; where it starts.
fn begin(
    out: &mut Vec<u8>,
    dialect: Dialect,
    stream: i16,
    known: &Known<'_>,
    response: &Response,
) -> usize {
    let mut flags = 0;
    if response.tracing_id.is_some() {
        flags |= flag::TRACING;
    }
    let warns = 4 <= dialect.version && !response.warnings.is_empty();
    if warns {
        flags |= flag::WARNING;
    }
    if known.tablet.is_some() {
        flags |= flag::CUSTOM_PAYLOAD;
    }
    let start = frame::begin(out, dialect.version, flags, stream, opcode::RESULT);
    if let Some(id) = response.tracing_id {
        out.put(id.as_bytes());
    }
    if warns {
        wire::string_list(out, &response.warnings);
    }
    if let Some(place) = &known.tablet {
        tablet(out, place);
    }
    match &response.kind {
        ResponseKind::Void => out.put_u32(kind::VOID),
        ResponseKind::Rows(page) => before_rows(out, dialect, known, page),
        ResponseKind::SetKeyspace(keyspace) => {
            out.put_u32(kind::SET_KEYSPACE);
            wire::string(out, keyspace);
        }
        ResponseKind::SchemaChange(event) => {
            out.put_u32(kind::SCHEMA_CHANGE);
            schema_change(out, event);
        }
    }
    start
}

/// Appends a payload of one entry: the tuple of a tablet's range, (after, last], and the list of
/// its replicas, tuples of host and shard.
///
/// Source: cql-surface reference, section 7.7.
fn tablet(out: &mut Vec<u8>, place: &Place) {
    const REPLICA_BYTES: u32 = 4 + 16 + 4 + 4;
    let count = place.replicas.len() as u32;
    let list_bytes = 4 + count * (4 + REPLICA_BYTES);
    out.put_u16(1);
    wire::string(out, TABLET_PAYLOAD);
    out.put_u32(2 * (4 + 8) + 4 + list_bytes);
    for token in [place.after, place.last] {
        out.put_u32(8);
        out.put_i64(token.0);
    }
    out.put_u32(list_bytes);
    out.put_u32(count);
    for (host, shard) in &place.replicas {
        out.put_u32(REPLICA_BYTES);
        out.put_u32_bytes(host.as_bytes());
        out.put_u32(4);
        out.put_u32((*shard).into());
    }
}

fn before_rows(out: &mut Vec<u8>, dialect: Dialect, known: &Known<'_>, page: &Rows) {
    out.reserve(page.body.len() + 256);
    out.put_u32(kind::ROWS);
    let changed = known.metadata_id.is_some_and(|id| *id != page.metadata.id);
    let skip = known.skip_metadata && !changed;
    let shared = if skip { None } else { shared_table(page.metadata.columns()) };
    let mut flags = 0;
    if page.paging_state.is_some() {
        flags |= metadata::MORE_PAGES;
    }
    if changed {
        flags |= metadata::CHANGED;
    }
    if skip {
        flags |= metadata::NONE;
    } else if shared.is_some() {
        flags |= metadata::GLOBAL_TABLE;
    }
    out.put_u32(flags);
    out.put_u32(page.metadata.columns.len() as u32);
    if let Some(state) = &page.paging_state {
        out.put_u32_bytes(state);
    }
    if changed {
        out.put_u16_bytes(&page.metadata.id);
    }
    if !skip {
        columns(out, dialect.version, shared, page.metadata.columns());
    }
    out.put_u32(page.row_count);
}

/// Appends the envelope of a PREPARED result. `marks_lwt`: the client has asked to be told of
/// conditional statements; `result`: the columns that it is told.
pub(crate) fn prepared(
    out: &mut Vec<u8>,
    dialect: Dialect,
    stream: i16,
    marks_lwt: bool,
    tracing_id: Option<Uuid>,
    statement: &Prepared,
    result: Option<&ResultMetadata>,
) {
    let flags = tracing_id.map_or(0, |_| flag::TRACING);
    let start = frame::begin(out, dialect.version, flags, stream, opcode::RESULT);
    if let Some(id) = tracing_id {
        out.put(id.as_bytes());
    }
    out.put_u32(kind::PREPARED);
    out.put_u16_bytes(statement.id());
    if dialect.metadata_ids {
        match result {
            Some(result) => out.put_u16_bytes(&result.id),
            None => out.put_u16_bytes(&[0; 16]),
        }
    }
    let bind = statement.bind();
    let shared = shared_table(bind.columns());
    let mut flags = if shared.is_some() { metadata::GLOBAL_TABLE } else { 0 };
    if marks_lwt && statement.is_lwt() {
        flags |= metadata::LWT;
    }
    out.put_u32(flags);
    out.put_u32(bind.count() as u32);
    if 4 <= dialect.version {
        out.put_u32(bind.partition_key.len() as u32);
        bind.partition_key.iter().for_each(|index| out.put_u16(*index));
    }
    columns(out, dialect.version, shared, bind.columns());
    result_metadata(out, dialect.version, result);
    frame::finish(out, start);
}

fn result_metadata(out: &mut Vec<u8>, version: u8, result: Option<&ResultMetadata>) {
    let Some(result) = result else {
        out.put_u32(metadata::NONE);
        out.put_u32(0);
        return;
    };
    let shared = shared_table(result.columns());
    out.put_u32(if shared.is_some() { metadata::GLOBAL_TABLE } else { 0 });
    out.put_u32(result.columns.len() as u32);
    columns(out, version, shared, result.columns());
}

/// The table that all columns belong to, so that it need be said once only.
fn shared_table<'a>(mut columns: impl Iterator<Item = Column<'a>>) -> Option<(&'a str, &'a str)> {
    let first = columns.next()?;
    let same = |column: Column<'_>| {
        is_same(column.keyspace, first.keyspace) && is_same(column.table, first.table)
    };
    columns.all(same).then_some((first.keyspace, first.table))
}

/// Whether two names are equal; most often they are one.
fn is_same(a: &str, b: &str) -> bool {
    std::ptr::eq(a, b) || a == b
}

fn columns<'a>(
    out: &mut Vec<u8>,
    version: u8,
    shared: Option<(&str, &str)>,
    columns: impl Iterator<Item = Column<'a>>,
) {
    if let Some((keyspace, table)) = shared {
        wire::string(out, keyspace);
        wire::string(out, table);
    }
    let mut said = Said::default();
    let mut columns = columns.peekable();
    while let Some(column) = columns.next() {
        let start = out.len();
        match said.of(&column) {
            Some(place) => out.extend_from_within(place),
            None => {
                if shared.is_none() {
                    wire::string(out, column.keyspace);
                    wire::string(out, column.table);
                }
                wire::string(out, column.name);
                wire::type_option(out, version, column.ty);
                said.note(column, start..out.len());
            }
        }
        let mut more = 0;
        while columns.next_if(|next| is_one(&column, next)).is_some() {
            more += 1;
        }
        if 0 < more {
            repeat(out, start, more);
        }
    }
}

/// Where some columns were said last. The markers of a long list are for one and the same, those of
/// a map or of tuples take turns: what is said of one is copied.
#[derive(Default)]
struct Said<'a> {
    recent: [Option<(Column<'a>, Range<usize>)>; SAID_MAX],
    next: usize,
}

/// As many are remembered.
const SAID_MAX: usize = 4;

impl<'a> Said<'a> {
    fn of(&self, column: &Column<'_>) -> Option<Range<usize>> {
        let mut recent = self.recent.iter().flatten();
        recent.find(|(one, _)| is_one(one, column)).map(|(_, place)| place.clone())
    }

    fn note(&mut self, column: Column<'a>, place: Range<usize>) {
        self.recent[self.next] = Some((column, place));
        self.next = (self.next + 1) % SAID_MAX;
    }
}

/// Appends what stands from `start` on so many times more.
fn repeat(out: &mut Vec<u8>, start: usize, more: usize) {
    let mut left = (out.len() - start) * more;
    out.reserve(left);
    while 0 < left {
        let now = left.min(out.len() - start);
        out.extend_from_within(start..start + now);
        left -= now;
    }
}

/// Whether both are the same place in memory; nothing need be compared then.
fn is_one(a: &Column<'_>, b: &Column<'_>) -> bool {
    std::ptr::eq(a.name, b.name) && std::ptr::eq(a.ty, b.ty)
}

fn schema_change(out: &mut Vec<u8>, event: &SchemaEvent) {
    let kind = match event.kind {
        SchemaEventKind::Created => "CREATED",
        SchemaEventKind::Updated => "UPDATED",
        SchemaEventKind::Dropped => "DROPPED",
    };
    let target = match event.target {
        SchemaTarget::Keyspace => "KEYSPACE",
        SchemaTarget::Table => "TABLE",
        SchemaTarget::Type => "TYPE",
        SchemaTarget::Function => "FUNCTION",
        SchemaTarget::Aggregate => "AGGREGATE",
    };
    wire::string(out, kind);
    wire::string(out, target);
    wire::string(out, &event.keyspace);
    match event.target {
        SchemaTarget::Keyspace => {}
        SchemaTarget::Table | SchemaTarget::Type => wire::string(out, &event.name),
        SchemaTarget::Function | SchemaTarget::Aggregate => {
            wire::string(out, &event.name);
            wire::string_list(out, &event.arguments);
        }
    }
}

/// Event types that a connection may register for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) schema: bool,
    pub(crate) status: bool,
    pub(crate) topology: bool,
}

impl Registered {
    /// Adds the type of that name; false when there is none.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        match name {
            "SCHEMA_CHANGE" => self.schema = true,
            "STATUS_CHANGE" => self.status = true,
            "TOPOLOGY_CHANGE" => self.topology = true,
            // Known to newer drivers; nothing on this node ever changes client routes.
            "CLIENT_ROUTES_CHANGE" => {}
            _ => return false,
        }
        true
    }

    fn wants(self, event: &Event) -> bool {
        match event {
            Event::Schema(_) => self.schema,
            Event::Status { .. } => self.status,
            Event::Topology { .. } => self.topology,
        }
    }
}

/// Appends the envelope of an event, if the connection has registered for it.
pub(crate) fn event(out: &mut Vec<u8>, version: u8, registered: Registered, event: &Event) {
    if !registered.wants(event) {
        return;
    }
    let start = frame::begin(out, version, 0, -1, opcode::EVENT);
    match event {
        Event::Schema(event) => {
            wire::string(out, "SCHEMA_CHANGE");
            schema_change(out, event);
        }
        Event::Status { up, address, port } => {
            wire::string(out, "STATUS_CHANGE");
            wire::string(out, if *up { "UP" } else { "DOWN" });
            wire::inet(out, SocketAddr::new(*address, *port));
        }
        Event::Topology { joined, address, port } => {
            wire::string(out, "TOPOLOGY_CHANGE");
            wire::string(out, if *joined { "NEW_NODE" } else { "REMOVED_NODE" });
            wire::inet(out, SocketAddr::new(*address, *port));
        }
    }
    frame::finish(out, start);
}

/// Appends an envelope without a body.
pub(crate) fn empty(out: &mut Vec<u8>, version: u8, stream: i16, code: u8) {
    let start = frame::begin(out, version, 0, stream, code);
    frame::finish(out, start);
}

/// Appends the envelope of an error. Version 3 knows no failures: they become timeouts.
pub(crate) fn error(out: &mut Vec<u8>, version: u8, stream: i16, error: &CqlError) {
    let start = frame::begin(out, version, 0, stream, opcode::ERROR);
    let code = match (error, version) {
        (CqlError::ReadFailure { .. }, 3) => 0x1200,
        (CqlError::WriteFailure { .. }, 3) => 0x1100,
        (CqlError::FunctionFailure(_), 3) => 0x2200,
        _ => error.code(),
    };
    out.put_u32(code);
    wire::string(out, &error.message());
    error_body(out, version, error);
    frame::finish(out, start);
}

/// Appends the envelope of an OVERLOADED error.
pub(crate) fn overloaded(out: &mut Vec<u8>, version: u8, stream: i16, text: &str) {
    let start = frame::begin(out, version, 0, stream, opcode::ERROR);
    out.put_u32(OVERLOADED);
    wire::string(out, text);
    frame::finish(out, start);
}

fn error_body(out: &mut Vec<u8>, version: u8, error: &CqlError) {
    match error {
        CqlError::Unavailable { consistency, required, alive }
        | CqlError::ImagesUnavailable { consistency, required, alive } => {
            out.put_u16(consistency.to_wire());
            // None is required where there are to be none: drivers are told of one that is not.
            out.put_u32((*required).max(1));
            out.put_u32(*alive);
        }
        CqlError::WriteTimeout { consistency, received, required, kind } => {
            counts(out, consistency.to_wire(), *received, *required);
            wire::string(out, kind.name());
            // How often others came first: version 5 has it behind this kind of write alone.
            if 5 <= version && *kind == WriteKind::Cas {
                out.put_u16(0);
            }
        }
        CqlError::ReadTimeout { consistency, received, required, data_present } => {
            counts(out, consistency.to_wire(), *received, *required);
            out.put_u8(u8::from(*data_present));
        }
        CqlError::ReadFailure {
            consistency, received, required, failures, data_present, ..
        } => {
            counts(out, consistency.to_wire(), *received, *required);
            failure_count(out, version, *failures);
            out.put_u8(u8::from(*data_present));
        }
        CqlError::WriteFailure { consistency, received, required, failures, kind, .. } => {
            counts(out, consistency.to_wire(), *received, *required);
            failure_count(out, version, *failures);
            wire::string(out, kind.name());
        }
        CqlError::FunctionFailure(failure) if 4 <= version => {
            wire::string(out, &failure.keyspace);
            wire::string(out, &failure.function);
            wire::string_list(out, &failure.arguments);
        }
        CqlError::AlreadyExists { keyspace, table } => {
            wire::string(out, keyspace);
            wire::string(out, table);
        }
        CqlError::RateLimit(limited) => {
            out.put_u8(match limited.operation {
                Operation::Read => 0,
                Operation::Write => 1,
            });
            out.put_u8(u8::from(limited.by_coordinator));
        }
        CqlError::Unprepared { id } => out.put_u16_bytes(id),
        _ => {}
    }
}

fn counts(out: &mut Vec<u8>, consistency: u16, received: u32, required: u32) {
    out.put_u16(consistency);
    out.put_u32(received);
    out.put_u32(required);
}

/// Version 4 counts failures; version 5 has a map of reasons by node, which we leave empty.
fn failure_count(out: &mut Vec<u8>, version: u8, failures: u32) {
    match version {
        ..4 => {}
        4 => out.put_u32(failures),
        _ => out.put_u32(0),
    }
}

#[cfg(test)]
mod tests;
