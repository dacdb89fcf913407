//! `PRUNE MATERIALIZED VIEW`: deletes rows of a view that its base table does not have.
//!
//! Invariants
//!  - *seen-by-all*: a row is deleted only when all replicas of the base table have answered, and
//!    none has the row that it is of with the values that it is under. Which element of a
//!    collection a row is of is not compared.
//!  - *none-under-way*: the deletion is older than any write that may be under way when the row is
//!    looked at. So a row that comes back meanwhile stays, and one that was written within the last
//!    `write_request_timeout_in_ms` is for the next time.

use crate::error::CqlError;
use crate::parameters::Parameters;
use crate::request::Request;
use crate::response::{Response, Rows};
use crate::select;
use model::Token;
use model::key::{compose_partition_key, push_clustering};
use mutation::page::Partitions;
use plan::prune::PrunePlan;
use plan::term::{IfNull, integer};
use replication::coordinator::verify;
use replication::{Consistency, ReadOptions, WriteKind};
use runtime::task::join_all;
use stdx::{Cursor, Damaged};

/// Rows of a page of the view.
const PAGE_ROWS_MIN: i32 = 1_000;
/// Rows that are looked at together at most.
const CONCURRENCY_MAX: usize = 1_024;

/// Looks at all rows that the statement names.
pub(crate) async fn execute(plan: &PrunePlan, request: &Request<'_>) -> Result<Response, CqlError> {
    let concurrency = integer(&plan.concurrency, IfNull::Refused("concurrency"), &request.env())?;
    let concurrency = match concurrency {
        None => 1,
        Some(at_once) => usize::try_from(at_once)
            .ok()
            .filter(|at_once| 0 < *at_once)
            .ok_or_else(|| CqlError::invalid("CONCURRENCY must be strictly positive"))?
            .min(CONCURRENCY_MAX),
    };
    let page_size = request.parameters.page_size.unwrap_or(0).max(PAGE_ROWS_MIN);
    let mut state: Option<Vec<u8>> = None;
    loop {
        let parameters = Parameters {
            page_size: Some(page_size),
            paging_state: state.as_deref(),
            is_fetched: false,
            ..request.parameters.clone()
        };
        let of_page = Request { parameters: &parameters, ..*request };
        let page = Box::pin(select::execute(&plan.select, &of_page)).await?;
        let keys = keys(&page, plan.select.outputs.len())
            .map_err(|damaged| CqlError::Server(damaged.to_string()))?;
        for some in keys.chunks(concurrency) {
            let looks = some.iter().map(|key| look(plan, request, key));
            join_all(looks).await.into_iter().collect::<Result<(), CqlError>>()?;
            runtime::task::yield_if_needed().await;
        }
        state = page.paging_state;
        if state.is_none() {
            return Ok(Response::VOID);
        }
    }
}

/// The values of each row; none of them is null, for they are keys.
fn keys(page: &Rows, columns: usize) -> Result<Vec<Vec<&[u8]>>, Damaged> {
    let mut cursor = Cursor::new(&page.body);
    let mut rows = Vec::with_capacity(page.row_count as usize);
    for _ in 0..page.row_count {
        let row: Result<Vec<&[u8]>, Damaged> =
            (0..columns).map(|_| cursor.u32_bytes("column of a key")).collect();
        rows.push(row?);
    }
    Ok(rows)
}

/// Deletes the row of that key if the base does not have it.
async fn look(plan: &PrunePlan, request: &Request<'_>, key: &[&[u8]]) -> Result<(), CqlError> {
    let origin = plan.origins.of_row(key);
    let partitions = Partitions::Key(origin.key.clone());
    let options = request.read_options(&partitions);
    let options = ReadOptions { consistency: Consistency::All, ..options };
    if request.coordinator.has_origin(&plan.base, &plan.origins, &origin, &options).await? {
        return Ok(());
    }
    let view = &plan.select.table;
    let timeout = request.timeouts.write_request_timeout.get().0;
    let before = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
    let (partition, rows) = key.split_at(view.schema.partition_key_count.min(key.len()));
    let (mut composed, mut clustering) = (Vec::new(), Vec::new());
    compose_partition_key(partition.iter().copied(), &mut composed);
    rows.iter().for_each(|part| push_clustering(part, &mut clustering));
    let token = Token::of(&composed);
    let timestamp = request.now_micros.saturating_sub(before);
    let dead = verify::ghosts::deletion(&view.schema, &(composed, clustering), timestamp);
    let options = request.write_options(WriteKind::Simple);
    request.note(|| format!("Deleting a row of {} that its base lacks", view.schema.name));
    Ok(request.coordinator.write(view, token, dead, &options).await?)
}
