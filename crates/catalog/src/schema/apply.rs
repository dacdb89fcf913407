//! From one snapshot to the next. Pure and total: every shard computes the same.
//!
//! Invariants: those of [`super`].

use super::change::TabletsAfter;
use super::check::{check_alteration, keyspace_of};
use super::{Complete, KeyspaceEntry, Local, Schema, SchemaChange, TableEntry, TableKind, Tablets};
use crate::features;
use crate::placement::strategy::fewer;
use crate::placement::tablets::{Asked, Load, SCALE, divide};
use crate::placement::{Division, Here, Replication, TabletReplicas, streams};
use crate::streams::Streams;
use crate::system_tables::{self, Home, arrange};
use crate::topology::Topology;
use crate::uuids::time_uuid;
use model::schema::cdc::{AHEAD_MICROS, CdcOptions};
use model::schema::{UserAggregate, UserFunction};
use model::{Keyspace, TableId, TableSchema, TabletMap, UserType, Uuid};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

impl<L: Local> Schema<L> {
    /// Without keyspaces.
    pub(crate) fn empty(version: Uuid) -> Schema<L> {
        Schema { version, keyspaces: BTreeMap::new(), by_id: stdx::HashMap::default() }
    }

    /// Completes changes before they are stored: tables get versions that begin with `micros`, and
    /// tablets on shards of these nodes, `scale` for each shard where nobody says how many; columns
    /// and options get their order, and what a changed user type touches follows it. Says why when
    /// a change cannot be made.
    pub fn complete(
        &self,
        changes: Vec<SchemaChange>,
        micros: i64,
        topology: &Topology,
        here: Here,
        scale: f64,
    ) -> Result<Complete, String> {
        let mut next = self.clone();
        let mut complete = Complete::default();
        let asked = changes.len();
        for change in changes {
            let start = complete.changes.len();
            match change {
                SchemaChange::AlterType(changed) => next.follow(changed, &mut complete.changes),
                change => complete.changes.push(change),
            }
            for change in &mut complete.changes[start..] {
                normalize(change, micros);
                next.check(change)?;
                if let SchemaChange::AlterKeyspace(altered) = change {
                    altered.previous = next.previous_of(altered, topology);
                }
                if let SchemaChange::CreateTable(table) = change
                    && let Some(division) = next.divide(table, topology, here, scale)
                {
                    complete.tablets.add(table.id, division);
                }
                next.apply_one(change, &complete.tablets);
            }
        }
        assert!(asked <= complete.changes.len(), "complete: a change of {asked} is lost");
        complete.changes.iter().try_for_each(|change| next.check_bases(keyspace_of(change)))?;
        complete.streams = next.new_streams(&complete.changes, micros, topology, here);
        Ok(complete)
    }

    /// What a keyspace that is altered was before, for as long as the tablets of its tables follow.
    fn previous_of(
        &self,
        altered: &Keyspace,
        topology: &Topology,
    ) -> Option<Vec<(String, String)>> {
        let KeyspaceEntry { keyspace, tables, .. } = &**self.keyspace(&altered.name)?;
        if altered.replication == keyspace.replication {
            return altered.previous.clone();
        }
        let follow = altered.initial_tablets.is_some() && !tables.is_empty();
        let known = keyspace.previous.as_ref().unwrap_or(&keyspace.replication);
        // Where nobody leads nobody would take it away.
        let can = topology.enables(features::KEYSPACE_MULTI_RF_CHANGE);
        // Where tablets have not followed an earlier change, they have what they had before that.
        (follow && can).then(|| fewer(known, &keyspace.replication))
    }

