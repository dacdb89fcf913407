//! What goes wrong between nodes, and what the caller may conclude from it.
//!
//! Invariants
//!  - *never-sent-never-handled*: of what failed as [`CallError::NeverSent`] no byte left this
//!    node: no handler saw it, and none will.
//!  - *lost-is-unknown*: what left this node and has no answer is [`CallError::OutcomeUnknown`]: it
//!    was handled, or not, or will be.

use std::fmt;

/// The longest text of a refusal on the wire.
pub(crate) const TEXT_BYTES_MAX: usize = 512;

/// Why a connection is refused, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Refusal {
    /// It speaks no version that we speak.
    Version = 1,
    /// It is of another cluster.
    Cluster = 2,
    /// It was banned.
    Banned = 3,
    /// It is not the node that was expected at this address.
    WrongHost = 4,
    /// It is the very node that asks.
    Oneself = 5,
    /// It is plain, and we ask for TLS.
    NeedsTls = 6,
    /// It wants TLS, which we have not.
    NoTls = 7,
    /// It broke the protocol, or bytes were changed on their way.
    Damaged = 8,
    /// The node stops.
    Stopping = 9,
    /// There are too many connections.
    Crowded = 10,
    /// It said nothing for too long.
    Silent = 11,
    /// It names another node than its certificate.
    Certificate = 12,
}

const _: () = assert!(Refusal::ALL.len() == Refusal::Certificate as usize, "all refusals");

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 12] = [
        Refusal::Version,
        Refusal::Cluster,
        Refusal::Banned,
        Refusal::WrongHost,
        Refusal::Oneself,
        Refusal::NeedsTls,
        Refusal::NoTls,
        Refusal::Damaged,
        Refusal::Stopping,
        Refusal::Crowded,
        Refusal::Silent,
        Refusal::Certificate,
    ];

    /// By its number.
    pub fn from_code(code: u32) -> Option<Refusal> {
        let place = usize::try_from(code).ok()?.checked_sub(1)?;
        let refusal = Refusal::ALL.get(place).copied();
        debug_assert!(refusal.is_none_or(|one| one as u32 == code), "one-form: {refusal:?}");
        refusal
    }
}

/// A refusal: by whom, why, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub why: Refusal,
    pub text: String,
}

impl Refused {
    /// A refusal with its text, shortened where it is long, and fit for a line of the log.
    pub fn new(why: Refusal, text: impl Into<String>) -> Refused {
        let mut text = text.into().replace(char::is_control, "?");
        if TEXT_BYTES_MAX < text.len() {
            let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
        }
        debug_assert!(text.len() <= TEXT_BYTES_MAX, "a text fits its frame");
        Refused { why, text }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl std::error::Error for Refused {}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// No address of the node is known.
    UnknownPeer,
    /// It was banned here.
    Banned,
    /// It cannot be reached, or the connection broke.
    Net(String),
    /// We refused it.
    RefusedByUs(Refused),
    /// It refused us.
    RefusedByPeer(Refused),
    /// This node stops.
    Stopping,
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Down::UnknownPeer => f.write_str("its address is not known"),
            Down::Banned => f.write_str("it is banned"),
            Down::Net(what) => f.write_str(what),
            Down::RefusedByUs(refused) => write!(f, "refused by us: {refused}"),
            Down::RefusedByPeer(refused) => write!(f, "refused by it: {refused}"),
            Down::Stopping => f.write_str("this node stops"),
        }
    }
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// There is no connection.
    Down(Down),
    /// Its time was over before there was room for it.
    TooLate,
    /// As many wait for room as may.
    Crowded,
    /// It has more bytes than the other node takes.
    TooLarge { bytes: usize, max: usize },
}

/// Why the outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The connection broke.
    Broken(Down),
    /// Its time was over.
    TooLate,
}

/// A call without a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Nothing of it left this node (*never-sent-never-handled*).
    NeverSent(NotSent),
    /// It left this node, and nobody knows more (*lost-is-unknown*).
    OutcomeUnknown(Lost),
    /// The other node has no such verb: it did nothing.
    UnknownVerb,
    /// The other node stops: it did not begin.
    PeerStops,
    /// It was done, and its answer has more bytes than we take.
    ReplyTooLarge,
    /// The handler says no, in its own words.
    Failed(Vec<u8>),
}

impl CallError {
    /// Whether the other node surely did nothing: it can be asked, or another one, again.
    pub fn is_nothing_done(&self) -> bool {
        use CallError::{NeverSent, PeerStops, UnknownVerb};
        matches!(self, NeverSent(_) | UnknownVerb | PeerStops)
    }

    /// Whether its time was over.
    pub(crate) fn is_late(&self) -> bool {
        use CallError::{NeverSent, OutcomeUnknown};
        matches!(self, NeverSent(NotSent::TooLate) | OutcomeUnknown(Lost::TooLate))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NeverSent(NotSent::Down(down)) => write!(f, "not sent: {down}"),
            CallError::NeverSent(NotSent::TooLate) => f.write_str("not sent in time"),
            CallError::NeverSent(NotSent::Crowded) => f.write_str("not sent: too many wait"),
            CallError::NeverSent(NotSent::TooLarge { bytes, max }) => {
                write!(f, "not sent: {bytes} bytes, and {max} are taken")
            }
            CallError::OutcomeUnknown(Lost::Broken(down)) => {
                write!(f, "outcome not known: the connection ended: {down}")
            }
            CallError::OutcomeUnknown(Lost::TooLate) => {
                f.write_str("outcome not known: no answer in time")
            }
            CallError::UnknownVerb => f.write_str("the other node does not know this verb"),
            CallError::PeerStops => f.write_str("the other node stops"),
            CallError::ReplyTooLarge => f.write_str("the answer is too large"),
            CallError::Failed(_) => f.write_str("the other node refuses"),
        }
    }
}
impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_numbers_and_short_texts() {
        for why in Refusal::ALL {
            assert_eq!(Refusal::from_code(why as u32), Some(why));
        }
        assert_eq!(Refusal::from_code(0), None);
        let long = Refused::new(Refusal::Cluster, "\u{e9}".repeat(600));
        assert_eq!(long.text.len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn what_did_nothing_can_be_tried_again() {
        let down = Down::Net("connection reset".into());
        let check = |error: CallError, nothing: bool, text: &str| {
            assert_eq!((error.is_nothing_done(), error.to_string().as_str()), (nothing, text));
        };
        let text = "not sent: connection reset";
        check(CallError::NeverSent(NotSent::Down(down.clone())), true, text);
        let text = "outcome not known: the connection ended: connection reset";
        check(CallError::OutcomeUnknown(Lost::Broken(down)), false, text);
        check(CallError::UnknownVerb, true, "the other node does not know this verb");
        check(CallError::Failed(vec![]), false, "the other node refuses");
    }
}
