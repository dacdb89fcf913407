//! Greetings over a socket, from both ends.
//!
//! Invariants
//!  - *both-check*, *short-greetings* (of hello).
//!  - *bounded-greetings*: who does not come to its end in time is let go.

use crate::connection::{Facts, Side};
use crate::error::{Down, Refusal, Refused};
use crate::frame::{Header, Kind};
use crate::hello::{
    self, Answer, GREETING_BYTES_MAX, Hello, PREAMBLE_BYTES, PREFIX_BYTES, Preamble, Speaker, Tls,
    VERSIONS, Welcome,
};
use crate::names::{Class, HostId};
use crate::parcel::Head;
use crate::policy::{Dialing, Encrypts};
use crate::services::Services;
use runtime::net::{NetError, TcpStream};
use runtime::time::timeout;
use std::net::SocketAddr;
use stdx::Damaged;
use tls::Stream as Wire;
use tls::handshake::{self, Failed};

/// Whom to greet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) address: SocketAddr,
    /// `None`: who is there?
    pub(crate) host: Option<HostId>,
    pub(crate) shard: u16,
    pub(crate) class: Class,
}

/// A connection that was greeted, and what came behind the greetings.
pub(crate) type Greeted = (Facts, (Wire, Vec<u8>));

/// What goes wrong in greetings.
enum Wrong {
    Net(String),
    Damaged(Damaged),
}

impl From<NetError> for Wrong {
    fn from(error: NetError) -> Wrong {
        Wrong::Net(error.to_string())
    }
}

impl From<Damaged> for Wrong {
    fn from(damaged: Damaged) -> Wrong {
        Wrong::Damaged(damaged)
    }
}

impl From<Wrong> for Down {
    fn from(wrong: Wrong) -> Down {
        match wrong {
            Wrong::Net(what) => Down::Net(what),
            Wrong::Damaged(damaged) => {
                let text = format!("in its greetings: {damaged}");
                Down::RefusedByUs(Refused::new(Refusal::Damaged, text))
            }
        }
    }
}

/// Bytes of greetings: what was read too much waits for the next.
struct Reader<'s, S> {
    stream: &'s S,
    buf: Vec<u8>,
}

impl<S: runtime::net::Stream> Reader<'_, S> {
    fn of(stream: &S) -> Reader<'_, S> {
        Reader { stream, buf: Vec::new() }
    }

    /// The next `count` bytes. A plain stream is asked for no more than these.
    async fn take(&mut self, count: usize) -> Result<Vec<u8>, Wrong> {
        while self.buf.len() < count {
            let mut buf = Vec::with_capacity(count);
            buf.append(&mut self.buf);
            let (read, buf) = self.stream.read(buf).await;
            self.buf = buf;
            if read? == 0 {
                return Err(Wrong::Net("the other node has closed the connection".to_string()));
            }
        }
        debug_assert!(count <= self.buf.len(), "short-greetings: {count} bytes are there");
        let rest = self.buf.split_off(count);
        Ok(std::mem::replace(&mut self.buf, rest))
    }

    /// The next greeting: its checksum and its body.
    async fn greeting(&mut self) -> Result<(u32, Vec<u8>), Wrong> {
        let (length, crc) = hello::decode_prefix(&self.take(PREFIX_BYTES).await?)?;
        debug_assert!(length <= GREETING_BYTES_MAX, "short-greetings: {length}");
        Ok((crc, self.take(length).await?))
    }
}

fn speaker(services: &Services, shard: u16) -> Speaker {
    let config = &services.config;
    debug_assert!(shard < runtime::shard_count(), "both-check: shard {shard} speaks");
    Speaker {
        cluster: config.cluster.clone(),
        host: config.host,
        life: config.life,
        shard,
        shards: runtime::shard_count(),
        message_bytes_max: config.message_bytes_max as u32,
        stream_window_bytes: config.stream_window_bytes as u32,
    }
}

/// Connects to a node and greets it.
pub(crate) async fn dial(services: &Services, wanted: Wanted) -> Result<Greeted, Down> {
    let limit = services.config.connect_max;
    match timeout(limit, dial_slowly(services, wanted)).await {
        Ok(greeted) => greeted,
        Err(_) => Err(Down::Net(format!("no connection in {} ms", limit.as_millis()))),
    }
}

