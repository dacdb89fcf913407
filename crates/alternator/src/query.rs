//! `Query` and `Scan`: pages of items.
//!
//! Invariants
//!  - *scanned-bounded*: a page looks at `Limit` items at most, and ends after about a megabyte of
//!    them, whatever the filter lets through.
//!  - *deleted-bounded*: a page ends at a key that it came to after `query_tombstone_page_limit`
//!    deleted rows, too, so that many of them do not keep a client waiting.
//!  - *resume-after-last*: the key that a page ends with is that of the last item that it looked
//!    at, or of the last that is deleted.

use crate::capacity::Capacity;
use crate::error::Error;
use crate::expression::Selection;
use crate::filter::{Filter, condition_of, selection_of};
use crate::json::{Json, Object};
use crate::key::{Key, component};
use crate::key_condition::{self, KeyCondition};
use crate::node::{Caller, Node};
use crate::paths;
use crate::request::Request;
use crate::row::{Row, command};
use crate::table::Table;
use crate::traced;
use crate::value::{Map, attributes, write_attributes};
use auth::Permission;
use model::Token;
use model::key::{clustering_components, push_clustering};
use mutation::page::{PageView, Partitions, ReadCommand, Resume, RingBound, SendRange};

/// Bytes of items after which a page ends.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Rows of a page of the table that are turned into JSON before others may have the shard.
const ROWS_PER_STEP: usize = 64;
/// Of an answer beside its items, where no key is long.
const ANSWER_BYTES: usize = 256;
/// Of an item in JSON beside what it is in a page: names of its key, types, what stands between.
const ITEM_BYTES: usize = 64;
const SEGMENTS_MAX: i64 = 1_000_000;
const HASH: model::ColumnKind = model::ColumnKind::PartitionKey;

/// A page as it is asked for.
pub(crate) struct Ask {
    /// The table, or the index.
    pub(crate) table: Table,
    /// What the index shows of its items; `None`: all.
    pub(crate) projected: Option<Selection>,
    /// The table of the index.
    pub(crate) base: Table,
    pub(crate) token: Token,
    pub(crate) command: ReadCommand,
    /// Partitions that are read after that of the command, the last one first.
    pub(crate) later: Vec<Vec<u8>>,
    pub(crate) filter: Filter,
    pub(crate) limit: u64,
    pub(crate) consistent: bool,
    pub(crate) counts_only: bool,
    pub(crate) capacity: Capacity,
}

impl Ask {
    /// Goes on to the next partition, if there is one.
    fn advance(&mut self) -> bool {
        let Some(partition) = self.later.pop() else { return false };
        self.token = Token::of(&partition);
        self.command.partitions = Partitions::Key(partition);
        self.command.resume = None;
        true
    }
}

/// A page as it was read.
pub(crate) struct Page {
    /// Items as JSON, with what is between them.
    pub(crate) items: String,
    count: u64,
    scanned: u64,
    /// The key of the last item that was looked at, if there may be more after it.
    pub(crate) last: Option<Map>,
    /// Half units.
    pub(crate) halves: usize,
}

/// `Query`
pub(crate) async fn query(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let base = node.table(&request.need_string("TableName")?)?;
    let table = source(node, &request, &base)?;
    request.check_styles(&["KeyConditions"], &["KeyConditionExpression"])?;
    let old = ["QueryFilter", "ConditionalOperator", "AttributesToGet"];
    let new = ["KeyConditionExpression", "FilterExpression", "ProjectionExpression"];
    request.check_styles(&old, &new)?;
    let known = request.placeholders(&node.programs)?;
    let condition = match request.string("KeyConditionExpression")? {
        Some(text) => key_condition::of_expression(&text, &table, &known)?,
        None => key_condition::of_old(request.object("KeyConditions")?, &table)?,
    };
    let filter = Filter {
        condition: condition_of(&request, "FilterExpression", "QueryFilter", &known)?,
        selection: selection_of(&request, &known)?,
        columns: None,
    };
    known.check_used()?;
    check_paths(&base, &table, &filter, true)?;
    key_condition::refuse_keys_in_filter(filter.condition.as_ref(), &table)?;
    let KeyCondition { partition, ranges } = condition;
    let token = Token::of(&partition);
    let start = request.object("ExclusiveStartKey")?;
    let start = start.map(|json| start_key(json, &table)).transpose()?;
    if let Some(start) = &start {
        check_start(start, &table, (&partition, &ranges))?;
    }
    let mut command = command(&table, Partitions::Key(partition), ranges);
    command.reversed = !request.bool("ScanIndexForward")?.unwrap_or(true);
    command.resume = start.map(|key| resume_after(key, command.reversed));
    let ask = ask(&request, (base, table), token, command, filter)?;
    node.check_part(caller, Permission::Select, (&ask.base, &ask.table.entry.schema))?;
    let nothing = ask.command.ranges.is_empty();
    run((node, caller), ask, nothing).await
}

