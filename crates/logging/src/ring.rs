//! The latest lines of the log, for who looks at a node from afar: each shard keeps its own.
//!
//! Invariants
//!  - *bounded*: a shard keeps [`LINES_MAX`] lines of [`TEXT_BYTES_MAX`] bytes, a quarter of a
//!    MiB together at most ([`BYTES_MAX`]).
//!  - *ascending*: a line that is told later has a greater number.
//!
//! Lines of threads that are no shards are in the log alone.

use crate::form::message;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const LINES_MAX: usize = 1000;
const TEXT_BYTES_MAX: usize = 2 << 10;
const BYTES_MAX: usize = 256 << 10;

/// The number of the next line of any shard.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Numbers ascend over all shards.
    pub number: u64,
    pub at_micros: i64,
    /// `ERROR`, `WARN`, ..
    pub level: &'static str,
    pub shard: u16,
    pub logger: String,
    pub text: String,
}

thread_local! {
    static RING: RefCell<Ring> = const { RefCell::new(Ring::NONE) };
}

struct Ring {
    lines: VecDeque<Line>,
    bytes: usize,
}

impl Ring {
    const NONE: Ring = Ring { lines: VecDeque::new(), bytes: 0 };

    fn push(&mut self, line: Line) {
        self.bytes += line.text.len() + line.logger.len();
        self.lines.push_back(line);
        while LINES_MAX < self.lines.len() || BYTES_MAX < self.bytes {
            let Some(first) = self.lines.pop_front() else { break };
            self.bytes -= first.text.len() + first.logger.len();
        }
    }
}

/// Keeps each line that somebody wants to read.
pub(crate) struct Kept;

impl<S: Subscriber> Layer<S> for Kept {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = String::with_capacity(160);
        message(&mut text, event);
        note(event.metadata().level().as_str(), event.metadata().target(), &text);
    }
}

/// Keeps a line of this shard; nothing of a thread that is none.
fn note(level: &'static str, logger: &str, text: &str) {
    let Some(shard) = runtime::current_shard() else { return };
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let line = Line {
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        at_micros: runtime::time::wall_micros(),
        level,
        shard,
        logger: logger.to_owned(),
        text: text.to_owned(),
    };
    // A line that is written while one is kept is not kept itself.
    let _ = RING.try_with(|ring| ring.try_borrow_mut().map(|mut ring| ring.push(line)));
}

/// The lines of all shards after the one of that number.
pub async fn after(number: u64) -> Vec<Line> {
    // A shard that is asked first may write while others are asked: such a line is told next
    // time, or one of a smaller number that came to another shard would never be.
    let end = NEXT.load(Ordering::Relaxed);
    let asked = runtime::on_all_shards(move || async move { of_shard(number, end) });
    let mut lines: Vec<Line> = asked.await.into_iter().flatten().collect();
    lines.sort_by_key(|line| line.number);
    lines
}

fn of_shard(after: u64, end: u64) -> Vec<Line> {
    // In simulation one thread is many shards.
    let own = runtime::shard_id();
    let is_told = |number| after < number && number < end;
    let wanted = |line: &&Line| line.shard == own && is_told(line.number);
    RING.with_borrow(|ring| ring.lines.iter().filter(wanted).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, bytes: usize) -> Line {
        Line {
            number,
            at_micros: 0,
            level: "INFO",
            shard: 0,
            logger: String::new(),
            text: "x".repeat(bytes),
        }
    }

    #[test]
    fn lines_are_bounded_in_count_and_bytes() {
        let mut ring = Ring::NONE;
        (0..2 * LINES_MAX as u64).for_each(|number| ring.push(line(number, 10)));
        assert_eq!((ring.lines.len(), ring.bytes), (LINES_MAX, 10 * LINES_MAX));
        assert_eq!(ring.lines[0].number, LINES_MAX as u64);
        (0..1000).for_each(|number| ring.push(line(number, TEXT_BYTES_MAX)));
        assert!(ring.bytes <= BYTES_MAX && ring.lines.len() == BYTES_MAX / TEXT_BYTES_MAX);
    }

    #[test]
    fn lines_of_all_shards_are_told_in_order() {
        let mut world = runtime::sim::World::new(runtime::sim::Options::new(1));
        let node = world.add_node(2);
        world.block_on(node, 0, async {
            note("INFO", "init", "one");
            runtime::on_shard(1, || async { note("WARN", "init", "two") }).await;
            note("INFO", "init", &"\u{e9}".repeat(TEXT_BYTES_MAX));
            let told = after(0).await;
            let [one, two, long] = &told[told.len() - 3..] else { panic!("{told:?}") };
            assert_eq!((one.text.as_str(), two.text.as_str(), two.shard), ("one", "two", 1));
            assert_eq!(long.text.len(), TEXT_BYTES_MAX);
            assert_eq!(after(two.number).await.len(), 1);
        });
    }
}
