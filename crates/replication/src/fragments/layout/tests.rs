use super::*;
use model::Uuid;
use model::schema::fragments::output_id;
use proptest::prelude::*;

fn table() -> TableSchema {
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(7))
        .partition_key("pk", Type::Int)
        .clustering("a", Type::Int)
        .clustering_descending("b", Type::Int)
        .static_column("s", Type::Text)
        .regular("v", Type::Text);
    table.build().unwrap()
}

fn ints(values: &[i32]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| push_clustering(&value.to_be_bytes(), &mut out));
    out
}

/// A bound of the fragments' table.
fn bound(source: &str, region: Option<i8>, columns: &[i32], weight: Option<i8>) -> Vec<u8> {
    let mut out = Vec::new();
    push_clustering(source.as_bytes(), &mut out);
    region.iter().for_each(|region| push_clustering(&[*region as u8], &mut out));
    out.extend(ints(columns));
    weight.iter().for_each(|weight| push_clustering(&[*weight as u8], &mut out));
    out
}

fn at(prefix: Vec<u8>, weight: i8) -> ClusteringPosition {
    ClusteringPosition { prefix: prefix.into(), weight }
}

fn of_prefix(prefix: Vec<u8>) -> ClusteringRange {
    ClusteringRange::of_prefix(prefix.into())
}

#[test]
fn the_table_has_the_columns_of_keys_and_five_of_its_own() {
    let output = output_schema(&table()).unwrap();
    let names: Vec<&str> = output.columns.iter().map(|column| column.name.as_str()).collect();
    let keys = ["pk", "mutation_source", "partition_region", "a", "b", "position_weight"];
    assert_eq!(names[..6], keys);
    assert_eq!(names[6..], ["metadata", "mutation_fragment_kind", "value"]);
    assert!(output.columns[4].reversed);
    assert_eq!(output_id(output.id), table().id);
    let clash = TableSchema::builder("ks", "t", Uuid::nil()).partition_key("value", Type::Int);
    assert!(output_schema(&clash.build().unwrap()).is_err());
}

#[test]
fn keys_of_rows_are_read_again() {
    let layout = Layout::of(&table());
    for region in [START, STATIC, END] {
        let key = layout.key("row-cache", region);
        let place = Place { source: b"row-cache", region, spot: None };
        assert_eq!(layout.place(&key), Some(place));
    }
    let open = Tombstone::new(5, 6);
    for (prefix, weight, opening, open) in [
        (ints(&[]), -1, true, open),
        (ints(&[1]), 1, false, Tombstone::NONE),
        (ints(&[1, 2]), 0, false, open),
    ] {
        let spot = Spot { position: at(prefix, weight), opening, open };
        let key = layout.key_of("sstable:x", &spot);
        let shown: Vec<&[u8]> = clustering_components(&key).collect();
        assert_eq!(
            (shown[0], shown[1], shown[4]),
            (&b"sstable:x"[..], &[2][..], &[weight as u8][..])
        );
        let place = Place { source: b"sstable:x", region: CLUSTERED, spot: Some(spot) };
        assert_eq!(layout.place(&key), Some(place));
        for cut in 0..key.len() {
            assert_eq!(layout.place(&key[..cut]), None, "{cut}");
        }
    }
    assert_eq!(layout.place(&layout.key("m", 7)), None);
}

#[test]
fn ranges_name_regions_and_positions() {
    let layout = Layout::of(&table());
    let wanted = |ranges: &[ClusteringRange]| layout.wanted("m", ranges, None);
    let all = Wanted { start: true, statics: true, end: true, rows: vec![RowRange::all()] };
    assert_eq!(wanted(&[ClusteringRange::full()]), Some(all.clone()));
    assert_eq!(wanted(&[of_prefix(bound("m", None, &[], None))]), Some(all));
    assert_eq!(wanted(&[of_prefix(bound("n", None, &[], None))]), None);
    assert_eq!(wanted(&[of_prefix(bound("l", None, &[], None))]), None);
    let start = Wanted { start: true, ..Wanted::default() };
    assert_eq!(wanted(&[of_prefix(bound("m", Some(0), &[], None))]), Some(start.clone()));
    // What is named of a column of rows is nothing of what is no row.
    assert_eq!(wanted(&[of_prefix(bound("m", Some(0), &[1], None))]), None);
    let rows = |range, low, high, stop| {
        let rows = vec![RowRange { range, low, high, stop, resumed: None }];
        Some(Wanted { rows, ..Wanted::default() })
    };
    let one = ClusteringRange { start: at(ints(&[1]), -1), end: at(ints(&[1]), 1) };
    let named = of_prefix(bound("m", Some(2), &[1], None));
    assert_eq!(wanted(&[named]), rows(one, None, None, None));
    let key: Bytes = ints(&[1, 2]).into();
    let row = ClusteringRange::of_prefix(key.clone());
    let named = |weight| of_prefix(bound("m", Some(2), &[1, 2], Some(weight)));
    let (low, high) = (Some((key.clone(), 0)), Some((key.clone(), 0)));
    assert_eq!(wanted(&[named(0)]), rows(row.clone(), low, high, None));
    let rest = ClusteringRange { end: ClusteringPosition::end(), ..row };
    let (low, high) = (Some((key.clone(), 1)), Some((key.clone(), 1)));
    let stop = Some(ClusteringPosition::after(key));
    assert_eq!(wanted(&[named(1)]), rows(rest, low, high, stop));
}

