//! What the arena costs, and how well its clock chooses. `arena CASE [ROUNDS]`, where CASE is
//!
//!  - `allocate`, `get`, `touch`, `free`, `relocate`, `evict`: ROUNDS of that on objects of 100
//!    bytes, so that an instruction counter run with two numbers of rounds gives those of one
//!  - `pause`: how long turns take, by the size of objects and whether they stay
//!  - `churn`: what part of the memory is live when objects of random sizes come and go
//!  - `hits`: hit ratios of the clock and of plain LRU on a zipf trace, without and with scans
//!  - `heap`, `segments`: resident memory after 1 GiB is freed, on the heap and of the arena
#![allow(clippy::disallowed_methods, reason = "it measures and is no part of a node")]

#[path = "arena/hits.rs"]
mod hits;

use memory::{Age, Arena, Handle, Verdict};
use std::hint::black_box;
use std::time::{Duration, Instant};
use stdx::Prng;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

const OBJECT: usize = 100;
const GIB: usize = 1 << 30;

fn arena(limit: usize) -> Arena {
    let mut arena = Arena::new(limit);
    arena.set_limit(limit);
    arena
}

/// One turn, by the verdicts; what was evicted.
fn turn(arena: &mut Arena, mut evicted: impl FnMut(Handle)) -> bool {
    let Some(mut victim) = arena.victim() else { return false };
    while let Some((handle, verdict)) = arena.next(&mut victim) {
        match verdict {
            Verdict::Keep => arena.relocate(handle),
            Verdict::Evict => {
                evicted(handle);
                arena.free(handle);
            }
        }
    }
    arena.release(victim);
    true
}

/// Rounds of one operation on objects that were made before.
fn cost(case: &str, rounds: usize) {
    const OBJECTS: usize = 200_000;
    let mut arena = arena(GIB);
    let make = |arena: &mut Arena| arena.allocate(Age::Probation, 0, OBJECT).expect("room");
    let mut handles: Vec<Handle> = Vec::with_capacity(OBJECTS + rounds);
    handles.extend((0..OBJECTS).map(|_| make(&mut arena)));
    let at = |round: usize| round.wrapping_mul(7919) % OBJECTS;
    let start = Instant::now();
    let mut done = rounds;
    match case {
        "allocate" => handles.extend((0..rounds).map(|_| make(&mut arena))),
        "get" => {
            let sum: u64 =
                (0..rounds).map(|round| u64::from(arena.get(handles[at(round)])[0])).sum();
            black_box(sum);
        }
        "touch" => (0..rounds).for_each(|round| arena.touch(handles[at(round)])),
        "free" => handles[..rounds].iter().for_each(|&handle| arena.free(handle)),
        "relocate" | "evict" => {
            if case == "relocate" {
                handles.iter().for_each(|&handle| arena.touch(handle));
            }
            done = 0;
            while done < rounds {
                let before = (arena.objects(), arena.stats().relocated_bytes);
                turn(&mut arena, |_| ());
                let bytes = arena.stats().relocated_bytes - before.1;
                done += before.0 - arena.objects() + bytes as usize / (OBJECT + 12);
            }
        }
        _ => usage(),
    }
    let took = start.elapsed();
    println!("{case}: {done} rounds, {:.1} ns each", took.as_nanos() as f64 / done as f64);
}

/// Times of turns that keep all, or evict all, of a segment.
fn pause() {
    for (len, keep) in [(40, false), (100, false), (1000, false), (4000, false)]
        .into_iter()
        .flat_map(|(len, keep)| [(len, keep), (len, true)])
    {
        let mut arena = arena(GIB / 4);
        while let Some(handle) = arena.allocate(Age::Probation, 0, len) {
            if keep {
                arena.touch(handle);
            }
        }
        let objects = arena.objects();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..1000 {
            let start = Instant::now();
            turn(&mut arena, |_| ());
            times.push(start.elapsed());
        }
        times.sort();
        let verdict = if keep { "kept" } else { "evicted" };
        println!(
            "objects of {len} {verdict}: median {:?}, 90 % {:?}; {:.1} bytes of overhead each",
            times[times.len() / 2],
            times[times.len() * 9 / 10],
            (GIB / 4) as f64 / objects as f64 - len as f64,
        );
    }
}

