//! What a node does when others recover the group: it tells how it stands, promises, and takes over
//! a generation that was begun; or begins one.
//!
//! Invariants: those of [`super`]. Whoever changes the generation or the promise has the turn.

use super::decide::{Generation, Plan, Position, Promise, STRIDE, Standing};
use super::form::{Ask, Said};
use super::keep::{generation_fact, promise_fact};
use crate::group0::log::GroupLog;
use crate::group0::machine::{place_fact, stored_place};
use crate::membership::transport::number;
use crate::membership::verbs::RECOVER;
use crate::membership::{GROUP_ID, Membership, parted};
use crate::peers;
use catalog::facts;
use catalog::{MemberState, TopologyChange};
use consensus::anew;
use consensus::group::Start;
use consensus::traits::Loaded;
use consensus::{Failed, Log, NodeId};
use messaging::{CallError, Down, Lost, Messaging, NotSent, Payload, Refusal};
use messaging::{Reply, Request, Target, ToShard, Verbs};
use model::Uuid;
use runtime::task::join_all;
use runtime::time::Instant;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use storage::Storage;

/// How long an answer is waited for.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The same of a whole recovery, that another node carries out.
pub(super) const RUN_MAX: Duration = Duration::from_secs(60);
/// Between two times that somebody of another generation is asked how it stands.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Who asks and finds nobody at its start goes on after so long.
const LOOK_AT_START_MAX: Duration = Duration::from_secs(1);

/// What this node answers, on shard 0.
pub(in crate::membership) fn serve(verbs: &mut Verbs) {
    verbs.on_request(RECOVER, |request| async move { asked(request).await });
}

async fn asked(request: Request) -> Reply {
    let refusal = |what: String| Payload::from(what.into_bytes());
    let Some(membership) = runtime::local::try_get::<Membership>() else {
        return Err(refusal("the node starts or stops, or this is not shard 0".to_owned()));
    };
    let from = Uuid::from_u128(request.from.host.0);
    let ask = Ask::decode(&request.take_payload()).map_err(|what| refusal(what.to_string()))?;
    let outcome = match ask {
        Ask::Look => Ok(String::new()),
        Ask::Promise(plan) if plan.candidate != from => {
            Err("it asks for the promise of another one".to_owned())
        }
        Ask::Promise(plan) => membership.promise(&plan).await.map(|_| String::new()),
        Ask::Begun(begun) => membership.hear(&begun).await.map(|()| String::new()),
        Ask::Run(lost) => membership.run_here(lost).await,
    };
    let standing = membership.standing().await.map_err(refusal)?;
    Ok(Said { outcome, standing }.encode().into())
}

/// The place of an entry, whose index tells the generation.
fn position((term, index): (u64, u64)) -> Position {
    Position { generation: index / STRIDE, term, index }
}

impl Membership {
    /// How this node stands.
    pub(super) async fn standing(&self) -> Result<Standing, String> {
        let group = self.group.borrow().as_ref().map(|(_, group)| group.clone());
        let Some(group) = group else { return Err("the node takes no part yet".to_owned()) };
        let generation = self.generation.borrow().clone();
        let position = match group.status() {
            status if 0 < status.log_last => position((status.log_last_term, status.log_last)),
            // *state-comes-with-it*
            _ => {
                let (held, place) =
                    self.held(self.from.get()).await.map_err(|it| it.to_string())?;
                position(anew::last(&held, place))
            }
        };
        let status = group.status();
        let hosts = |nodes: &[NodeId]| -> BTreeSet<Uuid> {
            nodes.iter().map(|node| self.book.host_id(*node)).collect()
        };
        let members = &status.members;
        // Who does not vote calls no election, and goes on to believe in a leader that is gone.
        let leader = status.leader.filter(|_| members.voters.contains(&status.me));
        let voters = [hosts(&members.voters), hosts(&members.outgoing)];
        let mut voters: Vec<BTreeSet<Uuid>> =
            voters.into_iter().filter(|voters| !voters.is_empty()).collect();
        if voters.is_empty() && !generation.members.is_empty() {
            voters = vec![generation.members.clone()];
        }
        let topology = self.cluster.topology();
        let mut known: BTreeSet<Uuid> = topology.present().map(|member| member.host_id).collect();
        known.extend(voters.iter().flatten().copied());
        known.extend(hosts(&members.learners));
        known.extend(generation.members.iter().copied());
        known.insert(self.cluster.node().host_id);
        debug_assert!(!voters.iter().any(BTreeSet::is_empty), "named-or-counted: {voters:?}");
        let has_left = |host_id: &Uuid| {
            topology.member(*host_id).is_some_and(|it| it.state == MemberState::Left)
        };
        known.retain(|host_id| !self.is_lost(*host_id) && !has_left(host_id));
        Ok(Standing {
            promised: self.promised.get(),
            generation,
            position,
            term: status.term,
            applied: status.applied,
            leader: leader.map(|leader| self.book.host_id(leader)),
            voters,
            known,
            last_timestamp: self.cluster.last_timestamp(),
        })
    }

