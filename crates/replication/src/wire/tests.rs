use super::foreign::read_as_each;
use super::*;
use crate::digest::Digest;
use crate::stretch::Stretch;
use model::{ColumnId, Token};
use mutation::page::{ColumnForm, Page, Partitions, ReadCommand, RingBound, SendRange};
use proptest::prelude::*;

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..6)
}

fn any_resume() -> impl Strategy<Value = Resume> {
    let after = proptest::option::of((any_key(), prop_oneof![Just(-1i8), Just(1)]));
    (any_key(), after, any::<u64>()).prop_map(|(key, after, rows_in_partition)| Resume {
        key,
        after,
        rows_in_partition,
    })
}

fn any_bound() -> impl Strategy<Value = RingBound> {
    (any::<i64>(), proptest::option::of(any_key()), any::<bool>())
        .prop_map(|(token, key, after)| RingBound { token: Token(token), key, after })
}

fn any_partitions() -> impl Strategy<Value = Partitions> {
    prop_oneof![
        any_key().prop_map(Partitions::Key),
        (any_bound(), any_bound()).prop_map(|(start, end)| Partitions::Range { start, end }),
    ]
}

fn any_form() -> impl Strategy<Value = ColumnForm> {
    prop_oneof![
        Just(ColumnForm::Value),
        Just(ColumnForm::ValueWithTimes),
        Just(ColumnForm::Blob),
        Just(ColumnForm::Liveness),
    ]
}

prop_compose! {
    fn any_command()(
        table: u128,
        partitions in any_partitions(),
        ranges in proptest::collection::vec(((any_key(), -1i8..=1), (any_key(), -1i8..=1)), 0..3),
        columns in proptest::collection::vec((any::<u32>(), any_form()), 0..4),
        static_part in 0usize..5,
        limits: [u64; 4],
        (bytes_max, now) in (0usize..1 << 40, any::<i64>()),
        flags: [bool; 3],
        resume in proptest::option::of(any_resume()),
    ) -> ReadCommand {
        let resume = resume.map(|resume| match &partitions {
            Partitions::Key(key) => Resume { key: key.clone(), ..resume },
            Partitions::Range { .. } => resume,
        });
        let resumes = |partitions: &Partitions, resume: &Resume| match partitions {
            Partitions::Key(_) => true,
            Partitions::Range { start, end } => {
                let token = Token::of(&resume.key);
                start.token <= token && token <= end.token
            }
        };
        let resume = resume.filter(|resume| resumes(&partitions, resume));
        let static_count = static_part.min(columns.len());
        ReadCommand {
            table: TableId::from_u128(table),
            partitions,
            ranges: ranges.into_iter().map(|(start, end)| SendRange { start, end }).collect(),
            reversed: flags[0],
            columns: columns.into_iter().map(|(id, form)| (ColumnId(id), form)).collect(),
            static_count,
            row_limit: limits[0],
            per_partition_limit: limits[1],
            partition_limit: limits[2],
            bytes_max,
            static_only_rows: flags[1],
            tombstone_limit: limits[3],
            now,
            bypass_cache: flags[2],
            shape: mutation::RowShape::Whole,
            resume,
        }
    }
}

fn any_refusal() -> impl Strategy<Value = Refusal> {
    (0u8..7, any::<[u32; 3]>(), ".{0,20}").prop_map(
        |(code, [received, required, failures], text)| {
            let kind = Refusal::decode(&[&[code][..], &[0; 12]].concat()).expect("a refusal").kind;
            Refusal { kind, received, required, failures, text }
        },
    )
}

fn any_stretch() -> impl Strategy<Value = Stretch> {
    let mutations = proptest::collection::vec(mutation::testing::mutation(), 0..3);
    let reached = proptest::option::of(any_resume());
    (mutations, reached).prop_map(|(mutations, reached)| {
        let reached = reached.map(|reached| Resume { rows_in_partition: 0, ..reached });
        Stretch { mutations, reached }
    })
}

