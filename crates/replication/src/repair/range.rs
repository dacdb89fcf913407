//! A range is repaired by one of its replicas, which asks the others.
//!
//! Invariants
//!  - *onward*: each round ends at a later place, or all replicas have the same up to the end; a
//!    round that fails is tried again from where it began, a few times.
//!  - *said-who*: an error names the node that did not do its part.
//!  - *all-or-nothing*: a range is repaired only if all its replicas took part.
//!  - *in-order*: see [`super::turns`]. *from-before*: see [`super::known`]. *all-had-it*,
//!    *durable-first*: see [`super::history`].
//!  - *as-all-can*: while a node of the cluster does not know of turns, nobody is asked for one,
//!    nor what is known, and each range is read as it comes.

use super::ask::{call, part, said, target, tell_all};
use super::history::History;
use super::known::Known;
use super::session::{BUFFER_BYTES_MAX, Session};
use super::turns;
use crate::coordinator::{Coordinator, nodes, own_coordinator, own_storage};
use crate::placement::Replicas;
use crate::sync::buffer::Told;
use crate::sync::decide::{Comparison, Step, step};
use crate::sync::unit::{Edge, Hashing, Sum, Unit, compare_edges, units_of};
use crate::wire::sync::{self, Compare, Compared, Fetch, Read};
pub use crate::wire::sync::{Figures, How, Moment, Range};
use crate::wire::{self, Refusal, RefusalKind, verb};
use cluster::{RepairRecord, TableEntry, features};
use messaging::{Messaging, Payload};
use model::{TableSchema, Token, Uuid};
use mutation::{FrozenMutation, FrozenView};
use runtime::task::{Either, join, join_all, race};
use runtime::time::{Instant, sleep};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use stdx::Damaged;

/// How long a replica may take to fill a buffer: it may have to read much that is dead. Of one that
/// goes away it is known before.
const READ_TIME: Duration = Duration::from_secs(600);
/// How often a round is tried again, and after what time first.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(250);
/// So many bytes of mutations go at once, if it is not one.
const WRITE_BYTES: usize = 128 << 10;

/// Why a round did not end well.
#[derive(Debug)]
enum Failed {
    /// It may next time.
    Now(String),
    ForGood(String),
}

/// A range that is being repaired.
struct Asking<'c> {
    coordinator: &'c Coordinator,
    schema: Rc<TableSchema>,
    range: &'c Range,
    read: Read,
    own: Session,
    figures: Figures,
    /// Whether all nodes know of turns (*as-all-can*).
    takes_turns: bool,
    /// On so many of the replicas it has a turn.
    turns: usize,
    /// When it said last that it wants to keep them.
    said: Instant,
    /// Whether all of the range was read in this session.
    is_whole: bool,
}

impl Coordinator {
    /// Whether ranges take turns: all nodes know of them (*as-all-can*).
    pub(crate) fn repairs_take_turns(&self) -> bool {
        self.places().enables(features::REPAIR_TURNS)
    }

    /// How many figures of a repair another node may hear of (*as-all-can*).
    pub(crate) fn figures_told(&self) -> usize {
        let places = self.places();
        match (self.repairs_take_turns(), places.enables(features::TABLET_REPAIR_TIME)) {
            (false, _) => Figures::AT_FIRST,
            (true, false) => Figures::WITH_KNOWN,
            (true, true) => Figures::WITH_REMEMBERED,
        }
    }

    /// Whether no other replica of a range is known to be down.
    pub(super) fn are_alive(&self, range: &Range) -> bool {
        debug_assert!(!range.others.is_empty(), "all-or-nothing: a range of one replica");
        range.others.iter().all(|(host, _)| self.places().is_alive(*host))
    }

