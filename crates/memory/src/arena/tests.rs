use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use stdx::HashMap;

fn arena(limit: usize) -> Arena {
    let mut arena = Arena::new(limit);
    arena.set_limit(limit);
    arena
}

/// Reclaims one victim as its verdicts say; what was evicted.
fn step(arena: &mut Arena) -> Vec<Handle> {
    let mut evicted = Vec::new();
    let Some(mut victim) = arena.victim() else { return evicted };
    while let Some((handle, verdict)) = arena.next(&mut victim) {
        match verdict {
            Verdict::Keep => arena.relocate(handle),
            Verdict::Evict => {
                arena.free(handle);
                evicted.push(handle);
            }
        }
    }
    arena.release(victim);
    evicted
}

#[test]
fn an_object_keeps_its_bytes_until_it_is_freed() {
    let mut arena = arena(4 << 20);
    let handles: Vec<_> = [0, 1, 7, 8, 9, 1000, 32 << 10, (32 << 10) + 1, 100_000, 500_000]
        .into_iter()
        .map(|len| {
            let handle = arena.allocate(Age::Probation, len as u8, len).unwrap();
            arena.get_mut(handle).fill(len as u8);
            (handle, len)
        })
        .collect();
    for &(handle, len) in &handles {
        assert_eq!(arena.get(handle).len(), len);
        assert!(arena.get(handle).iter().all(|&byte| byte == len as u8));
        assert_eq!(arena.kind(handle), len as u8);
    }
    assert_eq!(arena.live_bytes(), handles.iter().map(|(_, len)| len).sum());
    for &(handle, _) in &handles {
        arena.free(handle);
    }
    let stats = arena.stats();
    assert_eq!((stats.segments, stats.large_bytes, stats.live, stats.objects), (0, 0, 0, 0));
}

#[test]
fn a_full_arena_says_so_and_has_room_after_a_turn() {
    let mut arena = arena(1 << 20);
    let mut handles = Vec::new();
    while let Some(handle) = arena.allocate(Age::Probation, 0, 1000) {
        handles.push(handle);
    }
    assert!(arena.used_bytes() <= 1 << 20);
    for &handle in &handles[..10] {
        arena.touch(handle);
    }
    let evicted = step(&mut arena);
    assert_eq!(arena.stats().relocated_bytes, 10 * 1008);
    assert!(evicted.iter().all(|handle| !handles[..10].contains(handle)));
    assert!(arena.allocate(Age::Main, 0, 1000).is_some());
}

#[test]
#[should_panic(expected = "free-known")]
fn a_freed_object_cannot_be_read() {
    let mut arena = arena(1 << 20);
    let handle = arena.allocate(Age::Probation, 0, 1000).unwrap();
    arena.free(handle);
    arena.get(handle);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "free-known")]
fn a_handle_of_an_object_that_was_replaced_is_known() {
    let mut arena = arena(1 << 20);
    let handle = arena.allocate(Age::Probation, 0, 1000).unwrap();
    arena.free(handle);
    arena.allocate(Age::Probation, 0, 1000).unwrap();
    arena.get(handle);
}

#[test]
fn hot_objects_survive_a_scan_of_cold_ones() {
    let mut arena = arena(4 << 20);
    let hot: Vec<_> = (0..1000).map(|_| arena.allocate(Age::Probation, 1, 1000).unwrap()).collect();
    for round in 0..20_000 {
        if arena.allocate(Age::Probation, 0, 1000).is_none() {
            step(&mut arena);
        }
        // Each hot object is hit once while 2000 cold ones come.
        if round % 2 == 0 {
            arena.touch(hot[round / 2 % hot.len()]);
        }
    }
    assert!(hot.iter().all(|&handle| arena.kind(handle) == 1));
    assert!(arena.stats().evicted_objects > 15_000);
}

#[test]
fn a_sparse_segment_is_compacted_and_loses_nothing() {
    let mut arena = arena(4 << 20);
    let handles: Vec<_> =
        (0..3000).map(|_| arena.allocate(Age::Probation, 0, 1000).unwrap()).collect();
    for (at, &handle) in handles.iter().enumerate() {
        arena.touch(handle);
        if at % 3 != 0 {
            arena.free(handle);
        }
    }
    let segments = arena.stats().segments;
    while arena.stats().dead >= 2 * SEGMENT_BYTES {
        assert!(arena.victim().unwrap().is_compaction());
        assert_eq!(step(&mut arena), []);
    }
    assert!(arena.stats().segments < segments / 2);
    for handle in handles.into_iter().step_by(3) {
        assert_eq!((arena.get(handle).len(), arena.heat(handle)), (1000, 1));
        assert_eq!(arena.age(handle), Age::Probation);
    }
}

