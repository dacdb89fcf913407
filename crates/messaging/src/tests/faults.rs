//! Random schedules of everything that goes wrong between nodes; and mistakes that are planted, to
//! see that the checks would see them.

use super::world::{Net, Outcome, small};
use crate::config::{Config, Planted};
use std::time::Duration;
use stdx::Prng;

/// Seeds within which a planted mistake is to be seen.
const SEEDS: u64 = 60;

/// What a run has seen.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    violations: Vec<String>,
    answered: usize,
    never_sent: usize,
    unknown: usize,
    streams: u64,
    dropped: u64,
    hash: u64,
}

fn simulate(seed: u64, planted: Option<Planted>) -> Seen {
    let mut prng = Prng::from_seed(seed ^ 0x6d65_7373);
    let nodes = prng.between(2, 5);
    // Few large nodes, or many small ones: connections are many soon.
    let shards_max = [4, 3, 2, 1][nodes as usize - 2];
    let shards: Vec<u16> = (0..nodes).map(|_| prng.between(1, shards_max) as u16).collect();
    let configure = move |host, life| Config {
        // So little that everything is waited for.
        memory_bytes: 96 << 10,
        requests_max: 2,
        ..small(host, life, planted)
    };
    let mut net = Net::new(seed, &shards, 3, configure);
    net.model.corrupts.set(prng.one_in(4));
    net.world.run_for(Duration::from_millis(50));
    for _ in 0..prng.between(3, 12) {
        one_fault(&mut net, &mut prng);
        net.world.run_for(Duration::from_micros(prng.between(1_000, 300_000)));
    }
    heal(&mut net);
    net.check_healed(Duration::from_secs(20));
    net.model.quiet.set(true);
    net.check_quiet();
    net.model.check();
    let model = net.model.clone();
    let hash = net.world.trace_hash();
    drop(net);
    Seen {
        answered: model.count(&Outcome::Answered),
        never_sent: model.count(&Outcome::NeverSent),
        unknown: model.count(&Outcome::Unknown),
        streams: model.streams_done.get(),
        dropped: model.dropped.get(),
        violations: model.violations.take(),
        hash,
    }
}

fn one_fault(net: &mut Net, prng: &mut Prng) {
    let count = net.nodes.len() as u64;
    let one = prng.below(count) as usize;
    let other = (one + 1 + prng.below(count - 1) as usize) % count as usize;
    let (from, to) = (net.nodes[one], net.nodes[other]);
    match prng.below(8) {
        0 => net.world.set_cut(from, to, true),
        1 => {
            net.world.set_cut(from, to, true);
            net.world.set_cut(to, from, true);
        }
        2 => {
            net.world.set_cut(from, to, false);
            net.world.set_cut(to, from, false);
        }
        3 => net.world.set_delay(from, to, Duration::from_micros(prng.below(80_000))),
        4 => net.world.reset_connections(from, to),
        5 if net.is_running(one) => {
            net.world.crash(from);
            net.world.set_shards(from, prng.between(1, 3) as u16);
        }
        5 | 6 if !net.is_running(one) => net.start(one),
        _ if net.model.corrupts.get() => net.world.corrupt_next(from, to),
        _ => net.world.reset_connections(from, to),
    }
}

fn heal(net: &mut Net) {
    for one in 0..net.nodes.len() {
        for other in 0..net.nodes.len() {
            let (from, to) = (net.nodes[one], net.nodes[other]);
            net.world.set_cut(from, to, false);
            net.world.set_delay(from, to, Duration::ZERO);
        }
        if !net.is_running(one) {
            net.start(one);
        }
    }
}

#[test]
fn whatever_happens_between_nodes_messages_keep_their_promises() {
    let seeds = runtime::sim::seeds(12);
    let are_few = seeds.end - seeds.start < 12;
    stdx::check::record_probes();
    let (mut answered, mut never_sent, mut unknown, mut streams, mut dropped) = (0, 0, 0, 0, 0);
    for seed in seeds {
        let seen = simulate(seed, None);
        let some = &seen.violations[..seen.violations.len().min(8)];
        assert!(some.is_empty(), "NEREID_SIM_SEED={seed}: {some:#?}");
        answered += seen.answered;
        never_sent += seen.never_sent;
        unknown += seen.unknown;
        streams += seen.streams;
        dropped += seen.dropped;
    }
    eprintln!(
        "{answered} answered, {never_sent} never sent, {unknown} unknown, {streams} streams, \
         {dropped} handlers dropped"
    );
    if are_few {
        // Few runs have not seen everything.
        return;
    }
    let waited = stdx::check::take_probes();
    let both = ["messaging: reading waits for memory", "messaging: an answer waits for memory"];
    assert!(both.iter().all(|probe| waited.contains(probe)), "{waited:?}");
    let all = [answered as u64, never_sent as u64, unknown as u64, streams, dropped];
    assert!(all.iter().all(|count| 0 < *count), "something never happened: {all:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(simulate(3, None), simulate(3, None));
    assert_ne!(simulate(3, None).hash, simulate(4, None).hash);
}

fn is_caught(planted: Planted, by: &str) {
    let caught = (0..SEEDS).find_map(|seed| {
        let seen = simulate(seed, Some(planted));
        let named = seen.violations.iter().find(|violation| violation.starts_with(by));
        named.map(|violation| (seed, violation.clone()))
    });
    assert!(caught.is_some(), "{planted:?} is not caught by {by}");
    eprintln!("{planted:?} is caught: {caught:?}");
}

#[test]
fn counting_what_was_sent_as_never_sent_is_caught() {
    is_caught(Planted::ForgetsSent, "never-sent-never-handled");
}

#[test]
fn answering_another_request_is_caught() {
    is_caught(Planted::AnswersOldest, "reply-of-its-request");
}

#[test]
fn sending_again_is_caught() {
    is_caught(Planted::SendsAgain, "handled-at-most-once");
}

#[test]
fn room_that_is_not_given_back_is_caught() {
    is_caught(Planted::KeepsRoom, "all-given-back");
}

#[test]
fn sending_past_the_window_is_caught() {
    is_caught(Planted::IgnoresWindow, "nobody-is-refused");
}

#[test]
fn sending_past_the_window_of_a_stream_is_caught() {
    is_caught(Planted::IgnoresStreamWindow, "nobody-is-refused");
}

#[test]
fn giving_up_is_caught() {
    is_caught(Planted::GivesUp, "heals");
}
