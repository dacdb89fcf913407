//! What becomes of transactions ([`crate::transactions`]): it is decided, looked up, and brought to
//! the replicas.
//!
//! Outcomes are decided at SERIAL, so that all data centres agree. The shard that owns the row of
//! an outcome, on the node that leads its rounds, decides.
//!
//! ```text
//! request := 2 0 wish                       decide
//!          | 2 1                            end a round of the partition, which clears it
//! result  := 0 (nobody knows) | 1 (committed, or done) | 2 (aborted) | 3 (done before)
//!          | 4 (differs from what was done before)
//! ```
//!
//! Outcomes that are there are brought to their replicas by the nodes that have them. One that was
//! chosen, and learned by nobody, nobody sees: so whoever has accepted a part of a transaction
//! looks after it, too, when it is not learned for long.
//!
//! Invariants
//!  - *decided-once*, *kept-until-learned*, *late-is-aborted*: as in [`crate::transactions`].
//!  - *dies-with-its-decider*, *redone-first*: as in [`super::claims`].
//!  - *learned-by-each*: a part counts as learned when a majority of each data centre has it.

use super::due::{Due, take_due};
use super::nodes::{self, Executor, Language, Owner, Planted, Proposed, Rounding, left};
use super::{Coordinator, own_coordinator, own_storage};
use crate::error::{ReadError, WriteError};
use crate::options::{Consistency, ReadOptions, WriteKind, WriteOptions};
use crate::paxos::{self, Place, State, TransactionId};
use crate::range;
use crate::transactions::{
    Decided, HELD_MAX, KEYSPACE, Kept, LIFE, OUTCOMES, Outcome, Part, Request, Wish, decided,
    decode_parts, ended_row, kept, key_of, outcome_row, read_command, token_of,
};
use cluster::TableEntry;
use model::Token;
use mutation::page::{Page, ReadCommand};
use reader::LocalFuture;
use runtime::sync::Receiver;
use runtime::task::join_all;
use runtime::time::{Instant, sleep, wall_micros};
use std::rc::Rc;
use std::time::Duration;
use stdx::Damaged;

const DECIDE: u8 = 0;
const CLEAR: u8 = 1;

/// In the place of a result, where nobody knows.
const UNKNOWN: u8 = 0;
/// Results, from 1 on.
const RESULTS: [Decided; 4] =
    [Decided::Committed, Decided::Aborted, Decided::DoneBefore, Decided::Differs];

/// How often shard 0 looks for outcomes of coordinators that have died. It sees what this node has
/// of them, which is little: an outcome goes when all of it is done.
const LOOK_PERIOD: Duration = Duration::from_secs(30);
/// How long what goes on without its client may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a look at all outcomes may take, and applying one that a start finds.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// Outcomes that are ended at the same time.
const ENDED_AT_ONCE_MAX: usize = 64;

const _: () =
    assert!(TIMEOUT.as_nanos() < LOOK_PERIOD.as_nanos(), "a look is done before the next");

/// What this node has of the outcome of a transaction.
struct Known {
    id: TransactionId,
    is_committed: bool,
    /// None, where it does not have them.
    parts: Vec<Part>,
    request: Option<Request>,
}

impl Known {
    fn of(Kept { id, outcome, parts, request }: Kept) -> Option<Known> {
        let parts = match parts.map(|parts| decode_parts(&parts)) {
            Some(Ok(parts)) => parts,
            Some(Err(Damaged { what, .. })) => {
                tracing::warn!(target: "paxos", "transaction {id:?} is damaged: {what}");
                return None;
            }
            None => Vec::new(),
        };
        Some(Known { id, is_committed: outcome == Outcome::Committed, parts, request })
    }

    /// A part of it was held where there is one replica.
    fn has_alone(&self) -> bool {
        self.parts.iter().any(Part::is_alone)
    }

    /// All of it was.
    fn is_all_alone(&self) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(Part::is_alone)
    }
}

