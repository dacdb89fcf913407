//! Several sources as one.
//!
//! Invariants
//!  - *heads*: outside of a partition every input that is not at its end has the start of a
//!    partition at its head; inside, every input that takes part has a fragment of it there, or
//!    is drained: it waits to be forwarded.
//!  - *paired*: what an input yields starts partitions outside of one, all else inside.
//!  - *strongest-range*: the range tombstone that holds in the output is the greatest of those
//!    that hold in the inputs that take part.

use crate::validate::is_paired;
use crate::{Budget, LocalFuture, ReadError, Source};
use model::{ClusteringOrder, DecoratedKey, TableSchema};
use mutation::{ClusteringRange, Direction, Fragment, RingBound, RowView, Tombstone, row};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use stdx::Bytes;

/// The merge of `sources`; of one, itself.
pub fn merge(
    schema: Rc<TableSchema>,
    direction: Direction,
    mut sources: Vec<Box<dyn Source>>,
) -> Box<dyn Source> {
    match sources.pop() {
        Some(source) if sources.is_empty() => source,
        last => {
            sources.extend(last);
            Box::new(MergeSource::new(schema, direction, sources))
        }
    }
}

/// The same, which counts what it yields by the number of sources that had it. Of one source
/// nobody counts but who reads: [`MergeCounts::add`].
pub fn merge_counted(
    schema: Rc<TableSchema>,
    direction: Direction,
    mut sources: Vec<Box<dyn Source>>,
    counts: &Rc<MergeCounts>,
) -> Box<dyn Source> {
    if sources.len() == 1 {
        return sources.remove(0);
    }
    let counts = Some(counts.clone());
    Box::new(MergeSource { counts, ..MergeSource::new(schema, direction, sources) })
}

/// How many fragments so many sources had, by the number of sources: starts and ends of
/// partitions, static rows, rows, changes of range tombstones. Their sum, each times the number, is
/// what was read.
#[derive(Debug)]
pub struct MergeCounts(Box<[Cell<u64>]>);

impl MergeCounts {
    /// None yet, of so many sources.
    pub fn new(sources: usize) -> Rc<MergeCounts> {
        Rc::new(MergeCounts((0..=sources).map(|_| Cell::new(0)).collect()))
    }

    /// Numbers of sources, and of fragments that so many had; without those that none had.
    pub fn get(&self) -> Vec<(u32, u64)> {
        let counts = self.0.iter().map(Cell::get).enumerate();
        let some = counts.filter(|(_, fragments)| 0 < *fragments);
        some.map(|(sources, fragments)| (sources as u32, fragments)).collect()
    }

    /// So many fragments that so many sources had.
    #[inline]
    pub fn add(&self, sources: usize, fragments: u64) {
        debug_assert!(sources < self.0.len(), "{sources} of {} sources", self.0.len() - 1);
        if let Some(count) = self.0.get(sources) {
            count.set(count.get() + fragments);
        }
    }
}

/// Merges sources of one table, one slice and one direction: partition tombstones, static rows,
/// rows of one key and range tombstones become one. Fragments are moved; only rows that several
/// sources have are rewritten.
pub struct MergeSource {
    schema: Rc<TableSchema>,
    direction: Direction,
    inputs: Vec<Input>,
    /// Whether the start of a partition came out and its end did not.
    inside: bool,
    /// The range tombstone that holds in the output.
    range: Tombstone,
    /// The only input that takes part in the present partition, if there is but one.
    only: Option<usize>,
    /// Reused: inputs whose heads stand at one place.
    ties: Vec<usize>,
    scratch: Vec<u8>,
    counts: Option<Rc<MergeCounts>>,
}

struct Input {
    source: Box<dyn Source>,
    /// What the source has yielded and we have not.
    queue: VecDeque<Fragment>,
    /// For filling: empty in between.
    batch: Vec<Fragment>,
    at_end: bool,
    /// Whether it yields nothing more of the present partition until it is forwarded.
    drained: bool,
    /// Whether it takes part in the present partition.
    takes_part: bool,
    /// The range tombstone that holds in it.
    range: Tombstone,
}

impl Input {
    fn is_hungry(&self) -> bool {
        self.queue.is_empty() && !self.at_end && !self.drained
    }

