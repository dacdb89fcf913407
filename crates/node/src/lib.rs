//! A node in this process, without its listeners: what the options mean to its parts, which are
//! started in their order on every shard and stopped in reverse.
//!
//! From the ground up: [`version`], `address` and `folder` (what options name), `shards` (how many,
//! how much memory, how they end), `offers` (options as the parts are offered them); what some of
//! them mean: [`encryption`], `certificates` (logins by certificate), `seeds` (the other nodes),
//! `snitch` (data centre and rack), `handoff` (hints), `audit` (the audit log, its way to syslog),
//! `clients` (what clients may do), `racks` (of keyspaces that are there), `limits` and
//! [`patience`] (while the node runs); `config` (all of it, as values), this (start and stop).
//!
//! Runs on shard 0, which leads; what each shard needs of its own stands in `runtime::local`. Who
//! starts a node decides what it listens on: a server, or a tool that only measures.

mod address;
mod audit;
mod certificates;
mod clients;
mod config;
pub mod encryption;
mod folder;
mod handoff;
mod limits;
mod offers;
pub mod patience;
mod racks;
mod seeds;
mod shards;
mod snitch;
#[cfg(test)]
mod testing;
pub mod version;
mod zstd;

pub use address::address;
pub use clients::{Clients, clients};
pub use config::{Config, config, config_of_member};
pub use folder::{TemporaryFolder, lock, name_folders, workdir};
pub use offers::offers;
pub use shards::{end_all, follow, memory_bytes, runtime_config};

use cluster::Settings;
use options::Values;
use query::Processor;
use replication::Coordinator;
use replication::hints::Hints;
use replication::moves;
use replication::repair;
use runtime::Erased;
use std::time::Duration;

/// Starts all but the listeners. The error says what failed, and where.
pub fn start(config: Config) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let offers = config.offers;
        let offer = move || async move {
            let settings = Settings::of_shard();
            offers.into_iter().for_each(|offer| settings.offer(offer));
        };
        runtime::on_all_shards(offer).await;
        cluster::boot(config.boot).await.map_err(|error| error.to_string())?;
        let is_member = config.membership.is_some();
        if let Some(membership) = config.membership {
            cluster::membership::start(membership).await?;
        }
        let started = Coordinator::start(config.coordinator).await;
        started.map_err(|error| format!("cannot finish the batches of the last run: {error}"))?;
        if let Some(hints) = config.hints {
            Hints::start(hints, None).await?;
        }
        let cluster = runtime::local::get::<cluster::Cluster>();
        cluster.secure(config.access).await?;
        Processor::start(config.processor).await;
        query::execute_for_others().await;
        audit::start(config.audit).await?;
        let provide = || async {
            handoff::provide();
            limits::provide();
            patience::provide();
            repair::Reading::provide();
            repair::Sending::provide();
            moves::Pace::provide();
        };
        runtime::on_all_shards(provide).await;
        if is_member {
            replication::moves::start();
        }
        match Settings::of_shard().refused().into_iter().next() {
            Some(text) => Err(text),
            None => racks::check(),
        }
    })
}

/// Waits until this node has the data that it owns; it serves no clients before. The error says
/// that it was not let in after all.
pub fn joined() -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        replication::moves::joined().await?;
        let cluster = runtime::local::get::<cluster::Cluster>();
        // What cannot be parted, since it is damaged, is said and left as it is.
        if let Err(why) = cluster.part_converted().await {
            tracing::warn!(target: "tablets", "{why}");
        }
        Ok(())
    })
}

/// What those who let their options change would refuse at a start.
pub fn refused_settings(values: &Values) -> Vec<String> {
    let settings = Settings::default();
    offers(values).into_iter().for_each(|offer| settings.offer(offer));
    handoff::check(&settings);
    limits::check(&settings);
    patience::register(&settings);
    repair::Reading::registered(&settings);
    repair::Sending::registered(&settings);
    repair::Automatic::check(&settings);
    moves::Pace::registered(&settings);
    zstd::Zstd::registered(&settings);
    seeds::check(&settings);
    query::Options::check(&settings);
    query::Audit::check(&settings);
    settings.refused()
}

/// Stops what [`start`] started: what is in memory goes to files.
pub fn stop() -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        query::Audit::stop().await;
        Processor::stop().await;
        cluster::membership::stop().await;
        Coordinator::stop().await;
        Hints::stop().await;
        cluster::stop().await.map_err(|error| error.to_string())
    })
}

/// Writes what is in memory to SSTables, on every shard.
pub fn flush() -> Erased<'static, ()> {
    Erased::new(move || async move {
        let flushed = runtime::on_all_shards(|| async {
            let flushed = runtime::local::get::<storage::Storage>().flush_all().await;
            flushed.map_err(|error| error.to_string())
        });
        for (shard, flushed) in flushed.await.into_iter().enumerate() {
            if let Err(error) = flushed {
                tracing::warn!(target: "storage", "shard {shard}: cannot flush yet: {error}");
            }
        }
    })
}

/// Between two looks at merges that have ended.
const COMPACTIONS_LOOK: Duration = Duration::from_secs(1);

/// Keeps `system.compaction_history`, from shard 0.
pub fn write_down_compactions() -> Erased<'static, ()> {
    Erased::new(move || async move {
        loop {
            runtime::time::sleep(COMPACTIONS_LOOK).await;
            let taken = runtime::on_all_shards(|| async {
                let storage = runtime::local::try_get::<storage::Storage>();
                storage.map(|storage| storage.take_finished_compactions()).unwrap_or_default()
            });
            for (shard, ended) in taken.await.into_iter().enumerate() {
                let cluster = runtime::local::get::<cluster::Cluster>();
                for done in ended {
                    if let Err(error) = cluster.note_compaction(shard as u16, &done).await {
                        tracing::warn!(
                            target: "storage",
                            "a compaction is not written down: {error}"
                        );
                    }
                }
            }
        }
    })
}
