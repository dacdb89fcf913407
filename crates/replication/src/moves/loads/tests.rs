use super::*;
use cluster::Resize;
use proptest::prelude::*;

fn tablets(count: u32) -> TabletReplicas {
    let ends = TabletMap::tablets(count, 1).last_tokens().to_vec();
    TabletReplicas::new(ends, vec![Box::from([(model::Uuid::from_u128(1), 0)]); count as usize])
}

proptest! {
    /// *by-range*: nothing is lost, whatever the division of storage, and a division that is finer
    /// counts as it is.
    #[test]
    fn all_bytes_count_for_some_tablet(
        log in 0u32..6,
        ends in prop::collection::btree_set(any::<i64>(), 0..20),
        sizes in prop::collection::vec(0u64..1 << 50, 21),
    ) {
        let replicas = tablets(1 << log);
        let ends = ends.into_iter().filter(|it| *it != i64::MIN).chain([i64::MAX]);
        let (mut parts, mut after) = (Vec::<Part>::new(), Token::MIN);
        for (last, bytes) in ends.map(Token).zip(&sizes).filter(|(last, _)| *last != Token::MIN) {
            if after < last {
                parts.push((after, last, *bytes));
                after = last;
            }
        }
        let all = by_tablet(&replicas, &parts);
        let sum = |of: &[u64]| of.iter().sum::<u64>();
        prop_assert_eq!(sum(&all), parts.iter().map(|it| it.2).sum::<u64>());
        // What lies in one tablet counts for that alone.
        for (tablet, held) in all.iter().enumerate() {
            let (begin, end) = replicas.range(tablet);
            let within = parts.iter().filter(|(after, last, _)| begin <= *after && *last <= end);
            let at_least: u64 = within.map(|it| it.2).sum();
            let meets = parts.iter().filter(|(after, last, _)| *after < end && begin < *last);
            let at_most: u64 = meets.map(|it| it.2).sum();
            prop_assert!((at_least..=at_most).contains(held));
        }
        // Halves of it, together.
        let halves = by_tablet(&replicas.resized(Resize::Split).expect("halves"), &parts);
        for (one, two) in all.iter().zip(halves.chunks(2)) {
            prop_assert!(one.abs_diff(sum(two)) <= (parts.len() + 2 * all.len()) as u64);
        }
    }
}

#[test]
fn a_part_of_several_tablets_counts_by_its_range() {
    let whole = [(Token::MIN, Token::MAX, 1000)];
    assert_eq!(by_tablet(&tablets(1), &whole), [1000]);
    assert_eq!(by_tablet(&tablets(4), &whole), [249, 250, 250, 251]);
}

fn told(seconds: u64, by: &[(u128, &[TabletLoad])]) -> Told {
    let load = |tablets: &[TabletLoad]| TableLoad {
        table: TableId::from_u128(5),
        count: 4,
        tablets: tablets.to_vec(),
    };
    let by = by.iter().map(|(host, tablets)| (model::Uuid::from_u128(*host), vec![load(tablets)]));
    Told { at: Instant::now() + Duration::from_secs(seconds), by: by.collect() }
}

/// *since-before*
#[test]
fn requests_in_a_second_follow_from_what_was_told_before() {
    runtime::sim::test(1, || async {
        let of = |tablet, requests| TabletLoad { tablet, bytes: 0, requests };
        let before = told(0, &[(1, &[of(0, 100), of(1, 5000)]), (2, &[of(2, 10)])]);
        // One began anew, one is new on its node, and one node was not heard before.
        let now = told(10, &[(1, &[of(0, 1100), of(1, 700), of(3, 9)]), (3, &[of(2, 5_000)])]);
        let figures: Vec<_> = rates(&before, &now).into_iter().map(|it| it.2).collect();
        assert_eq!(figures, [[(0, 100), (1, 70)]]);
        // Too little time, and another number of tablets.
        assert!(rates(&before, &told(4, &[(1, &[of(0, 1100)])])).is_empty());
        let mut other = told(10, &[(1, &[of(0, 1100)])]);
        other.by.values_mut().flatten().for_each(|load| load.count = 8);
        assert!(rates(&before, &other).is_empty());
    });
}
