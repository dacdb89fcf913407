//! A node that follows: what others decided is what it shows, whenever it crashes in between.

use catalog::{Catalog, Command, Moment, SchemaChange};
use cluster::{BootConfig, ChangeError, Cluster, Event, SchemaEvent};
use model::{TableSchema, Type, UserType, Uuid};
use mutation::FrozenMutation;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;
use storage::{Storage, SyncMode};
use testkit::config::{boot_config, keyspace, node_config, table};
use testkit::rounds::{Rounds, Workload};
use testkit::schema::of_all_shards;

const SHARDS: u16 = 2;

/// Those who decide, as they stand: no node, the pure catalog alone.
struct Leader {
    /// The follower, which has all tablets.
    host_id: Uuid,
    catalog: Catalog,
    last: i64,
    /// What the follower has acknowledged.
    acknowledged: Catalog,
    /// Decided since.
    pending: VecDeque<Decided>,
    count: u64,
}

/// A command's rows, the latest of their timestamps, and what they lead to.
#[derive(Clone)]
struct Decided {
    rows: Vec<FrozenMutation>,
    last: i64,
    after: Catalog,
}

/// A random number below `count`.
fn pick(count: u64) -> u64 {
    runtime::random_u64() % count
}

impl Leader {
    fn draw(&self) -> SchemaChange {
        let schema = &self.catalog.schema;
        let (space, name) = (format!("ks{}", pick(2)), format!("t{}", pick(3)));
        let Some(entry) = schema.keyspace(&space) else {
            return SchemaChange::CreateKeyspace(keyspace(&space, 1, Some(4)));
        };
        let user = |fields: u64| UserType {
            keyspace: space.clone(),
            name: "u".into(),
            fields: (0..fields).map(|number| (format!("f{number}"), Type::Int)).collect(),
        };
        match (entry.tables.get(&name), entry.types.get("u"), pick(9)) {
            (_, _, 0) => SchemaChange::DropKeyspace(space),
            (_, _, 1) => {
                let changed = keyspace(&space, 1 + pick(3) as u32, Some(4));
                SchemaChange::AlterKeyspace(changed)
            }
            (_, None, 2 | 3) => SchemaChange::CreateType(user(1)),
            (_, Some(old), 2 | 3) => SchemaChange::AlterType(user(old.fields.len() as u64 + 1)),
            (None, found, _) => {
                let value = found.map_or(Type::Int, |it| it.to_type().freeze());
                SchemaChange::CreateTable(table(&space, &name, value))
            }
            (Some(_), _, 4 | 5) => SchemaChange::DropTable { keyspace: space, name },
            (Some(entry), ..) => SchemaChange::AlterTable(self.altered(&entry.schema)),
        }
    }

    /// With a column more, or one less.
    fn altered(&self, table: &TableSchema) -> TableSchema {
        let added = table.columns.iter().find(|column| column.name.starts_with('w'));
        let edited = match added.filter(|_| pick(2) == 0) {
            Some(column) => table.edit().drop_column(&column.name, self.last),
            None => table.edit().regular(&format!("w{}", self.last), Type::Text),
        };
        edited.build().expect("an altered table")
    }

    /// Decides something, and keeps it for the follower.
    fn decide(&mut self) {
        let name = format!("role{}", pick(4));
        let command = if pick(4) == 0 {
            let access = &self.catalog.access;
            let made = access.create_role(
                &name,
                auth::decide::RoleOptions::default(),
                None,
                auth::decide::Otherwise::Ignored,
            );
            Command::of_access(made.expect("a role"), self.last + 1)
        } else {
            let host_id = self.host_id;
            let (micros, random, shards) = (self.last + 1, pick(1 << 40), SHARDS);
            let moment = Moment { micros, random, host_id, shards, scale: 1.0 };
            let changed = self.catalog.change_schema(vec![self.draw()], None, moment);
            changed.expect("a change")
        };
        let rows = command.rows(&self.catalog.schema);
        self.last = command.last_timestamp();
        self.catalog = self.catalog.clone().apply(&command);
        self.pending.push_back(Decided { rows, last: self.last, after: self.catalog.clone() });
    }
}

#[derive(Default)]
struct Follower {
    leader: RefCell<Option<Leader>>,
    /// Whether it lags behind by several commands, and takes them as one.
    at_once: bool,
}

impl Follower {
    /// How many commands are taken together.
    fn together(&self, leader: &Leader) -> usize {
        leader.pending.len().min(if self.at_once { usize::MAX } else { 1 })
    }

