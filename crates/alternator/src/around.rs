//! What the service has around its tables and is not here, told as it is: tools ask for it when
//! they start, and when they look at a table.
//!
//! Invariants
//!  - *told-truly*: what is not there is told to be off, or of nothing; who wants it on is refused.

use crate::error::{Error, Kind};
use crate::json::Object;
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::table::Table;
use crate::throughput::UNITS_MAX;
use auth::Permission;

/// A flat object that is an answer.
fn answer(fill: impl FnOnce(&mut Object<'_>)) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    fill(&mut object);
    object.close();
    out
}

/// The table of a request.
fn table(node: &Node, request: &Request<'_>) -> Result<Table, Error> {
    node.any_table(&request.need_string("TableName")?)
}

/// `DescribeLimits`: what may be provisioned; nothing is held to it.
pub(crate) fn limits(body: &str) -> Result<String, Error> {
    Request::parse(body)?;
    let most = UNITS_MAX.to_string();
    let names = ["AccountMaxRead", "AccountMaxWrite", "TableMaxRead", "TableMaxWrite"];
    Ok(answer(|object| {
        for name in names {
            object.json(&format!("{name}CapacityUnits"), &most);
        }
    }))
}

/// The table and the index of a request about insights, told as they are.
fn insights(node: &Node, request: &Request<'_>) -> Result<(Table, String), Error> {
    let table = table(node, request)?;
    let index = request.string("IndexName")?;
    if let Some(name) = &index {
        let found = table.index(&node.schema(), name);
        found.map_err(|error| Error::new(Kind::ResourceNotFound, error.message))?;
    }
    let told = answer(|object| {
        object.string("TableName", &table.name);
        if let Some(name) = &index {
            object.string("IndexName", name);
        }
        object.string("ContributorInsightsStatus", "DISABLED");
    });
    Ok((table, told))
}

/// `DescribeContributorInsights`
pub(crate) fn describe_insights(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    insights(node, &request).map(|(_, told)| told)
}

/// `UpdateContributorInsights`: they may be disabled, which they are.
pub(crate) fn update_insights(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let (table, told) = insights(node, &request)?;
    request.need("ContributorInsightsAction")?;
    let action = request.word("ContributorInsightsAction", &["ENABLE", "DISABLE"])?;
    table.writable()?;
    node.check(caller, Permission::Alter, &table)?;
    match action {
        "DISABLE" => Ok(told),
        _ => Err(Error::validation(format!(
            "ContributorInsightsAction: contributor insights of {} cannot be enabled: they are \
             not supported. nodetool toppartitions tells which keys are asked for most",
            table.name
        ))),
    }
}

/// `ListContributorInsights`: of no table.
pub(crate) fn list_insights(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    if let Some(name) = request.string("TableName")? {
        node.any_table(&name)?;
    }
    Ok(answer(|object| {
        object.json("ContributorInsightsSummaries", "[]");
    }))
}

/// `DescribeKinesisStreamingDestination`: nothing is sent to any.
pub(crate) fn describe_kinesis(node: &Node, body: &str) -> Result<String, Error> {
    let table = table(node, &Request::parse(body)?)?;
    Ok(answer(|object| {
        object.string("TableName", &table.name).json("KinesisDataStreamDestinations", "[]");
    }))
}

/// `DescribeTableReplicaAutoScaling`: nothing is scaled, and no region has a replica.
pub(crate) fn describe_scaling(node: &Node, body: &str) -> Result<String, Error> {
    let table = table(node, &Request::parse(body)?)?;
    Ok(answer(|object| {
        let mut told = Object::open(object.member("TableAutoScalingDescription"));
        told.string("TableName", &table.name).string("TableStatus", "ACTIVE");
        told.json("Replicas", "[]");
        told.close();
    }))
}

/// `ListGlobalTables`: there is none.
pub(crate) fn list_global(body: &str) -> Result<String, Error> {
    Request::parse(body)?;
    Ok(answer(|object| {
        object.json("GlobalTables", "[]");
    }))
}

/// `DescribeGlobalTable`, `DescribeGlobalTableSettings`: there is none of any name.
pub(crate) fn describe_global(body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let name = request.need_string("GlobalTableName")?;
    let text = format!("Global table not found: Global table with name: '{name}' does not exist.");
    Err(Error::new(Kind::GlobalTableNotFound, text))
}

/// `GetResourcePolicy`: no table has one.
pub(crate) fn policy(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.any_table(&request.need_string("ResourceArn")?)?;
    let text = format!(
        "Resource-based policy not found for the provided ResourceArn: {} has none; GRANT says who \
         may use it",
        table.name
    );
    Err(Error::new(Kind::PolicyNotFound, text))
}
