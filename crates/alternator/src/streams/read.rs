//! Iterators and records.
//!
//! ```text
//! iterator := StreamArn "|" ShardId "|" sequence number      (of the first record to come)
//! ```

use super::history::{KEPT_MILLIS, Stream};
use super::record::{self, Set};
use super::sequence::Sequence;
use super::shards::{self, Shard};
use super::specify::log_of;
use super::{find, now_millis};
use crate::error::{Error, Kind};
use crate::json::{Object, write_list};
use crate::met::Op;
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::row::now_secs;
use crate::table::Table;
use auth::Permission;
use cluster::TableEntry;
use model::key::push_clustering;
use mutation::RowShape;
use mutation::page::{PageView, Partitions, ReadCommand, SendRange};
use runtime::time::wall_micros;
use std::rc::Rc;

const RECORDS_MAX: usize = 1000;
/// Rows of the log that are read at once.
const PAGE_ROWS: u64 = 1000;
/// Bytes of records after which an answer ends.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const NAMES: [&str; 4] = ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST"];

fn find_shard(node: &Node, (table, stream): (&Table, &Stream), name: &str) -> Result<Shard, Error> {
    let shards = shards::of(&node.cluster.streams(&table.entry), stream, now_millis());
    let found = shards.into_iter().find(|(known, _)| known == name);
    found.map(|(_, shard)| shard).ok_or_else(|| {
        let shown: String = name.chars().take(100).collect();
        let text = format!("Requested resource not found: Shard: {shown} is not in the stream");
        Error::new(Kind::ResourceNotFound, text)
    })
}

fn unfit(name: &str, value: &str, why: &str) -> Error {
    let shown: String = value.chars().take(100).collect();
    Error::validation(format!("{name}: '{shown}' {why}"))
}

/// `GetShardIterator`
pub(crate) fn iterator(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let arn = request.need_string("StreamArn")?;
    let (table, stream) = find(node, &arn)?;
    let kind = request.need_string("ShardIteratorType")?;
    if !NAMES.contains(&&*kind) {
        return Err(unfit("ShardIteratorType", &kind, &format!("is none of {}", NAMES.join(", "))));
    }
    let number = match request.string("SequenceNumber")? {
        None => None,
        Some(text) => Some(
            Sequence::parse(&text)
                .ok_or_else(|| unfit("SequenceNumber", &text, "is no sequence number"))?,
        ),
    };
    let name = request.need_string("ShardId")?;
    let shard = find_shard(node, (&table, &stream), &name)?;
    node.asked(caller, &table);
    let first = match (&*kind, number) {
        ("AT_SEQUENCE_NUMBER", Some(number)) => number,
        ("AFTER_SEQUENCE_NUMBER", Some(number)) => number.next(),
        ("TRIM_HORIZON", None) => shard.start,
        ("LATEST", None) => Sequence::at(wall_micros()),
        (_, Some(_)) => {
            return Err(Error::validation(format!(
                "SequenceNumber: an iterator of the type {kind} has none"
            )));
        }
        (_, None) => {
            return Err(Error::validation(format!(
                "SequenceNumber: an iterator of the type {kind} needs one"
            )));
        }
    };
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.string("ShardIterator", &text(&arn, &name, first.max(shard.start)));
    object.close();
    Ok(out)
}

fn text(arn: &str, shard: &str, first: Sequence) -> String {
    format!("{arn}|{shard}|{first}")
}

/// Records up to a limit, and where the next ones begin; nowhere: the shard is over.
struct Found {
    records: Vec<String>,
    bytes: usize,
    next: Option<Sequence>,
}

