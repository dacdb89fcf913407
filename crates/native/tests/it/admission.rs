//! Clients that ask for more than a shard can do, in a simulated node: what is admitted, what
//! is shed, and who notices.

use native::{Limits, Server};
use std::rc::Rc;
use std::time::Duration;
use testkit::CqlEnv;
use testkit::bare::opcode::*;
use testkit::bare::*;

const SELECT: &str = "SELECT v FROM ks.t WHERE k = 1";

fn run<F, Fut>(body: F)
where
    F: FnOnce(CqlEnv) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    CqlEnv::run(7, 1, body);
}

async fn at_rest(server: &Server) {
    for _ in 0..100 {
        let counters = server.admission_counters();
        if counters.requests_in_flight == 0 && counters.memory_bytes == 0 {
            return;
        }
        runtime::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("charges are left: {:?}", server.admission_counters());
}

#[test]
fn a_flood_of_pipelined_requests_is_answered_once_each() {
    run(|env| async move {
        let (server, port) = serve(&env, Limits::of_shard(64 << 20), 100).await;
        let mut client = Client::connect(port).await;
        let flood: Vec<u8> = (0..10_000).flat_map(|n| query(n, SELECT)).collect();
        let sender = runtime::task::Scope::new();
        let (stream, input) = (Rc::new(client.stream), client.input);
        let sending = stream.clone();
        sender.spawn(async move {
            let _ = sending.write_all(flood).await;
        });
        // While that is on its way others are served.
        let mut other = Client::connect(port).await;
        assert_eq!(other.ask(query(3, SELECT)).await.opcode, RESULT);
        sender.join().await;
        client = Client { stream: Rc::try_unwrap(stream).expect("ours"), input };
        let answers = client.answers(10_000).await;
        let mut streams: Vec<i16> = answers.iter().map(|answer| answer.stream).collect();
        streams.sort();
        assert_eq!(streams, (0..10_000).collect::<Vec<i16>>(), "*answered-once*");
        assert!(answers.iter().all(|answer| answer.opcode == RESULT), "a flood is no overload");
        at_rest(&server).await;
        let counters = server.admission_counters();
        assert_eq!((counters.requests_admitted, counters.requests_shed), (10_001, 0));
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn a_client_that_does_not_read_stalls_only_itself() {
    run(|env| async move {
        let limits = Limits::of_shard(20 << 20);
        let (server, port) = serve(&env, limits, 50_000).await;
        let mut lazy = Client::connect(port).await;
        let flood: Vec<u8> = (0..2000).flat_map(|n| query(n, SELECT)).collect();
        lazy.send(flood).await;
        let mut other = Client::connect(port).await;
        for n in 0..200 {
            assert_eq!(other.ask(query(n, SELECT)).await.opcode, RESULT, "the others go on");
            let counters = server.admission_counters();
            assert!(counters.memory_bytes < 2 * counters.memory_bytes_max, "{counters:?}");
        }
        runtime::time::sleep(Duration::from_secs(3)).await;
        let held = server.admission_counters().memory_bytes;
        assert!(held <= limits.memory_bytes as u64, "{held} are held");
        // When it reads at last, it gets an answer to everything.
        let answers = lazy.answers(2000).await;
        let allowed = |answer: &Answer| answer.opcode == RESULT || answer.error == Some(OVERLOADED);
        assert!(answers.iter().all(allowed));
        assert!(answers.iter().any(|answer| answer.opcode == RESULT));
        at_rest(&server).await;
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn clients_that_do_not_read_take_neither_memory_nor_turns_from_others() {
    run(|env| async move {
        let limits = Limits::of_shard(20 << 20);
        let (server, port) = serve(&env, limits, 50_000).await;
        let small = "SELECT k FROM ks.t WHERE k = 1";
        let mut other = Client::connect(port).await;
        assert_eq!(other.ask(query(1, small)).await.opcode, RESULT);
        let mut lazy = Vec::new();
        for _ in 0..100 {
            let client = Client::connect(port).await;
            client.send((0..50).flat_map(|n| query(n, SELECT)).collect()).await;
            lazy.push(client);
        }
        let began = runtime::time::Instant::now();
        for _ in 0..3000 {
            assert_eq!(other.ask(query(1, small)).await.opcode, RESULT, "the others go on");
            let counters = server.admission_counters();
            assert!(counters.memory_bytes < 3 * counters.memory_bytes_max, "{counters:?}");
        }
        let taken = runtime::time::Instant::now() - began;
        assert!(taken < Duration::from_secs(5), "{taken:?}: nobody had to be ended for it");
        runtime::time::sleep(Duration::from_secs(120)).await;
        let counters = server.admission_counters();
        assert!(0 < counters.connections_stuck, "{counters:?}");
        assert!(counters.memory_bytes <= counters.memory_bytes_max, "{counters:?}");
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn answers_that_turn_out_large_take_no_more_memory_than_there_is() {
    run(|env| async move {
        let limits = Limits::of_shard(20 << 20);
        let (server, port) = serve(&env, limits, 100_000).await;
        let (small, large) = ("SELECT k FROM ks.t WHERE k = 1", "SELECT v FROM ks.t");
        let mut clients = Vec::new();
        for _ in 0..20 {
            // So many small answers, and a client may run many requests at a time.
            let mut client = Client::connect(port).await;
            client.send((0..2000).flat_map(|n| query(n, small)).collect()).await;
            client.answers(2000).await;
            client.send((0..1000).flat_map(|n| query(n, large)).collect()).await;
            clients.push(client);
        }
        let mut other = Client::connect(port).await;
        for _ in 0..100 {
            assert_eq!(other.ask(query(1, small)).await.opcode, RESULT, "the others go on");
            runtime::time::sleep(Duration::from_millis(10)).await;
            let counters = server.admission_counters();
            assert!(counters.memory_bytes < 2 * counters.memory_bytes_max, "{counters:?}");
        }
        // Whoever reads gets all that it asked for.
        let answers = clients[0].answers(1000).await;
        assert!(answers.iter().all(|answer| answer.opcode == RESULT));
        drop(clients);
        at_rest(&server).await;
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn a_client_that_never_reads_is_ended_when_memory_is_short() {
    run(|env| async move {
        let limits = Limits { memory_bytes: 400_000, ..Limits::of_shard(20 << 20) };
        let (server, port) = serve(&env, limits, 5_000).await;
        let mut lazy = Vec::new();
        for _ in 0..8 {
            let client = Client::connect(port).await;
            client.send((0..100).flat_map(|n| query(n, SELECT)).collect()).await;
            lazy.push(client);
        }
        let mut other = Client::connect(port).await;
        assert_eq!(other.ask(query(1, SELECT)).await.opcode, RESULT);
        runtime::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(other.ask(query(2, SELECT)).await.opcode, RESULT);
        let counters = server.admission_counters();
        assert!(0 < counters.connections_stuck, "{counters:?}");
        assert!(counters.memory_bytes <= counters.memory_bytes_max, "{counters:?}");
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn a_request_larger_than_the_shard_may_grant_is_refused_and_passed_over() {
    run(|env| async move {
        let limits = Limits { memory_bytes: 1 << 20, ..Limits::of_shard(10 << 20) };
        let (server, port) = serve(&env, limits, 10).await;
        let mut client = Client::connect(port).await;
        let mut bytes = frame(5, QUERY, &vec![0; 600_000]);
        bytes.extend(query(6, SELECT));
        client.send(bytes).await;
        let refused = Answer { stream: 5, opcode: ERROR, error: Some(INVALID) };
        assert_eq!(client.answer().await, Some(refused));
        let served = Answer { stream: 6, opcode: RESULT, error: None };
        assert_eq!(client.answer().await, Some(served), "what follows is served");
        assert_eq!(server.admission_counters().requests_too_large, 1);
        // What claims more than the protocol allows ends the connection.
        let mut header = frame(7, QUERY, &[]);
        header[5] = 0xff;
        assert_eq!(client.ask(header).await.error, Some(INVALID));
        assert_eq!(client.answer().await, None);
        at_rest(&server).await;
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn large_bodies_are_charged_before_they_are_read() {
    run(|env| async move {
        let limits = Limits { memory_bytes: 1 << 20, ..Limits::of_shard(10 << 20) };
        let (server, port) = serve(&env, limits, 10).await;
        // Clients that announce much and send little.
        let mut slow = Vec::new();
        for _ in 0..4 {
            let client = Client::connect(port).await;
            let mut bytes = frame(1, QUERY, &vec![0; 300_000]);
            bytes.truncate(1000);
            client.send(bytes).await;
            slow.push(client);
        }
        runtime::time::sleep(Duration::from_millis(100)).await;
        let counters = server.admission_counters();
        assert!(900_000 < counters.memory_bytes, "{counters:?}");
        assert!(counters.memory_bytes <= 1 << 20, "{counters:?}");
        // One of them is taken in; the others are shed, and can go on.
        runtime::time::sleep(Duration::from_secs(5)).await;
        let mut shed = 0;
        for mut client in slow {
            client.send(vec![0; 300_009 - 1000]).await;
            let answer = client.answer().await.expect("an answer");
            shed += usize::from(answer.error == Some(OVERLOADED));
            assert_eq!(client.ask(query(2, SELECT)).await.opcode, RESULT);
        }
        assert_eq!(shed, 3);
        at_rest(&server).await;
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn clients_that_send_too_much_get_overloaded_errors() {
    run(|env| async move {
        // Nothing can be admitted beside what a client that does not read has in flight.
        let limits = Limits {
            memory_bytes: 60_000,
            patience: Duration::from_millis(200),
            ..Limits::of_shard(10 << 20)
        };
        let (server, port) = serve(&env, limits, 10).await;
        let busy = Client::connect(port).await;
        let mut announced = frame(1, QUERY, &[]);
        announced[5..9].copy_from_slice(&19_000u32.to_be_bytes());
        announced.extend([0; 100]);
        busy.send(announced).await;
        let mut client = Client::connect(port).await;
        client.send((0..5000).flat_map(|n| query(n, SELECT)).collect()).await;
        let answers = client.answers(5000).await;
        let shed = answers.iter().filter(|answer| answer.error == Some(OVERLOADED)).count();
        let served = answers.iter().filter(|answer| answer.opcode == RESULT).count();
        assert_eq!(shed + served, 5000);
        // Heartbeats are answered whatever happens.
        assert_eq!(client.ask(frame(9, OPTIONS, &[])).await.opcode, SUPPORTED);
        assert_eq!(server.admission_counters().requests_shed, shed as u64);
        server.stop(Duration::from_secs(1)).await;
    });
}

/// *one-looks*: requests that wait for memory are not woken for each that ends.
#[test]
fn requests_that_wait_to_read_do_not_wake_each_other() {
    run(|env| async move {
        let (server, port) = serve(&env, Limits::of_shard(20 << 20), 100).await;
        env.flush().await;
        let mut client = Client::connect(port).await;
        let from_disk = "SELECT v FROM ks.t WHERE k = 1 BYPASS CACHE";
        assert_eq!(client.ask(query(1, from_disk)).await.opcode, RESULT);
        let polls = || runtime::group::all_stats().iter().map(|(_, one)| one.polls).sum::<u64>();
        let before = polls();
        // Of these about sixteen may read at a time.
        client.send((0..1000).flat_map(|n| query(n, from_disk)).collect()).await;
        let answers = client.answers(1000).await;
        assert!(answers.iter().all(|answer| answer.opcode == RESULT));
        let polls = polls() - before;
        assert!(polls < 20_000, "{polls} polls for 1000 requests");
        server.stop(Duration::from_secs(1)).await;
    });
}
