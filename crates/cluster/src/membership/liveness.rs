//! Which nodes live: each is asked directly, again and again. Runs on shard 0.
//!
//! Invariants
//!  - *busy-is-not-dead*: a node is down when it has not answered for `down_after`, has said that
//!    it goes, or was convicted by an operator; not because one answer is late. One that answers is
//!    up.
//!  - *own-silence-is-not-theirs*: time in which this node itself did not run (it was paused, or
//!    its processor was taken away) does not count: it could have heard nobody.
//!  - *known-before-it-serves*: a node that starts has been heard by all that answer, on all their
//!    shards, before it serves: who is told by it that a write wants all nodes finds them alive.
//!  - *up-is-ready*: clients are told that a node is up when it serves them, and of a new one when
//!    it has arrived.
//!  - *left-is-told*: clients are told once of each node that they may know and that has left.

use super::Membership;
use super::form::{Phase, Pulse};
use super::recovery::{banned_by, is_banned};
use super::verbs::PING;
use crate::event::Event;
use crate::peers::{self, Life, Lives};
use crate::registry::Cluster;
use catalog::{Member, MemberState, Topology};
use messaging::{CallError, Down, NotSent, Refusal, Target, ToShard};
use model::Uuid;
use runtime::Erased;
use runtime::task::join_all;
use runtime::time::{Instant, sleep, timeout, wall_micros};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Between two rounds of questions.
const PERIOD: Duration = Duration::from_millis(500);

/// Between two looks at whether this node ran all the time.
const LOOK: Duration = Duration::from_millis(500);
/// It did not if there is so much of `down_after` between two of them. Less makes nobody dead.
const PAUSED_PART: u32 = 4;
const _: () = assert!(1 < PAUSED_PART, "own-silence-is-not-theirs: a pause of all of it is none");

/// What was heard of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    at: Instant,
    pulse: Pulse,
    /// It has said goodbye since, or was convicted.
    is_gone: bool,
    /// How often it was seen to start anew.
    starts: u32,
    /// By the clock of this node, microseconds: the first answer since that, and the last.
    since: i64,
    last: i64,
}

/// What was heard of all of them, by host id.
pub(super) type AllHeard = BTreeMap<Uuid, Heard>;

/// For how long a node did not run that looked at `before`, and then now.
fn paused(before: Instant, now: Instant, down_after: Duration) -> Duration {
    let between = now - before;
    match between < down_after / PAUSED_PART {
        true => Duration::ZERO,
        false => between.saturating_sub(LOOK),
    }
}

/// How a node is, from what was heard of it.
fn life(heard: &Heard, now: Instant, down_after: Duration) -> Life {
    debug_assert!(heard.at <= now, "busy-is-not-dead: an answer from the future");
    let is_alive = !heard.is_gone && now - heard.at < down_after;
    let goes = heard.pulse.phase == Phase::Leaving;
    debug_assert!(!goes || heard.is_gone, "busy-is-not-dead: who goes is not gone");
    Life {
        is_alive,
        serves: is_alive && heard.pulse.phase == Phase::Serving,
        schema: heard.pulse.schema,
        activity: heard.pulse.activity,
        starts: heard.starts,
        since: heard.since,
        silent_since: (!is_alive).then_some(heard.last),
    }
}

/// Takes another node for down at once, at an operator's word, instead of waiting until it was
/// silent for long enough. If it answers all the same it is up again.
pub fn convict(host_id: Uuid) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let convict = move || async move {
            let membership = runtime::local::try_get::<Membership>();
            let membership = membership.ok_or("this node is the only one of its cluster")?;
            if host_id == membership.cluster.node().host_id {
                return Err("a node does not convict itself".to_owned());
            }
            if !membership.heard.borrow().contains_key(&host_id) {
                return Err(format!("nothing was heard of node {host_id} yet"));
            }
            tracing::warn!(target: "membership", "node {host_id} is convicted by an operator");
            membership.hear_goodbye(host_id);
            membership.tell().await;
            Ok(())
        };
        runtime::on_shard(0, convict).await
    })
}

impl Membership {
    /// A node has told how it is.
    pub(super) fn hear_pulse(&self, host_id: Uuid, pulse: Pulse) {
        let is_gone = pulse.phase == Phase::Leaving;
        let before = self.heard.borrow().get(&host_id).copied();
        let last = wall_micros();
        let (starts, since) = match before {
            Some(before) if pulse.phase < before.pulse.phase => (before.starts + 1, last),
            Some(before) => (before.starts, before.since),
            None => (0, last),
        };
        let heard = Heard { at: Instant::now(), pulse, is_gone, starts, since, last };
        let me = self.cluster.node().host_id;
        debug_assert!(host_id != me, "busy-is-not-dead: {me} watches itself");
        self.heard.borrow_mut().insert(host_id, heard);
    }

