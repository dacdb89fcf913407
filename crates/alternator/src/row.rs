//! Items as rows: mutations that write them, commands that read them, pages that have them.
//!
//! Invariants
//!  - *an-attribute-a-cell*: an update writes the cells of the attributes that it changes, no
//!    other.
//!  - *put-replaces*: a put deletes what was there before it, under its own cells.

use crate::error::Error;
use crate::json::Object;
use crate::key::{Key, value_of};
use crate::table::{ATTRIBUTES, Table};
use crate::update::Changed;
use crate::value::{Map, Value, stored, write_text};
use model::key::{clustering_components, split_partition_key};
use model::{ColumnId, TableSchema, value};
use mutation::collection::CollectionWriter;
use mutation::page::{ColumnForm, PagePartition, PageRow, Partitions, ReadCommand, SendRange};
use mutation::row::{Marker, RowBuilder};
use mutation::{Cell, CellState, FrozenMutation, MutationBuilder, RowShape, Tombstone};

/// When a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Microseconds.
    pub(crate) timestamp: i64,
    /// Seconds since the epoch.
    pub(crate) now: i64,
}

impl Moment {
    pub(crate) fn of(timestamp: i64) -> Moment {
        Moment { timestamp, now: now_secs() }
    }

    /// A deletion of what was there before.
    fn before(self) -> Tombstone {
        Tombstone::new(self.timestamp - 1, self.now)
    }

    fn here(self) -> Tombstone {
        Tombstone::new(self.timestamp, self.now)
    }
}

pub(crate) fn now_secs() -> i64 {
    runtime::time::wall_micros().div_euclid(1_000_000)
}

/// What a write does with an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'w> {
    /// The item is this, whatever it was. Its key is among the attributes.
    Put(&'w Map),
    /// These attributes have these values, or are gone. `creates`: it is there, if it was not.
    Set {
        attributes: Changed<'w>,
        creates: bool,
    },
    Delete,
}

/// The mutation of a change; `None`: nothing changes.
pub(crate) fn mutation(
    table: &Table,
    key: &Key,
    change: &Change<'_>,
    moment: Moment,
) -> Result<Option<FrozenMutation>, Error> {
    let attributes = table.writable()?;
    let schema = &*table.entry.schema;
    let cells = match change {
        Change::Put(item) => {
            let others = item.iter().filter(|(name, _)| !table.is_key(name));
            let cells = others.map(|(name, value)| (name.as_str(), Some(value)));
            Some(cells_of(cells, Some(moment.before()), moment))
        }
        Change::Set { attributes, .. } if !attributes.is_empty() => {
            let cells = attributes.iter().map(|(name, value)| (*name, value.as_deref()));
            Some(cells_of(cells, None, moment))
        }
        Change::Set { .. } | Change::Delete => None,
    };
    let room = cells.as_ref().map_or(0, Vec::len) + key.partition.len() + key.clustering.len();
    let buffer = Vec::with_capacity(room + ROW_BYTES);
    let mut builder = MutationBuilder::reusing(schema, &key.partition, buffer);
    let fill = |row: &mut RowBuilder| {
        match change {
            Change::Put(_) | Change::Set { creates: true, .. } => {
                row.marker(Marker::Live { timestamp: moment.timestamp });
            }
            Change::Set { .. } => {}
            Change::Delete => row.tombstone(moment.here()),
        }
        if let Some(cells) = &cells {
            row.collection(attributes, cells);
        }
        Ok::<(), Error>(())
    };
    match (change, schema.clustering_count) {
        (Change::Delete, 0) => builder.delete_partition(moment.here()),
        _ => builder.row_with(&key.clustering, fill)?,
    }
    Ok((!builder.is_empty()).then(|| builder.freeze()))
}

/// What a mutation has beside its key and its cells, about; and a cell beside its name and value.
const ROW_BYTES: usize = 64;
const CELL_HEAD_BYTES: usize = 32;
/// Most values of attributes have no more.
const CELL_BYTES: usize = 128;

/// Two mutations of a partition as one.
pub(crate) fn joined(
    table: &Table,
    before: &FrozenMutation,
    made: &FrozenMutation,
) -> Result<FrozenMutation, Error> {
    let views = before.view().and_then(|before| Ok((before, made.view()?)));
    let (before, made) = views.map_err(|damaged| Error::internal(damaged.to_string()))?;
    Ok(mutation::frozen::merge(&table.entry.schema, before, made))
}

/// The cells of attributes, in order of their names.
fn cells_of<'v>(
    attributes: impl Iterator<Item = (&'v str, Option<&'v Value>)> + Clone,
    deleted: Option<Tombstone>,
    moment: Moment,
) -> Vec<u8> {
    let bytes_of = |value: &Value| value.size() + CELL_HEAD_BYTES;
    let sizes = attributes.clone().map(|(name, value)| name.len() + value.map_or(0, bytes_of));
    let room = Vec::with_capacity(sizes.sum::<usize>() + CELL_BYTES);
    let mut writer = CollectionWriter::append_to(room, deleted.unwrap_or(Tombstone::NONE));
    let mut bytes = Vec::with_capacity(CELL_BYTES);
    for (name, value) in attributes {
        match value {
            Some(value) => {
                bytes.clear();
                stored::encode_into(value, &mut bytes);
                writer.push(name.as_bytes(), Cell::live(moment.timestamp, &bytes));
            }
            None => {
                let state = CellState::Dead { deletion_time: moment.now };
                writer.push(name.as_bytes(), Cell { timestamp: moment.timestamp, state });
            }
        }
    }
    writer.finish()
}

