//! `/storage_service`: who has which part of the ring.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::tables::{keyspace, one, table};
use crate::call::{Answer, Call};
use cluster::nodes::Range;
use cluster::{Cluster, KeyspaceEntry, Node, Nodes, Replication, TableEntry, TopologyChange};
use model::{TableSchema, Token, key, value};
use serde_json::{Value, json};
use std::rc::Rc;
use storage::Storage;

/// The answer where effective ownership is asked of keyspaces that are not replicated alike.
const UNEQUAL: &str = "std::runtime_error (Non-system keyspaces don't have the same replication \
                       settings, effective ownership information is meaningless)";

pub(super) fn operations(api: &mut Api) {
    let of_all = "The tokens of the node";
    api.tells("/storage_service/tokens", of_all, |door| tokens(&door.cluster));
    api.get("/storage_service/tokens/{endpoint}", "The tokens of a node", of_endpoint);
    api.get("/storage_service/tokens_endpoint", "Who has which token", tokens_endpoint)
        .takes("keyspace", Kind::Text, "Of tablets: the keyspace of the table")
        .takes("cf", Kind::Text, "Of tablets: the table");
    api.get("/storage_service/ownership", "The part of the ring of each node", ownership);
    let path = "/storage_service/ownership/{keyspace}";
    api.get(path, "The part of a keyspace's data on each node", effective).takes(
        "cf",
        Kind::Text,
        "The table; needed with tablets",
    );
    let path = "/storage_service/describe_ring/{keyspace}";
    api.get(path, "The ranges of the ring, with their nodes", describe).takes(
        "table",
        Kind::Text,
        "The table; needed with tablets",
    );
    let path = "/storage_service/range_to_endpoint_map/{keyspace}";
    api.get(path, "Who has which range", range_to_endpoint)
        .takes("cf", Kind::Text, "The table; needed with tablets")
        .takes("rpc", Kind::Flag, "Whether addresses for clients are shown");
    let path = "/storage_service/pending_range/{keyspace}";
    api.get(
        path,
        "Always none: /storage_service/moves tells what moves",
        async |door: &Rc<Door>, call: &Call| {
            keyspace(door, call.segment("keyspace"))?;
            Ok(Answer::json(json!([])))
        },
    );
    let path = "/storage_service/natural_endpoints/{keyspace}";
    api.get(path, "Who has a partition", natural).needs("cf", Kind::Text, "The table").needs(
        "key",
        Kind::Text,
        "The partition key; its parts with colons between",
    );
    let path = "/storage_service/natural_endpoints/v2/{keyspace}";
    api.get(path, "Who has a partition", natural_parts).needs("cf", Kind::Text, "The table").needs(
        "key_component",
        Kind::Text,
        "A part of the partition key; once for each",
    );
    let path = "/column_family/sstables/by_key/{name}";
    api.get(path, "The SSTables that have something of a partition", by_key)
        .needs("key", Kind::Text, "The partition key; its parts with colons between")
        .takes("format", Kind::OneOf(&["hex"]), "The key is its bytes in hexadecimal digits");
    let path = "/storage_service/tablets/balancing";
    api.tells(path, "Whether tablets are moved between nodes for balance", |door| {
        json!(door.cluster.topology().balances())
    });
    let text = "Has tablets be moved between nodes for balance, or only those that have to go";
    api.post(path, text, balance).needs("enabled", Kind::Flag, "Whether they are moved");
}

async fn balance(door: &Rc<Door>, call: &Call) -> Answered {
    let balances = call.flag("enabled", true)?;
    let change = move |catalog: &cluster::schema::Catalog| {
        let is_so = catalog.topology.balances() == balances;
        Ok(if is_so { Vec::new() } else { vec![TopologyChange::Balance(balances)] })
    };
    let made = door.cluster.change_topology(change).await;
    made.map_err(|error| Answer::refused(500, error.to_string()))?;
    Ok(Answer::done())
}

fn tokens(cluster: &Cluster) -> Value {
    cluster.node().tokens.iter().map(|token| token.0.to_string()).collect()
}

async fn of_endpoint(door: &Rc<Door>, call: &Call) -> Answered {
    let asked = call.segment("endpoint");
    match Nodes::seen(&door.cluster).named(asked) {
        Some(node) => Ok(Answer::json(json!(node.tokens()))),
        None => Err(Answer::refused(400, format!("{asked} is no node of the cluster"))),
    }
}

/// The tablets of a table. The first follows the last, as in a ring.
fn tablets(nodes: &Nodes, table: &TableEntry) -> Vec<Range> {
    let mut ranges = nodes.tablet_ranges(table);
    let end = ranges.last().map(|range| range.last);
    if let (Some(first), Some(end)) = (ranges.first_mut(), end) {
        first.after = end;
    }
    ranges
}

