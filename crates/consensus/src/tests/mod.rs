//! Groups of simulated nodes.

mod client;
mod disk;
mod faults;
mod foreign;
mod machine;
mod network;
mod plain;
mod witness;

use crate::engine::Role;
use crate::group::{Group, Parts, Start, Status, Unanswered};
use crate::members::NodeId;
use crate::options::Options;
use client::Client;
use disk::DiskLog;
use machine::TestMachine;
use network::{Link, Network};
use runtime::sim::{self, World};
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use witness::Witness;

const SECOND: Duration = Duration::from_secs(1);

/// Nodes of one group, in one world.
struct Cluster {
    world: World,
    options: Options,
    network: Rc<RefCell<Network>>,
    witness: Rc<RefCell<Witness>>,
    nodes: Vec<Node>,
    /// Who runs on each node.
    client: Option<Client>,
}

/// What a node is told to do by itself.
enum Order {
    Members(Vec<NodeId>, Vec<NodeId>),
    StepDown,
    Client(Client),
}

/// A node's part and its machine, while it lives.
type Slot = Rc<RefCell<Option<(Group, Rc<TestMachine>)>>>;

struct Node {
    orders: Rc<RefCell<Vec<Order>>>,
    sim: sim::NodeId,
    id: NodeId,
    /// Of the present life, once it has started.
    group: Slot,
}

/// Options under which logs are cut soon.
fn options() -> Options {
    Options { cut_entries: 20, trailing_entries: 5, ..Options::new(4096) }
}

async fn obey(order: Order, group: &Group, machine: &Rc<TestMachine>) {
    match order {
        Order::Members(voters, learners) => {
            let _ = group.set_members(voters, learners, 5 * SECOND).await;
        }
        Order::StepDown => {
            group.step_down(SECOND).await;
        }
        Order::Client(client) => client.run(group, machine).await,
    }
}

impl Cluster {
    /// Nodes 1 to `count`, of which the first begins the group; not started.
    fn new(seed: u64, count: u64, options: Options) -> Cluster {
        let mut world = World::new(sim::Options::new(seed));
        let network = Rc::new(RefCell::new(Network::new(world.random_u64())));
        let nodes = (1..=count).map(|id| Node {
            sim: world.add_node(1),
            id: NodeId(id),
            group: Rc::default(),
            orders: Rc::default(),
        });
        let nodes = nodes.collect();
        Cluster { world, options, network, witness: Rc::default(), nodes, client: None }
    }

    /// As [`Cluster::new`], all running, all voters.
    fn of_voters(seed: u64, count: u64, options: Options) -> Cluster {
        let mut cluster = Cluster::new(seed, count, options);
        (0..count as usize).for_each(|node| cluster.start(node));
        cluster.wait_for_leader(&[0]);
        let ids = cluster.ids();
        cluster.on(0, move |group| async move {
            group.set_members(vec![ids[0]], ids[1..].to_vec(), 20 * SECOND).await.unwrap();
            group.set_members(ids, vec![], 20 * SECOND).await.unwrap();
        });
        cluster
    }

