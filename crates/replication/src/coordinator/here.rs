//! What this node does as a replica, for its own coordinators and those of other nodes.
//!
//! Invariants
//!  - *owner-only*: whichever shard is asked, the one that owns a token does the work.

use super::{Coordinator, batch, own_storage};
use crate::cursor::Cursor;
use crate::range;
use crate::stretch::{Gatherer, Stretch};
use cluster::TableEntry;
use model::{DecoratedKey, TableSchema, Token};
use mutation::page::{Page, Partitions, ReadCommand};
use mutation::{FrozenMutation, FrozenView, Step};
use reader::multishard::MultishardOptions;
use reader::semaphore::Permit;
use reader::{LocalFuture, PartitionScope, ReadError, Slice, Source};
use runtime::io::IoClass;
use runtime::time::{Instant, sleep};
use std::ops::ControlFlow;
use std::time::Duration;
use stdx::Bytes;
use storage::{Begun, SourceOptions, Storage};

/// How long a stretch is begun anew where tablets go from shard to shard meanwhile.
const MOVED_MAX: Duration = Duration::from_secs(5);
const MOVED_PAUSE: Duration = Duration::from_millis(1);

impl Coordinator {
    /// A page of what this node has.
    pub(crate) async fn page_here(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
    ) -> Result<Page, ReadError> {
        match self.page_at_once(table, command) {
            ControlFlow::Break(read) => read,
            // Boxed: what need not wait is not to pay for the room that waiting takes.
            ControlFlow::Continue(begun) => {
                Box::pin(self.page_in_turn(table, command, begun)).await
            }
        }
    }

    /// The same, if nothing has to be waited for. Otherwise [`Coordinator::page_in_turn`] goes on
    /// with what this gives.
    #[inline]
    pub(crate) fn page_at_once(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
    ) -> ControlFlow<Result<Page, ReadError>, Begun> {
        debug_assert!(command.table == table.schema.id, "owner-only: of another table");
        match &command.partitions {
            Partitions::Key(key) if table.tablets.shard_of(Token::of(key)) == self.shard => {
                self.storage.read_at_once(command)
            }
            _ => ControlFlow::Continue(Begun::default()),
        }
    }

    /// Goes on with what [`Coordinator::page_at_once`] has begun.
    pub(crate) async fn page_in_turn(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
        begun: Begun,
    ) -> Result<Page, ReadError> {
        match &command.partitions {
            Partitions::Key(key) => {
                let shard = table.tablets.shard_of(Token::of(key));
                match shard == self.shard {
                    true => self.storage.read_in_turn(command, begun).await,
                    false => self.read_on(shard, command).await,
                }
            }
            Partitions::Range { .. } => self.read_range(table, command).await,
        }
    }

    /// What this node has of the partitions of a command, as mutations.
    pub(crate) async fn stretch_here(
        &self,
        table: &TableEntry,
        command: &ReadCommand,
    ) -> Result<Stretch, ReadError> {
        let command = range::settle(command.clone());
        if let Partitions::Key(key) = &command.partitions {
            let shard = table.tablets.shard_of(Token::of(key));
            return gather_on(shard, key.clone(), command.clone()).await;
        }
        // The rest of the partition in which it resumes, then those behind it.
        let mut stretch = Stretch::default();
        let mut left = command.clone();
        if let Some(resume) = &command.resume {
            let shard = table.tablets.shard_of(Token::of(&resume.key));
            stretch = gather_on(shard, resume.key.clone(), command.clone()).await?;
            if stretch.reached.is_some() {
                return Ok(stretch);
            }
            let Some(partitions) = command.partitions_after_resume() else { return Ok(stretch) };
            left = ReadCommand { partitions, resume: None, ..command.clone() };
        }
        let Partitions::Range { start, end } = &left.partitions else { return Ok(stretch) };
        let until = Instant::now() + MOVED_MAX;
        loop {
            let bounds = (start.clone(), end.clone());
            let source = self.storage.open_multishard(
                left.table,
                bounds,
                Slice::of(&left),
                options(&left),
                MultishardOptions::EXACT,
            )?;
            match gather(Box::new(source), None, &table.schema, &left).await {
                // Until all shards know where it is.
                Err(ReadError::Moved) if Instant::now() < until => sleep(MOVED_PAUSE).await,
                next => return Ok(stretch.then(next?)),
            }
        }
    }

