//! Ranges that are cleared: whatever was written, flushed, merged, cached, divided among shards or
//! cut off by a crash, afterwards nothing of them is there, and all else is, as a naive model has
//! it. What a crash cuts off leaves each tablet as it was, or without the ranges.
//!
//! `NEREID_SIM_ROUNDS` sets the number of histories; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::against_model::read_all;
use super::*;
use crate::config::Planted;
use crate::testing::divided;
use crate::{Cleared, Pace, SourceOptions};
use model::Token;
use mutation::testing;
use reader::testing::{AnswerRow, Model, SeenPartition, drain, everything, partitions};
use reader::{Budget, Slice};
use runtime::task::join;
use runtime::time::{sleep, timeout};
use runtime::{local, on_all_shards};
use std::cell::Cell as Slot;
use stdx::Prng;
use testkit::{Draw, Fault, SimNode};

const KEYS: i32 = 14;
const STEPS: u64 = 40;
/// So long before the first expiry of the generators a start is: merges that fail pause.
const BEFORE: Duration = Duration::from_secs(10_000);

type Ranges = Vec<(Token, Token)>;

fn storage() -> Rc<Storage> {
    local::get::<Storage>()
}

fn table() -> Uuid {
    testing::schema().id
}

fn mine() -> Rc<crate::table::Table> {
    storage().shard().table(table()).unwrap()
}

fn token(number: i32) -> Token {
    Token::of(&testing::partition_key(number))
}

fn token_of(one: &FrozenMutation) -> Token {
    Token::of(one.view().unwrap().key())
}

fn is_in(ranges: &[(Token, Token)], token: Token) -> bool {
    ranges.iter().any(|(after, last)| *after < token && token <= *last)
}

/// How the ring is dealt out.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Ring,
    Tablets(u32),
}

impl Layout {
    fn map(self, shards: u16) -> TabletMap {
        match self {
            Layout::Ring => TabletMap::static_map(shards),
            Layout::Tablets(count) => TabletMap::tablets(count, shards),
        }
    }
}

async fn open_with(config: Config, layout: Layout, merges: bool) {
    on_all_shards(move || {
        let config = config.clone();
        async move {
            let storage = Storage::open(config).await.unwrap();
            let map = layout.map(runtime::shard_count());
            let mut own = testing::schema();
            own.options.compaction = vec![("enabled".to_string(), merges.to_string())];
            storage.add_table(Rc::new(own), map.clone(), Log::Data).await.unwrap();
            // Keeps segments of the log.
            storage.add_table(Rc::new(schema(2, "t2")), map, Log::Data).await.unwrap();
        }
    })
    .await;
    storage().replay(Log::Data).await.unwrap();
}

async fn clear_all(ranges: Ranges) -> Result<Cleared, String> {
    let done = on_all_shards(move || {
        let ranges = ranges.clone();
        async move { storage().clear(table(), ranges).await.map_err(|error| error.to_string()) }
    });
    let mut sum = Cleared::default();
    for one in done.await {
        let one = one?;
        sum.removed += one.removed;
        sum.rewritten += one.rewritten;
        sum.bytes_before += one.bytes_before;
        sum.bytes_after += one.bytes_after;
    }
    Ok(sum)
}

/// All that this shard has, row by row, and fragment by fragment.
async fn seen_here() -> (Vec<AnswerRow>, Vec<SeenPartition>) {
    let rows = read_all(&storage(), &testing::read_all()).await;
    let options = SourceOptions { bypass_cache: true, ..SourceOptions::QUERY };
    let mut source = storage().open_source(table(), everything(), Slice::full(), options).unwrap();
    let fragments = drain(&mut *source, Budget::BATCH).await.unwrap();
    (rows, partitions(fragments, mutation::Direction::Forward))
}

/// What a history came to.
#[derive(Clone, Debug, Default)]
struct Counts {
    cleared: Cleared,
    clears: u64,
    cut_off: u64,
    /// Of those that a crash cut off: units that were as before, and that were empty.
    untouched: u64,
    emptied: u64,
    scans: u64,
    /// Clears on a bad disk that did.
    failed: u64,
    shared: u64,
    divided: u64,
}

