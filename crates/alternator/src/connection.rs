//! A connection of a client: its requests, one after the other, and their answers.
//!
//! Invariants
//!  - *checked-first*: where the option says so, no operation is begun for a request that is not
//!    signed.
//!  - *answered-first*: no connection ends because its client says nothing, or because the node
//!    stops, while a request of it is executed. Who takes no answer says nothing either.

use crate::body::{Outgoing, collected, unpacked};
use crate::client::Seat;
use crate::error::Error;
use crate::json::{self, Object};
use crate::node::{Caller, Node};
use crate::operations;
use crate::row::now_secs;
use crate::sign::Signed;
use crate::silent::Watch;
use http::Socket;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_ENCODING, AsHeaderName, CONTENT_ENCODING, CONTENT_TYPE, DATE, HOST, HeaderMap,
    HeaderName, HeaderValue, ORIGIN, SERVER,
};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use runtime::net::Stream;
use runtime::sync::Notify;
use runtime::task::{Either, race};
use std::convert::Infallible;
use std::rc::Rc;

/// Headers of the API itself.
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-crc32");
/// Room for headers of an answer.
const HEADERS: usize = 8;

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What an answer is made of.
struct Answer {
    status: u16,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn text(status: u16, body: String) -> Answer {
        Answer { status, content_type: "text/plain", body: body.into_bytes() }
    }

    fn json(status: u16, body: String) -> Answer {
        Answer { status, content_type: "application/x-amz-json-1.0", body: body.into_bytes() }
    }
}

/// Serves a connection to its end, or until it has to go: then it answers what it was asked. One
/// whose client says nothing ends; sooner, when the shard `is_crowded`.
pub(crate) async fn serve(
    stream: impl Stream,
    (node, seat): (&Rc<Node>, &Seat),
    ends: &Notify,
    is_crowded: impl Fn() -> bool,
) {
    let peer = seat.peer;
    let watch = Watch::default();
    let watch = &watch;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let _executing = watch.begin();
        let (parts, body) = request.into_parts();
        let answer = answer(node, seat, &parts, body).await;
        Ok::<_, Infallible>(response(node, &parts, answer))
    });
    let mut protocol = hyper::server::conn::http1::Builder::new();
    protocol
        .auto_date_header(false)
        .half_close(true)
        .pipeline_flush(true)
        .max_buf_size(HEAD_BYTES_MAX);
    let mut served = std::pin::pin!(protocol.serve_connection(Socket::new(stream), service));
    let ended = match race(served.as_mut(), race(ends.notified(), watch.silent(is_crowded))).await {
        Either::Left(ended) => ended,
        Either::Right(Either::Left(())) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        Either::Right(Either::Right(())) => {
            node.met.add(&node.met.silent);
            tracing::debug!(target: "alternator_server", "{peer} says nothing: it is closed");
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(target: "alternator_server", "connection of {peer} ended: {error}");
    }
}

fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn answer(node: &Rc<Node>, seat: &Seat, parts: &Parts, body: Incoming) -> Answer {
    let host = header(&parts.headers, HOST).unwrap_or_default();
    match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/") => match request(node, seat, (parts, host), body).await {
            Ok(answer) => Answer::json(200, answer),
            Err(error) => {
                node.met.failed(error.kind);
                Answer::json(error.kind.status(), error_json(&error))
            }
        },
        (&Method::GET, "/") => Answer::text(200, format!("healthy: {host}\n")),
        (&Method::GET, "/localnodes") => {
            Answer::json(200, local_nodes(node, parts.uri.query().unwrap_or_default()))
        }
        (&Method::OPTIONS, "/") => Answer::text(200, String::new()),
        (method, path) => Answer::text(404, format!("{method} {path} is not served here\n")),
    }
}

/// An error as the body of an answer.
fn error_json(error: &Error) -> String {
    let (space, name) = error.kind.names();
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.string("__type", &format!("{space}{name}")).string("message", &error.message);
    if let Some(item) = &error.item {
        object.json("Item", item);
    }
    if let Some(reasons) = &error.reasons {
        object.json("CancellationReasons", reasons);
    }
    object.close();
    out
}

/// *checked-first*
async fn request(
    node: &Rc<Node>,
    seat: &Seat,
    (parts, host): (&Parts, &str),
    body: Incoming,
) -> Result<String, Error> {
    let encoding = header(&parts.headers, CONTENT_ENCODING);
    let encoding = encoding.filter(|encoding| !matches!(*encoding, "" | "identity"));
    let (body, mut room) = collected(body, encoding.is_some()).await?;
    let mut caller = Caller { client: Some(seat.peer.ip()), ..caller(node, parts, &body)? };
    let role = caller.role.as_ref().or(caller.watched.as_ref());
    caller.limit = seat.begins(node.cluster.access(), role, &parts.headers).await;
    let unpacked = match encoding {
        None => None,
        Some(encoding) => Some(unpacked(&body, encoding, &mut room).await?),
    };
    let body: &[u8] = unpacked.as_deref().unwrap_or(&body);
    let text = json::text(body)?;
    let target = header(&parts.headers, TARGET).unwrap_or_default();
    operations::answer(node, &caller, (target, host), text).await
}

