//! Repair: of keyspaces without tablets, and of those with tablets by the cluster.

use super::tables::all_tables;
use super::tasks::wait_for;
use crate::answer::plain;
use crate::arguments::{KEYSPACE, Opt, TABLES};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::print::stamp;
use crate::session::{Parameters, Session};
use http::Method;
use runtime::time::{sleep, wall_micros};
use std::time::Duration;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "repair",
        about: "Repair keyspaces without tablets",
        options: OPTIONS,
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(repair(session)),
    },
    Entry {
        name: "cluster repair",
        about: "Repair keyspaces with tablets",
        options: &[
            CENTER,
            HOSTS,
            Opt::texts("tablet-tokens", &[], "Only tablets that own these tokens, with commas"),
            Opt::text("incremental-mode", &[], "disabled, incremental or full"),
        ],
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(cluster_repair(session)),
    },
];

const CENTER: Opt = Opt::texts("in-dc", &["-dc"], "Only replicas of this data center");
const HOSTS: Opt = Opt::texts("in-hosts", &["-hosts"], "Only replicas on this node");

const OPTIONS: &[Opt] = &[
    CENTER,
    HOSTS,
    Opt::flag("in-local-dc", &["-local"], "Only replicas of the node's own data center"),
    Opt::flag("partitioner-range", &["-pr"], "Only ranges whose first replica is this node"),
    Opt::flag("sequential", &["-seq"], "One replica after the other"),
    Opt::flag("dc-parallel", &["-dcpar"], "One data center after the other"),
    Opt::text("start-token", &["-st"], "Where the range begins"),
    Opt::text("end-token", &["-et"], "Where the range ends"),
    Opt::flag("pull", &["-pl"], "Only fetch rows, give none"),
    Opt::flag("trace", &["-tr"], "Trace the repair"),
    Opt::flag("full", &["-full"], "Read also what is known to agree"),
    Opt::flag("ignore-unreplicated-keyspaces", &["-iuk"], "Pass over keyspaces of one replica"),
    Opt::text("job-threads", &["-j"], "Tables at the same time [default: 1]"),
];

/// From one look at a repair to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);

fn now() -> String {
    format!("[{}]", stamp(wall_micros() / 1000))
}

fn of_kind(kind: Option<&str>, replication: &str) -> Parameters<'static> {
    let kind = kind.map(|kind| ("type", kind.to_string()));
    kind.into_iter().chain([("replication", replication.to_string())]).collect()
}

async fn repair(session: &mut Session) -> Done {
    let (keyspaces, tables) = match session.target().await? {
        Some((keyspace, tables)) => {
            if session.keyspaces(of_kind(None, "tablets")).await?.contains(&keyspace) {
                return wrong(
                    "nodetool repair repairs only vnode keyspaces! To repair tablet keyspaces use \
                     nodetool cluster repair.",
                );
            }
            (vec![keyspace], tables)
        }
        None => {
            let other = Some("non_local_strategy");
            let found = session.keyspaces(of_kind(other, "vnodes")).await?;
            if !session.keyspaces(of_kind(other, "tablets")).await?.is_empty() {
                // The first line of progress follows on the same line: scripts read lines that
                // begin a repair.
                session.say(
                    "WARNING: Do not use nodetool repair for tablet keyspaces! To repair tablet \
                     keyspaces use nodetool cluster repair. ",
                )?;
            }
            (found, Vec::new())
        }
    };
    let mut parameters = crate::session::of_tables("columnFamilies", &tables);
    parameters.extend(chosen(session).await?);
    for keyspace in keyspaces {
        one_keyspace(session, &keyspace, parameters.clone()).await?;
    }
    Ok(())
}

async fn chosen(session: &mut Session) -> Result<Parameters<'static>, Failure> {
    let given = &session.given;
    let truth = |name: &str| given.flag(name).to_string();
    let mut parameters = vec![
        ("trace", truth("trace")),
        ("ignoreUnreplicatedKeyspaces", truth("ignore-unreplicated-keyspaces")),
        ("incremental", "false".to_string()),
        ("pullRepair", truth("pull")),
        ("primaryRange", truth("partitioner-range")),
        ("jobThreads", given.text("job-threads").unwrap_or("1").to_string()),
    ];
    let parallelism = match (given.flag("sequential"), given.flag("dc-parallel")) {
        (true, _) => "sequential",
        (false, true) => "dc_parallel",
        (false, false) => "parallel",
    };
    parameters.push(("parallelism", parallelism.to_string()));
    let (hosts, centers) = (given.texts("in-hosts").join(","), given.texts("in-dc").join(","));
    let is_local = given.flag("in-local-dc");
    let is_part = is_local || !hosts.is_empty() || !centers.is_empty();
    if given.flag("partitioner-range") && is_part {
        return wrong("primary range repair should be performed on all nodes in the cluster");
    }
    // Elsewhere every repair is one.
    if given.flag("full") && session.is_own() {
        parameters.push(("full", truth("full")));
    }
    if !hosts.is_empty() {
        parameters.push(("hosts", hosts));
    }
    let (start, end) = (given.text("start-token"), given.text("end-token"));
    if start.is_some() || end.is_some() {
        let range = format!("{}:{}", start.unwrap_or_default(), end.unwrap_or_default());
        parameters.push(("ranges", range));
    }
    if is_local {
        let center = plain(&session.get("/snitch/datacenter").await?);
        parameters.push(("dataCenters", center));
    } else if !centers.is_empty() {
        parameters.push(("dataCenters", centers));
    }
    Ok(parameters)
}

