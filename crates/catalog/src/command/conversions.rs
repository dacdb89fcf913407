//! Keyspaces that are given tablets: the commands ([`crate::placement::conversion`]).

use super::{Catalog, Command, Moment};
use crate::placement::tablets::Load;
use crate::placement::{Here, Ring, TabletReplicas, conversion};
use crate::schema::{Local, SchemaChange, TabletsAfter};
use crate::schema_tables::CHANGE_MICROS;
use crate::topology::{StorageMode, TopologyChange};
use crate::uuids::time_uuid;
use model::{Keyspace, Uuid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of maps that one command writes at most.
const ROWS_MAX: usize = 8192;

impl Command {
    /// Begins to give tablets to a keyspace, or goes on with that: some more of its tables get
    /// their maps, later than `micros`. `None`: all have them. Says why that cannot be.
    pub fn of_conversion<L: Local>(
        catalog: &Catalog<L>,
        keyspace: &str,
        micros: i64,
    ) -> Result<Option<Command>, String> {
        let (schema, topology) = (&catalog.schema, &catalog.topology);
        let entry = schema.keyspace(keyspace).ok_or(format!("there is no keyspace {keyspace}"))?;
        let mut command = Command::empty(micros);
        if !topology.converting().contains(keyspace) {
            if let Some(why) = entry.why_not_converted() {
                return Err(why);
            }
            let begins = TopologyChange::Convert(keyspace.to_owned());
            topology.check(&begins)?;
            let after = Arc::new(topology.apply(&begins));
            command.topology = Some((vec![begins], after));
        }
        let (ring, mut load, mut rows) = (Ring::settled(topology), Load::default(), 0);
        schema.tables().for_each(|table| load.add(table.stored_tablets()));
        for table in entry.tables.values().filter(|table| table.intended.is_empty()) {
            let replicas = conversion::map(&ring, &entry.replication, &load)?;
            if ROWS_MAX < replicas.count() {
                let (name, count) = (&table.schema.name, replicas.count());
                return Err(format!("{keyspace}.{name} would have {count} tablets: too many"));
            }
            rows += replicas.count();
            if ROWS_MAX < rows {
                break;
            }
            load.add(&replicas);
            command.tablets.push(all_of(table.schema.id, replicas));
        }
        let is_nothing = command.tablets.is_empty() && command.topology.is_none();
        Ok((!is_nothing).then_some(command))
    }

    /// A node is to store such keyspaces so, from its next start on. Says why that cannot be.
    pub fn of_intention<L: Local>(
        catalog: &Catalog<L>,
        host_id: Uuid,
        mode: StorageMode,
        micros: i64,
    ) -> Result<Command, String> {
        let intend = TopologyChange::Intend(host_id, mode);
        catalog.topology.check(&intend)?;
        for name in catalog.topology.converting() {
            catalog.check_maps(name)?;
        }
        Command::of_topology(&catalog.topology, vec![intend], micros)
    }

    /// The keyspace is one with tablets, or its tables are given none after all, by how all nodes
    /// store them (*all-or-none*). Says why that cannot be.
    pub fn of_finalization<L: Local>(
        catalog: &Catalog<L>,
        keyspace: &str,
        outcome: StorageMode,
        moment: Moment,
    ) -> Result<Command, String> {
        let entry = catalog.schema.keyspace(keyspace);
        let entry = entry.ok_or(format!("there is no keyspace {keyspace}"))?;
        let ends = TopologyChange::Converted(keyspace.to_owned());
        catalog.topology.check(&ends)?;
        let after = Arc::new(catalog.topology.apply(&ends));
        let topology = Some((vec![ends], after));
        let command = Command { topology, ..Command::empty(moment.micros) };
        if outcome == StorageMode::Ring {
            let given = entry.tables.values().filter(|table| !table.intended.is_empty());
            let none = |id| all_of(id, TabletReplicas::default());
            let tablets = given.map(|table| none(table.schema.id)).collect();
            return Ok(Command { tablets, ..command });
        }
        catalog.check_maps(keyspace)?;
        let Moment { micros, random, host_id, shards, scale } = moment;
        let altered = Keyspace { initial_tablets: Some(0), ..entry.keyspace.clone() };
        let changes = vec![SchemaChange::AlterKeyspace(altered)];
        let here = Here { host_id, shards };
        let complete = catalog.schema.complete(changes, micros, &catalog.topology, here, scale)?;
        let version = time_uuid(micros + CHANGE_MICROS, random);
        assert!(version != catalog.schema.version, "versions-differ: {version} again");
        let (decided_on, schema) = (Some(catalog.schema.version), Some((complete, version)));
        Ok(Command { decided_on, schema, ..command })
    }
}

/// All tablets of a table, in place of what there was.
fn all_of(table: Uuid, replicas: TabletReplicas) -> TabletsAfter {
    let changed: BTreeSet<usize> = (0..replicas.count()).collect();
    TabletsAfter { table, replicas, changed, resized: true }
}

impl<L: Local> Catalog<L> {
    /// Whether all tables of a keyspace have maps of the tablets that they are being given.
    fn check_maps(&self, keyspace: &str) -> Result<(), String> {
        let tables = self.schema.keyspace(keyspace).into_iter().flat_map(|it| it.tables.values());
        match tables.into_iter().find(|table| table.intended.is_empty()) {
            None => Ok(()),
            Some(table) => Err(format!(
                "table {keyspace}.{} does not have a tablet map: start the migration of the \
                 keyspace again",
                table.schema.name
            )),
        }
    }

    /// Which tables a keyspace has, and where, does not change while it is given tablets; nor does
    /// a table get a log while its tablets are to become fewer.
    pub(super) fn check_conversions(&self, change: &SchemaChange) -> Result<(), String> {
        let name = match change {
            SchemaChange::CreateTable(table) => {
                let log = table.log.as_ref();
                let base = log.and_then(|log| self.schema.table_by_id(log.base));
                if let Some(base) = base.filter(|base| base.replicas.target() != 0) {
                    let (name, target) = (&base.schema.name, base.replicas.target());
                    let keyspace = &base.schema.keyspace;
                    return Err(format!(
                        "{keyspace}.{name} has come from the ring, and gets a log of changes when \
                         it has {target} tablets"
                    ));
                }
                &table.keyspace
            }
            SchemaChange::AlterKeyspace(keyspace) => &keyspace.name,
            SchemaChange::DropKeyspace(name) => name,
            SchemaChange::DropTable { keyspace, .. } => keyspace,
            _ => return Ok(()),
        };
        match self.topology.converting().contains(name) {
            false => Ok(()),
            true => Err(format!(
                "keyspace {name} is being migrated to tablets: no table of it is made or dropped, \
                 nor is it altered or dropped, before that is finalized or taken back (nodetool \
                 migrate-to-tablets finalize {name})"
            )),
        }
    }
}

#[cfg(test)]
mod tests;