async fn dial_slowly(services: &Services, wanted: Wanted) -> Result<Greeted, Down> {
    let dialing = services.policy.dialing(wanted.host, wanted.address);
    let encrypts = dialing.begins_encrypted();
    match dial_once(services, wanted, &dialing, encrypts).await {
        Err(Down::RefusedByPeer(refused)) if dialing.turns(refused.why) => {
            stdx::probe!("messaging: dialed again, encrypted or plain as the other node is");
            dial_once(services, wanted, &dialing, !encrypts).await
        }
        dialed => dialed,
    }
}

async fn dial_once(
    services: &Services,
    wanted: Wanted,
    dialing: &Dialing,
    encrypts: bool,
) -> Result<Greeted, Down> {
    let Wanted { address, host, shard, class } = wanted;
    let tcp = TcpStream::connect(address).await.map_err(Wrong::from)?;
    let (oldest, newest) = (*VERSIONS.start(), *VERSIONS.end());
    let secret = dialing.tls.as_ref().filter(|_| encrypts);
    let tls = match (secret, dialing.encrypts) {
        (Some(_), _) => Tls::Follows,
        (None, Encrypts::IfAsked) if dialing.tls.is_some() => Tls::IfAsked,
        (None, _) => Tls::None,
    };
    let preamble = Preamble { oldest, newest, shard, class, tls };
    tcp.write_all(preamble.encode()).await.0.map_err(Wrong::from)?;
    let (crc, body) = Reader::of(&tcp).greeting().await?;
    let answer = hello::decode_answer(crc, &body).map_err(Wrong::from)?;
    let version = answer.map_err(Down::RefusedByPeer)?;
    if !VERSIONS.contains(&version) {
        let text = format!("it speaks version {version}, which was not offered");
        return Err(Down::RefusedByUs(Refused::new(Refusal::Version, text)));
    }
    let wire = match secret {
        None => Wire::from(tcp),
        Some((config, name)) => {
            let limit = services.config.connect_max;
            handshake::connect(tcp, config.clone(), name, limit).await.map_err(not_encrypted)?
        }
    };
    let speaker = speaker(services, runtime::shard_id());
    let compression = dialing.compression;
    let hello = Hello { speaker, expected: host, class, compression };
    let (welcome, early) = say_hello(&wire, &hello).await?;
    let is_banned = services.is_banned(welcome.speaker.host);
    let checked = hello::check_welcome(services.us(), &hello, &welcome, is_banned);
    let names = wire.agreed().and_then(|agreed| agreed.peer.as_ref());
    let checked = checked.and_then(|()| check_names(services, welcome.speaker.host, &wire, names));
    if let Err(refused) = checked {
        debug_assert!(!refused.text.is_empty(), "told-why: refused in no words");
        say_goodbye(&wire, &refused).await;
        return Err(Down::RefusedByUs(refused));
    }
    Ok((dialed(wanted, &wire, &welcome), (wire, early)))
}

/// The answer to a hello, and what came behind it.
async fn say_hello(wire: &Wire, hello: &Hello) -> Result<(Welcome, Vec<u8>), Down> {
    let said = wire.write_all(hello.encode()).await.0;
    let mut reader = Reader::of(wire);
    let (crc, body) = match reader.greeting().await {
        Ok(greeting) => greeting,
        // Who refuses our certificate says so after the handshake.
        Err(wrong) => match wire.refused_by_peer() {
            Some(what) => return Err(not_encrypted(Failed::RefusedByPeer(what))),
            None => return Err(said.err().map_or(wrong, Wrong::from).into()),
        },
    };
    let welcome = hello::decode_welcome(crc, &body).map_err(Wrong::from)?;
    let welcome = welcome.map_err(Down::RefusedByPeer)?;
    Ok((welcome, reader.buf))
}

/// Why a connection that was dialed does not get encrypted.
fn not_encrypted(failed: Failed) -> Down {
    let refused = |failed: Failed| Refused::new(Refusal::Certificate, failed.to_string());
    match failed {
        Failed::Refused(_) => Down::RefusedByUs(refused(failed)),
        Failed::RefusedByPeer(_) => Down::RefusedByPeer(refused(failed)),
        failed => Down::Net(failed.to_string()),
    }
}

/// *both-check*: the other end is told in a frame, for it has said its greetings.
async fn say_goodbye(wire: &Wire, refused: &Refused) {
    let (text, why) = (refused.text.as_bytes(), refused.why as u32);
    let bytes = text.len() as u32;
    let bare = Header::bare(Kind::Goodbye, 0, why);
    let header = Header { body_bytes: bytes, raw_bytes: bytes, ..bare };
    debug_assert!(!header.is_compressed(), "told-why: a goodbye is plain");
    let frame = [&header.encode()[..], text].concat();
    let goodbye = [&Head::of(&frame).encode()[..], &frame].concat();
    let _ = wire.write_all(goodbye).await;
    let _ = wire.shutdown();
}

