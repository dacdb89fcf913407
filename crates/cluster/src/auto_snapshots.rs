//! Automatic snapshots of tables that are dropped or truncated: the options `auto_snapshot` and
//! `auto_snapshot_ttl`. Without these options none are taken.

use crate::settings::{Live, Settings, anything};
use runtime::time::wall_micros;
use std::time::Duration;
use storage::{Memtables, SnapshotOrder, SnapshotTag};

/// The two options, as they are now.
pub(crate) struct AutoSnapshots {
    wanted: Live<bool>,
    /// Seconds; 0: they stay.
    ttl_secs: Live<i64>,
}

fn not_negative(secs: &i64) -> Result<(), String> {
    if *secs < 0 { Err("less than 0".to_owned()) } else { Ok(()) }
}

impl AutoSnapshots {
    pub(crate) fn of_shard() -> AutoSnapshots {
        let settings = Settings::of_shard();
        AutoSnapshots {
            wanted: settings.register("auto_snapshot", false, anything),
            ttl_secs: settings.register("auto_snapshot_ttl", 0, not_negative),
        }
    }

    /// The snapshot to be taken before `what` is done, if one is wanted. Its name has the time and,
    /// so that two at one time differ, the table.
    pub(crate) fn order(&self, what: &str, table: Option<&str>) -> Option<SnapshotOrder> {
        if !self.wanted.get() {
            return None;
        }
        let millis = wall_micros().div_euclid(1000);
        let mut name = format!("{what}-{millis}");
        name.extend(table.into_iter().flat_map(|table| ["-", table]));
        let tag = SnapshotTag::new(&name).expect("names of tables can be names of files");
        let ttl = u64::try_from(self.ttl_secs.get()).ok().filter(|secs| 0 < *secs);
        let ttl = ttl.map(Duration::from_secs);
        Some(SnapshotOrder { tag, memtables: Memtables::Flushed, ttl })
    }
}
