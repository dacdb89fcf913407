//! SSTables that go from a node to another: all of them are there, or none, whatever crashes or
//! fails meanwhile, and what was deleted stays so. The giver is a table, the taker another one.
//!
//! `NEREID_SIM_ROUNDS` sets the number of histories; a failure prints its seed, and
//! `NEREID_SIM_SEED` runs that one alone.

use super::*;
use crate::config::Planted;
use crate::{Arrived, Given, Rewrite};
use model::Token;
use mutation::{ClusteringPosition, ClusteringRange, RangeTombstone, Tombstone};
use runtime::time::{sleep, timeout};
use runtime::{local, on_all_shards};
use stdx::Prng;
use testkit::{Fault, SimNode};

const TABLETS: u32 = 4;
const KEYS: u64 = 24;
const ROWS: u64 = 3;
const TIMESTAMPS: u64 = 50;
const EVERYTHING: (Token, Token) = (Token::MIN, Token::MAX);

fn storage() -> Rc<Storage> {
    local::get::<Storage>()
}

fn giver() -> TableSchema {
    schema(1, "giver")
}

fn taker() -> TableSchema {
    schema(2, "taker")
}

async fn open_all(map: TabletMap, planted: Option<Planted>) {
    on_all_shards(move || {
        let map = map.clone();
        async move {
            let storage = Storage::open(Config { planted, ..config() }).await.unwrap();
            for mut schema in [giver(), taker()] {
                schema.options.tombstone_gc = vec![("mode".to_owned(), "immediate".to_owned())];
                storage.add_table(Rc::new(schema), map.clone(), Log::Data).await.unwrap();
            }
        }
    })
    .await;
    storage().replay(Log::Data).await.unwrap();
}

/// Copies what was given, in blocks of so many bytes.
async fn copy(given: &Given, block_bytes: usize) -> Result<Vec<Arrived>, String> {
    let mut all = Vec::new();
    for number in 0..given.sstables.len() {
        match copy_one(given, number, block_bytes).await {
            Ok(one) => all.push(one),
            Err(why) => {
                storage().drop_arrived(taker().id, all).await;
                return Err(why);
            }
        }
    }
    Ok(all)
}

async fn copy_one(given: &Given, number: usize, block_bytes: usize) -> Result<Arrived, String> {
    let told = |error: crate::StorageError| error.to_string();
    let one = &given.sstables[number];
    let toc = given.read((number, 0), 0, 1 << 20).await.map_err(told)?;
    let source = one.descriptor.file_name(sstable::Component::Data);
    let version = (one.descriptor.version.name(), source);
    let mut arriving = storage().receive(taker().id, version, &toc).await.map_err(told)?;
    let copied = async {
        for (at, file) in one.files.iter().enumerate().skip(1) {
            let arrives = arriving.create(&file.suffix, file.bytes).await?;
            // The last block comes first.
            for block in (0..file.bytes.div_ceil(block_bytes as u64)).rev() {
                let offset = block * block_bytes as u64;
                let bytes = given.read((number, at), offset, block_bytes).await?;
                arrives.write(offset, &bytes).await?;
            }
            arriving.add(arrives).await?;
        }
        Ok(())
    };
    match copied.await.map_err(told) {
        Ok(()) => Ok(arriving.finish()),
        Err(why) => {
            storage().drop_arrived(taker().id, vec![arriving.give_up()]).await;
            Err(why)
        }
    }
}

/// What a node does that gets a range. False where it is not given as files.
async fn take(range: (Token, Token)) -> Result<bool, String> {
    let told = |error: crate::StorageError| error.to_string();
    let Some(given) = storage().give(giver().id, range).await.map_err(told)? else {
        return Ok(false);
    };
    let copied = copy(&given, 4096).await;
    given.release().await.map_err(|error| error.to_string())?;
    storage().join_arrived(taker().id, range, copied?).await.map_err(told)?;
    Ok(true)
}

/// A deletion of one row.
pub(super) fn delete(table: &TableSchema, number: u64, row: u32, timestamp: i64) -> FrozenMutation {
    let mut builder = MutationBuilder::new(table, &key(number));
    let range = ClusteringRange {
        start: ClusteringPosition::before(clustering(&[row]).into()),
        end: ClusteringPosition::after(clustering(&[row]).into()),
    };
    builder.delete_range(RangeTombstone { range, tombstone: Tombstone::new(timestamp, 1) });
    builder.freeze()
}

type Content = BTreeMap<u64, BTreeMap<u32, (i64, Vec<u8>)>>;

