//! What nodes and connections are called.

use std::fmt;

/// The permanent name of a node, a UUID that it drew at its first start. Its address is only where
/// it is now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u128);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        debug_assert_eq!(digits.len(), 32, "a UUID has 32 digits, not {digits}");
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        f.write_str(&parts.join("-"))
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a connection is for. Each class has connections, queues and memory of its own, so that one
/// never waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Consensus, liveness, membership: little, and never late.
    Control,
    /// What clients wait for: reads, writes, lightweight transactions.
    Statements,
    /// Streams of data, repair, hints: much, and in no hurry.
    Bulk,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 3] = [Class::Control, Class::Statements, Class::Bulk];

    /// Its place in [`Class::ALL`].
    pub fn index(self) -> usize {
        debug_assert_eq!(Class::ALL[self as usize], self, "one-number: a class has its place");
        self as usize
    }

    /// Its number on the wire.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Class> {
        Class::ALL.get(usize::from(code)).copied()
    }

    /// As metrics and the log call it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Control => "control",
            Class::Statements => "statements",
            Class::Bulk => "bulk",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const _: () = assert!(Class::ALL.len() == Class::Bulk as usize + 1, "one-number: all classes");

/// Which shard of a node is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToShard {
    /// The one of our own number, modulo how many the node has: for what any shard can do.
    Same,
    /// This one, modulo how many the node has.
    At(u16),
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub host: HostId,
    pub shard: ToShard,
    pub class: Class,
}

impl Target {
    /// Any shard of a node, for control messages.
    pub fn control(host: HostId) -> Target {
        Target { host, shard: ToShard::Same, class: Class::Control }
    }

    /// A shard of a node, for what clients wait for.
    pub fn statements(host: HostId, shard: ToShard) -> Target {
        Target { host, shard, class: Class::Statements }
    }

    /// A shard of a node, for much data.
    pub fn bulk(host: HostId, shard: ToShard) -> Target {
        Target { host, shard, class: Class::Bulk }
    }
}

/// A kind of message: its number on the wire, and what people call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    pub number: u16,
    pub name: &'static str,
}

impl Verb {
    /// A verb; 0 is none.
    pub const fn new(number: u16, name: &'static str) -> Verb {
        assert!(0 < number, "verb 0 is none");
        Verb { number, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_people_read_them() {
        let id = HostId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(id.to_string(), "01234567-89ab-cdef-0011-223344556677");
        assert_eq!(HostId(1).to_string(), "00000000-0000-0000-0000-000000000001");
        for class in Class::ALL {
            assert_eq!(Class::from_code(class.code()), Some(class));
            assert_eq!(Class::ALL[class.index()], class);
        }
        assert_eq!(Class::from_code(3), None);
    }
}