    /// How a new table of a keyspace that is there is divided.
    fn divide(
        &self,
        table: &TableSchema,
        topology: &Topology,
        here: Here,
        scale: f64,
    ) -> Option<Division> {
        if let Some(base) = table.log.as_ref().and_then(|log| self.by_id.get(&log.base))
            && !base.replicas.is_empty()
        {
            // A log is where its base is, as far as that is not on its way elsewhere.
            return Some(Division::of_tablets(base.replicas.settled(), here));
        }
        let KeyspaceEntry { keyspace, replication, .. } = &**self.keyspace(&table.keyspace)?;
        let mut load = Load::default();
        if keyspace.initial_tablets.is_some() {
            self.by_id.values().for_each(|entry| load.add(&entry.replicas));
        }
        let hints = &table.options.tablets;
        Some(divide(Asked { keyspace, replication, hints, scale }, topology, here, &load))
    }

    /// The next snapshot.
    pub fn apply(&self, complete: &Complete, version: Uuid) -> Schema<L> {
        let mut next = Schema { version, ..self.clone() };
        complete.changes.iter().for_each(|change| next.apply_one(change, &complete.tablets));
        for (table, streams) in &complete.streams {
            next.set_streams(*table, streams.clone());
        }
        if cfg!(debug_assertions) {
            next.check_index();
            complete.changes.iter().for_each(|change| next.check_keyspace(keyspace_of(change)));
        }
        next
    }

