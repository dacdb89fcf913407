//! For fuzzing and tests: any bytes as each message. They are damage, or have the one form in which
//! they came (*one-form*, *foreign-is-damaged*).

use super::command::Decoder;
use super::moves::{self, Progress};
use super::relay::{Done, Relay, Relayed};
use super::{Refusal, answer, backups, batches, built, command, limited, loads, paxos, sync};
use super::{encode_hint, encode_mutations, together};
use crate::paxos::Place;
#[cfg(test)]
use crate::paxos::{Ballot, promises::Promise};
use model::{ColumnId, TableId};
use mutation::page::{ColumnForm, Partitions, ReadCommand};
use stdx::Damaged;

/// Of each kind of message.
const MESSAGES: &[fn(&[u8])] = &[
    read_commands,
    read_answers,
    read_mutations,
    read_rounds,
    read_batches,
    read_relayed,
    read_together,
    read_repairs,
    read_repaired,
    read_moves,
    read_loads,
    read_backups,
];

/// Reads `input` as what another node sends; the first byte says what is expected.
pub fn read_foreign(input: &[u8]) {
    debug_assert!(MESSAGES.len() <= 256, "one-form: a byte tells no more messages apart");
    if let Some((first, bytes)) = input.split_first() {
        MESSAGES[usize::from(*first) % MESSAGES.len()](bytes);
    }
}

/// Reads bytes as each message.
#[cfg(test)]
pub(super) fn read_as_each(bytes: &[u8]) {
    MESSAGES.iter().for_each(|read| read(bytes));
}

fn check<T>(bytes: &[u8], decoded: Result<T, Damaged>, encode: impl FnOnce(T) -> Vec<u8>) {
    if let Ok(value) = decoded {
        assert_eq!(encode(value), bytes, "one-form: not what came");
    }
}

fn read_commands(bytes: &[u8]) {
    check(bytes, command::decode(bytes), |it| command::encode(&it));
    check(bytes, limited::decode(bytes), |(asks, limit, rest)| {
        [&limited::head(asks, limit)[..], rest].concat()
    });
    check(bytes, super::decode_table(bytes), |it| it.as_bytes().to_vec());
    check(bytes, built::decode(bytes), |it| built::encode(&it));
}

fn read_answers(bytes: &[u8]) {
    check(bytes, answer::decode_stretch(bytes), |it| answer::encode_stretch(&it));
    check(bytes, answer::decode_digest(bytes), |it| answer::encode_digest(it).to_vec());
    check(bytes, Refusal::decode(bytes), |it| it.encode());
    let columns = [ColumnForm::Value, ColumnForm::ValueWithTimes, ColumnForm::Blob];
    let asked = ReadCommand {
        columns: (4..).map(ColumnId).zip(columns).collect(),
        static_count: 1,
        bytes_max: usize::MAX,
        ..ReadCommand::all(TableId::from_u128(1), Partitions::all(), 1_000)
    };
    check(bytes, answer::decode_page(bytes.to_vec(), &asked), |page| {
        [&answer::page_head(&page)[..], &page.bytes].concat()
    });
}

fn read_mutations(bytes: &[u8]) {
    check(bytes, super::decode_mutations(bytes), |it| encode_mutations(&it));
    check(bytes, super::decode_hint(bytes), |(at, it)| encode_hint(at, &encode_mutations(&it)));
    check(bytes, super::decode_increment(bytes), |(level, it)| super::encode_increment(level, &it));
}

fn read_rounds(bytes: &[u8]) {
    check(bytes, paxos::decode_place(bytes), |(place, ballot)| paxos::encode_place(&place, ballot));
    check(bytes, paxos::decode_proposal(bytes), |(place, it)| {
        assert_eq!(it.mutation.view().expect("a mutation").key(), place.key);
        [&paxos::proposal_head(&it)[..], &it.mutation.0].concat()
    });
    check(bytes, paxos::decode_learned(bytes), |(_, ballot, it)| {
        [&ballot.to_bytes()[..], &it.0].concat()
    });
    check(bytes, paxos::decode_lead(bytes), |(level, Place { table, key }, request)| {
        paxos::encode_lead(level, table, &key, &request)
    });
    check(bytes, paxos::decode_read(bytes), |(level, it)| paxos::encode_read(level, &it));
    check(bytes, paxos::decode_verdict(bytes), paxos::encode_verdict);
}

