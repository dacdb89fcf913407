//! Single decisions, and what is asked for.

use crate::{Deriver, Need, ViewPlan, need};
use model::schema::{Computed, ComputedColumn, TableBuilder, View, ViewCondition, ViewOperator};
use model::{ColumnId, TableSchema, Type, Uuid};
use mutation::{
    Cell, ClusteringRange, CollectionWriter, FrozenMutation, Marker, MutationBuilder,
    PartitionSink, RowBuilder, Tombstone,
};
use smallvec::smallvec;
use std::slice::from_ref;

const NOW: i64 = 1000;

/// `(p int, c int, a text, b text, m map<int, text>, t map<text, blob>, primary key (p, c))`
fn base() -> TableSchema {
    let map = Type::Map { key: Type::Int.into(), value: Type::Text.into(), frozen: false };
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("p", Type::Int);
    let table = table.clustering("c", Type::Int).regular("a", Type::Text);
    let attributes = Type::Map { key: Type::Text.into(), value: Type::Blob.into(), frozen: false };
    let table = table.regular("b", Type::Text).regular("m", map);
    table.regular("t", attributes).build().unwrap()
}

fn begin() -> TableBuilder {
    TableSchema::builder("ks", "v", Uuid::from_u128(2))
}

fn of_base() -> View {
    View { base: base().id, base_name: "t".to_owned(), ..View::default() }
}

/// A view by `a`, with `b`.
fn keyed() -> TableBuilder {
    let view = View { lives_by_marker: true, ..of_base() };
    let table = begin().partition_key("a", Type::Text).clustering("p", Type::Int);
    table.clustering("c", Type::Int).view(view)
}

/// A view by `c`.
fn mirror() -> TableBuilder {
    let table = begin().partition_key("c", Type::Int).clustering("p", Type::Int);
    table.regular("a", Type::Text).view(of_base())
}

/// A view by the attributes `x` and `y`, both in its partition key.
fn attributes() -> TableBuilder {
    let computed = |id: u32| {
        let computed = Computed::Attribute("t".to_owned());
        ComputedColumn { id: ColumnId(id), computed }
    };
    let view =
        View { lives_by_marker: true, computed: vec![computed(0), computed(1)], ..of_base() };
    let table = begin().partition_key("x", Type::Text).partition_key("y", Type::Text);
    table.clustering("p", Type::Int).clustering("c", Type::Int).view(view)
}

/// A write of attributes of the row 1.
fn item(timestamp: i64, of: &[(&str, &[u8])]) -> FrozenMutation {
    let mut elements = CollectionWriter::new(Tombstone::NONE);
    of.iter().for_each(|(name, value)| {
        elements.push(name.as_bytes(), Cell::live(timestamp, value));
    });
    write_with(|_, builder| {
        let mut row = RowBuilder::new(Vec::new());
        row.collection(id("t"), &elements.finish());
        builder.row(&clustering(1), &row.finish());
    })
}

fn clustering(c: i32) -> Vec<u8> {
    let mut key = Vec::new();
    model::key::push_clustering(&c.to_be_bytes(), &mut key);
    key
}