/// A query goes on only after what it may have shown.
fn check_start(
    start: &Key,
    table: &Table,
    (partition, ranges): (&[u8], &[SendRange]),
) -> Result<(), Error> {
    let outside = |what: &str| {
        Err(Error::validation(format!(
            "The provided starting key is outside query boundaries based on provided conditions: \
             it does not match the {what}"
        )))
    };
    if start.partition != partition {
        return outside("hash key");
    }
    if start.clustering.is_empty() {
        return Err(Error::validation(
            "The provided exclusive start key is invalid: ExclusiveStartKey of a query that can \
             have one item at most",
        ));
    }
    let order = &table.entry.schema.order;
    let is_in = |range: &SendRange| range.range().contains(order, (&start.clustering, 0));
    match ranges.iter().any(is_in) || ranges.is_empty() {
        true => Ok(()),
        false => outside("conditions of the range key"),
    }
}

/// `Scan`
pub(crate) async fn scan(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let base = node.table(&request.need_string("TableName")?)?;
    let table = source(node, &request, &base)?;
    let old = ["ScanFilter", "ConditionalOperator", "AttributesToGet"];
    request.check_styles(&old, &["FilterExpression", "ProjectionExpression"])?;
    let known = request.placeholders(&node.programs)?;
    let filter = Filter {
        condition: condition_of(&request, "FilterExpression", "ScanFilter", &known)?,
        selection: selection_of(&request, &known)?,
        columns: None,
    };
    known.check_used()?;
    check_paths(&base, &table, &filter, false)?;
    let (first, last) = segment(&request)?;
    let start = request.object("ExclusiveStartKey")?;
    let start = start.map(|json| start_key(json, &table)).transpose()?;
    if let Some(start) = &start
        && !(first..=last).contains(&start.token())
    {
        return Err(Error::validation(
            "The provided starting key is outside of the segment: Exclusive start key must lie \
             within the segment",
        ));
    }
    let bound = |token, after| RingBound { token, key: None, after };
    let partitions = Partitions::Range { start: bound(first, false), end: bound(last, true) };
    let mut command = command(&table, partitions, vec![SendRange::full()]);
    command.static_only_rows = table.attributes.is_none();
    command.resume = start.map(|key| resume_after(key, false));
    let ask = ask(&request, (base, table), Token::MIN, command, filter)?;
    node.check_part(caller, Permission::Select, (&ask.base, &ask.table.entry.schema))?;
    run((node, caller), ask, false).await
}

/// What is read: the table, or an index of it.
fn source(node: &Node, request: &Request<'_>, table: &Table) -> Result<Table, Error> {
    let Some(name) = request.string("IndexName")? else { return Ok(table.clone()) };
    let found = table.index(&node.schema(), &name)?;
    let is_global = found.index.as_ref().is_some_and(|index| !index.is_local);
    match is_global && request.bool("ConsistentRead")?.unwrap_or(false) {
        false => Ok(found),
        true => Err(Error::validation(format!(
            "Consistent reads are not supported on global secondary indexes: ConsistentRead of \
             {name}"
        ))),
    }
}

/// What filter and projection may name. A scan's filter finds nothing where the index has nothing.
fn check_paths(base: &Table, table: &Table, filter: &Filter, is_query: bool) -> Result<(), Error> {
    paths::check_read(base, filter.selection.as_ref(), filter.condition.as_ref())?;
    match &table.index {
        Some(index) if is_query && let Some(shown) = index.selection(&table.entry.schema) => {
            paths::check_projected(&index.name, &shown, filter.condition.as_ref())
        }
        _ => Ok(()),
    }
}

