//! What rests save: a server that answers small messages, and a client whose processor gives out
//! first.
//!
//!   rests server ADDRESS NS rest|plain       each message costs it so many nanoseconds
//!   rests client ADDRESS NS CONNECTIONS DEPTH SECONDS
//!
//! The client keeps DEPTH messages under way on each connection and spends so many nanoseconds on
//! each answer. It prints answers per second and the mean time to an answer. What the server spent
//! its process knows.

use runtime::net::{ListenOptions, TcpListener, TcpStream};
use runtime::task::Scope;
use runtime::time::{Instant, sleep};
use runtime::{Config, run};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of a message and of its answer.
const MESSAGE: usize = 40;

fn work(ns: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_nanos(ns) {
        std::hint::spin_loop();
    }
}

async fn serve(stream: TcpStream, ns: u64) {
    let mut buf = Vec::with_capacity(64 << 10);
    loop {
        let (read, back) = stream.read(buf).await;
        buf = back;
        let Ok(1..) = read else { return };
        let whole = buf.len() / MESSAGE;
        work(ns * whole as u64);
        runtime::pace::came(whole as u64);
        let sent = stream.try_write(&buf[..whole * MESSAGE]).unwrap_or(0);
        if sent < whole * MESSAGE {
            let rest = buf[sent..whole * MESSAGE].to_vec();
            if stream.write_all(rest).await.0.is_err() {
                return;
            }
        }
        buf.drain(..whole * MESSAGE);
    }
}

async fn server(address: SocketAddr, ns: u64) {
    let options = ListenOptions { reuse_port: false, backlog: 16 };
    let listener = TcpListener::bind(address, options).expect("a free address");
    let scope = Scope::new();
    while let Ok((stream, _)) = listener.accept().await {
        scope.spawn(serve(stream, ns));
    }
}

async fn ask(address: SocketAddr, ns: u64, depth: usize, answers: Rc<Cell<u64>>) {
    let stream = TcpStream::connect(address).await.expect("the server");
    let mut buf = Vec::with_capacity(64 << 10);
    stream.write_all(vec![0; depth * MESSAGE]).await.0.expect("the server takes it");
    loop {
        let (read, back) = stream.read(buf).await;
        buf = back;
        let Ok(1..) = read else { return };
        let whole = buf.len() / MESSAGE;
        work(ns * whole as u64);
        answers.set(answers.get() + whole as u64);
        let sent = stream.try_write(&buf[..whole * MESSAGE]).unwrap_or(0);
        if sent < whole * MESSAGE {
            let rest = buf[sent..whole * MESSAGE].to_vec();
            if stream.write_all(rest).await.0.is_err() {
                return;
            }
        }
        buf.drain(..whole * MESSAGE);
    }
}

async fn client(address: SocketAddr, ns: u64, (connections, depth): (usize, usize), secs: u64) {
    let (scope, answers) = (Scope::new(), Rc::new(Cell::new(0)));
    for _ in 0..connections {
        scope.spawn(ask(address, ns, depth, answers.clone()));
    }
    sleep(Duration::from_millis(500)).await;
    let (before, begun) = (answers.get(), Instant::now());
    sleep(Duration::from_secs(secs)).await;
    let rate = (answers.get() - before) as f64 / begun.elapsed().as_secs_f64();
    let mean_us = (connections * depth) as f64 / rate * 1e6;
    println!("{rate:.0} answers/s, mean {mean_us:.0} us");
    scope.cancel().await;
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let address: SocketAddr = words[1].parse().expect("an address");
    let rest = Duration::from_micros(if words[3] == "rest" { 200 } else { 0 });
    let config = Config { idle_poll: Duration::ZERO, rest, ..Config::new(1) };
    let ns = number(2);
    let done = match words[0].as_str() {
        "server" => run(config, move |_| server(address, ns)),
        _ => {
            let shape = (number(3) as usize, number(4) as usize);
            let secs = number(5);
            run(config, move |_| client(address, ns, shape, secs))
        }
    };
    done.expect("the shard runs");
}
