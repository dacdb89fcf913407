//! Replicas of keyspaces with tablets: a rack for each, where the node wants that
//! (`rf_rack_valid_keyspaces`), and nodes enough for each.
//!
//! Invariants
//!  - *a-rack-each*: where the node wants it, no rack gets a second replica.
//!  - *enough*: a table is not made where its replicas have too few nodes, and its keyspace does
//!    not get more copies than there are nodes for.

use super::Context;
use super::properties::{get, put};
use crate::error::Error;
use cluster::{DataCenter, Schema};
use model::Keyspace;

/// Which names of a replication map are no data centers.
const OTHERS: [&str; 2] = ["class", "replication_factor"];

/// The copies that a factor or a list of racks stands for.
pub(super) fn copies(factor: &str) -> i64 {
    match rack_list(factor) {
        Some(racks) => racks.split(',').filter(|rack| !rack.trim().is_empty()).count() as i64,
        None => factor.parse().unwrap_or(0),
    }
}

/// What is inside `[..]`.
pub(super) fn rack_list(factor: &str) -> Option<&str> {
    factor.strip_prefix('[')?.strip_suffix(']')
}

fn has_tablets(keyspace: &Keyspace) -> bool {
    keyspace.initial_tablets.is_some()
}

/// Names racks for what a keyspace says in numbers, where the node wants that. What was a list
/// stays one, or becomes nothing.
pub(super) fn spread(
    keyspace: &mut Keyspace,
    before: Option<&Keyspace>,
    context: &Context,
) -> Result<(), Error> {
    if !context.rules.racks_apart || !has_tablets(keyspace) {
        return Ok(());
    }
    let centers: Vec<(String, String)> = keyspace
        .replication
        .iter()
        .filter(|(name, _)| !OTHERS.contains(&&**name))
        .cloned()
        .collect();
    for (center, factor) in centers {
        let wanted = copies(&factor);
        let earlier = before.and_then(|it| get(&it.replication, &center));
        // What stays as it is moves nothing.
        if rack_list(&factor).is_some() || wanted == 0 || earlier == Some(&*factor) {
            continue;
        }
        let known = context.data_centers.iter().find(|it| it.name == center);
        let racks = known.map(|it| &it.racks[..]).unwrap_or_default();
        let count = racks.len();
        if (count as i64) < wanted {
            return Err(Error::Config(format!(
                "Replication factor {wanted} exceeds the number of racks ({count}) in dc {center}"
            )));
        }
        match earlier.filter(|earlier| copies(earlier) != 0) {
            Some(earlier) if rack_list(earlier).is_some() => {
                return Err(Error::Config(format!(
                    "Cannot change the replication factor of dc {center} from the racks {earlier} \
                     to {wanted}: list the racks"
                )));
            }
            Some(_) if wanted == 1 || wanted == count as i64 => {}
            Some(_) => {
                let (keyspace, copies) = (keyspace.name.clone(), wanted as u32);
                let ill = cluster::centers::IllRacked { keyspace, center, copies, racks: count };
                return Err(Error::Config(ill.to_string()));
            }
            None => {
                let list = chosen(&keyspace.name, racks, wanted as usize);
                put(&mut keyspace.replication, &center, list);
            }
        }
    }
    Ok(())
}

/// So many racks as a list. Keyspaces of different names begin at different racks.
fn chosen(keyspace: &str, racks: &[String], count: usize) -> String {
    assert!(count <= racks.len(), "a-rack-each: {count} replicas in {} racks", racks.len());
    let first = keyspace.bytes().fold(0, |sum: usize, byte| sum * 31 % 65_521 + usize::from(byte));
    let mut named: Vec<String> =
        (0..count).map(|at| format!("'{}'", racks[(first + at) % racks.len()])).collect();
    named.sort_unstable();
    format!("[{}]", named.join(", "))
}

/// An error where a table of a keyspace with tablets cannot have as many replicas as that says.
pub(super) fn check_owners(
    schema: &Schema,
    keyspace: &str,
    centers: &[DataCenter],
) -> Result<(), Error> {
    let Some(entry) = schema.keyspace(keyspace).filter(|it| has_tablets(&it.keyspace)) else {
        return Ok(());
    };
    entry.keyspace.replication.iter().try_for_each(|wanted| check_center(wanted, centers))
}

/// An error where the tables of a keyspace cannot get as many more replicas as is wanted `after`.
pub(super) fn check_more(
    schema: &Schema,
    before: &Keyspace,
    after: &[(String, String)],
    centers: &[DataCenter],
) -> Result<(), Error> {
    if schema.keyspace(&before.name).is_none_or(|entry| entry.tables.is_empty()) {
        return Ok(());
    }
    let had = |center: &str| get(&before.replication, center).map_or(0, copies);
    let more = after.iter().filter(|(center, factor)| had(center) < copies(factor));
    more.into_iter().try_for_each(|wanted| check_center(wanted, centers))
}

