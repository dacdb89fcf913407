//! What coordinators and replicas send each other. Pure: values to bytes and back.
//!
//! ```text
//! MUTATION            (length:be32 mutation)+               -> nothing
//! HINT_MUTATION       as MUTATION, of a write that was missed -> nothing
//! HINT                written_at:be64 (length:be32 mutation)+ -> nothing
//! COUNTER_MUTATION    consistency:be16 mutation             -> nothing
//! READ_DATA           command                               -> page
//! READ_DIGEST         command                               -> digest
//! READ_MUTATION_DATA  command                               -> stretch
//! TRUNCATE            table:16                              -> nothing
//! ```
//! Those of several requests that travel as one stand in `together`, those of conditional writes in
//! [`paxos`], those of logged batches in `batches`, those to partitions with limits in `limited`,
//! those by way of a replica in `relay`, those of repairs in `sync`, those about nodes that join
//! and leave in [`moves`], those of what tablets hold in `loads`, those of views that are built in
//! `built`, those of snapshots in `backups`.
//!
//! A refusal is a [`Refusal`]. Numbers are big-endian and of fixed width, so that a value has one
//! form; a mutation goes as it is frozen, and what it is checked against is the receiver's schema.
//!
//! Invariants
//!  - *one-form*: what is decoded is encoded to the same bytes again.
//!  - *foreign-is-damaged*: no bytes make a decoder panic, or reserve more than they are long; what
//!    is decoded is what the code behind it takes ([`command::decode`] says what that is).
//!
//! In reading order: [`command`], [`answer`], [`paxos`], `batches`, `limited`,
//! `relay`, `together`, `sync`, [`moves`], `loads`, `built`, `backups`, [`foreign`].

pub mod answer;
pub(crate) mod backups;
pub(crate) mod batches;
pub(crate) mod built;
pub mod command;
#[doc(hidden)]
pub mod foreign;
pub(crate) mod limited;
pub(crate) mod loads;
pub(crate) mod modes;
pub mod moves;
pub(crate) mod paxos;
pub(crate) mod relay;
pub(crate) mod sync;
pub(crate) mod together;

/// The verbs: 101 to 199. Those of membership and group 0 stand before them.
pub mod verb {
    use messaging::Verb;

