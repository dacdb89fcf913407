//! The loop over replica pages: what to read next, which rows pass, where the client's page ends.
//!
//! Invariants
//!  - *bounded-reads*: one replica page has `query_page_size_in_bytes` bytes and a row at most; an
//!    unpaged result at most `max_memory_for_unlimited_query_hard_limit`.
//!  - *groups-whole*: a page of groups ends between two of them.
//!  - *resume-after-last*: a paging state names the place after the last row of its page.
//!  - *room-first*: a read of several pages takes response memory for each before it is read; a
//!    read of one page, before it waits for it.
//!
//! [`notes`]: what traces say; [`warnings`]: what client and operator are warned of; [`indexed`]:
//! the same where an index says where the rows are.

mod indexed;
mod notes;
mod warnings;

use super::output::Output;
use super::paging::PagingState;
use super::row::RowCells;
use crate::error::CqlError;
use crate::request::Request;
use crate::response::Rows;
use cluster::{Cluster, Live};
use model::{TableId, Token, Uuid};
use mutation::page::{
    Page, PageLayout, PageView, Partitions, ReadCommand, Resume, RingBound, RowShape, SendRange,
};
use notes::{begun, ended};
use plan::restrictions::{IndexPart, Keys, Nulls, PartitionPlan, RingRange, keys_up_to, ring};
use plan::select::Projection;
use plan::select::{Grouping, SelectPlan};
use plan::term::{Env, Term};
use plan::term::{IfNull, integer};
use replication::{Coordinator, ReadOptions, Wanted};
use runtime::Erased;
use runtime::pieces::{self, PIECE_BYTES};
use std::collections::VecDeque;
use warnings::{warn, warn_of_size};

/// An answer that no limit of memory is asked for.
const ALWAYS_ALLOWED_BYTES: usize = 64 << 10;
/// How large a row is taken for before it is read.
const ROW_ROOM_BYTES: usize = 128 << 10;
/// Rows after which others may have the shard.
const ROWS_PER_STEP: usize = 128;
/// Partitions of an `IN` that are read at once.
const CONCURRENT_KEYS: usize = 8;
/// Replica pages behind a filtered page of the client: then it is short, perhaps empty.
const FILTERED_PAGES_MAX: usize = 16;
/// A page of a table of the system has so many tombstones at least before they end it.
const TOMBSTONES_OF_SYSTEM_MIN: u64 = 100_000;

/// What a `SELECT` with its values is about.
struct Scope {
    per_partition: u64,
    rows_left: u64,
    resume: Option<Resume>,
    ranges: Vec<SendRange>,
    /// `None`: no row can be meant.
    targets: Option<Targets>,
}

