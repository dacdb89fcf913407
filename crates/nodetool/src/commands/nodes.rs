//! Nodes that come and go, and what the cluster is.

use crate::answer::{list, pairs, plain, texts};
use crate::arguments::{Opt, any, one};
use crate::entry::Entry;
use crate::failure::{Done, wrong};
use crate::session::{Parameters, Session};
use http::Method;
use serde_json::Value;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "decommission",
        about: "Stream the data of this node to the others, and leave the cluster",
        options: &[Opt::flag("force", &["-f"], FORCE)],
        places: &[],
        run: |session| Box::pin(decommission(session)),
    },
    Entry {
        name: "removenode",
        about: "Remove a dead node, or show the progress of that",
        options: &[
            Opt::text(
                "ignore-dead-nodes",
                &[],
                "Host ids of other dead nodes, with commas between them",
            ),
            Opt::flag("force", &["-f"], FORCE),
        ],
        places: &[one("operation", "A host id, status or force")],
        run: |session| Box::pin(remove_node(session)),
    },
    Entry {
        name: "excludenode",
        about: "Mark dead nodes as permanently down: nothing waits for them",
        options: &[],
        places: &[any("node", "Host ids")],
        run: |session| Box::pin(exclude_node(session)),
    },
    Entry {
        name: "recover-majority",
        about: "When most nodes are lost for ever: tell what is left, or form the group anew of it",
        options: &[
            Opt::text("lost", &[], "Host ids of the lost nodes, with commas between them"),
            Opt::flag("execute", &[], "Do it; else it is only told what would be done"),
        ],
        places: &[],
        run: |session| Box::pin(recover_majority(session)),
    },
    Entry {
        name: "rebuild",
        about: "Stream the data of this node from other nodes",
        options: &[Opt::flag("force", &[], "Even where it may take rows from too few nodes")],
        places: &[one("source-dc", "The data center to fetch from")],
        run: |session| Box::pin(rebuild(session)),
    },
    plain_entry("checkAndRepairCdcStreams", "Check and repair the streams of CDC", |s| {
        Box::pin(post(s, "/storage_service/cdc_streams_check_and_repair"))
    }),
    plain_entry("resetlocalschema", "Reload the schema of this node", |s| {
        Box::pin(post(s, "/storage_service/relocal_schema"))
    }),
    plain_entry(
        "version",
        "The Cassandra release that drivers are told, and the version of Nereid",
        |s| Box::pin(version(s)),
    ),
    plain_entry("describecluster", "Name, partitioner and schema versions", |s| {
        Box::pin(describe_cluster(s))
    }),
    Entry {
        name: "viewbuildstatus",
        about: "Whether a materialized view is built",
        options: &[],
        places: &[any("name", "The keyspace and the view, or both with a dot between them")],
        run: |session| Box::pin(view_build_status(session)),
    },
    Entry {
        name: "verifyviews",
        about: "Compare views and indexes with their tables, as far as this node has these",
        options: &[Opt::flag(
            "mend",
            &[],
            "Write what is missing, delete what should not be there",
        )],
        places: &[
            one("keyspace", "The keyspace"),
            any("views", "Views, indexes, or their tables; all, where none is given"),
        ],
        run: |session| Box::pin(verify_views(session)),
    },
];

const FORCE: &str = "Even where keyspaces want more replicas than nodes are left";

type Run = for<'a> fn(&'a mut Session) -> crate::entry::Running<'a>;

const fn plain_entry(name: &'static str, about: &'static str, run: Run) -> Entry {
    Entry { name, about, options: &[], places: &[], run }
}

async fn post(session: &mut Session, path: &str) -> Done {
    session.post(path, Vec::new()).await.map(drop)
}

/// What is asked for with that option.
fn force(session: &Session) -> Parameters<'static> {
    let force = session.given.flag("force").then(|| ("force", "true".to_string()));
    force.into_iter().collect()
}

async fn decommission(session: &mut Session) -> Done {
    let parameters = force(session);
    session.post("/storage_service/decommission", parameters).await.map(drop)
}

