//! The table that the mutation fragments of a table are shown as.

use super::{TableId, TableSchema};
use crate::types::Type;

/// The regular columns: what kind of fragment it is,
pub const KIND: &str = "mutation_fragment_kind";
/// its timestamps and deletions,
pub const METADATA: &str = "metadata";
/// and its values.
pub const VALUE: &str = "value";

/// Between the id of a table and that of its fragments: a paging state of one is none of the
/// other.
const ID_MASK: u128 = 0x6d75_7461_7469_6f6e_2066_7261_676d_656e;

/// The id of the table of a table's fragments.
pub fn output_id(base: TableId) -> TableId {
    TableId::from_u128(base.as_u128() ^ ID_MASK)
}

/// The table of a table's fragments; an error where a key column has the name of one of its own.
pub fn output_schema(base: &TableSchema) -> Result<TableSchema, String> {
    let name = format!("{}_$mutation_fragments", base.name);
    let mut table = TableSchema::builder(&base.keyspace, &name, output_id(base.id));
    for column in base.partition_key() {
        table = table.partition_key(&column.name, column.ty.clone());
    }
    table = table.clustering("mutation_source", Type::Text);
    table = table.clustering("partition_region", Type::TinyInt);
    for column in base.clustering() {
        table = match column.reversed {
            true => table.clustering_descending(&column.name, column.ty.clone()),
            false => table.clustering(&column.name, column.ty.clone()),
        };
    }
    table = table.clustering("position_weight", Type::TinyInt);
    for name in [KIND, METADATA, VALUE] {
        table = table.regular(name, Type::Text);
    }
    table.build().map_err(|invalid| invalid.0)
}
