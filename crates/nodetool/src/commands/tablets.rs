//! Keyspaces that get tablets.

use crate::answer::{list, plain};
use crate::arguments::{Place, one};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::session::Session;
use http::Method;
use serde_json::Value;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "migrate-to-tablets start",
        about: "Start the migration of a keyspace to tablets",
        options: &[],
        places: &[KEYSPACE],
        run: |session| Box::pin(keyspace(session, Method::Post, None)),
    },
    Entry {
        name: "migrate-to-tablets status",
        about: "Progress of the migration of a keyspace to tablets",
        options: &[],
        places: &[KEYSPACE],
        run: |session| Box::pin(status(session)),
    },
    Entry {
        name: "migrate-to-tablets upgrade",
        about: "Store migrating keyspaces with tablets on this node from its next start on",
        options: &[],
        places: &[],
        run: |session| Box::pin(mode(session, "tablets")),
    },
    Entry {
        name: "migrate-to-tablets downgrade",
        about: "Store migrating keyspaces without tablets on this node from its next start on",
        options: &[],
        places: &[],
        run: |session| Box::pin(mode(session, "vnodes")),
    },
    Entry {
        name: "migrate-to-tablets finalize",
        about: "Finalize the migration of a keyspace to tablets",
        options: &[],
        places: &[KEYSPACE],
        run: |session| Box::pin(keyspace(session, Method::Post, Some("finalization"))),
    },
];

const KEYSPACE: Place = one("keyspace", "The keyspace");
const PATH: &str = "/storage_service/vnode_tablet_migrations/keyspaces";
const MODE: &str = "/storage_service/vnode_tablet_migrations/node/storage_mode";

fn named(session: &Session) -> Result<String, Failure> {
    match session.given.text("keyspace") {
        Some(keyspace) => Ok(keyspace.to_string()),
        None => wrong("required parameter is missing: keyspace"),
    }
}

async fn keyspace(session: &mut Session, method: Method, part: Option<&str>) -> Done {
    let keyspace = named(session)?;
    let parts: Vec<&str> = [keyspace.as_str()].into_iter().chain(part).collect();
    session.ask(method, PATH, &parts, Vec::new(), None).await.map(drop)
}

async fn mode(session: &mut Session, mode: &str) -> Done {
    let parameters = vec![("intended_mode", mode.to_string())];
    session.ask(Method::Put, MODE, &[], parameters, None).await.map(drop)
}

async fn status(session: &mut Session) -> Done {
    let keyspace = named(session)?;
    let told = session.get_part(PATH, &keyspace).await?;
    session.say(&status_text(&told))
}

fn status_text(told: &Value) -> String {
    let mut text =
        format!("Keyspace: {}\nStatus: {}\n", plain(&told["keyspace"]), plain(&told["status"]));
    let rows: Vec<String> = list(&told["nodes"]).map(node_line).collect();
    if !rows.is_empty() {
        text += &format!("\nNodes:\n{:<39}Status\n{}", "Host ID", rows.concat());
    }
    text
}

fn node_line(node: &Value) -> String {
    let [host, now, then] =
        ["host_id", "current_mode", "intended_mode"].map(|name| plain(&node[name]));
    let status = if now == then { format!("uses {now}") } else { format!("migrating to {then}") };
    format!("{host:<39}{status}\n")
}
