use super::*;
use crate::node::testing::node;
use crate::schema::Schema;
use catalog::SchemaChange;
use catalog::schema::testing::{keyspace, table};
use catalog::topology::testing::{member, topology};
use model::ColumnKind;
use proptest::prelude::*;

const CENTERS: [&str; 2] = ["d1", "d2"];
const RACKS: [&str; 2] = ["r1", "r2"];

/// Nodes by data center, rack, number of tokens and shards.
type Drawn = Vec<(usize, usize, usize, u16)>;

fn any_nodes() -> impl Strategy<Value = Drawn> {
    proptest::collection::vec((0usize..2, 0usize..2, 0usize..4, 1u16..5), 0..7)
}

/// The nodes, of which the first is `me`, if there is one.
fn cluster(drawn: &Drawn) -> (Topology, NodeInfo) {
    let mut members = Vec::new();
    for (number, (center, rack, tokens, shards)) in drawn.iter().enumerate() {
        let spread = |it: usize| (it * 7 + number) as i64 * (i64::MAX / 22) - i64::MAX / 2;
        let tokens: Vec<i64> = (0..*tokens).map(spread).collect();
        let made = member(number as u8 + 1, (CENTERS[*center], RACKS[*rack]), &tokens);
        members.push(Member { shards: *shards, ..made });
    }
    let first = members.first();
    let me = NodeInfo {
        host_id: Uuid::from_u128(1),
        data_center: first.map_or("d1".to_owned(), |it| it.data_center.clone()),
        rack: first.map_or("r1".to_owned(), |it| it.rack.clone()),
        shards: first.map_or(2, |it| it.shards),
        ..node(Vec::new())
    };
    (topology(&members), me)
}

fn replications() -> [&'static [(&'static str, &'static str)]; 5] {
    [
        &[("class", "SimpleStrategy"), ("replication_factor", "2")],
        &[("class", "EverywhereStrategy")],
        &[("class", "LocalStrategy")],
        &[("class", "NetworkTopologyStrategy"), ("d1", "2"), ("d2", "1")],
        &[("class", "NetworkTopologyStrategy"), ("d1", "['r2']"), ("d9", "3")],
    ]
}

/// A table of a keyspace that is replicated so.
fn entry(
    options: &[(&str, &str)],
    tablets: Option<u32>,
    topology: &Topology,
    me: &NodeInfo,
) -> Rc<TableEntry> {
    let empty = Schema::of_system(Uuid::from_u128(1), me.shards);
    let mut space = keyspace("ks", tablets);
    space.replication =
        options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let made = table("ks", "t", 1, &[("p", "int", ColumnKind::PartitionKey)]);
    let changes = vec![SchemaChange::CreateKeyspace(space), SchemaChange::CreateTable(made)];
    let complete = empty.complete(changes, 5, topology, me.here(), 1.0).expect("a table");
    let schema = empty.apply(&complete, Uuid::from_u128(2));
    schema.table("ks", "t").expect("the table").clone()
}

fn distance(host: Uuid, topology: &Topology, me: &NodeInfo) -> u8 {
    let member = topology.member(host).expect("a member");
    let center = member.data_center == me.data_center;
    match (host == me.host_id, center && member.rack == me.rack, center) {
        (true, ..) => 0,
        (_, true, _) => 1,
        (_, _, true) => 2,
        _ => 3,
    }
}

/// The hosts that have a token, with the shard of each, by the rules.
fn expected(
    table: &TableEntry,
    token: Token,
    topology: &Topology,
    me: &NodeInfo,
) -> Option<Vec<(Uuid, u16)>> {
    let alone = topology.present().all(|member| member.host_id == me.host_id);
    if alone || *table.replication == Replication::Local {
        return None;
    }
    let ring = Ring::new(topology);
    let on_ring = |place: &u16| {
        let member = &ring.members()[usize::from(*place)];
        (member.host_id, Sharder::of_node(member.shards).shard_of(token))
    };
    let mut out: Vec<(Uuid, u16)> = match table.replicas.is_empty() {
        true => ring.owners(&table.replication).of(token).iter().map(on_ring).collect(),
        false => table.replicas.of(table.replicas.tablet_of(token)).to_vec(),
    };
    out.sort_by_key(|(host, _)| distance(*host, topology, me));
    Some(out)
}

fn hosts(replicas: &Replicas) -> Option<Vec<(Uuid, u16)>> {
    match replicas {
        Replicas::Here => None,
        Replicas::Nodes(list) => Some(list.iter().map(|it| (it.host_id, it.shard)).collect()),
    }
}

