//! Writes of one item: what a request asks for, and what follows from the item as it is. Pure.
//!
//! Invariants
//!  - *one-decision*: whether it reads before or not, a write is decided by [`Write::decide`]; what
//!    does not depend on the item is decided on none.
//!  - *key-stays*: no write changes the key of its item.

use crate::capacity::Capacity;
use crate::error::{Error, Kind};
use crate::evaluate::holds;
use crate::expression::{Condition, Placeholders, Programs, Selection, Update, update};
use crate::filter::condition_of;
use crate::json::Object;
use crate::key::{Key, component};
use crate::legacy;
use crate::met::Op;
use crate::paths;
use crate::request::Request;
use crate::row::Change;
use crate::table::Table;
use crate::update::{applied, changed};
use crate::value::{
    Map, Value, attributes, attributes_json, check_name, item_size, write_attributes,
};
use model::Column;
use std::sync::Arc;

/// Bytes of an item.
const ITEM_BYTES_MAX: usize = 400 << 10;

/// The operations that write one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Put,
    Delete,
    Update,
    /// Of a transaction: nothing is written.
    Check,
}

impl Operation {
    /// Under which it is counted.
    pub(crate) fn op(self) -> Op {
        match self {
            Operation::Put => Op::PUT,
            Operation::Delete => Op::DELETE,
            Operation::Update => Op::UPDATE,
            Operation::Check => Op::TRANSACT_WRITE,
        }
    }

    /// By its place among them, as nodes send it to each other.
    pub(crate) fn of_byte(byte: u8) -> Option<Operation> {
        [Operation::Put, Operation::Delete, Operation::Update].get(byte as usize).copied()
    }
}

/// What is done with the item.
#[derive(Clone, Debug)]
enum Action {
    Put(Map),
    Delete,
    Update(Update),
    Check,
}

/// A write of one item.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: Key,
    /// The key's attributes, of an update that looks at the item or tells of it; and their bytes.
    key_attributes: Map,
    key_bytes: usize,
    action: Action,
    /// The table's attributes that are in keys of its indexes.
    indexed: Arc<[Column]>,
    condition: Option<Condition>,
    returns: Returned,
    shows_failed: bool,
    pub(crate) capacity: Capacity,
    /// Under which its size is counted.
    pub(crate) counts_as: Op,
}

/// What a write answers of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returned {
    Nothing,
    AllOld,
    UpdatedOld,
    AllNew,
    UpdatedNew,
}

const OLD_STYLE: [&str; 3] = ["Expected", "AttributeUpdates", "ConditionalOperator"];
const NEW_STYLE: [&str; 2] = ["ConditionExpression", "UpdateExpression"];

impl Write {
    /// What a request asks for.
    pub(crate) fn of(
        operation: Operation,
        request: &Request<'_>,
        table: &Table,
        programs: &Programs,
    ) -> Result<Write, Error> {
        table.writable()?;
        request.check_styles(&OLD_STYLE, &NEW_STYLE)?;
        let known = request.placeholders(programs)?;
        let returns = returned(request, operation)?;
        let shows_failed =
            request.word("ReturnValuesOnConditionCheckFailure", &["NONE", "ALL_OLD"])? == "ALL_OLD";
        let capacity = Capacity::of(request)?;
        let (key, key_bytes, action) = match operation {
            Operation::Put => {
                let item = attributes(request.need_object("Item")?)?;
                check_item(&item)?;
                check_indexed(&table.indexed, |name| item.get(name))?;
                let key = Key::of_item(table, &item)?;
                (key, 0, Action::Put(item))
            }
            Operation::Delete | Operation::Update | Operation::Check => {
                let (key, key_bytes) = Key::of_parameter(table, request.need_object("Key")?)?;
                let action = match operation {
                    Operation::Update => Action::Update(update_of(request, table, &known)?),
                    Operation::Check => Action::Check,
                    _ => Action::Delete,
                };
                (key, key_bytes, action)
            }
        };
        let key_attributes = match &action {
            Action::Update(update) if update.reads() || returns != Returned::Nothing => {
                attributes(request.need_object("Key")?)?
            }
            _ => Map::new(),
        };
        let condition = condition_of(request, "ConditionExpression", "Expected", &known)?;
        known.check_used()?;
        let update = if let Action::Update(update) = &action { Some(update) } else { None };
        paths::check_write(table, update, condition.as_ref())?;
        let indexed = table.indexed.clone();
        Ok(Write {
            key,
            key_attributes,
            key_bytes,
            action,
            indexed,
            condition,
            returns,
            shows_failed,
            capacity,
            counts_as: operation.op(),
        })
    }