/// Objects of 16 bytes to 16 KiB, each size class as likely as another; random ones are replaced,
/// so that dead bytes appear everywhere.
fn churn() {
    let mut arena = arena(GIB / 8);
    let mut prng = Prng::from_seed(1);
    let mut handles: Vec<Handle> = Vec::new();
    let mut places = stdx::HashMap::default();
    let (mut live, mut evicted, mut samples) = (0.0, 0, 0);
    for round in 0..3_000_000_u64 {
        let len = prng.between(1, 2) << prng.between(4, 13);
        // Nine of ten replace another one: what a cache of rows that are updated does.
        if !handles.is_empty() && !prng.one_in(10) {
            let at = prng.below(handles.len() as u64) as usize;
            forget(&mut handles, &mut places, at);
            let handle = handles_last(&mut handles);
            arena.free(handle);
        }
        let handle = loop {
            if let Some(handle) = arena.allocate(Age::Probation, 0, len as usize) {
                break handle;
            }
            turn(&mut arena, |handle| {
                evicted += 1;
                let at = places[&handle];
                forget(&mut handles, &mut places, at);
                handles_last(&mut handles);
            });
        };
        places.insert(handle, handles.len());
        handles.push(handle);
        if prng.one_in(2) {
            arena.touch(handle);
        }
        if round > 1_000_000 && round % 1000 == 0 {
            live += arena.live_bytes() as f64 / arena.limit() as f64;
            samples += 1;
        }
    }
    let stats = arena.stats();
    println!(
        "churn: {:.1} % of the limit live; {evicted} objects evicted, {} MiB moved, {} segments \
         compacted, {} reclaimed; {stats:?}",
        live / f64::from(samples) * 100.0,
        stats.relocated_bytes >> 20,
        stats.compacted_segments,
        stats.reclaimed_units,
    );
}

/// Swaps a handle to the end of the list.
fn forget(handles: &mut [Handle], places: &mut stdx::HashMap<Handle, usize>, at: usize) {
    let last = handles.len() - 1;
    places.remove(&handles[at]);
    handles.swap(at, last);
    if at != last {
        places.insert(handles[at], at);
    }
}

fn handles_last(handles: &mut Vec<Handle>) -> Handle {
    handles.pop().expect("swapped to the end")
}

/// Resident bytes of the process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = status.split(' ').nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.expect("the second word is a number") * 4096
}

fn tell(what: &str, seconds: &[u64]) {
    let start = Instant::now();
    println!("{what}: {} MiB", resident() >> 20);
    for &second in seconds {
        std::thread::sleep(Duration::from_secs(second).saturating_sub(start.elapsed()));
        // An allocation here and there, as a node makes.
        black_box(vec![0_u8; 1000]);
        println!("{what}, {second} s later: {} MiB", resident() >> 20);
    }
}

/// 1 GiB in blocks of many sizes, then one in a thousand of them.
fn heap() {
    let mut prng = Prng::from_seed(1);
    let mut blocks = Vec::new();
    let mut bytes = 0;
    while bytes < GIB {
        let len = (prng.between(1, 2) << prng.between(4, 15)) as usize;
        blocks.push(vec![1_u8; len]);
        bytes += len;
    }
    println!("heap: {} MiB live", memory::live_bytes() >> 20);
    tell("1 GiB on the heap", &[]);
    let mut at = 0;
    blocks.retain(|_| {
        at += 1;
        at % 1000 == 0
    });
    println!("heap: {} MiB live", memory::live_bytes() >> 20);
    tell("freed but for one block in 1000", &[1, 2, 5, 10]);
}

fn segments() {
    let mut arena = arena(GIB);
    while let Some(handle) = arena.allocate(Age::Probation, 0, 1000) {
        arena.get_mut(handle).fill(1);
    }
    tell("1 GiB of segments", &[]);
    arena.set_limit(GIB / 1000);
    let start = Instant::now();
    let mut turns = 0;
    while arena.over_limit() && turn(&mut arena, |_| ()) {
        turns += 1;
    }
    println!("{turns} turns in {:?}", start.elapsed());
    tell("limit of 1 MiB", &[]);
}

fn usage() -> ! {
    eprintln!("arena allocate|get|touch|free|relocate|evict [ROUNDS]");
    eprintln!("arena pause|churn|hits|heap|segments");
    std::process::exit(2)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let case = words.next().unwrap_or_else(|| usage());
    let rounds = words.next().map_or(Some(100_000), |word| word.parse().ok());
    let rounds = rounds.filter(|&rounds| rounds <= 200_000).unwrap_or_else(|| usage());
    match case.as_str() {
        "pause" => pause(),
        "churn" => churn(),
        "hits" => hits::hits(),
        "heap" => heap(),
        "segments" => segments(),
        case => cost(case, rounds),
    }
}
