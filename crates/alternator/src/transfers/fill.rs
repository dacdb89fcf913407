//! Files become items of a table.
//!
//! Invariants
//!  - *last-wins*: of items with one key that which is read last stays: items have the times at
//!    which they were read, also when they are written again.
//!  - *bounded* (`transfers`): so many items, of so many bytes, are written at once.

use super::files::Found;
use super::format::{Format, Read, Reader};
use super::lines::{Record as Line, Records};
use super::record::{Counts, Failure, Record};
use super::records;
use super::unpack::{Packing, Unpacking};
use crate::batch;
use crate::error::{Error, Kind};
use crate::node::Node;
use crate::row::Moment;
use crate::table::Table;
use crate::write::Write;
use model::Type;
use runtime::io::{File, IoClass, OpenOptions};
use runtime::task::{join_all, yield_if_needed};
use runtime::time::{Instant, sleep, wall_micros};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// How much of a file is read at once.
const READ_BYTES: usize = 128 << 10;
/// A line, or a record of CSV: an item of the largest size in the longest way to write it.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// What is written at once, in so many batches.
const ITEMS_MAX: usize = 400;
const BYTES_MAX: usize = 1 << 20;
const BATCHES: usize = 4;
/// How often a write is tried, with a pause between that is doubled.
const TRIES_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);
/// How often it is written down how far an import is.
const NOTE_PERIOD: Duration = Duration::from_secs(5);
/// Bad items that the log names, of an import, and characters of why.
const TOLD_MAX: u64 = 100;
const WHY_CHARS: usize = 300;

/// What is to be read, and how.
pub(super) struct Source {
    pub(super) files: Vec<Found>,
    pub(super) format: Format,
    pub(super) packing: Packing,
}

/// Why it goes on no more.
pub(super) enum Stopped {
    Failed(Failure),
    /// Somebody else has written down how it ended.
    Ended,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Failed(Failure::new("InternalServerError", error.message))
    }
}

/// An item that is to be written, and where it came from.
struct Item {
    write: Write,
    moment: Moment,
    bytes: usize,
    line: u64,
}

struct Filling<'f> {
    node: &'f Node,
    table: Table,
    record: &'f mut Record,
    key: &'f str,
    items: Vec<Item>,
    bytes: usize,
    noted: Instant,
}

/// Puts all that the files have into the table of an import, and counts it.
pub(super) async fn fill(node: &Node, record: &mut Record, source: &Source) -> Result<(), Stopped> {
    let table = table_of(node, record)?;
    let keys = keys_of(&table);
    for file in &source.files {
        let table = table_of(node, record)?;
        let noted = Instant::now();
        let (items, key, bytes) = (Vec::new(), &*file.key, 0);
        let mut filling = Filling { node, table, record, key, items, bytes, noted };
        let reader = Reader::new(&source.format, &keys);
        filling.take_file(file, source, reader).await?;
        filling.write().await?;
        filling.note().await?;
    }
    Ok(())
}

/// The table of an import or an export, as it is now.
pub(super) fn table_of(node: &Node, record: &Record) -> Result<Table, Stopped> {
    let schema = node.schema();
    let table = schema.table_by_id(record.table_id).and_then(|entry| Table::of(&schema, entry));
    table.ok_or_else(|| {
        let why = format!("the table {} was deleted", record.table);
        Stopped::Failed(Failure::new("TableDeleted", why))
    })
}

/// The types of attributes in keys of the table and its indexes.
fn keys_of(table: &Table) -> BTreeMap<String, Type> {
    let keys = table.key_columns().iter().chain(&*table.indexed);
    keys.map(|column| (column.name.clone(), column.ty.clone())).collect()
}

fn invalid(key: &str, why: &str) -> Stopped {
    Stopped::Failed(Failure::new("InvalidFile", format!("{key}: {why}")))
}