    pub const MUTATION: Verb = Verb::new(101, "MUTATION");
    pub const READ_DATA: Verb = Verb::new(103, "READ_DATA");
    pub const READ_MUTATION_DATA: Verb = Verb::new(104, "READ_MUTATION_DATA");
    pub const READ_DIGEST: Verb = Verb::new(105, "READ_DIGEST");
    pub const MUTATIONS: Verb = Verb::new(106, "MUTATIONS");
    pub const READ_DIGESTS: Verb = Verb::new(107, "READ_DIGESTS");
    pub const HINT_MUTATION: Verb = Verb::new(110, "HINT_MUTATION");
    pub const HINT: Verb = Verb::new(111, "HINT");
    pub const TRUNCATE: Verb = Verb::new(112, "TRUNCATE");
    pub const PAXOS_PREPARE: Verb = Verb::new(113, "PAXOS_PREPARE");
    pub const PAXOS_ACCEPT: Verb = Verb::new(114, "PAXOS_ACCEPT");
    pub const PAXOS_LEARN: Verb = Verb::new(115, "PAXOS_LEARN");
    pub const PAXOS_PRUNE: Verb = Verb::new(116, "PAXOS_PRUNE");
    pub const PAXOS_LEAD: Verb = Verb::new(117, "PAXOS_LEAD");
    pub const PAXOS_READ: Verb = Verb::new(118, "PAXOS_READ");
    pub const BATCH_STORE: Verb = Verb::new(119, "BATCH_STORE");
    pub const BATCH_FORGET: Verb = Verb::new(120, "BATCH_FORGET");
    pub const LIMITED: Verb = Verb::new(121, "LIMITED");
    pub const RELAY: Verb = Verb::new(122, "RELAY");
    pub const COUNTER_MUTATION: Verb = Verb::new(123, "COUNTER_MUTATION");
    pub const RELAYED: Verb = Verb::new(124, "RELAYED");
    pub const RELAYED_DONE: Verb = Verb::new(125, "RELAYED_DONE");
    pub const SYNC_DURABLE: Verb = Verb::new(128, "SYNC_DURABLE");
    pub const SYNC_REPAIRED: Verb = Verb::new(129, "SYNC_REPAIRED");
    pub const SYNC_READ: Verb = Verb::new(130, "SYNC_READ");
    pub const SYNC_COMPARE: Verb = Verb::new(131, "SYNC_COMPARE");
    pub const SYNC_FETCH: Verb = Verb::new(132, "SYNC_FETCH");
    pub const SYNC_WRITE: Verb = Verb::new(133, "SYNC_WRITE");
    pub const SYNC_END: Verb = Verb::new(134, "SYNC_END");
    pub const SYNC_LEAD: Verb = Verb::new(135, "SYNC_LEAD");
    pub const SYNC_BEGIN: Verb = Verb::new(136, "SYNC_BEGIN");
    pub const SYNC_KEEP: Verb = Verb::new(137, "SYNC_KEEP");
    pub const SYNC_KNOWS: Verb = Verb::new(138, "SYNC_KNOWS");
    pub const SYNC_SENT: Verb = Verb::new(139, "SYNC_SENT");
    pub const MOVE_BARRIER: Verb = Verb::new(140, "MOVE_BARRIER");
    pub const MOVE_STEP: Verb = Verb::new(141, "MOVE_STEP");
    pub const MOVE_PAGE: Verb = Verb::new(142, "MOVE_PAGE");
    pub const MOVE_FILES: Verb = Verb::new(143, "MOVE_FILES");
    pub const MOVE_BLOCK: Verb = Verb::new(144, "MOVE_BLOCK");
    pub const MOVE_END: Verb = Verb::new(145, "MOVE_END");
    pub const TABLET_LOADS: Verb = Verb::new(146, "TABLET_LOADS");
    pub const MOVES_STILL: Verb = Verb::new(147, "MOVES_STILL");
    pub const MOVE_WARM: Verb = Verb::new(148, "MOVE_WARM");
    pub const STORAGE_MODES: Verb = Verb::new(149, "STORAGE_MODES");
    pub const VIEWS_BUILT: Verb = Verb::new(150, "VIEWS_BUILT");
    pub const SNAPSHOT_TAKE: Verb = Verb::new(151, "SNAPSHOT_TAKE");
    pub const SNAPSHOT_CLEAR: Verb = Verb::new(152, "SNAPSHOT_CLEAR");
    pub const SNAPSHOT_LOAD: Verb = Verb::new(153, "SNAPSHOT_LOAD");
}

pub use answer::{Refusal, RefusalKind};

use model::TableId;
use mutation::page::Resume;
use mutation::{FrozenMutation, FrozenView};
use std::rc::Rc;
use stdx::{Cursor, Damaged, Put};

/// What comes before a mutation that is alone in its request.
pub fn single_head(mutation: &[u8]) -> [u8; 4] {
    debug_assert!(!mutation.is_empty(), "one-form: no bytes are a mutation");
    let length = u32::try_from(mutation.len()).expect("a mutation is under 4 GiB");
    length.to_be_bytes()
}

/// Several mutations as a request.
pub fn encode_mutations(mutations: &[FrozenMutation]) -> Vec<u8> {
    assert!(!mutations.is_empty(), "one-form: a request of no mutation");
    let mut out = Vec::with_capacity(mutations.iter().map(|one| 4 + one.0.len()).sum());
    mutations.iter().for_each(|one| out.put_u32_bytes(&one.0));
    out
}

/// The mutations of a request, at least one; each is checked but for its order, which the schema
/// of its table tells.
pub fn decode_mutations(bytes: &[u8]) -> Result<Vec<FrozenMutation>, Damaged> {
    let mut mutations = Vec::new();
    for view in views(bytes) {
        mutations.push(FrozenMutation(view?.bytes().into()));
    }
    debug_assert!(!mutations.is_empty(), "one-form: a request of no mutation");
    Ok(mutations)
}

