//! Bases of tables that can be recovered to points in time ([`crate::recovery`]): made at once, and
//! then every so often; removed when they make no point any more that may be asked for.
//!
//! Who is asked to enable recovery makes the first one; whoever drives (`drive`) the others, and
//! the first one where nobody has. Two that are made at once do no harm.
//!
//! Invariants
//!  - *nothing-between*: a base is begun when no write goes on that had begun before the table's
//!    history was there. So what is not in the history is in the base.
//!  - *without-a-gap*: where the log of a table was asked for less than its history needs, all
//!    begins anew: no base before that makes a point any more.
//!  - *in-use-stays* of [`super`].

use super::drive::{self, Released};
use super::record::{Record, Status};
use super::records;
use crate::error::Error;
use crate::kept::Kind;
use crate::node::Node;
use crate::recovery::{Base, Recovery};
use crate::restored;
use crate::streams::{self, recovery_of};
use crate::table::Table;
use crate::tags;
use cluster::Schema;
use model::{TableId, TableSchema};
use runtime::time::{Instant, wall_micros};
use std::rc::Rc;
use std::time::Duration;

/// How often it is looked what there is to do, where no table was changed; and how often tables are
/// looked at.
const UPKEEP_PERIOD: Duration = Duration::from_secs(20);
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// For so long the first base is left to who was asked for it.
const GRACE_MILLIS: i64 = 30_000;
/// What bases are called.
const NAME: &str = "base";

/// Tables that can be recovered.
fn recovered(schema: &Schema) -> Vec<(Table, Recovery)> {
    let of = |entry| {
        let table = Table::of(schema, entry)?;
        let recovery = recovery_of(&table.entry.schema)?;
        restored::state(&table.entry.schema).is_none().then_some((table, recovery))
    };
    schema.tables().filter_map(of).collect()
}

/// Begins anew for tables whose history somebody has ended who did not end the recovery.
/// (*without-a-gap*)
async fn begin_anew(node: &Node) -> Result<(), Error> {
    let schema = node.schema();
    let is_broken = |table: &Table| {
        let schema = &table.entry.schema;
        recovery_of(schema).is_none() && Recovery::of(&tags::of(schema)).is_some()
    };
    let tables = schema.tables().filter_map(|entry| Table::of(&schema, entry));
    for table in tables.filter(is_broken) {
        let name = &table.name;
        tracing::warn!(
            target: "backups",
            "{name} cannot be recovered to what it was until now: its option cdc was altered"
        );
        let anew = |schema: &mut TableSchema| {
            let mut tags = tags::of(schema);
            if let (Some(was), None) = (Recovery::of(&tags), recovery_of(schema)) {
                Recovery::new(wall_micros().div_euclid(1000), was.days).put(&mut tags);
                tags::set(&mut schema.options, &tags);
                streams::set_log(&mut schema.options, &tags);
            }
            Ok(())
        };
        streams::change_logged(node, &table, anew).await?;
    }
    Ok(())
}

/// Drives, for as long as the server of shard 0 lives.
pub(crate) async fn keep(node: Rc<Node>) {
    let mut seen: Option<(Instant, Vec<(TableId, Recovery)>)> = None;
    loop {
        if node.leads() {
            let told = recovered(&node.schema()).into_iter();
            let told: Vec<_> = told.map(|(table, it)| (table.entry.schema.id, it)).collect();
            let is_same = |(at, before): &(Instant, Vec<_>)| {
                Instant::now() - *at < UPKEEP_PERIOD && *before == told
            };
            if !seen.as_ref().is_some_and(is_same) {
                match look(&node).await {
                    Ok(()) => seen = Some((Instant::now(), told)),
                    Err(error) => {
                        tracing::debug!(target: "backups", "bases are looked after later: {error}");
                    }
                }
            }
        }
        node.cluster.changed_within(LOOK_PERIOD).await;
    }
}

async fn look(node: &Node) -> Result<(), Error> {
    begin_anew(node).await?;
    let all = records::list(node, (Kind::Base, None), usize::MAX, |_| true).await?.0;
    if !all.is_empty() {
        // What a base is of was shown before it was begun, but perhaps not here.
        node.cluster.catch_up().await.map_err(|why| Error::internal(why.to_string()))?;
    }
    let tables = recovered(&node.schema());
    for (table, recovery) in &tables {
        let now = wall_micros().div_euclid(1000);
        let id = table.entry.schema.id;
        let is_its = |base: &&Record| base.table_id == id && base.status != Status::Deleting;
        let newest = all.iter().filter(is_its).map(|base| base.created).max();
        let is_left = newest.is_some() || recovery.since.saturating_add(GRACE_MILLIS) < now;
        if is_left
            && recovery.is_due(newest, now)
            && let Err(why) = make(node, table).await
        {
            let name = &table.name;
            tracing::warn!(target: "backups", "a base of {name} is made later: {why}");
        }
    }
    for record in &all {
        let of = |(table, _): &&(Table, Recovery)| table.entry.schema.id == record.table_id;
        let recovery = tables.iter().find(of).map(|(_, recovery)| recovery);
        if is_over(record, &all, recovery)
            && let Released::Yes(deleting) = drive::release(node, record).await?
        {
            drive::remove(node, *deleting).await;
        }
    }
    Ok(())
}

/// Whether a base makes no point any more of a table with that recovery, if it is there.
fn is_over(record: &Record, all: &[Record], recovery: Option<&Recovery>) -> bool {
    let Some(base) = record.base() else { return false };
    let Some(recovery) = recovery else { return true };
    let own = all.iter().filter(|other| other.table_id == record.table_id);
    let own: Vec<Base> = own.filter_map(Record::base).collect();
    recovery.is_over(&base, &own, wall_micros().div_euclid(1000))
}

/// Makes a base of a table. (*nothing-between*)
pub(super) async fn make(node: &Node, table: &Table) -> Result<Record, Error> {
    node.coordinator.all_ended().await.map_err(Error::internal)?;
    records::make_table(node).await?;
    let record = drive::begin(node, table, (Kind::Base, NAME.to_owned())).await?;
    drive::take(node, record).await
}

/// The complete bases of a table.
pub(super) async fn of(node: &Node, table: TableId) -> Result<Vec<Record>, Error> {
    let is_its = |record: &Record| record.table_id == table && record.base().is_some();
    Ok(records::list(node, (Kind::Base, None), usize::MAX, is_its).await?.0)
}