async fn remove_node(session: &mut Session) -> Done {
    let Some(operation) = session.given.text("operation").map(str::to_string) else {
        return wrong(
            "required parameters are missing: remove_operation, pass one of (status, force or a \
             host id)",
        );
    };
    let ignored = session.given.text("ignore-dead-nodes").map(str::to_string);
    if operation == "status" || operation == "force" {
        if ignored.is_some() {
            return wrong("cannot use --ignore-dead-nodes with status or force");
        }
        let status = session.get("/storage_service/removal_status").await?;
        session.say(&format!("RemovalStatus: {}\n", plain(&status)))?;
        if operation == "force" {
            post(session, "/storage_service/force_remove_completion").await?;
        }
        return Ok(());
    }
    let mut parameters: Parameters<'_> = vec![("host_id", operation)];
    parameters.extend(ignored.map(|ignored| ("ignore_nodes", ignored)));
    parameters.extend(force(session));
    session.post("/storage_service/remove_node", parameters).await.map(drop)
}

async fn exclude_node(session: &mut Session) -> Done {
    let hosts = session.given.texts("node").join(",");
    if hosts.is_empty() {
        return wrong("required parameters are missing: host ids");
    }
    session.post("/storage_service/exclude_node", vec![("hosts", hosts)]).await.map(drop)
}

async fn recover_majority(session: &mut Session) -> Done {
    let executes = session.given.flag("execute");
    let mut parameters: Parameters<'_> = Vec::new();
    if executes {
        parameters.push(("execute", "true".to_string()));
    }
    parameters.extend(session.given.text("lost").map(|lost| ("lost", lost.to_string())));
    let report = session.post("/raft/recover_majority", parameters).await?;
    session.say(&recovery(&report, executes))?;
    match executes && !report["refused"].is_null() {
        true => Err(crate::failure::Failure::Code(1)),
        false => Ok(()),
    }
}

/// A report, as text.
fn recovery(report: &Value, executed: bool) -> String {
    let (group, generation) = (plain(&report["group"]), plain(&report["generation"]));
    let mut text = format!("Group {group}, generation {generation}\n\nNodes that answer:\n");
    for node in list(&report["survivors"]) {
        let [id, of, last_term, last, applied, term] =
            ["host_id", "generation", "last_term", "last_index", "applied", "term"]
                .map(|name| plain(&node[name]));
        let mark = if node["host_id"] == report["leader"] { "*" } else { " " };
        text += &format!(
            "{mark} {id}  generation {of}, last entry {last} of term {last_term}, applied \
             {applied}, term {term}"
        );
        text += match (&node["leader"], node["is_between"] == true) {
            (_, true) => ", between two generations\n",
            (Value::Null, _) => ", knows no leader\n",
            _ => ", knows a leader\n",
        };
    }
    for (name, what) in
        [("silent", "Nodes that do not answer, and are not said to be lost"), ("lost", "Lost")]
    {
        let ids = texts(&report[name]);
        if !ids.is_empty() {
            text += &format!("\n{what}:\n  {}\n", ids.join("\n  "));
        }
    }
    let (leader, needed) = (plain(&report["leader"]), plain(&report["needed"]));
    text += "\n";
    text += &match (&report["refused"], &report["done"]) {
        (Value::String(why), _) if executed => format!("Not done: {why}\n"),
        (Value::String(why), _) => format!("It would not be done: {why}\n"),
        (_, Value::String(done)) => format!("Done: {done}\n"),
        _ => format!(
            "Node {leader} (*) would begin the next generation; {needed} have to agree.\nChanges \
             that lost nodes alone have had may be gone.\nLost nodes can never come back as what \
             they were. To do it, name them: --execute --lost {}\n",
            texts(&report["lost"]).join(",")
        ),
    };
    text
}

async fn rebuild(session: &mut Session) -> Done {
    let mut parameters = Vec::new();
    if session.given.flag("force") {
        parameters.push(("force", "true".to_string()));
    }
    if let Some(source) = session.given.text("source-dc") {
        parameters.push(("source_dc", source.to_string()));
    }
    session.post("/storage_service/rebuild", parameters).await.map(drop)
}

