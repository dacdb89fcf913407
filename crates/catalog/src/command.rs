//! The whole catalog as one snapshot, and commands: the way from one to the next.
//!
//! A command is a value that names everything: it was decided on one snapshot, and whoever applies
//! it to that one has the same next one. What makes it durable (its [`Command::rows`]), and what
//! shows it, is above: on one node, the registry of `cluster`; with several, a log that they share.
//!
//! Invariants
//!  - *later-than-all*: the timestamps of a command's rows are later than those of all commands
//!    before it, and those of its changes ascend.
//!  - *whole*: a command is applied as one; no snapshot has a part of it.
//!  - *decided-on*: a command that changes the schema is applied to the one that it was decided on,
//!    once. Then [`Catalog::apply`] cannot fail; whoever orders commands sees to it.
//!  - *versions-differ*: the schema has another version after each of its changes.

mod conversions;

use crate::facts;
use crate::features;
use crate::grants::consequences;
use crate::placement::{Here, Repairs, Resize, TabletStep};
use crate::schema::{Complete, Local, Schema, SchemaChange, SchemaImage, TabletsAfter};
use crate::schema_tables::CHANGE_MICROS;
use crate::topology::{self, Topology, TopologyChange};
use crate::uuids::time_uuid;
use crate::{access_tables, schema_tables};
use auth::State;
use model::{TableId, Uuid};
use mutation::FrozenMutation;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Schema, roles and grants, service levels, nodes.
#[derive(Clone, Debug)]
pub struct Catalog<L = ()> {
    pub schema: Rc<Schema<L>>,
    pub access: State,
    pub topology: Arc<Topology>,
}

/// The same as plain data, to be handed to another shard.
#[derive(Clone, Debug)]
pub struct CatalogImage {
    schema: SchemaImage,
    access: State,
    topology: Arc<Topology>,
}

/// What a decision about the schema takes from its surroundings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Microseconds, later than all timestamps of the commands before.
    pub micros: i64,
    /// Tells the schema's version from others of that time.
    pub random: u64,
    /// Of the node: who it is, and its shards.
    pub host_id: Uuid,
    pub shards: u16,
    /// Tablets of a new table for each shard, where nothing is said of their number.
    pub scale: f64,
}

/// One change of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Microseconds; what it writes has later timestamps.
    begins_at: i64,
    /// The version of the schema that it was decided on; `None`: any.
    decided_on: Option<Uuid>,
    /// The changes of the schema and its version after them.
    schema: Option<(Complete, Uuid)>,
    access: Vec<auth::Change>,
    /// Which tablets some tables have after it, and where.
    tablets: Vec<TabletsAfter>,
    /// The changes of the topology, and the one after them.
    topology: Option<(Vec<TopologyChange>, Arc<Topology>)>,
    /// What is noted beside it, by name.
    facts: Vec<(&'static str, String)>,
}

/// The features of the cluster, as other tools look for them.
pub(crate) fn enabled<L: Local>(schema: &Schema<L>, of: &Topology, at: i64) -> FrozenMutation {
    let names = features::joined(of.enabled());
    debug_assert!(!names.is_empty(), "whole: the cluster has no feature");
    facts::fact(schema, facts::ENABLED_FEATURES, &names, at)
}

impl Command {
    /// Changes of roles, grants and service levels, later than `micros`.
    pub fn of_access(access: Vec<auth::Change>, micros: i64) -> Command {
        Command { access, ..Command::empty(micros) }
    }

    /// Changes of the nodes, later than `micros`; `before` is the topology that they were decided
    /// on. Says why they cannot be made.
    pub fn of_topology(
        before: &Topology,
        changes: Vec<TopologyChange>,
        micros: i64,
    ) -> Result<Command, String> {
        let mut after = before.clone();
        for change in &changes {
            after.check(change)?;
            after = after.apply(change);
        }
        Ok(Command { topology: Some((changes, Arc::new(after))), ..Command::empty(micros) })
    }