/// `by_index`: see [`execute_by`].
fn scope(
    plan: &SelectPlan,
    (request, by_index): (&Request<'_>, bool),
    env: &Env<'_>,
) -> Result<Scope, CqlError> {
    let per_partition = limit(&plan.per_partition_limit, "PER PARTITION LIMIT", env)?;
    let mut rows_left = limit(&plan.limit, "LIMIT", env)?;
    let mut resume = None;
    if let Some(state) = request.parameters.paging_state
        && plan.grouping != Grouping::All
    {
        let state = PagingState::decode(state, pages_of(plan)).map_err(|refused| {
            let moves = plan.fragments_of.is_some() && PagingState::is_whole(state);
            if moves { moved() } else { refused }
        })?;
        rows_left = rows_left.min(state.rows_left);
        resume = Some(state.resume);
    }
    plan.restrictions.check(env)?;
    let ranges = plan.restrictions.clustering.ranges(&plan.table.schema, Nulls::NoRows, env)?;
    let targets = if ranges.is_empty() { None } else { targets(plan, by_index, env, &resume)? };
    Ok(Scope { per_partition, rows_left, resume, ranges, targets })
}

/// Executes a `SELECT`.
pub(crate) async fn execute(plan: &SelectPlan, request: &Request<'_>) -> Result<Rows, CqlError> {
    match &plan.restrictions.index {
        None => execute_by(plan, request, false).await,
        // Apart: who has no index is not to pay for its room.
        Some(index) => Erased::new(|| indexed::execute(plan, index, request)).await,
    }
}

/// `by_index`: the index that the plan has is asked.
async fn execute_by(
    plan: &SelectPlan,
    request: &Request<'_>,
    by_index: bool,
) -> Result<Rows, CqlError> {
    let Scope { per_partition, rows_left, resume, ranges, targets } =
        request.step(|env| scope(plan, (request, by_index), env)).await?;
    let Some(targets) = targets else {
        return request.step(|env| empty(plan, env)).await;
    };
    if let Targets::Key(token, _) = &targets
        && !request.parameters.is_fetched
    {
        request.coordinator.prefetch(&plan.table, *token);
    }
    let page_size = request.parameters.page_size.and_then(|size| u64::try_from(size).ok());
    let page_size = page_size.filter(|size| 0 < *size && plan.grouping != Grouping::All);
    let mut command =
        ReadCommand { shape: shape(plan, &targets), ..command(plan, request, ranges) };
    let mut aim = Aim { targets, resume, per_partition, rows_left, page_size };
    let mut begun = Page::default();
    if let Targets::Key(token, key) = &mut aim.targets
        && aim.resume.is_none()
        && command.shape != RowShape::Whole
    {
        // The rows of its pages are the result's: most often the first page is all of it.
        command.partitions = Partitions::Key(std::mem::take(key));
        command.row_limit = page_size.unwrap_or(u64::MAX).min(rows_left);
        command.per_partition_limit = per_partition;
        begun = read(plan, request, *token, &command).await?;
        check_size(request, begun.bytes.len())?;
        let is_cut = page_size.is_some() && is_cut(&command, &begun);
        if begun.resume.is_none() || command.row_limit <= begun.row_count || is_cut {
            return Ok(straight(plan, request, begun, (rows_left, page_size)));
        }
        *key = take_key(&mut command);
        aim.resume = begun.resume.take();
    }
    // Apart: what is answered by now is not to pay for its room.
    Erased::new(move || scan(plan, request, command, aim, begun)).await
}

/// What is left to be read, and how much of it is wanted.
struct Aim {
    targets: Targets,
    resume: Option<Resume>,
    per_partition: u64,
    rows_left: u64,
    page_size: Option<u64>,
}

/// Reads page after page of replicas, after rows of the result that there are already.
async fn scan(
    plan: &SelectPlan,
    request: &Request<'_>,
    command: ReadCommand,
    Aim { targets, resume, per_partition, rows_left, page_size }: Aim,
    begun: Page,
) -> Result<Rows, CqlError> {
    let sorted_here = plan.ordered && matches!(&targets, Targets::Keys(keys) if 1 < keys.len());
    if sorted_here && page_size.is_some() {
        return Err(CqlError::invalid(
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; \
             you must either remove the ORDER BY or the IN and sort client side, or disable \
             paging for this query",
        ));
    }
    let mut output = Output::new(plan, sorted_here);
    output.add_rows(begun.bytes, begun.row_count);
    if plan.grouping != Grouping::None {
        output.limit_groups(if sorted_here { u64::MAX } else { rows_left }, per_partition);
        if let Some(resume) = &resume {
            output.resume_groups(&resume.key, resume.rows_in_partition);
        }
    }
    let limited = plan.grouping == Grouping::None && !sorted_here;
    let groups_max = match plan.grouping {
        Grouping::By { .. } if !sorted_here => page_size.unwrap_or(u64::MAX).min(rows_left),
        _ => u64::MAX,
    };
    let mut scan = Scan {
        plan,
        request,
        env: request.env(),
        command,
        filtered: plan.is_filtered() || plan.restrictions.index.is_some(),
        per_partition: if limited || sorted_here { per_partition } else { u64::MAX },
        rows_max: if limited { rows_left } else { u64::MAX },
        page_max: page_size.filter(|_| plan.grouping == Grouping::None),
        groups_max,
        seen: None,
        output,
        rows_in_partition: 0,
        partition: Vec::new(),
        tombstones_seen: begun.tombstones_seen,
    };
    let rows = scan.run(targets, resume, rows_left).await?;
    warn(plan, request, scan.tombstones_seen);
    warn_of_size(plan, request, rows.body.len(), page_size);
    Ok(rows)
}

/// What a page answers whose rows are the result's, where the page of the client ends with it.
fn straight(
    plan: &SelectPlan,
    request: &Request<'_>,
    page: Page,
    (rows_left, page_size): (u64, Option<u64>),
) -> Rows {
    warn(plan, request, page.tombstones_seen);
    warn_of_size(plan, request, page.bytes.len(), page_size);
    let state = state_after(plan, page.resume, rows_left, page.row_count);
    Rows {
        metadata: plan.metadata.clone(),
        row_count: u32::try_from(page.row_count).unwrap_or(u32::MAX),
        body: page.bytes,
        paging_state: state,
    }
}

/// Where the next page of the client begins, if anything is left of it.
fn state_after(
    plan: &SelectPlan,
    next: Option<Resume>,
    rows_left: u64,
    row_count: u64,
) -> Option<Vec<u8>> {
    let rows_left = match rows_left {
        u64::MAX => u64::MAX,
        rows_left => rows_left.saturating_sub(row_count),
    };
    next.filter(|_| 0 < rows_left)
        .map(|resume| PagingState { rows_left, resume }.encode(pages_of(plan)))
}

/// What pages are of: a table; where its fragments are read, which each node has others of, the
/// table on this node.
fn pages_of(plan: &SelectPlan) -> TableId {
    let table = plan.table.schema.id;
    match plan.fragments_of {
        None => table,
        Some(_) => {
            let node = runtime::local::get::<Cluster>().node().host_id;
            Uuid::from_u128(table.as_u128() ^ node.as_u128())
        }
    }
}

/// A page of fragments is asked for that begins where one of another node has ended.
fn moved() -> CqlError {
    CqlError::Invalid(
        "Moving between coordinators is not allowed in SELECT FROM MUTATION_FRAGMENTS() \
         statements: ask the node that has given the page before"
            .to_owned(),
    )
}

/// Takes the key of the only partition out of a command.
fn take_key(command: &mut ReadCommand) -> Vec<u8> {
    match &mut command.partitions {
        Partitions::Key(key) => std::mem::take(key),
        Partitions::Range { .. } => Vec::new(),
    }
}

/// Whether a page ended for its bytes or for its tombstones.
fn is_cut(command: &ReadCommand, page: &Page) -> bool {
    command.bytes_max <= page.bytes.len() || command.tombstone_limit <= page.tombstones_seen
}

/// Reports how much memory a response takes so far, and refuses what is too much.
fn check_size(request: &Request<'_>, bytes: usize) -> Result<(), CqlError> {
    if bytes <= ALWAYS_ALLOWED_BYTES {
        return Ok(());
    }
    if let Some(room) = request.parameters.room {
        room.report(bytes);
    }
    let max = natural(&request.options.max_memory_for_unlimited_query_hard_limit);
    if bytes as u64 <= max {
        return Ok(());
    }
    Err(CqlError::Invalid(format!(
        "Memory usage of unpaged query exceeds hard limit of {max} (configured via \
         max_memory_for_unlimited_query_hard_limit)"
    )))
}

/// Reads a page of a replica.
async fn read(
    plan: &SelectPlan,
    request: &Request<'_>,
    token: Token,
    command: &ReadCommand,
) -> Result<Page, CqlError> {
    let mut options = options(plan, request, command, 1);
    let coordinator = request.coordinator;
    if let Some(base) = &plan.fragments_of {
        let read = coordinator.read_fragments(base, token, command, &options);
        return Ok(Box::pin(read).await?);
    }
    let table = &plan.table;
    request.note(|| begun(table, token, &command.partitions));
    if Coordinator::limits_requests(table) && matches!(command.partitions, Partitions::Key(_)) {
        options.limit = Box::pin(request.admit_read(table, token)).await?;
    }
    let page = coordinator.read(table, token, command, &options).await?;
    request.note(|| ended(&page));
    Ok(page)
}

/// How so many pages like this one are read.
fn options<'a>(
    plan: &SelectPlan,
    request: &Request<'a>,
    command: &ReadCommand,
    pages: usize,
) -> ReadOptions<'a> {
    let wanted = request.parameters.room.map(|room| {
        let rows = match &command.partitions {
            Partitions::Key(_) if plan.restrictions.names_rows(&plan.table.schema) => {
                command.ranges.len() as u64
            }
            _ => u64::MAX,
        };
        let rows = usize::try_from(rows.min(command.row_limit)).unwrap_or(usize::MAX);
        let page = rows.saturating_mul(ROW_ROOM_BYTES).min(command.bytes_max);
        Wanted { room, bytes: page.saturating_mul(pages) }
    });
    ReadOptions { wanted, ..request.read_options(&command.partitions) }
}