/// A committed transaction all of whose parts are learned.
#[derive(Debug)]
pub(crate) struct Ended {
    id: TransactionId,
    request: Option<Request>,
    /// When they are durable.
    due: Instant,
}

impl Due for Ended {
    fn due(&self) -> Instant {
        self.due
    }
}

/// Ends outcomes of which all is durable, for as long as the coordinator lives.
pub(crate) async fn end_durable(mut ended: Receiver<Ended>) {
    let mut next = None;
    while let Some(due) = take_due(&mut ended, &mut next, ENDED_AT_ONCE_MAX).await {
        debug_assert!(!due.is_empty(), "kept-until-learned: nothing is due");
        let Some(coordinator) = runtime::local::try_get::<Coordinator>() else { return };
        join_all(due.iter().map(|one| coordinator.end(one.id, one.request))).await;
    }
}

/// A partition that this node has accepted a proposal of a transaction for.
#[derive(Debug)]
pub(crate) struct Held {
    place: Place,
    /// When it is looked after.
    due: Instant,
}

impl Due for Held {
    fn due(&self) -> Instant {
        self.due
    }
}

/// Sees to it that nothing is held for long, though nobody needs it, for as long as the coordinator
/// lives.
pub(crate) async fn look_after(mut held: Receiver<Held>) {
    let mut next = None;
    while let Some(due) = take_due(&mut held, &mut next, ENDED_AT_ONCE_MAX).await {
        let Some(coordinator) = runtime::local::try_get::<Coordinator>() else { return };
        join_all(due.iter().map(|one| coordinator.release(&one.place))).await;
    }
}

/// Brings what dead coordinators have committed to its replicas, for as long as this one lives.
pub(crate) async fn keep_finishing() {
    assert!(runtime::shard_id() == 0, "kept-until-learned: on another shard");
    loop {
        // Nodes that started at the same time do not all look at the same time.
        let jitter = runtime::random_u64() % LOOK_PERIOD.as_millis() as u64;
        sleep(LOOK_PERIOD / 2 + Duration::from_millis(jitter)).await;
        let Ok(coordinator) = own_coordinator() else { return };
        if let Err(reason) = coordinator.finish_all().await {
            tracing::warn!(target: "paxos", "cannot look for transactions to finish: {reason}");
        }
    }
}

impl Coordinator {
    /// Something of a transaction was accepted here.
    pub(crate) fn note_held(&self, place: &Place) {
        let due = Instant::now() + HELD_MAX + HELD_MAX / 4;
        debug_assert!(!place.key.is_empty(), "held-until-decided: no partition");
        if self.held_by.try_send(Held { place: place.clone(), due }).is_err() {
            stdx::probe!("what is held is looked after by who needs it");
        }
    }

    /// Ends what has been held for long, if it is still.
    async fn release(&self, place: &Place) {
        let paxos = paxos::table(&self.cluster.schema());
        let now = wall_micros().div_euclid(1_000_000);
        let command = paxos::read_command(&paxos.schema, Some(place), now);
        let shard = paxos.tablets.shard_of(Token::of(&place.key));
        debug_assert!(command.table == paxos.schema.id, "held-until-decided: of another table");
        let Ok(page) = self.read_on(shard, &command).await else { return self.note_held(place) };
        let state = paxos::states(&command, &page).pop().map_or(State::default(), |(_, it)| it);
        let is_held = state.unfinished().is_some_and(|proposal| proposal.of.is_some());
        let is_there = self.cluster.schema().table_by_id(place.table).is_some();
        if is_held && is_there {
            stdx::probe!("what is held for long is looked after");
            // Not all of those who have accepted it at the same time.
            let jitter = runtime::random_u64() % HELD_MAX.as_millis() as u64;
            sleep(Duration::from_millis(jitter) / 8).await;
            self.clear_one(place.table, &place.key).await;
            self.note_held(place);
        }
    }

    fn outcomes(&self) -> Option<Rc<TableEntry>> {
        self.cluster.schema().table(KEYSPACE, OUTCOMES).cloned()
    }

