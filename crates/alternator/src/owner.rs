//! Writes that read before: by rounds, on the shard that owns the partition; of a table on several
//! nodes, on the node that leads its rounds.
//!
//! ```text
//! request := 1 operation:u8 parameters       (1: whose request it is; parameters: JSON)
//!          | 1 (16 | 17) of a transaction    ([`crate::part`])
//! result  := as in [`crate::led`]
//! ```
//!
//! Invariants
//!  - *judged-as-chosen*: what is written depends on what was read in the same round.

use crate::error::{Error, Kind};
use crate::key::Key;
use crate::led::{decode_result, encode_result, item_of};
use crate::met::{Counted, Met};
use crate::node::{Caller, Node};
use crate::options::Isolation;
use crate::part;
use crate::request::Request;
use crate::row::{Moment, command_of_item, joined, mutation};
use crate::standing::Standing;
use crate::table::Table;
use crate::traced;
use crate::write::{Operation, Write};
use cluster::{Cluster, Schema, TableEntry};
use mutation::FrozenMutation;
use query::Processor;
use replication::{
    Consistency, Coordinator, Executor, Language, LocalFuture, Owner, Proposed, WriteKind,
};
use std::rc::Rc;
use stdx::Put;

/// Makes a write, as its table wants it: the answer. `parameters`: the JSON that it was made of.
pub(crate) async fn execute(
    (node, caller): (&Node, &Caller),
    table: &Table,
    (operation, write): (Operation, Write),
    parameters: &str,
) -> Result<String, Error> {
    let isolation = node.isolation(table);
    let depends = write.reads();
    if isolation == Isolation::Forbidden && depends {
        return Err(Error::validation(
            "Read-modify-write operations are disabled by 'forbid_rmw' write isolation policy. \
             Refer to the documentation of the API for details",
        ));
    }
    // Nobody reads in vain where reading is not wanted.
    let is_forced = isolation != Isolation::Forbidden && node.options.force_read_before_write.get();
    let reads = depends || is_forced;
    let is_by_rounds =
        isolation == Isolation::Always || isolation == Isolation::OnlyReading && reads;
    if !reads && !is_by_rounds {
        let answer = plainly(node, table, (operation, &write)).await?;
        caller.tell(node, || traced::HAS_WRITTEN.to_owned());
        return Ok(answer);
    }
    let halves = write.halves();
    node.count(table, |counted| {
        counted.began_write(reads, is_by_rounds);
        counted.written(operation.op(), halves);
    });
    let answer = match is_by_rounds {
        true => by_rounds(node, table, (operation, write), parameters).await,
        false => unsafely(node, table, &write).await,
    };
    if answer.as_ref().is_err_and(|error| error.kind == Kind::ConditionalCheckFailed) {
        node.count(table, Counted::condition_failed);
    }
    if answer.is_ok() {
        let done = if is_by_rounds { traced::ROUND_DONE } else { traced::HAS_WRITTEN };
        caller.tell(node, || done.to_owned());
    }
    answer
}

async fn plainly(
    node: &Node,
    table: &Table,
    (operation, write): (Operation, &Write),
) -> Result<String, Error> {
    let decision = write.decide(None)?;
    let halves = write.halves();
    node.count(table, |counted| {
        counted.written(operation.op(), halves);
        counted.sized(write.counts_as, decision.counted);
    });
    let moment = Moment::of(node.timestamp());
    if let Some(mutation) = mutation(table, &write.key, &decision.change, moment)? {
        let options = node.write_options(WriteKind::Simple);
        let token = write.key.token();
        node.coordinator.write(&table.entry, token, mutation, &options).await?;
    }
    Ok(write.answer(table, &decision))
}

async fn unsafely(node: &Node, table: &Table, write: &Write) -> Result<String, Error> {
    let (token, command) = (write.key.token(), command_of_item(table, &write.key));
    let page = node.read(table, token, &command, true).await?;
    let decision = write.decide(item_of(table, &command, &page)?.as_ref())?;
    node.count(table, |counted| counted.sized(write.counts_as, decision.counted));
    let moment = Moment::of(node.timestamp());
    if let Some(mutation) = mutation(table, &write.key, &decision.change, moment)? {
        let options = node.write_options(WriteKind::Simple);
        node.coordinator.write(&table.entry, token, mutation, &options).await?;
    }
    Ok(write.answer(table, &decision))
}

async fn by_rounds(
    node: &Node,
    table: &Table,
    (operation, write): (Operation, Write),
    parameters: &str,
) -> Result<String, Error> {
    if node.coordinator.is_spread(&table.entry) {
        let options = node.write_options(WriteKind::Cas);
        let key = write.key.partition;
        let mut request = vec![Language::Items as u8, operation as u8];
        request.put(parameters.as_bytes());
        let led = node.coordinator.lead(&table.entry, &key, &options, request).await?;
        let result = decode_result(&led);
        return result
            .map_err(|damaged| Error::internal(format!("the leader's answer: {damaged}")))?;
    }
    let run = |owner, writes| -> LocalFuture<'static, _> { Box::pin(run(owner, writes)) };
    let options = node.write_options(WriteKind::Cas);
    node.together.make(&node.coordinator, table, (write, options), run).await
}

