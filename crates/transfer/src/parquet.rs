//! Parquet files, by the library of that name: on the way in as lines of JSON, which go the way of
//! all such lines; on the way out column by column.
//!
//! A column of a scalar type is of the Parquet type that is nearest to it, a UUID for `uuid`, text
//! for what Parquet has no type for. Collections, tuples and user types are text with JSON. Other
//! files may have lists, maps and groups for them.
//!
//! Invariants
//!  - *same-lines*: the same file gives the same bytes each time, so that a load can go on at a
//!    place in them.
//!  - *bounded*: at most [`GROUP_BYTES_MAX`] of a row group wait to be written.

use client::{Column, Rows};
use model::Type;
use model::value::{self, Decimal, quote_json, temporal};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// *bounded*
const GROUP_BYTES_MAX: usize = 8 << 20;
const GROUP_ROWS_MAX: usize = 1 << 20;
/// What the library buffers of a column before it is a page.
const PAGE_BYTES: usize = 64 << 10;
/// Lines that are made at once.
const LINES_BYTES: usize = 64 << 10;

/// A Parquet file as lines of JSON.
pub(crate) struct Lines {
    rows: RowIter<'static>,
    /// Of each column in the file: its type in the table, and what its numbers count.
    columns: Vec<(Type, i64)>,
    made: Vec<u8>,
    given: usize,
}

impl Lines {
    /// `types` are those of the table's columns.
    #[allow(clippy::disallowed_methods, reason = "the library reads by itself, on a helper thread")]
    pub(crate) fn open(path: &Path, types: &[(String, Type)]) -> io::Result<Lines> {
        let reader = SerializedFileReader::new(File::open(path)?).map_err(io::Error::other)?;
        let schema = reader.metadata().file_metadata().schema().clone();
        let column = |field: &types::TypePtr| {
            let ty = types.iter().find(|(name, _)| name == field.name());
            let nanos = match field.get_basic_info().logical_type_ref() {
                Some(LogicalType::Timestamp(moment)) if moment.unit == TimeUnit::NANOS => 1_000_000,
                _ => 1,
            };
            (ty.map_or(Type::Text, |(_, ty)| ty.clone()), nanos)
        };
        let columns = schema.get_fields().iter().map(column).collect();
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(Lines { rows, columns, made: Vec::new(), given: 0 })
    }

    /// Makes some lines; none at the end.
    fn make(&mut self) -> io::Result<()> {
        self.made.clear();
        self.given = 0;
        let mut line = String::new();
        while self.made.len() < LINES_BYTES {
            let Some(row) = self.rows.next() else { return Ok(()) };
            let row = row.map_err(io::Error::other)?;
            line.clear();
            for (index, (name, field)) in row.get_column_iter().enumerate() {
                let text_only = (Type::Text, 1);
                let (ty, unit) = self.columns.get(index).unwrap_or(&text_only);
                line.push_str(if index == 0 { "{" } else { ", " });
                line.push_str(&quote_json(name));
                line.push_str(": ");
                match field {
                    Field::Long(count) if *unit != 1 => {
                        put(&Field::Long(count / unit), ty, &mut line)
                    }
                    field => put(field, ty, &mut line),
                }
            }
            line.push_str("}\n");
            self.made.extend_from_slice(line.as_bytes());
        }
        Ok(())
    }
}

