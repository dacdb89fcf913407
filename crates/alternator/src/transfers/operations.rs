//! What clients ask for: tables are filled by files, and imports told of.

use super::ends;
use super::files::{self, Lost};
use super::fill::{Source, now};
use super::format::Format;
use super::place::Place;
use super::record::{Counts, Record, Status, asked, next_token, not_found, parts_of_arn, start_of};
use super::records;
use super::unpack::Packing;
use crate::error::{Error, Kind};
use crate::json::{Object, write_list};
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::restored;
use crate::table::name_of;
use crate::table_facts::arn_of;
use crate::tables::{self, Wanted};
use auth::{Permission, Resource};
use cluster::Cluster;
use runtime::group;
use std::path::PathBuf;

/// Imports that are under way at once.
const AT_ONCE_MAX: usize = 50;
/// Files of an import.
const FILES_MAX: usize = 50_000;
/// Imports that are listed at once.
const LISTED_MAX: i64 = 25;
/// How long a client's token means the same request, milliseconds.
const TOKEN_MILLIS: i64 = 8 * 3600 * 1000;

/// The folder of the buckets.
fn folder(node: &Node) -> Result<PathBuf, Error> {
    node.transfers.clone().ok_or_else(|| {
        Error::validation(
            "There are no buckets on this node: the option alternator_transfer_directory names no \
             folder",
        )
    })
}

/// `ImportTable`
pub(crate) async fn import(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    let bucket = Request::of(request.need_object("S3BucketSource")?, "S3BucketSource")?;
    let prefix = bucket.string("S3KeyPrefix")?.unwrap_or_default();
    let place = Place::of(&bucket.need_string("S3Bucket")?, &prefix)?;
    let format = Format::of(&request)?;
    let packing = Packing::by_name(request.word("InputCompressionType", Packing::NAMES)?);
    let parameters = request.need_object("TableCreationParameters")?;
    let wanted = tables::wanted(&Request::of(parameters, "TableCreationParameters")?)?;
    let token = request.string("ClientToken")?.map(|token| token.into_owned());
    node.check_on(caller, Permission::Create, Resource::AllKeyspaces)?;
    let folder = folder(node)?;
    let asked = asked(body)?;
    if let Some(token) = &token
        && let Some(known) = known(node, token, &asked).await?
    {
        return Ok(described(node, &known));
    }
    let found = files::find(&folder, &place, FILES_MAX).await;
    let files = found.map_err(|lost| refused(lost, &place))?;
    if files.is_empty() {
        return Err(Error::validation(format!(
            "The specified key does not exist: the bucket {} has no files that begin with \
             '{prefix}'",
            place.bucket()
        )));
    }
    let record = begin(node, caller, wanted, (asked, token)).await?;
    let answer = described(node, &record);
    let stops = || Error::internal("the node stops");
    let own = runtime::local::try_get::<Node>().ok_or_else(stops)?;
    let source = Source { files, format, packing };
    let background = own.clone();
    // It goes on if the client leaves.
    drop(background.background.spawn_in(group::STREAMING, async move {
        ends::run(&own, record, source).await;
    }));
    Ok(answer)
}

/// Writes an import down and makes its table: the record.
async fn begin(
    node: &Node,
    caller: &Caller,
    mut wanted: Wanted,
    (asked, token): (String, Option<String>),
) -> Result<Record, Error> {
    node.cluster.formed().await;
    records::make_table(node).await?;
    let is_under_way = |record: &Record| record.status == Status::InProgress;
    if records::list(node, None, AT_ONCE_MAX, is_under_way).await?.0.len() == AT_ONCE_MAX {
        return Err(Error::new(
            Kind::LimitExceeded,
            format!("Too many imports are under way: {AT_ONCE_MAX} at once at most"),
        ));
    }
    let started = now();
    let record = Record {
        id: format!("{started:014}-{:08x}", runtime::random_u64() as u32),
        status: Status::InProgress,
        started,
        by: node.cluster.node().host_id,
        ended: None,
        table: wanted.name().to_owned(),
        table_id: Cluster::new_table_id(),
        asked,
        token,
        counts: Counts::default(),
        failure: None,
    };
    if !records::begin(node, &record).await? {
        return Err(Error::internal("two imports of one id"));
    }
    wanted.import = Some((record.id.clone(), record.table_id));
    let made = tables::make(node, caller, wanted).await;
    if made.is_err()
        && let Err(why) = records::forget(node, &record.id, Status::InProgress).await
    {
        // It is found to have failed when this node has started again.
        tracing::debug!(target: "imports", "an import that is none is not forgotten: {why}");
    }
    made.map(|_| record)
}