    fn ids(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    fn start(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (me, slot) = (node.id, node.group.clone());
        let start = if index == 0 { Start::New } else { Start::Join };
        let (network, witness) = (self.network.clone(), self.witness.clone());
        let (options, orders) = (self.options.clone(), node.orders.clone());
        orders.borrow_mut().clear();
        orders.borrow_mut().extend(self.client.clone().map(Order::Client));
        self.world.start(node.sim, move |_| {
            let (network, witness, slot) = (network.clone(), witness.clone(), slot.clone());
            let (options, orders) = (options.clone(), orders.clone());
            async move {
                let machine = Rc::new(TestMachine::open(me, witness.clone()).await);
                let transport = Rc::new(Link { me, network: network.clone() });
                let log = Rc::new(DiskLog::new());
                let parts = Parts { me, options, log, machine: machine.clone(), transport };
                let group = match Group::start(parts, start).await {
                    Ok(group) => group,
                    Err(why) => {
                        witness.borrow_mut().wrong.push(format!("{me} does not start: {why}"));
                        return;
                    }
                };
                *slot.borrow_mut() = Some((group.clone(), machine.clone()));
                let scope = Scope::new();
                loop {
                    for order in std::mem::take(&mut *orders.borrow_mut()) {
                        let (group, machine) = (group.clone(), machine.clone());
                        scope.spawn(async move { obey(order, &group, &machine).await });
                    }
                    let came = network.borrow_mut().take(me);
                    for (from, bytes) in came {
                        group.receive(from, &bytes).unwrap();
                    }
                    witness.borrow_mut().status(&group.status());
                    sleep(Duration::from_millis(7)).await;
                }
            }
        });
    }

    /// On the nodes that run, and on those that are started from now on.
    fn start_clients(&mut self) {
        for node in &self.nodes {
            node.orders.borrow_mut().extend(self.client.clone().map(Order::Client));
        }
    }

    fn crash(&mut self, index: usize) {
        let node = &self.nodes[index];
        let gone = node.group.borrow_mut().take();
        self.network.borrow_mut().forget(node.id);
        self.world.crash(node.sim);
        drop(gone);
    }

    fn group(&self, index: usize) -> Option<Group> {
        self.nodes[index].group.borrow().as_ref().map(|(group, _)| group.clone())
    }

    fn status(&self, index: usize) -> Option<Status> {
        self.group(index).map(|group| group.status())
    }

    /// Runs something on a node, to its end.
    fn on<F, Fut, T>(&mut self, index: usize, act: F) -> T
    where
        F: FnOnce(Group) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let slot = self.nodes[index].group.clone();
        let started = self.world.run_until(|| slot.borrow().is_some(), 10 * SECOND);
        assert!(started, "node {index} does not start");
        let group = self.group(index).unwrap();
        let sim = self.nodes[index].sim;
        self.world.block_on(sim, 0, async move { act(group).await })
    }

    /// Until one of these nodes leads; which.
    fn wait_for_leader(&mut self, among: &[usize]) -> usize {
        let slots: Vec<_> = among.iter().map(|index| self.nodes[*index].group.clone()).collect();
        let leads = |slot: &Slot| {
            let slot = slot.borrow();
            slot.as_ref().is_some_and(|(group, _)| group.status().role == Role::Leader)
        };
        let found = self.world.run_until(|| slots.iter().any(leads), 20 * SECOND);
        assert!(found, "nobody leads: {:?}", self.wrong());
        among[slots.iter().position(leads).unwrap()]
    }

    /// Until these nodes have applied all that any of them has.
    fn wait_for_agreement(&mut self, among: &[usize]) -> bool {
        let slots: Vec<_> = among.iter().map(|index| self.nodes[*index].group.clone()).collect();
        self.world.run_until(
            || {
                let applied = |slot: &Slot| {
                    let slot = slot.borrow();
                    slot.as_ref().map(|(group, _)| {
                        let status = group.status();
                        (status.applied, status.committed, status.log_last)
                    })
                };
                let first = applied(&slots[0]);
                let even = first.is_some_and(|(a, c, l)| a == c && c == l);
                even && slots.iter().all(|slot| applied(slot) == first)
            },
            60 * SECOND,
        )
    }

    fn wrong(&self) -> Vec<String> {
        self.witness.borrow().wrong.clone()
    }

    fn commands(&self, index: usize) -> Vec<Vec<u8>> {
        let slot = self.nodes[index].group.borrow();
        let (_, machine) = slot.as_ref().expect("it runs");
        let state = machine.state.borrow();
        state.commands.iter().map(|command| command.bytes.clone()).collect()
    }

    /// The counters of all nodes that run, by one of them.
    fn sum(&self, of: impl Fn(&crate::group::Counters) -> u64) -> u64 {
        let groups = (0..self.nodes.len()).filter_map(|index| self.group(index));
        groups.map(|group| of(group.counters())).sum()
    }
}

/// Figures by name of nodes, for messages of failures.
#[allow(dead_code)]
fn figures(cluster: &Cluster) -> BTreeMap<NodeId, Option<Status>> {
    let nodes = 0..cluster.nodes.len();
    nodes.map(|index| (cluster.nodes[index].id, cluster.status(index))).collect()
}
