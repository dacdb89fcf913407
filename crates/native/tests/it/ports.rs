//! The ways into a simulated node: ports behind proxies, and the maintenance socket.

use native::{Limits, Ports, Server, Socket};
use runtime::net::TcpStream;
use runtime::time::{Instant, timeout};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use testkit::CqlEnv;
use testkit::bare::{HERE, config, free_port, startup};

const PATIENCE: Duration = Duration::from_secs(5);
const HEADER: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\x30\x39\x23\x52";
const CLIENT: &str = "203.0.113.7:12345";

/// A server on a free port, for clients or for proxies.
async fn serve(ports: fn(Ports) -> (Ports, Ports)) -> (Rc<Server>, SocketAddr) {
    let (direct, proxied) = ports(free_port());
    let server = Server::start(config(direct, proxied, Limits::of_shard(64 << 20)));
    let bound = server.listen().await.expect("a port");
    let (address, kind) = bound.kinds().next().expect("a port");
    assert_eq!(kind.proxied, bound.proxied.plain.is_some());
    (server, SocketAddr::new(HERE, address.port()))
}

/// The opcode of the answer to STARTUP; `None`: the connection ended.
async fn start(stream: &TcpStream) -> Option<u8> {
    let _ = stream.write_all(startup()).await;
    let mut answer = Vec::new();
    while answer.len() < 9 {
        let (read, buf) = stream.read(answer).await;
        answer = buf;
        if !matches!(read, Ok(1..)) {
            return None;
        }
    }
    Some(answer[4])
}

fn run<F, Fut>(body: F)
where
    F: Fn(CqlEnv) -> Fut + Copy + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for seed in 0..4 {
        CqlEnv::run(seed, 1, body);
    }
}

#[test]
fn a_client_is_where_its_proxy_says() {
    run(|_| async {
        let (server, port) = serve(|ports| (Ports::default(), ports)).await;
        let proxy = TcpStream::connect(port).await.expect("a connection");
        let (head, tail) = HEADER.split_at(13);
        proxy.write_all(head.to_vec()).await.0.expect("a half");
        proxy.write_all(tail.to_vec()).await.0.expect("the other half");
        assert_eq!(start(&proxy).await, Some(2));
        let clients = server.clients();
        assert_eq!(clients[0].address.to_string(), CLIENT);
        assert_eq!((clients.len(), server.connections_total()), (1, 1));
        server.stop(PATIENCE).await;
    });
}

#[test]
fn connections_without_a_header_are_closed() {
    run(|_| async {
        let (server, port) = serve(|ports| (Ports::default(), ports)).await;
        // A client that knows nothing of proxies.
        let direct = TcpStream::connect(port).await.expect("a connection");
        assert_eq!(start(&direct).await, None);
        // One that begins and does not go on.
        let slow = TcpStream::connect(port).await.expect("a connection");
        slow.write_all(HEADER[..20].to_vec()).await.0.expect("a half");
        let since = Instant::now();
        let (read, _) = slow.read(Vec::new()).await;
        assert!(!matches!(read, Ok(1..)), "{read:?}");
        let taken = Instant::now() - since;
        assert!((28..=32).contains(&taken.as_secs()), "{taken:?}");
        assert_eq!(server.admission_counters().unauthenticated_ended, 1);
        // One whose header is late has the rest of the time.
        let late = TcpStream::connect(port).await.expect("a connection");
        runtime::time::sleep(Duration::from_secs(20)).await;
        late.write_all(HEADER.to_vec()).await.0.expect("a header");
        let since = Instant::now();
        let (read, _) = late.read(Vec::new()).await;
        assert!(!matches!(read, Ok(1..)), "{read:?}");
        let taken = Instant::now() - since;
        assert!((8..=12).contains(&taken.as_secs()), "{taken:?}");
        server.stop(PATIENCE).await;
    });
}

#[test]
fn a_stop_does_not_wait_for_headers() {
    run(|_| async {
        let (server, port) = serve(|ports| (Ports::default(), ports)).await;
        let silent = TcpStream::connect(port).await.expect("a connection");
        runtime::time::sleep(Duration::from_secs(1)).await;
        let stopped = timeout(Duration::from_secs(2), server.stop(PATIENCE)).await;
        assert!(stopped.is_ok(), "it waits for {silent:?}");
    });
}

#[test]
fn what_shuts_clients_out_leaves_the_maintenance_socket() {
    run(|_| async {
        let (server, port) = serve(|ports| (ports, Ports::default())).await;
        let socket = Socket { path: "/run/cql.m".into(), group: None };
        server.open_maintenance(&socket).await.expect("a socket");
        let client = TcpStream::connect(port).await.expect("a connection");
        assert_eq!(start(&client).await, Some(2));
        let operator = TcpStream::connect_unix(&socket.path).await.expect("a connection");
        assert_eq!(start(&operator).await, Some(2));
        // Who has no address is not shown by one.
        assert_eq!(server.clients().len(), 1);
        server.close(PATIENCE).await;
        assert!(server.clients().is_empty());
        assert!(TcpStream::connect(port).await.is_err());
        let other = TcpStream::connect_unix(&socket.path).await.expect("a connection");
        assert_eq!(start(&other).await, Some(2));
        operator.write_all(startup()).await.0.expect("it is open");
        server.stop(PATIENCE).await;
        assert!(TcpStream::connect_unix(Path::new("/run/cql.m")).await.is_err());
    });
}