    /// The log of a group as it is durably, and the place of the machine.
    async fn held(&self, group: Uuid) -> Result<(Loaded, u64), Failed> {
        let storage = runtime::local::get::<Storage>();
        let loaded = GroupLog::new(storage.clone(), group).load().await?;
        let (place, _) = stored_place(&storage).await?;
        let begins = loaded.cut.as_ref().is_none_or(|cut| 0 < cut.index);
        debug_assert!(begins, "state-comes-with-it: a log of {group} that begins at nothing");
        Ok((loaded, place))
    }

    /// Whether a node was declared lost.
    pub(in crate::membership) fn is_lost(&self, host_id: Uuid) -> bool {
        let by_generation = self.generation.borrow().lost.contains(&host_id);
        by_generation || self.cluster.topology().is_lost(host_id)
    }

    /// Who was declared lost, and is not said to be in the topology yet.
    pub(in crate::membership) fn lost_to_tell(&self) -> Vec<TopologyChange> {
        let topology = self.cluster.topology();
        let generation = self.generation.borrow();
        let lost = generation.lost.iter().copied().map(TopologyChange::Lost);
        lost.filter(|change| topology.check(change).is_ok()).collect()
    }

    /// Promises what a candidate asks for, or says why not. *promised-is-silent*
    pub(super) async fn promise(&self, plan: &Plan) -> Result<Promise, String> {
        let turn = self.recovering.acquire(1).await;
        let _turn = turn.map_err(|error| error.to_string())?;
        let me = self.cluster.node().host_id;
        // Nothing is told any more of what comes after the place that is judged.
        self.silent.set(true);
        let judged = match self.standing().await {
            Ok(standing) => {
                let judged = standing.judge(me, plan);
                self.silent.set(standing.is_silent());
                judged?
            }
            Err(why) => {
                self.silent.set(self.is_between());
                return Err(why);
            }
        };
        self.silent.set(true);
        if self.promised.get() != Some(judged) {
            let rows = vec![promise_fact(&self.cluster, &judged)];
            let kept = runtime::local::get::<Storage>().apply_all(rows).await;
            // Whether it is there is not known: it is silent as if it was.
            kept.map_err(|error| format!("it cannot write its promise: {error}"))?;
            self.promised.set(Some(judged));
            let Promise { number, candidate } = judged;
            tracing::warn!(
                target: "membership",
                "this node leaves generation {} of the group for generation {number}, which node \
                 {candidate} is about to begin", self.generation.borrow().number
            );
        }
        assert!(self.silent.get() && self.is_between(), "promised-is-silent: {judged:?}");
        Ok(judged)
    }

    /// Whether it has left its generation, and is in no other one yet.
    pub(in crate::membership) fn is_between(&self) -> bool {
        let number = self.generation.borrow().number;
        self.promised.get().is_some_and(|promise| number < promise.number)
    }

