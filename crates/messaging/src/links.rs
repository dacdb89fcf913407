//! The connections that this shard dials: one for each shard of another node and class, kept up
//! from when it is first needed until the node is forgotten.
//!
//! Invariants
//!  - *one-a-pair*: a shard dials a shard of another node once a class. A number that is too large
//!    is taken modulo how many shards the node has, once that is known.
//!  - *backs-off*: between attempts that fail it waits, twice as long each time up to a bound, and
//!    not in step with others.
//!  - *fails-fast*: nobody waits for a node whose last attempt has failed.

use crate::budget::by_deadline;
use crate::config::{Config, Planted};
use crate::connection::Connection;
use crate::counters::add;
use crate::error::{CallError, Down, NotSent};
use crate::names::{Class, HostId, Target, ToShard};
use crate::services::{Services, group_of};
use crate::shake::{self, Wanted};
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Scope, race};
use runtime::time::{Instant, sleep, timeout};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A connection that breaks sooner counts as a failed attempt.
const LIVES_MIN: Duration = Duration::from_secs(1);

/// How long goodbyes may take when the shard stops.
pub(crate) const GOODBYES_MAX: Duration = Duration::from_secs(1);

/// Which connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) host: HostId,
    pub(crate) shard: u16,
    pub(crate) class: Class,
}

/// How a link is.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Why the last attempt failed, if one has.
    Connecting(Option<Down>),
    Up(Rc<Connection>),
    /// The next attempt comes later.
    Waiting(Down),
    /// It is no link any more.
    Ended(Down),
    /// The node has fewer shards: its link has another key.
    Moved,
}

/// One connection, or the attempts to have it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) key: Key,
    state: RefCell<State>,
    /// Who waits for the first attempt.
    waiting: Semaphore,
    changed: Notify,
    /// Try now.
    nudge: Notify,
}

impl Link {
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }
}

/// The links of a shard.
#[derive(Debug)]
pub(crate) struct Links {
    services: Rc<Services>,
    table: RefCell<BTreeMap<Key, Rc<Link>>>,
    addresses: RefCell<BTreeMap<HostId, SocketAddr>>,
    shards: RefCell<BTreeMap<HostId, u16>>,
    /// The links of targets that were asked for of late: what `table` and `shards` say of them.
    recent: RefCell<Vec<(Target, Rc<Link>)>>,
    tasks: Scope,
}

/// More recent links are not searched for one by one.
const RECENT_MAX: usize = 16;

impl Links {
    pub(crate) fn new(services: Rc<Services>) -> Links {
        Links {
            services,
            table: RefCell::default(),
            addresses: RefCell::default(),
            shards: RefCell::default(),
            recent: RefCell::default(),
            tasks: Scope::new(),
        }
    }

    /// Where a node is, from now on.
    pub(crate) fn set_address(&self, host: HostId, address: SocketAddr) {
        let before = self.addresses.borrow_mut().insert(host, address);
        if before != Some(address) {
            self.of(host).iter().for_each(|link| link.nudge.notify_one());
        }
    }

    pub(crate) fn address(&self, host: HostId) -> Option<SocketAddr> {
        self.addresses.borrow().get(&host).copied()
    }

    /// A node was heard of: who waits to try it again tries now.
    pub(crate) fn nudge(&self, host: HostId) {
        for link in self.of(host) {
            debug_assert_eq!(link.key.host, host, "one-a-pair: another node's link");
            if matches!(*link.state.borrow(), State::Waiting(_)) {
                link.nudge.notify_one();
            }
        }
    }

    /// All links.
    pub(crate) fn all(&self) -> Vec<Rc<Link>> {
        self.table.borrow().values().cloned().collect()
    }

    fn of(&self, host: HostId) -> Vec<Rc<Link>> {
        let table = self.table.borrow();
        table.values().filter(|link| link.key.host == host).cloned().collect()
    }

    /// Ends all links to a node.
    pub(crate) fn end(&self, host: HostId, why: &Down) {
        if *why == Down::UnknownPeer {
            self.addresses.borrow_mut().remove(&host);
            self.shards.borrow_mut().remove(&host);
        }
        for link in self.of(host) {
            self.recent.borrow_mut().clear();
            let ended = self.table.borrow_mut().remove(&link.key);
            debug_assert!(ended.is_some(), "one-a-pair: {:?} ends twice", link.key);
            if let State::Up(connection) = link.state() {
                connection.end(why.clone());
            }
            self.set(&link, State::Ended(why.clone()));
            link.nudge.notify_one();
        }
    }