    fn hear_goodbye(&self, host_id: Uuid) {
        if let Some(heard) = self.heard.borrow_mut().get_mut(&host_id) {
            heard.is_gone = true;
            let now = life(heard, Instant::now(), self.config.down_after);
            assert!(!now.is_alive, "busy-is-not-dead: {host_id} is gone, and alive");
        }
    }

    /// Looks for ever whether this node runs.
    pub(super) async fn stay_awake(self: Rc<Self>) {
        self.awake.set(Some(Instant::now()));
        loop {
            // Nothing tells a process that it was stopped, but that the clock went on without it.
            sleep(LOOK).await;
            self.skip_pause();
        }
    }

    /// What was heard of the others is as old as it was when this node ran last, if it did not run
    /// until now. Whoever judges by it asks for this first: after a pause nobody knows who of this
    /// node's tasks goes on first. *own-silence-is-not-theirs*
    fn skip_pause(&self) {
        let Some(before) = self.awake.get() else { return };
        let now = Instant::now();
        self.awake.set(Some(now));
        let paused = paused(before, now, self.config.down_after);
        if paused.is_zero() {
            return;
        }
        for heard in self.heard.borrow_mut().values_mut() {
            debug_assert!(heard.at <= now, "busy-is-not-dead: an answer from the future");
            heard.at = now.min(heard.at + paused);
        }
        tracing::warn!(
            target: "membership",
            "this node did not run for {} ms: the others are not thought down for that",
            paused.as_millis()
        );
    }