    fn digest(&mut self) {
        debug_assert!(self.queue.is_empty(), "heads: filled with {} left", self.queue.len());
        debug_assert!(is_paired(self.takes_part, &self.batch), "paired: {:?}", self.batch);
        if self.batch.is_empty() {
            match self.takes_part {
                true => self.drained = true,
                false => self.at_end = true,
            }
        }
        self.queue.extend(self.batch.drain(..));
    }

    fn skip_partition(&mut self) {
        if !self.takes_part {
            return;
        }
        (self.takes_part, self.drained) = (false, false);
        self.range = Tombstone::NONE;
        while let Some(fragment) = self.queue.pop_front() {
            if let Fragment::PartitionEnd = fragment {
                return;
            }
        }
        self.source.next_partition();
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        debug_assert!(self.takes_part || !self.drained, "heads: drained without taking part");
        if self.takes_part {
            self.queue.clear();
            self.drained = false;
            self.range = Tombstone::NONE;
            self.source.forward_rows(range);
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.queue.clear();
        (self.takes_part, self.drained, self.at_end) = (false, false, false);
        self.range = Tombstone::NONE;
        self.source.forward_partitions(start, end);
    }
}

/// What the next step of a merge found.
enum Progress {
    Yielded,
    /// An input has to be filled first.
    Hungry,
    End,
}

impl MergeSource {
    /// Sources may come in any order.
    pub fn new(
        schema: Rc<TableSchema>,
        direction: Direction,
        sources: Vec<Box<dyn Source>>,
    ) -> MergeSource {
        let input = |source| Input {
            source,
            queue: VecDeque::new(),
            batch: Vec::new(),
            at_end: false,
            drained: false,
            takes_part: false,
            range: Tombstone::NONE,
        };
        let inputs = sources.into_iter().map(input).collect();
        MergeSource {
            schema,
            direction,
            inputs,
            inside: false,
            range: Tombstone::NONE,
            only: None,
            ties: Vec::new(),
            scratch: Vec::new(),
            counts: None,
        }
    }

    /// Yields until the budget is spent or an input is hungry.
    fn run(&mut self, budget: &mut Budget, out: &mut Vec<Fragment>) -> Progress {
        loop {
            let before = out.len();
            let progress = match (self.inside, self.only) {
                (false, _) => self.step_outside(out),
                (true, Some(only)) => self.step_through(only, out),
                (true, None) => self.step_inside(out),
            };
            if let Progress::Hungry | Progress::End = progress {
                return progress;
            }
            let more = out[before..].iter().all(|fragment| budget.spend(fragment));
            if !more {
                return Progress::Yielded;
            }
        }
    }

    fn step_outside(&mut self, out: &mut Vec<Fragment>) -> Progress {
        debug_assert!(self.inputs.iter().all(|input| !input.takes_part), "heads");
        debug_assert!(self.range.is_none(), "strongest-range: {:?} is open", self.range);
        // The inputs that have the least start. None takes part yet.
        self.ties.clear();
        for (index, input) in self.inputs.iter().enumerate() {
            if input.is_hungry() {
                return Progress::Hungry;
            }
            let Some(key) = start_of(input) else {
                debug_assert!(input.queue.is_empty(), "heads: {:?}", input.queue.front());
                continue;
            };
            let best = self.ties.first().and_then(|best| start_of(&self.inputs[*best]));
            match best.map_or(Ordering::Less, |best| key.cmp(best)) {
                Ordering::Less => {
                    self.ties.clear();
                    self.ties.push(index);
                }
                Ordering::Equal => self.ties.push(index),
                Ordering::Greater => {}
            }
        }
        let mut start = None;
        for index in &self.ties {
            let input = &mut self.inputs[*index];
            input.takes_part = true;
            if let Some(Fragment::PartitionStart { key, tombstone }) = input.queue.pop_front() {
                let (_, merged) = start.get_or_insert((key, Tombstone::NONE));
                *merged = merged.merge(tombstone);
            }
        }
        let Some((key, tombstone)) = start else { return Progress::End };
        self.note(self.ties.len());
        self.only = if let [only] = self.ties[..] { Some(only) } else { None };
        self.inside = true;
        out.push(Fragment::PartitionStart { key, tombstone });
        Progress::Yielded
    }

