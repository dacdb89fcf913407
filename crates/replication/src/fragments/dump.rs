//! From the fragments of a partition's sources to rows of a page.

use super::layout::{END, Layout, Place, RowRange, START, STATIC, Spot, Wanted};
use super::{Cursor, json};
use model::schema::fragments::{KIND, METADATA, VALUE};
use model::{ColumnId, DecoratedKey, TableSchema};
use mutation::page::{Page, ReadCommand};
use mutation::{Cell, ClusteringPosition, ClusteringRange, Fragment, Marker, RowBuilder, RowView};
use mutation::{QueryCompactor, Step, Tombstone};
use reader::semaphore::Permit;
use reader::{ReadError, Slice, Source, VecSource};
use std::rc::Rc;
use storage::Holder;

/// The timestamp of the cells of rows that are computed.
const TIMESTAMP: i64 = 1;

/// A place that may hold something of a partition.
pub(super) enum Origin {
    Stored(Holder),
    /// Of that name: these fragments of a table.
    Computed(&'static str, Rc<TableSchema>, Vec<Fragment>),
}

impl Origin {
    fn name(&self) -> &str {
        match self {
            Origin::Stored(holder) => holder.name(),
            Origin::Computed(name, ..) => name,
        }
    }

    fn open(&self, slice: Slice) -> Box<dyn Source> {
        match self {
            Origin::Stored(holder) => holder.open(slice),
            Origin::Computed(_, schema, fragments) => {
                Box::new(VecSource::new(&schema.order, fragments.clone(), &slice))
            }
        }
    }
}

/// What a row says, but for its key.
enum Content<'f> {
    Start(Tombstone),
    Static(RowView<'f>),
    Row(RowView<'f>),
    Change(Tombstone),
    End,
}

/// A page in the making.
pub(super) struct Dump<'d> {
    base: &'d TableSchema,
    layout: &'d Layout,
    ranges: Vec<ClusteringRange>,
    command: &'d ReadCommand,
    compactor: QueryCompactor<'d>,
    permit: Option<&'d Permit>,
    /// The column of each, where it is read.
    kind: Option<ColumnId>,
    metadata: Option<ColumnId>,
    value: Option<ColumnId>,
}

impl<'d> Dump<'d> {
    /// A page of `schema`, the table of the fragments of `base`, as the command of the compactor
    /// wants it.
    pub(super) fn new(
        (base, schema): (&'d TableSchema, &'d TableSchema),
        layout: &'d Layout,
        command: &'d ReadCommand,
        permit: Option<&'d Permit>,
    ) -> Dump<'d> {
        let read = |name: &str| {
            let id = schema.column(name)?.id;
            command.columns.iter().any(|(column, _)| *column == id).then_some(id)
        };
        Dump {
            base,
            layout,
            ranges: command.clustering_ranges(),
            command,
            compactor: QueryCompactor::new(schema, command),
            permit,
            kind: read(KIND),
            metadata: read(METADATA),
            value: read(VALUE),
        }
    }

    /// The page.
    pub(super) fn finish(self) -> Page {
        self.compactor.finish()
    }

    /// Adds what the places, which come by name, hold of a partition. `Stop`: the page is full.
    pub(super) async fn partition(
        &mut self,
        key: &DecoratedKey,
        places: &[Origin],
    ) -> Result<Step, ReadError> {
        match self.compactor.begin(&key.key, Tombstone::NONE) {
            Step::Continue => {}
            step => return Ok(step),
        }
        let resume = self.command.resume.as_ref().filter(|resume| resume.key[..] == key.key[..]);
        let after = resume.and_then(|resume| resume.after.as_ref());
        let after: Option<Place<'_>> = after.and_then(|(after, _)| self.layout.place(after));
        let by_name = places.is_sorted_by(|a, b| a.name() <= b.name());
        debug_assert!(by_name, "place-by-place: places are out of order");
        for origin in places {
            let wanted = self.layout.wanted(origin.name(), &self.ranges, after.as_ref());
            let Some(wanted) = wanted else { continue };
            match self.place(origin, wanted).await? {
                Step::Continue => {}
                step => return Ok(step),
            }
        }
        Ok(self.compactor.end())
    }