    /// Decides that a transaction is committed, all of whose partitions are held, and brings its
    /// parts to their replicas. `request`: of a client that may ask again. An error says that
    /// nobody knows.
    pub async fn commit(
        &self,
        id: TransactionId,
        parts: Vec<Part>,
        (time, request): (Duration, Option<Request>),
    ) -> Result<Decided, WriteError> {
        let until = Instant::now() + time;
        debug_assert!(!parts.is_empty(), "decided-once: {id:?} has done nothing");
        let wish = Wish::Commit(parts, request);
        let decided = match self.is_planted(Planted::DecidesAlone) {
            true => Decided::Committed,
            false => self.decide(id, &wish, until).await?,
        };
        let Wish::Commit(parts, request) = wish else { unreachable!("it was to be committed") };
        if decided != Decided::Committed {
            self.clear(parts.iter().map(Part::place).collect());
            return Ok(decided);
        }
        // It was decided, so it happens; but its client waits until it is to be seen.
        let time = left(until).max(TIMEOUT);
        if self.is_planted(Planted::DecidesAlone) {
            for part in &parts {
                self.learn_all(std::slice::from_ref(part), time).await?;
                sleep(Duration::from_millis(200)).await;
            }
        }
        self.learn_all(&parts, time).await?;
        self.end_when_durable(id, request);
        Ok(decided)
    }

    /// What an earlier transaction with the same token has come to, as far as this node sees: that
    /// it is done, or that it was something else.
    pub async fn done_before(
        &self,
        request: Request,
        time: Duration,
    ) -> Result<Option<Decided>, WriteError> {
        let until = Instant::now() + time;
        let all = self.outcomes_in(request.bucket(), until).await?;
        let other = TransactionId::new(1, request.bucket(), 0);
        Ok(decided(&all, other, Some(request)))
    }

    /// The first half of [`Coordinator::commit`]: for tests of what others do about the second.
    #[doc(hidden)]
    pub async fn decide_only(
        &self,
        id: TransactionId,
        parts: Vec<Part>,
    ) -> Result<Decided, WriteError> {
        self.decide(id, &Wish::Commit(parts, None), Instant::now() + TIMEOUT).await
    }

    /// Aborts a transaction that may hold these partitions.
    pub async fn abort(&self, id: TransactionId, places: Vec<(model::TableId, Vec<u8>)>) {
        let until = Instant::now() + TIMEOUT;
        match self.decide(id, &Wish::Abort, until).await {
            Ok(decided) => {
                debug_assert!(decided == Decided::Aborted, "decided-once: {id:?} is {decided:?}");
                self.clear(places);
            }
            // Who meets it aborts it in his time.
            Err(error) => tracing::debug!(target: "paxos", %error, "an abort is not decided"),
        }
    }

    /// The outcome of a transaction that has a partition which somebody else needs. `None`: there
    /// is none, and it is not time to abort it.
    pub(crate) async fn outcome_of(
        &self,
        id: TransactionId,
        until: Instant,
    ) -> Result<Option<Outcome>, WriteError> {
        let all = self.outcomes_in(id.bucket(), until).await?;
        if let Some(kept) = all.iter().find(|kept| kept.id == id) {
            return Ok(Some(kept.outcome));
        }
        let now = wall_micros();
        if self.is_planted(Planted::PassesHeld) {
            return Ok(Some(Outcome::Aborted));
        }
        let age = now.saturating_sub(id.began_micros());
        if age < HELD_MAX.as_micros() as i64 {
            return Ok(None);
        }
        stdx::probe!("a transaction that holds a partition for too long is aborted");
        // A round of the outcomes, of which no partition is ever held: it ends.
        let decided: LocalFuture<'_, _> = Box::pin(self.decide(id, &Wish::Abort, until));
        Ok(Some(match decided.await? {
            Decided::Committed => Outcome::Committed,
            _ => Outcome::Aborted,
        }))
    }

