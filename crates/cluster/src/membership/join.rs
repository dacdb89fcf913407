//! How a node is let into the cluster, from both sides: it asks around, and asks to be let in; a
//! member looks whether it may, and writes it into the topology.
//!
//! Invariants
//!  - *decided-in-order*: whether a node may join is decided on the catalog that its entry follows.
//!  - *own-data-stays*: a node that has tables of its own does not join others.
//!  - *data-first*: where there are tables a node with tokens comes as one that joins: it owns
//!    nothing before its data are there.

use super::Membership;
use super::discovery::{Answers, Step, Waits};
use super::form::{Acquaintance, Answer, Applicant, Contact, Pulse};
use super::transport::number;
use super::verbs::{DISCOVER, JOIN, PING, RAFT};
use crate::peers;
use crate::registry::ChangeError;
use crate::schema::{Catalog, Schema};
use crate::uuids::time_uuid_now;
use catalog::{Member, MemberState, Topology, TopologyChange, features};
use consensus::group::Start;
use messaging::{Down, Messaging, Payload, Refusal, Reply, Request, Target, ToShard, Verbs};
use model::Uuid;
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The same, to be let in: the others have to agree on it.
const JOIN_MAX: Duration = Duration::from_secs(30);
/// Between two rounds of questions.
const ROUND: Duration = Duration::from_millis(50);
/// The same where some node and this one do not trust each other: each question is a handshake.
const ROUND_OF_STRANGERS: Duration = Duration::from_secs(1);
/// How often the log says what is waited for.
const SAYS_EVERY: Duration = Duration::from_secs(5);

/// What this node does for others, on each shard.
pub(super) fn serve(verbs: &mut Verbs) {
    verbs.on_request(DISCOVER, |request| async move { discovered(&request) });
    verbs.on_request(JOIN, |request| async move { joined(request).await });
    verbs.on_request(PING, |request| async move { pinged(request).await });
    verbs.on_one_way(RAFT, |request| async move { consensus_message(&request) });
}

/// This node's part, where it has one yet, and this is the shard that is asked.
fn own() -> Result<Rc<Membership>, Payload> {
    let membership = runtime::local::try_get::<Membership>();
    let of_shard_0 = membership.is_none() || runtime::shard_id() == 0;
    assert!(of_shard_0, "same-everywhere: membership is of shard 0");
    let membership = membership
        .ok_or_else(|| Payload::from(&b"the node starts or stops, or this is not shard 0"[..]))?;
    if membership.expelled.borrow().is_some() {
        return Err(refusal("this node is none of the cluster any more"));
    }
    Ok(membership)
}

fn refusal(what: impl ToString) -> Payload {
    Payload::from(what.to_string().into_bytes())
}

fn discovered(request: &Request) -> Reply {
    let membership = own()?;
    let said = request.with_payload(Acquaintance::decode).map_err(refusal)?;
    Ok(membership.meet(&said).encode().into())
}

async fn pinged(request: Request) -> Reply {
    let membership = own()?;
    let pulse = request.with_payload(Pulse::decode).map_err(refusal)?;
    let host_id = Uuid::from_u128(request.from.host.0);
    if membership.cluster.topology().member(host_id).is_some() {
        membership.hear_pulse(host_id, pulse);
        membership.tell_of(host_id).await;
    }
    Ok(membership.pulse().encode().into())
}

/// A message of the consensus. What is not ours, or nonsense, is dropped.
fn consensus_message(request: &Request) {
    let Ok(membership) = own() else { return };
    let host_id = Uuid::from_u128(request.from.host.0);
    let known = membership.group.borrow().clone();
    let Some((group, running)) = known else { return };
    let taken = request.with_payload(|bytes| {
        let (theirs, message) = bytes.split_first_chunk::<16>()?;
        if host_id.as_u64_pair().1 == 0 {
            return None;
        }
        if *theirs != *group.as_bytes() {
            // Who is between two generations hears so of the next one.
            membership.compare_with(host_id);
            return None;
        }
        if membership.silent.get() {
            return None;
        }
        membership.book.note(host_id);
        Some(running.receive(number(host_id), message))
    });
    if let Some(Err(damaged)) = taken {
        tracing::warn!(target: "raft", "node {host_id} sends nonsense: {damaged}");
    }
}

