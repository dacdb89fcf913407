//! What clients ask for: tables are filled by files.

use super::ends::{self, Work};
use super::files::{self, Lost};
use super::fill::{Source, now};
use super::format::Format;
use super::place::Place;
use super::record::{Counts, Record, Status, asked};
use super::records;
use super::told::described;
use super::unpack::Packing;
use crate::backups::new_id;
use crate::error::{self, Error};
use crate::kept::Kind;
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::tables::{self, Wanted};
use auth::{Permission, Resource};
use cluster::Cluster;
use runtime::group;
use std::path::PathBuf;

/// Imports that are under way at once; as many exports.
const AT_ONCE_MAX: usize = 50;
/// Files of an import.
const FILES_MAX: usize = 50_000;
/// How long a client's token means the same request, milliseconds.
const TOKEN_MILLIS: i64 = 8 * 3600 * 1000;

/// The folder of the buckets.
pub(super) fn folder(node: &Node) -> Result<PathBuf, Error> {
    node.transfers.clone().ok_or_else(|| {
        Error::validation(
            "There are no buckets on this node: the option alternator_transfer_directory names no \
             folder",
        )
    })
}

/// `ImportTable`
pub(crate) async fn import(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
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
        && let Some(known) = known(node, Kind::Import, (token, &asked)).await?
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
    start(record, Work::Fill(Source { files, format, packing }))?;
    Ok(answer)
}

/// Goes on by itself, if the client leaves, too.
pub(super) fn start(record: Record, work: Work) -> Result<(), Error> {
    let stops = || Error::internal("the node stops");
    let own = runtime::local::try_get::<Node>().ok_or_else(stops)?;
    let background = own.clone();
    drop(background.background.spawn_in(group::STREAMING, async move {
        ends::run(&own, record, work).await;
    }));
    Ok(())
}

/// Makes room for a record, and refuses it if there are too many of its kind.
pub(super) async fn make_room(node: &Node, kind: Kind) -> Result<(), Error> {
    node.cluster.formed().await;
    records::make_table(node).await?;
    let is_under_way = |record: &Record| record.status == Status::InProgress;
    let found = records::list(node, (kind, None), AT_ONCE_MAX, is_under_way).await?.0;
    match found.len() < AT_ONCE_MAX {
        true => Ok(()),
        false => Err(Error::new(
            error::Kind::LimitExceeded,
            format!("Too many {}s are under way: {AT_ONCE_MAX} at once at most", kind.name()),
        )),
    }
}

/// Writes an import down and makes its table: the record.
async fn begin(
    node: &Node,
    caller: &Caller,
    mut wanted: Wanted,
    (asked, token): (String, Option<String>),
) -> Result<Record, Error> {
    make_room(node, Kind::Import).await?;
    let started = now();
    let record = Record {
        kind: Kind::Import,
        id: new_id(started, runtime::random_u64()),
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
        && let Err(why) = records::forget(node, &record).await
    {
        // It is found to have failed when this node has started again.
        tracing::debug!(target: "transfers", "an import that is none is not forgotten: {why}");
    }
    made.map(|_| record)
}

/// What the same client has asked for before with the same token.
pub(super) async fn known(
    node: &Node,
    kind: Kind,
    (token, asked): (&str, &str),
) -> Result<Option<Record>, Error> {
    let since = now() - TOKEN_MILLIS;
    let is_it = |record: &Record| record.token.as_deref() == Some(token) && since < record.started;
    let (found, _) = records::list(node, (kind, None), 1, is_it).await?;
    let Some(found) = found.into_iter().next() else { return Ok(None) };
    let conflict = match kind {
        Kind::Export => error::Kind::ExportConflict,
        _ => error::Kind::ImportConflict,
    };
    match found.asked == asked {
        true => Ok(Some(found)),
        false => Err(Error::new(
            conflict,
            format!("The ClientToken was used before, for an {} of something else", kind.name()),
        )),
    }
}

pub(super) fn refused(lost: Lost, place: &Place) -> Error {
    match lost {
        Lost::NoBucket => {
            Error::validation(format!("The specified bucket does not exist: {}", place.bucket()))
        }
        Lost::NoFolder => {
            Error::validation("The specified key is none: where it says a folder something else is")
        }
        Lost::TooMany => Error::new(
            error::Kind::LimitExceeded,
            format!("Too many files: an import has {FILES_MAX} at most"),
        ),
        // Where folders of the node are is nobody's business.
        Lost::Io(error) => {
            tracing::warn!(target: "transfers", "files of a bucket cannot be found: {error}");
            Error::validation(format!("The bucket cannot be read: {}", place.bucket()))
        }
    }
}