    /// A snapshot without some keyspaces, to which what is stored of them is added again.
    pub fn without<'n>(
        &self,
        keyspaces: impl IntoIterator<Item = &'n String>,
        version: Uuid,
    ) -> Schema<L> {
        let mut next = Schema { version, ..self.clone() };
        for name in keyspaces {
            assert!(!Schema::<L>::is_system(name), "the system's keyspace {name} stays");
            next.apply_one(&SchemaChange::DropKeyspace(name.clone()), &Tablets::default());
        }
        next
    }

    /// The same, where the tables that are in `before` too are divided among the shards of this
    /// node as they are there, as far as their tablets end where they ended.
    pub fn with_tablets_of(mut self, before: &Schema<L>) -> Schema<L> {
        let known: Vec<_> =
            self.by_id.values().filter_map(|it| before.by_id.get(&it.schema.id)).cloned().collect();
        for known in known {
            let entry = self.by_id[&known.schema.id].clone();
            let tablets = divided(&known, &entry.replicas);
            if tablets != entry.tablets {
                self.put_entry(Rc::new(TableEntry { tablets, ..(*entry).clone() }));
            }
        }
        self
    }

    /// The same schema, of which this node divides a table in another way among its shards; nothing
    /// changes where its tablets end otherwise by now.
    pub fn with_shards(mut self, table: TableId, map: &TabletMap) -> Schema<L> {
        let Some(entry) = self.by_id.get(&table).cloned() else { return self };
        let ends = entry.replicas.last_tokens();
        debug_assert!(map.sharder().is_none(), "covering: a ring for tablets of {table}");
        if entry.tablets.sharder().is_none() && !ends.is_empty() {
            let tablets = Rc::new(map.divided_at(ends));
            self.put_entry(Rc::new(TableEntry { tablets, ..(*entry).clone() }));
        }
        self
    }

    /// The same schema with other tablets, or with tablets elsewhere; tables that are not there are
    /// passed over.
    pub fn with_tablets(mut self, all: &[TabletsAfter]) -> Schema<L> {
        for TabletsAfter { table, replicas, .. } in all {
            if let Some(entry) = self.by_id.get(table).cloned() {
                if !self.has_tablets(&entry.schema.keyspace) {
                    let intended = Rc::new(replicas.clone());
                    self.put_entry(Rc::new(TableEntry { intended, ..(*entry).clone() }));
                    continue;
                }
                assert!(!replicas.is_empty(), "covering: no tablets of {table}");
                let (tablets, replicas) = (divided(&entry, replicas), Rc::new(replicas.clone()));
                self.put_entry(Rc::new(TableEntry { tablets, replicas, ..(*entry).clone() }));
            }
        }
        self
    }

    /// Pushes the change of a type and of all that mentions it.
    fn follow(&self, changed: UserType, out: &mut Vec<SchemaChange>) {
        let (keyspace, name) = (changed.keyspace.clone(), changed.name.clone());
        let Some(entry) = self.keyspaces.get(&keyspace) else {
            out.push(SchemaChange::AlterType(changed));
            return;
        };
        let mentions = |ty: &model::Type| ty.mentions_user_type(&keyspace, &name);
        let mut followers = Vec::new();
        for user in entry.types.values().filter(|user| user.name != name) {
            if user.fields.iter().any(|(_, ty)| mentions(ty)) {
                let mut user = (**user).clone();
                user.fields.iter_mut().for_each(|(_, ty)| *ty = ty.with_user_type(&changed));
                followers.push(SchemaChange::AlterType(user));
            }
        }
        for table in entry.tables.values() {
            if table.schema.columns.iter().any(|column| mentions(&column.ty)) {
                let mut schema = (*table.schema).clone();
                for column in &mut schema.columns {
                    column.ty = column.ty.with_user_type(&changed);
                }
                followers.push(SchemaChange::AlterTable(schema));
            }
        }
        out.push(SchemaChange::AlterType(changed));
        out.append(&mut followers);
    }

    /// Says why `change` cannot be applied.
    fn check(&self, change: &SchemaChange) -> Result<(), String> {
        match change {
            SchemaChange::CreateKeyspace(keyspace) => {
                Replication::of(keyspace)?;
                match self.keyspaces.get(&keyspace.name) {
                    Some(_) => Err(format!("keyspace {} already exists", keyspace.name)),
                    None => Ok(()),
                }
            }
            SchemaChange::AlterKeyspace(keyspace) => {
                Replication::of(keyspace)?;
                self.need_keyspace(&keyspace.name).map(drop)
            }
            SchemaChange::DropKeyspace(name) => self.need_keyspace(name).map(drop),
            SchemaChange::CreateTable(table) => self.check_new_table(table),
            SchemaChange::AlterTable(table) => {
                let present = self.need_table(&table.keyspace, &table.name)?;
                let same = present.schema.id == table.id;
                same.then_some(()).ok_or_else(|| "the table's id changed".to_owned())
            }
            SchemaChange::DropTable { keyspace, name } => self.need_table(keyspace, name).map(drop),
            SchemaChange::CreateType(user) => {
                let entry = self.need_keyspace(&user.keyspace)?;
                match entry.types.get(&user.name) {
                    Some(_) => Err(format!("type {}.{} already exists", user.keyspace, user.name)),
                    None => Ok(()),
                }
            }
            SchemaChange::AlterType(UserType { keyspace, name, .. })
            | SchemaChange::DropType { keyspace, name } => {
                let present = self.need_keyspace(keyspace)?.types.get(name);
                present.map(drop).ok_or_else(|| format!("no type {keyspace}.{name}"))
            }
            SchemaChange::CreateFunction(UserFunction { keyspace, .. })
            | SchemaChange::CreateAggregate(UserAggregate { keyspace, .. }) => {
                self.need_keyspace(keyspace).map(drop)
            }
            SchemaChange::DropFunction { keyspace, name, arguments } => {
                let present = self.need_keyspace(keyspace)?.function(name, arguments);
                present.map(drop).ok_or_else(|| format!("no function {keyspace}.{name}"))
            }
            SchemaChange::DropAggregate { keyspace, name, arguments } => {
                let present = self.need_keyspace(keyspace)?.aggregate(name, arguments);
                present.map(drop).ok_or_else(|| format!("no aggregate {keyspace}.{name}"))
            }
        }
    }

    /// An error for a view or a log in that keyspace whose base table is not there, or is one
    /// itself.
    fn check_bases(&self, keyspace: &str) -> Result<(), String> {
        let Some(entry) = self.keyspaces.get(keyspace) else { return Ok(()) };
        for table in entry.tables.values().map(|table| &table.schema) {
            let (what, id, base_name) = match (&table.view, &table.log) {
                (Some(view), _) => ("a view", view.base, &view.base_name),
                (None, Some(log)) => ("the log", log.base, &log.base_name),
                (None, None) => continue,
            };
            let base = self.by_id.get(&id).map(|base| &base.schema);
            let fits = base.is_some_and(|it| it.keyspace == keyspace && !it.is_derived());
            if !fits {
                let name = &table.name;
                return Err(format!(
                    "{keyspace}.{name} is {what} of {base_name}, which is no table"
                ));
            }
        }
        Ok(())
    }

    /// The streams of tables whose logs these changes attach, where they have to have others.
    fn new_streams(
        &self,
        changes: &[SchemaChange],
        micros: i64,
        topology: &Topology,
        here: Here,
    ) -> BTreeMap<TableId, Arc<Streams>> {
        let mut all = BTreeMap::new();
        for change in changes {
            let (SchemaChange::CreateTable(table) | SchemaChange::AlterTable(table)) = change
            else {
                continue;
            };
            let log = self.by_id.get(&table.id).filter(|log| log.schema.is_attached_log());
            let base = log.and_then(|log| self.by_id.get(&log.schema.log.as_ref()?.base));
            let (Some(log), Some(base)) = (log, base) else { continue };
            let seed = stdx::hash_one((micros, table.id.as_u128()));
            let last = base.streams.sets().last();
            // A little before now, for the clocks of clients that lag.
            let since = match last {
                None => (micros - AHEAD_MICROS).max(0).div_euclid(1000),
                Some(last) => micros.div_euclid(1000).max(last.since_millis() + 1),
            };
            let alone = topology.present().next().is_none();
            let set = match last {
                _ if base.replicas.is_empty() && !alone => continue,
                _ if base.replicas.is_empty() => {
                    if last.is_some_and(|it| it.streams().len() == usize::from(here.shards)) {
                        continue;
                    }
                    streams::of_one(here.shards, since, seed)
                }
                Some(last) if streams::is_of_tablets(last, &base.replicas) => continue,
                _ => streams::of_tablets(&base.replicas, &log.replicas, since, seed),
            };
            let kept = since.saturating_sub(MILLIS_KEPT.max(kept_millis(&base.schema)));
            all.insert(base.schema.id, Arc::new(base.streams.with(set, kept)));
        }
        all
    }

    /// Gives a table streams, if it is there.
    pub(crate) fn set_streams(&mut self, table: TableId, streams: Arc<Streams>) {
        let Some(entry) = self.by_id.get(&table).cloned() else { return };
        assert!(!streams.is_empty(), "logged: {} loses its streams", entry.schema.name);
        self.put_entry(Rc::new(TableEntry { streams, ..(*entry).clone() }));
    }

    fn need_keyspace(&self, name: &str) -> Result<&Rc<KeyspaceEntry<L>>, String> {
        self.keyspaces.get(name).ok_or_else(|| format!("no keyspace {name}"))
    }

    fn need_table(&self, keyspace: &str, name: &str) -> Result<&Rc<TableEntry<L>>, String> {
        self.table(keyspace, name).ok_or_else(|| format!("no table {keyspace}.{name}"))
    }

    fn check_new_table(&self, table: &TableSchema) -> Result<(), String> {
        let TableSchema { keyspace, name, .. } = table;
        if self.need_keyspace(keyspace)?.tables.contains_key(name) {
            return Err(format!("table {keyspace}.{name} already exists"));
        }
        if self.by_id.contains_key(&table.id) {
            return Err(format!("a table with id {} already exists", table.id));
        }
        Ok(())
    }

    /// Carries out one complete change; one of what is not there changes nothing.
    pub(crate) fn apply_one(&mut self, change: &SchemaChange, tablets: &Tablets) {
        match change {
            SchemaChange::CreateKeyspace(keyspace) => self.insert_keyspace(keyspace.clone()),
            SchemaChange::AlterKeyspace(keyspace) => self.alter_keyspace(keyspace.clone()),
            SchemaChange::DropKeyspace(name) => {
                let dropped = self.keyspaces.remove(name);
                for table in dropped.iter().flat_map(|keyspace| keyspace.tables.values()) {
                    let gone = self.by_id.remove(&table.schema.id);
                    assert!(gone.is_some(), "indexed: {} is not there by id", table.schema.id);
                }
            }
            SchemaChange::CreateTable(table) => {
                let Some(division) = tablets.of(table.id) else { return };
                let count = division.tablets.count();
                assert!(0 < count, "covering: table {} has no tablets", table.id);
                self.insert_table(table.clone(), division.clone(), TableKind::Stored);
            }
            SchemaChange::AlterTable(table) => {
                let Some(present) = self.by_id.get(&table.id).cloned() else { return };
                check_alteration(&present.schema, table);
                let entry = TableEntry { schema: Rc::new(table.clone()), ..(*present).clone() };
                self.put_entry(Rc::new(entry));
                self.attach(table);
            }
            SchemaChange::DropTable { keyspace, name } => {
                let removed = self.with_keyspace(keyspace, |entry| entry.tables.remove(name));
                if let Some(table) = removed.flatten() {
                    let id = table.schema.id;
                    let gone = self.by_id.remove(&id);
                    assert!(gone.is_some(), "indexed: {id} is not there by id");
                    self.with_views(base_of(&table.schema), |views| views.retain(|it| *it != id));
                    self.forget_log(&table.schema);
                }
            }
            SchemaChange::CreateType(user) => self.insert_type(user.clone()),
            SchemaChange::AlterType(user) => {
                self.insert_type(user.clone());
                self.with_keyspace(&user.keyspace, |entry| follow_in_functions(entry, user));
            }
            SchemaChange::DropType { keyspace, name } => {
                self.with_keyspace(keyspace, |entry| entry.types.remove(name));
            }
            SchemaChange::CreateFunction(function) => self.insert_function(function.clone()),
            SchemaChange::DropFunction { keyspace, name, arguments } => {
                let other = |function: &Rc<UserFunction>| !function.takes(arguments);
                self.with_keyspace(keyspace, |entry| keep(&mut entry.functions, name, other));
            }
            SchemaChange::CreateAggregate(aggregate) => self.insert_aggregate(aggregate.clone()),
            SchemaChange::DropAggregate { keyspace, name, arguments } => {
                let other = |aggregate: &Rc<UserAggregate>| aggregate.arguments != *arguments;
                self.with_keyspace(keyspace, |entry| keep(&mut entry.aggregates, name, other));
            }
        }
    }

    /// The snapshot after these changes, with versions of that time, on a node that is alone; or
    /// why they cannot be made. What the registry does, without making anything durable.
    pub fn after(
        &self,
        changes: Vec<SchemaChange>,
        micros: i64,
        shards: u16,
    ) -> Result<Schema<L>, String> {
        let here = Here { host_id: Uuid::nil(), shards };
        let complete = self.complete(changes, micros, &Topology::default(), here, SCALE)?;
        Ok(self.apply(&complete, time_uuid(micros, 0)))
    }

    /// The keyspaces and tables of the system alone.
    pub fn of_system(version: Uuid, shards: u16) -> Schema<L> {
        let mut schema = Schema::empty(version);
        system_tables::keyspaces().into_iter().for_each(|it| schema.insert_keyspace(it));
        system_tables::types().into_iter().for_each(|it| schema.insert_type(it));
        for (table, home) in system_tables::tables() {
            let (map, kind) = match home {
                Home::SchemaLog => (TabletMap::single(0), TableKind::Stored),
                Home::DataLog => (TabletMap::static_map(shards), TableKind::Stored),
                Home::Virtual => (TabletMap::single(0), TableKind::Virtual),
            };
            schema.insert_table(table, Division::of_ring(map), kind);
        }
        if cfg!(debug_assertions) {
            schema.check_index();
            schema.keyspaces.keys().for_each(|name| schema.check_keyspace(name));
        }
        schema
    }

    /// Adds a keyspace. Its replication is valid.
    pub(crate) fn insert_keyspace(&mut self, keyspace: Keyspace) {
        let replication = Rc::new(parse_checked(&keyspace));
        let name = keyspace.name.clone();
        let entry = KeyspaceEntry {
            keyspace,
            replication,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            functions: BTreeMap::new(),
            aggregates: BTreeMap::new(),
        };
        let before = self.keyspaces.insert(name, Rc::new(entry));
        assert!(before.is_none(), "indexed: two keyspaces of one name");
    }

    fn alter_keyspace(&mut self, keyspace: Keyspace) {
        let replication = Rc::new(parse_checked(&keyspace));
        let Some(present) = self.keyspaces.get(&keyspace.name) else { return };
        let tables: BTreeMap<_, _> = present
            .tables
            .iter()
            .map(|(name, table)| {
                let replication = replication.clone();
                let entry = TableEntry { replication, ..(**table).clone() };
                let entry = match keyspace.initial_tablets {
                    Some(_) => entry.converted(),
                    None => entry,
                };
                (name.clone(), Rc::new(entry))
            })
            .collect();
        for table in tables.values() {
            self.by_id.insert(table.schema.id, table.clone());
        }
        let name = keyspace.name.clone();
        assert!(tables.len() == present.tables.len(), "followed: a table of {name} is lost");
        let entry = KeyspaceEntry { keyspace, replication, tables, ..(**present).clone() };
        self.keyspaces.insert(name, Rc::new(entry));
    }

    /// Adds a table to a keyspace that is there; a view after its base.
    pub(crate) fn insert_table(&mut self, table: TableSchema, division: Division, kind: TableKind) {
        let Some(keyspace) = self.keyspaces.get(&table.keyspace) else { return };
        let replication = keyspace.replication.clone();
        let Division { tablets, replicas, intended } = division;
        let (schema, tablets, replicas) = (Rc::new(table), Rc::new(tablets), Rc::new(replicas));
        let intended = Rc::new(intended);
        let local = L::default();
        let id = schema.id;
        assert!(!self.by_id.contains_key(&id), "ids-for-life: two tables of the id {id}");
        let base = base_of(&schema);
        self.put_entry(Rc::new(TableEntry {
            schema,
            tablets,
            replicas,
            intended,
            replication,
            kind,
            views: Rc::default(),
            log: None,
            streams: Arc::default(),
            local,
        }));
        self.with_views(base, |views| views.push(id));
        if let Some(table) = self.by_id.get(&id).map(|entry| entry.schema.clone()) {
            self.attach(&table);
        }
    }

    /// Lets the base of a log know it, or know no longer.
    fn attach(&mut self, table: &TableSchema) {
        match &table.log {
            None => {}
            Some(log) if !log.attached => self.detach(table),
            Some(log) => {
                let Some(base) = self.by_id.get(&log.base).cloned() else { return };
                let another = base.log.is_some_and(|known| known != table.id);
                assert!(!another, "logged: {} has two logs", base.schema.name);
                self.put_entry(Rc::new(TableEntry { log: Some(table.id), ..(*base).clone() }));
            }
        }
    }

    fn detach(&mut self, table: &TableSchema) {
        let base = table.log.as_ref().and_then(|log| self.by_id.get(&log.base)).cloned();
        if let Some(base) = base.filter(|base| base.log == Some(table.id)) {
            self.put_entry(Rc::new(TableEntry { log: None, ..(*base).clone() }));
        }
    }

    /// A log is dropped, and its streams with it.
    fn forget_log(&mut self, table: &TableSchema) {
        self.detach(table);
        let base = table.log.as_ref().and_then(|log| self.by_id.get(&log.base)).cloned();
        if let Some(base) = base {
            debug_assert!(base.log.is_none(), "logged: {} has another log", base.schema.name);
            let streams = Arc::default();
            self.put_entry(Rc::new(TableEntry { streams, ..(*base).clone() }));
        }
    }

    /// Changes the views of a table, if it is there.
    fn with_views(&mut self, base: Option<TableId>, change: impl FnOnce(&mut Vec<TableId>)) {
        let Some(base) = base.and_then(|base| self.by_id.get(&base)).cloned() else { return };
        let mut views = base.views.to_vec();
        change(&mut views);
        views.sort();
        debug_assert!(views.is_sorted_by(|a, b| a < b), "viewed: a view twice");
        self.put_entry(Rc::new(TableEntry { views: views.into(), ..(*base).clone() }));
    }

    pub(crate) fn insert_type(&mut self, user: UserType) {
        let keyspace = user.keyspace.clone();
        self.with_keyspace(&keyspace, |entry| {
            entry.types.insert(user.name.clone(), Rc::new(user));
        });
    }

    /// In the place of one with the same arguments. Overloads stand in order of signatures.
    pub(crate) fn insert_function(&mut self, function: UserFunction) {
        let keyspace = function.keyspace.clone();
        self.with_keyspace(&keyspace, |entry| {
            let same = entry.functions.entry(function.name.clone()).or_default();
            same.retain(|other| !other.argument_types().eq(function.argument_types()));
            same.push(Rc::new(function));
            same.sort_by_cached_key(|function| function.signature());
            debug_assert!(
                same.is_sorted_by(|a, b| a.signature() < b.signature()),
                "indexed: two functions {} of one signature",
                same[0].name
            );
        });
    }

    /// In the place of one with the same arguments.
    pub(crate) fn insert_aggregate(&mut self, aggregate: UserAggregate) {
        let keyspace = aggregate.keyspace.clone();
        self.with_keyspace(&keyspace, |entry| {
            let same = entry.aggregates.entry(aggregate.name.clone()).or_default();
            same.retain(|other| other.arguments != aggregate.arguments);
            same.push(Rc::new(aggregate));
            same.sort_by_cached_key(|aggregate| aggregate.signature());
            debug_assert!(
                same.is_sorted_by(|a, b| a.signature() < b.signature()),
                "indexed: two aggregates {} of one signature",
                same[0].name
            );
        });
    }

    pub(super) fn put_entry(&mut self, table: Rc<TableEntry<L>>) {
        self.by_id.insert(table.schema.id, table.clone());
        let TableSchema { keyspace, name, id, .. } = &*table.schema;
        let (keyspace, name, id) = (keyspace.clone(), name.clone(), *id);
        let before = self.with_keyspace(&keyspace, |entry| entry.tables.insert(name, table));
        let before = before.expect("indexed: a table without a keyspace");
        let same = before.is_none_or(|before| before.schema.id == id);
        assert!(same, "indexed: a table takes the place of another one in {keyspace}");
    }

    /// Changes a keyspace in place, or in a copy where older snapshots share it.
    fn with_keyspace<R>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut KeyspaceEntry<L>) -> R,
    ) -> Option<R> {
        self.keyspaces.get_mut(name).map(|entry| change(Rc::make_mut(entry)))
    }
}