    /// A put without more, of a batch.
    pub(crate) fn put(table: &Table, item: Map) -> Result<Write, Error> {
        check_item(&item)?;
        check_indexed(&table.indexed, |name| item.get(name))?;
        let key = Key::of_item(table, &item)?;
        Ok(Write::plain(key, Action::Put(item)))
    }

    /// A deletion without more.
    pub(crate) fn delete(table: &Table, key: Map) -> Result<Write, Error> {
        Ok(Write::plain(Key::of_key(table, &key)?, Action::Delete))
    }

    fn plain(key: Key, action: Action) -> Write {
        let (condition, returns, shows_failed) = (None, Returned::Nothing, false);
        let (key_attributes, key_bytes) = (Map::new(), 0);
        // What it writes was looked at.
        let (capacity, indexed) = (Capacity::default(), Arc::default());
        Write {
            key,
            key_attributes,
            key_bytes,
            action,
            indexed,
            condition,
            returns,
            shows_failed,
            capacity,
            counts_as: Op::BATCH_WRITE,
        }
    }

    /// Half units that it consumes, as far as its request says.
    pub(crate) fn halves(&self) -> usize {
        Capacity::of_write(self.bytes())
    }

    /// Bytes of the item that its request has.
    pub(crate) fn bytes(&self) -> usize {
        match &self.action {
            Action::Put(item) => item_size(item),
            Action::Delete | Action::Update(_) | Action::Check => 0,
        }
    }

    /// Whether it depends on the item as it is.
    pub(crate) fn reads(&self) -> bool {
        let by_action = match &self.action {
            Action::Put(_) | Action::Delete | Action::Check => false,
            Action::Update(update) => update.reads(),
        };
        // What an update has made of an item that was not read is known as far as it is its own.
        let by_answer = match self.returns {
            Returned::Nothing => false,
            Returned::UpdatedNew => by_action,
            Returned::AllOld | Returned::UpdatedOld | Returned::AllNew => true,
        };
        by_action || by_answer || self.condition.is_some()
    }

    /// What follows from the item; `None`: it is not there, or is not looked at.
    pub(crate) fn decide(&self, before: Option<&Map>) -> Result<Decision<'_>, Error> {
        static NOTHING: Map = Map::new();
        let present = before.unwrap_or(&NOTHING);
        if let Some(condition) = &self.condition
            && !holds(condition, present)?
        {
            let text = "The conditional request failed";
            let item = before.filter(|_| self.shows_failed).map(attributes_json);
            return Err(Error { item, ..Error::new(Kind::ConditionalCheckFailed, text) });
        }
        let (change, bytes) = match &self.action {
            Action::Put(item) => (Change::Put(item), item_size(item)),
            Action::Delete => (Change::Delete, 0),
            Action::Update(update) => self.updated(update, before)?,
            Action::Check => (Change::Set { attributes: Vec::new(), creates: false }, 0),
        };
        let before_bytes = before.map_or(0, item_size);
        let counted = match &self.action {
            Action::Put(_) => bytes,
            Action::Delete | Action::Update(_) => bytes.max(before_bytes),
            Action::Check => 0,
        };
        let attributes = self.attributes(before, &change);
        Ok(Decision { change, attributes, bytes: bytes.max(before_bytes), counted })
    }

    /// The change, and the bytes of the item after it.
    fn updated<'w>(
        &self,
        update: &'w Update,
        before: Option<&Map>,
    ) -> Result<(Change<'w>, usize), Error> {
        let present = before.unwrap_or(&self.key_attributes);
        let attributes = changed(update, present)?;
        let mut bytes = before.map_or(self.key_bytes, item_size);
        for (name, value) in &attributes {
            bytes -= present.get(*name).map_or(0, |value| name.len() + value.size());
            bytes += value.as_ref().map_or(0, |value| name.len() + value.size());
        }
        check_size(bytes)?;
        let takes = !update.remove.is_empty() || !update.delete.is_empty();
        let creates = !takes || attributes.iter().any(|(_, value)| value.is_some());
        check_indexed(&self.indexed, |name| {
            let found = attributes.iter().find(|(changed, _)| *changed == name)?;
            found.1.as_deref()
        })?;
        if !creates && before.is_none() {
            bytes = 0;
        }
        Ok((Change::Set { attributes, creates }, bytes))
    }

    /// The item after a change.
    fn after(&self, before: Option<&Map>, change: &Change<'_>) -> Map {
        match change {
            Change::Put(item) => (*item).clone(),
            Change::Delete => Map::new(),
            Change::Set { creates: false, .. } if before.is_none() => Map::new(),
            Change::Set { attributes, .. } => {
                applied(before.unwrap_or(&self.key_attributes), attributes)
            }
        }
    }

    /// What is answered of the item.
    fn attributes(&self, before: Option<&Map>, change: &Change<'_>) -> Option<Map> {
        let updated = |item: &Map| match &self.action {
            Action::Update(update) => {
                let paths: Vec<_> = update.paths().collect();
                // They were found not to overlap when they were parsed.
                let parts = Selection::of(paths.into_iter(), "UpdateExpression").ok()?;
                Some(parts.of_item(item)).filter(|parts| !parts.is_empty())
            }
            _ => None,
        };
        match self.returns {
            Returned::Nothing => None,
            Returned::AllOld => before.cloned(),
            Returned::UpdatedOld => before.and_then(updated),
            Returned::AllNew => Some(self.after(before, change)).filter(|item| !item.is_empty()),
            Returned::UpdatedNew => updated(&self.after(before, change)),
        }
    }

    /// The body of the answer.
    pub(crate) fn answer(&self, table: &Table, decision: &Decision<'_>) -> String {
        let mut out = String::new();
        let mut object = Object::open(&mut out);
        if let Some(attributes) = &decision.attributes {
            write_attributes(attributes, object.member("Attributes"));
        }
        self.capacity.write(&mut object, &table.name, Capacity::of_write(decision.bytes));
        object.close();
        out
    }
}

