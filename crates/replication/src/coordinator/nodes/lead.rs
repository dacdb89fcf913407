//! Which node leads the rounds of a partition. Any may; where all agree on one, rounds of several
//! nodes do not get in each other's way. It is the first replica that is alive, in the order of the
//! ring or of the tablet: the one to which drivers send conditional writes.
//!
//! A conditional write that comes to another node is sent there, as bytes that the layer above
//! makes and executes ([`Executor`]), with a serial read's command likewise. If the leader is not
//! reached this node leads: who leads is a matter of speed, and not of what may be chosen.
//!
//! Invariants
//!  - *one-hop*: who is sent a round leads it, whoever it thinks should.
//!  - *sent-once*: what became of a round that was sent, and whose leader does not answer, nobody
//!    knows; it is not given to another one.

use super::counters::led_badly;
use super::owner::{Held, Owner};
use super::peers::{call, left};
use super::rounds::{Rounding, of_read};
use super::shared::Proposed;
use super::{Coordinator, target};
use crate::coordinator::own_coordinator;
use crate::digest;
use crate::error::{ReadError, WriteError};
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::placement::Replica;
use crate::wire::{self, Refusal, RefusalKind, verb};
use cluster::TableEntry;
use messaging::Payload;
use model::Token;
use mutation::page::{Page, Partitions, ReadCommand, RowShape};
use reader::LocalFuture;
use runtime::time::Instant;
use std::rc::Rc;

/// Whose conditional writes are executed: the first byte of a request says so. (The first byte of
/// one of CQL is that of its level, which is 0.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Cql = 0,
    /// Items of the DynamoDB API.
    Items = 1,
    /// Outcomes of transactions.
    Transactions = 2,
}

impl Language {
    /// How many there are.
    pub(super) const COUNT: usize = 3;
}

/// What executes conditional writes that other nodes have sent.
pub trait Executor {
    /// Does what the bytes say with the partition that is held. The answer is for whoever made
    /// them.
    fn execute(&self, owner: Owner, request: Vec<u8>) -> LocalFuture<'static, Vec<u8>>;
}

impl Coordinator {
    /// What executes conditional writes of that language on this shard, from now on.
    pub fn set_executor(&self, language: Language, executor: Rc<dyn Executor>) {
        self.nodes.executors.borrow_mut()[language as usize] = Some(executor);
    }

    /// Has the node that leads the rounds of a partition execute a conditional write, of a table
    /// whose copies are on several nodes. The result is that of its [`Executor`]. `options`: at a
    /// serial level.
    pub async fn lead(
        &self,
        table: &TableEntry,
        key: &[u8],
        options: &WriteOptions,
        request: Vec<u8>,
    ) -> Result<Vec<u8>, WriteError> {
        debug_assert!(options.consistency.is_serial(), "one-hop: {:?}", options.consistency);
        let begun = self.begin_write(options, 1);
        let led = Box::pin(self.lead_somewhere(table, key, options, request)).await;
        self.end_spread(table, options, begun, led)
    }

    async fn lead_somewhere(
        &self,
        table: &TableEntry,
        key: &[u8],
        options: &WriteOptions,
        request: Vec<u8>,
    ) -> Result<Vec<u8>, WriteError> {
        let until = Instant::now() + options.timeout;
        for leader in self.leaders(table, key, options.consistency) {
            let bytes =
                wire::paxos::encode_lead(options.consistency, table.schema.id, key, &request);
            let payload = Payload::from(bytes);
            match call(target(&leader), verb::PAXOS_LEAD, payload, left(until)).await {
                Ok(result) => return Ok(result),
                Err(refusal) if is_nothing_done(refusal.kind) => {
                    stdx::probe!("the leader of a round is not reached, and another one leads");
                }
                Err(refusal) if is_of_connection(&refusal) => {
                    let WriteOptions { consistency, kind, .. } = *options;
                    let (received, required) = (0, 1);
                    return Err(WriteError::Timeout { consistency, received, required, kind });
                }
                Err(refusal) => return Err(led_badly(options, refusal)),
            }
        }
        let options = WriteOptions { timeout: left(until), ..*options };
        self.lead_round(table, key, &options, request).await
    }

    /// Leads a conditional write here.
    pub(crate) async fn lead_round(
        &self,
        table: &TableEntry,
        key: &[u8],
        options: &WriteOptions,
        request: Vec<u8>,
    ) -> Result<Vec<u8>, WriteError> {
        debug_assert!(options.kind == WriteKind::Cas, "one-hop: a round of {:?}", options.kind);
        let change = move |owner: Owner| async move {
            let language = usize::from(request.first().copied().unwrap_or(0));
            let find = |it: Rc<Coordinator>| it.nodes.executors.borrow().get(language).cloned();
            let executor = own_coordinator().ok().and_then(find).flatten();
            Some(executor?.execute(owner, request).await)
        };
        let held: Held<Option<Vec<u8>>> =
            self.hold(table, Token::of(key), key, (options, Rounding::Write), change).await;
        let stops = || WriteError::Overloaded("the node starts or stops".to_owned());
        self.answer(table, options, held)?.ok_or_else(stops)
    }

