//! Random numbers: seeded from the operating system on real shards, from the world's seed in sim.

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