async fn version(session: &mut Session) -> Done {
    let version = session.get("/storage_service/release_version").await?;
    let mut text = format!("ReleaseVersion: {}\n", plain(&version));
    // Nodes of others do not call themselves so.
    if let Some(own) = session.server.as_deref().and_then(|name| name.strip_prefix("Nereid/")) {
        text += &format!("NereidVersion: {own}\n");
    }
    session.say(&text)
}

async fn describe_cluster(session: &mut Session) -> Done {
    let name = session.get("/storage_service/cluster_name").await?;
    let snitch = session.get("/snitch/name").await?;
    let partitioner = session.get("/storage_service/partitioner_name").await?;
    let mut text = format!(
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: disabled\n\
         \tPartitioner: {}\n\tSchema versions:\n",
        plain(&name),
        plain(&snitch),
        plain(&partitioner)
    );
    let versions = session.get("/storage_proxy/schema_versions").await?;
    for (version, hosts) in pairs(&versions) {
        text += &format!("\t\t{version}: [{}]\n\n", texts(&hosts).join(", "));
    }
    session.say(&text)
}

async fn verify_views(session: &mut Session) -> Done {
    let names = session.given.texts("views");
    let Some(keyspace) = session.given.text("keyspace").map(str::to_owned) else {
        return wrong("verifyviews requires a keyspace");
    };
    let mut parameters = Vec::new();
    if !names.is_empty() {
        parameters.push(("views", names.join(",")));
    }
    let mends = session.given.flag("mend");
    if mends {
        parameters.push(("mend", "true".to_string()));
    }
    let path = "/storage_service/view_verification";
    let told = session.ask(Method::Post, path, &[&keyspace], parameters, None).await?;
    let mut differ = 0;
    for view in list(&told) {
        let count = |name: &str| view[name].as_u64().unwrap_or(0);
        let (missing, ghosts) = (count("rows_missing"), count("ghosts"));
        let (mended, unknown) = (count("mended"), count("unknown"));
        differ += missing + ghosts + unknown - mended.min(missing + ghosts);
        session.say(&format!(
            "{keyspace}.{}: {} rows of the table here, {missing} missing or different in the \
             view; {} rows of the view here, {ghosts} without a row of the table; {mended} mended, \
             {unknown} not looked at\n",
            plain(&view["view"]),
            count("rows_derived"),
            count("rows_seen"),
        ))?;
    }
    match differ {
        0 => Ok(()),
        _ => Err(crate::failure::Failure::Code(1)),
    }
}

async fn view_build_status(session: &mut Session) -> Done {
    let names = session.given.texts("name");
    let named = match names[..] {
        [both] => both.split_once(['.', '/']),
        [keyspace, view] => Some((keyspace, view)),
        _ => None,
    };
    let Some((keyspace, view)) = named.map(|(one, two)| (one.to_string(), two.to_string())) else {
        return wrong("viewbuildstatus requires keyspace and view name arguments");
    };
    let path = "/storage_service/view_build_statuses";
    let told = session.get_with(path, &[&keyspace, &view], Vec::new()).await?;
    let hosts = pairs(&told);
    if hosts.iter().all(|(_, state)| state == "SUCCESS") {
        return session.say(&format!("{keyspace}.{view} has finished building\n"));
    }
    let mut rows = vec![vec!["Host".to_string(), "Info".to_string()]];
    rows.extend(hosts.into_iter().map(|(host, state)| vec![host, plain(&state)]));
    session.say(&format!(
        "{keyspace}.{view} has not finished building; node status is below.\n\n{}",
        view_rows(&rows)
    ))?;
    Err(crate::failure::Failure::Code(1))
}

fn view_rows(rows: &[Vec<String>]) -> String {
    rows.iter().map(|row| format!("{:<9} {:<7}\n", row[0], row[1])).collect()
}