/// Whether the certificate is one that the node may show.
fn check_names(
    services: &Services,
    host: HostId,
    wire: &Wire,
    names: Option<&tls::peer::Names>,
) -> Result<(), Refused> {
    if wire.agreed().is_none() || services.policy.may_show(host, names) {
        return Ok(());
    }
    let shown = names.map_or("none", |names| &names.subject);
    let text = format!("node {host} may not show certificate {shown}");
    Err(Refused::new(Refusal::Certificate, text))
}

fn dialed(wanted: Wanted, wire: &Wire, welcome: &Welcome) -> Facts {
    let Wanted { address, class, host: expected, .. } = wanted;
    debug_assert!(0 < welcome.requests_max, "both-bounds: who welcomes takes something");
    let Speaker { host, life, shard, shards, .. } = welcome.speaker;
    Facts {
        side: Side::Dialer,
        host,
        life,
        address,
        shard,
        shards,
        class,
        compression: welcome.compression,
        encrypted: wire.agreed().is_some(),
        is_probe: expected.is_none(),
        message_bytes_max: welcome.speaker.message_bytes_max as usize,
        stream_window_bytes: welcome.speaker.stream_window_bytes as usize,
        requests_max: welcome.requests_max as usize,
        request_bytes_max: welcome.request_bytes_max as usize,
    }
}

/// Why nothing comes of a connection that was accepted: what the log says, if it says anything.
pub(crate) struct Unwelcome {
    pub(crate) who: String,
    pub(crate) refused: Option<Refused>,
    /// Whether we refuse it, and not it us.
    pub(crate) by_us: bool,
}

/// Who comes from an address and has not said its name. Its port is another one each time, and
/// would make another node of it in the log.
fn stranger(address: SocketAddr) -> String {
    format!("a node at {}", address.ip())
}

impl Unwelcome {
    fn silent(address: SocketAddr) -> Unwelcome {
        Unwelcome { who: stranger(address), refused: None, by_us: true }
    }

    fn new(who: String, refused: Refused) -> Unwelcome {
        debug_assert!(!who.is_empty(), "told-why: a line names the other node");
        Unwelcome { who, refused: Some(refused), by_us: true }
    }

    fn of(address: SocketAddr, wrong: Wrong) -> Unwelcome {
        match wrong {
            // Such as a check of health, which says nothing.
            Wrong::Net(_) => Unwelcome::silent(address),
            Wrong::Damaged(damaged) => {
                let refused = Refused::new(Refusal::Damaged, damaged.to_string());
                Unwelcome::new(stranger(address), refused)
            }
        }
    }
}

/// Reads who is to serve a connection; any shard may do that.
pub(crate) async fn preamble(services: &Services, tcp: &TcpStream) -> Result<Preamble, Unwelcome> {
    let address = tcp.peer_addr();
    let mut reader = Reader::of(tcp);
    let read = timeout(services.config.connect_max, reader.take(PREAMBLE_BYTES)).await;
    let read = read.map_err(|_| Unwelcome::silent(address))?;
    let bytes = read.map_err(|wrong| Unwelcome::of(address, wrong))?;
    let preamble = Preamble::decode(&bytes).map_err(|it| Unwelcome::of(address, it.into()))?;
    debug_assert!(reader.buf.is_empty(), "a plain stream gives no more than it is asked for");
    Ok(preamble)
}

/// Greets a dialer whose preamble was read, on the shard that it wants. `is_crowded`: there is no
/// room for another connection.
pub(crate) async fn welcome(
    services: &Services,
    tcp: TcpStream,
    preamble: Preamble,
    is_crowded: bool,
) -> Result<Greeted, Unwelcome> {
    let address = tcp.peer_addr();
    debug_assert_eq!(
        preamble.shard % runtime::shard_count(),
        runtime::shard_id(),
        "a connection is served by the shard that it is for"
    );
    let limit = services.config.connect_max;
    match timeout(limit, welcome_slowly(services, tcp, preamble, is_crowded)).await {
        Ok(greeted) => greeted,
        Err(_) => Err(Unwelcome::silent(address)),
    }
}

