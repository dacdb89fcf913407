//! How imports and exports end: in the record, then in the table that is imported.
//! (*told-by-the-record*)

use super::dump::{Target, dump};
use super::fill::{Source, Stopped, fill, now};
use super::record::{Failure, Record, Status};
use super::records;
use crate::error::Error;
use crate::kept::Kind;
use crate::node::{Node, changed};
use crate::pauses::Pauses;
use crate::restored;
use cluster::{Schema, SchemaChange};
use model::TableId;
use model::schema::TableOptions;
use runtime::sync::Semaphore;
use runtime::time::sleep;

/// Those of a shard that go on at once; others wait for their turn.
const AT_ONCE: usize = 2;

/// Whose turn it is. Stands in `runtime::local`.
struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Semaphore::new(AT_ONCE, usize::MAX))
    }
}

/// What is to be done.
pub(super) enum Work {
    /// The files become items.
    Fill(Source),
    /// The items become files.
    Dump(Target),
}

/// Brings an import or an export to its end, which is written down.
pub(super) async fn run(node: &Node, mut record: Record, work: Work) {
    let turns = runtime::local::get_or_default::<Turns>();
    let Ok(_turn) = turns.0.acquire(1).await else { return };
    let done = match &work {
        Work::Fill(source) => fill(node, &mut record, source).await,
        Work::Dump(target) => dump(node, &mut record, target).await,
    };
    match done {
        Ok(()) => end(node, record, None).await,
        Err(Stopped::Failed(failure)) => end(node, record, Some(failure)).await,
        Err(Stopped::Ended) => {
            let (kind, id) = (record.kind.name(), &record.id);
            tracing::warn!(target: "transfers", "{kind} {id} was given up by others");
        }
    }
}

/// Writes down how it has ended, until that is done.
async fn end(node: &Node, record: Record, failure: Option<Failure>) {
    let record = ended(record, failure);
    let mut pauses = Pauses::new();
    loop {
        let noted = match records::note(node, &record).await {
            Ok(_) => settle(node, &record).await,
            Err(error) => Err(error),
        };
        let Err(error) = noted else { break };
        let (kind, id) = (record.kind.name(), &record.id);
        tracing::warn!(target: "transfers", "that {kind} {id} has ended is noted later: {error}");
        sleep(pauses.next()).await;
    }
    let Record { kind, id, counts, .. } = &record;
    let kind = kind.name();
    match &record.failure {
        None => tracing::info!(target: "transfers", "{kind} {id} is completed: {counts:?}"),
        Some(Failure { code, message }) => {
            tracing::error!(target: "transfers", "{kind} {id} has failed: {code}: {message}");
        }
    }
}

/// A record as it is when that is over.
pub(super) fn ended(record: Record, failure: Option<Failure>) -> Record {
    let status = if failure.is_some() { Status::Failed } else { Status::Completed };
    Record { status, ended: Some(now()), failure, ..record }
}

/// Has the table of an import follow what its record says, if that is over. (*told-by-the-record*)
pub(super) async fn settle(node: &Node, record: &Record) -> Result<(), Error> {
    if record.kind != Kind::Import {
        return Ok(());
    }
    // What was written down may be something else than was to be.
    match records::find(node, (record.kind, &record.id)).await? {
        Some(record) => settle_table(node, record.table_id, Some(&record)).await,
        None => Ok(()),
    }
}

/// The same of a table, given the record of its import; `None`: it has none.
pub(super) async fn settle_table(
    node: &Node,
    id: TableId,
    record: Option<&Record>,
) -> Result<(), Error> {
    let why = match record.map(|record| (record.status, &record.failure)) {
        Some((Status::InProgress, _)) => return Ok(()),
        Some((Status::Completed, _)) => None,
        Some((Status::Failed, failure)) => {
            Some(failure.as_ref().map_or(String::new(), |failure| failure.message.clone()))
        }
        None => Some("nothing is known of it".to_owned()),
    };
    let change = move |schema: &Schema| {
        let Some(entry) = schema.table_by_id(id) else { return Ok(Vec::new()) };
        if restored::import_under_way(&entry.schema).is_none() {
            return Ok(Vec::new());
        }
        let mut options: TableOptions = entry.schema.options.clone();
        match &why {
            None => restored::end(&mut options),
            Some(why) => restored::fail(&mut options, why),
        }
        let built = entry.schema.edit().options(options).build();
        let altered = built.map_err(|invalid| Error::validation(invalid.to_string()))?;
        Ok(vec![SchemaChange::AlterTable(altered)])
    };
    changed(node.cluster.change_schema(change).await).map(drop)
}
