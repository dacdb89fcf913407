//! What strategies write and keep, on a model of files: sets of partitions, each there or deleted.
//!
//! A quarter of the operations deletes a partition, the rest writes one; a flush takes 64 of them.
//! After each flush jobs are done until the strategy asks for none. A merge keeps of a partition
//! what is newest, and a deletion only where another file may have older data beneath it. The
//! published theory of each strategy is the bound.

use super::testing::{file, options};
use super::*;
use std::collections::BTreeMap;
use stdx::Prng;

const ROW_BYTES: u64 = 1 << 20;
const DELETION_BYTES: u64 = 1 << 14;
const FLUSH: u64 = 64;

/// What a file has of a partition: when that was written, and whether it is a row.
#[derive(Clone, Copy)]
struct Piece {
    at: i64,
    live: bool,
}

/// A file: by token, so that it can be cut.
type Content = BTreeMap<i64, Piece>;

struct Model {
    options: Options,
    files: Vec<(File, Content)>,
    live: BTreeMap<i64, i64>,
    prng: Prng,
    partitions: u64,
    clock: i64,
    runs: u128,
    flushed_bytes: u64,
    written_bytes: u64,
    /// Of all that was looked at, before and after what a flush makes due.
    space: Vec<f64>,
    reads: Vec<f64>,
}

fn bytes_of(content: &Content) -> u64 {
    content.values().map(|piece| if piece.live { ROW_BYTES } else { DELETION_BYTES }).sum()
}

impl Model {
    fn new(pairs: &[(&str, &str)], partitions: u64) -> Model {
        Model {
            options: options(pairs),
            files: Vec::new(),
            live: BTreeMap::new(),
            prng: Prng::from_seed(1),
            partitions,
            clock: 0,
            runs: 0,
            flushed_bytes: 0,
            written_bytes: 0,
            space: Vec::new(),
            reads: Vec::new(),
        }
    }

    fn add(&mut self, content: Content, level: u32, run: u128) -> u64 {
        let (Some((first, _)), Some((last, _))) =
            (content.first_key_value(), content.last_key_value())
        else {
            return 0;
        };
        let times = || content.values().map(|piece| piece.at);
        let file = File {
            bytes: bytes_of(&content),
            tokens: (Token(*first), Token(*last)),
            level,
            run: Some(Uuid::from_u128(run)),
            timestamps: (times().min().unwrap(), times().max().unwrap()),
            ..file(0)
        };
        let bytes = file.bytes;
        self.files.push((file, content));
        bytes
    }

    /// Operations of one flush, the flush, and all that is due then.
    fn round(&mut self) {
        let mut memtable = Content::new();
        for _ in 0..FLUSH {
            self.clock += 1;
            let token = 1000 * self.prng.below(self.partitions) as i64;
            let live = !self.prng.one_in(4);
            memtable.insert(token, Piece { at: self.clock, live });
            match live {
                true => self.live.insert(token, self.clock),
                false => self.live.remove(&token),
            };
        }
        self.runs += 1;
        self.flushed_bytes += self.add(memtable, 0, self.runs);
        self.note_space();
        loop {
            let seen: Vec<File> = self.files.iter().map(|(file, _)| file.clone()).collect();
            let Some(job) = self.options.jobs(&seen, self.clock).into_iter().next() else { break };
            self.merge(&job);
        }
        self.note_space();
        let token = self.live.keys().nth(self.prng.below(self.live.len() as u64) as usize);
        let having = self.files.iter().filter(|(_, content)| content.contains_key(token.unwrap()));
        self.reads.push(having.count() as f64);
    }

    fn note_space(&mut self) {
        let disk: u64 = self.files.iter().map(|(file, _)| file.bytes).sum();
        self.space.push(disk as f64 / (self.live.len() as u64 * ROW_BYTES) as f64);
    }

