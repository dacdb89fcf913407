//! Who belongs to the cluster: how a node finds it and is let in, who of its nodes lives, and who
//! of them votes.
//!
//! Lives on: shard 0, where other nodes ask for it; each shard has messages of its own. From the
//! ground up: `verbs`, `form` (what nodes say, as bytes; pure), `links` (which connections are
//! encrypted and compressed), `discovery` (who makes the group; pure), `transport` (of the
//! consensus), `join` (how a node is let in, from both sides), `voters` (the members of the group
//! follow the topology), `streams` (of CDC, which follow the ring), `liveness`, [`recovery`] (a
//! majority is lost); this (start and stop); `group` (what operators ask of it).
//!
//! Invariants
//!  - *one-founder*: see `discovery`.
//!  - *in-before-it-speaks*: a node takes part in the group when the topology has it.
//!  - *same-everywhere*: which nodes there are is decided in the log, as the schema is.

mod activity;
mod discovery;
mod form;
mod group;
mod join;
pub mod links;
mod liveness;
pub mod recovery;
mod streams;
mod transport;
mod verbs;
mod voters;

use crate::group0;
pub use crate::group0::CommandTime;
use crate::peers;
use crate::registry::Cluster;
use crate::settings::Settings;
use activity::Looked;
use catalog::facts;
use catalog::{Member, MemberState, TopologyChange};
use consensus::Group;
use consensus::group::Start;
use discovery::Known;
pub use form::Phase;
pub use group::{GroupMember, GroupView, cut_log, read_barrier, step_down, view};
use liveness::AllHeard;
pub use liveness::convict;
use messaging::{Messaging, Policy, Verbs};
use model::Uuid;
use recovery::decide::{Generation, Promise};
use runtime::Erased;
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Either, Scope, race};
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use transport::{Book, ByMessages};
pub use voters::votes;

/// The fact of which group this node belongs to, and whether it made it.
const GROUP: &str = "nereid_group0";
/// The same, as other tools look for it.
const GROUP_ID: &str = "raft_group0_id";
/// How long a stop lets others take over what this node leads.
const HANDOVER_MAX: Duration = Duration::from_secs(2);
/// Changes of the generation that wait for their turn.
const CHANGES_MAX: usize = 64;
/// Between two tries to have what this node is written into the topology, and between two times
/// that it tells the others where it is now.
const INTRODUCTION_PERIOD: Duration = Duration::from_secs(1);

/// What a node is told about the others.
#[derive(Clone)]
pub struct Config {
    /// Where other nodes may be, without which this one makes a cluster of its own.
    pub seeds: Vec<SocketAddr>,
    /// The host id, or the address, of the dead node in whose place this one comes when it joins;
    /// empty: of none.
    pub replaces: String,
    /// Host ids or addresses of other nodes that are dead, and lost when it comes.
    pub ignores: Vec<String>,
    /// Where this node listens for others.
    pub listen: SocketAddr,
    /// How long an answer to a ping is waited for.
    pub ping_timeout: Duration,
    /// A node that has not answered for so long is down.
    pub down_after: Duration,
    /// How long a change of the catalog may take, where no option says it.
    pub command_time: Duration,
    /// Of the schema log.
    pub segment_bytes: usize,
    /// The decisions about connections, made on each shard.
    pub policy: Arc<dyn Fn() -> Rc<dyn Policy> + Send + Sync>,
    /// What others serve on each shard.
    pub verbs: Arc<dyn Fn(&mut Verbs) + Send + Sync>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({} with seeds {:?})", self.listen, self.seeds)
    }
}

/// This node's part in the cluster. In `runtime::local` of shard 0.
pub struct Membership {
    config: Config,
    /// Where others reach this node.
    address: SocketAddr,
    cluster: Rc<Cluster>,
    messaging: Rc<Messaging>,
    known: RefCell<Known>,
    group: RefCell<Option<(Uuid, Group)>>,
    /// Which generation of the group this node is in; the group whose log has its state until the
    /// generation's has; what it has promised; whether it says nothing in the group, and who
    /// changes any of this.
    generation: RefCell<Generation>,
    from: Cell<Uuid>,
    promised: Cell<Option<Promise>>,
    silent: Rc<Cell<bool>>,
    recovering: Semaphore,
    /// Who tells all shards how the others are.
    telling: Semaphore,
    /// When a node of another generation was asked how it stands.
    looked_at: Cell<Option<Instant>>,
    /// Why this node is no longer one of the cluster.
    expelled: RefCell<Option<String>>,
    expulsion: Notify,
    book: Rc<Book>,
    heard: RefCell<AllHeard>,
    /// When this node was seen to run last; none before anybody looks.
    awake: Cell<Option<Instant>>,
    /// Nodes that drivers may know, and whether they were told that it came.
    shown: RefCell<BTreeMap<Uuid, bool>>,
    phase: Cell<Phase>,
    /// When it was last looked at what this node does.
    looked: RefCell<Option<Looked>>,
    /// How long an operation of the group may take.
    command_time: CommandTime,
    /// Something is to be told to the others.
    news: Notify,
    tasks: Scope,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Membership({:?})", self.phase.get())
    }
}

