//! `perf-sstable`: how many partitions a second one SSTable is written, read, or merged at.
//!
//! Every shard has SSTables of its own, made before the measurement; a run does one operation
//! `--parallelism` times at once on each shard. No node, no cache of rows, no memtables in the way.
//!
//! In reading order: [`options`], [`data`] (what is stored), [`bench`] (what is measured).

mod bench;
mod data;
mod options;

use super::statistics::Aggregate;
use super::tool::Bench;
pub(crate) use options::Options;

async fn measure(options: &Options, at: &Bench) -> Result<(), String> {
    let (shared, folder) = (options.clone(), at.folder());
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
