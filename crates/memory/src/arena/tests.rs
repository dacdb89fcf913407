use super::*;

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
