use super::*;
use crate::features::VNODES_TO_TABLETS;
use crate::rows::testing;
use crate::schema::Schema;
use crate::schema::testing::{keyspace, table};
use crate::schema_tables::read;
use crate::schema_tables::stored::{Stored, TABLES, keyspace_of};
use crate::topology::{self, Topology, testing::member};
use auth::State;
use model::ColumnKind;
use mutation::FrozenMutation;
use std::rc::Rc;

const HERE: Here = Here { host_id: Uuid::from_u128(1), shards: 2 };

fn moment(micros: i64) -> Moment {
    Moment { micros, random: 7, host_id: HERE.host_id, shards: HERE.shards, scale: 1.0 }
}

/// A history, with all rows that it wrote.
struct History {
    catalog: Catalog,
    rows: Vec<FrozenMutation>,
    at: i64,
}

impl History {
    /// Two nodes, and a keyspace of the ring with two tables.
    fn new() -> History {
        let schema = Rc::new(Schema::of_system(Uuid::from_u128(1), 2));
        let catalog = Catalog { schema, access: State::default(), topology: Arc::default() };
        let mut history = History { catalog, rows: Vec::new(), at: 10 };
        let features = [VNODES_TO_TABLETS.to_owned()];
        let node = |number, tokens: &[i64]| {
            let node = member(number, ("dc1", "rack1"), tokens);
            TopologyChange::Set(crate::Member { features: features.clone().into(), ..node })
        };
        let changes = vec![
            node(1, &[-70, 5, 900]),
            node(2, &[-5, 77]),
            TopologyChange::Enable(VNODES_TO_TABLETS.to_owned()),
        ];
        history.make(|catalog, at| Command::of_topology(&catalog.topology, changes, at));
        let mut space = keyspace("ks", None);
        space.replication[0].1 = "org.apache.cassandra.locator.NetworkTopologyStrategy".to_owned();
        space.replication[1] = ("dc1".to_owned(), "2".to_owned());
        let made = |name, id| {
            SchemaChange::CreateTable(table(
                "ks",
                name,
                id,
                &[("pk", "int", ColumnKind::PartitionKey)],
            ))
        };
        let changes = vec![SchemaChange::CreateKeyspace(space), made("a", 5), made("b", 6)];
        history.make(|catalog, at| catalog.change_schema(changes, None, moment(at)));
        history
    }

    /// What is found on the disk, by a node that stores so.
    fn found(&self) -> (Schema, Topology) {
        let table = |keyspace, name| {
            let schema = &self.catalog.schema.table(keyspace, name).expect("a system table").schema;
            testing::rows(schema, &self.rows)
        };
        let mut stored = Stored::default();
        TABLES.iter().for_each(|name| stored.add(name, table(keyspace_of(name), name)));
        let mut schema = Schema::of_system(self.catalog.schema.version, 2);
        read::load(&mut schema, &stored, HERE).expect("what was stored");
        let topology = topology::load(&table("system", topology::TABLE)).expect("what was stored");
        (schema, topology)
    }

    fn make(&mut self, decide: impl FnOnce(&Catalog, i64) -> Result<Command, String>) {
        let command = decide(&self.catalog, self.at).expect("a command");
        self.rows.append(&mut command.rows(&self.catalog.schema));
        let before = self.catalog.clone();
        self.catalog = self.catalog.clone().apply(&command);
        self.at = command.last_timestamp();
        // Who follows comes to the same.
        let between = Command::between(&before.schema, &self.catalog.schema, self.at);
        assert_eq!(before.apply(&between).schema, self.catalog.schema);
        let (schema, topology) = self.found();
        assert_eq!(topology, *self.catalog.topology);
        for entry in
            self.catalog.schema.keyspaces.get("ks").iter().flat_map(|it| it.tables.values())
        {
            let stored = schema.table_by_id(entry.schema.id).expect("the table");
            assert_eq!((&stored.replicas, &stored.intended), (&entry.replicas, &entry.intended));
        }
        let image: Catalog = self.catalog.image().into_catalog();
        assert_eq!(image.schema, self.catalog.schema);
    }

    /// The node starts.
    fn restart(&mut self) {
        let (schema, topology) = self.found();
        let mode = topology.intended(HERE.host_id);
        self.catalog.schema = Rc::new(schema.stored_by(mode, HERE));
        for entry in self.catalog.schema.keyspaces["ks"].tables.values() {
            assert_eq!(entry.storage_mode(), mode);
        }
    }

    fn start(&mut self) {
        self.make(|catalog, at| {
            Ok(Command::of_conversion(catalog, "ks", at)?.expect("something is to be done"))
        });
        let more = Command::of_conversion(&self.catalog, "ks", self.at);
        assert_eq!(more, Ok(None));
    }

    fn intend(&mut self, mode: StorageMode) {
        for host in [1, 2].map(Uuid::from_u128) {
            self.make(|catalog, at| Command::of_intention(catalog, host, mode, at));
        }
    }

    fn finalize(&mut self, outcome: StorageMode) {
        self.make(|catalog, at| Command::of_finalization(catalog, "ks", outcome, moment(at)));
        assert!(self.catalog.topology.converting().is_empty());
    }
}

#[test]
fn a_keyspace_is_given_tablets() {
    let mut history = History::new();
    let early = Command::of_finalization(&history.catalog, "ks", StorageMode::Ring, moment(99));
    assert!(early.is_err_and(|why| why.contains("is not being migrated")));
    history.start();
    let tables = |history: &History| -> Vec<_> {
        history.catalog.schema.keyspaces["ks"].tables.values().cloned().collect()
    };
    for entry in tables(&history) {
        assert!(entry.replicas.is_empty() && entry.intended.target() == 4, "{entry:?}");
        assert_eq!(entry.storage_mode(), StorageMode::Ring);
    }
    let refused = |history: &History, change| {
        let refused = history.catalog.change_schema(vec![change], None, moment(history.at));
        assert!(refused.is_err_and(|why| why.contains("is being migrated to tablets")));
    };
    refused(&history, SchemaChange::DropKeyspace("ks".to_owned()));
    refused(&history, SchemaChange::DropTable { keyspace: "ks".to_owned(), name: "a".to_owned() });
    history.intend(StorageMode::Tablets);
    history.restart();
    let given: Vec<_> = tables(&history).iter().map(|it| it.intended.clone()).collect();
    history.finalize(StorageMode::Tablets);
    for (entry, given) in tables(&history).iter().zip(given) {
        assert_eq!(entry.replicas, given);
        assert!(entry.intended.is_empty());
        assert_eq!(entry.tablets.last_tokens(), given.last_tokens());
    }
    let again = Command::of_conversion(&history.catalog, "ks", history.at);
    assert!(again.is_err_and(|why| why.contains("already uses tablets")));
}

#[test]
fn it_is_taken_back() {
    let mut history = History::new();
    for _ in 0..2 {
        history.start();
        history.intend(StorageMode::Tablets);
        history.restart();
        history.intend(StorageMode::Ring);
        history.restart();
        history.finalize(StorageMode::Ring);
        let mut tables = history.catalog.schema.keyspaces["ks"].tables.values();
        assert!(tables.all(|it| it.intended.is_empty() && it.replicas.is_empty()));
        let named = |change| history.catalog.topology.check(&change);
        assert_eq!(named(TopologyChange::Leave(HERE.host_id)), Ok(()));
    }
}
