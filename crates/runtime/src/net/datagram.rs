//! Datagrams to a Unix domain socket, such as that of syslog.

use super::NetError;
use crate::core::simulated;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where datagrams go. Nothing of it waits: a receiver that takes none now is an error.
#[derive(Debug)]
pub struct DatagramSender {
    socket: UnixDatagram,
}

impl DatagramSender {
    /// To the socket of that path, or, after an `@`, of that abstract name. A simulated machine has
    /// none.
    pub fn connect(path: &str) -> Result<DatagramSender, NetError> {
        let refused = |error: std::io::Error| NetError::new("connect", None, &error);
        if simulated().is_some() {
            return Err(refused(std::io::Error::from_raw_os_error(libc::ENOTSUP)));
        }
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name.as_bytes()),
            None => SocketAddr::from_pathname(path),
        };
        let socket = UnixDatagram::unbound().map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        socket.connect_addr(&address.map_err(refused)?).map_err(refused)?;
        Ok(DatagramSender { socket })
    }

    /// Sends a datagram, or says why not: `WouldBlock` while the receiver has too many to read.
    pub fn try_send(&self, bytes: &[u8]) -> Result<(), NetError> {
        let sent = self.socket.send(bytes);
        sent.map(drop).map_err(|error| NetError::new("send", None, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn datagrams_arrive_whole_and_a_full_receiver_blocks_nobody() {
        crate::testing::block_on_with(crate::Config::new(1), || async {
            let name = format!("nereid-datagrams-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
            let receiver = UnixDatagram::bind_addr(&address).expect("a socket");
            let sender = DatagramSender::connect(&format!("@{name}")).expect("a connection");
            sender.try_send(b"one").expect("room");
            sender.try_send(b"and two").expect("room");
            let mut buffer = [0; 64];
            assert_eq!(receiver.recv(&mut buffer).expect("a datagram"), 3);
            assert_eq!(receiver.recv(&mut buffer).expect("a datagram"), 7);
            assert_eq!(&buffer[..7], b"and two");
            let refused = (0..1_000_000).find_map(|_| sender.try_send(&[b'x'; 1024]).err());
            assert_eq!(refused.expect("a full receiver").kind(), ErrorKind::WouldBlock);
            drop(receiver);
            let refused = sender.try_send(b"late").expect_err("nobody");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            assert!(DatagramSender::connect(&format!("@{name}")).is_err());
        });
    }
}
