//! Requests: bodies parsed in place, nothing copied.
//!
//! Every length is checked against what is there before it is believed; counts reserve nothing
//! beyond the bytes that could hold them.
//!
//! Source: cql-surface reference, sections 7.2 and 7.3; the native protocol specifications.

use crate::frame::opcode;
use query::{BatchKind, Value, Values};
use stdx::{Cursor, Damaged};

/// What a client asks.
#[derive(Debug)]
pub(crate) enum Request<'a> {
    Options,
    Startup(Vec<(&'a str, &'a str)>),
    Register(Vec<&'a str>),
    Query { text: &'a str, parameters: Parameters<'a> },
    Prepare { text: &'a str, keyspace: Option<&'a str> },
    Execute { id: &'a [u8], metadata_id: Option<&'a [u8]>, parameters: Parameters<'a> },
    Batch { kind: BatchKind, entries: Vec<Entry<'a>>, parameters: Parameters<'a> },
}

/// A statement of a batch.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) statement: Statement<'a>,
    pub(crate) values: Bound<'a>,
}

/// Bound values, in order of the markers or by their names.
#[derive(Debug)]
pub(crate) enum Bound<'a> {
    Positional(Vec<Value<'a>>),
    Named(Vec<(&'a str, Value<'a>)>),
}

impl<'a> Bound<'a> {
    /// As the processor takes them.
    pub(crate) fn values(&'a self) -> Values<'a> {
        match self {
            Bound::Positional(values) => Values::Positional(values),
            Bound::Named(values) => Values::Named(values),
        }
    }
}

impl Default for Bound<'_> {
    fn default() -> Self {
        Bound::Positional(Vec::new())
    }
}

/// A statement of a batch, as text or by id.
#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Text(&'a str),
    Prepared(&'a [u8]),
}

/// The parameters of a statement.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    pub(crate) consistency: u16,
    pub(crate) serial_consistency: Option<u16>,
    pub(crate) values: Bound<'a>,
    pub(crate) skip_metadata: bool,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<&'a [u8]>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) keyspace: Option<&'a str>,
    pub(crate) now_seconds: Option<i32>,
}

/// Bits of a statement's parameters.
mod flag {
    pub(super) const VALUES: u32 = 0x01;
    pub(super) const SKIP_METADATA: u32 = 0x02;
    pub(super) const PAGE_SIZE: u32 = 0x04;
    pub(super) const PAGING_STATE: u32 = 0x08;
    pub(super) const SERIAL_CONSISTENCY: u32 = 0x10;
    pub(super) const TIMESTAMP: u32 = 0x20;
    pub(super) const NAMES: u32 = 0x40;
    pub(super) const KEYSPACE: u32 = 0x80;
    pub(super) const NOW: u32 = 0x100;
}

/// What the version and the extensions of a connection change in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) version: u8,
    /// EXECUTE carries the id of the result metadata that the client knows (v5, or an extension).
    pub(crate) metadata_ids: bool,
}

/// The token of an AUTH_RESPONSE; none is as good as an empty one. Some clients send it without its
/// length, and servers took it: where what stands first is no length, all of it is the token.
pub(crate) fn auth_token(body: &[u8]) -> &[u8] {
    match bytes(&mut Cursor::new(body)) {
        Ok(token) => token.unwrap_or_default(),
        Err(_) => body,
    }
}