#[test]
fn what_was_shown_is_not_wanted_again() {
    let layout = Layout::of(&table());
    let full = [ClusteringRange::full()];
    let after = |source: &str, region, spot: Option<Spot>| {
        let place = Place { source: source.as_bytes(), region, spot };
        layout.wanted("m", &full, Some(&place))
    };
    assert_eq!(after("n", START, None), None);
    assert_eq!(after("l", END, None), layout.wanted("m", &full, None));
    let rest = Wanted { statics: true, end: true, rows: vec![RowRange::all()], start: false };
    assert_eq!(after("m", START, None), Some(rest));
    assert_eq!(after("m", END, None), None);
    let spot = Spot { position: at(ints(&[1, 2]), 0), opening: false, open: Tombstone::NONE };
    let left = after("m", CLUSTERED, Some(spot.clone())).unwrap();
    assert_eq!((left.start, left.statics, left.end), (false, false, true));
    assert_eq!(left.rows[0].range.start, at(ints(&[1, 2]), 1));
    assert_eq!(left.rows[0].resumed, Some(spot));
}

fn any_columns() -> impl Strategy<Value = Vec<i32>> {
    proptest::collection::vec(0i32..3, 0..3)
}

/// A bound with so many parts.
fn any_bound() -> impl Strategy<Value = (Vec<u8>, i8)> {
    let source = prop_oneof![Just("l"), Just("m"), Just("n")];
    let region = proptest::option::of(0i8..4);
    let weight = proptest::option::of(-1i8..2);
    let side = prop_oneof![Just(-1i8), Just(1)];
    (source, region, any_columns(), weight, side).prop_map(
        |(source, region, columns, weight, side)| {
            let columns = if region.is_some() { columns } else { Vec::new() };
            let weight = weight.filter(|_| columns.len() == 2);
            (bound(source, region, &columns, weight), side)
        },
    )
}

proptest! {
    /// A row is wanted just where its key lies in a range of the fragments' table.
    #[test]
    fn rows_are_wanted_where_their_keys_are(from in any_bound(), to in any_bound()) {
        let layout = Layout::of(&table());
        let order = &layout.order;
        let range = ClusteringRange { start: at(from.0, from.1), end: at(to.0, to.1) };
        prop_assume!(!range.is_empty(order));
        let wanted = layout.wanted("m", std::slice::from_ref(&range), None).unwrap_or_default();
        for (region, is_wanted) in
            [(START, wanted.start), (STATIC, wanted.statics), (END, wanted.end)]
        {
            let key = layout.key("m", region);
            prop_assert_eq!(is_wanted, range.contains(order, (&key, 0)), "region {}", region);
        }
        for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
            let position = at(ints(&[a, b]), 0);
            let spot = Spot { position: position.clone(), opening: false, open: Tombstone::NONE };
            let key = layout.key_of("m", &spot);
            let is_wanted = wanted.rows.iter().any(|rows| {
                let base = &layout.base;
                rows.range.contains(base, position.as_parts())
                    && rows.takes(base, &position)
                    && rows.stop.as_ref().is_none_or(|stop| position.compare(base, stop).is_le())
            });
            prop_assert_eq!(is_wanted, range.contains(order, (&key, 0)), "row {} {}", a, b);
        }
    }

    #[test]
    fn foreign_keys_are_refused_or_read(key in proptest::collection::vec(any::<u8>(), 0..40)) {
        let layout = Layout::of(&table());
        let _ = layout.place(&key);
    }
}
