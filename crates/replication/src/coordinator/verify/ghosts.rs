//! From the view to the base table: rows of the view that the base table does not have.
//!
//! Invariants: those of [`super`]; and
//!  - *seen-by-all*: a row is a ghost only if all replicas of the base table have answered, and
//!    none has the row that it is of with the values that it is under. Which element of a
//!    collection a row is of is not compared.

use super::{ANSWER_MAX, At, Figures, Stepped, whole};
use crate::coordinator::Coordinator;
use crate::coordinator::nodes::Planted;
use crate::error::ReadError;
use crate::options::{Consistency, ReadOptions, WriteKind, WriteOptions};
use crate::stretch::Stretch;
use cluster::TableEntry;
use model::key::{clustering_components, split_partition_key};
use model::schema::{Origin, Origins};
use model::{TableSchema, Token};
use mutation::page::{ColumnForm, PageLayout, PageView, Partitions, Resume, SendRange};
use mutation::{FrozenMutation, MutationBuilder, RowBuilder, Tombstone};
use runtime::task::join_all;
use runtime::time::{sleep, wall_micros};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Rows of the view that a step reads, and that are looked for at once.
const ROWS_MAX: u64 = 1024;
const AT_ONCE_MAX: usize = 32;
/// What is under way on other nodes when a row is seen that may be a ghost has come after that
/// (*not-under-way*): a row is one that the base table had not before and has not after it, and
/// that nobody has written to from before the first of these looks until after the second. A
/// deletion is older than now by as much.
const SETTLES: Duration = Duration::from_secs(10);

/// The keys of a row of a view: of its partition, and within it.
type Keys = (Vec<u8>, Vec<u8>);

impl Coordinator {
    /// A step of the view from a place on.
    pub(super) async fn find_ghosts(
        self: &Rc<Coordinator>,
        (base, view): (&TableEntry, &TableEntry),
        from: Option<Resume>,
        mends: bool,
    ) -> Result<Stepped, String> {
        let failed = |why: ReadError| format!("{}: {why}", view.schema.name);
        let origins = Origins::of(&base.schema, &view.schema);
        let mut figures = Figures::default();
        let (rows, resume) = self.rows_of(view, from.clone()).await.map_err(failed)?;
        figures.seen = rows.len() as u64;
        let mut ghosts = self.haunting(base, view, &origins, rows, &mut figures).await;
        if !ghosts.is_empty() && !self.is_planted(Planted::LooksOnce) {
            stdx::probe!("a row of a view may be a ghost");
            let before = self.as_stored(view, &ghosts).await.map_err(failed)?;
            let before: BTreeMap<Keys, Stretch> = ghosts.iter().cloned().zip(before).collect();
            // Once more: the base table may have had the row again before that.
            ghosts = self.haunting(base, view, &origins, ghosts, &mut figures).await;
            sleep(SETTLES).await;
            let (rows, _) = self.rows_of(view, from).await.map_err(failed)?;
            let still: BTreeSet<Keys> = rows.into_iter().collect();
            ghosts.retain(|ghost| still.contains(ghost));
            ghosts = self.haunting(base, view, &origins, ghosts, &mut figures).await;
            // One that was written meanwhile is for the next time.
            let after = self.as_stored(view, &ghosts).await.map_err(failed)?;
            let unchanged = ghosts.into_iter().zip(after);
            let unchanged = unchanged.filter(|(ghost, after)| before.get(ghost) == Some(after));
            ghosts = unchanged.map(|(ghost, _)| ghost).collect();
        }
        figures.ghosts = ghosts.len() as u64;
        assert!(figures.ghosts <= figures.seen, "not-under-way: {figures:?}");
        if mends {
            for ghost in &ghosts {
                let before = i64::try_from(SETTLES.as_micros()).unwrap_or(i64::MAX);
                let dead = deletion(&view.schema, ghost, wall_micros().saturating_sub(before));
                let options = WriteOptions {
                    consistency: Consistency::Quorum,
                    timeout: ANSWER_MAX,
                    kind: WriteKind::Simple,
                    limit: None,
                };
                let deleted = self.write(view, Token::of(&ghost.0), dead, &options).await;
                deleted.map_err(|error| format!("{}: {error}", view.schema.name))?;
                figures.mended += 1;
            }
        }
        Ok(Stepped { figures, next: resume.map(|resume| At::View(Some(resume))) })
    }

    /// Rows of a view that this shard has, and where the next ones are.
    async fn rows_of(
        &self,
        view: &TableEntry,
        from: Option<Resume>,
    ) -> Result<(Vec<Keys>, Option<Resume>), ReadError> {
        let mut command = whole(&view.schema, Vec::new(), Partitions::all());
        (command.row_limit, command.resume) = (ROWS_MAX, from);
        let page = self
            .storage
            .read(&command)
            .await
            .map_err(|error| ReadError::Overloaded(format!("shard {}: {error}", self.shard)))?;
        if let Some(resume) = &page.resume {
            crate::range::check_progress(command.resume.as_ref(), resume);
        }
        let layout = PageLayout::new(&command.columns, 0);
        let mut rows = Vec::new();
        for partition in PageView::trusted(&page.bytes, layout).partitions() {
            let key = partition.key();
            rows.extend(partition.rows().map(|row| (key.to_vec(), row.clustering().to_vec())));
        }
        debug_assert!(rows.len() as u64 <= ROWS_MAX, "bounded: {} rows", rows.len());
        Ok((rows, page.resume))
    }