/// The import that the same client has asked for before with the same token.
async fn known(node: &Node, token: &str, asked: &str) -> Result<Option<Record>, Error> {
    let since = now() - TOKEN_MILLIS;
    let is_it = |record: &Record| record.token.as_deref() == Some(token) && since < record.started;
    let (found, _) = records::list(node, None, 1, is_it).await?;
    let Some(found) = found.into_iter().next() else { return Ok(None) };
    match found.asked == asked {
        true => Ok(Some(found)),
        false => Err(Error::new(
            Kind::ImportConflict,
            "The ClientToken was used before, for an import with other parameters",
        )),
    }
}

fn refused(lost: Lost, place: &Place) -> Error {
    match lost {
        Lost::NoBucket => {
            Error::validation(format!("The specified bucket does not exist: {}", place.bucket()))
        }
        Lost::TooMany => Error::new(
            Kind::LimitExceeded,
            format!("Too many files: an import has {FILES_MAX} at most"),
        ),
        // Where folders of the node are is nobody's business.
        Lost::Io(error) => {
            tracing::warn!(target: "imports", "files of an import cannot be found: {error}");
            Error::validation(format!("The bucket cannot be read: {}", place.bucket()))
        }
    }
}

/// A record as it is told: one is completed when its table may be used.
fn shown(node: &Node, record: &Record) -> Record {
    let schema = node.schema();
    let entry = schema.table_by_id(record.table_id);
    let waits = entry.is_some_and(|entry| restored::import_under_way(&entry.schema).is_some());
    match record.status {
        Status::Completed if waits => {
            Record { status: Status::InProgress, ended: None, ..record.clone() }
        }
        _ => record.clone(),
    }
}

fn described(node: &Node, record: &Record) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let table = arn_of(node, &record.table);
    let told = shown(node, record);
    told.write_description(&table, object.member("ImportTableDescription"));
    object.close();
    out
}

/// `DescribeImport`
pub(crate) async fn describe_import(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    let given = request.need_string("ImportArn")?;
    let (table, id) = parts_of_arn(&given)?;
    let record = records::find(node, id).await?.filter(|record| record.table == table);
    record.map(|record| described(node, &record)).ok_or_else(|| not_found(&given))
}

/// `ListImports`
pub(crate) async fn list_imports(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    let table = request.string("TableArn")?.map(|given| name_of(&given).to_owned());
    let size = request.integer("PageSize")?.unwrap_or(LISTED_MAX);
    if !(1..=LISTED_MAX).contains(&size) {
        return Err(Error::validation(format!(
            "1 validation error detected: Value '{size}' at 'pageSize' failed to satisfy \
             constraint: Member must be between 1 and {LISTED_MAX}"
        )));
    }
    let token = request.string("NextToken")?;
    let start = token.as_deref().map(start_of).transpose()?;
    let is_of = |record: &Record| table.as_ref().is_none_or(|table| *table == record.table);
    let (records, more) = records::list(node, start, size as usize, is_of).await?;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(&records, object.member("ImportSummaryList"), |record, out| {
        shown(node, record).write_summary(&arn_of(node, &record.table), out);
    });
    if let (true, Some(last)) = (more, records.last()) {
        object.string("NextToken", &next_token(&last.id));
    }
    object.close();
    Ok(out)
}
