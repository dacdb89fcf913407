use super::*;
use runtime::net::{ListenOptions, TcpListener};
use runtime::sim::{NodeId, Options, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const NODE: NodeId = NodeId(0);
const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 10000);
const WITHIN: Duration = Duration::from_secs(5);

/// What a client gets of a server that answers the requests of all connections with these bytes,
/// one after the other, and ends a connection after each where it is told to; and what it saw.
struct Served {
    replies: Vec<Result<Reply, String>>,
    requests: Vec<String>,
    connections: usize,
}

fn ask(requests: Vec<Request>, answers: &[&[u8]], end: bool) -> Served {
    let mut world = World::new(Options::new(3));
    assert_eq!(world.add_node(1), NODE);
    let answers: Vec<Vec<u8>> = answers.iter().map(|answer| answer.to_vec()).collect();
    world.block_on(NODE, 0, async move {
        let options = ListenOptions { reuse_port: false, backlog: 1 };
        let listener = TcpListener::bind(PEER.into(), options).expect("a free port");
        let (seen, connections) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let (told, counted) = (seen.clone(), connections.clone());
        let serve = async move {
            let (mut answers, mut ended) = (answers.into_iter(), Vec::new());
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                counted.set(counted.get() + 1);
                while let Some(request) = read_request(&stream).await {
                    told.borrow_mut().push(request);
                    let Some(answer) = answers.next() else { std::future::pending().await };
                    let _ = stream.write_all(answer).await; // The peer may have enough.
                    if end {
                        let _ = stream.shutdown(); // The peer may be gone.
                        ended.push(stream); // Nothing is lost by a reset.
                        break;
                    }
                }
            }
        };
        let asked = async {
            let (mut client, mut replies) = (Client::new(PEER.into()), Vec::new());
            for request in &requests {
                replies.push(client.send(request, WITHIN).await);
            }
            replies
        };
        let replies = match race(asked, serve).await {
            Either::Left(replies) => replies,
            Either::Right(never) => never,
        };
        Served { replies, requests: seen.take(), connections: connections.get() }
    })
}

/// A request with a body that ends in a brace, or none; `None`: the peer has ended.
async fn read_request(stream: &TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let (read, more) = stream.read(bytes).await;
        bytes = more;
        read.ok().filter(|count| *count != 0)?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        if !head.is_empty() && (!head.contains("content-length") || body.ends_with('}')) {
            return Some(text.into_owned());
        }
    }
}

fn get(path: &str) -> Request {
    Request::new(Method::Get, path)
}

fn reply(status: u16, body: &str) -> Result<Reply, String> {
    Ok(Reply { status, body: body.as_bytes().to_vec(), server: None, notice: None })
}

#[test]
fn requests_are_written_as_they_are_meant() {
    let check = |request: Request, expected: &str| assert_eq!(request.to_string(), expected);
    let start = |method| Request::new(method, "/a");
    check(start(Method::Get), "GET /a");
    check(start(Method::Post).part("ks:t").with("cf", "a,b"), "POST /a/ks:t?cf=a%2Cb");
    check(start(Method::Put).with("a", "").with("b", "1 +&=%"), "PUT /a?a=&b=1%20%2B%26%3D%25");
    check(
        start(Method::Delete).part("../x?y#z/").part("\u{fc}"),
        "DELETE /a/..%2Fx%3Fy%23z%2F/%C3%BC",
    );
    check(Request::new(Method::Get, "/a/").part("b"), "GET /a/b");
}

#[test]
fn a_connection_is_kept() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n[1]";
    const REFUSED: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let posted = Request::new(Method::Post, "/b").with("x", "y").json("{}".to_string());
    let served = ask(vec![get("/a"), posted, get("/c")], &[ANSWER, REFUSED, ANSWER], false);
    assert_eq!(served.replies, [reply(200, "[1]"), reply(404, ""), reply(200, "[1]")]);
    assert_eq!(served.connections, 1);
    assert_eq!(served.requests[0], "GET /a HTTP/1.1\r\nhost: 127.0.0.1:10000\r\n\r\n");
    assert!(served.requests[1].starts_with("POST /b?x=y HTTP/1.1\r\n"));
    assert!(served.requests[1].ends_with("content-length: 2\r\n\r\n{}"), "{}", served.requests[1]);
}

#[test]
fn one_that_was_closed_is_made_again() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let served = ask(vec![get("/a"), get("/b")], &[ANSWER, ANSWER], true);
    assert_eq!(served.replies, [reply(200, ""), reply(200, "")]);
    assert_eq!(served.connections, 2);
}

#[test]
fn answers_are_bounded() {
    let mut long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", ANSWER_BYTES_MAX + 1);
    long.extend(std::iter::repeat_n('x', ANSWER_BYTES_MAX + 1));
    let served = ask(vec![get("/x")], &[long.as_bytes()], true);
    let error = served.replies[0].clone().expect_err("an answer that is too long");
    assert!(error.contains("length limit"), "{error}");
}

#[test]
fn waiting_is_bounded() {
    let served = ask(vec![get("/x")], &[], false);
    let error = "GET /x of 127.0.0.1:10000: no answer within 5s";
    assert_eq!(served.replies, [Err(error.to_string())]);
}

#[test]
fn what_is_no_answer_is_told_with_the_address() {
    let check = |answers: &'static [&'static [u8]], part: &str| {
        let served = ask(vec![get("/x")], answers, true);
        let error = served.replies[0].clone().expect_err(part);
        assert!(error.contains("GET /x of 127.0.0.1:10000: ") && error.contains(part), "{error}");
    };
    check(&[b""], "connection closed");
    check(&[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"], "reading a body");
    check(&[b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], "invalid HTTP");
}

#[test]
fn who_does_not_listen_is_named() {
    let mut world = World::new(Options::new(3));
    assert_eq!(world.add_node(1), NODE);
    let reply =
        world.block_on(NODE, 0, async { Client::new(PEER.into()).send(&get("/"), WITHIN).await });
    assert!(reply.is_err_and(|error| error.contains("connect 127.0.0.1:10000")));
}