    /// Whether this shard can lead what other nodes send.
    pub(crate) fn has_executor(&self) -> bool {
        self.nodes.executors.borrow()[Language::Cql as usize].is_some()
    }

    /// A page of a partition as it is between two conditional writes. The key is the command's.
    pub(super) async fn read_serial(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
        options: &WriteOptions,
    ) -> Result<Page, ReadError> {
        // Replicas answer whole rows.
        let whole = ReadCommand { shape: RowShape::Whole, ..command.clone() };
        let page = self.read_serial_whole(table, &whole, options).await?;
        Ok(digest::finish(&table.schema, command, &whole, page))
    }

    async fn read_serial_whole(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
        options: &WriteOptions,
    ) -> Result<Page, ReadError> {
        let level = options.consistency;
        let Partitions::Key(key) = &command.partitions else {
            let level = level.name();
            let text =
                format!("{level} consistency may only be requested for one partition at a time");
            return Err(ReadError::Refused(text));
        };
        let until = Instant::now() + options.timeout;
        for leader in self.leaders(table, key, level) {
            let payload = Payload::from(wire::paxos::encode_read(level, command));
            match call(target(&leader), verb::PAXOS_READ, payload, left(until)).await {
                Ok(bytes) => {
                    let page = wire::answer::decode_page(bytes, command);
                    return page.map_err(|damaged| {
                        let refusal = super::peers::damaged_answer(&leader, damaged);
                        of_read(led_badly(options, refusal))
                    });
                }
                // A read is made again, whatever became of it.
                Err(refusal) if is_of_connection(&refusal) || is_nothing_done(refusal.kind) => {}
                Err(refusal) => return Err(of_read(led_badly(options, refusal))),
            }
        }
        let options = WriteOptions { timeout: left(until), ..*options };
        self.read_round(table, command, &options).await
    }

    /// The same, led here.
    pub(crate) async fn read_round(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
        options: &WriteOptions,
    ) -> Result<Page, ReadError> {
        let Partitions::Key(key) = &command.partitions else {
            return Err(ReadError::Refused("a round about several partitions".to_owned()));
        };
        debug_assert!(command.shape == RowShape::Whole, "one-hop: a round in pieces");
        let command = command.clone();
        let read = move |owner: Owner| async move {
            loop {
                let began = owner.begin(runtime::time::wall_micros()).await.map_err(of_read)?;
                let page = owner.read(&command).await?;
                match owner.finish(began).await.map_err(of_read)? {
                    Proposed::Chosen => return Ok(page),
                    Proposed::Superseded => {}
                }
            }
        };
        let held = self.hold(table, Token::of(key), key, (options, Rounding::Read), read).await;
        self.answer(table, options, held).map_err(of_read)?
    }

    /// The other nodes that are to lead the rounds of a partition before this one is, first to
    /// last.
    fn leaders(&self, table: &TableEntry, key: &[u8], level: Consistency) -> Vec<Replica> {
        let replicas = self.replicas(table, Token::of(key));
        let places = self.places();
        let is_near = |one: &&Replica| one.is_local_dc || level != Consistency::LocalSerial;
        let is_alive = |one: &&Replica| one.is_here || places.is_alive(one.host_id);
        let all = replicas.iter().flat_map(|replicas| replicas.iter());
        let mut leaders: Vec<Replica> = all.filter(is_near).filter(is_alive).copied().collect();
        leaders.sort_by_key(|one| one.rank);
        let own = leaders.iter().position(|one| one.is_here);
        leaders.truncate(own.unwrap_or(leaders.len()));
        debug_assert!(leaders.iter().all(|one| !one.is_here), "one-hop: to this node itself");
        leaders
    }
}

/// Whether a leader that says so has begun nothing, and another one may.
fn is_nothing_done(why: RefusalKind) -> bool {
    matches!(why, RefusalKind::Unreached | RefusalKind::UnknownTable)
}

/// Whether the leader has gone without an answer: one that fails says how many failures it has met.
fn is_of_connection(refusal: &Refusal) -> bool {
    refusal.kind == RefusalKind::Failed && refusal.failures == 0
}

/// How rounds that another node has sent are made, in the time that is left.
pub(crate) fn options_of(consistency: Consistency, until: Instant) -> WriteOptions {
    debug_assert!(consistency.is_serial(), "one-hop: a round at {consistency:?}");
    let (kind, limit) = (WriteKind::Cas, None);
    WriteOptions { consistency, timeout: left(until), kind, limit }
}
