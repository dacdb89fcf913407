//! A connection as hyper wants it.
//!
//! Invariants
//!  - *one-each-way*: at most one read and one write of a connection are under way; what has
//!    arrived and was not asked for waits here.

use hyper::rt::{Read, ReadBufCursor, Write};
use runtime::net::{NetError, Stream};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// What is handed to the connection at once.
const WRITE_BYTES_MAX: usize = 64 << 10;

type Pending<T> = Pin<Box<dyn Future<Output = (Result<T, NetError>, Vec<u8>)>>>;
/// More memory than that is not kept for the next write.
const KEPT_BYTES_MAX: usize = 8 << 10;

/// A connection as hyper wants it.
pub struct Socket<S> {
    stream: Rc<S>,
    reading: Option<Pending<usize>>,
    writing: Option<Pending<()>>,
    arrived: Vec<u8>,
    /// Of `arrived`, handed over.
    taken: usize,
    /// The memory of the last write.
    spare: Vec<u8>,
}

impl<S: Stream> Socket<S> {
    /// Over a connection, plain or encrypted.
    pub fn new(stream: S) -> Socket<S> {
        let (arrived, spare) = (Vec::new(), Vec::new());
        let stream = Rc::new(stream);
        Socket { stream, reading: None, writing: None, arrived, taken: 0, spare }
    }

    /// Waits for the write that is under way.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let (result, memory) = ready!(writing.as_mut().poll(context));
        self.writing = None;
        if memory.capacity() <= KEPT_BYTES_MAX {
            self.spare = memory;
        }
        Poll::Ready(result.map_err(|error| io::Error::from(error.kind())))
    }
}

impl<S: Stream> Read for Socket<S> {
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

impl<S: Stream> Write for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(context))?;
        let count = bytes.len().min(WRITE_BYTES_MAX);
        let (stream, mut buf) = (self.stream.clone(), std::mem::take(&mut self.spare));
        buf.clear();
        buf.extend_from_slice(&bytes[..count]);
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