impl Read for Lines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.made.len() {
            self.make()?;
        }
        let rest = &self.made[self.given..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

/// Appends a value of the file as JSON that a value of `ty` is read from.
fn put(field: &Field, ty: &Type, out: &mut String) {
    match field {
        Field::Null => out.push_str("null"),
        Field::Bool(flag) => out.push_str(&flag.to_string()),
        Field::Float16(number) => put_float(number.to_f64(), out),
        Field::Float(number) if *ty == Type::Float && number.is_finite() => {
            out.push_str(&format!("{number:?}"));
        }
        Field::Float(number) => put_float(f64::from(*number), out),
        Field::Double(number) => put_float(*number, out),
        Field::Decimal(decimal) => {
            let bytes = [&decimal.scale().to_be_bytes()[..], decimal.data()].concat();
            let text = Decimal::decode(&bytes).map(|decimal| decimal.to_string());
            put_number(&text.unwrap_or_default(), ty, out);
        }
        Field::Str(text) => put_text(text, ty, out),
        Field::Bytes(bytes) => put_bytes(bytes.data(), ty, out),
        Field::Date(days) => {
            let date = days.cast_unsigned().wrapping_add(temporal::DATE_EPOCH);
            out.push_str(&quote_json(&temporal::print_date(date)));
        }
        Field::TimeMillis(millis) => {
            put_number(&(i64::from(*millis) * 1_000_000).to_string(), ty, out)
        }
        Field::TimeMicros(micros) => {
            put_number(&(micros.saturating_mul(1000)).to_string(), ty, out)
        }
        Field::TimestampMillis(millis) => put_number(&millis.to_string(), ty, out),
        Field::TimestampMicros(micros) => put_number(&micros.div_euclid(1000).to_string(), ty, out),
        Field::Group(row) => put_group(row, ty, out),
        Field::ListInternal(list) => {
            let element = ty.children().first().map_or(&Type::Text, |element| *element).clone();
            out.push('[');
            for (index, field) in list.elements().iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                put(field, &element, out);
            }
            out.push(']');
        }
        Field::MapInternal(map) => put_map(map, ty, out),
        number => put_number(&number.to_string(), ty, out),
    }
}

fn put_float(number: f64, out: &mut String) {
    match number.is_finite() {
        true => out.push_str(&format!("{number:?}")),
        false => {
            out.push_str(&quote_json(&value::print_scalar(&Type::Double, &number.to_be_bytes())))
        }
    }
}

/// Types whose JSON is no number have it as text.
fn put_number(text: &str, ty: &Type, out: &mut String) {
    let is_bare = matches!(
        ty,
        Type::TinyInt
            | Type::SmallInt
            | Type::Int
            | Type::BigInt
            | Type::Counter
            | Type::Varint
            | Type::Decimal
            | Type::Float
            | Type::Double
            | Type::Timestamp
    );
    if is_bare { out.push_str(text) } else { out.push_str(&quote_json(text)) }
}

fn put_text(text: &str, ty: &Type, out: &mut String) {
    if ty.is_native() {
        return out.push_str(&quote_json(text));
    }
    // A line end in JSON is a space between its parts: in a string it would be refused.
    match value::json::parse(text) {
        Ok(_) => out.push_str(&text.replace(['\n', '\r'], " ")),
        Err(_) => out.push_str(&quote_json(text)),
    }
}

fn put_bytes(bytes: &[u8], ty: &Type, out: &mut String) {
    let text = match (ty, std::str::from_utf8(bytes)) {
        (Type::Blob | Type::Custom(_), _) => value::print_scalar(&Type::Blob, bytes),
        (Type::Uuid | Type::TimeUuid | Type::Inet | Type::Varint, _) => {
            value::print_scalar(ty, bytes)
        }
        (_, Ok(text)) => text.to_string(),
        _ => value::print_scalar(&Type::Blob, bytes),
    };
    out.push_str(&quote_json(&text));
}

fn put_group(row: &parquet::record::Row, ty: &Type, out: &mut String) {
    let is_tuple = matches!(ty, Type::Tuple(_));
    out.push(if is_tuple { '[' } else { '{' });
    for (index, (name, field)) in row.get_column_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        let field_ty = match ty {
            Type::User(user) => {
                user.fields.iter().find(|(known, _)| known == name).map(|(_, ty)| ty)
            }
            _ => ty.field_type(index),
        };
        if !is_tuple {
            out.push_str(&quote_json(&model::types::quote_identifier(name)));
            out.push_str(": ");
        }
        put(field, field_ty.unwrap_or(&Type::Text), out);
    }
    out.push(if is_tuple { ']' } else { '}' });
}

