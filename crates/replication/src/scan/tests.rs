//! A scan beside a sorted list: pages of any size, resumed as clients do.

use super::*;
use model::ColumnId;
use mutation::page::{ColumnForm, PageLayout, SendRange};
use proptest::prelude::*;
use stdx::Put;

/// A partition: its key, whether it has static columns, and its rows as numbers.
#[derive(Clone, Debug)]
struct Stored {
    token: Token,
    key: Vec<u8>,
    with_static: bool,
    rows: Vec<u8>,
}

/// So many partitions with rows as they are drawn, in ring order. Where there are no rows the
/// static row is the answer.
fn table(draws: &[(u64, u8, bool)]) -> Vec<Stored> {
    let stored = draws.iter().map(|(number, rows, with_static)| {
        let key = number.to_be_bytes().to_vec();
        let with_static = *with_static || *rows == 0;
        Stored { token: Token::of(&key), key, with_static, rows: (0..*rows).collect() }
    });
    let mut table: Vec<Stored> = stored.collect();
    table.sort_by(|a, b| (a.token, &a.key).cmp(&(b.token, &b.key)));
    table.dedup_by(|a, b| a.key == b.key);
    table
}

const COLUMNS: [(ColumnId, ColumnForm); 2] =
    [(ColumnId(1), ColumnForm::Value), (ColumnId(2), ColumnForm::Value)];

