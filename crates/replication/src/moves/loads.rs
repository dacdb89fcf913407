//! What tablets hold and are asked for: each node tells the leader of those that it has, and the
//! leader keeps what it heard of all. By that tables get more tablets or fewer, and nodes as much
//! as others. Requests are told as sums: how many come in a second follows from what was heard
//! before.
//!
//! A tablet is as large wherever it goes, so what was heard holds when tablets have moved. It is
//! asked for anew after a while, and when a table has other tablets: then nothing is decided
//! before.
//!
//! Invariants
//!  - *by-range*: a node counts by the tablets of the catalog, as they were decided before it was
//!    asked. Its storage may be divided in another way for a while; a part of it that lies in
//!    several tablets counts for each by what of its range that has.
//!  - *of-the-living*: who does not answer is passed over; a tablet is as large as those say, on
//!    average, who have it and have answered.
//!  - *since-before*: requests of a tablet are known of nodes alone that told of it before, at
//!    least [`RATE_LEAST`] ago; sums that have become less began anew.
//!  - *bounded*: a message has about [`PAGE_BYTES`], or one table.

use super::barrier::is_here;
use super::{LOOK, Moves};
use crate::coordinator::{Coordinator, own_coordinator};
use crate::wire::loads::{TableLoad, TabletLoad, decode_loads, encode_after, encode_loads};
use crate::wire::verb;
use cluster::{Live, Member, Schema, Settings, TABLETS_MAX, TableEntry, TableKind, TabletReplicas};
use cluster::{features, membership};
use messaging::{HostId, Messaging, Payload, Target, ToShard};
use model::{TableId, TabletMap, Token};
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::{Storage, TabletLoad as Load};

/// Bytes of an answer, about.
const PAGE_BYTES: usize = 256 << 10;
/// Tables that the shards of a node are asked for at once.
const TABLES_AT_ONCE: usize = 128;
/// When all are asked again where one has not answered, or tables are new.
const RETRY: Duration = Duration::from_secs(1);
/// How long a node may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Over less time nothing is said of requests in a second.
const RATE_LEAST: Duration = Duration::from_secs(5);

const TARGET: &str = "target_tablet_size_in_bytes";
const LEAST: &str = "minimal_tablet_size_for_balancing";
const REFRESH: &str = "tablet_load_stats_refresh_interval_in_seconds";

/// The options by which it is decided. On shard 0.
pub(super) struct Goals {
    target: Live<i64>,
    least: Live<i64>,
    refresh: Live<i64>,
}

impl Goals {
    pub(super) fn register() -> Goals {
        let settings = Settings::of_shard();
        let positive = |value: &i64| match 0 < *value {
            true => Ok(()),
            false => Err("not above 0".to_owned()),
        };
        Goals {
            target: settings.register(TARGET, 5 << 30, positive),
            least: settings.register(LEAST, 53_687_091, positive),
            refresh: settings.register(REFRESH, 60, positive),
        }
    }

    /// How large a tablet should be.
    pub(super) fn target(&self) -> u64 {
        self.target.get().max(1).unsigned_abs()
    }

    /// What a tablet counts for at least.
    pub(super) fn least(&self) -> u64 {
        self.least.get().max(1).unsigned_abs()
    }

    fn refresh(&self) -> Duration {
        Duration::from_secs(self.refresh.get().max(1).unsigned_abs())
    }
}

/// What was heard of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loads {
    /// Whether all have answered that live.
    pub(super) is_whole: bool,
    /// How many tablets each table had when it was asked for.
    asked: BTreeMap<TableId, usize>,
    /// Bytes of each tablet, by table.
    sizes: BTreeMap<TableId, Vec<u64>>,
    /// Requests of each tablet in a second, of a replica on average, by table.
    heats: BTreeMap<TableId, Vec<u64>>,
}