/// The columns that a read of items needs, static ones first, and how many those are.
fn columns(table: &Table) -> (Vec<(ColumnId, ColumnForm)>, usize) {
    let schema = &table.entry.schema;
    let (statics, regulars) = match table.attributes {
        Some(_) => (&[][..], schema.regulars()),
        None => (schema.statics(), schema.regulars()),
    };
    let all = statics.iter().chain(regulars).map(|column| (column.id, ColumnForm::Value));
    (all.collect(), statics.len())
}

/// A read of rows of these partitions.
pub(crate) fn command(
    table: &Table,
    partitions: Partitions,
    ranges: Vec<SendRange>,
) -> ReadCommand {
    let (columns, static_count) = columns(table);
    ReadCommand {
        table: table.entry.schema.id,
        partitions,
        ranges,
        reversed: false,
        columns,
        static_count,
        row_limit: u64::MAX,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max: 1 << 20,
        static_only_rows: false,
        tombstone_limit: 10_000,
        now: now_secs(),
        bypass_cache: false,
        shape: RowShape::Whole,
        resume: None,
    }
}

/// A read of one item.
pub(crate) fn command_of_item(table: &Table, key: &Key) -> ReadCommand {
    let ranges = match key.clustering.is_empty() {
        true => vec![SendRange::full()],
        false => vec![SendRange::of_prefix(&key.clustering)],
    };
    let command = command(table, Partitions::Key(key.partition.clone()), ranges);
    ReadCommand { row_limit: 1, tombstone_limit: u64::MAX, ..command }
}

/// A row of a page.
pub(crate) struct Row<'p> {
    schema: &'p TableSchema,
    has_attributes: bool,
    partition: &'p PagePartition<'p>,
    row: &'p PageRow<'p>,
}

impl<'p> Row<'p> {
    pub(crate) fn new(
        table: &'p Table,
        partition: &'p PagePartition<'p>,
        row: &'p PageRow<'p>,
    ) -> Row<'p> {
        let (schema, has_attributes) = (&*table.entry.schema, table.attributes.is_some());
        Row { schema, has_attributes, partition, row }
    }

    /// Calls `each` with the attributes: those of the key first.
    fn each(&self, mut each: impl FnMut(&str, Part<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let schema = self.schema;
        let damaged = |_| Error::internal(format!("a key of {} is damaged", schema.name));
        let partition = split_partition_key(self.partition.key(), schema.partition_key_count);
        for (column, bytes) in schema.partition_key().iter().zip(partition.map_err(damaged)?) {
            each(&column.name, Part::Column(&column.ty, bytes))?;
        }
        let clustering = clustering_components(self.row.clustering());
        for (column, bytes) in schema.clustering().iter().zip(clustering) {
            each(&column.name, Part::Column(&column.ty, bytes))?;
        }
        if !self.has_attributes {
            let values = self.partition.statics().into_iter().flatten();
            for (column, found) in schema.statics().iter().zip(values) {
                if let Some(bytes) = found.value {
                    each(&column.name, Part::Column(&column.ty, bytes))?;
                }
            }
        }
        // An index has attributes as keys and in the map.
        let is_key = |name: &[u8]| {
            schema.view.is_some()
                && schema.columns[..schema.partition_key_count + schema.clustering_count]
                    .iter()
                    .any(|column| column.name.as_bytes() == name)
        };
        for (column, found) in schema.regulars().iter().zip(self.row.columns()) {
            let Some(bytes) = found.value else { continue };
            if self.has_attributes && column.name == ATTRIBUTES {
                for (name, bytes) in value::map_entries(bytes).filter(|(name, _)| !is_key(name)) {
                    let name = std::str::from_utf8(name);
                    let name = name.map_err(|_| Error::internal("a damaged attribute's name"))?;
                    each(name, Part::Stored(bytes))?;
                }
            } else {
                each(&column.name, Part::Column(&column.ty, bytes))?;
            }
        }
        Ok(())
    }

    /// The item.
    pub(crate) fn item(&self) -> Result<Map, Error> {
        let mut item = Map::new();
        self.each(|name, part| {
            item.insert(name.to_owned(), part.value()?);
            Ok(())
        })?;
        Ok(item)
    }

    /// Appends the item as JSON; what is only passed on is not made.
    pub(crate) fn write(&self, out: &mut String) -> Result<(), Error> {
        let mut object = Object::open(out);
        self.each(|name, part| part.write(object.member(name)))?;
        object.close();
        Ok(())
    }

    /// Bytes of the item, about as the service counts them.
    pub(crate) fn size(&self) -> usize {
        let values = self.row.columns().filter_map(|column| column.value).map(<[u8]>::len);
        self.partition.key().len() + self.row.clustering().len() + values.sum::<usize>()
    }
}

/// An attribute as a row has it.
#[derive(Clone, Copy, Debug)]
enum Part<'p> {
    Column(&'p model::Type, &'p [u8]),
    Stored(&'p [u8]),
}

impl Part<'_> {
    fn value(self) -> Result<Value, Error> {
        match self {
            Part::Column(ty, bytes) => Ok(value_of(ty, bytes)),
            Part::Stored(bytes) => stored::decode(bytes),
        }
    }

    fn write(self, out: &mut String) -> Result<(), Error> {
        match self {
            Part::Column(ty, bytes) => {
                if *ty == model::Type::Text
                    && let Ok(text) = std::str::from_utf8(bytes)
                {
                    write_text(text, out);
                    return Ok(());
                }
                value_of(ty, bytes).write(out);
                Ok(())
            }
            Part::Stored(bytes) => stored::write_json(bytes, out),
        }
    }
}
