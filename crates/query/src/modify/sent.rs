//! Conditional writes on their way to the node that leads their rounds, and their results on the
//! way back.
//!
//! ```text
//! request   := consistency:be16 time form:u8 columns:be16 column* statements:be16 statement*
//! time      := 0 | 1 seconds:be32
//! column    := 0 | 1 id:be32
//! statement := text keyspace part values:be16 value*    keyspace := 0 | 1 text    part := time
//! value     := 0 (null) | 1 (unset) | 2 bytes
//! result    := 0 rows:be32 is_bare:u8 applied:u8 body warnings:be16 text*
//!            | 1 code:be32 consistency:be16 number:be32 *3 flag:u8 kind:u8 texts:be16 text*
//! text, bytes, body := length:be32, and so many bytes
//! ```
//!
//! Invariants
//!  - *one-form*: what is decoded is encoded to the same bytes again.
//!  - *foreign-is-damaged*: no bytes make a decoder panic, or reserve more than they are long.

use super::work::{Outcome, OwnedStatement, OwnedValue, Shown, Work};
use crate::error::CqlError;
use crate::session::BatchForm;
use functions::Failure;
use model::ColumnId;
use replication::{Consistency, WriteKind};
use stdx::{Cursor, Damaged, Put};

/// What tells [`CqlError::ImagesUnavailable`] from what is like it.
const IMAGES: &str = "images";

const KINDS: [WriteKind; 6] = [
    WriteKind::Simple,
    WriteKind::Batch,
    WriteKind::UnloggedBatch,
    WriteKind::Counter,
    WriteKind::Cas,
    WriteKind::View,
];

/// Conditional writes of one partition. Its key travels beside them.
pub(super) fn encode(work: &Work) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.put_u16(work.consistency.to_wire());
    put_number(&mut out, work.now_secs.map(|seconds| seconds as u32));
    let shown = work.shown.as_ref();
    debug_assert!(shown.is_some(), "one-form: a write without conditions");
    out.put_u8(shown.is_some_and(|shown| shown.form == BatchForm::Cassandra).into());
    let columns = shown.map_or(&[][..], |shown| &shown.columns);
    put_count(&mut out, columns.len());
    columns.iter().for_each(|column| put_number(&mut out, column.map(|id| id.0)));
    put_count(&mut out, work.statements.len());
    for OwnedStatement { text, keyspace, part, values } in &work.statements {
        out.put_u32_bytes(text.as_bytes());
        out.put_u8(keyspace.is_some().into());
        keyspace.iter().for_each(|keyspace| out.put_u32_bytes(keyspace.as_bytes()));
        put_number(&mut out, part.map(|part| part as u32));
        put_count(&mut out, values.len());
        for value in values {
            match value {
                OwnedValue::Null => out.put_u8(0),
                OwnedValue::Unset => out.put_u8(1),
                OwnedValue::Bytes(bytes) => {
                    out.put_u8(2);
                    out.put_u32_bytes(bytes);
                }
            }
        }
    }
    out
}

/// See [`encode`]; `key`: of the partition.
pub(super) fn decode(bytes: &[u8], key: &[u8]) -> Result<Work, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let consistency = level(&mut cursor)?;
    let now_secs = number(&mut cursor)?.map(|seconds| seconds as i32);
    let form = match flag(&mut cursor)? {
        false => BatchForm::Scylla,
        true => BatchForm::Cassandra,
    };
    let columns = many(&mut cursor, |cursor| Ok(number(cursor)?.map(ColumnId)))?;
    let statements = many(&mut cursor, statement)?;
    end(&cursor)?;
    match statements.is_empty() {
        true => Err(cursor.damaged("no statement")),
        false => Ok(Work {
            key: key.to_vec(),
            statements,
            shown: Some(Shown { columns, form }),
            consistency,
            now_secs,
            timestamp: 0,
        }),
    }
}

fn statement(cursor: &mut Cursor<'_>) -> Result<OwnedStatement, Damaged> {
    let statement = text(cursor)?;
    let keyspace = match flag(cursor)? {
        true => Some(text(cursor)?),
        false => None,
    };
    let part = number(cursor)?.map(|part| part as usize);
    let values = many(cursor, |cursor| match cursor.u8("kind of a value")? {
        0 => Ok(OwnedValue::Null),
        1 => Ok(OwnedValue::Unset),
        2 => Ok(OwnedValue::Bytes(cursor.u32_bytes("a value")?.to_vec())),
        _ => Err(cursor.damaged("kind of a value")),
    })?;
    Ok(OwnedStatement { text: statement, keyspace, part, values })
}