fn put_map(map: &parquet::record::Map, ty: &Type, out: &mut String) {
    let types = match ty {
        Type::Map { key, value, .. } => (&**key, &**value),
        _ => (&Type::Text, &Type::Text),
    };
    out.push('{');
    for (index, (key, field)) in map.entries().iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        let mut name = String::new();
        put(key, types.0, &mut name);
        out.push_str(&if name.starts_with('"') { name } else { quote_json(&name) });
        out.push_str(": ");
        put(field, types.1, out);
    }
    out.push('}');
}

/// The values of a column that are not null.
enum Values {
    Bool(Vec<bool>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Uuid(Vec<FixedLenByteArray>),
}

/// A column of the row group that is filled.
struct Buffer {
    ty: Type,
    values: Values,
    /// For each row 1, or 0 for null.
    levels: Vec<i16>,
}

impl Buffer {
    fn new(ty: &Type) -> Buffer {
        let values = match ty {
            Type::Boolean => Values::Bool(Vec::new()),
            Type::TinyInt | Type::SmallInt | Type::Int | Type::Date => Values::Int(Vec::new()),
            Type::BigInt | Type::Counter | Type::Timestamp | Type::Time => Values::Long(Vec::new()),
            Type::Float => Values::Float(Vec::new()),
            Type::Double => Values::Double(Vec::new()),
            Type::Uuid | Type::TimeUuid => Values::Uuid(Vec::new()),
            _ => Values::Bytes(Vec::new()),
        };
        Buffer { ty: ty.clone(), values, levels: Vec::new() }
    }

    /// The column as the file's schema has it.
    fn schema(&self, name: &str) -> Result<types::Type, ParquetError> {
        let integer = |bits| Some(LogicalType::integer(bits, true));
        let (physical, logical) = match (&self.values, &self.ty) {
            (Values::Bool(_), _) => (Physical::BOOLEAN, None),
            (Values::Int(_), Type::TinyInt) => (Physical::INT32, integer(8)),
            (Values::Int(_), Type::SmallInt) => (Physical::INT32, integer(16)),
            (Values::Int(_), Type::Date) => (Physical::INT32, Some(LogicalType::Date)),
            (Values::Int(_), _) => (Physical::INT32, None),
            (Values::Long(_), Type::Timestamp) => {
                (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS)))
            }
            (Values::Long(_), Type::Time) => {
                (Physical::INT64, Some(LogicalType::time(false, TimeUnit::NANOS)))
            }
            (Values::Long(_), _) => (Physical::INT64, None),
            (Values::Float(_), _) => (Physical::FLOAT, None),
            (Values::Double(_), _) => (Physical::DOUBLE, None),
            (Values::Uuid(_), _) => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
            (Values::Bytes(_), Type::Blob | Type::Custom(_)) => (Physical::BYTE_ARRAY, None),
            (Values::Bytes(_), ty) if ty.is_native() => {
                (Physical::BYTE_ARRAY, Some(LogicalType::String))
            }
            (Values::Bytes(_), _) => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        };
        let length = if matches!(self.values, Values::Uuid(_)) { 16 } else { -1 };
        types::Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .with_length(length)
            .build()
    }

    /// Adds a cell. The empty value of a type without one in Parquet is null.
    fn push(&mut self, cell: Option<&[u8]>) {
        let pushed = cell.and_then(|bytes| self.push_value(bytes));
        self.levels.push(i16::from(pushed.is_some()));
    }

    fn push_value(&mut self, bytes: &[u8]) -> Option<()> {
        match &mut self.values {
            Values::Bool(values) => values.push(value::decode_bool(bytes)?),
            Values::Int(values) => values.push(match self.ty {
                Type::TinyInt => value::decode_i8(bytes)?.into(),
                Type::SmallInt => value::decode_i16(bytes)?.into(),
                Type::Date => {
                    value::decode_date(bytes)?.wrapping_sub(temporal::DATE_EPOCH).cast_signed()
                }
                _ => value::decode_i32(bytes)?,
            }),
            Values::Long(values) => values.push(value::decode_i64(bytes)?),
            Values::Float(values) => values.push(value::decode_f32(bytes)?),
            Values::Double(values) => values.push(value::decode_f64(bytes)?),
            Values::Uuid(values) => {
                let uuid = Some(bytes).filter(|bytes| bytes.len() == 16)?;
                values.push(ByteArray::from(uuid.to_vec()).into());
            }
            Values::Bytes(values) => values.push(match &self.ty {
                Type::Blob | Type::Custom(_) | Type::Text | Type::Ascii => bytes.to_vec().into(),
                ty if ty.is_native() && bytes.is_empty() => return None,
                ty if ty.is_native() => value::print_scalar(ty, bytes).into_bytes().into(),
                ty => value::to_json(ty, bytes).into_bytes().into(),
            }),
        }
        Some(())
    }

    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = std::mem::take(&mut self.levels);
        let levels = Some(&levels[..]);
        match &mut self.values {
            Values::Bool(some) => {
                column.typed::<BoolType>().write_batch(&std::mem::take(some), levels, None)
            }
            Values::Int(some) => {
                column.typed::<Int32Type>().write_batch(&std::mem::take(some), levels, None)
            }
            Values::Long(some) => {
                column.typed::<Int64Type>().write_batch(&std::mem::take(some), levels, None)
            }
            Values::Float(some) => {
                column.typed::<FloatType>().write_batch(&std::mem::take(some), levels, None)
            }
            Values::Double(some) => {
                column.typed::<DoubleType>().write_batch(&std::mem::take(some), levels, None)
            }
            Values::Bytes(some) => {
                column.typed::<ByteArrayType>().write_batch(&std::mem::take(some), levels, None)
            }
            Values::Uuid(some) => {
                let some = std::mem::take(some);
                column.typed::<FixedLenByteArrayType>().write_batch(&some, levels, None)
            }
        }
        .map(drop)
    }
}