/// Finds the cluster, or makes it, and takes part. On shard 0 of a node that has booted; it returns
/// when this node is a member.
pub fn start(config: Config) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
        let cluster = runtime::local::get::<Cluster>();
        start_messages(&config, &cluster).await;
        let messaging = Messaging::current().expect("it was started");
        let listens = messaging.listen(config.listen).map_err(|error| {
            format!("cannot listen for other nodes on {}: {error}", config.listen)
        })?;
        let host_id = cluster.node().host_id;
        let address = SocketAddr::new(cluster.node().broadcast_address, listens.port());
        let known = Known::new(host_id, address, config.seeds.clone());
        let command_time = CommandTime::register(&Settings::of_shard(), config.command_time);
        let membership = Rc::new(Membership {
            address,
            config,
            cluster,
            messaging,
            known: RefCell::new(known),
            group: RefCell::new(None),
            generation: RefCell::new(Generation::first(Uuid::nil())),
            from: Cell::default(),
            promised: Cell::default(),
            silent: Rc::default(),
            recovering: Semaphore::new(1, CHANGES_MAX),
            telling: Semaphore::new(1, CHANGES_MAX),
            looked_at: Cell::default(),
            expelled: RefCell::default(),
            expulsion: Notify::new(),
            book: Rc::default(),
            heard: RefCell::default(),
            awake: Cell::default(),
            shown: RefCell::default(),
            phase: Cell::new(Phase::Starting),
            looked: RefCell::default(),
            command_time,
            news: Notify::new(),
            tasks: Scope::new(),
        });
        runtime::local::set(membership.clone());
        membership.take_part().await
    })
}

/// Starts the messages of every shard.
async fn start_messages(config: &Config, cluster: &Cluster) {
    let name = cluster.node().cluster_name.clone();
    let (host, life) = (peers::host(cluster.node().host_id), runtime::random_u64());
    let (policy, others) = (config.policy.clone(), config.verbs.clone());
    let start = move || async move {
        let mut verbs = Verbs::new();
        join::serve(&mut verbs);
        recovery::serve(&mut verbs);
        others(&mut verbs);
        Messaging::start(messaging::Config::new(&name, host, life), verbs, policy());
        let cluster = runtime::local::get::<Cluster>();
        peers::tell_addresses(&cluster.topology(), cluster.node().host_id);
    };
    runtime::on_all_shards(start).await;
}

/// How this node's part of the group is. On shard 0; `None`: it takes no part.
pub fn status() -> Option<consensus::group::Status> {
    debug_assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
    let membership = runtime::local::try_get::<Membership>()?;
    let group = membership.group.borrow();
    group.as_ref().map(|(_, group)| group.status())
}

/// Whether this node leads the group. On shard 0.
pub fn leads() -> bool {
    status().is_some_and(|status| status.role == consensus::Role::Leader)
}

/// Whether the others have said that this node is none of them any more. On shard 0.
pub fn is_expelled() -> bool {
    debug_assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
    let membership = runtime::local::try_get::<Membership>();
    membership.is_some_and(|membership| membership.expelled.borrow().is_some())
}

/// Whether this node has left, as it was told to. On shard 0.
pub fn has_left() -> bool {
    debug_assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
    let membership = runtime::local::try_get::<Membership>();
    membership.is_some_and(|it| it.expelled.borrow().is_some() && it.is_leaving())
}

/// This node says from now on that it serves clients, or that it does no longer.
pub fn enter(phase: Phase) -> Erased<'static, ()> {
    Erased::new(move || async move {
        let Some(membership) = runtime::local::try_get::<Membership>() else { return };
        let before = membership.phase.replace(phase);
        assert!(before <= phase, "up-is-ready: from {before:?} back to {phase:?}");
        membership.ask_all().await;
    })
}

