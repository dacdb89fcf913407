//! Logs against a naive model: what they tell is what was written, and images are what was there.

mod decisions;
mod facts;
mod replayed;
mod rows;
mod world;

use super::{Before, LogWrite, Origin};
use facts::{Fact, Of, Shown, State, facts_of, freeze};
use model::schema::cdc::{Delta, Images};
use model::{ColumnId, value};
use mutation::{Fragment, FrozenMutation, QueryCompactor, ReadCommand, Step, frozen};
use replayed::replayed;
use rows::{LogRow, decode, replay, type_of};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;
use world::World;

/// Histories per property.
const HISTORIES: u64 = 800;
const WRITES_MAX: u64 = 8;

/// A mistake, made in what a write has put into the log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plant {
    None,
    RowLost,
    NumberTwice,
    EndForgotten,
    NothingRead,
    LifetimeLost,
    BoundMoved,
    DeletionLost,
    ElementsLost,
    OrderTurned,
    NullsUntold,
}

impl Plant {
    fn spoil(self, rows: &mut Vec<LogRow>) {
        match self {
            Plant::None | Plant::NothingRead => {}
            Plant::RowLost => drop(rows.pop()),
            Plant::NumberTwice => rows.iter_mut().for_each(|row| row.number = row.number.min(1)),
            Plant::EndForgotten => rows.iter_mut().take(1).for_each(|row| row.ends = false),
            Plant::LifetimeLost => rows.iter_mut().for_each(|row| row.ttl = None),
            Plant::BoundMoved => {
                let bounds = rows.iter_mut().filter(|row| row.operation == 6);
                bounds.for_each(|row| row.operation = 5);
            }
            Plant::DeletionLost => rows.iter_mut().for_each(|row| row.deleted.clear()),
            Plant::ElementsLost => rows.iter_mut().for_each(|row| row.elements.clear()),
            Plant::OrderTurned => rows.reverse(),
            Plant::NullsUntold => {
                let images = rows.iter_mut().filter(|row| row.operation == 0);
                images.for_each(|row| row.deleted.clear());
            }
        }
    }
}

/// What a read of the partition answers.
fn read(world: &World, there: &FrozenMutation, command: &ReadCommand) -> Before {
    let order = &world.base.order;
    let ranges = command.clustering_ranges();
    let mut compactor = QueryCompactor::new(&world.base, command);
    for fragment in there.view().expect("a mutation").fragments(order) {
        let is_wanted = match &fragment {
            Fragment::Row { key, .. } => ranges.iter().any(|range| range.contains(order, (key, 0))),
            _ => true,
        };
        if is_wanted && compactor.consume(&fragment) != Step::Continue {
            break;
        }
    }
    let (mut before, page) = (Before::nothing(), compactor.finish());
    assert_eq!(page.resume, None, "who reads on until nothing is left reads more than is needed");
    before.take(&world.plan, command, &page.bytes).expect("a page");
    before
}

/// The stream of a time: several for one write, now and then.
fn stream_of(time: i64) -> [u8; 16] {
    [time.div_euclid(3) as u8 % 2; 16]
}

/// Whether a write that is logged by a shorter way has the same rows as by the one of all writes.
fn check_short(world: &World, what: &LogWrite<'_>) -> Result<(), String> {
    let stream = |time| Ok::<_, String>(stream_of(time));
    let uuid = |time| value::timeuuid_from_ticks(10 * time, [0x80; 8]);
    let expected = world.plan.log_any(what, stream, uuid)?;
    let mut buffer = vec![7; 9];
    for _ in 0..2 {
        let rows = world.plan.log(what, stream, uuid, &mut buffer)?;
        if rows != expected {
            return Err(format!("{rows:?} for {expected:?}"));
        }
    }
    Ok(())
}

/// Logs a write: its rows in order.
fn log(
    world: &World,
    write: &FrozenMutation,
    before: &Before,
    now: i64,
) -> Result<Vec<LogRow>, String> {
    let write = write.view().expect("a mutation");
    let what = LogWrite { write, before, origin: Origin::Client, now };
    check_short(world, &what)?;
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    let stream = |time| {
        asked.push(time);
        Ok::<_, String>(stream_of(time))
    };
    let uuid = |time| {
        told.push(time);
        value::timeuuid_from_ticks(10 * time, [0x80; 8])
    };
    let rows = decode(world, &world.plan.log(&what, stream, uuid, &mut Vec::new())?, now)?;
    if asked != told || !asked.is_sorted_by(|a, b| a < b) {
        return Err(format!("asked for streams of {asked:?}, times of {told:?}"));
    }
    match rows.iter().find(|row| row.stream != stream_of(row.time)) {
        Some(row) => Err(format!("in another stream: {row:?}")),
        None => Ok(rows),
    }
}