    /// All that is stored of these rows.
    async fn as_stored(&self, view: &TableEntry, rows: &[Keys]) -> Result<Vec<Stretch>, ReadError> {
        let mut stored = Vec::with_capacity(rows.len());
        for (key, clustering) in rows {
            let partitions = Partitions::Key(key.clone());
            let mut command = whole(&view.schema, Vec::new(), partitions);
            command.ranges = vec![SendRange::of_prefix(clustering)];
            let read = self.stretch_here(view, &command).await.map_err(|error| unread(&error));
            stored.push(read?);
        }
        debug_assert!(stored.len() == rows.len(), "not-under-way: {} of them", stored.len());
        Ok(stored)
    }

    /// Those that the base table does not have.
    async fn haunting(
        &self,
        base: &TableEntry,
        view: &TableEntry,
        origins: &Origins,
        rows: Vec<Keys>,
        figures: &mut Figures,
    ) -> Vec<Keys> {
        let mut ghosts = Vec::new();
        let mut rest = rows.into_iter().peekable();
        let count = view.schema.partition_key_count;
        while rest.peek().is_some() {
            let some: Vec<Keys> = rest.by_ref().take(AT_ONCE_MAX).collect();
            let looks = some.iter().map(async |(key, clustering)| {
                let Ok(mut parts) = split_partition_key(key, count) else { return Ok(true) };
                parts.extend(clustering_components(clustering));
                let origin = origins.of_row(&parts);
                let options = ReadOptions::new(Consistency::All, ANSWER_MAX);
                self.has_origin(base, origins, &origin, &options).await
            });
            for (keys, has) in join_all(looks).await.into_iter().zip(&some).map(|(a, b)| (b, a)) {
                match has {
                    Ok(true) => {}
                    Ok(false) => ghosts.push(keys.clone()),
                    Err(why) => {
                        let base = &base.schema.name;
                        tracing::debug!(target: "views", %base, "a row is not looked for: {why}");
                        figures.unknown += 1;
                    }
                }
            }
            runtime::task::yield_if_needed().await;
        }
        ghosts
    }

    /// Whether a base table has the row that a row of a view is of, with its values.
    pub async fn has_origin(
        &self,
        base: &TableEntry,
        origins: &Origins,
        origin: &Origin,
        options: &ReadOptions<'_>,
    ) -> Result<bool, ReadError> {
        let (columns, static_count) = origins.columns();
        let columns: Vec<_> = columns.map(|id| (id, ColumnForm::Value)).collect();
        let is_whole = origin.clustering.is_empty() && 0 < base.schema.clustering_count;
        let mut command = whole(&base.schema, columns, Partitions::Key(origin.key.clone()));
        command.ranges = vec![SendRange::of_prefix(&origin.clustering)];
        (command.static_count, command.static_only_rows) = (static_count, is_whole);
        (command.row_limit, command.per_partition_limit, command.partition_limit) = (1, 1, 1);
        command.bypass_cache = false;
        let token = Token::of(&origin.key);
        debug_assert!(options.consistency == Consistency::All, "seen-by-all: {options:?}");
        let page = self.read(base, token, &command, options).await?;
        let layout = PageLayout::new(&command.columns, static_count);
        let found = PageView::trusted(&page.bytes, layout).partitions().next();
        let Some(partition) = found else { return Ok(false) };
        let statics = partition.statics().into_iter().flatten().map(|column| column.value);
        let rows = partition.rows().next();
        let regulars = rows.into_iter().flat_map(|row| row.columns()).map(|column| column.value);
        let mut wanted = origin.values.iter();
        let equal = statics.chain(regulars).all(|it| it == wanted.next().map(Vec::as_slice));
        Ok(equal && wanted.next().is_none())
    }
}

fn unread(error: &reader::ReadError) -> ReadError {
    ReadError::Overloaded(format!("shard {}: {error}", runtime::shard_id()))
}

/// The deletion of a row of a view.
pub fn deletion(view: &TableSchema, (key, clustering): &Keys, timestamp: i64) -> FrozenMutation {
    let deletion_time = wall_micros().div_euclid(1_000_000);
    debug_assert!(0 < timestamp, "nothing-new: at {timestamp}");
    let mut dead = RowBuilder::new(Vec::new());
    dead.tombstone(Tombstone { timestamp, deletion_time });
    let mut mutation = MutationBuilder::new(view, key);
    mutation.row(clustering, &dead.finish());
    mutation.freeze()
}