    /// Inside a partition that one input alone has: its fragments pass untouched.
    fn step_through(&mut self, only: usize, out: &mut Vec<Fragment>) -> Progress {
        debug_assert!(self.inputs[only].takes_part, "heads: input {only} has no part");
        match self.inputs[only].queue.pop_front() {
            Some(Fragment::PartitionEnd) => self.end_partition(out),
            Some(fragment) => out.push(fragment),
            None if self.inputs[only].drained => return Progress::End,
            None => return Progress::Hungry,
        }
        self.note(1);
        Progress::Yielded
    }

    fn step_inside(&mut self, out: &mut Vec<Fragment>) -> Progress {
        if self.inputs.iter().any(|input| input.takes_part && input.is_hungry()) {
            return Progress::Hungry;
        }
        let order = &self.schema.order;
        let mut ties = std::mem::take(&mut self.ties);
        ties.clear();
        for (index, input) in self.inputs.iter().enumerate().filter(|(_, input)| input.takes_part) {
            let Some(head) = input.queue.front() else {
                continue; // Drained.
            };
            let best = ties.first().and_then(|best: &usize| self.inputs[*best].queue.front());
            match best.map(|best| compare_heads(order, self.direction, head, best)) {
                None | Some(Ordering::Equal) => ties.push(index),
                Some(Ordering::Less) => {
                    ties.clear();
                    ties.push(index);
                }
                Some(Ordering::Greater) => {}
            }
        }
        let mut parts = self.inputs.iter().filter(|input| input.takes_part);
        debug_assert!(!ties.is_empty() || parts.all(|input| input.drained), "heads");
        let drained = ties.is_empty();
        if !drained {
            self.note(ties.len());
            self.yield_heads(&ties, out);
        }
        self.ties = ties;
        if drained { Progress::End } else { Progress::Yielded }
    }

    #[inline]
    fn note(&self, sources: usize) {
        if let Some(counts) = &self.counts {
            counts.add(sources, 1);
        }
    }

    /// Takes the heads of these inputs, which stand at one place.
    fn yield_heads(&mut self, ties: &[usize], out: &mut Vec<Fragment>) {
        let first = ties.first().and_then(|first| self.inputs[*first].queue.pop_front());
        let rest = ties.get(1..).unwrap_or(&[]);
        match first {
            // The end is the greatest of heads: all are at it.
            None | Some(Fragment::PartitionEnd) => {
                rest.iter().for_each(|index| drop(self.inputs[*index].queue.pop_front()));
                self.end_partition(out);
            }
            Some(Fragment::StaticRow { row }) => {
                let row = self.merge_rows(rest, row);
                out.push(Fragment::StaticRow { row });
            }
            Some(Fragment::Row { key, row }) => {
                let row = self.merge_rows(rest, row);
                out.push(Fragment::Row { key, row });
            }
            Some(Fragment::RangeTombstoneChange { position, tombstone }) => {
                debug_assert!(position.weight != 0, "strongest-range: a change at a row");
                self.inputs[ties[0]].range = tombstone;
                for index in rest {
                    let input = &mut self.inputs[*index];
                    if let Some(Fragment::RangeTombstoneChange { tombstone, .. }) =
                        input.queue.pop_front()
                    {
                        input.range = tombstone;
                    }
                }
                let taking_part = self.inputs.iter().filter(|input| input.takes_part);
                let ranges = taking_part.map(|input| input.range);
                let tombstone = ranges.fold(Tombstone::NONE, Tombstone::merge); // *strongest-range*
                if tombstone != self.range {
                    self.range = tombstone;
                    out.push(Fragment::RangeTombstoneChange { position, tombstone });
                }
            }
            Some(Fragment::PartitionStart { key, .. }) => {
                panic!("a source started {key:?} inside another partition");
            }
        }
    }

    fn end_partition(&mut self, out: &mut Vec<Fragment>) {
        assert!(self.range.is_none(), "a range tombstone open at the end of a partition");
        debug_assert!(self.inside, "paired: the end of no partition");
        for input in &mut self.inputs {
            (input.takes_part, input.drained) = (false, false);
        }
        self.inside = false;
        out.push(Fragment::PartitionEnd);
    }

