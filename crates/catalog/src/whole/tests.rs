use super::*;
use crate::command::{Command, Moment};
use crate::features::CDC;
use crate::placement::Here;
use crate::placement::streams::of_one;
use crate::rows::testing;
use crate::schema::testing::{CHANGES, change};
use crate::schema_tables::read;
use crate::schema_tables::stored::{Stored, TABLES, keyspace_of};
use crate::topology::testing::member;
use crate::topology::{Member, Topology, TopologyChange};

use auth::decide::{Otherwise, RoleOptions};
use auth::{Change, Permission, PermissionSet, Resource, ServiceLevel, State};
use proptest::prelude::*;
use std::rc::Rc;
use std::sync::Arc;

const SHARDS: u16 = 2;

fn host() -> Uuid {
    Uuid::from_u128(9)
}

fn here() -> Here {
    Here { host_id: host(), shards: SHARDS }
}

/// What a node loads from these rows.
fn load(rows: &[FrozenMutation], version: Uuid) -> Catalog {
    let mut schema = Schema::of_system(version, SHARDS);
    let system = schema.clone();
    let table = |keyspace, name| {
        testing::rows(&system.table(keyspace, name).expect("a system table").schema, rows)
    };
    let mut stored = Stored::default();
    TABLES.iter().for_each(|name| stored.add(name, table(keyspace_of(name), name)));
    read::load(&mut schema, &stored, here()).expect("what was stored");
    let access = access_tables::TABLES.map(|name| (name, table("system", name)));
    let access = access_tables::load(&access.into());
    let topology = topology::load(&table("system", topology::TABLE)).expect("what was stored");
    Catalog { schema: Rc::new(schema), access, topology: Arc::new(topology) }
}

/// A change of roles, grants or service levels, of few names.
fn access_change(state: &State, kind: u8, variant: u8) -> Vec<Change> {
    let [name, member] = [variant, variant + 1].map(|it| ["r", "s", "t"][usize::from(it % 3)]);
    let ons = [Resource::Keyspace("a".into()), Resource::AllRoles];
    let (on, some) = (&ons[usize::from(variant & 1)], PermissionSet::of(&[Permission::Alter]));
    let decided = match kind {
        0 => state.create_role(name, RoleOptions::default(), None, Otherwise::Refused),
        1 => state.drop_role(name, Otherwise::Refused),
        2 => state.grant_role(name, member),
        3 => state.revoke_role(name, member),
        4 => state.grant(name, PermissionSet::of(&Permission::ALL), on),
        5 => state.revoke(name, some, on),
        6 if state.role(name).is_some() => {
            let (role, value) = (name.to_owned(), (variant & 1 == 0).then(|| "l".to_owned()));
            Ok(vec![Change::Attribute { role, name: "service_level".into(), value }])
        }
        _ => {
            let level = (variant & 1 == 0).then(ServiceLevel::default);
            Ok(vec![Change::Level { name: "l".into(), level }])
        }
    };
    decided.unwrap_or_default()
}

/// A node that is new or otherwise than before, or leaves, of few.
fn topology_change(topology: &Topology, name: u8, variant: u8) -> TopologyChange {
    let node = member(name + 1, ("dc1", "rack1"), &[i64::from(name)]);
    let node = Member { features: ["A", CDC].map(str::to_owned).into(), ..node };
    match variant {
        0 => TopologyChange::Left(node.host_id),
        1 => TopologyChange::Lost(node.host_id),
        2 if name < 2 => TopologyChange::Enable(["A", CDC][usize::from(name)].to_owned()),
        2 => {
            let last = topology.streams().sets().last().map_or(0, |set| set.since_millis());
            let set = of_one(u16::from(name), last + 5, 7);
            TopologyChange::Streams(Arc::new(topology.streams().with(set, last)))
        }
        _ => TopologyChange::Set(Member { shards: u16::from(variant), ..node }),
    }
}

/// The snapshots of a history with the rows of the commands between them; no rows where a step
/// cannot be taken.
struct History {
    catalogs: Vec<Catalog>,
    rows: Vec<Vec<FrozenMutation>>,
    lasts: Vec<i64>,
}

fn history(steps: Vec<(u8, u8, u8)>) -> History {
    let schema = Rc::new(Schema::of_system(Uuid::from_u128(1), SHARDS));
    let first = Catalog { schema, access: State::default(), topology: Arc::default() };
    let mut all = History { catalogs: vec![first], rows: Vec::new(), lasts: vec![1000] };
    for (number, (kind, name, variant)) in steps.into_iter().enumerate() {
        let last = all.catalogs.last().expect("the first");
        let at = *all.lasts.last().expect("the first");
        let command = if CHANGES + 8 <= kind {
            let changes = vec![topology_change(&last.topology, name, variant)];
            Command::of_topology(&last.topology, changes, at + 1).ok()
        } else if CHANGES <= kind {
            let changes = access_change(&last.access, kind - CHANGES, variant);
            (!changes.is_empty()).then(|| Command::of_access(changes, at + 1))
        } else {
            let Here { host_id, shards } = here();
            let (micros, random, scale) = (at + 1, number as u64, 1.0);
            let moment = Moment { micros, random, host_id, shards, scale };
            let drawn = change(&last.schema, kind, name, variant, 1000 + number as u128);
            drawn.and_then(|drawn| last.change_schema(vec![drawn], Some("r"), moment).ok())
        };
        let Some(command) = command else { continue };
        all.rows.push(command.rows(&last.schema));
        let next = last.clone().apply(&command);
        all.lasts.push(command.last_timestamp());
        all.catalogs.push(next);
    }
    all
}

fn same(found: &Catalog, wanted: &Catalog) -> bool {
    found.schema == wanted.schema
        && found.access.says_the_same(&wanted.access)
        && found.topology == wanted.topology
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_catalog_takes_the_place_of_an_older_one(
        steps in proptest::collection::vec((0..CHANGES + 10, 0u8..4, 0u8..4), 1..40),
        places in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let History { catalogs, rows, lasts } = history(steps);
        let (a, b) = (places.0.index(catalogs.len()), places.1.index(catalogs.len()));
        let (old, new) = (a.min(b), a.max(b));
        let mut disk: Vec<FrozenMutation> = rows[..old].concat();
        let known = &catalogs[old];
        prop_assert!(same(&load(&disk, known.schema.version), known));
        let (wanted, at) = (&catalogs[new], lasts[new]);
        if old < new {
            disk.append(&mut known.forgotten(at));
            disk.append(&mut wanted.rows(&[("a fact", "x")], at));
            prop_assert!(same(&load(&disk, wanted.schema.version), wanted));
        }
        // And it goes on from there.
        disk.append(&mut rows[new..].concat());
        let last = catalogs.last().expect("the first");
        prop_assert!(same(&load(&disk, last.schema.version), last));
    }
}