    /// Asks all others for ever, and tells all shards what is new.
    pub(super) async fn watch(self: Rc<Self>) {
        loop {
            self.look().await;
            self.ask_all().await;
            self.tell().await;
            // Earlier where something is new: a change of the schema is to be seen soon.
            let _ = timeout(PERIOD, self.news.notified()).await;
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// One question to each other node.
    pub(super) async fn ask_all(&self) {
        let topology = self.cluster.topology();
        let me = self.cluster.node().host_id;
        let others = topology.present().filter(|member| member.host_id != me);
        join_all(others.map(|member| self.ask(member))).await;
    }

    async fn ask(&self, member: &Arc<Member>) {
        let target = Target {
            host: peers::host(member.host_id),
            shard: ToShard::At(0),
            class: messaging::Class::Control,
        };
        let pulse = self.pulse().encode();
        let asked = self.messaging.call(target, PING, pulse.into(), self.config.ping_timeout);
        match asked.await {
            Ok(answer) => match Pulse::decode(&answer) {
                Ok(pulse) => self.hear_pulse(member.host_id, pulse),
                Err(damaged) => tracing::warn!(
                    target: "membership",
                    "node {} answers nonsense: {damaged}", member.host_id
                ),
            },
            Err(error) if is_banned(&error) => {
                self.expel(&banned_by(member.host_id));
            }
            Err(error) if is_goodbye(&error) => self.hear_goodbye(member.host_id),
            Err(_) => {}
        }
    }

    /// Tells all shards how a node is that was just heard, where that is new.
    pub(super) async fn tell_of(&self, host_id: Uuid) {
        let me = self.cluster.node().host_id;
        debug_assert!(host_id != me, "busy-is-not-dead: {me} watches itself");
        self.skip_pause();
        let heard = self.heard.borrow().get(&host_id).copied();
        let Some(heard) = heard else { return };
        let now = life(&heard, Instant::now(), self.config.down_after);
        let known = self.cluster.lives().get(&host_id).copied();
        if known.is_none_or(|known| (known.is_alive, known.serves) != (now.is_alive, now.serves)) {
            self.tell().await;
        }
    }

    /// Tells all shards how the others are, where that is new, and subscribers who came and went.
    async fn tell(&self) {
        // One after the other: what one tells is what the next one compares with.
        let Ok(_turn) = self.telling.acquire(1).await else { return };
        self.skip_pause();
        let (now, down_after) = (Instant::now(), self.config.down_after);
        let topology = self.cluster.topology();
        let me = self.cluster.node().host_id;
        let mut lives = Lives::new();
        for member in topology.present().filter(|member| member.host_id != me) {
            if let Some(heard) = self.heard.borrow().get(&member.host_id) {
                let life = life(heard, now, down_after);
                // It may know before this node does that it has arrived.
                let serves = life.serves && member.state != MemberState::Joining;
                lives.insert(member.host_id, Life { serves, ..life });
            }
        }
        debug_assert!(!lives.contains_key(&me), "busy-is-not-dead: {me} watches itself");
        let ready = lives.values().all(|life| life.is_alive || !life.serves);
        assert!(ready, "up-is-ready: a node that is down serves");
        let before = self.cluster.lives();
        let mut events = self.gone(&topology);
        if *before == lives && events.is_empty() {
            return;
        }
        for member in topology.present().filter(|member| member.host_id != me) {
            let of = |lives: &Lives| lives.get(&member.host_id).copied();
            let (was, is) = (of(&before), of(&lives));
            let serves = |life: Option<Life>| life.is_some_and(|life| life.serves);
            let alive = |life: Option<Life>| life.is_some_and(|life| life.is_alive);
            let starts = |life: Option<Life>| life.map(|life| life.starts);
            // One that was killed and is back may not have been missed.
            let restarted = serves(is) && was.is_some() && starts(was) != starts(is);
            if serves(is) && (!serves(was) || restarted) {
                say(member, true);
            } else if alive(was) && !alive(is) {
                say(member, false);
            }
            if serves(was) != serves(is) || restarted {
                let (address, up) = (member.client_address, serves(is));
                let port = member.client_port.unwrap_or(0);
                if serves(was) && restarted {
                    events.push(Event::Status { up: false, address, port });
                }
                if up && self.shown.borrow_mut().insert(member.host_id, true) != Some(true) {
                    events.push(Event::Topology { joined: true, address, port });
                }
                events.push(Event::Status { up, address, port });
            }
        }
        let tell = move || async move {
            let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
            cluster.set_lives(lives);
            events.iter().for_each(|event| cluster.publish(event));
        };
        runtime::on_all_shards(tell).await;
    }

    /// What drivers are told of nodes that have left. They know a node by its address, which
    /// another one may have by now.
    fn gone(&self, topology: &Topology) -> Vec<Event> {
        let me = self.cluster.node().host_id;
        let mut shown = self.shown.borrow_mut();
        let others = topology.present().filter(|member| member.host_id != me);
        for member in others.filter(|member| member.state != MemberState::Joining) {
            let (host_id, state) = (member.host_id, member.state);
            debug_assert!(state != MemberState::Left, "left-is-told: {host_id} is told of again");
            shown.entry(member.host_id).or_insert(false);
        }
        let mut events = Vec::new();
        shown.retain(|host_id, _| {
            let Some(member) = topology.member(*host_id) else { return false };
            if member.state != MemberState::Left {
                return true;
            }
            say_gone(member);
            let (address, port) = (member.client_address, member.client_port.unwrap_or(0));
            let has_it = |other: &Member| {
                (other.client_address, other.client_port.unwrap_or(0)) == (address, port)
            };
            if !topology.present().any(|other| has_it(other)) {
                events.push(Event::Status { up: false, address, port });
                events.push(Event::Topology { joined: false, address, port });
            }
            false
        });
        events
    }

    /// How this node is.
    pub(super) fn pulse(&self) -> Pulse {
        let schema = self.cluster.schema().version;
        let activity = self.cluster.activity().unwrap_or_default();
        Pulse { phase: self.phase.get(), schema, activity }
    }
}

/// Says in the log that a node has left, in the words that launchers wait for.
fn say_gone(member: &Member) {
    let (host_id, address) = (member.host_id, member.address);
    debug_assert!(member.state == MemberState::Left, "left-is-told: {host_id} is there");
    tracing::info!(
        target: "membership", "Notify node {host_id} at {address} has left the cluster"
    );
}

/// Says in the log that a node serves clients, or answers no more, in the words that launchers wait
/// for. *up-is-ready*
fn say(member: &Member, up: bool) {
    let (host_id, address) = (member.host_id, member.address);
    match up {
        true => tracing::info!(target: "membership", "node {host_id} at {address} is now UP"),
        false => tracing::warn!(target: "membership", "node {host_id} at {address} is now DOWN"),
    }
}

/// Whether the other node has said that it stops.
fn is_goodbye(error: &CallError) -> bool {
    let down = match error {
        CallError::NeverSent(NotSent::Down(down)) => down,
        CallError::OutcomeUnknown(messaging::Lost::Broken(down)) => down,
        CallError::PeerStops => return true,
        _ => return false,
    };
    matches!(down, Down::RefusedByPeer(refused) if refused.why == Refusal::Stopping)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Activity;

    #[test]
    fn a_silent_node_is_down_after_a_while_and_one_that_goes_at_once() {
        runtime::sim::test(1, || async {
            let activity = Activity { load_bytes: 7, ..Activity::default() };
            let pulse = Pulse { phase: Phase::Serving, schema: Uuid::nil(), activity };
            let at = Instant::now();
            let (since, last) = (5, 9);
            let heard = Heard { at, pulse, is_gone: false, starts: 0, since, last };
            let second = Duration::from_secs(1);
            let check = |heard: &Heard, after: Duration, is_alive, serves| {
                let found = life(heard, at + after, 20 * second);
                assert_eq!((found.is_alive, found.serves), (is_alive, serves), "{heard:?}");
                let silent_since = if is_alive { None } else { Some(last) };
                assert_eq!((found.since, found.silent_since), (since, silent_since));
            };
            check(&heard, 19 * second, true, true);
            check(&heard, 20 * second, false, false);
            check(&Heard { is_gone: true, ..heard }, second, false, false);
            let starting = Pulse { phase: Phase::Starting, ..pulse };
            check(&Heard { pulse: starting, ..heard }, second, true, false);
        });
    }
}
