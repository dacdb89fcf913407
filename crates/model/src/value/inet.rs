//! IP addresses: 4 or 16 bytes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of these bytes; `None` unless there are 4 or 16.
pub fn decode(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = |bytes| IpAddr::V4(Ipv4Addr::from_octets(bytes));
    let v6 = |bytes| IpAddr::V6(Ipv6Addr::from_octets(bytes));
    bytes.try_into().map(v4).or_else(|_| bytes.try_into().map(v6)).ok()
}

/// The bytes of an address, 4 or 16.
pub fn encode(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Parses a numeric address; names are not resolved.
pub fn parse(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families() {
        let check = |text: &str, bytes: &[u8]| {
            let address = parse(text).unwrap();
            assert_eq!(encode(address), bytes);
            assert_eq!(decode(bytes), Some(address));
            assert_eq!(address.to_string(), text);
        };
        check("127.0.0.1", &[127, 0, 0, 1]);
        check("::1", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        check(
            "2001:db8::ff00:42:8329",
            &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0x42, 0x83, 0x29],
        );
        for text in ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "localhost", "::g"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(decode(&[1, 2, 3]), None);
    }
}