    /// Repairs a range of which this node is a replica, until `goes_on` says no. Also where it
    /// fails, what was done stays done, and is told.
    pub async fn repair_range(
        &self,
        range: &Range,
        how: How,
        goes_on: &dyn Fn() -> bool,
    ) -> (Figures, Result<(), String>) {
        let known = self.cluster.schema().table_by_id(range.table).cloned();
        let Some(table) = known else { return (Figures::default(), Ok(())) };
        debug_assert!(!range.others.is_empty(), "all-or-nothing: a range of one replica");
        let mut asking = Asking::new(self, &table, (range, how));
        if !how.is_full && asking.is_known().await {
            asking.figures.known = 1;
            if asking.is_durable(0).await {
                asking.remember(how).await;
            }
            return (asking.figures, Ok(()));
        }
        let mut ended = asking.all(goes_on).await;
        let all_agree = ended.is_ok() && asking.is_whole && !how.forgets;
        if all_agree && asking.is_durable(asking.read.session).await {
            asking.remember(how).await;
        }
        asking.end(all_agree).await;
        if ended.is_err() && self.cluster.schema().table_by_id(range.table).is_none() {
            stdx::probe!("a table is dropped while it is repaired");
            ended = Ok(());
        }
        (asking.figures, ended)
    }
}

impl<'c> Asking<'c> {
    fn new(
        coordinator: &'c Coordinator,
        table: &TableEntry,
        (range, how): (&'c Range, How),
    ) -> Asking<'c> {
        let now = runtime::time::wall_micros().div_euclid(1_000_000);
        let read = Read {
            session: new_session(),
            round: 0,
            table: range.table,
            range: range.tokens,
            seed: runtime::random_u64(),
            now,
            gc_before: match how.forgets {
                true => coordinator.storage.deletions_before(range.table, range.tokens, now),
                false => i64::MIN,
            },
            bytes_max: match how.buffer_bytes {
                0 => BUFFER_BYTES_MAX,
                bytes => bytes,
            },
            after: None,
        };
        debug_assert!(table.schema.id == range.table, "all-or-nothing: of another table");
        let schema = table.schema.clone();
        let own = Session::new(&read, schema.clone());
        Asking {
            coordinator,
            schema,
            range,
            read,
            own,
            figures: Figures::default(),
            takes_turns: coordinator.repairs_take_turns(),
            turns: 0,
            said: Instant::now(),
            is_whole: true,
        }
    }

    /// Whether each replica says that nothing has changed since the same repair. Who does not
    /// answer is asked again by what follows.
    async fn is_known(&mut self) -> bool {
        if !self.takes_turns {
            return false;
        }
        let known = Known::of_shard().agreed(part(self.range)).await;
        if known == 0 || self.check_alive().is_err() {
            return false;
        }
        let bytes = sync::encode_part(part(self.range));
        self.figures.bytes_sent += (bytes.len() * self.range.others.len()) as u64;
        let asked = (0..self.range.others.len()).map(|index| {
            let payload = Payload::from(bytes.clone());
            call(self.range, index, verb::SYNC_KNOWS, payload)
        });
        let answers = join_all(asked).await;
        debug_assert!(answers.len() == self.range.others.len(), "all-or-nothing");
        answers.into_iter().all(|answer| {
            let Ok(bytes) = answer else { return false };
            self.figures.bytes_received += bytes.len() as u64;
            sync::decode_session(&bytes) == Ok(known)
        })
    }

    async fn all(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), String> {
        let mut tries = 0;
        loop {
            if own_coordinator().is_err() {
                return Err("the node stops".to_owned());
            }
            if !goes_on() {
                return Err("it was ended".to_owned());
            }
            self.check_alive()?;
            let is_its_turn = !self.takes_turns || self.range.others.len() < self.turns;
            let done = match is_its_turn {
                true if !self.takes_turns => self.round().await,
                true => keeping(self.range, self.read.session, self.round()).await,
                false => self.next_turn().await,
            };
            match done {
                Ok(true) => return Ok(()),
                Ok(false) => tries = if is_its_turn { 0 } else { tries },
                Err(Failed::ForGood(why)) => return Err(why),
                Err(Failed::Now(why)) => {
                    tries += 1;
                    if tries == TRIES {
                        return Err(why);
                    }
                    stdx::probe!("a round of a repair is tried again");
                    // Others may go on meanwhile, and what failed may know of none of it any more.
                    self.end(false).await;
                    sleep(PAUSE * 2u32.pow(tries)).await;
                }
            }
        }
    }