/// What the replay of a logged write writes.
fn again(world: &World, what: &LogWrite<'_>, pages: (i64, u64)) -> Result<Vec<Fact>, String> {
    let stream = |time| Ok::<_, String>(stream_of(time));
    let uuid = |time| value::timeuuid_from_ticks(10 * time, [0x80; 8]);
    replayed(world, &world.plan.log(what, stream, uuid, &mut Vec::new())?, pages)
}

/// *numbered*, and images where they belong.
fn check_sets(rows: &[LogRow]) -> Result<(), String> {
    for set in rows.chunk_by(|a, b| a.time == b.time) {
        let place = |row: &LogRow| match row.operation {
            0 => 0,
            9 => 2,
            _ => 1,
        };
        let numbers = set.iter().enumerate().all(|(at, row)| row.number as usize == at);
        let ends = set.iter().enumerate().all(|(at, row)| row.ends == (at + 1 == set.len()));
        let images = set.is_sorted_by_key(place) && set.iter().any(|row| place(row) == 1);
        if !(numbers && ends && images) {
            return Err(format!("set {set:?}"));
        }
    }
    Ok(())
}

type ImageKey = (i64, i8, Of);
type ImageColumns = BTreeMap<ColumnId, Shown>;

/// What images a write has to have.
fn images_expected(
    world: &World,
    there: &State,
    write: &[Fact],
    now: i64,
) -> BTreeMap<ImageKey, ImageColumns> {
    let options = world.plan.options;
    let mut out = BTreeMap::new();
    let mut state = there.clone();
    let times: BTreeSet<i64> = write.iter().map(Fact::time).collect();
    for time in times {
        let set: Vec<&Fact> = write.iter().filter(|fact| fact.time() == time).collect();
        let mut touched: BTreeMap<Of, (BTreeSet<ColumnId>, bool, bool)> = BTreeMap::new();
        for fact in &set {
            match fact {
                Fact::Marker(key, _) => touched.entry(Some(key.clone())).or_default().1 = true,
                Fact::PartitionDeleted(_) if world.base.clustering_count == 0 => {
                    touched.entry(Some(Vec::new())).or_default().2 = true;
                }
                Fact::RowDeleted(key, _) => touched.entry(Some(key.clone())).or_default().2 = true,
                Fact::Cell(of, id, _) | Fact::Element(of, id, ..) | Fact::Cleared(of, id, _) => {
                    let row = touched.entry(of.clone()).or_default();
                    row.0.insert(*id);
                    row.1 = true;
                }
                _ => {}
            }
        }
        let image = |state: &State, of: &Of, ids: Option<&BTreeSet<ColumnId>>| {
            let columns = world.columns_of(of.is_none()).map(|column| column.id);
            let columns = columns.filter(|id| ids.is_none_or(|ids| ids.contains(id)));
            columns.map(|id| (id, state.shown(world, of, id, now))).collect::<ImageColumns>()
        };
        for (of, (ids, _, is_deleted)) in &touched {
            let all = *is_deleted || options.preimage == Images::Full;
            if options.preimage != Images::None && state.is_there(world, of, now) {
                let columns = image(&state, of, (!all).then_some(ids));
                out.insert((time, 0, of.clone()), columns);
            }
        }
        set.iter().for_each(|fact| state.add(fact));
        for (of, (_, is_written, _)) in &touched {
            if options.postimage && *is_written && state.is_there(world, of, now) {
                out.insert((time, 9, of.clone()), image(&state, of, None));
            }
        }
    }
    out
}

/// The images of a write.
fn images_found(
    world: &World,
    rows: &[LogRow],
) -> Result<BTreeMap<ImageKey, ImageColumns>, String> {
    let mut out = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_image()) {
        let of = row.of_row(world);
        let mut columns = ImageColumns::new();
        for (id, bytes) in &row.values {
            columns.insert(*id, Some(facts::elements_of(type_of(world, *id), bytes)));
        }
        for id in &row.deleted {
            if columns.insert(*id, None).is_some() {
                return Err(format!("a value and none: {row:?}"));
            }
        }
        if row.operation == 9 {
            // What is not told there is null.
            for column in world.columns_of(of.is_none()) {
                columns.entry(column.id).or_insert(None);
            }
        }
        if out.insert((row.time, row.operation, of), columns).is_some() {
            return Err(format!("two images of one row: {row:?}"));
        }
    }
    Ok(out)
}

