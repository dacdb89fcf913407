//! The SSTables of tables.

use super::tables::all_tables;
use crate::answer::{list, plain, texts};
use crate::arguments::{Opt, any, one};
use crate::entry::Entry;
use crate::failure::{Done, wrong};
use crate::session::Session;
use serde_json::Value;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "getsstables",
        about: "The SSTables that may contain a partition",
        options: &[Opt::flag("hex-format", &["-hf"], "The key is in hexadecimal digits")],
        places: &[
            one("keyspace", "The keyspace"),
            one("table", "The table"),
            one("key", "The key; columns with colons between them"),
        ],
        run: |session| Box::pin(sstables_of_key(session)),
    },
    Entry {
        name: "sstableinfo",
        about: "Sizes, levels and properties of SSTables",
        options: &[],
        places: &[
            one("keyspace", "The keyspace; all, where none is given"),
            any("table", "Tables"),
        ],
        run: |session| Box::pin(info(session)),
    },
];

async fn sstables_of_key(session: &mut Session) -> Done {
    let given = &session.given;
    let (Some(keyspace), Some(table), Some(key)) =
        (given.text("keyspace"), given.text("table"), given.text("key"))
    else {
        return wrong("required parameters are missing: keyspace, table and key");
    };
    let (keyspace, table) = (keyspace.to_string(), table.to_string());
    let mut parameters = vec![("key", key.to_string())];
    if given.flag("hex-format") {
        parameters.push(("format", "hex".to_string()));
    }
    let known = all_tables(session).await?;
    if !known.iter().any(|(name, _)| *name == keyspace) {
        return wrong(format!("unknown keyspace: {keyspace}"));
    }
    if !known.iter().any(|(one, two)| *one == keyspace && *two == table) {
        return wrong(format!("unknown table: {table}"));
    }
    let path = "/column_family/sstables/by_key";
    let files = session.get_with(path, &[&format!("{keyspace}:{table}")], parameters).await?;
    session.say(&texts(&files).iter().map(|file| format!("{file}\n")).collect::<String>())
}

async fn info(session: &mut Session) -> Done {
    let keyspace = session.given.text("keyspace").map(|name| ("keyspace", name.to_string()));
    let tables: Vec<String> =
        session.given.texts("table").into_iter().map(str::to_string).collect();
    let mut requests: Vec<Vec<(&str, String)>> = Vec::new();
    for table in &tables {
        requests.push(keyspace.iter().cloned().chain([("cf", table.clone())]).collect());
    }
    if requests.is_empty() {
        requests.push(keyspace.into_iter().collect());
    }
    let mut text = "\n".to_string();
    for parameters in requests {
        let told = session.get_with("/storage_service/sstable_info", &[], parameters).await?;
        for table in list(&told) {
            text += &table_text(table);
        }
    }
    session.say(&text)
}

fn line(depth: usize, name: &str, value: &str) -> String {
    let width = 8 + depth * 4;
    format!("{name:>width$} : {value}").trim_end().to_string() + "\n"
}

fn table_text(table: &Value) -> String {
    let mut text = line(0, "keyspace", &plain(&table["keyspace"]));
    text += &line(0, "table", &plain(&table["table"]));
    if table["sstables"].is_array() {
        text += &line(0, "sstables", "");
    }
    for (index, sstable) in list(&table["sstables"]).enumerate() {
        text += &line(0, &index.to_string(), "");
        for name in
            ["data_size", "filter_size", "index_size", "level", "size", "generation", "version"]
        {
            text += &line(2, &name.replace('_', " "), &plain(&sstable[name]));
        }
        text += &line(2, "timestamp", &plain(&sstable["timestamp"]));
        if sstable["properties"].is_array() {
            text += &line(2, "properties", "");
            text += &attributes(&sstable["properties"]);
        }
        if sstable["extended_properties"].is_array() {
            text += &line(2, "extended properties", "");
        }
        for group in list(&sstable["extended_properties"]) {
            text += &line(4, &plain(&group["group"]), "");
            text += &attributes(&group["attributes"]);
        }
    }
    text
}

fn attributes(list_of: &Value) -> String {
    let one = |pair: &Value| line(5, &plain(&pair["key"]), &plain(&pair["value"]));
    list(list_of).map(one).collect()
}
