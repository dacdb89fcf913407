//! Rows that an index leads to: pages of the index, and for each the rows of the base table.
//!
//! Where several values are looked up, what the index has for each is merged, so that rows come in
//! the order of the base table, each once.
//!
//! Invariants
//!  - *table-order*: rows come in the order in which a scan of the base table has them. So pages,
//!    groups and limits of partitions are those of a scan, and one may go on where the other ended.
//!  - *one-read-a-partition*: of rows of one partition that stand side by side in a page of the
//!    index there is one read.
//!  - *bounded-ahead*: no more than [`PARTITIONS_AT_ONCE`] partitions are read at once, and none
//!    for which there is no room in the client's page if each has a row.
//!  - *pages-move-on*: a page without rows ends behind the place where it began.
//!  - *built-is-asked*: an index is asked only when all of its table is in it, on all nodes: until
//!    then rows are filtered, where that is allowed.

use super::{Consumed, FILTERED_PAGES_MAX, ReadCommand, Rows, Scan, execute_by, natural, take_key};
use crate::error::CqlError;
use crate::request::Request;
use cluster::TableEntry;
use model::{ClusteringOrder, Token};
use mutation::page::{
    Page, PageLayout, PageRow, PageView, Partitions, Resume, RowShape, SendRange,
};
use plan::restrictions::{BaseRow, IndexPart, IndexPlan, IndexRead};
use plan::select::{FoundRows, Grouping, SelectPlan};
use replication::{Consistency, Coordinator, ReadError, ReadOptions};
use runtime::time::{Instant, Mark, sleep};
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;
use std::ops::Range;
use std::time::Duration;

/// Partitions of the base table that are read at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// Rows of one page of an index.
const INDEX_ROWS_MAX: u64 = 1_000;

/// How long a statement waits for an index to be built, at most.
const BUILT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Before it looks again; each time twice as long, up to the second.
const BUILT_PAUSE: Duration = Duration::from_millis(5);
const BUILT_PAUSE_MAX: Duration = Duration::from_millis(200);

/// What an index has for one value, page by page.
struct Posting {
    read: IndexRead,
    /// Rows of the view that are not used yet.
    rows: IndexRows,
    is_done: bool,
    /// Whether the last page ended for its tombstones.
    is_cut: bool,
}

/// Rows of a page of an index, by their clustering keys, which stand in the page.
#[derive(Default)]
struct IndexRows {
    page: Vec<u8>,
    /// Where; of a query that means one row there is one.
    keys: SmallVec<[Range<usize>; 1]>,
    used: usize,
}

/// Partitions that are read at once. Of a query that means one row there is one.
type Groups = SmallVec<[Group; 1]>;
/// A page of each.
type Pages = SmallVec<[Page; 1]>;

/// Rows of one partition of the base table.
struct Group {
    token: Token,
    key: Vec<u8>,
    /// `None`: those of the query, which its command has.
    ranges: Option<Vec<SendRange>>,
    /// The last row, of rows that are read one by one.
    last: Vec<u8>,
}

/// The rows of a client's page that an index leads to.
struct Walk<'p> {
    index: &'p IndexPlan,
    postings: SmallVec<[Posting; 1]>,
    /// Which rows of a partition are wanted, where they are read one by one, and whether that is
    /// all of them.
    ranges: Vec<SendRange>,
    all_rows: bool,
    /// Of the base table.
    order: &'p ClusteringOrder,
    /// The row that was taken last, or the partition as a whole, if others may come.
    last: Option<BaseRow>,
    /// Where the page begins.
    begun: Option<Resume>,
}

/// Executes a `SELECT` that has an index.
pub(super) async fn execute(
    plan: &SelectPlan,
    index: &IndexPlan,
    request: &Request<'_>,
) -> Result<Rows, CqlError> {
    let is_known = request.coordinator.is_known_built(index.view.schema.id);
    let by_index = is_known || is_asked(plan, index, request).await?;
    let began = Mark::now();
    let rows = execute_by(plan, request, by_index).await;
    if by_index {
        index.view.local.traffic.record_by_index(began);
    }
    rows
}

