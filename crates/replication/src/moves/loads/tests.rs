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