/// Parses a body. `has_payload`: a custom payload stands first, and is passed over.
pub(crate) fn parse<'a>(
    code: u8,
    dialect: Dialect,
    has_payload: bool,
    body: &'a [u8],
) -> Result<Request<'a>, Damaged> {
    let mut cursor = Cursor::new(body);
    if has_payload {
        for _ in 0..cursor.u16("custom payload")? {
            cursor.u16_bytes("custom payload key")?;
            bytes(&mut cursor)?;
        }
    }
    let body = &mut cursor;
    match code {
        opcode::OPTIONS => Ok(Request::Options),
        opcode::STARTUP => {
            let count = body.u16("startup option count")?;
            let pairs = (0..count).map(|_| Ok((string(body)?, string(body)?)));
            Ok(Request::Startup(pairs.collect::<Result<_, Damaged>>()?))
        }
        opcode::REGISTER => {
            let count = body.u16("event type count")?;
            let names = (0..count).map(|_| string(body));
            Ok(Request::Register(names.collect::<Result<_, Damaged>>()?))
        }
        opcode::QUERY => {
            let text = long_string(body)?;
            Ok(Request::Query { text, parameters: parameters(body, dialect)? })
        }
        opcode::PREPARE => prepare(body, dialect),
        opcode::EXECUTE => {
            let id = body.u16_bytes("prepared statement id")?;
            let metadata_id = match dialect.metadata_ids {
                true => Some(body.u16_bytes("result metadata id")?),
                false => None,
            };
            Ok(Request::Execute { id, metadata_id, parameters: parameters(body, dialect)? })
        }
        opcode::BATCH => batch(body, dialect),
        _ => Err(body.damaged("unknown opcode")),
    }
}

/// Of an EXECUTE: which statement, and its values by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance<'a> {
    pub(crate) id: &'a [u8],
    count: u16,
    values: Cursor<'a>,
}

/// Looks at the body of an EXECUTE without a custom payload as far as that, ahead of [`parse`].
pub(crate) fn glance(dialect: Dialect, body: &[u8]) -> Result<Glance<'_>, Damaged> {
    let mut body = Cursor::new(body);
    let id = body.u16_bytes("prepared statement id")?;
    if dialect.metadata_ids {
        body.u16_bytes("result metadata id")?;
    }
    body.u16("consistency")?;
    let count = match flags(&mut body, dialect)? & (flag::VALUES | flag::NAMES) {
        flag::VALUES => body.u16("value count")?,
        _ => 0,
    };
    Ok(Glance { id, count, values: body })
}

impl<'a> Glance<'a> {
    /// The bytes that are bound at a position, if there are some.
    pub(crate) fn value(&self, at: u16) -> Option<&'a [u8]> {
        let mut values = self.values;
        if self.count <= at {
            return None;
        }
        for _ in 0..at {
            value(&mut values).ok()?;
        }
        match value(&mut values) {
            Ok(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

fn prepare<'a>(body: &mut Cursor<'a>, dialect: Dialect) -> Result<Request<'a>, Damaged> {
    const KEYSPACE: u32 = 0x01;
    let text = long_string(body)?;
    let flags = if 5 <= dialect.version { body.u32("prepare flags")? } else { 0 };
    let keyspace = if flags & KEYSPACE != 0 { Some(string(body)?) } else { None };
    Ok(Request::Prepare { text, keyspace })
}

fn parameters<'a>(body: &mut Cursor<'a>, dialect: Dialect) -> Result<Parameters<'a>, Damaged> {
    let consistency = body.u16("consistency")?;
    let flags = flags(body, dialect)?;
    let mut out = Parameters { consistency, ..Parameters::default() };
    if flags & flag::VALUES != 0 {
        out.values = values(body, flags & flag::NAMES != 0)?;
    }
    out.skip_metadata = flags & flag::SKIP_METADATA != 0;
    if flags & flag::PAGE_SIZE != 0 {
        out.page_size = Some(body.i32("page size")?);
    }
    if flags & flag::PAGING_STATE != 0 {
        out.paging_state = bytes(body)?;
    }
    tail(body, dialect, flags, &mut out)?;
    Ok(out)
}

fn flags(body: &mut Cursor<'_>, dialect: Dialect) -> Result<u32, Damaged> {
    match dialect.version {
        5.. => body.u32("flags"),
        _ => body.u8("flags").map(u32::from),
    }
}

