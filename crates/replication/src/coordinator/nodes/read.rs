//! A read of one partition, or of a stretch of the ring that has one set of replicas: the page of
//! the nearest, and digests of the others ([`crate::digest`]); where they differ, mutations of all
//! of them.

use super::gather::{Copies, Progress, Reading, Retry};
use super::peers::{Answer, Asked, Question, left};
use super::repair::Merged;
use super::{Coordinator, Planted, refuse_read};
use crate::coordinator::{unwanted, work_of};
use crate::digest::{self, Digest};
use crate::error::{ReadError, read_failed};
use crate::options::{ReadOptions, WriteKind, WriteOptions};
use crate::placement::Replica;
use crate::plan::nodes::{Candidates, ReadPlan, Unavailable, plan_read};
use crate::wire;
use cluster::TableEntry;
use cluster::traffic::Failure;
use mutation::page::{Page, Partitions, ReadCommand, RowShape};
use runtime::time::{Instant, Mark, timeout};
use std::rc::Rc;

impl Coordinator {
    /// As [`Coordinator::read`], of a table that is on several nodes; `replicas`: of the key.
    pub(in crate::coordinator) async fn read_spread(
        &self,
        table: &TableEntry,
        replicas: Rc<[Replica]>,
        command: &ReadCommand,
        options: &ReadOptions<'_>,
    ) -> Result<Page, ReadError> {
        let level = options.consistency;
        refuse_read(level)?;
        if !wire::command::fits(command) {
            let text = "the statement has too many ranges or columns for a cluster";
            return Err(ReadError::Refused(text.to_owned()));
        }
        let (work, began) = (work_of(command, level), Mark::now());
        let _under_way = self.traffic.begin(work);
        let (progress, until) = (Progress::default(), Instant::now() + options.timeout);
        let retry = Retry::of(&table.schema.options.speculative_retry);
        let limit = options.limit;
        let reading = Reading { table, level, until, retry, progress: &progress, limit };
        // Boxed is what is seldom, or takes long: the rest is not to pay for its room, nor for a
        // timer besides its own.
        let has_room = options.wanted.is_none_or(|wanted| wanted.room.try_take(wanted.bytes));
        let read = match &command.partitions {
            Partitions::Key(_) if has_room && !level.is_serial() => {
                self.read_stretch(&reading, replicas, command).await
            }
            _ => {
                let reads = self.read_at_length(&reading, replicas, command, (options, has_room));
                reading.in_time(Box::pin(reads)).await
            }
        };
        self.traffic.record(&table.local.traffic, work, began);
        if let Err(error) = &read {
            let failure = match error {
                ReadError::Timeout { .. } => Failure::Timeout,
                ReadError::Unavailable { .. } => Failure::Unavailable,
                ReadError::RateLimited(_) => Failure::LimitedThere,
                _ => Failure::Other,
            };
            self.traffic.fail(work, failure);
        }
        read
    }

