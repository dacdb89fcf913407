//! A read of a range of the ring: stretch by stretch, each of which has one set of replicas.
//!
//! As long as the page has much room, several stretches are read at once: twice as many each time,
//! and no more than will fill the page if they have as many rows as those before. What was read
//! ahead is looked at in the order of the ring, and read again where those before it have left it
//! less room than it was asked with.
//!
//! Invariants
//!  - *no-gap*, *within-limits*: see [`crate::range`].
//!  - *bounded*: no more than [`AHEAD_MAX`] stretches are read at once.

use super::Coordinator;
use super::gather::Reading;
use crate::error::ReadError;
use crate::placement::{Replica, Replicas};
use crate::range;
use model::Token;
use mutation::page::{Page, Partitions, ReadCommand};
use runtime::task::join_all;
use std::rc::Rc;

/// Stretches that are read at once.
pub(super) const AHEAD_MAX: usize = 16;

/// A stretch of the range: from behind a token (its start, where none is given) to another one.
struct Part {
    behind: Option<Token>,
    last: Token,
    replicas: Rc<[Replica]>,
    /// `None`: nothing of the range is in it.
    command: Option<ReadCommand>,
}

impl Coordinator {
    /// A page of a range.
    pub(super) async fn read_ring(
        &self,
        reading: &Reading<'_>,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        let command = range::settle(command.clone());
        let Partitions::Range { start, end } = &command.partitions else {
            return Ok(Page::default());
        };
        debug_assert!(start.token <= end.token, "ring-order: from {start:?} to {end:?}");
        let mut answer = Page::default();
        let (mut at, mut behind) = (start.token, None);
        let (mut ahead, mut read) = (1, 0);
        loop {
            let parts = self.parts(reading, &command, (at, behind), &answer, ahead)?;
            let asked = parts.iter().map(|part| self.read_part(reading, part));
            for (part, page) in parts.iter().zip(join_all(asked).await) {
                let room = range::stretch(&command, (part.behind, part.last), &answer);
                if let (Some(room), Some(asked), Some(page)) = (room, &part.command, page?) {
                    if !range::fits(asked, &room, &page) {
                        stdx::probe!("a stretch that was read ahead has more than there is room");
                        break;
                    }
                    range::append(&mut answer, page);
                }
                read += 1;
                let is_last = end.token <= part.last || part.last.0 == i64::MAX;
                if !is_last && answer.resume.is_none() {
                    answer.resume = range::full_at(&command, &answer);
                }
                if is_last || answer.resume.is_some() {
                    range::check_page(&command, &answer);
                    return Ok(answer);
                }
                (at, behind) = (Token(part.last.0 + 1), Some(part.last));
            }
            ahead = range::ahead(&command, &answer, read, 2 * ahead).min(AHEAD_MAX);
        }
    }

    /// The next stretches, so many at most.
    fn parts(
        &self,
        reading: &Reading<'_>,
        command: &ReadCommand,
        (mut at, mut behind): (Token, Option<Token>),
        answer: &Page,
        count: usize,
    ) -> Result<Vec<Part>, ReadError> {
        let Partitions::Range { end, .. } = &command.partitions else { return Ok(Vec::new()) };
        assert!((1..=AHEAD_MAX).contains(&count), "bounded: {count} stretches at once");
        let mut parts = Vec::with_capacity(count);
        loop {
            let (replicas, last) = self.places().stretch(reading.table, at);
            assert!(at <= last, "ring-order: a stretch from {at:?} to {last:?}");
            let Replicas::Nodes(replicas) = replicas else {
                let text = "the table was moved while it was read";
                return Err(ReadError::Overloaded(text.to_owned()));
            };
            let command = range::stretch(command, (behind, last), answer);
            parts.push(Part { behind, last, replicas, command });
            if parts.len() == count || end.token <= last || last.0 == i64::MAX {
                return Ok(parts);
            }
            (at, behind) = (Token(last.0 + 1), Some(last));
        }
    }

    async fn read_part(
        &self,
        reading: &Reading<'_>,
        part: &Part,
    ) -> Result<Option<Page>, ReadError> {
        let Some(command) = &part.command else { return Ok(None) };
        let page = self.read_stretch(reading, part.replicas.clone(), command).await?;
        range::check_page(command, &page);
        Ok(Some(page))
    }
}
