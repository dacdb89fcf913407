//! Reading all of an SSTable for breaches: of *ordered*, of the format, and between index and data.

use crate::cache::Access;
use crate::index::big::ENDS_EARLY;
use crate::index::{Entries, RowIndex};
use crate::scrub::check::OrderCheck;
use crate::scrub::rows::RowsCheck;
use crate::scrub::scan::{Raw, RawScan};
use crate::scrub::{Follow, Steps};
use crate::table::Table;
use model::{DecoratedKey, Token};
use mutation::page::RingBound;
use mutation::{Fragment, Tombstone};
use reader::ReadError;
use runtime::Erased;
use runtime::io::IoClass;
use std::rc::Rc;

/// Reads all of the data and of the index, and tells every breach. Answers how many there were. The
/// error is of who follows, or of memory.
pub fn validate<'a>(
    table: &'a Rc<Table>,
    class: IoClass,
    follower: &'a mut dyn Follow,
) -> Erased<'a, Result<u64, ReadError>> {
    Erased::new(move || async move {
        let mapping = table.mapping();
        let mut check = OrderCheck::new(&mapping.schema.order);
        let mut scan = RawScan::new(table.clone(), class);
        let mut positions = Positions::new(table, class);
        let mut resume = Positions::new(table, class);
        let (mut told, mut steps) = (Told { follower, problems: 0 }, Steps::default());
        // The index of the present partition's rows, and the range tombstone that is open there.
        let mut rows: Option<RowsCheck> = None;
        let mut open = Tombstone::NONE;
        loop {
            steps.pass(scan.position(), told.follower).await?;
            let raw = match scan.next().await {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(error) => {
                    told.tell(error);
                    check.lost();
                    positions.lost();
                    rows = None;
                    match resume.after(scan.position()).await {
                        Some(position) => scan.seek(position),
                        None => break,
                    }
                    continue;
                }
            };
            let broken = raw.broken.or(check.check(&raw.fragment));
            if let Some(what) = broken {
                told.tell(table.data.damaged(what, raw.at));
                rows = None;
            }
            if let Fragment::PartitionStart { key, .. } = &raw.fragment {
                (rows, open) = (None, Tombstone::NONE);
                match positions.compare(key, raw.at).await {
                    Some(error) => told.tell(error),
                    None => match positions.rows(raw.at).await {
                        Ok(opened) => rows = opened,
                        Err(error) => told.tell(error),
                    },
                }
            }
            if let (Some(check), Some(position)) = (&mut rows, raw.fragment.clustering())
                && let Some(error) = check.element(position, raw.at, open).await
            {
                told.tell(error);
                rows = None;
            }
            match &raw.fragment {
                Fragment::RangeTombstoneChange { tombstone, .. } => open = *tombstone,
                Fragment::PartitionEnd => {
                    RowsCheck::end(rows.take(), raw.at, &mut |error| told.tell(error)).await
                }
                _ => {}
            }
        }
        if let Some(what) = check.finish() {
            told.tell(table.data.damaged(what, scan.position()));
        }
        if let Some(error) = positions.finish().await {
            told.tell(error);
        }
        Ok(told.problems)
    })
}

/// Tells who follows, and counts.
struct Told<'f> {
    follower: &'f mut dyn Follow,
    problems: u64,
}

impl Told<'_> {
    fn tell(&mut self, error: ReadError) {
        self.problems += 1;
        self.follower.tell(&error);
    }
}

const INDEX_AT_EOF: &str = "mismatching index/data: index is at EOF, but data file has more data";

/// The partitions of the index, one by one; in step with the data where the two are compared.
pub struct Positions {
    table: Rc<Table>,
    class: IoClass,
    cursor: Cursor,
    /// The index of the rows of the latest partition.
    rows: Option<RowIndex>,
    /// Reads the keys that the index does not have.
    heads: Option<RawScan>,
}

enum Cursor {
    /// Not opened yet.
    Start,
    Entries(Entries),
    /// The index cannot be followed any more.
    Lost,
}

