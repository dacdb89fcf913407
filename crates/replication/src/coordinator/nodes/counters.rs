//! Increments of counters whose copies are on several nodes.
//!
//! One replica leads: this node if it is one, else the nearest that is alive. It makes the
//! increment the counter's next state, under its own name, and that state goes to the others as any
//! write does.
//!
//! Invariants
//!  - *led-once*: an increment is given to one leader, once; what became of it where the leader
//!    does not answer nobody knows, and it is not given to another one.
//!  - *refused-before*: an answer that says that nothing was done comes from before the leader
//!    makes the state. From then on it goes to all who can be told, and the others have a hint.

use super::peers::{Told, call, left};
use super::write::{Spread, unavailable};
use super::{Coordinator, refuse_write, target};
use crate::coordinator::lead_counter;
use crate::epochs::Epochs;
use crate::error::{ReadError, WriteError, write_failed};
use crate::options::{WriteKind, WriteOptions};
use crate::placement::Replica;
use crate::plan::nodes::{Candidate, Unavailable, plan_write};
use crate::wire::{self, Refusal, RefusalKind, verb};
use cluster::TableEntry;
use messaging::Payload;
use model::Token;
use mutation::FrozenMutation;
use runtime::time::{Instant, timeout};
use std::rc::Rc;

impl Coordinator {
    /// As [`Coordinator::increment`], of a table that is on several nodes.
    pub(crate) async fn increment_spread(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        refuse_write(options.consistency)?;
        let options = &super::write::with_kind(options, WriteKind::Counter);
        let until = Instant::now() + options.timeout;
        let Some(replicas) = self.writers(table, token) else {
            return Err(WriteError::Overloaded("the table was moved".to_owned()));
        };
        let candidates = self.candidates(&replicas);
        self.check_alive(table, &replicas, &candidates, options)?;
        // Who is only written does not have the counter's state yet.
        let leads = |one: &Candidate| one.is_alive && one.sides.is_read();
        let alive = replicas.iter().zip(&*candidates).find(|(_, one)| leads(one));
        let Some((leader, _)) = alive else {
            return Err(unavailable(options, Unavailable { required: 1, alive: 0 }));
        };
        if leader.is_here {
            return self.lead_increment(table, token, replicas.clone(), mutation, options).await;
        }
        let payload = Payload::from(wire::encode_increment(options.consistency, &mutation));
        let led = call(target(leader), verb::COUNTER_MUTATION, payload, left(until)).await;
        match led {
            Ok(_) => Ok(()),
            Err(refusal) => Err(led_badly(options, refusal)),
        }
    }

    /// Refuses an increment of which too few replicas are alive.
    fn check_alive(
        &self,
        table: &TableEntry,
        replicas: &[Replica],
        candidates: &[Candidate],
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        assert!(candidates.len() == replicas.len(), "refused-before: {candidates:?}");
        let factors = self.factors(&table.replication, replicas, options.consistency);
        let planned = plan_write(options.consistency, &factors, candidates);
        planned.map(drop).map_err(|missing| unavailable(options, missing))
    }

    /// Leads an increment that another node coordinates, which thinks that this one is a replica.
    pub(crate) async fn lead_here(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), Refusal> {
        let _entered = Epochs::enter(&*self.epochs);
        let replicas = self.writers(table, token);
        let leads = |one: &Replica| one.is_here && one.sides.is_read();
        debug_assert!(table.schema.is_counter(), "led-once: a table without counters");
        let Some(replicas) = replicas.filter(|all| all.iter().any(leads)) else {
            return Err(Refusal::new(RefusalKind::Failed, "the leader is no replica any more"));
        };
        // *refused-before*: it may know more than the coordinator.
        let candidates = self.candidates(&replicas);
        self.check_alive(table, &replicas, &candidates, options).map_err(refusal_of)?;
        let led = self.lead_increment(table, token, replicas, mutation, options).await;
        led.map_err(refusal_of)
    }

