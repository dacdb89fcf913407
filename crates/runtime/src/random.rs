//! Random numbers: seeded from the operating system on real shards, from the world's seed in sim.

#![allow(unsafe_code, reason = "getrandom has no safe wrapper among what is used here")]

use crate::clock::Clock;
use crate::core::with;
use stdx::Prng;

/// 64 random bits. Not for secrets.
pub fn random_u64() -> u64 {
    with_prng(Prng::next_u64)
}

/// Draws from this shard's generator.
pub fn with_prng<R>(draw: impl FnOnce(&mut Prng) -> R) -> R {
    with(|shard| draw(&mut shard.prng.borrow_mut()))
}

/// 256 unpredictable random bits: from the operating system. In sim from the world's seed,
/// so that a run replays.
pub fn random_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    match with(|shard| matches!(shard.clock, Clock::Real)) {
        true => fill_from_kernel(&mut secret),
        false => with_prng(|prng| prng.fill(&mut secret)),
    }
    debug_assert_ne!(secret, [0; 32], "unpredictable: nothing was drawn");
    secret
}

fn fill_from_kernel(out: &mut [u8; 32]) {
    // SAFETY: *valid-places* (of the driver's calls): the kernel writes at most `len` bytes to it.
    let got = unsafe { libc::getrandom(out.as_mut_ptr().cast(), out.len(), 0) };
    // Up to 256 bytes come whole, once the pool is ready; it was before any process of users.
    assert!(got == out.len() as isize, "unpredictable: the kernel gives {got} random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_kernel_differ() {
        let (mut one, mut other) = ([0; 32], [0; 32]);
        fill_from_kernel(&mut one);
        fill_from_kernel(&mut other);
        assert!(one != other && one != [0; 32]);
    }

    #[test]
    fn secrets_of_a_simulation_replay() {
        let drawn = |seed| crate::sim::test(seed, || async { random_secret() });
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }
}
