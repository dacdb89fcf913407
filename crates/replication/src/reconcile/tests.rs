use super::*;
use crate::digest;
use crate::stretch::Gatherer;
use model::Token;
use mutation::page::PageView;
use mutation::testing::{mutation, ranges, read_all, schema};
use proptest::prelude::*;

/// What a replica has, by partition.
type Replica = BTreeMap<DecoratedKey, FrozenMutation>;

fn key_of(mutation: &FrozenMutation) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from(mutation.view().expect("a mutation").key()))
}

fn apply(schema: &TableSchema, replica: &mut Replica, mutation: &FrozenMutation) {
    let present = replica.remove(&key_of(mutation));
    let next = match present {
        Some(present) => merge_two(schema, &present, mutation),
        None => mutation.clone(),
    };
    replica.insert(key_of(mutation), next);
}

fn is_asked_for(command: &ReadCommand, key: &DecoratedKey) -> bool {
    match &command.partitions {
        Partitions::Key(own) => own[..] == key.key[..],
        Partitions::Range { start, end } => {
            start.place(key.token, &key.key).is_gt() && end.place(key.token, &key.key).is_lt()
        }
    }
}

/// As a replica gathers.
fn gather(
    schema: &TableSchema,
    replica: &Replica,
    command: &ReadCommand,
    bytes_max: usize,
) -> Stretch {
    let command = crate::range::settle(command.clone());
    let mut gatherer = Gatherer::new(schema, &command).with_bytes_max(bytes_max);
    'all: for (_, mutation) in replica.iter().filter(|(key, _)| is_asked_for(&command, key)) {
        let view = mutation.view().expect("a mutation");
        for fragment in sliced(schema, &command, view, None) {
            if gatherer.consume(fragment) == Step::Stop {
                break 'all;
            }
        }
    }
    gatherer.finish()
}

/// As a coordinator reads mutations; replicas take in what they lack.
fn read(
    schema: &TableSchema,
    replicas: &mut [Replica],
    command: &ReadCommand,
    bytes_max: usize,
) -> Page {
    let mut all = Vec::new();
    let mut next = crate::range::settle(command.clone());
    loop {
        let stretches: Vec<Stretch> =
            replicas.iter().map(|replica| gather(schema, replica, &next, bytes_max)).collect();
        for stretch in &stretches {
            assert_eq!(stretch.check(schema, &next), Ok(()), "{next:?}");
        }
        let merged = merge(schema, &next, &stretches);
        for (replica, repairs) in replicas.iter_mut().zip(&merged.repairs) {
            repairs.iter().for_each(|repair| apply(schema, replica, repair));
        }
        // *brought-up*
        let again: Vec<Stretch> =
            replicas.iter().map(|replica| gather(schema, replica, &next, bytes_max)).collect();
        let cut = |stretch: &Stretch| match (&stretch.reached, &merged.reached) {
            (Some(own), Some(first)) => {
                compare(&schema.order, command.direction(), own, first).is_lt()
            }
            (Some(_), None) => true,
            _ => false,
        };
        // A replica that got more rows may be cut before that: then it is not told how it ends.
        if !again.iter().any(cut) {
            let reached = merged.reached.as_ref();
            let direction = command.direction();
            for own in &again {
                let own: Vec<_> = own
                    .mutations
                    .iter()
                    .filter_map(|one| {
                        before(schema, direction, one.view().expect("a mutation"), reached)
                    })
                    .collect();
                let lacks: Vec<_> = merged
                    .mutations
                    .iter()
                    .filter_map(|all| {
                        let own = own.iter().find(|own| key_of(own) == key_of(all));
                        lacking(schema, &key_of(all), all, own)
                    })
                    .collect();
                assert!(lacks.is_empty(), "brought-up: {lacks:?}");
            }
        }
        append(schema, &mut all, merged.mutations);
        let (page, is_cut) = page(schema, command, &all, merged.reached.as_ref());
        match merged.reached {
            Some(reached) if is_cut => next = rest(command, &page, &reached),
            _ => return page,
        }
    }
}

type Rows = Vec<(Vec<u8>, Option<Vec<u8>>, Vec<u8>)>;

fn rows(command: &ReadCommand, page: &Page, out: &mut Rows) {
    let view = PageView::parse(&page.bytes, command.layout()).expect("a page");
    for partition in view.partitions() {
        let statics = partition.statics().map(|columns| {
            columns.flat_map(|column| column.value.map(<[u8]>::to_vec)).flatten().collect()
        });
        let statics: Vec<u8> = statics.unwrap_or_default();
        if partition.row_count() == 0 {
            out.push((partition.key().to_vec(), None, statics));
            continue;
        }
        for row in partition.rows() {
            let values = [&statics[..], row.values()].concat();
            out.push((partition.key().to_vec(), Some(row.clustering().to_vec()), values));
        }
    }
}

