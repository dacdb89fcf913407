//! Mutations, rows, cells and collections from foreign bytes: what is accepted can be read, merged,
//! compacted and compared without a panic, and merges do not depend on their order. The first byte
//! chooses the form, the second where the input is cut into the two that are merged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mutation::{
    Cell, CollectionView, CompactionFilter, FrozenView, Outside, Purge, QueryCompactor, RowView,
    Step, Tombstone, collection, counter, frozen, row, testing,
};

fuzz_target!(|input: &[u8]| {
    let [form, cut, bytes @ ..] = input else { return };
    let (a, b) = bytes.split_at(bytes.len() * (*cut as usize + 1) / 256);
    match form % 4 {
        0 => frozen_mutation(bytes),
        1 => rows(a, b),
        2 => collections(a, b),
        _ => cells(a, b),
    }
});

fn frozen_mutation(bytes: &[u8]) {
    let schema = testing::schema();
    let Ok(view) = FrozenView::parse(bytes) else { return };
    if view.check_order(&schema.order).is_err() {
        return;
    }
    let fragments = view.fragments(&schema.order);
    let mut kept = Vec::new();
    let mut filter = CompactionFilter::new(testing::NOW, Box::new(|_| Outside::UNKNOWN));
    let command = testing::read_all();
    let mut compactor = QueryCompactor::new(&schema, &command);
    for fragment in fragments {
        if compactor.consume(&fragment) == Step::Stop {
            break;
        }
        filter.push(fragment, &mut kept);
    }
    let whole = frozen::merge(&schema, view, view);
    assert!(whole.view().is_ok(), "a merge of two sound mutations is unsound");
    for part in frozen::split(&schema, view, 100) {
        assert!(part.view().is_ok());
    }
    let attached: Vec<_> = view.attached().map(|it| it.to_owned()).collect();
    let (alone, others) = view.to_owned().detach();
    assert!(alone.view().is_ok_and(|it| !it.has_attached()) && others == attached);
    let again = alone.clone().attach(others.clone()).detach();
    assert_eq!(again, (alone, others), "what was detached does not come back");
}

fn rows(a: &[u8], b: &[u8]) {
    let (Ok(a), Ok(b)) = (RowView::parse(a), RowView::parse(b)) else { return };
    let schema = testing::schema();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    row::merge(&schema, a, b, &mut one);
    row::merge(&schema, b, a, &mut other);
    assert_eq!(one, other, "a merge depends on its order");
    let merged = RowView::parse(&one).expect("a merge of sound rows is sound");
    let mut out = Vec::new();
    let shadow = Tombstone::new(5, 5);
    row::compact(merged, shadow, testing::NOW, &Purge::NEVER, &mut out);
    assert!(out.is_empty() || RowView::parse(&out).is_ok());
    row::is_live(&schema, merged, shadow, testing::NOW);
}

fn collections(a: &[u8], b: &[u8]) {
    let (Ok(a), Ok(b)) = (CollectionView::parse(a), CollectionView::parse(b)) else { return };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    collection::merge(None, a, b, &mut one);
    collection::merge(None, b, a, &mut other);
    assert!(CollectionView::parse(&one).is_ok() && CollectionView::parse(&other).is_ok());
    let mut out = Vec::new();
    collection::difference(None, a, b, &mut out);
    for column in testing::schema().columns {
        if column.ty.is_multi_cell() {
            collection::merge(Some(&column.ty), a, b, &mut out);
            collection::live_elements(a, Tombstone::NONE, testing::NOW, &mut Vec::new());
        }
    }
}

fn cells(a: &[u8], b: &[u8]) {
    let (Ok(x), Ok(y)) = (Cell::parse(a), Cell::parse(b)) else { return };
    assert_eq!(mutation::cell::compare(&x, &y), mutation::cell::compare(&y, &x).reverse());
    let mut out = Vec::new();
    x.write(&mut out);
    assert_eq!(Cell::parse(&out).as_ref(), Ok(&x));
    if counter::check(a).is_ok() && counter::check(b).is_ok() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        counter::merge(a, b, &mut one);
        counter::merge(b, a, &mut other);
        assert!(one == other && counter::check(&one).is_ok());
    }
}
