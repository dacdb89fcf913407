//! What is urgent is not late while much else is on its way; and who is silent is noticed.

use super::world::{BEAT, ECHO, Net, SINK, bytes_of, question, small};
use crate::config::Planted;
use crate::{Class, HostId, Payload, PeerState, Target, ToShard};
use runtime::task::Scope;
use runtime::time::{Instant, sleep};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Ten times what the slowest packets of a simulated link take.
const BOUND: Duration = Duration::from_millis(100);

/// How long the slowest heartbeat took while streams and large requests saturate the other node.
fn slowest_beat(planted: Option<Planted>) -> Duration {
    let mut net = Net::new(11, &[1, 1], 0, move |host, life| small(host, life, planted));
    net.on(0, 0, |messaging| async move {
        let scope = Scope::new();
        let to = |class| Target { host: Net::host(1), shard: ToShard::Same, class };
        for number in 1..10u64 {
            let messaging = messaging.clone();
            scope.spawn(async move {
                loop {
                    // Whoever takes them is slow.
                    let about =
                        question(number * 1_000_000 + runtime::random_u64() % 999, 0, 50_000, 0);
                    let bulk = to(Class::Bulk);
                    if number.is_multiple_of(2) {
                        let large =
                            question(runtime::random_u64() | 1 << 40, 9_000, 50_000, 20_000);
                        let _ = messaging.call(bulk, ECHO, large, 9 * SECOND).await;
                    } else if let Ok(stream) = messaging.open(bulk, SINK, about, 9 * SECOND).await {
                        for at in 0..20 {
                            let _ = stream.send(&bytes_of(number, at, 5_000)).await;
                        }
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            });
        }
        sleep(Duration::from_millis(200)).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..40 {
            let began = Instant::now();
            let _ = messaging.call(to(Class::Control), BEAT, Payload::empty(), 9 * SECOND).await;
            slowest = slowest.max(began.elapsed());
            sleep(Duration::from_millis(5)).await;
        }
        scope.cancel().await;
        slowest
    })
}

#[test]
fn bulk_does_not_delay_a_heartbeat() {
    let slowest = slowest_beat(None);
    assert!(slowest < BOUND, "{slowest:?}");
    let slowest = slowest_beat(Some(Planted::OneClass));
    assert!(BOUND < slowest, "the planted mistake is not seen: {slowest:?}");
}

fn states(net: &mut Net) -> Vec<PeerState> {
    net.on(0, 0, |messaging| async move {
        messaging.peers().into_iter().map(|peer| peer.state).collect()
    })
}

#[test]
fn a_silent_node_is_noticed_and_a_busy_one_is_not_silent() {
    let mut net = Net::new(12, &[1, 1], 0, |host, life| small(host, life, None));
    net.on(0, 0, |messaging| async move {
        let control = Target::control(Net::host(1));
        messaging.call(control, BEAT, Payload::empty(), SECOND).await.expect("an answer");
    });
    net.world.run_for(10 * SECOND);
    assert!(matches!(states(&mut net)[..], [PeerState::Up { .. }]), "idle is not silent");
    let (one, other) = (net.nodes[0], net.nodes[1]);
    // What the other node says does not arrive.
    net.world.set_cut(other, one, true);
    net.world.run_for(Duration::from_millis(450));
    assert!(matches!(states(&mut net)[..], [PeerState::Up { .. }]), "not yet");
    net.world.run_for(Duration::from_millis(800));
    assert!(!matches!(states(&mut net)[..], [PeerState::Up { .. }]), "{:?}", states(&mut net));
    net.world.set_cut(other, one, false);
    net.check_healed(5 * SECOND);
    assert_eq!(net.model.violations.take(), Vec::<String>::new());
}

#[test]
fn a_node_that_takes_nothing_does_not_hold_up_others() {
    let mut net = Net::new(13, &[1, 1, 1], 0, |host, life| small(host, life, None));
    let (one, other) = (net.nodes[0], net.nodes[1]);
    let slowest = net.on(0, 0, |messaging| async move {
        for host in [2, 3] {
            let to = Target::statements(HostId(host), ToShard::Same);
            messaging.call(to, BEAT, Payload::empty(), SECOND).await.expect("an answer");
        }
        messaging
    });
    drop(slowest);
    net.world.set_cut(one, other, true);
    let slowest = net.on(0, 0, |messaging| async move {
        let scope = Scope::new();
        for number in 0..30 {
            let messaging = messaging.clone();
            scope.spawn(async move {
                let to = Target::statements(HostId(2), ToShard::Same);
                let large = question(number, 0, 0, 20_000);
                let _ = messaging.call(to, ECHO, large, 9 * SECOND).await;
            });
        }
        sleep(Duration::from_millis(50)).await;
        let mut slowest = Duration::ZERO;
        for number in 100..150 {
            let began = Instant::now();
            let to = Target::statements(HostId(3), ToShard::Same);
            let answer = messaging.call(to, ECHO, question(number, 50, 0, 2_000), SECOND).await;
            assert!(answer.is_ok() || number % 17 == 0, "{answer:?}");
            slowest = slowest.max(began.elapsed());
        }
        slowest
    });
    assert!(slowest < BOUND, "{slowest:?}");
}
