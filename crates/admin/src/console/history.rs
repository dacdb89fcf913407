//! The last day of the node and of its busiest tables, gathered whether somebody watches or not.
//!
//! Two series of the node: one sample each ten seconds for an hour, one each minute for a day. One
//! of each table that was used of late: each minute for a day. A sample is the difference between
//! what was counted at its ends: its p99 is that of all requests between them, not a mean of
//! others. While somebody looks at a table it has one more, each two seconds.
//!
//! Invariants
//!  - *bounded*: [`TABLES_MAX`] tables have a day, [`WATCHED_MAX`] are looked at; all series
//!    together take [`BYTES_MAX`] bytes.
//!  - *used-first*: a table loses its day to another one only where it was not used for
//!    longest, and not within the last minute.
//!
//! Cost, by shard: a copy of ten histograms each ten seconds, a sum for each table in use and a
//! copy of its histograms for those that are kept each minute.

use super::counts::{EdgeCounts, FIGURES, Point, ShardCounts, Spans};
use super::series::{Sample, Series};
use crate::call::{Answer, Call};
use cluster::traffic::Work;
use cluster::{Cluster, Schema, TableEntry, TableKind};
use model::TableId;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, wall_micros};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::Storage;

const FINE: Duration = Duration::from_secs(10);
const FINE_MAX: usize = 360;
const COARSE: Duration = Duration::from_secs(60);
const COARSE_MAX: usize = 1440;
/// Of a table that somebody looks at.
const WATCHED: Duration = Duration::from_secs(2);
const WATCHED_SAMPLES_MAX: usize = 300;
const WATCHED_MAX: usize = 8;
/// A table is not looked at any more when nobody has asked for so long.
const IDLE_MAX: Duration = Duration::from_secs(120);
const TABLES_MAX: usize = 32;

/// What plots show of a table. Rates are of a second, latencies in microseconds.
const TABLE_FIGURES: [&str; 10] = [
    "reads",
    "writes",
    "read_p50",
    "read_p95",
    "read_p99",
    "write_p50",
    "write_p95",
    "write_p99",
    "disk_bytes",
    "sstables",
];

/// Bytes of all samples.
const BYTES_MAX: usize = size_of::<Sample<{ FIGURES.len() }>>() * (FINE_MAX + COARSE_MAX)
    + size_of::<Sample<{ TABLE_FIGURES.len() }>>()
        * (TABLES_MAX * COARSE_MAX + WATCHED_MAX * WATCHED_SAMPLES_MAX);

const _: () = assert!(BYTES_MAX < 5 << 19, "docs/console.md says 2.5 MiB");

type TableSeries = Series<{ TABLE_FIGURES.len() }>;

/// What the node keeps of its past.
pub(super) struct History {
    kept: Rc<Kept>,
    looking: Scope,
}

struct Kept {
    fine: Series<{ FIGURES.len() }>,
    coarse: Series<{ FIGURES.len() }>,
    tables: RefCell<BTreeMap<TableId, Day>>,
    watched: RefCell<BTreeMap<TableId, Rc<Watched>>>,
}

/// A table's day.
struct Day {
    series: TableSeries,
    counted: TableCounts,
    /// When it was used last.
    used: Instant,
}

/// A table that somebody looks at.
struct Watched {
    series: TableSeries,
    asked: Cell<Instant>,
}

/// What was counted of a table by some time, on all shards.
#[derive(Clone, Debug, Default)]
struct TableCounts {
    reads: Spans,
    writes: Spans,
    disk_bytes: u64,
    sstables: u64,
}

impl History {
    /// Begins to look at the node.
    pub(super) fn begin(edge: fn() -> EdgeCounts) -> History {
        let kept = Rc::new(Kept {
            fine: Series::new(&FIGURES, FINE_MAX),
            coarse: Series::new(&FIGURES, COARSE_MAX),
            tables: RefCell::default(),
            watched: RefCell::default(),
        });
        let looking = Scope::new();
        looking.spawn_in(runtime::group::BACKGROUND, look(kept.clone(), edge));
        History { kept, looking }
    }

