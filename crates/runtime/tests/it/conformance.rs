//! The same bodies on every back end.

#![allow(clippy::disallowed_methods)]

use runtime::io::{AlignedBuf, File, IoClass, OpenOptions, fs};
use runtime::net::unix::{PATH_BYTES_MAX, UnixError, UnixListener, UnixOptions};
use runtime::net::{ListenOptions, NOWHERE, Part, TcpListener, TcpStream};
use runtime::task::Scope;
use runtime::time::{Instant, sleep, timeout};
use runtime::{Backend, Config, on_all_shards, on_shard, shard_id};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

const LISTEN: ListenOptions = ListenOptions { reuse_port: false, backlog: 16 };

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory =
        std::env::temp_dir().join(format!("nereid-runtime-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

async fn files(root: PathBuf) {
    fs::create_dir_all(root.join("a/b")).await.unwrap();
    fs::create_dir_all(root.join("a/b")).await.unwrap();
    let path = root.join("a/b/data");
    let file = File::open(&path, OpenOptions::create_new()).await.unwrap();
    let again = File::open(&path, OpenOptions::create_new()).await.unwrap_err();
    assert!(again.is_already_exists(), "{again}");
    let bytes: Vec<u8> = (0..3 * 4096u32).map(|n| (n % 251) as u8).collect();
    let buf = file.write_at(IoClass::Flush, 0, AlignedBuf::copy_from(&bytes)).await.unwrap();
    assert_eq!(&*buf, &bytes[..]);
    file.write_tail(IoClass::Flush, 3 * 4096, AlignedBuf::copy_from(b"tail")).await.unwrap();
    file.fdatasync(IoClass::Flush).await.unwrap();
    assert_eq!(file.len().await.unwrap(), 3 * 4096 + 4);
    let before = runtime::io::stats(IoClass::Query);
    for (offset, len, expected) in [
        (0u64, 10usize, &bytes[..10]),
        (4095, 2, &bytes[4095..4097]),
        (100, 9000, &bytes[100..9100]),
        (3 * 4096, 100, &b"tail"[..]),
        (3 * 4096 + 3, 1, &b"l"[..]),
        (3 * 4096 + 4, 5, &b""[..]),
        (1 << 20, 5, &b""[..]),
        (7, 0, &b""[..]),
    ] {
        let read = file.read_at(IoClass::Query, offset, len).await.unwrap();
        assert_eq!(&*read, expected, "{len} at {offset}");
    }
    assert_eq!(runtime::io::stats(IoClass::Query).reads - before.reads, 7);
    let memory = AlignedBuf::copy_from(&[7; 10_000]);
    let mut read = file.read_behind(IoClass::Query, 100, 9000, (memory, 8192)).await.unwrap();
    let room = read.room();
    assert!((8192..8192 + 4096).contains(&room), "{room}");
    read.prepend(&vec![9; room - 1]);
    assert_eq!(read.room(), 1);
    assert_eq!(&*read, [&vec![9; room - 1], &bytes[100..9100]].concat());
    file.truncate(5).await.unwrap();
    assert_eq!(fs::len(&path).await.unwrap(), 5);
    file.allocate(0, 8192).await.unwrap();
    assert_eq!(file.len().await.unwrap(), 8192);
    file.close().await.unwrap();
    fs::hard_link(&path, root.join("link")).await.unwrap();
    fs::rename(&path, root.join("a/moved")).await.unwrap();
    assert!(!fs::exists(&path).await.unwrap());
    fs::write_file_atomic(root.join("small"), b"one").await.unwrap();
    fs::write_file_atomic(root.join("small"), b"two!").await.unwrap();
    assert_eq!(fs::read_file(root.join("small")).await.unwrap(), b"two!");
    fs::sync_dir(&root).await.unwrap();
    let names: Vec<_> = fs::list_dir(&root).await.unwrap();
    let names: Vec<_> = names.iter().map(|e| (e.name.as_str(), e.is_dir, e.len)).collect();
    assert_eq!(names, [("a", true, 0), ("link", false, 8192), ("small", false, 4)]);
    let missing = fs::read_file(root.join("missing")).await.unwrap_err();
    assert!(missing.is_not_found());
    assert!(missing.to_string().contains("missing"), "{missing}");
    fs::remove_file(root.join("link")).await.unwrap();
    let lock = fs::lock_exclusive(root.join("lock")).await.unwrap();
    let held = fs::lock_exclusive(root.join("lock")).await.unwrap_err();
    assert!(matches!(held, fs::LockError::Held(Some(_))), "{held}");
    drop(lock);
    while fs::lock_exclusive(root.join("lock")).await.is_err() {
        runtime::task::yield_now().await;
    }
    let space = fs::space(&root).await.unwrap();
    assert!(0 < space.free && space.free <= space.total, "{space:?}");
    fs::remove_dir_all(&root).await.unwrap();
    assert!(!fs::exists(&root).await.unwrap());
    assert!(fs::space(&root).await.unwrap_err().is_not_found());
}

async fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), LISTEN).unwrap();
    let addr = listener.local_addr();
    let scope = Scope::new();
    scope.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut buf = Vec::with_capacity(1000);
        loop {
            let (read, back) = stream.read(buf).await;
            buf = back;
            if read.unwrap() == 0 {
                break;
            }
            let (sent, back) = stream.write_all(buf).await;
            sent.unwrap();
            buf = back;
            buf.clear();
        }
        stream.shutdown().unwrap();
    });
    let stream = TcpStream::connect(addr).await.unwrap();
    assert_eq!(stream.peer_addr(), addr);
    let message: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    let shared = Rc::new(message[7..].to_vec());
    let ours: Vec<Part> =
        vec![message[..7].to_vec().into(), Vec::new().into(), Part::Shared(shared.clone())];
    let echoed = async {
        let mut buf = Vec::new();
        while buf.len() < message.len() {
            let (read, back) = stream.read(buf).await;
            buf = back;
            assert!(0 < read.unwrap());
        }
        buf
    };
    let ((sent, back), echoed) = runtime::task::join(stream.write_all_vectored(ours), echoed).await;
    drop(back);
    sent.unwrap();
    assert!(echoed == message);
    assert_eq!(Rc::strong_count(&shared), 1, "the part is given back");
    stream.shutdown().unwrap();
    let (end, _) = stream.read(Vec::new()).await;
    assert_eq!(end.unwrap(), 0);
    scope.join().await;
    let refused = TcpStream::connect(addr).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// What the kernel does not take at once is written as usual behind it.
