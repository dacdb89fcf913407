//! Asking for room on the disk before a merge begins (`compaction::disk_space`): shard 0 answers,
//! for all shards.

use super::super::Shard;
use super::purge::Purger;
use crate::compaction::Job;
use crate::compaction::disk_space::{Claim, Input, Short, left, needed};
use crate::compaction::policy::Why;
use crate::table::Table;
use reader::ReadError;
use runtime::io::fs;
use runtime::time::wall_micros;
use runtime::{local, on_all_shards, on_shard};
use std::rc::Rc;

impl Job {
    /// What it needs of the disk, in bytes.
    pub(super) fn needed(&self, shard: &Shard) -> u64 {
        if self.why == Why::Expired {
            return 0;
        }
        let of = |one: &Rc<sstable::Table>| Input {
            tokens: (one.first_key().token, one.last_key().token),
            bytes: one.disk_bytes(),
        };
        let inputs: Vec<Input> = self.inputs.iter().map(of).collect();
        if self.why == Why::Reshard {
            // Its part of what stays until all tablets have theirs.
            return (needed(&inputs, u64::MAX, true) as f64 * self.part) as u64;
        }
        let now = wall_micros() / 1_000_000;
        let place = (&*self.table, &*self.tablet);
        let forgets = Purger::of(shard, place, &self.inputs, now).is_some();
        needed(&inputs, (self.bytes_max as f64 * self.compression()) as u64, forgets)
    }

    /// The same with the room that it needs; refused where there is none.
    pub(super) async fn with_room(self, shard: &Shard) -> Result<Job, ReadError> {
        assert!(self.claim.is_none(), "fits-first: a job with its room");
        let claim = claim_or_refuse(shard, &self.table, self.needed(shard)).await?;
        Ok(Job { claim: Some(claim), ..self })
    }
}

/// Room for what somebody asked to be done to a table; who asked is told where there is none.
pub(super) async fn claim_or_refuse(
    shard: &Shard,
    table: &Table,
    needed: u64,
) -> Result<Claim, ReadError> {
    claim(shard, needed).await.map_err(|Short { room }| {
        ReadError::Overloaded(format!(
            "no room on the disk: {} needs {needed} bytes, {room} are free beside a reserve for \
             writes",
            table.name()
        ))
    })
}

/// Asks for room (*fits-first*).
pub(super) async fn claim(shard: &Shard, needed: u64) -> Result<Claim, Short> {
    let room = shard.compactions.room.clone();
    if needed == 0 {
        return Ok(Claim::new(room, 0));
    }
    assert!(0 < needed, "fits-first: a claim of nothing");
    let here = runtime::shard_id();
    on_shard(0, move || promise(needed, here)).await?;
    Ok(Claim::new(room, needed))
}

/// On shard 0: promises room to a shard (*one-answer*).
async fn promise(needed: u64, to: runtime::ShardId) -> Result<(), Short> {
    let Some(shard) = local::try_get::<Shard>() else { return Err(Short { room: 0 }) };
    let room = shard.compactions.room.clone();
    let Ok(_turn) = room.turn.acquire(1).await else { return Err(Short { room: 0 }) };
    let room = match fs::space(&shard.config.data_dir).await {
        Ok(space) => {
            let wanted = on_all_shards(|| async {
                local::try_get::<Shard>().map_or((0, 0), |shard| {
                    (shard.compactions.room.promised.get(), shard.reserve())
                })
            });
            let wanted = wanted.await.into_iter();
            let (promised, reserve) = wanted.fold((0u64, 0u64), |sum, of| {
                (sum.0.saturating_add(of.0), sum.1.saturating_add(of.1))
            });
            left(space, reserve, shard.space.reserve_of_compaction(), promised)
        }
        // It will be seen when it writes.
        Err(error) => {
            tracing::debug!("{error}");
            u64::MAX
        }
    };
    assert!(runtime::shard_id() == 0, "one-answer: shard 0 promises");
    if room < needed {
        return Err(Short { room });
    }
    on_shard(to, move || async move {
        if let Some(shard) = local::try_get::<Shard>() {
            let promised = &shard.compactions.room.promised;
            promised.set(promised.get() + needed);
        }
    })
    .await;
    Ok(())
}

impl Shard {
    /// Bytes of the disk that log and memtables may still come to.
    fn reserve(&self) -> u64 {
        let log = self.config.commitlog_bytes_max;
        let log = log.saturating_sub(self.data_log.stats().disk_bytes);
        log + self.config.memtable_bytes_max as u64 / 2
    }
}