/// Makes writes of a partition in one round: their answers. (*judged-as-chosen*)
async fn run(owner: Owner, writes: Vec<Write>) -> Result<Vec<Result<String, Error>>, Error> {
    let stops = || Error::internal("the node stops");
    let processor = runtime::local::try_get::<Processor>().ok_or_else(stops)?;
    let schema = processor.cluster().schema();
    let gone = || Error::new(Kind::ResourceNotFound, "the table is gone");
    let entry = schema.table_by_id(owner.schema().id).ok_or_else(gone)?;
    let table = made(&schema, entry).ok_or_else(gone)?;
    let met = runtime::local::try_get::<Met>();
    let mut counts = met.as_deref();
    loop {
        let round = owner.begin(processor.timestamp()).await?;
        let moment = Moment::of(round.timestamp());
        // What is judged once more is not counted once more.
        let count = Count { table: &table, met: counts.take() };
        let judged = match &writes[..] {
            [only] => judge_one(&owner, count, only, moment).await,
            all => judge_all(&owner, count, all, moment).await,
        };
        let (proposed, answers) = match judged {
            Ok((Some(mutation), answers)) => {
                let proposed = owner.propose(round, mutation, Consistency::LocalQuorum).await?;
                (proposed, Ok(answers))
            }
            Ok((None, answers)) => (owner.finish(round).await?, Ok(answers)),
            Err(error) => (owner.finish(round).await?, Err(error)),
        };
        if proposed == Proposed::Chosen {
            return answers;
        }
    }
}

/// A table whose items are written so: one of the API, or of the nodes themselves.
fn made(schema: &Schema, entry: &Rc<TableEntry>) -> Option<Table> {
    Table::of(schema, entry).or_else(|| Table::of_nodes(entry))
}

/// What is written, and what each write answers. That a condition does not hold is an answer: it
/// was so at one moment, too.
type Judged = Result<(Option<FrozenMutation>, Vec<Result<String, Error>>), Error>;

/// Where writes are counted that are judged, if anywhere.
#[derive(Clone, Copy)]
struct Count<'a> {
    table: &'a Table,
    met: Option<&'a Met>,
}

impl Count<'_> {
    fn sized(self, write: &Write, bytes: usize) {
        let Some(met) = self.met else { return };
        let table = (self.table.entry.schema.id, &*self.table.name);
        met.count(table, |counted| counted.sized(write.counts_as, bytes));
    }
}

async fn judge_one(owner: &Owner, count: Count<'_>, write: &Write, moment: Moment) -> Judged {
    let table = count.table;
    let command = command_of_item(table, &write.key);
    let page = owner.read(&command).await?;
    let item = item_of(table, &command, &page)?;
    let made = write.decide(item.as_ref()).and_then(|decision| {
        count.sized(write, decision.counted);
        let mutation = mutation(table, &write.key, &decision.change, moment)?;
        Ok((mutation, write.answer(table, &decision)))
    });
    Ok(match made {
        Ok((mutation, answer)) => (mutation, vec![Ok(answer)]),
        Err(error) => (None, vec![Err(error)]),
    })
}

/// The same of several writes, each judged on what those before it have left.
async fn judge_all(owner: &Owner, count: Count<'_>, writes: &[Write], moment: Moment) -> Judged {
    let table = count.table;
    let (mut items, mut answers) = (Vec::<Standing>::new(), Vec::new());
    for write in writes {
        let known = items.iter().position(|item| item.key == write.key);
        let at = match known {
            Some(at) => at,
            None => {
                let command = command_of_item(table, &write.key);
                let page = owner.read(&command).await?;
                let item = item_of(table, &command, &page)?;
                let attributes = write.key.attributes(table)?;
                items.push(Standing::new(write.key.clone(), attributes, item));
                items.len() - 1
            }
        };
        let decided = write.decide(items[at].item());
        answers.push(decided.map(|decision| {
            count.sized(write, decision.counted);
            let answer = write.answer(table, &decision);
            items[at].take(&decision.change);
            answer
        }));
    }
    let mut whole: Option<FrozenMutation> = None;
    for item in &items {
        let Some(change) = item.change() else { continue };
        let Some(made) = mutation(table, &item.key, &change, moment)? else { continue };
        whole = Some(match whole {
            None => made,
            Some(before) => joined(table, &before, &made)?,
        });
    }
    Ok((whole, answers))
}

/// Executes writes that other nodes have sent.
struct Executes;

impl Executor for Executes {
    fn execute(&self, owner: Owner, request: Vec<u8>) -> LocalFuture<'static, Vec<u8>> {
        Box::pin(async move {
            if let Some(result) = part::execute(&owner, &request).await {
                return result;
            }
            let result = match sent(&owner, &request) {
                Ok(write) => run(owner, vec![write]).await.and_then(only),
                Err(error) => Err(error),
            };
            encode_result(&result)
        })
    }
}

fn only(answers: Vec<Result<String, Error>>) -> Result<String, Error> {
    answers.into_iter().next().unwrap_or_else(|| Err(Error::internal("a write without an answer")))
}

/// The write of a request of another node, of the partition that is held.
fn sent(owner: &Owner, request: &[u8]) -> Result<Write, Error> {
    let damaged = || Error::internal("a damaged request of another node");
    let (head, parameters) = request.split_at_checked(2).ok_or_else(damaged)?;
    let operation = Operation::of_byte(head[1]).ok_or_else(damaged)?;
    let cluster = runtime::local::get::<Cluster>();
    let schema = cluster.schema();
    let entry = schema.table_by_id(owner.schema().id).ok_or_else(damaged)?;
    let table = made(&schema, entry).ok_or_else(damaged)?;
    let write = Write::of(
        operation,
        &Request::parse_bytes(parameters)?,
        &table,
        &runtime::local::get_or_default(),
    )?;
    let Key { partition, .. } = &write.key;
    if partition == owner.key() { Ok(write) } else { Err(damaged()) }
}

/// From now on this shard executes writes that other nodes send.
pub(crate) fn execute_for_others() {
    if let Some(coordinator) = runtime::local::try_get::<Coordinator>() {
        coordinator.set_executor(Language::Items, Rc::new(Executes));
    }
}
