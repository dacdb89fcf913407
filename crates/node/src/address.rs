//! Addresses that options name.

use options::Values;
use std::net::{IpAddr, ToSocketAddrs};

/// The address that an option names.
pub fn address(values: &Values, name: &str) -> Result<IpAddr, String> {
    let text = values.text(name);
    address_of(text).ok_or(format!("option {name}: not an address: {text}"))
}

/// An address, or that of a name.
pub(crate) fn address_of(text: &str) -> Option<IpAddr> {
    let found = (text, 0).to_socket_addrs().ok().and_then(|found| {
        let all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        all.iter().find(|ip| ip.is_ipv4()).or(all.first()).copied()
    });
    // Everybody knows this name but a machine without a table of hosts.
    let known = (text == "localhost").then_some(IpAddr::from([127, 0, 0, 1]));
    found.or(known)
}