    /// A command that changes nothing.
    fn empty(micros: i64) -> Command {
        assert!(0 <= micros, "later-than-all: a command before 1970: {micros}");
        Command {
            begins_at: micros,
            decided_on: None,
            schema: None,
            access: Vec::new(),
            tablets: Vec::new(),
            topology: None,
            facts: Vec::new(),
        }
    }

    /// Steps of tablets on their way to other nodes, later than `micros`; `before` is the schema
    /// that they were decided on. Says why they cannot be made.
    pub fn of_tablets<L: Local>(
        before: &Schema<L>,
        steps: &BTreeMap<TableId, Vec<(usize, TabletStep)>>,
        micros: i64,
    ) -> Result<Command, String> {
        let mut command = Command::empty(micros);
        let session = u64::try_from(command.last_timestamp()).expect("later-than-all: before 1970");
        for (table, steps) in steps {
            let entry = before.table_by_id(*table).ok_or(format!("there is no table {table}"))?;
            for (tablet, step) in steps {
                entry.replicas.check(*tablet, step)?;
            }
            let changed: BTreeSet<usize> = steps.iter().map(|(tablet, _)| *tablet).collect();
            assert!(changed.len() == steps.len(), "stage-by-stage: a tablet makes two steps");
            let replicas = entry.replicas.after(steps, session);
            command.tablets.push(TabletsAfter { table: *table, replicas, changed, resized: false });
        }
        Ok(command)
    }

    /// Tables were repaired in ranges, from their first token to their last, at a millisecond since
    /// 1970 each; later than `micros`. `before` is the schema that it was decided on. `None`: that
    /// is known, or of no tablet.
    pub fn of_repairs<L: Local>(
        before: &Schema<L>,
        repairs: &BTreeMap<TableId, Repairs>,
        micros: i64,
    ) -> Option<Command> {
        let mut command = Command::empty(micros);
        for (table, repairs) in repairs {
            let Some(entry) = before.table_by_id(*table) else { continue };
            let replicas = entry.replicas.after_repairs(repairs);
            let changed = replicas.differing(&entry.replicas);
            if !changed.is_empty() {
                let table = *table;
                let resized = false;
                command.tablets.push(TabletsAfter { table, replicas, changed, resized });
            }
        }
        debug_assert!(command.schema.is_none(), "whole: a repair changes the schema");
        (!command.tablets.is_empty()).then_some(command)
    }

    /// Another number of tablets of some tables, later than `micros`; `before` is the schema that
    /// it was decided on. Says why that cannot be.
    pub fn of_resizes<L: Local>(
        before: &Schema<L>,
        resizes: &BTreeMap<TableId, Resize>,
        micros: i64,
    ) -> Result<Command, String> {
        let mut command = Command::empty(micros);
        for (table, resize) in resizes {
            let entry = before.table_by_id(*table).ok_or(format!("there is no table {table}"))?;
            if entry.replicas.is_empty() {
                return Err(format!("table {table} has no tablets"));
            }
            let name = || format!("{}.{}", entry.schema.keyspace, entry.schema.name);
            if !entry.may_be_resized() {
                return Err(format!("{}: who reads its changes goes by tablets", name()));
            }
            let resized = entry.replicas.resized(*resize);
            let replicas = resized.map_err(|why| format!("{}: {why}", name()))?;
            let changed = replicas.differing(&entry.replicas);
            assert!(!changed.is_empty(), "whole: {resize:?} of {table} changes nothing");
            command.tablets.push(TabletsAfter { table: *table, replicas, changed, resized: true });
        }
        Ok(command)
    }

