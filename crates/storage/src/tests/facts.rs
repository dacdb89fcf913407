//! The SSTables of a table in figures.

use super::*;

#[test]
fn partitions_are_counted_by_their_cells_and_bytes() {
    runtime::sim::test(1, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        for first in [0, 10] {
            for (key, cells) in (first..).zip([1, 2, 3, 1, 9]) {
                for row in 0..cells {
                    storage.apply(write(&schema, key, row, 1, b"v")).await.unwrap();
                }
            }
            storage.flush(schema.id).await.unwrap();
        }
        let facts = storage.table_facts(schema.id);
        assert_eq!(facts.partition_cells, [(1, 4), (2, 2), (3, 2), (10, 2)]);
        assert_eq!(facts.partitions, 10);
        let counted: u64 = facts.partition_bytes.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, 10);
        let ends = (facts.partition_bytes[0].0 as u64, facts.partition_bytes_max);
        assert_eq!((facts.partition_bytes_min, 2 * ends.0 < ends.1), (ends.0, true));
    });
}