async fn joined(request: Request) -> Reply {
    let membership = own()?;
    let applicant = Applicant::decode(&request.take_payload()).map_err(refusal)?;
    let member = applicant.member.clone();
    if member.host_id != Uuid::from_u128(request.from.host.0) {
        return Err(refusal("a node asks for another one"));
    }
    let is_known = membership.cluster.topology().member(member.host_id).is_some();
    let answer = membership.let_in(applicant).await;
    match &answer {
        Answer::Accepted(_) if is_known => {}
        Answer::Accepted(_) => {
            let (host_id, address) = (member.host_id, member.address);
            tracing::info!(target: "membership", "node {host_id} at {address} joins");
        }
        Answer::Refused(why) | Answer::Later(why) => {
            let (host_id, address) = (member.host_id, member.address);
            tracing::warn!(target: "membership", "node {host_id} at {address} cannot join: {why}");
        }
    }
    Ok(answer.encode().into())
}

/// Why there is no answer.
enum Unasked {
    /// It may be there later.
    NotNow(String),
    /// It, or this node, has to get another certificate first, or TLS at all.
    NotTrusted,
    /// It belongs to another cluster, or speaks another language, or this node was banned.
    Stranger(String),
}

/// Why a node may not be let into a cluster that has this catalog; `None`: it may.
fn refuses(catalog: &Catalog, member: &Member) -> Option<String> {
    let taken = |other: &&std::sync::Arc<Member>| {
        number(other.host_id) == number(member.host_id) && other.host_id != member.host_id
    };
    if let Some(other) = catalog.topology.members().find(taken) {
        let (host_id, other) = (member.host_id, other.host_id);
        return Some(format!("its host id, {host_id}, ends as that of node {other}"));
    }
    assert!(member.state == MemberState::Normal, "decided-in-order: who left asks to join");
    if catalog.topology.is_lost(member.host_id) {
        return Some("it was declared lost".to_owned());
    }
    if let Some(missing) = catalog.topology.lacks(&member.features) {
        return Some(format!("it lacks features that the cluster has: {missing}"));
    }
    if member.tokens.is_empty() {
        // No data is to move to it.
        return None;
    }
    (has_data(catalog) && !catalog.topology.enables(features::MOVES)).then(|| {
        format!(
            "there are keyspaces, whose data would have to move to the new node, and not all nodes \
             of the cluster can do that ({}): upgrade them first",
            features::MOVES
        )
    })
}

/// Whether data would have to move to a node that has tokens.
fn has_data(catalog: &Catalog) -> bool {
    catalog.schema.keyspaces.keys().any(|name| !Schema::is_system(name))
}

/// As what a node comes in (*data-first*).
fn comes_as(catalog: &Catalog, member: &Member) -> Member {
    let waits = has_data(catalog) && !member.tokens.is_empty();
    let state = if waits { MemberState::Joining } else { MemberState::Normal };
    debug_assert!(!member.host_id.is_nil(), "decided-in-order: a node without a name");
    Member { state, ..member.clone() }
}

/// Who is dead when a node comes in the place of another one.
struct Dead {
    replaced: std::sync::Arc<Member>,
    /// Others, which are lost then.
    ignored: Vec<Uuid>,
}

