use super::*;
use crate::reconcile::{merge_two, page};
use model::ColumnId;
use mutation::page::Partitions;
use mutation::testing::{clustering, partition_key, read_all, schema};
use mutation::{Cell, FrozenMutation, MutationBuilder, RowBuilder};

const A: ColumnId = ColumnId(8);
const B: ColumnId = ColumnId(3);

/// A row without a marker, of these cells by id.
fn write(schema: &TableSchema, cells: &[(ColumnId, Cell<'_>)]) -> FrozenMutation {
    let mut row = RowBuilder::new(Vec::new());
    cells.iter().for_each(|(id, cell)| row.cell(*id, *cell));
    let mut builder = MutationBuilder::new(schema, &partition_key(1));
    builder.row(&clustering(1, "d"), &row.finish());
    builder.freeze()
}

/// Two replicas have a row by different cells, each of which the other one has deleted: who asks
/// for neither sees equal rows, which are not there when both are merged.
#[test]
fn rows_that_are_there_for_other_reasons_are_not_equal() {
    let schema = schema();
    let first = write(&schema, &[(B, Cell::dead(70, 1)), (A, Cell::live(10, &[0; 4]))]);
    let second = write(&schema, &[(B, Cell::live(60, b"b")), (A, Cell::dead(50, 1))]);
    let partitions = Partitions::Key(partition_key(1));
    let command = ReadCommand { partitions, columns: Vec::new(), static_count: 0, ..read_all() };
    let of = |command: &ReadCommand, mutation: &FrozenMutation| {
        page(&schema, command, std::slice::from_ref(mutation), None).0
    };
    let plain = [&first, &second].map(|one| Digest::of(&of(&command, one)));
    assert_eq!(plain[0], plain[1], "the mistake that is to be avoided");
    assert_eq!(of(&command, &merge_two(&schema, &first, &second)).row_count, 0);
    let asked = comparable(&command);
    let told = [&first, &second].map(|one| Digest::of(&of(&asked, one)));
    assert_ne!(told[0], told[1], "equal-is-merged: there for other reasons");
    // The same reason with other values is the same.
    let third = write(&schema, &[(A, Cell::live(11, &[1; 4]))]);
    let fourth = write(&schema, &[(A, Cell::live(12, &[2; 4]))]);
    let told = [&third, &fourth].map(|one| Digest::of(&of(&asked, one)));
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_digest_has_all_that_a_page_says() {
    let resume = Resume { key: vec![1], after: Some((vec![2], 1)), rows_in_partition: 3 };
    let page = Page { bytes: vec![7; 9], row_count: 2, partition_count: 1, ..Page::default() };
    let page = Page { resume: Some(resume.clone()), ..page };
    let digest = Digest::of(&page);
    let check = |changed: Page| assert_ne!(Digest::of(&changed), digest, "{changed:?}");
    check(Page { bytes: vec![7; 8], ..page.clone() });
    check(Page { row_count: 3, ..page.clone() });
    check(Page { partition_count: 0, ..page.clone() });
    check(Page { resume: None, ..page.clone() });
    for changed in [
        Resume { after: None, ..resume.clone() },
        Resume { key: vec![2], ..resume.clone() },
        Resume { after: Some((vec![2], -1)), ..resume.clone() },
        Resume { rows_in_partition: 4, ..resume },
    ] {
        check(Page { resume: Some(changed), ..page.clone() });
    }
    assert_eq!(Digest::of(&Page { tombstones_seen: 5, ..page }), digest);
}

#[test]
fn pieces_are_those_that_a_replica_would_have_made() {
    let schema = schema();
    let both = [(B, Cell::live(3, b"b")), (A, Cell::live(3, &[0, 0, 0, 5]))];
    let all = write(&schema, &both);
    let partitions = Partitions::Key(partition_key(1));
    let columns = vec![(B, ColumnForm::Value), (A, ColumnForm::Value)];
    let pieces = [
        RowPiece::Clustering(1),
        RowPiece::PartitionKey(0),
        RowPiece::Regulars,
        RowPiece::Clustering(0),
    ];
    let shape = RowShape::Pieces(pieces.into_iter().collect());
    let command = ReadCommand { partitions, columns, static_count: 0, shape, ..read_all() };
    let expected = page(&schema, &command, std::slice::from_ref(&all), None).0;
    assert!(!expected.bytes.is_empty());
    for asked in [comparable(&command), ReadCommand { shape: RowShape::Whole, ..command.clone() }] {
        let whole = page(&schema, &asked, std::slice::from_ref(&all), None).0;
        assert_eq!(finish(&schema, &command, &asked, whole).bytes, expected.bytes);
    }
}