    /// Ends all links, and waits until that is done.
    pub(crate) async fn stop(&self) {
        let hosts: Vec<HostId> = self.all().iter().map(|link| link.key.host).collect();
        hosts.into_iter().for_each(|host| self.end(host, &Down::Stopping));
        // Who is being dialed just now does not learn of it.
        let _ = timeout(GOODBYES_MAX, self.tasks.join()).await;
        self.tasks.cancel().await;
        debug_assert!(self.table.borrow().is_empty(), "one-a-pair: a link after the end");
    }

    fn set(&self, link: &Link, state: State) {
        debug_assert!(
            !matches!(&state, State::Up(up) if up.facts.host != link.key.host),
            "one-a-pair: a connection to another node"
        );
        let was_ended = matches!(*link.state.borrow(), State::Ended(_) | State::Moved);
        if !was_ended {
            link.state.replace(state);
        }
        link.changed.notify_all();
        self.services.changed.notify_all();
    }

    /// *one-a-pair*.
    fn key(&self, target: Target) -> Key {
        let Target { host, shard, class } = target;
        let shards = self.shards.borrow().get(&host).copied().unwrap_or(u16::MAX);
        let shard = match shard {
            ToShard::Same => runtime::shard_id(),
            ToShard::At(shard) => shard,
        };
        let one_class = self.services.is_planted(Planted::OneClass);
        let class = if one_class { Class::Bulk } else { class };
        debug_assert!(0 < shards, "one-a-pair: a node without shards");
        Key { host, shard: shard % shards, class }
    }

    /// The link of a key, which is begun where there is none.
    fn link(self: &Rc<Self>, key: Key) -> Result<Rc<Link>, Down> {
        if self.services.stops.get() {
            return Err(Down::Stopping);
        }
        if self.services.is_banned(key.host) && !self.services.is_planted(Planted::KeepsBanned) {
            return Err(Down::Banned);
        }
        if let Some(link) = self.table.borrow().get(&key) {
            return Ok(link.clone());
        }
        if self.address(key.host).is_none() {
            return Err(Down::UnknownPeer);
        }
        let link = Rc::new(Link {
            key,
            state: RefCell::new(State::Connecting(None)),
            waiting: Semaphore::new(self.services.config.waiting_max, 0),
            changed: Notify::new(),
            nudge: Notify::new(),
        });
        let before = self.table.borrow_mut().insert(key, link.clone());
        debug_assert!(before.is_none(), "one-a-pair: two links of {key:?}");
        let (links, kept) = (self.clone(), link.clone());
        self.tasks.spawn_in(group_of(key.class), async move { links.keep(kept).await });
        Ok(link)
    }

    /// The connection to a target, if it is there now.
    pub(crate) fn connected(&self, target: Target) -> Option<Rc<Connection>> {
        if self.services.stops.get() {
            return None;
        }
        let up = |link: &Link| match &*link.state.borrow() {
            // A banned node has no link.
            State::Up(connection) if !connection.has_ended() => Some(connection.clone()),
            _ => None,
        };
        let mut recent = self.recent.borrow_mut();
        if let Some((_, link)) = recent.iter().find(|(known, _)| *known == target) {
            debug_assert_eq!(link.key, self.key(target), "one-a-pair: the link of another one");
            return up(link);
        }
        let link = self.table.borrow().get(&self.key(target))?.clone();
        if recent.len() == RECENT_MAX {
            recent.clear();
        }
        let connection = up(&link);
        recent.push((target, link));
        connection
    }

    /// The connection to a target; waits for the first attempt, and for no other (*fails-fast*).
    pub(crate) async fn connection(
        self: &Rc<Self>,
        target: Target,
        deadline: Instant,
    ) -> Result<Rc<Connection>, CallError> {
        let not_sent = |why| Err(CallError::NeverSent(why));
        loop {
            let link = match self.link(self.key(target)) {
                Ok(link) => link,
                Err(down) => return not_sent(NotSent::Down(down)),
            };
            match link.state() {
                State::Up(connection) => match connection.ended() {
                    None => return Ok(connection),
                    Some(down) => return not_sent(NotSent::Down(down)),
                },
                State::Connecting(Some(down)) | State::Waiting(down) | State::Ended(down) => {
                    return not_sent(NotSent::Down(down));
                }
                State::Moved => continue,
                State::Connecting(None) => {}
            }
            let Some(waits) = link.waiting.try_acquire(1) else {
                return not_sent(NotSent::Crowded);
            };
            let changed = async {
                link.changed.notified().await;
                Ok(waits)
            };
            if let Ok(None) = by_deadline(Some(deadline), changed).await {
                return not_sent(NotSent::TooLate);
            }
        }
    }