/// The nodes of these names, by host id or address. Refused where one of them is alive, or another
/// one is not: it would be waited for. In the words that people look for.
fn dead(
    topology: &Topology,
    replaces: &str,
    ignores: &[String],
    alive: &[Uuid],
) -> Result<Dead, String> {
    let named = |name: &str| {
        topology.present().find(|other| {
            other.host_id.to_string() == name || other.address.ip().to_string() == name
        })
    };
    debug_assert!(!replaces.is_empty(), "decided-in-order: nobody is replaced");
    let Some(replaced) = named(replaces) else {
        return Err(format!("node {replaces}, which it is to replace, is none of the cluster"));
    };
    let host_id = replaced.host_id;
    if alive.contains(&host_id) {
        return Err(format!("node {host_id}, which it is to replace, is alive: decommission it"));
    }
    let mut ignored = Vec::new();
    for name in ignores {
        let Some(other) = named(name) else {
            return Err(format!("ignored node {name} is not found in the cluster"));
        };
        if alive.contains(&other.host_id) {
            return Err(format!("ignored node {} is alive", other.host_id));
        }
        ignored.push(other.host_id);
    }
    let is_down = |other: &&std::sync::Arc<Member>| {
        let id = other.host_id;
        !alive.contains(&id) && !topology.is_lost(id) && id != host_id && !ignored.contains(&id)
    };
    if let Some(other) = topology.present().find(is_down) {
        return Err(format!(
            "node {} is down and not ignored: data move only while all nodes are up. Start it, at \
             {}, or name it in ignore_dead_nodes_for_replace, if it will not come back",
            other.host_id, other.address
        ));
    }
    ignored.retain(|id| *id != host_id);
    ignored.sort_unstable();
    ignored.dedup();
    Ok(Dead { replaced: replaced.clone(), ignored })
}

/// How a node comes in the place of another one, which is dead and leaves at the same time.
fn in_place_of(
    topology: &Topology,
    member: &Member,
    all_dead: &Dead,
) -> Result<Vec<TopologyChange>, String> {
    let dead = &all_dead.replaced;
    let host_id = dead.host_id;
    match (dead.tokens.is_empty(), member.tokens.is_empty()) {
        (true, false) => {
            return Err(format!(
                "Cannot replace the zero-token node {host_id} with one that owns tokens: start it \
                 with join_ring=false"
            ));
        }
        (false, true) => {
            return Err(format!(
                "Cannot replace the token-owning node {host_id} with a zero-token one: start it \
                 with join_ring=true"
            ));
        }
        _ => {}
    }
    if (&dead.data_center, &dead.rack) != (&member.data_center, &member.rack) {
        return Err(format!(
            "node {host_id}, which it is to replace, is in data center {}, rack {}, and not in {}, \
             {}",
            dead.data_center, dead.rack, member.data_center, member.rack
        ));
    }
    if !topology.enables(features::MOVES) {
        return Err(format!("not all nodes of the cluster can do that ({})", features::MOVES));
    }
    let lost = all_dead.ignored.iter().chain([&host_id]).filter(|id| !topology.is_lost(**id));
    let mut changes: Vec<_> = lost.map(|id| TopologyChange::Lost(*id)).collect();
    if dead.state == MemberState::Normal {
        changes.push(TopologyChange::Leave(host_id));
    }
    assert!(dead.state != MemberState::Left, "decided-in-order: {host_id} has left already");
    let member = Member { state: MemberState::Joining, ..member.clone() };
    changes.push(TopologyChange::Set(member));
    Ok(changes)
}

impl Membership {
    /// Somebody who looks for a cluster says whom it knows; what this node says.
    fn meet(&self, said: &Acquaintance) -> Acquaintance {
        let group = self.group.borrow().as_ref().map(|(group, _)| *group);
        match group {
            Some(group) => Acquaintance { group: Some(group), contacts: self.contacts() },
            None => {
                self.known.borrow_mut().hear(said);
                let answer = self.known.borrow().said();
                let known = answer.contacts.len();
                debug_assert!(0 < known, "one-founder: a node does not know itself");
                answer
            }
        }
    }

    /// The nodes of the cluster, this one first.
    fn contacts(&self) -> Vec<Contact> {
        let own = self.own();
        let others = self.cluster.topology();
        let others = others.present().filter(|member| member.host_id != own.host_id);
        let contact = |host_id, address| Contact { host_id, address, is_seed: false };
        let mut contacts = vec![contact(own.host_id, own.address)];
        contacts.extend(others.map(|member| contact(member.host_id, member.address)));
        contacts
    }