    /// The outcomes of a bucket: what is there was decided.
    async fn outcomes_in(&self, bucket: u32, until: Instant) -> Result<Vec<Kept>, WriteError> {
        // Nobody has ever made a transaction, as far as this node has heard.
        let Some(table) = self.outcomes() else { return Ok(Vec::new()) };
        let now = wall_micros().div_euclid(1_000_000);
        let mut command = read_command(&table.schema, Some(bucket), now);
        let mut found = Vec::new();
        loop {
            let options = ReadOptions::new(Consistency::Quorum, left(until));
            let page = self.read(&table, token_of(bucket), &command, &options).await;
            let page = page.map_err(of_read)?;
            found.append(&mut kept(&table.schema, &command, &page));
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => return Ok(found),
            }
        }
    }

    /// The outcome, which is what is wished if there was none (*decided-once*).
    async fn decide(
        &self,
        id: TransactionId,
        wish: &Wish,
        until: Instant,
    ) -> Result<Decided, WriteError> {
        let unknown = || WriteError::Refused(format!("there is no table {KEYSPACE}.{OUTCOMES}"));
        let table = self.outcomes().ok_or_else(unknown)?;
        let key = key_of(id.bucket());
        if !self.is_spread(&table) {
            let wish = wish.clone();
            let decide = move |owner: Owner| async move { decide_here(&owner, id, wish).await };
            let (consistency, kind) = (Consistency::Serial, WriteKind::Cas);
            let options = WriteOptions { consistency, timeout: left(until), kind, limit: None };
            let how = (&options, Rounding::Write);
            let done = self.hold(&table, token_of(id.bucket()), &key, how, decide).await;
            return self.answer(&table, &options, done)?;
        }
        let request = [&[Language::Transactions as u8, DECIDE], &wish.to_bytes(id)[..]].concat();
        let how = (Consistency::Serial, until);
        let result = self.ask(&table, &key, request, how).await?;
        let place = result.first().and_then(|result| usize::from(*result).checked_sub(1));
        let decided = place.and_then(|place| RESULTS.get(place).copied());
        decided.ok_or_else(unknown_end)
    }

    /// Has something executed by who leads the rounds of a partition.
    async fn ask(
        &self,
        table: &TableEntry,
        key: &[u8],
        request: Vec<u8>,
        (consistency, until): (Consistency, Instant),
    ) -> Result<Vec<u8>, WriteError> {
        let (kind, limit) = (WriteKind::Cas, None);
        let options = WriteOptions { consistency, timeout: left(until), kind, limit };
        debug_assert!(consistency.is_serial(), "decided-once: at {consistency:?}");
        match self.is_spread(table) {
            true => self.lead(table, key, &options, request).await,
            false => self.lead_round(table, key, &options, request).await,
        }
    }

    /// Ends a round of each partition of a transaction whose outcome is there, in the background:
    /// nobody has to look for it again.
    fn clear(&self, places: Vec<(model::TableId, Vec<u8>)>) {
        if places.is_empty() {
            return;
        }
        let Ok(coordinator) = own_coordinator() else { return };
        self.background.spawn(async move {
            let clears = places.iter().map(|(table, key)| coordinator.clear_one(*table, key));
            join_all(clears).await;
        });
    }

    pub(super) async fn clear_one(&self, table: model::TableId, key: &[u8]) {
        let schema = self.cluster.schema();
        let Some(table) = schema.table_by_id(table) else { return };
        let request = vec![Language::Transactions as u8, CLEAR];
        debug_assert!(table.schema.name != OUTCOMES || !key.is_empty(), "one-partition: no key");
        let how = (Consistency::LocalSerial, Instant::now() + TIMEOUT);
        // Else the next round of the partition does it.
        let _ = self.ask(table, key, request, how).await;
    }

    /// Brings all parts of a committed transaction to their replicas (*learned-by-each*).
    async fn learn_all(&self, parts: &[Part], time: Duration) -> Result<(), WriteError> {
        let is_told = |part: &&Part| part.is_alone() || !part.is_empty();
        let empty = parts.iter().filter(|part| !is_told(part)).map(Part::place);
        self.clear(empty.collect());
        let told = parts.iter().filter(is_told);
        let learned = join_all(told.map(|part| self.learn_part(part, time))).await;
        learned.into_iter().collect()
    }

    async fn learn_part(&self, part: &Part, time: Duration) -> Result<(), WriteError> {
        let schema = self.cluster.schema();
        let (table, key) = part.place();
        // A table that was dropped meanwhile takes nothing.
        let Some(table) = schema.table_by_id(table) else { return Ok(()) };
        nodes::learn_part(self, table, (Place { table: table.schema.id, key }, part), time).await
    }

    /// All of a committed transaction was learned just now: its outcome goes when that is durable.
    fn end_when_durable(&self, id: TransactionId, request: Option<Request>) {
        let due = Instant::now() + self.config.batch_memory;
        if self.ended.try_send(Ended { id, request, due }).is_err() {
            stdx::probe!("an outcome is kept until somebody looks for it");
        }
    }

    /// All of a committed transaction is done (*kept-until-learned*).
    async fn end(&self, id: TransactionId, request: Option<Request>) {
        let Some(table) = self.outcomes() else { return };
        let row = ended_row(&table.schema, id, (wall_micros(), request));
        debug_assert!(row.view().is_ok_and(|row| row.table() == table.schema.id), "another table");
        let (consistency, kind) = (Consistency::Quorum, WriteKind::Simple);
        let options = WriteOptions { consistency, timeout: TIMEOUT, kind, limit: None };
        if let Err(error) = self.write(&table, token_of(id.bucket()), row, &options).await {
            tracing::debug!(target: "paxos", %error, "an outcome is kept until it is looked for");
        }
    }

    /// Brings all committed transactions, of whose outcome this node has a copy, and whose
    /// coordinators have had time enough, to their replicas.
    async fn finish_all(&self) -> Result<(), String> {
        let Some(mut pages) = self.outcomes_here() else { return Ok(()) };
        let patience = (HELD_MAX + 2 * self.config.batch_memory).as_micros() as i64;
        let now = wall_micros();
        while let Some(page) = pages.next().await? {
            for one in page.into_iter().filter(|one| !one.parts.is_empty()) {
                if now.saturating_sub(one.id.began_micros()) <= patience {
                    continue;
                }
                if !one.is_committed {
                    // This copy has missed that it was done and forgotten, and heard that it was
                    // aborted when somebody met what a replica still had of it.
                    stdx::probe!("an outcome was forgotten elsewhere, and decided again");
                    continue;
                }
                self.finish(&one).await;
            }
        }
        Ok(())
    }

    /// The outcomes of which this node has copies, page by page.
    fn outcomes_here(&self) -> Option<OutcomePages<'_>> {
        let table = self.outcomes()?;
        let command = read_command(&table.schema, None, wall_micros().div_euclid(1_000_000));
        Some(OutcomePages { coordinator: self, table, command: Some(command) })
    }

    /// Applies again what the log may have lost of transactions that an earlier run has committed
    /// (*redone-first*). Returns how many there were.
    pub(super) async fn redo_all(&self) -> Result<usize, WriteError> {
        if self.is_planted(Planted::RedoesNothing) {
            return Ok(0);
        }
        let Some(mut pages) = self.outcomes_here() else { return Ok(0) };
        let mut count = 0;
        while let Some(page) = pages.next().await.map_err(WriteError::Refused)? {
            for one in page.iter().filter(|one| one.is_committed && one.has_alone()) {
                stdx::trace!("{:?} is applied again", one.id);
                count += 1;
                // Applied here, whoever has the partitions now: here they were held.
                for part in one.parts.iter().filter(|part| part.is_alone()) {
                    self.redo(part).await?;
                }
                if one.is_all_alone() {
                    self.end_when_durable(one.id, one.request);
                }
            }
        }
        Ok(count)
    }

    async fn redo(&self, part: &Part) -> Result<(), WriteError> {
        let schema = self.cluster.schema();
        let (table, key) = part.place();
        debug_assert!(part.is_alone(), "redone-first: {:?} is of several replicas", part.ballot);
        let Some(table) = schema.table_by_id(table) else { return Ok(()) };
        // Checked here: it comes from the disk, and storage trusts what it is given.
        let checked = part.mutation.view().and_then(|it| it.check_order(&table.schema.order));
        if let Err(Damaged { what, .. }) = checked {
            tracing::warn!(target: "paxos", "a part of a transaction is damaged: {what}");
            return Ok(());
        }
        let place = Place { table: table.schema.id, key };
        nodes::learn_alone(table, (place, part), START_TIMEOUT).await
    }

    /// A table is about to be truncated: no start applies again what transactions have made of it
    /// before.
    pub(super) async fn settle(&self, table: model::TableId) -> Result<(), WriteError> {
        let Some(outcomes) = self.outcomes().filter(|outcomes| !self.is_spread(outcomes)) else {
            return Ok(());
        };
        debug_assert!(table != outcomes.schema.id, "decided-once: outcomes are truncated");
        let Some(mut pages) = self.outcomes_here() else { return Ok(()) };
        while let Some(mut page) = pages.next().await.map_err(WriteError::Refused)? {
            page.retain(|one| {
                let is_of_it = one.parts.iter().any(|part| part.place().0 == table);
                one.is_committed && one.is_all_alone() && is_of_it
            });
            if page.is_empty() {
                continue;
            }
            for one in &page {
                self.learn_all(&one.parts, TIMEOUT).await?;
            }
            sync_logs().await?;
            join_all(page.iter().map(|one| self.end(one.id, one.request))).await;
            sync_logs().await?;
        }
        Ok(())
    }

    async fn finish(&self, one: &Known) {
        match self.learn_all(&one.parts, TIMEOUT).await {
            Ok(()) => {
                stdx::probe!("a transaction is finished for a coordinator that has died");
                self.end_when_durable(one.id, one.request);
            }
            Err(error) => {
                tracing::debug!(target: "paxos", %error, "a transaction is finished later");
            }
        }
    }
}

