//! What peers send that no peer of ours would: refused or harmless, never a panic.

use crate::engine::Engine;
use crate::entry::{Cut, Entry, Kind};
use crate::members::{Members, NodeId};
use crate::message::{Message, Piece};
use crate::options::Options;
use crate::traits::{Hard, Loaded};
use raft::eraftpb::{self, MessageType};
use stdx::Prng;

fn members() -> Members {
    Members { voters: (1..=3).map(NodeId).collect(), ..Members::default() }
}

fn engine(prng: &mut Prng) -> Engine {
    let hard = Hard { term: 3, vote: 0, commit: 2 };
    let cut = Some(Cut { index: 1, term: 1, members: members() });
    let entries = (2..=prng.between(3, 6)).map(|index| Entry {
        index,
        term: 2,
        kind: Kind::Command,
        origin: vec![1],
        data: vec![index as u8],
    });
    let loaded = Loaded { hard, cut, staged: None, entries: entries.collect() };
    Engine::new(NodeId(1), &Options::new(1024), loaded).unwrap()
}

/// Carries out what it wants, as a disk that never waits.
fn settle(engine: &mut Engine) {
    while let Some(mut step) = engine.step() {
        let mut committed = std::mem::take(&mut step.committed);
        let snapshot = step.snapshot.clone();
        committed.extend(engine.finish(step).committed);
        if snapshot.is_some() {
            continue;
        }
        if let Some(last) = committed.last() {
            engine.applied_to(last.index);
        }
    }
}

fn entry(prng: &mut Prng, index: u64) -> Entry {
    let kind = if prng.one_in(4) { Kind::Members } else { Kind::Command };
    let data = match kind {
        Kind::Command => vec![prng.below(256) as u8],
        Kind::Members => {
            let moves = [1, prng.below(3) as u8, 0, 0, 0, 0, 0, 0, 0, prng.between(1, 4) as u8];
            moves.to_vec()
        }
    };
    Entry { index, term: prng.below(6), kind, origin: vec![7], data }
}

fn message(prng: &mut Prng) -> eraftpb::Message {
    let types = [
        MessageType::MsgPropose,
        MessageType::MsgAppend,
        MessageType::MsgAppendResponse,
        MessageType::MsgRequestVote,
        MessageType::MsgRequestVoteResponse,
        MessageType::MsgHeartbeat,
        MessageType::MsgHeartbeatResponse,
        MessageType::MsgTimeoutNow,
        MessageType::MsgReadIndex,
        MessageType::MsgReadIndexResp,
        MessageType::MsgRequestPreVote,
        MessageType::MsgRequestPreVoteResponse,
    ];
    let mut message = eraftpb::Message::default();
    message.set_msg_type(*prng.pick(&types).unwrap());
    let number = |prng: &mut Prng| if prng.one_in(20) { prng.next_u64() } else { prng.below(9) };
    message.from = prng.between(2, 4);
    message.to = 1;
    message.term = if prng.one_in(4) { 0 } else { number(prng) };
    message.log_term = number(prng);
    message.index = number(prng);
    message.commit = number(prng);
    message.commit_term = number(prng);
    message.request_snapshot = if prng.one_in(4) { number(prng) } else { 0 };
    message.reject_hint = number(prng);
    message.reject = prng.one_in(2);
    message.context = vec![1; prng.below(20) as usize].into();
    let count = prng.below(3);
    let first = if prng.one_in(3) { 0 } else { message.index.saturating_add(1) };
    let entries = (0..count).map(|at| entry(prng, first.saturating_add(at)));
    let entries = entries.map(crate::convert::entry_in).collect::<Vec<_>>();
    message.set_entries(entries.into());
    message
}

#[test]
fn messages_of_nobody_are_refused_or_harmless() {
    let mut taken = 0;
    for seed in 0..4_000 {
        let mut prng = Prng::from_seed(seed);
        let mut engine = engine(&mut prng);
        settle(&mut engine);
        if prng.one_in(3) {
            engine.campaign();
            settle(&mut engine);
        }
        for _ in 0..20 {
            let message = message(&mut prng);
            let from = NodeId(message.from);
            let mut bytes = vec![1, 0];
            crate::message::encode_raft(&message, &mut bytes);
            match Message::decode(&bytes) {
                Ok(Message::Raft(decoded)) => {
                    assert_eq!(*decoded, message);
                    taken += engine.receive(from, *decoded).is_ok() as usize;
                }
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
            settle(&mut engine);
            engine.tick();
            settle(&mut engine);
        }
    }
    assert!(10_000 < taken, "{taken}");
}

#[test]
fn bytes_have_one_form_or_none() {
    let mut prng = Prng::from_seed(1);
    let cut = Cut { index: 4, term: 2, members: members() };
    let messages = [
        Message::Pull { id: 7, number: 1 },
        Message::Gone { id: 7 },
        Message::Piece(Piece { id: 7, number: 1, cut: cut.clone(), bytes: Some(vec![1, 2]) }),
        Message::Piece(Piece { id: 7, number: 2, cut, bytes: None }),
    ];
    let mut decoded = 0;
    for round in 0..30_000 {
        let mut bytes = match round % 5 {
            4 => {
                let mut bytes = vec![1, 0];
                crate::message::encode_raft(&message(&mut prng), &mut bytes);
                bytes
            }
            at => messages[at].encode(),
        };
        for _ in 0..prng.below(4) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << prng.below(8);
        }
        if prng.one_in(8) {
            bytes.truncate(prng.below(bytes.len() as u64) as usize);
        }
        if let Ok(message) = Message::decode(&bytes) {
            decoded += 1;
            assert_eq!(message.encode(), bytes, "one-form: {message:?}");
        }
    }
    assert!(5_000 < decoded, "{decoded}");
}
