//! The fragments of Data.db in the order in which they stand, from one partition to the next, with
//! the index neither asked nor trusted; every byte compared with its checksum before.
//!
//! Invariants
//!  - *in-place*: what is loaded stands in the data before `loaded`, and what is consumed in it.
//!  - *progress*: every step consumes a byte, or is an error.

use crate::compress::data::ReadFile;
use crate::mx::header::{Mapping, Shape};
use crate::mx::marker::read_marker_body;
use crate::mx::partition::{Head, Kind, PARTITION_HEAD_BYTES_MAX, PartitionHead};
use crate::mx::row::RowDecoder;
use crate::table::Table;
use model::DecoratedKey;
use mutation::{ClusteringPosition, Fragment, RowBuilder, Tombstone};
use reader::ReadError;
use runtime::io::IoClass;
use std::rc::Rc;
use stdx::{Bytes, Damaged};

/// Bytes that one read takes.
const STEP_BYTES: u64 = 128 << 10;

/// A fragment and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The place in the uncompressed data.
    pub at: u64,
    /// What is there.
    pub fragment: Fragment,
    /// A rule that it breaks by itself.
    pub broken: Option<&'static str>,
}

/// Walks over Data.db.
#[derive(Debug)]
pub struct RawScan {
    table: Rc<Table>,
    mapping: Rc<Mapping>,
    class: IoClass,
    /// The data, once it was asked for; nothing when its digest was compared.
    data: Option<ReadFile>,
    buf: Vec<u8>,
    /// What of `buf` is consumed.
    used: usize,
    /// The position behind `buf`.
    loaded: u64,
    decoder: RowDecoder,
    prefix: Vec<u8>,
    inside: bool,
    /// Where the latest element starts, the head of the partition at first.
    latest: u64,
    /// The range tombstone that is open.
    open: Tombstone,
}

impl RawScan {
    /// A scan from the first partition on.
    pub fn new(table: Rc<Table>, class: IoClass) -> RawScan {
        RawScan {
            mapping: table.mapping(),
            table,
            class,
            data: None,
            buf: Vec::new(),
            used: 0,
            loaded: 0,
            decoder: RowDecoder::default(),
            prefix: Vec::new(),
            inside: false,
            latest: 0,
            open: Tombstone::NONE,
        }
    }

    /// Where the next fragment stands.
    pub fn position(&self) -> u64 {
        self.loaded - (self.buf.len() - self.used) as u64
    }

    /// Goes to where a partition starts.
    pub fn seek(&mut self, position: u64) {
        debug_assert!(self.buf.len() as u64 <= self.loaded, "in-place: {} loaded", self.loaded);
        self.inside = false;
        let first = self.loaded - self.buf.len() as u64;
        if (first..=self.loaded).contains(&position) {
            self.used = (position - first) as usize;
            return;
        }
        self.buf.clear();
        self.used = 0;
        self.loaded = position.min(self.table.data_bytes());
    }