#[test]
fn heat_saturates_and_pays_for_each_turn() {
    for len in [100, 100_000] {
        let mut arena = arena(4 << 20);
        let handle = arena.allocate(Age::Probation, 0, len).unwrap();
        (0..10).for_each(|_| arena.touch(handle));
        assert_eq!((arena.heat(handle), arena.age(handle)), (3, Age::Probation));
        for heat in [2, 1, 0] {
            assert_eq!(step(&mut arena), []);
            assert_eq!((arena.heat(handle), arena.age(handle)), (heat, Age::Main));
        }
        assert_eq!(step(&mut arena), [handle]);
        assert_eq!(arena.stats().segments, 0);
    }
}

#[test]
fn memory_that_falls_free_beyond_a_lower_limit_goes_back_in_bounded_turns() {
    let mut arena = arena(8 << 20);
    let handles: Vec<_> = std::iter::from_fn(|| arena.allocate(Age::Probation, 0, 2000)).collect();
    handles.into_iter().for_each(|handle| arena.free(handle));
    assert_eq!(arena.stats().segments, 0);
    assert!(arena.stats().free_segments > 60);
    arena.set_limit(1 << 20);
    let mut turns = 0;
    while arena.over_limit() {
        let before = arena.stats().released_segments;
        assert_eq!(step(&mut arena), []);
        assert!(arena.stats().released_segments - before <= GIVEN_BACK_MAX as u64);
        turns += 1;
        assert!(turns < 100, "every turn gives something back");
    }
    assert!(turns > 5);
    assert!(arena.allocate(Age::Probation, 0, 2000).is_some());
}

#[test]
fn a_full_arena_gives_no_memory_back_to_take_it_again() {
    let mut arena = arena(16 << 20);
    for round in 0..50_000 {
        let handle = arena.allocate(Age::Probation, 0, 1000).unwrap_or_else(|| {
            step(&mut arena);
            arena.allocate(Age::Probation, 0, 1000).unwrap()
        });
        (0..round % 3).for_each(|_| arena.touch(handle));
    }
    assert!(arena.stats().reclaimed_units > 100);
    assert_eq!(arena.stats().released_segments, 0);
}

#[test]
fn one_segment_beyond_the_limit_is_enough_however_long_a_turn_takes() {
    let mut arena = arena(1 << 20);
    let fill = |arena: &mut Arena, age| {
        while let Some(handle) = arena.allocate(age, 0, 2000) {
            arena.touch(handle);
        }
    };
    fill(&mut arena, Age::Probation);
    for _ in 0..20 {
        let mut victim = arena.victim().unwrap();
        while let Some((handle, verdict)) = arena.next(&mut victim) {
            match verdict {
                Verdict::Keep => arena.relocate(handle),
                Verdict::Evict => arena.free(handle),
            }
            fill(&mut arena, Age::Main);
            assert!(arena.used_bytes() <= arena.limit() + SEGMENT_BYTES);
        }
        arena.release(victim);
    }
    assert!(arena.used_bytes() <= arena.limit());
}

#[test]
fn a_victim_that_was_dropped_comes_again() {
    let mut arena = arena(1 << 20);
    let handles: Vec<_> = std::iter::from_fn(|| arena.allocate(Age::Probation, 0, 2000)).collect();
    let mut victim = arena.victim().unwrap();
    let (first, _) = arena.next(&mut victim).unwrap();
    arena.free(first);
    let used = arena.used_bytes();
    let evicted = step(&mut arena);
    assert_eq!(evicted.len(), SEGMENT_BYTES / 2008 - 1);
    assert_eq!(arena.objects(), handles.len() - evicted.len() - 1);
    assert_eq!(arena.used_bytes(), used - SEGMENT_BYTES);
}

#[test]
#[should_panic(expected = "empty-free")]
fn a_victim_is_not_released_with_objects_in_it() {
    let mut arena = arena(1 << 20);
    arena.allocate(Age::Probation, 0, 2000).unwrap();
    let victim = arena.victim().unwrap();
    arena.release(victim);
}

#[test]
#[should_panic(expected = "one-victim")]
fn only_objects_of_the_victim_are_relocated() {
    let mut arena = arena(1 << 20);
    let handles: Vec<_> = std::iter::from_fn(|| arena.allocate(Age::Probation, 0, 2000)).collect();
    arena.victim().unwrap();
    arena.relocate(*handles.last().unwrap());
}

