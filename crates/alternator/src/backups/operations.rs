//! What clients ask for: backups are made, told of and removed, tables made of them.

use super::bases;
use super::drive::{self, Released};
use super::record::{Filter, Record, Status, check_name, not_found, parts_of_arn, time_of};
use super::records;
use super::request;
use crate::error::{Error, Kind};
use crate::json::{Object, write_list};
use crate::kept::Kind as KeptAs;
use crate::node::{Caller, Node, changed};
use crate::request::Request;
use crate::restored::{self, Restored};
use crate::table::{self, Table, name_of};
use crate::table_facts::{arn, arn_of};
use crate::tables;
use auth::{Permission, Resource};
use cluster::{Schema, SchemaChange, features};
use runtime::time::timeout;
use std::rc::Rc;
use std::time::Duration;

/// Backups that are being made at once, and tables that are being restored.
const AT_ONCE_MAX: usize = 50;
/// Backups that are listed at once.
const LISTED_MAX: usize = 100;
/// So long an answer waits for what goes on by itself.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The error of a table that is not there, as operations on backups have it.
pub(crate) fn as_table_not_found(error: Error) -> Error {
    match error.kind {
        Kind::ResourceNotFound => Error::new(Kind::TableNotFound, error.message),
        _ => error,
    }
}

/// `CreateBackup`
pub(crate) async fn create(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let given = request.need_string("TableName")?;
    let name = request.need_string("BackupName")?.into_owned();
    check_name(&name)?;
    let table = node.any_table(&given).map_err(as_table_not_found)?;
    table.writable()?;
    node.check(caller, Permission::Select, &table)?;
    if restored::state(&table.entry.schema).is_some() {
        return Err(Error::new(
            Kind::TableInUse,
            format!("Table is being restored: {} cannot be backed up yet", table.name),
        ));
    }
    check_feature(node)?;
    node.cluster.formed().await;
    records::make_table(node).await?;
    let is_new = |record: &Record| record.status == Status::Creating;
    let of_all = (KeptAs::Backup, None);
    if records::list(node, of_all, AT_ONCE_MAX, is_new).await?.0.len() == AT_ONCE_MAX {
        return Err(Error::new(
            Kind::LimitExceeded,
            format!("Too many backups are being created: {AT_ONCE_MAX} at once at most"),
        ));
    }
    let record = drive::begin(node, &table, (KeptAs::Backup, name)).await?;
    let record = take(record).await?;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    record.write_details(&arn(node, &table), record.status, &mut object);
    object.close();
    Ok(out)
}

/// Makes the first base of a table, for as long as a client waits for that.
pub(super) async fn take_for(table: &Table) {
    let Some(node) = runtime::local::try_get::<Node>() else { return };
    let (own, table) = (node.clone(), table.clone());
    let made = node.background.spawn(async move {
        if let Err(why) = bases::make(&own, &table).await {
            let name = &table.name;
            tracing::warn!(target: "backups", "the first base of {name} is made later: {why}");
        }
    });
    if timeout(ANSWER_WAIT, made).await.is_err() {
        tracing::debug!(target: "backups", "the first base is not waited for");
    }
}

/// Has the parts of a backup taken, which goes on if the client leaves: as it is when that is over,
/// or when the client has waited for long.
async fn take(record: Record) -> Result<Record, Error> {
    let stops = || Error::internal("the node stops");
    let node = runtime::local::try_get::<Node>().ok_or_else(stops)?;
    let (own, taken) = (node.clone(), record.clone());
    let task = node.background.spawn(async move { drive::take(&own, taken).await });
    match timeout(ANSWER_WAIT, task).await {
        Ok(taken) => taken.unwrap_or_else(|_| Err(stops())),
        Err(_) => Ok(record),
    }
}

pub(super) fn check_feature(node: &Node) -> Result<(), Error> {
    match node.cluster.topology().allows(features::BACKUPS) {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "Not all nodes of the cluster can make backups ({}): upgrade them first",
            features::BACKUPS
        ))),
    }
}

/// The backup of a request's `BackupArn`, and the ARN.
async fn found(node: &Node, request: &Request<'_>) -> Result<(Record, String), Error> {
    let given = request.need_string("BackupArn")?.into_owned();
    let (table, id) = parts_of_arn(&given)?;
    let record = records::find(node, (KeptAs::Backup, id)).await?;
    let is_it = |record: &Record| record.table == table && record.status != Status::Deleting;
    let record = record.filter(is_it).ok_or_else(|| not_found(&given))?;
    Ok((record, given))
}

/// `DescribeBackup`
pub(crate) async fn describe(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let (record, _) = found(node, &request).await?;
    Ok(described(node, &record, record.status))
}

fn described(node: &Node, record: &Record, status: Status) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let table = arn_of(node, &record.table);
    record.write_description(&table, status, object.member("BackupDescription"));
    object.close();
    out
}

