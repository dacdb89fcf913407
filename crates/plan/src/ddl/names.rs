//! Whether names fit into the tables that keep the schema, where they are parts of keys.
//!
//! Invariants
//!  - *storable*: no change that is asked for needs a longer key than a table of the system can
//!    have.

use crate::error::Error;
use cluster::SchemaChange;
use model::Type;

/// Bytes of a key at most, with the lengths of its two parts.
const KEY_BYTES_MAX: usize = 65_535;
const AROUND_BYTES: usize = 4;
/// The same of a list, and of each of its items.
const LIST_BYTES: usize = 4;

/// An error for a change whose names are too long together.
pub(super) fn check(change: &SchemaChange) -> Result<(), Error> {
    match change {
        SchemaChange::CreateTable(table) | SchemaChange::AlterTable(table) => {
            let columns = table.columns.iter().map(|column| &column.name);
            let indexes = table.indexes.iter().map(|index| &index.name);
            let dropped = table.dropped.iter().map(|column| &column.name);
            let mut names = columns.chain(dropped).chain(indexes);
            names.try_for_each(|column| fits(table.name.len(), column.len()))
        }
        SchemaChange::CreateFunction(it) => fits(it.name.len(), listed(it.argument_types())),
        SchemaChange::CreateAggregate(it) => fits(it.name.len(), listed(it.arguments.iter())),
        _ => Ok(()),
    }
}

/// The bytes of types as a list of their names.
fn listed<'t>(types: impl Iterator<Item = &'t Type>) -> usize {
    LIST_BYTES + types.map(|ty| LIST_BYTES + ty.to_cql().len()).sum::<usize>()
}

fn fits(first: usize, second: usize) -> Result<(), Error> {
    let bytes = first + second + AROUND_BYTES;
    match bytes <= KEY_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "Key length of {bytes} is longer than maximum of {KEY_BYTES_MAX}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::ddl::testing::Node;

    #[test]
    fn names_that_no_key_can_hold_are_refused() {
        let mut node = Node::after(&["CREATE KEYSPACE ks WITH replication = {'class': \
                                      'SimpleStrategy', 'replication_factor': 1}"]);
        let refused = |node: &Node, text: String| {
            let error = node.decide(&text).map(drop).expect_err(&text[..40]);
            assert!(error.to_string().starts_with("Key length of 6"), "{error}");
        };
        let longest = "k".repeat(super::KEY_BYTES_MAX - super::AROUND_BYTES - "t".len());
        refused(&node, format!("CREATE TABLE t ({longest}k int PRIMARY KEY)"));
        let table = node.decide(&format!("CREATE TABLE t (a int PRIMARY KEY, {longest} int)"));
        node.apply(table.expect("a table"));
        refused(&node, format!("ALTER TABLE t ADD {longest}k int"));
        refused(&node, format!("ALTER TABLE t RENAME a TO {longest}k"));
        let arguments: Vec<String> = (0..9400).map(|number| format!("a{number} int")).collect();
        refused(
            &node,
            format!(
                "CREATE FUNCTION f ({}) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS ''",
                arguments.join(", ")
            ),
        );
    }
}