/// For how long sets of streams are known at least that are not in use any more.
const MILLIS_KEPT: i64 = 86_400_000;

/// The same by what the table says of its log.
fn kept_millis(base: &TableSchema) -> i64 {
    let millis = match CdcOptions::of(&base.options).map(|options| options.ttl_secs) {
        None => 0,
        Some(0) => i64::MAX,
        Some(secs) => i64::from(secs) * 1000,
    };
    debug_assert!(0 <= millis, "logged: the log of {} keeps nothing", base.name);
    millis
}

/// The table of which it is a view.
fn base_of(table: &TableSchema) -> Option<TableId> {
    table.view.as_ref().map(|view| view.base)
}

/// Keeps of a name's overloads those that `other` is true of.
fn keep<T>(all: &mut BTreeMap<String, Vec<T>>, name: &str, other: impl Fn(&T) -> bool) {
    let Some(overloads) = all.get_mut(name) else { return };
    overloads.retain(other);
    if overloads.is_empty() {
        all.remove(name);
    }
}

/// Gives functions and aggregates the present fields of a type that they mention.
fn follow_in_functions<L>(entry: &mut KeyspaceEntry<L>, changed: &UserType) {
    let UserType { keyspace, name, .. } = changed;
    for function in entry.functions.values_mut().flatten() {
        if function.mentions_user_type(keyspace, name) {
            *function = Rc::new(function.with_user_type(changed));
        }
    }
    for aggregate in entry.aggregates.values_mut().flatten() {
        if aggregate.mentions_user_type(keyspace, name) {
            *aggregate = Rc::new(aggregate.with_user_type(changed));
        }
    }
}

