//! Recovery to points in time, as clients ask for it: enabled, told of, and tables made of it.
//!
//! What there is of it the table's schema says ([`crate::recovery`]): bases ([`bases`]) and the
//! history since each. A restore is one of a base, as of a backup, and then of the history up to
//! the point ([`super::history`]).

use super::bases;
use super::operations::{as_table_not_found, check_feature, make, take_for};
use super::record::{Record, time_of};
use super::request;
use crate::error::{Error, Kind};
use crate::json::Object;
use crate::node::{Caller, Node};
use crate::recovery::{Base, DAYS_MAX, Recovery};
use crate::request::Request;
use crate::restored::{self, Restored, seconds};
use crate::streams::{self, recovery_of};
use crate::table::{self, Table};
use crate::tables;
use crate::tags::{self, Tags};
use auth::Permission;
use cluster::TableEntry;
use model::TableSchema;
use runtime::time::wall_micros;
use std::rc::Rc;

fn now() -> i64 {
    wall_micros().div_euclid(1000)
}

fn table(node: &Node, given: &str) -> Result<Table, Error> {
    node.any_table(given).map_err(as_table_not_found)
}

/// `DescribeContinuousBackups`
pub(crate) async fn describe(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = table(node, &request.need_string("TableName")?)?;
    described(node, &table).await
}

async fn described(node: &Node, table: &Table) -> Result<String, Error> {
    let recovery = recovery_of(&table.entry.schema);
    let bases = match recovery {
        Some(_) => bases::of(node, table.entry.schema.id).await?,
        None => Vec::new(),
    };
    let bases: Vec<Base> = bases.iter().filter_map(Record::base).collect();
    Ok(told(recovery, &bases, now()))
}

/// What is told of the recovery of a table.
fn told(recovery: Option<Recovery>, bases: &[Base], now: i64) -> String {
    let status = if recovery.is_some() { "ENABLED" } else { "DISABLED" };
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let mut part = Object::open(object.member("ContinuousBackupsDescription"));
    part.string("ContinuousBackupsStatus", status);
    let mut point = Object::open(part.member("PointInTimeRecoveryDescription"));
    point.string("PointInTimeRecoveryStatus", status);
    if let Some(recovery) = recovery {
        point.json("RecoveryPeriodInDays", &recovery.days.to_string());
        if let Some((first, last)) = recovery.window(bases, now) {
            point.json("EarliestRestorableDateTime", &seconds(first));
            point.json("LatestRestorableDateTime", &seconds(last));
        }
    }
    point.close();
    part.close();
    object.close();
    out
}

/// What a request wants: the days of the period, if it says so; `None`: no recovery.
fn wanted(request: &Request<'_>) -> Result<Option<Option<u32>>, Error> {
    let name = "PointInTimeRecoverySpecification";
    let said = Request::of(request.need_object(name)?, name)?;
    let invalid =
        |why: &str| Error::validation(format!("One or more parameter values were invalid: {why}"));
    let is_enabled = said.bool("PointInTimeRecoveryEnabled")?;
    let is_enabled = is_enabled.ok_or_else(|| invalid("PointInTimeRecoveryEnabled is missing"))?;
    let days = said.integer("RecoveryPeriodInDays")?.map(|days| {
        let days = u32::try_from(days).ok().filter(|days| (1..=DAYS_MAX).contains(days));
        days.ok_or_else(|| {
            invalid(&format!("RecoveryPeriodInDays is to be between 1 and {DAYS_MAX}"))
        })
    });
    match (is_enabled, days.transpose()?) {
        (true, days) => Ok(Some(days)),
        (false, None) => Ok(None),
        (false, Some(_)) => Err(invalid("RecoveryPeriodInDays is of a recovery that is enabled")),
    }
}

/// The tags of a table after it.
fn change(tags: &mut Tags, wanted: Option<Option<u32>>, now: i64) {
    match (wanted, Recovery::of(tags)) {
        (None, _) => Recovery::remove(tags),
        (Some(days), None) => Recovery::new(now, days.unwrap_or(DAYS_MAX)).put(tags),
        (Some(None), Some(_)) => {}
        (Some(Some(days)), Some(before)) if days == before.days => {}
        (Some(Some(days)), Some(before)) => before.with_days(now, days).put(tags),
    }
}

