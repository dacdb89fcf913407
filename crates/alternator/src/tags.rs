//! Tags of tables. They are kept with the table's schema, where and as ScyllaDB keeps them, so that
//! they change and replicate as the schema does, and drivers can read them.
//!
//! Tags that begin with `system:table_` are the node's own: clients neither see nor set them. So is
//! that in which ScyllaDB keeps the attribute by which items expire.

use model::TableSchema;
use model::schema::TableOptions;
use model::schema::extension::{read_texts, write_texts};
use std::collections::BTreeMap;
use stdx::Damaged;

/// The extension of the schema.
const EXTENSION: &str = "scylla_tags";
/// What the node keeps for itself.
const OWN_PREFIX: &str = "system:table_";
const TTL: &str = "system:ttl_attribute";
/// When the table was made, milliseconds.
pub(crate) const CREATED: &str = "system:table_creation_time";
/// `PROVISIONED`, where it is.
pub(crate) const THROUGHPUT: &str = "system:table_provisioned";

pub(crate) type Tags = BTreeMap<String, String>;

/// Those of a table. Damaged ones are none.
pub(crate) fn of(schema: &TableSchema) -> Tags {
    let found = schema.options.extensions.iter().find(|(name, _)| name == EXTENSION);
    found.and_then(|(_, bytes)| decode(bytes).ok()).unwrap_or_default()
}

/// The value of one of them, without the others.
pub(crate) fn one<'s>(schema: &'s TableSchema, name: &str) -> Option<&'s str> {
    one_of(&schema.options, name)
}

fn one_of<'s>(options: &'s TableOptions, name: &str) -> Option<&'s str> {
    let found = options.extensions.iter().find(|(name, _)| name == EXTENSION);
    let (_, value) = read_texts(&found?.1).flatten().find(|(known, _)| *known == name)?;
    Some(value)
}

/// Gives a table these.
pub(crate) fn set(options: &mut TableOptions, tags: &Tags) {
    options.extensions.retain(|(name, _)| name != EXTENSION);
    if !tags.is_empty() {
        options.extensions.push((EXTENSION.to_owned(), encode(tags)));
        options.extensions.sort();
    }
}

/// Whether clients neither see nor set it.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(OWN_PREFIX) || name == TTL
}

fn encode(tags: &Tags) -> Vec<u8> {
    write_texts(tags.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

fn decode(bytes: &[u8]) -> Result<Tags, Damaged> {
    read_texts(bytes)
        .map(|text| text.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tags_go_both_ways(tags: Tags) {
            prop_assert_eq!(decode(&encode(&tags)).unwrap(), tags);
        }

        #[test]
        fn one_is_found_as_among_all(tags: Tags, other: String) {
            let mut options = TableOptions::default();
            set(&mut options, &tags);
            for name in tags.keys().chain([&other]) {
                prop_assert_eq!(one_of(&options, name), tags.get(name).map(String::as_str));
            }
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