/// Whether the index of a plan is asked; otherwise rows are filtered. Of a table with little data
/// it is built soon, and that is waited for. (*built-is-asked*)
async fn is_asked(
    plan: &SelectPlan,
    index: &IndexPlan,
    request: &Request<'_>,
) -> Result<bool, CqlError> {
    let view = index.view.schema.id;
    let patience = request.timeout.unwrap_or_else(|| request.timeouts.read_request_timeout.get().0);
    let wait = patience.min(BUILT_WAIT_MAX);
    let until = Instant::now() + wait;
    let mut pause = BUILT_PAUSE;
    loop {
        if request.coordinator.is_built_everywhere(view).await {
            return Ok(true);
        }
        if plan.allow_filtering {
            request.note(|| format!("The index {} is not built yet: filtering", index.name));
            return Ok(false);
        }
        if until < Instant::now() + pause {
            return Err(CqlError::invalid(format!(
                "The index {} is not built yet, and rows that it lacks would be missed: use ALLOW \
                 FILTERING to read without it, or wait until it is in system.\"IndexInfo\"",
                index.name
            )));
        }
        sleep(pause).await;
        pause = (2 * pause).min(BUILT_PAUSE_MAX);
    }
}

impl Scan<'_> {
    /// Reads the rows that an index leads to, part after part.
    pub(super) async fn read_indexed(
        &mut self,
        parts: Vec<IndexPart>,
        resume: Option<Resume>,
    ) -> Result<Option<Resume>, CqlError> {
        let plan = self.plan;
        let Some(index) = &plan.restrictions.index else { return Ok(None) };
        self.request.note(|| format!("Consulting the index {}", index.name));
        self.command.static_only_rows &= index.reads_partitions;
        let ranges = match index.reads_partitions {
            true => Vec::new(),
            false => std::mem::take(&mut self.command.ranges),
        };
        let mut walk = Walk {
            index,
            postings: SmallVec::new(),
            ranges,
            all_rows: plan.restrictions.clustering.is_full(),
            order: &plan.table.schema.order,
            last: None,
            begun: resume.clone(),
        };
        let mut within = resume.filter(|place| index.reads_partitions && place.after.is_some());
        let mut parts = parts.into_iter().peekable();
        while let Some(reads) = parts.next() {
            walk.postings = reads.into_iter().map(Posting::of).collect();
            let others = parts.peek().is_some();
            if let Consumed::Full(next) = self.read_part(&mut walk, &mut within, others).await? {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Reads the rows of a part; `others` tells whether parts come after it, `within` where its
    /// first partition goes on.
    async fn read_part(
        &mut self,
        walk: &mut Walk<'_>,
        within: &mut Option<Resume>,
        others: bool,
    ) -> Result<Consumed, CqlError> {
        for pages in 1usize.. {
            self.fill(walk).await?;
            let groups = walk.take(self.groups_wanted(), self.rows_wanted());
            let is_cut = walk.postings.iter().any(|posting| posting.is_cut);
            let tired = self.page_max.is_some()
                && (is_cut || (self.plan.is_filtered() && FILTERED_PAGES_MAX <= pages));
            let place = if tired { walk.place() } else { None };
            if !groups.is_empty() {
                let more = others || !walk.is_done();
                let consumed = self.read_groups(walk, groups, more, within.take()).await?;
                if let Consumed::Full(_) = consumed {
                    return Ok(consumed);
                }
            }
            if walk.is_done() {
                break;
            }
            if let Some(place) = place {
                return Ok(Consumed::Full(Some(self.with_count(place))));
            }
            runtime::task::yield_if_needed().await;
        }
        Ok(Consumed::All)
    }

    /// Whether each row that the index leads to is most likely one of the result.
    fn takes_all(&self) -> bool {
        !self.plan.is_filtered() && self.plan.grouping == Grouping::None
    }

    fn rows_wanted(&self) -> u64 {
        if self.takes_all() { self.room().max(1) } else { INDEX_ROWS_MAX }
    }

    fn groups_wanted(&self) -> usize {
        usize::try_from(self.rows_wanted()).unwrap_or(usize::MAX).min(PARTITIONS_AT_ONCE)
    }

    /// Reads the next page of all that have no row left.
    async fn fill(&self, walk: &mut Walk<'_>) -> Result<(), CqlError> {
        let index = walk.index;
        if let [posting] = &mut walk.postings[..] {
            return if posting.lacks_rows() { self.fill_one(index, posting).await } else { Ok(()) };
        }
        let lacking = |posting: &&mut Posting| posting.lacks_rows();
        let mut asked: Vec<&mut Posting> = walk.postings.iter_mut().filter(lacking).collect();
        for part in asked.chunks_mut(PARTITIONS_AT_ONCE) {
            let command = |posting: &&mut Posting| {
                let read = &posting.read;
                let from = (read.key().to_vec(), read.ranges.clone(), read.resume.clone());
                (read.token, self.index_command(index, from))
            };
            let commands: Vec<(Token, ReadCommand)> = part.iter().map(command).collect();
            let pages = self.read_all(&index.view, &commands, &self.index_options()).await;
            for ((posting, page), (_, command)) in part.iter_mut().zip(pages).zip(&commands) {
                self.take_index_page(index, posting, (page?, command.tombstone_limit));
            }
        }
        Ok(())
    }

    /// The same of one, as it mostly is.
    async fn fill_one(&self, index: &IndexPlan, posting: &mut Posting) -> Result<(), CqlError> {
        let read = &mut posting.read;
        let (key, ranges) = (std::mem::take(read.key_mut()), std::mem::take(&mut read.ranges));
        let mut command = self.index_command(index, (key, ranges, read.resume.take()));
        let (coordinator, options) = (self.request.coordinator, self.index_options());
        let page = match coordinator.read_now(&index.view, read.token, &command, &options) {
            Some(page) => page?,
            None => Box::pin(coordinator.read(&index.view, read.token, &command, &options)).await?,
        };
        *read.key_mut() = take_key(&mut command);
        read.ranges = std::mem::take(&mut command.ranges);
        self.take_index_page(index, posting, (page, command.tombstone_limit));
        Ok(())
    }

    fn take_index_page(
        &self,
        index: &IndexPlan,
        posting: &mut Posting,
        (page, limit): (Page, u64),
    ) {
        self.request.note(|| format!("Read {} rows of the index {}", page.row_count, index.name));
        posting.is_cut = limit <= page.tombstones_seen;
        posting.take(page);
    }

    /// Reads these pages: what is in memory one after the other, the rest at once.
    async fn read_all(
        &self,
        table: &TableEntry,
        commands: &[(Token, ReadCommand)],
        options: &ReadOptions<'_>,
    ) -> Vec<Result<Page, ReadError>> {
        let coordinator = self.request.coordinator;
        let now = |(token, command): &(Token, ReadCommand)| {
            coordinator.read_now(table, *token, command, options)
        };
        let mut pages: Vec<Option<Result<Page, ReadError>>> = commands.iter().map(now).collect();
        if pages.iter().any(Option::is_none) {
            let left = commands.iter().zip(&pages).filter(|(_, page)| page.is_none());
            let reads =
                left.map(|((token, command), _)| coordinator.read(table, *token, command, options));
            let read = Box::pin(runtime::task::join_all(reads)).await;
            let places = pages.iter_mut().filter(|page| page.is_none());
            places.zip(read).for_each(|(place, page)| *place = Some(page));
        }
        debug_assert!(pages.iter().all(Option::is_some), "bounded-ahead: a page is not read");
        pages.into_iter().flatten().collect()
    }

    /// The read of the next page of an index.
    fn index_command(
        &self,
        index: &IndexPlan,
        (key, ranges, resume): (Vec<u8>, Vec<SendRange>, Option<Resume>),
    ) -> ReadCommand {
        ReadCommand {
            table: index.view.schema.id,
            partitions: Partitions::Key(key),
            ranges,
            reversed: false,
            columns: Vec::new(),
            static_count: 0,
            row_limit: self.rows_wanted().min(INDEX_ROWS_MAX),
            per_partition_limit: u64::MAX,
            partition_limit: u64::MAX,
            bytes_max: self.command.bytes_max,
            static_only_rows: false,
            tombstone_limit: self.command.tombstone_limit,
            now: self.command.now,
            bypass_cache: self.command.bypass_cache,
            shape: RowShape::Whole,
            resume,
        }
    }

    /// At the level of the query; nothing is decided by conditions about an index.
    fn index_options(&self) -> ReadOptions<'static> {
        let options = self.request.read_options(&Partitions::Key(Vec::new()));
        let consistency = match options.consistency {
            Consistency::Serial => Consistency::Quorum,
            Consistency::LocalSerial => Consistency::LocalQuorum,
            other => other,
        };
        ReadOptions { consistency, ..options }
    }

    /// Reads these rows and takes those that pass; `more` tells whether others come after them,
    /// `within` where the first partition goes on.
    async fn read_groups(
        &mut self,
        walk: &Walk<'_>,
        mut groups: Groups,
        more: bool,
        within: Option<Resume>,
    ) -> Result<Consumed, CqlError> {
        let pages = self.read_first_pages(&mut groups, within).await?;
        let count = groups.len();
        for (at, (group, page)) in groups.iter_mut().zip(pages).enumerate() {
            let is_last = at + 1 == count && !more;
            let mut page = page;
            loop {
                let left = page.resume.take().filter(|next| next.after.is_some());
                page.resume.clone_from(&left);
                let more = left.is_some() || !is_last;
                let over = self.ends_page(&page);
                let end = || group.end(walk.index.reads_partitions);
                let consumed =
                    match self.plan.found.as_ref().filter(|it| self.are_found(walk, it, &page)) {
                        Some(found) => self.take_found(found, &mut page, more, end)?,
                        None => self.consume(&mut page, more).await?,
                    };
                if let Consumed::Full(next) = consumed {
                    return Ok(Consumed::Full(next));
                }
                if more && (over || self.has_bytes()) {
                    let place = left.unwrap_or_else(end);
                    return Ok(Consumed::Full(Some(self.with_count(place))));
                }
                let Some(next) = left else { break };
                self.aim_at(group, Some(next));
                page = self.read(group.token).await?;
                self.leave(group);
                runtime::task::yield_if_needed().await;
            }
        }
        Ok(Consumed::All)
    }

    /// Whether all rows of a page are rows of the result, by the value that was looked up.
    fn are_found(&self, walk: &Walk<'_>, found: &FoundRows, page: &Page) -> bool {
        let is_plain = self.output.is_plain() && self.per_partition == u64::MAX;
        if !is_plain || self.plan.distinct || self.room() < page.row_count {
            return false;
        }
        let layout = PageLayout::new(&self.plan.columns, self.plan.static_count);
        let has_value = |row: PageRow<'_>| {
            let value = row.columns().nth(found.column).and_then(|column| column.value);
            value.is_some_and(|value| walk.postings.iter().any(|it| it.read.value == value))
        };
        let mut partitions = PageView::trusted(&page.bytes, layout).partitions();
        partitions.all(|one| 0 < one.row_count() && one.rows().all(has_value))
    }

    /// Takes the rows of such a page.
    fn take_found(
        &mut self,
        found: &FoundRows,
        page: &mut Page,
        more: bool,
        end: impl FnOnce() -> Resume,
    ) -> Result<Consumed, CqlError> {
        self.tombstones_seen += page.tombstones_seen;
        if more && page.resume.is_none() && page.row_count == self.room() {
            page.resume = Some(end());
        }
        self.project(&found.projection, page, more)
    }

    /// The first page of each, read at once.
    async fn read_first_pages(
        &mut self,
        groups: &mut [Group],
        within: Option<Resume>,
    ) -> Result<Pages, CqlError> {
        let mut within = within;
        if let [group] = groups {
            let from = within.take().filter(|place| place.key == group.key);
            self.aim_at(group, from);
            let page = self.read(group.token).await?;
            self.leave(group);
            return Ok(smallvec![page]);
        }
        let plan: &SelectPlan = self.plan;
        let mut limits = self.request.read_options(&Partitions::Key(Vec::new()));
        let mut commands = Vec::with_capacity(groups.len());
        for group in groups {
            if Coordinator::limits_requests(&plan.table) {
                let admitted = self.request.admit_read(&plan.table, group.token);
                limits.limit = limits.limit.or(Box::pin(admitted).await?);
            }
            let from = within.take().filter(|place| place.key == group.key);
            self.aim_at(group, from);
            commands.push((group.token, self.command.clone()));
            self.leave(group);
        }
        self.make_room(commands.len()).await?;
        self.request.note(|| format!("Reading {} partitions at once", commands.len()));
        let pages = self.read_all(&plan.table, &commands, &limits).await;
        Ok(pages.into_iter().collect::<Result<Pages, _>>()?)
    }

    /// Makes the command read a page of these rows; their names are in it until it is left.
    fn aim_at(&mut self, group: &mut Group, from: Option<Resume>) {
        self.aim(Partitions::Key(std::mem::take(&mut group.key)), from);
        if self.takes_all() {
            let internal = natural(&self.request.options.select_internal_page_size);
            self.command.row_limit = self.room().clamp(1, internal);
        }
        if let Some(ranges) = &mut group.ranges {
            std::mem::swap(&mut self.command.ranges, ranges);
        }
    }

    /// Gives back what the command names.
    fn leave(&mut self, group: &mut Group) {
        debug_assert!(group.key.is_empty(), "a command is left that reads another partition");
        group.key = take_key(&mut self.command);
        if let Some(ranges) = &mut group.ranges {
            std::mem::swap(&mut self.command.ranges, ranges);
        }
    }
}

