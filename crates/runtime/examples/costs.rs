//! Prints what the runtime's basic steps cost, in processor time of the shard, where it is one
//! shard's work: `cargo run --release -p runtime --example costs`.
//!
//! With two arguments, `spawn|yield|timeout|echo ROUNDS`, it does that alone on epoll, so that an
//! instruction counter run with two numbers of rounds gives the instructions of one.

use runtime::io::{AlignedBuf, File, IoClass, OpenOptions, fs};
use runtime::net::{ListenOptions, TcpListener, TcpStream};
use runtime::task::{Scope, yield_now};
use runtime::time::{Instant, sleep, timeout};
use runtime::{Backend, Config, DirectIo, on_shard};
use std::time::Duration;

const ROUNDS: u64 = 100_000;

/// Nanoseconds per round since `start`.
fn per_round(name: &str, start: Instant, rounds: u64) {
    println!("{name:<42} {:>9} ns", start.elapsed().as_nanos() as u64 / rounds);
}

async fn tasks() {
    let scope = Scope::new();
    let start = Instant::now();
    for n in 0..ROUNDS {
        assert_eq!(scope.spawn(async move { n }).await, Ok(n));
    }
    per_round("spawn and await", start, ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        yield_now().await;
    }
    per_round("yield", start, ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        let _ = timeout(Duration::from_secs(10), yield_now()).await;
    }
    per_round("yield under a timeout (arm, cancel)", start, ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        on_shard(0, || async {}).await;
    }
    per_round("call on this shard", start, ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        on_shard(1, || async {}).await;
    }
    per_round("call on another shard, round trip", start, ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS / 64 {
        runtime::task::join_all((0..64).map(|_| on_shard(1, || async {}))).await;
    }
    per_round("call on another shard, 64 at once", start, ROUNDS);
    let start = Instant::now();
    for n in 0..ROUNDS {
        scope.spawn(sleep(Duration::from_micros(n % 1000 * 100)));
    }
    scope.join().await;
    println!("{:<42} {:>9} ms", "100000 sleeps of up to 100 ms", start.elapsed().as_millis());
}

async fn disk() {
    let path = std::env::temp_dir().join(format!("nereid-costs-{}", std::process::id()));
    let file = File::open(&path, OpenOptions::create()).await.expect("a file");
    let mut buf = AlignedBuf::new();
    buf.resize(1 << 20, 7);
    for n in 0..64 {
        buf = file.write_at(IoClass::System, n << 20, buf).await.expect("room");
    }
    file.fdatasync(IoClass::System).await.expect("a sync");
    let scope = Scope::new();
    let start = Instant::now();
    for task in 0..32u64 {
        let file = file.clone();
        scope.spawn(async move {
            for n in 0..500u64 {
                let block = (n * 7919 + task * 104_729) % (64 << 8);
                let read = file.read_at(IoClass::Query, block * 4096, 4096).await;
                assert_eq!(read.expect("a block").len(), 4096);
            }
        });
    }
    scope.join().await;
    per_round("4 KiB read, 32 at once", start, 32 * 500);
    let start = Instant::now();
    for n in 0..200u64 {
        let read = file.read_at(IoClass::Query, n * 4096 * 64, 4096).await;
        assert_eq!(read.expect("a block").len(), 4096);
    }
    per_round("4 KiB read, alone", start, 200);
    fs::remove_file(&path).await.expect("removed");
}

/// Sends 128 bytes there and back so many times.
async fn echo(rounds: u64) {
    let options = ListenOptions { reuse_port: false, backlog: 16 };
    let addr = ([127, 0, 0, 1], 0).into();
    let listener = TcpListener::bind(addr, options).expect("a port");
    let addr = listener.local_addr();
    let scope = Scope::new();
    scope.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut buf = Vec::with_capacity(4096);
        loop {
            let (read, back) = stream.read(buf).await;
            if !matches!(read, Ok(1..)) {
                return;
            }
            let (_, back) = stream.write_all(back).await;
            buf = back;
            buf.clear();
        }
    });
    let stream = TcpStream::connect(addr).await.expect("a connection");
    let mut buf = Vec::with_capacity(4096);
    let start = Instant::now();
    for _ in 0..rounds {
        buf.clear();
        buf.resize(128, 1);
        let (_, back) = stream.write_all(buf).await;
        buf = back;
        buf.clear();
        let (_, back) = stream.read(buf).await;
        buf = back;
    }
    per_round("echo of 128 bytes, both ends here", start, rounds);
    drop(stream);
    scope.join().await;
}

/// Does one thing so many times.
async fn one_thing(what: &str, rounds: u64) {
    let scope = Scope::new();
    match what {
        "spawn" => {
            for n in 0..rounds {
                assert_eq!(scope.spawn(async move { n }).await, Ok(n));
            }
        }
        "yield" => {
            for _ in 0..rounds {
                yield_now().await;
            }
        }
        "timeout" => {
            for _ in 0..rounds {
                let _ = timeout(Duration::from_secs(10), yield_now()).await;
            }
        }
        "echo" => echo(rounds).await,
        other => println!("no such thing: {other}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, rounds] = &arguments[..] {
        let (what, rounds) = (what.clone(), rounds.parse().unwrap_or(0));
        let config = Config { backend: Backend::Epoll, ..Config::new(1) };
        let ended = runtime::run(config, move |_| {
            let what = what.clone();
            async move { one_thing(&what, rounds).await }
        });
        if let Err(error) = ended {
            println!("{error}");
        }
        return;
    }
    for backend in [Backend::IoUring, Backend::Epoll] {
        println!("{backend:?}");
        let config = Config { backend, direct_io: DirectIo::Auto, ..Config::new(2) };
        let ended = runtime::run(config, |shard| async move {
            if shard == 0 {
                tasks().await;
                disk().await;
                echo(ROUNDS / 10).await;
            }
        });
        if let Err(error) = ended {
            println!("{error}");
        }
    }
}
