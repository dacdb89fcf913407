//! A connection of a client, from its first request to its last.

use crate::call::{Answer, Call};
use bytes::Bytes;
use http::Socket;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use runtime::net::Stream;
use std::convert::Infallible;

/// A request may have so many bytes beside its head.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Serves one connection to its end with `answer`.
pub(crate) async fn serve<F>(stream: impl Stream, answer: impl Fn(Call) -> F)
where
    F: Future<Output = Answer>,
{
    let peer = stream.peer_addr();
    let answer = &answer;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes().to_vec(),
            Err(error) => {
                let answer = Answer::refused(413, format!("cannot read the request: {error}"));
                return Ok::<_, Infallible>(response(answer));
            }
        };
        let uri = &parts.uri;
        let mut call = Call::new(&parts.method, uri.path(), uri.query().unwrap_or(""));
        call.body = body;
        Ok(response(answer(call).await))
    });
    let mut protocol = hyper::server::conn::http1::Builder::new();
    protocol.half_close(true);
    if let Err(error) = protocol.serve_connection(Socket::new(stream), service).await {
        tracing::debug!(target: "api", "connection of {peer} ended: {error}");
    }
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let built = Response::builder()
        .status(answer.status)
        .header("Content-Type", answer.content_type)
        .body(Full::new(Bytes::from(answer.body)));
    built.expect("a status of ours and a constant header")
}
