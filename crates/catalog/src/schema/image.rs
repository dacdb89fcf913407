//! A schema as plain data, to be handed to another shard.

use super::{Local, Schema, TableKind};
use crate::placement::Division;
use crate::streams::Streams;
use model::schema::{UserAggregate, UserFunction};
use model::{Keyspace, TableId, TableSchema, UserType, Uuid};
use std::sync::Arc;

/// All that a [`Schema`] holds.
#[derive(Clone, Debug)]
pub struct SchemaImage {
    version: Uuid,
    keyspaces: Vec<(Keyspace, Vec<UserType>)>,
    /// Views and logs are the last ones.
    tables: Vec<(TableSchema, Division, TableKind)>,
    /// Of tables that have any.
    streams: Vec<(TableId, Arc<Streams>)>,
    functions: Vec<UserFunction>,
    aggregates: Vec<UserAggregate>,
}

impl SchemaImage {
    /// That of a snapshot.
    pub fn of<L>(schema: &Schema<L>) -> SchemaImage {
        let mut image = SchemaImage {
            version: schema.version,
            keyspaces: Vec::new(),
            tables: Vec::new(),
            streams: Vec::new(),
            functions: Vec::new(),
            aggregates: Vec::new(),
        };
        for entry in schema.keyspaces.values() {
            let types = entry.types.values().map(|user| (**user).clone()).collect();
            image.keyspaces.push((entry.keyspace.clone(), types));
            image.functions.extend(entry.functions.values().flatten().map(|it| (**it).clone()));
            image.aggregates.extend(entry.aggregates.values().flatten().map(|it| (**it).clone()));
            for table in entry.tables.values() {
                image.tables.push(((*table.schema).clone(), table.division(), table.kind));
                if !table.streams.is_empty() {
                    image.streams.push((table.schema.id, table.streams.clone()));
                }
            }
        }
        image.tables.sort_by_key(|(table, ..)| table.is_derived());
        let (named, by_id) = (image.tables.len(), schema.by_id.len());
        assert!(named == by_id, "indexed: {named} tables by name, {by_id} by id");
        image
    }

    /// The snapshot; with nothing that a shard hung on its tables.
    pub fn into_schema<L: Local>(self) -> Schema<L> {
        let mut schema = Schema::empty(self.version);
        for (keyspace, types) in self.keyspaces {
            schema.insert_keyspace(keyspace);
            types.into_iter().for_each(|user| schema.insert_type(user));
        }
        let count = self.tables.len();
        for (table, division, kind) in self.tables {
            schema.insert_table(table, division, kind);
        }
        self.streams.into_iter().for_each(|(id, streams)| schema.set_streams(id, streams));
        self.functions.into_iter().for_each(|function| schema.insert_function(function));
        self.aggregates.into_iter().for_each(|aggregate| schema.insert_aggregate(aggregate));
        assert!(count == schema.by_id.len(), "indexed: an image of {count} tables lost some");
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_the_whole_schema() {
        let schema = Schema::<()>::of_system(Uuid::from_u128(3), 2);
        assert_eq!(SchemaImage::of(&schema).into_schema::<()>(), schema);
    }
}
