//! `validate`, `validate-checksums`, `shard-of`.

use super::files::{CLASS, Target};
use super::output::Output;
use super::schema::{self, Place};
use super::{Failure, Job};
use serde_json::json;
use sstable::scrub::{self, Positions};
use sstable::{Component, Table};
use std::collections::BTreeSet;
use std::rc::Rc;

/// `validate`: breaches to stderr, a verdict for each SSTable.
pub(crate) async fn validate(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    out.begin()?;
    for target in &job.targets {
        let errors = match target.open(&job.source.schema).await {
            Ok(table) => scrub::validate(&table, CLASS, &mut tell).await?,
            Err(error) => {
                tell(&error);
                1
            }
        };
        out.entry(&target.name())?;
        out.json(&json!({ "errors": errors, "valid": errors == 0 }))?;
    }
    out.end()
}

/// What is wrong, to stderr.
pub(crate) fn tell(error: &reader::ReadError) {
    eprintln!("error: {error}");
}

/// `validate-checksums`.
pub(crate) async fn checksums(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    out.begin()?;
    for target in &job.targets {
        let verdict = match target.open(&job.source.schema).await {
            Ok(table) => verify(&table).await,
            Err(error) => {
                tell(&error);
                json!({ "has_checksums": has_any(target).await?, "valid": false })
            }
        };
        out.entry(&target.name())?;
        out.json(&verdict)?;
    }
    out.end()
}

async fn verify(table: &Rc<Table>) -> serde_json::Value {
    let components = table.components();
    let has_checksums =
        components.has(Component::CompressionInfo) || components.has(Component::Crc);
    let has_digest = components.has(Component::Digest);
    let mut verdict = json!({ "has_checksums": has_checksums, "has_digest": has_digest });
    if has_checksums || has_digest {
        let verified = table.verify(CLASS).await;
        verdict["valid"] = json!(verified.is_ok());
        if let Err(error) = verified {
            tell(&error);
        }
    }
    verdict
}

async fn has_any(target: &Target) -> Result<bool, Failure> {
    for component in [Component::CompressionInfo, Component::Crc] {
        if runtime::io::fs::exists(target.path(component)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `shard-of`: the shards that own the partitions of each SSTable.
pub(crate) async fn shard_of(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    if job.options.tablets {
        return replicas_of(job, out).await;
    }
    out.begin()?;
    for target in &job.targets {
        let table = target.open(&job.source.schema).await?;
        let mut shards = BTreeSet::new();
        let mut positions = Positions::new(&table, CLASS);
        while let Some((key, _)) = positions.next_with_key().await? {
            let (count, ignored) = (job.options.shards, job.options.ignored_bits);
            shards.insert(static_shard(key.token.0, count, ignored));
        }
        out.entry(&target.name())?;
        out.json(&json!(shards))?;
    }
    out.end()
}

/// `shard-of --tablets`: the replicas of the tablets that have partitions of each SSTable.
async fn replicas_of(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    out.begin()?;
    for target in &job.targets {
        let Some(place) = Place::of(&target.dir) else {
            return Failure::arguments(format!(
                "{}: --tablets needs a file in the directory of its table, DATA/keyspace/table-id",
                target.name()
            ));
        };
        let named = schema::data_dir(job.options, &job.config);
        let dir = named.filter(|_| job.options.names_data_dir()).unwrap_or(place.data_dir);
        let tablets = schema::tablets(&dir, place.id).await?;
        if tablets.is_empty() {
            let dir = dir.display();
            return Failure::operation(format!("{}: no tablets in {dir}", target.name()));
        }
        let table = target.open(&job.source.schema).await?;
        let mut replicas = BTreeSet::new();
        let mut positions = Positions::new(&table, CLASS);
        while let Some((key, _)) = positions.next_with_key().await? {
            let at = tablets.partition_point(|tablet| tablet.last_token < key.token.0);
            replicas.extend(tablets.get(at).into_iter().flat_map(|tablet| &tablet.replicas));
        }
        let replica = |(host, shard): &(model::Uuid, i32)| {
            let host = host.hyphenated().to_string();
            json!({ "host": host, "shard": shard })
        };
        out.entry(&target.name())?;
        out.json(&replicas.into_iter().map(replica).collect())?;
    }
    out.end()
}

/// The shard of a token, of `count` shards, without its topmost `ignored` bits.
pub(crate) fn static_shard(token: i64, count: u32, ignored: u32) -> u32 {
    let biased = (token as u64) ^ (1 << 63);
    let kept = biased << ignored;
    ((u128::from(kept) * u128::from(count)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_ring() {
        let check = |token: i64, count: u32, ignored: u32, shard: u32| {
            assert_eq!(static_shard(token, count, ignored), shard);
        };
        check(i64::MIN, 2, 0, 0);
        check(-1, 2, 0, 0);
        check(0, 2, 0, 1);
        check(i64::MAX, 2, 0, 1);
        check(i64::MAX, 7, 12, 6);
        // With 12 bits ignored the ring is divided 4096 times over.
        check(i64::MIN + (1 << 51), 2, 12, 1);
        check(i64::MIN + (1 << 52), 2, 12, 0);
        check(5, 1, 12, 0);
    }
}