    async fn let_in(&self, applicant: Applicant) -> Answer {
        let Applicant { member, replaces, ignores } = applicant;
        // Who was said to make the cluster is asked before it has.
        let deadline = Instant::now() + JOIN_MAX / 3;
        let group = loop {
            let group = self.group.borrow().as_ref().map(|(group, _)| *group);
            if group.is_some() || deadline <= Instant::now() {
                break group;
            }
            sleep(ROUND / 5).await;
        };
        let Some(group) = group else {
            return Answer::Later("the node that was asked has no cluster yet".to_owned());
        };
        if member.host_id.as_u64_pair().1 == 0 {
            return Answer::Refused("a host id that ends with zeros".to_owned());
        }
        let accepted = || {
            let contacts = self.contacts();
            Answer::Accepted(Acquaintance { group: Some(group), contacts })
        };
        let is_in = |catalog: &Catalog, member: &Member| {
            let known = catalog.topology.member(member.host_id);
            let is_lost = catalog.topology.is_lost(member.host_id);
            !is_lost && known.is_some_and(|known| known.state != MemberState::Left)
        };
        // It has asked before, and did not hear the answer. Nobody else is asked then: without its
        // vote there may be no majority.
        if is_in(&self.cluster.catalog(), &member) {
            self.note_moved(&member).await;
            return accepted();
        }
        let lives = self.cluster.lives();
        let others = lives.iter().filter(|(_, life)| life.is_alive).map(|(host, _)| *host);
        let alive: Vec<Uuid> = others.chain([self.own().host_id]).collect();
        let decide = move |catalog: &Catalog| {
            if is_in(catalog, &member) {
                return Ok(Vec::new());
            }
            if let Some(why) = refuses(catalog, &member) {
                return Err(why);
            }
            if replaces.is_empty() {
                return Ok(vec![TopologyChange::Set(comes_as(catalog, &member))]);
            }
            let dead = dead(&catalog.topology, &replaces, &ignores, &alive)?;
            in_place_of(&catalog.topology, &member, &dead)
        };
        match self.cluster.change_topology(decide).await {
            Ok(()) => accepted(),
            // Others are on the move: it asks again.
            Err(ChangeError::Refused(why)) if self.cluster.topology().stage().is_some() => {
                Answer::Later(why)
            }
            Err(ChangeError::Refused(why)) => Answer::Refused(why),
            Err(ChangeError::Failed(why)) => Answer::Later(why),
        }
    }

    /// Looks for a cluster until there is one: which group, and whether this node makes it.
    pub(super) async fn find(&self) -> Result<(Uuid, Start), String> {
        let mut says_at = Instant::now() + SAYS_EVERY / 5;
        loop {
            let (asked, addresses) = {
                let known = self.known.borrow();
                (known.said(), known.to_ask())
            };
            let (mut answers, mut round) = (Answers::new(), ROUND);
            for address in addresses {
                match self.ask_around(address, &asked).await {
                    Ok(Some(answer)) => answers.push((address, Some(answer))),
                    Ok(None) => self.known.borrow_mut().is_oneself(address),
                    Err(Unasked::Stranger(why)) => {
                        return Err(format!("the node at {address} is of no use as a seed: {why}"));
                    }
                    Err(Unasked::NotNow(why)) => {
                        tracing::debug!(target: "membership", "{address}: {why}");
                        answers.push((address, None));
                    }
                    // The messages have told why.
                    Err(Unasked::NotTrusted) => {
                        round = ROUND_OF_STRANGERS;
                        answers.push((address, None));
                    }
                }
            }
            assert!(self.group.borrow().is_none(), "one-founder: a member looks for a group");
            let step = self.known.borrow_mut().decide(&asked, &answers, time_uuid_now());
            let waits = match step {
                Step::Found if self.cluster.node().tokens.is_empty() => {
                    return Err("Cannot start the first node in the cluster as zero-token: start \
                                one with join_ring=true first"
                        .to_owned());
                }
                Step::Found => {
                    let group = self.known.borrow().said().group;
                    let group = group.ok_or("a group without an id")?;
                    tracing::info!(target: "membership", "this node makes the cluster");
                    return Ok((group, Start::New));
                }
                Step::Join(contact, group) => match self.ask_in(contact, group).await? {
                    Some(()) => return Ok((group, Start::Join)),
                    None => continue,
                },
                Step::Again(waits) => waits,
            };
            if says_at <= Instant::now() {
                says_at = Instant::now() + SAYS_EVERY;
                match waits {
                    Waits::For(address) => tracing::warn!(
                        target: "membership",
                        "waiting for a node at {address}, which is a seed or known to one"
                    ),
                    Waits::Founder(host_id) => tracing::info!(
                        target: "membership", "waiting for node {host_id}, to make the cluster"
                    ),
                    Waits::Others => {}
                }
            }
            sleep(round).await;
        }
    }

