use super::*;
use crate::topology::testing::{member, topology};
use model::{TabletMap, Uuid};

fn tablets(count: u32) -> TabletReplicas {
    let last_tokens = TabletMap::tablets(count, 1).last_tokens().to_vec();
    let on = |tablet: u32| vec![(Uuid::from_u128(1), (tablet % 2) as u16)].into_boxed_slice();
    TabletReplicas::new(last_tokens, (0..count).map(on).collect())
}

#[test]
fn a_stream_is_on_the_tablet_of_its_writes() {
    for (of_base, of_log) in [(1, 1), (8, 8), (256, 256), (16, 4), (4, 16)] {
        let (base, log) = (tablets(of_base), tablets(of_log));
        let set = of_tablets(&base, &log, 5, 7);
        assert!(is_of_tablets(&set, &base));
        assert!(of_base == of_log || !is_of_tablets(&set, &log));
        assert_eq!((set.since_millis(), set.streams().len()), (5, of_base as usize));
        for (last, streams) in set.ranges() {
            let [stream] = streams else { panic!("{streams:?}") };
            assert_eq!((stream.token(), stream.index()), (last, 0));
            assert_eq!(log.tablet_of(stream.partition()), log.tablet_of(last));
        }
        assert_eq!(set, of_tablets(&base, &log, 5, 7));
        assert_ne!(set, of_tablets(&base, &log, 5, 8));
    }
}

fn made(ring: &Ring) -> StreamSet {
    let mut making = Making::new(ring, 3);
    while making.step(ring) {}
    making.finish(9)
}

#[test]
fn a_stream_is_in_the_range_of_its_writes() {
    let nodes = [
        member(1, ("dc1", "r1"), &[i64::MIN / 2, 5, i64::MAX / 3]),
        crate::topology::Member { shards: 3, ..member(2, ("dc1", "r1"), &[-7_000_000, 1 << 62]) },
    ];
    let ring = Ring::new(&topology(&nodes));
    let set = made(&ring);
    assert!(is_of_ring(&set, &ring));
    assert_eq!(set.streams().len(), 3 * 2 + 2 * 3);
    let last_tokens: Vec<Token> = ring.points().iter().map(|(token, _)| *token).collect();
    let range_of = |token: Token| {
        let at = last_tokens.partition_point(|last| *last < token);
        at % last_tokens.len()
    };
    let mut together = 0;
    for (at, (last, streams)) in set.ranges().enumerate() {
        let sharder = Sharder::of_node(streams.len() as u16);
        for (shard, stream) in (0u16..).zip(streams) {
            assert_eq!((stream.index(), range_of(stream.token())), (at as u32, at), "{last:?}");
            let place = stream.partition();
            together += u32::from(range_of(place) == at && sharder.shard_of(place) == shard);
        }
    }
    // All but those of the range of 7 000 005 tokens, for which nobody finds a name.
    assert_eq!(together, 12 - 2);
    // A token goes to the stream of its range and shard.
    for token in (-64i64..64).map(|it| Token(it << 57)) {
        let stream = set.of(token);
        assert_eq!(range_of(stream.token()), range_of(token));
    }
}

#[test]
fn another_ring_has_other_streams() {
    let one = member(1, ("dc1", "r1"), &[7, 9]);
    let ring = |nodes: &[crate::topology::Member]| Ring::new(&topology(nodes));
    let set = made(&ring(std::slice::from_ref(&one)));
    assert!(is_of_ring(&set, &ring(std::slice::from_ref(&one))));
    let more_shards = crate::topology::Member { shards: 5, ..one.clone() };
    assert!(!is_of_ring(&set, &ring(&[more_shards])));
    assert!(!is_of_ring(&set, &ring(&[one, member(2, ("dc1", "r1"), &[8])])));
}

#[test]
fn a_node_alone_has_a_stream_for_each_shard() {
    let set = of_one(3, 1, 2);
    let sharder = Sharder::of_node(3);
    for (shard, stream) in (0u16..).zip(set.streams()) {
        assert_eq!(sharder.shard_of(stream.partition()), shard);
        assert_eq!(sharder.shard_of(stream.token()), shard);
    }
    assert_eq!(set.streams().len(), 3);
}

/// *bounded*: a large ring takes no longer than it may.
#[test]
fn a_large_ring_is_no_long_search() {
    let nodes: Vec<_> = (0..40u8)
        .map(|node| {
            let tokens = (0..16i64).map(|it| (it * 40 + i64::from(node)) << 52);
            let mut tokens: Vec<i64> = tokens.collect();
            tokens.sort_unstable();
            crate::topology::Member { shards: 120, ..member(node + 1, ("dc1", "r1"), &tokens) }
        })
        .collect();
    let ring = Ring::new(&topology(&nodes));
    let set = made(&ring);
    assert!(STREAMS_MAX < 120 * ring.points().len());
    assert_eq!(set.streams().len(), ring.points().len());
    assert!(is_of_ring(&set, &ring));
    let near = |stream: &&StreamId| set.of(stream.partition()) == **stream;
    let (found, all) = (set.streams().iter().filter(near).count(), set.streams().len());
    assert!(all * 9 / 10 < found && found <= all, "{found} of {all}");
}