/// What the shards have of a table.
async fn content(table: TableSchema, map: TabletMap) -> Content {
    let table = Rc::new(table);
    let id = table.id;
    let all = on_all_shards(move || {
        let map = map.clone();
        async move {
            let table = if id == giver().id { giver() } else { taker() };
            let mut found = Content::new();
            for number in 0..KEYS {
                if map.shard_of(Token::of(&key(number))) == runtime::shard_id() {
                    found.insert(number, rows(&storage(), &table, number).await);
                }
            }
            found
        }
    });
    let mut out: Content = all.await.into_iter().flatten().collect();
    out.retain(|_, rows| !rows.is_empty());
    out
}

fn within(content: Content, (after, last): (Token, Token)) -> Content {
    let is_in = |number: &u64| {
        let token = Token::of(&key(*number));
        (after < token || after == Token::MIN) && token <= last
    };
    content.into_iter().filter(|(number, _)| is_in(number)).collect()
}

/// Files that no start may leave.
fn leftovers(node: &mut SimNode) -> Vec<String> {
    let of = |path: &String| path.contains("/given/") || path.ends_with("-TOC.txt.tmp");
    node.disk().files().into_iter().filter(of).collect()
}

#[derive(Default, Debug)]
struct Counts {
    taken: u64,
    cut_off: u64,
    whole_after: u64,
    failed: u64,
    sstables: u64,
}

struct History {
    node: SimNode,
    prng: Prng,
    map: TabletMap,
}

impl History {
    fn new(seed: u64) -> History {
        let mut prng = Prng::from_seed(seed);
        let shards = prng.between(1, 4) as u16;
        let mut history = History {
            node: SimNode::new(seed, shards),
            prng,
            map: TabletMap::tablets(TABLETS, shards),
        };
        history.open();
        history
    }

    fn open(&mut self) {
        let map = self.map.clone();
        self.node.run(open_all(map, None));
    }

    /// After a crash, with as many shards as there were: tablets stay where they are.
    fn restart(&mut self) {
        self.node.crash();
        self.node.heal();
        self.open();
        let left = leftovers(&mut self.node);
        assert!(left.is_empty(), "{left:?}");
    }

    /// Writes to the giver; to the taker as well where both are written.
    fn write(&mut self, both: bool) {
        let (number, row) = (self.prng.below(KEYS), self.prng.below(ROWS) as u32);
        let (timestamp, is_deletion) = (self.prng.below(TIMESTAMPS) as i64, self.prng.one_in(4));
        let value = vec![number as u8; self.prng.below(900) as usize];
        let shard = self.map.shard_of(Token::of(&key(number)));
        let tables = if both { vec![giver(), taker()] } else { vec![giver()] };
        for table in tables {
            let one = match is_deletion {
                true => delete(&table, number, row, timestamp),
                false => write(&table, number, row, timestamp, &value),
            };
            self.node.run_on(shard, async move { storage().apply(one).await.unwrap() });
        }
    }

    fn settle(&mut self) {
        let table = if self.prng.one_in(2) { giver().id } else { taker().id };
        let merges = self.prng.one_in(2);
        let work = move || async move {
            storage().flush(table).await.unwrap();
            if merges {
                storage().compact_all(table, Rewrite::default()).await.unwrap();
            }
        };
        drop(self.node.run(on_all_shards(work)));
    }

    fn content(&mut self, table: TableSchema, range: (Token, Token)) -> Content {
        let map = self.map.clone();
        within(self.node.run(content(table, map)), range)
    }

    /// Takes a tablet that the taker has nothing of, until it has it.
    fn take(&mut self, tablet: usize, counts: &mut Counts) {
        let range = self.map.range(tablet);
        loop {
            let expected = self.content(giver(), range);
            let is_bad = self.prng.one_in(3);
            if is_bad {
                self.node.suffer(Fault::DiskErrors(self.prng.between(10, 60)));
            }
            let micros = *self.prng.pick(&[1_000, 20_000, 100_000, 10_000_000]).unwrap();
            let span = Duration::from_micros(self.prng.below(micros));
            let ended = self.node.run(async move { timeout(span, take(range)).await });
            let is_taken = matches!(ended, Ok(Ok(true)));
            assert!(!matches!(ended, Ok(Ok(false))), "tablet {tablet} is not given");
            self.node.heal();
            counts.failed += matches!(ended, Ok(Err(_))) as u64;
            counts.cut_off += ended.is_err() as u64;
            if matches!(ended, Ok(Err(_))) {
                assert_eq!(self.content(taker(), range), Content::new(), "after {ended:?}");
            }
            // A shard that could not open what is there refuses reads until then.
            if ended.is_err() || (is_bad && is_taken) || self.prng.one_in(2) {
                self.restart();
            }
            let found = self.content(taker(), range);
            if found == expected {
                counts.taken += is_taken as u64;
                counts.whole_after += (!is_taken && !found.is_empty()) as u64;
                if is_taken || !found.is_empty() {
                    return;
                }
            }
            assert!(!is_taken && found.is_empty(), "{ended:?}: {found:?} is not {expected:?}");
        }
    }