/// `GetRecords`
pub(crate) async fn records(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let limit = request.limit(RECORDS_MAX)?;
    let given = request.need_string("ShardIterator")?;
    let invalid = || unfit("ShardIterator", &given, "is no iterator: GetShardIterator has them");
    let (rest, first) = given.rsplit_once('|').ok_or_else(invalid)?;
    let (arn, name) = rest.rsplit_once('|').ok_or_else(invalid)?;
    let first = Sequence::parse(first).ok_or_else(invalid)?;
    let (table, stream) = find(node, arn)?;
    let shard = find_shard(node, (&table, &stream), name)?;
    let log = log_of(&node.schema(), &table.entry);
    let part = log.as_ref().map_or(&table.entry.schema, |log| &log.schema);
    node.check_part(caller, Permission::Select, (&table, part))?;
    let found = match log {
        Some(log) => {
            let ask = Ask { node, table: &table, stream: &stream, log: &log, shard: &shard };
            // *a-day*
            let oldest = Sequence::at((now_millis() - KEPT_MILLIS).saturating_mul(1000));
            ask.records(first.max(shard.start).max(oldest), limit).await?
        }
        // Somebody has dropped it.
        None => Found { records: Vec::new(), bytes: 0, next: None },
    };
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(&found.records, object.member("Records"), |record, out| out.push_str(record));
    if let Some(next) = found.next {
        object.string("NextShardIterator", &text(arn, name, next));
    }
    object.close();
    node.count(&table, |counted| {
        counted.returned_records(found.records.len());
        counted.sized(Op::GET_RECORDS, out.len());
    });
    Ok(out)
}

/// What is read.
struct Ask<'a> {
    node: &'a Node,
    table: &'a Table,
    stream: &'a Stream,
    log: &'a Rc<TableEntry>,
    shard: &'a Shard,
}

impl Ask<'_> {
    /// Up to which time records are shown now (*none-skipped*).
    fn until(&self) -> i64 {
        let window = self.node.options.streams_window();
        let shown = wall_micros().saturating_sub(window.as_micros() as i64);
        self.shard.end_micros.map_or(shown, |end| end.min(shown))
    }

    fn command(&self, first: Sequence, until: i64) -> ReadCommand {
        let position = |number: Sequence| {
            let mut prefix = Vec::new();
            push_clustering(number.uuid().as_bytes(), &mut prefix);
            (prefix, -1)
        };
        ReadCommand {
            table: self.log.schema.id,
            partitions: Partitions::Key(self.shard.id.stream.0.to_vec()),
            ranges: vec![SendRange { start: position(first), end: position(Sequence::at(until)) }],
            reversed: false,
            columns: record::columns(self.table, &self.log.schema),
            static_count: 0,
            row_limit: PAGE_ROWS,
            per_partition_limit: u64::MAX,
            partition_limit: u64::MAX,
            bytes_max: ANSWER_BYTES_MAX,
            static_only_rows: false,
            tombstone_limit: u64::MAX,
            now: now_secs(),
            bypass_cache: true,
            shape: RowShape::Whole,
            resume: None,
        }
    }

    async fn records(&self, first: Sequence, limit: usize) -> Result<Found, Error> {
        let until = self.until();
        let is_over = self.shard.end_micros == Some(until);
        let after = Sequence::at(until).max(first);
        let mut found = Found { records: Vec::new(), bytes: 0, next: (!is_over).then_some(after) };
        if until <= first.micros() {
            return Ok(found);
        }
        let mut command = self.command(first, until);
        let token = self.shard.id.stream.partition();
        let log = Table { entry: self.log.clone(), ..self.table.clone() };
        let mut set = None::<Set>;
        loop {
            let page = self.node.read(&log, token, &command, true).await?;
            for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
                for row in partition.rows() {
                    let schemas = (&*self.log.schema, &command.columns[..]);
                    let (uuid, row) = record::read(self.table, schemas, &row)?;
                    let open = set.take().filter(|set| set.uuid == uuid);
                    let mut open = open.unwrap_or_else(|| Set::new(uuid));
                    open.take(row);
                    match open.is_whole {
                        false => set = Some(open),
                        true if self.take(&open, (first, limit), &mut found) => return Ok(found),
                        true => {}
                    }
                }
            }
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => return Ok(found),
            }
        }
    }

    /// Takes the records of a set; whether these are enough.
    fn take(&self, set: &Set, (first, limit): (Sequence, usize), found: &mut Found) -> bool {
        let region = self.node.cluster.node().data_center.as_str();
        for (number, name, change) in set.records() {
            if number < first {
                continue;
            }
            let mut text = String::new();
            record::write((number, name, change), (self.stream.view, region), &mut text);
            found.bytes += text.len();
            found.records.push(text);
            if limit <= found.records.len() || ANSWER_BYTES_MAX <= found.bytes {
                found.next = Some(number.next());
                return true;
            }
        }
        false
    }
}
