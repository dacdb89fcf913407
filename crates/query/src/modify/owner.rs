//! Writes that depend on what is there: executed on the shard that owns the partition, which runs
//! one of them at a time. Conditional writes of a table that is on several nodes are executed on
//! the node that leads their rounds.

use super::build::Existing;
use super::present::{ReadPlan, Step};
use super::sent;
use super::work::{Outcome, OwnedStatement, Shown, Work};
use crate::error::CqlError;
use crate::request::Request;
use cluster::TableEntry;
use model::Token;
use plan::modify::ModifyPlan;
use replication::{Consistency, Coordinator, Executor, Language, LocalFuture, Owner, WriteKind};
use runtime::Erased;
use std::rc::Rc;

/// Executes writes of one partition on its owner: all of them, if all conditions hold. `shown`:
/// what the result shows; `None`: nothing is conditional.
pub(crate) async fn on_owner(
    table: &Rc<TableEntry>,
    key: Vec<u8>,
    statements: Vec<OwnedStatement>,
    shown: Option<Shown>,
    request: &Request<'_>,
    timestamp: i64,
) -> Result<Outcome, CqlError> {
    let mut options = request.write_options(WriteKind::Cas);
    if shown.is_some() {
        options.consistency = serial_consistency(request)?;
    }
    let token = Token::of(&key);
    let work = Work {
        key: key.clone(),
        statements,
        shown,
        consistency: request.parameters.consistency,
        now_secs: request.parameters.now_secs,
        timestamp,
    };
    let coordinator = request.coordinator;
    let mut outcome = match work.shown.is_some() && coordinator.is_spread(table) {
        true => {
            let led = coordinator.lead(table, &key, &options, sent::encode(&work)).await?;
            let result = sent::decode_result(&led);
            result
                .map_err(|damaged| CqlError::Server(format!("the leader's answer: {damaged}")))??
        }
        false => {
            let change = move |owner: Owner| async move { work.run(owner).await };
            coordinator.on_owner(table, token, &key, &options, change).await??
        }
    };
    std::mem::take(&mut outcome.warnings).into_iter().for_each(|text| request.warn(text));
    Ok(outcome)
}

/// The level at which the conditions are judged.
fn serial_consistency(request: &Request<'_>) -> Result<Consistency, CqlError> {
    let level = request.parameters.consistency;
    if level.is_serial() {
        return Err(CqlError::Invalid(format!(
            "{} is not supported as conditional update commit consistency. Use ANY if you mean \
             \"make sure it is accepted but I don't care how many replicas commit it for \
             non-SERIAL reads\"",
            level.name()
        )));
    }
    match request.parameters.serial_consistency {
        None => Ok(Consistency::Serial),
        Some(level) if level.is_serial() => Ok(level),
        Some(_) => Err(CqlError::invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        )),
    }
}

/// Executes conditional writes that other nodes have sent.
struct Executes;

impl Executor for Executes {
    fn execute(&self, owner: Owner, request: Vec<u8>) -> LocalFuture<'static, Vec<u8>> {
        Box::pin(async move {
            let result = match sent::decode(&request, owner.key()) {
                Ok(work) => work.run(owner).await,
                Err(damaged) => Err(CqlError::Server(format!("a damaged request: {damaged}"))),
            };
            sent::encode_result(&result)
        })
    }
}

/// From now on, on all shards, conditional writes that other nodes send are executed. After the
/// processors were started.
pub fn execute_for_others() -> Erased<'static, ()> {
    let start = || async {
        if let Some(coordinator) = runtime::local::try_get::<Coordinator>() {
            coordinator.set_executor(Language::Cql, Rc::new(Executes));
        }
    };
    Erased::new(move || async move { drop(runtime::on_all_shards(start).await) })
}

/// What a write finds in a partition that it does not hold: as it is now.
pub(crate) async fn existing(
    plan: &ModifyPlan,
    key: &[u8],
    request: &Request<'_>,
) -> Result<Existing, CqlError> {
    if plan.read.is_none() {
        return Ok(Existing::default());
    }
    let table = &plan.table;
    let steps = [Step { plan, request: *request }];
    let read = ReadPlan::new(&table.schema, &steps, &[]);
    let command = request.step(|_| read.command(&table.schema, key, &steps)).await?;
    let options = request.read_options(&command.partitions);
    let page = request.coordinator.read(table, Token::of(key), &command, &options).await?;
    let (found, _) = request.step(|_| read.judge(&table.schema, &page, &steps)).await?;
    Ok(found.into_iter().next().map_or(Existing::default(), |found| found.existing))
}
