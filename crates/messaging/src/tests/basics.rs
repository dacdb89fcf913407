//! One thing at a time: answers, errors, deadlines, cancellation, streams, a slow reader, a stop.

use super::world::{BEAT, ECHO, FEED, NOTE, Net, RIDDLE, SINK, bytes_of, drain, question, small};
use crate::config::Planted;
use crate::error::{Lost, NotSent};
use crate::{CallError, Class, Payload, StreamError, Target, ToShard};
use runtime::task::{Scope, race};
use runtime::time::{Instant, sleep};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn two(seed: u64, planted: Option<Planted>) -> Net {
    Net::new(seed, &[2, 3], 0, move |host, life| small(host, life, planted))
}

fn target(class: Class) -> Target {
    Target { host: Net::host(1), shard: ToShard::At(1), class }
}

#[test]
fn a_request_has_the_answer_of_its_handler() {
    let mut net = two(1, None);
    let answers = net.on(0, 1, |messaging| async move {
        let mut answers = Vec::new();
        let to = target(Class::Statements);
        for payload in [question(18, 3, 0, 9), question(17, 0, 0, 0)] {
            answers.push(messaging.call(to, ECHO, payload, SECOND).await);
        }
        answers.push(messaging.call(to, RIDDLE, Payload::empty(), SECOND).await);
        answers.push(messaging.call(to, FEED, question(1, 1, 0, 0), SECOND).await);
        let large = vec![0; 40 << 10];
        answers.push(messaging.call(to, ECHO, large.into(), SECOND).await);
        answers.push(messaging.call(to, ECHO, question(2, 40 << 10, 0, 0), SECOND).await);
        let nowhere = Target { host: crate::HostId(77), ..to };
        answers.push(messaging.call(nowhere, BEAT, Payload::empty(), SECOND).await);
        answers
    });
    let eighteen = [&18u64.to_be_bytes()[..], &[18, 18, 18]].concat();
    let too_large = NotSent::TooLarge { bytes: 40 << 10, max: 32 << 10 };
    assert_eq!(
        answers,
        [
            Ok(eighteen),
            Err(CallError::Failed(17u64.to_be_bytes().to_vec())),
            Err(CallError::UnknownVerb),
            Err(CallError::UnknownVerb),
            Err(CallError::NeverSent(too_large)),
            Err(CallError::ReplyTooLarge),
            Err(CallError::NeverSent(NotSent::Down(crate::Down::UnknownPeer))),
        ]
    );
    let counters = net.on(1, 1, |messaging| async move { messaging.counters() });
    let (_, _, echo) = counters.verbs.iter().find(|(verb, ..)| *verb == ECHO).expect("it came");
    assert_eq!((echo.received, echo.handling), (3, 0));
    let counters = net.on(0, 1, |messaging| async move { messaging.counters() });
    let (_, _, echo) = counters.verbs.iter().find(|(verb, ..)| *verb == ECHO).expect("it left");
    assert_eq!((echo.sent, echo.failed, echo.queued, echo.in_flight), (3, 3, 0, 0));
}

#[test]
fn shards_are_reached_by_their_numbers() {
    let mut net = two(2, None);
    let peers = net.on(0, 1, |messaging| async move {
        for shard in [ToShard::Same, ToShard::At(4), ToShard::At(1), ToShard::At(2)] {
            let to = Target { shard, ..target(Class::Control) };
            messaging.call(to, BEAT, Payload::empty(), SECOND).await.expect("an answer");
        }
        messaging.peers()
    });
    // 4 modulo 3 is 1: *one-a-pair*.
    let shards: Vec<u16> = peers.iter().map(|peer| peer.shard).collect();
    assert_eq!(shards, [1, 2]);
    for (shard, count) in [(0, 0), (1, 1), (2, 1)] {
        let accepted = net.on(1, shard, |messaging| async move { messaging.peers() });
        assert_eq!(accepted.len(), count, "shard {shard}");
        assert!(accepted.iter().all(|peer| peer.shard == 1 && !peer.dialed));
    }
}

