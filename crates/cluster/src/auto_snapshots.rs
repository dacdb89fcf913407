//! Automatic snapshots of tables that are dropped or truncated: the options `auto_snapshot` and
//! `auto_snapshot_ttl`. Without these options none are taken, nor while the disk is full: a
//! snapshot would keep the room that DROP and TRUNCATE are to free.

use crate::settings::{Live, Settings, anything};
use runtime::time::wall_micros;
use std::time::Duration;
use storage::{Memtables, SnapshotOrder, SnapshotTag, Storage};

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
        let storage = runtime::local::try_get::<Storage>();
        if storage.is_some_and(|storage| storage.disk_state().refuses_writes) {
            tracing::warn!(
                target: "snapshot",
                "no {what} snapshot is taken: the disk is full, and a snapshot frees nothing"
            );
            return None;
        }
        let millis = wall_micros().div_euclid(1000);
        let mut name = format!("{what}-{millis}");
        name.extend(table.into_iter().flat_map(|table| ["-", table]));
        let tag = SnapshotTag::new(&name).expect("names of tables can be names of files");
        let ttl = u64::try_from(self.ttl_secs.get()).ok().filter(|secs| 0 < *secs);
        let ttl = ttl.map(Duration::from_secs);
        debug_assert!(ttl.is_none_or(|ttl| !ttl.is_zero()), "a snapshot that is gone at once");
        debug_assert!(!what.is_empty(), "a snapshot of no occasion");
        Some(SnapshotOrder { tag, memtables: Memtables::Flushed, ttl })
    }
}
