//! What is on or off, and numbers that are read and set.

use crate::answer::{pairs, plain};
use crate::arguments::{Opt, Place, one};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::session::Session;
use http::Method;

pub(super) const COMMANDS: &[Entry] = &[
    switch("enablebinary", "Serve clients of CQL", |s| Box::pin(set(s, BINARY, Method::Post))),
    switch("disablebinary", "Serve no clients of CQL", |s| {
        Box::pin(set(s, BINARY, Method::Delete))
    }),
    switch("statusbinary", "Whether clients of CQL are served", |s| Box::pin(tell(s, BINARY))),
    switch("enablegossip", "Take part in gossip", |s| Box::pin(set(s, GOSSIP, Method::Post))),
    switch("disablegossip", "Take no part in gossip: other nodes take this one for dead", |s| {
        Box::pin(set(s, GOSSIP, Method::Delete))
    }),
    switch("statusgossip", "Whether the node takes part in gossip", |s| Box::pin(tell(s, GOSSIP))),
    switch("enablebackup", "Keep a link to every new SSTable", |s| Box::pin(back_up(s, "true"))),
    switch("disablebackup", "Keep no links to new SSTables", |s| Box::pin(back_up(s, "false"))),
    switch("statusbackup", "Whether links to new SSTables are kept", |s| Box::pin(tell(s, BACKUP))),
    switch("enablehandoff", "Keep writes for nodes that are down", |s| {
        Box::pin(hand_off(s, "true"))
    }),
    switch("disablehandoff", "Keep no writes for nodes that are down", |s| {
        Box::pin(hand_off(s, "false"))
    }),
    switch("statushandoff", "Whether writes are kept for nodes that are down", |s| {
        Box::pin(handoff(s))
    }),
    switch("pausehandoff", "Send no hints", |s| Box::pin(pause(s, "true"))),
    switch("resumehandoff", "Send hints again", |s| Box::pin(pause(s, "false"))),
    Entry {
        name: "sethintedhandoffthrottlekb",
        about: "Set how fast hints are sent to one node",
        options: &[],
        places: &[one("throttle", "KiB a second; 0: no limit")],
        run: |session| Box::pin(post_number(session, "throttle", "/hinted_handoff/throttle")),
    },
    switch("getmaxhintwindow", "Milliseconds that a node may be down until no more is kept", |s| {
        Box::pin(hint_window(s))
    }),
    Entry {
        name: "setmaxhintwindow",
        about: "Set for how long writes are kept for a node that is down",
        options: &[],
        places: &[one("ms", "Milliseconds")],
        run: |session| Box::pin(post_number(session, "ms", WINDOW)),
    },
    switch("listpendinghints", "Nodes for which there are hints", |s| Box::pin(pending(s))),
    Entry {
        name: "truncatehints",
        about: "Drop what is kept for a node, or for all",
        options: &[],
        places: &[one("endpoint", "Its address or host id; without: all nodes")],
        run: |session| Box::pin(truncate_hints(session)),
    },
    switch("replaybatchlog", "Replay logged batches that are not applied in time", |s| {
        Box::pin(set(s, BATCHES, Method::Post))
    }),
    switch("getlogginglevels", "Levels of log lines, by their origin", |s| Box::pin(levels(s))),
    Entry {
        name: "setlogginglevel",
        about: "Set the level of a logger",
        options: &[],
        places: &[one("logger", "The origin"), one("level", "trace, debug, info, warn or error")],
        run: |session| Box::pin(set_level(session)),
    },
    switch("gettraceprobability", "The part of requests that is traced", |s| {
        Box::pin(trace_probability(s))
    }),
    Entry {
        name: "settraceprobability",
        about: "Set the probability that a request is traced",
        options: &[],
        places: &[one("trace_probability", "From 0 to 1")],
        run: |session| Box::pin(set_trace_probability(session)),
    },
    switch("getcompactionthroughput", "The limit of merges in MiB a second; 0: none", |s| {
        Box::pin(number(s, COMPACTION))
    }),
    Entry {
        name: "setcompactionthroughput",
        about: "Set the throughput limit of compaction",
        options: &[],
        places: &[THROUGHPUT],
        run: |session| Box::pin(set_number(session, COMPACTION)),
    },
    Entry {
        name: "getstreamthroughput",
        about: "The throughput limit of streaming, in megabits a second; 0: none",
        options: &[Opt::flag("mib", &["-m"], "In MiB a second")],
        places: &[],
        run: |session| Box::pin(stream_throughput(session)),
    },
    Entry {
        name: "setstreamthroughput",
        about: "Set the throughput limit of streaming",
        options: &[],
        places: &[THROUGHPUT],
        run: |session| Box::pin(set_number(session, STREAM)),
    },
];

const BINARY: &str = "/storage_service/native_transport";
const GOSSIP: &str = "/storage_service/gossiping";
const HANDOFF: &str = "/storage_proxy/hinted_handoff_enabled";
const WINDOW: &str = "/storage_proxy/max_hint_window";
const HINTS: &str = "/hinted_handoff/hints";
const BATCHES: &str = "/storage_proxy/batchlog/replay";
const BACKUP: &str = "/storage_service/incremental_backups";
const COMPACTION: &str = "/storage_service/compaction_throughput";
const STREAM: &str = "/storage_service/stream_throughput";
const TRACE: &str = "/storage_service/trace_probability";
const THROUGHPUT: Place = one("throughput", "MiB a second; 0: no limit");

