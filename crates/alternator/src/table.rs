//! A table as the API sees it: its keys, and the column that has the other attributes.
//!
//! A table of the API is `alternator_<name>.<name>`: key attributes are columns, all others are in
//! the map `:attrs`, an attribute a cell. Any table of the system can be read, by a name that says
//! so: `.scylla.alternator.<keyspace>.<table>`.

pub(crate) use crate::column::{ATTRIBUTES, key_type_name};
use crate::error::{Error, Kind};
use crate::index::{self, Index};
use cluster::system_tables::BACKUPS;
use cluster::{Schema, TableEntry};
use model::{Column, ColumnId, Type};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// What the keyspace of a table's name begins with.
pub(crate) const KEYSPACE_PREFIX: &str = "alternator_";
/// What the names of CQL's tables begin with.
pub(crate) const OTHERS_PREFIX: &str = ".scylla.alternator.";
/// Characters of a name.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=192;

/// A table, as its schema is now.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) entry: Rc<TableEntry>,
    /// As clients know it.
    pub(crate) name: String,
    /// The column of the attributes that are no keys; none of a table of CQL.
    pub(crate) attributes: Option<ColumnId>,
    /// Attributes that are in keys of indexes and not in its own.
    pub(crate) indexed: Arc<[Column]>,
    /// That which is read, instead of the table.
    pub(crate) index: Option<Index>,
}

impl Deref for Table {
    type Target = TableEntry;

    fn deref(&self) -> &TableEntry {
        &self.entry
    }
}

impl Table {
    /// By the name, or the ARN, that a request says.
    pub(crate) fn find(schema: &Schema, given: &str) -> Result<Table, Error> {
        let name = name_of(given);
        let unknown = |name: &str| {
            let text = format!("Requested resource not found: Table: {name} not found");
            Error::new(Kind::ResourceNotFound, text)
        };
        if let Some(rest) = name.strip_prefix(OTHERS_PREFIX) {
            let (keyspace, table) = rest.split_once('.').ok_or_else(|| unknown(name))?;
            let found = schema.table(keyspace, table).filter(|_| Schema::is_system(keyspace));
            let entry = found.ok_or_else(|| unknown(name))?;
            let attributes = attributes_of(entry);
            let (entry, name) = (entry.clone(), name.to_owned());
            return Ok(Table { entry, name, attributes, indexed: Arc::new([]), index: None });
        }
        check_name(name)?;
        let found = schema.table(&[KEYSPACE_PREFIX, name].concat(), name);
        let entry = found.ok_or_else(|| unknown(name))?;
        Table::of(schema, entry).ok_or_else(|| unknown(name))
    }

    /// One that the API has made.
    pub(crate) fn of(schema: &Schema, entry: &Rc<TableEntry>) -> Option<Table> {
        let attributes = Some(attributes_of(entry)?);
        let name = entry.schema.name.clone();
        let is_own = entry.schema.keyspace.strip_prefix(KEYSPACE_PREFIX) == Some(&name);
        let indexed = || match entry.views.is_empty() {
            true => Arc::default(),
            false => index::indexed(schema, &entry.views).into(),
        };
        is_own.then(|| Table {
            entry: entry.clone(),
            name,
            attributes,
            indexed: indexed(),
            index: None,
        })
    }

    /// One that nodes have made for themselves, in the form of those of the API.
    pub(crate) fn of_nodes(entry: &Rc<TableEntry>) -> Option<Table> {
        let attributes = Some(attributes_of(entry)?);
        let name = entry.schema.name.clone();
        (entry.schema.keyspace == BACKUPS).then(|| Table {
            entry: entry.clone(),
            name,
            attributes,
            indexed: Arc::default(),
            index: None,
        })
    }

    /// The index of that name, as what is read.
    pub(crate) fn index(&self, schema: &Schema, name: &str) -> Result<Table, Error> {
        let known = index::all(schema, &self.entry.schema, &self.entry.views);
        let found = known.into_iter().find(|(index, _)| index.name == name);
        let (index, entry) = found.filter(|_| self.attributes.is_some()).ok_or_else(|| {
            Error::validation(format!(
                "The table does not have the specified index: {name} of {}",
                self.name
            ))
        })?;
        let attributes = attributes_of(entry);
        let (entry, name) = (entry.clone(), self.name.clone());
        Ok(Table { entry, name, attributes, indexed: Arc::new([]), index: Some(index) })
    }

    /// The columns of the key: hash, then range; of an index the rest of the table's key, too.
    pub(crate) fn key_columns(&self) -> &[Column] {
        let schema = &self.entry.schema;
        &schema.columns[..schema.partition_key_count + schema.clustering_count]
    }

    /// The column of the hash key.
    pub(crate) fn hash(&self) -> &Column {
        &self.entry.schema.partition_key()[0]
    }

    /// The column of the range key, if there is one.
    pub(crate) fn range(&self) -> Option<&Column> {
        self.ranges().first()
    }

    /// The columns of the range key. A global index may have several, as tables of CQL may.
    pub(crate) fn ranges(&self) -> &[Column] {
        let all = self.entry.schema.clustering();
        &all[..self.index.as_ref().map_or(all.len(), |index| index.range_count)]
    }

    /// Whether an attribute of that name is part of the key.
    pub(crate) fn is_key(&self, name: &str) -> bool {
        let keys = match &self.index {
            None => self.key_columns(),
            Some(index) => index.keys(&self.entry.schema),
        };
        keys.iter().any(|column| column.name == name)
    }

    /// What a write needs.
    pub(crate) fn writable(&self) -> Result<ColumnId, Error> {
        self.attributes.ok_or_else(|| {
            let name = &self.name;
            Error::validation(format!("{name} is a table of the system: it can be read, not this"))
        })
    }
}

fn attributes_of(entry: &TableEntry) -> Option<ColumnId> {
    let column = entry.schema.column(ATTRIBUTES)?;
    let is_map = matches!(&column.ty, Type::Map { .. }) && column.ty.is_multi_cell();
    is_map.then_some(column.id)
}

/// The name that an ARN is of; a name is itself.
pub(crate) fn name_of(given: &str) -> &str {
    match given.starts_with("arn:") {
        true => given.split_once(":table/").map_or(given, |(_, name)| name),
        false => given,
    }
}

/// Refuses what no table may be called.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !NAME_CHARS.contains(&name.len()) {
        return Err(Error::validation(format!(
            "TableName must be at least {} characters long and at most {} characters long: {} \
             has a length of {}",
            NAME_CHARS.start(),
            NAME_CHARS.end(),
            name.chars().take(32).collect::<String>(),
            name.len()
        )));
    }
    match name.bytes().all(is_part) {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "TableName must satisfy regular expression pattern: [a-zA-Z0-9_.-]+ and {name} does not"
        ))),
    }
}
