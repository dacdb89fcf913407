//! Tags of tables. They are kept with the table's schema, where ScyllaDB keeps them, so that they
//! change and replicate as the schema does.
//!
//! ```text
//! tags := count:be32 (name:be32_bytes value:be32_bytes)*
//! ```
//! Tags that begin with `system:table_` are the node's own: clients neither see nor set them. So is
//! that in which ScyllaDB keeps the attribute by which items expire.

use model::TableSchema;
use model::schema::TableOptions;
use std::collections::BTreeMap;
use stdx::{Cursor, Damaged, Put};

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
    let mut cursor = Cursor::new(&found?.1);
    let count = cursor.u32("tags").ok()?;
    let mut pairs = (0..count).map_while(|_| {
        Some((cursor.u32_bytes("a tag's name").ok()?, cursor.u32_bytes("a tag's value").ok()?))
    });
    let (_, value) = pairs.find(|(known, _)| *known == name.as_bytes())?;
    std::str::from_utf8(value).ok()
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
    let mut out = Vec::new();
    out.put_u32(tags.len() as u32);
    for (name, value) in tags {
        out.put_u32_bytes(name.as_bytes());
        out.put_u32_bytes(value.as_bytes());
    }
    out
}

fn decode(bytes: &[u8]) -> Result<Tags, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.u32("tags")?;
    let mut tags = Tags::new();
    for _ in 0..count {
        let mut text = || {
            let bytes = cursor.u32_bytes("a tag")?;
            Ok::<_, Damaged>(String::from_utf8_lossy(bytes).into_owned())
        };
        tags.insert(text()?, text()?);
    }
    Ok(tags)
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