async fn welcome_slowly(
    services: &Services,
    tcp: TcpStream,
    preamble: Preamble,
    is_crowded: bool,
) -> Result<Greeted, Unwelcome> {
    let address = tcp.peer_addr();
    let wrong = |wrong: Wrong| Unwelcome::of(address, wrong);
    let follows = preamble.tls == Tls::Follows;
    let server = if follows { services.policy.server() } else { None };
    let answer = answer(services, &preamble, server.is_some(), is_crowded);
    let said = tcp.write_all(hello::encode_answer(&answer)).await.0;
    if let Err(refused) = answer {
        let _ = tcp.shutdown();
        return Err(Unwelcome::new(stranger(address), refused));
    }
    said.map_err(|error| wrong(error.into()))?;
    let wire = match server {
        None => Wire::from(tcp),
        Some(config) => {
            let shaken = handshake::accept(tcp, config, services.config.connect_max).await;
            shaken.map_err(|failed| {
                let refused = Refused::new(Refusal::Certificate, failed.to_string());
                let unwelcome = Unwelcome::new(stranger(address), refused);
                Unwelcome { by_us: !matches!(failed, Failed::RefusedByPeer(_)), ..unwelcome }
            })?
        }
    };
    let mut reader = Reader::of(&wire);
    let (crc, body) = reader.greeting().await.map_err(wrong)?;
    let hello = Hello::decode(crc, &body).map_err(|damaged| wrong(damaged.into()))?;
    let early = reader.buf;
    let checked = check_hello(services, &preamble, &hello, &wire);
    let answer = checked.map(|()| our_welcome(services, &hello));
    let said = wire.write_all(hello::encode_welcome(&answer)).await.0;
    match answer {
        Err(refused) => {
            let _ = wire.shutdown();
            if refused.why == Refusal::NeedsTls && preamble.tls == Tls::IfAsked {
                // It comes again, encrypted: there is nothing to complain of.
                return Err(Unwelcome::silent(address));
            }
            Err(Unwelcome::new(format!("node {} at {}", hello.speaker.host, address.ip()), refused))
        }
        Ok(welcome) => {
            said.map_err(|error| wrong(error.into()))?;
            Ok((accepted(address, &wire, &hello, &welcome), (wire, early)))
        }
    }
}

/// What is said to a preamble.
fn answer(services: &Services, preamble: &Preamble, has_tls: bool, is_crowded: bool) -> Answer {
    let version = preamble.version()?;
    if services.stops.get() {
        return Err(Refused::new(Refusal::Stopping, "the node stops"));
    }
    if preamble.tls == Tls::Follows && !has_tls {
        let text = "TLS is wanted, which is not enabled at the node that was dialed";
        return Err(Refused::new(Refusal::NoTls, text));
    }
    if is_crowded {
        return Err(Refused::new(Refusal::Crowded, "there are too many connections"));
    }
    Ok(version)
}

fn check_hello(
    services: &Services,
    preamble: &Preamble,
    hello: &Hello,
    wire: &Wire,
) -> Result<(), Refused> {
    let host = hello.speaker.host;
    hello::check_hello(services.us(), hello, preamble.class, services.is_banned(host))?;
    let address = wire.peer_addr();
    if wire.agreed().is_none() && services.policy.needs_tls(host, address.ip()) {
        let text = format!("node {host} connects without TLS, which is required of it");
        return Err(Refused::new(Refusal::NeedsTls, text));
    }
    check_names(services, host, wire, wire.agreed().and_then(|agreed| agreed.peer.as_ref()))
}

fn our_welcome(services: &Services, hello: &Hello) -> Welcome {
    let config = &services.config;
    Welcome {
        speaker: speaker(services, runtime::shard_id()),
        requests_max: config.requests_max as u32,
        request_bytes_max: config.request_bytes_max as u32,
        compression: hello.compression.and(services.policy.takes()),
    }
}

fn accepted(address: SocketAddr, wire: &Wire, hello: &Hello, welcome: &Welcome) -> Facts {
    debug_assert_eq!(hello.speaker.cluster, welcome.speaker.cluster, "both-check: of one cluster");
    let Speaker { host, life, shard, shards, .. } = hello.speaker;
    Facts {
        side: Side::Acceptor,
        host,
        life,
        address,
        shard,
        shards,
        class: hello.class,
        compression: welcome.compression,
        encrypted: wire.agreed().is_some(),
        is_probe: hello.expected.is_none(),
        message_bytes_max: hello.speaker.message_bytes_max as usize,
        stream_window_bytes: hello.speaker.stream_window_bytes as usize,
        requests_max: welcome.requests_max as usize,
        request_bytes_max: welcome.request_bytes_max as usize,
    }
}