    /// Leads an increment: this node is a replica.
    async fn lead_increment(
        &self,
        table: &TableEntry,
        token: Token,
        replicas: Rc<[Replica]>,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let (until, id) = (Instant::now() + options.timeout, table.schema.id);
        let host_id = self.cluster.node().host_id.into_bytes();
        debug_assert!(table.schema.is_counter(), "led-once: a table without counters");
        debug_assert!(replicas.iter().any(|one| one.is_here), "led-once: by who has none");
        let lead = move || async move { lead_counter(id, host_id, mutation).await };
        let shard = table.tablets.shard_of(token);
        let led = timeout(options.timeout, runtime::on_shard(shard, lead)).await;
        let WriteOptions { consistency, kind, .. } = *options;
        let state = match led {
            Ok(led) => led.map_err(|error| write_failed(error, consistency, kind, 1))?,
            Err(_) => {
                let (received, required) = (0, 1);
                return Err(WriteError::Timeout { consistency, received, required, kind });
            }
        };
        let spread = Spread::of(table, replicas, Told::one(state));
        let spread = Spread { is_here_done: true, ..spread };
        let options = WriteOptions { timeout: left(until), ..*options };
        self.spread(spread, &options).await
    }
}

/// What a leader's refusal means for the client.
pub(super) fn led_badly(options: &WriteOptions, refusal: Refusal) -> WriteError {
    let WriteOptions { consistency, kind, .. } = *options;
    let Refusal { kind: why, received, required, failures, text } = refusal;
    // Only of a level that no copies could meet, none is required.
    let nowhere = why == RefusalKind::Unavailable && required == 0;
    let (required, failures) = (required.max(u32::from(!nowhere)), failures.max(1));
    let is_led = matches!(kind, WriteKind::Counter | WriteKind::Cas);
    debug_assert!(is_led, "led-once: {kind:?} has no leader");
    match why {
        RefusalKind::Unavailable => {
            let alive = received.min(required.saturating_sub(1));
            WriteError::Unavailable { consistency, required, alive }
        }
        RefusalKind::TimedOut => WriteError::Timeout { consistency, received, required, kind },
        // Nobody limits increments and rounds.
        RefusalKind::Refused | RefusalKind::RateLimited => WriteError::Refused(text),
        RefusalKind::Overloaded => WriteError::Overloaded(text),
        RefusalKind::Failed | RefusalKind::UnknownTable | RefusalKind::Unreached => {
            let reason = text;
            WriteError::Failure { consistency, received, required, failures, kind, reason }
        }
    }
}

/// What a leader says to the coordinator of an increment that did not end well.
pub(crate) fn refusal_of(error: WriteError) -> Refusal {
    let text = error.to_string();
    let (kind, [received, required, failures]) = match error {
        WriteError::Unavailable { required, alive, .. } => {
            (RefusalKind::Unavailable, [alive, required, 0])
        }
        WriteError::Timeout { received, required, .. } => {
            (RefusalKind::TimedOut, [received, required, 0])
        }
        WriteError::Failure { received, required, failures, .. } => {
            (RefusalKind::Failed, [received, required, failures])
        }
        WriteError::Overloaded(_) => (RefusalKind::Overloaded, [0; 3]),
        WriteError::Unread(error) => return refusal_of_read(error),
        WriteError::Refused(_) | WriteError::RateLimited(_) => (RefusalKind::Refused, [0; 3]),
    };
    debug_assert!(failures <= required.max(failures), "led-once: {failures} failures");
    Refusal { kind, received, required, failures, text }
}

/// The same of a read.
pub(crate) fn refusal_of_read(error: ReadError) -> Refusal {
    let text = error.to_string();
    let (kind, [received, required, failures]) = match error {
        ReadError::Unavailable { required, alive, .. } => {
            (RefusalKind::Unavailable, [alive, required, 0])
        }
        ReadError::Timeout { received, required, .. } => {
            (RefusalKind::TimedOut, [received, required, 0])
        }
        ReadError::Failure { received, required, failures, .. } => {
            (RefusalKind::Failed, [received, required, failures])
        }
        ReadError::Overloaded(_) => (RefusalKind::Overloaded, [0; 3]),
        ReadError::Refused(_) | ReadError::RateLimited(_) => (RefusalKind::Refused, [0; 3]),
    };
    Refusal { kind, received, required, failures, text }
}