/// The named invariants, block by block.
fn check(arena: &Arena) {
    assert!(arena.segments.len() <= arena.limit_max() / SEGMENT_BYTES + 1, "reserve");
    let mut places = vec![0; arena.segments.len()];
    arena.free.iter().chain(&arena.bare).for_each(|&free| places[free as usize] += 1);
    let mut objects = 0;
    let mut bytes = 0;
    for (index, segment) in arena.segments.iter().enumerate() {
        let unit = Unit::Segment(index as u32);
        let turn = arena.turn.is_some_and(|(turn, _)| turn == unit);
        let head = arena.heads.contains(&Some(index as u32));
        places[index] += usize::from(turn) + usize::from(head);
        places[index] += usize::from(arena.clock.holds(unit));
        assert_eq!(places[index], 1, "a segment is in one place");
        let (mut offset, mut live) = (0, 0);
        while offset < segment.used as usize {
            let at = index * SEGMENT_BYTES + offset;
            let (handle, len) = arena.header(at);
            if let Some(handle) = handle {
                let entry = arena.handles.entry(handle);
                assert_eq!(entry.place, Place::Segment, "found");
                assert_eq!(entry.address as usize * ALIGNMENT, at, "found");
                live += block_bytes(len);
                objects += 1;
                bytes += len;
            }
            offset += block_bytes(len);
        }
        assert_eq!(offset, segment.used as usize, "blocks");
        assert_eq!(live, segment.live as usize, "blocks");
        assert!(live > 0 || turn || segment.used == 0, "empty-free");
    }
    let mut large_bytes = 0;
    for large in arena.large.iter().flatten() {
        assert_eq!(arena.handles.entry(large.handle).place, Place::Large, "found");
        objects += 1;
        bytes += large.bytes.len();
        large_bytes += Large::charge(large.bytes.len());
    }
    assert_eq!(arena.objects(), objects);
    assert_eq!(arena.live_bytes(), bytes);
    assert_eq!(arena.large_bytes, large_bytes);
}

#[derive(Clone, Debug)]
enum Operation {
    Allocate {
        main: bool,
        len: usize,
    },
    Free(usize),
    Shrink(usize, usize),
    Touch(usize),
    Write(usize),
    SetLimit(usize),
    /// Reclaims one victim; each bit of the word says whether to do what the verdict says, and
    /// how many objects there are before the victim is dropped.
    Step {
        obey: u64,
        stop_after: Option<usize>,
    },
    ReclaimToLimit,
    FreeAll,
}

fn operation() -> impl Strategy<Value = Operation> {
    let len = prop_oneof![
        8 => 0_usize..200,
        8 => 0_usize..6000,
        4 => 6000_usize..40_000,
        1 => 40_000_usize..300_000,
    ];
    prop_oneof![
        400 => (any::<bool>(), len).prop_map(|(main, len)| Operation::Allocate { main, len }),
        120 => any::<usize>().prop_map(Operation::Free),
        40 => (any::<usize>(), 0_usize..100).prop_map(|(at, part)| Operation::Shrink(at, part)),
        80 => any::<usize>().prop_map(Operation::Touch),
        40 => any::<usize>().prop_map(Operation::Write),
        4 => prop_oneof![0_usize..400_000, 0_usize..(3 << 20)].prop_map(Operation::SetLimit),
        40 => (
            prop_oneof![3 => Just(u64::MAX), 1 => any::<u64>()],
            prop_oneof![4 => Just(None), 1 => (0_usize..20).prop_map(Some)],
        ).prop_map(|(obey, stop_after)| Operation::Step { obey, stop_after }),
        4 => Just(Operation::ReclaimToLimit),
        1 => Just(Operation::FreeAll),
    ]
}

/// An arena beside a map that holds what it should.
struct Beside {
    arena: Arena,
    model: HashMap<Handle, Vec<u8>>,
    /// The handles of the model, to pick from.
    handles: Vec<Handle>,
    written: u8,
}

impl Beside {
    fn new() -> Beside {
        let mut arena = Arena::new(3 << 20);
        arena.set_limit(1 << 20);
        Beside { arena, model: HashMap::default(), handles: Vec::new(), written: 0 }
    }

    fn pick(&self, at: usize) -> Option<Handle> {
        (!self.handles.is_empty()).then(|| self.handles[at % self.handles.len()])
    }

    fn free(&mut self, handle: Handle) {
        self.arena.free(handle);
        self.model.remove(&handle).unwrap();
        self.handles.retain(|&other| other != handle);
    }

