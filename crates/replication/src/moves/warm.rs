//! What clients asked for where a tablet comes from is read into the cache of the node that gets
//! it, before they are sent there. Else each of them would wait for the disk at first, all at once.
//!
//! ```text
//! MOVE_WARM    the giver tells keys, and ranges of rows, that its caches have and were asked for
//!              again; page by page, in the order of the ring
//! each shard reads those of its tablets (`storage`, `shard::warm`)
//! ```
//! It comes after the tablet's files, in the stage in which it is taken. Where it does not work the
//! tablet has moved all the same, and the log says why it is cold.
//!
//! Invariants
//!  - *session-guards*: nobody reads ahead for longer than the stage lasts.
//!  - *forward*: each page lies behind the one before, within the range.

use super::part::{Part, is_on};
use super::stage_of;
use crate::coordinator::nodes::call;
use crate::coordinator::{Coordinator, own_coordinator};
use crate::range::are_apart;
use crate::wire::moves::{Wanted, decode_warm, encode_warm};
use crate::wire::verb;
use cluster::Stage;
use messaging::{HostId, Payload, Target, ToShard};
use model::{ClusteringOrder, TableId, TableSchema, Token};
use std::collections::BTreeMap;
use std::time::Duration;
use storage::{Storage, WarmPage, WarmPartition};

/// Bytes of a page, about.
const PAGE_BYTES: usize = 64 << 10;
/// How long a page may take.
const PAGE_MAX: Duration = Duration::from_secs(10);

/// What is warm here of a range, on all shards, as a message.
pub(crate) async fn tell(wanted: Wanted) -> Result<Vec<u8>, String> {
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    let Wanted { session, table, range } = wanted;
    debug_assert!(range.0 < range.1, "forward: nothing lies in {range:?}");
    if stage_of(&coordinator, session) != Some(Stage::ReadOld) {
        return Err(format!("session {session} is over"));
    }
    let look = move || async move {
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        let found = storage.warm_partitions(table, range, PAGE_BYTES).await;
        found.map_err(|error| error.to_string())
    };
    let pages: Result<Vec<WarmPage>, String> =
        runtime::on_all_shards(look).await.into_iter().collect();
    Ok(encode_warm(&joined(pages?)))
}

/// The pages of all shards as one: up to where all of them have looked.
fn joined(pages: Vec<WarmPage>) -> WarmPage {
    let reached = pages.iter().filter_map(|page| page.reached).min();
    let all = pages.into_iter().flat_map(|page| page.partitions);
    let mut partitions: Vec<WarmPartition> =
        all.filter(|warm| reached.is_none_or(|reached| Token::of(&warm.key) <= reached)).collect();
    partitions.sort_by_cached_key(|warm| Token::of(&warm.key));
    let last = partitions.last().map(|warm| Token::of(&warm.key));
    debug_assert!(reached.is_none() || last <= reached, "forward: {last:?} is behind {reached:?}");
    WarmPage { partitions, reached }
}

/// Reads ahead what is warm of a part where it comes from.
pub(super) async fn read_ahead(coordinator: &Coordinator, session: u64, part: &Part) {
    let mut read = 0;
    if let Err(why) = read_pages(coordinator, session, part, &mut read).await {
        let TableSchema { keyspace, name, .. } = &*part.table.schema;
        tracing::warn!(
            target: "moves",
            "{keyspace}.{name} from node {}: what clients asked for there is not all in the cache \
             of this node, and will be read from its disk: {why}", part.from
        );
    }
    super::note_warmed(read);
}

async fn read_pages(
    coordinator: &Coordinator,
    session: u64,
    part: &Part,
    read: &mut usize,
) -> Result<(), String> {
    let target = Target::bulk(HostId(part.from.as_u128()), ToShard::At(0));
    let (table, mut after) = (part.table.schema.id, part.after);
    // *session-guards*
    while is_on(coordinator, session, part) {
        let range = (after, part.last);
        debug_assert!(after < part.last, "forward: asked for what lies behind {range:?}");
        let wanted = Payload::from(Wanted { session, table, range }.encode());
        let told = call(target, verb::MOVE_WARM, wanted, PAGE_MAX).await;
        let told = told.map_err(|refusal| refusal.text)?;
        let page = decode_warm(&told).map_err(|damaged| damaged.to_string())?;
        check(&page, range, &part.table.schema.order)?;
        *read += warm_up(coordinator, table, page.partitions).await?;
        match page.reached {
            Some(reached) => after = reached,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Whether a page is one of a range of a table with that order (*forward*).
fn check(
    page: &WarmPage,
    (after, last): (Token, Token),
    order: &ClusteringOrder,
) -> Result<(), String> {
    let until = page.reached.unwrap_or(last);
    let is_within = |warm: &WarmPartition| {
        let token = Token::of(&warm.key);
        after < token && token <= until
    };
    let goes_on = page.reached.is_none_or(|reached| after < reached && reached < last);
    let mut ranges = page.partitions.iter().map(|warm| &warm.ranges[..]);
    match goes_on && page.partitions.iter().all(is_within) {
        true if ranges.all(|ranges| are_apart(ranges, order)) => Ok(()),
        true => Err("ranges of rows out of order were told".to_owned()),
        false => Err("partitions of another range were told".to_owned()),
    }
}

/// Has the shards that own partitions read them.
async fn warm_up(
    coordinator: &Coordinator,
    id: TableId,
    partitions: Vec<WarmPartition>,
) -> Result<usize, String> {
    let schema = coordinator.cluster.schema();
    // It was dropped.
    let Some(table) = schema.table_by_id(id) else { return Ok(0) };
    let mut by_shard: BTreeMap<u16, Vec<WarmPartition>> = BTreeMap::new();
    for warm in partitions {
        by_shard.entry(table.tablets.shard_of(Token::of(&warm.key))).or_default().push(warm);
    }
    let mut read = 0;
    for (shard, partitions) in by_shard {
        debug_assert!(!partitions.is_empty(), "forward: shard {shard} reads nothing ahead");
        let work = move || async move {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            let read = storage.warm_up(id, partitions).await;
            read.map_err(|error| error.to_string())
        };
        read += runtime::on_shard(shard, work).await?;
    }
    Ok(read)
}
