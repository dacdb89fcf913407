use super::super::build::Builder;
use super::*;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A file in memory, of which a step may use the pages it was given.
#[derive(Debug)]
pub(in super::super) struct Memory {
    pub(in super::super) bytes: Vec<u8>,
    pub(in super::super) loads: Cell<usize>,
}

impl Pages for Memory {
    type Page = Rc<[u8]>;
    fn now(&self, _: u64) -> Option<Rc<[u8]>> {
        None
    }
}

impl Memory {
    /// A page from the disk.
    pub(in super::super) fn load(&self, number: u64) -> Rc<[u8]> {
        self.loads.set(self.loads.get() + 1);
        let start = (number as usize).saturating_mul(PAGE_BYTES).min(self.bytes.len());
        let end = self.bytes.len().min(start + PAGE_BYTES);
        self.bytes[start..end].into()
    }
}

/// Takes a step, with whatever pages it needs.
pub(in super::super) fn step<T>(
    walk: &mut Walk<Memory>,
    mut take: impl FnMut(&mut Walk<Memory>) -> Result<T, Stop>,
) -> Result<T, Damaged> {
    let mut asked = BTreeSet::new();
    loop {
        match take(walk) {
            Ok(value) => {
                walk.settle();
                return Ok(value);
            }
            Err(Stop::Damaged(damaged)) => return Err(damaged),
            Err(Stop::Need(number)) => {
                assert!(asked.insert(number), "page {number} twice in one step");
                let page = walk.pages().load(number);
                walk.hold(number, page);
            }
        }
    }
}

fn build(keys: &BTreeSet<Vec<u8>>) -> (Walk<Memory>, u64) {
    let mut builder = Builder::new(0);
    for (number, key) in keys.iter().enumerate() {
        builder.add(key, Payload::new(8, &(number as u32).to_be_bytes()));
    }
    let root = builder.finish(0);
    let mut bytes = Vec::new();
    builder.take(|taken| bytes.extend_from_slice(taken));
    (Walk::new(Memory { bytes, loads: Cell::new(0) }), root)
}

fn number(passed: Option<Passed>) -> Option<usize> {
    passed.map(|passed| {
        assert_eq!(passed.bits, 8);
        u32::from_be_bytes(passed.bytes()[..4].try_into().unwrap()) as usize
    })
}

fn shared(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).take_while(|(a, b)| a == b).count() as u32
}

/// From the place of a key, all entries before it and behind it.
fn check(keys: &BTreeSet<Vec<u8>>, wanted: &[Vec<u8>]) {
    let (mut walk, root) = build(keys);
    let keys: Vec<&Vec<u8>> = keys.iter().collect();
    for key in wanted {
        for or_at in [false, true] {
            let mut start = Place::default();
            step(&mut walk, |walk| walk.seek(root, key, or_at, &mut start)).unwrap();
            let split = keys.partition_point(|own| if or_at { *own <= key } else { *own < key });
            let (mut place, mut to) = (start.clone(), Place::default());
            for index in split..keys.len() {
                let passed = step(&mut walk, |walk| walk.next(&place, &mut to)).unwrap();
                assert_eq!(number(passed), Some(index));
                if split < index {
                    assert!(passed.unwrap().shared <= shared(keys[index - 1], keys[index]));
                }
                // Back over it, and forward again.
                let mut back = Place::default();
                let again = step(&mut walk, |walk| walk.previous(&to, &mut back)).unwrap();
                assert_eq!(number(again), Some(index));
                std::mem::swap(&mut place, &mut to);
            }
            assert_eq!(step(&mut walk, |walk| walk.next(&place, &mut to)).unwrap(), None);
            place = start;
            for index in (0..split).rev() {
                let passed = step(&mut walk, |walk| walk.previous(&place, &mut to)).unwrap();
                assert_eq!(number(passed), Some(index));
                std::mem::swap(&mut place, &mut to);
            }
            assert_eq!(step(&mut walk, |walk| walk.previous(&place, &mut to)).unwrap(), None);
        }
    }
}

proptest! {
    #[test]
    fn steps_agree_with_a_sorted_list(
        keys in btree_set(vec(0u8..3, 0..7), 1..60),
        wanted in vec(vec(0u8..3, 0..8), 1..6),
    ) {
        check(&keys, &wanted);
    }

    #[test]
    fn steps_agree_with_a_long_list(
        keys in btree_set(vec(any::<u8>(), 2..4), 1000..2000),
        wanted in vec(vec(any::<u8>(), 0..4), 1),
    ) {
        check(&keys, &wanted);
    }

    /// Neighbours below one node of the path share the bytes that lead to it.
    #[test]
    fn what_neighbours_share(keys in btree_set(vec(0u8..3, 3), 2..20)) {
        let (mut walk, root) = build(&keys);
        let keys: Vec<&Vec<u8>> = keys.iter().collect();
        let (mut place, mut to) = (Place::default(), Place::default());
        step(&mut walk, |walk| walk.seek(root, &[], false, &mut place)).unwrap();
        for index in 0..keys.len() {
            let passed = step(&mut walk, |walk| walk.next(&place, &mut to)).unwrap().unwrap();
            if 0 < index {
                prop_assert_eq!(passed.shared, shared(keys[index - 1], keys[index]));
            }
            std::mem::swap(&mut place, &mut to);
        }
    }

    /// Damaged or not a trie at all: steps end, with entries or damage.
    #[test]
    fn any_bytes_are_walked(
        mut bytes in vec(any::<u8>(), 1..600),
        mask in prop::sample::select(vec![0xffu8, 0x3f, 0x13, 0x1f]),
        root: prop::sample::Index,
        key in vec(any::<u8>(), 0..6),
    ) {
        bytes.iter_mut().step_by(2).for_each(|byte| *byte &= mask);
        let root = root.index(bytes.len()) as u64;
        let mut walk = Walk::new(Memory { bytes, loads: Cell::new(0) });
        let (mut start, mut to) = (Place::default(), Place::default());
        if step(&mut walk, |walk| walk.seek(root, &key, true, &mut start)).is_err() {
            return Ok(());
        }
        let mut place = start.clone();
        for _ in 0..300 {
            match step(&mut walk, |walk| walk.next(&place, &mut to)) {
                Ok(Some(_)) => std::mem::swap(&mut place, &mut to),
                _ => break,
            }
        }
        place = start;
        for _ in 0..300 {
            match step(&mut walk, |walk| walk.previous(&place, &mut to)) {
                Ok(Some(_)) => std::mem::swap(&mut place, &mut to),
                _ => break,
            }
        }
    }
}
