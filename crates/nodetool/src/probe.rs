//! `nereid probe`: whether a node lets clients in, for whoever starts and watches it.
//!
//! It asks the node's REST API one question. Exit codes: 0 clients are let in; 1 they are not, or
//! the node does not answer; 2 the command line makes no sense.

use clap::{Arg, Command};
use http::{Client, Method, Request};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

const QUESTION: &str = "/storage_service/native_transport";

/// Runs the tool.
pub fn main(words: &[String]) -> ExitCode {
    let name = std::iter::once("nereid probe".to_string());
    let matches = match command().try_get_matches_from(name.chain(words.iter().cloned())) {
        Ok(matches) => matches,
        Err(error) => error.exit(),
    };
    let host = matches.get_one::<String>("host").cloned().unwrap_or_default();
    let port = matches.get_one::<u16>("port").copied().unwrap_or_default();
    let secs = matches.get_one::<u64>("timeout").copied().unwrap_or_default();
    let peer = match (host.as_str(), port).to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(peer)) => peer,
        _ => return said(Err(format!("{host}: no address"))),
    };
    said(ask(peer, Duration::from_secs(secs)))
}

/// The tool's options.
pub fn command() -> Command {
    let option = |name: &'static str, default: &'static str| {
        Arg::new(name).long(name).default_value(default)
    };
    let number =
        |range: std::ops::RangeFrom<u16>| clap::value_parser!(u16).range(i64::from(range.start)..);
    Command::new("nereid probe")
        .about("Check whether a running node accepts clients; the exit code is 0 if it does")
        .arg(option("host", "localhost").help("api_address of the node"))
        .arg(option("port", "10000").help("api_port of the node").value_parser(number(1..)))
        .arg(
            option("timeout", "4")
                .help("Timeout, in seconds")
                .value_parser(clap::value_parser!(u64).range(1..=3600)),
        )
}

fn said(answer: Result<(), String>) -> ExitCode {
    match answer {
        Ok(()) => {
            println!("the node accepts clients");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Asks on a shard of its own.
fn ask(peer: SocketAddr, within: Duration) -> Result<(), String> {
    let mut config = runtime::Config::new(1);
    config.pin = runtime::Pin::Anywhere;
    config.idle_poll = Duration::ZERO;
    config.stall_threshold = None;
    let (tell, told) = mpsc::channel();
    let run = runtime::run(config, move |_| {
        let tell = tell.clone();
        async move {
            let request = Request::new(Method::Get, QUESTION);
            let reply = Client::new(peer).send(&request, within).await;
            // Who started this waits for it.
            let _ = tell.send(reply);
        }
    });
    run.map_err(|error| error.to_string())?;
    let reply = told.recv().map_err(|error| error.to_string())?;
    judge(reply.map(|reply| (reply.status, String::from_utf8_lossy(&reply.body).into_owned())))
}

/// What an answer means: its status and its body.
fn judge(reply: Result<(u16, String), String>) -> Result<(), String> {
    match reply {
        Ok((200, body)) if body.trim() == "true" => Ok(()),
        Ok((200, _)) => Err("the node is running, but does not accept clients".to_owned()),
        Ok((status, body)) => Err(format!("the node answers {status}: {}", body.trim())),
        Err(text) => Err(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged() {
        let check = |reply: Result<(u16, &str), &str>, expected: Result<(), &str>| {
            let reply = reply.map(|(status, body)| (status, body.to_owned()));
            let judged = judge(reply.map_err(str::to_owned));
            assert_eq!(judged, expected.map_err(str::to_owned));
        };
        check(Ok((200, "true\n")), Ok(()));
        check(Ok((200, "false")), Err("the node is running, but does not accept clients"));
        check(Ok((404, "what?")), Err("the node answers 404: what?"));
        check(Err("refused"), Err("refused"));
    }
}
