//! Warnings about what was asked for and done, but is seldom wise.

use crate::syntax::ast::SchemaStatement;
use cluster::{Replication, Schema};

/// Fewer copies than this in a data center are warned of.
const COPIES_WARNED: u32 = 3;

/// The warnings that a statement gives rise to, on the schema as it made it.
pub(super) fn warnings(schema: &Schema, statement: &SchemaStatement) -> Vec<String> {
    let name = match statement {
        SchemaStatement::CreateKeyspace(it) => &it.name.text,
        SchemaStatement::AlterKeyspace(it) => &it.name.text,
        _ => return Vec::new(),
    };
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
