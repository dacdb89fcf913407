//! Copies of many bytes in pieces, with preemption points between them.
//!
//! A copy of some MiB into memory that was not touched before takes milliseconds, most of them in
//! the kernel, which clears each page first; so does the copy that a vector makes as it grows.
//!
//! Invariants
//!  - *grown-before*: room is made before bytes are appended, so that appending moves nothing.

use crate::task::yield_if_needed;

/// What is copied without a look at the clock.
pub const PIECE_BYTES: usize = 256 << 10;

const _: () = assert!(0 < PIECE_BYTES, "a copy that goes on");

/// Appends `bytes`, as [`Vec::extend_from_slice`] does.
pub async fn extend(out: &mut Vec<u8>, bytes: &[u8]) {
    reserve(out, bytes.len()).await;
    debug_assert!(bytes.len() <= out.capacity() - out.len(), "grown-before: {}", bytes.len());
    if bytes.len() <= PIECE_BYTES {
        out.extend_from_slice(bytes);
        return;
    }
    for piece in bytes.chunks(PIECE_BYTES) {
        yield_if_needed().await;
        out.extend_from_slice(piece);
    }
}

/// Makes room for so many more bytes, as [`Vec::reserve`] does.
pub async fn reserve(out: &mut Vec<u8>, more: usize) {
    if more <= out.capacity() - out.len() {
        return;
    }
    if out.len() <= PIECE_BYTES {
        out.reserve(more);
        return;
    }
    let capacity = (out.len() + more).max(2 * out.capacity());
    let mut grown = Vec::with_capacity(capacity);
    for piece in out.chunks(PIECE_BYTES) {
        yield_if_needed().await;
        grown.extend_from_slice(piece);
    }
    debug_assert_eq!(grown.len(), out.len(), "grown-before: a piece was lost");
    debug_assert!(more <= grown.capacity() - grown.len(), "grown-before: {more} more");
    *out = grown;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_copy_in_pieces_is_the_copy_and_lets_others_run() {
        let turns = crate::sim::test(7, || async {
            let turns = Rc::new(Cell::new(0));
            let theirs = turns.clone();
            let scope = task::Scope::new();
            let other = scope.spawn(async move {
                loop {
                    theirs.set(theirs.get() + 1);
                    task::yield_now().await;
                }
            });
            let bytes: Vec<u8> = (0..40 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
            let (mut out, mut wanted) = (vec![1, 2, 3], vec![1, 2, 3]);
            for length in [0, 7, PIECE_BYTES, PIECE_BYTES + 1, bytes.len(), 3, bytes.len()] {
                extend(&mut out, &bytes[..length]).await;
                wanted.extend_from_slice(&bytes[..length]);
                assert_eq!(out.len(), wanted.len());
            }
            assert!(out == wanted);
            drop(other);
            turns.get()
        });
        assert!(1 < turns, "nobody else had a turn");
    }
}