    /// A generation was begun somewhere: it is taken over, if it is for this node.
    pub(in crate::membership) async fn hear(&self, begun: &Generation) -> Result<(), String> {
        if begun.number <= self.generation.borrow().number {
            return Ok(());
        }
        let membership = runtime::local::get::<Membership>();
        let begun = begun.clone();
        // To its end, also where who asked does not wait.
        let taken = self.tasks.spawn(async move { membership.take_over(begun).await });
        taken.await.map_err(|_| "the node stops".to_owned())?
    }

    async fn take_over(&self, begun: Generation) -> Result<(), String> {
        let turn = self.recovering.acquire(1).await;
        let _turn = turn.map_err(|error| error.to_string())?;
        let me = self.cluster.node().host_id;
        let (generation, promised) = (self.generation.borrow().clone(), self.promised.get());
        match super::decide::follows(me, &generation, promised, &begun) {
            Ok(true) => self.enter(begun, false).await,
            Ok(false) => Ok(()),
            Err(why) => {
                self.expel(&why);
                Err(why)
            }
        }
    }

    /// Begins a generation with what this node has, after the promises of others. *old-or-new*
    pub(super) async fn begin(&self, begun: Generation, plan: Plan) -> Result<(), String> {
        let membership = runtime::local::get::<Membership>();
        let begins = self.tasks.spawn(async move {
            let turn = membership.recovering.acquire(1).await;
            let _turn = turn.map_err(|error| error.to_string())?;
            let standing = membership.standing().await?;
            let own = Promise { number: plan.number, candidate: plan.candidate };
            if standing.promised != Some(own) || plan.number <= standing.generation.number {
                return Err("another recovery came in between: look again".to_owned());
            }
            assert!(plan.position <= standing.position, "most-of-the-log: {}", standing.position);
            membership.enter(begun, true).await
        });
        begins.await.map_err(|_| "the node stops".to_owned())?
    }

    /// This node is in another generation from now on: as its founder, with all that it has, or
    /// with what its leader will send. Whoever calls has the turn.
    async fn enter(&self, next: Generation, founds: bool) -> Result<(), String> {
        let failed = |failed: Failed| failed.to_string();
        let own = self.generation.borrow().number;
        assert!(own < next.number, "only-onward: from {own} to {}", next.number);
        let before = self.group.borrow().clone();
        if let Some((group, _)) = &before
            && *group == next.group
        {
            // It joined this group later, and knows now which generation that is.
            return self.note(next, *group).await;
        }
        if let Some((_, running)) = &before {
            let why = format!("the group has another generation, {}, now", next.number);
            running.halt(Failed(why)).await;
        }
        let own_group = self.generation.borrow().group;
        let (held, place) = self.held(own_group).await.map_err(failed)?;
        let has_begun = held.cut.is_some() || held.staged.is_some();
        let from = if has_begun { own_group } else { self.from.get() };
        match founds {
            false => self.note(next.clone(), from).await?,
            true => {
                let (held, place) = match has_begun {
                    true => (held, place),
                    false => self.held(from).await.map_err(failed)?,
                };
                self.found(&next, held, place).await.map_err(failed)?;
                self.settle(next.clone(), next.group).await;
            }
        }
        tracing::warn!(
            target: "membership",
            "this node is in generation {} of the group, {}, which node {} has begun; {} nodes are \
             left, lost are {:?}",
            next.number, next.group, next.founder, next.members.len(), next.lost
        );
        match before {
            // It has not begun to take part.
            None => Ok(()),
            // The part that has ended stays until the next one is there: there always is one.
            Some(_) => self.run(next.group, Start::Join).await.map_err(failed),
        }
    }

    /// Writes down which generation this node is in.
    async fn note(&self, next: Generation, from: Uuid) -> Result<(), String> {
        let rows = self.generation_rows(&next, from);
        let kept = runtime::local::get::<Storage>().apply_all(rows).await;
        kept.map_err(|error| format!("it cannot write down its generation: {error}"))?;
        self.settle(next, from).await;
        Ok(())
    }

