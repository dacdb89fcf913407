//! The partitions that are read and written most.

use crate::answer::{list, plain};
use crate::arguments::{Opt, any};
use crate::entry::Entry;
use crate::failure::{Done, wrong};
use crate::session::Session;
use serde_json::Value;

pub(super) const COMMANDS: &[Entry] = &[Entry {
    name: "toppartitions",
    about: "Sample which partitions are read and written most",
    options: &[
        Opt::text("duration", &["-d"], "Milliseconds to watch [default: 5000]"),
        Opt::number("capacity", &["-s"], "Partitions to keep count of [default: 256]"),
        Opt::number("list-size", &["-k"], "Partitions to tell [default: 10]"),
        Opt::text("samplers", &["-a"], "READS, WRITES or both with a comma [default: both]"),
        Opt::text("ks-filters", &[], "Keyspaces, with commas between them"),
        Opt::text("cf-filters", &[], "Tables as keyspace:table, with commas between them"),
    ],
    places: &[any("what", "A keyspace, a table and milliseconds, as three arguments")],
    run: |session| Box::pin(top(session)),
}];

async fn top(session: &mut Session) -> Done {
    let given = &session.given;
    let (mut duration, mut tables) = (given.text("duration"), given.text("cf-filters"));
    let one;
    match given.texts("what")[..] {
        [] => {}
        [keyspace, table, millis] => {
            one = format!("{keyspace}:{table}");
            (duration, tables) = (Some(millis), Some(one.as_str()));
        }
        _ => {
            return wrong(
                "toppartitions requires either a keyspace, column family name and duration or no \
                 arguments at all",
            );
        }
    }
    let (capacity, shown) =
        (given.number("capacity").unwrap_or(256), given.number("list-size").unwrap_or(10));
    if capacity <= shown {
        return wrong("TopK count (-k) option must be smaller than the summary capacity (-s)");
    }
    let samplers: Vec<String> = given
        .text("samplers")
        .unwrap_or("WRITES,READS")
        .split(',')
        .map(|name| name.trim().to_lowercase())
        .collect();
    if let Some(other) = samplers.iter().find(|name| *name != "reads" && *name != "writes") {
        return wrong(format!("{other} is not a valid sampler, choose one of: READS, WRITES"));
    }
    let mut parameters = vec![("duration", duration.unwrap_or("5000").to_string())];
    parameters.push(("capacity", capacity.to_string()));
    parameters.push(("list_size", shown.to_string()));
    parameters.extend(tables.map(|tables| ("table_filters", tables.to_string())));
    parameters
        .extend(given.text("ks-filters").map(|names| ("keyspace_filters", names.to_string())));
    let told = session.get_with("/storage_service/toppartitions/", &[], parameters).await?;
    let parts = samplers.iter().map(|name| sampled(&told, name, capacity, shown));
    session.say(&parts.collect::<Vec<_>>().join("\n"))
}

fn sampled(told: &Value, sampler: &str, capacity: i64, shown: i64) -> String {
    let kind = sampler.trim_end_matches('s');
    let mut text = format!(
        "{} Sampler:\n  Cardinality: ~{} ({capacity} capacity)\n  Top {shown} partitions:\n",
        sampler.to_uppercase(),
        plain(&told[format!("{kind}_cardinality")])
    );
    let found: Vec<&Value> = list(&told[kind]).take(shown.max(0) as usize).collect();
    if found.is_empty() {
        return text + "\tNothing recorded during sampling period...\n";
    }
    let named: Vec<String> = found.iter().map(|one| plain(&one["partition"])).collect();
    let width = named.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(9);
    text += &format!("\t{:<width$}{:>10}{:>10}\n", "Partition", "Count", "+/-");
    for (name, one) in named.iter().zip(found) {
        let (count, error) = (plain(&one["count"]), plain(&one["error"]));
        text += &format!("\t{name:<width$}{count:>10}{error:>10}\n");
    }
    text
}