/// The table that a request is about. One of a keyspace with tablets has to be named.
fn named_table(
    door: &Door,
    call: &Call,
    parameter: &str,
) -> Result<(Rc<KeyspaceEntry>, Option<Rc<TableEntry>>), Answer> {
    let name = call.segment("keyspace");
    let entry = keyspace(door, name)?;
    let named = match call.given(parameter) {
        Some(wanted) => Some(table(door, name, wanted)?),
        None => None,
    };
    let by_tablets = entry.keyspace.initial_tablets.is_some();
    if by_tablets && named.is_none() {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let path = path.get(..2).unwrap_or(&path).join("/");
        return Err(Answer::refused(
            400,
            format!(
                "{path} is per-table in keyspace '{name}'. Please provide table name using \
                 '{parameter}' parameter."
            ),
        ));
    }
    Ok((entry, named.filter(|_| by_tablets)))
}

fn pairs(entries: impl Iterator<Item = (String, String)>) -> Answer {
    Answer::json(entries.map(|(key, value)| json!({ "key": key, "value": value })).collect())
}

async fn tokens_endpoint(door: &Rc<Door>, call: &Call) -> Answered {
    let of = match (call.given("keyspace"), call.given("cf")) {
        (Some(keyspace), Some(name)) => {
            let entry = super::tables::keyspace(door, keyspace)?;
            let found = table(door, keyspace, name)?;
            Some(found).filter(|_| entry.keyspace.initial_tablets.is_some())
        }
        (None, None) => None,
        _ => {
            let text = "Either provide both keyspace and table (for tablet table) or neither \
                        (for vnodes)";
            return Err(Answer::refused(400, text));
        }
    };
    let nodes = Nodes::seen(&door.cluster);
    let told = |token: Token, node: &Node| (token.0.to_string(), node.address());
    match of.as_deref() {
        // The first of its replicas.
        Some(table) => {
            let first = |range: &Range| Some((range.last, *range.nodes.first()?));
            let ranges = tablets(&nodes, table);
            let owners = ranges.iter().filter_map(first);
            Ok(pairs(owners.map(|(token, node)| told(token, &nodes.all()[node]))))
        }
        None => Ok(pairs(nodes.token_owners().map(|(token, node)| told(token, node)))),
    }
}

/// Each node with a part of the ring, as decimal number.
fn shares(nodes: &Nodes, parts: Vec<f64>) -> Answer {
    let share = |(node, part): (&Node, f64)| (node.address(), (part as f32).to_string());
    pairs(nodes.all().iter().zip(parts).map(share))
}

async fn ownership(door: &Rc<Door>, _: &Call) -> Answered {
    let schema = door.cluster.schema();
    if schema.keyspaces.values().any(|entry| entry.keyspace.initial_tablets.is_some()) {
        let text = "storage_service/ownership cannot be used when a keyspace uses tablets";
        return Err(Answer::refused(400, text));
    }
    let nodes = Nodes::seen(&door.cluster);
    Ok(shares(&nodes, nodes.own_parts()))
}

async fn effective(door: &Rc<Door>, call: &Call) -> Answered {
    if matches!(call.segment("keyspace"), "null") {
        let schema = door.cluster.schema();
        let of_users = schema.keyspaces.iter().filter(|(name, entry)| {
            !cluster::Schema::is_system(name) && *entry.replication != Replication::Local
        });
        let mut kinds: Vec<&Replication> = of_users.map(|(_, entry)| &*entry.replication).collect();
        kinds.dedup();
        // The keyspaces of the node itself are replicated by another strategy than those of users.
        return match kinds[..] {
            [] => ownership(door, call).await,
            _ => Err(Answer::refused(500, UNEQUAL)),
        };
    }
    let (nodes, ranges) = ranges(door, call, "cf")?;
    Ok(shares(&nodes, nodes.parts(&ranges)))
}

/// The ranges of the ring: each from the end of the one before.
fn ranges(door: &Door, call: &Call, parameter: &str) -> Result<(Nodes, Vec<Range>), Answer> {
    let (entry, named) = named_table(door, call, parameter)?;
    let nodes = Nodes::seen(&door.cluster);
    let ranges = match named.filter(|table| !table.replicas.is_empty()) {
        Some(table) => tablets(&nodes, &table),
        None => nodes.ring_ranges(&entry.replication),
    };
    Ok((nodes, ranges))
}

async fn describe(door: &Rc<Door>, call: &Call) -> Answered {
    let (nodes, ranges) = ranges(door, call, "table")?;
    let details = |node: &Node| {
        json!({
            "host": node.address(),
            "datacenter": node.member.data_center,
            "rack": node.member.rack,
        })
    };
    let shown = |range: Range| {
        let of_each = |told: &dyn Fn(&Node) -> Value| -> Value {
            range.nodes.iter().map(|place| told(&nodes.all()[*place])).collect()
        };
        json!({
            "start_token": range.after.0.to_string(),
            "end_token": range.last.0.to_string(),
            "endpoints": of_each(&|node| json!(node.address())),
            "rpc_endpoints": of_each(&|node| json!(node.client_address())),
            "endpoint_details": of_each(&details),
        })
    };
    Ok(Answer::json(ranges.into_iter().map(shown).collect()))
}