    /// What led from a snapshot of the schema to another one, whose rows are there already, until
    /// `last`. For who has to show it.
    pub fn between<L: Local>(before: &Schema<L>, after: &Schema<L>, last: i64) -> Command {
        let complete = after.changes_since(before);
        let begins_at = last - CHANGE_MICROS * complete.changes.len().max(1) as i64;
        let differs = before.version != after.version;
        assert!(differs || complete.changes.is_empty(), "versions-differ: two of one version");
        let (decided_on, schema) = (Some(before.version), Some((complete, after.version)));
        let schema = schema.filter(|_| differs);
        let tablets = after.tablets_since(before);
        Command { decided_on, schema, tablets, ..Command::empty(begins_at) }
    }

    /// The same, and a fact.
    pub fn noting(mut self, name: &'static str, value: &str) -> Command {
        let is_new = self.facts.iter().all(|(other, _)| *other != name);
        assert!(is_new, "whole: a command notes {name} twice");
        self.facts.push((name, value.to_owned()));
        self
    }

    /// The latest timestamp of what it writes.
    pub fn last_timestamp(&self) -> i64 {
        self.begins_at + CHANGE_MICROS * self.schema_changes().len().max(1) as i64
    }

    /// Its changes of the schema.
    pub fn schema_changes(&self) -> &[SchemaChange] {
        self.schema.as_ref().map_or(&[], |(complete, _)| &complete.changes)
    }

    /// Its changes of roles, grants and service levels.
    pub fn access_changes(&self) -> &[auth::Change] {
        &self.access
    }

    /// The tables whose tablets are others after it, or elsewhere.
    pub fn tablets(&self) -> &[TabletsAfter] {
        &self.tablets
    }

    /// Those of them that have another number of tablets after it.
    pub fn resized(&self) -> impl Iterator<Item = TableId> {
        self.tablets.iter().filter(|it| it.resized).map(|it| it.table)
    }

    /// Its changes of the nodes.
    pub fn topology_changes(&self) -> &[TopologyChange] {
        self.topology.as_ref().map_or(&[], |(changes, _)| changes)
    }

    /// The schema's version after it, if it changes the schema.
    pub fn version(&self) -> Option<Uuid> {
        self.schema.as_ref().map(|(_, version)| *version)
    }

    /// The schema after it, if it changes the schema. `before` is the one that it was decided on.
    pub fn schema_after<L: Local>(&self, before: &Schema<L>) -> Option<Schema<L>> {
        self.check_decided_on(before);
        self.schema.as_ref().map(|(complete, version)| before.apply(complete, *version))
    }

    /// All that makes it durable, to be written as one: rows of system tables. `before` is the
    /// schema that it was decided on.
    pub fn rows<L: Local>(&self, before: &Schema<L>) -> Vec<FrozenMutation> {
        self.check_decided_on(before);
        let last = self.last_timestamp();
        let mut rows = Vec::new();
        if let Some((complete, version)) = &self.schema {
            let begins_at = self.begins_at;
            let (mut of_schema, until) = schema_tables::mutations(before, complete, begins_at);
            assert!(until <= last, "later-than-all: rows of {until} in a command until {last}");
            assert!(begins_at < until, "later-than-all: rows of {until} are not after the begin");
            rows.append(&mut of_schema);
            rows.extend(facts::version(before, *version, last));
        }
        rows.append(&mut schema_tables::tablet_rows(before, &self.tablets, last));
        let is_of_schema = self.schema.is_some() || !self.tablets.is_empty();
        let notes_access = !self.access.is_empty() || !is_of_schema;
        if notes_access {
            rows.append(&mut access_tables::mutations(before, &self.access, last));
            rows.push(facts::fact(before, facts::ACCESS_CHANGED_AT, &last.to_string(), last));
        }
        if let Some((changes, after)) = &self.topology {
            rows.push(topology::mutation(after, changes, last));
            if changes.iter().any(|change| matches!(change, TopologyChange::Enable(_))) {
                rows.push(enabled(before, after, last));
            }
        }
        let noted = self.facts.iter().map(|(name, value)| facts::fact(before, name, value, last));
        rows.extend(noted);
        rows
    }