    fn merge_rows(&mut self, rest: &[usize], first: Bytes) -> Bytes {
        let mut merged = first;
        for index in rest {
            let next = self.inputs[*index].queue.pop_front();
            debug_assert!(next.as_ref().is_some_and(is_row), "heads: {next:?} beside a row");
            let Some(Fragment::Row { row, .. } | Fragment::StaticRow { row }) = next else {
                continue;
            };
            self.scratch.clear();
            let (a, b) = (RowView::trusted(&merged), RowView::trusted(&row));
            row::merge(&self.schema, a, b, &mut self.scratch);
            merged = Bytes::copy_from(&self.scratch);
        }
        merged
    }

    /// The inputs that must yield before the merge goes on.
    fn hungry(&mut self) -> impl Iterator<Item = &mut Input> {
        let inside = self.inside;
        self.inputs
            .iter_mut()
            .filter(move |input| input.is_hungry() && (!inside || input.takes_part))
    }

    /// Fills the hungry inputs that need not wait; `None`: another one has to.
    fn try_feed(&mut self, budget: Budget) -> Option<Result<(), ReadError>> {
        for input in self.hungry() {
            match input.source.try_fill(budget, &mut input.batch)? {
                Ok(()) => input.digest(),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }

    /// Fills all hungry inputs, waiting for all of them at once.
    async fn feed(&mut self, budget: Budget) -> Result<(), ReadError> {
        debug_assert!(self.hungry().next().is_some(), "heads: no input is hungry");
        let fills = self.hungry().map(|input| {
            let Input { source, batch, .. } = input;
            source.fill(budget, batch)
        });
        let mut fills: Vec<_> = fills.map(Some).collect();
        poll_fn(|context| {
            for slot in &mut fills {
                let Some(fill) = slot else { continue };
                match fill.as_mut().poll(context) {
                    Poll::Ready(Ok(())) => *slot = None,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
            }
            if fills.iter().all(Option::is_none) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        drop(fills);
        self.hungry().for_each(Input::digest);
        Ok(())
    }
}

impl Source for MergeSource {
    fn try_fill(
        &mut self,
        mut budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        let (before, asked) = (out.len(), budget);
        while let Progress::Hungry = self.run(&mut budget, out) {
            match self.try_feed(asked) {
                Some(Ok(())) => {}
                None if before < out.len() => return Some(Ok(())),
                other => return other,
            }
        }
        Some(Ok(()))
    }

    fn fill<'a>(
        &'a mut self,
        mut budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        Box::pin(async move {
            let (before, asked) = (out.len(), budget);
            while let Progress::Hungry = self.run(&mut budget, out) {
                if before < out.len() {
                    return Ok(());
                }
                self.feed(asked).await?;
            }
            Ok(())
        })
    }

    fn next_partition(&mut self) {
        if self.inside {
            self.inputs.iter_mut().for_each(Input::skip_partition);
            debug_assert!(self.inputs.iter().all(|input| !input.takes_part), "heads");
            self.inside = false;
            self.range = Tombstone::NONE;
        }
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.inputs.iter_mut().for_each(|input| input.forward_partitions(start, end));
        self.inside = false;
        self.range = Tombstone::NONE;
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        if self.inside {
            self.inputs.iter_mut().for_each(|input| input.forward_rows(range.clone()));
            self.range = Tombstone::NONE;
        }
    }

    fn memory_bytes(&self) -> usize {
        self.inputs.iter().map(|input| input.source.memory_bytes()).sum()
    }
}

/// The order of two fragments of one partition: static row, clustered ones, end.
fn compare_heads(
    order: &ClusteringOrder,
    direction: Direction,
    a: &Fragment,
    b: &Fragment,
) -> Ordering {
    match (a.clustering(), b.clustering()) {
        (Some(a), Some(b)) => direction.apply(order.compare(a, b)),
        _ => region(a).cmp(&region(b)),
    }
}

fn region(fragment: &Fragment) -> u8 {
    match fragment {
        Fragment::PartitionStart { .. } => 0,
        Fragment::StaticRow { .. } => 1,
        Fragment::Row { .. } | Fragment::RangeTombstoneChange { .. } => 2,
        Fragment::PartitionEnd => 3,
    }
}

fn is_row(fragment: &Fragment) -> bool {
    matches!(fragment, Fragment::Row { .. } | Fragment::StaticRow { .. })
}

fn start_of(input: &Input) -> Option<&DecoratedKey> {
    match input.queue.front() {
        Some(Fragment::PartitionStart { key, .. }) => Some(key),
        _ => None,
    }
}