    /// Waits a while for a turn on the next replica (*in-order*); no round was done.
    async fn next_turn(&mut self) -> Result<bool, Failed> {
        let Some(messaging) = Messaging::current() else {
            return Err(Failed::ForGood("the node stops".to_owned()));
        };
        let own = (Uuid::from_u128(messaging.host().0), None);
        let others = self.range.others.iter().enumerate();
        let others = others.map(|(index, (host, _))| (*host, Some(index)));
        let mut all: Vec<(Uuid, Option<usize>)> = others.chain([own]).collect();
        all.sort_unstable();
        let count = all.len();
        debug_assert!(self.turns < count, "in-order: {} turns of {count}", self.turns);
        if 0 < self.turns && turns::WORD <= Instant::now() - self.said {
            self.said = Instant::now();
            keep(self.range, self.read.session).await;
        }
        let has = match all.get(self.turns) {
            Some((_, Some(index))) => self.turn_of(*index).await?,
            _ => {
                let has = turns::wait(self.read.session, part(self.range)).await;
                if has {
                    Known::of_shard().begin(self.read.session, part(self.range)).await;
                }
                has
            }
        };
        self.turns += usize::from(has);
        Ok(false)
    }

    async fn turn_of(&mut self, index: usize) -> Result<bool, Failed> {
        let bytes = sync::encode_begin(self.read.session, part(self.range));
        self.figures.bytes_sent += bytes.len() as u64;
        let answer = call(self.range, index, verb::SYNC_BEGIN, Payload::from(bytes)).await;
        let bytes = self.answered(index, answer)?;
        sync::decode_turn(&bytes).map_err(|damaged| self.damaged(index, damaged))
    }

    /// Who is known to be down is not waited for.
    fn check_alive(&self) -> Result<(), String> {
        let places = self.coordinator.places();
        match self.range.others.iter().find(|(host, _)| !places.is_alive(*host)) {
            Some((host, _)) => Err(format!("node {} is down", places.told(*host).0)),
            None => Ok(()),
        }
    }

    /// One round; whether it was the last.
    async fn round(&mut self) -> Result<bool, Failed> {
        if self.takes_turns && !turns::has(self.read.session, part(self.range)).await {
            return Err(Failed::Now("a range has no turn on this node any more".to_owned()));
        }
        self.read.round += 1;
        self.figures.rounds += 1;
        let told = self.read_all().await?;
        let hashing = Hashing::new(self.read.seed, None);
        let upto = match step(&self.schema, &told, &hashing) {
            Step::Done => {
                self.figures.compared += u64::from(told[0].sum.count);
                return Ok(true);
            }
            Step::Same(edge) => {
                self.figures.compared += u64::from(told[0].sum.count);
                self.read.after = Some(edge);
                return Ok(false);
            }
            Step::Compare(edge) => edge,
        };
        let Some(own) = self.own.cut(upto.as_ref()) else {
            return Err(Failed::Now("this node did not come that far".to_owned()));
        };
        let sum = Sum::of(own);
        self.figures.compared += u64::from(sum.count);
        let lists = self.compare_all(upto.clone(), sum).await?;
        let mut comparison = Comparison::new(self.own.take_working(), &hashing);
        for (index, list) in lists.into_iter().enumerate() {
            let Some(list) = list else {
                comparison.add_same();
                continue;
            };
            self.figures.hashes += list.len() as u64;
            let places = comparison.add(&list);
            let units = self.fetch(index, &places).await?;
            if !comparison.fetched(&list, &places, units) {
                return Err(self.damaged(index, Damaged::new("other rows than asked for", 0)));
            }
        }
        let repairs = comparison.repairs(&self.schema);
        self.write_all(repairs).await?;
        let is_last = upto.is_none();
        debug_assert!(
            self.read.after.is_none()
                || compare_edges(&self.schema, self.read.after.as_ref(), upto.as_ref()).is_lt(),
            "onward: back to {upto:?}"
        );
        self.read.after = upto;
        Ok(is_last)
    }

    /// All replicas, this one first, fill their buffers.
    async fn read_all(&mut self) -> Result<Vec<Told>, Failed> {
        let bytes = Rc::new(self.read.encode());
        self.figures.bytes_sent += (bytes.len() * self.range.others.len()) as u64;
        let asked = (0..self.range.others.len()).map(|index| {
            let payload = Payload::with_shared(Vec::new(), bytes.clone());
            let target = target(self.range, index);
            nodes::call(target, verb::SYNC_READ, payload, READ_TIME)
        });
        let asked: Vec<_> = asked.collect();
        let own = self.own.read(self.read.after.as_ref());
        let (own, others) = join(own, join_all(asked)).await;
        let own = own.map_err(|error| Failed::Now(format!("this node: {error}")))?;
        let mut all = vec![own];
        for (index, answer) in others.into_iter().enumerate() {
            let bytes = self.answered(index, answer)?;
            let told = sync::decode_told(&bytes).and_then(|told| self.check(told));
            all.push(told.map_err(|damaged| self.damaged(index, damaged))?);
        }
        debug_assert!(all.len() == 1 + self.range.others.len(), "all-or-nothing: {}", all.len());
        Ok(all)
    }

