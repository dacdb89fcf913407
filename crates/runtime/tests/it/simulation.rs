//! What a simulated world promises, and that it sees what it should.

use runtime::io::{AlignedBuf, File, IoClass, OpenOptions, fs};
use runtime::net::{ListenOptions, TcpListener, TcpStream};
use runtime::sim::{NodeId, Options, World};
use runtime::sync::{Notify, Semaphore};
use runtime::task::Scope;
use runtime::time::{sleep, timeout};
use runtime::{on_shard, shard_id};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const SERVER_PORT: u16 = 9000;
const BLOCK: u64 = 4096;

/// When a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ack {
    AfterSync,
    /// The planted mistake.
    BeforeSync,
}

/// Appends every number it receives to a log, one block each, and answers with the number.
async fn serve(ack: Ack) {
    fs::create_dir_all("/log").await.unwrap();
    fs::sync_dir("/").await.unwrap();
    let file = File::open("/log/numbers", OpenOptions::create()).await.unwrap();
    fs::sync_dir("/log").await.unwrap();
    // Appends after the last whole block; a torn one fails its check and is skipped by readers.
    let end = Cell::new(file.len().await.unwrap().next_multiple_of(BLOCK));
    let options = ListenOptions { reuse_port: false, backlog: 16 };
    let listener = TcpListener::bind(([0, 0, 0, 0], SERVER_PORT).into(), options).unwrap();
    let scope = Scope::new();
    let (file, end) = (Rc::new(file), Rc::new(end));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (file, end) = (file.clone(), end.clone());
        scope.spawn(async move {
            while let Some(number) = read_number(&stream).await {
                let offset = end.replace(end.get() + BLOCK);
                let mut block = AlignedBuf::copy_from(&number.to_le_bytes());
                block.extend_from_slice(&(!number).to_le_bytes());
                block.resize(BLOCK as usize, 0);
                file.write_at(IoClass::Commitlog, offset, block).await.unwrap();
                if ack == Ack::AfterSync {
                    file.fdatasync(IoClass::Commitlog).await.unwrap();
                }
                if stream.write_all(number.to_le_bytes().to_vec()).await.0.is_err() {
                    return;
                }
            }
        });
    }
}

async fn read_number(stream: &TcpStream) -> Option<u64> {
    let mut buf = Vec::with_capacity(8);
    while buf.len() < 8 {
        let (read, back) = stream.read(buf).await;
        buf = back;
        if read.unwrap_or(0) == 0 {
            return None;
        }
    }
    Some(u64::from_le_bytes(buf.try_into().unwrap()))
}

/// Sends numbers for ever and notes what was acknowledged.
async fn send(server: SocketAddr, next: Rc<Cell<u64>>, acked: Rc<RefCell<BTreeSet<u64>>>) {
    loop {
        let Ok(Ok(stream)) = timeout(Duration::from_millis(500), TcpStream::connect(server)).await
        else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        loop {
            let number = next.replace(next.get() + 1);
            if stream.write_all(number.to_le_bytes().to_vec()).await.0.is_err() {
                break;
            }
            match timeout(Duration::from_secs(1), read_number(&stream)).await {
                Ok(Some(answer)) => {
                    assert_eq!(answer, number);
                    acked.borrow_mut().insert(number);
                }
                _ => break,
            }
        }
    }
}

fn stored(world: &mut World, node: NodeId) -> BTreeSet<u64> {
    let content = world.disk(node).read("/log/numbers").unwrap_or_default();
    let word = |block: &[u8], at: usize| {
        Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().unwrap()))
    };
    let blocks = content.chunks(BLOCK as usize);
    blocks.filter_map(|b| word(b, 0).filter(|n| word(b, 8) == Some(!*n))).collect()
}

