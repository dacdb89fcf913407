//! From the name of an operation to what does it.

use crate::around;
use crate::audit;
use crate::backups;
use crate::batch;
use crate::error::{Error, Kind};
use crate::items;
use crate::json::Object;
use crate::kept;
use crate::level;
use crate::met::{NOT_ON_STREAMS, OPERATIONS, Op};
use crate::node::{Caller, Node};
use crate::partiql;
use crate::query;
use crate::streams;
use crate::tables;
use crate::tag_operations;
use crate::traced;
use crate::transact;
use crate::transfers;
use crate::ttl;
use crate::write::Operation;
use runtime::time::Instant;

/// What the header `X-Amz-Target` begins with.
const TARGET: &str = "DynamoDB_20120810.";
/// The same of operations on streams.
const STREAMS_TARGET: &str = "DynamoDBStreams_20120810.";

fn operation(target: &str) -> Option<Op> {
    let (others, of_streams) = OPERATIONS.split_at(NOT_ON_STREAMS);
    // They are in order of their names.
    let place = |names: &[&str], name: &str| names.binary_search(&name).ok();
    match target.strip_prefix(TARGET) {
        Some(name) => place(others, name).map(Op::at),
        None => {
            let name = target.strip_prefix(STREAMS_TARGET)?;
            Some(Op::at(NOT_ON_STREAMS + place(of_streams, name)?))
        }
    }
}

/// The body of the answer. `target`: the header `X-Amz-Target`; `host`: the header `Host`.
pub(crate) async fn answer(
    node: &Node,
    caller: &Caller,
    (target, host): (&str, &str),
    body: &str,
) -> Result<String, Error> {
    let Some(operation) = operation(target) else {
        node.met.add(&node.met.unsupported);
        let shown: String = target.chars().take(100).collect();
        let text = format!("Unsupported operation {shown}");
        return Err(Error::new(Kind::UnknownOperation, text));
    };
    let began = Instant::now();
    let name = operation.name();
    let role = caller.role.as_ref();
    if let Some(trace) = traced::Request::begin(&node.processor, caller.client, role, name) {
        let set = caller.trace.set(Box::new(trace));
        debug_assert!(set.is_ok(), "a caller has one request");
    }
    let answer = named(node, caller, (name, host), body);
    let answer = match caller.limit {
        None => answer.await,
        Some(limit) => Box::pin(level::limited(limit, name, answer)).await,
    };
    node.met.ended(operation, began.elapsed(), &caller.asked.take());
    audit::note(node, caller, (name, body), answer.is_err());
    if let Some(trace) = caller.trace.get() {
        trace.tell(&node.processor, || match &answer {
            Ok(answer) => format!("Answered with {} bytes", answer.len()),
            Err(error) => format!("Refused: {error}"),
        });
        trace.end(&node.processor, (name, body), node.options.traced_bytes_max());
    }
    answer
}

async fn named(
    node: &Node,
    caller: &Caller,
    (name, host): (&str, &str),
    body: &str,
) -> Result<String, Error> {
    match name {
        "PutItem" => items::write(node, caller, Operation::Put, body).await,
        "DeleteItem" => items::write(node, caller, Operation::Delete, body).await,
        "UpdateItem" => items::write(node, caller, Operation::Update, body).await,
        "GetItem" => items::get(node, caller, body).await,
        // What is asked for most often should not be as large as what takes the most.
        _ => Box::pin(other(node, caller, (name, host), body)).await,
    }
}

async fn other(
    node: &Node,
    caller: &Caller,
    (name, host): (&str, &str),
    body: &str,
) -> Result<String, Error> {
    match name {
        "BatchGetItem" => batch::get(node, caller, body).await,
        "BatchWriteItem" => batch::write(node, caller, body).await,
        "Query" => query::query(node, caller, body).await,
        "Scan" => query::scan(node, caller, body).await,
        "CreateTable" => tables::create(node, caller, body).await,
        "DeleteTable" => tables::delete(node, caller, body).await,
        "UpdateTable" => tables::update(node, caller, body).await,
        "TransactWriteItems" => transact::write(node, caller, body).await,
        "TransactGetItems" => transact::get(node, caller, body).await,
        "BatchExecuteStatement" => partiql::batch_execute_statement(node, caller, body).await,
        "ExecuteTransaction" => partiql::execute_transaction(node, caller, body).await,
        "ExecuteStatement" => partiql::execute_statement(node, caller, body).await,
        "DescribeTimeToLive" => ttl::describe(node, body),
        "UpdateTimeToLive" => ttl::update(node, caller, body).await,
        "ListStreams" => streams::list(node, caller, body),
        "DescribeStream" => streams::describe(node, caller, body),
        "GetShardIterator" => streams::iterator(node, caller, body),
        "GetRecords" => streams::records(node, caller, body).await,
        "DescribeTable" => tables::describe_one(node, caller, body).await,
        "ListTables" => tables::list(node, caller, body),
        "TagResource" => tag_operations::tag(node, caller, body).await,
        "UntagResource" => tag_operations::untag(node, caller, body).await,
        "ListTagsOfResource" => tag_operations::list(node, caller, body),
        "DescribeLimits" => around::limits(body),
        "DescribeContributorInsights" => around::describe_insights(node, body),
        "UpdateContributorInsights" => around::update_insights(node, caller, body),
        "ListContributorInsights" => around::list_insights(node, body),
        "DescribeKinesisStreamingDestination" => around::describe_kinesis(node, body),
        "DescribeTableReplicaAutoScaling" => around::describe_scaling(node, body),
        "ListGlobalTables" => around::list_global(body),
        "DescribeGlobalTable" | "DescribeGlobalTableSettings" => around::describe_global(body),
        "GetResourcePolicy" => around::policy(node, body),
        "DescribeEndpoints" => endpoints(node, host),
        "CreateBackup" => backups::create(node, caller, body).await,
        "DescribeBackup" => backups::describe(node, caller, body).await,
        "ListBackups" => backups::list(node, caller, body).await,
        "DeleteBackup" => backups::delete(node, caller, body).await,
        "RestoreTableFromBackup" => backups::restore(node, caller, body).await,
        "DescribeContinuousBackups" => backups::describe_continuous(node, body).await,
        "UpdateContinuousBackups" => backups::update_continuous(node, caller, body).await,
        "RestoreTableToPointInTime" => backups::restore_to_point(node, caller, body).await,
        "ExportTableToPointInTime" => transfers::export(node, caller, body).await,
        "DescribeExport" => transfers::describe(node, kept::Kind::Export, body).await,
        "ListExports" => transfers::list(node, kept::Kind::Export, body).await,
        "ImportTable" => transfers::import(node, caller, body).await,
        "DescribeImport" => transfers::describe(node, kept::Kind::Import, body).await,
        "ListImports" => transfers::list(node, kept::Kind::Import, body).await,
        other => Err(Error::internal(format!("{other} is an operation that nobody does"))),
    }
}

/// `DescribeEndpoints`: the address that the client has come by, unless the operator says another.
fn endpoints(node: &Node, host: &str) -> Result<String, Error> {
    let said = node.options.describe_endpoints.get();
    let address = match &*said {
        "" => host,
        "disabled" => {
            return Err(Error::new(Kind::UnknownOperation, "DescribeEndpoints is disabled"));
        }
        said => said,
    };
    let mut out = String::from("{\"Endpoints\":[");
    let mut object = Object::open(&mut out);
    object.string("Address", address).json("CachePeriodInMinutes", "1440");
    object.close();
    out.push_str("]}");
    Ok(out)
}