/// How they ended.
pub(super) fn encode_result(result: &Result<Outcome, CqlError>) -> Vec<u8> {
    let Outcome { body, row_count, is_bare, applied, warnings } = match result {
        Ok(outcome) => outcome,
        Err(error) => return encode_error(&Parts::of(error)),
    };
    let mut out = Vec::with_capacity(32 + body.len());
    out.put_u8(0);
    out.put_u32(*row_count);
    out.put_u8((*is_bare).into());
    out.put_u8((*applied).into());
    out.put_u32_bytes(body);
    put_count(&mut out, warnings.len());
    warnings.iter().for_each(|warning| out.put_u32_bytes(warning.as_bytes()));
    out
}

/// See [`encode_result`].
pub(super) fn decode_result(bytes: &[u8]) -> Result<Result<Outcome, CqlError>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    if flag(&mut cursor)? {
        let parts = decode_error(&mut cursor)?;
        end(&cursor)?;
        return parts.error().map(Err).ok_or_else(|| cursor.damaged("an error"));
    }
    let row_count = cursor.u32("rows of a result")?;
    let (is_bare, applied) = (flag(&mut cursor)?, flag(&mut cursor)?);
    let body = cursor.u32_bytes("rows of a result")?.to_vec();
    let warnings = many(&mut cursor, text)?;
    end(&cursor)?;
    Ok(Ok(Outcome { body, row_count, is_bare, applied, warnings }))
}

/// An error by what errors have; what one does not have is zero.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    code: u32,
    level: Consistency,
    numbers: [u32; 3],
    flag: bool,
    kind: WriteKind,
    texts: Vec<String>,
}

impl Parts {
    fn of(error: &CqlError) -> Parts {
        let plain = |code, text: String| Parts {
            code,
            level: Consistency::Any,
            numbers: [0; 3],
            flag: false,
            kind: WriteKind::Simple,
            texts: vec![text],
        };
        let (code, none) = (error.code(), plain(error.code(), String::new()));
        let none = Parts { texts: Vec::new(), ..none };
        match error.clone() {
            CqlError::Unavailable { consistency: level, required, alive } => {
                Parts { level, numbers: [required, alive, 0], ..none }
            }
            CqlError::ImagesUnavailable { consistency: level, required, alive } => {
                let texts = vec![IMAGES.to_owned()];
                Parts { level, numbers: [required, alive, 0], texts, ..none }
            }
            CqlError::WriteTimeout { consistency: level, received, required, kind } => {
                Parts { level, numbers: [received, required, 0], kind, ..none }
            }
            CqlError::ReadTimeout { consistency: level, received, required, data_present } => {
                Parts { level, numbers: [received, required, 0], flag: data_present, ..none }
            }
            CqlError::ReadFailure {
                consistency: level,
                received,
                required,
                failures,
                data_present: flag,
                reason,
            } => {
                let (numbers, texts) = ([received, required, failures], vec![reason]);
                Parts { level, numbers, flag, texts, ..none }
            }
            CqlError::WriteFailure {
                consistency: level,
                received,
                required,
                failures,
                kind,
                reason,
            } => {
                let (numbers, texts) = ([received, required, failures], vec![reason]);
                Parts { level, numbers, kind, texts, ..none }
            }
            CqlError::FunctionFailure(Failure { keyspace, function, arguments, reason }) => {
                let texts = [keyspace, function, reason].into_iter().chain(arguments).collect();
                Parts { texts, ..none }
            }
            CqlError::Overloaded(text)
            | CqlError::Syntax(text)
            | CqlError::Unauthorized(text)
            | CqlError::Invalid(text)
            | CqlError::Config(text)
            | CqlError::Forbidden(_, text) => plain(code, text),
            other => plain(0, other.message()),
        }
    }

