//! `perf-sstable`: how many partitions a second one SSTable is written, read, or merged at.
//!
//! Every shard has SSTables of its own, made before the measurement; a run does one operation
//! `--parallelism` times at once on each shard. No node, no cache of rows, no memtables in the way.
//!
//! In reading order: [`options`], [`data`] (what is stored), [`bench`] (what is measured).

mod bench;
mod data;
mod options;

use crate::ephemeral::Folder;
use crate::perf;
use crate::perf::statistics::Aggregate;
use options::{Asked, Options};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let options = match Options::parse(words) {
        Ok(Asked::Run(options)) => *options,
        Ok(Asked::Print(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if let Err(text) = perf::start_logging(&options.common) {
        eprintln!("{text}");
        return ExitCode::from(2);
    }
    perf::conclude(run(options))
}

fn run(options: Options) -> Result<(), String> {
    let temporary = match options.folder {
        Some(_) => None,
        None => Some(Folder::make().map_err(|error| format!("no temporary folder: {error}"))?),
    };
    let given = options.folder.clone();
    let folder = given.or(temporary.as_ref().map(|folder| folder.path().to_path_buf()));
    let folder = folder.unwrap_or_default();
    let config = crate::server::runtime_config(&options.common)?;
    let options = Arc::new(options);
    perf::run_shards(config, move || measure(options.clone(), folder.clone()))
}

async fn measure(options: Arc<Options>, folder: PathBuf) -> Result<(), String> {
    let shared = options.clone();
    let measured: Vec<Result<Vec<f64>, String>> = runtime::on_all_shards(move || {
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
    for rates in measured {
        for (sum, rate) in total.iter_mut().zip(rates?) {
            *sum += rate;
        }
    }
    println!("{}", line(&total, options.parallelism));
    Ok(())
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
    }
}