    /// A read that waits for room, that is a round, or one of a range.
    async fn read_at_length(
        &self,
        reading: &Reading<'_>,
        replicas: Rc<[Replica]>,
        command: &ReadCommand,
        (options, has_room): (&ReadOptions<'_>, bool),
    ) -> Result<Page, ReadError> {
        let level = reading.level;
        if let Some(wanted) = options.wanted.filter(|_| !has_room)
            && !wanted.take().await
        {
            return Err(read_failed(unwanted(), level, reading.progress.required.get()));
        }
        if level.is_serial() {
            let (kind, limit) = (WriteKind::Cas, None);
            let round = WriteOptions { consistency: level, timeout: options.timeout, kind, limit };
            return self.read_serial(reading.table, command, &round).await;
        }
        match &command.partitions {
            Partitions::Key(_) => self.read_stretch(reading, replicas, command).await,
            Partitions::Range { .. } => self.read_ring(reading, command).await,
        }
    }

    /// A page of what has one set of replicas. Ends by itself when the time of the read is over.
    pub(super) async fn read_stretch(
        &self,
        reading: &Reading<'_>,
        replicas: Rc<[Replica]>,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        let Reading { table, level, .. } = *reading;
        debug_assert!(command.table == table.schema.id, "owner-only: of another table");
        let copies = &table.replication;
        let make = |candidates: &Candidates| {
            plan_read(level, &self.read_factors(copies, &replicas, level), candidates)
        };
        let (candidates, plan) = self.nodes.reads.get(self, (&replicas, copies), level, make);
        let plan = plan.map_err(|missing| unavailable(reading, missing))?;
        let copies = Copies { replicas, candidates };
        match plan.asked[..] {
            [] => Err(unavailable(reading, Unavailable { required: 1, alive: 0 })),
            [one] => self.read_one(reading, &copies, plan, one, command).await,
            _ if table.schema.is_counter() => {
                let read = self.read_mutations(reading, &copies, plan, command);
                reading.in_time(Box::pin(read)).await.map(|merged| merged.page)
            }
            _ => self.read_compared(reading, &copies, plan, command).await,
        }
    }

    /// All that the replicas have of what a command reads of one partition, and its page.
    pub(super) async fn read_whole(
        &self,
        reading: &Reading<'_>,
        replicas: Rc<[Replica]>,
        command: &ReadCommand,
    ) -> Result<Merged, ReadError> {
        let Reading { table, level, .. } = *reading;
        debug_assert!(command.table == table.schema.id, "owner-only: of another table");
        let copies = &table.replication;
        let candidates = self.candidates(&replicas);
        let factors = self.read_factors(copies, &replicas, level);
        let plan = plan_read(level, &factors, &candidates);
        let plan = plan.map_err(|missing| unavailable(reading, missing))?;
        if plan.asked.is_empty() {
            return Err(unavailable(reading, Unavailable { required: 1, alive: 0 }));
        }
        let copies = Copies { replicas, candidates };
        Box::pin(self.read_mutations(reading, &copies, plan, command)).await
    }

    /// The page of one replica.
    async fn read_one(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        mut plan: ReadPlan,
        nearest: usize,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        let Reading { table, .. } = *reading;
        assert!(plan.asked[..] == [nearest], "nearest-first: {:?} are asked", plan.asked);
        if copies.replicas[nearest].is_here {
            reading.progress.required.set(plan.tally.required());
            let here = timeout(left(reading.until), self.page_here(table, command));
            let Ok(read) = here.await else { return Err(reading.timed_out()) };
            let error = match read {
                Ok(page) => return Ok(page),
                Err(error) => read_failed(error, reading.level, 1),
            };
            plan.tally.fail(&copies.candidates[nearest]);
            let Some(spare) = plan.replace(&copies.candidates, Some(nearest)) else {
                return Err(error);
            };
            plan.asked = [spare][..].into();
        }
        let asked = ReadCommand { shape: RowShape::Whole, ..command.clone() };
        let mut request = Asked::new(table, &asked, reading.until);
        request.limit = reading.limit_among(&copies.replicas);
        let questions = (Question::Data, Question::Data);
        let answers = self.gather(reading, copies, &mut plan, questions, &request).await?;
        let pages = answers.into_iter().find_map(|(_, answer)| match answer {
            Answer::Page(page) => Some(page),
            _ => None,
        });
        let page = pages.expect("data-and-digests: a page is among what was gathered");
        Ok(digest::finish(&table.schema, command, &asked, page))
    }

    /// The page of one replica, if the others would answer it too.
    async fn read_compared(
        &self,
        reading: &Reading<'_>,
        copies: &Copies,
        mut plan: ReadPlan,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        let Reading { table, .. } = *reading;
        let asked = match self.is_planted(Planted::TellsNoLiveness) {
            true => ReadCommand { shape: RowShape::Whole, ..command.clone() },
            false => digest::comparable(command),
        };
        let mut request = Asked::new(table, &asked, reading.until);
        request.limit = reading.limit_among(&copies.replicas);
        let questions = (Question::Data, Question::Digest);
        let answers = self.gather(reading, copies, &mut plan, questions, &request).await?;
        let digest_of = |answer: &Answer| match answer {
            Answer::Page(page) => Some(Digest::of(page)),
            Answer::Digest(digest) => Some(*digest),
            Answer::Stretch(_) => None,
        };
        let mut digests = answers.iter().map(|(_, answer)| digest_of(answer));
        let first = digests.next().flatten().expect("data-and-digests: mutations are compared");
        assert!(0 < digests.len(), "data-and-digests: one page alone is compared");
        let is_equal = |other: Option<Digest>| match self.is_planted(Planted::ComparesCounts) {
            true => other.is_some_and(|other| other.bytes == first.bytes),
            false => other == Some(first),
        };
        if !digests.all(is_equal) {
            let background = &self.nodes.background;
            background.differing.set(background.differing.get() + 1);
            let who: Vec<usize> = answers.iter().map(|(index, _)| *index).collect();
            let again = plan.again(&who, &copies.candidates);
            let read = self.read_mutations(reading, copies, again, command);
            return reading.in_time(Box::pin(read)).await.map(|merged| merged.page);
        }
        let page = answers.into_iter().find_map(|(_, answer)| match answer {
            Answer::Page(page) => Some(page),
            _ => None,
        });
        let page = page.expect("data-and-digests: a page is among what was gathered");
        Ok(digest::finish(&table.schema, command, &asked, page))
    }
}

fn unavailable(reading: &Reading<'_>, missing: Unavailable) -> ReadError {
    let Unavailable { required, alive } = missing;
    assert!(alive < required.max(1), "acknowledged-at-level: {alive} of {required}");
    ReadError::Unavailable { consistency: reading.level, required, alive }
}