    /// Asks whoever is at an address; `None` where that is this node.
    async fn ask_around(
        &self,
        address: SocketAddr,
        said: &Acquaintance,
    ) -> Result<Option<(Contact, Acquaintance)>, Unasked> {
        let reached = match self.messaging.reach(address).await {
            Ok(reached) => reached,
            Err(Down::RefusedByUs(refused) | Down::RefusedByPeer(refused)) => {
                return match refused.why {
                    Refusal::Oneself => Ok(None),
                    Refusal::Cluster | Refusal::Version | Refusal::Banned => {
                        Err(Unasked::Stranger(refused.to_string()))
                    }
                    // This node has no TLS, and gets none before it is started with other options.
                    Refusal::NeedsTls => Err(Unasked::Stranger(refused.to_string())),
                    Refusal::Certificate | Refusal::NoTls => Err(Unasked::NotTrusted),
                    _ => Err(Unasked::NotNow(refused.to_string())),
                };
            }
            Err(down) => return Err(Unasked::NotNow(down.to_string())),
        };
        self.messaging.set_peer(reached.host, address);
        let target = Target { shard: ToShard::At(0), ..Target::control(reached.host) };
        let payload = said.encode().into();
        let asked = self.messaging.call(target, DISCOVER, payload, ANSWER_MAX).await;
        let answer = asked.map_err(|error| Unasked::NotNow(error.to_string()))?;
        let answer = Acquaintance::decode(&answer);
        let answer = answer.map_err(|damaged| Unasked::NotNow(damaged.to_string()))?;
        let host_id = Uuid::from_u128(reached.host.0);
        let me = self.cluster.node().host_id;
        assert!(host_id != me, "one-founder: {me} has asked itself");
        Ok(Some((Contact { host_id, address, is_seed: false }, answer)))
    }

    /// Asks a member of a group to be let in; `None`: not now.
    async fn ask_in(&self, contact: Contact, group: Uuid) -> Result<Option<()>, String> {
        let mut keyspaces = self.cluster.schema().keyspaces.keys().cloned().collect::<Vec<_>>();
        keyspaces.retain(|name| !Schema::is_system(name));
        if let Some(name) = keyspaces.first() {
            return Err(format!(
                "this node has a keyspace of its own, {name}, and cannot join the cluster of node \
                 {} at {}: start it with an empty data directory, or without seeds",
                contact.host_id, contact.address
            ));
        }
        let target =
            Target { shard: ToShard::At(0), ..Target::control(peers::host(contact.host_id)) };
        let (replaces, ignores) = (self.config.replaces.clone(), self.config.ignores.clone());
        let payload = Applicant { member: self.own(), replaces, ignores }.encode().into();
        let asked = self.messaging.call(target, JOIN, payload, JOIN_MAX).await;
        let answer = match asked {
            Ok(answer) => Answer::decode(&answer).map_err(|damaged| damaged.to_string())?,
            Err(error) => {
                tracing::warn!(
                    target: "membership",
                    "node {} at {} does not let this node in: {error}; it is asked again",
                    contact.host_id, contact.address
                );
                sleep(ROUND).await;
                return Ok(None);
            }
        };
        match answer {
            Answer::Accepted(told) if told.group == Some(group) => {
                let schema = self.cluster.schema();
                debug_assert!(
                    schema.keyspaces.keys().all(|name| Schema::is_system(name)),
                    "own-data-stays: keyspaces came while this node asked to be let in"
                );
                self.tell_contacts(told.contacts).await;
                Ok(Some(()))
            }
            Answer::Accepted(_) => Ok(None),
            Answer::Refused(why) => Err(format!(
                "the topology coordinator rejected request to join the cluster, says node {} at \
                 {}: {why}",
                contact.host_id, contact.address
            )),
            Answer::Later(why) => {
                tracing::warn!(
                    target: "membership",
                    "node {} at {} cannot let this node in yet: {why}",
                    contact.host_id, contact.address
                );
                sleep(10 * ROUND).await;
                Ok(None)
            }
        }
    }

