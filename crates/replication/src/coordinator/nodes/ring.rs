//! A read of a range of the ring: stretch by stretch, each of which has one set of replicas.

use super::Coordinator;
use super::gather::Reading;
use crate::error::ReadError;
use crate::placement::Replicas;
use crate::range;
use model::Token;
use mutation::page::{Page, Partitions, ReadCommand};

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
        loop {
            let (replicas, last) = self.places().stretch(reading.table, at);
            assert!(at <= last, "ring-order: a stretch from {at:?} to {last:?}");
            let Replicas::Nodes(replicas) = replicas else {
                let text = "the table was moved while it was read";
                return Err(ReadError::Overloaded(text.to_owned()));
            };
            if let Some(part) = range::stretch(&command, (behind, last), &answer) {
                let page = self.read_stretch(reading, replicas, &part).await?;
                range::append(&mut answer, page);
            }
            let is_last = end.token <= last || last.0 == i64::MAX;
            if !is_last && answer.resume.is_none() {
                answer.resume = range::full_at(&command, &answer);
            }
            if is_last || answer.resume.is_some() {
                range::check_page(&command, &answer);
                return Ok(answer);
            }
            (at, behind) = (Token(last.0 + 1), Some(last));
        }
    }
}