/// A Parquet file that is written.
pub(crate) struct Writer {
    /// Until the first page says what columns there are.
    file: Option<File>,
    inner: Option<SerializedFileWriter<File>>,
    buffers: Vec<Buffer>,
    bytes: usize,
    rows: usize,
}

impl Writer {
    pub(crate) fn new(file: File) -> Writer {
        Writer { file: Some(file), inner: None, buffers: Vec::new(), bytes: 0, rows: 0 }
    }

    fn begin(&mut self, columns: &[Column]) -> Result<(), ParquetError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        self.buffers = columns.iter().map(|column| Buffer::new(&column.ty)).collect();
        let fields = self.buffers.iter().zip(columns);
        let fields: Result<Vec<_>, _> =
            fields.map(|(buffer, column)| buffer.schema(&column.name).map(Arc::new)).collect();
        let schema = types::Type::group_type_builder("rows").with_fields(fields?).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_data_page_size_limit(PAGE_BYTES)
            .build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        self.inner = Some(writer);
        Ok(())
    }

    /// Adds the first `count` rows of a page.
    pub(crate) fn put(&mut self, rows: &Rows, count: usize) -> io::Result<()> {
        self.begin(&rows.columns).map_err(io::Error::other)?;
        let mut left = count;
        let walked = rows.for_each(|cells| {
            if left != 0 {
                left -= 1;
                self.rows += 1;
                for (buffer, cell) in self.buffers.iter_mut().zip(cells) {
                    self.bytes += 4 + cell.map_or(0, <[u8]>::len);
                    buffer.push(*cell);
                }
            }
            Ok::<(), stdx::Damaged>(())
        });
        walked.map_err(|damaged| io::Error::other(damaged.to_string()))?;
        match GROUP_BYTES_MAX <= self.bytes || GROUP_ROWS_MAX <= self.rows {
            true => self.flush().map_err(io::Error::other),
            false => Ok(()),
        }
    }

    /// Writes a row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        let Some(writer) = self.inner.as_mut().filter(|_| self.rows != 0) else { return Ok(()) };
        let mut group = writer.next_row_group()?;
        for buffer in &mut self.buffers {
            let Some(mut column) = group.next_column()? else { break };
            buffer.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        (self.bytes, self.rows) = (0, 0);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush().map_err(io::Error::other)?;
        match self.inner {
            Some(writer) => writer.into_inner().map_err(io::Error::other)?.sync_all(),
            None => Ok(()),
        }
    }
}