/// An error where a data center has too few nodes for what is wanted there.
fn check_center((center, factor): &(String, String), centers: &[DataCenter]) -> Result<(), Error> {
    let known = centers.iter().find(|it| it.name == *center);
    let owners = known.map_or(0, |it| it.owners);
    let wanted = copies(factor);
    if !OTHERS.contains(&&**center) && (owners as i64) < wanted {
        return Err(Error::Config(format!(
            "Datacenter {center} doesn't have enough token-owning nodes for \
             replication_factor={wanted}: it has {owners}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ddl::testing::Node;
    use cluster::{DataCenter, SchemaChange};

    /// A node of `d1` with three racks of one node each, `d2` with one, and `d3` without tokens.
    fn node(racks_apart: bool) -> Node {
        let center = |name: &str, racks: &[&str]| DataCenter {
            name: name.to_owned(),
            racks: racks.iter().map(|rack| rack.to_string()).collect(),
            owners: racks.len(),
        };
        let mut node = Node::empty();
        node.data_centers =
            vec![center("d1", &["r1", "r2", "r3"]), center("d2", &["r4"]), center("d3", &[])];
        node.rules.racks_apart = racks_apart;
        node
    }

    fn create(node: &Node, factors: &str, tablets: bool) -> Result<Vec<(String, String)>, String> {
        let text = format!(
            "CREATE KEYSPACE ks WITH replication = {{'class': 'NetworkTopologyStrategy', \
             {factors}}} AND tablets = {{'enabled': {tablets}}}"
        );
        let changes = node.decide(&text).map_err(|error| error.to_string())?;
        let [SchemaChange::CreateKeyspace(keyspace)] = &changes[..] else { panic!("{changes:?}") };
        Ok(keyspace.replication[1..].to_vec())
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn numbers_become_lists_of_racks_where_the_node_wants_it() {
        let wants = node(true);
        let all = [("d1", "['r1', 'r2', 'r3']"), ("d2", "['r4']")];
        assert_eq!(create(&wants, "'d1': 3, 'd2': 1", true), Ok(pairs(&all)));
        assert_eq!(
            create(&wants, "'d1': 0, 'd3': 0", true),
            Ok(pairs(&[("d1", "0"), ("d3", "0")]))
        );
        let two = create(&wants, "'d1': 2", true).expect("two racks");
        assert_eq!(two[0].1.matches('r').count(), 2);
        for (factors, why) in [
            ("'d1': 4", "Replication factor 4 exceeds the number of racks (3) in dc d1"),
            ("'d3': 1", "Replication factor 1 exceeds the number of racks (0) in dc d3"),
            ("'replication_factor': 1", "Replication factor 1 exceeds the number of racks (0)"),
        ] {
            let refused = create(&wants, factors, true).expect_err(factors);
            assert!(refused.starts_with(why), "{refused}");
        }
        // Elsewhere numbers stay what they are.
        let four = Ok(pairs(&[("d1", "4")]));
        assert_eq!(create(&wants, "'d1': 4", false), four);
        assert_eq!(create(&node(false), "'d1': 4", true), four);
    }

    #[test]
    fn a_list_of_racks_becomes_no_other_number() {
        let mut node = node(true);
        let make = "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', \
                    'd1': 2} AND tablets = {'enabled': true}";
        let made = node.decide(make).expect("a keyspace");
        node.apply(made);
        let alter = |count: u32| {
            let text = format!("ALTER KEYSPACE ks WITH replication = {{'d1': {count}}}");
            node.decide(&text).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(alter(2), Ok(()));
        for count in [1, 3] {
            assert!(alter(count).expect_err("refused").contains("list the racks"));
        }
    }

    #[test]
    fn tables_need_a_node_for_each_replica() {
        let mut node = node(false);
        for (name, factors, tablets) in
            [("few", "'d2': 2", true), ("enough", "'d2': 1", true), ("ring", "'d2': 2", false)]
        {
            let text = format!(
                "CREATE KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy', \
                 {factors}}} AND tablets = {{'enabled': {tablets}}}"
            );
            let made = node.decide(&text).expect("a keyspace");
            node.apply(made);
        }
        let make = |name: &str| node.decide(&format!("CREATE TABLE {name}.t (k int PRIMARY KEY)"));
        assert!(make("enough").is_ok() && make("ring").is_ok());
        let refused = make("few").expect_err("too few nodes").to_string();
        assert!(refused.contains("Datacenter d2 doesn't have enough token-owning nodes"));
    }

    #[test]
    fn copies_change_by_as_many_as_there_are_nodes_for() {
        let mut node = node(false);
        let made = "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', \
                    'd1': 1} AND tablets = {'enabled': true}";
        let made = node.decide(made).expect("a keyspace");
        node.apply(made);
        let alter = |node: &Node, factors: &str| {
            let text = format!("ALTER KEYSPACE ks WITH replication = {{{factors}}}");
            node.decide(&text).map(drop).map_err(|error| error.to_string())
        };
        // Without tables nobody has to have any.
        assert_eq!(alter(&node, "'d1': 1, 'd2': 7"), Ok(()));
        let omits = alter(&node, "'d2': 1").expect_err("a data center is left out");
        assert!(omits.starts_with("Attempted to implicitly drop replicas in datacenter d1."));
        let table = node.decide("CREATE TABLE ks.t (k int PRIMARY KEY)").expect("a table");
        node.apply(table);
        for factors in ["'d1': 3", "'d1': 0, 'd2': 1", "'d1': 3, 'd2': 1"] {
            assert_eq!(alter(&node, factors), Ok(()), "{factors}");
        }
        for (factors, center) in [("'d1': 4", "d1"), ("'d1': 3, 'd2': 2", "d2")] {
            let refused = alter(&node, factors).expect_err(factors);
            let expected = format!("Datacenter {center} doesn't have enough token-owning nodes");
            assert!(refused.contains(&expected), "{refused}");
        }
        // Not before all nodes count levels by what tablets have.
        node.changes_many = false;
        assert_eq!(alter(&node, "'d1': 2"), Ok(()));
        for factors in ["'d1': 3", "'d1': 0, 'd2': 1"] {
            let refused = alter(&node, factors).expect_err(factors);
            assert!(refused.contains("not by more than 1"), "{refused}");
        }
    }
}