/// All pages of a command.
fn all_rows(command: &ReadCommand, mut read: impl FnMut(&ReadCommand) -> Page) -> Rows {
    let mut command = command.clone();
    let mut out = Rows::new();
    for _ in 0..1000 {
        let page = read(&command);
        crate::range::check_page(&crate::range::settle(command.clone()), &page);
        rows(&command, &page, &mut out);
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return out,
        }
    }
    panic!("a read without end");
}

fn any_command() -> impl Strategy<Value = ReadCommand> {
    let limit = || prop_oneof![Just(u64::MAX), 1u64..4];
    let key = proptest::option::weighted(0.4, 0i32..4);
    let columns = proptest::collection::vec(any::<bool>(), 8);
    let flags = any::<[bool; 2]>();
    (ranges(), flags, limit(), limit(), key, columns).prop_map(
        |(ranges, [reversed, statics], row_limit, per_partition_limit, key, wanted)| {
            let mut command = read_all();
            let kept: Vec<_> =
                command.columns.iter().zip(wanted).map(|(column, kept)| (*column, kept)).collect();
            let (statics_of, regulars) = kept.split_at(command.static_count);
            let keep = |part: &[((model::ColumnId, mutation::ColumnForm), bool)]| {
                let kept = part.iter().filter(|(_, kept)| *kept).map(|(column, _)| *column);
                kept.collect::<Vec<_>>()
            };
            let (statics_of, regulars) = (keep(statics_of), keep(regulars));
            command.static_count = statics_of.len();
            command.columns = [statics_of, regulars].concat();
            command.ranges = ranges.iter().map(Into::into).collect();
            command.static_only_rows = statics;
            (command.reversed, command.row_limit) = (reversed, row_limit);
            command.per_partition_limit = per_partition_limit;
            if let Some(key) = key {
                command.partitions = Partitions::Key(mutation::testing::partition_key(key));
            }
            command
        },
    )
}

proptest! {
    /// Whatever replicas have, and wherever they are cut: all that they have together is read, page
    /// by page, and nothing else.
    #[test]
    fn replicas_are_read_as_one(
        writes in proptest::collection::vec((mutation(), 1u8..8), 0..8),
        command in any_command(),
        bytes_max in prop_oneof![Just(usize::MAX), 1usize..400],
    ) {
        let schema = schema();
        let mut replicas = vec![Replica::new(), Replica::new(), Replica::new()];
        let mut whole = Replica::new();
        for (write, who) in &writes {
            apply(&schema, &mut whole, write);
            for (bit, replica) in replicas.iter_mut().enumerate() {
                if who & 1 << bit != 0 {
                    apply(&schema, replica, write);
                }
            }
        }
        let expected = all_rows(&command, |command| {
            let command = crate::range::settle(command.clone());
            let asked = whole.iter().filter(|(key, _)| is_asked_for(&command, key));
            let asked: Vec<_> = asked.map(|(_, mutation)| mutation.clone()).collect();
            page(&schema, &command, &asked, None).0
        });
        let found = all_rows(&command, |command| {
            read(&schema, &mut replicas, &crate::range::settle(command.clone()), bytes_max)
        });
        prop_assert_eq!(found, expected);
    }

    /// *equal-is-merged* of [`crate::digest`].
    #[test]
    fn what_makes_equal_pages_makes_the_same_page_merged(
        base in mutation::testing::mutation_of(mutation::testing::partition_key(1)),
        (a, b) in (
            mutation::testing::mutation_of(mutation::testing::partition_key(1)),
            mutation::testing::mutation_of(mutation::testing::partition_key(1)),
        ),
        same in 0u8..3,
        command in any_command(),
    ) {
        let schema = schema();
        let key = mutation::testing::partition_key(1);
        let partitions = Partitions::Key(key);
        let command = ReadCommand { partitions, resume: None, ..command };
        let a = merge_two(&schema, &base, &a);
        let b = if same == 0 { base } else { merge_two(&schema, &base, &b) };
        let asked = digest::comparable(&command);
        let of = |mutation: &FrozenMutation| {
            page(&schema, &asked, std::slice::from_ref(mutation), None).0
        };
        let (first, second) = (of(&a), of(&b));
        if digest::Digest::of(&first) != digest::Digest::of(&second) {
            return Ok(());
        }
        let merged = merge_two(&schema, &a, &b);
        let expected = page(&schema, &command, &[merged], None).0;
        let found = digest::finish(&schema, &command, &asked, first);
        prop_assert_eq!(&found.bytes, &expected.bytes);
        prop_assert_eq!(found.row_count, expected.row_count);
        prop_assert_eq!(found.partition_count, expected.partition_count);
        prop_assert_eq!(&found.resume, &expected.resume);
    }
}

/// The order of the ring is that of keys here as there.
#[test]
fn partitions_come_in_the_order_of_the_ring() {
    let keys: Vec<DecoratedKey> = (0..4)
        .map(|key| DecoratedKey::new(Bytes::copy_from(&mutation::testing::partition_key(key))))
        .collect();
    let mut sorted = keys.clone();
    sorted.sort();
    assert!(sorted.is_sorted_by_key(|key| key.token));
    assert!(keys.iter().all(|key| key.token == Token::of(&key.key)));
}