/// A walk through the outcomes of which a node has copies; it keeps one page of them.
struct OutcomePages<'a> {
    coordinator: &'a Coordinator,
    table: Rc<TableEntry>,
    /// Of the next page, if there may be one.
    command: Option<ReadCommand>,
}

impl OutcomePages<'_> {
    /// The outcomes of the next page, which may have none; `None` after the last. What is damaged
    /// is told in the log, and passed over.
    async fn next(&mut self) -> Result<Option<Vec<Known>>, String> {
        let Some(mut command) = self.command.take() else { return Ok(None) };
        debug_assert!(command.table == self.table.schema.id, "decided-once: of another table");
        let page = self.page(&command).await?;
        let known = kept(&self.table.schema, &command, &page).into_iter().filter_map(Known::of);
        let known = known.collect();
        if let Some(resume) = page.resume {
            range::check_progress(command.resume.as_ref(), &resume);
            command.resume = Some(resume);
            self.command = Some(command);
        }
        Ok(Some(known))
    }

    async fn page(&self, command: &ReadCommand) -> Result<Page, String> {
        let (coordinator, table) = (self.coordinator, &self.table);
        if coordinator.is_spread(table) {
            return coordinator.page_here(table, command).await.map_err(|it| it.to_string());
        }
        let options = ReadOptions::new(Consistency::LocalOne, START_TIMEOUT);
        let page = coordinator.read(table, Token::MIN, command, &options).await;
        page.map_err(|error| error.to_string())
    }
}

