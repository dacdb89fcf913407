//! What travels: bytes that were made here, and at most one large part that others may hold too.
//!
//! Invariants
//!  - *whole-payload*: its bytes are those of its head, and those of its body after them.

use runtime::net::Part;
use smallvec::SmallVec;
use std::rc::Rc;

/// Bytes that were made for one message. Few of them, as most have, are no allocation.
pub type Head = SmallVec<[u8; 32]>;

/// The body of a message. Small ones are copied once, into what the kernel is handed; the body of
/// one that is large is handed over as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    head: Head,
    body: Option<Part>,
}

impl Payload {
    /// Nothing.
    pub fn empty() -> Payload {
        Payload::default()
    }

    /// A head, and bytes that follow it and that nobody else needs.
    pub fn with_body(head: impl Into<Head>, body: Vec<u8>) -> Payload {
        Payload { head: head.into(), body: Some(Part::Owned(body)) }
    }

    /// A head, and bytes that follow it and go to others too: a mutation to its replicas.
    pub fn with_shared(head: impl Into<Head>, body: Rc<Vec<u8>>) -> Payload {
        Payload { head: head.into(), body: Some(Part::Shared(body)) }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        let body_bytes = self.body.as_ref().map_or(0, |body| body.len());
        debug_assert!(body_bytes <= usize::MAX - self.head.len(), "whole-payload: {body_bytes}");
        self.head.len() + body_bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it in one piece; copies where it has two.
    pub fn into_bytes(self) -> Vec<u8> {
        let len = self.len();
        let bytes = match self.body {
            None => self.head.into_vec(),
            Some(Part::Owned(body)) if self.head.is_empty() => body,
            Some(body) => [&self.head, &body[..]].concat(),
        };
        debug_assert_eq!(bytes.len(), len, "whole-payload: {} bytes", bytes.len());
        bytes
    }

    pub(crate) fn into_parts(self) -> (Head, Option<Part>) {
        (self.head, self.body)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(head: Vec<u8>) -> Payload {
        Payload { head: head.into(), body: None }
    }
}

impl From<Head> for Payload {
    fn from(head: Head) -> Payload {
        Payload { head, body: None }
    }
}

impl From<&[u8]> for Payload {
    fn from(head: &[u8]) -> Payload {
        Head::from_slice(head).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_body() {
        let whole = b"head and body".to_vec();
        let shared = Rc::new(b" and body".to_vec());
        let cut = [
            whole.clone().into(),
            Payload::with_body(b"head".to_vec(), b" and body".to_vec()),
            Payload::with_shared(b"head".to_vec(), shared),
            Payload::with_body(Vec::new(), whole.clone()),
        ];
        for payload in cut {
            assert_eq!(payload.len(), whole.len());
            assert_eq!(payload.into_bytes(), whole);
        }
        assert!(Payload::empty().is_empty());
    }
}
