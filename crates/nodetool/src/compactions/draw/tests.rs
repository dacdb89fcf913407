use super::*;

const NOW_MILLIS: i64 = 1_700_000_000_000;

fn job(table: &str, progress: Option<f64>) -> Job {
    Job {
        id: table.to_string(),
        kind: "compaction".to_string(),
        table: table.to_string(),
        progress,
        rows: Some(1_204_331),
        written: Some(1_288_490_189),
        rate: Some(85.16 * 1024.0 * 1024.0),
        started_at_millis: Some(NOW_MILLIS - 14_400),
        elapsed_millis: Some(14_400),
        remaining_millis: Some(12_001),
    }
}

fn view() -> View {
    View {
        jobs: vec![
            job("shop.orders", Some(0.5239)),
            Job { kind: "major".to_string(), table: "shop.old".to_string(), ..Job::default() },
        ],
        pending: Some(4),
        held: Some(0),
        backlog_bytes: Some(5 << 30),
        shares: vec![87, 100],
        limit: Some(16),
        ended: vec![
            Ended {
                kind: "scrub".to_string(),
                table: "shop.orders".to_string(),
                started_at_millis: NOW_MILLIS - 200_000,
                ended_at_millis: NOW_MILLIS - 75_000,
                bytes_in: 1 << 20,
                bytes_out: 1023,
            },
            Ended {
                kind: "compaction".to_string(),
                table: "shop.old".to_string(),
                started_at_millis: NOW_MILLIS - 90_003_000,
                ended_at_millis: NOW_MILLIS - 90_000_000,
                bytes_in: 2048,
                bytes_out: 1536,
            },
        ],
    }
}

fn drawn(view: &View, columns: usize, lines_max: usize) -> Vec<String> {
    let peer = ([127, 0, 0, 1], 10000).into();
    let header = Header { peer, interval: None, trouble: None };
    lines(view, &header, NOW_MILLIS, Size { columns, lines: lines_max })
}

#[test]
fn everything_is_told_where_there_is_room() {
    let expected = "\
compactions of 127.0.0.1:10000

KIND        TABLE        DONE                             ROWS   WRITTEN        RATE  TIME  LEFT
compaction  shop.orders  [##########..........]  52.3%  1.20 M  1.20 GiB  85.2 MiB/s  0:14  0:13
major       shop.old     [....................]      -       -         -           -     -     -

pending 4, to write 5.00 GiB, shares 87 to 100, limit 16 MiB/s

     ENDED  KIND        TABLE            FROM        TO  TOOK
  1:15 ago  scrub       shop.orders  1.00 MiB    1023 B  2:05
1d 01h ago  compaction  shop.old     2.00 KiB  1.50 KiB  0:03";
    assert_eq!(drawn(&view(), usize::MAX, usize::MAX).join("\n"), expected);
    assert_eq!(drawn(&view(), 96, 12).join("\n"), expected);
}

#[test]
fn narrow_terminals_get_what_matters_most() {
    let view = view();
    let titles = |columns: usize| drawn(&view, columns, usize::MAX)[2].clone();
    let check = |columns: usize, expected: &[&str]| {
        let titles = titles(columns);
        assert_eq!(titles.split_whitespace().collect::<Vec<_>>(), expected, "{columns}");
    };
    let all = ["KIND", "TABLE", "DONE", "ROWS", "WRITTEN", "RATE", "TIME", "LEFT"];
    check(200, &all);
    check(96, &all);
    assert_eq!((titles(96).len(), titles(95).len()), (96, 86), "the bar is shorter");
    check(86, &all);
    check(85, &["KIND", "TABLE", "DONE", "ROWS", "WRITTEN", "RATE", "LEFT"]);
    check(80, &["KIND", "TABLE", "DONE", "ROWS", "WRITTEN", "RATE", "LEFT"]);
    check(79, &["KIND", "TABLE", "DONE", "ROWS", "WRITTEN", "LEFT"]);
    check(67, &["KIND", "TABLE", "DONE", "WRITTEN", "LEFT"]);
    check(46, &["TABLE", "DONE", "LEFT"]);
    check(24, &["TABLE", "DONE"]);
    assert_eq!(drawn(&view, 24, usize::MAX)[3], "shop.orders   52.3%");
    // *fits*
    for columns in 0..120 {
        let widest =
            drawn(&view, columns, usize::MAX).iter().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= columns), "{columns}: {widest:?}");
    }
}