/// Who asks.
fn caller(node: &Node, parts: &Parts, body: &[u8]) -> Result<Caller, Error> {
    let (enforced, warned) =
        (node.options.enforce_authorization.get(), node.options.warn_authorization.get());
    if !enforced && !warned {
        return Ok(Caller::default());
    }
    let headers: Vec<(&str, &str)> = parts
        .headers
        .iter()
        .filter_map(|(name, value)| {
            Some((name.as_str(), std::str::from_utf8(value.as_bytes()).ok()?))
        })
        .collect();
    let uri = &parts.uri;
    let signed = Signed {
        method: parts.method.as_str(),
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
        headers: &headers,
        body,
    };
    let secret = |key: &str| {
        let access = node.cluster.access().state();
        let role = access.role(key).ok_or("there is no such role")?;
        if !role.can_login {
            return Err("it has login=false");
        }
        role.salted_hash.clone().ok_or("the role has no password")
    };
    match signed.signer(now_secs(), secret) {
        Ok(role) if enforced => Ok(Caller::of(Some(role))),
        Ok(role) => Ok(Caller { watched: Some(role), ..Caller::default() }),
        Err(error) if enforced => {
            node.met.add(&node.met.unauthenticated);
            Err(error)
        }
        Err(error) => {
            node.met.add(&node.met.unauthenticated);
            tracing::warn!(target: "alternator_server", "a request that is not signed: {error}");
            Ok(Caller::default())
        }
    }
}

/// The addresses of the nodes of this data centre that are alive, as a list. `query` may name
/// another data centre or a rack: `dc=.. & rack=..`.
fn local_nodes(node: &Node, query: &str) -> String {
    let asked = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    };
    let (cluster, own) = (&node.cluster, node.cluster.node());
    let center = asked("dc").unwrap_or(&own.data_center);
    let rack = asked("rack");
    let is_asked =
        |dc: &str, of_rack: &str| dc == center && rack.is_none_or(|rack| rack == of_rack);
    let mut found = Vec::new();
    if is_asked(&own.data_center, &own.rack) {
        found.push(own.rpc_address);
    }
    let topology = cluster.topology();
    for member in topology.present() {
        let is_other = member.host_id != own.host_id && cluster.is_alive(member.host_id);
        if is_other && is_asked(&member.data_center, &member.rack) {
            found.push(member.client_address);
        }
    }
    let texts: Vec<String> = found.iter().map(|address| format!("\"{address}\"")).collect();
    format!("[{}]", texts.join(","))
}

fn response(node: &Node, parts: &Parts, answer: Answer) -> Response<Outgoing> {
    let Answer { status, content_type, mut body } = answer;
    let mut headers = HeaderMap::with_capacity(HEADERS);
    if let Some(server) = node.options.server_header() {
        put(&mut headers, SERVER, &server);
    }
    if !node.options.disable_date_header.get() {
        headers.insert(DATE, node.date.header(now_secs()));
    }
    if !node.options.disable_content_type_header.get() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if parts.method == Method::POST {
        let accepted = parts.headers.get_all(ACCEPT_ENCODING).into_iter();
        let accepted = accepted.filter_map(|value| value.to_str().ok());
        if let Some(packing) = node.options.packing(accepted, body.len())
            && let Ok(packed) = packing.pack(&body, node.options.packing_level())
        {
            body = packed;
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(packing.name()));
        }
        put(&mut headers, REQUEST_ID, request_id());
        headers.insert(CHECKSUM, HeaderValue::from(crc32fast::hash(&body)));
    }
    put_origins(parts, &mut headers);
    let mut response = Response::new(Outgoing::new(body));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    *response.headers_mut() = headers;
    response
}

/// Adds a header; what no header can have is left out.
fn put(headers: &mut HeaderMap, name: HeaderName, value: impl AsRef<[u8]>) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_ref()) {
        headers.insert(name, value);
    }
}

/// For scripts of other origins, all of which may ask.
fn put_origins(parts: &Parts, headers: &mut HeaderMap) {
    if parts.headers.get(ORIGIN).is_none() {
        return;
    }
    let mut put = |name, value: &str| put(headers, HeaderName::from_static(name), value);
    put("access-control-allow-origin", "*");
    put(
        "access-control-expose-headers",
        "x-amzn-requestid,x-amzn-errortype,x-amzn-errormessage,x-amz-crc32,Date",
    );
    if parts.method == Method::OPTIONS {
        put("access-control-max-age", "86400");
        if let Some(methods) = header(&parts.headers, "access-control-request-method") {
            put("access-control-allow-methods", methods);
        }
        if let Some(names) = header(&parts.headers, "access-control-request-headers") {
            put("access-control-allow-headers", names);
        }
    }
}

/// By which operators and clients speak of a request: 32 digits of base 16.
fn request_id() -> [u8; 32] {
    let (high, low) = (runtime::random_u64(), runtime::random_u64());
    let mut rest = u128::from(high) << 64 | u128::from(low);
    std::array::from_fn(|_| {
        let digit = (rest >> 124) as usize;
        rest <<= 4;
        b"0123456789ABCDEF"[digit]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn errors_are_json_that_sdks_read() {
        let error = Error::new(Kind::Validation, "no \"x\"");
        let expected =
            r#"{"__type":"com.amazon.coral.service#ValidationException","message":"no \"x\""}"#;
        assert_eq!(error_json(&error), expected);
        let answer = Answer::json(error.kind.status(), error_json(&error));
        assert_eq!((answer.status, answer.content_type), (400, "application/x-amz-json-1.0"));
    }
}
