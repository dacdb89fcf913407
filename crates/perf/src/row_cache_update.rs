//! `perf-row-cache-update`: what it costs to merge a memtable into the row cache, and how long
//! other tasks of the shard wait meanwhile.
//!
//! One cache without SSTables, filled before by merging what it is to hold. For each memtable a
//! line tells of its filling, one of memory, one of the merge; the last line of a case tells of
//! emptying the cache. Times are of the shard's thread alone: what the machine does besides does
//! not count.

mod cases;
mod data;
mod options;

use self::options::Options;
use super::delays::{self, Spread};
use super::statistics::median;
use super::tool;
use cases::Case;
use clap::Command;
use data::Data;
use runtime::counters::{Counters, cpu_ns};
use serde_json::json;
use std::process::ExitCode;
use std::rc::Rc;
use storage::memtable::Memtable;
use storage::{LoneCache, RowCacheStats};

/// Merges that may fill a cache of small partitions.
const FILLS_MAX: u64 = 10_000;

/// A merge.
struct Merged {
    cpu_ns: u64,
    /// Where the machine counts them.
    instructions: Option<u64>,
    waits: Spread,
    /// Turns over the threshold of the stall detector.
    stalls: u64,
}

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options) -> Result<(), String> {
    let mut results = Vec::new();
    for case in &options.cases {
        results.push(run(options, case).await?);
    }
    let Some(path) = &options.json_result else { return Ok(()) };
    let document = json!({ "results": results, "versions": super::versions() });
    let written = runtime::io::fs::write_file_atomic(path, document.to_string().as_bytes()).await;
    written.map_err(|error| error.to_string())
}

async fn run(options: &Options, case: &Case) -> Result<serde_json::Value, String> {
    println!("\n{}:", case.about);
    let data = Data::of(case, options)?;
    let cache = LoneCache::new(data.schema.clone(), options.cache_bytes);
    merge_away(&cache, data.base(0).await).await?;
    let mut number = 1;
    while data.fills() && cache.stats().partition_evictions == 0 && number < FILLS_MAX {
        merge_away(&cache, data.memtable(number).await).await?;
        number += 1;
    }
    let mut merges = Vec::new();
    for number in number..number + options.iterations {
        if data.empties() {
            merge_away(&cache, data.base(number).await).await?;
        }
        let start = cpu_ns();
        let (memtable, waits) = delays::during(data.memtable(number)).await;
        println!("Memtable fill took {:.6} [ms], {waits}", millis(cpu_ns() - start));
        let before = cache.stats();
        println!("{}, memtable: {:.2} [MB]", memory(&before), mega(memtable.bytes() as u64));
        let merged = merge(&cache, &memtable).await?;
        println!("{}", line(&data, &merged, &before, &cache.stats()));
        merges.push(merged);
        Memtable::take_apart(memtable).await;
    }
    let start = cpu_ns();
    let ((), waits) = delays::during(cache.clear()).await;
    println!("invalidation: {:.6} [ms], preemption: {waits}", millis(cpu_ns() - start));
    cache.close().await;
    let costs: Vec<f64> = merges.iter().map(|merged| micros_per_row(&data, merged)).collect();
    let longest = merges.iter().map(|merged| merged.waits.maximum_ns).max().map(millis);
    let (cost, longest) = (median(&costs).unwrap_or(0.0), longest.unwrap_or(0.0));
    let stalls: u64 = merges.iter().map(|merged| merged.stalls).sum();
    println!(
        "median update: {cost:.3} us/row, longest turn: {longest:.3} [ms], turns that the stall \
         detector saw: {stalls}"
    );
    Ok(json!({
        "case": case.name,
        "rows": data.rows(),
        "microseconds_per_row": cost,
        "longest_turn_ms": longest,
        "stalls": stalls,
    }))
}

/// Merges a memtable that is not needed afterwards.
async fn merge_away(cache: &LoneCache, memtable: Rc<Memtable>) -> Result<(), String> {
    merge(cache, &memtable).await?;
    Memtable::take_apart(memtable).await;
    Ok(())
}

async fn merge(cache: &LoneCache, memtable: &Rc<Memtable>) -> Result<Merged, String> {
    let counters = Counters::open();
    let (start, before, stalls) = (cpu_ns(), counters.read().instructions, runtime::stalls().0);
    let (done, waits) = delays::during(cache.merge(memtable, |_| true)).await;
    done.map_err(|error| error.to_string())?;
    let instructions = counters.read().instructions.zip(before).map(|(now, then)| now - then);
    let stalls = runtime::stalls().0 - stalls;
    Ok(Merged { cpu_ns: cpu_ns() - start, instructions, waits, stalls })
}

fn line(data: &Data<'_>, merged: &Merged, before: &RowCacheStats, after: &RowCacheStats) -> String {
    let allocated = after.allocated_bytes - before.allocated_bytes;
    let moved = after.moved_bytes - before.moved_bytes;
    let instructions = match merged.instructions {
        Some(count) => (count / data.rows()).to_string(),
        None => "n/a".to_string(),
    };
    format!(
        "update: {:.6} [ms], {:.3} us/row, {instructions} insns/row, preemption: {}, {}, \
         alloc/comp: {:.2}/{:.2} [MB] (amp: {:.3}), pr/ev {}/{}",
        millis(merged.cpu_ns),
        micros_per_row(data, merged),
        merged.waits,
        memory(after),
        mega(allocated),
        mega(moved),
        moved as f64 / allocated.max(1) as f64,
        data.rows(),
        after.row_evictions - before.row_evictions,
    )
}

fn memory(stats: &RowCacheStats) -> String {
    format!("cache: {:.2}/{:.2} [MB]", mega(stats.bytes_used), mega(stats.bytes_limit))
}

fn micros_per_row(data: &Data<'_>, merged: &Merged) -> f64 {
    merged.cpu_ns as f64 / 1e3 / data.rows() as f64
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}