/// The same where they are; nothing follows the first that is damaged.
pub fn views(bytes: &[u8]) -> impl Iterator<Item = Result<FrozenView<'_>, Damaged>> {
    let mut cursor = Some(Cursor::new(bytes));
    std::iter::from_fn(move || {
        let mut rest = cursor.take()?;
        let at = rest.offset() as u64 + 4;
        let view = rest
            .u32_bytes("a mutation of a request")
            .and_then(|one| FrozenView::parse(one).map_err(|damaged| damaged.from_base(at)));
        cursor = Some(rest).filter(|rest| view.is_ok() && !rest.is_empty());
        Some(view)
    })
}

/// A request that was missed, with the microsecond at which its coordinator began it.
pub fn encode_hint(written_at: i64, request: &[u8]) -> Vec<u8> {
    debug_assert!(!request.is_empty(), "one-form: a hint of nothing");
    let mut out = Vec::with_capacity(8 + request.len());
    out.put_i64(written_at);
    out.put(request);
    out
}

/// See [`encode_hint`].
pub fn decode_hint(bytes: &[u8]) -> Result<(i64, Vec<FrozenMutation>), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let written_at = cursor.i64("time of a hint")?;
    let mutations = decode_mutations(cursor.rest()).map_err(|damaged| damaged.from_base(8))?;
    Ok((written_at, mutations))
}

/// An increment for its leader, with the level of its write.
pub fn encode_increment(level: crate::Consistency, mutation: &FrozenMutation) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + mutation.0.len());
    out.put_u16(level.to_wire());
    out.put(&mutation.0);
    out
}

/// See [`encode_increment`].
pub fn decode_increment(bytes: &[u8]) -> Result<(crate::Consistency, FrozenMutation), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let level = crate::Consistency::from_wire(cursor.u16("level of an increment")?);
    let level = level.ok_or(Damaged::new("no level of consistency", 0))?;
    FrozenView::parse(cursor.rest()).map_err(|damaged| damaged.from_base(2))?;
    Ok((level, FrozenMutation(cursor.rest().into())))
}

/// Which table is to be truncated.
pub fn decode_table(bytes: &[u8]) -> Result<TableId, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let id = TableId::from_bytes(cursor.array("a table id")?);
    end(&cursor)?;
    Ok(id)
}

/// Bytes that several messages share.
pub fn shared(mutation: FrozenMutation) -> Rc<Vec<u8>> {
    Rc::new(mutation.0.into_vec())
}

/// Nothing follows.
fn end(cursor: &Cursor<'_>) -> Result<(), Damaged> {
    match cursor.is_empty() {
        true => Ok(()),
        false => Err(cursor.damaged("bytes after the end of a message")),
    }
}

fn flag(cursor: &mut Cursor<'_>, what: &'static str) -> Result<bool, Damaged> {
    match cursor.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged(what)),
    }
}

fn put_resume(out: &mut Vec<u8>, resume: Option<&Resume>) {
    let Some(resume) = resume else { return out.put_u8(0) };
    out.put_u8(if resume.after.is_some() { 2 } else { 1 });
    out.put_u32_bytes(&resume.key);
    if let Some((prefix, weight)) = &resume.after {
        assert!(*weight == 1 || *weight == -1, "one-form: goes on at a row");
        out.put_u32_bytes(prefix);
        out.put_u8(u8::from(*weight == 1));
    }
    out.put_u64(resume.rows_in_partition);
}

fn resume(cursor: &mut Cursor<'_>) -> Result<Option<Resume>, Damaged> {
    let kind = cursor.u8("where a read goes on")?;
    if kind == 0 {
        return Ok(None);
    }
    if 2 < kind {
        return Err(cursor.damaged("where a read goes on"));
    }
    let key = cursor.u32_bytes("key where a read goes on")?.to_vec();
    let after = match kind {
        2 => {
            let prefix = cursor.u32_bytes("place where a read goes on")?.to_vec();
            let is_after = flag(cursor, "weight where a read goes on")?;
            Some((prefix, if is_after { 1 } else { -1 }))
        }
        _ => None,
    };
    let rows_in_partition = cursor.u64("rows before a read goes on")?;
    Ok(Some(Resume { key, after, rows_in_partition }))
}

#[cfg(test)]
mod tests;