/// `ListBackups`
pub(crate) async fn list(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let limit = request.limit(LISTED_MAX)?;
    let table = request.string("TableName")?.map(|given| name_of(&given).to_owned());
    table.as_deref().map(table::check_name).transpose()?;
    let kinds = &["ALL", "USER", "SYSTEM", "AWS_BACKUP"];
    // All that there are were asked for by somebody.
    let is_ours = matches!(request.word("BackupType", kinds)?, "ALL" | "USER");
    let (from, until) = ("TimeRangeLowerBound", "TimeRangeUpperBound");
    let filter = Filter { table, from: time_of(&request, from)?, until: time_of(&request, until)? };
    let start = request.string("ExclusiveStartBackupArn")?;
    let start = start.as_deref().map(parts_of_arn).transpose()?.map(|(_, id)| id);
    let (records, more) = match is_ours {
        true => {
            let start = (KeptAs::Backup, start);
            records::list(node, start, limit, |record| filter.admits(record)).await?
        }
        false => (Vec::new(), false),
    };
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(&records, object.member("BackupSummaries"), |record, out| {
        record.write_summary(&arn_of(node, &record.table), out);
    });
    if let (true, Some(last)) = (more, records.last()) {
        object.string("LastEvaluatedBackupArn", &last.arn(&arn_of(node, &last.table)));
    }
    object.close();
    Ok(out)
}

fn in_use(arn: &str, why: &str) -> Error {
    Error::new(Kind::BackupInUse, format!("Backup is {why}: {arn}"))
}

/// Whether the caller may do that with what was a backup's table, which may be gone.
fn check(
    node: &Node,
    caller: &Caller,
    permission: Permission,
    record: &Record,
) -> Result<(), Error> {
    match (&caller.role, &caller.watched) {
        (None, None) => Ok(()),
        _ => node.check_on(caller, permission, Resource::table(&record.keyspace(), &record.table)),
    }
}

/// `DeleteBackup`
pub(crate) async fn delete(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let (record, arn) = found(node, &request).await?;
    check(node, caller, Permission::Drop, &record)?;
    if record.status == Status::Creating {
        return Err(in_use(&arn, "being created"));
    }
    let deleting = match drive::release(node, &record).await? {
        Released::Yes(deleting) => *deleting,
        Released::InUse => return Err(in_use(&arn, "being restored to a table")),
        Released::Gone => return Err(not_found(&arn)),
    };
    let stops = || Error::internal("the node stops");
    let own = runtime::local::try_get::<Node>().ok_or_else(stops)?;
    let answer = described(node, &record, Status::Deleting);
    let background = own.clone();
    drop(background.background.spawn(async move { drive::remove(&own, deleting).await }));
    Ok(answer)
}

/// `RestoreTableFromBackup`
pub(crate) async fn restore(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let target = request.need_string("TargetTableName")?.into_owned();
    table::check_name(&target)?;
    let (record, arn) = found(node, &request).await?;
    check(node, caller, Permission::Select, &record)?;
    if record.status == Status::Creating {
        return Err(in_use(&arn, "being created"));
    }
    let at = runtime::time::wall_micros().div_euclid(1000);
    let (backup, source) = (record.id.clone(), record.table.clone());
    let restored = Restored { backup, at, source, point: None };
    let made = request::body(&target, &record.description, &request)?;
    let made = make(node, caller, &made, restored).await?;
    made.ok_or_else(|| not_found(&arn))
}

/// Makes a table that is to be filled: its description. `None`: what it was to be made of is gone.
pub(super) async fn make(
    node: &Node,
    caller: &Caller,
    body: &str,
    restored: Restored,
) -> Result<Option<String>, Error> {
    check_feature(node)?;
    let mut wanted = tables::wanted(&Request::parse(body)?)?;
    let schema = node.schema();
    let is_under_way = |entry: &&Rc<_>| restored::under_way(&table_schema(entry)).is_some();
    if AT_ONCE_MAX <= schema.tables().filter(is_under_way).count() {
        return Err(Error::new(
            Kind::LimitExceeded,
            format!("Too many tables are being restored: {AT_ONCE_MAX} at once at most"),
        ));
    }
    let (kind, id) = (drive::kind_of(&restored), restored.backup.clone());
    wanted.restored = Some(restored);
    let table = tables::make(node, caller, wanted).await?;
    // *in-use-stays*: who removes it from now on sees the table; who began before is seen here.
    let still = records::find(node, (kind, &id)).await;
    if !matches!(&still, Ok(Some(still)) if still.status == Status::Available) {
        unmake(node, &table).await?;
        return still.map(|_| None);
    }
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.json("TableDescription", &tables::description(node, &table).await);
    object.close();
    Ok(Some(out))
}

fn table_schema(entry: &Rc<cluster::TableEntry>) -> Rc<model::TableSchema> {
    entry.schema.clone()
}

/// Takes back a table that was to be restored.
async fn unmake(node: &Node, table: &Table) -> Result<(), Error> {
    let (keyspace, id) = (table.entry.schema.keyspace.clone(), table.entry.schema.id);
    let change = move |schema: &Schema| {
        let is_there = schema.table_by_id(id).is_some();
        let drop = SchemaChange::DropKeyspace(keyspace.clone());
        Ok::<_, Error>(is_there.then_some(drop).into_iter().collect())
    };
    changed(node.cluster.change_schema(change).await).map(|_| ())
}
