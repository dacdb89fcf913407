//! Logs as pages, replayed: the same as what they were made of.

use super::facts::{Fact, facts_of};
use super::world::World;
use crate::log::Replay;
use mutation::page::{Partitions, SendRange};
use mutation::{Fragment, FrozenMutation, QueryCompactor, ReadCommand, Step};

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
