//! The loop: inputs to the library, and its steps carried out.
//!
//! Invariants
//!  - *durable-first*: a step's answers are sent after its change was written.
//!  - *one-question*: reads wait for one question to the leader at a time.
//!  - *late-is-one*: a loop that comes late ticks once: who was asleep does not think that the
//!    others were silent.

use super::shared::{Input, Pulled, Shared, What};
use crate::engine::{Role, Step};
use crate::options::Planted;
use crate::traits::{Change, Failed};
use runtime::task::race;
use runtime::time::{Instant, sleep_until};
use std::rc::Rc;
use tracing::{error, info};

/// Runs until the scope ends or something fails.
pub(super) async fn run(shared: Rc<Shared>) {
    if let Err(why) = turn_after_turn(&shared).await {
        error!("node {} of the group stops: {why}", shared.me);
        shared.stopped(why);
    }
}

async fn turn_after_turn(shared: &Rc<Shared>) -> Result<(), Failed> {
    let mut tick_at = Instant::now() + shared.options.tick;
    shared.drive(|engine| {
        let members = engine.members();
        if members.voters == [shared.me] && members.is_settled() {
            engine.campaign();
        }
    });
    let mut said = None;
    loop {
        turn(shared, &mut tick_at).await?;
        let now = shared.status();
        if said.as_ref().is_none_or(|said| !now.is_like(said)) {
            tell(&now);
            shared.changed.notify_all();
            said = Some(now);
        }
        if shared.inbox.borrow().is_empty() {
            race(shared.wake.notified(), sleep_until(tick_at)).await;
        }
        if shared.is_stopped() {
            return Ok(());
        }
    }
}

fn tell(status: &super::Status) {
    let (me, term) = (status.me, status.term);
    match (status.role, status.leader) {
        (Role::Leader, _) => info!("node {me} leads its group in term {term}"),
        (Role::Follower, Some(leader)) => info!("node {me} follows {leader} in term {term}"),
        (_, _) => info!("node {me} knows no leader in term {term}"),
    }
}

async fn turn(shared: &Rc<Shared>, tick_at: &mut Instant) -> Result<(), Failed> {
    let mut pulled = None;
    while let Some(input) = { shared.inbox.borrow_mut().pop_front() } {
        take(shared, input, &mut pulled)?;
        if pulled.is_some() {
            break;
        }
    }
    if *tick_at <= Instant::now() {
        // *late-is-one*.
        *tick_at = Instant::now() + shared.options.tick;
        shared.drive(|engine| engine.tick());
        super::give::tick(shared);
        leave(shared);
    }
    send_proposals(shared);
    ask_reads(shared);
    while let Some(step) = shared.drive(|engine| engine.step()) {
        obey(shared, step, &mut pulled).await?;
    }
    cut(shared).await
}

fn take(shared: &Rc<Shared>, input: Input, pulled: &mut Option<Pulled>) -> Result<(), Failed> {
    match input {
        Input::Peer(from, message) => {
            assert!(0 < shared.peers_waiting.get(), "bounded-inbox: one was not counted");
            shared.peers_waiting.set(shared.peers_waiting.get() - 1);
            if message.get_msg_type() == raft::eraftpb::MessageType::MsgSnapshot {
                super::pull::offered(shared, from, message.term);
                return Ok(());
            }
            let refused = shared.drive(|engine| engine.receive(from, *message));
            if refused == Err(crate::engine::Refused::Forgotten) {
                let why = "the log lacks entries that this node had acknowledged";
                return Err(Failed(why.into()));
            }
        }
        Input::Applied(index) => shared.drive(|engine| engine.applied_to(index)),
        Input::Pulled(from, term, what) => {
            shared.drive(|engine| engine.offer(from, term, &what.cut));
            *pulled = Some(what);
        }
        Input::Transfer(to) => shared.drive(|engine| engine.transfer(to)),
    }
    Ok(())
}

/// A leader whom the others voted out hands over.
fn leave(shared: &Shared) {
    let heir = {
        let engine = shared.engine.borrow();
        let members = engine.members();
        let is_out = members.is_settled() && !members.voters.contains(&shared.me);
        if is_out { engine.heir(|_| true) } else { None }
    };
    if let Some(heir) = heir {
        shared.drive(|engine| engine.transfer(heir));
    }
}