/// Three servers, a client writing to each; crashes and cuts. How many acknowledged numbers were
/// lost, how many acknowledged, and the trace.
fn run(seed: u64, ack: Ack) -> (usize, usize, u64) {
    let mut world = World::new(Options::new(seed));
    let servers: Vec<_> = (0..3).map(|_| world.add_node(1)).collect();
    let client = world.add_node(2);
    let logs: Vec<_> = servers.iter().map(|_| Rc::<RefCell<BTreeSet<u64>>>::default()).collect();
    for server in &servers {
        world.start(*server, move |_| serve(ack));
    }
    let next = Rc::new(Cell::new(1));
    let addrs: Vec<_> =
        servers.iter().map(|s| SocketAddr::new(world.ip(*s), SERVER_PORT)).collect();
    let (theirs, numbers) = (logs.clone(), next.clone());
    world.start(client, move |shard| {
        let (logs, next, addrs) = (theirs.clone(), numbers.clone(), addrs.clone());
        async move {
            if shard == 0 {
                let scope = Scope::new();
                for (addr, log) in addrs.into_iter().zip(logs) {
                    scope.spawn(send(addr, next.clone(), log));
                }
                scope.join().await;
            }
        }
    });
    let mut lost = 0;
    for _ in 0..6 {
        let span = Duration::from_micros(world.random_u64() % 200_000);
        world.run_for(span);
        let victim = (world.random_u64() % 3) as usize;
        if world.random_u64().is_multiple_of(2) {
            world.crash(servers[victim]);
            let found = stored(&mut world, servers[victim]);
            lost += logs[victim].borrow().difference(&found).count();
            // What is gone is counted once.
            logs[victim].borrow_mut().retain(|number| found.contains(number));
            world.start(servers[victim], move |_| serve(ack));
        } else {
            world.set_cut(servers[victim], client, true);
            world.run_for(Duration::from_millis(30));
            world.set_cut(servers[victim], client, false);
        }
    }
    let acked = logs.iter().map(|log| log.borrow().len()).sum();
    (lost, acked, world.trace_hash())
}

#[test]
fn an_acknowledged_write_survives_and_a_planted_mistake_is_seen() {
    let mut acked_total = 0;
    let mut caught = 0;
    for seed in 0..15 {
        let (lost, acked, _) = run(seed, Ack::AfterSync);
        assert_eq!(lost, 0, "seed {seed}");
        acked_total += acked;
        caught += (0 < run(seed, Ack::BeforeSync).0) as usize;
    }
    assert!(500 < acked_total, "only {acked_total} writes were acknowledged");
    assert!(7 < caught, "only {caught} of 15 seeds saw the planted mistake");
}

#[test]
fn a_seed_replays() {
    let traces: Vec<_> = (0..5).map(|seed| run(seed, Ack::AfterSync)).collect();
    let again: Vec<_> = (0..5).map(|seed| run(seed, Ack::AfterSync)).collect();
    assert_eq!(traces, again);
    let different: BTreeSet<_> = traces.iter().map(|(_, _, hash)| hash).collect();
    assert_eq!(different.len(), traces.len());
}

#[test]
fn a_full_and_a_failing_disk_say_so() {
    let mut world = World::new(Options::new(3));
    let node = world.add_node(1);
    world.disk(node).write("/data/old", &[1; 4096]);
    world.disk(node).set_capacity(Some(8192));
    world.block_on(node, 0, async {
        let file = File::open("/data/new", OpenOptions::create()).await.unwrap();
        let block = || AlignedBuf::copy_from(&[2; 4096]);
        file.write_at(IoClass::Flush, 0, block()).await.unwrap();
        let full = file.write_at(IoClass::Flush, 4096, block()).await.unwrap_err();
        assert!(full.is_full_disk());
        assert!(full.to_string().starts_with("write /data/new: No space left"), "{full}");
        assert_eq!(fs::space("/data").await.unwrap(), fs::Space { free: 0, total: 8192 });
        fs::remove_file("/data/new").await.unwrap();
        assert_eq!(fs::space("/data").await.unwrap().free, 4096);
    });
    world.disk(node).set_error_rate(1);
    world.block_on(node, 0, async {
        let file = File::open("/data/old", OpenOptions::read_write()).await.unwrap();
        assert_eq!(file.read_at(IoClass::Query, 0, 1).await.unwrap_err().errno, libc::EIO);
        assert_eq!(file.fdatasync(IoClass::Query).await.unwrap_err().errno, libc::EIO);
    });
    world.disk(node).set_error_rate(0);
    world.disk(node).corrupt("/data/old", 7, 0x80);
    assert_eq!(world.disk(node).read("/data/old").unwrap()[7], 0x81);
    assert_eq!(world.disk(node).files(), ["/data/old"]);
}

