//! Who is in the cluster and how it does.

use crate::answer::{pairs, plain, texts};
use crate::arguments::{Opt, one};
use crate::entry::Entry;
use crate::failure::{Done, Failure};
use crate::print::{left, size};
use crate::session::Session;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) const COMMANDS: &[Entry] = &[Entry {
    name: "status",
    about: "The nodes of the cluster: state, load and ownership",
    options: &[Opt::flag("resolve-ip", &["-r"], "Names of nodes, not addresses")],
    places: &[
        one("keyspace", "Who owns what of this keyspace"),
        one("table", "And of this table; needed where the keyspace has tablets"),
    ],
    run: |session| Box::pin(status(session)),
}];

/// Where nodes stand.
pub(super) struct Members {
    joining: Vec<String>,
    leaving: Vec<String>,
    moving: Vec<String>,
    live: Vec<String>,
    down: Vec<String>,
    loads: Vec<(String, Value)>,
}

impl Members {
    pub(super) async fn ask(session: &mut Session) -> Result<Members, Failure> {
        Ok(Members {
            joining: texts(&session.get("/storage_service/nodes/joining").await?),
            leaving: texts(&session.get("/storage_service/nodes/leaving").await?),
            moving: texts(&session.get("/storage_service/nodes/moving").await?),
            loads: pairs(&session.get("/storage_service/load_map").await?),
            live: texts(&session.get("/gossiper/endpoint/live").await?),
            down: texts(&session.get("/gossiper/endpoint/down").await?),
        })
    }

    /// Tokens and their nodes, of a table that has its own.
    pub(super) async fn tokens(
        &self,
        session: &mut Session,
        table: Option<(&str, &str)>,
    ) -> Result<Vec<(String, String)>, Failure> {
        let parameters = table.map(|(keyspace, table)| {
            vec![("keyspace", keyspace.to_string()), ("cf", table.to_string())]
        });
        let path = "/storage_service/tokens_endpoint";
        let told = session.get_with(path, &[], parameters.unwrap_or_default()).await?;
        Ok(pairs(&told).into_iter().map(|(token, node)| (token, plain(&node))).collect())
    }

    pub(super) fn load(&self, node: &str) -> Option<f64> {
        self.loads.iter().find(|(name, _)| name == node)?.1.as_f64()
    }

    pub(super) fn status_word(&self, node: &str) -> &'static str {
        match () {
            () if has(&self.live, node) => "Up",
            () if has(&self.down, node) => "Down",
            () => "?",
        }
    }

    pub(super) fn state_word(&self, node: &str) -> &'static str {
        match () {
            () if has(&self.joining, node) => "Joining",
            () if has(&self.leaving, node) => "Leaving",
            () if has(&self.moving, node) => "Moving",
            () => "Normal",
        }
    }

    /// All that somebody names.
    fn names(&self) -> impl Iterator<Item = &String> {
        let lists = [&self.joining, &self.leaving, &self.moving, &self.live, &self.down];
        lists.into_iter().flatten().chain(self.loads.iter().map(|(node, _)| node))
    }
}

fn has(list: &[String], node: &str) -> bool {
    list.iter().any(|name| name == node)
}

/// The share of each node in a keyspace, from 0 to 1.
pub(super) async fn ownership(
    session: &mut Session,
    keyspace: &str,
    table: Option<&str>,
) -> Result<BTreeMap<String, f64>, Failure> {
    let parameters = table.map(|table| ("cf", table.to_string())).into_iter().collect();
    let told = session.get_with("/storage_service/ownership", &[keyspace], parameters).await?;
    let share = |value: &Value| plain(value).parse().unwrap_or(0.0);
    Ok(pairs(&told).into_iter().map(|(node, value)| (node, share(&value))).collect())
}

