//! A schema as plain data, to be handed to another shard.

use super::{Schema, TableKind};
use model::schema::{UserAggregate, UserFunction};
use model::{Keyspace, TableSchema, TabletMap, UserType, Uuid};

/// All that a [`Schema`] holds.
#[derive(Clone, Debug)]
pub(crate) struct SchemaImage {
    version: Uuid,
    keyspaces: Vec<(Keyspace, Vec<UserType>)>,
    tables: Vec<(TableSchema, TabletMap, TableKind)>,
    functions: Vec<UserFunction>,
    aggregates: Vec<UserAggregate>,
}

impl SchemaImage {
    pub(crate) fn of(schema: &Schema) -> SchemaImage {
        let mut image = SchemaImage {
            version: schema.version,
            keyspaces: Vec::new(),
            tables: Vec::new(),
            functions: Vec::new(),
            aggregates: Vec::new(),
        };
        for entry in schema.keyspaces.values() {
            let types = entry.types.values().map(|user| (**user).clone()).collect();
            image.keyspaces.push((entry.keyspace.clone(), types));
            image.functions.extend(entry.functions.values().flatten().map(|it| (**it).clone()));
            image.aggregates.extend(entry.aggregates.values().flatten().map(|it| (**it).clone()));
            for table in entry.tables.values() {
                let (schema, tablets) = ((*table.schema).clone(), (*table.tablets).clone());
                image.tables.push((schema, tablets, table.kind));
            }
        }
        image
    }

    pub(crate) fn into_schema(self) -> Schema {
        let mut schema = Schema::empty(self.version);
        for (keyspace, types) in self.keyspaces {
            schema.insert_keyspace(keyspace);
            types.into_iter().for_each(|user| schema.insert_type(user));
        }
        for (table, tablets, kind) in self.tables {
            schema.insert_table(table, tablets, kind);
        }
        self.functions.into_iter().for_each(|function| schema.insert_function(function));
        self.aggregates.into_iter().for_each(|aggregate| schema.insert_aggregate(aggregate));
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_the_whole_schema() {
        let schema = Schema::of_system(Uuid::from_u128(3), 2);
        assert_eq!(SchemaImage::of(&schema).into_schema(), schema);
    }
}
