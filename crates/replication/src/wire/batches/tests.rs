use super::*;
use crate::wire::encode_mutations;
use crate::wire::foreign::read_as_each;
use proptest::prelude::*;

fn any_name() -> impl Strategy<Value = Logged> {
    (any::<u128>(), 1i64..i64::MAX)
        .prop_map(|(id, written_at)| Logged { id: Uuid::from_u128(id), written_at })
}

fn store(logged: &Logged, mutations: &[FrozenMutation]) -> Vec<u8> {
    [store_head(logged), encode_mutations(mutations)].concat()
}

proptest! {
    #[test]
    fn messages_come_as_they_were_sent(
        logged in any_name(),
        mutations in proptest::collection::vec(mutation::testing::mutation(), 1..4),
        batches in proptest::collection::vec(any_name(), 1..9),
    ) {
        let bytes = store(&logged, &mutations);
        prop_assert_eq!(decode_store(&bytes), Ok((logged, mutations)));
        let bytes = encode_forget(&batches);
        prop_assert_eq!(decode_forget(&bytes), Ok(batches));
        for cut in (0..bytes.len()).filter(|cut| cut % NAME != 0 || *cut == 0) {
            prop_assert!(decode_forget(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_a_message_in_its_only_form_or_damage(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        read_as_each(&bytes);
    }

    #[test]
    fn changed_messages_are_a_message_in_its_only_form_or_damage(
        logged in any_name(),
        mutations in proptest::collection::vec(mutation::testing::mutation(), 1..3),
        batches in proptest::collection::vec(any_name(), 1..4),
        (at, value, cut) in (any::<usize>(), any::<u8>(), any::<usize>()),
    ) {
        for mut bytes in [store(&logged, &mutations), encode_forget(&batches)] {
            let at = at % bytes.len();
            bytes[at] = value;
            read_as_each(&bytes);
            bytes.truncate(cut % (bytes.len() + 1));
            read_as_each(&bytes);
        }
    }
}

#[test]
fn names_of_no_time_and_too_many_of_them_are_damage() {
    let one = encode_forget(&[Logged { id: Uuid::from_u128(1), written_at: 1 }]);
    let times = |count: usize| one.repeat(count);
    assert_eq!(decode_forget(&times(FORGOTTEN_AT_ONCE_MAX)).map(|all| all.len()), Ok(256));
    assert!(decode_forget(&times(FORGOTTEN_AT_ONCE_MAX + 1)).is_err());
    for time in [0, -1, i64::MIN] {
        let name = [&one[..16], &i64::to_be_bytes(time)].concat();
        assert!(decode_forget(&name).is_err(), "{time}");
        assert!(decode_store(&name).is_err(), "{time}");
    }
    assert!(decode_store(&one).is_err(), "a batch of nothing");
}