/// What becomes of an item, and what is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision<'w> {
    pub(crate) change: Change<'w>,
    attributes: Option<Map>,
    /// Bytes of the item, before or after, whichever is more.
    pub(crate) bytes: usize,
    /// The size that is counted for it: of what is put, or of what is known of another item; 0:
    /// none.
    pub(crate) counted: usize,
}

fn returned(request: &Request<'_>, operation: Operation) -> Result<Returned, Error> {
    let words = &["NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"];
    let returned = match request.word("ReturnValues", words)? {
        "ALL_OLD" => Returned::AllOld,
        "UPDATED_OLD" => Returned::UpdatedOld,
        "ALL_NEW" => Returned::AllNew,
        "UPDATED_NEW" => Returned::UpdatedNew,
        _ => Returned::Nothing,
    };
    match (operation, returned) {
        (Operation::Update, _) | (_, Returned::Nothing | Returned::AllOld) => Ok(returned),
        _ => Err(Error::validation(
            "ReturnValues can only be ALL_OLD or NONE: Return values set to invalid value",
        )),
    }
}

pub(crate) fn update_of(
    request: &Request<'_>,
    table: &Table,
    known: &Placeholders<'_>,
) -> Result<Update, Error> {
    let update = match (request.string("UpdateExpression")?, request.object("AttributeUpdates")?) {
        (Some(text), _) => update(&text, "UpdateExpression", known)?,
        (None, Some(json)) => legacy::update(json)?,
        (None, None) => Update::default(),
    };
    if let Some(path) = update.paths().find(|path| table.is_key(&path.root)) {
        return Err(Error::validation(format!(
            "One or more parameter values were invalid: Cannot update attribute {}. This attribute \
             is part of the key",
            path.root
        )));
    }
    Ok(update)
}

fn check_item(item: &Map) -> Result<(), Error> {
    item.keys().try_for_each(|name| check_name(name))?;
    check_size(item_size(item))
}

/// Refuses what keys of indexes cannot have (`index`: *fits-or-refused*).
fn check_indexed<'v>(
    indexed: &[Column],
    value: impl Fn(&str) -> Option<&'v Value>,
) -> Result<(), Error> {
    let written = indexed.iter().filter_map(|column| Some((column, value(&column.name)?)));
    written.into_iter().try_for_each(|(column, value)| component(column, value).map(drop))
}

fn check_size(bytes: usize) -> Result<(), Error> {
    match bytes <= ITEM_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::validation("Item size has exceeded the maximum allowed size")),
    }
}
