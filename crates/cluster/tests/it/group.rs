//! Three nodes of different shard counts that agree on one schema, while messages are lost and late
//! and nodes crash: what was acknowledged is there, and every node shows the same in the end.

use catalog::SchemaChange;
use cluster::membership::CommandTime;
use cluster::{BootConfig, ChangeError, Cluster, group0};
use consensus::group::Start;
use consensus::{Class, Group, NodeId, Transport};
use model::{Type, Uuid};
use runtime::sim::{self, World};
use runtime::task::Scope;
use runtime::time::{Instant, sleep};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::prng::Prng;
use storage::SyncMode;
use testkit::config::{boot_config, keyspace, node_config, table};

const GROUP: Uuid = Uuid::from_u128(42);
const SECOND: Duration = Duration::from_secs(1);

/// What is on its way to a node, by when it comes.
type Inbox = BTreeMap<(Instant, u64), (NodeId, Vec<u8>)>;

/// Messages on their way, by receiver.
struct Network {
    prng: Prng,
    number: u64,
    inboxes: BTreeMap<NodeId, Inbox>,
    /// One message of so many is lost; 0: none.
    lost: u64,
}

impl Network {
    fn take(&mut self, node: NodeId) -> Vec<(NodeId, Vec<u8>)> {
        let Some(inbox) = self.inboxes.get_mut(&node) else { return Vec::new() };
        let rest = inbox.split_off(&(Instant::now(), u64::MAX));
        std::mem::replace(inbox, rest).into_values().collect()
    }
}

/// A node's way into it.
struct Link {
    me: NodeId,
    network: Rc<RefCell<Network>>,
}

impl Transport for Link {
    fn send(&self, to: NodeId, _: Class, message: Vec<u8>) {
        let mut network = self.network.borrow_mut();
        let lost = network.lost;
        if lost != 0 && network.prng.one_in(lost) {
            return;
        }
        let due = Instant::now() + Duration::from_micros(network.prng.between(100, 3000));
        network.number += 1;
        let place = (due, network.number);
        network.inboxes.entry(to).or_default().insert(place, (self.me, message));
    }
}

/// What is known of a table by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    There,
    Gone,
    /// A change of it was not answered.
    Uncertain,
}

/// What clients were told.
#[derive(Default)]
struct Told {
    tables: BTreeMap<String, Known>,
    acknowledged: u64,
}

type Slot = Rc<RefCell<Option<Group>>>;

struct Node {
    sim: sim::NodeId,
    id: NodeId,
    slot: Slot,
}

struct Nodes {
    world: World,
    network: Rc<RefCell<Network>>,
    told: Rc<RefCell<Told>>,
    works: Rc<RefCell<bool>>,
    nodes: Vec<Node>,
}

