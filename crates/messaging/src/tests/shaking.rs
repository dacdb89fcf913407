//! Who is refused, and what both ends say of it.

use super::world::{BEAT, ECHO, Net, question, small};
use crate::config::{Config, Planted};
use crate::error::{CallError, Down, NotSent, Refusal};
use crate::{HostId, Payload, PeerState, Reached, Target};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// What a call of the first node to the second one ends with.
fn called(net: &mut Net) -> Result<Vec<u8>, CallError> {
    net.on(0, 0, |messaging| async move {
        messaging.call(Target::control(Net::host(1)), BEAT, Payload::empty(), SECOND).await
    })
}

fn down(called: Result<Vec<u8>, CallError>) -> Down {
    match called {
        Err(CallError::NeverSent(NotSent::Down(down))) => down,
        other => panic!("not refused: {other:?}"),
    }
}

/// What the log of a node says.
fn lines(net: &mut Net, node: usize) -> Vec<String> {
    net.on(node, 0, |messaging| async move { messaging.lines() })
}

#[test]
fn a_node_of_another_cluster_is_refused_with_both_names() {
    let configure = |host, life| Config {
        cluster: if host == 1 { "one" } else { "other" }.to_string(),
        ..small(host, life, None)
    };
    let mut net = Net::new(21, &[1, 2], 0, configure);
    let Down::RefusedByPeer(refused) = down(called(&mut net)) else { panic!("by the peer") };
    assert_eq!(refused.why, Refusal::Cluster);
    let text = "node 00000000-0000-0000-0000-000000000001 is of cluster \"one\", this one is of \
                \"other\"";
    assert_eq!(refused.text, text);
    let theirs = lines(&mut net, 1);
    let [line] = &theirs[..] else { panic!("{theirs:?}") };
    let names = "node 00000000-0000-0000-0000-000000000001 at 10.0.0.0";
    assert_eq!(*line, format!("{names} is refused: {text}"));
    let ours = "node 00000000-0000-0000-0000-000000000002 at 10.0.0.1:7000 refuses this node: ";
    // It tries again and again, and says so once.
    net.world.run_for(3 * SECOND);
    assert_eq!(lines(&mut net, 0), [format!("{ours}{text}")]);
    let counters = net.on(1, 0, |messaging| async move { messaging.counters() });
    assert!(1 < counters.refused && counters.accepted == 0, "{counters:?}");
}

#[test]
fn another_node_at_an_address_and_oneself_are_refused() {
    let mut net = Net::new(22, &[1, 2], 0, |host, life| small(host, life, None));
    let (ours, theirs) = (net.address(0), net.address(1));
    let (wrong, oneself, reached) = net.on(0, 0, move |messaging| async move {
        messaging.set_peer(HostId(7), theirs);
        let to = Target::control(HostId(7));
        let wrong = messaging.call(to, BEAT, Payload::empty(), SECOND).await;
        (wrong, messaging.reach(ours).await, messaging.reach(theirs).await)
    });
    let Down::RefusedByPeer(refused) = down(wrong) else { panic!("by the peer") };
    assert_eq!(refused.why, Refusal::WrongHost);
    assert!(refused.text.contains("0007 was expected") && refused.text.contains("0002 is there"));
    let Err(Down::RefusedByPeer(refused)) = oneself else { panic!("{oneself:?}") };
    assert_eq!(refused.why, Refusal::Oneself);
    assert_eq!(reached, Ok(Reached { host: HostId(2), life: 1, shards: 2 }));
    // Who only asks who is there takes no place.
    called(&mut net).expect("an answer");
    let before = net.on(1, 0, |messaging| async move { messaging.peers() });
    let again = net.on(0, 0, move |messaging| async move { messaging.reach(theirs).await });
    assert!(again.is_ok());
    net.world.run_for(Duration::from_millis(100));
    assert_eq!(net.on(1, 0, |messaging| async move { messaging.peers() }), before);
}

#[test]
fn two_nodes_of_one_host_id_are_told_of() {
    let configure =
        |host: u128, life| small(if host == 3 { 1 } else { host }, life + host as u64, None);
    let mut net = Net::new(27, &[1, 1, 1], 0, configure);
    for node in [0, 2] {
        let _ = net.on(node, 0, |messaging| async move {
            messaging.call(Target::control(Net::host(1)), BEAT, Payload::empty(), SECOND).await
        });
    }
    let told = lines(&mut net, 1);
    let line =
        "two nodes say that they are node 00000000-0000-0000-0000-000000000001: at 10.0.0.0:";
    assert!(
        told.iter().any(|it| it.starts_with(line) && it.contains(" and at 10.0.0.2:")),
        "{told:?}"
    );
}

#[test]
fn nobody_listens_and_then_somebody_does() {
    let mut net = Net::new(23, &[1, 2], 0, |host, life| small(host, life, None));
    net.world.crash(net.nodes[1]);
    let Down::Net(what) = down(called(&mut net)) else { panic!("nobody refuses") };
    assert!(what.contains("refused"), "{what}");
    // Nobody waits for a node that was not reached.
    assert!(matches!(down(called(&mut net)), Down::Net(_)));
    net.world.set_shards(net.nodes[1], 1);
    net.start(1);
    net.check_healed(SECOND);
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
    let lives = net.on(0, 0, |messaging| async move { messaging.peers() });
    let is_new = |peer: &crate::Peer| matches!(peer.state, PeerState::Up { life: 2, .. });
    assert!(lives.iter().any(is_new), "{lives:?}");
}