    fn generation_rows(&self, next: &Generation, from: Uuid) -> Vec<mutation::FrozenMutation> {
        let (schema, at) = (self.cluster.schema(), self.cluster.next_micros());
        vec![
            generation_fact(&self.cluster, next, from),
            facts::fact(&schema, GROUP_ID, &next.group.to_string(), at),
        ]
    }

    /// The first entries of the new log, the place of the machine before them, and the generation,
    /// in one step.
    async fn found(&self, next: &Generation, held: Loaded, place: u64) -> Result<(), Failed> {
        let storage = runtime::local::get::<Storage>();
        let (_, state) = stored_place(&storage).await?;
        let members = next.members.iter().map(|member| number(*member)).collect();
        let change = anew::begin_anew(held, place, next.base(), members);
        let log = GroupLog::new(storage, next.group);
        let empty = log.load().await?;
        assert!(empty == Loaded::default(), "one-of-a-number: {} has a log", next.group);
        log.keep_with(&change, || {
            let mut rows = self.generation_rows(next, next.group);
            rows.push(place_fact(&self.cluster, next.base(), state));
            rows
        })
        .await
    }

    /// What is durable is so from now on.
    async fn settle(&self, next: Generation, from: Uuid) {
        next.members.iter().for_each(|member| self.book.note(*member));
        let lost: Vec<_> = next.lost.iter().map(|lost| peers::host(*lost)).collect();
        self.from.set(from);
        let number = next.number;
        let before = self.generation.replace(next);
        assert!(before.number < number, "only-onward: {number} after {}", before.number);
        self.silent.set(self.is_between());
        // *lost-is-not-heard*
        let ban = move || async move {
            if let Some(messaging) = Messaging::current() {
                lost.into_iter().for_each(|lost| messaging.ban_here(lost));
            }
        };
        runtime::on_all_shards(ban).await;
    }

    /// Asks a node something.
    pub(super) async fn ask_about(
        &self,
        of: Uuid,
        ask: &Ask,
        within: Duration,
    ) -> Result<Said, CallError> {
        let target = Target { shard: ToShard::At(0), ..Target::control(peers::host(of)) };
        let asked = self.messaging.call(target, RECOVER, ask.encode().into(), within).await;
        if let Err(error) = &asked
            && is_banned(error)
        {
            self.expel(&banned_by(of));
        }
        Said::decode(&asked?).map_err(|damaged| CallError::Failed(damaged.to_string().into()))
    }

    /// A node takes part in another group: in an older generation of this one, or in a newer.
    pub(in crate::membership) fn compare_with(self: &Rc<Self>, other: Uuid) {
        // One question at a time, and not all the time.
        let is_new = self.looked_at.get().is_none_or(|at| LOOK_EVERY < at.elapsed());
        if !is_new {
            return;
        }
        self.looked_at.set(Some(Instant::now()));
        let me = self.cluster.node().host_id;
        debug_assert!(other != me, "asked-now: {me} asks itself");
        let this = self.clone();
        self.tasks.spawn(async move {
            let said = this.ask_about(other, &Ask::Look, ANSWER_MAX).await;
            if let Ok(said) = said {
                this.weigh(other, said.standing).await;
            }
        });
    }

    /// Who has joined learns from some other node which generation that was.
    pub(in crate::membership) fn learn_generation(self: &Rc<Self>) {
        let (me, topology) = (self.cluster.node().host_id, self.cluster.topology());
        let mut others = topology.present().map(|member| member.host_id);
        debug_assert!(topology.member(me).is_some(), "old-or-new: {me} is not in");
        if let Some(other) = others.find(|other| *other != me && !self.is_lost(*other)) {
            self.compare_with(other);
        }
    }

