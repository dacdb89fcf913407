//! What this node does for the coordinators of others. Whoever starts messaging registers it, on
//! each shard.
//!
//! Invariants
//!  - *checked-where-it-enters*: what another node asks for is checked, against the schema of this
//!    one too, before anything looks at it. What breaks a rule is refused, in words.
//!  - *stays-empty*: a hint of before a truncation of its table brings nothing back, however late
//!    it comes. Times are those of the clocks of both nodes.
//!  - *owner-only*: a shard that does not own a token hands over to the one that does.

mod sync;
mod together;

use crate::backups;
use crate::coordinator::{Coordinator, build, nodes, own_coordinator};
use crate::digest::Digest;
use crate::hints::Hints;
use crate::moves;
use crate::options::{WriteKind, WriteOptions};
use crate::range;
use crate::rate::{Limit, Operation};
use crate::wire::limited::Asks;
use crate::wire::relay::{Done, Place, Relay, Relayed};
use crate::wire::{self, Refusal, RefusalKind, answer, verb};
use cluster::{TableEntry, TableKind};
use messaging::{Messaging, Payload, Request, Verb, Verbs};
use model::{TableId, TableSchema, Token, Uuid};
use mutation::page::{Page, Partitions, ReadCommand};
use mutation::{FrozenMutation, FrozenView};
use nodes::{Cause, refused};
use runtime::group::{STREAMING, with_group};
use runtime::time::{Instant, timeout, wall_micros};
use std::rc::Rc;
use std::time::Duration;
use stdx::Damaged;

