//! From parcels to frames, however the bytes between them are cut.

use crate::algorithms::{Algorithms, Compression};
use crate::budget::Pair;
use crate::config::Config;
use crate::frame::{Header, Kind};
use crate::intake::{Ended, Intake, Pulse};
use crate::names::HostId;
use crate::outbox::Frame;
use crate::packing::{Packer, Parcels};
use crate::parcel::PARCEL_BYTES_MAX;
use crate::payload::Payload;
use crate::policy::Plain;
use crate::services::Services;
use crate::verbs::Verbs;
use runtime::net::{ListenOptions, TcpListener, TcpStream};
use runtime::task::{Scope, yield_now};
use std::net::SocketAddr;
use std::rc::Rc;
use stdx::Prng;
use tls::Stream;

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// A body that most parcels have room for, one that none has, or none.
fn body(prng: &mut Prng) -> Vec<u8> {
    let bytes = match prng.below(8) {
        0 => 0,
        1 => prng.between(8 << 10, 40 << 10),
        2 => prng.between(PARCEL_BYTES_MAX as u64, 100 << 10),
        _ => prng.between(1, 600),
    };
    (0..bytes).map(|at| (at ^ prng.below(4)) as u8).collect()
}

/// Bodies as they travel, in batches.
async fn sent(prng: &mut Prng, link: Algorithms, bodies: &[Vec<u8>]) -> Vec<u8> {
    let services = Services::new(Config::new("one", HostId(1), 1), Verbs::new(), Rc::new(Plain));
    let packer = Packer { link, services: &services };
    let (mut bytes, mut parcels) = (Vec::new(), Parcels::with_room(0));
    for (id, body) in bodies.iter().enumerate() {
        let cut = prng.below(body.len() as u64 + 1) as usize;
        let payload = match prng.below(3) {
            0 => body.clone().into(),
            1 => Payload::with_body(body[..cut].to_vec(), body[cut..].to_vec()),
            _ => Payload::with_shared(body[..cut].to_vec(), Rc::new(body[cut..].to_vec())),
        };
        let header = Header::bare(Kind::Reply, 1 + id as u64, 0);
        let frame = Frame::new(header, payload, Pair::default());
        if let Some(packed) = packer.put(frame, &mut parcels) {
            packer.put_packed(packed, &mut parcels).await;
        }
        if prng.one_in(5) {
            let batch = std::mem::replace(&mut parcels, Parcels::with_room(99));
            batch.finish().0.iter().for_each(|part| bytes.extend_from_slice(part));
        }
    }
    parcels.finish().0.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Reads one frame, where it is here already by the short way or by the long one.
async fn read_one(
    intake: &mut Intake,
    stream: &Stream,
    is_short: bool,
) -> Result<(Header, Vec<u8>), Ended> {
    let pulse = Pulse::new();
    if is_short && let Some(header) = intake.here()? {
        return Ok((header, intake.take_here(&header)));
    }
    let header = intake.header(stream, &pulse).await?;
    let body = intake.body(&header, stream, &pulse).await?;
    Ok((header, body))
}

/// Sends `bytes` in pieces, and reads what comes until the connection ends.
async fn received(seed: u64, early: usize, bytes: Vec<u8>) -> (Vec<(Header, Vec<u8>)>, Ended) {
    let options = ListenOptions { reuse_port: false, backlog: 1 };
    let listener = TcpListener::bind(PEER, options).expect("a free port");
    let (scope, rest) = (Scope::new(), bytes[early..].to_vec());
    scope.spawn(async move {
        let (stream, mut prng) =
            (listener.accept().await.expect("a peer").0, Prng::from_seed(seed));
        let mut rest = &rest[..];
        while !rest.is_empty() {
            let most = 1 << prng.between(1, 16);
            let piece = prng.between(1, most) as usize;
            let (piece, after) = rest.split_at(piece.min(rest.len()));
            stream.write_all(piece.to_vec()).await.0.expect("it is read");
            rest = after;
            yield_now().await;
        }
        stream.shutdown().expect("it ends");
    });
    let stream = Stream::from(TcpStream::connect(PEER).await.expect("it listens"));
    let (mut intake, mut prng) = (Intake::new(bytes[..early].to_vec()), Prng::from_seed(!seed));
    let mut frames = Vec::new();
    loop {
        match read_one(&mut intake, &stream, prng.one_in(2)).await {
            Ok(frame) => frames.push(frame),
            Err(ended) => return (frames, ended),
        }
    }
}

#[test]
fn frames_arrive_as_they_were_sent_however_bytes_are_cut() {
    for seed in 0..40 {
        let link = [Algorithms::NONE, Compression::Lz4.into()][seed as usize % 2];
        let (bodies, frames, ended) = runtime::sim::test(seed, move || async move {
            let mut prng = Prng::from_seed(seed);
            let bodies: Vec<_> = (0..prng.between(1, 60)).map(|_| body(&mut prng)).collect();
            let bytes = sent(&mut prng, link, &bodies).await;
            let early = prng.below(99.min(bytes.len() as u64)) as usize;
            let (frames, ended) = received(seed, early, bytes).await;
            (bodies, frames, ended)
        });
        assert_eq!(ended, Ended::Closed, "seed {seed}");
        assert_eq!(frames.len(), bodies.len(), "seed {seed}");
        for (at, ((header, body), sent)) in frames.iter().zip(&bodies).enumerate() {
            assert_eq!(header.id, 1 + at as u64, "seed {seed}");
            match header.is_compressed() {
                false => assert!(body == sent, "seed {seed}: body {at}"),
                true => assert_eq!(header.raw_bytes as usize, sent.len(), "seed {seed}"),
            }
        }
    }
}

#[test]
fn nothing_of_a_changed_parcel_is_given_out() {
    for seed in 0..40 {
        let (bodies, frames, ended) = runtime::sim::test(seed, move || async move {
            let mut prng = Prng::from_seed(seed);
            let bodies: Vec<_> = (0..prng.between(1, 20)).map(|_| body(&mut prng)).collect();
            let mut bytes = sent(&mut prng, Algorithms::NONE, &bodies).await;
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << prng.below(8);
            let (frames, ended) = received(seed, 0, bytes).await;
            (bodies, frames, ended)
        });
        assert!(matches!(ended, Ended::Damaged(_)), "seed {seed}: {ended:?}");
        assert!(frames.len() < bodies.len(), "seed {seed}");
        let as_sent = frames.iter().zip(&bodies).all(|((_, body), sent)| body == sent);
        assert!(as_sent, "seed {seed}");
    }
}
