//! Schemas made by statements, for tests.

use super::{Context, Decision, Rules, decide};
use cluster::{DataCenter, Schema, SchemaChange};
use model::Uuid;
use syntax::ast::Statement;
use syntax::parse;

/// Statements are decided on a node of one rack in `dc1`, two microseconds apart.
#[derive(Debug)]
pub struct Node {
    pub schema: Schema,
    pub rules: Rules,
    pub data_centers: Vec<DataCenter>,
    /// Whether all nodes of the cluster can have views and indexes.
    pub has_views: bool,
    /// Whether they count levels by what each tablet has.
    pub changes_many: bool,
    /// The same of logs, and whether there are streams of the ring.
    pub has_cdc: bool,
    pub has_streams: bool,
    statements: u32,
}

impl Node {
    /// The system alone.
    pub fn empty() -> Node {
        let (name, racks) = ("dc1".to_owned(), vec!["r1".to_owned()]);
        let data_centers = vec![DataCenter { name, racks, owners: 1 }];
        let schema = Schema::of_system(Uuid::nil(), 1);
        Node {
            schema,
            rules: Rules::of_tools(),
            data_centers,
            has_views: true,
            changes_many: true,
            has_cdc: true,
            has_streams: true,
            statements: 0,
        }
    }

    /// After these statements, which all succeed.
    pub fn after(setup: &[&str]) -> Node {
        let mut node = Node::empty();
        for text in setup {
            let changes = node.decide(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            node.apply(changes);
        }
        node
    }

    /// Carries out what was decided.
    pub fn apply(&mut self, changes: Vec<SchemaChange>) {
        self.statements += 1;
        let micros = i64::from(self.statements) * 2;
        self.schema = self.schema.after(changes, micros, 1).expect("decisions can be carried out");
    }

    /// What a statement changes, with keyspace `ks` in use.
    pub fn decide(&self, text: &str) -> Decision {
        let parsed = parse(text)?;
        let Statement::Schema(statement) = parsed.statement else { panic!("no DDL: {text}") };
        decide(&self.schema, &statement, &self.context())
    }

    fn context(&self) -> Context {
        Context {
            keyspace: Some("ks".to_owned()),
            data_centers: self.data_centers.clone(),
            table_id: Uuid::from_u128(u128::from(self.statements) + 1),
            log_id: Uuid::from_u128(u128::from(self.statements) + (1 << 64)),
            now_micros: i64::from(self.statements) * 2 + 1,
            timestamp: None,
            rules: self.rules.clone(),
            has_views: self.has_views,
            changes_many: self.changes_many,
            has_cdc: self.has_cdc,
            has_streams: self.has_streams,
        }
    }
}
