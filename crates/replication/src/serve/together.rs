//! Requests of a coordinator that travelled together.
//!
//! Invariants
//!  - *each-by-itself*: one that is refused takes no other with it, and none waits for another
//!    but for the log, whose groups are synced together.

use super::{check_view, coordinator, damaged, known, until, write};
use crate::coordinator::{Coordinator, nodes};
use crate::digest::Digest;
use crate::range;
use crate::wire::command::Decoder;
use crate::wire::together::{Answers, requests};
use crate::wire::{self, Refusal, answer};
use cluster::TableEntry;
use messaging::{Payload, Request};
use mutation::FrozenMutation;
use mutation::page::{Partitions, ReadCommand};
use nodes::{Cause, Planted, refused};
use runtime::task::join_all;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Room for an answer to a digest.
const DIGEST_BYTES: usize = 24;

/// Writes: those of partitions of this shard of which nothing else follows are one group.
pub(super) async fn writes(request: &Request) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let payload = request.take_payload();
    let (mut mutations, mut plain) = (Vec::with_capacity(16), Vec::with_capacity(16));
    // Each by itself, where it was not refused yet.
    let mut others = Vec::new();
    let mut known = None;
    let mut count = 0;
    for bytes in requests(&payload) {
        let bytes = bytes.map_err(damaged)?;
        match plain_write(&coordinator, request, bytes, &mut known).await {
            Ok(Some(mutation)) => {
                plain.push((count, bytes, None));
                mutations.push(mutation);
            }
            other => others.push((count, bytes, other.err())),
        }
        count += 1;
    }
    if !apply_plain(&coordinator, mutations).await {
        others.append(&mut plain);
    }
    if others.is_empty() {
        return Ok(Payload::empty());
    }
    stdx::probe!("writes that came together are not one group");
    debug_assert!(others.len() + plain.len() == count, "each-by-itself: one is neither");
    let each = others.into_iter().map(|(place, bytes, refusal)| async move {
        match refusal {
            Some(refusal) => (place, Some(refusal)),
            None => (place, write(request, bytes, None).await.err()),
        }
    });
    let mut ended: Vec<Option<Refusal>> = vec![None; count];
    for (place, refusal) in join_all(each).await {
        ended[place] = refusal;
    }
    if coordinator.is_planted(Planted::MixesAnswers) {
        ended.reverse();
    }
    let mut answers = Answers::with_capacity(64 * count);
    for refusal in &ended {
        match refusal {
            None => answers.answer(&[]),
            Some(refusal) => answers.refuse(refusal),
        }
    }
    debug_assert_eq!(ended.len(), count, "each-by-itself: answers of others");
    Ok(Payload::from(answers.finish()))
}

/// A mutation that is alone in its request, of a partition of this shard and a table of several
/// nodes without views and logs; `None`: it is something else. `known`: the table of the one
/// before, and whether it is such.
async fn plain_write(
    coordinator: &Coordinator,
    request: &Request,
    bytes: &[u8],
    known: &mut Option<(Rc<TableEntry>, bool)>,
) -> Result<Option<FrozenMutation>, Refusal> {
    let mut views = wire::views(bytes);
    let view = views.next().expect("no bytes are a damaged mutation").map_err(damaged)?;
    if views.next().is_some() || view.has_attached() {
        return Ok(None);
    }
    let (table, token) = check_view(coordinator, &view, until(request)).await?;
    debug_assert!(table.schema.id == view.table(), "each-by-itself: of another table");
    let is_own = table.tablets.shard_of(token) == coordinator.shard;
    let is_plain = match known {
        Some((before, is_plain)) if Rc::ptr_eq(before, &table) => *is_plain,
        _ => {
            let follows = !table.views.is_empty() || table.log.is_some();
            let is_plain = !follows && coordinator.is_spread(&table);
            known.insert((table, is_plain)).1
        }
    };
    Ok((is_own && is_plain).then(|| FrozenMutation(view.bytes().into())))
}

/// Whether all are applied, as one group of the log. Where not, it may be for one of them: then
/// each is told for itself.
async fn apply_plain(coordinator: &Coordinator, mutations: Vec<FrozenMutation>) -> bool {
    if mutations.is_empty() {
        return true;
    }
    let applied = match coordinator.is_planted(Planted::FailsGroups) {
        true => Err(storage::WriteError::Overloaded("planted")),
        false => coordinator.storage.apply_all(mutations).await,
    };
    if let Err(error) = &applied {
        tracing::debug!(target: "replication", %error, "writes that came together fail");
    }
    applied.is_ok()
}

/// Digests of partitions that are in memory; others are to be asked for alone.
pub(super) async fn digests(request: &Request) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let payload = request.take_payload();
    let mut answers = Answers::with_capacity(payload.len() / 4 + DIGEST_BYTES);
    let mut commands = Decoder::default();
    for bytes in requests(&payload) {
        let command = commands.decode(bytes.map_err(damaged)?).map_err(damaged);
        let told = command.and_then(|command| digest(&coordinator, command).transpose());
        match told.transpose() {
            Some(Ok(digest)) => answers.answer(&answer::encode_digest(digest)),
            Some(Err(refusal)) => answers.refuse(&refusal),
            None => answers.alone(),
        }
        runtime::task::yield_if_needed().await;
    }
    Ok(Payload::from(answers.finish()))
}

/// A digest, if nothing has to be waited for.
fn digest(coordinator: &Coordinator, command: &ReadCommand) -> Option<Result<Digest, Refusal>> {
    let Partitions::Key(_) = &command.partitions else { return None };
    let table = known(coordinator, command.table)?;
    debug_assert!(table.schema.id == command.table, "checked-where-it-enters: another table");
    if let Err(error) = range::check_ranges(command, &table.schema.order) {
        return Some(Err(damaged(error)));
    }
    match coordinator.page_at_once(&table, command) {
        ControlFlow::Continue(_) => None,
        ControlFlow::Break(page) => {
            Some(page.map(|page| Digest::of(&page)).map_err(|error| refused(Cause::Read(error))))
        }
    }
}
