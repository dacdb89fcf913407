//! The rows of `system.local` and `system.scylla_local`: the node's description of itself, and
//! what it keeps across restarts.

use crate::node::{CQL_VERSION, NodeInfo, PARTITIONER};
use crate::schema::Schema;
use crate::schema_tables::partition::{PartitionWriter, Value, bigint, inet, int, text, uuid};
use crate::schema_tables::read::Row;
use model::{Token, Uuid};
use mutation::FrozenMutation;
use storage::commitlog::ReplayPosition;

/// The key of the only row of `system.local`.
const LOCAL_KEY: &[u8] = b"local";
/// The protocol version for drivers; they may negotiate a newer one.
const NATIVE_PROTOCOL_VERSION: &str = "4";

/// What `system.local` remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) host_id: Option<Uuid>,
    pub(crate) schema_version: Option<Uuid>,
    pub(crate) generation: i32,
    pub(crate) tokens: Vec<Token>,
}

/// Reads the rows of `system.local`. What is missing or malformed is not remembered.
pub(crate) fn remembered(rows: &[Row]) -> Remembered {
    let Some(row) = rows.first() else { return Remembered::default() };
    let uuid = |name: &str| Uuid::from_slice(row.get(name)?).ok();
    let generation =
        row.get("gossip_generation").and_then(|bytes| <[u8; 4]>::try_from(&bytes[..]).ok());
    let token = |part: Result<Option<&[u8]>, stdx::Damaged>| {
        std::str::from_utf8(part.ok()??).ok()?.parse().ok().map(Token)
    };
    let tokens = row
        .get("tokens")
        .map(|bytes| model::value::collection::list_elements(bytes).filter_map(token).collect());
    let mut tokens: Vec<Token> = tokens.unwrap_or_default();
    tokens.sort();
    Remembered {
        host_id: uuid("host_id"),
        schema_version: uuid("schema_version"),
        generation: generation.map_or(0, i32::from_be_bytes),
        tokens,
    }
}

/// The new version of the schema, for both tables.
pub(crate) fn version(schema: &Schema, version: Uuid, timestamp: i64) -> [FrozenMutation; 2] {
    let local = &schema.table("system", "local").expect("a system table").schema;
    let mut partition = PartitionWriter::new(local, &[LOCAL_KEY], timestamp);
    partition.row(&[], vec![("schema_version", uuid(version))]);
    let version = version.to_string();
    [partition.freeze(), fact(schema, "group0_schema_version", &version, timestamp)]
}

/// A row of `system.scylla_local`.
pub(crate) fn fact(schema: &Schema, key: &str, value: &str, timestamp: i64) -> FrozenMutation {
    let table = &schema.table("system", "scylla_local").expect("a system table").schema;
    let mut partition = PartitionWriter::new(table, &[key.as_bytes()], timestamp);
    partition.row(&[], vec![("value", text(value))]);
    partition.freeze()
}

/// The partition of `system.truncated` of a table that was truncated at `at` microseconds: for each
/// shard that had something of it the position in its log before which writes are discarded.
pub(crate) fn truncated(
    schema: &Schema,
    table: Uuid,
    at: i64,
    places: &[(u16, ReplayPosition)],
) -> FrozenMutation {
    let truncated = &schema.table("system", "truncated").expect("a system table").schema;
    let mut partition = PartitionWriter::new(truncated, &[table.as_bytes()], at);
    partition.delete_rows(&[]);
    partition.statics(vec![("truncated_at", bigint(at.div_euclid(1000)))]);
    for (shard, place) in places {
        let cells = vec![
            ("position", int(place.offset as i32)),
            ("segment_id", bigint(place.segment.0 as i64)),
        ];
        partition.row(&[&i32::from(*shard).to_be_bytes()], cells);
    }
    partition.freeze()
}

/// The value of a row of `system.scylla_local`; empty when there is none.
pub(crate) fn find_fact(rows: &[Row], key: &str) -> String {
    let row = rows.iter().find(|row| row.get("key").is_some_and(|it| it == key.as_bytes()));
    let value = row.and_then(|row| row.get("value"));
    value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

/// All that the node says of itself.
pub(crate) fn node(schema: &Schema, node: &NodeInfo, timestamp: i64) -> FrozenMutation {
    let local = &schema.table("system", "local").expect("a system table").schema;
    let mut partition = PartitionWriter::new(local, &[LOCAL_KEY], timestamp);
    let tokens = node.tokens.iter().map(|token| token.0.to_string().into_bytes()).collect();
    partition.row(
        &[],
        vec![
            ("bootstrapped", text("COMPLETED")),
            ("broadcast_address", inet(node.broadcast_address)),
            ("cluster_name", text(&node.cluster_name)),
            ("cql_version", text(CQL_VERSION)),
            ("data_center", text(&node.data_center)),
            ("gossip_generation", int(node.generation)),
            ("host_id", uuid(node.host_id)),
            ("listen_address", inet(node.listen_address)),
            ("native_protocol_version", text(NATIVE_PROTOCOL_VERSION)),
            ("partitioner", text(PARTITIONER)),
            ("rack", text(&node.rack)),
            ("release_version", text(node.release_version)),
            ("rpc_address", inet(node.rpc_address)),
            ("schema_version", uuid(schema.version)),
            ("supported_features", text("")),
            ("tokens", Some(Value::Set(tokens))),
            ("broadcast_port", port(Some(node.listen_port))),
            ("listen_port", port(Some(node.listen_port))),
            ("rpc_port", port(node.rpc_port)),
        ],
    );
    partition.freeze()
}

fn port(number: Option<u16>) -> Option<Value> {
    number.and_then(|number| int(number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows_testing::rows;

    #[test]
    fn what_the_node_says_is_remembered() {
        let version = Uuid::from_u128(42);
        let schema = Schema::of_system(version, 1);
        let info = crate::node::testing::node(vec![Token(-7), Token(5)]);
        let local = &schema.table("system", "local").expect("a system table").schema;
        let mut mutations = vec![node(&schema, &info, 100)];
        let expected = Remembered {
            host_id: Some(info.host_id),
            schema_version: Some(version),
            generation: info.generation,
            tokens: info.tokens.clone(),
        };
        assert_eq!(remembered(&rows(local, &mutations)), expected);
        let next = Uuid::from_u128(43);
        mutations.extend(super::version(&schema, next, 200));
        let expected = Remembered { schema_version: Some(next), ..expected };
        assert_eq!(remembered(&rows(local, &mutations)), expected);
        assert_eq!(remembered(&[]), Remembered::default());
    }

    #[test]
    fn a_truncation_takes_the_place_of_the_one_before() {
        let schema = Schema::of_system(Uuid::from_u128(1), 2);
        let table = &schema.table("system", "truncated").expect("a system table").schema;
        let place = |base, offset| ReplayPosition {
            segment: storage::commitlog::SegmentId::new(0, base),
            offset,
        };
        let id = Uuid::from_u128(9);
        let first = truncated(&schema, id, 5_000_000, &[(0, place(3, 77)), (1, place(4, 88))]);
        let second = truncated(&schema, id, 6_000_999, &[(1, place(5, 99))]);
        let found = rows(table, &[first, second]);
        let [row] = &found[..] else { panic!("{found:?}") };
        let bytes = |name: &str| row.get(name).expect(name).to_vec();
        assert_eq!(bytes("truncated_at"), 6_000i64.to_be_bytes());
        assert_eq!(bytes("shard"), 1i32.to_be_bytes());
        assert_eq!(bytes("segment_id"), 5i64.to_be_bytes());
        assert_eq!(bytes("position"), 99i32.to_be_bytes());
    }
}