#[test]
fn an_orderly_end_keeps_the_page_cache() {
    let mut world = World::new(Options::new(4));
    let node = world.add_node(2);
    world.start(node, |shard| async move {
        if shard == 0 {
            fs::write_file_atomic("/a", b"atomic").await.unwrap();
            let file = File::open("/b", OpenOptions::create().buffered()).await.unwrap();
            file.write_at(IoClass::System, 0, AlignedBuf::copy_from(b"unsynced")).await.unwrap();
        } else {
            assert_eq!(runtime::signal::wait().await, runtime::signal::Signal::Terminate);
        }
    });
    world.run_for(Duration::from_secs(1));
    assert!(world.is_running(node));
    world.signal(node, runtime::signal::Signal::Terminate);
    world.run_for(Duration::from_secs(1));
    assert!(!world.is_running(node));
    assert_eq!(world.disk(node).read("/b").unwrap(), b"unsynced");
    world.crash(node);
    assert_eq!(world.disk(node).read("/a").unwrap(), b"atomic");
}

#[test]
fn a_paused_node_does_nothing_until_it_goes_on() {
    let mut world = World::new(Options::new(6));
    let (node, other) = (world.add_node(2), world.add_node(1));
    let ticks = Rc::new(Cell::new([0u64; 2]));
    let count = |at: usize| {
        let ticks = ticks.clone();
        move |_| {
            let ticks = ticks.clone();
            async move {
                loop {
                    runtime::on_all_shards(|| async {}).await;
                    let mut all = ticks.get();
                    all[at] += 1;
                    ticks.set(all);
                    runtime::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    };
    world.start(node, count(0));
    world.start(other, count(1));
    let second = Duration::from_secs(1);
    world.run_for(second);
    let before = ticks.get();
    assert!(before.iter().all(|ticks| 50 < *ticks), "{before:?}");
    world.set_paused(node, true);
    world.run_for(second);
    let paused = ticks.get();
    assert_eq!(paused[0], before[0]);
    assert!(before[1] + 50 < paused[1], "{before:?} {paused:?}");
    world.set_paused(node, false);
    world.run_for(second);
    assert!(paused[0] + 100 < ticks.get()[0], "{paused:?} {:?}", ticks.get());
    // A crash ends a pause.
    world.set_paused(node, true);
    world.restart(node, count(0));
    let before = ticks.get();
    world.run_for(second);
    assert!(before[0] + 100 < ticks.get()[0], "{before:?} {:?}", ticks.get());
}

#[test]
fn virtual_days_pass_quickly() {
    let days = runtime::sim::test(5, || async {
        let start = runtime::time::Instant::now();
        for _ in 0..50 {
            sleep(Duration::from_secs(60)).await;
        }
        start.elapsed()
    });
    assert!(Duration::from_secs(3000) <= days && days < Duration::from_secs(3001));
}

/// A semaphore in a world that draws the order: never more inside than units, all served.
#[test]
fn a_semaphore_is_fair_and_loses_no_unit() {
    for seed in 0..50 {
        runtime::sim::test(seed, || async {
            let semaphore = Semaphore::new(3, 100);
            let scope = Scope::new();
            let (inside, served) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            for n in 0..40usize {
                let (semaphore, inside) = (semaphore.clone(), inside.clone());
                let served = served.clone();
                scope.spawn(async move {
                    let units = n % 3 + 1;
                    let patience = Duration::from_micros(runtime::random_u64() % 3000);
                    let taken = timeout(patience, semaphore.acquire(units)).await;
                    let Ok(Ok(_permit)) = taken else { return };
                    inside.set(inside.get() + units);
                    assert!(inside.get() <= 3);
                    sleep(Duration::from_micros(100)).await;
                    inside.set(inside.get() - units);
                    served.set(served.get() + 1);
                });
            }
            scope.join().await;
            assert_eq!((semaphore.available(), semaphore.waiting()), (3, 0));
            assert!(0 < served.get());
        });
    }
}

#[test]
fn scopes_gates_and_channels_end_in_order() {
    for seed in 0..30 {
        let mut world = World::new(Options::new(seed));
        let node = world.add_node(3);
        world.block_on(node, 1, async {
            let gate = runtime::sync::Gate::new();
            let guard = gate.enter().unwrap();
            let scope = Scope::new();
            let closing = gate.clone();
            let closed = scope.spawn(async move { closing.close().await });
            sleep(Duration::from_millis(1)).await;
            assert!(gate.enter().is_err());
            drop(guard);
            closed.await.unwrap();
            let (sender, mut receiver) = runtime::sync::channel(2);
            for n in 0..10 {
                let sender = sender.clone();
                scope.spawn(async move { sender.send(n).await });
            }
            drop(sender);
            let mut received = Vec::new();
            while let Some(n) = receiver.recv().await {
                assert!(receiver.len() <= 2);
                received.push(n);
            }
            received.sort();
            assert_eq!(received, (0..10).collect::<Vec<_>>());
            let never = scope.spawn(Notify::new_wait());
            let other = scope.spawn(async { on_shard(2, || async { shard_id() }).await });
            assert_eq!(other.await, Ok(2));
            scope.cancel().await;
            assert_eq!(never.await, Err(runtime::task::Cancelled));
            assert_eq!(scope.task_count(), 0);
        });
    }
}

trait NewWait {
    fn new_wait() -> impl Future<Output = ()>;
}
impl NewWait for Notify {
    async fn new_wait() {
        Notify::new().notified().await;
    }
}

/// Its end drops the scope, which cancels its tasks: the one that ends is among them.
#[test]
fn a_task_that_owns_its_scope_ends_once() {
    let mut world = World::new(Options::new(5));
    let node = world.add_node(1);
    let ended = Rc::new(Cell::new(0));
    for _ in 0..3 {
        let ended = ended.clone();
        world.block_on(node, 0, async move {
            let scope = Rc::new(Scope::new());
            let (theirs, guard) = (scope.clone(), Counted(ended));
            scope.spawn(async move {
                std::future::pending::<()>().await;
                drop((theirs, guard));
            });
        });
        world.crash(node);
    }
    assert_eq!(ended.get(), 3);
}

struct Counted(Rc<Cell<u32>>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// What a client sends to a server in two writes, as it arrives; how long the first one took.
fn sent(fault: impl FnOnce(&mut World, NodeId, NodeId)) -> (Vec<u8>, Duration) {
    let mut world = World::new(Options::new(5));
    let (server, client) = (world.add_node(1), world.add_node(1));
    let address = SocketAddr::new(world.ip(server), SERVER_PORT);
    let (arrived, took): (Rc<RefCell<Vec<u8>>>, Rc<Cell<Duration>>) = Default::default();
    let (theirs, timed) = (arrived.clone(), took.clone());
    world.start(server, move |_| {
        let (arrived, took) = (theirs.clone(), timed.clone());
        async move {
            let options = ListenOptions { reuse_port: false, backlog: 16 };
            let listener = TcpListener::bind(address, options).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let began = runtime::time::Instant::now();
            while let (Ok(1..), bytes) = stream.read(Vec::new()).await {
                if took.get().is_zero() {
                    took.set(began.elapsed());
                }
                arrived.borrow_mut().extend(bytes);
            }
        }
    });
    world.run_for(Duration::from_millis(1));
    fault(&mut world, client, server);
    world.block_on(client, 0, async move {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(vec![0; 50]).await.0.unwrap();
        stream.write_all(vec![0; 50]).await.0.unwrap();
        stream.shutdown().unwrap();
    });
    assert!(world.run_until(|| arrived.borrow().len() == 100, Duration::from_secs(9)));
    let arrived = arrived.borrow().clone();
    (arrived, took.get())
}

#[test]
fn packets_are_late_or_changed_when_asked() {
    let (arrived, took) = sent(|_, _, _| {});
    assert!(arrived == vec![0; 100] && took < Duration::from_millis(20), "{took:?}");
    let slow = Duration::from_millis(300);
    let (arrived, took) = sent(|world, client, server| {
        world.set_delay(client, server, slow);
        // The other way is another link.
        world.corrupt_next(server, client);
    });
    assert!(arrived == vec![0; 100] && slow <= took, "{took:?}");
    let (arrived, _) = sent(|world, client, server| world.corrupt_next(client, server));
    let flipped: u32 = arrived.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(flipped, 1, "{arrived:?}");
}