impl Positions {
    /// From the first partition on.
    pub fn new(table: &Rc<Table>, class: IoClass) -> Positions {
        Positions { table: table.clone(), class, cursor: Cursor::Start, rows: None, heads: None }
    }

    /// The data cannot be followed any more: comparing ends.
    fn lost(&mut self) {
        self.cursor = Cursor::Lost;
    }

    /// Key, where it is known, and position of the next entry.
    async fn next(&mut self) -> Result<Option<(Option<DecoratedKey>, u64)>, ReadError> {
        if let Cursor::Start = self.cursor {
            let first = RingBound { token: Token::MIN, key: None, after: false };
            let entries = self.table.index.entries(&first, &Access::bypass(self.class));
            self.cursor = Cursor::Entries(entries);
        }
        let Cursor::Entries(entries) = &mut self.cursor else { return Ok(None) };
        let mut entry = entries.next().await?;
        self.rows = entry.as_mut().and_then(|entry| entry.rows.take());
        Ok(entry.map(|entry| (entry.key, entry.position)))
    }

    /// Key and position of the next partition; a key that the index does not have whole is read
    /// from the data.
    pub async fn next_with_key(&mut self) -> Result<Option<(DecoratedKey, u64)>, ReadError> {
        let Some((key, position)) = self.next().await? else { return Ok(None) };
        if let Some(key) = key {
            return Ok(Some((key, position)));
        }
        let table = &self.table;
        let scan = self.heads.get_or_insert_with(|| RawScan::new(table.clone(), self.class));
        scan.seek(position);
        debug_assert!(scan.position() <= self.table.data_bytes(), "past the end: {position}");
        match scan.next().await? {
            Some(Raw { fragment: Fragment::PartitionStart { key, .. }, .. }) => {
                Ok(Some((key, position)))
            }
            _ => {
                let what = "the index leads to the end of the data";
                Err(self.table.data.damaged(what, position))
            }
        }
    }

    /// The breach, if the next entry is not that of a partition that the data has there.
    async fn compare(&mut self, key: &DecoratedKey, at: u64) -> Option<ReadError> {
        if let Cursor::Lost = self.cursor {
            return None;
        }
        let what = match self.next().await {
            Err(ReadError::Damaged { what, .. }) if what == ENDS_EARLY => INDEX_AT_EOF,
            Err(error) => {
                self.lost();
                return Some(error);
            }
            Ok(None) => INDEX_AT_EOF,
            Ok(Some((Some(other), _))) if other != *key => {
                "mismatching index/data: partition mismatch"
            }
            Ok(Some((_, position))) if position != at => {
                "mismatching index/data: position mismatch"
            }
            Ok(Some(_)) => return None,
        };
        self.lost();
        debug_assert!(at < self.table.data_bytes(), "compared at {at}, past the end");
        Some(self.table.data.damaged(what, at))
    }

    /// The index of the rows of the partition that was compared last, if it has one.
    async fn rows(&mut self, start: u64) -> Result<Option<RowsCheck>, ReadError> {
        debug_assert!(start < self.table.data_bytes(), "rows of a partition at {start}");
        match self.rows.take() {
            Some(rows) => RowsCheck::open(&self.table, &rows, start, self.class).await.map(Some),
            None => Ok(None),
        }
    }

    /// The breach, if the index goes on where the data does not.
    async fn finish(&mut self) -> Option<ReadError> {
        if let Cursor::Lost = self.cursor {
            return None;
        }
        match self.next().await {
            Ok(None) => None,
            Ok(Some((_, position))) => {
                let what = "mismatching index/data: data is at EOF, but index has more data";
                Some(self.table.data.damaged(what, position))
            }
            Err(error) => Some(error),
        }
    }

    /// The position of the first partition after `position`, if the index can be read that far.
    pub(super) async fn after(&mut self, position: u64) -> Option<u64> {
        loop {
            match self.next().await {
                Ok(Some((_, next))) if position < next => return Some(next),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }
}
