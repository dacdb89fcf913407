//! Transactions: writes of several partitions, of any tables, that are made all or none, each of
//! what was read before any of them was made. Pure: what is agreed on, and how it is kept.
//!
//! 1. *Held*: in a round of each partition it is read and judged, and what the transaction makes of
//!    it is accepted by a majority, as a proposal of the transaction
//!    ([`crate::paxos::Proposal::of`]). That is no write yet, and no later round goes past it.
//!    Where there is one replica it accepts in memory (`coordinator::claims`).
//! 2. *Decided*: a row of `nereid_transactions.outcomes`, written by a round of its own, if there
//!    is none, says what becomes of it: committed, with all its parts, or aborted.
//! 3. *Learned*: the replicas are told of the parts of a committed transaction as of whatever else
//!    a round has chosen.
//!
//! Whoever meets a held partition looks for the outcome. Where there is none he waits, and after
//! [`HELD_MAX`] has the transaction aborted: so nothing is held for long whoever dies. A
//! transaction that meets one does not wait, so that none waits for another. The parts of a
//! committed transaction whose coordinator has died are learned by who keeps its outcome.
//!
//! Why this is serializable: each partition of a committed transaction was held from before the
//! last of them was read until the outcome; in between no other round has changed or read it. What
//! is written without rounds is not kept apart, as it is not from conditional writes.
//!
//! What waits for the disk: of several replicas each answer, since a majority of other nodes goes
//! on where one dies. On one node the outcome alone. Before it is on the disk nobody was told of
//! anything, and nothing was applied: a crash leaves no trace. Once it is, a start has all parts
//! from it, whichever of them the log has lost (*redone-first*). So the parts are applied as any
//! write is, and are not waited for.
//!
//! A client that asks again for what may have been done says so by a token. Outcomes with one token
//! are in one bucket, so that who decides sees those of earlier attempts.
//!
//! Invariants
//!  - *once-a-token*: of the transactions with one token one is committed, while it is remembered.
//!  - *decided-once*: an outcome does not change: it is written by a round that has found none.
//!  - *held-until-decided*: no round goes past a proposal of a transaction without an outcome.
//!  - *dies-with-its-decider*, *redone-first*: what is held in memory, and what a start owes to it;
//!    see `coordinator::claims`.
//!  - *kept-until-learned*: the outcome of a committed transaction has its parts until a majority
//!    of the replicas of each has learned it, for certain and durably.
//!  - *late-is-aborted*: a transaction that began more than [`LIFE`] ago is not committed, and that
//!    another one was aborted is remembered for longer by far. Clocks of nodes that differ by as
//!    much as [`ABORTED_TTL_SECS`] break this, and smaller differences only abort what is young.

use crate::paxos::{Ballot, Proposal, TransactionId};
use model::key::clustering_components;
use model::{TableId, TableSchema, Token, Type};
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand};
use mutation::{Cell, FrozenMutation, FrozenView, MutationBuilder, RowBuilder, Tombstone};
use std::time::Duration;
use stdx::{Cursor, Damaged, Put};

/// The keyspace of the outcomes, which is made when it is needed first.
pub const KEYSPACE: &str = cluster::system_tables::TRANSACTIONS;
/// Their table.
pub const OUTCOMES: &str = "outcomes";

/// After so long whoever meets a partition that is held has the transaction aborted.
pub const HELD_MAX: Duration = Duration::from_secs(10);
/// A transaction is committed at most so long after it began.
pub const LIFE: Duration = Duration::from_secs(30);
/// For how long it is remembered that one was aborted.
pub const ABORTED_TTL_SECS: i32 = 3600;
/// For how long one that was committed is, once all parts are learned, for who asks again.
pub const COMMITTED_TTL_SECS: i32 = 660;

const _: () = assert!(HELD_MAX.as_secs() < LIFE.as_secs(), "late-is-aborted");
const _: () = assert!(LIFE.as_secs() * 10 < ABORTED_TTL_SECS as u64, "late-is-aborted");

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Aborted,
}

