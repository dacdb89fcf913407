//! What coordinators of logged batches tell those who keep them.
//!
//! ```text
//! BATCH_STORE   name (length:be32 mutation)+   -> nothing, once it is on the disk
//! BATCH_FORGET  name+                          -> nothing
//!
//! name := id:16 written_at:be64                of a time after 1970
//! ```

use crate::batchlog::Logged;
use crate::wire::decode_mutations;
use model::Uuid;
use mutation::FrozenMutation;
use stdx::{Cursor, Damaged, Put};

/// Bytes of a batch's name.
const NAME: usize = 24;

/// Batches that are forgotten by one request.
pub(crate) const FORGOTTEN_AT_ONCE_MAX: usize = 256;

fn put_name(out: &mut Vec<u8>, logged: &Logged) {
    assert!(0 < logged.written_at, "one-form: a batch of {}", logged.written_at);
    out.put(logged.id.as_bytes());
    out.put_i64(logged.written_at);
}

fn name(cursor: &mut Cursor<'_>) -> Result<Logged, Damaged> {
    let id = Uuid::from_bytes(cursor.array("id of a batch")?);
    let written_at = cursor.i64("time of a batch")?;
    match 0 < written_at {
        true => Ok(Logged { id, written_at }),
        false => Err(cursor.damaged("time of a batch")),
    }
}

/// What comes before the mutations of a batch that is to be kept.
pub(crate) fn store_head(logged: &Logged) -> Vec<u8> {
    let mut out = Vec::with_capacity(NAME);
    put_name(&mut out, logged);
    debug_assert!(out.len() == NAME, "one-form: a name of {} bytes", out.len());
    out
}

/// A batch that is to be kept; its mutations are checked but for their order, which the schemas of
/// their tables tell.
pub(crate) fn decode_store(bytes: &[u8]) -> Result<(Logged, Vec<FrozenMutation>), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let logged = name(&mut cursor)?;
    let mutations = decode_mutations(cursor.rest());
    Ok((logged, mutations.map_err(|damaged| damaged.from_base(NAME as u64))?))
}

/// Batches that are to be forgotten.
pub(crate) fn encode_forget(batches: &[Logged]) -> Vec<u8> {
    let count = batches.len();
    assert!((1..=FORGOTTEN_AT_ONCE_MAX).contains(&count), "one-form: {count} batches");
    let mut out = Vec::with_capacity(NAME * count);
    batches.iter().for_each(|logged| put_name(&mut out, logged));
    out
}

/// See [`encode_forget`].
pub(crate) fn decode_forget(bytes: &[u8]) -> Result<Vec<Logged>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let mut batches = Vec::new();
    loop {
        batches.push(name(&mut cursor)?);
        if cursor.is_empty() {
            return Ok(batches);
        }
        debug_assert!(batches.len() <= FORGOTTEN_AT_ONCE_MAX, "foreign-is-damaged: too many");
        if batches.len() == FORGOTTEN_AT_ONCE_MAX {
            return Err(cursor.damaged("more batches than are forgotten at once"));
        }
    }
}

#[cfg(test)]
mod tests;
