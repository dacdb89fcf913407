//! An item as the writes of one round leave it, one after the other, and what that comes to. Pure.
//!
//! Invariants
//!  - *as-one-after-the-other*: what is written at once leaves the item as its writes would, each
//!    made before the next is judged.
//!  - *an-attribute-a-cell*: as of [`crate::row`]: as long as no write replaces the item, what no
//!    write names is not written.

use crate::key::Key;
use crate::row::Change;
use crate::value::Map;
use std::collections::BTreeSet;

/// An item in the course of a round.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) key: Key,
    /// The attributes of its key.
    key_attributes: Map,
    /// The item as it is now, if it is there.
    item: Option<Map>,
    /// Whether a write has put or deleted it.
    is_replaced: bool,
    /// Whether a write has made it be there.
    creates: bool,
    /// What others have changed.
    named: BTreeSet<String>,
}

impl Standing {
    /// As it was read.
    pub(crate) fn new(key: Key, key_attributes: Map, item: Option<Map>) -> Standing {
        let named = BTreeSet::new();
        Standing { key, key_attributes, item, is_replaced: false, creates: false, named }
    }

    pub(crate) fn item(&self) -> Option<&Map> {
        self.item.as_ref()
    }

    /// A write has been judged on the item, and makes this of it.
    pub(crate) fn take(&mut self, change: &Change<'_>) {
        match change {
            Change::Put(item) => {
                self.is_replaced = true;
                self.item = Some((*item).clone());
            }
            Change::Delete => {
                self.is_replaced = true;
                self.item = None;
            }
            Change::Set { attributes, creates } => {
                self.creates |= creates;
                self.named.extend(attributes.iter().map(|(name, _)| (*name).to_owned()));
                if self.item.is_none() && *creates {
                    self.item = Some(self.key_attributes.clone());
                }
                let Some(item) = &mut self.item else { return };
                for (name, value) in attributes {
                    match value {
                        Some(value) => item.insert((*name).to_owned(), (**value).clone()),
                        None => item.remove(*name),
                    };
                }
            }
        }
    }

    /// What all writes come to; `None`: nothing was written. (*as-one-after-the-other*)
    pub(crate) fn change(&self) -> Option<Change<'_>> {
        match (self.is_replaced, &self.item) {
            (true, Some(item)) => Some(Change::Put(item)),
            (true, None) => Some(Change::Delete),
            (false, _) if self.named.is_empty() && !self.creates => None,
            (false, item) => {
                let value =
                    |name: &String| item.as_ref()?.get(name).map(std::borrow::Cow::Borrowed);
                let attributes = self.named.iter().map(|name| (name.as_str(), value(name)));
                Some(Change::Set { attributes: attributes.collect(), creates: self.creates })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;
    use crate::value::Value;
    use proptest::prelude::*;
    use std::borrow::Cow;

    /// A write without what it borrows.
    #[derive(Clone, Debug)]
    enum Made {
        Put(Map),
        Set(Vec<(String, Option<i64>)>, bool),
        Delete,
    }

    fn number(value: i64) -> Value {
        Value::N(Number::of(value))
    }

    fn item(attributes: &[(String, i64)]) -> Map {
        let mut item: Map = attributes.iter().map(|(n, v)| (n.clone(), number(*v))).collect();
        item.insert("p".to_owned(), number(0));
        item
    }

    fn key_attributes() -> Map {
        item(&[])
    }

    /// What the row of an item is after a change: nothing, or the item.
    fn after(before: Option<Map>, change: &Change<'_>) -> Option<Map> {
        match change {
            Change::Put(item) => Some((*item).clone()),
            Change::Delete => None,
            Change::Set { attributes, creates } => {
                let mut item = match before {
                    None if !creates => return None,
                    before => before.unwrap_or_else(key_attributes),
                };
                for (name, value) in attributes {
                    item.remove(*name);
                    let value = value.as_ref().map(|value| (**value).clone());
                    item.extend(value.map(|value| ((*name).to_owned(), value)));
                }
                Some(item)
            }
        }
    }

    fn changes() -> impl Strategy<Value = Vec<Made>> {
        let put = prop::collection::vec(("[a-d]", 0i64..9), 0..3)
            .prop_map(|attributes| Made::Put(item(&attributes)));
        let set =
            prop::collection::btree_map("[a-d]", prop::option::of(0i64..9), 0..3).prop_map(|set| {
                let creates = set.is_empty() || set.values().any(Option::is_some);
                Made::Set(set.into_iter().collect(), creates)
            });
        let one = prop_oneof![1 => put, 5 => set, 1 => Just(Made::Delete)];
        prop::collection::vec(one, 0..6)
    }

    proptest! {
        #[test]
        fn what_is_written_at_once_is_what_was_written_one_by_one(
            before in prop::option::of(prop::collection::vec(("[a-d]", 0i64..9), 0..3)),
            all in changes(),
        ) {
            let before = before.map(|attributes| item(&attributes));
            let key = Key { partition: vec![0], clustering: Vec::new() };
            let mut standing = Standing::new(key, key_attributes(), before.clone());
            let mut expected = before.clone();
            for made in &all {
                let values: Vec<_> = match made {
                    Made::Set(set, _) => {
                        set.iter().map(|(name, value)| (name, value.map(number))).collect()
                    }
                    _ => Vec::new(),
                };
                let change = match made {
                    Made::Put(item) => Change::Put(item),
                    Made::Delete => Change::Delete,
                    Made::Set(_, creates) => {
                        let values = values.iter();
                        let attributes = values
                            .map(|(name, it)| (name.as_str(), it.as_ref().map(Cow::Borrowed)));
                        Change::Set { attributes: attributes.collect(), creates: *creates }
                    }
                };
                expected = after(expected, &change);
                standing.take(&change);
                prop_assert_eq!(standing.item(), expected.as_ref());
            }
            let at_once = match standing.change() {
                None => before.clone(),
                Some(change) => after(before.clone(), &change),
            };
            prop_assert_eq!(at_once, expected);
            let replaces = all.iter().any(|made| !matches!(made, Made::Set(..)));
            if let Some(Change::Set { attributes, .. }) = standing.change() {
                prop_assert!(!replaces);
                let is_named = |name: &str| all.iter().any(|made| match made {
                    Made::Set(set, _) => set.iter().any(|(known, _)| known == name),
                    _ => false,
                });
                prop_assert!(attributes.iter().all(|(name, _)| is_named(name)));
            }
        }
    }
}