/// One node and what is known of it.
struct History {
    seed: u64,
    node: SimNode,
    /// Of the wall clock when the node was made.
    born: i64,
    prng: Prng,
    draw: Draw,
    config: Config,
    layout: Layout,
    shards: u16,
    /// How the tablets are divided now.
    map: TabletMap,
    /// Whether SSTables are merged without being asked for.
    merges: bool,
    /// Whether some lay in several tablets when it started.
    divides: bool,
    up: bool,
    applied: Vec<FrozenMutation>,
    counts: Counts,
}

impl History {
    fn new(seed: u64, planted: Option<Planted>) -> History {
        let mut prng = Prng::from_seed(seed);
        let draw = Draw::of(&mut prng);
        let shards = 1 + prng.below(3) as u16;
        let layout = match prng.one_in(2) {
            true => Layout::Ring,
            false => Layout::Tablets(1 + prng.below(8) as u32),
        };
        let mut node = SimNode::new(seed, shards);
        let born = node.run(async { runtime::time::wall_micros() });
        node.crash();
        let config = Config { planted, ..config() };
        let merges = prng.one_in(2);
        History {
            seed,
            node,
            born,
            prng,
            draw,
            config,
            layout,
            shards,
            map: layout.map(shards),
            merges,
            divides: false,
            up: false,
            applied: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn map(&self) -> TabletMap {
        self.map.clone()
    }

    /// Divides the tablets anew on all shards, perhaps beside merges.
    fn divide(&mut self) {
        if self.map.sharder().is_some() {
            return;
        }
        self.map = divided(&self.map, &mut self.prng);
        let (map, merges) = (self.map.clone(), self.prng.one_in(3));
        let divide = move || {
            let map = map.clone();
            async move {
                let divide = async { storage().divide(table(), map).await.unwrap() };
                let merge = async {
                    if merges {
                        storage().compact_all(table(), Default::default()).await.unwrap();
                    }
                };
                join(merge, divide).await;
            }
        };
        drop(self.node.run(on_all_shards(divide)));
        self.counts.divided += 1;
        let shared = self.node.run(on_all_shards(|| async {
            let table = mine();
            table.sstables().iter().any(|one| table.is_shared(one))
        }));
        self.divides |= shared.contains(&true);
    }

    /// Starts the node where it is down.
    fn start(&mut self) {
        if !self.up {
            // Merges expire by the wall clock: it stays before every expiry of the generators.
            let now = self.born + self.node.now().as_micros() as i64;
            self.node.suffer(Fault::Clock(-now - BEFORE.as_micros() as i64));
            let (config, layout, merges) = (self.config.clone(), self.layout, self.merges);
            self.map = layout.map(self.shards);
            self.node.run(open_with(config, layout, merges));
            let shared = self.node.run(on_all_shards(|| async {
                let table = mine();
                table.sstables().iter().filter(|one| table.is_shared(one)).count() as u64
            }));
            self.counts.shared += shared.iter().sum::<u64>();
            self.divides = shared.iter().any(|count| 0 < *count);
            self.up = true;
        }
    }

    fn stop(&mut self, orderly: bool) {
        if self.up && orderly {
            self.node.run(on_all_shards(|| async { storage().stop().await.unwrap() }));
        }
        self.node.crash();
        self.up = false;
        if self.prng.one_in(3) {
            self.shards = 1 + self.prng.below(3) as u16;
            self.node.set_shards(self.shards);
        }
    }

    /// Ranges between tokens of partitions, right before or after them.
    fn ranges(&mut self) -> Ranges {
        let mut ends: Vec<Token> = (0..KEYS)
            .flat_map(|one| [Token(token(one).0 - 1), token(one)])
            .chain((0..8).map(|at| self.map_end(at)))
            .chain([Token::MIN, Token::MAX])
            .collect();
        ends.sort_unstable();
        ends.dedup();
        let one_in = self.prng.between(2, 8);
        ends.retain(|_| self.prng.one_in(one_in));
        let mut ranges = Vec::new();
        for two in ends.windows(2) {
            if self.prng.one_in(2) {
                ranges.push((two[0], two[1]));
            }
        }
        ranges
    }

    fn map_end(&self, at: usize) -> Token {
        let lasts = self.map().last_tokens().to_vec();
        lasts.get(at).copied().unwrap_or(Token::MAX)
    }

    fn mutations(&mut self, keys: &[i32], count: u64) -> Vec<FrozenMutation> {
        let mut out = Vec::new();
        for _ in 0..count {
            let Some(&number) = self.prng.pick(keys) else { break };
            let one = self.draw.one(testing::mutation_of(testing::partition_key(number)));
            let view = one.view().unwrap();
            // Who writes a marker undoes a shadowable deletion, but not what a merge made of it.
            if !view.is_empty() && view.rows().all(|(_, row)| row.shadowable().is_none()) {
                out.push(one.clone());
            }
        }
        out
    }

    fn write(&mut self, some: Vec<FrozenMutation>) {
        let map = self.map();
        for one in some {
            self.applied.push(one.clone());
            let shard = map.shard_of(token_of(&one));
            self.node.run_on(shard, async move { storage().apply(one).await.unwrap() });
        }
    }

    /// Compares what each shard has with the model.
    fn check(&mut self, when: &str) -> Result<(), String> {
        let map = self.map();
        for shard in 0..self.shards {
            let own = |one: &&FrozenMutation| map.shard_of(token_of(one)) == shard;
            let own: Vec<_> = self.applied.iter().filter(own).cloned().collect();
            let model = Model::of(&own);
            let command = testing::read_all();
            let (rows, _) = self.node.run_on(shard, seen_here());
            if let Some(what) = difference(&model.answer(&command), &rows) {
                return Err(format!("{when}, shard {shard}: {what}"));
            }
        }
        Ok(())
    }

    /// What each tablet has in the ranges is all that it had, or nothing; or what it has outside is
    /// not what it was. From the next start on there may be other tablets: what is gone is gone.
    fn check_half(&mut self, ranges: &Ranges, units: &TabletMap) -> Result<(), String> {
        let command = testing::read_all();
        let mut rows = Vec::new();
        for shard in 0..self.shards {
            rows.extend(self.node.run_on(shard, seen_here()).0);
        }
        rows.sort_by_key(|row| Token::of(&row.key));
        let model = Model::of(&self.applied).answer(&command);
        let (untouched, emptied) = halves(&model, &rows, ranges, units)?;
        self.counts.untouched += untouched;
        self.counts.emptied += emptied.len() as u64;
        self.applied.retain(|one| {
            let at = token_of(one);
            !is_in(ranges, at) || !emptied.contains(&units.tablet_of(at))
        });
        Ok(())
    }

    fn flush(&mut self) {
        let flush = || async { storage().flush(table()).await.unwrap() };
        drop(self.node.run(on_all_shards(flush)));
    }

    /// All partitions of all shards, with their deletions.
    fn seen(&mut self) -> Vec<SeenPartition> {
        let shards = 0..self.shards;
        shards.flat_map(|shard| self.node.run_on(shard, seen_here()).1).collect()
    }

    fn forget(&mut self, ranges: &Ranges) {
        self.applied.retain(|one| !is_in(ranges, token_of(one)));
    }

    /// Clears ranges, beside reads, and perhaps is cut off by a crash, and asked again.
    fn clear(&mut self) -> Result<(), String> {
        let ranges = self.ranges();
        while self.prng.one_in(3) {
            let micros = *self.prng.pick(&[500, 5_000, 40_000, 80_000]).unwrap();
            let span = Duration::from_micros(self.prng.below(micros));
            let (asked, units) = (ranges.clone(), self.map());
            let ended = self.node.run(async move { timeout(span, clear_all(asked)).await.is_ok() });
            self.stop(false);
            self.start();
            if ended {
                self.forget(&ranges);
                return self.check("after a crash right after a clear");
            }
            self.counts.cut_off += 1;
            self.check_half(&ranges, &units).map_err(|what| format!("cut off: {what}"))?;
        }
        // Of what a deletion covers merges and memtables may have more or less.
        let is_flushed = !self.merges && !self.divides && self.prng.one_in(2);
        if is_flushed {
            self.flush();
        }
        let mut expected = self.seen();
        let how = self.prng.below(4);
        match how {
            0 => self.clear_beside_writes(&ranges)?,
            1 => self.clear_on_a_bad_disk(&ranges)?,
            _ => self.clear_beside_reads(&ranges)?,
        }
        self.forget(&ranges);
        self.check("after a clear")?;
        expected.retain(|partition| !is_in(&ranges, partition.key.token));
        let seen = self.seen();
        // Nor where others write, or a restart replays what is in SSTables as well.
        let is_same = is_flushed && 1 < how;
        if is_same && let Some(what) = difference(&expected, &seen) {
            return Err(format!("what lies outside of a clear has changed: {what}"));
        }
        if self.prng.one_in(2) {
            let orderly = self.prng.one_in(3);
            self.stop(orderly);
            self.start();
            self.check("after the start that followed a clear")?;
        }
        if self.prng.one_in(4) {
            let again =
                self.node.run(clear_all(ranges)).map_err(|what| format!("again: {what}"))?;
            if again != Cleared::default() {
                return Err(format!("there was something to clear again: {again:?}"));
            }
        }
        Ok(())
    }

    fn clear_beside_reads(&mut self, ranges: &Ranges) -> Result<(), String> {
        let (asked, map, before) = (ranges.clone(), self.map(), self.applied.clone());
        let own = before.into_iter().filter(|one| map.shard_of(token_of(one)) == 0);
        let own: Vec<_> = own.collect();
        let pause = Duration::from_micros(self.prng.between(20, 400));
        let of_reads = ranges.clone();
        let units = map.clone();
        let (cleared, scans) = self.node.run(async move {
            let ended = Slot::new(false);
            let clear = async {
                let cleared = clear_all(asked).await;
                ended.set(true);
                cleared
            };
            let reads = async {
                let (command, mut scans) = (testing::read_all(), 0);
                let model = Model::of(&own).answer(&command);
                while !ended.get() {
                    let rows = read_all(&storage(), &command).await;
                    halves(&model, &rows, &of_reads, &units)?;
                    scans += 1;
                    sleep(pause).await;
                }
                Ok::<_, String>(scans)
            };
            join(clear, reads).await
        });
        let cleared = cleared.map_err(|what| format!("a clear: {what}"))?;
        let scans = scans.map_err(|what| format!("beside a clear: {what}"))?;
        self.counts.scans += scans;
        self.counts.clears += 1;
        self.counts.cleared.removed += cleared.removed;
        self.counts.cleared.rewritten += cleared.rewritten;
        Ok(())
    }

    /// The same beside writes to what lies outside, flushes and merges.
    fn clear_beside_writes(&mut self, ranges: &Ranges) -> Result<(), String> {
        let map = self.map();
        let is_outside = |one: &i32| map.shard_of(token(*one)) == 0 && !is_in(ranges, token(*one));
        let keys: Vec<i32> = (0..KEYS).filter(is_outside).collect();
        let count = self.prng.between(4, 16);
        let some = self.mutations(&keys, count);
        let mut prng = self.prng.fork();
        let (asked, written) = (ranges.clone(), some.clone());
        let cleared = self.node.run(async move {
            let writes = async {
                for one in written {
                    storage().apply(one).await.unwrap();
                    match prng.below(8) {
                        0 => storage().flush(table()).await.unwrap(),
                        1 => drop(storage().compact_all(table(), Default::default()).await),
                        _ => sleep(Duration::from_micros(prng.below(1000))).await,
                    }
                }
            };
            join(clear_all(asked), writes).await.0
        });
        self.applied.extend(some);
        self.counts.clears += 1;
        cleared.map(|_| ()).map_err(|what| format!("a clear beside writes: {what}"))
    }

    /// The same where the disk fails now and then, up to a restart.
    fn clear_on_a_bad_disk(&mut self, ranges: &Ranges) -> Result<(), String> {
        let (asked, units) = (ranges.clone(), self.map());
        self.node.suffer(Fault::DiskErrors(self.prng.between(5, 60)));
        let cleared = self.node.run(clear_all(asked));
        self.node.suffer(Fault::DiskErrors(0));
        self.counts.failed += cleared.is_err() as u64;
        if cleared.is_ok() {
            self.forget(ranges);
            if self.prng.one_in(2) {
                self.stop(false);
                self.start();
            }
            return self.check("after a clear on a bad disk");
        }
        if self.prng.one_in(2) {
            self.stop(false);
            self.start();
            self.check_half(ranges, &units).map_err(|what| format!("bad disk: {what}"))?;
        }
        let units = self.map();
        let again = self.node.run(clear_all(ranges.clone()));
        if again.is_err() {
            // What is in doubt the next start knows.
            self.stop(false);
            self.start();
            self.check_half(ranges, &units).map_err(|what| format!("in doubt: {what}"))?;
            self.node.run(clear_all(ranges.clone()))?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.start();
        match self.prng.below(24) {
            0 => self.stop(false),
            1 => self.stop(true),
            2..6 => self.flush(),
            6 => {
                let merge = || async {
                    storage().compact_all(table(), Default::default()).await.unwrap();
                };
                drop(self.node.run(on_all_shards(merge)));
            }
            7 => {
                // So that segments of the log go.
                let close = || async { storage().close_log_segments() };
                drop(self.node.run(on_all_shards(close)));
            }
            8 => {
                let other = write(&schema(2, "t2"), self.prng.below(9), 1, 1, b"other");
                let shard = self.map().shard_of(token_of(&other));
                self.node.run_on(shard, async move { storage().apply(other).await.unwrap() });
            }
            9..12 => self.check("at any time")?,
            12..15 => self.clear()?,
            15 => self.divide(),
            _ => {
                let keys: Vec<i32> = (0..KEYS).collect();
                let count = self.prng.below(8);
                let some = self.mutations(&keys, count);
                self.write(some);
            }
        }
        Ok(())
    }

    fn run(mut self) -> Result<Counts, String> {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.stop(false);
        self.start();
        self.check("in the end")?;
        Ok(self.counts)
    }
}

/// The first that one of two lists has and the other has not.
fn difference<T: PartialEq + std::fmt::Debug>(expected: &[T], found: &[T]) -> Option<String> {
    let at = expected.iter().zip(found).position(|(a, b)| a != b);
    let at = at.unwrap_or(expected.len().min(found.len()));
    let (expected, found) = (expected.get(at), found.get(at));
    (expected != found).then(|| format!("{found:?} instead of {expected:?} at {at}"))
}

/// Of rows that are seen while ranges are cleared: how many units have all that the model has in
/// the ranges, and which have nothing of it. An error where one has a part, or where what lies
/// outside is not as the model has it.
fn halves(
    model: &[AnswerRow],
    rows: &[AnswerRow],
    ranges: &[(Token, Token)],
    units: &TabletMap,
) -> Result<(u64, Vec<usize>), String> {
    let inside = |row: &&AnswerRow| is_in(ranges, Token::of(&row.key));
    let outside = |rows: &[AnswerRow]| -> Vec<AnswerRow> {
        rows.iter().filter(|row| !inside(row)).cloned().collect()
    };
    if let Some(what) = difference(&outside(model), &outside(rows)) {
        return Err(format!("outside: {what}"));
    }
    let (mut untouched, mut emptied) = (0, Vec::new());
    for unit in 0..units.count() {
        let of = |rows: &[AnswerRow]| -> Vec<AnswerRow> {
            let own = |row: &&AnswerRow| units.tablet_of(Token::of(&row.key)) == unit;
            rows.iter().filter(inside).filter(own).cloned().collect()
        };
        let (was, is) = (of(model), of(rows));
        if was.is_empty() && is.is_empty() {
            continue;
        }
        if is.is_empty() {
            emptied.push(unit);
        } else if was == is {
            untouched += 1;
        } else {
            let what = difference(&was, &is);
            return Err(format!("a part of unit {unit} is gone: {what:?}"));
        }
    }
    Ok((untouched, emptied))
}

fn history(seed: u64, planted: Option<Planted>) -> Result<Counts, String> {
    let history = History::new(seed, planted);
    let shown = format!("NEREID_SIM_SEED={} {:?} {}", history.seed, history.layout, history.shards);
    history.run().map_err(|what| format!("{shown}: {what}"))
}

/// Whether a mistake is found in some history.
fn is_caught(planted: Planted) -> bool {
    (3000..3300).any(|seed| {
        let found = history(seed, Some(planted));
        found.inspect_err(|what| println!("{planted:?}: {}", &what[..what.len().min(300)])).is_err()
    })
}

#[test]
fn what_stays_in_memory_is_caught() {
    assert!(is_caught(Planted::ClearsNoMemtable));
    assert!(is_caught(Planted::ClearsNoCache));
}

#[test]
fn what_the_log_brings_back_is_caught() {
    assert!(is_caught(Planted::ClearsNoLog));
}

#[test]
fn what_is_cleared_beyond_the_ranges_is_caught() {
    assert!(is_caught(Planted::ClearsBeyond));
}

/// What shard 0 has after a crash that follows a clear of all that it has, of SSTables that shard 1
/// has as well, and is slow to write its part of.
fn left_of_shared(planted: Option<Planted>) -> usize {
    let mut node = SimNode::new(31, 1);
    let config = Config { planted, ..config() };
    let open = move |slow: bool| {
        let config = config.clone();
        on_all_shards(move || {
            let config = config.clone();
            async move {
                let storage = super::open(config).await;
                let bytes_per_second = if slow && runtime::shard_id() == 1 { 16 << 10 } else { 0 };
                storage.set_compaction_pace(Pace { bytes_per_second, ..Pace::default() });
            }
        })
    };
    let of_first = open(false);
    node.run(async move {
        of_first.await;
        storage().replay(Log::Data).await.unwrap();
        for partition in 0..200 {
            let value = vec![partition as u8; 300];
            storage().apply(write(&schema(1, "t1"), partition, 1, 1, &value)).await.unwrap();
        }
        storage().stop().await.unwrap();
    });
    node.crash();
    node.set_shards(2);
    let of_second = open(true);
    node.run(async move {
        of_second.await;
        storage().replay(Log::Data).await.unwrap();
        let whole = vec![(Token::MIN, Token::MAX)];
        storage().clear(schema(1, "t1").id, whole).await.unwrap();
    });
    node.crash();
    let of_third = open(false);
    node.run(async move {
        of_third.await;
        storage().replay(Log::Data).await.unwrap();
        let counts = on_all_shards(|| async {
            let mut count = 0;
            for partition in 0..200 {
                let map = TabletMap::static_map(2);
                if map.shard_of(Token::of(&key(partition))) == runtime::shard_id() {
                    count += rows(&storage(), &schema(1, "t1"), partition).await.len();
                }
            }
            count
        });
        let counts = counts.await;
        assert!(80 < counts[1], "{counts:?}");
        counts[0]
    })
}

#[test]
fn sstables_of_several_shards_do_not_bring_back_what_is_cleared() {
    assert_eq!(left_of_shared(None), 0);
    assert!(80 < left_of_shared(Some(Planted::ClearsNoSharers)));
}

#[test]
fn sstables_that_go_one_by_one_are_caught() {
    assert!(is_caught(Planted::ClearsApart));
}

#[test]
fn what_is_cleared_is_gone_and_all_else_stays() {
    let seeds = runtime::sim::seeds(60);
    let count = seeds.end - seeds.start;
    let mut sum = Counts::default();
    for seed in seeds {
        let counts = history(seed, None).unwrap_or_else(|what| panic!("{what}"));
        sum.clears += counts.clears;
        sum.cleared.removed += counts.cleared.removed;
        sum.cleared.rewritten += counts.cleared.rewritten;
        sum.cut_off += counts.cut_off;
        sum.untouched += counts.untouched;
        sum.emptied += counts.emptied;
        sum.scans += counts.scans;
        sum.shared += counts.shared;
        sum.failed += counts.failed;
        sum.divided += counts.divided;
    }
    println!("{sum:?}");
    if 60 <= count {
        assert!(100 < sum.clears && 30 < sum.cut_off, "{sum:?}");
        assert!(50 < sum.cleared.removed && 50 < sum.cleared.rewritten, "{sum:?}");
        assert!(10 < sum.untouched && 0 < sum.emptied, "{sum:?}");
        assert!(0 < sum.shared && 0 < sum.failed && 20 < sum.divided, "{sum:?}");
    }
}
