//! The request that a write is equal to, in the words of the API.
//!
//! Invariants
//!  - *once-there*: an update is of an item that is there. A deletion of one that is not there does
//!    nothing, whatever else it is to be like.

use super::keys::{all_of, conjuncts, no_key, whole_key};
use super::meaning::Meaning;
use super::tree::{Change, Returning, Term, Test};
use crate::error::Error;
use crate::expression::print::Printed;
use crate::expression::{Condition, Path};
use crate::json::Object;
use crate::table::Table;
use crate::value::{Map, attributes_json, write_attributes};
use crate::write::Operation;

/// What a request has besides its statement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wishes {
    /// `ReturnValuesOnConditionCheckFailure`
    pub(super) shows_failed: bool,
    /// `ReturnConsumedCapacity`, if it is wanted.
    pub(super) capacity: Option<&'static str>,
}

/// A write as the operation that it is equal to, and the parameters of that, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Equal {
    pub(super) operation: Operation,
    pub(super) parameters: String,
    /// The key of the item, as JSON.
    pub(super) key: String,
}

/// A statement that writes, of a table that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing<'a> {
    pub(super) table: &'a Table,
    pub(super) meaning: Meaning<'a>,
    pub(super) wishes: Wishes,
}

impl Writing<'_> {
    /// A put, where there is no item.
    pub(super) fn insert(self, item: &[(String, Term)]) -> Result<Equal, Error> {
        let item = self.meaning.map(item)?;
        let mut key = Map::new();
        for column in self.table.key_columns() {
            let name = &column.name;
            let value = item.get(name).ok_or_else(|| {
                Error::validation(format!(
                    "Key attribute should be present in the item: Key {name}"
                ))
            })?;
            key.insert(name.clone(), value.clone());
        }
        let condition = Condition::NotExists(self.hash());
        self.equal(Operation::Put, (&key, Some(&item)), Some(&condition), |_, _| {})
    }

    /// *once-there*
    pub(super) fn update(
        self,
        changes: &[Change],
        test: Option<&Test>,
        returning: Option<Returning>,
    ) -> Result<Equal, Error> {
        let (key, rest) = self.key(test)?;
        let update = self.meaning.update(changes)?;
        let returned = returning.map(|returning| match (returning.is_all, returning.is_new) {
            (true, false) => "ALL_OLD",
            (true, true) => "ALL_NEW",
            (false, false) => "UPDATED_OLD",
            (false, true) => "UPDATED_NEW",
        });
        let condition = self.is_there(rest);
        self.equal(Operation::Update, (&key, None), Some(&condition), |printed, object| {
            object.string("UpdateExpression", &printed.update(&update));
            returned.iter().for_each(|words| {
                object.string("ReturnValues", words);
            });
        })
    }

    /// *once-there*
    pub(super) fn delete(
        self,
        test: Option<&Test>,
        returning: Option<Returning>,
    ) -> Result<Equal, Error> {
        let (key, rest) = self.key(test)?;
        match returning {
            None | Some(Returning { is_all: true, is_new: false }) => {}
            Some(Returning { is_all, is_new }) => {
                let (all, new) =
                    (if is_all { "ALL" } else { "MODIFIED" }, if is_new { "NEW" } else { "OLD" });
                return Err(Error::validation(format!(
                    "Invalid returning clause: RETURNING {all} {new} *. Only RETURNING ALL OLD * \
                     is allowed in DELETE statements."
                )));
            }
        }
        let is_absent = Condition::NotExists(self.hash());
        let condition = all_of(rest).map(|rest| Condition::Or(vec![is_absent, rest]));
        let more = |_: &mut Printed, object: &mut Object<'_>| {
            if returning.is_some() {
                object.string("ReturnValues", "ALL_OLD");
            }
        };
        self.equal(Operation::Delete, (&key, None), condition.as_ref(), more)
    }

    /// A condition of a transaction.
    pub(super) fn check(self, test: Option<&Test>) -> Result<Equal, Error> {
        let (key, rest) = self.key(test)?;
        if rest.is_empty() {
            return Err(Error::validation(
                "EXISTS() must contain a single item read with additional condition",
            ));
        }
        let condition = self.is_there(rest);
        self.equal(Operation::Check, (&key, None), Some(&condition), |_, _| {})
    }

    fn hash(self) -> Path {
        Path::attribute(self.table.hash().name.clone())
    }

    fn is_there(self, rest: Vec<Condition>) -> Condition {
        let exists = Condition::Exists(self.hash());
        match rest.is_empty() {
            true => exists,
            false => Condition::And(std::iter::once(exists).chain(rest).collect()),
        }
    }

    fn key(self, test: Option<&Test>) -> Result<(Map, Vec<Condition>), Error> {
        let condition = test.map(|test| self.meaning.condition(test)).transpose()?;
        whole_key(self.table, conjuncts(condition))?.ok_or_else(no_key)
    }

    fn equal(
        self,
        operation: Operation,
        (key, item): (&Map, Option<&Map>),
        condition: Option<&Condition>,
        more: impl FnOnce(&mut Printed, &mut Object<'_>),
    ) -> Result<Equal, Error> {
        let mut printed = Printed::default();
        let parameters = self.written((key, item), |object| {
            condition.into_iter().for_each(|condition| {
                object.string("ConditionExpression", &printed.condition(condition));
            });
            more(&mut printed, object);
            printed.write(object);
            if self.wishes.shows_failed {
                object.string("ReturnValuesOnConditionCheckFailure", "ALL_OLD");
            }
        });
        Ok(Equal { operation, parameters, key: attributes_json(key) })
    }

    fn written(
        self,
        (key, item): (&Map, Option<&Map>),
        more: impl FnOnce(&mut Object<'_>),
    ) -> String {
        let mut out = String::new();
        let mut object = Object::open(&mut out);
        object.string("TableName", &self.table.name);
        match item {
            Some(item) => write_attributes(item, object.member("Item")),
            None => write_attributes(key, object.member("Key")),
        }
        more(&mut object);
        if let Some(words) = self.wishes.capacity {
            object.string("ReturnConsumedCapacity", words);
        }
        object.close();
        out
    }
}