    /// *onward*
    fn check(&self, told: Told) -> Result<Told, Damaged> {
        let (first, last) = self.range.tokens;
        let after = self.read.after.as_ref();
        let is_onward =
            after.is_none() || compare_edges(&self.schema, after, told.reached.as_ref()).is_lt();
        let is_inside = told.reached.as_ref().is_none_or(|edge| {
            let token = edge.key.token;
            first <= token && token <= last
        });
        match is_onward && is_inside {
            true => Ok(told),
            false => Err(Damaged::new("a replica has read elsewhere", 0)),
        }
    }

    /// What each of the others has; `None`: the same as this node.
    async fn compare_all(
        &mut self,
        upto: Option<Edge>,
        sum: Sum,
    ) -> Result<Vec<Option<Vec<u64>>>, Failed> {
        let Read { session, round, .. } = self.read;
        let bytes = Rc::new(Compare { session, round, upto, sum }.encode());
        self.figures.bytes_sent += (bytes.len() * self.range.others.len()) as u64;
        let asked = (0..self.range.others.len()).map(|index| {
            let payload = Payload::with_shared(Vec::new(), bytes.clone());
            call(self.range, index, verb::SYNC_COMPARE, payload)
        });
        let mut lists = Vec::new();
        for (index, answer) in join_all(asked).await.into_iter().enumerate() {
            let bytes = self.answered(index, answer)?;
            let compared = Compared::decode(&bytes);
            match compared.map_err(|damaged| self.damaged(index, damaged))? {
                Compared::Gone => return Err(self.gone(index)),
                Compared::Same => lists.push(None),
                Compared::Other(list) => lists.push(Some(list)),
            }
        }
        let all = self.range.others.len();
        debug_assert!(lists.len() == all, "all-or-nothing: {} of {all}", lists.len());
        Ok(lists)
    }

