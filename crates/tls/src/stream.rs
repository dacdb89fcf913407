//! A connection, encrypted or not.
//!
//! Who writes may do it in two steps: [`Stream::seal`] makes of its bytes what goes over the wire,
//! which is sent as it is. So what the kernel did not take at once can wait anywhere.

use crate::session::{Agreed, Broken, Session};
use runtime::net::{NetError, Part, TcpStream};
use runtime::task::yield_if_needed;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

/// What is sealed without a look at the clock: about 50 microseconds.
const PIECE_BYTES: usize = 64 << 10;
/// The room a read makes where its buffer has none.
const READ_BYTES_MIN: usize = 4 << 10;
/// What a record has besides its bytes, at most, and of how many bytes.
const RECORD_OVERHEAD: usize = 64;
const RECORD_BYTES: usize = 16 << 10;

/// A connection. Reading and writing may go on at once; two reads, or two writes, may not.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    secure: Option<Box<Secure>>,
}

#[derive(Debug)]
struct Secure {
    session: RefCell<Session>,
    agreed: Agreed,
    /// What came with the end of the handshake.
    early: RefCell<Vec<u8>>,
    /// Whether the peer may send more.
    goes_on: Cell<bool>,
    /// Why nothing more can be read, where the protocol was broken or the peer says no.
    broken: RefCell<Option<Broken>>,
    /// Something that was sealed is not sent yet (*sealed-in-order*).
    owes: Cell<bool>,
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Stream {
        Stream { tcp, secure: None }
    }
}

impl Stream {
    pub(crate) fn encrypted(
        tcp: TcpStream,
        session: Session,
        early: Vec<u8>,
        goes_on: bool,
    ) -> Stream {
        let agreed = session.agreed();
        let secure = Secure {
            session: RefCell::new(session),
            agreed,
            early: RefCell::new(early),
            goes_on: Cell::new(goes_on),
            broken: RefCell::new(None),
            owes: Cell::new(false),
        };
        Stream { tcp, secure: Some(Box::new(secure)) }
    }