async fn written_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), LISTEN).unwrap();
    let client = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let message: Vec<u8> = (0..16_000_000u32).map(|n| (n >> 8) as u8).collect();
    let sent = client.try_write(&message).unwrap();
    assert!(sent < message.len(), "{sent}");
    assert_eq!(client.try_write(&[]).unwrap(), 0);
    let rest = message[sent..].to_vec();
    let received = async {
        let mut buf = Vec::new();
        while buf.len() < message.len() {
            let (read, back) = server.read(buf).await;
            buf = back;
            assert!(0 < read.unwrap());
        }
        buf
    };
    let ((written, _), received) = runtime::task::join(client.write_all(rest), received).await;
    written.unwrap();
    assert!(received == message);
}

async fn moved_connection() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), LISTEN).unwrap();
    let addr = listener.local_addr();
    let client = TcpStream::connect(addr).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let detached = server.detach();
    let there = on_shard(1, move || async move {
        let stream = detached.attach();
        let (sent, _) = stream.write_all(b"from shard 1".to_vec()).await;
        sent.unwrap();
        shard_id()
    });
    assert_eq!(there.await, 1);
    let mut buf = Vec::new();
    loop {
        let (read, back) = client.read(buf).await;
        buf = back;
        if read.unwrap() == 0 {
            break;
        }
    }
    assert_eq!(buf, b"from shard 1");
}

/// Clients that are gone before they are accepted are nobody's trouble.
async fn gone_connections() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), LISTEN).unwrap();
    for _ in 0..3 {
        let client = std::net::TcpStream::connect(listener.local_addr()).unwrap();
        // Its end is a reset.
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    }
    let client = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (_, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, client.local_addr());
}

