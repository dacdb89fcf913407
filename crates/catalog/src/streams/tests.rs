use super::*;
use proptest::prelude::*;

fn set(since_millis: i64, ranges: &[(i64, u16)]) -> StreamSet {
    let range = |(at, (last, shards)): (usize, &(i64, u16))| {
        let stream = |shard: u16| StreamId::new(Token(*last), at as u32, u64::from(shard));
        (Token(*last), (0..*shards).map(stream).collect())
    };
    StreamSet::new(since_millis, ranges.iter().enumerate().map(range).collect())
}

fn streams(sets: &[StreamSet]) -> Streams {
    Streams::of_sets(sets.to_vec()).expect("times ascend")
}

#[test]
fn a_name_says_what_it_is_of() {
    let stream = StreamId::new(Token(-2), 77, u64::MAX);
    assert_eq!((stream.token(), stream.index()), (Token(-2), 77));
    let hex: String = stream.0.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "fffffffffffffffefffffffffc0004d1");
    assert_eq!(StreamId::new(Token(0), u32::MAX, 0).index(), StreamId::INDEX_MAX);
}

#[test]
fn each_token_has_a_stream() {
    let set = set(1, &[(-100, 1), (0, 2), (100, 1)]);
    let of = |token: i64| set.of(Token(token)).index();
    assert_eq!([i64::MIN, -100, -99, 0, 1, 100, 101, i64::MAX].map(of), [0, 0, 1, 1, 2, 2, 0, 0]);
    let sharder = Sharder::of_node(2);
    for token in (-99..=0).map(Token) {
        let streams = set.ranges().nth(1).expect("a range").1;
        assert_eq!(set.of(token), streams[usize::from(sharder.shard_of(token))]);
    }
    assert_eq!(set.streams().len(), 4);
}

#[test]
fn times_that_are_wrong_are_refused() {
    const S: i64 = 1_000_000;
    let all = streams(&[set(100_000, &[(0, 1)]), set(200_000, &[(1, 1)])]);
    let check = |micros: i64, now: i64, expected: Result<i64, &str>| {
        let found = all.stream_of(Token(5), micros, now);
        match (found, expected) {
            (Ok(found), Ok(last)) => assert_eq!(found.token(), Token(last), "{micros} at {now}"),
            (Err(found), Err(part)) => {
                let text = found.to_string();
                assert!(text.starts_with("cdc: attempted to get a stream"), "{text}");
                assert!(text.contains(part), "{text}");
            }
            (found, _) => panic!("{micros} at {now}: {found:?}"),
        }
    };
    let future = "With CDC you cannot send writes with timestamps arbitrarily into the future";
    let past = "With CDC you cannot send writes with timestamps too far into the past";
    check(150 * S, 150 * S, Ok(0));
    // Of the set in use any time is good, of those before only what is a little late.
    check(100 * S, 199 * S, Ok(0));
    check(199 * S, 203 * S, Ok(0));
    check(199 * S, 204 * S, Err(past));
    check(200 * S, 900 * S, Ok(1));
    check(203 * S, 199 * S, Ok(1));
    check(155 * S, 150 * S, Ok(0));
    check(155 * S + 1, 150 * S, Err(future));
    check(100 * S - 1, 150 * S, Err(past));
    check(i64::MAX, 150 * S, Err(future));
    check(i64::MIN, 150 * S, Err(past));
    assert_eq!(
        Streams::default().stream_of(Token(0), 5, 5),
        Err(WrongTime::BeforeAll { micros: 5 })
    );
}

#[test]
fn sets_that_are_long_over_are_forgotten() {
    let mut all = Streams::default();
    for since in [10, 20, 30, 40] {
        all = all.with(set(since, &[(0, 1)]), 25);
    }
    let since = |all: &Streams| all.sets().iter().map(|it| it.since_millis()).collect::<Vec<_>>();
    assert_eq!(since(&all), [20, 30, 40]);
    assert_eq!(all.at(29).map(|it| it.since_millis()), Some(20));
    assert_eq!((all.at(19), all.at(99).map(|it| it.since_millis())), (None, Some(40)));
    // The last one stays.
    assert_eq!(since(&all.with(set(50, &[(0, 1)]), 99)), [50]);
}

fn any_streams() -> impl Strategy<Value = Streams> {
    let ranges = prop::collection::btree_map(any::<i64>(), 1u16..4, 1..5);
    prop::collection::btree_map(any::<i64>(), ranges, 0..4).prop_map(|sets| {
        let one = |(since, ranges): (i64, std::collections::BTreeMap<i64, u16>)| {
            set(since, &ranges.into_iter().collect::<Vec<_>>())
        };
        streams(&sets.into_iter().map(one).collect::<Vec<_>>())
    })
}

proptest! {
    #[test]
    fn what_is_stored_is_read(all in any_streams()) {
        prop_assert_eq!(Streams::decode(&all.encode()), Ok(all));
    }

    #[test]
    fn damaged_bytes_are_refused(
        all in any_streams(),
        at in any::<prop::sample::Index>(),
        to: u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = all.encode();
        let whole = bytes.len();
        bytes[at.index(whole)] = to;
        let _ = Streams::decode(&bytes);
        bytes.truncate(cut.index(whole));
        prop_assert!(Streams::decode(&bytes).is_err());
    }

    #[test]
    fn a_write_gets_its_stream(all in any_streams(), token: i64, micros: i64, now: i64) {
        let found = all.stream_of(Token(token), micros, now);
        if let Ok(found) = found {
            prop_assert!(micros <= now.saturating_add(AHEAD_MICROS));
            let set = all.sets().iter().rev().find(|it| it.since_micros() <= micros);
            prop_assert_eq!(set.map(|set| set.of(Token(token))), Some(found));
        }
    }
}