/// `UpdateContinuousBackups`
pub(crate) async fn update(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let before = table(node, &request.need_string("TableName")?)?;
    let wanted = wanted(&request)?;
    before.writable()?;
    node.check(caller, Permission::Alter, &before)?;
    if wanted.is_some() && restored::state(&before.entry.schema).is_some() {
        return Err(Error::new(
            Kind::ContinuousBackupsUnavailable,
            format!("Table is being restored: {} cannot be backed up yet", before.name),
        ));
    }
    if wanted.is_some() {
        check_feature(node)?;
    }
    let was = recovery_of(&before.entry.schema);
    let how = move |schema: &mut TableSchema| {
        let mut tags = tags::of(schema);
        if recovery_of(schema).is_none() {
            Recovery::remove(&mut tags);
        }
        change(&mut tags, wanted, now());
        tags::set(&mut schema.options, &tags);
        streams::set_log(&mut schema.options, &tags);
        Ok(())
    };
    if wanted.is_some() || Recovery::of(&tags::of(&before.entry.schema)).is_some() {
        streams::change_logged(node, &before, how).await?;
    }
    let after = table(node, &before.name)?;
    match (was, wanted) {
        (None, Some(_)) => {
            take_for(&after).await;
        }
        (Some(_), None) if !is_source(node, &after) => streams::remove_log(node, &after).await?,
        _ => {}
    }
    described(node, &after).await
}

/// Whether the history of a table is being restored.
fn is_source(node: &Node, table: &Table) -> bool {
    let of = |entry: &Rc<TableEntry>| restored::under_way(&entry.schema);
    let is_it = |it: &Restored| it.point.is_some() && it.source == table.name;
    node.schema().tables().filter_map(of).any(|it| is_it(&it))
}

fn unavailable(name: &str) -> Error {
    Error::new(
        Kind::PointInTimeRecoveryUnavailable,
        format!("Point in time recovery is not enabled for table '{name}'"),
    )
}

fn invalid_time(why: String) -> Error {
    Error::new(Kind::InvalidRestoreTime, why)
}

/// The point that a request asks for, milliseconds; `None`: the latest.
fn point_of(request: &Request<'_>) -> Result<Option<i64>, Error> {
    let time = time_of(request, "RestoreDateTime")?;
    let is_latest = request.bool("UseLatestRestorableTime")?.unwrap_or(false);
    match (time, is_latest) {
        (Some(time), false) => Ok(Some(time)),
        (None, true) => Ok(None),
        _ => Err(Error::validation(
            "One or more parameter values were invalid: either RestoreDateTime or \
             UseLatestRestorableTime is needed, and not both",
        )),
    }
}