/// What a request to commit has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    Committed,
    Aborted,
    /// Aborted, since an earlier one with this token has done the same.
    DoneBefore,
    /// Aborted, since an earlier one with this token has done something else.
    Differs,
}

/// By what attempts of one client to do the same are known: digests of the token, and of what is to
/// be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub token: [u8; 32],
    pub body: [u8; 32],
}

impl Request {
    /// The bucket of its outcomes.
    pub fn bucket(&self) -> u32 {
        u32::from_be_bytes(*self.token.first_chunk().expect("a digest"))
    }

    fn to_bytes(self) -> [u8; 64] {
        let mut out = [0; 64];
        out[..32].copy_from_slice(&self.token);
        out[32..].copy_from_slice(&self.body);
        out
    }

    fn of_bytes(bytes: &[u8]) -> Option<Request> {
        let (token, body) = bytes.split_first_chunk()?;
        Some(Request { token: *token, body: body.try_into().ok()? })
    }
}

/// How often a round waits for a transaction that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience(u32);

impl Patience {
    /// For as long as it has time.
    pub(crate) const UNTIL_DECIDED: Patience = Patience(u32::MAX);
    /// As a transaction does: one that is about to end may.
    pub(crate) const SHORT: Patience = Patience(3);

    /// Whether it waits once more.
    pub(crate) fn waits(&mut self) -> bool {
        let waits = 0 < self.0;
        debug_assert!(self.0 <= Patience::SHORT.0 || self.0 == u32::MAX, "{self:?}");
        if *self != Patience::UNTIL_DECIDED {
            self.0 = self.0.saturating_sub(1);
        }
        waits
    }
}

/// What a transaction makes of a partition, which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(crate) ballot: Ballot,
    pub(crate) mutation: FrozenMutation,
}

impl Part {
    /// Of what a majority has accepted.
    pub(crate) fn new(accepted: Proposal) -> Part {
        debug_assert!(accepted.of.is_some(), "held-until-decided: {:?}", accepted.ballot);
        let Proposal { ballot, mutation, .. } = accepted;
        Part { ballot, mutation }
    }

    /// Whether it was held where there is one replica: only the life of the node that has held it
    /// may commit it (*dies-with-its-decider*).
    pub(crate) fn is_alone(&self) -> bool {
        self.ballot.is_alone()
    }

    /// Whether the transaction only looks at the partition.
    pub fn is_empty(&self) -> bool {
        crate::paxos::is_empty(&self.mutation)
    }

    /// The partition: its table, and its key.
    pub fn place(&self) -> (TableId, Vec<u8>) {
        let view = self.mutation.view().expect("kept-until-learned: a part was checked");
        debug_assert!(!view.key().is_empty(), "one-partition: a part of none");
        (view.table(), view.key().to_vec())
    }

    /// `ballot:16 mutation to the end`, as a node answers that has had it accepted.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.mutation.0.len());
        out.put(&self.ballot.to_bytes());
        out.put(&self.mutation.0);
        debug_assert!(Part::of_bytes(&out).as_ref() == Ok(self), "one-form: a part");
        out
    }

    /// See [`Part::to_bytes`].
    pub fn of_bytes(bytes: &[u8]) -> Result<Part, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let ballot: [u8; 16] = cursor.array("ballot of a part")?;
        let ballot = Ballot::of_bytes(&ballot);
        let ballot = ballot.ok_or_else(|| cursor.damaged("ballot of a part"))?;
        let at = cursor.offset() as u64;
        let mutation = cursor.rest();
        FrozenView::parse(mutation).map_err(|damaged| damaged.from_base(at))?;
        Ok(Part { ballot, mutation: FrozenMutation(mutation.into()) })
    }
}

/// `(length:be32 part)*`
fn encode_parts(parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::new();
    parts.iter().for_each(|part| out.put_u32_bytes(&part.to_bytes()));
    out
}