/// Proposes what was not yet, and again what the present leader was not told or did not answer.
fn send_proposals(shared: &Shared) {
    let (term, leader) = shared.drive(|engine| (engine.term(), engine.leader()));
    if leader.is_none() {
        return;
    }
    let now = Instant::now();
    let mut proposals = shared.proposals.borrow_mut();
    let mut done = Vec::new();
    for (token, pending) in proposals.iter_mut() {
        let told = pending.sent.is_some_and(|(in_term, to, at)| {
            (in_term, to) == (term, leader) && now < at + shared.options.retry
        });
        if told {
            continue;
        }
        let origin = shared.origin(*token);
        let went = shared.drive(|engine| match &pending.what {
            What::Command(bytes) => Some(engine.propose(origin, bytes.clone())),
            What::Members(voters, learners) => engine.propose_members(origin, voters, learners),
        });
        match went {
            Some(true) => {
                shared.counters.add(|c| &c.proposed);
                pending.sent = Some((term, leader, now));
            }
            Some(false) => {}
            None => done.push(*token),
        }
    }
    for token in done {
        // The members are as wanted.
        if let Some(pending) = proposals.remove(&token) {
            let _ = pending.done.send(shared.applied.get());
        }
    }
}

/// Asks for the place of the reads that wait: one question at a time.
fn ask_reads(shared: &Shared) {
    let of = shared.drive(|engine| (engine.term(), engine.leader()));
    let now = Instant::now();
    let mut reads = shared.reads.borrow_mut();
    reads.asking.retain(|(_, waiter)| !waiter.is_closed());
    reads.waiting.retain(|waiter| !waiter.is_closed());
    for (_, waiters) in &mut reads.confirmed {
        waiters.retain(|waiter| !waiter.is_closed());
    }
    let wait = shared.options.tick * 2;
    let open = reads.asked.is_some_and(|(to, at)| to == of && now < at + wait);
    if open {
        return;
    }
    reads.asked = None;
    if (reads.asking.is_empty() && reads.waiting.is_empty()) || of.1.is_none() {
        return;
    }
    debug_assert!(reads.asked.is_none(), "one-question: two at a time");
    let token = shared.token();
    let waiting = std::mem::take(&mut reads.waiting);
    reads.asking.extend(waiting.into_iter().map(|waiter| (token, waiter)));
    reads.asked = Some((of, now));
    shared.counters.add(|c| &c.reads_asked);
    shared.drive(|engine| engine.ask_read((shared.life, token)));
}

/// An answer is for those who waited when it was asked for.
fn confirm_reads(shared: &Shared, confirmed: &[((u64, u64), u64)]) {
    if confirmed.is_empty() {
        return;
    }
    let mut reads = shared.reads.borrow_mut();
    for ((_, token), index) in confirmed.iter().filter(|((life, _), _)| *life == shared.life) {
        let waiters = reads.asking.extract_if(.., |(first, _)| *first <= *token);
        let waiters = waiters.map(|(_, waiter)| waiter).collect();
        reads.confirmed.push((*index, waiters));
    }
    if reads.asking.is_empty() {
        reads.asked = None;
    }
    let more = !reads.waiting.is_empty();
    drop(reads);
    shared.end_reads();
    if more {
        shared.wake.notify_one();
    }
}

async fn obey(shared: &Shared, mut step: Step, pulled: &mut Option<Pulled>) -> Result<(), Failed> {
    shared.send_all(std::mem::take(&mut step.now));
    if shared.options.planted == Some(Planted::AnswersBeforeSync) {
        shared.send_all(std::mem::take(&mut step.after));
    }
    if let Some(cut) = step.snapshot.clone() {
        let Some(pulled) = pulled.take_if(|pulled| pulled.cut == cut) else {
            panic!("whole-snapshots: the library takes {cut:?}, which was not pulled");
        };
        super::pull::install(shared, pulled).await?;
        step.change.install = Some(cut);
    }
    if !step.change.is_empty() {
        shared.counters.add(|c| &c.writes);
        shared.log.write(&step.change).await?;
    }
    let (after, reads) = (std::mem::take(&mut step.after), std::mem::take(&mut step.reads));
    let committed = std::mem::take(&mut step.committed);
    let done = shared.drive(|engine| engine.finish(step));
    shared.send_all(after);
    shared.send_all(done.after);
    shared.queue.borrow_mut().extend(committed.into_iter().chain(done.committed));
    shared.queued.notify_one();
    confirm_reads(shared, &reads);
    Ok(())
}

/// Cuts the log when it has grown, or was asked to.
async fn cut(shared: &Shared) -> Result<(), Failed> {
    let durable = shared.machine.durable();
    let all = shared.cut_all.take();
    let wanted = shared.engine.borrow().wants_cut(&shared.options, durable, all);
    let Some(cut) = wanted else { return Ok(()) };
    assert!(cut.index <= durable, "machine-ahead: cut at {}, durable {durable}", cut.index);
    shared.log.write(&Change { cut: Some(cut.clone()), ..Change::default() }).await?;
    shared.counters.add(|c| &c.cuts);
    shared.drive(|engine| engine.cut(&cut));
    Ok(())
}