    /// The last `seconds` of the node.
    pub(super) fn told(&self, call: &Call) -> Result<Value, Answer> {
        let (seconds, since) = span(call)?;
        let (period, series) = match Duration::from_secs(seconds) <= FINE * FINE_MAX as u32 {
            true => (FINE, &self.kept.fine),
            false => (COARSE, &self.kept.coarse),
        };
        Ok(json!({ "period_ms": period.as_millis() as u64, "points": series.told(0, since) }))
    }

    /// The last `seconds` of a table, which is looked at more closely from now on.
    pub(super) fn of_table(&self, call: &Call, table: &TableEntry) -> Result<Value, Answer> {
        let (_, since) = span(call)?;
        let after = call.number("after", Some(0))?;
        let id = table.schema.id;
        let days = self.kept.tables.borrow();
        let day = days.get(&id).map(|day| day.series.told(0, since));
        drop(days);
        let watched = self.watched(id);
        Ok(json!({
            "day": { "period_ms": COARSE.as_millis() as u64, "points": day },
            "live": {
                "period_ms": WATCHED.as_millis() as u64,
                "points": watched.series.told(after, since),
            },
        }))
    }

    fn watched(&self, id: TableId) -> Rc<Watched> {
        let mut all = self.kept.watched.borrow_mut();
        if let Some(known) = all.get(&id) {
            known.asked.set(Instant::now());
            return known.clone();
        }
        if WATCHED_MAX <= all.len() {
            let first = all.iter().min_by_key(|(_, one)| one.asked.get()).map(|(id, _)| *id);
            first.and_then(|first| all.remove(&first));
        }
        let series = Series::new(&TABLE_FIGURES, WATCHED_SAMPLES_MAX);
        let watched = Rc::new(Watched { series, asked: Cell::new(Instant::now()) });
        all.insert(id, watched.clone());
        self.looking.spawn_in(runtime::group::BACKGROUND, watch(self.kept.clone(), id));
        watched
    }
}

/// `seconds` of a request, and the time that long ago.
fn span(call: &Call) -> Result<(u64, i64), Answer> {
    let seconds: u32 = call.number("seconds", Some(300))?;
    Ok((u64::from(seconds), now_millis() - 1000 * i64::from(seconds)))
}

fn now_millis() -> i64 {
    wall_micros().div_euclid(1000)
}

/// Looks at the node for as long as it runs.
async fn look(kept: Rc<Kept>, edge: fn() -> EdgeCounts) {
    let gather = || runtime::on_all_shards(move || async move { ShardCounts::of_shard(edge) });
    let begun = (gather().await, Instant::now());
    let (mut fine, mut coarse) = (begun.clone(), begun);
    loop {
        sleep(FINE).await;
        let now = (gather().await, Instant::now());
        let point = |before: &(Vec<ShardCounts>, Instant)| {
            let seconds = (now.1 - before.1).as_secs_f64();
            Sample { at: now_millis(), figures: Point::between(&before.0, &now.0, seconds).node }
        };
        kept.fine.push(point(&fine));
        // A coarse sample ends where a fine one does: half a period is never left over.
        if COARSE <= now.1 - coarse.1 + FINE / 2 {
            let seconds = (now.1 - coarse.1).as_secs_f64();
            kept.coarse.push(point(&coarse));
            look_at_tables(&kept, seconds).await;
            coarse = now.clone();
        }
        fine = now;
    }
}