    /// Keeps a link up.
    async fn keep(self: Rc<Self>, link: Rc<Link>) {
        let mut failures = 0;
        while let Some(why) = self.try_once(&link, &mut failures).await {
            if matches!(*link.state.borrow(), State::Ended(_)) {
                return;
            }
            let config = &self.services.config;
            if failures == 0 {
                // It has worked for a while: who asks now may wait for the next attempt.
                self.set(&link, State::Connecting(None));
                sleep(backoff(config, 1, runtime::random_u64()) / 2).await;
                continue;
            }
            self.set(&link, State::Waiting(why.clone()));
            let wait = sleep(backoff(config, failures, runtime::random_u64()));
            race(wait, link.nudge.notified()).await;
            self.set(&link, State::Connecting(Some(why)));
        }
    }

    /// One connection, from its first byte to its last: why there is none any more. `None`: there
    /// is to be none.
    async fn try_once(&self, link: &Rc<Link>, failures: &mut u32) -> Option<Down> {
        if matches!(*link.state.borrow(), State::Ended(_)) {
            return None;
        }
        let Key { host, shard, class } = link.key;
        let address = self.address(host)?;
        let tally = &self.services.tally;
        add(&tally.dials, 1);
        let wanted = Wanted { address, host: Some(host), shard, class };
        let (facts, wire) = match shake::dial(&self.services, wanted).await {
            Ok(greeted) => greeted,
            Err(why) => {
                *failures += 1;
                self.complain(host, address, &why);
                return Some(why);
            }
        };
        if matches!(*link.state.borrow(), State::Ended(_)) {
            return None;
        }
        add(&tally.dialed, 1);
        debug_assert_eq!(facts.host, host, "both-check: another node answers");
        debug_assert_eq!(facts.class, class, "both-check: another class");
        self.shards.borrow_mut().insert(host, facts.shards);
        // Targets may be of other links now.
        self.recent.borrow_mut().clear();
        if facts.shard != shard {
            // *one-a-pair*: who waits asks again, and finds the link of that shard.
            self.table.borrow_mut().remove(&link.key);
            self.set(link, State::Moved);
            let _ = wire.0.shutdown_both();
            return None;
        }
        tracing::debug!(target: "messaging", "node {host} at {address}: {class} to shard {shard}");
        let connection = Connection::new(self.services.clone(), facts, wire);
        self.set(link, State::Up(connection.clone()));
        let why = connection.run().await;
        add(&tally.broken, 1);
        self.complain(host, address, &why);
        if self.services.is_planted(Planted::GivesUp) {
            std::future::pending::<()>().await;
        }
        *failures = if connection.since.elapsed() < LIVES_MIN { *failures + 1 } else { 0 };
        Some(why)
    }

    fn complain(&self, host: HostId, address: SocketAddr, why: &Down) {
        let who = format!("node {host} at {address}");
        match why {
            Down::RefusedByUs(refused) => self.services.complain(&who, refused, true),
            Down::RefusedByPeer(refused) => self.services.complain(&who, refused, false),
            Down::Net(what) => {
                self.services.complaints.warn(
                    &who,
                    "net",
                    &format!("{who} is not reached: {what}"),
                );
            }
            Down::UnknownPeer | Down::Banned | Down::Stopping => {}
        }
    }
}

/// *backs-off*: the wait after so many failures, from half of it to all of it by `random`.
fn backoff(config: &Config, failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let whole = config.backoff_min.saturating_mul(1 << doublings).min(config.backoff_max);
    let half = whole / 2;
    let waits = half + half.mul_f64(random as f64 / u64::MAX as f64);
    debug_assert!(half <= waits && waits <= whole, "backs-off: {waits:?} of {whole:?}");
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let config = Config::new("one", HostId(1), 1);
        let millis = |failures, random| backoff(&config, failures, random).as_millis();
        let slowest: Vec<u128> = [1, 2, 3, 8, 9, 99].map(|n| millis(n, u64::MAX)).into();
        assert_eq!(slowest, [20, 40, 80, 2560, 5000, 5000]);
        assert_eq!([1, 2, 99].map(|n| millis(n, 0)), [10, 20, 2500]);
    }
}
