//! What the service has beside backups on demand, and is not here: recovery to a point in time.
//! Asked for by name, it says so in an error of its kind.

use super::operations::as_table_not_found;
use crate::error::{Error, Kind};
use crate::node::Node;
use crate::request::Request;
use crate::table::Table;

const DESCRIPTION: &str = "{\"ContinuousBackupsDescription\":\
                           {\"ContinuousBackupsStatus\":\"DISABLED\",\
                           \"PointInTimeRecoveryDescription\":\
                           {\"PointInTimeRecoveryStatus\":\"DISABLED\"}}}";

fn table(node: &Node, request: &Request<'_>, name: &str) -> Result<Table, Error> {
    node.any_table(&request.need_string(name)?).map_err(as_table_not_found)
}

/// `DescribeContinuousBackups`: there are none.
pub(crate) fn describe(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    table(node, &request, "TableName")?;
    Ok(DESCRIPTION.to_owned())
}

/// `UpdateContinuousBackups`: may be disabled, which they are.
pub(crate) fn update(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    let table = table(node, &request, "TableName")?;
    let said = "PointInTimeRecoverySpecification";
    let said = Request::of(request.need_object(said)?, said)?;
    match said.bool("PointInTimeRecoveryEnabled")? {
        Some(false) => Ok(DESCRIPTION.to_owned()),
        Some(true) => Err(Error::new(
            Kind::ContinuousBackupsUnavailable,
            format!(
                "Point in time recovery is not supported: it cannot be enabled for {}. \
                 CreateBackup makes backups on demand",
                table.name
            ),
        )),
        None => Err(Error::validation(
            "One or more parameter values were invalid: PointInTimeRecoveryEnabled is missing",
        )),
    }
}

fn unavailable(name: &str) -> Error {
    Error::new(
        Kind::PointInTimeRecoveryUnavailable,
        format!("Point in time recovery is not enabled for table '{name}'"),
    )
}

/// `RestoreTableToPointInTime`: there is no such point.
pub(crate) fn restore_to_point(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    request.need_string("TargetTableName")?;
    let name =
        if request.get("SourceTableName").is_some() { "SourceTableName" } else { "SourceTableArn" };
    Err(unavailable(&table(node, &request, name)?.name))
}