/// What is shown of the items of an index.
pub(crate) fn projected(
    table: &Table,
    select: &str,
    wanted: Option<&Selection>,
) -> Result<Option<Selection>, Error> {
    let Some(index) = &table.index else { return Ok(None) };
    let Some(shown) = index.selection(&table.entry.schema) else { return Ok(None) };
    // Of a local index all attributes can be had, as the service fetches them from the table.
    match (index.is_local, select, wanted) {
        (true, "ALL_ATTRIBUTES", _) | (true, _, Some(_)) => Ok(None),
        (false, "ALL_ATTRIBUTES", _) => Err(Error::validation(format!(
            "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not \
             supported for global secondary index {} because its projection type is not ALL",
            index.name
        ))),
        (false, _, Some(Selection::Names(names)))
            if let Some(name) = names.keys().find(|name| !shown.has(name)) =>
        {
            Err(Error::validation(format!(
                "One or more parameter values were invalid: Global secondary index {} does not \
                 project [{name}]",
                index.name
            )))
        }
        _ => Ok(Some(shown)),
    }
}

/// What both have.
fn ask(
    request: &Request<'_>,
    (base, table): (Table, Table),
    token: Token,
    command: ReadCommand,
    filter: Filter,
) -> Result<Ask, Error> {
    let limit = match request.integer("Limit")? {
        None => u64::MAX,
        Some(limit @ 1..=0x7fff_ffff) => limit as u64,
        Some(limit) => {
            return Err(Error::validation(format!(
                "1 validation error detected: Value '{limit}' at 'limit' failed to satisfy \
                 constraint: Limit must be greater than or equal to 1"
            )));
        }
    };
    let selects_part = filter.selection.is_some();
    let words = &["", "ALL_ATTRIBUTES", "COUNT", "SPECIFIC_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"];
    let select = request.word("Select", words)?;
    let both = "AttributesToGet or ProjectionExpression";
    match select {
        "ALL_PROJECTED_ATTRIBUTES" if table.index.is_none() => Err(Error::validation(
            "One or more parameter values were invalid: Select type ALL_PROJECTED_ATTRIBUTES is \
             supported only when using an index: it needs IndexName",
        )),
        "SPECIFIC_ATTRIBUTES" if !selects_part => Err(Error::validation(format!(
            "Must specify the {both} when choosing to get SPECIFIC_ATTRIBUTES"
        ))),
        "ALL_ATTRIBUTES" | "ALL_PROJECTED_ATTRIBUTES" | "COUNT" if selects_part => Err(
            Error::validation(format!("Cannot specify the {both} when choosing to get {select}")),
        ),
        _ => Ok(()),
    }?;
    let projected = projected(&table, select, filter.selection.as_ref())?;
    Ok(Ask {
        table,
        projected,
        base,
        token,
        command,
        later: Vec::new(),
        filter,
        limit,
        consistent: request.bool("ConsistentRead")?.unwrap_or(false),
        counts_only: select == "COUNT",
        capacity: Capacity::of(request)?,
    })
}

pub(crate) fn start_key(json: Json<'_>, table: &Table) -> Result<Key, Error> {
    let wrong = |error: Error| {
        let start = "The provided starting key is invalid";
        Error { message: format!("{start}: {} (ExclusiveStartKey)", error.message), ..error }
    };
    let given = attributes(json)?;
    if let Some(name) = given.keys().find(|name| !is_key_column(table, name)) {
        return Err(wrong(Error::validation(format!(
            "The provided key element does not match the schema: {name} is not part of the key"
        ))));
    }
    if table.attributes.is_some() && table.index.is_none() {
        return Key::of_key(table, &given).map_err(wrong);
    }
    start_key_of_cql(table, &given).map_err(wrong)
}

fn is_key_column(table: &Table, name: &str) -> bool {
    table.attributes.is_none() || table.key_columns().iter().any(|column| column.name == name)
}

