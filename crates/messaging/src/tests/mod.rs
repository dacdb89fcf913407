//! Simulated nodes that speak to each other, with what can go wrong between them.
//!
//! Invariants that are checked, each named where it is:
//!  - *reply-of-its-request*: a reply belongs to its request.
//!  - *handled-at-most-once*: a request is handled at most once for each time that it is sent, and
//!    exactly once where it was answered.
//!  - *never-sent-never-handled*: what failed as never sent was never handled.
//!  - *bounded-memory*, *both-bounds*: memory and requests without an answer stay within their
//!    bounds.
//!  - *whole-streams*: what is read of a stream is what was sent, from its first byte on.
//!  - *nobody-is-refused*: no node of ours breaks the protocol.
//!  - *all-given-back*: when nothing is asked any more, nothing is held.
//!  - *heals*: after faults end, everybody is reached again.

mod arriving;
mod basics;
mod faults;
mod liveness;
mod secure;
mod shaking;
mod world;