/// A result without any row of the table.
fn empty(plan: &SelectPlan, env: &Env<'_>) -> Result<Rows, CqlError> {
    let mut output = Output::new(plan, false);
    output.finish(env, u64::MAX)?;
    Ok(rows(plan, &mut output, None))
}

/// The rows put out.
pub(super) fn rows(
    plan: &SelectPlan,
    output: &mut Output<'_>,
    paging_state: Option<Vec<u8>>,
) -> Rows {
    Rows {
        metadata: plan.metadata.clone(),
        row_count: u32::try_from(output.row_count).unwrap_or(u32::MAX),
        body: std::mem::take(&mut output.body),
        paging_state,
    }
}

/// The value of a limit; none is the greatest one.
pub(super) fn limit(term: &Option<Term>, name: &str, env: &Env<'_>) -> Result<u64, CqlError> {
    match integer(term, IfNull::Refused("limit"), env)? {
        None => Ok(u64::MAX),
        Some(limit) if 0 < limit => Ok(limit as u64),
        Some(_) => Err(CqlError::Invalid(format!("{name} must be strictly positive"))),
    }
}

/// What is left to be read.
enum Targets {
    Key(Token, Vec<u8>),
    Keys(VecDeque<(Token, Vec<u8>)>),
    Range(RingRange),
    /// What an index leads to: part by part.
    Indexed(Vec<IndexPart>),
}

