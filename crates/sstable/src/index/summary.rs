//! Summary.db: the sample of Index.db that stays in memory (storage-format reference,
//! section 6).
//!
//! Invariants
//!  - *sampled-in-order*: keys ascend in ring order, positions in Index.db ascend with them, and
//!    the first entry of Index.db is sampled.

use model::{DecoratedKey, Token};
use std::cmp::Ordering;
use stdx::{Bytes, Cursor, Damaged, Put};

/// Entries per sample if all partitions were tiny: what the header says, not what is done.
const MIN_INDEX_INTERVAL: u32 = 128;
/// Nothing was sampled down.
const SAMPLING_LEVEL: u32 = 128;
/// Bytes of data that justify one byte of summary.
const DATA_BYTES_PER_BYTE: u64 = 2000;
/// Bytes of an entry beside its key.
const ENTRY_OVERHEAD: u64 = 10;
/// Partitions without a sample at most.
const PARTITIONS_MAX: u64 = 10_000;

/// A summary in memory: tokens apart, keys in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    tokens: Vec<i64>,
    /// Where each key starts in `keys`; one more than there are keys.
    key_starts: Vec<u32>,
    keys: Vec<u8>,
    /// Where each entry stands in Index.db.
    positions: Vec<u64>,
    /// The first partition of the file.
    pub first: DecoratedKey,
    /// The last partition of the file.
    pub last: DecoratedKey,
}

impl Summary {
    /// How many entries there are: at least one.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are none (never true of a parsed summary).
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The key of an entry and where it stands in Index.db.
    pub fn entry(&self, index: usize) -> (&[u8], u64) {
        (self.key(index), self.positions[index])
    }

    fn key(&self, index: usize) -> &[u8] {
        debug_assert!(self.key_starts.len() == self.positions.len() + 1, "sampled-in-order");
        &self.keys[self.key_starts[index] as usize..self.key_starts[index + 1] as usize]
    }

    /// Token and key of an entry.
    pub fn get(&self, index: usize) -> Option<(Token, &[u8])> {
        let token = self.tokens.get(index)?;
        Some((Token(*token), self.key(index)))
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.positions.len() * 20 + self.keys.len()
    }

