//! Views of a table that has data already, built while clients write and nodes crash.
//!
//! Invariants
//!  - *built-is-whole*: when every node says that the views are built, and nothing is on its way,
//!    they have just the rows that the base table has.

use super::suffering::is_quiet_here;
use super::views::*;
use super::world::*;
use model::{TableSchema, Token};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder};
use replication::Consistency;
use replication::coordinator::build::{self, ViewState};
use replication::coordinator::nodes::Planted;
use runtime::time::sleep;
use std::time::Duration;
use stdx::Prng;
use testkit::config::entry;

/// Rows of the one large partition, and of others together.
const LARGE_ROWS: i32 = 1800;
const SMALL_ROWS: i32 = 1500;
/// Partitions from here on have one row each.
const SMALL: i32 = 1000;

/// A part of the data that is there before the views.
fn part(schema: &TableSchema, pk: i32, rows: impl Iterator<Item = i32>) -> (i32, FrozenMutation) {
    let mut builder = MutationBuilder::new(schema, &pk.to_be_bytes());
    for ck in rows {
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp: 1 });
        if (ck + pk) % 5 != 0 {
            let value = ((ck + pk) % VALUES).to_be_bytes();
            row.cell(column(schema, "v"), Cell::live(1, &value));
        }
        builder.row(&clustering(ck), &row.finish());
    }
    (pk, builder.freeze())
}

async fn write_all(level: Consistency) {
    let table = entry("ks", BASE);
    let large = (0..LARGE_ROWS / 300).map(|at| (0, at * 300..(at + 1) * 300));
    let small = (0..SMALL_ROWS).map(|at| (SMALL + at, 0..1));
    for (pk, rows) in large.chain(small) {
        let (pk, write) = part(&table.schema, pk, rows);
        let (token, options) = (testkit::rows::token(pk), write_options(level));
        coordinator().write(&table, token, write, &options).await.expect("a write");
    }
}

/// Reads all replicas. A node that was killed is asked first on connections of its last life, which
/// break then.
async fn read_at_all(name: &str) -> Result<Rows, String> {
    for _ in 0..10 {
        match read_all(name, Consistency::All).await {
            Err(why) if why.contains("Connection reset") => sleep(SECOND).await,
            read => return read,
        }
    }
    read_all(name, Consistency::All).await
}

/// What is left to build on a node.
async fn unbuilt() -> Vec<ViewState> {
    let states = build::states().await;
    assert_eq!(states.len(), 2, "{states:?}");
    states.into_iter().filter(|state| !state.is_built).collect()
}

/// What was seen of builds that were broken off.
#[derive(Debug, Default)]
struct Seen {
    /// Nodes that went on from within, after a crash.
    resumed: usize,
}

struct Schedule {
    nodes: Nodes,
    shards: Vec<u16>,
    prng: Prng,
    time: i64,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let (count, copies) = (prng.between(1, 3), prng.between(1, 2) as u32);
        let shards: Vec<u16> = (0..count).map(|_| prng.between(1, 2) as u16).collect();
        let seats: Vec<(u16, u16)> = shards.iter().map(|shards| (*shards, 0)).collect();
        let copies = copies.min(count as u32);
        let mut nodes = Plan::with(seed, &seats, copies, planted).hinting(Hinting::new()).start();
        nodes.run(0, write_all(Consistency::All));
        (0..nodes.count()).for_each(|node| nodes.run(node, make_views()));
        Schedule { nodes, shards, prng, time: 10 }
    }

    /// A client writes, of the large partition and of others.
    fn write(&mut self, node: usize) {
        self.time += 1;
        let (time, mut prng) = (self.time, self.prng.fork());
        self.nodes.run(node, async move {
            let (pk, write) = draw(&mut prng, time);
            let (table, token) = (entry("ks", BASE), testkit::rows::token(pk));
            let options = write_options(Consistency::One);
            // What the client is told of it does not matter: the views follow what there is.
            let _ = coordinator().write(&table, token, write, &options).await;
        });
    }

    fn run_for(&mut self, micros: u64) {
        let micros = 1 + self.prng.below(micros);
        self.nodes.world.run_for(Duration::from_micros(micros));
    }

    /// Crashes a node in the midst of it.
    fn crash(&mut self, seen: &mut Seen) {
        let node = self.prng.below(self.nodes.count() as u64) as usize;
        self.nodes.crash(node);
        self.run_for(100_000);
        self.nodes.start(node);
        self.nodes.run(node, make_views());
        let left = self.nodes.run(node, unbuilt());
        let is_within = |token: &i64| Token::MIN.0 < *token;
        let shards = left.iter().flat_map(|state| &state.shards);
        seen.resumed += usize::from(shards.map(|(_, token)| token).any(is_within));
    }

    fn is_quiet(&mut self) -> bool {
        let shards = self.shards.clone();
        let mut places =
            (0..).zip(shards).flat_map(|(node, count)| (0..count).map(move |it| (node, it)));
        let is_sent = places.all(|place| self.nodes.run_on(place, async { is_quiet_here() }));
        is_sent && (0..self.nodes.count()).all(|it| self.nodes.run(it, unbuilt()).is_empty())
    }

    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..120 {
            self.nodes.world.run_for(SECOND);
            if self.is_quiet() {
                return Ok(());
            }
        }
        Err("something is not built, or on its way".to_owned())
    }

    /// What was found wrong.
    fn run(mut self, seen: &mut Seen) -> Result<(), String> {
        for _ in 0..6 {
            for _ in 0..self.prng.below(4) {
                let node = self.prng.below(self.nodes.count() as u64) as usize;
                self.write(node);
                self.run_for(3_000);
            }
            self.crash(seen);
        }
        self.settle()?;
        let base = self.nodes.run(0, read_at_all(BASE))?;
        // A client may have deleted the large partition.
        assert!(SMALL_ROWS as usize <= base.len(), "{} rows", base.len());
        self.settle()?;
        for name in ["by_v", "by_ck"] {
            let expected = seen_by(name, &base);
            let found = self.nodes.run(0, read_at_all(name))?;
            if found != expected {
                return Err(format!("{name}: {}", difference(&found, &expected)));
            }
        }
        Ok(())
    }
}

#[test]
fn views_of_tables_with_data_are_built_whatever_happens() {
    let mut seen = Seen::default();
    let seeds = runtime::sim::seeds(6);
    let is_one = seeds.start + 1 == seeds.end;
    for seed in seeds {
        let checked = Schedule::new(seed, None).run(&mut seen);
        assert!(checked.is_ok(), "seed {seed}: {}", checked.unwrap_err());
    }
    assert!(is_one || 0 < seen.resumed, "no build went on after a crash");
}

#[test]
fn a_place_that_is_kept_before_what_was_built_is_caught() {
    let planted = Some(Planted::KeepsPlacesFirst);
    let seen = &mut Seen::default();
    let caught = (0..30).find(|seed| Schedule::new(*seed, planted).run(seen).is_err());
    assert!(caught.is_some(), "KeepsPlacesFirst is not caught");
}
