//! Telling the service supervisor what the node is doing: datagrams to `$NOTIFY_SOCKET`, as
//! `sd_notify` sends them.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the supervisor, if there is one. A supervisor that does not listen changes nothing.
pub(crate) fn tell(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.to_string_lossy();
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name.as_bytes()),
        None => SocketAddr::from_pathname(&*path),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}

/// `STATUS=..`: one line about the present step.
pub(crate) fn status(step: &str) {
    tell(&format!("STATUS={step}"));
}

/// All listeners are up, and the node does `what`.
pub(crate) fn ready(what: &str) {
    tell(&format!("READY=1\nSTATUS={what}\n"));
}
