//! Groups to which nothing happens, or one thing.

use super::*;

#[test]
fn a_group_of_one_elects_itself_and_applies() {
    let mut cluster = Cluster::new(1, 1, options());
    cluster.start(0);
    cluster.wait_for_leader(&[0]);
    let indices = cluster.on(0, |group| async move {
        let one = group.propose(b"one".to_vec(), SECOND).await.unwrap();
        let two = group.propose(b"two".to_vec(), SECOND).await.unwrap();
        let read = group.read_barrier(SECOND).await.unwrap();
        assert!(two <= read);
        (one, two)
    });
    assert!(indices.0 < indices.1);
    assert_eq!(cluster.commands(0), [b"one".to_vec(), b"two".to_vec()]);
    cluster.crash(0);
    cluster.start(0);
    cluster.wait_for_leader(&[0]);
    cluster.on(0, |group| async move { group.read_barrier(SECOND).await.unwrap() });
    assert_eq!(cluster.commands(0), [b"one".to_vec(), b"two".to_vec()]);
    assert_eq!(cluster.wrong(), Vec::<String>::new());
}

#[test]
fn three_elect_one_and_any_of_them_proposes_and_reads() {
    let mut cluster = Cluster::of_voters(2, 3, options());
    for index in 0..3 {
        cluster.on(index, move |group| async move {
            group.propose(vec![index as u8], 5 * SECOND).await.unwrap();
            group.read_barrier(5 * SECOND).await.unwrap();
        });
        let expected: Vec<_> = (0..=index as u8).map(|byte| vec![byte]).collect();
        assert_eq!(cluster.commands(index), expected);
    }
    assert!(cluster.wait_for_agreement(&[0, 1, 2]), "{:?}", figures(&cluster));
    assert_eq!(cluster.wrong(), Vec::<String>::new());
}

#[test]
fn when_the_leader_dies_another_leads_within_seconds() {
    let mut cluster = Cluster::of_voters(3, 3, options());
    let leader = cluster.wait_for_leader(&[0, 1, 2]);
    cluster.crash(leader);
    let rest: Vec<_> = (0..3).filter(|index| *index != leader).collect();
    let began = cluster.world.now();
    let next = cluster.wait_for_leader(&rest);
    cluster.on(next, |group| async move { group.propose(vec![7], SECOND).await.unwrap() });
    let took = cluster.world.now() - began;
    assert!(took < 5 * SECOND, "{took:?}");
    cluster.start(leader);
    assert!(cluster.wait_for_agreement(&[0, 1, 2]));
    assert_eq!(cluster.wrong(), Vec::<String>::new());
}

#[test]
fn a_seed_replays() {
    let trace = |seed| {
        let mut cluster = Cluster::of_voters(seed, 3, options());
        cluster.on(1, |group| async move { group.propose(vec![1], 5 * SECOND).await.unwrap() });
        cluster.world.trace_hash()
    };
    assert_eq!((trace(5), trace(6)), (trace(5), trace(6)));
}

#[test]
fn a_node_that_joins_gets_a_snapshot_and_the_log() {
    let mut cluster = Cluster::new(7, 3, options());
    cluster.start(0);
    cluster.wait_for_leader(&[0]);
    cluster.on(0, |group| async move {
        for byte in 0..60 {
            group.propose(vec![byte], SECOND).await.unwrap();
        }
    });
    let first = cluster.status(0).unwrap().log_first;
    assert!(20 < first, "the log was cut: {first}");
    cluster.start(1);
    cluster.start(2);
    cluster.on(0, |group| async move {
        group.add(NodeId(2), 10 * SECOND).await.unwrap();
        group.set_members(vec![NodeId(1), NodeId(2)], vec![NodeId(3)], 10 * SECOND).await.unwrap();
    });
    let read = cluster.on(2, |group| async move { group.read_barrier(10 * SECOND).await.unwrap() });
    assert!(60 <= read);
    assert!(cluster.wait_for_agreement(&[0, 1, 2]));
    let status = cluster.status(2).unwrap();
    assert_eq!(status.members.voters, [NodeId(1), NodeId(2)]);
    assert_eq!(status.members.learners, [NodeId(3)]);
    assert_eq!(cluster.commands(2).len(), 60);
    assert!(2 <= cluster.sum(|counters| counters.snapshots_taken.get()));
    assert_eq!(cluster.wrong(), Vec::<String>::new());
}

