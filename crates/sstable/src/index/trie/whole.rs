//! Index files that are in memory as a whole, for fuzzing: every step over any bytes ends.

use super::node::PAGE_BYTES;
use super::partitions::{Footer, read_keys, read_payload};
use super::rows::{RowsHeader, RowsSearch};
use super::walk::{Place, Walk};
use crate::index::pages::{Pages, Stop};
use std::rc::Rc;
use stdx::{Cursor, Damaged};

/// A file.
#[derive(Debug)]
struct Whole {
    pages: Vec<Rc<[u8]>>,
}

impl Whole {
    fn new(bytes: &[u8]) -> Whole {
        Whole { pages: bytes.chunks(PAGE_BYTES).map(Rc::from).collect() }
    }
}

impl Pages for Whole {
    type Page = Rc<[u8]>;
    fn now(&self, number: u64) -> Option<Rc<[u8]>> {
        self.pages.get(usize::try_from(number).ok()?).cloned()
    }
}

/// A page that is not there is past the end.
fn end<T>(result: Result<T, Stop>) -> Result<T, Damaged> {
    result.map_err(|stop| match stop {
        Stop::Need(number) => {
            Damaged::new("an offset leads past the end of the file", number * PAGE_BYTES as u64)
        }
        Stop::Damaged(damaged) => damaged,
    })
}

/// Reads Partitions.db: its footer, and its entries in order.
pub(crate) fn parse_partitions(bytes: &[u8]) -> Result<(), Damaged> {
    let footer = Footer::parse(bytes, bytes.len() as u64)?;
    read_keys(bytes.get(footer.keys_at as usize..).unwrap_or_default())?;
    let mut walk = Walk::new(Whole::new(bytes));
    let (mut place, mut next) = (Place::default(), Place::default());
    end(walk.seek(footer.root, &[], false, &mut place))?;
    // Children may be shared in damaged files, but of no file are there more entries than bytes.
    for _ in 0..bytes.len() {
        let Some(passed) = end(walk.next(&place, &mut next))? else { return Ok(()) };
        read_payload(&passed)?;
        walk.settle();
        std::mem::swap(&mut place, &mut next);
    }
    Err(Damaged::new("more entries than bytes", 0))
}

/// Reads the row index in Rows.db whose header stands where the last four bytes say, and walks
/// over its blocks.
pub(crate) fn parse_rows(bytes: &[u8]) -> Result<(), Damaged> {
    let (file, at) = bytes.split_last_chunk::<4>().ok_or(Damaged::new("no header", 0))?;
    let at = u32::from_be_bytes(*at) as usize;
    let header = file.get(at..).ok_or(Damaged::new("header past the end", 0))?;
    let header = RowsHeader::parse(&mut Cursor::new(header), at as u64)?;
    let mut search = RowsSearch::new(Whole::new(file), header.rows, true);
    end(search.start())?;
    for position in [&[0x20][..], &[0x40, 0x80], header.key, &[0xff]] {
        end(search.advance(position))?;
        search.probe_end(position);
        end(search.find_end(position))?;
        end(search.last_before(position, &[]))?;
        while end(search.previous(&[]))?.is_some() {
            search.walk.settle();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::key::KeyForm;
    use super::super::partitions::{PartitionsBuilder, Target};
    use super::super::rows::RowsBuilder;
    use super::*;
    use crate::index::Lookup;
    use crate::index::block::Skip;
    use mutation::Tombstone;
    use proptest::prelude::*;
    use stdx::Bytes;

    fn partitions(count: u32) -> Vec<u8> {
        let key = |number: u32| Lookup::new(Bytes::copy_from(&number.to_be_bytes()));
        let mut lookups: Vec<Lookup> = (0..count).map(key).collect();
        lookups.sort_by(|a, b| a.key.cmp(&b.key));
        let mut builder = PartitionsBuilder::new(KeyForm::Whole);
        for (number, lookup) in lookups.iter().enumerate() {
            builder.add(&lookup.key, lookup.hash, Target::Data(number as u64));
        }
        let mut out = Vec::new();
        builder.finish(&lookups[0].key.key, &lookups[count as usize - 1].key.key);
        builder.take(|bytes| out.extend_from_slice(bytes));
        out
    }

    fn rows(count: u32) -> Vec<u8> {
        let mut builder = RowsBuilder::default();
        for number in 0..count {
            let key = [&number.to_be_bytes()[..], &[0x38]].concat();
            let start = Skip { offset: 100 * number as u64, open: Tombstone::NONE };
            builder.push(&key, &key, start);
        }
        let header = builder.finish(100 * count as u64, b"key", 0, Tombstone::NONE).unwrap();
        let mut out = Vec::new();
        builder.take(|bytes| out.extend_from_slice(bytes));
        out.extend_from_slice(&(header as u32).to_be_bytes());
        out
    }

    #[test]
    fn whole_files_are_walked() {
        for count in [2, 300, 3000] {
            parse_partitions(&partitions(count)).unwrap();
            parse_rows(&rows(count)).unwrap();
        }
    }

    proptest! {
        #[test]
        fn damaged_files_are_walked(
            count in 2u32..200,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
        ) {
            for (mut bytes, parse) in [
                (partitions(count), parse_partitions as fn(&[u8]) -> Result<(), Damaged>),
                (rows(count), parse_rows),
            ] {
                for (at, bit) in &flips {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 1 << bit;
                }
                let _ = parse(&bytes);
            }
        }
    }
}
