//! Which streams there are, and their shards.

use super::history::{self, Stream};
use super::sequence::Sequence;
use super::shards::{self, Shard, ShardId};
use super::{arn, find, now_millis, parts};
use crate::error::Error;
use crate::index::write_keys;
use crate::json::{Object, write_list};
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::table::Table;
use crate::tags;

/// Streams or shards that are listed at once.
const LISTED_MAX: i64 = 100;

fn limit(request: &Request<'_>) -> Result<usize, Error> {
    match request.integer("Limit")? {
        None => Ok(LISTED_MAX as usize),
        Some(limit) if limit < 1 => Err(Error::validation(format!(
            "1 validation error detected: Value '{limit}' at 'limit' failed to satisfy \
             constraint: Limit must be greater than or equal to 1"
        ))),
        Some(limit) => Ok(limit.min(LISTED_MAX) as usize),
    }
}

/// `ListStreams`: in order of tables and times, so that who pages sees each one once, whatever
/// comes and goes meanwhile.
pub(crate) fn list(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let limit = limit(&request)?;
    let start = request.string("ExclusiveStartStreamArn")?;
    let start = start.as_deref().map(parts).transpose()?;
    let schema = node.schema();
    let mut tables: Vec<Table> = match request.string("TableName")? {
        Some(name) => vec![node.table(&name)?],
        None => schema.tables().filter_map(|entry| Table::of(&schema, entry)).collect(),
    };
    tables.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let streams = tables.iter().flat_map(|table| {
        let streams = history::of(&tags::of(&table.entry.schema));
        streams.into_iter().map(move |stream| (table, stream))
    });
    let is_later = |table: &Table, stream: &Stream| {
        start.is_none_or(|start| start < (table.name.as_str(), stream.label().as_str()))
    };
    let mut found: Vec<_> = streams.filter(|(table, stream)| is_later(table, stream)).collect();
    let has_more = limit < found.len();
    found.truncate(limit);
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(&found, object.member("Streams"), |(table, stream), out| {
        let mut part = Object::open(out);
        part.string("StreamArn", &arn(node, table, stream)).string("TableName", &table.name);
        part.string("StreamLabel", &stream.label());
        part.close();
    });
    if let (true, Some((table, stream))) = (has_more, found.last()) {
        object.string("LastEvaluatedStreamArn", &arn(node, table, stream));
    }
    object.close();
    Ok(out)
}

/// Appends what the description of a table says of its streams.
pub(crate) fn write_latest(node: &Node, table: &Table, object: &mut Object<'_>) {
    let streams = history::of(&tags::of(&table.entry.schema));
    let Some(latest) = streams.last() else { return };
    object.string("LatestStreamArn", &arn(node, table, latest));
    object.string("LatestStreamLabel", &latest.label());
    if latest.closed.is_none() {
        let mut part = Object::open(object.member("StreamSpecification"));
        part.json("StreamEnabled", "true").string("StreamViewType", latest.view.name());
        part.close();
    }
}

/// The shard whose children are asked for.
fn parent(request: &Request<'_>) -> Result<Option<ShardId>, Error> {
    let Some(json) = request.object("ShardFilter")? else { return Ok(None) };
    let filter = Request::of(json, "ShardFilter")?;
    let kind = filter.need_string("Type")?;
    if kind != "CHILD_SHARDS" {
        return Err(Error::validation(format!(
            "1 validation error detected: Value '{kind}' at 'ShardFilter.Type' failed to satisfy \
             constraint: Member must satisfy enum value set: [CHILD_SHARDS]"
        )));
    }
    let id = filter.need_string("ShardId")?;
    ShardId::parse(&id).map(Some).ok_or_else(|| {
        Error::validation(format!("ShardFilter.ShardId: '{id}' is no name of a shard"))
    })
}

/// `DescribeStream`
pub(crate) fn describe(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let (table, stream) = find(node, &request.need_string("StreamArn")?)?;
    let limit = limit(&request)?;
    let start = request.string("ExclusiveStartShardId")?;
    let parent = parent(&request)?;
    node.asked(caller, &table);
    let mut shards = shards::of(&node.cluster.streams(&table.entry), &stream, now_millis());
    shards.retain(|(name, shard)| {
        let is_child = parent.is_none_or(|parent| shard.parent == Some(parent));
        is_child && start.as_deref().is_none_or(|start| start < name.as_str())
    });
    let has_more = limit < shards.len();
    shards.truncate(limit);
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let mut part = Object::open(object.member("StreamDescription"));
    part.string("StreamArn", &arn(node, &table, &stream)).string("TableName", &table.name);
    part.string("StreamLabel", &stream.label()).string("StreamViewType", stream.view.name());
    part.string("StreamStatus", if stream.closed.is_some() { "DISABLED" } else { "ENABLED" });
    let created = stream.created;
    let seconds = format!("{}.{:03}", created.div_euclid(1000), created.rem_euclid(1000));
    part.json("CreationRequestDateTime", &seconds);
    write_keys(table.key_columns(), part.member("KeySchema"));
    write_list(&shards, part.member("Shards"), |(name, shard), out| write(name, shard, out));
    if let (true, Some((name, _))) = (has_more, shards.last()) {
        part.string("LastEvaluatedShardId", name);
    }
    part.close();
    object.close();
    Ok(out)
}

fn write(name: &str, shard: &Shard, out: &mut String) {
    let mut part = Object::open(out);
    part.string("ShardId", name);
    if let Some(parent) = shard.parent {
        part.string("ParentShardId", &parent.text());
    }
    let mut range = Object::open(part.member("SequenceNumberRange"));
    range.string("StartingSequenceNumber", &shard.start.to_string());
    if let Some(end) = shard.end_micros {
        range.string("EndingSequenceNumber", &Sequence::at(end).to_string());
    }
    range.close();
    part.close();
}