proptest! {
    #[test]
    fn a_command_comes_as_it_was_sent(command in any_command()) {
        let bytes = command::encode(&command);
        prop_assert_eq!(command::decode(&bytes), Ok(command));
        for cut in 0..bytes.len() {
            prop_assert!(command::decode(&bytes[..cut]).is_err());
        }
    }

    /// Whatever came before: commands of other keys, others, and damage.
    #[test]
    fn commands_that_come_together_are_decoded_as_each_by_itself(
        commands in proptest::collection::vec(any_command(), 1..4),
        sent in proptest::collection::vec(
            (0usize..4, any_key(), any::<bool>(), 0usize..400),
            1..12,
        ),
    ) {
        let all: Vec<Vec<u8>> = sent
            .into_iter()
            .map(|(which, key, is_cut, at)| {
                let mut command = commands[which % commands.len()].clone();
                if let (Partitions::Key(own), None) = (&mut command.partitions, &command.resume) {
                    *own = key;
                }
                let mut bytes = command::encode(&command);
                let length = bytes.len();
                if is_cut {
                    bytes[at % length] ^= 1;
                }
                bytes
            })
            .collect();
        let mut decoder = command::Decoder::default();
        for bytes in &all {
            prop_assert_eq!(decoder.decode(bytes).cloned(), command::decode(bytes));
        }
    }

    #[test]
    fn answers_come_as_they_were_sent(
        stretch in any_stretch(),
        refusal in any_refusal(),
        hash: u64,
        crc: u32,
        bytes: u32,
    ) {
        let encoded = answer::encode_stretch(&stretch);
        prop_assert_eq!(answer::decode_stretch(&encoded), Ok(stretch));
        prop_assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
        let digest = Digest { hash, crc, bytes };
        prop_assert_eq!(answer::decode_digest(&answer::encode_digest(digest)), Ok(digest));
    }

    #[test]
    fn mutations_come_as_they_were_sent(
        mutations in proptest::collection::vec(mutation::testing::mutation(), 1..4),
        code in 0u16..11,
    ) {
        let encoded = encode_mutations(&mutations);
        prop_assert_eq!(decode_mutations(&encoded), Ok(mutations.clone()));
        let alone = [&single_head(&mutations[0].0)[..], &mutations[0].0].concat();
        prop_assert_eq!(decode_mutations(&alone), Ok(vec![mutations[0].clone()]));
        let level = crate::Consistency::from_wire(code).expect("a level");
        let hint = encode_hint(-7, &encode_mutations(&mutations));
        prop_assert_eq!(decode_hint(&hint), Ok((-7, mutations.clone())));
        let encoded = encode_increment(level, &mutations[0]);
        prop_assert_eq!(decode_increment(&encoded), Ok((level, mutations[0].clone())));
    }

    /// Pages that this crate's own reads make, of what is in a mutation.
    #[test]
    fn a_page_comes_as_it_was_sent_and_is_checked(
        mutation in mutation::testing::mutation(),
        at: usize,
        value: u8,
    ) {
        let schema = mutation::testing::schema();
        let key = mutation.view().expect("a mutation").key().to_vec();
        let partitions = Partitions::Key(key);
        let asked = ReadCommand { partitions, ..mutation::testing::read_all() };
        let asked = crate::digest::comparable(&asked);
        let (page, _) = crate::reconcile::page(&schema, &asked, &[mutation], None);
        let page = Page { tombstones_seen: 0, ..page };
        let bytes = [&answer::page_head(&page)[..], &page.bytes].concat();
        prop_assert_eq!(answer::decode_page(bytes.clone(), &asked), Ok(page.clone()));
        if 0 < page.row_count {
            let fewer = ReadCommand { row_limit: page.row_count - 1, ..asked.clone() };
            prop_assert!(answer::decode_page(bytes.clone(), &fewer).is_err(), "too many rows");
            let partitions = Partitions::Key(b"another".to_vec());
            let other = ReadCommand { partitions, ..asked.clone() };
            prop_assert!(answer::decode_page(bytes.clone(), &other).is_err(), "another key");
        }
        let mut changed = bytes.clone();
        let at = at % changed.len();
        changed[at] = value;
        if let Ok(page) = answer::decode_page(changed.clone(), &asked) {
            let again = [&answer::page_head(&page)[..], &page.bytes].concat();
            prop_assert_eq!(again, changed);
        }
    }

    #[test]
    fn any_bytes_are_a_message_in_its_only_form_or_damage(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        read_as_each(&bytes);
    }

    #[test]
    fn changed_messages_are_a_message_in_its_only_form_or_damage(
        command in any_command(),
        stretch in any_stretch(),
        refusal in any_refusal(),
        mutations in proptest::collection::vec(mutation::testing::mutation(), 1..3),
        (at, value, cut) in (any::<usize>(), any::<u8>(), any::<usize>()),
    ) {
        let messages = [
            command::encode(&command),
            answer::encode_stretch(&stretch),
            refusal.encode(),
            encode_mutations(&mutations),
            encode_hint(9, &encode_mutations(&mutations)),
            encode_increment(crate::Consistency::One, &mutations[0]),
        ];
        for mut bytes in messages {
            let at = at % bytes.len();
            bytes[at] = value;
            read_as_each(&bytes);
            bytes.truncate(cut % (bytes.len() + 1));
            read_as_each(&bytes);
        }
    }
}

#[test]
fn a_long_text_of_a_refusal_is_cut_where_a_letter_ends() {
    let refusal = Refusal::new(RefusalKind::Failed, "\u{e9}".repeat(600) + "x");
    let decoded = Refusal::decode(&refusal.encode()).expect("a refusal");
    assert_eq!(decoded.text, "\u{e9}".repeat(512));
}
