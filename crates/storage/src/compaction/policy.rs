//! Which SSTables to merge. Pure.
//!
//! Size-tiered: SSTables of about one size form a bucket; the fullest bucket with at least
//! `min_threshold` of them is merged.

use model::schema::TableOptions;

/// An SSTable as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) bytes: u64,
}

/// What a table's compaction options say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Options {
    min_threshold: usize,
    max_threshold: usize,
    bucket_low: f64,
    bucket_high: f64,
    min_sstable_bytes: u64,
}

impl Options {
    /// The options of a table; `None` where compaction is switched off.
    pub(super) fn of(options: &TableOptions) -> Option<Options> {
        let get = |name: &str| {
            let found = options.compaction.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        let off = get("enabled").is_some_and(|value| value.eq_ignore_ascii_case("false"))
            || get("class").is_some_and(|class| class.ends_with("NullCompactionStrategy"));
        if off {
            return None;
        }
        let number = |name, default: f64| {
            let parsed = get(name).and_then(|value| value.parse::<f64>().ok());
            parsed.filter(|value| value.is_finite() && 0.0 <= *value).unwrap_or(default)
        };
        let min_threshold = (number("min_threshold", 4.0) as usize).max(2);
        Some(Options {
            min_threshold,
            max_threshold: (number("max_threshold", 32.0) as usize).max(min_threshold),
            bucket_low: number("bucket_low", 0.5),
            bucket_high: number("bucket_high", 1.5),
            min_sstable_bytes: number("min_sstable_size", (50 << 20) as f64) as u64,
        })
    }
}

/// Indexes of the candidates to merge; none if there is nothing to do.
pub(super) fn choose(options: &Options, candidates: &[Candidate]) -> Vec<usize> {
    let enough = full_buckets(options, candidates);
    let mut chosen = enough.rev().max_by_key(|bucket| bucket.len()).unwrap_or_default();
    chosen.truncate(options.max_threshold);
    chosen
}

/// How many merges there are to do, those left out that only their outputs make due.
pub(super) fn pending(options: &Options, candidates: &[Candidate]) -> usize {
    let buckets = full_buckets(options, candidates);
    buckets.map(|bucket| bucket.len().div_ceil(options.max_threshold)).sum()
}

/// Those of about one size that are enough for a merge, the smaller ones first.
fn full_buckets(
    options: &Options,
    candidates: &[Candidate],
) -> impl DoubleEndedIterator<Item = Vec<usize>> {
    let mut by_size: Vec<usize> = (0..candidates.len()).collect();
    by_size.sort_by_key(|index| (candidates[*index].bytes, *index));
    let mut buckets: Vec<(f64, Vec<usize>)> = Vec::new();
    for index in by_size {
        let bytes = candidates[index].bytes;
        let fits = |average: f64| {
            let both_small =
                bytes < options.min_sstable_bytes && average < options.min_sstable_bytes as f64;
            let low = average * options.bucket_low;
            both_small || (low <= bytes as f64 && bytes as f64 <= average * options.bucket_high)
        };
        match buckets.last_mut().filter(|(average, _)| fits(*average)) {
            Some((average, bucket)) => {
                let count = bucket.len() as f64;
                *average = (*average * count + bytes as f64) / (count + 1.0);
                bucket.push(index);
            }
            None => buckets.push((bytes as f64, vec![index])),
        }
    }
    let min = options.min_threshold;
    buckets.into_iter().map(|(_, bucket)| bucket).filter(move |bucket| min <= bucket.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Option<Options> {
        let mut table = crate::testing::schema(1, "t").options;
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        table.compaction = pairs.collect();
        Options::of(&table)
    }

    #[test]
    fn buckets_of_one_size_are_merged_when_full() {
        let check = |sizes_mb: &[u64], expected: &[usize]| {
            let sizes = sizes_mb.iter().map(|mb| Candidate { bytes: mb << 20 });
            let options = options(&[]).unwrap();
            let candidates: Vec<_> = sizes.collect();
            assert_eq!(choose(&options, &candidates), expected, "{sizes_mb:?}");
            assert_eq!(pending(&options, &candidates) == 0, expected.is_empty());
        };
        check(&[], &[]);
        check(&[1, 1, 1], &[]);
        check(&[1, 20, 3, 40], &[0, 2, 1, 3]);
        check(&[1, 1000, 1, 1, 1], &[0, 2, 3, 4]);
        check(&[1000, 1100, 900, 1], &[]);
        check(&[1000, 1100, 900, 1, 950], &[2, 4, 0, 1]);
        check(&[100, 300, 900, 2700, 8100], &[]);
        check(&[1; 40], &(0..32).collect::<Vec<_>>());
    }

    #[test]
    fn each_full_bucket_is_so_many_merges() {
        let check = |sizes_mb: &[u64], expected: usize| {
            let sizes = sizes_mb.iter().map(|mb| Candidate { bytes: mb << 20 });
            let candidates: Vec<_> = sizes.collect();
            assert_eq!(pending(&options(&[]).unwrap(), &candidates), expected, "{sizes_mb:?}");
        };
        check(&[], 0);
        check(&[1, 2, 3], 0);
        check(&[1, 2, 3, 4, 1000, 1000, 1000, 1000], 2);
        check(&[1; 33], 2);
    }

    #[test]
    fn options_are_read_and_may_switch_it_off() {
        assert_eq!(options(&[("enabled", "False")]), None);
        let null = "org.apache.cassandra.db.compaction.NullCompactionStrategy";
        assert_eq!(options(&[("class", null)]), None);
        let two = options(&[("min_threshold", "2"), ("max_threshold", "1")]).unwrap();
        assert_eq!((two.min_threshold, two.max_threshold), (2, 2));
        assert_eq!(options(&[("min_threshold", "junk")]), options(&[]));
    }
}