/// The answer of a replica that was asked for a promise.
#[cfg(test)]
pub(super) fn read_promise(bytes: &[u8], place: &Place, ballot: Ballot) {
    check(bytes, paxos::decode_promise(bytes, place, ballot), |promise| {
        if let Ok(Promise { accepted, learned }) = &promise {
            let accepted = accepted.as_ref().map(|accepted| accepted.ballot);
            assert!(accepted.max(*learned) < Some(ballot), "as late as what is promised");
        }
        paxos::encode_promise(&promise)
    });
}

fn read_batches(bytes: &[u8]) {
    check(bytes, batches::decode_store(bytes), |(logged, it)| {
        [batches::store_head(&logged), encode_mutations(&it)].concat()
    });
    check(bytes, batches::decode_forget(bytes), |it| batches::encode_forget(&it));
}

fn read_relayed(bytes: &[u8]) {
    check(bytes, Relay::decode(bytes), |(it, asked)| [&it.encode(0)[..], asked].concat());
    check(bytes, Relayed::decode(bytes), |(it, asked)| [&it.encode()[..], asked].concat());
    check(bytes, Done::decode(bytes), |it| it.encode());
}

/// The first byte says how many answers are expected.
fn read_together(bytes: &[u8]) {
    let (mut again, mut is_whole, mut decoder) = (Vec::new(), true, Decoder::default());
    for request in together::requests(bytes) {
        match request {
            Ok(request) => {
                together::put(&mut again, [request, &[]]);
                assert_eq!(decoder.decode(request).cloned(), command::decode(request));
            }
            Err(_) => is_whole = false,
        }
    }
    assert!(!is_whole || again == bytes, "one-form: requests that came together");
    let Some((count, bytes)) = bytes.split_first() else { return };
    check(bytes, together::answers(bytes, usize::from(count % 8) + 1), |all| {
        together::encode_answers(&all)
    });
}

/// What replicas of a range say to each other while they compare it.
fn read_repairs(bytes: &[u8]) {
    check(bytes, sync::Read::decode(bytes), |it| it.encode());
    check(bytes, sync::decode_told(bytes), |it| sync::encode_told(&it));
    check(bytes, sync::Compare::decode(bytes), |it| it.encode());
    check(bytes, sync::Compared::decode(bytes), |it| it.encode());
    check(bytes, sync::Fetch::decode(bytes), |it| it.encode());
    check(bytes, sync::decode_fetched(bytes), |it| sync::encode_fetched(it.as_deref()));
    check(bytes, sync::Lead::decode(bytes), |it| it.encode());
    check(bytes, sync::decode_figures(bytes), |it| sync::encode_figures(it, bytes.len() / 8));
}

/// What they say before and afterwards.
fn read_repaired(bytes: &[u8]) {
    check(bytes, sync::decode_repaired(bytes), |(of, at)| sync::encode_repaired(of, at));
    check(bytes, sync::decode_hosts(bytes), |it| sync::encode_hosts(&it));
    check(bytes, sync::decode_moment(bytes), sync::encode_moment);
    check(bytes, sync::decode_turn(bytes), sync::encode_turn);
    check(bytes, sync::decode_part(bytes), sync::encode_part);
    check(bytes, sync::decode_begin(bytes), |(session, of)| sync::encode_begin(session, of));
    if let Ok((session, all_agree)) = sync::decode_end(bytes) {
        let told = [sync::encode_end(session, all_agree), sync::encode_session(session)];
        assert!(told.iter().any(|told| told == bytes), "one-form: the end of a session");
    }
    check(bytes, sync::decode_session(bytes), sync::encode_session);
}

fn read_moves(bytes: &[u8]) {
    check(bytes, moves::Wanted::decode(bytes), |it| it.encode());
    check(bytes, moves::Block::decode(bytes), |it| it.encode());
    check(bytes, moves::decode_gift(bytes), |it| moves::encode_gift(it.as_ref()));
    check(bytes, moves::decode_end(bytes), moves::encode_end);
    check(bytes, moves::decode_warm(bytes), |it| moves::encode_warm(&it));
    check(bytes, moves::decode_step(bytes), moves::encode_step);
    check(bytes, Progress::decode(bytes), |it| it.encode());
}

fn read_loads(bytes: &[u8]) {
    check(bytes, loads::decode_after(bytes), loads::encode_after);
    check(bytes, loads::decode_loads(bytes), |it| loads::encode_loads(&it));
    check(bytes, loads::decode_still(bytes), loads::encode_still);
}

fn read_backups(bytes: &[u8]) {
    check(bytes, backups::Take::decode(bytes), |it| it.encode());
    check(bytes, backups::Load::decode(bytes), |it| it.encode());
    check(bytes, backups::decode_loaded(bytes), |it| backups::encode_loaded(it.as_ref()));
    check(bytes, backups::decode_place(bytes), |it| backups::encode_place(&it));
}
