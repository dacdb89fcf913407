//! A partition whose key has no bytes, as a view by a column has one where that is the empty text.

use super::*;
use testkit::SimNode;

const OTHERS: u64 = 5;

fn keys() -> Vec<Vec<u8>> {
    std::iter::once(Vec::new()).chain((0..OTHERS).map(key)).collect()
}

fn row(table: &TableSchema, key: &[u8], row: u32, timestamp: i64) -> FrozenMutation {
    let mut builder = MutationBuilder::new(table, key);
    let mut blob = RowBuilder::new(Vec::new());
    blob.marker(Marker::Live { timestamp });
    blob.cell(V, Cell::live(timestamp, b"x"));
    builder.row(&clustering(&[row, 0]), &blob.finish());
    builder.freeze()
}

/// Keys and how many rows each has, read by pages of so many rows.
async fn found(
    storage: &Storage,
    table: &TableSchema,
    partitions: Partitions,
    page_rows: u64,
) -> BTreeMap<Vec<u8>, usize> {
    let mut command = ReadCommand { row_limit: page_rows, ..command(table, partitions) };
    let mut found = BTreeMap::new();
    loop {
        let page = storage.read(&command).await.unwrap();
        let view = PageView::parse(&page.bytes, command.layout()).unwrap();
        for partition in view.partitions() {
            *found.entry(partition.key().to_vec()).or_default() += partition.rows().count();
        }
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return found,
        }
    }
}

async fn check(storage: &Storage, table: &TableSchema, rows: usize) {
    let expected: BTreeMap<Vec<u8>, usize> = keys().into_iter().map(|key| (key, rows)).collect();
    let bound = |token, after| mutation::RingBound { token, key: None, after };
    let (start, end) = (bound(model::Token::MIN, false), bound(model::Token::MAX, true));
    for page_rows in [1, 2, 1_000] {
        let all = Partitions::Range { start: start.clone(), end: end.clone() };
        assert_eq!(found(storage, table, all, page_rows).await, expected, "{page_rows} a page");
        // Twice: once from where it is, once from the cache.
        for _ in 0..2 {
            let one = found(storage, table, Partitions::Key(Vec::new()), page_rows).await;
            assert_eq!(one, BTreeMap::from([(Vec::new(), rows)]), "{page_rows} a page");
        }
    }
}

#[test]
fn it_is_a_partition_like_others_wherever_it_is() {
    for alone in [false, true] {
        let mut node = SimNode::new(u64::from(alone), 1);
        let table = schema(1, "t1");
        node.run({
            let table = table.clone();
            async move {
                let storage = open(config()).await;
                storage.replay(Log::Data).await.unwrap();
                if alone {
                    // An SSTable of nothing else.
                    storage.apply(row(&table, b"", 1, 1)).await.unwrap();
                    storage.flush(table.id).await.unwrap();
                }
                for key in keys() {
                    storage.apply(row(&table, &key, 1, 1)).await.unwrap();
                }
                check(&storage, &table, 1).await;
                storage.flush(table.id).await.unwrap();
                check(&storage, &table, 1).await;
                for key in keys() {
                    storage.apply(row(&table, &key, 2, 2)).await.unwrap();
                }
                check(&storage, &table, 2).await;
            }
        });
        node.crash();
        node.run(async move {
            let storage = open(config()).await;
            storage.replay(Log::Data).await.unwrap();
            check(&storage, &table, 2).await;
            storage.flush(table.id).await.unwrap();
            check(&storage, &table, 2).await;
            storage.compact_all(table.id, Default::default()).await.unwrap();
            check(&storage, &table, 2).await;
            let deletion = mutation::Tombstone::new(3, 1_000);
            let mut builder = MutationBuilder::new(&table, b"");
            builder.delete_partition(deletion);
            storage.apply(builder.freeze()).await.unwrap();
            let one = found(&storage, &table, Partitions::Key(Vec::new()), 10).await;
            assert_eq!(one.values().sum::<usize>(), 0);
        });
    }
}