/// Room for an answer is taken before what has to be read is larger than this, up to the most.
const ANSWER_BYTES_MIN: usize = 64 << 10;
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long a request without a time may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Registers all that coordinators ask of replicas.
pub fn serve(verbs: &mut Verbs) {
    const { assert!(ANSWER_BYTES_MIN < ANSWER_BYTES_MAX, "room for large answers alone") };
    verbs.on_request(verb::MUTATION, |request| async move {
        let written = write(&request, &request.take_payload(), None).await;
        reply(written.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::HINT, |request| async move {
        let hint = wire::decode_hint(&request.take_payload());
        let hint = hint.map(|(written_at, mutations)| (Some(written_at), mutations));
        take_hint(&request, hint).await
    });
    // As a node sends it that does not know `HINT_TIMES`.
    verbs.on_request(verb::HINT_MUTATION, |request| async move {
        let mutations = wire::decode_mutations(&request.take_payload());
        take_hint(&request, mutations.map(|mutations| (None, mutations))).await
    });
    verbs.on_request(verb::READ_DATA, |request| async move {
        reply(read_data(&request, &request.take_payload(), None).await)
    });
    verbs.on_request(verb::READ_DIGEST, |request| async move {
        reply(read_digest(&request, &request.take_payload(), None).await)
    });
    verbs.on_request(verb::READ_MUTATION_DATA, |request| async move {
        reply(read_mutations(&request, &request.take_payload(), None).await)
    });
    verbs.on_request(
        verb::MUTATIONS,
        |request| async move { reply(together::writes(&request).await) },
    );
    verbs.on_request(verb::READ_DIGESTS, |request| async move {
        reply(together::digests(&request).await)
    });
    verbs.on_request(verb::LIMITED, |request| async move { reply(limited(&request).await) });
    verbs.on_request(verb::COUNTER_MUTATION, |request| async move {
        reply(increment(&request).await.map(|()| Payload::empty()))
    });
    serve_rounds(verbs);
    serve_relays(verbs);
    sync::serve(verbs);
    verbs.on_request(verb::BATCH_STORE, |request| async move {
        reply(keep_batch(&request).await.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::BATCH_FORGET, |request| async move {
        reply(forget_batches(&request).await.map(|()| Payload::empty()))
    });
    serve_moves(verbs);
    serve_backups(verbs);
    verbs.on_request(verb::TRUNCATE, |request| async move {
        reply(truncate(&request).await.map(|()| Payload::empty()))
    });
}

/// Writes that one replica of a data centre passes on to the others there.
fn serve_relays(verbs: &mut Verbs) {
    verbs.on_request(verb::RELAY, |request| async move {
        reply(relay(&request).await.map(|()| Payload::empty()))
    });
    verbs.on_one_way(verb::RELAYED, |request| async move { relayed(&request).await });
    verbs.on_one_way(verb::RELAYED_DONE, |request| async move {
        match Done::decode(&request.take_payload()) {
            Ok(done) => {
                if let Ok(coordinator) = own_coordinator() {
                    coordinator.hear_of_relayed(&request.from, done);
                }
            }
            Err(damaged) => complain(&request, damaged),
        }
    });
}

/// The rounds of conditional writes.
fn serve_rounds(verbs: &mut Verbs) {
    verbs.on_request(verb::PAXOS_PREPARE, |request| async move { reply(promise(&request).await) });
    verbs.on_request(verb::PAXOS_ACCEPT, |request| async move { reply(accept(&request).await) });
    verbs.on_request(verb::PAXOS_LEARN, |request| async move {
        reply(learn(&request, &request.take_payload()).await.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::PAXOS_PRUNE, |request| async move {
        reply(prune(&request).await.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::PAXOS_LEAD, |request| async move {
        reply(lead(&request).await.map(Payload::from))
    });
    verbs.on_request(verb::PAXOS_READ, |request| async move {
        reply(read_round(&request).await.map(|page| {
            let head = answer::page_head(&page);
            Payload::with_body(head, page.bytes)
        }))
    });
}

/// Nodes that join and leave.
fn serve_moves(verbs: &mut Verbs) {
    let failed = |why: String| Refusal::new(RefusalKind::Failed, why);
    verbs.on_request(verb::MOVE_BARRIER, move |_| async move {
        reply(moves::barrier().await.map(|()| Payload::empty()).map_err(failed))
    });
    verbs.on_request(verb::MOVE_STEP, move |request| async move {
        let stepped = match wire::moves::decode_step(&request.take_payload()) {
            Ok(session) => moves::step(session).await.map_err(failed),
            Err(error) => Err(damaged(error)),
        };
        reply(stepped.map(|progress| Payload::from(progress.encode())))
    });
    verbs.on_request(verb::MOVE_PAGE, |request| async move {
        // Whoever gets ranges does not hold up what clients wait for.
        let page = async { read_mutations(&request, &request.take_payload(), None).await };
        let page = with_group(STREAMING, page).await;
        if let Ok(page) = &page {
            moves::note_given(page.len());
            moves::keep_given(page.len()).await;
        }
        reply(page)
    });
    verbs.on_request(verb::MOVE_FILES, |request| async move {
        reply(give(&request).await.map(Payload::from))
    });
    verbs.on_request(verb::MOVE_BLOCK, |request| async move {
        reply(with_group(STREAMING, block(&request)).await)
    });
    verbs.on_request(verb::MOVE_WARM, move |request| async move {
        let told = match wire::moves::Wanted::decode(&request.take_payload()) {
            Ok(wanted) => with_group(STREAMING, moves::tell_warm(wanted)).await.map_err(failed),
            Err(error) => Err(damaged(error)),
        };
        reply(told.map(Payload::from))
    });
    verbs.on_request(verb::TABLET_LOADS, move |request| async move {
        let told = match wire::loads::decode_after(&request.take_payload()) {
            Ok(after) => with_group(STREAMING, moves::tell_loads(after)).await.map_err(failed),
            Err(error) => Err(damaged(error)),
        };
        reply(told.map(Payload::from))
    });
    verbs.on_request(verb::MOVES_STILL, move |_| async move {
        reply(Ok(Payload::from(wire::loads::encode_still(moves::is_settled()))))
    });
    verbs.on_request(verb::STORAGE_MODES, move |request| async move {
        let told = moves::tell_modes(&request.take_payload()).await.map_err(failed);
        reply(told.map(Payload::from))
    });
    verbs.on_request(verb::VIEWS_BUILT, move |_| async move {
        let built = build::states().await.into_iter().filter(|state| state.is_built);
        let built = built.map(|state| state.view).collect();
        reply(Ok(Payload::from(wire::built::encode(&built))))
    });
    verbs.on_one_way(verb::MOVE_END, |request| async move {
        match wire::moves::decode_end(&request.take_payload()) {
            Ok(gift) => moves::end(gift).await,
            Err(damaged) => complain(&request, damaged),
        }
    });
}

/// Snapshots, and what becomes of them.
fn serve_backups(verbs: &mut Verbs) {
    verbs.on_request(verb::SNAPSHOT_TAKE, |request| async move {
        reply(take_snapshot(&request).await.map(Payload::from))
    });
    verbs.on_request(verb::SNAPSHOT_CLEAR, |request| async move {
        let cleared = async { backups::clear(&*coordinator()?, &request.take_payload()).await };
        reply(cleared.await.map(|()| Payload::empty()))
    });
    verbs.on_request(verb::SNAPSHOT_LOAD, |request| async move {
        reply(load_snapshot(&request).await.map(Payload::from))
    });
}

async fn take_snapshot(request: &Request) -> Result<Vec<u8>, Refusal> {
    let take = wire::backups::Take::decode(&request.take_payload()).map_err(damaged)?;
    let coordinator = coordinator()?;
    table(&coordinator, take.table, until(request)).await?;
    backups::take(&coordinator, take).await
}

async fn load_snapshot(request: &Request) -> Result<Vec<u8>, Refusal> {
    let load = wire::backups::Load::decode(&request.take_payload()).map_err(damaged)?;
    table(&*coordinator()?, load.into, until(request)).await?;
    backups::load(load).await
}

/// Gives what this node has of a range as files.
async fn give(request: &Request) -> Result<Vec<u8>, Refusal> {
    let wanted = wire::moves::Wanted::decode(&request.take_payload()).map_err(damaged)?;
    table(&*coordinator()?, wanted.table, until(request)).await?;
    moves::give(wanted).await.map_err(|why| Refusal::new(RefusalKind::Failed, why))
}

/// A block of a file that is given.
async fn block(request: &Request) -> Result<Payload, Refusal> {
    let asked = wire::moves::Block::decode(&request.take_payload()).map_err(damaged)?;
    request.reply_room(wire::moves::BLOCK_BYTES).await;
    let block = moves::block(asked).await;
    let block = block.map_err(|why| Refusal::new(RefusalKind::Failed, why))?;
    moves::note_given(block.len());
    moves::keep_given(block.len()).await;
    Ok(Payload::with_body(Vec::new(), block))
}

fn reply(answer: Result<Payload, Refusal>) -> messaging::Reply {
    answer.map_err(|refusal| Payload::from(refusal.encode()))
}

fn damaged(damaged: Damaged) -> Refusal {
    Refusal::new(RefusalKind::Refused, format!("a damaged request: {damaged}"))
}

fn coordinator() -> Result<Rc<Coordinator>, Refusal> {
    own_coordinator().map_err(|error| refused(Cause::Write(error)))
}

/// A table that other nodes may read and write here. Who asks may have heard of it before this node
/// did: then it waits until this node knows what they know.
async fn table(
    coordinator: &Coordinator,
    id: TableId,
    until: Instant,
) -> Result<Rc<TableEntry>, Refusal> {
    if let Some(table) = known(coordinator, id) {
        return Ok(table);
    }
    stdx::probe!("a node is asked for a table that it does not know yet");
    // Whether that ended well or not, what counts is whether the table is there.
    let catching_up = Box::pin(coordinator.cluster.catch_up());
    let caught_up = timeout(nodes::left(until), catching_up).await;
    let unknown = || Refusal::new(RefusalKind::UnknownTable, format!("no table {id} here"));
    match caught_up {
        Ok(_) => known(coordinator, id).ok_or_else(unknown),
        Err(_) => Err(unknown()),
    }
}

fn known(coordinator: &Coordinator, id: TableId) -> Option<Rc<TableEntry>> {
    let schema = coordinator.cluster.schema();
    let table = schema.table_by_id(id).filter(|table| table.kind == TableKind::Stored);
    table.cloned()
}

/// A write of one partition or several, each of a table that is here, its rows in order.
async fn write(request: &Request, payload: &[u8], limit: Option<Limit>) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let mut views = wire::views(payload);
    let first = views.next().expect("no bytes are a damaged mutation").map_err(damaged)?;
    let (table, token) = check_view(&coordinator, &first, until(request)).await?;
    let mutation = FrozenMutation(first.bytes().into());
    let Some(second) = views.next() else {
        if let Some(limit) = limit {
            admit(&coordinator, request, (&table, token, Operation::Write), limit).await?;
        }
        let applied = coordinator.apply(table.tablets.shard_of(token), mutation).await;
        return applied.map_err(|error| refused(Cause::Write(error)));
    };
    let (mut mutations, mut places) = (vec![mutation], vec![(table, token)]);
    for view in [second].into_iter().chain(views) {
        let view = view.map_err(damaged)?;
        places.push(check_view(&coordinator, &view, until(request)).await?);
        mutations.push(FrozenMutation(view.bytes().into()));
    }
    if let Some(limit) = limit {
        for (table, token) in &places {
            admit(&coordinator, request, (table, *token, Operation::Write), limit).await?;
        }
    }
    let applied = Box::pin(coordinator.apply_here(mutations)).await;
    applied.map_err(|error| refused(Cause::Write(error)))
}

/// What was written when, if that is told, and came as a hint.
type Hint = (Option<i64>, Vec<FrozenMutation>);

async fn take_hint(request: &Request, hint: Result<Hint, Damaged>) -> messaging::Reply {
    // What was missed for long does not hold up what clients wait for.
    let written = async { missed(request, hint.map_err(damaged)?).await };
    let written = with_group(STREAMING, written).await;
    if let Some(hints) = Hints::of_shard() {
        hints.counters().received.add(1);
    }
    reply(written.map(|()| Payload::empty()))
}

/// A write that this node has missed. What it has no longer is brought to those that have it now;
/// what is of before a truncation is nowhere any more (*stays-empty*).
async fn missed(request: &Request, (written_at, all): Hint) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    debug_assert!(!all.is_empty(), "checked-where-it-enters: a hint of nothing");
    let mutations: Vec<_> = all.into_iter().filter(|one| !is_truncated(one, written_at)).collect();
    if mutations.is_empty() {
        stdx::probe!("a hint comes that is of before a truncation");
        return Ok(());
    }
    let mut is_elsewhere = false;
    for mutation in &mutations {
        let (table, token) = check(&coordinator, mutation, until(request)).await?;
        let written = coordinator.writers(&table, token);
        is_elsewhere |= written.is_some_and(|all| !all.iter().any(|one| one.is_here));
    }
    if !is_elsewhere {
        return write(request, &wire::encode_mutations(&mutations), None).await;
    }
    stdx::probe!("a hint comes to a node that has the data no longer");
    let written_at = written_at.unwrap_or_else(wall_micros);
    let brought = nodes::complete(&coordinator, written_at, mutations).await;
    brought.map_err(nodes::refusal_of)
}

/// Whether a table was truncated after a write to it was coordinated.
fn is_truncated(mutation: &FrozenMutation, written_at: Option<i64>) -> bool {
    debug_assert!(!mutation.0.is_empty(), "stays-empty: a hint of nothing");
    let (Some(written_at), Ok(view)) = (written_at, mutation.view()) else { return false };
    let truncated = Hints::of_shard().and_then(|hints| hints.truncated_at(view.table()));
    truncated.is_some_and(|truncated| written_at <= truncated)
}

/// A write that this node makes, and passes on to others, each of which tells who coordinates it.
async fn relay(request: &Request) -> Result<(), Refusal> {
    let payload = request.take_payload();
    let (relay, asked) = Relay::decode(&payload).map_err(damaged)?;
    let from = &request.from;
    let origin = Place { host: Uuid::from_u128(from.host.0), shard: from.shard };
    let asks = relay.asks;
    coordinator()?.pass_on(origin, relay, asked, until(request));
    carry_out(request, asks, asked).await
}

/// A write that another replica has passed on.
async fn relayed(request: &Request) {
    let payload = request.take_payload();
    let (relayed, asked) = match Relayed::decode(&payload) {
        Ok(relayed) => relayed,
        Err(damaged) => return complain(request, damaged),
    };
    let Relayed { asks, write, origin } = relayed;
    let carried_out = carry_out(request, asks, asked);
    let carried_out = timeout(nodes::left(until(request)), Box::pin(carried_out)).await;
    // Who waits for it knows when its time is over.
    if let (Ok(outcome), Some(messaging)) = (carried_out, Messaging::current()) {
        let host = Uuid::from_u128(messaging.host().0);
        nodes::tell_origin(origin, Done { write, host, outcome }).await;
    }
}

/// What is passed on.
async fn carry_out(request: &Request, asks: Verb, asked: &[u8]) -> Result<(), Refusal> {
    match asks {
        verb::PAXOS_LEARN => learn(request, asked).await,
        verb::LIMITED => match wire::limited::decode(asked).map_err(damaged)? {
            (Asks::Write, limit, asked) => write(request, asked, Some(limit)).await,
            _ => Err(damaged(Damaged::new("a read is passed on", 0))),
        },
        _ => write(request, asked, None).await,
    }
}

/// What nobody waits for is damaged.
fn complain(request: &Request, damaged: Damaged) {
    let (node, verb) = (request.from.host, request.verb.name);
    tracing::warn!(target: "replication", %node, verb, %damaged, "a damaged message");
}

async fn check(
    coordinator: &Coordinator,
    mutation: &FrozenMutation,
    until: Instant,
) -> Result<(Rc<TableEntry>, Token), Refusal> {
    let view = mutation.view().map_err(damaged)?;
    check_view(coordinator, &view, until).await
}

async fn check_view(
    coordinator: &Coordinator,
    view: &FrozenView<'_>,
    until: Instant,
) -> Result<(Rc<TableEntry>, Token), Refusal> {
    debug_assert!(!view.bytes().is_empty(), "checked-where-it-enters: no bytes are a mutation");
    let table = table(coordinator, view.table(), until).await?;
    view.check_order(&table.schema.order).map_err(damaged)?;
    if view.has_attached() {
        check_attached(coordinator, view, until).await?;
    }
    Ok((table, Token::of(view.key())))
}

/// What a write carries. Of a table that is no more nothing will be written.
async fn check_attached(
    coordinator: &Coordinator,
    view: &FrozenView<'_>,
    until: Instant,
) -> Result<(), Refusal> {
    for attached in view.attached() {
        debug_assert!(!attached.has_attached(), "checked-where-it-enters: carried twice");
        match table(coordinator, attached.table(), until).await {
            Ok(table) => attached.check_order(&table.schema.order).map_err(damaged)?,
            Err(refusal) if refusal.kind == RefusalKind::UnknownTable => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// A request to partitions of tables that limit them.
async fn limited(request: &Request) -> Result<Payload, Refusal> {
    let payload = request.take_payload();
    let (asks, limit, asked) = wire::limited::decode(&payload).map_err(damaged)?;
    let limit = Some(limit);
    match asks {
        Asks::Write => write(request, asked, limit).await.map(|()| Payload::empty()),
        Asks::Data => read_data(request, asked, limit).await,
        Asks::Digest => read_digest(request, asked, limit).await,
        Asks::Mutations => read_mutations(request, asked, limit).await,
    }
}

/// Counts a request to a partition, and rejects one too many.
async fn admit(
    coordinator: &Coordinator,
    request: &Request,
    (table, token, operation): (&TableEntry, Token, Operation),
    limit: Limit,
) -> Result<(), Refusal> {
    let patience = nodes::left(until(request));
    match coordinator.admit_told(table, token, operation, (limit, patience)).await {
        true => Ok(()),
        false => {
            let TableSchema { keyspace, name, .. } = &*table.schema;
            Err(Refusal::new(RefusalKind::RateLimited, format!("{keyspace}.{name}")))
        }
    }
}

/// The command of a request, and its table.
async fn command(
    coordinator: &Coordinator,
    request: &Request,
    payload: &[u8],
    limit: Option<Limit>,
) -> Result<(Rc<TableEntry>, ReadCommand), Refusal> {
    let command = wire::command::decode(payload).map_err(damaged)?;
    let table = table(coordinator, command.table, until(request)).await?;
    range::check_ranges(&command, &table.schema.order).map_err(damaged)?;
    debug_assert!(table.schema.id == command.table, "checked-where-it-enters: another table");
    debug_assert!(table.kind == TableKind::Stored, "checked-where-it-enters: {:?}", table.kind);
    if let (Some(limit), Partitions::Key(key)) = (limit, &command.partitions) {
        let place = (&*table, Token::of(key), Operation::Read);
        admit(coordinator, request, place, limit).await?;
    }
    Ok((table, command))
}

/// Waits until a large answer has room.
async fn make_room(request: &Request, command: &ReadCommand) {
    let is_key = matches!(command.partitions, Partitions::Key(_)) && command.row_limit < 100;
    let bytes = command.bytes_max.min(ANSWER_BYTES_MAX);
    if !is_key && ANSWER_BYTES_MIN < bytes {
        request.reply_room(bytes).await;
    }
}

async fn read_data(
    request: &Request,
    payload: &[u8],
    limit: Option<Limit>,
) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let (table, command) = command(&coordinator, request, payload, limit).await?;
    make_room(request, &command).await;
    let page = coordinator.page_here(&table, &command).await;
    let page = page.map_err(|error| refused(Cause::Read(error)))?;
    Ok(Payload::with_body(answer::page_head(&page), page.bytes))
}

async fn read_digest(
    request: &Request,
    payload: &[u8],
    limit: Option<Limit>,
) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let (table, command) = command(&coordinator, request, payload, limit).await?;
    let page = coordinator.page_here(&table, &command).await;
    let page = page.map_err(|error| refused(Cause::Read(error)))?;
    Ok(Payload::from(&answer::encode_digest(Digest::of(&page))[..]))
}

async fn read_mutations(
    request: &Request,
    payload: &[u8],
    limit: Option<Limit>,
) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let (table, command) = command(&coordinator, request, payload, limit).await?;
    make_room(request, &command).await;
    let stretch = coordinator.stretch_here(&table, &command).await;
    let stretch = stretch.map_err(|error| refused(Cause::Read(error)))?;
    Ok(Payload::from(answer::encode_stretch(&stretch)))
}

/// Leads an increment that another node coordinates.
async fn increment(request: &Request) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let decoded = wire::decode_increment(&request.take_payload());
    let (consistency, mutation) = decoded.map_err(damaged)?;
    let (table, token) = check(&coordinator, &mutation, until(request)).await?;
    if !table.schema.is_counter() {
        return Err(damaged(Damaged::new("an increment of a table without counters", 0)));
    }
    let timeout = nodes::left(until(request));
    let options = WriteOptions { consistency, timeout, kind: WriteKind::Counter, limit: None };
    coordinator.lead_here(&table, token, mutation, &options).await
}

/// Keeps a batch that another node coordinates. It is looked at when it is replayed, by when this
/// node knows its tables.
async fn keep_batch(request: &Request) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let (logged, mutations) =
        wire::batches::decode_store(&request.take_payload()).map_err(damaged)?;
    let schema = coordinator.cluster.schema();
    for mutation in &mutations {
        let table = schema.table_by_id(mutation.view().map_err(damaged)?.table());
        if table.is_some_and(|table| !coordinator.is_spread(table)) {
            return Err(damaged(Damaged::new("a batch of tables of this node alone", 0)));
        }
    }
    coordinator.held().received.add(1);
    let kept = coordinator.keep_batch(logged, &mutations).await;
    kept.map_err(|error| refused(Cause::Write(error)))
}

async fn forget_batches(request: &Request) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let batches = wire::batches::decode_forget(&request.take_payload()).map_err(damaged)?;
    debug_assert!(!batches.is_empty(), "checked-where-it-enters: of no batch");
    let forgotten = coordinator.forget_batches(&batches).await;
    forgotten.map_err(|error| refused(Cause::Write(error)))
}

async fn promise(request: &Request) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let place = wire::paxos::decode_place(&request.take_payload());
    let (place, ballot) = place.map_err(damaged)?;
    table(&coordinator, place.table, until(request)).await?;
    let verdict = coordinator.promise_here(place, ballot).await;
    let verdict = verdict.map_err(|error| refused(Cause::Write(error)))?;
    Ok(Payload::from(wire::paxos::encode_promise(&verdict)))
}

async fn accept(request: &Request) -> Result<Payload, Refusal> {
    let coordinator = coordinator()?;
    let proposal = wire::paxos::decode_proposal(&request.take_payload());
    let (place, proposal) = proposal.map_err(damaged)?;
    check(&coordinator, &proposal.mutation, until(request)).await?;
    let verdict = coordinator.accept_here(place, proposal).await;
    let verdict = verdict.map_err(|error| refused(Cause::Write(error)))?;
    Ok(Payload::from(wire::paxos::encode_verdict(verdict)))
}

async fn learn(request: &Request, payload: &[u8]) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let proposal = wire::paxos::decode_learned(payload);
    let (place, ballot, proposal) = proposal.map_err(damaged)?;
    check(&coordinator, &proposal, until(request)).await?;
    let learned = coordinator.learn_here(place, ballot, proposal).await;
    learned.map_err(|error| refused(Cause::Write(error)))
}

async fn prune(request: &Request) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let place = wire::paxos::decode_place(&request.take_payload());
    let (place, ballot) = place.map_err(damaged)?;
    table(&coordinator, place.table, until(request)).await?;
    let pruned = coordinator.prune_here(place, ballot).await;
    pruned.map_err(|error| refused(Cause::Write(error)))
}

