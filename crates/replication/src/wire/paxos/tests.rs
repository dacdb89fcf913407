use super::*;
use crate::paxos::TransactionId;
use crate::wire::foreign::{read_as_each, read_promise};
use mutation::FrozenMutation;
use proptest::collection::vec;
use proptest::prelude::*;

fn any_ballot() -> impl Strategy<Value = Ballot> {
    (1i64..1 << 50, any::<u64>()).prop_map(|(micros, random)| Ballot::drawn(micros, random))
}

fn any_place() -> impl Strategy<Value = Place> {
    (any::<u128>(), vec(any::<u8>(), 0..9))
        .prop_map(|(table, key)| Place { table: TableId::from_u128(table), key })
}

/// A proposal, and a ballot after it.
fn any_proposal() -> impl Strategy<Value = (Place, Proposal, Ballot)> {
    let transaction = proptest::option::of((1i64..1 << 50, any::<u64>()));
    (vec(any_ballot(), 3), any::<bool>(), transaction, mutation::testing::mutation()).prop_map(
        |(mut ballots, has_since, transaction, mutation)| {
            ballots.sort_unstable();
            let since = (has_since && ballots[0] < ballots[1]).then_some(ballots[0]);
            let view = mutation.view().expect("a mutation");
            let place = Place { table: view.table(), key: view.key().to_vec() };
            let last = Ballot::drawn(ballots[2].micros() + 1, 7);
            let of = transaction.map(|(micros, random)| TransactionId::new(micros, 7, random));
            (place, Proposal { ballot: ballots[1], since, of, mutation: mutation.clone() }, last)
        },
    )
}

fn proposal_bytes(proposal: &Proposal) -> Vec<u8> {
    [&proposal_head(proposal)[..], &proposal.mutation.0].concat()
}

fn learned_bytes(ballot: Ballot, mutation: &FrozenMutation) -> Vec<u8> {
    [&ballot.to_bytes()[..], &mutation.0].concat()
}

fn any_level() -> impl Strategy<Value = Consistency> {
    prop_oneof![Just(Consistency::Serial), Just(Consistency::LocalSerial)]
}

fn command(place: &Place) -> ReadCommand {
    let bytes = mutation::page::SendRange::full();
    ReadCommand {
        table: place.table,
        partitions: Partitions::Key(place.key.clone()),
        ranges: vec![bytes],
        reversed: false,
        columns: Vec::new(),
        static_count: 0,
        row_limit: 5,
        per_partition_limit: 5,
        partition_limit: 5,
        static_only_rows: false,
        bytes_max: 1 << 20,
        tombstone_limit: 100,
        now: 7,
        bypass_cache: false,
        shape: mutation::page::RowShape::Whole,
        resume: None,
    }
}

fn check_any(bytes: &[u8], place: &Place, ballot: Ballot) {
    read_as_each(bytes);
    read_promise(bytes, place, ballot);
}

proptest! {
    #[test]
    fn rounds_are_told_as_they_are(
        place in any_place(),
        (of, proposal, last) in any_proposal(),
        level in any_level(),
        request in vec(any::<u8>(), 0..20),
        learns in any::<bool>(),
    ) {
        let ballot = proposal.ballot;
        prop_assert_eq!(decode_place(&encode_place(&place, ballot)), Ok((place.clone(), ballot)));
        let sent = decode_proposal(&proposal_bytes(&proposal));
        prop_assert_eq!(sent, Ok((of.clone(), proposal.clone())));
        let mutation = proposal.mutation.clone();
        let sent = decode_learned(&learned_bytes(ballot, &mutation));
        prop_assert_eq!(sent, Ok((of.clone(), ballot, mutation)));
        let sent = decode_lead(&encode_lead(level, place.table, &place.key, &request));
        prop_assert_eq!(sent, Ok((level, place.clone(), request)));
        let command = command(&place);
        prop_assert_eq!(decode_read(&encode_read(level, &command)), Ok((level, command)));
        let learned = if learns { Some(ballot) } else { proposal.since };
        for verdict in [Ok(Promise { accepted: Some(proposal), learned }), Err(ballot)] {
            let sent = decode_promise(&encode_promise(&verdict), &of, last);
            prop_assert_eq!(sent, Ok(verdict));
        }
        for verdict in [Ok(()), Err(ballot)] {
            prop_assert_eq!(decode_verdict(&encode_verdict(verdict)), Ok(verdict));
        }
    }

    #[test]
    fn any_bytes_are_a_message_in_its_only_form_or_damage(
        place in any_place(),
        (of, proposal, last) in any_proposal(),
        level in any_level(),
        (at, to, cut) in (any::<usize>(), any::<u8>(), proptest::option::of(any::<usize>())),
        random in vec(any::<u8>(), 0..60),
    ) {
        let promise = Promise { accepted: Some(proposal.clone()), learned: proposal.since };
        let messages = [
            encode_place(&place, proposal.ballot),
            proposal_bytes(&proposal),
            learned_bytes(proposal.ballot, &proposal.mutation),
            encode_lead(level, place.table, &place.key, b"request"),
            encode_read(level, &command(&place)),
            encode_verdict(Err(proposal.ballot)),
            encode_promise(&Ok(promise)),
            random,
        ];
        for mut bytes in messages {
            check_any(&bytes, &of, last);
            let length = bytes.len();
            if 0 < length {
                bytes[at % length] = to;
                bytes.truncate(cut.map_or(length, |cut| cut % length));
            }
            check_any(&bytes, &of, last);
        }
    }
}