/// Ends what [`start`] began: hands over what this node leads, and says goodbye. On shard 0.
pub fn stop() -> Erased<'static, ()> {
    Erased::new(move || async move {
        assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
        let Some(membership) = runtime::local::try_get::<Membership>() else { return };
        runtime::local::clear::<Membership>();
        membership.phase.set(Phase::Leaving);
        membership.ask_all().await;
        membership.tasks.cancel().await;
        assert!(membership.tasks.task_count() == 0, "in-before-it-speaks: a task goes on");
        let group = membership.group.borrow_mut().take();
        membership.cluster.set_order(None);
        if let Some((_, group)) = group {
            group.stop(HANDOVER_MAX).await;
        }
        drop(membership);
        let stop = || async {
            if let Some(messaging) = Messaging::current() {
                messaging.stop(HANDOVER_MAX).await;
            }
        };
        runtime::on_all_shards(stop).await;
    })
}

/// What a node is told that is configured to be elsewhere than it was, in the words by which people
/// look for it.
fn moved(known: &Member, own: &Member) -> String {
    let (what, was, is) = match known.data_center == own.data_center {
        true => ("rack", &known.rack, &own.rack),
        false => ("DC", &known.data_center, &own.data_center),
    };
    format!(
        "Saved {what} name \"{was}\" is not equal to the {what} name \"{is}\" specified by the \
         snitch: a node stays where it is"
    )
}

/// What a node is told that has left, in the words by which people look for it.
fn parted(host_id: Uuid, is_lost: bool) -> String {
    debug_assert!(!host_id.is_nil(), "up-is-ready: a node without a name has left");
    let how = if is_lost {
        "It was removed while it was down"
    } else {
        "This node was decommissioned and will not rejoin the ring"
    };
    format!(
        "{how}: {host_id} has left its cluster. Start it with an empty data directory to let it \
         join as a new one"
    )
}

impl Membership {
    async fn take_part(self: &Rc<Self>) -> Result<(), String> {
        if let Some(me) = self.cluster.topology().member(self.own().host_id)
            && me.state == MemberState::Left
        {
            return Err(parted(me.host_id, self.cluster.topology().is_lost(me.host_id)));
        }
        let own = self.own();
        if let Some(known) = self.cluster.topology().member(own.host_id)
            && [&known.data_center, &known.rack] != [&own.data_center, &own.rack]
        {
            return Err(moved(known, &own));
        }
        if let Some(missing) = self.cluster.topology().lacks(&own.features) {
            return Err(format!(
                "this node lacks features that its cluster has: {missing}. A node that has them \
                 does not go back to a version without: start the newer one"
            ));
        }
        let remembered = self.remembered().await?;
        let (group, start) = match remembered {
            Some((group, start)) => self.generation_of(group, start).await?,
            None => {
                let found = self.find().await?;
                self.remember(found).await?;
                self.generation.replace(Generation::first(found.0));
                self.from.set(found.0);
                found
            }
        };
        self.run(group, start).await.map_err(|failed| failed.to_string())?;
        match (remembered, start) {
            // Who made the group is its first node.
            (None, Start::New) => self.introduce().await?,
            (None, Start::Join) => {
                self.wait_until_in().await?;
                self.learn_generation();
            }
            (Some(_), Start::New) => {}
            (Some(_), Start::Join) => self.wait_until_in().await?,
        }
        self.tasks.spawn(voters::follow(self.clone()));
        self.tasks.spawn(self.clone().stay_awake());
        self.tasks.spawn(self.clone().watch());
        self.tasks.spawn(self.clone().keep_introduced());
        self.tasks.spawn(self.clone().tell_changes());
        // *known-before-it-serves*
        self.ask_all().await;
        Ok(())
    }

    /// Starts this node's part of the group.
    async fn run(&self, group: Uuid, start: Start) -> Result<(), consensus::Failed> {
        for member in self.cluster.topology().members() {
            self.book.note(member.host_id);
        }
        let me = transport::number(self.own().host_id);
        let transport = ByMessages {
            messaging: self.messaging.clone(),
            group,
            book: self.book.clone(),
            silent: self.silent.clone(),
            sending: Scope::new(),
        };
        let own = group0::Own {
            group,
            base: self.generation.borrow().base(),
            me,
            transport: Rc::new(transport),
            segment_bytes: self.config.segment_bytes,
            within: self.command_time.clone(),
        };
        let running = group0::start(own, start, |_| ()).await?;
        let before = self.group.replace(Some((group, running)));
        let has_ended = before.is_none_or(|(_, before)| before.status().stopped.is_some());
        assert!(has_ended, "in-before-it-speaks: this node takes part twice");
        Ok(())
    }