    /// What follows from how another node stands.
    async fn weigh(&self, other: Uuid, standing: Standing) {
        let own = self.generation.borrow().clone();
        self.come_after(standing.last_timestamp).await;
        if standing.generation.number < own.number {
            let _ = self.ask_about(other, &Ask::Begun(own), ANSWER_MAX).await;
        } else if let Err(why) = self.hear(&standing.generation).await {
            tracing::warn!(target: "membership", "a generation is not taken over: {why}");
        }
    }

    /// Others have a state that is of no generation any more, with later timestamps than ours: what
    /// is to take its place has to be later.
    pub(super) async fn come_after(&self, micros: i64) {
        if micros <= self.cluster.last_timestamp() || self.generation.borrow().number == 0 {
            return;
        }
        self.cluster.pass(micros);
        let own = self.own();
        let again = move |_: &crate::schema::Catalog| Ok(vec![TopologyChange::Set(own.clone())]);
        if let Err(why) = self.cluster.change_topology(again).await {
            tracing::debug!(target: "membership", "nothing was written after {micros}: {why}");
        }
    }

    /// At its start, before it takes part: whether the others have another generation, or have
    /// declared this node lost. Where nobody answers soon, it goes on with what it has.
    pub(in crate::membership) async fn look_around(&self) -> Result<(), String> {
        let me = self.cluster.node().host_id;
        assert!(self.group.borrow().is_none(), "old-or-new: {me} takes part already");
        let topology = self.cluster.topology();
        let others: Vec<Uuid> = topology.present().map(|it| it.host_id).collect();
        let others = others.into_iter().filter(|it| *it != me && !self.is_lost(*it));
        let asked = others.map(|other| self.ask_about(other, &Ask::Look, LOOK_AT_START_MAX));
        let answers = join_all(asked).await;
        let newest = answers.into_iter().flatten().map(|said| said.standing.generation);
        if let Some(newest) = newest.max_by_key(|generation| generation.number) {
            let _ = self.hear(&newest).await;
        }
        match &*self.expelled.borrow() {
            None => Ok(()),
            Some(why) => Err(why.clone()),
        }
    }

    /// Whether it was on its way out when it was heard of last.
    pub(in crate::membership) fn is_leaving(&self) -> bool {
        let (topology, me) = (self.cluster.topology(), self.cluster.node().host_id);
        let state = topology.member(me).map(|known| known.state);
        matches!(state, Some(MemberState::Leaving | MemberState::Left)) && !topology.is_lost(me)
    }

    /// This node is not one of the cluster any more. *lost-is-not-heard*
    pub(in crate::membership) fn expel(&self, why: &str) {
        self.silent.set(true);
        let host_id = self.cluster.node().host_id;
        if self.expelled.borrow().is_none() && self.is_leaving() {
            let text = parted(host_id, false);
            tracing::info!(target: "membership", "{text}");
            self.expelled.replace(Some(text));
            self.expulsion.notify_all();
            return;
        }
        let text = format!(
            "this node, {host_id}, is no longer one of its cluster: {why}. It does not serve any \
             more: start it with an empty data directory to let it join as a new one"
        );
        if self.expelled.borrow().is_none() {
            tracing::error!(target: "membership", "{text}");
            let before = self.expelled.replace(Some(text));
            debug_assert!(before.is_none(), "lost-is-not-heard: {host_id} was told twice");
            self.expulsion.notify_all();
        }
    }
}

/// Why a node stops that hears so, in the words by which people look for it.
pub(in crate::membership) fn banned_by(host_id: Uuid) -> String {
    format!("it received notification of being banned from the cluster from node {host_id}")
}

/// Whether the other node has banned this one.
pub(in crate::membership) fn is_banned(error: &CallError) -> bool {
    let down = match error {
        CallError::NeverSent(NotSent::Down(down)) => down,
        CallError::OutcomeUnknown(Lost::Broken(down)) => down,
        _ => return false,
    };
    matches!(down, Down::RefusedByPeer(refused) if refused.why == Refusal::Banned)
}
