//! `perf-sstable`: how many partitions a second one SSTable is written, read, or merged at.
//!
//! Every shard has SSTables of its own, made before the measurement; a run does one operation
//! `--parallelism` times at once on each shard. No node, no cache of rows, no memtables in the way.
//!
//! In reading order: [`options`], [`data`] (what is stored), [`bench`] (what is measured).

mod bench;
mod data;
mod options;

use self::options::Mode;
use self::options::Options;
use super::statistics::Aggregate;
use super::tool::{self, Bench};
use clap::Command;
use std::process::ExitCode;

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options, at: &Bench) -> Result<(), String> {
    let (shared, folder) = (options.clone(), at.folder());
    let measured: Vec<Result<(Vec<f64>, u64), String>> = runtime::on_all_shards(move || {
        let (options, folder) = (shared.clone(), folder.clone());
        async move {
            let folder = folder.join(format!("shard-{}", runtime::shard_id()));
            let rates = bench::run(&options, &folder).await;
            let removed = runtime::io::fs::remove_dir_all(&folder).await;
            rates.and_then(|rates| removed.map(|()| rates).map_err(|error| error.to_string()))
        }
    })
    .await;
    let mut total = vec![0.0; options.iterations as usize];
    let (mut bytes, mut partitions) = (0, 0);
    for measured in measured {
        let (rates, bytes_read) = measured?;
        bytes += bytes_read;
        partitions += options.partitions;
        for (sum, rate) in total.iter_mut().zip(rates) {
            *sum += rate;
        }
    }
    println!("{}", line(&total, options.parallelism));
    if let (Mode::Compaction, Some(all)) = (options.mode, Aggregate::of(&total)) {
        println!("{}", input_line(all.mean, bytes as f64 / partitions as f64));
    }
    Ok(())
}

/// The same in bytes of the inputs of a compaction.
fn input_line(rate: f64, partition_bytes: f64) -> String {
    format!(
        "{:.1} MB / sec of input before compression ({partition_bytes:.0} bytes a partition)",
        rate * partition_bytes / 1e6
    )
}

/// Mean and standard deviation of the runs' rates.
fn line(rates: &[f64], parallelism: u64) -> String {
    let Some(all) = Aggregate::of(rates) else { return String::new() };
    format!(
        "{:.2} +- {:.2} partitions / sec ({} runs, {parallelism} concurrent ops)",
        all.mean,
        all.standard_deviation,
        rates.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_one_line() {
        let expected = "2.00 +- 1.00 partitions / sec (3 runs, 4 concurrent ops)";
        assert_eq!(line(&[1.0, 2.0, 3.0], 4), expected);
        let expected = "2.5 MB / sec of input before compression (500 bytes a partition)";
        assert_eq!(input_line(5000.0, 500.0), expected);
    }
}