    fn merge(&mut self, job: &Job) {
        let mut inputs = Vec::new();
        for index in job.files.iter().rev() {
            inputs.push(self.files.remove(*index).1);
        }
        let mut merged = Content::new();
        for (token, piece) in inputs.into_iter().flatten() {
            let newest = merged.entry(token).or_insert(piece);
            if newest.at < piece.at {
                *newest = piece;
            }
        }
        let beneath = |token: &i64| self.files.iter().any(|(_, other)| other.contains_key(token));
        merged.retain(|token, piece| piece.live || beneath(token));
        self.runs += 1;
        let (mut output, mut bytes) = (Content::new(), 0);
        for (token, piece) in merged {
            if job.bytes_max <= bytes {
                self.written_bytes += self.add(std::mem::take(&mut output), job.level, self.runs);
                bytes = 0;
            }
            bytes += if piece.live { ROW_BYTES } else { DELETION_BYTES };
            output.insert(token, piece);
        }
        self.written_bytes += self.add(output, job.level, self.runs);
    }
}

/// Amplifications in the steady state: of writes, of space on average and at most, of reads.
fn steady(pairs: &[(&str, &str)], partitions: u64) -> [f64; 4] {
    let mut model = Model::new(pairs, partitions);
    // All partitions are written some times over before anything is measured.
    let rounds = 4 * partitions / FLUSH;
    (0..rounds).for_each(|_| model.round());
    (model.flushed_bytes, model.written_bytes) = (0, 0);
    (model.space, model.reads) = (Vec::new(), Vec::new());
    (0..rounds).for_each(|_| model.round());
    for (token, at) in &model.live {
        let newest = model.files.iter().filter_map(|(_, content)| content.get(token));
        assert_eq!(newest.map(|piece| piece.at).max(), Some(*at), "nothing is lost");
    }
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
    let write = 1.0 + model.written_bytes as f64 / model.flushed_bytes as f64;
    let most = model.space.iter().copied().fold(0.0, f64::max);
    let found = [write, mean(&model.space), most, mean(&model.reads)];
    println!("{pairs:?}, {partitions}: write, space, at most, read: {found:.2?}");
    found
}

const SIZE_TIERED: (&str, &str) = ("class", "SizeTieredCompactionStrategy");
const LEVELED: (&str, &str) = ("class", "LeveledCompactionStrategy");
const INCREMENTAL: (&str, &str) = ("class", "IncrementalCompactionStrategy");

/// Live partitions are three quarters of all.
const PARTITIONS: u64 = 4000;

/// How many tiers of four there are between a flush and all of it.
fn tiers() -> f64 {
    ((PARTITIONS * 3 / 4) as f64 / FLUSH as f64).log(4.0)
}

#[test]
fn tiers_write_once_for_each_tier() {
    for class in [SIZE_TIERED, INCREMENTAL] {
        let [write, space, ..] = steady(&[class], PARTITIONS);
        assert!(write <= 2.0 + tiers(), "{write}");
        // All is overwritten again and again: more than the published 2.
        assert!(space <= 2.5, "{space}");
    }
}

#[test]
fn incremental_keeps_to_its_goal() {
    for (goal, parts) in [("1.25", 4.0), ("1.5", 2.0), ("2.0", 1.0)] {
        let pairs = [INCREMENTAL, ("space_amplification_goal", goal)];
        let [write, space, most, _] = steady(&pairs, PARTITIONS);
        let goal: f64 = goal.parse().unwrap();
        // A flush may come on top of what there may be.
        let flush = FLUSH as f64 / (PARTITIONS * 3 / 4) as f64;
        assert!(space <= goal && most <= goal + 2.0 * flush, "{goal}: {space} {most}");
        // The largest run is written once for three quarters at least of what may lie beside it.
        assert!(write <= 2.0 + tiers() + (parts + 1.0) * 4.0 / 3.0, "{goal}: {write}");
    }
}

#[test]
fn levels_write_ten_times_for_each_level() {
    let small = ("sstable_size_in_mb", "40");
    let [write, space, most, read] = steady(&[LEVELED, small], PARTITIONS);
    // Two levels: 400 files' worth of the first, and the rest.
    assert!(write <= 1.0 + 2.0 * 11.0, "{write}");
    assert!(space <= 1.25 && most <= 1.35, "{space} {most}");
    assert!(read <= 3.0, "{read}");
}
