//! HTTP/1.1 over a connection of the runtime: a thin coat for hyper, which parses and writes.
//!
//! Invariants
//!  - *one-each-way*: at most one read and one write of a connection are under way; what has
//!    arrived and was not asked for waits here.

use crate::call::{Answer, Call};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response};
use runtime::net::{NetError, TcpStream};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A request may have so many bytes beside its head.
const BODY_BYTES_MAX: usize = 1 << 20;
/// What is handed to the socket at once.
const WRITE_BYTES_MAX: usize = 64 << 10;

type Pending<T> = Pin<Box<dyn Future<Output = (Result<T, NetError>, Vec<u8>)>>>;

/// Serves one connection to its end with `answer`.
pub(crate) async fn serve<F>(stream: TcpStream, answer: impl Fn(Call) -> F)
where
    F: Future<Output = Answer>,
{
    let peer = stream.peer_addr();
    let answer = &answer;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let (parts, body) = request.into_parts();
        // Nothing that is asked for stands in a body; it has to be out of the way.
        if let Err(error) = Limited::new(body, BODY_BYTES_MAX).collect().await {
            let answer = Answer::refused(413, format!("cannot read the request: {error}"));
            return Ok::<_, Infallible>(response(answer));
        }
        let uri = &parts.uri;
        let call = Call::new(&parts.method, uri.path(), uri.query().unwrap_or(""));
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

/// A connection as hyper wants it.
pub(crate) struct Socket {
    stream: Rc<TcpStream>,
    reading: Option<Pending<usize>>,
    writing: Option<Pending<()>>,
    arrived: Vec<u8>,
    /// Of `arrived`, handed over.
    taken: usize,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Socket {
        let stream = Rc::new(stream);
        Socket { stream, reading: None, writing: None, arrived: Vec::new(), taken: 0 }
    }

    /// Waits for the write that is under way.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let (result, _) = ready!(writing.as_mut().poll(context));
        self.writing = None;
        Poll::Ready(result.map_err(|error| io::Error::from(error.kind())))
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken == self.arrived.len() {
            let this = &mut *self;
            let reading = this.reading.get_or_insert_with(|| {
                let (stream, mut buf) = (this.stream.clone(), std::mem::take(&mut this.arrived));
                buf.clear();
                this.taken = 0; // Of nothing, until something has arrived.
                Box::pin(async move { stream.read(buf).await })
            });
            let (result, buf) = ready!(reading.as_mut().poll(context));
            this.reading = None;
            (this.arrived, this.taken) = (buf, 0);
            if let Err(error) = result {
                this.arrived.clear();
                return Poll::Ready(Err(io::Error::from(error.kind())));
            }
        }
        let count = (self.arrived.len() - self.taken).min(into.remaining());
        let next = self.taken + count;
        into.put_slice(&self.arrived[self.taken..next]);
        self.taken = next;
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(context))?;
        let count = bytes.len().min(WRITE_BYTES_MAX);
        let (stream, buf) = (self.stream.clone(), bytes[..count].to_vec());
        self.writing = Some(Box::pin(async move { stream.write_all(buf).await }));
        match self.poll_written(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What goes on is ours: its end is waited for before the next.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_written(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_written(context))?;
        // The peer may be gone, which is what was wanted.
        let _ = self.stream.shutdown();
        Poll::Ready(Ok(()))
    }
}