fn write_with(build: impl FnOnce(&TableSchema, &mut MutationBuilder<'_>)) -> FrozenMutation {
    let base = base();
    let mut builder = MutationBuilder::new(&base, &7i32.to_be_bytes());
    build(&base, &mut builder);
    builder.freeze()
}

fn id(name: &str) -> ColumnId {
    base().column(name).unwrap().id
}

/// A write of one cell of the row 1.
fn cell(name: &str, cell: Cell<'_>) -> FrozenMutation {
    write_with(|_, builder| {
        let mut row = RowBuilder::new(Vec::new());
        row.cell(id(name), cell);
        builder.row(&clustering(1), &row.finish());
    })
}

/// What is derived for one view, as its rows: partition key, tombstones, marker.
fn derived(
    view: TableBuilder,
    before: &FrozenMutation,
    write: &FrozenMutation,
) -> Vec<(Vec<u8>, Tombstone, Tombstone, Option<Marker>)> {
    let (base, view) = (base(), view.build().unwrap());
    let plans = [ViewPlan::new(&base, &view).unwrap()];
    let mut deriver = Deriver::new(&base, &plans, write.view().unwrap(), NOW);
    let fragments = before.view().unwrap().fragments(&base.order);
    fragments.iter().for_each(|fragment| {
        deriver.fragment(fragment);
    });
    let mut rows = Vec::new();
    for derived in deriver.finish() {
        let mutation = derived.mutation.view().unwrap();
        for (_, row) in mutation.rows() {
            let key = mutation.key().to_vec();
            rows.push((key, row.tombstone(), row.shadowable(), row.marker()));
        }
    }
    rows
}

/// The rows of [`attributes`], each by its attributes, with the time of its marker or of its end.
fn rows_of(
    before: &[(&str, &[u8])],
    (timestamp, write): (i64, &[(&str, &[u8])]),
) -> Vec<(Vec<u8>, Result<i64, i64>)> {
    let rows = derived(attributes(), &item(10, before), &item(timestamp, write));
    let one = |(key, _, end, marker): (Vec<u8>, Tombstone, Tombstone, Option<Marker>)| {
        let parts = model::key::split_partition_key(&key, 2).unwrap();
        let time = marker.map(|marker| marker.timestamp()).ok_or(end.timestamp);
        (parts.concat(), time)
    };
    let mut rows: Vec<_> = rows.into_iter().map(one).collect();
    rows.sort();
    rows
}

#[test]
fn rows_of_several_attributes_end() {
    let before: &[(&str, &[u8])] = &[("x", b"\0a"), ("y", b"\0b")];
    let both: &[(&str, &[u8])] = &[("x", b"\0c"), ("y", b"\0d")];
    let row = |key: &[u8; 2], time| (key.to_vec(), time);
    // Newer: what was there ends, and nothing else.
    assert_eq!(rows_of(before, (12, both)), [row(b"ab", Err(11)), row(b"cd", Ok(12))]);
    let one = &[("x", &b"\0c"[..])];
    assert_eq!(rows_of(before, (12, one)), [row(b"ab", Err(11)), row(b"cb", Ok(12))]);
    // Older: what the write alone would have made ends. What has one of the newer values could come
    // back with its time, so it stays; and so does the row that is there.
    let late = rows_of(before, (8, both)).into_iter();
    let late: Vec<_> = late.filter(|(key, _)| key != b"ab").collect();
    assert_eq!(late, [row(b"cd", Err(9))]);
}

#[test]
fn a_row_ends_up_to_what_won() {
    let before = cell("a", Cell::live(1, b"x"));
    let rows = derived(keyed(), &before, &cell("a", Cell::live(5, b"y")));
    let end = Tombstone::new(4, NOW);
    let marker = Some(Marker::Live { timestamp: 5 });
    let none = Tombstone::NONE;
    assert_eq!(rows, [(b"x".to_vec(), none, end, None), (b"y".to_vec(), none, none, marker)]);
    // A value that loses a tie loses that time as well; a deletion wins each tie.
    let rows = derived(keyed(), &before, &cell("a", Cell::live(1, b"y")));
    assert_eq!(rows[0].2, Tombstone::new(1, NOW));
    let rows = derived(keyed(), &before, &cell("a", Cell::dead(5, 0)));
    assert_eq!(rows, [(b"x".to_vec(), none, Tombstone::new(5, NOW), None)]);
    // What comes late and has lost ends what others may have made of it.
    let before = cell("a", Cell::live(5, b"y"));
    let rows = derived(keyed(), &before, &cell("a", Cell::live(3, b"x")));
    assert_eq!(rows, [(b"x".to_vec(), none, end, None)]);
}

#[test]
fn a_row_that_ends_learns_of_the_deletion_of_its_base_row() {
    let before = cell("a", Cell::live(3, b"x"));
    let deletion = Tombstone::new(6, 77);
    let write = write_with(|_, builder| {
        let mut row = RowBuilder::new(Vec::new());
        row.tombstone(deletion);
        builder.row(&clustering(1), &row.finish());
    });
    let rows = derived(keyed().regular("b", Type::Text), &before, &write);
    assert_eq!(rows, [(b"x".to_vec(), deletion, deletion, None)]);
}

#[test]
fn empty_values_have_rows_and_those_that_are_too_long_have_none() {
    let nothing = write_with(|_, _| {});
    let found = derived(keyed(), &nothing, &cell("a", Cell::live(1, b"")));
    let marker = Some(Marker::Live { timestamp: 1 });
    assert_eq!(found, [(Vec::new(), Tombstone::NONE, Tombstone::NONE, marker)]);
    let long = vec![b'x'; 70_000];
    assert_eq!(derived(keyed(), &nothing, &cell("a", Cell::live(1, &long))), []);
    // What replaces one has a row, and nothing ends.
    let before = cell("a", Cell::live(1, &long));
    assert_eq!(derived(keyed(), &before, &cell("a", Cell::live(2, b"y"))).len(), 1);
}

fn needs(views: &[TableSchema], write: &FrozenMutation) -> Need {
    let base = base();
    let plans: Vec<ViewPlan> =
        views.iter().map(|view| ViewPlan::new(&base, view).unwrap()).collect();
    need(&base, &plans, write.view().unwrap())
}

#[test]
fn only_what_is_needed_is_read() {
    let (keyed, mirror) = (keyed().build().unwrap(), mirror().build().unwrap());
    let row = ClusteringRange::of_prefix(clustering(1).into());
    let rows =
        |deletions_from| Need { statics: false, ranges: smallvec![row.clone()], deletions_from };
    let of_b = cell("b", Cell::live(9, b"z"));
    assert!(needs(from_ref(&keyed), &of_b).is_nothing());
    assert_eq!(needs(from_ref(&keyed), &cell("a", Cell::live(9, b"z"))), rows(None));
    assert_eq!(needs(from_ref(&mirror), &of_b), rows(Some(9)));
    assert!(needs(from_ref(&mirror), &cell("b", Cell::dead(9, 0))).is_nothing());
    assert_eq!(needs(&[mirror.clone(), keyed], &cell("a", Cell::live(9, b"z"))), rows(None));
    let deletion = write_with(|_, builder| builder.delete_partition(Tombstone::new(5, 5)));
    let all = Need { ranges: smallvec![ClusteringRange::full()], ..Need::default() };
    assert_eq!(needs(&[mirror], &deletion), all);
    // A partition of the view is a partition of the table: one deletion does.
    let local = begin().partition_key("p", Type::Int).clustering("a", Type::Text);
    let view = View { lives_by_marker: true, ..of_base() };
    let local = local.clustering("c", Type::Int).view(view).build().unwrap();
    assert!(needs(&[local], &deletion).is_nothing());
}

#[test]
fn rows_that_the_conditions_leave_out_are_not_read() {
    let condition = |name: &str, value: i32| ViewCondition {
        columns: vec![name.to_owned()],
        operator: ViewOperator::Equal,
        values: vec![vec![value.to_be_bytes().to_vec()]],
    };
    let with = |condition| {
        let view = View { filter: vec![condition], lives_by_marker: true, ..of_base() };
        keyed().view(view).build().unwrap()
    };
    let write = cell("a", Cell::live(9, b"z"));
    assert!(needs(&[with(condition("c", 2))], &write).is_nothing());
    assert!(needs(&[with(condition("p", 6))], &write).is_nothing());
    assert!(!needs(&[with(condition("c", 1)), with(condition("p", 6))], &write).is_nothing());
}

#[test]
fn schemas_that_do_not_fit_are_refused() {
    let check = |view: TableBuilder, expected: &str| {
        let found = ViewPlan::new(&base(), &view.build().unwrap()).unwrap_err();
        assert!(found.contains(expected), "{found}");
    };
    check(begin().partition_key("p", Type::Int), "the view ks.v: is no view");
    let other = View { base: Uuid::nil(), ..View::default() };
    check(keyed().view(other), "is of another table than ks.t");
    check(keyed().regular("zz", Type::Int), "its column zz is none of t");
    let without = begin().partition_key("a", Type::Text).clustering("p", Type::Int);
    check(without.view(of_base()), "its key has not c");
    check(keyed().clustering("b", Type::Text), "b is the second column of its key");
    check(keyed().clustering("m", Type::Text), "its key has the collection m");
    let condition = ViewCondition {
        columns: vec!["b".to_owned()],
        operator: ViewOperator::Equal,
        values: vec![vec![Vec::new()]],
    };
    let filtered = View { filter: vec![condition.clone()], ..of_base() };
    check(keyed().view(filtered), "its condition on b, which is no column of its key");
    let values = vec![vec![]];
    let columns = vec!["c".to_owned()];
    let broken = ViewCondition { columns, values, ..condition };
    let broken = View { filter: vec![broken], ..of_base() };
    check(mirror().view(broken), "the condition on (c) has not a value for each column");
    let computed = |computed| {
        let column = ComputedColumn { id: ColumnId(0), computed };
        let view = View { computed: vec![column], ..of_base() };
        let table = begin().partition_key("coll_value", Type::Text).clustering("p", Type::Int);
        table.clustering("c", Type::Int).view(view)
    };
    check(computed(Computed::ElementKey("a".to_owned())), "a has no elements with such a part");
    check(computed(Computed::ElementKey("zz".to_owned())), "its column zz is none of t");
}