    async fn fetch(&mut self, index: usize, places: &[u32]) -> Result<Vec<Unit>, Failed> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let Read { session, round, .. } = self.read;
        let bytes = Fetch { session, round, places: places.to_vec() }.encode();
        self.figures.bytes_sent += bytes.len() as u64;
        let answer = call(self.range, index, verb::SYNC_FETCH, Payload::from(bytes)).await;
        let bytes = self.answered(index, answer)?;
        let fetched = sync::decode_fetched(&bytes).and_then(|fetched| {
            let all = fetched.as_deref().unwrap_or_default();
            sync::check_fetched(all, &self.schema, self.range.tokens)?;
            Ok(fetched)
        });
        let fetched = fetched.map_err(|damaged| self.damaged(index, damaged))?;
        let Some(mutations) = fetched else { return Err(self.gone(index)) };
        self.count_rows(&mutations);
        self.figures.fetched += places.len() as u64;
        let mut hashing = Hashing::new(self.read.seed, None);
        let views = mutations.iter().filter_map(|one| FrozenView::trusted(&one.0).ok());
        Ok(views.flat_map(|view| units_of(&view, &mut hashing)).collect())
    }

    /// Each replica takes in what it lacks.
    async fn write_all(&mut self, repairs: Vec<Vec<FrozenMutation>>) -> Result<(), Failed> {
        let mut repairs = repairs.into_iter();
        let own = repairs.next().unwrap_or_default();
        let others: Vec<_> = repairs.collect();
        assert!(others.len() == self.range.others.len(), "all-or-nothing: {}", others.len());
        self.figures.written += own.iter().map(units_in).sum::<u64>();
        for repair in &others {
            self.figures.sent += repair.iter().map(units_in).sum::<u64>();
            self.count_rows(repair);
        }
        let told = others.into_iter().enumerate().map(|(index, repair)| {
            let range = self.range;
            async move {
                let mut sent = 0;
                for part in parts(repair) {
                    let bytes = wire::encode_mutations(&part);
                    sent += bytes.len() as u64;
                    let answer = call(range, index, verb::SYNC_WRITE, Payload::from(bytes)).await;
                    if let Err(refusal) = answer {
                        return (sent, Err(refusal));
                    }
                }
                (sent, Ok(Vec::new()))
            }
        });
        let here = async {
            for part in parts(own) {
                Box::pin(self.coordinator.apply_here(part)).await?;
            }
            Ok::<(), storage::WriteError>(())
        };
        let (here, others) = join(here, join_all(told)).await;
        here.map_err(|error| Failed::Now(format!("this node: {error}")))?;
        for (index, (sent, answer)) in others.into_iter().enumerate() {
            self.figures.bytes_sent += sent;
            self.answered(index, answer)?;
        }
        Ok(())
    }

    /// *durable-first*: whether it is, and all have known of the session since it began; 0: what is
    /// known needed none.
    async fn is_durable(&mut self, session: u128) -> bool {
        if !self.coordinator.places().enables(features::REPAIR_HISTORY) {
            return false;
        }
        let bytes = sync::encode_session(session);
        self.figures.bytes_sent += (bytes.len() * self.range.others.len()) as u64;
        let asked = (0..self.range.others.len())
            .map(|index| call(self.range, index, verb::SYNC_DURABLE, Payload::from(bytes.clone())));
        let (here, others) = join(make_durable(session), join_all(asked)).await;
        debug_assert!(others.len() == self.range.others.len(), "all-or-nothing");
        here.is_ok() && others.iter().all(Result::is_ok)
    }

    /// Has all replicas remember that the range was repaired, if that is so (*all-had-it*).
    async fn remember(&mut self, how: How) {
        let Some(moment) = how.moment.filter(|_| !how.forgets) else { return };
        if !self.is_settled() && !History::of_shard().is_planted() {
            return tracing::debug!(target: "repair", "a repair of some replicas is not remembered");
        }
        debug_assert!(!self.range.others.is_empty(), "all-had-it: a range of one replica");
        self.figures.remembered = 1;
        let bytes = sync::encode_repaired(part(self.range), moment);
        self.figures.bytes_sent += (bytes.len() * self.range.others.len()) as u64;
        let told = (0..self.range.others.len()).map(|index| {
            call(self.range, index, verb::SYNC_REPAIRED, Payload::from(bytes.clone()))
        });
        let record = record_of(part(self.range), moment);
        let (here, others) = join(self.coordinator.remember_repair(record), join_all(told)).await;
        if let Err(why) = here {
            tracing::warn!(target: "repair", "this node does not remember a repair: {why}");
        }
        for (refusal, (host, _)) in others.into_iter().zip(&self.range.others) {
            if let Err(refusal) = refusal {
                let why = said(self.coordinator, *host, &refusal.text);
                tracing::warn!(target: "repair", "a repair is not remembered: {why}");
            }
        }
    }

    /// Whether those who take part are all that are to have what is written to the range, and
    /// nobody else is about to be.
    fn is_settled(&self) -> bool {
        let Some(messaging) = Messaging::current() else { return false };
        let schema = self.coordinator.cluster.schema();
        let Some(table) = schema.table_by_id(self.range.table) else { return false };
        let own = Uuid::from_u128(messaging.host().0);
        let others = self.range.others.iter().map(|(host, _)| *host);
        let all: BTreeSet<Uuid> = others.chain([own]).collect();
        let are_all = |replicas: Replicas| match replicas {
            Replicas::Nodes(nodes) => {
                nodes.iter().map(|node| node.host_id).collect::<BTreeSet<_>>() == all
            }
            Replicas::Here => false,
        };
        let (places, (mut next, last)) = (self.coordinator.places(), self.range.tokens);
        loop {
            let (replicas, end) = places.stretch(table, next);
            debug_assert!(next <= end, "onward: a stretch from {next:?} to {end:?}");
            let end = end.min(last);
            let writers = [next, end].map(|token| places.writers(table, token));
            if !are_all(replicas) || !writers.into_iter().all(are_all) {
                return false;
            }
            if end == last {
                return true;
            }
            next = Token(end.0 + 1);
        }
    }

    fn count_rows(&mut self, mutations: &[FrozenMutation]) {
        self.figures.bytes_of_rows += mutations.iter().map(|one| one.0.len() as u64).sum::<u64>();
    }

    fn name(&self, index: usize) -> String {
        self.coordinator.places().told(self.range.others[index].0).0
    }

    fn answered(
        &mut self,
        index: usize,
        answer: Result<Vec<u8>, Refusal>,
    ) -> Result<Vec<u8>, Failed> {
        let refusal = match answer {
            Ok(bytes) => {
                self.figures.bytes_received += bytes.len() as u64;
                return Ok(bytes);
            }
            Err(refusal) => refusal,
        };
        let text = said(self.coordinator, self.range.others[index].0, &refusal.text);
        match refusal.kind {
            RefusalKind::UnknownTable | RefusalKind::Refused => Err(Failed::ForGood(text)),
            _ => Err(Failed::Now(text)),
        }
    }

    fn gone(&self, index: usize) -> Failed {
        stdx::probe!("a replica has lost a session of a repair");
        Failed::Now(format!("node {} does not know the repair any more", self.name(index)))
    }

    fn damaged(&self, index: usize, damaged: Damaged) -> Failed {
        let text = format!("node {} sent a damaged answer: {damaged}", self.name(index));
        tracing::warn!(target: "repair", "{text}");
        Failed::ForGood(text)
    }

    /// All may forget it, and give its turns to others. What is asked from here on is a session of
    /// its own.
    async fn end(&mut self, all_agree: bool) {
        let session = self.read.session;
        turns::end(session).await;
        Known::of_shard().end(session, all_agree).await;
        let told = match self.takes_turns {
            true => sync::encode_end(session, all_agree),
            false => sync::encode_session(session),
        };
        tell_all(self.range, verb::SYNC_END, &told).await;
        (self.read.session, self.turns) = (new_session(), 0);
        self.takes_turns = self.coordinator.repairs_take_turns();
        self.is_whole = self.read.after.is_none();
    }
}