proptest! {
    #[test]
    fn replicas_are_told_nearest_first(
        drawn in any_nodes(),
        kind in 0usize..5,
        tablets in proptest::option::of(0u32..9),
        tokens in proptest::collection::vec(any::<i64>(), 1..20),
    ) {
        let (topology, me) = cluster(&drawn);
        let placement = Placement::new(&topology, &me);
        let table = entry(replications()[kind], tablets, &topology, &me);
        // Twice: made, and kept.
        for token in tokens.iter().chain(&tokens).copied().map(Token) {
            let found = placement.replicas(&table, token);
            prop_assert_eq!(hosts(&found), expected(&table, token, &topology, &me));
            let Replicas::Nodes(list) = found else { continue };
            for replica in list.iter() {
                let member = topology.member(replica.host_id).expect("a member");
                let center = &placement.data_centers()[usize::from(replica.dc)];
                prop_assert_eq!(center, &member.data_center);
                prop_assert_eq!(replica.is_local_dc, member.data_center == me.data_center);
                prop_assert_eq!(replica.is_here, member.host_id == me.host_id);
            }
        }
    }

    #[test]
    fn stretches_cover_and_have_one_set_of_nodes(
        drawn in any_nodes(),
        kind in 0usize..5,
        tablets in proptest::option::of(0u32..9),
        token: i64,
    ) {
        let (topology, me) = cluster(&drawn);
        let placement = Placement::new(&topology, &me);
        let table = entry(replications()[kind], tablets, &topology, &me);
        let of = |replicas: &Replicas| {
            let hosts = hosts(replicas);
            hosts.map(|it| it.into_iter().map(|(host, _)| host).collect::<BTreeSet<Uuid>>())
        };
        let mut covered = Token::MIN;
        let ranges = placement.ranges(&table);
        for stretch in &ranges {
            prop_assert_eq!(stretch.after, covered);
            prop_assert!(stretch.after < stretch.last);
            covered = stretch.last;
            prop_assert_eq!(of(&stretch.replicas), of(&placement.replicas(&table, stretch.last)));
            let first = Token(stretch.after.0 + 1);
            prop_assert_eq!(of(&stretch.replicas), of(&placement.replicas(&table, first)));
        }
        prop_assert_eq!(covered, Token::MAX);
        if table.replicas.is_empty() {
            let differ = ranges.windows(2).all(|it| of(&it[0].replicas) != of(&it[1].replicas));
            prop_assert!(differ, "two stretches of the same nodes");
        }
        let found = placement.stretch(&table, Token(token));
        prop_assert!(ranges.contains(&found));
        prop_assert!(Token(token) <= found.last && (found.after.0 < token || token == i64::MIN));
    }
}

fn three() -> (Topology, NodeInfo) {
    cluster(&vec![(0, 0, 3, 2), (0, 0, 3, 3), (0, 1, 3, 2)])
}

#[test]
fn who_is_alone_has_everything() {
    let options = [("class", "SimpleStrategy"), ("replication_factor", "3")];
    for count in [0, 1] {
        let (topology, me) = cluster(&vec![(0, 0, 2, 2); count]);
        let table = entry(&options, Some(4), &topology, &me);
        let placement = Placement::new(&topology, &me);
        assert_eq!(placement.replicas(&table, Token(5)), Replicas::Here);
    }
    let (topology, me) = three();
    let table = entry(&options, Some(4), &topology, &me);
    let placement = Placement::new(&topology, &me);
    let Replicas::Nodes(list) = placement.replicas(&table, Token(5)) else { panic!("here") };
    assert_eq!(list.len(), 3);
    assert!(list[0].is_here && !list[1].is_here);
}

#[test]
fn lists_are_shared_and_kept() {
    let (topology, me) = three();
    let options = [("class", "SimpleStrategy"), ("replication_factor", "2")];
    for tablets in [None, Some(4)] {
        let table = entry(&options, tablets, &topology, &me);
        let placement = Placement::new(&topology, &me);
        let list = |token| match placement.replicas(&table, Token(token)) {
            Replicas::Nodes(list) => list,
            Replicas::Here => panic!("here"),
        };
        assert!(Rc::ptr_eq(&list(77), &list(77)));
        assert!(Rc::ptr_eq(&list(77), &list(78)));
    }
}

#[test]
fn what_is_kept_of_a_table_goes_with_it() {
    let (topology, me) = three();
    let options = [("class", "SimpleStrategy"), ("replication_factor", "2")];
    let placement = Placement::new(&topology, &me);
    for tablets in [None, Some(4), None] {
        let table = entry(&options, tablets, &topology, &me);
        placement.replicas(&table, Token(5));
        assert_eq!(placement.tables.borrow().len(), 1);
        assert_eq!(placement.spreads.borrow().len(), usize::from(tablets.is_none()));
    }
}

#[test]
fn a_tablet_on_a_shard_that_is_gone_is_on_another() {
    let (topology, me) = three();
    let options = [("class", "SimpleStrategy"), ("replication_factor", "3")];
    let table = entry(&options, Some(8), &topology, &me);
    let second = Uuid::from_u128(2);
    let fewer = Member { shards: 1, ..(**topology.member(second).expect("a node")).clone() };
    let topology = topology.apply(&catalog::TopologyChange::Set(fewer));
    let placement = Placement::new(&topology, &me);
    for stretch in placement.ranges(&table) {
        let Replicas::Nodes(list) = stretch.replicas else { panic!("here") };
        let of_second = list.iter().find(|it| it.host_id == second).expect("a replica");
        assert_eq!(of_second.shard, 0);
    }
}

#[test]
fn nodes_that_have_left_have_nothing() {
    let (topology, me) = three();
    let options = [("class", "SimpleStrategy"), ("replication_factor", "3")];
    let left = catalog::TopologyChange::Left(Uuid::from_u128(3));
    for tablets in [None, Some(4)] {
        let table = entry(&options, tablets, &topology, &me);
        let placement = Placement::new(&topology.apply(&left), &me);
        let found = hosts(&placement.replicas(&table, Token(5))).expect("nodes");
        let ids: BTreeSet<u128> = found.iter().map(|(host, _)| host.as_u128()).collect();
        assert_eq!(ids, [1, 2].into());
    }
}