/// The data center and the rack of a node.
pub(super) async fn place(session: &mut Session, node: &str) -> Result<(String, String), Failure> {
    let host = || vec![("host", node.to_string())];
    let center = session.get_with("/snitch/datacenter", &[], host()).await?;
    let rack = session.get_with("/snitch/rack", &[], host()).await?;
    Ok((plain(&center), plain(&rack)))
}

/// The name of an address, where it has one.
pub(super) fn resolved(address: &str) -> String {
    let parsed = address.parse::<IpAddr>().ok();
    let name = parsed.and_then(|parsed| dns_lookup::lookup_addr(&parsed).ok());
    name.unwrap_or_else(|| address.to_string())
}

async fn status(session: &mut Session) -> Done {
    let keyspace = session.given.text("keyspace").map(str::to_string);
    let table = session.given.text("table").map(str::to_string);
    let has_tablets = match &keyspace {
        None => false,
        Some(keyspace) => {
            let tablets = vec![("replication", "tablets".to_string())];
            session.keyspaces(tablets).await?.contains(keyspace)
        }
    };
    let members = Members::ask(session).await?;
    let excluded = texts(&session.get("/storage_service/nodes/excluded").await?);
    let of_table = keyspace.as_deref().zip(table.as_deref()).filter(|_| has_tablets);
    let tokens = members.tokens(session, of_table).await?;
    let hosts = pairs(&session.get("/storage_service/host_id").await?);
    let owned = match &keyspace {
        Some(keyspace) if table.is_some() || !has_tablets => {
            Some(ownership(session, keyspace, table.as_deref()).await?)
        }
        _ => None,
    };
    let is_resolved = session.given.flag("resolve-ip");
    let knows_tokens = !has_tablets || table.is_some();
    let mut nodes: Vec<String> = members.names().cloned().collect();
    nodes.extend(hosts.iter().map(|(node, _)| node.clone()));
    nodes.extend(tokens.iter().map(|(_, node)| node.clone()));
    nodes.sort_by_key(|node| (node.parse::<IpAddr>().ok(), node.clone()));
    nodes.dedup();
    let mut centers: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for node in nodes {
        let (center, rack) = place(session, &node).await?;
        let host = hosts.iter().find(|(name, _)| *name == node).map(|(_, host)| plain(host));
        let is_excluded = host.as_ref().is_some_and(|host| excluded.contains(host));
        let status = if is_excluded { "X" } else { &members.status_word(&node)[..1] };
        let count = tokens.iter().filter(|(_, name)| *name == node).count();
        let share = owned.as_ref().map(|owned| owned.get(&node).copied().unwrap_or(0.0) * 100.0);
        let unknown = || "?".to_string();
        centers.entry(center).or_default().push(vec![
            format!("{status}{}", &members.state_word(&node)[..1]),
            if is_resolved { resolved(&node) } else { node.clone() },
            members.load(&node).map_or_else(unknown, size),
            if knows_tokens { count.to_string() } else { unknown() },
            share.map_or_else(unknown, |share| format!("{share:.1}%")),
            host.unwrap_or_else(unknown),
            rack,
        ]);
    }
    session.say(&(drawn(centers, keyspace.is_some()) + &session.notice()))
}

fn drawn(centers: BTreeMap<String, Vec<Vec<String>>>, has_keyspace: bool) -> String {
    let owns = if has_keyspace { "Owns (effective)" } else { "Owns" };
    let head = ["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"];
    let mut text = String::new();
    for (center, rows) in centers {
        let title = format!("Datacenter: {center}");
        let line = "=".repeat(title.len());
        text += &format!(
            "{title}\n{line}\nStatus=Up/Down/eXcluded\n|/ State=Normal/Leaving/Joining/Moving\n"
        );
        let mut all = vec![head.map(str::to_string).to_vec()];
        all.extend(rows);
        text += &left(&all);
    }
    text.push('\n');
    if !has_keyspace {
        text += "Note: Non-system keyspaces don't have the same replication settings, effective \
                 ownership information is meaningless\n";
    }
    text
}
