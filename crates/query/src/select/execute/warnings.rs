//! What the client is warned of about a read, and the operator.

use super::{ALWAYS_ALLOWED_BYTES, natural};
use crate::request::Request;
use cluster::Restriction;
use plan::select::SelectPlan;

/// Said of queries that newer servers refuse.
const SCANS_UNASKED: &str =
    "This query should use ALLOW FILTERING and will be rejected in future versions.";

/// Warns the operator of large unpaged responses.
pub(super) fn warn_of_size(
    plan: &SelectPlan,
    request: &Request<'_>,
    bytes: usize,
    page_size: Option<u64>,
) {
    if bytes <= ALWAYS_ALLOWED_BYTES || page_size.is_some() {
        return;
    }
    let max = natural(&request.options.max_memory_for_unlimited_query_soft_limit);
    if max < bytes as u64 {
        let table = &plan.table.schema;
        tracing::warn!(
            target: "query",
            "Memory usage of unpaged query of {}.{} exceeds soft limit of {max} (configured via \
             max_memory_for_unlimited_query_soft_limit)",
            table.keyspace,
            table.name
        );
    }
}

/// Adds the warnings about a read for the client.
pub(super) fn warn(plan: &SelectPlan, request: &Request<'_>, tombstones_seen: u64) {
    let options = request.options;
    if plan.restrictions.scans_unasked
        && options.analysis.strict_allow_filtering.get() == Restriction::Warned
    {
        request.warn(SCANS_UNASKED);
    }
    if 0 < tombstones_seen && options.tombstone_warn_threshold.get() < tombstones_seen as i64 {
        let table = &plan.table.schema;
        let text = format!(
            "Read {tombstones_seen} tombstones and dead rows for a page of {}.{} (see \
             tombstone_warn_threshold)",
            table.keyspace, table.name
        );
        tracing::warn!(target: "query", "{text}");
        request.warn(text);
    }
}
