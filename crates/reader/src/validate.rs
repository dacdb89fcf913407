//! Whether a stream keeps its contract.

use model::{ClusteringOrder, DecoratedKey, Token};
use mutation::{ClusteringPosition, Direction, Fragment, Tombstone};
use stdx::Bytes;

/// Checks *ordered* of a stream, fragment by fragment. For tests, and for writers that must not
/// persist what a broken source yields.
pub struct Validator<'o> {
    order: &'o ClusteringOrder,
    direction: Direction,
    key: Option<DecoratedKey>,
    state: State,
    range: Tombstone,
}

#[derive(Debug)]
enum State {
    Outside,
    Started,
    Clustered(Bytes, i8),
    Static,
}

/// *paired*: whether a batch goes on with a stream that was (not) inside a partition.
pub(crate) fn is_paired(mut inside: bool, batch: &[Fragment]) -> bool {
    batch.iter().all(|fragment| {
        let starts = matches!(fragment, Fragment::PartitionStart { .. });
        let fits = starts != inside;
        inside = !matches!(fragment, Fragment::PartitionEnd);
        fits
    })
}

impl<'o> Validator<'o> {
    /// For a stream in that direction, from its beginning.
    pub fn new(order: &'o ClusteringOrder, direction: Direction) -> Validator<'o> {
        let (key, range) = (None, Tombstone::NONE);
        Validator { order, direction, key, state: State::Outside, range }
    }

    /// Takes the next fragment; says which rule it breaks.
    pub fn check(&mut self, fragment: &Fragment) -> Result<(), &'static str> {
        match fragment {
            Fragment::PartitionStart { key, .. } => self.start(key),
            Fragment::StaticRow { .. } => match self.state {
                State::Started => {
                    self.state = State::Static;
                    Ok(())
                }
                _ => Err("a static row not at the start of a partition"),
            },
            Fragment::Row { key, .. } => self.place(key, 0),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.range = *tombstone;
                let ClusteringPosition { prefix, weight } = position;
                if *weight == 0 {
                    return Err("a tombstone change at a row");
                }
                self.place(prefix, *weight)
            }
            Fragment::PartitionEnd => {
                if matches!(self.state, State::Outside) {
                    return Err("the end of no partition");
                }
                self.state = State::Outside;
                self.closed()
            }
        }
    }

    /// At the end of the stream.
    pub fn finish(&self) -> Result<(), &'static str> {
        match self.state {
            State::Outside => Ok(()),
            _ => Err("a stream that ends inside a partition"),
        }
    }

    fn start(&mut self, key: &DecoratedKey) -> Result<(), &'static str> {
        if !matches!(self.state, State::Outside) {
            return Err("a partition inside another one");
        }
        if self.key.as_ref().is_some_and(|last| key <= last) {
            return Err("partitions out of order");
        }
        self.key = Some(key.clone());
        self.state = State::Started;
        debug_assert!(key.token == Token::of(&key.key), "a key under the token of another");
        self.range = Tombstone::NONE;
        Ok(())
    }

    fn place(&mut self, prefix: &Bytes, weight: i8) -> Result<(), &'static str> {
        if let State::Outside = self.state {
            return Err("a row outside of a partition");
        }
        if let State::Clustered(last, last_weight) = &self.state {
            let order = self.order.compare((last, *last_weight), (prefix, weight));
            debug_assert!((-1..=1).contains(&weight), "a position of weight {weight}");
            let order = self.direction.apply(order);
            if order.is_gt() || (order.is_eq() && weight == 0) {
                return Err("positions out of order");
            }
        }
        self.state = State::Clustered(prefix.clone(), weight);
        Ok(())
    }

    fn closed(&self) -> Result<(), &'static str> {
        match self.range.is_none() {
            true => Ok(()),
            false => Err("a range tombstone open at the end of a partition"),
        }
    }
}