    /// Takes what is decided. What is there already is refused, and changes nothing.
    async fn take(&self, cluster: &Cluster) {
        loop {
            let taken: Vec<Decided> = {
                let leader = self.leader.borrow();
                let leader = leader.as_ref().expect("started");
                leader.pending.range(..self.together(leader)).cloned().collect()
            };
            let Some(last) = taken.last().cloned() else { return };
            let count = taken.len();
            let rows = taken.into_iter().flat_map(|one| one.rows).collect();
            let mut events = cluster.subscribe();
            match cluster.follow(rows, last.last).await {
                Ok(changes) => {
                    for change in &changes {
                        let told = events.next().await;
                        assert_eq!(told, Some(Event::Schema(SchemaEvent::of(change))));
                    }
                }
                Err(ChangeError::Failed(reason)) if reason.contains("came after one of") => {}
                Err(error) => panic!("{error:?}"),
            }
            let mut leader = self.leader.borrow_mut();
            let leader = leader.as_mut().expect("started");
            leader.pending.drain(..count);
            leader.acknowledged = last.after;
            leader.count += count as u64;
        }
    }
}

/// Whether a node shows that.
fn shows(cluster: &Cluster, wanted: &Catalog) -> bool {
    let schema = cluster.schema();
    let same = schema.version == wanted.schema.version;
    same && wanted.schema.changes_since(&*schema).changes.is_empty()
        && cluster.access().state().says_the_same(&wanted.access)
        && cluster.topology() == wanted.topology
}

impl Workload for Follower {
    async fn start(&self) {
        let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
        let config = BootConfig { node: node_config(4), ..boot_config("/node", sync) };
        cluster::boot(config).await.expect("a start");
        let cluster = runtime::local::get::<Cluster>();
        self.leader.borrow_mut().get_or_insert_with(|| {
            let version = cluster.schema().version;
            let schema = catalog::Schema::of_system(version, SHARDS).into();
            let access = cluster.access().state().clone();
            let last = runtime::time::wall_micros() + 1_000_000;
            let catalog = Catalog { schema, access, topology: cluster.topology() };
            let acknowledged = catalog.clone();
            let (host_id, pending) = (cluster.node().host_id, VecDeque::new());
            Leader { host_id, catalog, last, acknowledged, pending, count: 0 }
        });
    }

    async fn check(&self) -> Result<(), String> {
        let cluster = runtime::local::get::<Cluster>();
        // What was being taken is there as a whole, or not at all.
        {
            let leader = self.leader.borrow();
            let leader = leader.as_ref().expect("started");
            let after = self.together(leader).checked_sub(1).map(|at| &leader.pending[at].after);
            if !shows(&cluster, &leader.acknowledged)
                && !after.is_some_and(|it| shows(&cluster, it))
            {
                return Err("a part of what was decided is there".to_owned());
            }
        }
        self.take(&cluster).await;
        let schemas = of_all_shards().await;
        if schemas.iter().any(|schema| *schema != schemas[0]) {
            return Err("the shards differ".to_owned());
        }
        let wanted = self.leader.borrow().as_ref().expect("started").catalog.clone();
        if !shows(&cluster, &wanted) {
            return Err("another snapshot is shown than what was decided".to_owned());
        }
        let schema = cluster.schema();
        let storage = runtime::local::get::<Storage>();
        for table in schema.tables().filter(|it| !cluster::Schema::is_system(&it.schema.keyspace)) {
            let flushed = storage.flush(table.schema.id).await;
            flushed.map_err(|error| format!("{}: {error}", table.schema.name))?;
        }
        Ok(())
    }

    async fn work(&self) {
        let cluster = runtime::local::get::<Cluster>();
        loop {
            for _ in 0..=pick(3) {
                self.leader.borrow_mut().as_mut().expect("started").decide();
            }
            self.take(&cluster).await;
        }
    }
}

#[test]
fn a_node_that_follows_shows_what_was_decided() {
    for seed in 0..8 {
        for at_once in [false, true] {
            let follower = Follower { at_once, ..Follower::default() };
            let done = Rounds::new(seed, SHARDS).run(follower);
            let done = done.unwrap_or_else(|violation| panic!("at once {at_once}: {violation}"));
            let leader = done.leader.borrow();
            assert!(
                0 < leader.as_ref().expect("started").count,
                "seed {seed}: nothing was decided"
            );
        }
    }
}
