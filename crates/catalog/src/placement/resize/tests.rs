use super::*;
use proptest::prelude::*;

const TARGET: u64 = 5 << 30;
const ANY: Counts = Counts { asked: 1, least: 1, most: 1 << 16 };

fn holds(average: u64) -> Holds {
    Holds { average: Some(average), merges: false, heat: Heat::Cold }
}

fn after(count: u32, step: Option<Resize>) -> u32 {
    match step {
        None => count,
        Some(Resize::Split) => count * 2,
        Some(Resize::Merge | Resize::Converge) => count / 2,
    }
}

#[test]
fn tablets_are_about_as_large_as_the_target() {
    let step = |gib: u64| wanted(8, ANY, holds(gib << 30), TARGET);
    assert_eq!([0, 2].map(step), [Some(Resize::Merge); 2]);
    assert_eq!([3, 5, 9, 10].map(step), [None; 4]);
    assert_eq!([11, 1 << 20].map(step), [Some(Resize::Split); 2]);
    let unknown = Holds { average: None, merges: true, heat: Heat::Cold };
    assert_eq!(wanted(8, ANY, unknown, TARGET), None);
    // Those that come together go on with it.
    let merges = |gib: u64| Holds { average: Some(gib << 30), merges: true, heat: Heat::Cold };
    let step = |gib| wanted(8, ANY, merges(gib), TARGET);
    assert_eq!([4, 5].map(step), [Some(Resize::Merge), None]);
}

/// *spread*
#[test]
fn a_hot_table_gets_more_tablets_and_a_warm_one_no_fewer() {
    let counts = Counts { asked: 1, least: 4, most: 1 << 16 };
    let step = |count, heat, gib: u64| {
        let holds = Holds { average: Some(gib << 30), merges: false, heat };
        wanted(count, counts, holds, TARGET)
    };
    assert_eq!([4, 16].map(|count| step(count, Heat::Hot, 0)), [Some(Resize::Split); 2]);
    // What is still hot in so many is one partition.
    assert_eq!(step(32, Heat::Hot, 0), None);
    assert_eq!([Heat::Warm, Heat::Cold].map(|heat| step(32, heat, 0)), [None, Some(Resize::Merge)]);
    assert_eq!(step(8, Heat::Warm, 11), Some(Resize::Split));
    let said = Counts { most: 4, ..counts };
    let hot = Holds { average: Some(0), merges: false, heat: Heat::Hot };
    assert_eq!(wanted(4, said, hot, TARGET), None);
}

/// *as-said*
#[test]
fn what_is_said_holds() {
    let counts = Counts { asked: 16, least: 16, most: 64 };
    let step = |count, gib: u64| wanted(count, counts, holds(gib << 30), TARGET);
    assert_eq!(step(8, 0), Some(Resize::Split));
    assert_eq!((step(16, 0), step(32, 0)), (None, Some(Resize::Merge)));
    assert_eq!((step(32, 50), step(64, 50)), (Some(Resize::Split), None));
    assert_eq!(step(128, 50), Some(Resize::Merge));
    // What nobody has asked for is no reason to split.
    let shards = Counts { asked: 1, ..counts };
    assert_eq!(wanted(8, shards, holds(0), TARGET), None);
    // Tablets that were not made by halves.
    assert_eq!(wanted(33, counts, holds(0), TARGET), None);
    assert_eq!(wanted(33, counts, holds(50 << 30), TARGET), None);
    assert_eq!(wanted(31, counts, holds(50 << 30), TARGET), Some(Resize::Split));
    // Nothing of it goes over.
    assert_eq!(wanted(8, ANY, holds(u64::MAX), u64::MAX), None);
}

proptest! {
    /// A naive model of a table that grows and shrinks: it settles, in one direction, near the
    /// target, and steps back only for what *no-way-back* says.
    #[test]
    fn steps_lead_to_the_target_and_not_back(
        asked in 0u32..5,
        more in 0u32..3,
        most in 0u32..4,
        totals in proptest::collection::vec(0u64..1 << 44, 1..20),
        target in 1u64 << 20..1 << 36,
    ) {
        let (asked, least) = (1 << asked, 1 << (asked + more));
        let counts = Counts { asked, least, most: least << most };
        let mut count = least;
        let mut last: Option<(Resize, u64)> = None;
        let mut merges = false;
        for total in totals {
            let mut first = None;
            for step in 0.. {
                let average = Some(total / u64::from(count));
                let holds = Holds { average, merges, heat: Heat::Cold };
                let next = wanted(count, counts, holds, target);
                merges = next == Some(Resize::Merge);
                let Some(next) = next else { break };
                // Always on, one way.
                prop_assert!(step < 20 && *first.get_or_insert(next) == next);
                match last {
                    Some((Resize::Split, then)) if next == Resize::Merge => {
                        prop_assert!(total <= then / 2, "merged at {total}, split at {then}");
                    }
                    Some((Resize::Merge, then)) if next == Resize::Split => {
                        prop_assert!(then <= total, "split at {total}, merged at {then}");
                    }
                    _ => {}
                }
                last = Some((next, total));
                count = after(count, Some(next));
                prop_assert!(counts.least <= count && count <= counts.most);
            }
            let average = total / u64::from(count);
            prop_assert!(average <= 2 * target || count == counts.most, "{average} of {target}");
            prop_assert!(target / 2 <= average || count == counts.least, "{average} of {target}");
        }
    }
}