fn targets(
    plan: &SelectPlan,
    by_index: bool,
    env: &Env<'_>,
    resume: &Option<Resume>,
) -> Result<Option<Targets>, CqlError> {
    let schema = &plan.table.schema;
    if let Some(index) = plan.restrictions.index.as_ref().filter(|_| by_index) {
        let reads = plan.restrictions.index_reads(index, schema, env, resume.as_ref())?;
        return Ok((!reads.is_empty()).then_some(Targets::Indexed(reads)));
    }
    let range = match &plan.restrictions.partition {
        PartitionPlan::Keys(values) => {
            let max = plan.restrictions.partition_combinations_max;
            let mut keys = match keys_up_to(max, values, schema, Nulls::NoRows, env)? {
                Keys::One(key) => {
                    let done = resume.as_ref().is_some_and(|resume| resume.after.is_none());
                    return Ok((!done).then(|| Targets::Key(Token::of(&key), key)));
                }
                Keys::Many(keys) => VecDeque::from(keys),
            };
            if let Some(resume) = resume {
                let place = keys.iter().position(|(_, key)| *key == resume.key);
                let place = place.ok_or_else(PagingState::refused)?;
                keys.drain(..place + usize::from(resume.after.is_none()));
            }
            return Ok((!keys.is_empty()).then_some(Targets::Keys(keys)));
        }
        PartitionPlan::Tokens { lower, upper } => ring(lower, upper, env)?,
        PartitionPlan::All => ring(&None, &None, env)?,
    };
    Ok(range.map(Targets::Range))
}

/// The value of an option that limits something: 1 at least.
fn natural(option: &Live<i64>) -> u64 {
    option.get().max(1) as u64
}

/// What a plan reads with these clustering ranges, but for its limits and where.
fn command(plan: &SelectPlan, request: &Request<'_>, ranges: Vec<SendRange>) -> ReadCommand {
    ReadCommand {
        table: plan.table.schema.id,
        partitions: Partitions::Key(Vec::new()),
        ranges,
        reversed: plan.reversed,
        columns: plan.columns.clone(),
        static_count: plan.static_count,
        row_limit: 0,
        per_partition_limit: 0,
        partition_limit: u64::MAX,
        bytes_max: natural(&request.options.query_page_size_in_bytes) as usize,
        static_only_rows: plan.restrictions.clustering.is_full(),
        tombstone_limit: match (request.parameters.page_size, plan.of_system) {
            (Some(1..), false) => natural(&request.options.query_tombstone_page_limit),
            // Programs that look for a table do not expect an empty page first.
            (Some(1..), true) => {
                natural(&request.options.query_tombstone_page_limit).max(TOMBSTONES_OF_SYSTEM_MIN)
            }
            _ => u64::MAX,
        },
        now: request.now_secs(),
        bypass_cache: plan.bypass_cache,
        shape: RowShape::Whole,
        resume: None,
    }
}

/// The shape in which the rows of one partition are read: that of the result, where it is made of
/// columns as they are. A static row could be a row of the result by itself.
fn shape(plan: &SelectPlan, targets: &Targets) -> RowShape {
    match (&plan.projection, targets) {
        (Some(projection), Targets::Key(..))
            if plan.table.schema.static_count == 0 && !plan.distinct =>
        {
            RowShape::Pieces(projection.pieces().clone())
        }
        _ => RowShape::Whole,
    }
}

struct Scan<'p> {
    plan: &'p SelectPlan,
    request: &'p Request<'p>,
    env: Env<'p>,
    /// The read of the next page, but for where it goes on.
    command: ReadCommand,
    /// Whether not every row that is read is one of the result.
    filtered: bool,
    per_partition: u64,
    /// Rows that may be added in all.
    rows_max: u64,
    /// Rows of the client's page; groups have a maximum of their own.
    page_max: Option<u64>,
    /// Groups of the client's page, or of all where that is less.
    groups_max: u64,
    /// Where groups are limited: the place after the last row before this replica page.
    seen: Option<Resume>,
    output: Output<'p>,
    /// Rows added of the partition `partition`.
    rows_in_partition: u64,
    partition: Vec<u8>,
    tombstones_seen: u64,
}

