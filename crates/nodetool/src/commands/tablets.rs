//! Keyspaces that get tablets.

use crate::answer::{list, plain};
use crate::arguments::{Opt, Place, one};
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
        options: &[WITH_TABLETS],
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
const WITH_TABLETS: Opt = Opt::flag(
    "with-tablet-status",
    &[],
    "Also how far its tables are on their way to a power of two of tablets",
);
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
    let with_tablets = session.given.flag("with-tablet-status");
    let parameters = with_tablets.then(|| ("include", "tablet_status".to_string()));
    let parameters = parameters.into_iter().collect();
    let told = session.get_with(PATH, &[&keyspace], parameters).await?;
    session.say(&(status_text(&told) + &tablets_text(&told["tablets"]["pow2_convergence"])))
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

/// How far tables are on their way to a power of two of tablets; nothing where that is not told.
fn tablets_text(told: &Value) -> String {
    if told.is_null() {
        return String::new();
    }
    let status = plain(&told["status"]).replace('_', " ");
    let [converging, total] = ["tables_converging", "tables_total"].map(|it| plain(&told[it]));
    let names = list(&told["tables"]).map(|table| plain(&table["table"]).len());
    let width = names.max().unwrap_or(0).max("Table".len()) + 3;
    let lines: Vec<String> = list(&told["tables"]).map(|table| table_line(table, width)).collect();
    format!(
        "\nTablet info:\n  Pow2 tablet layout convergence: {status}\n  Tables converging: \
         {converging}/{total}\n\n{:<width$}Status       Tablets   Target\n{}",
        "Table",
        lines.concat()
    )
}

fn table_line(table: &Value, width: usize) -> String {
    let converges = table["converging"] == Value::Bool(true);
    let status = if converges { "converging" } else { "converged" };
    let target = plain(&table["target_pow2_tablet_count"]);
    let target = if converges { target } else { "-".to_string() };
    let (name, count) = (plain(&table["table"]), plain(&table["current_tablet_count"]));
    format!("{name:<width$}{status:<13}{count:<10}{target}\n")
}

fn node_line(node: &Value) -> String {
    let [host, now, then] =
        ["host_id", "current_mode", "intended_mode"].map(|name| plain(&node[name]));
    let status = if now == then { format!("uses {now}") } else { format!("migrating to {then}") };
    format!("{host:<39}{status}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_and_tables_are_told() {
        let told = json!({
            "keyspace": "ks",
            "status": "migrating_to_tablets",
            "nodes": [
                { "host_id": "a", "current_mode": "vnodes", "intended_mode": "vnodes" },
                { "host_id": "b", "current_mode": "vnodes", "intended_mode": "tablets" },
                { "host_id": "c", "current_mode": "tablets", "intended_mode": "tablets" },
            ],
        });
        let line = |host, status| format!("{host:<39}{status}\n");
        let lines = [
            line("Host ID", "Status"),
            line("a", "uses vnodes"),
            line("b", "migrating to tablets"),
            line("c", "uses tablets"),
        ];
        let head = "Keyspace: ks\nStatus: migrating_to_tablets\n\nNodes:\n";
        assert_eq!(status_text(&told), head.to_string() + &lines.concat());
        assert_eq!(tablets_text(&told["tablets"]["pow2_convergence"]), "");
        let table = |name, target| {
            json!({
                "table": name, "converging": target != 0,
                "current_tablet_count": 33, "target_pow2_tablet_count": target,
            })
        };
        let told = json!({
            "status": "in_progress", "tables_total": 2, "tables_converging": 1,
            "tables": [table("t1", 32), table("t2", 0)],
        });
        let text = "\nTablet info:\n  Pow2 tablet layout convergence: in progress\n  Tables \
                    converging: 1/2\n\nTable   Status       Tablets   Target\nt1      converging   \
                    33        32\nt2      converged    33        -\n";
        assert_eq!(tablets_text(&told), text);
    }
}