/// See [`encode_parts`].
pub(crate) fn decode_parts(bytes: &[u8]) -> Result<Vec<Part>, Damaged> {
    let (mut cursor, mut parts) = (Cursor::new(bytes), Vec::new());
    debug_assert!(cursor.offset() == 0, "kept-until-learned: parts are skipped");
    while cursor.offset() < bytes.len() {
        let part = cursor.u32_bytes("a part of a transaction")?;
        let at = (cursor.offset() - part.len()) as u64;
        parts.push(Part::of_bytes(part).map_err(|damaged| damaged.from_base(at))?);
    }
    Ok(parts)
}

/// What a node is asked to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Abort,
    Commit(Vec<Part>, Option<Request>),
}

const ABORT: u8 = 0;
const COMMIT: u8 = 1;
const COMMIT_ONCE: u8 = 2;

impl Wish {
    /// `0 | 1 parts | 2 token:32 body:32 parts`, behind the transaction.
    pub(crate) fn to_bytes(&self, id: TransactionId) -> Vec<u8> {
        let mut out = id.to_bytes().to_vec();
        match self {
            Wish::Abort => out.put_u8(ABORT),
            Wish::Commit(parts, request) => {
                out.put_u8(if request.is_some() { COMMIT_ONCE } else { COMMIT });
                request.iter().for_each(|request| out.put(&request.to_bytes()));
                out.put(&encode_parts(parts));
            }
        }
        out
    }

    /// See [`Wish::to_bytes`].
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<(TransactionId, Wish), Damaged> {
        let mut cursor = Cursor::new(bytes);
        let id: [u8; 16] = cursor.array("a transaction")?;
        let id = TransactionId::of_bytes(&id);
        let id = id.ok_or_else(|| cursor.damaged("a transaction"))?;
        let kind = cursor.u8("what is to be decided")?;
        let request = match kind {
            COMMIT_ONCE => {
                let bytes: [u8; 64] = cursor.array("a token and what it is for")?;
                Request::of_bytes(&bytes)
            }
            _ => None,
        };
        let at = cursor.offset() as u64;
        let rest = cursor.rest();
        match kind {
            ABORT if rest.is_empty() => Ok((id, Wish::Abort)),
            COMMIT | COMMIT_ONCE => {
                let parts = decode_parts(rest).map_err(|damaged| damaged.from_base(at))?;
                Ok((id, Wish::Commit(parts, request)))
            }
            _ => Err(Damaged::new("what is to be decided", at)),
        }
    }
}

/// The table of the outcomes, with that id.
pub fn outcomes_schema(id: TableId) -> TableSchema {
    let builder = TableSchema::builder(KEYSPACE, OUTCOMES, id).partition_key("bucket", Type::Int);
    let builder = builder.clustering("id", Type::TimeUuid).regular("state", Type::Text);
    let builder = builder.regular("parts", Type::Blob).regular("request", Type::Blob);
    let mut table = builder.build().expect("a table of literals");
    table.options.comment = "What became of transactions, until all of it is done".to_owned();
    table
}

/// The key of the partition of a bucket.
pub(crate) fn key_of(bucket: u32) -> Vec<u8> {
    let key = bucket.to_be_bytes().to_vec();
    debug_assert!(key.len() == 4, "once-a-token: bucket {bucket} is no int");
    key
}

/// Where it is.
pub(crate) fn token_of(bucket: u32) -> Token {
    Token::of(&key_of(bucket))
}

fn clustering_of(id: TransactionId) -> Vec<u8> {
    let mut out = Vec::new();
    model::key::push_clustering(&id.to_bytes(), &mut out);
    out
}