async fn range_to_endpoint(door: &Rc<Door>, call: &Call) -> Answered {
    let (nodes, ranges) = ranges(door, call, "cf")?;
    let of_clients = call.flag("rpc", false)?;
    let address = |place: &usize| match (of_clients, &nodes.all()[*place]) {
        (true, node) => node.client_address(),
        (false, node) => node.address(),
    };
    let shown = ranges.into_iter().map(|Range { after, last, nodes }| {
        let addresses: Vec<String> = nodes.iter().map(address).collect();
        json!({ "key": [after.0.to_string(), last.0.to_string()], "value": addresses })
    });
    Ok(Answer::json(shown.collect()))
}

/// A partition key of its parts in words. A key of one part is not divided.
fn composed(schema: &TableSchema, parts: &[&str]) -> Result<Vec<u8>, Answer> {
    let columns = schema.partition_key();
    if columns.len() != parts.len() {
        let text = format!("the partition key has {} parts, not {}", columns.len(), parts.len());
        return Err(Answer::refused(400, text));
    }
    let mut values = Vec::with_capacity(parts.len());
    for (column, part) in columns.iter().zip(parts) {
        let parsed = value::parse_scalar(&column.ty, part);
        let refused = |why| Answer::refused(400, format!("key: {}: {why}", column.name));
        values.push(parsed.map_err(refused)?);
    }
    let slices = || values.iter().map(Vec::as_slice);
    key::check_partition_key(slices())
        .map_err(|why| Answer::refused(400, format!("key: {why}")))?;
    let mut bytes = Vec::new();
    key::compose_partition_key(slices(), &mut bytes);
    Ok(bytes)
}

/// The partition key of a text with colons between the parts.
fn of_text(schema: &TableSchema, text: &str) -> Result<Vec<u8>, Answer> {
    match schema.partition_key_count {
        1 => composed(schema, &[text]),
        _ => composed(schema, &text.split(':').collect::<Vec<_>>()),
    }
}

/// The nodes that have a partition.
fn endpoints(door: &Door, table: &TableEntry, key: &[u8]) -> Answer {
    let nodes = Nodes::seen(&door.cluster);
    let places = nodes.of_token(table, Token::of(key)).into_iter();
    let addresses: Vec<String> = places.map(|place| nodes.all()[place].address()).collect();
    Answer::json(json!(addresses))
}

async fn natural(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace");
    keyspace(door, name)?;
    let table = table(door, name, call.parameter("cf").unwrap_or_default())?;
    let key = of_text(&table.schema, call.parameter("key").unwrap_or_default())?;
    Ok(endpoints(door, &table, &key))
}

async fn natural_parts(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace");
    keyspace(door, name)?;
    let table = table(door, name, call.parameter("cf").unwrap_or_default())?;
    let key = composed(&table.schema, &call.all("key_component").collect::<Vec<_>>())?;
    Ok(endpoints(door, &table, &key))
}

async fn by_key(door: &Rc<Door>, call: &Call) -> Answered {
    let entry = one(door, call)?;
    let text = call.parameter("key").unwrap_or_default();
    let bytes = match call.given("format") {
        Some(_) => hexadecimal(text)
            .ok_or_else(|| Answer::refused(400, format!("key: not hexadecimal: {text}")))?,
        None => of_text(&entry.schema, text)?,
    };
    let (id, shard) = (entry.schema.id, entry.tablets.shard_of(Token::of(&bytes)));
    let found = runtime::on_shard(shard, move || async move {
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        storage.files_of_key(id, &bytes).await.map_err(|error| error.to_string())
    });
    match found.await {
        Ok(files) => Ok(Answer::json(json!(files))),
        Err(text) => Err(Answer::refused(500, format!("shard {shard}: {text}"))),
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_come_in_pairs() {
        assert_eq!(hexadecimal("00fF"), Some(vec![0, 255]));
        assert_eq!(hexadecimal(""), Some(Vec::new()));
        assert_eq!(
            [hexadecimal("0"), hexadecimal("0g"), hexadecimal("\u{e9}")],
            [None, None, None]
        );
    }

    #[test]
    fn keys_are_made_of_text() {
        let id = model::Uuid::from_u128(1);
        let one = TableSchema::builder("ks", "one", id)
            .partition_key("p", model::Type::Text)
            .build()
            .unwrap();
        let two = TableSchema::builder("ks", "two", id)
            .partition_key("p", model::Type::Int)
            .partition_key("q", model::Type::Text)
            .build()
            .unwrap();
        assert_eq!(of_text(&one, "a:b").unwrap(), b"a:b");
        assert_eq!(of_text(&two, "1:b").unwrap(), b"\0\x04\0\0\0\x01\0\0\x01b\0");
        for (schema, text) in [(&two, "1"), (&two, "1:b:c"), (&two, "x:b"), (&one, "")] {
            assert_eq!(of_text(schema, text).unwrap_err().status, 400, "{text}");
        }
    }
}
