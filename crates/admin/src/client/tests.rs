use super::*;
use crate::call::{Answer, Call};
use crate::http;
use hyper::Method;
use runtime::net::{ListenOptions, TcpListener};
use runtime::sim::{NodeId, Options, World};

const NODE: NodeId = NodeId(0);
const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 10000);

/// What a client gets of somebody who does that with one connection.
fn ask(path: &'static str, serve: impl AsyncFn(TcpStream) + 'static) -> Result<Reply, String> {
    let mut world = World::new(Options::new(3));
    assert_eq!(world.add_node(1), NODE);
    world.block_on(NODE, 0, async move {
        let options = ListenOptions { reuse_port: false, backlog: 1 };
        let listener = TcpListener::bind(PEER.into(), options).expect("a free port");
        let served = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            serve(stream).await;
        };
        let (reply, ()) = runtime::task::join(get(PEER.into(), path), served).await;
        reply
    })
}

#[test]
fn answers_come_back_whole() {
    let check = |path: &'static str, asked: &'static [&str], status: u16, body: Vec<u8>| {
        let answer = Answer { status, content_type: "text/plain", body: body.clone() };
        let reply = ask(path, async move |stream| {
            let answer_to = |call: Call| {
                assert_eq!((call.method, call.path), (Method::GET, texts(asked)));
                std::future::ready(answer.clone())
            };
            http::serve(stream, answer_to).await;
        });
        assert!(reply == Ok(Reply { status, body }), "{path}");
    };
    check("/a/b?c=d", &["a", "b"], 200, b"[1]".to_vec());
    check("/", &[], 404, Vec::new());
    check("/long", &["long"], 200, vec![b'x'; 300_000]);
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn answers_are_bounded() {
    let body = vec![b'x'; ANSWER_BYTES_MAX + 1];
    let answer = Answer { status: 200, content_type: "text/plain", body };
    let reply = ask("/x", async move |stream| {
        http::serve(stream, |_| std::future::ready(answer.clone())).await;
    });
    let error = reply.expect_err("an answer that is too long");
    assert!(error.contains("length limit"), "{error}");
}

#[test]
fn what_is_no_answer_is_told_with_the_address() {
    let check = |bytes: &'static [u8], part: &str| {
        let reply = ask("/x", async move |stream: TcpStream| {
            let (read, _) = stream.read(Vec::new()).await;
            read.expect("a request");
            stream.write_all(bytes.to_vec()).await.0.expect("a peer that listens");
            stream.shutdown().expect("a connection");
            // Until the other side is closed: nothing is lost by a reset.
            while stream.read(Vec::new()).await.0.is_ok_and(|count| count != 0) {}
        });
        let error = reply.expect_err(part);
        assert!(error.contains("GET /x of 127.0.0.1:10000: ") && error.contains(part), "{error}");
    };
    check(b"", "connection closed");
    check(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "reading a body");
    check(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "invalid HTTP");
}

#[test]
fn who_does_not_listen_is_named() {
    let mut world = World::new(Options::new(3));
    assert_eq!(world.add_node(1), NODE);
    let reply = world.block_on(NODE, 0, async { get(PEER.into(), "/").await });
    assert!(reply.is_err_and(|error| error.contains("connect 127.0.0.1:10000")));
}
