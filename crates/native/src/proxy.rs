//! What a proxy says of the client whose connection it passes on: the header of the PROXY protocol,
//! version 2, before all else.
//!
//! Invariants
//!  - *not-one-byte-more*: nothing is read past the header, so what follows it is the client's.
//!  - *said-or-ended*: a connection without a header that we understand is ended; nothing is
//!    guessed.
//!  - *bounded-header*: a header has at most [`HEADER_BYTES_MAX`].
//!
//! The header is trusted: only proxies should be able to reach the port.

use runtime::net::{NetError, TcpStream};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How each header begins.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// How version 1 begins.
const VERSION_1: &[u8] = b"PROXY ";
/// Signature, version and command, family, length of the rest.
const FIXED_BYTES: usize = 16;
/// *bounded-header*: addresses, and what a proxy adds to them, such as names of certificates.
pub const HEADER_BYTES_MAX: usize = 4096;

/// What bytes at the start of a connection say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// So many bytes are needed before more can be said.
    Needs(usize),
    /// A header of so many bytes, and where the client is; `None`: the proxy speaks for itself.
    Header { bytes: usize, client: Option<SocketAddr> },
}

/// Why a header is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is none.
    NoHeader,
    /// It is one of this version.
    Version(u8),
    /// It has this command.
    Command(u8),
    /// The client came by something else than TCP: the family and the protocol.
    Family(u8),
    /// So many bytes, too few for its addresses.
    Short(usize),
    /// So many bytes.
    Long(usize),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoHeader => {
                f.write_str("the connection does not begin with a PROXY protocol header")
            }
            Refused::Version(version) => {
                write!(
                    f,
                    "PROXY protocol version {version} is not supported: configure the \
                     proxy to send version 2"
                )
            }
            Refused::Command(command) => write!(f, "unknown PROXY protocol command {command}"),
            Refused::Family(family) => {
                write!(
                    f,
                    "unsupported PROXY protocol address family {family:#04x}: only TCP over \
                     IPv4 and IPv6 is supported"
                )
            }
            Refused::Short(bytes) => {
                write!(f, "PROXY protocol header too short for its addresses: {bytes} bytes")
            }
            Refused::Long(bytes) => {
                write!(
                    f,
                    "PROXY protocol header of {bytes} bytes exceeds the limit of \
                     {HEADER_BYTES_MAX} bytes"
                )
            }
        }
    }
}

/// Reads what is there of a header.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Refused> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        let is_old = bytes.starts_with(VERSION_1);
        return Err(if is_old { Refused::Version(1) } else { Refused::NoHeader });
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() else {
        return Ok(Parsed::Needs(FIXED_BYTES));
    };
    let [.., version, family, high, low] = *fixed;
    if version >> 4 != 2 {
        return Err(Refused::Version(version >> 4));
    }
    let length = u16::from_be_bytes([high, low]) as usize;
    let whole = FIXED_BYTES + length;
    if HEADER_BYTES_MAX < whole {
        return Err(Refused::Long(whole));
    }
    let address_bytes = match (version & 15, family) {
        (0, _) => 0,
        (1, 0x11) => 12,
        (1, 0x21) => 36,
        (1, family) => return Err(Refused::Family(family)),
        (command, _) => return Err(Refused::Command(command)),
    };
    if length < address_bytes {
        return Err(Refused::Short(whole));
    }
    let Some(body) = rest.get(..length) else { return Ok(Parsed::Needs(whole)) };
    Ok(Parsed::Header { bytes: whole, client: source(&body[..address_bytes]) })
}

/// The first address of a block of two and their ports.
fn source(block: &[u8]) -> Option<SocketAddr> {
    let half = block.len().checked_sub(4)? / 2;
    let port = u16::from_be_bytes([block[2 * half], block[2 * half + 1]]);
    let ip = match half {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&block[..4]).ok()?)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&block[..16]).ok()?)),
    };
    // One client is one address, however its proxy writes it.
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Why there is no header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The connection ended before.
    Ended,
    Refused(Refused),
    Net(NetError),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Ended => {
                f.write_str("the connection was closed within the PROXY protocol header")
            }
            Failed::Refused(refused) => refused.fmt(f),
            Failed::Net(error) => error.fmt(f),
        }
    }
}

/// Takes the header off a connection: where the client is, if the proxy speaks for one.
pub(crate) async fn take(tcp: &TcpStream) -> Result<Option<SocketAddr>, Failed> {
    let mut head = Vec::new();
    loop {
        let needed = match parse(&head).map_err(Failed::Refused)? {
            Parsed::Header { client, .. } => return Ok(client),
            Parsed::Needs(bytes) => bytes - head.len(),
        };
        let (read, piece) = tcp.read(exactly(needed)).await;
        if read.map_err(Failed::Net)? == 0 {
            return Err(Failed::Ended);
        }
        head.extend_from_slice(&piece);
    }
}

