use super::*;

#[test]
fn sizes() {
    let check = |bytes: f64, expected: [&str; 3]| {
        assert_eq!([size(bytes), size_iec(bytes), size_short(bytes)], expected.map(str::to_string));
    };
    check(0.0, ["0 bytes", "0 bytes", "0 bytes"]);
    check(1023.0, ["1023 bytes", "1023 bytes", "1023 bytes"]);
    check(45056.0, ["44.00 KB", "44.00 KiB", "44 KB"]);
    check(-206_015.0, ["-201.19 KB", "-201.19 KiB", "-201.19 KB"]);
    check(6_414_780.0, ["6.12 MB", "6.12 MiB", "6.12 MB"]);
    check(1e15, ["909.49 TB", "909.49 TiB", "909.49 TB"]);
    check(1e18, ["909494.70 TB", "909494.70 TiB", "909494.7 TB"]);
}

#[test]
fn numbers_and_moments() {
    let check = |value: f64, expected: &str| assert_eq!(scientific(value), expected);
    check(0.0, "0.000000000000000E+00");
    check(123.456, "1.234560000000000E+02");
    check(0.000_5, "5.000000000000000E-04");
    check(f64::NAN, "nan");
    assert_eq!(moment(1_695_973_859_492), "2023-09-29T07:50:59.492");
    assert_eq!(moment(1_695_973_859_064), "2023-09-29T07:50:59.064");
    assert_eq!(moment(-1), "1969-12-31T23:59:59.999");
    assert_eq!(stamp(1_695_973_859_007), "2023-09-29 07:50:59,007");
    assert_eq!(moment(i64::MAX), i64::MAX.to_string());
}

#[test]
fn columns_are_as_wide_as_their_widest() {
    let rows = [["a", "bb", "c"], ["ddd", "e", "f"]].map(|row| row.map(str::to_string).to_vec());
    assert_eq!(left(&rows), "a   bb c\nddd e  f\n");
    assert_eq!(columns(&[Side::Right, Side::Left, Side::Left], &rows), "  a bb c\nddd e  f\n");
}

#[test]
fn forms() {
    let told = serde_json::json!({"a": [], "b": ["1", 2.5, null]});
    assert_eq!(value(&told, Form::Json).expect("JSON"), "{\"a\":[],\"b\":[\"1\",2.5,null]}\n");
    let yaml = value(&told, Form::Yaml).expect("YAML");
    let again: serde_json::Value = serde_saphyr::from_str(&yaml).expect("what was written");
    assert_eq!(again, told, "{yaml}");
    assert!(Form::named(Some("xml")).is_err());
}