/// A table of CQL may have several columns of each kind; an index has its keys and the table's.
fn start_key_of_cql(table: &Table, given: &Map) -> Result<Key, Error> {
    let schema = &table.entry.schema;
    let bytes = |column: &model::Column| {
        let missing = || Error::validation(format!("The key {} is missing", column.name));
        let value = given.get(&column.name).ok_or_else(missing)?;
        match table.index {
            None => component(column, value),
            // The table's hash key may be longer than a range key, which it is here.
            Some(_) => component(&model::Column { kind: HASH, ..column.clone() }, value),
        }
    };
    let parts = schema.partition_key().iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    let (mut partition, mut clustering) = (Vec::new(), Vec::new());
    model::key::compose_partition_key(parts.iter().map(Vec::as_slice), &mut partition);
    for column in schema.clustering() {
        push_clustering(&bytes(column)?, &mut clustering);
    }
    Ok(Key { partition, clustering })
}

/// *resume-after-last*
pub(crate) fn resume_after(key: Key, reversed: bool) -> Resume {
    let weight = if reversed { -1 } else { 1 };
    let after = (!key.clustering.is_empty()).then_some((key.clustering, weight));
    Resume { key: key.partition, after, rows_in_partition: 0 }
}

/// The tokens of a segment.
fn segment(request: &Request<'_>) -> Result<(Token, Token), Error> {
    let (segment, total) = (request.integer("Segment")?, request.integer("TotalSegments")?);
    let (segment, total) = match (segment, total) {
        (None, None) => return Ok((Token::MIN, Token::MAX)),
        (Some(segment), Some(total)) => (segment, total),
        (None, Some(_)) => {
            return Err(Error::validation(
                "The Segment parameter is required but was not present in the request when \
                 parameter TotalSegments is present",
            ));
        }
        (Some(_), None) => {
            return Err(Error::validation(
                "The TotalSegments parameter is required but was not present in the request when \
                 Segment parameter is present",
            ));
        }
    };
    if !(1..=SEGMENTS_MAX).contains(&total) || segment < 0 {
        return Err(Error::validation(format!(
            "1 validation error detected: Segment and TotalSegments: {segment} of {total} failed \
             to satisfy constraint: TotalSegments is between 1 and {SEGMENTS_MAX}"
        )));
    }
    if total <= segment {
        return Err(Error::validation(format!(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: \
             Segment: {segment} is not less than TotalSegments: {total}"
        )));
    }
    let begin =
        |segment: i64| ((i128::from(segment) << 64) / i128::from(total)) + i128::from(i64::MIN);
    let (first, next) = (begin(segment), begin(segment + 1));
    Ok((Token(first as i64), Token((next - 1) as i64)))
}

/// How far a page is.
#[derive(Default)]
struct Progress {
    items: String,
    count: u64,
    scanned: u64,
    bytes: usize,
    tombstones: u64,
    last: Option<(Vec<u8>, Vec<u8>)>,
}

async fn run(
    (node, caller): (&Node, &Caller),
    mut ask: Ask,
    nothing: bool,
) -> Result<String, Error> {
    let page = read((node, caller), &mut ask, nothing).await?;
    let Page { items, count, scanned, last, halves } = page;
    let mut out = String::with_capacity(items.len() + ANSWER_BYTES);
    let mut object = Object::open(&mut out);
    if !ask.counts_only {
        let out = object.member("Items");
        out.push('[');
        out.push_str(&items);
        out.push(']');
    }
    object.json("Count", &count.to_string()).json("ScannedCount", &scanned.to_string());
    if let Some(key) = last {
        write_attributes(&key, object.member("LastEvaluatedKey"));
    }
    ask.capacity.write(&mut object, &ask.table.name, halves);
    object.close();
    Ok(out)
}