/// *true-images*: as a read tells what was there. Where writes come in order that is the truth, but
/// for a row that is gone with its last cell and told of.
fn check_images(
    world: &World,
    truth: &State,
    write: &[Fact],
    rows: &[LogRow],
    now: i64,
) -> Result<(), String> {
    let found = images_found(world, rows)?;
    let expected = images_expected(world, &truth.as_read(world, now), write, now);
    if found != expected {
        return Err(format!("images {found:?}, not {expected:?}\nof {rows:?}"));
    }
    let really = images_expected(world, truth, write, now);
    let is_empty = |columns: &ImageColumns| columns.values().all(Option::is_none);
    let is_true = |(key, columns)| match really.get(key) {
        Some(own) => own == columns,
        None => is_empty(columns),
    };
    if world.ascends
        && !(found.iter().all(is_true) && really.keys().all(|key| found.contains_key(key)))
    {
        return Err(format!("images {found:?}, but it was {really:?}\nof {rows:?}"));
    }
    Ok(())
}

/// Writes, one after the other, each logged.
fn run(seed: u64, count: Option<usize>, plant: Plant) -> Result<(), String> {
    let mut prng = Prng::from_seed(seed);
    let world = World::any(&mut prng);
    let (mut truth, mut told, mut in_order) = <(State, State, State)>::default();
    let mut replayed = State::default();
    let mut there = freeze(&world, &[]);
    let mut steps = 0;
    let drawn = prng.between(1, WRITES_MAX) as usize;
    for number in 0..count.unwrap_or(drawn) {
        let now = 100 + number as i64;
        let facts = world.write(number as i64, now, &mut prng);
        let write = freeze(&world, &facts);
        let view = write.view().expect("a mutation");
        let said = facts_of(view);
        let before = match world.plan.read(view, now) {
            Some(_) if plant == Plant::NothingRead => Before::nothing(),
            Some(command) => read(&world, &there, &command),
            None => Before::nothing(),
        };
        let wrong = |what: String| format!("seed {seed}, write {number} {facts:?}: {what}");
        let mut rows = log(&world, &write, &before, now).map_err(wrong)?;
        plant.spoil(&mut rows);
        check_sets(&rows).map_err(wrong)?;
        check_images(&world, &truth, &said, &rows, now).map_err(wrong)?;
        facts.iter().for_each(|fact| truth.add(fact));
        let merged = [&there, &write].map(|one| one.view().expect("a mutation"));
        there = frozen::merge(&world.base, merged[0], merged[1]);
        if world.plan.options.delta == Delta::Keys {
            continue;
        }
        let with_times = replay(&world, &rows, now, |_, row| (row.time, row.time - 1));
        with_times.map_err(wrong)?.iter().for_each(|fact| told.add(fact));
        let (found, expected) = (told.counts(&world, true), truth.counts(&world, true));
        if found != expected {
            return Err(wrong(format!("{}\nof {rows:?}", found.differs(&expected))));
        }
        let what = LogWrite { write: view, before: &before, origin: Origin::Client, now };
        let pages = (now, prng.between(1, 3));
        let again = again(&world, &what, pages).map_err(wrong)?;
        again.iter().for_each(|fact| replayed.add(fact));
        let found = replayed.counts(&world, true);
        if found != expected {
            return Err(wrong(format!("replayed {}\nof {rows:?}", found.differs(&expected))));
        }
        // Who goes by the order alone, and knows no times, comes to the same values.
        let by_order = replay(&world, &rows, now, |index, _| {
            let at = 2 * (steps + index as i64 + 1);
            (at, at - 1)
        });
        steps += rows.len() as i64;
        by_order.map_err(wrong)?.iter().for_each(|fact| in_order.add(fact));
        let (found, expected) = (in_order.counts(&world, false), truth.counts(&world, false));
        if world.ascends && found != expected {
            return Err(wrong(format!("by order {}\nof {rows:?}", found.differs(&expected))));
        }
    }
    Ok(())
}

/// Runs histories; of one that fails as few writes as do.
fn run_all(plant: Plant, count: u64) -> Result<(), String> {
    for seed in 0..count {
        let Err(what) = run(seed, None, plant) else { continue };
        let fewer = (1..WRITES_MAX as usize).find_map(|count| run(seed, Some(count), plant).err());
        return Err(fewer.unwrap_or(what));
    }
    Ok(())
}

#[test]
fn logs_tell_what_was_written_and_what_was_there() {
    let count = match std::env::var("NEREID_HISTORIES") {
        Ok(count) => count.parse().expect("a number of histories"),
        Err(_) => HISTORIES,
    };
    if let Err(what) = run_all(Plant::None, count) {
        panic!("{what}");
    }
}

#[test]
fn planted_mistakes_are_found() {
    let plants = [
        Plant::RowLost,
        Plant::NumberTwice,
        Plant::EndForgotten,
        Plant::NothingRead,
        Plant::LifetimeLost,
        Plant::BoundMoved,
        Plant::DeletionLost,
        Plant::ElementsLost,
        Plant::OrderTurned,
        Plant::NullsUntold,
    ];
    for plant in plants {
        assert!(run_all(plant, 200).is_err(), "{plant:?} was not found");
    }
}
