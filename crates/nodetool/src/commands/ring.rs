//! The ring of tokens, and who owns a key.

use super::status::{Members, ownership, resolved};
use crate::answer::{list, plain, texts};
use crate::arguments::{Opt, any, one};
use crate::entry::Entry;
use crate::failure::{Done, wrong};
use crate::print::size;
use crate::session::Session;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "ring",
        about: "All tokens of all nodes",
        options: &[Opt::flag("resolve-ip", &["-r"], "Names of nodes, not addresses")],
        places: &[
            one("keyspace", "Who owns what of this keyspace"),
            one("table", "And of this table; needed where the keyspace has tablets"),
        ],
        run: |session| Box::pin(ring(session)),
    },
    Entry {
        name: "describering",
        about: "Token ranges of a keyspace and the nodes that own them",
        options: &[],
        places: &[
            one("keyspace", "The keyspace"),
            one("table", "The table; needed where the keyspace has tablets"),
        ],
        run: |session| Box::pin(describe_ring(session)),
    },
    Entry {
        name: "getendpoints",
        about: "The nodes that own a partition",
        options: &[Opt::texts(
            "key-components",
            &[],
            "A column of the partition key; for every column, in their order",
        )],
        places: &[
            one("keyspace", "The keyspace"),
            one("table", "The table"),
            any("key", "The key; columns with colons between them"),
        ],
        run: |session| Box::pin(endpoints(session)),
    },
];

const MEANINGLESS: &str = "Note: Non-system keyspaces don't have the same replication settings, \
                           effective ownership information is meaningless\n";

async fn ring(session: &mut Session) -> Done {
    let keyspace = session.given.text("keyspace").map(str::to_string);
    let table = session.given.text("table").map(str::to_string);
    if let (Some(keyspace), None) = (&keyspace, &table) {
        let tablets = vec![("replication", "tablets".to_string())];
        if session.keyspaces(tablets).await?.contains(keyspace) {
            return wrong("need a table to obtain ring for tablet keyspace");
        }
    }
    let members = Members::ask(session).await?;
    let tokens = members.tokens(session, keyspace.as_deref().zip(table.as_deref())).await?;
    let owned = match &keyspace {
        None => None,
        Some(keyspace) => Some(ownership(session, keyspace, table.as_deref()).await?),
    };
    let is_resolved = session.given.flag("resolve-ip");
    let mut text = String::new();
    for (center, rows) in by_center(session, &tokens).await? {
        let named = |address: &str| if is_resolved { resolved(address) } else { address.into() };
        let width = rows.iter().map(|(_, node, _)| named(node).len()).max().unwrap_or(0);
        let line = |address: &str, rest: [&str; 6]| {
            let [rack, status, state, load, owns, token] = rest;
            let head = format!("{address:<width$}  {rack:<12}{status:<7}{state:<8}");
            format!("{head}{load:<16}{owns:<20}{token:<44}\n")
        };
        text += &format!("\nDatacenter: {center}\n==========\n");
        text += &line("Address", ["Rack", "Status", "State", "Load", "Owns", "Token"]);
        let last = rows.last().map_or("", |(token, _, _)| token.as_str());
        text += &line("", ["", "", "", "", "", last]);
        for (token, node, rack) in &rows {
            let load = members.load(node).map_or("?".to_string(), size);
            let share = owned.as_ref().map(|owned| owned.get(node).copied().unwrap_or(0.0));
            let owns = share.map_or("?".to_string(), |share| format!("{:.2}%", share * 100.0));
            let (status, state) = (members.status_word(node), members.state_word(node));
            text += &line(&named(node), [rack, status, state, &load, &owns, token]);
        }
        text.push('\n');
    }
    let mut seen = Vec::new();
    if tokens.iter().any(|(_, node)| seen.contains(&node) || (seen.push(node), false).1) {
        text += "  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n  \
                 To view status related info of a node use \"nodetool status\" instead.\n\n\n";
    }
    text += "  ";
    if keyspace.is_none() {
        text += MEANINGLESS;
    }
    session.say(&text)
}

type Row = (String, String, String);

/// Token, node and rack of each data center.
async fn by_center(
    session: &mut Session,
    tokens: &[(String, String)],
) -> Result<Vec<(String, Vec<Row>)>, crate::failure::Failure> {
    let mut known: Vec<(String, String, String)> = Vec::new();
    let mut centers: Vec<(String, Vec<Row>)> = Vec::new();
    for (token, node) in tokens {
        if !known.iter().any(|(name, _, _)| name == node) {
            let place = super::status::place(session, node).await?;
            known.push((node.clone(), place.0, place.1));
        }
        let found = known.iter().find(|(name, _, _)| name == node);
        let (_, center, rack) = found.expect("it is known now");
        let row = (token.clone(), node.clone(), rack.clone());
        match centers.iter_mut().find(|(name, _)| name == center) {
            Some((_, rows)) => rows.push(row),
            None => centers.push((center.clone(), vec![row])),
        }
    }
    centers.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(centers)
}

async fn describe_ring(session: &mut Session) -> Done {
    let Some(keyspace) = session.given.text("keyspace").map(str::to_string) else {
        return wrong("required parameter is missing: keyspace");
    };
    let table = session.given.text("table").map(|table| ("table", table.to_string()));
    let version = session.get("/storage_service/schema_version").await?;
    let parameters = table.into_iter().collect();
    let ring = session.get_with("/storage_service/describe_ring", &[&keyspace], parameters).await?;
    let mut text = format!("Schema Version:{}\nTokenRange: \n", plain(&version));
    for range in list(&ring) {
        let details = list(&range["endpoint_details"]).map(|node| {
            format!(
                "EndpointDetails(host:{}, datacenter:{}, rack:{})",
                plain(&node["host"]),
                plain(&node["datacenter"]),
                plain(&node["rack"])
            )
        });
        text += &format!(
            "\tTokenRange(start_token:{}, end_token:{}, endpoints:[{}], rpc_endpoints:[{}], \
             endpoint_details:[{}])\n",
            plain(&range["start_token"]),
            plain(&range["end_token"]),
            texts(&range["endpoints"]).join(", "),
            texts(&range["rpc_endpoints"]).join(", "),
            details.collect::<Vec<_>>().join(", ")
        );
    }
    session.say(&text)
}

async fn endpoints(session: &mut Session) -> Done {
    let given = &session.given;
    let (Some(keyspace), Some(table)) = (given.text("keyspace"), given.text("table")) else {
        return wrong("getendpoints requires keyspace, table and partition key arguments");
    };
    let (keyspace, table) = (keyspace.to_string(), table.to_string());
    let components = given.texts("key-components");
    let keys = given.texts("key");
    let mut parameters = vec![("cf", table)];
    let path = match (&components[..], &keys[..]) {
        ([], [key]) => {
            parameters.push(("key", key.to_string()));
            "/storage_service/natural_endpoints"
        }
        ([_, ..], []) => {
            parameters.extend(components.iter().map(|part| ("key_component", part.to_string())));
            "/storage_service/natural_endpoints/v2"
        }
        _ => return wrong("getendpoints requires keyspace, table and partition key arguments"),
    };
    let nodes = session.get_with(path, &[&keyspace], parameters).await?;
    session.say(&texts(&nodes).iter().map(|node| format!("{node}\n")).collect::<String>())
}
