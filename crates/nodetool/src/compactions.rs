//! `nereid compactions`: what a running node merges, drawn again every second.
//!
//! It asks the node's REST API and changes nothing. Where the output is no terminal it is printed
//! once.
//!
//! In reading order: [`view`] (what a node has told), [`draw`] (that as lines), [`screen`] (the
//! terminal).
//!
//! Invariants
//!  - *as-it-was*: when the tool ends, and is not killed or broken, the terminal is as it found it.
//!
//! Exit codes: 0 done, Ctrl-C included; 1 the node cannot be reached, or does not answer as a node
//! does; 2 the command line does not make sense.

mod draw;
mod screen;
mod view;

use clap::{Arg, ArgAction, Command};
use draw::{Header, Size};
use runtime::signal;
use runtime::task::{Either, race};
use runtime::time::{sleep, timeout, wall_micros};
use screen::Screen;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use view::{Asker, View};

/// A node that takes longer to answer does not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What the words ask for.
#[derive(Clone, Debug)]
struct Options {
    host: String,
    port: u16,
    once: bool,
    interval: Duration,
}

/// Runs the tool.
pub fn main(words: &[String]) -> ExitCode {
    let name = std::iter::once("nereid compactions".to_string());
    let matches = match command().try_get_matches_from(name.chain(words.iter().cloned())) {
        Ok(matches) => matches,
        Err(error) => error.exit(),
    };
    let options = Options {
        host: matches.get_one::<String>("host").cloned().unwrap_or_default(),
        port: matches.get_one::<u16>("port").copied().unwrap_or_default(),
        once: matches.get_flag("once") || !screen::is_there(),
        interval: matches.get_one::<Duration>("interval").copied().unwrap_or_default(),
    };
    match addresses(&options).and_then(|peers| start(options, peers)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

pub fn command() -> Command {
    let option = |name: &'static str, default: &'static str| {
        Arg::new(name).long(name).default_value(default)
    };
    Command::new("nereid compactions")
        .about("Watch what a running node merges")
        .arg(option("host", "localhost").help("The node's api_address"))
        .arg(
            option("port", "10000")
                .help("The node's api_port")
                .value_parser(clap::value_parser!(u16).range(1..)),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Print it once, as where the output is no terminal"),
        )
        .arg(
            option("interval", "1")
                .help("Seconds from one look to the next")
                .value_parser(interval_of),
        )
}

fn interval_of(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(secs) if (0.1..=3600.0).contains(&secs) => Ok(Duration::from_secs_f64(secs)),
        _ => Err("an interval is 0.1 to 3600 seconds".to_string()),
    }
}

/// What a host may stand for.
fn addresses(options: &Options) -> Result<Vec<SocketAddr>, String> {
    let found = (options.host.as_str(), options.port).to_socket_addrs();
    let found: Vec<_> = found.map_err(|error| format!("{}: {error}", options.host))?.collect();
    match found.is_empty() {
        true => Err(format!("{}: no address", options.host)),
        false => Ok(found),
    }
}

/// Watches on a shard of its own.
fn start(options: Options, peers: Vec<SocketAddr>) -> Result<(), String> {
    let mut config = runtime::Config::new(1);
    config.idle_poll = Duration::ZERO;
    // Printing is what this shard is there for.
    config.stall_threshold = None;
    let (ended, told) = mpsc::channel();
    runtime::run(config, move |_| {
        let (options, ended) = (options.clone(), ended.clone());
        let asker = Asker::new(peers.clone());
        async move {
            // Who started this waits for it.
            let _ = ended.send(watch(&options, asker).await);
        }
    })
    .map_err(|error| error.to_string())?;
    told.recv().map_err(|error| error.to_string())?
}

async fn watch(options: &Options, mut asker: Asker) -> Result<(), String> {
    let first = look(&mut asker).await?;
    if options.once {
        let header = Header { peer: asker.peer(), interval: None, trouble: None };
        let size = Size { columns: screen::columns().unwrap_or(usize::MAX), lines: usize::MAX };
        let lines = draw::lines(&first, &header, now_millis(), size);
        let text = lines.join("\n") + "\n";
        let written = std::io::stdout().write_all(text.as_bytes());
        return written.map_err(|error| format!("cannot write the output: {error}"));
    }
    // What comes first is asked first: from there on signals do not end the process.
    match race(signal::wait(), follow(options, &mut asker, first)).await {
        Either::Left(_) => Ok(()),
        Either::Right(ended) => ended,
    }
}

/// Draws until the terminal is gone (*as-it-was*). A node that does not answer any more is asked
/// again.
async fn follow(options: &Options, asker: &mut Asker, first: View) -> Result<(), String> {
    let gone = |error: std::io::Error| format!("cannot write to the terminal: {error}");
    let mut screen = Screen::enter().map_err(gone)?;
    let (mut seen, mut trouble) = (first, None);
    loop {
        let interval = Some(options.interval);
        let header = Header { peer: asker.peer(), interval, trouble: trouble.as_deref() };
        let lines = draw::lines(&seen, &header, now_millis(), screen.size());
        screen.show(&lines).map_err(gone)?;
        sleep(options.interval).await;
        match look(asker).await {
            Ok(next) => (seen, trouble) = (next.after(&seen), None),
            Err(error) => trouble = Some(error),
        }
    }
}

/// What the node tells now. The error names its address.
async fn look(asker: &mut Asker) -> Result<View, String> {
    let peer = asker.peer();
    let told = timeout(ANSWER_WITHIN, asker.look()).await;
    told.unwrap_or_else(|_| Err(format!("{peer} does not answer within {ANSWER_WITHIN:?}")))
}

fn now_millis() -> i64 {
    wall_micros().div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        command().debug_assert();
        let check = |text: &str, expected: Option<u64>| {
            let millis = interval_of(text).ok().map(|interval| interval.as_millis() as u64);
            assert_eq!(millis, expected, "{text}");
        };
        check("1", Some(1000));
        check("0.25", Some(250));
        check("3600", Some(3_600_000));
        for text in ["0", "-1", "3601", "nan", "inf", "x", ""] {
            check(text, None);
        }
    }
}