#[test]
fn a_deadline_travels_and_ends_what_is_done() {
    let mut net = two(3, None);
    let (error, took) = net.on(0, 0, |messaging| async move {
        let began = Instant::now();
        let slow = question(1, 0, 5_000_000, 0);
        let time = Duration::from_millis(40);
        let answer = messaging.call(target(Class::Statements), ECHO, slow, time).await;
        (answer.expect_err("it takes five seconds"), began.elapsed())
    });
    assert_eq!(error, CallError::OutcomeUnknown(Lost::TooLate));
    assert!(took < Duration::from_millis(60), "{took:?}");
    assert_eq!(net.model.handled(1), 1);
    net.world.run_for(Duration::from_millis(60));
    assert_eq!(net.model.dropped.get(), 1, "the handler has ended with the time of its caller");
    let counters = net.on(0, 0, |messaging| async move { messaging.counters() });
    assert_eq!(counters.verbs[0].2.timed_out, 1);
    net.check_quiet();
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
}

/// Whether the handler ends soon after its caller is gone.
fn cancels(planted: Option<Planted>) -> bool {
    let mut net = two(4, planted);
    net.on(0, 0, |messaging| async move {
        let slow = question(1, 0, 5_000_000, 0);
        let calling = messaging.call(target(Class::Statements), ECHO, slow, 9 * SECOND);
        let _ = race(calling, sleep(Duration::from_millis(50))).await;
        assert_eq!(messaging.counters().verbs[0].2.cancelled, 1);
    });
    net.world.run_for(Duration::from_millis(60));
    assert_eq!(net.model.handled(1), 1);
    let ended = net.model.dropped.get() == 1;
    if ended {
        net.check_quiet();
        assert_eq!(net.model.violations.take(), Vec::<String>::new());
    }
    ended
}

#[test]
fn a_dropped_call_ends_what_is_done_for_it() {
    assert!(cancels(None));
    assert!(!cancels(Some(Planted::CancelsAlone)), "the planted mistake is not seen");
}

#[test]
fn who_finds_no_room_waits_and_then_is_never_sent() {
    let mut net = two(5, None);
    let (late, handled) = net.on(0, 0, |messaging| async move {
        let scope = Scope::new();
        // As many as the window takes.
        for number in 1..=6 {
            let messaging = messaging.clone();
            scope.spawn(async move {
                let slow = question(number, 0, 300_000, 0);
                messaging.call(target(Class::Statements), ECHO, slow, SECOND).await
            });
        }
        sleep(Duration::from_millis(100)).await;
        let time = Duration::from_millis(50);
        let quick = question(7, 0, 0, 0);
        let late = messaging.call(target(Class::Statements), ECHO, quick, time).await;
        let quick = question(8, 0, 0, 0);
        let waits = messaging.call(target(Class::Statements), ECHO, quick, SECOND).await;
        scope.join().await;
        (late, waits.is_ok())
    });
    assert_eq!(late, Err(CallError::NeverSent(NotSent::TooLate)));
    assert!(handled);
    assert_eq!((net.model.handled(7), net.model.handled(8)), (0, 1));
}

#[test]
fn a_stream_is_sent_no_faster_than_it_is_read() {
    let mut net = two(6, None);
    let (ahead, answer) = net.on(0, 0, |messaging| async move {
        let model = std::rc::Rc::new(super::world::Model::default());
        // The handler reads a piece in 20 ms.
        let about = question(5, 0, 20_000, 0);
        let stream = messaging.open(target(Class::Bulk), SINK, about, SECOND).await;
        let stream = stream.expect("a stream");
        let began = Instant::now();
        let mut sent = 0;
        while began.elapsed() < Duration::from_millis(200) {
            let bytes = bytes_of(5, sent, 500);
            let sending = stream.send(&bytes);
            match runtime::time::timeout(Duration::from_millis(100), sending).await {
                Ok(done) => done.expect("it is sent"),
                Err(_) => break,
            }
            sent += 500;
        }
        stream.fail(b"enough");
        // The other way it is the same.
        let feed =
            messaging.open(target(Class::Bulk), FEED, question(9, 9_000, 0, 0), SECOND).await;
        let feed = feed.expect("a stream");
        feed.finish();
        (sent, drain(&model, 9, &feed, 100).await)
    });
    // Ten pieces were read, and two windows are on their way at most.
    assert!(ahead <= 10 * 2_048 + 2 * 2_048, "{ahead} bytes");
    assert_eq!(answer, Ok(9_000));
    net.check_quiet();
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
}

