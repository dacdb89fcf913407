//! The test groups and their cases: what is read, and what must come of it. Pure.

use super::dataset::Kind;
use super::ranges::{self, Range};

/// What a case reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The whole partition, `read` rows read and `skip` rows forwarded over by turns.
    RowSkips { read: u64, skip: u64 },
    /// Rows by forwarding a scan of all partitions.
    ScanSlice { offset: u64, read: u64 },
    /// Rows by a restriction of the clustering key.
    KeySlice { offset: u64, read: u64 },
    /// Rows by forwarding in the whole partition.
    ForwardSlice { offset: u64, read: u64 },
    /// Single rows, all restrictions in one read.
    Rows { offset: u64, stride: u64, rows: u64 },
    /// The empty place between a row and the next one.
    Missing { offset: u64 },
    /// A restriction from the middle on, forwarded to a place before it and to one at its start.
    Forwarding { scan: bool },
    /// All partitions, `read` of them read and `skip` forwarded over by turns.
    PartitionSkips { read: u64, skip: u64 },
    /// Partitions by a range of keys.
    PartitionSlice { offset: u64, read: u64 },
    /// One read per range.
    Ranges(Vec<Range>),
    /// As `RowSkips`, then all rows.
    SkipsThenAll { read: u64, skip: u64 },
    /// Single rows spread without a pattern, all in one read.
    RandomRows { rows: u64 },
    /// The first rows of a query in this order.
    Limit { reversed: bool, limit: u64 },
    /// The place between the last row of an index block and the first of the next one: found by
    /// looking from `offset` on.
    BetweenBlocks { offset: u64 },
}

/// One line of a group: what is read, and how the line is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) work: Work,
    /// The values of the group's parameters.
    pub(crate) values: Vec<String>,
}

/// A group of cases.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) message: &'static str,
    pub(crate) kind: Kind,
    pub(crate) needs_cache: bool,
    pub(crate) parameters: &'static [&'static str],
    /// The work for that many rows; `true`: there is a row cache.
    work: fn(u64, bool) -> Vec<Work>,
}

/// All groups.
pub(crate) const GROUPS: &[Group] = &[
    large(
        "large-partition-single-key-slice",
        "Testing effectiveness of caching of large partition, single-key slicing reads:",
        &["", "range"],
        |rows, _| ranges::all(rows).into_iter().map(Work::Ranges).collect(),
    )
    .cached(),
    large(
        "large-partition-skips",
        "Testing scanning large partition with skips.\nReads whole range interleaving \
                  reads with skips according to read-skip pattern:",
        &["read", "skip"],
        |_, cached| {
            let all = SKIPS.iter().map(|&(read, skip)| Work::RowSkips { read, skip });
            let gaps = GAPS.iter().map(|&(read, skip)| Work::SkipsThenAll { read, skip });
            all.chain(gaps.filter(|_| cached)).collect()
        },
    ),
    large(
        "large-partition-slicing",
        "Testing slicing of large partition:",
        &["offset", "read"],
        |rows, _| slices(rows, |offset, read| Work::ScanSlice { offset, read }),
    ),
    large(
        "large-partition-slicing-clustering-keys",
        "Testing slicing of large partition using clustering keys:",
        &["offset", "read"],
        |rows, _| slices(rows, |offset, read| Work::KeySlice { offset, read }),
    ),
    large(
        "large-partition-slicing-single-key-reader",
        "Testing slicing of large partition, single-partition reader:",
        &["offset", "read"],
        |rows, _| slices(rows, |offset, read| Work::ForwardSlice { offset, read }),
    ),
    large(
        "large-partition-select-few-rows",
        "Testing selecting few rows from a large partition:",
        &["offset", "stride", "rows"],
        |rows, _| few_rows(rows),
    ),
    large(
        "large-partition-select-missing-rows",
        "Testing selecting rows that are not there:",
        &["offset"],
        |n, _| {
            let offsets = [0, 1, n / 3, n / 2 - 1, n / 2, n / 2 + 1, 2 * n / 3, n - 1, n, 2 * n];
            offsets.into_iter().map(|offset| Work::Missing { offset }).collect()
        },
    ),
    large(
        "large-partition-forwarding",
        "Testing forwarding with clustering restriction in a large partition:",
        &["pk-scan"],
        |_, _| [true, false].map(|scan| Work::Forwarding { scan }).to_vec(),
    ),
    small(
        "small-partition-skips",
        "Testing scanning small partitions with skips.\nReads whole range interleaving \
                  reads with skips according to read-skip pattern:",
        &["read", "skip"],
        |_, _| SKIPS.iter().map(|&(read, skip)| Work::PartitionSkips { read, skip }).collect(),
    ),
    small(
        "small-partition-slicing",
        "Testing slicing small partitions:",
        &["offset", "read"],
        |rows, _| slices(rows, |offset, read| Work::PartitionSlice { offset, read }),
    ),
    large(
        "large-partition-select-random-rows",
        "Testing selecting random rows of a large partition in one read:",
        &["rows"],
        |_, _| [1, 10, 100].map(|rows| Work::RandomRows { rows }).to_vec(),
    ),
    large(
        "large-partition-reversed",
        "Testing the first rows of a large partition in both orders:",
        &["order", "limit"],
        |_, _| {
            let limits = [1, 10, 100].into_iter();
            let both = |limit| [false, true].map(|reversed| Work::Limit { reversed, limit });
            limits.flat_map(both).collect()
        },
    ),
    large(
        "large-partition-select-between-blocks",
        "Testing selecting rows that are not there, between index blocks:",
        &["offset"],
        |rows, _| [rows / 2, rows / 3].map(|offset| Work::BetweenBlocks { offset }).to_vec(),
    ),
];