    /// Applies a mutation.
    pub(crate) async fn apply_one_here(
        &self,
        mutation: FrozenMutation,
    ) -> Result<(), storage::WriteError> {
        let shard = self.shard_of(&mutation)?;
        self.apply(shard, mutation).await
    }

    /// The shard that has the partition of a mutation.
    pub(super) fn shard_of(&self, mutation: &FrozenMutation) -> Result<u16, storage::WriteError> {
        let view = FrozenView::trusted(&mutation.0).map_err(storage::WriteError::Damaged)?;
        let id = view.table();
        let schema = self.cluster.schema();
        let table = schema.table_by_id(id).ok_or(storage::WriteError::UnknownTable(id))?;
        debug_assert!(table.schema.id == id, "owner-only: the table of another id");
        Ok(table.tablets.shard_of(Token::of(view.key())))
    }

    /// Applies mutations that came together: those of one shard as one.
    pub(crate) async fn apply_here(
        &self,
        mutations: Vec<FrozenMutation>,
    ) -> Result<(), storage::WriteError> {
        let mut groups = batch::Groups::new();
        for mutation in mutations {
            let shard = self.shard_of(&mutation)?;
            groups.entry(shard).or_default().push(mutation);
        }
        debug_assert!(
            groups.values().all(|group| !group.is_empty()),
            "complete: a part of nothing"
        );
        match groups.pop_first() {
            Some((shard, mut alone)) if groups.is_empty() && alone.len() == 1 => {
                self.apply(shard, alone.swap_remove(0)).await
            }
            Some((shard, first)) => {
                groups.insert(shard, first);
                batch::apply(self, groups).await
            }
            None => Ok(()),
        }
    }
}

fn options(command: &ReadCommand) -> SourceOptions {
    SourceOptions { bypass_cache: command.bypass_cache, class: IoClass::Query }
}

/// A stretch of one partition, on the shard that owns it.
fn gather_on(
    shard: u16,
    key: Vec<u8>,
    command: ReadCommand,
) -> LocalFuture<'static, Result<Stretch, ReadError>> {
    let read = move || async move {
        let Ok(storage) = own_storage() else {
            return Err(ReadError::Overloaded("the node stops".to_owned()));
        };
        let gathered = gather_key(&storage, key.clone(), &command).await;
        match (gathered, storage.elsewhere(command.table, Token::of(&key))) {
            // Its tablet has gone to another shard.
            (Err(ReadError::Moved), Some(owner)) => gather_on(owner, key, command).await,
            (gathered, _) => gathered,
        }
    };
    Box::pin(runtime::on_shard(shard, read))
}

async fn gather_key(
    storage: &Storage,
    key: Vec<u8>,
    command: &ReadCommand,
) -> Result<Stretch, ReadError> {
    if command.resume.as_ref().is_some_and(|resume| resume.after.is_none()) {
        return Ok(Stretch::default());
    }
    let (permit, schema) = storage.admit_read(command.table).await?;
    debug_assert!(schema.id == command.table, "owner-only: of another table");
    let _cpu = permit.need_cpu();
    let scope = PartitionScope::Key(DecoratedKey::new(Bytes::copy_from(&key)));
    let slice = Slice::resumed(command, &schema.order);
    let source = storage.open_source(command.table, scope, slice, options(command))?;
    gather(source, Some(&permit), &schema, command).await
}

async fn gather(
    source: Box<dyn Source>,
    permit: Option<&Permit>,
    schema: &TableSchema,
    command: &ReadCommand,
) -> Result<Stretch, ReadError> {
    let mut fragments = Cursor::new(source, permit);
    let mut gatherer = Gatherer::new(schema, command);
    while let Some(fragment) = fragments.next(usize::MAX).await? {
        if gatherer.consume(fragment) == Step::Stop {
            break;
        }
        if let Some(permit) = permit {
            permit.check()?;
        }
    }
    Ok(gatherer.finish())
}
