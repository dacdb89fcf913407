//! Tables that get more tablets, or fewer: decided by the group, shown like every command, and then
//! carried out by the storage of each shard, in the background.
//!
//! Who has a token does not change with it, nor which shard has it here. So requests are right
//! whether they found their tablet before or after, and whether storage is divided yet; nobody
//! waits for it. A node that stops before opens its tables as they are decided.
//!
//! Invariants
//!  - *tokens-stay*: storage is asked for nothing but other borders between what a shard has.
//!  - *at-last*: each shard of a node that runs divides a table as its snapshot says, or the table
//!    is gone.
//!  - *latest-only*: storage is asked for what the present snapshot says, never for an earlier one.
//!  - *as-it-lies*: where a tablet goes to another shard, storage comes first, and what it says is
//!    shown: also where it came only halfway.

use super::{ChangeError, Cluster};
use crate::schema::{Catalog, TableEntry};
use catalog::placement::Resize;
use catalog::placement::tablets::{Asked, Counts, counts};
use catalog::{Command, Moment};
use model::{TableId, TabletMap};
use runtime::group::{STREAMING, with_group};
use runtime::task::Scope;
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::{Storage, StorageError};

/// How long it waits before what failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often the log says so.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Another number of tablets, by table.
pub type Resizes = BTreeMap<TableId, Resize>;

/// The tables that storage has to divide anew. Of shard 0.
pub(super) struct Dividing {
    tables: RefCell<BTreeSet<TableId>>,
    is_busy: Cell<bool>,
    work: Scope,
}

impl Default for Dividing {
    fn default() -> Dividing {
        Dividing { tables: RefCell::default(), is_busy: Cell::new(false), work: Scope::new() }
    }
}

impl Dividing {
    /// Waits for what is being divided; nothing else is begun, as the node stops.
    pub(super) async fn stop(&self) {
        self.work.join().await;
        assert!(!self.is_busy.get(), "at-last: somebody divides tables after the stop");
    }
}

impl Cluster {
    /// Gives tables another number of tablets. `decide` sees the catalog as it is when the change
    /// has its turn, and says why nothing can be changed. Ends when this node shows it.
    pub async fn resize_tables<F>(&self, decide: F) -> Result<(), ChangeError<String>>
    where
        F: Fn(&Catalog) -> Result<Resizes, String> + Send + 'static,
    {
        let decided = move |catalog: &Catalog, moment: Moment| {
            let resizes = decide(catalog).map_err(ChangeError::Refused)?;
            if resizes.is_empty() {
                return Ok((None, ()));
            }
            let command = Command::of_resizes(&catalog.schema, &resizes, moment.micros);
            Ok((Some(command.map_err(ChangeError::Refused)?), ()))
        };
        self.change_catalog(decided).await.map(drop)
    }

    /// How many tablets a table of the present snapshot may have; `None`: it has none, or is gone.
    pub fn tablet_counts(&self, table: &TableEntry) -> Option<Counts> {
        if table.replicas.is_empty() {
            return None;
        }
        let catalog = self.catalog();
        let keyspace = &catalog.schema.keyspace(&table.schema.keyspace)?.keyspace;
        let (replication, hints) = (&*table.replication, &table.schema.options.tablets);
        let scale = self.tablets_scale.get();
        let asked = Asked { keyspace, replication, hints, scale };
        Some(counts(&asked, &catalog.topology, self.node.here()))
    }

    /// Whether the storage of this node has to divide tables still. On shard 0.
    pub fn is_dividing(&self) -> bool {
        debug_assert!(runtime::shard_id() == 0, "at-last: tables are divided from shard 0");
        self.dividing.is_busy.get()
    }

    /// The storage of each shard is to divide these tables as the present snapshot says.
    pub(super) fn divide_tables(&self, tables: impl Iterator<Item = TableId>) {
        debug_assert!(runtime::shard_id() == 0, "at-last: tables are divided from shard 0");
        self.dividing.tables.borrow_mut().extend(tables);
        let is_idle = self.dividing.tables.borrow().is_empty();
        if is_idle || self.is_stopping.get() || self.dividing.is_busy.replace(true) {
            return;
        }
        drop(self.dividing.work.spawn(async {
            if let Some(cluster) = runtime::local::try_get::<Cluster>() {
                with_group(STREAMING, cluster.divide_all()).await;
                let is_done = cluster.dividing.tables.borrow().is_empty();
                debug_assert!(is_done || cluster.is_stopping.get(), "at-last: some are left over");
                cluster.dividing.is_busy.set(false);
            }
        }));
    }