    /// Where nodes are that the topology does not have yet.
    async fn tell_contacts(&self, contacts: Vec<Contact>) {
        let me = self.cluster.node().host_id;
        contacts.iter().for_each(|contact| self.book.note(contact.host_id));
        let tell = move || async move {
            let Some(messaging) = Messaging::current() else { return };
            for contact in contacts.iter().filter(|contact| contact.host_id != me) {
                messaging.set_peer(peers::host(contact.host_id), contact.address);
            }
        };
        runtime::on_all_shards(tell).await;
    }

    /// Where a member is from now on, whatever the topology says until it says so too.
    async fn note_moved(&self, member: &Member) {
        let (host, address) = (peers::host(member.host_id), member.address);
        let topology = self.cluster.topology();
        let known = topology.member(member.host_id).map(|known| known.address);
        if known == Some(address) || member.host_id == self.cluster.node().host_id {
            return;
        }
        tracing::info!(
            target: "membership",
            "node {} is at {address}, and was at {known:?}", member.host_id
        );
        let tell = move || async move {
            if let Some(messaging) = Messaging::current() {
                messaging.set_peer(host, address);
            }
        };
        runtime::on_all_shards(tell).await;
    }

    /// Tells the others where this node is, wherever they look for it: nothing can be written into
    /// the topology without them, and they may need this node's vote for that. Seeds are asked who
    /// they are and whom they know, since others may have moved too.
    pub(super) async fn tell_address(&self) {
        let own = self.own();
        let said = self.known.borrow().said();
        let topology = self.cluster.topology();
        for address in self.config.seeds.iter().filter(|address| **address != own.address) {
            let Ok(Some((contact, told))) = self.ask_around(*address, &said).await else {
                continue;
            };
            let others = told.contacts.into_iter().filter(|it| it.host_id != contact.host_id);
            for contact in others.chain([contact]) {
                if let Some(known) = topology.member(contact.host_id) {
                    let moved = Member { address: contact.address, ..(**known).clone() };
                    self.note_moved(&moved).await;
                }
            }
        }
        let others = topology.present().filter(|member| member.host_id != own.host_id);
        let tell = |member: &std::sync::Arc<Member>| {
            let host = peers::host(member.host_id);
            let target = Target { shard: ToShard::At(0), ..Target::control(host) };
            let applicant =
                Applicant { member: own.clone(), replaces: String::new(), ignores: Vec::new() };
            self.messaging.call(target, JOIN, applicant.encode().into(), ANSWER_MAX)
        };
        join_all(others.map(tell)).await;
    }

