//! Writes to virtual tables: they change options of the node.

use super::build::{Existing, Write, add_to};
use crate::error::CqlError;
use crate::request::Request;
use crate::response::Response;
use cluster::Cluster;
use mutation::MutationBuilder;
use plan::modify::ModifyPlan;
use plan::restrictions::Keys;
use replication::WriteKind;

/// Executes a write of `keys` of a virtual table. What the table does not allow is a failure of
/// the write, as clients of ScyllaDB know it.
pub(super) async fn execute(
    plan: &ModifyPlan,
    request: &Request<'_>,
    keys: Keys,
    timestamp: i64,
) -> Result<Response, CqlError> {
    if plan.needs_owner() {
        return Err(refused(request, "this virtual table doesn't allow conditional updates"));
    }
    let schema = &plan.table.schema;
    let write = request.step(|_| Write::of(plan, request, timestamp)).await?;
    let keys = match keys {
        Keys::One(key) => vec![key],
        Keys::Many(keys) => keys.into_iter().map(|(_, key)| key).collect(),
    };
    for key in keys {
        let build = || {
            let mut builder = MutationBuilder::new(schema, &key);
            add_to(&mut builder, plan, &write, &Existing::default())?;
            Ok::<_, CqlError>(builder.freeze())
        };
        let mutation = request.step(|_| build()).await?;
        let cluster = runtime::local::get::<Cluster>();
        let written = cluster.write_virtual(schema, &mutation).await;
        written.map_err(|reason| refused(request, &reason))?;
    }
    Ok(Response::VOID)
}

/// The write has failed on the only node that could do it.
pub(crate) fn refused(request: &Request<'_>, reason: &str) -> CqlError {
    CqlError::WriteFailure {
        consistency: request.parameters.consistency,
        received: 0,
        required: 1,
        failures: 1,
        kind: WriteKind::Simple,
        reason: reason.to_owned(),
    }
}