    /// Which page holds the last entry at or before `(token, key)`; the first page for what is
    /// before all.
    pub fn page_of(&self, token: Token, key: &[u8]) -> usize {
        let mut low = 0;
        let mut high = self.tokens.len();
        while low < high {
            let middle = low + (high - low) / 2;
            let order = self.tokens[middle].cmp(&token.0);
            match order.then_with(|| self.key(middle).cmp(key)) {
                Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        debug_assert!(low <= self.tokens.len(), "sampled-in-order: page {low}");
        let before = |at| self.get(at).is_none_or(|(own, sampled)| (own, sampled) <= (token, key));
        debug_assert!(low == 0 || before(low - 1), "sampled-in-order: page {low} starts behind");
        debug_assert!(self.tokens.len() <= low || !before(low), "sampled-in-order: page {low}");
        low.saturating_sub(1)
    }

    /// The range of Index.db that page `index` takes; `index_bytes` is the length of the file.
    pub fn page_range(&self, index: usize, index_bytes: u64) -> (u64, u64) {
        let end = self.positions.get(index + 1).copied().unwrap_or(index_bytes);
        (self.positions[index], end)
    }

    /// Appends the serialized form.
    pub fn put(&self, out: &mut Vec<u8>) {
        let count = self.len() as u32;
        assert!(0 < count && self.first <= self.last, "sampled-in-order: {count} entries");
        assert!(self.positions.is_sorted_by(|a, b| a < b), "sampled-in-order: positions");
        assert!(self.tokens.is_sorted(), "sampled-in-order: tokens");
        out.put_u32(MIN_INDEX_INTERVAL);
        out.put_u32(count);
        out.put_u64(4 * count as u64 + self.keys.len() as u64 + 8 * count as u64);
        out.put_u32(SAMPLING_LEVEL);
        out.put_u32(count);
        for index in 0..self.len() {
            let offset = 4 * count + self.key_starts[index] + 8 * index as u32;
            out.put(&offset.to_le_bytes());
        }
        for index in 0..self.len() {
            out.put(self.key(index));
            out.put(&self.positions[index].to_le_bytes());
        }
        out.put_u32_bytes(&self.first.key);
        out.put_u32_bytes(&self.last.key);
    }

    /// Reads the serialized form; `index_bytes` is the length of Index.db.
    pub fn parse(bytes: &[u8], index_bytes: u64) -> Result<Summary, Damaged> {
        let mut rest = SummaryEntries::begin(bytes)?;
        while rest.step(usize::MAX)? {}
        rest.finish(index_bytes)
    }

    /// Whether the first sample is at the start of the index, and the last one in it.
    pub(super) fn is_within(&self, index_bytes: u64) -> bool {
        self.positions.first() == Some(&0)
            && self.positions.last().is_some_and(|last| *last < index_bytes)
            && self.first <= self.last
    }
}

/// A serialized summary whose entries are read in steps.
#[derive(Debug)]
pub struct SummaryEntries<'a> {
    /// Behind the entries.
    cursor: Cursor<'a>,
    entries: &'a [u8],
    entries_at: u64,
    count: usize,
    next: usize,
    builder: SummaryBuilder,
    ordered: bool,
}

impl<'a> SummaryEntries<'a> {
    /// Reads what stands before the entries.
    pub fn begin(bytes: &'a [u8]) -> Result<SummaryEntries<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        cursor.u32("summary header cut short")?;
        let count = cursor.u32("summary header cut short")? as usize;
        let entries_bytes = cursor.u64("summary header cut short")?;
        cursor.u32("summary header cut short")?;
        cursor.u32("summary header cut short")?;
        let entries_at = cursor.offset() as u64;
        let entries_bytes = usize::try_from(entries_bytes)
            .map_err(|_| cursor.damaged("summary of an impossible size"))?;
        let entries = cursor.take(entries_bytes, "summary entries cut short")?;
        if count == 0 || entries.len() / 12 < count {
            return Err(cursor.damaged("summary without entries, or with too many"));
        }
        let builder = SummaryBuilder::default();
        let (next, ordered) = (0, true);
        Ok(SummaryEntries { cursor, entries, entries_at, count, next, builder, ordered })
    }

    /// Reads so many entries at most; whether there are more.
    pub fn step(&mut self, at_most: usize) -> Result<bool, Damaged> {
        let end = self.count.min(self.next.saturating_add(at_most));
        while self.next < end {
            let entry = read_entry(self.entries, self.next, self.count);
            let (key, position) = entry.map_err(|error| error.from_base(self.entries_at))?;
            self.builder.push(key, position);
            self.ordered &= self.builder.last_ascends();
            self.next += 1;
        }
        Ok(self.next < self.count)
    }