    fn run(mut self, counts: &mut Counts) {
        let writes = self.prng.between(5, 60);
        for _ in 0..writes {
            self.write(false);
            if self.prng.one_in(9) {
                self.settle();
            }
        }
        for tablet in 0..TABLETS as usize {
            self.take(tablet, counts);
        }
        for _ in 0..10 {
            self.write(true);
        }
        self.settle();
        let found = self.content(taker(), EVERYTHING);
        assert_eq!(found, self.content(giver(), EVERYTHING));
        self.restart();
        assert_eq!(found, self.content(taker(), EVERYTHING));
        let stats = self.node.run(async { storage().table_stats(taker().id).unwrap() });
        counts.sstables += stats.sstables;
    }
}

#[test]
fn what_is_taken_is_there_whole_or_not_at_all() {
    let seeds = runtime::sim::seeds(40);
    let (count, mut counts) = (seeds.end - seeds.start, Counts::default());
    for seed in seeds {
        println!("NEREID_SIM_SEED={seed}");
        History::new(seed).run(&mut counts);
    }
    println!("{counts:?}");
    if 40 <= count {
        assert!(0 < counts.failed && 20 < counts.cut_off && 100 < counts.taken, "{counts:?}");
    }
}

/// Some writes of the giver, flushed and not.
async fn fill(shards: u16) {
    for number in 0..KEYS {
        let shard = TabletMap::static_map(shards).shard_of(Token::of(&key(number)));
        let work = move || async move {
            let one = write(&giver(), number, 1, 1, &[0x5a; 200]);
            storage().apply(one).await.unwrap();
            if number == KEYS / 2 {
                storage().flush(giver().id).await.unwrap();
            }
        };
        runtime::on_shard(shard, work).await;
    }
}

#[test]
fn a_whole_ring_is_given_and_a_part_of_it_is_not() {
    for shards in [1, 3] {
        let mut node = SimNode::new(7, shards);
        let map = TabletMap::static_map(shards);
        let given = map.clone();
        node.run(async move {
            open_all(map.clone(), None).await;
            fill(shards).await;
            assert_eq!(take((Token::MIN, Token(0))).await, Ok(false));
            assert_eq!(take((Token(0), Token::MAX)).await, Ok(false));
            assert_eq!(take(EVERYTHING).await, Ok(true));
            let expected = content(giver(), map.clone()).await;
            assert_eq!((content(taker(), map).await, expected.len()), (expected, KEYS as usize));
        });
        node.crash();
        let found = node.run(async move {
            open_all(given.clone(), None).await;
            content(taker(), given).await
        });
        assert_eq!(found.len(), KEYS as usize);
        assert!(leftovers(&mut node).is_empty());
    }
}

#[test]
fn what_was_linked_can_be_read_though_it_was_merged_away() {
    let mut node = SimNode::new(8, 1);
    node.run(async {
        open_all(TabletMap::static_map(1), None).await;
        fill(1).await;
        let given = storage().give(giver().id, EVERYTHING).await.unwrap().unwrap();
        assert!(1 < given.sstables.len());
        storage().compact_all(giver().id, Rewrite::default()).await.unwrap();
        storage().truncate(giver().id, 1).await.unwrap();
        let arrived = copy(&given, 1 << 20).await.unwrap();
        storage().join_arrived(taker().id, EVERYTHING, arrived).await.unwrap();
        let found = content(taker(), TabletMap::static_map(1)).await;
        assert_eq!(found.len(), KEYS as usize);
        given.release().await.unwrap();
        let error = given.read((0, 0), 0, 100).await.unwrap_err();
        assert!(error.to_string().contains("/given/"), "{error}");
        assert!(given.read((9, 0), 0, 100).await.is_err());
    });
}

