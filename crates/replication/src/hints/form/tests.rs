use super::*;
use crate::wire::encode_mutations;
use proptest::prelude::*;

fn any_request() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(mutation::testing::mutation(), 1..3)
        .prop_map(|mutations| encode_mutations(&mutations))
}

fn any_hints() -> impl Strategy<Value = Vec<(i64, Vec<u8>)>> {
    proptest::collection::vec((any::<i64>(), any_request()), 1..5)
}

fn segment(hints: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let encode = |(at, request): &(i64, Vec<u8>)| Hint { written_at: *at, request }.encode();
    hints.iter().flat_map(encode).collect()
}

/// What can be read, and whether all of it was.
fn read(mut bytes: &[u8]) -> (Vec<(i64, Vec<u8>)>, bool) {
    let (mut found, mut whole) = (Vec::new(), true);
    while !bytes.is_empty() {
        let used = match step(bytes) {
            Step::Hint(hint, used) => {
                assert_eq!(hint.encode(), bytes[..used], "one-form");
                found.push((hint.written_at, hint.request.to_vec()));
                used
            }
            Step::Skip(_, used) => {
                whole = false;
                used
            }
            Step::Short(needed) => {
                assert!(bytes.len() < needed && needed <= BODY_BYTES_MAX + OVERHEAD);
                return (found, false);
            }
            Step::Lost(_) => return (found, false),
        };
        assert!(0 < used && used <= bytes.len(), "foreign-is-damaged: {used} bytes");
        bytes = &bytes[used..];
    }
    (found, whole)
}

proptest! {
    #[test]
    fn hints_are_read_back(hints in any_hints()) {
        prop_assert_eq!(read(&segment(&hints)), (hints, true));
    }

    #[test]
    fn a_torn_end_takes_what_it_tears(hints in any_hints(), cut in any::<prop::sample::Index>()) {
        let bytes = segment(&hints);
        let cut = cut.index(bytes.len());
        let (found, whole) = read(&bytes[..cut]);
        prop_assert!(hints.starts_with(&found));
        let lengths = found.iter().map(|(_, request)| OVERHEAD + request.len()).sum::<usize>();
        prop_assert_eq!(whole, lengths == cut);
        let next = hints.get(found.len()).map_or(0, |(_, request)| OVERHEAD + request.len());
        prop_assert!(cut < lengths + next, "a whole hint was left out");
    }

    #[test]
    fn a_flipped_bit_costs_the_hint_it_is_in(
        hints in any_hints(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut bytes = segment(&hints);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let (found, whole) = read(&bytes);
        prop_assert!(!whole, "a flipped bit is noticed");
        let (mut place, mut hurt) = (0, 0);
        for (index, (_, request)) in hints.iter().enumerate() {
            if place <= at {
                hurt = index;
            }
            place += OVERHEAD + request.len();
        }
        prop_assert!(hints[..hurt] == found[..hurt], "those before it are there");
        let behind = &hints[hurt + 1..];
        let start: usize = segment(&hints[..hurt]).len();
        let in_size = at < start + HEAD;
        prop_assert_eq!(&found[hurt..], if in_size { &[] } else { behind });
    }

    #[test]
    fn any_bytes_are_hints_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
        let _ = check_header(&bytes, Uuid::from_u128(1));
    }
}

#[test]
fn a_segment_is_of_one_node() {
    let host = Uuid::from_u128(7);
    let header = header(host);
    assert_eq!(check_header(&header, host), Ok(()));
    assert!(check_header(&header, Uuid::from_u128(8)).is_err());
    assert!(check_header(&header[..HEADER - 1], host).is_err());
    for at in 0..HEADER {
        let mut other = header.clone();
        other[at] ^= 1;
        assert!(check_header(&other, host).is_err(), "byte {at}");
    }
}