#[test]
fn low_terminals_lose_what_has_ended_and_then_jobs() {
    let mut view = view();
    view.jobs = (0..30).map(|n| job(&format!("ks.t{n}"), Some(0.5))).collect();
    for lines_max in 0..50 {
        assert!(drawn(&view, 80, lines_max).len() <= lines_max, "{lines_max}");
    }
    let low = drawn(&view, 80, 10);
    assert_eq!((low.len(), low[7].as_str()), (10, "and 26 more"), "{low:#?}");
    assert!(low[6].contains("ks.t3") && low[9].starts_with("pending 4"), "{low:#?}");
    // Room for one of those that have ended.
    let higher = drawn(&view, 80, 38);
    assert!(higher[36].contains("ENDED") && higher[37].contains("scrub"), "{higher:#?}");
}

#[test]
fn a_node_that_has_nothing_to_tell() {
    let none = View::default();
    let expected = ["compactions of 127.0.0.1:10000", "", "nothing is merged at present", "", ""];
    assert_eq!(drawn(&none, 80, 24), expected);
}

#[test]
fn what_stands_above() {
    let check = |interval: Option<u64>, trouble: Option<&str>, expected: &[&str]| {
        let interval = interval.map(Duration::from_millis);
        let peer = ([127, 0, 0, 1], 10000).into();
        assert_eq!(head(&Header { peer, interval, trouble }), expected);
    };
    check(Some(1000), None, &["compactions of 127.0.0.1:10000, every 1s; Ctrl-C ends", ""]);
    let trouble = ["compactions of 127.0.0.1:10000", "What follows is not of now: gone", ""];
    check(None, Some("gone"), &trouble);
}

#[test]
fn what_waits_and_what_limits() {
    let check = |view: View, expected: &str| assert_eq!(summary(&view), expected);
    let some = View { pending: Some(2), held: Some(1), ..View::default() };
    check(some, "pending 2, waiting for room on the disk 1");
    check(View { shares: vec![50, 50], limit: Some(0), ..View::default() }, "shares 50, no limit");
}

#[test]
fn numbers_have_three_digits() {
    for (value, expected) in [
        (0.0, "0 B"),
        (1023.0, "1023 B"),
        (1024.0, "1.00 KiB"),
        (10_235.0, "10.0 KiB"),
        (1_048_000.0, "1023 KiB"),
        (1_048_300.0, "1.00 MiB"),
        (85.16 * 1_048_576.0, "85.2 MiB"),
        (1e30, "888178419700125 PiB"),
    ] {
        assert_eq!(bytes(value), expected);
    }
    for (value, expected) in [
        (0, "0"),
        (99_999, "99999"),
        (100_000, "100 k"),
        (1_204_331, "1.20 M"),
        (u64::MAX, "18446744 T"),
    ] {
        assert_eq!(count(value), expected);
    }
    for (value, expected) in
        [(0, "0:00"), (59, "0:59"), (3599, "59:59"), (3600, "1:00:00"), (93_784, "1d 02h")]
    {
        assert_eq!(span(value), expected);
    }
    for (part, expected) in [
        (Some(0.0), "[....]   0.0%"),
        (Some(0.5), "[##..]  50.0%"),
        (Some(0.9999), "[###.]  99.9%"),
        (Some(1.0), "[####] 100.0%"),
        (None, "[....]      -"),
    ] {
        assert_eq!(done(part, 4), expected);
    }
}
