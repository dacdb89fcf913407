use super::*;
use proptest::prelude::*;

fn any_level() -> impl Strategy<Value = Consistency> {
    (0u16..11).prop_map(|code| Consistency::from_wire(code).expect("a level"))
}

/// Replicas of one to three data centres, this node's being 0, each with a few of its copies or
/// fewer, nearest first.
fn any_cluster() -> impl Strategy<Value = (Factors, Vec<Candidate>)> {
    let center = (0u32..4, 0u32..4, any::<[bool; 3]>());
    proptest::collection::vec(center, 1..4).prop_map(|centers| {
        let mut candidates = Vec::new();
        let mut each = Vec::new();
        for (dc, (copies, nodes, alive)) in centers.iter().enumerate() {
            let there = (*copies).min(*nodes) as usize;
            let dc = dc as u16;
            candidates.extend(alive.iter().take(there).map(|is_alive| Candidate {
                dc,
                is_local_dc: dc == 0,
                is_alive: *is_alive,
                sides: Sides::Both,
            }));
            each.push(((0 < there).then_some(dc), *copies));
        }
        let total = centers.iter().map(|(copies, ..)| copies).sum();
        (Factors { total, local: centers[0].0, each }, candidates)
    })
}

/// Whether answers of those are enough, said another way.
fn is_enough(level: Consistency, factors: &Factors, of: &[Candidate]) -> bool {
    let majority = |copies: u32, answers: usize| copies < 2 * answers as u32;
    let local = of.iter().filter(|one| one.is_local_dc).count();
    match level {
        Consistency::Any | Consistency::One => !of.is_empty(),
        Consistency::Two => 2 <= of.len(),
        Consistency::Three => 3 <= of.len(),
        Consistency::All => factors.total as usize <= of.len(),
        Consistency::Quorum | Consistency::Serial => majority(factors.total, of.len()),
        Consistency::LocalOne => 0 < local,
        Consistency::LocalQuorum | Consistency::LocalSerial => majority(factors.local, local),
        Consistency::EachQuorum => factors.each.iter().all(|(dc, copies)| {
            let there = of.iter().filter(|one| Some(one.dc) == *dc).count();
            *copies == 0 || majority(*copies, there)
        }),
    }
}

fn counts(level: Consistency, candidate: &Candidate) -> bool {
    let local = matches!(
        level,
        Consistency::LocalOne | Consistency::LocalQuorum | Consistency::LocalSerial
    );
    !local || candidate.is_local_dc
}