async fn one_keyspace(
    session: &mut Session,
    keyspace: &str,
    parameters: Parameters<'static>,
) -> Done {
    let path = "/storage_service/repair_async";
    let begun = session.ask(Method::Post, path, &[keyspace], parameters, None).await?;
    let id = plain(&begun);
    session.say(&format!(
        "{0} Starting repair command #{id}, repairing 1 ranges for keyspace {keyspace} \
         (parallelism=SEQUENTIAL, full=true)\n{0} Repair session {id}\n",
        now()
    ))?;
    loop {
        let status = session.get_with(path, &[keyspace], vec![("id", id.clone())]).await?;
        match plain(&status).as_str() {
            "SUCCESSFUL" => {
                return session.say(&format!("{} Repair session {id} finished\n", now()));
            }
            "RUNNING" => sleep(LOOK_EVERY).await,
            _ => {
                let text = format!("{} Repair session {id} failed", now());
                return Err(Failure::Operation(text));
            }
        }
    }
}

async fn cluster_repair(session: &mut Session) -> Done {
    let is_named = !session.given.texts("table").is_empty();
    let names = match session.target().await? {
        Some((keyspace, tables)) => {
            if !session.keyspaces(of_kind(None, "tablets")).await?.contains(&keyspace) {
                return wrong(
                    "nodetool cluster repair repairs only tablet keyspaces. To repair vnode \
                     keyspaces use nodetool repair.",
                );
            }
            match is_named {
                true => tables.into_iter().map(|table| (keyspace.clone(), table)).collect(),
                false => of_keyspaces(session, &[keyspace]).await?,
            }
        }
        None => {
            let other = Some("non_local_strategy");
            let found = session.keyspaces(of_kind(other, "tablets")).await?;
            if !session.keyspaces(of_kind(other, "vnodes")).await?.is_empty() {
                session.say("Warning: only tablet keyspaces will be repaired. ")?;
            }
            of_keyspaces(session, &found).await?
        }
    };
    let mut refused = None;
    for (keyspace, table) in names {
        match one_table(session, &keyspace, &table).await {
            // Dropped meanwhile, or repaired with its base.
            Err(failure) if failure.status() == Some(400) => {
                if is_named {
                    refused = refused.or(Some(failure));
                }
            }
            ended => ended?,
        }
    }
    refused.map_or(Ok(()), Err)
}

async fn of_keyspaces(
    session: &mut Session,
    keyspaces: &[String],
) -> Result<Vec<(String, String)>, Failure> {
    let all = all_tables(session).await?;
    Ok(all.into_iter().filter(|(keyspace, _)| keyspaces.contains(keyspace)).collect())
}

async fn one_table(session: &mut Session, keyspace: &str, table: &str) -> Done {
    let given = &session.given;
    let listed = |name: &str| Some(given.texts(name).join(",")).filter(|text| !text.is_empty());
    let mut parameters = vec![("ks", keyspace.to_string()), ("table", table.to_string())];
    parameters.push(("tokens", listed("tablet-tokens").unwrap_or("all".to_string())));
    parameters.extend(listed("in-hosts").map(|hosts| ("hosts_filter", hosts)));
    parameters.extend(listed("in-dc").map(|centers| ("dcs_filter", centers)));
    parameters
        .extend(given.text("incremental-mode").map(|mode| ("incremental_mode", mode.to_string())));
    let begun = session.post("/storage_service/tablets/repair", parameters).await?;
    let id = plain(&begun["tablet_task_id"]);
    session.say(&format!(
        "{} Starting repair with task_id={id} keyspace={keyspace} table={table}\n",
        now()
    ))?;
    let ended = wait_for(session, &id).await?;
    if plain(&ended["state"]) == "done" {
        return session.say(&format!("{} Repair with task_id={id} finished\n", now()));
    }
    let why = plain(&ended["error"]);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    Err(Failure::Operation(format!("{} Repair with task_id={id} failed{why}", now())))
}