#[test]
fn damage_does_not_travel_and_is_named() {
    let mut node = SimNode::new(9, 1);
    node.run(async {
        open_all(TabletMap::static_map(1), None).await;
        fill(1).await;
        storage().flush(giver().id).await.unwrap();
    });
    let files = node.disk().files();
    let of_giver = |name: &str| {
        let of = |path: &&String| path.contains("/giver-") && path.ends_with(name);
        files.iter().find(of).unwrap().clone()
    };
    for component in ["-Data.db", "-Index.db", "-Filter.db", "-Statistics.db", "-Scylla.db"] {
        let path = of_giver(component);
        node.disk().corrupt(&path, 25, 0x01);
        let data = path.replace(component, "-Data.db");
        let name = data.rsplit('/').next().unwrap().to_owned();
        node.run(async move {
            let why = take(EVERYTHING).await.unwrap_err();
            assert!(why.contains(&name), "{name}: {why}");
            assert_eq!(content(taker(), TabletMap::static_map(1)).await, Content::new());
        });
        node.disk().corrupt(&path, 25, 0x01);
        let files = node.disk().files();
        let of_taker = |path: &&String| path.contains("/taker-") && path.contains("-big-");
        assert_eq!(files.iter().find(of_taker), None);
    }
    assert_eq!(node.run(take(EVERYTHING)), Ok(true));
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let mut node = SimNode::new(10, 1);
    node.run(async {
        open_all(TabletMap::static_map(1), None).await;
        fill(1).await;
        let begin = async |version: &str, toc: &[u8]| {
            let version = (version, "there".to_owned());
            let begun = storage().receive(taker().id, version, toc).await;
            begun.map_err(|error| error.to_string())
        };
        for (version, toc) in [("zz", &b"Data.db\nTOC.txt\n"[..]), ("me", b""), ("me", b"../x\n")] {
            assert!(begin(version, toc).await.is_err_and(|why| !why.is_empty()), "{version}");
        }
        assert!(begin("me", b"Data.db\nTOC.txt.tmp\n").await.is_err());
        let arriving = begin("me", b"Data.db\nDigest.crc32\nTOC.txt\n").await.unwrap();
        for suffix in ["TOC.txt", "Index.db", "../Data.db", ""] {
            assert!(arriving.create(suffix, 1).await.is_err(), "{suffix}");
        }
        let mut arriving = arriving;
        let file = arriving.create("Data.db", 10_000).await.unwrap();
        for (offset, len) in [(0, 10), (0, 10_001), (1, 4096), (8192, 1), (u64::MAX, 1), (0, 0)] {
            assert!(file.write(offset, &vec![1; len]).await.is_err(), "{offset} {len}");
        }
        file.write(4096, &[1; 4096]).await.unwrap();
        assert!(arriving.add(file).await.unwrap_err().to_string().contains("0 bytes came"));
        storage().drop_arrived(taker().id, vec![arriving.give_up()]).await;
        // Other tokens than were asked for.
        let given = storage().give(giver().id, EVERYTHING).await.unwrap().unwrap();
        let arrived = copy(&given, 1 << 20).await.unwrap();
        let joined = storage().join_arrived(taker().id, (Token(0), Token::MAX), arrived).await;
        assert!(joined.unwrap_err().to_string().contains("it has tokens from"));
        assert_eq!(content(taker(), TabletMap::static_map(1)).await, Content::new());
        sleep(Duration::from_millis(1)).await;
    });
}

/// Whether a row is there that was deleted while it was on its way.
fn comes_back(planted: Option<Planted>) -> bool {
    let mut node = SimNode::new(11, 1);
    node.run(async move {
        open_all(TabletMap::static_map(1), planted).await;
        storage().begin_arrivals(taker().id);
        storage().apply(write(&giver(), 1, 1, 1, b"old")).await.unwrap();
        let given = storage().give(giver().id, EVERYTHING).await.unwrap().unwrap();
        for table in [giver(), taker()] {
            storage().apply(delete(&table, 1, 1, 2)).await.unwrap();
            storage().apply(write(&table, 2, 1, 2, b"other")).await.unwrap();
            storage().flush(table.id).await.unwrap();
            storage().close_log_segments();
            sleep(Duration::from_secs(10)).await;
            storage().compact_all(table.id, Rewrite::default()).await.unwrap();
        }
        let arrived = copy(&given, 1 << 20).await.unwrap();
        storage().join_arrived(taker().id, EVERYTHING, arrived).await.unwrap();
        storage().end_arrivals(taker().id);
        assert_eq!(rows(&storage(), &giver(), 1).await.len(), 0);
        !rows(&storage(), &taker(), 1).await.is_empty()
    })
}

#[test]
fn deletions_are_kept_until_all_has_arrived() {
    assert!(!comes_back(None));
    assert!(comes_back(Some(Planted::ForgetsArriving)));
}
