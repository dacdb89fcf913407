use super::*;
use model::testing::{key_type, partition_key_of, table_schema, value_of};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Ordering;
use stdx::Bytes;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn prefix_of(values: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| model::key::push_clustering(value, &mut out));
    out
}

fn position_of(order: &ClusteringOrder, values: &[Vec<u8>], weight: i8) -> Vec<u8> {
    let mut out = Vec::new();
    put_position(order, (&prefix_of(values), weight), &mut out);
    out
}

/// Type, direction, value, and the key of that one value as Cassandra 5.0 encodes it.
#[test]
fn golden_values() {
    for line in include_str!("golden.txt").lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let [cql, direction, value, expected] = fields[..] else { panic!("{line}") };
        let ty = Type::from_cql(cql, &|_| None).unwrap();
        let order = ClusteringOrder { columns: vec![(ty, direction == "desc")] };
        let found = position_of(&order, &[bytes_of(value)], 0);
        assert_eq!(hex_of(&found), expected, "{cql} {direction} {value}");
    }
}

#[test]
fn golden_bounds() {
    let columns = vec![(Type::SmallInt, false), (Type::Float, true), (Type::Text, false)];
    let order = ClusteringOrder { columns };
    let values = [vec![0, 1], vec![0x3f, 0x80, 0, 0], b"a".to_vec()];
    let check = |count: usize, weight, expected: &str| {
        assert_eq!(hex_of(&position_of(&order, &values[..count], weight)), expected);
    };
    check(0, -1, "20");
    check(0, 1, "60");
    check(1, -1, "40800120");
    check(1, 1, "40800160");
    check(2, -1, "40800140407fffff20");
    check(3, -1, "40800140407fffff40610020");
    check(3, 0, "40800140407fffff40610038");
    check(3, 1, "40800140407fffff40610060");
    // Short keys of compact tables.
    check(2, 0, "40800140407fffff3e38");
    check(1, 0, "4080013e3e38");
}

#[test]
fn golden_partition_keys() {
    let check = |key: &str, expected: &str| {
        let key = DecoratedKey::new(Bytes::copy_from(&bytes_of(key)));
        let mut out = Vec::new();
        put_partition_key(&key, &KeyForm::Whole, &mut out);
        assert_eq!(hex_of(&out), expected);
        assert!(out.starts_with(&token_bytes(key.token)));
    };
    check("6b657931", "4095d67461d2044fb3406b6579310038");
    check("00000000", "404fa0f7ddd84c76bc4000fefefefe38");
    check("0001", "40fcb3f5c58dab264c4000ff010038");
    check("00", "40c610abe56eff5cb54000fe38");
    check("6100", "4016a698500b4e98bd406100fe38");
}

/// A type, whether it descends, and values of it: some empty, some invalid.
fn column() -> impl Strategy<Value = ((Type, bool), Vec<Vec<u8>>)> {
    (key_type(), any::<bool>()).prop_flat_map(|(ty, descending)| {
        let value = prop_oneof![9 => value_of(&ty), 1 => Just(Vec::new())];
        (Just((ty, descending)), vec(value, 4))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// *ordered* and *prefix-free*, against the order of the rows.
    #[test]
    fn positions_are_ordered(
        columns in vec(column(), 1..4),
        picks in vec((vec(0usize..4, 0..4), -1i8..=1), 2..6),
    ) {
        let order = ClusteringOrder { columns: columns.iter().map(|(ty, _)| ty.clone()).collect() };
        let positions: Vec<(Vec<u8>, i8)> = picks.iter().map(|(picks, weight)| {
            let values = columns.iter().zip(picks).map(|((_, values), pick)| values[*pick].clone());
            (prefix_of(&values.collect::<Vec<_>>()), *weight)
        }).collect();
        let encoded: Vec<Vec<u8>> = positions.iter().map(|(prefix, weight)| {
            let mut out = Vec::new();
            put_position(&order, (prefix, *weight), &mut out);
            out
        }).collect();
        for (a, a_bytes) in positions.iter().zip(&encoded) {
            for (b, b_bytes) in positions.iter().zip(&encoded) {
                let expected = order.compare((&a.0, a.1), (&b.0, b.1));
                prop_assert_eq!(a_bytes.cmp(b_bytes), expected, "{:?} {:?} {:?}", a, b, order);
                let is_prefix = b_bytes.starts_with(a_bytes);
                prop_assert_eq!(is_prefix, expected == Ordering::Equal);
            }
        }
    }

    #[test]
    fn partition_keys_are_ordered(
        (schema, keys) in table_schema().prop_flat_map(|schema| {
            let key = partition_key_of(&schema);
            (Just(schema), vec(key, 2..5))
        }),
        same_token: bool,
    ) {
        let keys: Vec<DecoratedKey> = keys.into_iter().map(|key| {
            let key = DecoratedKey::new(key.into());
            let token = if same_token { Token(7) } else { key.token };
            DecoratedKey { token, ..key }
        }).collect();
        let encode = |key: &DecoratedKey, form: &KeyForm| {
            let mut out = Vec::new();
            put_partition_key(key, form, &mut out);
            out
        };
        let columns = KeyForm::of(Version::Ms, &schema);
        prop_assert_ne!(&columns, &KeyForm::of(Version::Mt, &schema));
        for a in &keys {
            for b in &keys {
                let whole = encode(a, &KeyForm::Whole).cmp(&encode(b, &KeyForm::Whole));
                prop_assert_eq!(whole, a.cmp(b));
                let typed = encode(a, &columns).cmp(&encode(b, &columns));
                if !same_token {
                    prop_assert_eq!(typed, a.cmp(b));
                }
                // Bounds surround the key, and those of the token surround all keys.
                let own = Some(&b.key[..]);
                for (key, weight) in [(None, -1), (own, -1), (own, 1), (None, 1)] {
                    let mut bound = Vec::new();
                    put_partition_position(b.token, key, weight, &KeyForm::Whole, &mut bound);
                    let expected = match (a.token.cmp(&b.token), key) {
                        (Ordering::Equal, Some(key)) => a.key[..].cmp(key),
                        (order, _) => order,
                    };
                    let expected = expected.then(0.cmp(&weight));
                    prop_assert_eq!(encode(a, &KeyForm::Whole).cmp(&bound), expected);
                }
            }
        }
    }

    /// Whatever is in a file, encoding it ends, and takes little more than it.
    #[test]
    fn any_bytes_are_encoded(ty in model::testing::value_type(), value: Vec<u8>) {
        let order = ClusteringOrder { columns: vec![(ty.clone(), false)] };
        let out = position_of(&order, std::slice::from_ref(&value), 0);
        prop_assert!(out.len() <= 64 + 8 * value.len(), "{:?} {:?}", ty, value);
    }
}