/// A listener that is dropped while it accepts listens no longer, from then on.
async fn dropped_listener() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), LISTEN).unwrap();
    let addr = listener.local_addr();
    let accepting = Scope::new();
    accepting.spawn(async move { while listener.accept().await.is_ok() {} });
    let first = TcpStream::connect(addr).await.unwrap();
    assert_eq!(first.peer_addr(), addr);
    accepting.cancel().await;
    let late = std::net::TcpStream::connect(addr).unwrap_err();
    assert_eq!(late.kind(), std::io::ErrorKind::ConnectionRefused);
    let again = TcpListener::bind(addr, LISTEN).unwrap();
    assert_eq!(again.local_addr(), addr);
}

fn named() -> UnixOptions {
    UnixOptions { mode: 0o660, group: None, backlog: 4 }
}

/// So many bytes, or what there is before the end.
async fn read_some(stream: &TcpStream, bytes: usize) -> Vec<u8> {
    let mut buf = Vec::new();
    while buf.len() < bytes {
        let (read, back) = stream.read(buf).await;
        buf = back;
        if read.unwrap() == 0 {
            break;
        }
    }
    buf
}

async fn named_sockets(root: PathBuf) {
    fs::create_dir_all(&root).await.unwrap();
    let path = root.join("socket");
    let refusal = async || TcpStream::connect_unix(&path).await.unwrap_err().kind();
    assert_eq!(refusal().await, std::io::ErrorKind::NotFound);
    let listener = UnixListener::bind(&path, named()).await.unwrap();
    assert_eq!(listener.path(), path);
    let again = UnixListener::bind(&path, named()).await.unwrap_err();
    assert_eq!(again, UnixError::Live);
    let client = TcpStream::connect_unix(&path).await.unwrap();
    client.write_all(b"hello".to_vec()).await.0.unwrap();
    let server = loop {
        let accepted = listener.accept().await.unwrap();
        // The question whether somebody listens was a connection too, and said nothing.
        match &read_some(&accepted, 5).await[..] {
            b"" => continue,
            said => assert_eq!(said, b"hello"),
        }
        break accepted;
    };
    assert_eq!((server.peer_addr(), server.local_addr()), (NOWHERE, NOWHERE));
    let moved = server.detach();
    on_shard(1, move || async move {
        let server = moved.attach();
        server.write_all(b"world".to_vec()).await.0.unwrap();
    })
    .await;
    assert_eq!(read_some(&client, 5).await, b"world");
    // A process that died leaves its file behind.
    drop(listener);
    assert_eq!(refusal().await, std::io::ErrorKind::ConnectionRefused);
    let listener = UnixListener::bind(&path, named()).await.unwrap();
    TcpStream::connect_unix(&path).await.unwrap();
    listener.close().await;
    assert_eq!(refusal().await, std::io::ErrorKind::NotFound);
    let long = PathBuf::from("x".repeat(PATH_BYTES_MAX + 1));
    let refused = UnixListener::bind(&long, named()).await.unwrap_err();
    assert_eq!(refused, UnixError::TooLong(PATH_BYTES_MAX + 1));
}

/// What a simulated node has no files for.
async fn named_sockets_as_files(root: PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let path = root.join("socket");
    let group = Some("0".to_owned());
    let listener = UnixListener::bind(&path, UnixOptions { mode: 0o600, group, ..named() }).await;
    let listener = listener.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let client = TcpStream::connect_unix(&path).await.unwrap();
    let server = listener.accept().await.unwrap();
    let process = std::process::id() as i32;
    assert_eq!(server.credentials().map(|it| it.process), Some(process));
    drop(client);
    // Whatever took its place stays.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"a file").unwrap();
    let refused = UnixListener::bind(&path, named()).await.unwrap_err();
    assert_eq!(refused, UnixError::NoSocket);
    listener.close().await;
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    let below = root.join("missing/socket");
    let refused = UnixListener::bind(&below, named()).await.unwrap_err();
    assert_eq!(refused.to_string(), "bind: No such file or directory (os error 2)");
    let group = Some("no such group".to_owned());
    let options = UnixOptions { group, ..named() };
    let refused = UnixListener::bind(&root.join("other"), options).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no group no such group");
    std::fs::remove_dir_all(&root).unwrap();
}