/// The row that says what was decided at `micros`, a ballot's.
pub(crate) fn outcome_row(
    outcomes: &TableSchema,
    id: TransactionId,
    (wish, micros): (&Wish, i64),
) -> FrozenMutation {
    let secs = micros.div_euclid(1_000_000);
    let expiry = secs.saturating_add(ABORTED_TTL_SECS.into());
    debug_assert!(0 < micros, "decided-once: an outcome before 1970");
    match wish {
        Wish::Abort => {
            let aborted = Cell::expiring(micros, b"aborted", expiry, ABORTED_TTL_SECS);
            row(outcomes, id, &[("state", aborted)])
        }
        Wish::Commit(parts, request) => {
            let (parts, request) = (encode_parts(parts), request.map(Request::to_bytes));
            let live = |bytes| Cell::live(micros, bytes);
            let mut cells = vec![("state", live(b"committed")), ("parts", live(&parts))];
            cells.extend(request.iter().map(|request| ("request", live(request))));
            row(outcomes, id, &cells)
        }
    }
}

/// The row of a committed transaction all of whose parts are learned (*kept-until-learned*); with a
/// request it is kept for a while, for who asks again.
pub(crate) fn ended_row(
    outcomes: &TableSchema,
    id: TransactionId,
    (micros, request): (i64, Option<Request>),
) -> FrozenMutation {
    let secs = micros.div_euclid(1_000_000);
    let Some(request) = request else {
        let mut row = RowBuilder::new(Vec::new());
        row.tombstone(Tombstone::new(micros, secs));
        let mut builder = MutationBuilder::new(outcomes, &key_of(id.bucket()));
        builder.row(&clustering_of(id), &row.finish());
        return builder.freeze();
    };
    let expiry = secs.saturating_add(COMMITTED_TTL_SECS.into());
    debug_assert!(request.bucket() == id.bucket(), "once-a-token: in another bucket");
    let request = request.to_bytes();
    let expiring = |bytes| Cell::expiring(micros, bytes, expiry, COMMITTED_TTL_SECS);
    let (state, parts) = (expiring(b"committed"), Cell::dead(micros, secs));
    row(outcomes, id, &[("state", state), ("parts", parts), ("request", expiring(&request))])
}

