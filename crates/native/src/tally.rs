//! Requests of a shard's clients in one scheduling group, by their kind: how many there were, and
//! their bytes and those of their answers.

use crate::frame::opcode;
use std::cell::Cell;

/// What was counted of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of their bodies, decompressed.
    pub request_bytes: u64,
    /// Bytes of their answers before compression.
    pub response_bytes: u64,
}

/// The requests of a group.
#[derive(Debug, Default)]
pub(crate) struct Tally([Cell<Served>; 16]);

impl Tally {
    /// The kinds, as the protocol calls them.
    const KINDS: [(u8, &'static str); 8] = [
        (opcode::STARTUP, "STARTUP"),
        (opcode::AUTH_RESPONSE, "AUTH_RESPONSE"),
        (opcode::OPTIONS, "OPTIONS"),
        (opcode::QUERY, "QUERY"),
        (opcode::PREPARE, "PREPARE"),
        (opcode::EXECUTE, "EXECUTE"),
        (opcode::BATCH, "BATCH"),
        (opcode::REGISTER, "REGISTER"),
    ];

    /// A request has been answered; what is of no kind counts for none.
    #[inline]
    pub(crate) fn count(&self, opcode: u8, request_bytes: usize, response_bytes: usize) {
        let Some(cell) = self.0.get(usize::from(opcode)) else { return };
        let served = cell.get();
        cell.set(Served {
            requests: served.requests + 1,
            request_bytes: served.request_bytes + request_bytes as u64,
            response_bytes: served.response_bytes + response_bytes as u64,
        });
    }

    /// All kinds.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, Served)> {
        let of = |(opcode, name)| (name, self.0[usize::from(opcode)].get());
        Tally::KINDS.into_iter().map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart() {
        let tally = Tally::default();
        tally.count(opcode::EXECUTE, 10, 100);
        tally.count(opcode::EXECUTE, 5, 50);
        tally.count(opcode::BATCH, 1, 2);
        tally.count(0xff, 1, 1);
        let found: Vec<_> = tally.all().filter(|(_, served)| served.requests != 0).collect();
        let served = |requests, request_bytes, response_bytes| Served {
            requests,
            request_bytes,
            response_bytes,
        };
        assert_eq!(found, [("EXECUTE", served(2, 15, 150)), ("BATCH", served(1, 1, 2))]);
    }
}