/// Makes and drops tables of names of its own, one after the other.
async fn work(me: NodeId, told: Rc<RefCell<Told>>) {
    loop {
        let number = told.borrow().tables.len();
        let name = format!("t{}_{number}", me.0);
        change(&told, &name, Known::There).await;
        if number.is_multiple_of(3) {
            change(&told, &name, Known::Gone).await;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn change(told: &Rc<RefCell<Told>>, name: &str, wanted: Known) {
    told.borrow_mut().tables.insert(name.to_owned(), Known::Uncertain);
    let made = table("ks", name, Type::Int);
    let table = name.to_owned();
    let decide = move |schema: &cluster::Schema| {
        let name = &*table;
        let mut changes = Vec::new();
        if schema.keyspace("ks").is_none() {
            changes.push(SchemaChange::CreateKeyspace(keyspace("ks", 1, Some(4))));
        }
        match (wanted, schema.table("ks", name)) {
            (Known::There, None) => changes.push(SchemaChange::CreateTable(made.clone())),
            (Known::Gone, Some(_)) => {
                let (keyspace, name) = ("ks".to_owned(), name.to_owned());
                changes.push(SchemaChange::DropTable { keyspace, name });
            }
            _ => {}
        }
        Ok::<_, ()>(changes)
    };
    let cluster = runtime::local::get::<Cluster>();
    match cluster.change_schema(decide).await {
        Ok(_) => {
            let schema = cluster.schema();
            assert_eq!(schema.table("ks", name).is_some(), wanted == Known::There, "{name}");
            let mut told = told.borrow_mut();
            told.tables.insert(name.to_owned(), wanted);
            told.acknowledged += 1;
        }
        Err(ChangeError::Failed(_)) => {}
        Err(ChangeError::Refused(())) => unreachable!("nobody refuses"),
    }
}

impl Nodes {
    fn new(seed: u64) -> Nodes {
        let mut world = World::new(sim::Options::new(seed));
        let prng = Prng::from_seed(world.random_u64());
        let network = Network { prng, number: 0, inboxes: BTreeMap::new(), lost: 0 };
        let nodes = (1..=3).map(|id| Node {
            sim: world.add_node(id as u16),
            id: NodeId(id),
            slot: Rc::default(),
        });
        let nodes = nodes.collect();
        let network = Rc::new(RefCell::new(network));
        Nodes { world, network, told: Rc::default(), works: Rc::default(), nodes }
    }

    fn start(&mut self, index: usize) {
        let Node { sim, id, slot } = &self.nodes[index];
        let (me, slot, network) = (*id, slot.clone(), self.network.clone());
        let (told, works) = (self.told.clone(), self.works.clone());
        self.world.start(*sim, move |shard| {
            let (slot, network) = (slot.clone(), network.clone());
            let (told, works) = (told.clone(), works.clone());
            async move {
                if shard == 0 {
                    live(me, slot, network, told, works).await;
                }
            }
        });
    }

    fn crash(&mut self, index: usize) {
        let node = &self.nodes[index];
        let gone = node.slot.borrow_mut().take();
        self.network.borrow_mut().inboxes.remove(&node.id);
        self.world.crash(node.sim);
        drop(gone);
    }

    fn group(&self, index: usize) -> Option<Group> {
        self.nodes[index].slot.borrow().clone()
    }

    /// The schema that a node shows after all that was committed: its version, and its tables with
    /// theirs.
    fn shown(&mut self, index: usize) -> (Uuid, BTreeMap<String, Uuid>) {
        let slot = self.nodes[index].slot.clone();
        assert!(self.world.run_until(|| slot.borrow().is_some(), 20 * SECOND), "node {index}");
        let group = self.group(index).expect("it runs");
        self.world.block_on(self.nodes[index].sim, 0, async move {
            let read = group.read_barrier(60 * SECOND).await;
            read.unwrap_or_else(|why| panic!("node {index} cannot read: {why}"));
            let schema = runtime::local::get::<Cluster>().schema();
            let tables = schema.keyspace("ks").into_iter().flat_map(|it| &it.tables);
            let tables = tables.map(|(name, table)| (name.clone(), table.schema.version));
            (schema.version, tables.collect())
        })
    }
}

/// The life of shard 0.
async fn live(
    me: NodeId,
    slot: Slot,
    network: Rc<RefCell<Network>>,
    told: Rc<RefCell<Told>>,
    works: Rc<RefCell<bool>>,
) {
    let config = boot_config("/node", SyncMode::Batch);
    let segment_bytes = config.storage.segment_bytes;
    cluster::boot(BootConfig { node: node_config(4), ..config }).await.expect("a start");
    let transport = Rc::new(Link { me, network: network.clone() });
    let within = CommandTime::register(&cluster::Settings::of_shard(), 5 * SECOND);
    let own = group0::Own { group: GROUP, base: 0, me, transport, segment_bytes, within };
    let start = if me.0 == 1 { Start::New } else { Start::Join };
    let tune = |options: &mut consensus::Options| {
        (options.cut_entries, options.trailing_entries) = (20, 5);
    };
    let group = group0::start(own, start, tune).await.expect("a group");
    *slot.borrow_mut() = Some(group.clone());
    let scope = Scope::new();
    let mut is_working = false;
    loop {
        if *works.borrow() && !is_working {
            is_working = true;
            scope.spawn(work(me, told.clone()));
        }
        let came = network.borrow_mut().take(me);
        for (from, bytes) in came {
            group.receive(from, &bytes).expect("a message");
        }
        sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn three_nodes_agree_on_one_schema() {
    for seed in runtime::sim::seeds(1) {
        let mut nodes = Nodes::new(seed);
        (0..3).for_each(|index| nodes.start(index));
        let slots: Vec<Slot> = nodes.nodes.iter().map(|node| node.slot.clone()).collect();
        let started = || slots.iter().all(|slot| slot.borrow().is_some());
        assert!(nodes.world.run_until(started, 10 * SECOND), "seed {seed}: no start");
        let group = nodes.group(0).expect("it runs");
        let ids: Vec<NodeId> = nodes.nodes.iter().map(|node| node.id).collect();
        nodes.world.block_on(nodes.nodes[0].sim, 0, async move {
            let learners = ids[1..].to_vec();
            group.set_members(vec![ids[0]], learners, 20 * SECOND).await.expect("learners");
            group.set_members(ids, Vec::new(), 20 * SECOND).await.expect("voters");
        });
        *nodes.works.borrow_mut() = true;
        for _ in 0..4 {
            nodes.network.borrow_mut().lost = [0, 20][(nodes.world.random_u64() % 2) as usize];
            nodes.world.run_for(3 * SECOND);
            let victim = (nodes.world.random_u64() % 3) as usize;
            nodes.crash(victim);
            let down = (nodes.world.random_u64() % 6) as u32;
            nodes.world.run_for(SECOND * down);
            nodes.start(victim);
        }
        nodes.network.borrow_mut().lost = 0;
        nodes.world.run_for(5 * SECOND);
        *nodes.works.borrow_mut() = false;
        // Who works goes on until its node crashes: nobody does any more.
        (0..3).for_each(|index| nodes.crash(index));
        (0..3).for_each(|index| nodes.start(index));
        let [first, second, third] = [0, 1, 2].map(|index| nodes.shown(index));
        let told = nodes.told.borrow();
        assert!(10 < told.acknowledged, "seed {seed}: {} changes", told.acknowledged);
        for (name, known) in &told.tables {
            let found = first.1.contains_key(name);
            let allowed = *known == Known::Uncertain || found == (*known == Known::There);
            assert!(allowed, "seed {seed}: {name} is {known:?}, and there: {found}");
        }
        assert_eq!(first, second, "seed {seed}");
        assert_eq!(first, third, "seed {seed}");
    }
}