impl Filling<'_> {
    /// Reads a file from its beginning to its end.
    async fn take_file(
        &mut self,
        found: &Found,
        source: &Source,
        mut reader: Reader<'_>,
    ) -> Result<(), Stopped> {
        if found.bytes == 0 {
            return Ok(());
        }
        let key = self.key;
        let unreadable = |error: runtime::io::IoError| invalid(key, &error.to_string());
        let damaged = |error: io::Error| invalid(key, &error.to_string());
        let options = OpenOptions::read_only().buffered();
        let file = File::open(&found.path, options).await.map_err(unreadable)?;
        let mut unpacking = Unpacking::new(source.packing).map_err(damaged)?;
        let mut records = Records::new(source.format.delimiter(), RECORD_BYTES_MAX);
        let mut offset = 0;
        loop {
            let piece = file.read_at(IoClass::Streaming, offset, READ_BYTES).await;
            let piece = piece.map_err(unreadable)?;
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            let mut left = piece.as_slice();
            while !left.is_empty() {
                let room = records.room();
                let before = room.len();
                let taken = unpacking.step(left, room).map_err(damaged)?;
                self.record.counts.bytes += (room.len() - before) as u64;
                left = &left[taken..];
                self.take_records(&mut records, &mut reader, false).await?;
                // Much may be unpacked before there is a record.
                yield_if_needed().await;
            }
        }
        loop {
            let room = records.room();
            let before = room.len();
            let more = unpacking.end(room).map_err(damaged)?;
            self.record.counts.bytes += (room.len() - before) as u64;
            self.take_records(&mut records, &mut reader, !more).await?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes the records that are there.
    async fn take_records(
        &mut self,
        records: &mut Records,
        reader: &mut Reader<'_>,
        is_last: bool,
    ) -> Result<(), Stopped> {
        while let Some(line) = records.next(is_last) {
            match line {
                Line::Whole(bytes, line) => match reader.read(bytes) {
                    Read::Nothing => {}
                    Read::NoFile(why) => return Err(invalid(self.key, &why)),
                    Read::Bad(why) => {
                        self.record.counts.processed += 1;
                        self.refuse(line, &why);
                    }
                    Read::Item(item) => {
                        self.record.counts.processed += 1;
                        match Write::put(&self.table, item) {
                            Ok(write) => self.push(write, (line, bytes.len())),
                            Err(error) => self.refuse(line, &error.message),
                        }
                    }
                },
                Line::TooLong(line) => {
                    self.record.counts.processed += 1;
                    let why = format!("it has more than {RECORD_BYTES_MAX} bytes");
                    self.refuse(line, &why);
                }
            }
            if ITEMS_MAX <= self.items.len() || BYTES_MAX <= self.bytes {
                self.write().await?;
                runtime::injection::pause("alternator_import_step").await;
                if NOTE_PERIOD <= self.noted.elapsed() {
                    self.note().await?;
                }
            }
            yield_if_needed().await;
        }
        Ok(())
    }

    fn push(&mut self, write: Write, (line, bytes): (u64, usize)) {
        let moment = Moment::of(self.node.timestamp());
        self.items.push(Item { write, moment, bytes, line });
        self.bytes += bytes;
    }

    /// Counts a bad item, and tells of it, if there were not so many already.
    fn refuse(&mut self, line: u64, why: &str) {
        let Counts { errors, .. } = &mut self.record.counts;
        *errors += 1;
        let (id, key) = (&self.record.id, self.key);
        if *errors <= TOLD_MAX {
            let why: String = why.chars().take(WHY_CHARS).collect();
            tracing::warn!(target: "transfers", "import {id}: {key}, line {line}: {why}");
        }
        if *errors == TOLD_MAX {
            tracing::warn!(target: "transfers", "import {id}: further bad items are only counted");
        }
    }

    /// Writes what was read. (*last-wins*)
    async fn write(&mut self) -> Result<(), Stopped> {
        if self.items.is_empty() {
            return Ok(());
        }
        self.table = table_of(self.node, self.record)?;
        let (node, table) = (self.node, &self.table);
        let items = std::mem::take(&mut self.items);
        self.bytes = 0;
        let batches = items.chunks(items.len().div_ceil(BATCHES));
        let made = join_all(batches.map(|batch| write_batch(node, table, batch))).await;
        let mut refused = Vec::new();
        for one in made {
            refused.extend(one?);
        }
        self.record.counts.imported += (items.len() - refused.len()) as u64;
        refused.iter().for_each(|(line, why)| self.refuse(*line, why));
        Ok(())
    }

    /// Writes down how far the import is.
    async fn note(&mut self) -> Result<(), Stopped> {
        self.noted = Instant::now();
        match records::note(self.node, self.record).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stopped::Ended),
            Err(error) => {
                tracing::debug!(target: "transfers", "how far an import is is not noted: {error}");
                Ok(())
            }
        }
    }
}

/// Writes a batch, until it is written: those of its items that cannot be, and why.
async fn write_batch(
    node: &Node,
    table: &Table,
    batch: &[Item],
) -> Result<Vec<(u64, String)>, Error> {
    match write_again(node, table, batch).await {
        Err(error) if error.kind == Kind::Validation && 1 < batch.len() => {}
        Err(error) if error.kind == Kind::Validation => {
            return Ok(batch.iter().map(|item| (item.line, error.message.clone())).collect());
        }
        made => return made.map(|()| Vec::new()),
    }
    // One of them is refused: which one is found by writing each alone.
    let mut refused = Vec::new();
    for item in batch {
        match write_again(node, table, std::slice::from_ref(item)).await {
            Err(error) if error.kind == Kind::Validation => {
                refused.push((item.line, error.message));
            }
            made => made?,
        }
    }
    Ok(refused)
}

/// Writes items, and again if that fails for a reason that may pass.
async fn write_again(node: &Node, table: &Table, items: &[Item]) -> Result<(), Error> {
    let (mut tries, mut pause) = (1, PAUSE);
    debug_assert!(items.iter().all(|item| 0 < item.bytes), "an item of no bytes");
    loop {
        let writes = items.iter().map(|item| (&item.write, item.moment));
        match batch::put(node, table, writes).await {
            Err(error) if error.kind != Kind::Validation && tries < TRIES_MAX => {
                tracing::debug!(target: "transfers", "items are written again: {error}");
                sleep(pause).await;
                (tries, pause) = (tries + 1, 2 * pause);
            }
            made => return made,
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    wall_micros().div_euclid(1000)
}
