use super::*;
use stdx::Prng;

fn id(node: u64) -> Uuid {
    Uuid::from_u128(u128::from(node) + 1)
}

/// Node, data center, whether it is only written.
type Seat = (u64, u16, bool);

fn seen_by(me: u64, seats: &[Seat]) -> Vec<Replica> {
    let mine = seats.iter().find(|seat| seat.0 == me).map(|seat| seat.1);
    let replica = |(rank, (node, dc, writes_only)): (u16, &Seat)| Replica {
        host_id: id(*node),
        is_here: *node == me,
        is_local_dc: mine == Some(*dc),
        dc: *dc,
        shard: 0,
        rank,
        sides: if *writes_only { Sides::Written } else { Sides::Both },
    };
    let mut all: Vec<Replica> = (0..).zip(seats).map(replica).collect();
    // As each node sees them: itself first.
    all.sort_by_key(|replica| (!replica.is_here, !replica.is_local_dc));
    all
}

/// The nodes that `me` sends to.
fn told(me: u64, base: &[Seat], view: &[Seat], by_center: bool) -> Vec<u64> {
    let (base, view) = (seen_by(me, base), seen_by(me, view));
    let targets = targets(&base, &view, by_center);
    let mut told: Vec<u64> =
        targets.iter().map(|place| view[*place].host_id.as_u128() as u64 - 1).collect();
    told.sort_unstable();
    told
}

/// Of lists as `1 2 +3`: only written where there is a plus; `4@1`: of data center 1.
fn seats(text: &str) -> Vec<Seat> {
    let seat = |word: &str| {
        let writes_only = word.starts_with('+');
        let (node, dc) = word.trim_start_matches('+').split_once('@').unwrap_or((word, "0"));
        let node = node.trim_start_matches('+').parse().expect("a node");
        (node, dc.parse().expect("a data center"), writes_only)
    };
    text.split_whitespace().map(seat).collect()
}

fn check(base: &str, view: &str, expected: &str) {
    let (base, view) = (seats(base), seats(view));
    let one = |(me, ..): &Seat| {
        let told = told(*me, &base, &view, true);
        format!("{me}>{}", told.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
    };
    let found: Vec<String> = base.iter().map(one).collect();
    assert_eq!(found.join(" "), expected);
}

#[test]
fn who_sends_to_whom() {
    check("1 2 3", "4 5 6", "1>4 2>5 3>6");
    // Who is both is its own partner.
    check("1 2 3", "3 4 1", "1>1 2>4 3>3");
    check("1 2 3", "2 3 1", "1>1 2>2 3>3");
    // More of one than of the other.
    check("1 2 3", "4 5", "1>4 2>5 3>");
    check("1 2", "4 5 6", "1>4,6 2>5,6");
    check("1", "1 5", "1>1,5");
    // A move of the view: who arrives hears all.
    check("1 2", "4 5 +6", "1>4,6 2>5,6");
    // A move of the base table: those in doubt tell all.
    check("1 2 +3", "4 5", "1>4 2>5 3>4,5");
    check("1 2 +4", "4 5", "1>4 2>5 4>4,5");
    // Data centers.
    check("1 7@1 2 8@1", "9@1 3 8@1 4", "1>3 7>9 2>4 8>8");
}

#[test]
fn all_replicas_of_a_view_hear_of_a_write() {
    let mut prng = Prng::from_seed(7);
    for _ in 0..20_000 {
        let centers = prng.between(1, 2);
        let mut draw = |most: u64| {
            let mut nodes: Vec<u64> = (0..8).collect();
            for place in 1..nodes.len() {
                nodes.swap(place, prng.below(place as u64 + 1) as usize);
            }
            let count = prng.between(1, most) as usize;
            let moving = if prng.one_in(3) { prng.between(1, 2) as usize } else { 0 };
            let seat = |(place, node): (usize, u64)| {
                (node, (node % centers) as u16, place + moving >= count && 0 < place)
            };
            nodes.into_iter().take(count).enumerate().map(seat).collect::<Vec<Seat>>()
        };
        let (base, view) = (draw(5), draw(5));
        let by_center = centers == 2;
        let has = |seats: &[Seat], dc| seats.iter().any(|it| !by_center || it.1 == dc);
        let all: Vec<Vec<u64>> =
            base.iter().map(|(me, ..)| told(*me, &base, &view, by_center)).collect();
        for (node, dc, _) in view.iter().filter(|seat| has(&base, seat.1)) {
            // A data center without a reader of the base table is on its way, all of it.
            let by = all.iter().filter(|told| told.contains(node)).count();
            assert!(0 < by, "nobody of {base:?} tells {node} in {dc} of {view:?}");
            let at_rest = base.iter().chain(&view).all(|seat| !seat.2);
            let count =
                |seats: &[Seat]| seats.iter().filter(|it| !by_center || it.1 == *dc).count();
            if at_rest && count(&base) == count(&view) {
                assert_eq!(by, 1, "{base:?} tell {node} of {view:?}");
            }
        }
    }
}
