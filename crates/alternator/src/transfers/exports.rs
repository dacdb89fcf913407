//! What clients ask for: items of tables become files.

use super::dump::Target;
use super::ends::Work;
use super::files::{Lost, enter, enter_or_make};
use super::fill::now;
use super::operations::{folder, known, make_room, refused, start};
use super::place::{EXPORTS, Place, folder_of_prefix, key_of_export};
use super::record::{Counts, Record, Status, asked};
use super::records;
use super::told::described;
use crate::backups::{as_table_not_found, new_id, time_of};
use crate::error::{self, Error};
use crate::kept::Kind;
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::table_facts::arn;
use auth::Permission;
use runtime::io::{IoError, fs};
use std::path::{Path, PathBuf};

/// A time that is so near, milliseconds, is the present: clocks differ.
const PRESENT_MILLIS: i64 = 60_000;

/// `ExportTableToPointInTime`
pub(crate) async fn export(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let bucket = request.need_string("S3Bucket")?;
    let prefix = request.string("S3Prefix")?.filter(|prefix| !prefix.is_empty());
    let place = Place::of(&bucket, &folder_of_prefix(prefix.as_deref()))?;
    let given = request.need_string("TableArn")?;
    let table = node.any_table(&given).map_err(as_table_not_found)?;
    table.writable()?;
    node.check(caller, Permission::Select, &table)?;
    let table = node.settled_table(&given)?;
    check_what(&request, &table.name)?;
    let folder = folder(node)?;
    let (asked, token) = (asked(body)?, request.string("ClientToken")?);
    if let Some(token) = &token
        && let Some(known) = known(node, Kind::Export, (token, &asked)).await?
    {
        return Ok(described(node, &known));
    }
    make_room(node, Kind::Export).await?;
    let started = now();
    let record = Record {
        kind: Kind::Export,
        id: new_id(started, runtime::random_u64()),
        status: Status::InProgress,
        started,
        by: node.cluster.node().host_id,
        ended: None,
        table: table.name.clone(),
        table_id: table.entry.schema.id,
        asked,
        token: token.map(|token| token.into_owned()),
        counts: Counts::default(),
        failure: None,
    };
    let made = make_folder(&folder, &place, &record.id).await;
    let folder = made.map_err(|lost| refused(lost, &place))?;
    let table_arn = arn(node, &table);
    let target = Target {
        folder,
        bucket: bucket.into_owned(),
        key: key_of_export(prefix.as_deref(), &record.id),
        prefix: prefix.map(|prefix| prefix.into_owned()),
        arn: record.arn(&table_arn),
        table_arn,
    };
    if !records::begin(node, &record).await? {
        return Err(Error::internal("two exports of one id"));
    }
    let answer = described(node, &record);
    start(record, Work::Dump(target))?;
    Ok(answer)
}

/// Refuses what is not there: other formats, and another time than the present.
fn check_what(request: &Request<'_>, table: &str) -> Result<(), Error> {
    if request.word("ExportFormat", &["DYNAMODB_JSON", "ION"])? == "ION" {
        return Err(Error::validation("ExportFormat ION is not supported: DYNAMODB_JSON is"));
    }
    if request.word("ExportType", &["FULL_EXPORT", "INCREMENTAL_EXPORT"])? != "FULL_EXPORT" {
        return Err(Error::new(
            error::Kind::PointInTimeRecoveryUnavailable,
            format!(
                "Point in time recovery is not enabled for table '{table}': only the present can \
                 be exported, by FULL_EXPORT"
            ),
        ));
    }
    match time_of(request, "ExportTime")? {
        Some(time) if PRESENT_MILLIS < time.abs_diff(now()) as i64 => Err(Error::new(
            error::Kind::InvalidExportTime,
            "The specified ExportTime is not the present: nothing else can be exported",
        )),
        _ => Ok(()),
    }
}

/// The folder of an export, with what says that it has begun.
async fn make_folder(root: &Path, place: &Place, id: &str) -> Result<PathBuf, Lost> {
    let mut dir = root.to_path_buf();
    if !enter(&mut dir, place.bucket()).await? {
        return Err(Lost::NoBucket);
    }
    for folder in place.folders().chain([EXPORTS, id]) {
        if !enter_or_make(&mut dir, folder).await? {
            return Err(Lost::NoFolder);
        }
    }
    fs::create_dir_all(dir.join("data")).await?;
    fs::write_file_atomic(dir.join("_started"), b"").await?;
    Ok::<_, IoError>(dir).map_err(Lost::from)
}