#[test]
fn either_end_of_a_stream_may_fail() {
    let mut net = two(7, None);
    let (unknown, failed, ended) = net.on(0, 0, |messaging| async move {
        let to = target(Class::Bulk);
        let stream = messaging.open(to, RIDDLE, Payload::empty(), SECOND).await.expect("a stream");
        let unknown = stream.recv().await;
        // Its handler reads to an end that comes by a failure.
        let stream =
            messaging.open(to, SINK, question(3, 0, 0, 0), SECOND).await.expect("a stream");
        stream.send(&bytes_of(3, 0, 100)).await.expect("it is sent");
        stream.fail(b"no more");
        let failed = (stream.recv().await, stream.send(b"x").await);
        let stream =
            messaging.open(to, FEED, question(4, 100, 0, 0), SECOND).await.expect("a stream");
        stream.finish();
        let ended = (stream.send(b"x").await, stream.recv().await, stream.recv().await);
        sleep(Duration::from_millis(20)).await;
        assert!(stream.is_over());
        (unknown, failed, ended)
    });
    assert_eq!(unknown, Err(StreamError::UnknownVerb));
    assert_eq!(failed, (Err(StreamError::Ended), Err(StreamError::Ended)));
    assert_eq!(ended, (Err(StreamError::Ended), Ok(Some(bytes_of(4, 0, 100))), Ok(None)));
    net.check_quiet();
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
}

#[test]
fn what_was_sent_before_the_end_is_read_though_nobody_reads_us() {
    let mut net = two(9, None);
    let (read, sent) = net.on(0, 0, |messaging| async move {
        let about = question(6, 1_500, 0, 0);
        let stream = messaging.open(target(Class::Bulk), FEED, about, SECOND).await;
        let stream = stream.expect("a stream");
        // The handler has ended before the first read, and reads nothing.
        sleep(Duration::from_millis(50)).await;
        let model = super::world::Model::default();
        (drain(&model, 6, &stream, 0).await, stream.send(b"x").await)
    });
    assert_eq!((read, sent), (Ok(1_500), Err(StreamError::Cancelled)));
    net.check_quiet();
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
}

#[test]
fn a_stop_does_not_wait_for_who_is_not_reached() {
    let configure =
        |host, life| crate::Config { connect_max: 30 * SECOND, ..small(host, life, None) };
    let mut net = Net::new(10, &[2, 3], 0, configure);
    let (one, other) = (net.nodes[0], net.nodes[1]);
    net.world.set_cut(one, other, true);
    let took = net.on(0, 0, |messaging| async move {
        for class in Class::ALL {
            let time = Duration::from_millis(20);
            let _ = messaging.call(target(class), BEAT, Payload::empty(), time).await;
        }
        let began = Instant::now();
        messaging.stop(SECOND).await;
        began.elapsed()
    });
    assert!(took < 2 * SECOND, "{took:?}");
}

#[test]
fn a_stop_lets_what_was_asked_be_answered_and_says_goodbye() {
    let mut net = two(8, None);
    let answered = net.on(0, 0, |messaging| async move {
        let scope = Scope::new();
        let asking = messaging.clone();
        let asked = scope.spawn(async move {
            let slow = question(1, 0, 50_000, 0);
            asking.call(target(Class::Statements), ECHO, slow, SECOND).await
        });
        let note = question(2, 0, 30_000, 0);
        messaging.send(target(Class::Control), NOTE, note, SECOND).await.expect("it is sent");
        sleep(Duration::from_millis(20)).await;
        messaging.stop(SECOND).await;
        let refused = messaging.call(target(Class::Control), BEAT, Payload::empty(), SECOND).await;
        let stopping = NotSent::Down(crate::Down::Stopping);
        assert_eq!(refused, Err(CallError::NeverSent(stopping)));
        asked.await
    });
    assert!(matches!(answered, Ok(Ok(_))), "{answered:?}");
    assert_eq!((net.model.handled(1), net.model.handled(2)), (1, 1));
    net.world.run_for(Duration::from_millis(50));
    let peers = net.on(1, 1, |messaging| async move { messaging.peers() });
    assert_eq!(peers, []);
}