impl Loads {
    /// Whether a table has other tablets by now, or is new.
    pub(super) fn is_stale(&self, schema: &Schema) -> bool {
        let asked = |table: &TableEntry| self.asked.get(&table.schema.id).copied();
        tables(schema).iter().any(|table| asked(table) != Some(table.replicas.count()))
    }

    /// Bytes of each tablet of a table; `None`: nobody told of it.
    pub(super) fn of(&self, table: &TableEntry) -> Option<&[u64]> {
        let sizes = self.sizes.get(&table.schema.id)?;
        debug_assert!(!sizes.is_empty(), "of-the-living: a table of no tablets");
        (sizes.len() == table.replicas.count()).then_some(&sizes[..])
    }

    /// Requests of each tablet of a table in a second; nothing: not known.
    pub(super) fn heats_of(&self, table: &TableEntry) -> &[u64] {
        let heats = self.heats.get(&table.schema.id).map_or(&[][..], Vec::as_slice);
        debug_assert!(
            heats.is_empty() || self.sizes.contains_key(&table.schema.id),
            "since-before: requests of tablets of which nobody told"
        );
        if heats.len() == table.replicas.count() { heats } else { &[] }
    }
}

/// What each node has told, and when.
pub(super) struct Told {
    at: Instant,
    pub(super) by: BTreeMap<model::Uuid, Vec<TableLoad>>,
}

/// What the leader keeps of it.
#[derive(Default)]
pub(super) struct Kept {
    heard: RefCell<Option<(Rc<Loads>, Instant)>>,
    /// What requests are counted from.
    before: RefCell<Option<Told>>,
    /// The tables that are to be merged, whose tablets go to each other until they are.
    pub(super) merging: RefCell<BTreeSet<TableId>>,
}

impl Kept {
    pub(super) fn loads(&self) -> Option<Rc<Loads>> {
        self.heard.borrow().as_ref().map(|(loads, _)| loads.clone())
    }

    /// Tables have other tablets: nodes are asked anew.
    pub(super) fn forget(&self) {
        self.heard.replace(None);
    }

    fn is_due(&self, after: Duration, schema: &Schema) -> bool {
        assert!(!after.is_zero(), "of-the-living: nodes are asked all the time");
        let after = |loads: &Loads| match loads.is_whole && !loads.is_stale(schema) {
            true => after,
            false => after.min(RETRY),
        };
        let heard = self.heard.borrow();
        heard.as_ref().is_none_or(|(loads, at)| *at + after(loads) <= Instant::now())
    }
}

/// Asks all nodes again and again, as long as this one leads. Runs for ever.
pub(super) async fn follow(coordinator: Rc<Coordinator>) {
    loop {
        // Nobody tells who leads, nor that it is time; to look costs nothing.
        sleep(LOOK).await;
        let Some(moves) = runtime::local::try_get::<Moves>() else { return };
        if !membership::leads() || !is_enabled(&coordinator) {
            moves.kept.forget();
            moves.kept.before.take();
            moves.kept.merging.take();
            continue;
        }
        if moves.kept.is_due(moves.goals.refresh(), &coordinator.cluster.schema()) {
            let (loads, told) = ask_all(&coordinator, &moves.kept.before).await;
            let is_due = |before: &Told| before.at + RATE_LEAST <= told.at;
            let mut before = moves.kept.before.borrow_mut();
            if before.as_ref().is_none_or(is_due) {
                *before = Some(told);
            }
            moves.kept.heard.replace(Some((Rc::new(loads), Instant::now())));
        }
    }
}

/// Whether all nodes can do it.
pub(super) fn is_enabled(coordinator: &Coordinator) -> bool {
    coordinator.cluster.topology().enables(features::TABLET_RESIZE)
}

