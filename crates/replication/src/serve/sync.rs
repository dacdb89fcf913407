//! What this node does for another one that repairs a range of which both are replicas.

use super::{complain, coordinator, damaged, reply, table, until, write};
use crate::repair::known::Known;
use crate::repair::range::{make_durable, record_of};
use crate::repair::{Sessions, sent, turns};
use crate::wire::sync::{Compare, Fetch, Lead, Read, decode_begin, decode_end, decode_part};
use crate::wire::sync::{
    decode_hosts, decode_repaired, decode_session, encode_fetched, encode_figures,
};
use crate::wire::sync::{encode_moment, encode_session, encode_told, encode_turn};
use crate::wire::{Refusal, RefusalKind, verb};
use messaging::{Payload, Request, Verbs};
use runtime::time::Instant;
use std::time::Duration;
use stdx::Damaged;

/// How long it is waited for that this node hears of a table.
const TABLE_TIME: Duration = Duration::from_secs(10);

/// See the module.
pub(super) fn serve(verbs: &mut Verbs) {
    verbs.on_request(verb::SYNC_READ, |request| async move { reply(read(&request).await) });
    verbs.on_request(verb::SYNC_COMPARE, |request| async move { reply(compare(&request)) });
    verbs.on_request(verb::SYNC_FETCH, |request| async move { reply(fetch(&request)) });
    verbs.on_request(verb::SYNC_WRITE, |request| async move {
        let written = write(&request, &request.take_payload(), None).await;
        reply(written.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::SYNC_LEAD, |request| async move { reply(lead(&request).await) });
    verbs.on_request(verb::SYNC_SENT, |request| async move { reply(send(&request).await) });
    verbs.on_request(verb::SYNC_DURABLE, |request| async move {
        let made = match decode_session(&request.take_payload()) {
            Ok(session) => make_durable(session).await.map_err(failed),
            Err(error) => Err(damaged(error)),
        };
        reply(made.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::SYNC_REPAIRED, |request| async move {
        reply(repaired(&request).await.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::SYNC_KNOWS, |request| async move { reply(knows(&request).await) });
    verbs.on_request(verb::SYNC_BEGIN, |request| async move { reply(begin(&request).await) });
    verbs.on_one_way(verb::SYNC_KEEP, |request| async move {
        match decode_session(&request.take_payload()) {
            Ok(session) => turns::keep(session).await,
            Err(damaged) => complain(&request, damaged),
        }
    });
    verbs.on_one_way(verb::SYNC_END, |request| async move {
        match decode_end(&request.take_payload()) {
            Ok((session, all_agree)) => {
                Sessions::of_shard().end(session);
                turns::end(session).await;
                Known::of_shard().end(session, all_agree).await;
            }
            Err(damaged) => complain(&request, damaged),
        }
    });
}

fn failed(why: String) -> Refusal {
    Refusal::new(RefusalKind::Failed, why)
}

/// Remembers a repair of a range.
async fn repaired(request: &Request) -> Result<(), Refusal> {
    let (part, moment) = decode_repaired(&request.take_payload()).map_err(damaged)?;
    coordinator()?.remember_repair(record_of(part, moment)).await.map_err(failed)
}

/// Sends what this node keeps for others.
async fn send(request: &Request) -> Result<Payload, Refusal> {
    let hosts = decode_hosts(&request.take_payload()).map_err(damaged)?;
    let moment = sent::send(hosts).await.map_err(failed)?;
    Ok(Payload::from(encode_moment(moment)))
}

/// A range waits for its turn on this node.
async fn begin(request: &Request) -> Result<Payload, Refusal> {
    let (session, part) = decode_begin(&request.take_payload()).map_err(damaged)?;
    let has_turn = turns::wait(session, part).await;
    if has_turn {
        Known::of_shard().begin(session, part).await;
    }
    Ok(Payload::from(encode_turn(has_turn)))
}

/// After which repair nothing has changed here of a part of a table.
async fn knows(request: &Request) -> Result<Payload, Refusal> {
    let part = decode_part(&request.take_payload()).map_err(damaged)?;
    Ok(Payload::from(encode_session(Known::of_shard().agreed(part).await)))
}

async fn read(request: &Request) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let read = Read::decode(&request.take_payload()).map_err(damaged)?;
    let patience = (Instant::now() + TABLE_TIME).min(until(request));
    let table = table(&coordinator, read.table, patience).await?;
    if !coordinator.is_spread(&table) {
        return Err(damaged(Damaged::new("a table of this node alone is repaired", 0)));
    }
    let part = (read.table, read.range.0, read.range.1);
    if coordinator.repairs_take_turns() && !turns::has(read.session, part).await {
        let text = "a range has no turn here any more".to_owned();
        return Err(Refusal::new(RefusalKind::Overloaded, text));
    }
    let told = Sessions::of_shard().read(&coordinator, &read, table.schema.clone()).await?;
    Ok(Payload::from(encode_told(&told)))
}

/// Repairs a range at the word of a node that is no replica of it, as long as that one waits.
async fn lead(request: &Request) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let Lead { range, how } = Lead::decode(&request.take_payload()).map_err(damaged)?;
    let (figures, ended) = coordinator.repair_range(&range, how, &|| true).await;
    ended.map_err(failed)?;
    Ok(Payload::from(encode_figures(figures, coordinator.figures_told())))
}

fn compare(request: &Request) -> Result<Payload, Refusal> {
    let compare = Compare::decode(&request.take_payload()).map_err(damaged)?;
    Ok(Payload::from(Sessions::of_shard().compare(&compare).encode()))
}

fn fetch(request: &Request) -> Result<Payload, Refusal> {
    let fetch = Fetch::decode(&request.take_payload()).map_err(damaged)?;
    let fetched = Sessions::of_shard().fetch(&fetch);
    Ok(Payload::from(encode_fetched(fetched.as_deref())))
}