/// What was written to this node is on the disk when this ends.
async fn sync_logs() -> Result<(), WriteError> {
    let sync = || async {
        let storage = own_storage().map_err(|error| error.to_string())?;
        storage.sync_log().await.map_err(|error| error.to_string())
    };
    let synced: Result<Vec<()>, String> = runtime::on_all_shards(sync).await.into_iter().collect();
    synced.map(drop).map_err(WriteError::Overloaded)
}

/// What decides on the node that leads the rounds of an outcome.
pub(crate) struct Decides;

impl Executor for Decides {
    fn execute(&self, owner: Owner, request: Vec<u8>) -> LocalFuture<'static, Vec<u8>> {
        Box::pin(async move {
            let result = match request.get(1) {
                Some(&DECIDE) => match Wish::of_bytes(&request[2..]) {
                    Ok((id, wish)) => decide_here(&owner, id, wish).await,
                    Err(_) => Err(unknown_end()),
                },
                Some(&CLEAR) => clear_here(&owner).await,
                _ => Err(unknown_end()),
            };
            let place = |decided| RESULTS.iter().position(|known| *known == decided);
            let place = result.ok().and_then(place).map(|place| place as u8 + 1);
            vec![place.unwrap_or(UNKNOWN)]
        })
    }
}

async fn decide_here(owner: &Owner, id: TransactionId, wish: Wish) -> Result<Decided, WriteError> {
    let outcomes = owner.schema().clone();
    debug_assert!(0 < id.began_micros(), "late-is-aborted: {id:?} began before 1970");
    let is_of_outcomes = (&*outcomes.keyspace, &*outcomes.name) == (KEYSPACE, OUTCOMES);
    if !is_of_outcomes || owner.key() != key_of(id.bucket()) {
        return Err(unknown_end());
    }
    let request = match &wish {
        Wish::Commit(_, request) => *request,
        Wish::Abort => None,
    };
    loop {
        let now = wall_micros();
        let round = owner.begin(now).await?;
        let mut command = read_command(&outcomes, Some(id.bucket()), now.div_euclid(1_000_000));
        let mut all = Vec::new();
        loop {
            let page = owner.read(&command).await.map_err(of_read)?;
            all.append(&mut kept(&outcomes, &command, &page));
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => break,
            }
        }
        let earlier = match decided(&all, id, request) {
            // It was chosen, and does not change (*decided-once*).
            Some(own @ (Decided::Committed | Decided::Aborted)) => return Ok(own),
            earlier => earlier,
        };
        let age = now.saturating_sub(id.began_micros());
        let (wish, decided) = match &wish {
            // *dies-with-its-decider*: other nodes may go on with what this one has proposed.
            Wish::Commit(parts, _) if !owner.is_alone() && parts.iter().any(Part::is_alone) => {
                stdx::probe!("a transaction is aborted whose outcome is not of this node alone");
                (&Wish::Abort, earlier.unwrap_or(Decided::Aborted))
            }
            // *late-is-aborted*
            Wish::Commit(..) if earlier.is_none() && age <= LIFE.as_micros() as i64 => {
                (&wish, Decided::Committed)
            }
            _ => (&Wish::Abort, earlier.unwrap_or(Decided::Aborted)),
        };
        let row = outcome_row(&outcomes, id, (wish, round.timestamp()));
        let at = round.timestamp();
        if owner.propose(round, row, Consistency::Quorum).await? == Proposed::Chosen {
            stdx::trace!("{id:?} is decided at {at}: {decided:?}, {wish:?}");
            return Ok(decided);
        }
    }
}

async fn clear_here(owner: &Owner) -> Result<Decided, WriteError> {
    if let Some(round) = owner.begin_to_hold(wall_micros()).await? {
        owner.finish(round).await?;
    }
    Ok(Decided::Committed)
}

/// Whether it was decided, nobody knows.
fn unknown_end() -> WriteError {
    let (consistency, kind) = (Consistency::Serial, WriteKind::Cas);
    WriteError::Timeout { consistency, received: 0, required: 1, kind }
}

/// A read of an outcome that failed: nothing was done.
fn of_read(error: ReadError) -> WriteError {
    match error {
        ReadError::Unavailable { consistency, required, alive } => {
            WriteError::Unavailable { consistency, required, alive }
        }
        ReadError::Overloaded(reason) => WriteError::Overloaded(reason),
        _ => unknown_end(),
    }
}