/// Asks all nodes that live (*of-the-living*); what they told, and whether all have answered.
pub(super) async fn ask_living(coordinator: &Coordinator) -> (Told, bool) {
    let topology = coordinator.cluster.topology();
    let lives = |member: &&Arc<Member>| {
        !topology.is_lost(member.host_id) && coordinator.cluster.is_alive(member.host_id)
    };
    let members: Vec<Arc<Member>> = topology.present().filter(lives).cloned().collect();
    let answers = join_all(members.iter().map(ask)).await;
    let (mut told, mut is_whole) = (Told { at: Instant::now(), by: BTreeMap::new() }, true);
    for (member, answer) in members.iter().zip(answers) {
        is_whole &= answer.is_ok();
        match answer {
            Ok(loads) => drop(told.by.insert(member.host_id, loads)),
            Err(why) => tracing::debug!(
                target: "tablets", node = %member.host_id,
                "a node does not tell what its tablets hold: {why}"
            ),
        }
    }
    assert!(told.by.len() <= members.len(), "of-the-living: more have answered than were asked");
    (told, is_whole)
}

/// What the leader goes by, and what it is made of.
async fn ask_all(coordinator: &Coordinator, before: &RefCell<Option<Told>>) -> (Loads, Told) {
    let schema = coordinator.cluster.schema();
    let (told, is_whole) = ask_living(coordinator).await;
    let heats = before.borrow().as_ref().map(|before| rates(before, &told)).unwrap_or_default();
    let sizes = by_table(&schema, bytes(&told));
    let mut heats = by_table(&schema, heats.into_iter());
    heats.retain(|table, _| sizes.contains_key(table));
    let count = |table: Rc<TableEntry>| (table.schema.id, table.replicas.count());
    let asked = tables(&schema).into_iter().map(count).collect();
    (Loads { is_whole, asked, sizes, heats }, told)
}

/// The tables with tablets, in the order of their ids.
pub(super) fn tables(schema: &Schema) -> Vec<Rc<TableEntry>> {
    let stored = schema.tables().filter(|table| table.kind == TableKind::Stored);
    let mut all: Vec<_> = stored.filter(|table| !table.replicas.is_empty()).cloned().collect();
    all.sort_by_key(|table| table.schema.id);
    let once = all.windows(2).all(|two| two[0].schema.id < two[1].schema.id);
    debug_assert!(once, "one-hand: a table is there twice");
    all
}

/// All that a node tells.
async fn ask(member: &Arc<Member>) -> Result<Vec<TableLoad>, String> {
    let (mut all, mut after) = (Vec::<TableLoad>::new(), None);
    loop {
        let page = match is_here(member) {
            true => told(after).await?,
            false => ask_page(member, after).await?,
        };
        let Some(last) = page.last().map(|load| load.table) else { return Ok(all) };
        if page.first().is_some_and(|load| Some(load.table) <= after) {
            return Err("it tells of the same table twice".to_owned());
        }
        debug_assert!(after < Some(last), "bounded: a page that leads nowhere");
        after = Some(last);
        all.extend(page);
    }
}

async fn ask_page(member: &Member, after: Option<TableId>) -> Result<Vec<TableLoad>, String> {
    let messaging = Messaging::current().ok_or("this node does not speak to others")?;
    debug_assert!(!is_here(member), "of-the-living: a message of a node to itself");
    let target = Target::bulk(HostId(member.host_id.as_u128()), ToShard::At(0));
    let asked = Payload::from(encode_after(after));
    let answer = messaging.call(target, verb::TABLET_LOADS, asked, ANSWER_MAX).await;
    let answer = answer.map_err(|error| error.to_string())?;
    decode_loads(&answer).map_err(|damaged| damaged.to_string())
}

/// A figure of each tablet of a table that a node has, of so many tablets.
type Figures = (TableId, u32, Vec<(u32, u64)>);

/// Bytes, as all nodes have told.
fn bytes(told: &Told) -> impl Iterator<Item = Figures> {
    told.by.values().flatten().map(|load| {
        let of = |it: &TabletLoad| (it.tablet, it.bytes);
        (load.table, load.count, load.tablets.iter().map(of).collect())
    })
}

