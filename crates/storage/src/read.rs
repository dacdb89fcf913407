//! Answering reads from memtables and SSTables.

use crate::memtable::{KeyRange, MemtableSource};
use crate::shard::Shard;
use crate::table::{Table, Tablet};
use model::{DecoratedKey, Token};
use mutation::page::{Page, Partitions, ReadCommand};
use mutation::{ClusteringRange, RingBound};
use reader::{ReadError, Slice, Source};
use runtime::io::IoClass;
use sstable::{Lookup, Scope};
use std::rc::Rc;
use stdx::Bytes;

impl Shard {
    pub(crate) async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        let table = self.table(command.table);
        let Some(table) = table else {
            return Err(ReadError::Overloaded(format!("no table {} on this shard", command.table)));
        };
        if let Some((file, what, at)) = &*table.broken.borrow() {
            return Err(ReadError::Damaged { file: file.clone(), what: what.clone(), at: *at });
        }
        let schema = table.schema();
        let mut sources = Sources { all: Vec::new() };
        match &command.partitions {
            Partitions::Key(key) => {
                let lookup = Lookup::new(Bytes::copy_from(key));
                let ranges = command.resumed_ranges(&schema.order);
                if let Some(tablet) = table.tablet_of(lookup.key.token) {
                    sources.one(tablet, &lookup, &slice(command, ranges));
                }
            }
            Partitions::Range { start, end } => {
                let mut start = start.clone();
                if let Some(resume) = &command.resume {
                    let key = Bytes::copy_from(&resume.key);
                    let lookup = Lookup::new(key);
                    start = after(&lookup.key);
                    let _ = &lookup;
                }
                sources.between(&table, &start, end, &slice(command, command.clustering_ranges()));
            }
        }
        let Some(mut source) = sources.all.pop() else { return Ok(Page::default()) };
        assert!(sources.all.is_empty(), "merging is not there yet");
        let mut compactor = mutation::QueryCompactor::new(&schema, command);
        let budget = reader::Budget { fragments_max: 64, bytes_max: 64 << 10 };
        let mut batch = Vec::new();
        'page: loop {
            batch.clear();
            if source.try_fill(budget, &mut batch).is_none() {
                source.fill(budget, &mut batch).await?;
            }
            if batch.is_empty() {
                break;
            }
            for fragment in &batch {
                if compactor.consume(fragment) == mutation::Step::Stop {
                    break 'page;
                }
            }
        }
        Ok(compactor.finish())
    }
}

/// The bound just after a partition.
fn after(key: &DecoratedKey) -> RingBound {
    RingBound { token: key.token, key: Some(key.key.to_vec()), after: true }
}

fn slice(command: &ReadCommand, ranges: Vec<ClusteringRange>) -> Slice {
    Slice { ranges, reversed: command.reversed, with_static: command.needs_static() }
}

/// Sources of one read, opened in one step (*one-view*).
struct Sources {
    all: Vec<Box<dyn Source>>,
}

impl Sources {
    /// One partition of a tablet.
    fn one(&mut self, tablet: &Tablet, lookup: &Lookup, slice: &Slice) {
        for memtable in tablet.memtables() {
            let keys = KeyRange::One(lookup.key.clone());
            self.all.push(Box::new(MemtableSource::new(memtable, keys, slice.clone())));
        }
        for table in tablet.sstables.borrow().iter().filter(|table| table.may_contain(lookup)) {
            let scope = Scope::Key(lookup.clone());
            self.all.push(Box::new(table.read(scope, slice.clone(), IoClass::Query)));
        }
    }

    /// What lies between two bounds in the tablets of this shard.
    fn between(&mut self, table: &Table, start: &RingBound, end: &RingBound, slice: &Slice) {
        for tablet in &table.tablets {
            let Some((start, end)) = clip(tablet, start, end) else { continue };
            for memtable in tablet.memtables() {
                let keys = KeyRange::Between(start.clone(), end.clone());
                self.all.push(Box::new(MemtableSource::new(memtable, keys, slice.clone())));
            }
            let tables: Rc<Vec<_>> = tablet.sstables.borrow().clone();
            for one in tables.iter().filter(|one| meets(one, &start, &end)) {
                let scope = Scope::Range { start: start.clone(), end: end.clone() };
                self.all.push(Box::new(one.read(scope, slice.clone(), IoClass::Query)));
            }
        }
    }
}

/// What of a ring range lies in a tablet, if anything.
fn clip(tablet: &Tablet, start: &RingBound, end: &RingBound) -> Option<(RingBound, RingBound)> {
    let (after, last) = tablet.range;
    let bound = |token, after| RingBound { token, key: None, after };
    let low = match after == Token::MIN || after < start.token {
        true => start.clone(),
        false => bound(after, true),
    };
    let high = if end.token <= last { end.clone() } else { bound(last, true) };
    (low.token <= high.token).then_some((low, high))
}

/// Whether an SSTable may have partitions between two bounds.
fn meets(table: &sstable::Table, start: &RingBound, end: &RingBound) -> bool {
    let (first, last) = (table.first_key(), table.last_key());
    start.place(last.token, &last.key).is_gt() && end.place(first.token, &first.key).is_lt()
}
