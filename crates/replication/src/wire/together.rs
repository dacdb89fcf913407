//! Requests to one replica that travel together, and what came of each.
//!
//! ```text
//! MUTATIONS    (length:be32 request)+   each as MUTATION has it      -> answers
//! READ_DIGESTS (length:be32 request)+   each as READ_DIGEST has it   -> answers
//! answers := nothing, where each is answered by nothing
//!          | (kind:u8 length:be32 bytes)+
//!            0 an answer; 1 a refusal; 2 it is to be asked alone, no bytes
//! ```
//! They are sent where all nodes know them (`catalog::features::REQUESTS_TOGETHER`).

use super::Refusal;
use stdx::{Cursor, Damaged, Put};

/// What comes before a request, and before an answer.
pub(crate) const HEAD_BYTES: usize = 4;
const ANSWER_BYTES_MIN: usize = 5;

/// What came of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each<'a> {
    Answer(&'a [u8]),
    /// In the bytes of a [`Refusal`].
    Refused(&'a [u8]),
    /// The answer takes longer than others are to wait for it.
    Alone,
}

/// Adds a request, which may be in pieces.
pub(crate) fn put(out: &mut Vec<u8>, pieces: [&[u8]; 2]) {
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    debug_assert!(0 < length, "one-form: a request of nothing");
    out.put_u32(u32::try_from(length).expect("a request is under 4 GiB"));
    pieces.iter().for_each(|piece| out.put(piece));
}

/// The requests, at least one; nothing follows the first that is damaged.
pub(crate) fn requests(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], Damaged>> {
    let mut cursor = Some(Cursor::new(bytes));
    std::iter::from_fn(move || {
        let mut rest = cursor.take()?;
        let request = rest.u32_bytes("a request among others");
        let request = match request {
            Ok([]) => Err(rest.damaged("a request of nothing among others")),
            request => request,
        };
        cursor = Some(rest).filter(|rest| request.is_ok() && !rest.is_empty());
        Some(request)
    })
}

/// Answers, in the order of their requests.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    out: Vec<u8>,
    /// Something else than nothing.
    says: bool,
}

impl Answers {
    pub(crate) fn with_capacity(bytes: usize) -> Answers {
        Answers { out: Vec::with_capacity(bytes), says: false }
    }

    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        self.put(0, bytes);
        self.says |= !bytes.is_empty();
    }

    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.refused(&refusal.encode());
    }

    fn refused(&mut self, refusal: &[u8]) {
        self.put(1, refusal);
        self.says = true;
    }

    pub(crate) fn alone(&mut self) {
        self.put(2, &[]);
        self.says = true;
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) {
        self.out.put_u8(kind);
        self.out.put_u32_bytes(bytes);
        debug_assert!(ANSWER_BYTES_MIN <= self.out.len(), "one-form: an answer without a head");
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        debug_assert!(!self.says || !self.out.is_empty(), "one-form: what says nothing");
        if self.says { self.out } else { Vec::new() }
    }
}

/// Answers as they came: what [`answers`] reads.
pub(crate) fn encode_answers(all: &[Each<'_>]) -> Vec<u8> {
    let mut out = Answers::default();
    for one in all {
        match one {
            Each::Answer(bytes) => out.answer(bytes),
            Each::Refused(bytes) => out.refused(bytes),
            Each::Alone => out.alone(),
        }
    }
    out.finish()
}

/// The answers to so many requests.
pub(crate) fn answers(bytes: &[u8], count: usize) -> Result<Vec<Each<'_>>, Damaged> {
    debug_assert!(0 < count, "one-form: answers to nothing");
    if bytes.is_empty() {
        return Ok(vec![Each::Answer(&[]); count]);
    }
    let (mut cursor, mut all, mut says) = (Cursor::new(bytes), Vec::with_capacity(count), false);
    for _ in 0..count {
        let kind = cursor.u8("answer among others")?;
        let bytes = cursor.u32_bytes("answer among others")?;
        all.push(match (kind, bytes) {
            (0, _) => Each::Answer(bytes),
            (1, _) => Each::Refused(bytes),
            (2, []) => Each::Alone,
            _ => return Err(cursor.damaged("answer among others")),
        });
        says |= kind != 0 || !bytes.is_empty();
    }
    super::end(&cursor)?;
    match says {
        true => Ok(all),
        false => Err(cursor.damaged("answers of nothing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RefusalKind;
    use crate::wire::foreign::read_as_each;
    use proptest::prelude::*;

    fn refusal(text: &str) -> Refusal {
        Refusal::new(RefusalKind::Failed, text)
    }

    proptest! {
        #[test]
        fn requests_and_answers_come_back(
            sent in proptest::collection::vec((any::<Vec<u8>>(), 1u8..), 1..9),
            kinds in proptest::collection::vec((0u8..3, any::<Vec<u8>>(), "[a-z]{0,9}"), 1..9),
        ) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|(head, last)| put(&mut bytes, [head, &[*last]]));
            let expected: Vec<Vec<u8>> =
                sent.iter().map(|(head, last)| [&head[..], &[*last]].concat()).collect();
            let found: Result<Vec<_>, _> = requests(&bytes).collect();
            prop_assert_eq!(found.expect("requests"), expected);
            prop_assert!(requests(&bytes[..bytes.len() - 1]).any(|it| it.is_err()));

            let refusals = kinds.iter().map(|(_, _, text)| refusal(text).encode());
            let refusals: Vec<_> = refusals.collect();
            let mut out = Answers::default();
            let mut expected = Vec::new();
            for ((kind, bytes, text), refused) in kinds.iter().zip(&refusals) {
                match kind {
                    0 => out.answer(bytes),
                    1 => out.refuse(&refusal(text)),
                    _ => out.alone(),
                }
                expected.push(match kind {
                    0 => Each::Answer(bytes),
                    1 => Each::Refused(refused),
                    _ => Each::Alone,
                });
            }
            let bytes = out.finish();
            prop_assert_eq!(answers(&bytes, kinds.len()), Ok(expected));
            if !bytes.is_empty() {
                prop_assert!(answers(&bytes, kinds.len() + 1).is_err());
                prop_assert!(answers(&bytes[..bytes.len() - 1], kinds.len()).is_err());
            }
        }

        #[test]
        fn any_bytes_are_survived_and_have_one_form(
            bytes in proptest::collection::vec(0u8..4, 0..40),
        ) {
            read_as_each(&bytes);
        }
    }

    #[test]
    fn what_is_answered_by_nothing_is_nothing() {
        let mut out = Answers::with_capacity(20);
        out.answer(&[]);
        out.answer(&[]);
        assert!(out.finish().is_empty());
        assert_eq!(answers(&[], 2), Ok(vec![Each::Answer(&[]); 2]));
        // There is one form of it.
        assert!(answers(&[0; 10], 2).is_err());
    }
}