/// A repair of a range, as it is remembered.
pub(crate) fn record_of((table, first, last): sync::Part, moment: Moment) -> RepairRecord {
    let (at, repair) = (moment.micros.div_euclid(1000), Uuid::from_u128(moment.repair));
    debug_assert!(first <= last, "all-had-it: from {first:?} to {last:?}");
    RepairRecord { table, tokens: (first, last), at, repair }
}

/// What a repair has brought to this node since its session began is on the disk; an error: it may
/// not be all of it.
pub(crate) async fn make_durable(session: u128) -> Result<(), String> {
    if session != 0 && !Known::of_shard().has_begun(session) {
        return Err("this node does not know the repair any more".to_owned());
    }
    let sync = || async {
        let storage = own_storage().map_err(|_| "the node stops".to_owned())?;
        storage.sync_log().await.map_err(|error| error.to_string())
    };
    let synced = runtime::on_all_shards(sync).await;
    debug_assert!(!synced.is_empty(), "durable-first: a node without shards");
    synced.into_iter().collect()
}

fn new_session() -> u128 {
    (u128::from(runtime::random_u64()) << 64) | u128::from(runtime::random_u64())
}

/// Does something, and says from time to time that the turns of a session are not given up.
async fn keeping<T>(range: &Range, session: u128, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match race(work.as_mut(), sleep(turns::WORD)).await {
            Either::Left(done) => return done,
            Either::Right(()) => keep(range, session).await,
        }
    }
}

/// Tells all replicas, this node too, that a session goes on.
async fn keep(range: &Range, session: u128) {
    turns::keep(session).await;
    tell_all(range, verb::SYNC_KEEP, &sync::encode_session(session)).await;
}

fn units_in(mutation: &FrozenMutation) -> u64 {
    let Ok(view) = FrozenView::trusted(&mutation.0) else { return 0 };
    let others = u64::from(view.static_row().is_some()) + u64::from(!view.tombstone().is_none());
    (view.row_count() + view.range_count()) as u64 + others
}

/// Mutations as they are written together.
fn parts(mutations: Vec<FrozenMutation>) -> Vec<Vec<FrozenMutation>> {
    let mut parts: Vec<Vec<FrozenMutation>> = Vec::new();
    let mut bytes = WRITE_BYTES;
    for mutation in mutations {
        if WRITE_BYTES <= bytes {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += mutation.0.len();
        parts.last_mut().expect("one was begun").push(mutation);
    }
    debug_assert!(parts.iter().all(|part| !part.is_empty()), "all-or-nothing: an empty part");
    parts
}