/// Adds a sample to the day of each table that has one, and finds those that are to have one.
async fn look_at_tables(kept: &Kept, seconds: f64) {
    let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
    let used = used_tables().await;
    let schema = cluster.schema();
    kept.tables.borrow_mut().retain(|id, _| schema.table_by_id(*id).is_some());
    let known: Vec<TableId> = kept.tables.borrow().keys().copied().collect();
    for id in known {
        let counts = TableCounts::of_node(id).await;
        let mut tables = kept.tables.borrow_mut();
        let Some(day) = tables.get_mut(&id) else { continue };
        if day.counted.operations() < counts.operations() {
            day.used = Instant::now();
        }
        let figures = counts.figures(&day.counted, seconds);
        day.series.push(Sample { at: now_millis(), figures });
        day.counted = counts;
    }
    for id in used {
        if kept.tables.borrow().contains_key(&id) || !make_room(kept) {
            continue;
        }
        // Its first sample comes with the next look: what was before may be of a year.
        let counted = TableCounts::of_node(id).await;
        let series = Series::new(&TABLE_FIGURES, COARSE_MAX);
        let day = Day { series, counted, used: Instant::now() };
        kept.tables.borrow_mut().insert(id, day);
    }
}

/// Whether there is room for one more day (*used-first*).
fn make_room(kept: &Kept) -> bool {
    let mut tables = kept.tables.borrow_mut();
    if tables.len() < TABLES_MAX {
        return true;
    }
    let idle = tables.iter().filter(|(_, day)| COARSE <= day.used.elapsed());
    let idle = idle.min_by_key(|(_, day)| day.used).map(|(id, _)| *id);
    idle.and_then(|id| tables.remove(&id)).is_some()
}

/// The tables of users that were read or written since the start, those used most first.
async fn used_tables() -> Vec<TableId> {
    let asked = runtime::on_all_shards(|| async {
        let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
        let mut used = Vec::new();
        for table in cluster.schema().tables() {
            let is_kept = table.kind == TableKind::Stored;
            if is_kept && !Schema::is_system(&table.schema.keyspace) {
                let counts = Work::ALL.iter().filter_map(|work| table.local.traffic.taken(*work));
                used.push((table.schema.id, counts.map(|taken| taken.spans.count()).sum::<u64>()));
            }
            runtime::task::yield_if_needed().await;
        }
        used
    });
    let mut sums: BTreeMap<TableId, u64> = BTreeMap::new();
    for (id, count) in asked.await.into_iter().flatten() {
        *sums.entry(id).or_default() += count;
    }
    let mut used: Vec<(TableId, u64)> = sums.into_iter().filter(|(_, count)| 0 < *count).collect();
    used.sort_by_key(|(id, count)| (std::cmp::Reverse(*count), *id));
    used.into_iter().map(|(id, _)| id).collect()
}

/// Looks at a table until nobody asks for it.
async fn watch(kept: Rc<Kept>, id: TableId) {
    let (mut before, mut since) = (TableCounts::of_node(id).await, Instant::now());
    loop {
        sleep(WATCHED).await;
        let watched = kept.watched.borrow().get(&id).cloned();
        let Some(watched) = watched else { return };
        if IDLE_MAX <= watched.asked.get().elapsed() {
            kept.watched.borrow_mut().remove(&id);
            return;
        }
        let (counts, now) = (TableCounts::of_node(id).await, Instant::now());
        let figures = counts.figures(&before, (now - since).as_secs_f64());
        watched.series.push(Sample { at: now_millis(), figures });
        (before, since) = (counts, now);
    }
}

impl TableCounts {
    async fn of_node(id: TableId) -> TableCounts {
        let asked = runtime::on_all_shards(move || async move { TableCounts::of_shard(id) });
        let mut sum = TableCounts::default();
        for one in asked.await {
            sum.reads.add(&one.reads);
            sum.writes.add(&one.writes);
            sum.disk_bytes += one.disk_bytes;
            sum.sstables += one.sstables;
        }
        sum
    }

