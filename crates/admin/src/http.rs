//! A connection of a client, from its first request to its last.

use crate::call::{Answer, Call};
use crate::guests::Guest;
use bytes::Bytes;
use http::Socket;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::http::response::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use runtime::local;
use runtime::net::Stream;
use runtime::sync::{Permit, Semaphore};
use runtime::task::{Either, race};
use runtime::time::timeout;
use std::convert::Infallible;
use std::time::Duration;
use storage::Storage;

/// A request may have so many bytes beside its head.
const BODY_BYTES_MAX: usize = 4 << 20;
/// A body of more bytes, or of a length that is not told, takes its turn.
const SMALL_BODY_BYTES_MAX: u64 = 64 << 10;
/// Such bodies at the same time, and those that wait.
const LARGE_BODIES_MAX: usize = 4;
const LARGE_BODIES_WAITING_MAX: usize = 128;
/// A body has to be there after so long.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Turns of large bodies, of a shard. Stands in `runtime::local`.
struct LargeBodies(Semaphore);

impl Default for LargeBodies {
    fn default() -> LargeBodies {
        LargeBodies(Semaphore::new(LARGE_BODIES_MAX, LARGE_BODIES_WAITING_MAX))
    }
}

/// Serves one connection with `answer`, to its end or until the guest has to go.
pub(crate) async fn serve<F>(stream: impl Stream, guest: &Guest, answer: impl Fn(Call) -> F)
where
    F: Future<Output = Answer>,
{
    let peer = stream.peer_addr();
    let answer = &answer;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let (parts, body) = request.into_parts();
        // A body lives as long as its request, and so does its turn.
        let (body, _turn) = match timeout(BODY_TIME_MAX, collected(body)).await {
            Ok(Ok(body)) => body,
            Ok(Err(answer)) => return Ok::<_, Infallible>(response(answer)),
            Err(_) => {
                let text = format!("the body did not come within {BODY_TIME_MAX:?}");
                return Ok(response(Answer::refused(408, text)));
            }
        };
        let uri = &parts.uri;
        let mut call = Call::new(&parts.method, uri.path(), uri.query().unwrap_or(""));
        (call.body, call.headers, call.peer) = (body, parts.headers, Some(peer));
        guest.asked();
        let answer = answer(call).await;
        guest.answered();
        Ok(response(answer))
    });
    let mut protocol = hyper::server::conn::http1::Builder::new();
    protocol.half_close(true);
    let served = protocol.serve_connection(Socket::new(stream), service);
    if let Either::Left(Err(error)) = race(served, guest.has_to_go()).await {
        tracing::debug!(target: "api", "connection of {peer} ended: {error}");
    }
}

/// The bytes of a body, with the turn that they have taken.
async fn collected(body: Incoming) -> Result<(Vec<u8>, Option<Permit>), Answer> {
    let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES_MAX);
    let turn = match is_small {
        true => None,
        false => {
            let turns = runtime::local::get_or_default::<LargeBodies>();
            let turn = turns.0.acquire(1).await;
            Some(turn.map_err(|_| Answer::refused(503, "too many large requests"))?)
        }
    };
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok((body.to_bytes().to_vec(), turn)),
        Err(error) => Err(Answer::refused(413, format!("cannot read the request: {error}"))),
    }
}

/// What the node calls itself: a client that asks for its release learns whose it is.
const SERVER: &str = concat!("Nereid/", env!("CARGO_PKG_VERSION"));

/// Tells clients what an operator has to know at once, in each answer: `nereid nodetool status`
/// shows it.
const NOTICE: &str = "Nereid-Notice";

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let built = Response::builder().status(answer.status).header("Server", SERVER);
    let built = built.header("Content-Type", answer.content_type);
    let with = |built: Builder, (name, value): &(&str, &str)| built.header(*name, *value);
    let built = answer.headers.iter().fold(built, with);
    let built = match local::try_get::<Storage>().and_then(|node| node.disk_state().notice()) {
        Some(notice) => built.header(NOTICE, notice),
        None => built,
    };
    built.body(Full::new(Bytes::from(answer.body))).expect("a status and headers of ours")
}
