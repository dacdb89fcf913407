//! The rows of `system.local`, in which the node describes itself and finds what it keeps across
//! restarts; and those of `system.truncated`.
//!
//! Invariants
//!  - *remembered*: what [`node()`] says of name and tokens, [`remembered`] gives back.
//!  - *one-place-a-shard*: a truncation says one place at most in the log of a shard.

use crate::node::{CQL_VERSION, NodeInfo, PARTITIONER, Remembered};
use crate::schema::Schema;
use catalog::facts::LOCAL_KEY;
use catalog::features;
use catalog::rows::Row;
use catalog::rows::partition::{PartitionWriter, Value, bigint, inet, int, text, uuid};
use model::{Token, Uuid};
use mutation::FrozenMutation;
use storage::commitlog::ReplayPosition;

/// What stands in the table for the tokens of a node that has none: no key has it, and no node.
const NO_TOKEN: Token = Token(i64::MIN);

/// The protocol version for drivers; they may negotiate a newer one.
const NATIVE_PROTOCOL_VERSION: &str = "4";

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
    tokens.retain(|token| *token != NO_TOKEN);
    tokens.sort();
    Remembered {
        host_id: uuid("host_id"),
        schema_version: uuid("schema_version"),
        generation: generation.map_or(0, i32::from_be_bytes),
        tokens,
    }
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
    let once = places.is_sorted_by(|a, b| a.0 < b.0);
    debug_assert!(once, "one-place-a-shard: {places:?}");
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

/// The same partition, without anything: the table is no more.
pub(crate) fn not_truncated(schema: &Schema, table: Uuid, at: i64) -> FrozenMutation {
    let truncated = &schema.table("system", "truncated").expect("a system table").schema;
    let mut partition = PartitionWriter::new(truncated, &[table.as_bytes()], at);
    partition.delete_rows(&[]);
    partition.freeze()
}

/// All that the node says of itself. The version of the schema is no part of it: that comes with
/// the command that makes it, whenever the node starts.
pub(crate) fn node(schema: &Schema, node: &NodeInfo, timestamp: i64) -> FrozenMutation {
    let local = &schema.table("system", "local").expect("a system table").schema;
    let mut partition = PartitionWriter::new(local, &[LOCAL_KEY], timestamp);
    assert!(!node.host_id.is_nil(), "remembered: a node without a name");
    // Drivers take a node that shows none for nobody, also where it is the one that they were told.
    let shown = if node.tokens.is_empty() { &[NO_TOKEN][..] } else { &node.tokens[..] };
    let has_none = node.tokens.contains(&NO_TOKEN);
    assert!(!has_none, "remembered: a token that stands for none");
    let tokens = shown.iter().map(|token| token.0.to_string().into_bytes()).collect();
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
            ("supported_features", text(&features::joined(&node.features))),
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
    use catalog::facts;
    use catalog::rows::testing::rows;

    #[test]
    fn what_the_node_says_is_remembered() {
        let version = Uuid::from_u128(42);
        let schema = Schema::of_system(version, 1);
        let info = crate::node::testing::node(vec![Token(-7), Token(5)]);
        let local = &schema.table("system", "local").expect("a system table").schema;
        let mut mutations = vec![node(&schema, &info, 100)];
        let expected = Remembered {
            host_id: Some(info.host_id),
            schema_version: None,
            generation: info.generation,
            tokens: info.tokens.clone(),
        };
        assert_eq!(remembered(&rows(local, &mutations)), expected);
        let next = Uuid::from_u128(43);
        // Of a command that is older than this start.
        mutations.extend(facts::version(&schema, next, 50));
        let expected = Remembered { schema_version: Some(next), ..expected };
        assert_eq!(remembered(&rows(local, &mutations)), expected);
        assert_eq!(remembered(&[]), Remembered::default());
        // What stands there for no tokens is none.
        let bare = crate::node::testing::node(Vec::new());
        let found = rows(local, &[node(&schema, &bare, 100)]);
        assert!(found[0].get("tokens").is_some_and(|bytes| !bytes.is_empty()));
        assert_eq!(remembered(&found).tokens, []);
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
        let second = truncated(&schema, id, 6_000_999, &[(1, place(5, 99))]);
        let dropped = not_truncated(&schema, id, 6_001_000);
        assert_eq!(rows(table, &[second, dropped]).len(), 0);
    }
}