type Run = for<'a> fn(&'a mut Session) -> crate::entry::Running<'a>;

const fn switch(name: &'static str, about: &'static str, run: Run) -> Entry {
    Entry { name, about, options: &[], places: &[], run }
}

async fn set(session: &mut Session, path: &str, method: Method) -> Done {
    session.ask(method, path, &[], Vec::new(), None).await.map(drop)
}

async fn tell(session: &mut Session, path: &str) -> Done {
    let is_on = session.get(path).await? == serde_json::Value::Bool(true);
    session.say(if is_on { "running\n" } else { "not running\n" })
}

async fn back_up(session: &mut Session, value: &str) -> Done {
    session.post(BACKUP, vec![("value", value.to_string())]).await.map(drop)
}

async fn hand_off(session: &mut Session, enable: &str) -> Done {
    session.post(HANDOFF, vec![("enable", enable.to_string())]).await.map(drop)
}

async fn handoff(session: &mut Session) -> Done {
    let is_on = session.get(HANDOFF).await? == serde_json::Value::Bool(true);
    let running = if is_on { "running" } else { "not running" };
    let mut text = format!("Hinted handoff is {running}\n");
    let centers = session.get("/storage_proxy/hinted_handoff_enabled_by_dc").await?;
    for center in centers.as_array().into_iter().flatten() {
        text += &format!("Data center {} is enabled\n", plain(center));
    }
    session.say(&text)
}

async fn pause(session: &mut Session, pause: &str) -> Done {
    session.post("/hinted_handoff/pause", vec![("pause", pause.to_string())]).await.map(drop)
}

async fn hint_window(session: &mut Session) -> Done {
    let value = session.get(WINDOW).await?;
    session.say(&format!("Current max hint window: {} ms\n", plain(&value)))
}

async fn pending(session: &mut Session) -> Done {
    let hosts = session.get(HINTS).await?;
    let hosts = hosts.as_array().cloned().unwrap_or_default();
    match hosts.is_empty() {
        true => session.say("This node does not have any pending hints\n"),
        false => session.say(&hosts.iter().map(|host| plain(host) + "\n").collect::<String>()),
    }
}

async fn truncate_hints(session: &mut Session) -> Done {
    let host = session.given.text("endpoint").map(str::to_string);
    let parameters = host.into_iter().map(|host| ("host", host)).collect();
    session.ask(Method::Delete, HINTS, &[], parameters, None).await.map(drop)
}

/// Sets a number that is the parameter and the place of the same name.
async fn post_number(session: &mut Session, name: &'static str, path: &str) -> Done {
    let Some(text) = session.given.text(name).map(str::to_string) else {
        return wrong(format!("required parameters are missing: {name}"));
    };
    if text.parse::<u32>().is_err() {
        return Err(Failure::Line(format!(
            "the argument ('{text}') for option '--{name}' is invalid"
        )));
    }
    session.post(path, vec![(name, text)]).await.map(drop)
}

async fn levels(session: &mut Session) -> Done {
    let levels = session.get("/storage_service/logging_level").await?;
    let mut text = format!("\n{:<50}{:>10}\n", "Logger Name", "Log Level");
    for (name, level) in pairs(&levels) {
        text += &format!("{name:<50}{:>10}\n", plain(&level));
    }
    session.say(&text)
}

async fn set_level(session: &mut Session) -> Done {
    let given = &session.given;
    let (Some(logger), Some(level)) = (given.text("logger"), given.text("level")) else {
        return wrong(
            "resetting logger(s) is not supported yet, the logger and level parameters are \
             required",
        );
    };
    let (logger, level) = (logger.to_string(), level.to_string());
    let parameters = vec![("level", level)];
    session.ask(Method::Post, "/system/logger", &[&logger], parameters, None).await.map(drop)
}

async fn trace_probability(session: &mut Session) -> Done {
    let value = session.get(TRACE).await?;
    session.say(&format!("Current trace probability: {}\n", plain(&value)))
}

async fn set_trace_probability(session: &mut Session) -> Done {
    let Some(text) = session.given.text("trace_probability").map(str::to_string) else {
        return wrong("required parameters are missing: trace_probability");
    };
    let Ok(value) = text.parse::<f64>() else {
        return Err(Failure::Line(format!(
            "the argument ('{text}') for option '--trace_probability' is invalid"
        )));
    };
    if !(0.0..=1.0).contains(&value) {
        return wrong("trace probability must be between 0 and 1");
    }
    session.post(TRACE, vec![("probability", text)]).await.map(drop)
}

async fn number(session: &mut Session, path: &str) -> Done {
    let value = session.get(path).await?;
    session.say(&format!("{}\n", plain(&value)))
}

async fn stream_throughput(session: &mut Session) -> Done {
    let value = session.get(STREAM).await?;
    let mib = value.as_u64().unwrap_or(0);
    let shown = match session.given.flag("mib") {
        true => mib,
        false => mib.saturating_mul(8 << 20) / 1_000_000,
    };
    session.say(&format!("{shown}\n"))
}

async fn set_number(session: &mut Session, path: &str) -> Done {
    let Some(text) = session.given.text("throughput").map(str::to_string) else {
        return wrong("required parameters are missing: throughput");
    };
    if text.parse::<u32>().is_err() {
        return Err(Failure::Line(format!(
            "the argument ('{text}') for option '--throughput' is invalid"
        )));
    }
    session.post(path, vec![("value", text)]).await.map(drop)
}