fn until(request: &Request) -> Instant {
    request.deadline.unwrap_or_else(|| Instant::now() + TIME_MAX)
}

/// Leads a conditional write that another node has sent.
async fn lead(request: &Request) -> Result<Vec<u8>, Refusal> {
    let coordinator = coordinator()?;
    let (level, place, change) =
        wire::paxos::decode_lead(&request.take_payload()).map_err(damaged)?;
    if !coordinator.has_executor() {
        return Err(Refusal::new(RefusalKind::Unreached, "the node starts or stops"));
    }
    let table = table(&coordinator, place.table, until(request)).await?;
    let options = nodes::options_of(level, until(request));
    let led = coordinator.lead_round(&table, &place.key, &options, change).await;
    led.map_err(nodes::refusal_of)
}

/// Leads a serial read that another node has sent.
async fn read_round(request: &Request) -> Result<Page, Refusal> {
    let coordinator = coordinator()?;
    let (level, command) = wire::paxos::decode_read(&request.take_payload()).map_err(damaged)?;
    let table = table(&coordinator, command.table, until(request)).await?;
    range::check_ranges(&command, &table.schema.order).map_err(damaged)?;
    let options = nodes::options_of(level, until(request));
    let page = coordinator.read_round(&table, &command, &options).await;
    page.map_err(nodes::refusal_of_read)
}

async fn truncate(request: &Request) -> Result<(), Refusal> {
    let coordinator = coordinator()?;
    let id = wire::decode_table(&request.take_payload()).map_err(damaged)?;
    table(&coordinator, id, until(request)).await?;
    // Who asks has seen that nobody is on the move, and whoever begins now waits for it.
    let truncated = coordinator.truncate_alone(id, nodes::left(until(request))).await;
    truncated.map_err(nodes::refusal_of)
}
