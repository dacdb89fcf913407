//! How long is waited before what has failed is tried again. Pure.

use std::time::Duration;

/// The first, and the most.
const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(30);

const _: () = assert!(FIRST.as_nanos() < MOST.as_nanos(), "pauses grow");

/// Pauses of one thing that is tried until it is done: each is twice as long as that before it.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(crate) fn new() -> Pauses {
        Pauses { next: FIRST }
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Duration {
        let next = self.next;
        self.next = (2 * next).min(MOST);
        debug_assert!(next <= self.next, "pauses grow: {next:?}");
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most() {
        let mut pauses = Pauses::new();
        let first: Vec<u128> = (0..9).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(first, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    }
}