    fn of_shard(id: TableId) -> TableCounts {
        let storage = runtime::local::try_get::<Storage>();
        let stats = storage.and_then(|storage| storage.table_stats(id)).unwrap_or_default();
        let schema = runtime::local::try_get::<Cluster>().map(|cluster| cluster.schema());
        let entry = schema.as_ref().and_then(|schema| schema.table_by_id(id));
        let (reads, writes) = Spans::sums(|work| {
            let taken = entry.and_then(|entry| entry.local.traffic.taken(work));
            taken.map(|taken| Spans::of(&taken.spans)).unwrap_or_default()
        });
        TableCounts { reads, writes, disk_bytes: stats.sstable_bytes, sstables: stats.sstables }
    }

    fn operations(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    fn figures(&self, before: &TableCounts, seconds: f64) -> [f32; TABLE_FIGURES.len()] {
        let (reads, writes) = (self.reads.since(&before.reads), self.writes.since(&before.writes));
        let rate = |spans: &Spans| (spans.count() as f64 / seconds.max(1e-3)) as f32;
        let ([r50, r95, r99], [w50, w95, w99]) = (reads.quantiles(), writes.quantiles());
        let (disk, sstables) = (self.disk_bytes as f32, self.sstables as f32);
        [rate(&reads), rate(&writes), r50, r95, r99, w50, w95, w99, disk, sstables]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    fn count(history: &History, seconds: u32) -> (u64, usize) {
        let call = Call::new(&Method::GET, "/", &format!("seconds={seconds}"));
        let told = history.told(&call).unwrap();
        let points = told["points"]["at"].as_array().unwrap().len();
        (told["period_ms"].as_u64().unwrap(), points)
    }

    #[test]
    fn a_day_is_kept_and_no_more() {
        runtime::sim::test(1, || async {
            let history = History::begin(EdgeCounts::default);
            sleep(Duration::from_millis(60_500)).await;
            assert_eq!(count(&history, 300), (10_000, 6));
            assert_eq!(count(&history, 30), (10_000, 3));
            assert_eq!(count(&history, 86_400), (60_000, 1));
            sleep(Duration::from_secs(30 * 60)).await;
            assert_eq!(count(&history, 3600), (10_000, 186));
            assert_eq!(count(&history, 3601), (60_000, 31));
            let call = Call::new(&Method::GET, "/", "seconds=x");
            assert_eq!(history.told(&call).unwrap_err().status, 400);
        });
    }

    #[test]
    fn days_go_to_the_tables_in_use() {
        runtime::sim::test(1, || async {
            let history = History::begin(EdgeCounts::default);
            let day = |used| Day {
                series: Series::new(&TABLE_FIGURES, COARSE_MAX),
                counted: TableCounts::default(),
                used,
            };
            let table = |number: usize| model::Uuid::from_u128(number as u128);
            sleep(Duration::from_secs(1)).await;
            let first = Instant::now();
            for number in 0..TABLES_MAX {
                assert!(make_room(&history.kept));
                let used = if number == 7 { first } else { Instant::now() };
                history.kept.tables.borrow_mut().insert(table(number), day(used));
                sleep(Duration::from_secs(1)).await;
            }
            assert!(!make_room(&history.kept), "all are in use");
            sleep(COARSE).await;
            // The oldest two were used in the same moment: one of them goes.
            assert!(make_room(&history.kept));
            let tables = history.kept.tables.borrow();
            assert_eq!(tables.len(), TABLES_MAX - 1);
            assert!(!(tables.contains_key(&table(0)) && tables.contains_key(&table(7))));
        });
    }

    #[test]
    fn a_table_is_looked_at_while_somebody_asks() {
        runtime::sim::test(1, || async {
            let history = History::begin(EdgeCounts::default);
            let id = model::Uuid::from_u128(1);
            history.watched(id);
            sleep(Duration::from_millis(10_500)).await;
            let points = history.watched(id).series.told(0, 0);
            assert_eq!(points["last"], json!(5));
            for number in 2..20 {
                history.watched(model::Uuid::from_u128(number));
            }
            assert_eq!(history.kept.watched.borrow().len(), WATCHED_MAX, "bounded");
            sleep(2 * IDLE_MAX).await;
            assert!(history.kept.watched.borrow().is_empty());
        });
    }
}