impl Group {
    /// The place behind it.
    fn end(&self, reads_partitions: bool) -> Resume {
        let after = (!reads_partitions).then(|| (self.last.clone(), 1));
        Resume { key: self.key.clone(), after, rows_in_partition: 0 }
    }
}

impl Posting {
    fn of(read: IndexRead) -> Posting {
        Posting { read, rows: IndexRows::default(), is_done: false, is_cut: false }
    }

    /// Whether a page has to be read before it is known what comes next.
    fn lacks_rows(&self) -> bool {
        self.rows.is_empty() && !self.is_done
    }

    /// Takes the rows of a page.
    fn take(&mut self, page: Page) {
        debug_assert!(self.rows.is_empty(), "table-order: rows of the page before are left");
        self.rows = IndexRows::of(page.bytes);
        self.is_done = page.resume.as_ref().is_none_or(|next| next.after.is_none());
        self.read.resume = page.resume;
    }
}

impl IndexRows {
    fn of(page: Vec<u8>) -> IndexRows {
        let mut keys = SmallVec::new();
        let begin = page.as_ptr() as usize;
        for partition in PageView::trusted(&page, PageLayout::new(&[], 0)).partitions() {
            keys.extend(partition.rows().map(|row| {
                let key = row.clustering();
                let start = (key.as_ptr() as usize).saturating_sub(begin);
                start..start + key.len()
            }));
        }
        IndexRows { page, keys, used: 0 }
    }