/// `RestoreTableToPointInTime`
pub(crate) async fn restore_to_point(
    node: &Node,
    caller: &Caller,
    body: &str,
) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let target = request.need_string("TargetTableName")?.into_owned();
    table::check_name(&target)?;
    let source = match (request.string("SourceTableName")?, request.string("SourceTableArn")?) {
        (Some(source), None) | (None, Some(source)) => source,
        _ => {
            return Err(Error::validation(
                "One or more parameter values were invalid: either SourceTableName or \
                 SourceTableArn is needed, and not both",
            ));
        }
    };
    let source = table(node, &source)?;
    source.writable()?;
    node.check(caller, Permission::Select, &source)?;
    let recovery = recovery_of(&source.entry.schema).ok_or_else(|| unavailable(&source.name))?;
    let asked = point_of(&request)?;
    let records = bases::of(node, source.entry.schema.id).await?;
    let known: Vec<Base> = records.iter().filter_map(Record::base).collect();
    let (at, name) = (now(), &source.name);
    let (first, last) = recovery.window(&known, at).ok_or_else(|| {
        invalid_time(format!("Table {name} cannot be restored yet: try again in a moment"))
    })?;
    let point = asked.unwrap_or(last);
    let base = recovery.base_of(&known, point, at).filter(|_| (first..=last).contains(&point));
    let base = base.and_then(|at| records.get(at)).ok_or_else(|| {
        let (first, last) = (seconds(first), seconds(last));
        invalid_time(format!(
            "RestoreDateTime {} is not between EarliestRestorableDateTime {first} and \
             LatestRestorableDateTime {last} of table {name}",
            seconds(point)
        ))
    })?;
    let description = tables::description(node, &source).await;
    let made = request::body(&target, &description, &request)?;
    let (backup, source) = (base.id.clone(), source.name.clone());
    let restored = Restored { backup, at, source, point: Some(point) };
    let made = make(node, caller, &made, restored).await?;
    made.ok_or_else(|| invalid_time(format!("{} can be restored no more", seconds(point))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::DAY_MILLIS;

    #[test]
    fn what_is_wanted_is_checked() {
        let check = |said: &str, expected: Result<Option<Option<u32>>, &str>| {
            let body = format!("{{\"PointInTimeRecoverySpecification\":{said}}}");
            let request = Request::parse(&body).expect("a request");
            match (wanted(&request), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{said}"),
                (Err(error), Err(words)) => assert!(error.message.contains(words), "{error}"),
                (found, _) => panic!("{said}: {found:?}"),
            }
        };
        check("{\"PointInTimeRecoveryEnabled\":false}", Ok(None));
        check("{\"PointInTimeRecoveryEnabled\":true}", Ok(Some(None)));
        let days = |days: &str| {
            format!("{{\"PointInTimeRecoveryEnabled\":true,\"RecoveryPeriodInDays\":{days}}}")
        };
        check(&days("1"), Ok(Some(Some(1))));
        check(&days("35"), Ok(Some(Some(35))));
        check(&days("0"), Err("between 1 and 35"));
        check(&days("36"), Err("between 1 and 35"));
        check("{}", Err("PointInTimeRecoveryEnabled is missing"));
        check(&days("3").replace("true", "false"), Err("of a recovery that is enabled"));
    }

    #[test]
    fn a_period_changes_and_the_recovery_goes_on() {
        let mut tags = Tags::new();
        change(&mut tags, None, 1);
        assert!(tags.is_empty());
        change(&mut tags, Some(None), 2);
        let told = |tags: &Tags| Recovery::of(tags).map(|it| (it.since, it.days));
        assert_eq!(told(&tags), Some((2, 35)));
        change(&mut tags, Some(Some(7)), 3);
        change(&mut tags, Some(None), 4);
        assert_eq!(told(&tags), Some((2, 7)));
        change(&mut tags, None, 5);
        change(&mut tags, Some(Some(3)), 6);
        assert_eq!(told(&tags), Some((6, 3)));
    }

    #[test]
    fn it_is_told_what_can_be_restored() {
        assert_eq!(
            told(None, &[], 5),
            "{\"ContinuousBackupsDescription\":{\"ContinuousBackupsStatus\":\"DISABLED\",\
             \"PointInTimeRecoveryDescription\":{\"PointInTimeRecoveryStatus\":\"DISABLED\"}}}"
        );
        let recovery = Recovery::new(DAY_MILLIS, 3);
        let none = told(Some(recovery), &[], 2 * DAY_MILLIS);
        assert!(none.contains("\"RecoveryPeriodInDays\":3}"), "{none}");
        let base = Base { begun: DAY_MILLIS, taken: DAY_MILLIS + 1 };
        let some = told(Some(recovery), &[base], 2 * DAY_MILLIS);
        let times = "\"EarliestRestorableDateTime\":86405.001,\
                     \"LatestRestorableDateTime\":172795.000}";
        assert!(some.contains(times), "{some}");
    }

    #[test]
    fn a_point_is_asked_for_by_its_time_or_as_the_latest() {
        let of = |body: &str| point_of(&Request::parse(body).expect("a request"));
        assert_eq!(of("{\"RestoreDateTime\":12.5}").ok(), Some(Some(12_500)));
        assert_eq!(of("{\"UseLatestRestorableTime\":true}").ok(), Some(None));
        for wrong in [
            "{}",
            "{\"UseLatestRestorableTime\":false}",
            "{\"RestoreDateTime\":1,\"UseLatestRestorableTime\":true}",
        ] {
            assert_eq!(of(wrong).map_err(|error| error.kind), Err(Kind::Validation), "{wrong}");
        }
    }
}