    /// The error; `None`: these are parts of none.
    fn error(self) -> Option<CqlError> {
        let Parts { code, level: consistency, numbers: [a, b, c], flag, kind, texts } = &self;
        let (consistency, kind, data_present) = (*consistency, *kind, *flag);
        let text = || texts.first().cloned().unwrap_or_default();
        let error = match code {
            0x0000 => CqlError::Server(text()),
            0x1000 if texts.first().is_some_and(|text| text == IMAGES) => {
                CqlError::ImagesUnavailable { consistency, required: *a, alive: *b }
            }
            0x1000 => CqlError::Unavailable { consistency, required: *a, alive: *b },
            0x1001 => CqlError::Overloaded(text()),
            0x1100 => CqlError::WriteTimeout { consistency, received: *a, required: *b, kind },
            0x1200 => {
                CqlError::ReadTimeout { consistency, received: *a, required: *b, data_present }
            }
            0x1300 => {
                let (received, required, failures, reason) = (*a, *b, *c, text());
                CqlError::ReadFailure {
                    consistency,
                    received,
                    required,
                    failures,
                    data_present,
                    reason,
                }
            }
            0x1400 => match &texts[..] {
                [keyspace, function, reason, arguments @ ..] => {
                    CqlError::FunctionFailure(Failure {
                        keyspace: keyspace.clone(),
                        function: function.clone(),
                        arguments: arguments.to_vec(),
                        reason: reason.clone(),
                    })
                }
                _ => return None,
            },
            0x1500 => {
                let (received, required, failures, reason) = (*a, *b, *c, text());
                CqlError::WriteFailure { consistency, received, required, failures, kind, reason }
            }
            0x2000 => CqlError::Syntax(text()),
            0x2100 => CqlError::Unauthorized(text()),
            0x2200 => CqlError::Invalid(text()),
            0x2300 => CqlError::Config(text()),
            _ => return None,
        };
        (Parts::of(&error) == self).then_some(error)
    }
}

fn encode_error(parts: &Parts) -> Vec<u8> {
    let Parts { code, level, numbers, flag, kind, texts } = parts;
    let mut out = Vec::with_capacity(64);
    out.put_u8(1);
    out.put_u32(*code);
    out.put_u16(level.to_wire());
    numbers.iter().for_each(|number| out.put_u32(*number));
    out.put_u8((*flag).into());
    let kind = KINDS.iter().position(|known| known == kind);
    out.put_u8(kind.expect("all kinds are there") as u8);
    put_count(&mut out, texts.len());
    texts.iter().for_each(|text| out.put_u32_bytes(text.as_bytes()));
    out
}

fn decode_error(cursor: &mut Cursor<'_>) -> Result<Parts, Damaged> {
    let code = cursor.u32("code of an error")?;
    let level = level(cursor)?;
    let mut next = || cursor.u32("a number of an error");
    let numbers = [next()?, next()?, next()?];
    let flag = flag(cursor)?;
    let kind = KINDS.get(usize::from(cursor.u8("kind of a write")?));
    let kind = *kind.ok_or_else(|| cursor.damaged("kind of a write"))?;
    let texts = many(cursor, text)?;
    Ok(Parts { code, level, numbers, flag, kind, texts })
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_u16(u16::try_from(count).expect("what a statement has of one kind fits 16 bits"));
}

fn put_number(out: &mut Vec<u8>, number: Option<u32>) {
    out.put_u8(number.is_some().into());
    number.iter().for_each(|number| out.put_u32(*number));
}

/// As many as are announced, each at least a byte.
fn many<T>(
    cursor: &mut Cursor<'_>,
    one: impl Fn(&mut Cursor<'_>) -> Result<T, Damaged>,
) -> Result<Vec<T>, Damaged> {
    let count = usize::from(cursor.u16("how many there are")?);
    let mut all = Vec::with_capacity(count.min(cursor.remaining()));
    for _ in 0..count {
        all.push(one(cursor)?);
    }
    Ok(all)
}

fn number(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Damaged> {
    match flag(cursor)? {
        true => Ok(Some(cursor.u32("a number")?)),
        false => Ok(None),
    }
}

fn text(cursor: &mut Cursor<'_>) -> Result<String, Damaged> {
    let bytes = cursor.u32_bytes("a text")?;
    let text = std::str::from_utf8(bytes).map_err(|_| cursor.damaged("a text"))?;
    Ok(text.to_owned())
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool, Damaged> {
    match cursor.u8("a flag")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged("a flag")),
    }
}

fn level(cursor: &mut Cursor<'_>) -> Result<Consistency, Damaged> {
    let level = Consistency::from_wire(cursor.u16("a level of consistency")?);
    level.ok_or_else(|| cursor.damaged("a level of consistency"))
}

fn end(cursor: &Cursor<'_>) -> Result<(), Damaged> {
    match cursor.is_empty() {
        true => Ok(()),
        false => Err(cursor.damaged("bytes after the end")),
    }
}

#[cfg(test)]
mod tests;