/// How this node divides a table among its shards when it has these tablets (*tokens-stay*).
fn divided<L>(table: &TableEntry<L>, replicas: &TabletReplicas) -> Rc<TabletMap> {
    let is_same = table.replicas.last_tokens() == replicas.last_tokens();
    match is_same || replicas.is_empty() {
        true => table.tablets.clone(),
        false => {
            let is_one = table.tablets.sharder().is_none();
            assert!(is_one, "all-or-none: {} has tablets, and a ring here", table.schema.name);
            let tablets = table.tablets.divided_at(replicas.last_tokens());
            debug_assert!(
                replicas
                    .last_tokens()
                    .iter()
                    .all(|it| tablets.shard_of(*it) == table.tablets.shard_of(*it)),
                "tokens-stay: of {}",
                table.schema.name
            );
            Rc::new(tablets)
        }
    }
}

/// The replication of a keyspace that was checked when it came.
fn parse_checked(keyspace: &Keyspace) -> Replication {
    Replication::of(keyspace).expect("replication is checked where it enters")
}

/// Brings what is equal into the same form, so that memory and disk agree: maps sorted by key,
/// columns in order, versions set.
fn normalize(change: &mut SchemaChange, micros: i64) {
    debug_assert!(!keyspace_of(change).is_empty(), "complete: a change of no keyspace");
    match change {
        SchemaChange::CreateKeyspace(keyspace) | SchemaChange::AlterKeyspace(keyspace) => {
            sort_map(&mut keyspace.replication);
            sort_map(&mut keyspace.storage);
        }
        SchemaChange::CreateTable(table) | SchemaChange::AlterTable(table) => {
            normalize_table(table);
            table.version = time_uuid(micros, table.id.as_u64_pair().1);
        }
        _ => {}
    }
}

/// See [`normalize`].
pub(crate) fn normalize_table(table: &mut TableSchema) {
    let options = &mut table.options;
    let maps = [
        &mut options.compaction,
        &mut options.compression,
        &mut options.caching,
        &mut options.tombstone_gc,
        &mut options.cdc,
        &mut options.per_partition_rate_limit,
        &mut options.tablets,
    ];
    maps.into_iter().for_each(|map| sort_map(map));
    sort_map(&mut options.extensions);
    table.dropped.sort_by_key(|column| column.id);
    table.indexes.sort_by(|a, b| a.name.cmp(&b.name));
    table.indexes.iter_mut().for_each(|index| sort_map(&mut index.options));
    if let Some(view) = &mut table.view {
        view.hidden.sort();
        view.computed.sort_by_key(|column| column.id);
    }
    debug_assert!(table.columns.len() <= usize::from(u16::MAX), "arranged: too many columns");
    *table = arrange(table.clone());
}

fn sort_map<V>(map: &mut [(String, V)]) {
    map.sort_by(|(a, _), (b, _)| a.cmp(b));
}

#[cfg(test)]
mod tests;
