use super::*;
use serde_json::json;

#[test]
fn percentiles_of_samples_are_drawn_between_values() {
    let check = |sample: &[u64], expected: Spread| {
        assert_eq!(of_sample(&json!({"hist": {"sample": sample}})), expected, "{sample:?}");
    };
    check(&[], [0.0; 7]);
    check(&[7], [7.0; 7]);
    check(&[20, 10], [15.0, 20.0, 20.0, 20.0, 20.0, 10.0, 20.0]);
    check(&[4, 1, 3, 2], [2.5, 3.75, 4.0, 4.0, 4.0, 1.0, 4.0]);
    assert_eq!(of_sample(&json!(null)), [0.0; 7]);
}

#[test]
fn percentiles_of_buckets_are_their_upper_ends() {
    let check = |buckets: &[u64], expected: Spread| {
        let told = json!({"buckets": buckets, "bucket_offsets": [1, 2, 4]});
        assert_eq!(of_buckets(&told), expected, "{buckets:?}");
    };
    check(&[], [0.0; 7]);
    check(&[0, 0, 0, 0], [0.0; 7]);
    check(&[5, 4, 1, 0], [1.0, 2.0, 2.0, 2.0, 2.0, 0.0, 4.0]);
    check(&[0, 0, 3, 0], [4.0, 4.0, 4.0, 4.0, 4.0, 3.0, 4.0]);
    // What is above all offsets.
    check(&[0, 0, 0, 2], [4.0, 4.0, 4.0, 4.0, 4.0, 5.0, 4.0]);
}
