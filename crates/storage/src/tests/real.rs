//! The same storage on a real file system.

use super::*;
use testkit::real;

#[test]
fn a_storage_on_a_real_disk() {
    real::run(1, |root| async move {
        let config = Config { ..Config::new(&root, Uuid::from_u128(7)) };
        let config = Config { sync: SyncMode::Batch, segment_bytes: 16 * SEGMENT, ..config };
        let schema = schema(1, "t1");
        for round in 0..3u32 {
            let storage = open(config.clone()).await;
            let replayed = storage.replay(Log::Data).await.unwrap();
            // The second start follows no clean stop.
            assert_eq!(replayed.applied, if round == 1 { 100 } else { 0 });
            assert_eq!((replayed.corrupt_bytes, replayed.broken_files), (0, 0));
            for partition in 0..100 {
                let seen = rows(&storage, &schema, partition).await;
                assert_eq!(seen.len(), round as usize);
                let new = write(&schema, partition, round, 1, &[round as u8; 2000]);
                storage.apply(new).await.unwrap();
            }
            if round == 0 {
                runtime::local::clear::<Storage>();
                drop(storage);
            } else {
                storage.stop().await.unwrap();
            }
        }
    });
}