    fn check_decided_on<L>(&self, schema: &Schema<L>) {
        let (on, present) = (self.decided_on, schema.version);
        assert!(on.is_none_or(|on| on == present), "decided-on: {on:?} is applied to {present}");
    }
}

impl<L: Local> Catalog<L> {
    /// The command that makes these changes of the schema, of one statement, and what follows for
    /// grants: `creator` may do everything with what it makes. Says why they cannot be made.
    pub fn change_schema(
        &self,
        changes: Vec<SchemaChange>,
        creator: Option<&str>,
        moment: Moment,
    ) -> Result<Command, String> {
        let Moment { micros, random, host_id, shards, scale } = moment;
        changes.iter().try_for_each(|change| self.check_moves(change))?;
        changes.iter().try_for_each(|change| self.check_conversions(change))?;
        let here = Here { host_id, shards };
        let complete = self.schema.complete(changes, micros, &self.topology, here, scale)?;
        let of = |change| consequences(&self.access, &self.schema, change, creator);
        let access = complete.changes.iter().flat_map(of).collect();
        let last = micros + CHANGE_MICROS * complete.changes.len() as i64;
        let version = time_uuid(last, random);
        assert!(version != self.schema.version, "versions-differ: {version} again");
        let schema = Some((complete, version));
        let decided_on = Some(self.schema.version);
        let command = Command { decided_on, schema, access, ..Command::empty(micros) };
        assert!(command.last_timestamp() == last, "later-than-all: the version is not the last");
        Ok(command)
    }

    /// Where data is to be does not change while data are on their way.
    fn check_moves(&self, change: &SchemaChange) -> Result<(), String> {
        let SchemaChange::AlterKeyspace(next) = change else { return Ok(()) };
        let known = self.schema.keyspace(&next.name).map(|entry| &entry.keyspace);
        let is_same = known.is_none_or(|known| known.replication == next.replication);
        match self.topology.stage() {
            Some(stage) if !is_same => Err(format!(
                "the replication of keyspace {} cannot change while nodes join or leave ({}): try \
                 again when they have arrived",
                next.name,
                stage.name()
            )),
            _ => Ok(()),
        }
    }

    /// The next snapshot.
    pub fn apply(self, command: &Command) -> Catalog<L> {
        command.check_decided_on(&self.schema);
        let Catalog { schema, mut access, mut topology } = self;
        let generation = access.generation();
        let schema = match &command.schema {
            Some((complete, version)) => Rc::new(schema.apply(complete, *version)),
            None => schema,
        };
        let schema = match command.tablets.is_empty() {
            true => schema,
            false => Rc::new((*schema).clone().with_tablets(&command.tablets)),
        };
        command.access.iter().cloned().for_each(|change| access.apply(change));
        let is_newer = generation < access.generation();
        assert!(is_newer || command.access.is_empty(), "whole: an access change is not shown");
        if let Some((changes, after)) = &command.topology {
            let later = topology.version() < after.version();
            assert!(later || changes.is_empty(), "decided-on: another topology came in between");
            topology = after.clone();
        }
        Catalog { schema, access, topology }
    }

    /// As plain data.
    pub fn image(&self) -> CatalogImage {
        let (schema, access) = (SchemaImage::of(&self.schema), self.access.clone());
        CatalogImage { schema, access, topology: self.topology.clone() }
    }
}