proptest! {
    #[test]
    fn a_write_is_enough_when_the_model_says_so(
        (factors, candidates) in any_cluster(),
        level in any_level(),
        ends in proptest::collection::vec(any::<bool>(), 9),
    ) {
        let alive: Vec<Candidate> =
            candidates.iter().filter(|one| one.is_alive).copied().collect();
        let planned = plan_write(level, &factors.clone().into(), &candidates);
        prop_assert_eq!(planned.is_ok(), is_enough(level, &factors, &alive));
        let Ok(mut tally) = planned else {
            let Err(Unavailable { required, alive }) = planned else { unreachable!() };
            prop_assert!(alive < required.max(1));
            let nowhere = !candidates.iter().any(|one| counts(level, one));
            let far = Candidate { dc: 1, is_local_dc: false, is_alive: true, sides: Sides::Both };
            let local = !counts(level, &far);
            prop_assert_eq!(required == 0, local && nowhere, "{:?} {:?}", level, &candidates);
            return Ok(());
        };
        let mut answered: Vec<Candidate> = Vec::new();
        for (index, (candidate, works)) in alive.iter().zip(ends).enumerate() {
            if works {
                tally.acknowledge(candidate);
                answered.push(*candidate);
            } else {
                tally.fail(candidate);
            }
            prop_assert_eq!(tally.is_met(), is_enough(level, &factors, &answered));
            let left = alive[index + 1..].iter().copied();
            let best: Vec<Candidate> = answered.iter().copied().chain(left).collect();
            prop_assert_eq!(tally.is_lost(), !is_enough(level, &factors, &best));
            prop_assert_eq!(tally.received() == tally.required(), tally.is_met());
        }
    }

    /// *both-sides*, *of-its-own*: whoever has answered, a read meets one of them, be it of the
    /// side that is read now or of the other one; whatever numbers of copies these have, and the
    /// keyspace wants.
    #[test]
    fn a_read_of_either_side_meets_a_write_to_both(
        centers in proptest::collection::vec((0u32..6, 0u32..4, 0u32..4, 0u32..5), 1..3),
        alive in any::<[bool; 24]>(),
        order in any::<[u16; 24]>(),
        level in prop_oneof![
            Just(Consistency::Quorum),
            Just(Consistency::LocalQuorum),
            Just(Consistency::EachQuorum),
            Just(Consistency::Serial),
            Just(Consistency::LocalSerial),
            Just(Consistency::All),
        ],
    ) {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (dc, (_, both, read, written)) in (0u16..).zip(&centers) {
            let groups = [(both, Sides::Both), (read, Sides::Read), (written, Sides::Written)];
            for (count, sides) in groups {
                for _ in 0..*count {
                    let is_alive = alive[candidates.len()];
                    candidates.push(Candidate { dc, is_local_dc: dc == 0, is_alive, sides });
                }
            }
        }
        let factors_of = |is_on: fn(Sides) -> bool| {
            let count = |dc: u16| {
                candidates.iter().filter(|one| one.dc == dc && is_on(one.sides)).count() as u32
            };
            let of_center =
                |(dc, (counted, ..)): (u16, &(u32, u32, u32, u32))| (dc, (*counted).max(count(dc)));
            let each: Vec<(u16, u32)> = (0..).zip(&centers).map(of_center).collect();
            let (total, local) = (each.iter().map(|it| it.1).sum(), each[0].1);
            let each = each.into_iter().map(|(dc, it)| ((0 < count(dc)).then_some(dc), it));
            Factors { total, local, each: each.collect() }
        };
        let moves = candidates.iter().any(|one| one.sides != Sides::Both);
        let (read, beside) = (factors_of(Sides::is_read), factors_of(Sides::is_written_beside));
        let both = BothSides { read: read.clone(), beside: moves.then_some(beside.clone()) };
        let Ok(mut tally) = plan_write(level, &both, &candidates) else { return Ok(()) };
        let mut turns: Vec<usize> =
            (0..candidates.len()).filter(|at| candidates[*at].is_alive).collect();
        turns.sort_by_key(|at| order[*at]);
        let mut answered = Vec::new();
        for at in turns {
            prop_assert!(tally.received() < tally.required(), "{:?}", &tally);
            tally.acknowledge(&candidates[at]);
            answered.push(at);
            if tally.is_met() {
                break;
            }
        }
        prop_assert!(tally.is_met());
        prop_assert_eq!(tally.received(), tally.required());
        let is_read: fn(Sides) -> bool = Sides::is_read;
        for (factors, is_on) in [(read, is_read), (beside, Sides::is_written_beside)] {
            let passed_by: Vec<Candidate> = (0..candidates.len())
                .filter(|at| !answered.contains(at) && is_on(candidates[*at].sides))
                .map(|at| candidates[at])
                .collect();
            // Who wants no copies has nothing to read.
            let reads = match level {
                Consistency::LocalQuorum | Consistency::LocalSerial => 0 < factors.local,
                Consistency::EachQuorum => factors.each.iter().any(|(_, copies)| 0 < *copies),
                _ => 0 < factors.total,
            };
            let is_passed_by = reads && is_enough(level, &factors, &passed_by);
            prop_assert!(!is_passed_by, "{level:?}: {answered:?} of {candidates:?}");
        }
    }

    /// Nobody is waited for whom the level needs on neither side: of three replicas of which one
    /// takes the place of another, two that stay are enough.
    #[test]
    fn one_that_stays_counts_on_both_sides(stay in 1u32..5, change in 1u32..4) {
        let one = |sides| Candidate { dc: 0, is_local_dc: true, is_alive: true, sides };
        let group = |count: u32, sides| (0..count).map(move |_| one(sides));
        let candidates: Vec<Candidate> = group(stay, Sides::Both)
            .chain(group(change, Sides::Read))
            .chain(group(change, Sides::Written))
            .collect();
        let total = stay + change;
        let factors = Factors { total, local: total, each: Vec::new() };
        let both = BothSides { read: factors.clone(), beside: Some(factors) };
        let mut tally = plan_write(Consistency::Quorum, &both, &candidates).expect("all live");
        for at in 0..stay.min(quorum(total)) {
            prop_assert!(!tally.is_met());
            tally.acknowledge(&candidates[at as usize]);
        }
        prop_assert_eq!(tally.is_met(), quorum(total) <= stay);
    }

    /// Some of those who were asked first and some who joined them have answered; they are asked
    /// something else, which some of them fail. Whoever is alive besides takes their places.
    #[test]
    fn a_read_goes_on_without_those_that_have_failed_as_long_as_enough_are_alive(
        (factors, candidates) in any_cluster(),
        level in any_level(),
        joined in 0..3usize,
        silent in any::<u16>(),
        failing in any::<u16>(),
    ) {
        let Ok(mut plan) = plan_read(level, &factors, &candidates) else { return Ok(()) };
        for _ in 0..joined {
            plan.replace(&candidates, None);
        }
        let of = |indexes: &[usize]| -> Vec<Candidate> {
            indexes.iter().map(|index| candidates[*index]).collect()
        };
        let mut who = plan.asked.to_vec();
        who.retain(|index| silent >> (index % 16) & 1 == 0);
        prop_assume!(is_enough(level, &factors, &of(&who)));
        let again = plan.again(&who, &candidates);
        prop_assert_eq!(&again.asked[..], &who[..]);
        let failed: Vec<usize> =
            who.iter().copied().filter(|index| failing >> (index % 16) & 1 == 1).collect();
        let left: Vec<Candidate> = candidates.iter().enumerate()
            .filter(|(index, one)| one.is_alive && !failed.contains(index))
            .map(|(_, one)| *one).collect();
        match again.without(&failed, &candidates) {
            Some(others) => {
                prop_assert!(is_enough(level, &factors, &of(&others.asked)));
                prop_assert!(others.asked.iter().all(|index| !failed.contains(index)));
                prop_assert!(of(&others.asked).iter().all(|one| one.is_alive));
                let mut once = others.asked.to_vec();
                once.sort_unstable();
                once.dedup();
                prop_assert_eq!(once.len(), others.asked.len());
            }
            None => prop_assert!(!is_enough(level, &factors, &left), "{:?} {:?}", again, failed),
        }
    }

    #[test]
    fn a_read_asks_the_nearest_and_no_more_than_it_must(
        (factors, candidates) in any_cluster(),
        level in any_level(),
        failing in any::<u16>(),
    ) {
        let alive: Vec<Candidate> =
            candidates.iter().filter(|one| one.is_alive).copied().collect();
        let planned = plan_read(level, &factors, &candidates);
        prop_assert_eq!(planned.is_ok(), is_enough(level, &factors, &alive));
        let Ok(mut plan) = planned else { return Ok(()) };
        let of = |indexes: &[usize]| -> Vec<Candidate> {
            indexes.iter().map(|index| candidates[*index]).collect()
        };
        prop_assert!(is_enough(level, &factors, &of(&plan.asked)));
        prop_assert!(of(&plan.asked).iter().all(|one| one.is_alive && counts(level, one)));
        for left_out in 0..plan.asked.len() {
            let mut fewer = plan.asked.clone();
            fewer.remove(left_out);
            prop_assert!(!is_enough(level, &factors, &of(&fewer)), "one too many is asked");
        }
        // Nobody nearer of the same data centre was passed over.
        for asked in &plan.asked {
            let nearer = (0..*asked).filter(|index| {
                candidates[*index].is_alive && candidates[*index].dc == candidates[*asked].dc
            });
            prop_assert!(nearer.into_iter().all(|index| plan.asked.contains(&index)));
        }
        // One after the other fails, and is replaced, until nobody is left for it.
        let mut working = plan.asked.clone();
        let mut next = failing as usize % plan.asked.len().max(1);
        while next < working.len() {
            let failed = working[next];
            plan.tally.fail(&candidates[failed]);
            working.remove(next);
            match plan.replace(&candidates, Some(failed)) {
                Some(spare) => {
                    prop_assert!(!working.contains(&spare) && spare != failed);
                    working.push(spare);
                    prop_assert!(is_enough(level, &factors, &of(&working)));
                    prop_assert!(!plan.tally.is_lost());
                }
                None => {
                    prop_assert!(plan.tally.is_lost());
                    break;
                }
            }
            next = 0;
        }
    }
}

#[test]
fn numbers_of_an_error_are_those_of_the_part_that_is_missing() {
    let candidate =
        |dc, is_alive| Candidate { dc, is_local_dc: dc == 0, is_alive, sides: Sides::Both };
    let candidates =
        [candidate(0, true), candidate(0, true), candidate(0, true), candidate(1, true)];
    let factors = Factors { total: 6, local: 3, each: vec![(Some(0), 3), (Some(1), 3)] };
    let check = |level, expected: Result<u32, (u32, u32)>| {
        let expected = expected.map_err(|(required, alive)| Unavailable { required, alive });
        let both = factors.clone().into();
        let planned = plan_write(level, &both, &candidates).map(|tally| tally.required());
        assert_eq!(planned, expected, "{level:?}");
        let planned = plan_read(level, &factors, &candidates).map(|plan| plan.tally.required());
        assert_eq!(planned, expected, "{level:?}");
    };
    check(Consistency::Quorum, Ok(4));
    check(Consistency::All, Err((6, 4)));
    check(Consistency::LocalQuorum, Ok(2));
    check(Consistency::EachQuorum, Err((2, 1)));
    check(Consistency::Three, Ok(3));
}