    /// Has a tablet go to another shard of this node, if it is not there; ends when all shards show
    /// it. On shard 0, while the tablet is on its way, so that the table is not divided anew.
    pub async fn hand_over(&self, table: TableId, tablet: usize, to: u16) -> Result<(), String> {
        debug_assert!(runtime::shard_id() == 0, "as-it-lies: from another shard than the first");
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        let Some(entry) = self.schema().table_by_id(table).cloned() else { return Ok(()) };
        if entry.replicas.count() <= tablet {
            return Err(format!("{} has no tablet {tablet}", entry.schema.name));
        }
        let range = entry.replicas.range(tablet);
        // What was decided before.
        self.divide(table).await?;
        let gone = storage.hand_over(table, range, to).await;
        let Some(map) = storage.tablet_map(table) else { return Ok(()) };
        show_shards(table, &map).await;
        gone.map_err(|error| error.to_string())?;
        // Where it was in parts, it is one now.
        self.divide(table).await?;
        let shown = self.schema().table_by_id(table).is_none_or(|entry| {
            let there = entry.tablets.shard_of(range.1);
            there == to || entry.replicas.count() <= tablet
        });
        assert!(shown, "as-it-lies: tablet {tablet} of {table} is not shown on shard {to}");
        Ok(())
    }

    async fn divide_all(&self) {
        let mut told: Option<Instant> = None;
        loop {
            let mut failed = false;
            let tables: Vec<TableId> = self.dividing.tables.borrow().iter().copied().collect();
            for table in tables {
                if self.is_stopping.get() {
                    return;
                }
                // Before it begins: what is decided meanwhile is another turn.
                self.dividing.tables.borrow_mut().remove(&table);
                let Err(why) = self.divide(table).await else { continue };
                self.dividing.tables.borrow_mut().insert(table);
                failed = true;
                if told.is_none_or(|at| at + TOLD_EVERY <= Instant::now()) {
                    told = Some(Instant::now());
                    tracing::warn!(target: "tablets", "{why}; it is tried again until it works");
                }
            }
            if self.dividing.tables.borrow().is_empty() {
                return;
            }
            if failed {
                sleep(RETRY).await;
            }
        }
    }

    /// Divides a table on each shard.
    async fn divide(&self, table: TableId) -> Result<(), String> {
        assert!(runtime::shard_id() == 0, "at-last: tables are divided from another shard");
        let entry = self.schema().table_by_id(table).cloned();
        // By those that a table is being given a node stores from its next start on.
        let entry = entry.filter(|entry| !entry.replicas.is_empty());
        let Some(entry) = entry else { return Ok(()) };
        let name = format!("{}.{}", entry.schema.keyspace, entry.schema.name);
        let (map, began) = ((*entry.tablets).clone(), Instant::now());
        assert!(map.sharder().is_none(), "tokens-stay: {name} has no tablets");
        let (parts, tablets) = (map.count(), entry.replicas.count());
        assert!(tablets <= parts, "tokens-stay: {tablets} tablets of {name} in {parts} parts");
        let divide = move || {
            let map = map.clone();
            async move {
                let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                match storage.divide(table, map).await {
                    Ok(()) | Err(StorageError::UnknownTable(_)) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        let done: Result<Vec<()>, String> =
            runtime::on_all_shards(divide).await.into_iter().collect();
        done.map_err(|why| format!("{name} cannot be divided into its tablets: {why}"))?;
        let took = began.elapsed();
        tracing::info!(target: "tablets", ?took, "{name} is divided into {parts} parts here");
        Ok(())
    }
}

/// All shards show on which of them a table lies, as storage has it (*as-it-lies*).
async fn show_shards(table: TableId, map: &TabletMap) {
    let map = map.clone();
    let show = move || {
        let map = map.clone();
        async move {
            if let Some(cluster) = runtime::local::try_get::<Cluster>() {
                cluster.show_shards(table, &map);
            }
        }
    };
    runtime::on_all_shards(show).await;
}