type Words = &'static [&'static str];

/// What a group's cases read, of that many rows; `true`: there is a row cache.
type WorkOf = fn(u64, bool) -> Vec<Work>;

/// A group on the data sets of one large partition.
const fn large(
    name: &'static str,
    message: &'static str,
    parameters: Words,
    work: WorkOf,
) -> Group {
    Group { name, message, kind: Kind::Large, needs_cache: false, parameters, work }
}

/// A group on the data sets of small partitions.
const fn small(
    name: &'static str,
    message: &'static str,
    parameters: Words,
    work: WorkOf,
) -> Group {
    Group { kind: Kind::Small, ..large(name, message, parameters, work) }
}

const SKIPS: &[(u64, u64)] = &[
    (1, 0),
    (1, 1),
    (1, 8),
    (1, 16),
    (1, 32),
    (1, 64),
    (1, 256),
    (1, 1024),
    (1, 4096),
    (64, 1),
    (64, 8),
    (64, 16),
    (64, 32),
    (64, 64),
    (64, 256),
    (64, 1024),
    (64, 4096),
];

/// Populated with gaps, then read as a whole.
const GAPS: &[(u64, u64)] = &[(1, 1), (1, 16), (1, 1024), (64, 64)];

fn slices(rows: u64, work: fn(u64, u64) -> Work) -> Vec<Work> {
    let offsets = [0, rows / 2].into_iter();
    offsets.flat_map(|offset| [1, 32, 256, 4096].map(|read| work(offset, read))).collect()
}

fn few_rows(n: u64) -> Vec<Work> {
    let cases = [
        (n / 2, 1, 1),
        (n / 2 + 1, 1, 1),
        (0, n, 1),
        (0, n / 2, 2),
        (0, n / 4, 4),
        (0, n / 8, 8),
        (0, n / 16, 16),
        (0, 2, n / 2),
    ];
    cases.map(|(offset, stride, rows)| Work::Rows { offset, stride, rows }).to_vec()
}

impl Group {
    /// Runs only where a row cache is asked for.
    const fn cached(mut self) -> Group {
        self.needs_cache = true;
        self
    }

    /// The cases for that many rows.
    pub(crate) fn cases(&self, rows: u64, cached: bool) -> Vec<Case> {
        let work = (self.work)(rows, cached);
        work.into_iter().map(|work| Case { values: work.values(), work }).collect()
    }
}

impl Case {
    /// The values of the parameters as files are called.
    pub(crate) fn name(&self) -> String {
        self.values.join("->")
    }
}

