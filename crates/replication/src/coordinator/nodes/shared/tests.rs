use super::*;
use mutation::page::Partitions;
use mutation::testing::{mutation_of, partition_key, read_all, schema};
use proptest::prelude::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use stdx::Prng;

const LEVELS: [Consistency; 2] = [Consistency::Serial, Consistency::LocalSerial];

fn view(level: Consistency) -> View {
    let replication = Rc::new(Replication::Everywhere);
    View { schema: Rc::new(schema()), replication, replicas: Rc::from([]), level }
}

fn joint() -> Rc<Joint> {
    Joint::new(view(LEVELS[0]), (Ballot::drawn(20, 1), Ballot::drawn(10, 1)))
}

fn place() -> Place {
    Place { table: schema().id, key: b"k".to_vec() }
}

/// What became of a place in line, if anything did.
fn look(receiver: &mut OneshotReceiver<Given>) -> Option<Given> {
    match pin!(receiver).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(given) => Some(given.expect("handed-on")),
        Poll::Pending => None,
    }
}

/// One poll of letting others in: as far as it goes by itself.
fn let_in(lead: &Lead, joint: &Rc<Joint>) -> bool {
    let letting = pin!(lead.let_in(joint));
    letting.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A request in line.
struct Request {
    number: usize,
    leads: bool,
    receiver: OneshotReceiver<Given>,
}

/// Requests come, go while they wait, and end, in any order: one leads, as long as there is one.
#[test]
fn the_first_in_line_leads_next_however_one_ends() {
    for seed in 0..500 {
        let mut prng = Prng::from_seed(seed);
        let lines = Rc::<Lines>::default();
        let (mut leads, mut waiting) = (None::<Lead>, Vec::<Request>::new());
        for number in 0..40 {
            match prng.below(3) {
                0 => {
                    let own = prng.one_in(4);
                    match lines.line_up(&place(), LEVELS[prng.below(2) as usize], own) {
                        Lined::Given(Given::Lead(lead)) => {
                            assert!(leads.replace(lead).is_none() && waiting.is_empty());
                        }
                        Lined::Given(Given::Turn(_)) => panic!("a turn in nobody's round"),
                        Lined::Waits(receiver) => {
                            let at = if own { 0 } else { waiting.len() };
                            waiting.insert(at, Request { number, leads: own, receiver });
                        }
                    }
                }
                1 if !waiting.is_empty() => {
                    drop(waiting.remove(prng.below(waiting.len() as u64) as usize));
                }
                _ => leads = None,
            }
            if leads.is_none() && !waiting.is_empty() {
                let Request { number, leads: own, mut receiver } = waiting.remove(0);
                match look(&mut receiver) {
                    Some(Given::Lead(lead)) => leads = Some(lead),
                    _ => panic!("seed {seed}: {number} ({own}) does not lead"),
                }
            }
            assert!(waiting.iter_mut().all(|one| look(&mut one.receiver).is_none()), "{seed}");
            let known = lines.led.borrow().len();
            assert_eq!(known, usize::from(leads.is_some()), "seed {seed}");
        }
    }
}

/// Who hands on to one that goes before it looks hands on to the next.
#[test]
fn a_lead_that_nobody_takes_is_handed_on() {
    let lines = Rc::<Lines>::default();
    let Lined::Given(Given::Lead(lead)) = lines.line_up(&place(), LEVELS[0], false) else {
        panic!("the first one waits");
    };
    let wait = || match lines.line_up(&place(), LEVELS[0], false) {
        Lined::Waits(receiver) => receiver,
        Lined::Given(_) => panic!("two lead"),
    };
    let (gone, mut next) = (wait(), wait());
    drop(lead);
    assert!(look(&mut next).is_none());
    drop(gone);
    assert!(matches!(look(&mut next), Some(Given::Lead(_))));
    assert!(lines.led.borrow().is_empty());
}

/// Who takes part was in line before the read, asks at the same level, and wants no round of its
/// own.
#[test]
fn who_came_before_the_read_takes_part() {
    let lines = Rc::<Lines>::default();
    let Lined::Given(Given::Lead(lead)) = lines.line_up(&place(), LEVELS[0], false) else {
        panic!("the first one waits");
    };
    let wait = |level: usize, leads| match lines.line_up(&place(), LEVELS[level], leads) {
        Lined::Waits(receiver) => receiver,
        Lined::Given(_) => panic!("two lead"),
    };
    let unread = joint();
    let mut first = wait(0, false);
    assert!(let_in(&lead, &unread) && look(&mut first).is_none(), "nothing was read");

    let joint = joint();
    let gone = wait(0, false);
    let mut second = wait(0, false);
    joint.open(lead.awaited().expect("three wait"));
    let mut late = wait(0, false);
    joint.open(lead.awaited().expect("four wait"));
    drop(gone);
    assert!(!let_in(&lead, &joint));
    let Some(Given::Turn(turn)) = look(&mut first) else { panic!("the first has no turn") };
    assert!(look(&mut second).is_none(), "in-turn");
    drop(turn);
    assert!(!let_in(&lead, &joint));
    let Some(Given::Turn(turn)) = look(&mut second) else { panic!("the second has no turn") };
    drop(turn);
    assert!(let_in(&lead, &joint) && look(&mut late).is_none(), "read-after-they-came");
    assert_eq!(joint.turns(), 2);

    for (level, leads) in [(1, false), (0, true)] {
        let lines = Rc::<Lines>::default();
        let Lined::Given(Given::Lead(lead)) = lines.line_up(&place(), LEVELS[0], false) else {
            panic!("the first one waits");
        };
        let Lined::Waits(mut other) = lines.line_up(&place(), LEVELS[level], leads) else {
            panic!("two lead");
        };
        let joint = self::joint();
        joint.open(lead.awaited().expect("one waits"));
        assert!(let_in(&lead, &joint) && look(&mut other).is_none(), "{level} {leads}");
    }
}

/// A turn that is not used goes on to the next one.
#[test]
fn who_goes_before_its_turn_holds_nobody_up() {
    let lines = Rc::<Lines>::default();
    let Lined::Given(Given::Lead(lead)) = lines.line_up(&place(), LEVELS[0], false) else {
        panic!("the first one waits");
    };
    let Lined::Waits(receiver) = lines.line_up(&place(), LEVELS[0], false) else {
        panic!("two lead");
    };
    let joint = joint();
    joint.open(lead.awaited().expect("one waits"));
    assert!(!let_in(&lead, &joint));
    drop(receiver);
    assert!(let_in(&lead, &joint));
}

/// All are told the same, also when who led has gone without a word.
#[test]
fn all_are_told_how_a_round_ends() {
    for outcome in [Some(Ok(Proposed::Chosen)), Some(Ok(Proposed::Superseded)), None] {
        let joint = joint();
        let mut told = Vec::from([(); 3].map(|()| Box::pin(joint.outcome())));
        let mut poll = || -> Vec<_> {
            let mut cx = Context::from_waker(Waker::noop());
            told.iter_mut().map(|one| one.as_mut().poll(&mut cx)).collect()
        };
        assert!(poll().iter().all(Poll::is_pending), "as-a-whole");
        let ending = Ending(joint.clone());
        match outcome.clone() {
            Some(chosen) => ending.told(Ended::of_nothing(chosen)),
            None => drop(ending),
        }
        for heard in poll() {
            let Poll::Ready(heard) = heard else { panic!("not told") };
            assert_eq!(heard.map(Ended::of_read), outcome);
        }
    }
}

#[test]
fn who_has_added_something_is_told_whether_it_was_learned() {
    let late = || WriteError::Overloaded("late".to_owned());
    let ended = |chosen, learned| Ended { chosen, learned };
    let chosen = ended(Ok(Proposed::Chosen), Err(late()));
    assert_eq!(chosen.clone().of_read(), Ok(Proposed::Chosen));
    assert_eq!(chosen.of_write(), Err(late()));
    let superseded = ended(Ok(Proposed::Superseded), Ok(()));
    assert_eq!(superseded.of_write(), Ok(Proposed::Superseded));
    assert_eq!(ended(Err(late()), Ok(())).of_write(), Err(late()));
}

fn one_partition() -> ReadCommand {
    ReadCommand { partitions: Partitions::Key(partition_key(1)), ..read_all() }
}

proptest! {
    /// Whoever has a turn sees what the replicas have with all that was added before, whatever
    /// second its command is of, and draws a later timestamp.
    #[test]
    fn who_takes_part_sees_what_was_added_before(
        base in prop::option::of(mutation_of(partition_key(1))),
        added in prop::collection::vec((mutation_of(partition_key(1)), 0i64..40), 0..6),
        looks in prop::collection::vec(any::<bool>(), 6),
    ) {
        let (schema, joint) = (schema(), joint());
        let command = one_partition();
        prop_assert_eq!(joint.seen(&command), None);
        joint.open(1);
        joint.keep(&command, base.iter().cloned().collect());
        let mut all: Vec<FrozenMutation> = base.into_iter().collect();
        let mut last = 20;
        for (number, (mutation, now)) in added.iter().enumerate() {
            joint.is_taken.set(true);
            let turn = Turn { joint: joint.clone() };
            let (ballot, since) = joint.draw(*now, 7);
            prop_assert!(last < ballot.micros() && *now <= ballot.micros());
            prop_assert_eq!(since, Some(Ballot::drawn(10, 1)));
            last = ballot.micros();
            if looks[number] {
                let command = ReadCommand { now: command.now + number as i64, ..command.clone() };
                let backwards = all.iter().rev().cloned().reduce(|all, one| {
                    reconcile::merge_two(&schema, &all, &one)
                });
                let (expected, _) = reconcile::page(&schema, &command, backwards.as_slice(), None);
                prop_assert_eq!(joint.seen(&command), Some(expected));
            }
            prop_assert!(joint.admits(Consistency::Quorum));
            joint.add(mutation.clone(), Consistency::Quorum);
            prop_assert!(!joint.admits(Consistency::One));
            all.push(mutation.clone());
            drop(turn);
        }
        let Whole { ballots, added: whole, .. } = joint.whole();
        prop_assert_eq!(ballots.0.micros(), last);
        prop_assert_eq!(whole.is_none(), added.is_empty());
        if let Some((whole, commit)) = whole {
            prop_assert_eq!(commit, Consistency::Quorum);
            let parts = added.iter().rev().map(|(one, _)| one.clone());
            let backwards = parts.reduce(|all, one| reconcile::merge_two(&schema, &all, &one));
            prop_assert_eq!(Some(whole), backwards);
        }
    }
}

#[test]
fn as_much_is_added_as_there_is_room_for() {
    let joint = joint();
    let schema = schema();
    let big = mutation::MutationBuilder::new(&schema, &partition_key(1));
    let mutation = big.freeze();
    while joint.has_room() {
        joint.add(mutation.clone(), Consistency::Quorum);
    }
    let count = joint.added.borrow().all.len();
    assert_eq!(count, ADDED_BYTES_MAX.div_ceil(mutation.0.len()));
    let other = self::joint();
    other.turns.set(TURNS_MAX);
    assert!(!other.has_room());
}