#[test]
fn the_leader_removes_itself_by_handing_over_first() {
    let mut cluster = Cluster::of_voters(8, 3, options());
    let leader = cluster.wait_for_leader(&[0, 1, 2]);
    let gone = cluster.nodes[leader].id;
    let rest: Vec<_> = (0..3).filter(|index| *index != leader).collect();
    let other = rest[0];
    cluster.on(other, move |group| async move { group.remove(gone, 20 * SECOND).await.unwrap() });
    let next = cluster.wait_for_leader(&rest);
    let status = cluster.status(next).unwrap();
    assert!(!status.members.has(gone) && status.members.voters.len() == 2);
    // It does not disturb who is left.
    let term = status.term;
    cluster.world.run_for(10 * SECOND);
    assert_eq!(cluster.status(next).unwrap().term, term);
    assert_eq!(cluster.wrong(), Vec::<String>::new());
}

#[test]
fn who_stops_cleanly_hands_over_and_nobody_waits_for_an_election() {
    let mut cluster = Cluster::of_voters(9, 3, options());
    let leader = cluster.wait_for_leader(&[0, 1, 2]);
    cluster.on(leader, |group| async move { group.stop(2 * SECOND).await });
    let began = cluster.world.now();
    let rest: Vec<_> = (0..3).filter(|index| *index != leader).collect();
    let next = cluster.wait_for_leader(&rest);
    cluster.on(next, |group| async move { group.propose(vec![1], SECOND).await.unwrap() });
    assert!(cluster.world.now() - began < SECOND / 2);
    cluster.on(leader, |group| async move {
        assert_eq!(group.propose(vec![2], SECOND).await, Err(Unanswered::Stopped));
        assert_eq!(group.read_barrier(SECOND).await, Err(Unanswered::Stopped));
    });
}

#[test]
fn without_a_majority_nothing_is_promised() {
    let mut cluster = Cluster::of_voters(10, 3, options());
    let leader = cluster.wait_for_leader(&[0, 1, 2]);
    let rest: Vec<_> = (0..3).filter(|index| *index != leader).collect();
    rest.iter().for_each(|index| cluster.crash(*index));
    cluster.on(leader, |group| async move {
        let read = group.read_barrier(3 * SECOND).await;
        assert_eq!(read, Err(Unanswered::Uncertain));
        // It has stepped down: what is proposed now goes nowhere.
        assert_ne!(group.status().role, Role::Leader);
        assert_eq!(group.propose(vec![1], SECOND).await, Err(Unanswered::Refused));
    });
    assert_eq!(cluster.commands(leader).len(), 0);
}

#[test]
fn what_is_too_large_or_too_much_is_refused() {
    let options = Options { proposals_max: 4, ..options() };
    let mut cluster = Cluster::new(11, 1, options);
    cluster.start(0);
    cluster.wait_for_leader(&[0]);
    cluster.on(0, |group| async move {
        let large = group.propose(vec![0; 4097], SECOND).await;
        assert_eq!(large, Err(Unanswered::TooLarge { bytes: 4097, max: 4096 }));
        let many = (0..10).map(|byte| group.propose(vec![byte], SECOND));
        let outcomes = runtime::task::join_all(many).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 4);
        let refused = outcomes.iter().filter(|outcome| **outcome == Err(Unanswered::Refused));
        assert_eq!(refused.count(), 6);
    });
}

#[test]
fn a_long_log_is_cut_by_its_bytes() {
    let mut cluster = Cluster::new(12, 1, Options { cut_entries: 1024, ..options() });
    cluster.start(0);
    cluster.wait_for_leader(&[0]);
    cluster.on(0, |group| async move {
        for byte in 0..30 {
            group.propose(vec![byte; 4096], 5 * SECOND).await.unwrap();
        }
    });
    let status = cluster.status(0).unwrap();
    assert!(status.log_bytes <= 3 * 4096, "{status:?}");
    assert!(20 < status.log_first, "{status:?}");
    assert_eq!(cluster.wrong(), Vec::<String>::new());
}