impl Work {
    fn values(&self) -> Vec<String> {
        let texts = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect();
        match self {
            Work::RowSkips { read, skip }
            | Work::PartitionSkips { read, skip }
            | Work::SkipsThenAll { read, skip } => texts(&[*read, *skip]),
            Work::ScanSlice { offset, read }
            | Work::KeySlice { offset, read }
            | Work::ForwardSlice { offset, read }
            | Work::PartitionSlice { offset, read } => texts(&[*offset, *read]),
            Work::Rows { offset, stride, rows } => texts(&[*offset, *stride, *rows]),
            Work::Missing { offset } | Work::BetweenBlocks { offset } => texts(&[*offset]),
            Work::Forwarding { scan } => vec![if *scan { "yes" } else { "no" }.to_string()],
            Work::Ranges(_) => vec![String::new(), String::new()],
            Work::RandomRows { rows } => texts(&[*rows]),
            Work::Limit { reversed, limit } => {
                vec![if *reversed { "desc" } else { "asc" }.to_string(), limit.to_string()]
            }
        }
    }

    /// The fragments that each of its reads must yield from `n` rows.
    pub(crate) fn expected(&self, n: u64) -> Vec<u64> {
        let slice = |offset: u64, read: u64| read.min(n.saturating_sub(offset));
        match self {
            Work::RowSkips { read, skip } | Work::PartitionSkips { read, skip } => {
                vec![with_skips(n, *read, *skip)]
            }
            Work::SkipsThenAll { read, skip } => vec![with_skips(n, *read, *skip), n],
            Work::ScanSlice { offset, read }
            | Work::KeySlice { offset, read }
            | Work::ForwardSlice { offset, read }
            | Work::PartitionSlice { offset, read } => vec![slice(*offset, *read)],
            Work::Rows { offset, stride, rows } => {
                vec![(0..*rows).filter(|row| offset + row * stride < n).count() as u64]
            }
            Work::Missing { .. } | Work::BetweenBlocks { .. } => vec![0],
            Work::Forwarding { .. } => vec![2],
            Work::Ranges(all) => all.iter().map(|range| range.count(n)).collect(),
            Work::RandomRows { rows } => vec![(*rows).min(n)],
            Work::Limit { limit, .. } => vec![(*limit).min(n)],
        }
    }
}

/// How many of `n` rows are read when `read` of them are and `skip` are not, by turns.
fn with_skips(n: u64, read: u64, skip: u64) -> u64 {
    let turns = n / (read + skip);
    turns * read + (n % (read + skip)).min(read)
}

/// `count` different numbers below `n`, ascending, without a pattern, the same every time.
pub(crate) fn spread(n: u64, count: u64) -> Vec<u64> {
    let mut prng = stdx::Prng::from_seed(n ^ count << 32);
    let mut chosen = std::collections::BTreeSet::new();
    while (chosen.len() as u64) < count.min(n) {
        chosen.insert(prng.below(n));
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_parameters_and_its_own_name() {
        for group in GROUPS {
            let cases = group.cases(1_000_000, true);
            assert!(!cases.is_empty());
            for case in &cases {
                assert_eq!(case.values.len(), group.parameters.len(), "{}", group.name);
            }
        }
        let names: std::collections::BTreeSet<_> = GROUPS.iter().map(|group| group.name).collect();
        assert_eq!(names.len(), GROUPS.len());
    }

    #[test]
    fn how_many_rows_a_pattern_reads() {
        for (n, read, skip) in [(10, 1, 0), (10, 1, 1), (11, 1, 1), (100, 64, 8), (5, 64, 4096)] {
            let naive = (0..n).filter(|row| row % (read + skip) < read).count() as u64;
            assert_eq!(with_skips(n, read, skip), naive, "{n} {read} {skip}");
        }
        assert_eq!(Work::KeySlice { offset: 90, read: 32 }.expected(100), [10]);
        assert_eq!(Work::Rows { offset: 0, stride: 2, rows: 50 }.expected(100), [50]);
        assert_eq!(Work::Rows { offset: 0, stride: 50, rows: 4 }.expected(100), [2]);
    }

    #[test]
    fn random_rows_are_different_and_ascend() {
        let rows = spread(1000, 100);
        assert_eq!(rows.len(), 100);
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]) && rows[99] < 1000);
        assert_eq!(spread(1000, 100), rows);
        assert_eq!(spread(5, 100).len(), 5);
    }
}
