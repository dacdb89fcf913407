//! Warnings about what was asked for and done, but is seldom wise or has no effect.

use super::options;
use crate::syntax::ast::{AlterTable, AlterTableAction, SchemaStatement, TableProperties};
use cluster::{Replication, Schema};

/// Fewer copies than this in a data center are warned of.
const COPIES_WARNED: u32 = 3;

/// The warnings that a statement gives rise to, on the schema as it made it.
pub(super) fn warnings(schema: &Schema, statement: &SchemaStatement) -> Vec<String> {
    match statement {
        SchemaStatement::CreateKeyspace(it) => of_replication(schema, &it.name.text),
        SchemaStatement::AlterKeyspace(it) => of_replication(schema, &it.name.text),
        SchemaStatement::CreateTable(it) => of_options(&it.properties),
        SchemaStatement::AlterTable(AlterTable {
            action: AlterTableAction::With(properties),
            ..
        }) => of_options(properties),
        _ => Vec::new(),
    }
}

/// Of options that have no effect.
fn of_options(properties: &TableProperties) -> Vec<String> {
    let names = properties.properties.iter().map(|property| property.name.text.as_str());
    let ignored = names.filter(|name| options::IGNORED.contains(name));
    ignored.map(|name| format!("The table option {name} has no effect and is not stored")).collect()
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