    fn write(&mut self, handle: Handle) {
        self.written = self.written.wrapping_add(1);
        let first = self.written;
        for (at, byte) in self.arena.get_mut(handle).iter_mut().enumerate() {
            *byte = first.wrapping_add(at as u8);
        }
        self.model.insert(handle, self.arena.get(handle).to_vec());
    }

    fn allocate(&mut self, main: bool, len: usize) {
        let age = if main { Age::Main } else { Age::Probation };
        let used = self.arena.used_bytes();
        match self.arena.allocate(age, len as u8, len) {
            Some(handle) => {
                assert!(self.arena.used_bytes() <= self.arena.limit().max(used));
                assert_eq!(self.arena.get(handle).len(), len);
                self.handles.push(handle);
                self.write(handle);
            }
            None => {
                let most = Large::charge(len).max(SEGMENT_BYTES) + CHUNK_BYTES;
                assert!(used + most > self.arena.limit(), "there was room");
            }
        }
    }

    fn step(&mut self, mut obey: u64, stop_after: Option<usize>) -> bool {
        let used = self.arena.used_bytes();
        let Some(mut victim) = self.arena.victim() else { return false };
        let mut told = 0;
        while let Some((handle, verdict)) = self.arena.next(&mut victim) {
            if stop_after == Some(told) {
                return true;
            }
            told += 1;
            if victim.is_compaction() {
                assert_eq!(verdict, Verdict::Keep);
            }
            match (verdict, obey & 1 == 1) {
                (Verdict::Keep, true) | (Verdict::Evict, false) => self.arena.relocate(handle),
                _ => self.free(handle),
            }
            obey = obey.rotate_right(1);
            assert!(self.arena.used_bytes() <= used + SEGMENT_BYTES, "reserve");
        }
        self.arena.release(victim);
        assert!(self.arena.used_bytes() <= used);
        true
    }

    fn reclaim_to_limit(&mut self) {
        let mut steps = 0;
        while self.arena.over_limit() {
            assert!(self.step(u64::MAX, None), "over the limit something is in use");
            steps += 1;
            assert!(steps < 1000, "every turn leads somewhere");
        }
        assert!(self.arena.used_bytes() <= self.arena.limit());
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Allocate { main, len } => self.allocate(main, len),
            Operation::Free(at) => self.pick(at).into_iter().for_each(|handle| self.free(handle)),
            Operation::Shrink(at, part) => {
                if let Some(handle) = self.pick(at) {
                    let len = self.arena.get(handle).len() * part / 100;
                    self.arena.shrink(handle, len);
                    self.model.get_mut(&handle).unwrap().truncate(len);
                }
            }
            Operation::Touch(at) => {
                if let Some(handle) = self.pick(at) {
                    let heat = self.arena.heat(handle);
                    self.arena.touch(handle);
                    assert_eq!(self.arena.heat(handle), (heat + 1).min(HEAT_MAX));
                }
            }
            Operation::Write(at) => {
                self.pick(at).into_iter().for_each(|handle| self.write(handle));
            }
            Operation::SetLimit(bytes) => self.arena.set_limit(bytes),
            Operation::Step { obey, stop_after } => {
                self.step(obey, stop_after);
                self.compare();
            }
            Operation::ReclaimToLimit => {
                self.reclaim_to_limit();
                self.compare();
            }
            Operation::FreeAll => {
                self.handles.clone().into_iter().for_each(|handle| self.free(handle));
                let stats = self.arena.stats();
                let turn = usize::from(self.arena.turn.is_some());
                assert!(stats.segments <= turn, "no segment stays in use without an object");
                assert_eq!((stats.large_bytes, stats.objects, stats.live), (0, 0, 0));
            }
        }
    }

    fn compare(&self) {
        check(&self.arena);
        assert_eq!(self.arena.objects(), self.model.len());
        for (&handle, bytes) in &self.model {
            assert_eq!(self.arena.get(handle), bytes);
        }
    }

    /// Nothing stays when nothing may be used.
    fn finish(mut self) {
        self.compare();
        self.arena.set_limit(0);
        self.reclaim_to_limit();
        assert_eq!((self.arena.used_bytes(), self.model.len()), (0, 0));
        assert_eq!(self.arena.stats().free_segments, 0);
        check(&self.arena);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn an_arena_holds_what_a_map_holds(operations in vec(operation(), 1..1500)) {
        let mut beside = Beside::new();
        for operation in operations {
            beside.run(operation);
        }
        beside.finish();
    }
}