    fn is_empty(&self) -> bool {
        self.used == self.keys.len()
    }

    /// The next one.
    fn front(&self) -> Option<&[u8]> {
        self.page.get(self.keys.get(self.used)?.clone())
    }

    fn pop_front(&mut self) {
        self.used = (self.used + 1).min(self.keys.len());
    }
}

impl Walk<'_> {
    /// Whether nothing is left.
    fn is_done(&self) -> bool {
        self.postings.iter().all(|posting| posting.is_done && posting.rows.is_empty())
    }

    /// The next rows, of `groups_max` partitions and `rows_max` rows at most. None, where a page of
    /// the index has to be read first.
    fn take(&mut self, groups_max: usize, rows_max: u64) -> Groups {
        let mut groups = Groups::new();
        let mut rows = 0;
        while let Some(at) = self.first() {
            let posting = &self.postings[at];
            let Some(row) = posting.rows.front() else { break };
            // A row of another form is none of ours.
            let base = self.index.base_row(&posting.read, row);
            let is_new = base
                .as_ref()
                .is_some_and(|base| groups.last().is_none_or(|group| group.key != base.key));
            if rows_max <= rows || (is_new && groups_max <= groups.len()) {
                break;
            }
            self.postings[at].rows.pop_front();
            let Some(base) = base else { continue };
            if self.index.reads_partitions {
                self.take_partition(at, base, &mut groups);
            } else if self.wants(&base, groups.last()) {
                rows += 1;
                add_row(base, &mut groups);
            }
        }
        if let Some(group) = groups.last()
            && !self.is_done()
        {
            let (key, clustering) = (group.key.clone(), group.last.clone());
            self.last = Some(BaseRow { key, clustering });
        }
        groups
    }

    fn take_partition(&mut self, at: usize, base: BaseRow, groups: &mut Groups) {
        let posting = &mut self.postings[at];
        if posting.rows.is_empty() && !posting.is_done {
            // Its other rows need not be found.
            let next = self.index.after_partition(&posting.read, &base.key);
            posting.read.resume = Some(next);
        }
        let last = groups.last().map(|group| &group.key);
        if last.or(self.last.as_ref().map(|last| &last.key)) == Some(&base.key) {
            return;
        }
        groups.push(Group {
            token: Token::of(&base.key),
            key: base.key,
            ranges: None,
            last: Vec::new(),
        });
    }

    /// Whether the clustering restrictions of the query have the row, and it was not read just now
    /// for another of its elements: `group` has the rows before it.
    fn wants(&self, base: &BaseRow, group: Option<&Group>) -> bool {
        debug_assert!(!self.index.reads_partitions, "one-read-a-partition: row by row");
        let is_read = match group {
            Some(group) => group.key == base.key && group.last == base.clustering,
            None => self.last.as_ref() == Some(base),
        };
        let row = (&base.clustering[..], 0);
        let has = |range: &SendRange| {
            let (start, end) =
                ((&range.start.0[..], range.start.1), (&range.end.0[..], range.end.1));
            self.order.compare(start, row).is_lt() && self.order.compare(row, end).is_lt()
        };
        !is_read && (self.all_rows || self.ranges.iter().any(has))
    }

    /// The posting that has the next row; `None`, where that is not known yet, or nothing is left.
    fn first(&self) -> Option<usize> {
        let mut first: Option<(usize, &[u8])> = None;
        let order = &self.index.view.schema.order;
        for (at, posting) in self.postings.iter().enumerate() {
            match (posting.rows.front(), posting.is_done) {
                (Some(row), _) => {
                    let is_less = |(_, least): &(usize, &[u8])| {
                        order.compare((row, 0), (least, 0)) == Ordering::Less
                    };
                    if first.as_ref().is_none_or(is_less) {
                        first = Some((at, row));
                    }
                }
                (None, true) => {}
                (None, false) => return None,
            }
        }
        first.map(|(at, _)| at)
    }

    /// The place behind all that was taken, for the end of a page; `None` where there is none that
    /// the page has not begun with.
    fn place(&self) -> Option<Resume> {
        let [posting] = &self.postings[..] else { return None };
        if !posting.rows.is_empty() {
            return None;
        }
        let (prefix, weight) = posting.read.resume.as_ref()?.after.as_ref()?;
        let place = self.index.place(&posting.read, (prefix, *weight))?;
        let same = |begun: &Resume| begun.key == place.key && begun.after == place.after;
        (!self.begun.as_ref().is_some_and(same)).then_some(place)
    }
}

/// Adds a row to the reads.
fn add_row(base: BaseRow, groups: &mut Groups) {
    let BaseRow { key, clustering } = base;
    let range = SendRange::of_prefix(&clustering);
    match groups.last_mut() {
        Some(group) if group.key == key => {
            group.ranges.get_or_insert_default().push(range);
            group.last = clustering;
        }
        _ => {
            let (token, ranges) = (Token::of(&key), Some(vec![range]));
            groups.push(Group { token, key, ranges, last: clustering });
        }
    }
}