/// An empty buffer with room for so many bytes and not one more (*not-one-byte-more*).
fn exactly(bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes].into_boxed_slice().into_vec();
    buffer.clear();
    assert_eq!(buffer.capacity(), bytes, "a vector of a slice has its length");
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with that version and command, family and body.
    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn four() -> Vec<u8> {
        [&[203, 0, 113, 7, 10, 0, 0, 1][..], &[0x30, 0x39, 0x23, 0x52]].concat()
    }

    fn six(ip: &str) -> Vec<u8> {
        let source: Ipv6Addr = ip.parse().expect("an address");
        [&source.octets()[..], &[0; 16], &[0x30, 0x39, 0x23, 0x52]].concat()
    }

    #[test]
    fn headers_are_read_or_refused() {
        let check = |bytes: &[u8], expected: Result<Option<&str>, Refused>| {
            let expected = expected.map(|client| {
                let client = client.map(|client| client.parse().expect("an address"));
                Parsed::Header { bytes: bytes.len(), client }
            });
            assert_eq!(parse(bytes), expected, "{bytes:?}");
        };
        check(&header(0x21, 0x11, &four()), Ok(Some("203.0.113.7:12345")));
        check(&header(0x21, 0x21, &six("2001:db8::7")), Ok(Some("[2001:db8::7]:12345")));
        check(&header(0x21, 0x21, &six("::ffff:203.0.113.7")), Ok(Some("203.0.113.7:12345")));
        // What follows the addresses is passed over.
        let more = [&four()[..], &[3, 0, 4, 1, 2, 3, 4]].concat();
        check(&header(0x21, 0x11, &more), Ok(Some("203.0.113.7:12345")));
        // A proxy that looks whether we are there.
        check(&header(0x20, 0x00, &[]), Ok(None));
        check(&header(0x20, 0x11, &four()), Ok(None));
        check(b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 9042\r\n", Err(Refused::Version(1)));
        check(&[4, 0, 0, 1, 5, 0, 0, 0, 0], Err(Refused::NoHeader));
        check(&header(0x31, 0x11, &four()), Err(Refused::Version(3)));
        check(&header(0x22, 0x11, &four()), Err(Refused::Command(2)));
        check(&header(0x21, 0x00, &[]), Err(Refused::Family(0)));
        check(&header(0x21, 0x12, &four()), Err(Refused::Family(0x12)));
        check(&header(0x21, 0x31, &[0; 216]), Err(Refused::Family(0x31)));
        check(&header(0x21, 0x11, &four()[1..]), Err(Refused::Short(27)));
        check(&header(0x21, 0x21, &four()), Err(Refused::Short(28)));
        let most = HEADER_BYTES_MAX - FIXED_BYTES;
        check(&header(0x20, 0x00, &vec![0; most]), Ok(None));
        check(&header(0x20, 0x00, &vec![0; most + 1]), Err(Refused::Long(HEADER_BYTES_MAX + 1)));
    }

    #[test]
    fn a_torn_header_needs_its_rest() {
        let whole = header(0x21, 0x11, &four());
        for bytes in 0..whole.len() {
            let needed = if bytes < FIXED_BYTES { FIXED_BYTES } else { whole.len() };
            assert_eq!(parse(&whole[..bytes]), Ok(Parsed::Needs(needed)), "{bytes}");
        }
        let longer = [&whole[..], b"the client"].concat();
        let client = "203.0.113.7:12345".parse().ok();
        assert_eq!(parse(&longer), Ok(Parsed::Header { bytes: whole.len(), client }));
        // What cannot become one is refused by its first byte.
        assert_eq!(parse(b"x"), Err(Refused::NoHeader));
        assert_eq!(parse(b"\r\n\r\nx"), Err(Refused::NoHeader));
    }

    proptest::proptest! {
        #[test]
        fn a_header_is_whole_or_none(
            command in 0x1eu8..0x24,
            family in proptest::sample::select(vec![0x00u8, 0x11, 0x12, 0x21]),
            body in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            cut in 0usize..80,
        ) {
            let whole = header(command, family, &body);
            let bytes = &whole[..cut.min(whole.len())];
            match parse(bytes) {
                Ok(Parsed::Needs(more)) => {
                    assert!(bytes.len() < more && more <= HEADER_BYTES_MAX);
                }
                Ok(Parsed::Header { bytes: used, client }) => {
                    assert_eq!((used, bytes.len()), (whole.len(), whole.len()));
                    assert_eq!(client.is_some(), command == 0x21);
                }
                Err(refused) => assert_eq!(parse(&whole), Err(refused)),
            }
        }
    }
}