    /// The group that is there now of the one that this node joined, or made.
    async fn generation_of(&self, group: Uuid, start: Start) -> Result<(Uuid, Start), String> {
        let kept = recovery::kept(&runtime::local::get::<Storage>()).await?;
        let first = (Generation::first(group), group);
        let (generation, from) = kept.generation.unwrap_or(first);
        for lost in &generation.lost {
            self.messaging.ban(peers::host(*lost)).await;
        }
        self.generation.replace(generation);
        self.from.set(from);
        self.promised.set(kept.promised);
        self.silent.set(self.is_between());
        self.look_around().await?;
        let generation = self.generation.borrow();
        debug_assert!(!generation.group.is_nil(), "one-founder: a group without an id");
        Ok((generation.group, if generation.number == 0 { start } else { Start::Join }))
    }

    /// The group of an earlier start.
    async fn remembered(&self) -> Result<Option<(Uuid, Start)>, String> {
        let storage = runtime::local::get::<Storage>();
        let found = crate::node_tables::read_table(&storage, "system", "scylla_local").await;
        let text = facts::find(&found.map_err(|error| error.to_string())?, GROUP);
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = text.split_once(' ').and_then(|(group, how)| {
            let start = match how {
                "made" => Start::New,
                "joined" => Start::Join,
                _ => return None,
            };
            Some((Uuid::parse_str(group).ok()?, start))
        });
        let what = || format!("system.scylla_local is damaged: {GROUP} is {text}");
        parsed.map(Some).ok_or_else(what)
    }

    async fn remember(&self, (group, start): (Uuid, Start)) -> Result<(), String> {
        assert!(!group.is_nil(), "one-founder: a group without an id");
        let how = if start == Start::New { "made" } else { "joined" };
        let (schema, at) = (self.cluster.schema(), runtime::time::wall_micros());
        let rows = vec![
            facts::fact(&schema, GROUP, &format!("{group} {how}"), at),
            facts::fact(&schema, GROUP_ID, &group.to_string(), at),
        ];
        let storage = runtime::local::get::<Storage>();
        let applied = storage.apply_all(rows).await;
        applied.map_err(|error| format!("cannot write which group this node belongs to: {error}"))
    }

    /// This node, as the others know it.
    fn own(&self) -> Member {
        let node = self.cluster.node();
        let known = self.cluster.topology();
        let state = known.member(node.host_id).map_or(MemberState::Normal, |known| known.state);
        Member {
            host_id: node.host_id,
            state,
            address: self.address,
            client_address: node.rpc_address,
            client_port: node.rpc_port,
            data_center: node.data_center.clone(),
            rack: node.rack.clone(),
            tokens: node.tokens.clone(),
            shards: node.shards,
            release_version: node.release_version.to_owned(),
            features: node.features.clone(),
        }
    }

    /// Writes this node into the topology, where that does not have it, or otherwise.
    async fn introduce(&self) -> Result<(), String> {
        let own = self.own();
        let decide = move |catalog: &crate::schema::Catalog| {
            let known = catalog.topology.member(own.host_id);
            Ok(match known.is_some_and(|known| **known == own) {
                true => Vec::new(),
                false => vec![TopologyChange::Set(own.clone())],
            })
        };
        let changed = self.cluster.change_topology(decide).await;
        changed.map_err(|error| format!("cannot tell the cluster about this node: {error}"))
    }

    /// Where this node has another address than before, or other shards, the others are told.
    async fn keep_introduced(self: Rc<Self>) {
        loop {
            let (topology, own) = (self.cluster.topology(), self.own());
            if topology.member(own.host_id).is_some_and(|known| **known == own) {
                return;
            }
            let known = topology.member(own.host_id).map(|known| known.address);
            let has_moved = known.is_some_and(|known| known != own.address);
            drop(topology);
            // Again and again: a change of the topology has others look where it says.
            let tells = async {
                loop {
                    if has_moved {
                        self.tell_address().await;
                    }
                    sleep(INTRODUCTION_PERIOD).await;
                }
            };
            if let Either::Left(Err(why)) = race(self.introduce(), tells).await {
                tracing::warn!(target: "membership", "{why}; it is tried again");
            }
            sleep(INTRODUCTION_PERIOD).await;
        }
    }

    /// Others are told soon of a change of the catalog; new ones among them are greeted soon.
    async fn tell_changes(self: Rc<Self>) {
        loop {
            self.cluster.changed().await;
            self.news.notify_one();
        }
    }
}