/// A page. `nothing`: no row of the first partition is wanted.
pub(crate) async fn read(
    (node, caller): (&Node, &Caller),
    ask: &mut Ask,
    nothing: bool,
) -> Result<Page, Error> {
    let mut progress = Progress::default();
    let mut more = !nothing || ask.advance();
    let tombstones_max = node.processor.options().query_tombstone_page_limit.get().max(1) as u64;
    ask.command.tombstone_limit = tombstones_max;
    while more {
        let left = ask.limit - progress.scanned;
        ask.command.row_limit = left;
        ask.command.bytes_max = PAGE_BYTES_MAX - progress.bytes.min(PAGE_BYTES_MAX - 1);
        caller.tell(node, || traced::READING.to_owned());
        let page = node.read(&ask.table, ask.token, &ask.command, ask.consistent).await?;
        caller.tell_page(node, &page);
        take(ask, &page.bytes, &mut progress).await?;
        more = page.resume.is_some();
        ask.command.resume = page.resume;
        progress.tombstones += page.tombstones_seen;
        if tombstones_max <= progress.tombstones
            && let Some(key) = ask.command.resume.as_ref().and_then(|at| key_before(ask, at))
        {
            progress.last = Some(key);
            break;
        }
        let is_full = progress.scanned == ask.limit || PAGE_BYTES_MAX <= progress.bytes;
        if is_full && progress.last.is_some() {
            more |= !ask.later.is_empty();
            break;
        }
        more = more || ask.advance();
    }
    let Progress { items, count, scanned, bytes, last, .. } = progress;
    // A key without a range key has one item: a query for it is at its end.
    let is_only = matches!(ask.command.partitions, Partitions::Key(_))
        && ask.table.entry.schema.clustering_count == 0
        && ask.later.is_empty();
    let last = last
        .filter(|_| more && !is_only)
        .map(|(partition, clustering)| Key { partition, clustering }.attributes(&ask.table));
    let halves = Capacity::of_read(bytes, ask.consistent);
    node.count(&ask.base, |counted| {
        counted.read(halves);
        if !ask.counts_only {
            counted.returned(count);
        }
    });
    Ok(Page { items, count, scanned, last: last.transpose()?, halves })
}

/// The key that ends just where a read goes on, if there is one. *deleted-bounded*
fn key_before(ask: &Ask, resume: &Resume) -> Option<(Vec<u8>, Vec<u8>)> {
    let count = ask.table.entry.schema.clustering_count;
    let Some((prefix, weight)) = &resume.after else {
        return (count == 0).then(|| (resume.key.clone(), Vec::new()));
    };
    let behind = if ask.command.reversed { -1 } else { 1 };
    let is_whole = *weight == behind && clustering_components(prefix).count() == count;
    is_whole.then(|| (resume.key.clone(), prefix.clone()))
}

/// Takes the rows of a page of the table.
async fn take(ask: &Ask, page: &[u8], progress: &mut Progress) -> Result<(), Error> {
    let view = PageView::trusted(page, ask.command.layout());
    let mut last: Option<(&[u8], &[u8])> = None;
    if !ask.counts_only && ask.filter.condition.is_none() {
        let of_rows = view.partitions().map(|partition| {
            let row_bytes = ITEM_BYTES + partition.key().len();
            partition.row_count() * row_bytes
        });
        progress.items.reserve(page.len() + of_rows.sum::<usize>());
    }
    for partition in view.partitions() {
        for (at, row) in partition.rows().enumerate() {
            if at % ROWS_PER_STEP == ROWS_PER_STEP - 1 {
                runtime::task::yield_if_needed().await;
            }
            let found = Row::new(&ask.table, &partition, &row);
            progress.scanned += 1;
            progress.bytes += found.size();
            last = Some((partition.key(), row.clustering()));
            add(ask, &found, progress)?;
        }
    }
    if let Some((partition, clustering)) = last {
        progress.last = Some((partition.to_vec(), clustering.to_vec()));
    }
    Ok(())
}

fn add(ask: &Ask, row: &Row<'_>, progress: &mut Progress) -> Result<(), Error> {
    let Filter { condition, selection, columns } = &ask.filter;
    let is_shaped = selection.is_some() || columns.is_some();
    let is_plain = condition.is_none() && !is_shaped && ask.projected.is_none();
    let item = match &ask.projected {
        _ if is_plain => Map::new(),
        None => row.item()?,
        Some(shown) => shown.of_item(&row.item()?),
    };
    if !ask.filter.admits(&item)? {
        return Ok(());
    }
    progress.count += 1;
    if ask.counts_only {
        return Ok(());
    }
    if !progress.items.is_empty() {
        progress.items.push(',');
    }
    match (selection, columns) {
        _ if is_plain => row.write(&mut progress.items)?,
        (None, None) => write_attributes(&item, &mut progress.items),
        (Some(selection), _) => write_attributes(&selection.of_item(&item), &mut progress.items),
        (None, Some(columns)) => write_attributes(&columns.of_item(&item), &mut progress.items),
    }
    Ok(())
}
