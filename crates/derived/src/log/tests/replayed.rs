//! Logs as pages, replayed: the same as what they were made of.

use super::facts::{Fact, facts_of};
use super::world::World;
use crate::log::{Replay, record};
use model::schema::{Column, ColumnKind, cdc};
use model::value;
use mutation::page::{Partitions, SendRange};
use mutation::{
    Cell, Fragment, FrozenMutation, FrozenView, MutationBuilder, QueryCompactor, ReadCommand,
    RowBuilder, Step,
};
use stdx::Prng;

/// What the replay of rows of the log writes, in pages of so many rows, made at second `now`.
pub(super) fn replayed(
    world: &World,
    rows: &[FrozenMutation],
    (now, page_rows): (i64, u64),
) -> Result<Vec<Fact>, String> {
    let mut facts = Vec::new();
    for stream in rows {
        let mut replay = Replay::new(&world.plan.log, &world.base)?;
        for page in pages(world, stream, (&replay, now, page_rows)) {
            for write in replay.writes(&page).map_err(|damaged| damaged.to_string())? {
                let view = write.view().map_err(|damaged| damaged.to_string())?;
                view.check_order(&world.base.order).map_err(|damaged| damaged.to_string())?;
                facts.extend(facts_of(view));
            }
        }
        if replay.is_within_range() {
            return Err("a range without an end".to_owned());
        }
    }
    // A lifetime is counted from the time of the write, which here is far from any clock.
    for fact in &mut facts {
        if let Fact::Marker(_, said) | Fact::Cell(_, _, said) | Fact::Element(_, _, _, said) = fact
        {
            said.since = now;
        }
    }
    Ok(facts)
}

/// What nobody has logged: any bytes in any columns, in rows of one stream.
fn foreign(world: &World, prng: &mut Prng) -> FrozenMutation {
    let log = &world.plan.log;
    let mut out = MutationBuilder::new(log, &[7; 16]);
    for number in 0..prng.between(1, 4) as usize {
        let uuid = value::timeuuid_from_ticks(prng.below(1 << 20) as i64, [0x80; 8]);
        let mut row = RowBuilder::new(Vec::new());
        let mut columns: Vec<&Column> = log.regulars().iter().collect();
        columns.sort_by_key(|column| column.id);
        for column in columns {
            let bytes = match column.name.as_str() {
                cdc::OPERATION => vec![prng.below(12) as u8],
                // Most keys have all of their parts.
                name if world.base.column(name).is_some_and(|it| it.kind < ColumnKind::Static) => {
                    vec![0, 0, 0, prng.below(3) as u8]
                }
                _ if prng.one_in(2) => continue,
                _ => {
                    // Often one that says how many elements follow.
                    let mut bytes = vec![0, 0, 0, prng.below(3) as u8];
                    bytes.extend((0..prng.below(20)).map(|_| prng.below(3) as u8));
                    bytes.truncate(prng.below(24) as usize);
                    bytes
                }
            };
            if !prng.one_in(20) {
                row.cell(column.id, Cell::live(5, &bytes));
            }
        }
        out.row(&record::clustering(uuid.into_bytes(), number), &row.finish());
    }
    out.freeze()
}

/// *foreign-never-panics*
#[test]
fn a_log_that_anybody_wrote_is_replayed_or_damaged() {
    let (mut replayed, mut refused) = (0, 0);
    for seed in 0..5000 {
        let mut prng = Prng::from_seed(seed);
        let world = World::any(&mut prng);
        let stream = foreign(&world, &mut prng);
        let mut replay = Replay::new(&world.plan.log, &world.base).expect("a log of the table");
        for page in pages(&world, &stream, (&replay, 5, 10)) {
            let Ok(writes) = replay.writes(&page) else {
                refused += 1;
                continue;
            };
            replayed += writes.len();
            for write in writes {
                let view = FrozenView::parse(&write.0).expect("a mutation");
                view.check_order(&world.base.order).expect("rows in order");
            }
        }
    }
    assert!(100 < replayed && 100 < refused, "{replayed} {refused}");
}

fn pages(
    world: &World,
    stream: &FrozenMutation,
    (replay, now, page_rows): (&Replay, i64, u64),
) -> Vec<Vec<u8>> {
    let view = stream.view().expect("a mutation");
    let partitions = Partitions::Key(view.key().to_vec());
    let mut command = ReadCommand::all(world.plan.log.id, partitions, now);
    command.ranges = vec![SendRange::full()];
    command.columns = replay.columns().to_vec();
    command.static_count = 0;
    command.row_limit = page_rows;
    let order = &world.plan.log.order;
    let fragments = view.fragments(order);
    let mut pages = Vec::new();
    loop {
        let after = command.resume.take().and_then(|resume| resume.after);
        let is_left = |fragment: &&Fragment| match (fragment, &after) {
            (Fragment::Row { key, .. }, Some((after, weight))) => {
                order.compare((after, *weight), (key, 0)).is_lt()
            }
            _ => true,
        };
        let mut compactor = QueryCompactor::new(&world.plan.log, &command);
        for fragment in fragments.iter().filter(is_left) {
            if compactor.consume(fragment) != Step::Continue {
                break;
            }
        }
        let page = compactor.finish();
        pages.push(page.bytes);
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return pages,
        }
    }
}