    /// The next fragment; `None` at the end of the data. After an error, [`RawScan::seek`].
    pub async fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        if !self.inside {
            if self.position() == self.table.data_bytes() {
                // Once: who goes on after an error is at the end.
                return self.data.take().map_or(Ok(()), |data| data.finish()).map(|()| None);
            }
            return self.partition_start().await.map(Some);
        }
        self.element().await.map(Some)
    }

    async fn partition_start(&mut self) -> Result<Raw, ReadError> {
        let at = self.position();
        self.load(1).await?;
        loop {
            let form = self.table.descriptor().version.deletion_form();
            match PartitionHead::parse(&self.buf[self.used..], form) {
                Ok(head) => {
                    let key = DecoratedKey::new(Bytes::copy_from(head.key));
                    let (tombstone, bytes) = (head.tombstone, head.bytes);
                    debug_assert!(0 < bytes, "progress: a head of no byte");
                    self.used += bytes;
                    debug_assert!(self.used <= self.buf.len(), "in-place: {} used", self.used);
                    (self.inside, self.latest, self.open) = (true, at, Tombstone::NONE);
                    let fragment = Fragment::PartitionStart { key, tombstone };
                    return Ok(Raw { at, fragment, broken: None });
                }
                Err(error) => self.more(PARTITION_HEAD_BYTES_MAX, error).await?,
            }
        }
    }

    async fn element(&mut self) -> Result<Raw, ReadError> {
        let at = self.position();
        self.load(1).await?;
        let mapping = self.mapping.clone();
        let most = Head::bytes_max(mapping.shape.clustering.len());
        let head = loop {
            match Head::parse(&self.buf[self.used..], &mapping.shape, &mut self.prefix) {
                Ok(head) => break head,
                Err(error) => self.more(most, error).await?,
            }
        };
        if self.table.data_bytes() - at < head.total_bytes() {
            return Err(self.damaged(Damaged::new("element past the end of the data", 0)));
        }
        self.load(head.total_bytes()).await?;
        let end = self.used + head.total_bytes() as usize;
        debug_assert!(self.used < end && end <= self.buf.len(), "progress: to {end}");
        let body = &self.buf[self.used + head.head_bytes..end];
        let decoded = decode(&head, body, &mapping.shape, &mut self.decoder, &self.prefix);
        let (fragment, before) =
            decoded.map_err(|error| self.damaged(error.from_base(head.head_bytes as u64)))?;
        let mut broken = None;
        if let Fragment::RangeTombstoneChange { tombstone, .. } = &fragment {
            if before != Some(self.open) {
                broken = Some("a range tombstone ends or starts where another is open");
            }
            self.open = *tombstone;
        }
        debug_assert!(self.latest < at, "in-place: an element at {at}, after {}", self.latest);
        let from_previous = at - self.latest;
        if matches!(head.kind, Kind::Row(_) | Kind::Marker(_)) && head.prev_bytes != from_previous {
            broken = broken.or(Some("another distance to the previous element than it says"));
        }
        if !matches!(head.kind, Kind::Static(_)) {
            self.latest = at;
        }
        self.inside = head.kind != Kind::End;
        self.used = end;
        Ok(Raw { at, fragment, broken })
    }

    /// Loads more, unless the error cannot come from too few bytes.
    async fn more(&mut self, most: usize, error: Damaged) -> Result<(), ReadError> {
        let have = (self.buf.len() - self.used) as u64;
        if self.loaded == self.table.data_bytes() || most as u64 <= have {
            return Err(self.damaged(error));
        }
        self.load((2 * have).max(have + 1)).await
    }

    /// Sees to it that this many bytes, or all that are left, are in the buffer.
    async fn load(&mut self, bytes: u64) -> Result<(), ReadError> {
        let have = (self.buf.len() - self.used) as u64;
        if bytes <= have {
            return Ok(());
        }
        self.buf.drain(..self.used);
        self.used = 0;
        let data = match &mut self.data {
            Some(data) => data,
            none => none.insert(self.table.guarded_data().await?),
        };
        let length = self.buf.len();
        debug_assert!(self.used == 0 && length as u64 == have, "in-place: {length} are left");
        // Where a long step has damage in it, what is needed now may have none.
        for step in [STEP_BYTES, 0] {
            let end = self.loaded.saturating_add((bytes - have).max(step));
            let end = data.round_up(end).min(data.len());
            match data.read(self.class, self.loaded..end, &mut self.buf).await {
                Ok(()) => {
                    let read = (self.buf.len() - length) as u64;
                    assert!(read == end - self.loaded, "in-place: {read} bytes up to {end}");
                    self.loaded = end;
                    return Ok(());
                }
                Err(error) if step == 0 => {
                    self.buf.truncate(length);
                    return Err(error);
                }
                Err(_) => self.buf.truncate(length),
            }
        }
        unreachable!("the last step answers")
    }

    fn damaged(&self, damaged: Damaged) -> ReadError {
        self.table.data.damaged(damaged.what, self.position() + damaged.at)
    }
}

/// The fragment of an element; of a marker also the tombstone that it ends.
fn decode(
    head: &Head,
    body: &[u8],
    shape: &Shape,
    decoder: &mut RowDecoder,
    prefix: &[u8],
) -> Result<(Fragment, Option<Tombstone>), Damaged> {
    // A row of which nothing is left, because its columns were dropped, is an empty row.
    let nothing = || RowBuilder::new(Vec::new()).finish();
    let row = |row: Option<&[u8]>| match row {
        Some(row) => Bytes::copy_from(row),
        None => Bytes::copy_from(&nothing()),
    };
    Ok(match head.kind {
        Kind::End => (Fragment::PartitionEnd, None),
        Kind::Static(flags) => {
            let decoded = decoder.decode(flags, body, &shape.statics, &shape.bases)?;
            (Fragment::StaticRow { row: row(decoded) }, None)
        }
        Kind::Row(flags) => {
            let decoded = decoder.decode(flags, body, &shape.regulars, &shape.bases)?;
            (Fragment::Row { key: Bytes::copy_from(prefix), row: row(decoded) }, None)
        }
        Kind::Marker(kind) => {
            let (before, tombstone) = read_marker_body(kind, body, &shape.bases)?;
            let prefix = Bytes::copy_from(prefix);
            let position = ClusteringPosition { prefix, weight: kind.weight() };
            (Fragment::RangeTombstoneChange { position, tombstone }, Some(before))
        }
    })
}