    /// Adds what is wanted of what one place holds.
    async fn place(&mut self, origin: &Origin, wanted: Wanted) -> Result<Step, ReadError> {
        let name = origin.name();
        let Wanted { start, statics, end, rows } = wanted;
        let mut whole = None;
        if start || statics || end {
            let mut cursor = self.open(origin, ClusteringRange::full(), statics, false);
            let all = matches!(&rows[..], [only] if only.is_whole());
            let ahead = if all { usize::MAX } else { 1 };
            let Some(Fragment::PartitionStart { tombstone, .. }) = cursor.next(ahead).await? else {
                return Ok(Step::Continue);
            };
            let mut step = Step::Continue;
            if start {
                step = self.add(self.layout.key(name, START), Content::Start(tombstone));
            }
            let first = if statics { cursor.next(ahead).await? } else { None };
            if let (Step::Continue, Some(Fragment::StaticRow { row })) = (step, &first) {
                let content = Content::Static(RowView::trusted(row));
                step = self.add(self.layout.key(name, STATIC), content);
            } else if let Some(first) = first {
                cursor.put_back(first);
            }
            if step != Step::Continue {
                return Ok(step);
            }
            whole = all.then_some(cursor);
        }
        for range in rows {
            let cursor = whole.take();
            match self.rows(origin, &range, cursor).await? {
                Step::Continue => {}
                step => return Ok(step),
            }
        }
        match end {
            true => Ok(self.add(self.layout.key(name, END), Content::End)),
            false => Ok(Step::Continue),
        }
    }

