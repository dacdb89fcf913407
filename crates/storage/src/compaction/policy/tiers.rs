//! Things of about one size: the tiers of which a full one is merged.

use super::given::Given;

/// What makes a tier, and what makes it full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tiers {
    pub(super) min_threshold: usize,
    pub(super) max_threshold: usize,
    /// A tier takes what is between these parts of its average.
    bucket_low: f64,
    bucket_high: f64,
    /// What is smaller is all of one size.
    min_sstable_bytes: u64,
}

/// Places of what is of about one size, the smaller ones first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tier {
    pub(super) members: Vec<usize>,
    pub(super) bytes: u64,
}

impl Tiers {
    /// Files and runs have the same tiers. Narrower ones of runs, from 0.71 to 1.41 of the average,
    /// would leave a third more on the disk where data is overwritten, and save no write.
    pub(super) fn of(given: &Given<'_>) -> Tiers {
        let min_threshold = given.or("min_threshold", 2, 4);
        Tiers {
            min_threshold,
            max_threshold: given.or("max_threshold", 2, 32).max(min_threshold),
            bucket_low: given.or("bucket_low", 0.0, 0.5f64).min(1.0),
            bucket_high: given.or("bucket_high", 1.0, 1.5),
            min_sstable_bytes: given.or("min_sstable_size", 0, 50 << 20),
        }
    }

    /// A tier is full when it has as many as one job takes (*wide-while-filled*).
    pub(super) fn widen(&mut self) {
        debug_assert!(self.min_threshold <= self.max_threshold, "wide-while-filled: {self:?}");
        self.min_threshold = self.max_threshold;
    }

    /// The tiers of things of these sizes, the smallest first. `wanted` says which take part.
    pub(super) fn of_sizes(&self, sizes: &[u64], wanted: impl Fn(usize) -> bool) -> Vec<Tier> {
        let mut by_size: Vec<usize> = (0..sizes.len()).filter(|index| wanted(*index)).collect();
        by_size.sort_by_key(|index| (sizes[*index], *index));
        let mut tiers: Vec<Tier> = Vec::new();
        for index in by_size {
            let bytes = sizes[index];
            match tiers.last_mut().filter(|tier| self.takes(tier, sizes, bytes)) {
                Some(tier) => {
                    tier.members.push(index);
                    tier.bytes += bytes;
                }
                None => tiers.push(Tier { members: vec![index], bytes }),
            }
        }
        debug_assert!(
            tiers
                .iter()
                .all(|tier| tier.bytes == tier.members.iter().map(|at| sizes[*at]).sum::<u64>()),
            "tiers of other bytes"
        );
        tiers
    }

    /// Whether something is of one size with all that is small.
    pub(super) fn is_small(&self, bytes: u64) -> bool {
        bytes < self.min_sstable_bytes
    }

    /// Whether a tier takes one that is as large as all it has, or larger.
    fn takes(&self, tier: &Tier, sizes: &[u64], bytes: u64) -> bool {
        let count = tier.members.len() as f64;
        let average = tier.bytes as f64 / count;
        if self.is_small(bytes) && average < self.min_sstable_bytes as f64 {
            return true;
        }
        // The smallest one has to stay in it.
        let after = (tier.bytes as f64 + bytes as f64) / (count + 1.0);
        let smallest = tier.members.first().map_or(0, |first| sizes[*first]);
        bytes as f64 <= average * self.bucket_high && after * self.bucket_low <= smallest as f64
    }

    /// The members of each full tier, the smaller ones first.
    pub(super) fn full_tiers(&self, tiers: &[Tier]) -> Vec<Vec<usize>> {
        let full = tiers.iter().filter(|tier| self.min_threshold <= tier.members.len());
        full.map(|tier| tier.members.clone()).collect()
    }

    /// The members to merge of each full tier, as many as one job takes; the fullest first, of
    /// equally full ones the smaller.
    pub(super) fn full(&self, tiers: &[Tier]) -> Vec<Vec<usize>> {
        assert!(2 <= self.min_threshold, "progress: tiers of {}", self.min_threshold);
        assert!(self.min_threshold <= self.max_threshold, "progress: {self:?}");
        let mut full = self.full_tiers(tiers);
        full.sort_by_key(|members| std::cmp::Reverse(members.len()));
        full.iter_mut().for_each(|members| members.truncate(self.max_threshold));
        full
    }
}

#[cfg(test)]
mod tests {
    use super::super::Strategy;
    use super::super::testing::options;
    use super::*;

    fn tiers(pairs: &[(&str, &str)]) -> Tiers {
        let class = [("class", "SizeTieredCompactionStrategy")];
        match options(&[&class[..], pairs].concat()).strategy {
            Strategy::SizeTiered(tiers) => tiers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_make_tiers() {
        let check = |pairs: &[(&str, &str)], sizes_mb: &[u64], expected: &[&[u64]]| {
            let sizes: Vec<_> = sizes_mb.iter().map(|mb| mb << 20).collect();
            let tiers = tiers(pairs).of_sizes(&sizes, |_| true);
            let found: Vec<Vec<u64>> = tiers
                .iter()
                .map(|tier| tier.members.iter().map(|index| sizes_mb[*index]).collect())
                .collect();
            assert_eq!(found, expected, "{sizes_mb:?}");
        };
        check(&[], &[], &[]);
        check(&[], &[1, 40, 7], &[&[1, 7, 40]]);
        check(&[], &[100, 300, 900], &[&[100], &[300], &[900]]);
        check(&[], &[1000, 100, 140, 1400], &[&[100, 140], &[1000, 1400]]);
        check(
            &[],
            &[100, 150, 180, 210, 240, 260, 300],
            &[&[100, 150, 180, 210, 240, 260], &[300]],
        );
        // With the third one the first would be under half of the average.
        check(&[("bucket_high", "4")], &[100, 150, 350], &[&[100, 150, 350]]);
        check(&[("bucket_high", "4")], &[100, 150, 400], &[&[100, 150], &[400]]);
        check(&[("bucket_high", "4"), ("bucket_low", "0.1")], &[100, 350], &[&[100, 350]]);
        check(&[("min_sstable_size", "0")], &[1, 7, 40], &[&[1], &[7], &[40]]);
    }

    #[test]
    fn full_tiers_are_merged_the_fullest_first() {
        let check = |pairs: &[(&str, &str)], counts: &[usize], expected: &[usize]| {
            let tier = |count: &usize| Tier { members: (0..*count).collect(), bytes: 0 };
            let given: Vec<_> = counts.iter().map(tier).collect();
            let full: Vec<_> = tiers(pairs).full(&given).iter().map(Vec::len).collect();
            assert_eq!(full, expected, "{counts:?}");
        };
        check(&[], &[1, 2, 3], &[]);
        check(&[], &[4, 3, 6], &[6, 4]);
        check(&[], &[40], &[32]);
        check(&[("min_threshold", "2"), ("max_threshold", "3")], &[1, 2, 5], &[3, 2]);
        check(&[("min_threshold", "6"), ("max_threshold", "3")], &[5, 7], &[6]);
    }
}