    /// Reads what stands behind the entries.
    pub fn finish(mut self, index_bytes: u64) -> Result<Summary, Damaged> {
        let first = self.cursor.u32_bytes("first key cut short")?;
        let last = self.cursor.u32_bytes("last key cut short")?;
        let damaged = self.cursor.damaged("summary entries out of order");
        let summary = self.builder.finish(first, last).filter(|_| self.ordered);
        summary.filter(|summary| summary.is_within(index_bytes)).ok_or(damaged)
    }
}

fn read_entry(entries: &[u8], index: usize, count: usize) -> Result<(&[u8], u64), Damaged> {
    debug_assert!(index < count, "entry {index} of {count}");
    let damaged = |what| Damaged::new(what, 4 * index as u64);
    let offset = |index: usize| {
        if index == count {
            return Some(entries.len());
        }
        let bytes = entries.get(4 * index..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let range = offset(index).zip(offset(index + 1));
    let (start, end) = range.ok_or(damaged("summary offsets cut short"))?;
    let entry = entries.get(start..end).ok_or(damaged("summary offset out of order"))?;
    let (key, position) =
        entry.split_last_chunk::<8>().ok_or(damaged("summary entry too short"))?;
    Ok((key, u64::from_le_bytes(*position)))
}

/// Samples entries of an index while it is written or scanned.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    tokens: Vec<i64>,
    key_starts: Vec<u32>,
    keys: Vec<u8>,
    positions: Vec<u64>,
    next_data_offset: u64,
    partitions_since: u64,
}

impl SummaryBuilder {
    /// Offers an entry that stands at `index_position`, its data at `data_offset` on disk.
    pub fn offer(&mut self, key: &[u8], index_position: u64, data_offset: u64) {
        let behind = self.positions.last().is_none_or(|last| *last < index_position);
        debug_assert!(behind, "sampled-in-order: {index_position} in the index");
        let due = self.positions.is_empty()
            || self.next_data_offset <= data_offset
            || PARTITIONS_MAX <= self.partitions_since;
        self.partitions_since += 1;
        if due && self.keys.len() < (u32::MAX / 2) as usize {
            let cost = key.len() as u64 + ENTRY_OVERHEAD;
            self.next_data_offset = data_offset + cost * DATA_BYTES_PER_BYTE;
            self.partitions_since = 0;
            self.push(key, index_position);
        }
    }

    fn push(&mut self, key: &[u8], position: u64) {
        debug_assert!(self.tokens.len() == self.positions.len(), "sampled-in-order: {position}");
        self.tokens.push(Token::of(key).0);
        self.key_starts.push(self.keys.len() as u32);
        self.keys.extend_from_slice(key);
        self.positions.push(position);
    }

    /// *sampled-in-order*: whether the latest sample is behind the one before.
    pub(super) fn last_ascends(&self) -> bool {
        let Some(last) = self.positions.len().checked_sub(1) else { return true };
        let Some(before) = last.checked_sub(1) else { return true };
        let start = |index: usize| self.key_starts[index] as usize;
        let keys = (&self.keys[start(before)..start(last)], &self.keys[start(last)..]);
        self.positions[before] < self.positions[last]
            && (self.tokens[before], keys.0) < (self.tokens[last], keys.1)
    }

    /// The summary, given the first and last keys. `None` without entries.
    pub fn finish(mut self, first: &[u8], last: &[u8]) -> Option<Summary> {
        if self.positions.is_empty() {
            return None;
        }
        self.key_starts.push(self.keys.len() as u32);
        assert!(self.key_starts.len() == self.positions.len() + 1, "sampled-in-order: keys");
        Some(Summary {
            tokens: self.tokens,
            key_starts: self.key_starts,
            keys: self.keys,
            positions: self.positions,
            first: DecoratedKey::new(Bytes::copy_from(first)),
            last: DecoratedKey::new(Bytes::copy_from(last)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    #[test]
    fn golden_summary() {
        let mut builder = SummaryBuilder::default();
        builder.offer(&key(5), 0, 0);
        builder.offer(&key(1), 8, 123);
        let summary = builder.finish(&key(5), &key(3)).unwrap();
        let mut out = Vec::new();
        summary.put(&mut out);
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "000000800000000100000000000000100000008000000001\
             04000000000000050000000000000000000000040000000500000004\
             00000003"
        );
        assert_eq!(Summary::parse(&out, 40).unwrap(), summary);
        for cut in 0..out.len() {
            assert!(Summary::parse(&out[..cut], 40).is_err());
        }
    }

    #[test]
    fn pages_are_found() {
        let mut keys: Vec<DecoratedKey> =
            (0..50).map(|n| DecoratedKey::new(Bytes::copy_from(&key(n)))).collect();
        keys.sort();
        let mut builder = SummaryBuilder::default();
        for (n, sampled) in keys.iter().step_by(10).enumerate() {
            builder.push(&sampled.key, n as u64 * 100);
        }
        let summary = builder.finish(&keys[0].key, &keys[49].key).unwrap();
        for (n, sampled) in keys.iter().enumerate() {
            assert_eq!(summary.page_of(sampled.token, &sampled.key), n / 10);
        }
        assert_eq!(summary.page_of(Token::MIN, b""), 0);
        assert_eq!(summary.page_range(4, 450), (400, 450));
        let mut out = Vec::new();
        summary.put(&mut out);
        assert_eq!(Summary::parse(&out, 450).unwrap(), summary);
    }
}