    /// Waits until the topology has this node, as the log of the others says.
    /// The error says that it will not: others do not let it in any more.
    pub(super) async fn wait_until_in(&self) -> Result<(), String> {
        let me = self.cluster.node().host_id;
        let mut says_at = Instant::now() + SAYS_EVERY;
        while self.cluster.topology().member(me).is_none() {
            if says_at <= Instant::now() {
                says_at = Instant::now() + SAYS_EVERY;
                tracing::info!(
                    target: "membership",
                    "waiting for the leader of the cluster to send its state"
                );
                // After a crash nothing is known but the seeds.
                for address in self.config.seeds.iter().filter(|it| **it != self.own().address) {
                    let said = self.known.borrow().said();
                    match self.ask_around(*address, &said).await {
                        Ok(Some((_, told))) => self.tell_contacts(told.contacts).await,
                        Err(Unasked::Stranger(why)) => {
                            return Err(format!(
                                "this node, {me}, is no longer one of its cluster: {why}. Start \
                                 it with an empty data directory to let it join as a new one"
                            ));
                        }
                        Ok(None) | Err(_) => {}
                    }
                }
            }
            sleep(ROUND / 5).await;
        }
        let is_in = self.cluster.topology().member(me).is_some();
        assert!(is_in, "in-before-it-speaks: {me} is not in the topology");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::topology::testing::{member, topology};
    use std::collections::BTreeSet;

    const PLACE: (&str, &str) = ("d1", "r1");

    /// Three nodes that own tokens and one that does not.
    fn four() -> Topology {
        let nodes = [(1, &[1][..]), (2, &[2]), (3, &[3]), (4, &[])];
        let moves = || BTreeSet::from([features::MOVES.to_owned()]);
        let nodes = nodes.map(|(id, it)| Member { features: moves(), ..member(id, PLACE, it) });
        topology(&nodes).apply(&TopologyChange::Enable(features::MOVES.to_owned()))
    }

    fn ids(numbers: &[u128]) -> Vec<Uuid> {
        numbers.iter().copied().map(Uuid::from_u128).collect()
    }

    #[test]
    fn who_is_replaced_or_ignored_is_dead_and_nobody_else() {
        let topology = four();
        let id = |number: u128| Uuid::from_u128(number).to_string();
        let check = |replaces: &str, ignores: &[&str], alive: &[u128], expected: &str| {
            let ignores: Vec<String> = ignores.iter().map(|name| name.to_string()).collect();
            let found = match dead(&topology, replaces, &ignores, &ids(alive)) {
                Ok(found) => format!("{} {:?}", found.replaced.address.ip(), found.ignored.len()),
                Err(why) => why,
            };
            assert!(found.starts_with(expected), "{found}");
        };
        check("127.0.0.1", &[], &[2, 3, 4], "127.0.0.1 0");
        check(&id(1), &["127.0.0.2", &id(2), &id(1)], &[3, 4], "127.0.0.1 1");
        check(&id(1), &[], &[1, 2, 3, 4], &format!("node {}, which it is to replace, is a", id(1)));
        check(&id(9), &[], &[1, 2, 3, 4], &format!("node {}, which it is to replace, is n", id(9)));
        check(&id(1), &[&id(2)], &[2, 3, 4], &format!("ignored node {} is alive", id(2)));
        check(&id(1), &["127.0.0.9"], &[2, 3, 4], "ignored node 127.0.0.9 is not found");
        check(&id(1), &[&id(2)], &[4], &format!("node {} is down and not ignored", id(3)));
        // Nobody waits for who is lost.
        let topology = topology.apply(&TopologyChange::Lost(Uuid::from_u128(3)));
        assert!(dead(&topology, &id(1), &[id(2)], &ids(&[4])).is_ok());
    }

    #[test]
    fn who_is_ignored_is_lost_when_another_one_is_replaced() {
        let topology = four();
        let of = |number: u8, ignored: &[u128]| {
            let replaced = topology.member(Uuid::from_u128(number.into())).expect("a node").clone();
            Dead { replaced, ignored: ids(ignored) }
        };
        let new = member(7, PLACE, &[7]);
        let joining = Member { state: MemberState::Joining, ..new.clone() };
        let expected = [
            TopologyChange::Lost(Uuid::from_u128(2)),
            TopologyChange::Lost(Uuid::from_u128(1)),
            TopologyChange::Leave(Uuid::from_u128(1)),
            TopologyChange::Set(joining),
        ];
        assert_eq!(in_place_of(&topology, &new, &of(1, &[2])), Ok(expected.to_vec()));
        let refused = |new: &Member, replaced| {
            in_place_of(&topology, new, &of(replaced, &[])).expect_err("it is refused")
        };
        assert!(refused(&new, 4).starts_with("Cannot replace the zero-token node"));
        let without = member(8, PLACE, &[]);
        assert!(refused(&without, 1).starts_with("Cannot replace the token-owning node"));
        assert!(in_place_of(&topology, &without, &of(4, &[])).is_ok());
        assert!(refused(&member(7, ("d1", "r2"), &[7]), 1).contains("rack r1"));
    }
}