    /// What was agreed on; `None`: nothing is encrypted.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.secure.as_ref().map(|secure| &secure.agreed)
    }

    /// What the peer said when it ended the connection with an alert. In TLS 1.3 who dials learns
    /// so, after the handshake, that its certificate is refused.
    pub fn refused_by_peer(&self) -> Option<String> {
        let broken = self.secure.as_ref()?.broken.borrow();
        broken.as_ref().filter(|broken| broken.by_peer).map(|broken| broken.what.clone())
    }

    /// Appends what has arrived, at least one byte, to `buf`; 0 when the peer has ended. The
    /// buffer comes back in any case. What is encrypted may give more than `buf` has room for:
    /// up to what one record holds.
    pub async fn read(&self, buf: Vec<u8>) -> (Result<usize, NetError>, Vec<u8>) {
        match &self.secure {
            None => self.tcp.read(buf).await,
            Some(secure) => self.read_sealed(secure, buf).await,
        }
    }

    async fn read_sealed(
        &self,
        secure: &Secure,
        mut buf: Vec<u8>,
    ) -> (Result<usize, NetError>, Vec<u8>) {
        let before = buf.len();
        let early = secure.early.take();
        if !early.is_empty() {
            buf.extend_from_slice(&early);
            return (Ok(early.len()), buf);
        }
        while secure.goes_on.get() {
            if buf.capacity() == buf.len() {
                buf.reserve(READ_BYTES_MIN);
            }
            let (read, arrived) = self.tcp.read(buf).await;
            buf = arrived;
            if !matches!(read, Ok(1..)) {
                secure.goes_on.set(false);
                return (read, buf);
            }
            // Nothing is kept for an idle connection but the caller's buffer.
            let wire = buf.split_off(before);
            // The borrow ends here: who is told that it is broken is told by the same session.
            let opened = secure.session.borrow_mut().open(&wire, &mut buf);
            match opened {
                Ok(goes_on) => secure.goes_on.set(goes_on),
                Err(broken) => {
                    self.tell_broken(secure, broken);
                    return (Err(self.broken("read")), buf);
                }
            }
            if before < buf.len() {
                let read = buf.len() - before;
                return (Ok(read), buf);
            }
        }
        (Ok(0), buf)
    }

    fn tell_broken(&self, secure: &Secure, broken: Broken) {
        tracing::debug!(target: "tls", "peer {}: {}", self.tcp.peer_addr(), broken.what);
        secure.goes_on.set(false);
        secure.broken.replace(Some(broken));
        self.send_what_is_left(secure);
    }

    /// Tells the peer why or that it is over, where the kernel takes it at once.
    fn send_what_is_left(&self, secure: &Secure) {
        if secure.owes.get() {
            return;
        }
        let mut wire = Vec::new();
        secure.session.borrow_mut().take(&mut wire);
        let _ = self.tcp.try_write(&wire);
    }

    fn broken(&self, op: &'static str) -> NetError {
        const PROTOCOL_ERROR: i32 = 71;
        NetError { op, addr: Some(self.tcp.peer_addr()), errno: PROTOCOL_ERROR }
    }

    /// What goes over the wire for `bytes`, which are few. It is to be sent before anything else
    /// is sealed.
    pub fn seal(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(secure) = &self.secure else { return bytes };
        let mut wire = room_for(bytes.len());
        secure.seal(&bytes, &mut wire);
        wire
    }

    /// The same of any number of bytes.
    pub async fn seal_all(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(secure) = &self.secure else { return bytes };
        let mut wire = room_for(bytes.len());
        for piece in bytes.chunks(PIECE_BYTES) {
            secure.seal(piece, &mut wire);
            yield_if_needed().await;
        }
        wire
    }

    /// Sends at once what the kernel takes of what was sealed: how many bytes that were.
    pub fn try_write_sealed(&self, wire: &[u8]) -> Result<usize, NetError> {
        let sent = self.tcp.try_write(wire);
        if let (Some(secure), Ok(sent)) = (&self.secure, &sent) {
            secure.owes.set(*sent < wire.len());
        }
        sent
    }

    /// Sends all of what was sealed. The buffer comes back in any case.
    pub async fn write_sealed(&self, wire: Vec<u8>) -> (Result<(), NetError>, Vec<u8>) {
        let written = self.tcp.write_all(wire).await;
        if let (Some(secure), Ok(())) = (&self.secure, &written.0) {
            secure.owes.set(false);
        }
        written
    }

    /// Sends all of `bytes`. A buffer comes back in any case.
    pub async fn write_all(&self, bytes: Vec<u8>) -> (Result<(), NetError>, Vec<u8>) {
        let wire = self.seal_all(bytes).await;
        self.write_sealed(wire).await
    }

    /// Sends all of `parts`, in order; what is not encrypted goes to the kernel as it is.
    pub async fn write_all_vectored(&self, parts: Vec<Part>) -> Result<(), NetError> {
        let Some(secure) = &self.secure else {
            return self.tcp.write_all_vectored(parts).await.0;
        };
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut wire = room_for(bytes);
        for part in parts {
            for piece in part.chunks(PIECE_BYTES) {
                secure.seal(piece, &mut wire);
                yield_if_needed().await;
            }
        }
        self.write_sealed(wire).await.0
    }

    /// Ends our side: the peer reads to the end.
    pub fn shutdown(&self) -> Result<(), NetError> {
        self.say_end();
        self.tcp.shutdown()
    }

    /// Ends both sides: pending reads and writes of this connection end.
    pub fn shutdown_both(&self) -> Result<(), NetError> {
        self.say_end();
        self.tcp.shutdown_both()
    }

    fn say_end(&self) {
        if let Some(secure) = &self.secure {
            secure.session.borrow_mut().end();
            self.send_what_is_left(secure);
        }
    }

    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.tcp.peer_addr()
    }

    /// Our address.
    pub fn local_addr(&self) -> SocketAddr {
        self.tcp.local_addr()
    }
}

impl runtime::net::Stream for Stream {
    async fn read(&self, buf: Vec<u8>) -> (Result<usize, NetError>, Vec<u8>) {
        Stream::read(self, buf).await
    }

    async fn write_all(&self, buf: Vec<u8>) -> (Result<(), NetError>, Vec<u8>) {
        Stream::write_all(self, buf).await
    }

    fn shutdown(&self) -> Result<(), NetError> {
        Stream::shutdown(self)
    }

    fn peer_addr(&self) -> SocketAddr {
        Stream::peer_addr(self)
    }
}

impl Secure {
    fn seal(&self, bytes: &[u8], wire: &mut Vec<u8>) {
        self.owes.set(true);
        self.session.borrow_mut().seal(bytes, wire);
    }
}

fn room_for(bytes: usize) -> Vec<u8> {
    let records = bytes / RECORD_BYTES + 2;
    Vec::with_capacity(bytes + records * RECORD_OVERHEAD)
}