async fn timers() {
    let start = Instant::now();
    sleep(Duration::from_millis(3)).await;
    assert!(Duration::from_millis(3) <= start.elapsed());
    assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
    assert_eq!(timeout(Duration::from_secs(100), async { 5 }).await, Ok(5));
    let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let scope = Scope::new();
    for n in [5u64, 1, 3] {
        let order = order.clone();
        scope.spawn(async move {
            sleep(Duration::from_millis(n * 10)).await;
            order.borrow_mut().push(n);
        });
    }
    scope.join().await;
    assert_eq!(*order.borrow(), [1, 3, 5]);
}

async fn shards() {
    assert_eq!(on_shard(1, || async { shard_id() }).await, 1);
    assert_eq!(on_shard(0, || async { shard_id() }).await, 0);
    assert_eq!(on_all_shards(|| async { shard_id() }).await, [0, 1]);
    // More calls than a ring holds, and calls back from there.
    let calls = (0..2000u64).map(|n| {
        on_shard(1, move || async move { n + on_shard(0, move || async move { n }).await })
    });
    let sums = runtime::task::join_all(calls).await;
    assert!(sums.into_iter().eq((0..2000).map(|n| 2 * n)));
    let group = runtime::group::create("travelling", 100);
    let there = runtime::group::with_group(group, async {
        on_shard(1, || async { runtime::group::current() }).await
    });
    assert_eq!(there.await, group);
    assert_eq!(runtime::group::current(), runtime::group::MAIN);
}

/// Futures that are dropped while their operations are at the kernel leave nothing behind.
async fn dropped_in_flight() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), LISTEN).unwrap();
    let client = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    for _ in 0..50 {
        let _ = timeout(Duration::ZERO, server.read(vec![0; 10])).await;
        let _ = timeout(Duration::ZERO, listener.accept()).await;
    }
    let big = vec![7u8; 1 << 24];
    assert!(timeout(Duration::from_millis(1), client.write_all(big)).await.is_err());
    drop(client);
    drop(server);
    drop(listener);
    while runtime::testing::operations_in_flight() != 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

fn config(backend: Backend) -> Config {
    Config { backend, idle_poll: Duration::ZERO, ..Config::new(2) }
}

fn on_real(name: &str, backend: Backend) {
    let root = directory(name);
    runtime::testing::block_on_with(config(backend), move || async move {
        let limit = Duration::from_secs(60);
        timeout(limit, files(root.clone())).await.expect("files");
        timeout(limit, named_sockets(root.clone())).await.expect("named sockets");
        timeout(limit, named_sockets_as_files(root)).await.expect("named sockets as files");
        timeout(limit, timers()).await.expect("timers");
        timeout(limit, shards()).await.expect("shards");
        timeout(limit, sockets()).await.expect("sockets");
        timeout(limit, gone_connections()).await.expect("gone connections");
        timeout(limit, dropped_listener()).await.expect("dropped listener");
        timeout(limit, written_at_once()).await.expect("written at once");
        timeout(limit, moved_connection()).await.expect("moved connection");
        timeout(limit, dropped_in_flight()).await.expect("dropped in flight");
    });
}

#[test]
fn on_the_default_back_end() {
    on_real("uring", Backend::Auto);
}

#[test]
fn on_epoll() {
    on_real("epoll", Backend::Epoll);
}

#[test]
fn on_a_simulation() {
    for seed in 0..20 {
        let mut world = runtime::sim::World::new(runtime::sim::Options::new(seed));
        let node = world.add_node(2);
        world.block_on(node, 0, files("/data".into()));
        world.block_on(node, 0, named_sockets("/run".into()));
        world.block_on(node, 0, timers());
        world.block_on(node, 0, shards());
        world.block_on(node, 0, sockets());
        world.block_on(node, 0, written_at_once());
        world.block_on(node, 0, moved_connection());
        world.block_on(node, 0, dropped_in_flight());
    }
}