impl CatalogImage {
    /// The snapshot; with nothing that a shard hung on its tables.
    pub fn into_catalog<L: Local>(self) -> Catalog<L> {
        let CatalogImage { schema, access, topology } = self;
        Catalog { schema: Rc::new(schema.into_schema()), access, topology }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::testing;
    use crate::schema::testing::{keyspace, table};
    use crate::schema_tables::read;
    use crate::schema_tables::stored::{Stored, TABLES, keyspace_of};
    use auth::decide::{Otherwise, RoleOptions};
    use model::ColumnKind;

    fn new() -> Catalog {
        let schema = Rc::new(Schema::of_system(Uuid::from_u128(1), 2));
        Catalog { schema, access: State::default(), topology: Arc::default() }
    }

    fn moment(micros: i64) -> Moment {
        Moment { micros, random: 7, host_id: Uuid::from_u128(9), shards: 2, scale: 1.0 }
    }

    fn creation() -> Vec<SchemaChange> {
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let made = SchemaChange::CreateTable(table("ks", "t", 5, &columns));
        vec![SchemaChange::CreateKeyspace(keyspace("ks", Some(4))), made]
    }

    fn role(catalog: &Catalog, name: &str) -> Vec<auth::Change> {
        let made =
            catalog.access.create_role(name, RoleOptions::default(), None, Otherwise::Refused);
        made.expect("a role")
    }

    /// What is found on the disk after these rows.
    fn found(catalog: &Catalog, rows: &[FrozenMutation]) -> (Schema, String) {
        let table = |keyspace, name| {
            let schema = &catalog.schema.table(keyspace, name).expect("a system table").schema;
            testing::rows(schema, rows)
        };
        let mut stored = Stored::default();
        TABLES.iter().for_each(|name| stored.add(name, table(keyspace_of(name), name)));
        let mut schema = Schema::of_system(catalog.schema.version, 2);
        let here = Here { host_id: Uuid::from_u128(9), shards: 2 };
        read::load(&mut schema, &stored, here).expect("what was stored");
        let access = access_tables::TABLES.map(|name| (name, table("system", name)));
        let access = access_tables::load(&access.into());
        let grants = access.grants_of("me").iter().map(|it| it.resource.name()).collect::<Vec<_>>();
        (schema, grants.join(" "))
    }

    #[test]
    fn what_is_durable_is_what_is_shown() {
        let (catalog, mut rows) = (new(), Vec::new());
        let command = Command::of_access(role(&catalog, "me"), 10);
        rows.append(&mut command.rows(&catalog.schema));
        let catalog = catalog.apply(&command);
        let command =
            catalog.change_schema(creation(), Some("me"), moment(command.last_timestamp()));
        let command = command.expect("a command");
        rows.append(&mut command.rows(&catalog.schema));
        let catalog = catalog.apply(&command);
        assert_eq!(command.version(), Some(catalog.schema.version));
        let (schema, grants) = found(&catalog, &rows);
        assert_eq!(schema, *catalog.schema);
        assert_eq!(grants, "data/ks data/ks/t functions/ks");
        let image: Catalog = catalog.image().into_catalog();
        assert_eq!(image.schema, catalog.schema);
    }

    #[test]
    fn whoever_applies_a_command_has_the_same() {
        let (one, other) = (new(), new());
        let command = one.change_schema(creation(), None, moment(10)).expect("a command");
        assert_eq!(command.schema_after(&one.schema).as_ref(), Some(&*one.apply(&command).schema));
        let after = other.apply(&command);
        assert_eq!(after.schema.version, command.version().expect("a version"));
        assert_eq!(after.schema.table("ks", "t").expect("the table").tablets.count(), 4);
        let again = after.change_schema(creation(), None, moment(command.last_timestamp()));
        assert_eq!(again, Err("keyspace ks already exists".to_owned()));
    }

    #[test]
    fn nodes_are_part_of_it() {
        use crate::topology::testing::member;
        let catalog = new();
        let first = TopologyChange::Set(member(1, ("dc1", "rack1"), &[7]));
        let command = Command::of_topology(&catalog.topology, vec![first.clone()], 10);
        let command = command.expect("a command");
        let rows = command.rows(&catalog.schema);
        let catalog = catalog.apply(&command);
        assert_eq!((catalog.topology.version(), command.topology_changes()), (1, &[first][..]));
        let table = &catalog.schema.table("system", "topology").expect("a system table").schema;
        let found = topology::load(&testing::rows(table, &rows));
        assert_eq!(found, Ok((*catalog.topology).clone()));
        let image: Catalog = catalog.image().into_catalog();
        assert_eq!(image.topology, catalog.topology);
        let same = TopologyChange::Set(member(2, ("dc1", "rack1"), &[7]));
        let refused = Command::of_topology(&catalog.topology, vec![same], 20);
        assert!(refused.is_err_and(|why| why.contains("has token 7")));
    }

    /// Tablets split and merge, and what is durable is what is shown; the number of rows, too.
    #[test]
    fn tables_get_more_tablets_and_fewer() {
        let (mut catalog, mut rows) = (new(), Vec::new());
        let mut at = 10;
        let mut make = |catalog: &mut Catalog, command: Result<Command, String>| {
            let command = command.expect("a command");
            rows.append(&mut command.rows(&catalog.schema));
            *catalog = catalog.clone().apply(&command);
            let found = found(catalog, &rows).0;
            assert_eq!(found.table("ks", "t"), catalog.schema.table("ks", "t"));
            command.last_timestamp()
        };
        let made = catalog.change_schema(creation(), None, moment(at));
        at = make(&mut catalog, made);
        let version = catalog.schema.version;
        for (resize, count) in
            [(Resize::Split, 8), (Resize::Split, 16), (Resize::Merge, 8), (Resize::Merge, 4)]
        {
            let table = catalog.schema.table("ks", "t").expect("the table").clone();
            let resizes = [(table.schema.id, resize)].into();
            let before = catalog.clone();
            let command = Command::of_resizes(&catalog.schema, &resizes, at);
            at = make(&mut catalog, command);
            // Nothing that drivers compare.
            assert_eq!(catalog.schema.version, version);
            let after = catalog.schema.table("ks", "t").expect("the table");
            assert_eq!((after.replicas.count(), after.tablets.count()), (count, count));
            for token in (-8..8).map(|it| model::Token(it << 60)) {
                assert_eq!(after.tablets.shard_of(token), table.tablets.shard_of(token));
            }
            // Who follows comes to the same.
            let between = Command::between(&before.schema, &catalog.schema, at);
            let shown = before.clone().apply(&between);
            assert_eq!(shown.schema, catalog.schema);
            let image: Catalog = catalog.image().into_catalog();
            assert_eq!(image.schema, catalog.schema);
        }
        let of = |id: u128, resize| {
            Command::of_resizes(&catalog.schema, &[(Uuid::from_u128(id), resize)].into(), at)
        };
        assert_eq!(
            of(77, Resize::Split).map(drop),
            Err(format!("there is no table {}", Uuid::from_u128(77)))
        );
        let topology = catalog.schema.table("system", "topology").expect("a table").schema.id;
        let refused = of(topology.as_u128(), Resize::Split).map(drop);
        assert_eq!(refused, Err(format!("table {topology} has no tablets")));
    }

    #[test]
    #[should_panic(expected = "decided-on")]
    fn a_command_is_applied_once() {
        let catalog = new();
        let command = catalog.change_schema(creation(), None, moment(10)).expect("a command");
        let _ = catalog.apply(&command).apply(&command);
    }

    #[test]
    fn facts_are_noted_beside_changes() {
        let catalog = new();
        let command = Command::of_access(Vec::new(), 10).noting(facts::DRIVER_LEVEL_MADE, "true");
        let rows = command.rows(&catalog.schema);
        let table = &catalog.schema.table("system", "scylla_local").expect("a system table").schema;
        let found = testing::rows(table, &rows);
        assert_eq!(facts::find(&found, facts::DRIVER_LEVEL_MADE), "true");
        assert_eq!(facts::find(&found, facts::ACCESS_CHANGED_AT), "12");
        assert_eq!(facts::find(&found, "other"), "");
    }
}
