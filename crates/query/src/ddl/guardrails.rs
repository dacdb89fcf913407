//! Warnings about what was asked for and done, but is seldom wise or has no effect.

use super::options;
use crate::syntax::ast::{
    AlterTable, AlterTableAction, PropertyValue, SchemaStatement, TableProperties,
};
use cluster::{Replication, Schema};

/// Fewer copies than this in a data center are warned of.
const COPIES_WARNED: u32 = 3;

/// The warnings that a statement gives rise to, on the schema as it made it.
pub(super) fn warnings(schema: &Schema, statement: &SchemaStatement) -> Vec<String> {
    match statement {
        SchemaStatement::CreateKeyspace(it) => of_replication(schema, &it.name.text),
        SchemaStatement::AlterKeyspace(it) => of_replication(schema, &it.name.text),
        SchemaStatement::CreateTable(it) => of_table(&it.properties),
        SchemaStatement::AlterTable(AlterTable {
            action: AlterTableAction::With(properties),
            ..
        }) => of_table(properties),
        _ => Vec::new(),
    }
}

/// Of options that have no effect.
fn of_options(properties: &TableProperties) -> Vec<String> {
    let names = properties.properties.iter().map(|property| property.name.text.as_str());
    let ignored = names.filter(|name| options::IGNORED.contains(name));
    ignored.map(|name| format!("The table option {name} has no effect and is not stored")).collect()
}

fn of_table(properties: &TableProperties) -> Vec<String> {
    let mut warnings = of_options(properties);
    warnings.extend(of_compression(properties));
    warnings
}

/// Of compressors whose dictionaries the node does not make.
fn of_compression(properties: &TableProperties) -> Option<String> {
    let last = properties.properties.iter().rfind(|it| it.name.text == "compression");
    let PropertyValue::Map(entries) = &last?.value else { return None };
    let class = entries.iter().find_map(|(name, value)| match (name, value) {
        (name, PropertyValue::Scalar(class))
            if matches!(name.text.as_str(), "class" | "sstable_compression") =>
        {
            class.text.rsplit('.').next()
        }
        _ => None,
    })?;
    let plain = match class {
        "LZ4WithDictsCompressor" => "LZ4Compressor",
        "ZstdWithDictsCompressor" => "ZstdCompressor",
        _ => return None,
    };
    Some(format!(
        "{class} reads files with dictionaries, but no dictionaries are trained here: new files \
         are written as by {plain}"
    ))
}

fn of_replication(schema: &Schema, name: &str) -> Vec<String> {
    let Some(entry) = schema.keyspace(name) else { return Vec::new() };
    let few = |center: &str, copies: u32| {
        format!(
            "Using Replication Factor {center}={copies} lower than the \
             minimum_replication_factor_warn_threshold={COPIES_WARNED} is not recommended."
        )
    };
    match &*entry.replication {
        Replication::Simple(copies) => {
            let mut warnings = vec![format!(
                "Using SimpleStrategy replication class is not recommended, and was used in the \
                 keyspace {name}: it knows no data centers. Use NetworkTopologyStrategy."
            )];
            if (1..COPIES_WARNED).contains(copies) {
                warnings.push(few("replication_factor", *copies));
            }
            warnings
        }
        Replication::PerDataCenter(factors) => factors
            .iter()
            .filter(|(_, copies)| (1..COPIES_WARNED).contains(copies))
            .map(|(center, copies)| few(center, *copies))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ast::Statement;

    #[test]
    fn dictionaries_that_are_not_made_are_warned_of() {
        let check = |text: &str, expected: Option<&str>| {
            let Statement::Schema(statement) = crate::syntax::parse(text).unwrap().statement else {
                panic!("no DDL: {text}")
            };
            let found = warnings(&Schema::of_system(model::Uuid::from_u128(1), 1), &statement);
            assert_eq!(found.len(), expected.is_some() as usize, "{text}: {found:?}");
            assert!(expected.is_none_or(|word| found[0].ends_with(word)), "{text}: {found:?}");
        };
        let create = |with: &str| format!("CREATE TABLE t (p int PRIMARY KEY) WITH {with}");
        let (lz4, zstd) = (Some("as by LZ4Compressor"), Some("as by ZstdCompressor"));
        check(&create("compression = {'class': 'LZ4Compressor'}"), None);
        check(&create("compression = {}"), None);
        check(&create("comment = 'LZ4WithDictsCompressor'"), None);
        check(&create("compression = {'class': 'LZ4WithDictsCompressor'}"), lz4);
        let old = "{'chunk_length_in_kb': 4, 'sstable_compression': 'a.b.ZstdWithDictsCompressor'}";
        check(&create(&format!("compression = {old}")), zstd);
        check("ALTER TABLE t WITH compression = {'class': 'ZstdWithDictsCompressor'}", zstd);
    }
}