#[test]
fn a_node_that_comes_back_is_dialed_at_once() {
    const WAIT: Duration = Duration::from_secs(60);
    let configure =
        |host, life| Config { backoff_min: WAIT, backoff_max: WAIT, ..small(host, life, None) };
    let mut net = Net::new(28, &[3, 3], 0, configure);
    net.world.crash(net.nodes[1]);
    for shard in 0..3 {
        let called = net.on(0, shard, |messaging| async move {
            messaging.call(Target::control(Net::host(1)), BEAT, Payload::empty(), SECOND).await
        });
        assert!(matches!(down(called), Down::Net(_)));
    }
    net.world.run_for(SECOND);
    net.start(1);
    let heard = net.on(1, 0, |messaging| async move {
        messaging.call(Target::control(Net::host(0)), BEAT, Payload::empty(), SECOND).await
    });
    assert_eq!(heard, Ok(Vec::new()));
    net.world.run_for(Duration::from_millis(100));
    for shard in 0..3 {
        let peers = net.on(0, shard, |messaging| async move { messaging.peers() });
        let dialed = peers.into_iter().find(|peer| peer.dialed).expect("it was dialed");
        assert!(matches!(dialed.state, PeerState::Up { life: 2, .. }), "{shard}: {dialed:?}");
    }
}

fn bans(planted: Option<Planted>) -> bool {
    let mut net = Net::new(24, &[2, 2], 0, move |host, life| small(host, life, planted));
    called(&mut net).expect("an answer");
    net.on(1, 1, |messaging| async move { messaging.ban(Net::host(0)).await });
    net.world.run_for(Duration::from_millis(300));
    let Err(CallError::NeverSent(NotSent::Down(down))) = called(&mut net) else { return false };
    let Down::RefusedByPeer(refused) = down else { panic!("{down}") };
    assert_eq!(refused.why, Refusal::Banned);
    // The other way nothing is sent at all.
    let answer = net.on(1, 0, |messaging| async move {
        messaging.call(Target::control(Net::host(0)), BEAT, Payload::empty(), SECOND).await
    });
    assert_eq!(answer, Err(CallError::NeverSent(NotSent::Down(Down::Banned))));
    true
}

#[test]
fn a_banned_node_is_cut_off_and_stays_so() {
    assert!(bans(None));
    assert!(!bans(Some(Planted::KeepsBanned)), "the planted mistake is not seen");
}

#[test]
fn a_changed_frame_ends_its_connection_only() {
    let mut net = Net::new(25, &[1, 1], 0, |host, life| small(host, life, None));
    net.model.corrupts.set(true);
    called(&mut net).expect("an answer");
    let (one, other) = (net.nodes[0], net.nodes[1]);
    net.world.corrupt_next(one, other);
    let lost = net.on(0, 0, |messaging| async move {
        let to = Target::control(Net::host(1));
        messaging.call(to, ECHO, question(1, 0, 0, 500), SECOND).await
    });
    let Err(CallError::OutcomeUnknown(crate::Lost::Broken(down))) = lost else {
        panic!("{lost:?}")
    };
    let Down::RefusedByPeer(refused) = down else { panic!("{down}") };
    assert_eq!(refused.why, Refusal::Damaged);
    assert!(refused.text.contains("wrong checksum"), "{refused}");
    assert_eq!(net.model.handled(1), 0);
    let theirs = lines(&mut net, 1);
    let names = "node 00000000-0000-0000-0000-000000000001 at 10.0.0.0:";
    let is_told = |line: &String| line.starts_with(names) && line.contains(&refused.text);
    assert!(theirs.iter().any(is_told), "{theirs:?}");
    net.check_healed(SECOND);
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
}

/// What a node says to somebody who sends these bytes.
fn told(bytes: Vec<u8>) -> Vec<u8> {
    let mut net = Net::new(26, &[1, 1], 0, |host, life| small(host, life, None));
    let address: SocketAddr = net.address(1);
    let said = net.on(0, 0, move |_| async move {
        let tcp = runtime::net::TcpStream::connect(address).await.expect("a connection");
        tcp.write_all(bytes).await.0.expect("it is sent");
        let mut said = Vec::new();
        while let (Ok(1..), more) = tcp.read(Vec::new()).await {
            said.extend(more);
        }
        said
    });
    called(&mut net).expect("it goes on");
    said
}

#[test]
fn strangers_are_let_go() {
    use crate::hello::{PREFIX_BYTES, Preamble, Tls, decode_answer, decode_prefix};
    assert_eq!(told(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()), b"");
    let preamble =
        Preamble { oldest: 1, newest: 2, shard: 9, class: crate::Class::Bulk, tls: Tls::None };
    let answer = |preamble: Preamble| {
        let said = told(preamble.encode());
        let (length, crc) = decode_prefix(&said).expect("a prefix");
        decode_answer(crc, &said[PREFIX_BYTES..PREFIX_BYTES + length]).expect("an answer")
    };
    // Who says nothing more is let go after a second.
    assert_eq!(answer(preamble), Ok(2));
    let refused = answer(Preamble { oldest: 7, newest: 9, ..preamble }).expect_err("newer");
    assert_eq!(refused.why, Refusal::Version);
    let refused = answer(Preamble { tls: Tls::Follows, ..preamble }).expect_err("it has no TLS");
    assert_eq!(refused.why, Refusal::NoTls);
}
