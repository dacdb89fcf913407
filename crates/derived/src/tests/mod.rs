//! The function against a naive model: after any writes a view shows what a scan of its base table
//! gives. Mistakes that are planted into the model of a replica are found.

mod decisions;
mod replica;
mod scan;
mod world;
mod writes;

use replica::{Plant, Replica};
use scan::{Facts, Shown};
use stdx::Prng;
use world::World;
use writes::Write;

/// Histories per property.
const HISTORIES: u64 = 500;
const WRITES_MAX: u64 = 14;

/// A world and writes of it, in the order in which they are made.
#[derive(Clone)]
struct History {
    seed: u64,
    writes: Vec<Write>,
}

impl History {
    fn of(seed: u64) -> (World, History) {
        let mut prng = Prng::from_seed(seed);
        let world = World::any(&mut prng);
        let count = prng.between(1, WRITES_MAX);
        let writes = (0..count).map(|at| Write::any(&world, at as i64, &mut prng)).collect();
        (world, History { seed, writes })
    }

    /// Of a view that is found by several attributes, each write newer than those before.
    fn of_several(seed: u64) -> (World, History) {
        let mut prng = Prng::from_seed(seed);
        let world = World::of_several(&mut prng);
        let count = prng.between(1, WRITES_MAX);
        let writes = (0..count).map(|at| Write::newest(&world, at as i64, &mut prng)).collect();
        (world, History { seed, writes })
    }

    /// The same with writes of any times.
    fn of_late_several(seed: u64) -> (World, History) {
        let mut prng = Prng::from_seed(seed);
        let world = World { may_have_more: true, ..World::of_several(&mut prng) };
        let count = prng.between(1, WRITES_MAX);
        let writes = (0..count).map(|at| Write::any(&world, at as i64, &mut prng)).collect();
        (world, History { seed, writes })
    }

    /// The writes in some other order; each is made at the second of its place.
    fn shuffled(&self, prng: &mut Prng) -> Vec<Write> {
        let mut writes = self.writes.clone();
        for at in (1..writes.len()).rev() {
            writes.swap(at, prng.below(at as u64 + 1) as usize);
        }
        let times = self.writes.iter().map(|write| write.now);
        writes.iter_mut().zip(times).for_each(|(write, now)| write.now = now);
        writes
    }
}

/// Compares what the views of replicas show together with a scan, then and later.
fn check(world: &World, views: &[&Replica], facts: &Facts, now: i64) -> Result<(), String> {
    for at in [now, now + 1, now + 4, now + 100] {
        let expected = Shown::of_scan(world, facts, at);
        let shown = Shown::of_views(world, views, at).of_those(&expected, world);
        if shown != expected {
            return Err(format!("at {at} of {now}:\n{}", shown.differs(&expected, world)));
        }
    }
    Ok(())
}

/// One replica derives; after each write its views are as a scan.
fn same_as_scan(world: &World, history: &History, plant: Plant) -> Result<(), String> {
    let mut prng = Prng::from_seed(history.seed ^ 1);
    let mut replica = Replica::new(plant);
    let mut facts = Facts::default();
    for (at, write) in history.writes.iter().enumerate() {
        facts.add(write);
        replica.write(world, write, &mut prng);
        check(world, &[&replica], &facts, write.now)
            .map_err(|what| format!("write {at} {what}"))?;
    }
    Ok(())
}

/// Two replicas get the writes in two orders, a third one a part of them before it is lost. What
/// the views of each, of both and of all show is as a scan.
fn order_free(world: &World, history: &History, plant: Plant) -> Result<(), String> {
    let mut prng = Prng::from_seed(history.seed ^ 2);
    let (mut one, mut other, mut lost) =
        (Replica::new(plant), Replica::new(plant), Replica::new(plant));
    let mut facts = Facts::default();
    let some = prng.below(history.writes.len() as u64 + 1) as usize;
    for write in &history.shuffled(&mut prng)[..some] {
        lost.write(world, write, &mut prng);
    }
    for write in &history.shuffled(&mut prng) {
        other.write(world, write, &mut prng);
    }
    for write in &history.writes {
        facts.add(write);
        one.write(world, write, &mut prng);
    }
    let now = history.writes.last().map_or(0, |write| write.now);
    let sets: [(&str, &[&Replica]); 4] = [
        ("of the other", &[&other]),
        ("of both", &[&one, &other]),
        ("of one and the lost", &[&one, &lost]),
        ("of all", &[&other, &lost, &one]),
    ];
    for (whose, views) in sets {
        check(world, views, &facts, now).map_err(|what| format!("{whose} {what}"))?;
    }
    Ok(())
}