fn row(outcomes: &TableSchema, id: TransactionId, cells: &[(&str, Cell<'_>)]) -> FrozenMutation {
    let column = |name| outcomes.column(name).expect("a column of the outcomes").id;
    let mut cells: Vec<_> = cells.iter().map(|(name, cell)| (column(name), *cell)).collect();
    cells.sort_by_key(|(id, _)| *id);
    let mut row = RowBuilder::new(Vec::new());
    cells.into_iter().for_each(|(id, cell)| row.cell(id, cell));
    let mut builder = MutationBuilder::new(outcomes, &key_of(id.bucket()));
    builder.row(&clustering_of(id), &row.finish());
    debug_assert!(!builder.is_empty(), "decided-once: a row that says nothing");
    builder.freeze()
}

/// Reads the outcomes of a bucket, or all of them, page by page.
pub(crate) fn read_command(outcomes: &TableSchema, bucket: Option<u32>, now: i64) -> ReadCommand {
    let partitions = match bucket {
        Some(bucket) => Partitions::Key(key_of(bucket)),
        None => Partitions::all(),
    };
    let mut command = ReadCommand::all(outcomes.id, partitions, now);
    let column = |name| (outcomes.column(name).expect("a column of the outcomes").id, name);
    // Its parts may be large, and are of use to who brings them to their replicas.
    let mut columns = vec![column("state"), column("request")];
    columns.extend(bucket.is_none().then(|| column("parts")));
    columns.sort_unstable_by_key(|(id, _)| *id);
    debug_assert!(columns.is_sorted_by(|a, b| a.0 < b.0), "a column is read twice");
    command.columns = columns.into_iter().map(|(id, _)| (id, ColumnForm::Value)).collect();
    command
}

/// A row of a page that answers [`read_command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) id: TransactionId,
    pub(crate) outcome: Outcome,
    /// As they stand there, if they were asked for and are there.
    pub(crate) parts: Option<Vec<u8>>,
    pub(crate) request: Option<Request>,
}

/// What was decided about a transaction, or about an earlier one that was asked for by the same
/// token, as the outcomes of its bucket say (*once-a-token*).
pub(crate) fn decided(
    all: &[Kept],
    id: TransactionId,
    request: Option<Request>,
) -> Option<Decided> {
    if let Some(own) = all.iter().find(|kept| kept.id == id) {
        return Some(match own.outcome {
            Outcome::Committed => Decided::Committed,
            Outcome::Aborted => Decided::Aborted,
        });
    }
    let request = request?;
    debug_assert!(request.bucket() == id.bucket(), "once-a-token: {id:?} is in another bucket");
    let committed = all.iter().filter(|kept| kept.outcome == Outcome::Committed);
    let mut earlier = committed.filter_map(|kept| kept.request);
    let earlier = earlier.find(|earlier| earlier.token == request.token)?;
    Some(if earlier.body == request.body { Decided::DoneBefore } else { Decided::Differs })
}

/// The rows of a page; what is damaged says nothing.
pub(crate) fn kept(outcomes: &TableSchema, command: &ReadCommand, page: &Page) -> Vec<Kept> {
    let column = |name| outcomes.column(name).expect("a column of the outcomes").id;
    let (state, of_request) = (column("state"), column("request"));
    let mut found = Vec::new();
    for partition in PageView::trusted(&page.bytes, command.layout()).partitions() {
        for row in partition.rows() {
            let id = clustering_components(row.clustering()).next();
            let Some(id) = id.and_then(TransactionId::of_bytes) else { continue };
            let (mut outcome, mut parts, mut request) = (None, None, None);
            for ((column, _), found) in command.columns.iter().zip(row.columns()) {
                match found.value {
                    Some(b"committed") if *column == state => outcome = Some(Outcome::Committed),
                    Some(b"aborted") if *column == state => outcome = Some(Outcome::Aborted),
                    Some(bytes) if *column == of_request => request = Request::of_bytes(bytes),
                    Some(bytes) if *column != state => parts = Some(bytes.to_vec()),
                    _ => {}
                }
            }
            found.extend(outcome.map(|outcome| Kept { id, outcome, parts, request }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use mutation::compact::{QueryCompactor, Step};
    use proptest::prelude::*;

    fn any_part() -> impl Strategy<Value = Part> {
        let ballot = (1i64..1 << 50, any::<u64>(), any::<bool>());
        (ballot, mutation::testing::mutation()).prop_map(
            |((micros, random, is_alone), mutation)| {
                let ballot = match is_alone {
                    true => Ballot::alone(micros),
                    false => Ballot::drawn(micros, random),
                };
                Part { ballot, mutation }
            },
        )
    }

    proptest! {
        #[test]
        fn parts_go_both_ways(parts in proptest::collection::vec(any_part(), 0..4)) {
            prop_assert_eq!(decode_parts(&encode_parts(&parts)), Ok(parts));
        }

        #[test]
        fn damaged_parts_do_not_panic(
            parts in proptest::collection::vec(any_part(), 1..3),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let mut bytes = encode_parts(&parts);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(parts) = decode_parts(&bytes) {
                prop_assert_eq!(&encode_parts(&parts), &bytes);
            }
            let _ = decode_parts(&bytes[..at]);
        }
    }

    fn read(outcomes: &TableSchema, stored: &FrozenMutation, now: i64) -> Vec<Kept> {
        let command = read_command(outcomes, None, now);
        let mut compactor = QueryCompactor::new(outcomes, &command);
        for fragment in stored.view().unwrap().fragments(&outcomes.order) {
            if compactor.consume(&fragment) == Step::Stop {
                break;
            }
        }
        kept(outcomes, &command, &compactor.finish())
    }

    fn any_wish() -> impl Strategy<Value = Wish> {
        let request = (any::<[u8; 32]>(), any::<[u8; 32]>());
        let request =
            proptest::option::of(request.prop_map(|(token, body)| Request { token, body }));
        let parts = proptest::collection::vec(any_part(), 0..3);
        prop_oneof![
            Just(Wish::Abort),
            (parts, request).prop_map(|(parts, request)| Wish::Commit(parts, request)),
        ]
    }

    proptest! {
        #[test]
        fn wishes_go_both_ways(
            wish in any_wish(),
            cut: prop::sample::Index,
            at: prop::sample::Index,
        ) {
            let id = TransactionId::new(5, 6, 7);
            let mut bytes = wish.to_bytes(id);
            prop_assert_eq!(Wish::of_bytes(&bytes), Ok((id, wish)));
            let _ = Wish::of_bytes(&bytes[..cut.index(bytes.len())]);
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            if let Ok((id, wish)) = Wish::of_bytes(&bytes) {
                prop_assert_eq!(wish.to_bytes(id), bytes);
            }
        }
    }

    #[test]
    fn a_row_says_what_became_of_it_until_it_is_over() {
        let outcomes = outcomes_schema(TableId::from_u128(7));
        let request = Request { token: [1; 32], body: [2; 32] };
        let id = TransactionId::new(5_000_000, request.bucket(), 9);
        let mutation = outcome_row(&outcomes, id, (&Wish::Abort, 4));
        let part = Part { ballot: Ballot::drawn(4, 5), mutation };
        let aborted = outcome_row(&outcomes, id, (&Wish::Abort, 6_000_000));
        let says = |outcome, parts, request| vec![Kept { id, outcome, parts, request }];
        assert_eq!(read(&outcomes, &aborted, 7), says(Outcome::Aborted, None, None));
        assert_eq!(read(&outcomes, &aborted, 7 + i64::from(ABORTED_TTL_SECS)), vec![]);
        for (request, then) in
            [(Some(request), says(Outcome::Committed, None, Some(request))), (None, vec![])]
        {
            let wish = Wish::Commit(vec![part.clone()], request);
            let committed = outcome_row(&outcomes, id, (&wish, 6_000_000));
            let parts = Some(encode_parts(std::slice::from_ref(&part)));
            let all = says(Outcome::Committed, parts, request);
            assert_eq!(read(&outcomes, &committed, 1 << 40), all);
            let ended = ended_row(&outcomes, id, (8_000_000, request));
            let (committed, ended) = (committed.view().unwrap(), ended.view().unwrap());
            let all = mutation::frozen::merge(&outcomes, committed, ended);
            assert_eq!(read(&outcomes, &all, 9), then);
            assert_eq!(read(&outcomes, &all, 9 + i64::from(COMMITTED_TTL_SECS)), vec![]);
        }
    }

    #[test]
    fn what_was_done_by_the_same_token_is_known() {
        let [own, other, late] = [1, 2, 3].map(|at| TransactionId::new(at, 0x0707_0707, 0));
        let request = |token, body| {
            let mut digest = [token; 32];
            digest[..4].fill(7);
            Some(Request { token: digest, body: [body; 32] })
        };
        let kept = |id, outcome, request| Kept { id, outcome, parts: None, request };
        let all = [
            kept(own, Outcome::Aborted, request(1, 1)),
            kept(other, Outcome::Committed, request(2, 2)),
        ];
        let check = |id, asked, expected| assert_eq!(decided(&all, id, asked), expected);
        check(own, None, Some(Decided::Aborted));
        check(other, request(2, 2), Some(Decided::Committed));
        check(late, None, None);
        // What was aborted may be tried again.
        check(late, request(1, 1), None);
        check(late, request(2, 2), Some(Decided::DoneBefore));
        check(late, request(2, 3), Some(Decided::Differs));
    }

    #[test]
    fn patience_ends_or_does_not() {
        let (mut short, mut long) = (Patience::SHORT, Patience::UNTIL_DECIDED);
        assert_eq!([(); 5].map(|()| short.waits()), [true, true, true, false, false]);
        assert!((0..10_000).all(|_| long.waits()));
    }
}