/// Where a row stands; without a clustering key it is the static row.
struct Row<'a> {
    key: &'a [u8],
    clustering: Option<&'a [u8]>,
}

/// How a replica page was used up.
enum Consumed {
    /// All of it was taken.
    All,
    /// The client's page is full; it goes on there, if anything may be left.
    Full(Option<Resume>),
}

impl Scan<'_> {
    /// Reads all that is asked for, or a page of it. What it returns is taken out of the scan.
    async fn run(
        &mut self,
        targets: Targets,
        resume: Option<Resume>,
        rows_left: u64,
    ) -> Result<Rows, CqlError> {
        if let Some(resume) = &resume {
            self.rows_in_partition = resume.rows_in_partition;
            self.partition.clone_from(&resume.key);
        }
        let next = match targets {
            Targets::Key(token, key) => self.read_key(token, key, resume).await?,
            Targets::Keys(keys) => self.read_keys(keys, resume).await?,
            Targets::Range(range) => self.read_range(range, resume).await?,
            Targets::Indexed(parts) => Erased::new(|| self.read_indexed(parts, resume)).await?,
        };
        let (env, request) = (self.env, self.request);
        request.step(|_| self.output.finish(&env, rows_left)).await?;
        let state = state_after(self.plan, next, rows_left, self.output.row_count);
        Ok(rows(self.plan, &mut self.output, state))
    }

    async fn read_key(
        &mut self,
        token: Token,
        key: Vec<u8>,
        resume: Option<Resume>,
    ) -> Result<Option<Resume>, CqlError> {
        let mut key = key;
        let mut from = resume.filter(|resume| resume.key == key);
        loop {
            self.aim(Partitions::Key(key), from.take());
            let mut page = self.read(token).await?;
            let more = page.resume.is_some();
            let over = self.ends_page(&page);
            if let Consumed::Full(next) = self.consume(&mut page, more).await? {
                return Ok(next);
            }
            let over = over || self.has_bytes();
            let Some(next) = page.resume.filter(|next| next.after.is_some()) else {
                return Ok(None);
            };
            if over {
                return Ok(Some(self.with_count(next)));
            }
            key = next.key.clone();
            from = Some(next);
            runtime::task::yield_if_needed().await;
        }
    }

    async fn read_keys(
        &mut self,
        mut keys: VecDeque<(Token, Vec<u8>)>,
        mut resume: Option<Resume>,
    ) -> Result<Option<Resume>, CqlError> {
        let mut ahead: VecDeque<Page> = VecDeque::new();
        while let Some((token, key)) = keys.pop_front() {
            let mut from = resume.take().filter(|resume| resume.key == key);
            let mut first = ahead.pop_front();
            let mut over;
            let reads_ahead = !keys.is_empty() && self.plan.fragments_of.is_none();
            if first.is_none() && reads_ahead && from.is_none() {
                let also = keys.iter().take(CONCURRENT_KEYS - 1).cloned();
                let batch: Vec<(Token, Vec<u8>)> =
                    std::iter::once((token, key.clone())).chain(also).collect();
                ahead = self.read_ahead(batch).await?;
                first = ahead.pop_front();
            }
            loop {
                let mut page = match first.take() {
                    Some(page) => page,
                    None => {
                        self.aim(Partitions::Key(key.clone()), from.take());
                        self.read(token).await?
                    }
                };
                let more = page.resume.is_some() || !keys.is_empty();
                over = self.ends_page(&page);
                if let Consumed::Full(next) = self.consume(&mut page, more).await? {
                    return Ok(next);
                }
                over |= self.has_bytes();
                match page.resume {
                    Some(next) if next.after.is_some() => from = Some(next),
                    _ => break,
                }
                if let Some(from) = &from
                    && over
                {
                    return Ok(Some(self.with_count(from.clone())));
                }
                runtime::task::yield_if_needed().await;
            }
            if !keys.is_empty() && over {
                return Ok(Some(Resume { key, after: None, rows_in_partition: 0 }));
            }
        }
        Ok(None)
    }

    async fn read_range(
        &mut self,
        range: RingRange,
        resume: Option<Resume>,
    ) -> Result<Option<Resume>, CqlError> {
        let mut from = resume;
        for pages in 1usize.. {
            let mut start = range.start.clone();
            if let Some(resume) = &from {
                let token = Token::of(&resume.key);
                let after = resume.after.is_none();
                start = RingBound { token, key: Some(resume.key.clone()), after };
            }
            let partitions = Partitions::Range { start, end: range.end.clone() };
            self.aim(partitions, from.take());
            let mut page = self.read(Token::MIN).await?;
            let more = page.resume.is_some();
            let over = self.ends_page(&page);
            if let Consumed::Full(next) = self.consume(&mut page, more).await? {
                return Ok(next);
            }
            let over = over || self.has_bytes();
            let Some(next) = page.resume else { return Ok(None) };
            let tired = self.page_max.is_some() && self.filtered && FILTERED_PAGES_MAX <= pages;
            if tired || over {
                return Ok(Some(self.with_count(next)));
            }
            from = Some(next);
            runtime::task::yield_if_needed().await;
        }
        Ok(None)
    }

    async fn read(&self, token: Token) -> Result<Page, CqlError> {
        self.make_room(1).await?;
        read(self.plan, self.request, token, &self.command).await
    }

    /// Takes room for the next pages (*room-first*).
    async fn make_room(&self, pages: usize) -> Result<(), CqlError> {
        let options = options(self.plan, self.request, &self.command, pages);
        match options.wanted {
            Some(wanted) if !wanted.room.try_take(wanted.bytes) => {
                let table = &self.plan.table;
                let made = self.request.coordinator.make_room(table, &self.command, &options);
                Ok(Box::pin(made).await?)
            }
            _ => Ok(()),
        }
    }

    async fn read_ahead(
        &mut self,
        batch: Vec<(Token, Vec<u8>)>,
    ) -> Result<VecDeque<Page>, CqlError> {
        let mut options = self.request.read_options(&Partitions::Key(Vec::new()));
        let coordinator = self.request.coordinator;
        let mut commands = Vec::with_capacity(batch.len());
        for (token, key) in batch {
            if Coordinator::limits_requests(&self.plan.table) {
                let admitted = self.request.admit_read(&self.plan.table, token);
                options.limit = options.limit.or(Box::pin(admitted).await?);
            }
            self.aim(Partitions::Key(key), None);
            commands.push((token, self.command.clone()));
        }
        self.make_room(commands.len()).await?;
        let reads = commands
            .iter()
            .map(|(token, command)| coordinator.read(&self.plan.table, *token, command, &options));
        self.request.note(|| format!("Reading {} partitions at once", commands.len()));
        let mut pages = VecDeque::new();
        for page in runtime::task::join_all(reads).await {
            let page = page?;
            self.request.note(|| ended(&page));
            pages.push_back(page);
        }
        Ok(pages)
    }

    /// Rows that may still be added to the client's page.
    fn room(&self) -> u64 {
        let max = self.page_max.unwrap_or(u64::MAX).min(self.rows_max);
        max.saturating_sub(self.output.row_count)
    }

    /// Whether the client's page has its bytes.
    fn has_bytes(&self) -> bool {
        self.page_max.is_some() && self.command.bytes_max <= self.output.body.len()
    }

    /// Whether this part of the client's page ends it: cut for its bytes, all of which the client
    /// gets, or for its tombstones.
    fn ends_page(&self, part: &Page) -> bool {
        let has_bytes = !self.filtered && self.command.bytes_max <= part.bytes.len();
        self.page_max.is_some()
            && (has_bytes || self.command.tombstone_limit <= part.tombstones_seen)
    }

    /// Makes the command read the next page of `partitions`.
    fn aim(&mut self, partitions: Partitions, resume: Option<Resume>) {
        let row_limit = match (self.filtered, self.plan.grouping) {
            (false, Grouping::None) => self.room(),
            _ => natural(&self.request.options.select_internal_page_size),
        };
        let unfiltered = if self.filtered { u64::MAX } else { self.per_partition };
        self.command.row_limit = row_limit;
        self.command.per_partition_limit = if self.plan.distinct { 1 } else { unfiltered };
        self.command.partitions = partitions;
        self.command.resume = resume;
    }

    fn with_count(&self, resume: Resume) -> Resume {
        let same = resume.key == self.partition;
        let rows_in_partition = if same { self.rows_in_partition } else { 0 };
        if self.filtered { Resume { rows_in_partition, ..resume } } else { resume }
    }

    /// Takes the rows of a page; `more` tells whether anything comes after it.
    async fn consume(&mut self, page: &mut Page, more: bool) -> Result<Consumed, CqlError> {
        self.tombstones_seen += page.tombstones_seen;
        if self.command.shape != RowShape::Whole {
            // What is seldom makes the future of every read no larger.
            if PIECE_BYTES < page.bytes.len() && !self.output.is_empty() {
                return Box::pin(self.take_slowly(page, more)).await;
            }
            return self.take(page, more);
        }
        let copied = self.plan.verbatim && self.output.is_plain();
        if copied && page.row_count <= self.room() {
            if PIECE_BYTES < self.output.body.len() {
                Box::pin(pieces::reserve(&mut self.output.body, page.bytes.len())).await;
            }
            return self.copy(page, more);
        }
        if let Some(projection) = &self.plan.projection
            && self.output.is_plain()
            && !self.plan.distinct
            && page.row_count <= self.room()
        {
            let layout = PageLayout::new(&self.plan.columns, self.plan.static_count);
            if PageView::trusted(&page.bytes, layout).partitions().all(|it| 0 < it.row_count()) {
                return self.project(projection, page, more);
            }
        }
        Box::pin(self.consume_rows(page, more)).await
    }

    async fn consume_rows(&mut self, page: &Page, more: bool) -> Result<Consumed, CqlError> {
        let plan = self.plan;
        let layout = PageLayout::new(&plan.columns, plan.static_count);
        let view = PageView::trusted(&page.bytes, layout);
        let key_count = plan.table.schema.partition_key_count;
        let mut cells =
            RowCells::new(&plan.inputs, &plan.column_inputs, plan.static_count, key_count);
        let mut partitions = view.partitions().peekable();
        let mut before: Option<Row<'_>> = None;
        let mut steps = 0;
        while let Some(partition) = partitions.next() {
            let key = partition.key();
            if self.partition != key {
                self.partition.clear();
                self.partition.extend_from_slice(key);
                self.rows_in_partition = 0;
            }
            let (env, request) = (self.env, self.request);
            request.step(|_| self.output.begin_partition(key, &env)).await?;
            cells.partition(key, partition.statics());
            let mut rows = partition.rows().peekable();
            loop {
                let row = match rows.next() {
                    Some(found) => {
                        cells.row(found.clustering(), found.columns());
                        Row { key, clustering: Some(found.clustering()) }
                    }
                    // The static row alone is one.
                    None if partition.row_count() == 0 => Row { key, clustering: None },
                    None => break,
                };
                if self.ends_groups(&row) {
                    return Ok(Consumed::Full(self.after_groups(before)));
                }
                let passed = match request.calls {
                    None => self.offer(&row, &cells)?,
                    Some(_) => Box::pin(self.offer_in_steps(&row, &cells)).await?,
                };
                if passed && self.room() == 0 {
                    let last = rows.peek().is_none() && partitions.peek().is_none();
                    let place = self.place_after(&row, self.rows_in_partition);
                    return Ok(self.full(place, last, page, more));
                }
                let is_last = row.clustering.is_none();
                before = Some(row);
                steps += 1;
                if steps % ROWS_PER_STEP == 0 {
                    runtime::task::yield_if_needed().await;
                }
                if is_last {
                    break;
                }
            }
        }
        if self.groups_max < u64::MAX
            && let Some(row) = before
        {
            self.seen = Some(self.place_after(&row, 0));
        }
        self.check_size()?;
        Ok(Consumed::All)
    }

    /// Whether the groups so far are all that is wanted, and this row is not of the last of them.
    fn ends_groups(&self, row: &Row<'_>) -> bool {
        self.groups_max < u64::MAX
            && self.groups_max <= self.output.groups_with_open()
            && self.output.is_of_other_group(row.key, row.clustering.unwrap_or_default())
    }

    /// The place after the last row of the open group.
    fn after_groups(&mut self, before: Option<Row<'_>>) -> Option<Resume> {
        let place = match before {
            Some(row) => Some(self.place_after(&row, 0)),
            None => self.seen.take(),
        };
        place.map(|place| {
            let rows_in_partition = self.output.groups_of(&place.key);
            Resume { rows_in_partition, ..place }
        })
    }

    fn place_after(&self, row: &Row<'_>, rows_in_partition: u64) -> Resume {
        let weight = if self.plan.reversed { -1 } else { 1 };
        let clustering = row.clustering.filter(|_| !self.plan.distinct);
        let after = clustering.map(|clustering| (clustering.to_vec(), weight));
        let rows_in_partition = if row.clustering.is_some() { rows_in_partition } else { 0 };
        Resume { key: row.key.to_vec(), after, rows_in_partition }
    }

    /// Takes rows that are the result's already: they all have room. The first ones stay where
    /// they are.
    fn take(&mut self, page: &mut Page, more: bool) -> Result<Consumed, CqlError> {
        let consumed = self.copied(page, more);
        if self.output.is_empty() {
            self.output.add_rows(std::mem::take(&mut page.bytes), page.row_count);
        } else {
            self.output.body.extend_from_slice(&page.bytes);
            self.output.row_count += page.row_count;
        }
        self.check_size()?;
        Ok(consumed)
    }

    /// As [`Scan::take`] behind other rows, in pieces between which others have the shard.
    async fn take_slowly(&mut self, page: &mut Page, more: bool) -> Result<Consumed, CqlError> {
        let consumed = self.copied(page, more);
        pieces::extend(&mut self.output.body, &page.bytes).await;
        self.output.row_count += page.row_count;
        self.check_size()?;
        Ok(consumed)
    }

    /// Takes the rows as they are: they all have room. The first ones stay where they are.
    fn copy(&mut self, page: &mut Page, more: bool) -> Result<Consumed, CqlError> {
        let plan = self.plan;
        let layout = PageLayout::new(&plan.columns, plan.static_count);
        let consumed = self.copied(page, more);
        if self.output.is_empty() && page.keep_values(layout) {
            let rows = std::mem::take(&mut page.bytes);
            self.output.add_rows(rows, page.row_count);
        } else {
            for partition in PageView::trusted(&page.bytes, layout).partitions() {
                if partition.row_count() == 0 {
                    self.output.add_null_row(plan.outputs.len());
                }
                for row in partition.rows() {
                    self.output.add_verbatim(row.values());
                }
            }
        }
        self.check_size()?;
        Ok(consumed)
    }

    /// What is to be said of a page all of whose rows are taken: it may be the client's last.
    fn copied(&self, page: &Page, more: bool) -> Consumed {
        if page.row_count != self.room() {
            return Consumed::All;
        }
        if !more || page.resume.is_some() {
            return Consumed::Full(page.resume.clone());
        }
        // Other partitions are left.
        let layout = PageLayout::new(&self.plan.columns, self.plan.static_count);
        let last = PageView::trusted(&page.bytes, layout).partitions().last();
        let place = |key: &[u8]| Resume { key: key.to_vec(), after: None, rows_in_partition: 0 };
        Consumed::Full(last.map(|partition| place(partition.key())))
    }

    /// Takes the rows as copies of columns: they all have room, and no partition is without rows.
    fn project(
        &mut self,
        projection: &Projection,
        page: &Page,
        more: bool,
    ) -> Result<Consumed, CqlError> {
        let layout = PageLayout::new(&self.plan.columns, self.plan.static_count);
        let consumed = self.copied(page, more);
        // Key columns take four bytes here for the two of their length there.
        self.output.body.reserve(page.bytes.len() + page.row_count as usize * 8);
        for partition in PageView::trusted(&page.bytes, layout).partitions() {
            projection.write(&partition, &mut self.output.body);
        }
        self.output.row_count += page.row_count;
        self.check_size()?;
        Ok(consumed)
    }

    fn check_size(&self) -> Result<(), CqlError> {
        check_size(self.request, self.output.body.len())
    }

    fn full(&self, place: Resume, last: bool, page: &Page, more: bool) -> Consumed {
        let resume = match (last, &page.resume) {
            (true, Some(resume)) => Some(self.with_count(resume.clone())),
            (true, None) if !more => None,
            _ => Some(place),
        };
        Consumed::Full(resume.map(|mut resume| {
            if self.per_partition <= resume.rows_in_partition {
                resume.after = None; // The partition has had its rows.
            }
            resume
        }))
    }

    /// Adds the row of `cells` if it passes; whether it did.
    fn offer(&mut self, row: &Row<'_>, cells: &RowCells<'_>) -> Result<bool, CqlError> {
        let env = self.env.with_row(&cells.cells);
        let passes = self.plan.restrictions.pass(&env)?;
        if self.plan.is_filtered() {
            self.request.options.met.tally.count_filtered(passes);
        }
        if !passes || self.has_rows_of_partition() {
            return Ok(false);
        }
        self.output.add(row.key, row.clustering.unwrap_or_default(), &env)?;
        self.rows_in_partition += 1;
        Ok(true)
    }

    /// The same where functions of users are called, which may be interrupted.
    async fn offer_in_steps(
        &mut self,
        row: &Row<'_>,
        cells: &RowCells<'_>,
    ) -> Result<bool, CqlError> {
        let (env, request) = (self.env.with_row(&cells.cells), self.request);
        let passes = request.step(|_| self.plan.restrictions.pass(&env)).await?;
        if self.plan.is_filtered() {
            request.options.met.tally.count_filtered(passes);
        }
        if !passes || self.has_rows_of_partition() {
            return Ok(false);
        }
        let (key, clustering) = (row.key, row.clustering.unwrap_or_default());
        request.step(|_| self.output.begin_group(key, clustering, &env)).await?;
        request.step(|_| self.output.add(key, clustering, &env)).await?;
        self.rows_in_partition += 1;
        Ok(true)
    }

    /// Whether the partition has given all rows that may come of it.
    fn has_rows_of_partition(&self) -> bool {
        let limited = self.filtered || self.plan.distinct;
        limited && self.per_partition <= self.rows_in_partition
    }
}