/// Requests in a second (*since-before*).
fn rates(before: &Told, now: &Told) -> Vec<Figures> {
    let passed = now.at - before.at;
    if passed < RATE_LEAST {
        return Vec::new();
    }
    let rate = |requests: u64| (requests as f64 / passed.as_secs_f64()) as u64;
    let mut out = Vec::new();
    for (host, loads) in &now.by {
        let Some(known) = before.by.get(host) else { continue };
        for load in loads {
            let same = known.binary_search_by_key(&load.table, |it| it.table);
            let same = same.ok().map(|at| &known[at]).filter(|it| it.count == load.count);
            let Some(same) = same else { continue };
            let of = |it: &TabletLoad| {
                let at = same.tablets.binary_search_by_key(&it.tablet, |it| it.tablet).ok()?;
                let requests = it.requests.checked_sub(same.tablets[at].requests);
                Some((it.tablet, rate(requests.unwrap_or(it.requests))))
            };
            out.push((load.table, load.count, load.tablets.iter().filter_map(of).collect()));
        }
    }
    debug_assert!(out.len() <= now.by.values().map(Vec::len).sum(), "since-before: more than told");
    out
}

/// A figure of each tablet of all tables, on average of those who told of it.
fn by_table(schema: &Schema, all: impl Iterator<Item = Figures>) -> BTreeMap<TableId, Vec<u64>> {
    // Of each tablet: the sum, and how many have it.
    let mut sums = BTreeMap::<TableId, Vec<(u128, u64)>>::new();
    for (table, count, tablets) in all {
        let known = schema.table_by_id(table).map(|entry| entry.replicas.count());
        if known != Some(count as usize) {
            continue;
        }
        let sums = sums.entry(table).or_insert_with(|| vec![(0, 0); count as usize]);
        for (tablet, figure) in tablets {
            debug_assert!(tablet < count, "of-the-living: tablet {tablet} of {count}");
            let (sum, copies) = &mut sums[tablet as usize];
            (*sum, *copies) = (*sum + u128::from(figure), *copies + 1);
        }
    }
    let mean = |(sum, copies): (u128, u64)| (sum / u128::from(copies.max(1))) as u64;
    let mut out = BTreeMap::<TableId, Vec<u64>>::new();
    for (table, sums) in sums {
        let known: Vec<u64> = sums.iter().filter(|it| 0 < it.1).map(|it| mean(*it)).collect();
        if known.is_empty() {
            continue;
        }
        // Of one of which nobody has told: as the others.
        let sum: u128 = known.iter().map(|figure| u128::from(*figure)).sum();
        let other = mean((sum, known.len() as u64));
        let of_tablet = |it: (u128, u64)| if it.1 == 0 { other } else { mean(it) };
        out.insert(table, sums.into_iter().map(of_tablet).collect());
    }
    let are_few = out.values().all(|of| of.len() <= TABLETS_MAX as usize);
    debug_assert!(are_few, "by-range: more tablets than a table has");
    out
}

/// What this node has, of some tables after one, as a message.
pub(crate) async fn tell(after: Option<TableId>) -> Result<Vec<u8>, String> {
    told(after).await.map(|loads| encode_loads(&loads))
}