fn whole_range() -> Partitions {
    let bound = |token, after| RingBound { token, key: None, after };
    Partitions::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

fn command(row_limit: u64, bytes_max: usize, tombstone_limit: u64) -> ReadCommand {
    ReadCommand {
        table: model::Uuid::from_u128(1),
        partitions: whole_range(),
        ranges: vec![SendRange::full()],
        reversed: false,
        columns: COLUMNS.to_vec(),
        static_count: 1,
        row_limit,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max,
        static_only_rows: true,
        tombstone_limit,
        now: 0,
        bypass_cache: false,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

fn put_value(out: &mut Vec<u8>) {
    out.put_u32_bytes(b"a value");
}

/// A page as a shard makes it: until a limit is reached, in the order of the contract of pages.
struct Paging<'c> {
    command: &'c ReadCommand,
    page: Page,
}

impl Paging<'_> {
    fn is_full(&self) -> bool {
        let ReadCommand { row_limit, bytes_max, tombstone_limit, .. } = self.command;
        *row_limit <= self.page.row_count
            || *bytes_max <= self.page.bytes.len()
            || *tombstone_limit <= self.page.tombstones_seen
    }

    /// Adds what is left of a partition; whether the page goes on.
    fn add(&mut self, stored: &Stored) -> bool {
        let resume = self.command.resume.as_ref().filter(|resume| resume.key == stored.key);
        let after = resume.and_then(|resume| resume.after.as_ref()).map(|(row, _)| row[0]);
        let before = resume.map_or(0, |resume| resume.rows_in_partition);
        // Each fourth partition begins with a deletion.
        self.page.tombstones_seen += u64::from(after.is_none() && stored.key[7] & 3 == 0);
        let left: Vec<u8> = stored
            .rows
            .iter()
            .copied()
            .filter(|row| after.is_none_or(|after| after < *row))
            .collect();
        let left = left.into_iter().take((self.command.per_partition_limit - before) as usize);
        let mut rows = Vec::new();
        let (mut count, mut ended) = (0, None);
        for row in left {
            if self.command.row_limit <= self.page.row_count + u64::from(count)
                || self.command.bytes_max <= self.page.bytes.len() + rows.len()
            {
                ended = Some(count);
                break;
            }
            rows.put_vint(1);
            rows.push(row);
            let mut values = Vec::new();
            put_value(&mut values);
            rows.put_u32_bytes(&values);
            count += 1;
        }
        let is_static_row = stored.rows.is_empty() && resume.is_none();
        if 0 < count || is_static_row {
            self.put(stored, count, &rows);
            self.page.partition_count += u64::from(before == 0);
            self.page.row_count += u64::from(count.max(1));
        }
        if let Some(count) = ended {
            let last = stored.rows.iter().filter(|row| after.is_none_or(|after| after < **row));
            let last = last.take(count as usize).last().copied().or(after);
            let rows_in_partition = before + u64::from(count);
            let (key, after) = (stored.key.clone(), Some((last.into_iter().collect(), 1)));
            self.page.resume = Some(Resume { key, after, rows_in_partition });
            return false;
        }
        if self.is_full() || self.command.partition_limit <= self.page.partition_count {
            self.page.resume = Some(done(&stored.key));
            return false;
        }
        true
    }

    fn put(&mut self, stored: &Stored, count: u32, rows: &[u8]) {
        let out = &mut self.page.bytes;
        out.put_vint_bytes(&stored.key);
        out.push(stored.with_static.into());
        if stored.with_static {
            let mut values = Vec::new();
            put_value(&mut values);
            out.put_u32_bytes(&values);
        }
        out.put_u32(count);
        out.put_u32_bytes(rows);
    }
}

/// What a shard answers.
fn read(table: &[Stored], sharder: Sharder, shard: u16, command: &ReadCommand) -> Page {
    let Partitions::Range { start, end } = &command.partitions else { panic!("no range") };
    let mut paging = Paging { command, page: Page::default() };
    for stored in table.iter().filter(|stored| sharder.shard_of(stored.token) == shard) {
        let inside = start.place(stored.token, &stored.key).is_gt()
            && end.place(stored.token, &stored.key).is_lt();
        if inside && !paging.add(stored) {
            break;
        }
    }
    paging.page
}

/// One page of a scan, and how many rows shards sent for it and were asked for it.
fn scan(table: &[Stored], sharder: Sharder, command: &ReadCommand) -> (Page, u64, usize) {
    let mut scan = Scan::new(settle(command.clone()), sharder);
    let (mut sent, mut requests) = (0, 0);
    loop {
        let asks = scan.asks();
        if asks.is_empty() {
            return (scan.finish(), sent, requests);
        }
        for (shard, ask) in asks {
            assert!(ask.row_limit <= command.row_limit && ask.bytes_max <= command.bytes_max);
            let page = read(table, sharder, shard, &ask);
            (sent, requests) = (sent + page.row_count, requests + 1);
            assert!(requests < 10_000, "a scan that does not end");
            scan.take(shard, page);
        }
    }
}

type Seen = Vec<(Vec<u8>, bool, Vec<u8>)>;

/// Adds the content of a page; a partition that goes on is one.
fn add_content(seen: &mut Seen, page: &Page) {
    let layout = PageLayout::new(&COLUMNS, 1);
    let view = PageView::parse(&page.bytes, layout).expect("a page that can be read");
    let (mut rows, mut keys): (u64, Vec<Vec<u8>>) = (0, Vec::new());
    for partition in view.partitions() {
        let found: Vec<u8> = partition.rows().map(|row| row.clustering()[0]).collect();
        rows += (found.len() as u64).max(1);
        keys.push(partition.key().to_vec());
        match seen.last_mut().filter(|(key, ..)| key == partition.key()) {
            Some((_, _, rows)) => rows.extend(found),
            None => seen.push((partition.key().to_vec(), partition.statics().is_some(), found)),
        }
    }
    assert_eq!(rows, page.row_count);
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a partition that is there twice");
}

fn any_draws() -> impl Strategy<Value = Vec<(u64, u8, bool)>> {
    let rows = prop_oneof![4 => 1u8..3, 1 => Just(0), 1 => 1u8..60];
    proptest::collection::vec((0u64..5000, rows, any::<bool>()), 0..80)
}

proptest! {
    #[test]
    fn pages_are_the_sorted_list(
        draws in any_draws(),
        shards in 2u16..9,
        limits in proptest::collection::vec(1u64..70, 1..6),
        bytes in prop_oneof![1usize..3000, Just(1 << 20)],
        tombstones in prop_oneof![1u64..20, Just(u64::MAX)],
        per_partition in prop_oneof![1u64..5, Just(u64::MAX)],
    ) {
        let (table, sharder) = (table(&draws), Sharder::of_node(shards));
        let (mut seen, mut resume, mut partitions) = (Seen::new(), None, 0);
        for at in 0.. {
            prop_assert!(at < 10_000, "no end");
            let row_limit = limits[at % limits.len()];
            let command = ReadCommand {
                resume,
                per_partition_limit: per_partition,
                ..command(row_limit, bytes, tombstones)
            };
            let (page, ..) = scan(&table, sharder, &command);
            prop_assert!(page.row_count <= row_limit);
            // Short of its limits a page ends only with the range.
            let is_full = page.row_count == row_limit
                || bytes <= page.bytes.len()
                || tombstones <= page.tombstones_seen;
            prop_assert!(is_full || page.resume.is_none(), "{page:?}");
            prop_assert!(page.resume.is_none() || page.resume != command.resume, "no progress");
            add_content(&mut seen, &page);
            partitions += page.partition_count;
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
        let some = |stored: &Stored| {
            let rows = stored.rows.iter().copied().take(per_partition as usize).collect();
            (stored.key.clone(), stored.with_static, rows)
        };
        let expected: Seen = table.iter().map(some).collect();
        prop_assert_eq!(partitions, expected.len() as u64);
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn partitions_are_limited_too(draws in any_draws(), shards in 2u16..9, limit in 1u64..20) {
        let (table, sharder) = (table(&draws), Sharder::of_node(shards));
        let (mut seen, mut resume) = (Seen::new(), None);
        loop {
            let limited = ReadCommand {
                resume,
                partition_limit: limit,
                per_partition_limit: 1,
                ..command(u64::MAX, 1 << 20, u64::MAX)
            };
            let (page, ..) = scan(&table, sharder, &limited);
            prop_assert!(page.partition_count <= limit);
            prop_assert!(page.partition_count == limit || page.resume.is_none());
            add_content(&mut seen, &page);
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
        let keys = |seen: &[(Vec<u8>, bool, Vec<u8>)]| -> Vec<Vec<u8>> {
            seen.iter().map(|(key, ..)| key.clone()).collect()
        };
        let expected: Vec<_> = table.iter().map(|stored| stored.key.clone()).collect();
        prop_assert_eq!(keys(&seen), expected);
    }

    #[test]
    fn a_range_is_what_is_inside(draws in any_draws(), a: i64, b: i64, shards in 2u16..9) {
        let (table, sharder) = (table(&draws), Sharder::of_node(shards));
        let bound = |token, after| RingBound { token: Token(token), key: None, after };
        let (start, end) = (bound(a.min(b), true), bound(a.max(b), true));
        let partitions = Partitions::Range { start, end };
        let ranged = ReadCommand { partitions, ..command(u64::MAX, 1 << 20, u64::MAX) };
        let (page, ..) = scan(&table, sharder, &ranged);
        let mut seen = Seen::new();
        add_content(&mut seen, &page);
        let inside = |stored: &&Stored| a.min(b) < stored.token.0 && stored.token.0 <= a.max(b);
        let expected: Vec<_> = table.iter().filter(inside).map(|one| one.key.clone()).collect();
        prop_assert_eq!(seen.into_iter().map(|(key, ..)| key).collect::<Vec<_>>(), expected);
    }
}

/// Pages of a table until its end: rows, rows that shards sent, and requests.
fn cost(table: &[Stored], shards: u16, row_limit: u64) -> (u64, u64, usize) {
    let (mut rows, mut sent, mut requests, mut resume) = (0, 0, 0, None);
    loop {
        let command = ReadCommand { resume, ..command(row_limit, 1 << 20, u64::MAX) };
        let (page, more_sent, more) = scan(table, Sharder::of_node(shards), &command);
        (rows, sent, requests) = (rows + page.row_count, sent + more_sent, requests + more);
        resume = page.resume;
        if resume.is_none() {
            return (rows, sent, requests);
        }
    }
}

#[test]
fn a_small_table_costs_one_request_per_shard() {
    for partitions in [0u64, 1, 30] {
        let draws: Vec<_> = (0..partitions).map(|number| (number, 1, false)).collect();
        assert_eq!(cost(&table(&draws), 4, 5000), (partitions, partitions, 4));
    }
}

#[test]
fn a_large_table_is_read_about_once() {
    let draws: Vec<_> = (0..40_000).map(|number| (number, 1, false)).collect();
    let table = table(&draws);
    for (shards, row_limit) in [(2, 5000), (2, 100), (4, 5000), (8, 5000), (8, 1000)] {
        let (rows, sent, requests) = cost(&table, shards, row_limit);
        let pages = rows.div_ceil(row_limit) as usize;
        assert!(sent * 10 < rows * 12, "{shards} {row_limit}: {sent} sent for {rows}");
        let bound = pages * usize::from(shards) * 5;
        assert!(requests < bound, "{shards} {row_limit}: {requests} requests, {pages} pages");
    }
}

#[test]
fn a_partition_of_many_rows_is_read_alone() {
    let draws = [(1, 250, true), (2, 250, false), (3, 250, false), (4, 250, true)];
    let (rows, sent, _) = cost(&table(&draws), 2, 50);
    assert_eq!(rows, 1000);
    assert!(sent * 10 < rows * 13, "{sent}");
}