/// The parameters that statements and batches share.
fn tail<'a>(
    body: &mut Cursor<'a>,
    dialect: Dialect,
    flags: u32,
    out: &mut Parameters<'a>,
) -> Result<(), Damaged> {
    if flags & flag::SERIAL_CONSISTENCY != 0 {
        out.serial_consistency = Some(body.u16("serial consistency")?);
    }
    if flags & flag::TIMESTAMP != 0 {
        out.timestamp = Some(body.i64("timestamp")?);
    }
    if 5 <= dialect.version && flags & flag::KEYSPACE != 0 {
        out.keyspace = Some(string(body)?);
    }
    if 5 <= dialect.version && flags & flag::NOW != 0 {
        out.now_seconds = Some(body.i32("now in seconds")?);
    }
    Ok(())
}

fn batch<'a>(body: &mut Cursor<'a>, dialect: Dialect) -> Result<Request<'a>, Damaged> {
    let kind = match body.u8("batch type")? {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        _ => return Err(body.damaged("unknown batch type")),
    };
    let count = body.u16("batch statement count")?;
    // Five bytes is the least that a statement takes, so a false count reserves little.
    let mut entries = Vec::with_capacity((count as usize).min(body.remaining() / 5));
    for _ in 0..count {
        let statement = match body.u8("kind of a batch statement")? {
            0 => Statement::Text(long_string(body)?),
            1 => Statement::Prepared(body.u16_bytes("prepared statement id")?),
            _ => return Err(body.damaged("unknown kind of a batch statement")),
        };
        entries.push(Entry { statement, values: values(body, false)? });
    }
    let consistency = body.u16("consistency")?;
    let mut parameters = Parameters { consistency, ..Parameters::default() };
    let flags = flags(body, dialect)?;
    if flags & flag::NAMES != 0 {
        return Err(body.damaged("names for values are not allowed in a batch"));
    }
    tail(body, dialect, flags, &mut parameters)?;
    Ok(Request::Batch { kind, entries, parameters })
}

fn values<'a>(body: &mut Cursor<'a>, named: bool) -> Result<Bound<'a>, Damaged> {
    let count = body.u16("value count")? as usize;
    // A value takes four bytes at least.
    let capacity = count.min(body.remaining() / 4);
    if named {
        let mut values = Vec::with_capacity(capacity);
        for _ in 0..count {
            values.push((string(body)?, value(body)?));
        }
        return Ok(Bound::Named(values));
    }
    let mut values = Vec::with_capacity(capacity);
    for _ in 0..count {
        values.push(value(body)?);
    }
    Ok(Bound::Positional(values))
}

fn value<'a>(body: &mut Cursor<'a>) -> Result<Value<'a>, Damaged> {
    match body.i32("value length")? {
        -1 => Ok(Value::Null),
        -2 => Ok(Value::Unset),
        length => match usize::try_from(length) {
            Ok(length) => Ok(Value::Bytes(body.take(length, "value")?)),
            Err(_) => Err(body.damaged("negative value length")),
        },
    }
}

fn bytes<'a>(body: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Damaged> {
    match usize::try_from(body.i32("bytes length")?) {
        Ok(length) => body.take(length, "bytes").map(Some),
        Err(_) => Ok(None),
    }
}

fn string<'a>(body: &mut Cursor<'a>) -> Result<&'a str, Damaged> {
    let bytes = body.u16_bytes("string")?;
    std::str::from_utf8(bytes).map_err(|_| body.damaged("string is not UTF-8"))
}

fn long_string<'a>(body: &mut Cursor<'a>) -> Result<&'a str, Damaged> {
    let length = body.i32("long string length")?;
    let length = usize::try_from(length).map_err(|_| body.damaged("negative string length"))?;
    let bytes = body.take(length, "long string")?;
    std::str::from_utf8(bytes).map_err(|_| body.damaged("query text is not UTF-8"))
}

#[cfg(test)]
mod tests;