/// The views are made when there are data already; what the builder reads may be old when it is
/// written.
fn built(world: &World, history: &History, plant: Plant) -> Result<(), String> {
    let mut prng = Prng::from_seed(history.seed ^ 3);
    let mut replica = Replica::new(plant);
    let mut facts = Facts::default();
    let made_at = prng.below(history.writes.len() as u64 + 1) as usize;
    let mut pending = Vec::new();
    for (at, write) in history.writes.iter().enumerate() {
        if at == made_at {
            pending = replica.partitions();
        }
        if made_at <= at
            && prng.one_in(2)
            && let Some(partition) = pending.pop()
        {
            replica.build(world, &partition, write.now);
        }
        facts.add(write);
        match at < made_at {
            true => replica.write_base(world, write),
            false => replica.write(world, write, &mut prng),
        }
    }
    if made_at == history.writes.len() {
        pending = replica.partitions();
    }
    let now = history.writes.last().map_or(0, |write| write.now);
    pending.iter().for_each(|partition| replica.build(world, partition, now));
    check(world, &[&replica], &facts, now)
}

type Property = fn(&World, &History, Plant) -> Result<(), String>;

/// Runs a property over histories from `first` on. `Err`: what fails, with as few writes as do.
fn run(property: Property, plant: Plant, first: u64, count: u64) -> Result<(), String> {
    run_of(History::of, property, plant, first..first + count)
}

fn run_of(
    history: fn(u64) -> (World, History),
    property: Property,
    plant: Plant,
    seeds: std::ops::Range<u64>,
) -> Result<(), String> {
    for seed in seeds {
        let (world, mut history) = history(seed);
        let Err(mut what) = property(&world, &history, plant) else { continue };
        let mut at = 0;
        while at < history.writes.len() {
            let mut fewer = history.clone();
            if 1 < fewer.writes[at].facts.len() {
                fewer.writes[at].facts.pop();
            } else {
                fewer.writes.remove(at);
            }
            match property(&world, &fewer, plant) {
                Err(told) => (history, what) = (fewer, told),
                Ok(()) => at += 1,
            }
        }
        let writes: Vec<String> =
            history.writes.iter().map(|write| format!("  {write:?}")).collect();
        return Err(format!(
            "seed {seed}: {what}\nof\n{}\n{}",
            writes.join("\n"),
            world.describe()
        ));
    }
    Ok(())
}

fn holds(property: Property) {
    holds_of(History::of, property);
}

fn holds_of(history: fn(u64) -> (World, History), property: Property) {
    let count = match std::env::var("NEREID_HISTORIES") {
        Ok(count) => count.parse().expect("a number of histories"),
        Err(_) => HISTORIES,
    };
    if let Err(what) = run_of(history, property, Plant::None, 0..count) {
        panic!("{what}");
    }
}

/// What the crate promises of several attributes: where writes come in order.
#[test]
fn views_of_several_attributes_show_what_a_scan_shows() {
    holds_of(History::of_several, same_as_scan);
    holds_of(History::of_several, built);
}

/// And where they do not.
#[test]
fn no_row_of_several_attributes_is_missing() {
    holds_of(History::of_late_several, same_as_scan);
    holds_of(History::of_late_several, order_free);
    holds_of(History::of_late_several, built);
}

#[test]
fn views_show_what_a_scan_shows() {
    holds(same_as_scan);
}

#[test]
fn views_do_not_depend_on_the_order_of_writes() {
    holds(order_free);
}

#[test]
fn views_are_built_beside_writes() {
    holds(built);
}

#[test]
fn planted_mistakes_are_found() {
    let plants =
        [Plant::StaleBefore, Plant::LostUpdate, Plant::RangesUnread, Plant::DeletionsUnread];
    for plant in plants {
        assert!(run(same_as_scan, plant, 0, 300).is_err(), "{plant:?} was not found");
    }
    assert!(run(order_free, Plant::LateForgotten, 0, 300).is_err(), "LateForgotten was not found");
}
