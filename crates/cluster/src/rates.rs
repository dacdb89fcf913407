//! Rates of what was recorded ([`crate::traffic`]), kept up to date; and what all shards recorded,
//! together.

use crate::registry::Cluster;
use crate::traffic::{Taken, Traffic, Work};
use model::TableId;
use runtime::Erased;
use runtime::time::Instant;
use std::time::Duration;

/// How often the rates of everything are brought up to date.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// Brings the rates of this shard up to date, for as long as it has a cluster.
pub fn keep() -> Erased<'static, ()> {
    Erased::new(move || async move {
        let mut last = Instant::now();
        loop {
            runtime::time::sleep(LOOK_PERIOD).await;
            let now = Instant::now();
            assert!(last < now, "rates over no time");
            let seconds = (now - last).as_secs_f64();
            last = now;
            let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
            Traffic::of_shard().look(seconds);
            let schema = cluster.schema();
            for table in schema.tables() {
                table.local.traffic.look(seconds);
                runtime::task::yield_if_needed().await;
            }
        }
    })
}

/// How long work took on all shards together: of one table, or of all.
pub fn taken_on_node(work: Work, table: Option<TableId>) -> Erased<'static, Taken> {
    Erased::new(move || async move {
        let of_shard = move || async move {
            match table {
                None => Traffic::of_shard().taken(work),
                Some(id) => {
                    let cluster = runtime::local::try_get::<Cluster>()?;
                    cluster.schema().table_by_id(id)?.local.traffic.taken(work)
                }
            }
        };
        let mut all = Taken::default();
        let shards = runtime::on_all_shards(of_shard).await;
        shards.into_iter().flatten().for_each(|taken| all.merge(&taken));
        all
    })
}