    fn open(
        &self,
        origin: &Origin,
        range: ClusteringRange,
        with_static: bool,
        reversed: bool,
    ) -> Cursor<'d> {
        let ranges = vec![range];
        let slice = Slice { ranges, reversed, with_static, forwarding: false };
        Cursor::new(origin.open(slice), self.permit)
    }

    /// Adds what a place holds of a range of rows, from a stream of the partition, if there is one
    /// already.
    async fn rows(
        &mut self,
        origin: &Origin,
        range: &RowRange,
        cursor: Option<Cursor<'d>>,
    ) -> Result<Step, ReadError> {
        let mut walk = Walk { name: origin.name(), range, open: Tombstone::NONE, first: true };
        match &range.resumed {
            Some(spot) => walk.open = spot.open,
            None => {
                walk.open = self.open_before(origin, &range.range.start).await?;
                if !walk.open.is_none() {
                    match self.change(&walk, range.range.start.clone(), true) {
                        Step::Continue => {}
                        step => return Ok(step),
                    }
                }
            }
        }
        let mut cursor =
            cursor.unwrap_or_else(|| self.open(origin, range.range.clone(), false, false));
        loop {
            let fragment = cursor.next(usize::MAX).await?;
            let position = fragment.as_ref().and_then(position_of);
            let stops = range
                .stop
                .as_ref()
                .zip(position.as_ref())
                .is_some_and(|(stop, at)| at.compare(&self.layout.base, stop).is_gt());
            let step = match fragment.filter(|_| !stops) {
                Some(Fragment::PartitionStart { .. } | Fragment::StaticRow { .. }) => {
                    Step::Continue
                }
                Some(Fragment::Row { key, row }) => match self.begin(&mut walk, None) {
                    Step::Continue => {
                        let position = ClusteringPosition::row(key);
                        let content = Content::Row(RowView::trusted(&row));
                        self.clustered(&walk, position, false, content)
                    }
                    step => step,
                },
                Some(Fragment::RangeTombstoneChange { position, tombstone }) => {
                    self.tombstone(&mut walk, position, tombstone)
                }
                Some(Fragment::PartitionEnd) | None => {
                    let step = self.begin(&mut walk, None);
                    return Ok(step);
                }
            };
            if step != Step::Continue {
                return Ok(step);
            }
        }
    }

    /// The range tombstone that holds just before a position.
    async fn open_before(
        &self,
        origin: &Origin,
        position: &ClusteringPosition,
    ) -> Result<Tombstone, ReadError> {
        let range = ClusteringRange { end: position.clone(), ..ClusteringRange::full() };
        if range.is_empty(&self.layout.base) {
            return Ok(Tombstone::NONE);
        }
        // Backwards, what holds there comes first.
        let mut cursor = self.open(origin, range, false, true);
        loop {
            match cursor.next(1).await? {
                Some(Fragment::PartitionStart { .. } | Fragment::StaticRow { .. }) => {}
                Some(Fragment::RangeTombstoneChange { position: at, tombstone })
                    if at.compare(&self.layout.base, position).is_eq() =>
                {
                    return Ok(tombstone);
                }
                _ => return Ok(Tombstone::NONE),
            }
        }
    }

    /// A change of the stream.
    fn tombstone(
        &mut self,
        walk: &mut Walk<'_>,
        position: ClusteringPosition,
        tombstone: Tombstone,
    ) -> Step {
        let start = &walk.range.range.start;
        if walk.first && position.compare(&self.layout.base, start).is_eq() {
            return self.begin(walk, Some(tombstone));
        }
        match self.begin(walk, None) {
            Step::Continue => {
                walk.open = tombstone;
                self.change(walk, position, false)
            }
            step => step,
        }
    }

    /// Comes to the first fragment of the range: which tombstone holds from its start on, if the
    /// stream says so. What held before is known; a difference is a change at that very place.
    fn begin(&mut self, walk: &mut Walk<'_>, tombstone: Option<Tombstone>) -> Step {
        if !std::mem::take(&mut walk.first) {
            return Step::Continue;
        }
        let now = tombstone.unwrap_or(Tombstone::NONE);
        if std::mem::replace(&mut walk.open, now) == now || walk.is_shown() {
            return Step::Continue;
        }
        self.change(walk, walk.range.range.start.clone(), false)
    }

    /// Adds a change, after which `walk.open` holds.
    fn change(&mut self, walk: &Walk<'_>, position: ClusteringPosition, opening: bool) -> Step {
        self.clustered(walk, position, opening, Content::Change(walk.open))
    }

    /// Adds a row of a position, if its weight is wanted.
    fn clustered(
        &mut self,
        walk: &Walk<'_>,
        position: ClusteringPosition,
        opening: bool,
        content: Content<'_>,
    ) -> Step {
        if !walk.range.takes(&self.layout.base, &position) {
            return Step::Continue;
        }
        let spot = Spot { position, opening, open: walk.open };
        self.add(self.layout.key_of(walk.name, &spot), content)
    }

    /// Adds a row.
    fn add(&mut self, key: Vec<u8>, content: Content<'_>) -> Step {
        let base = self.base;
        let kind = match content {
            Content::Start(_) => "partition start",
            Content::Static(_) => "static row",
            Content::Row(_) => "clustering row",
            Content::Change(_) => "range tombstone change",
            Content::End => "partition end",
        };
        let metadata = self.metadata.and_then(|column| {
            let text = match &content {
                Content::Start(tombstone) | Content::Change(tombstone) => {
                    json::tombstone_alone(*tombstone)
                }
                Content::Static(row) => json::static_metadata(base, *row),
                Content::Row(row) => json::row_metadata(base, *row),
                Content::End => return None,
            };
            Some((column, text))
        });
        let value = self.value.and_then(|column| match &content {
            Content::Static(row) | Content::Row(row) => Some((column, json::values(base, *row))),
            _ => None,
        });
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp: TIMESTAMP });
        let texts = [metadata, value].into_iter().flatten();
        let mut cells: Vec<(ColumnId, String)> = texts.collect();
        cells.extend(self.kind.map(|column| (column, kind.to_owned())));
        cells.sort_by_key(|(column, _)| *column);
        debug_assert!(cells.is_sorted_by(|a, b| a.0 < b.0), "a row has a column twice");
        for (column, text) in &cells {
            row.cell(*column, Cell::live(TIMESTAMP, text.as_bytes()));
        }
        let row = row.finish();
        self.compactor.row(&key, RowView::trusted(&row))
    }
}

/// A stream of a range of rows.
struct Walk<'w> {
    name: &'w str,
    range: &'w RowRange,
    /// The range tombstone that holds here.
    open: Tombstone,
    /// Nothing of the stream has come yet.
    first: bool,
}

impl Walk<'_> {
    /// Whether a change at the start of the range was shown before.
    fn is_shown(&self) -> bool {
        let resumed = self.range.resumed.as_ref();
        resumed.is_some_and(|spot| !spot.opening && spot.position.weight != 0)
    }
}

fn position_of(fragment: &Fragment) -> Option<ClusteringPosition> {
    match fragment {
        Fragment::Row { key, .. } => Some(ClusteringPosition::row(key.clone())),
        Fragment::RangeTombstoneChange { position, .. } => Some(position.clone()),
        _ => None,
    }
}