/// What this node has, of some tables after one; of none: there are no more.
async fn told(after: Option<TableId>) -> Result<Vec<TableLoad>, String> {
    if runtime::shard_id() != 0 {
        return Err("what tablets hold is asked of another shard than the first".to_owned());
    }
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    if after.is_none() {
        coordinator.cluster.catch_up().await?;
    }
    let (schema, me) = (coordinator.cluster.schema(), coordinator.cluster.node().host_id);
    let mut tables: Vec<Rc<TableEntry>> = tables(&schema);
    tables.retain(|table| Some(table.schema.id) > after);
    let (mut out, mut bytes) = (Vec::new(), 0);
    for some in tables.chunks(TABLES_AT_ONCE) {
        let ids = some.iter().map(|table| table.schema.id).collect();
        for (table, parts) in some.iter().zip(parts_of(ids).await) {
            let figure = |of: fn(&Load) -> u64| {
                let parts = parts.iter().map(|(after, last, load)| (*after, *last, of(load)));
                by_tablet(&table.replicas, &parts.collect::<Vec<_>>())
            };
            let (sizes, requests) = (figure(|load| load.bytes), figure(|load| load.requests));
            let has = |of: &[(model::Uuid, u16)]| of.iter().any(|(host, _)| *host == me);
            let own = (0..sizes.len()).filter(|it| has(table.replicas.read(*it)));
            let load = |it: usize| {
                let (bytes, requests) = (sizes[it], requests[it]);
                TabletLoad { tablet: it as u32, bytes, requests }
            };
            let tablets = own.map(load).collect();
            let (id, count) = (table.schema.id, table.replicas.count() as u32);
            let load = TableLoad { table: id, count, tablets };
            bytes += load.size_bytes();
            debug_assert!(Some(load.table) > after, "bounded: {} again", load.table);
            if PAGE_BYTES < bytes && !out.is_empty() {
                return Ok(out);
            }
            out.push(load);
        }
    }
    assert!(bytes <= PAGE_BYTES || out.len() == 1, "bounded: {bytes} bytes");
    Ok(out)
}

/// A figure of a range: after the first token, up to and including the second.
type Part = (Token, Token, u64);

/// What all shards have of each of these tables, by how their storage is divided.
async fn parts_of(tables: Vec<TableId>) -> Vec<Vec<(Token, Token, Load)>> {
    let count = tables.len();
    let look = move || async move {
        let Some(storage) = runtime::local::try_get::<Storage>() else { return Vec::new() };
        tables.iter().map(|table| parts_here(&storage, *table)).collect()
    };
    let mut all = vec![Vec::new(); count];
    for of_shard in runtime::on_all_shards(look).await {
        let of_shard: Vec<Vec<(Token, Token, Load)>> = of_shard;
        all.iter_mut().zip(of_shard).for_each(|(all, parts)| all.extend(parts));
    }
    assert!(all.len() == count, "by-range: of {} tables", all.len());
    all
}

fn parts_here(storage: &Storage, table: TableId) -> Vec<(Token, Token, Load)> {
    let Some(map) = storage.tablet_map(table).filter(|map| map.sharder().is_none()) else {
        return Vec::new();
    };
    let part = |load: Load| {
        let (after, last) = TabletMap::range(&map, load.tablet);
        (after, last, load)
    };
    storage.tablet_loads(table).into_iter().map(part).collect()
}

/// A figure of each tablet (*by-range*).
fn by_tablet(replicas: &TabletReplicas, parts: &[Part]) -> Vec<u64> {
    let mut out = vec![0u64; replicas.count()];
    for (after, last, bytes) in parts.iter().filter(|(after, last, _)| after < last) {
        let whole = u128::from(last.biased() - after.biased());
        let (first, end) = (replicas.tablet_of(Token(after.0 + 1)), replicas.tablet_of(*last));
        let mut left = *bytes;
        for (tablet, held) in out.iter_mut().enumerate().take(end + 1).skip(first) {
            let (begin, end) = replicas.range(tablet);
            let (begin, end) = (begin.max(*after), end.min(*last));
            let width = u128::from(end.biased() - begin.biased());
            let share = match end == *last {
                true => left,
                false => (u128::from(*bytes) * width / whole) as u64,
            };
            debug_assert!(share <= left, "by-range: {share} of {left} bytes");
            *held = held.saturating_add(share);
            left -= share;
        }
        assert!(left == 0, "by-range: {left} bytes of no tablet");
    }
    out
}

#[cfg(test)]
mod tests;
