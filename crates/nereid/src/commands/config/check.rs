//! `nereid config check`: what is wrong with options, before a node says so.

use super::Read;
use options::terminal;
use options::{Note, OptionRow, Source, Values, contradictions, parse_bytes, rows};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use tools::host::{Facts, facts};

/// Addresses that a node listens on.
const ADDRESSES: [&str; 4] = ["listen_address", "rpc_address", "api_address", "prometheus_address"];

/// Runs the operation.
pub(super) fn main(read: &Read) -> ExitCode {
    let faults = match read.faults.is_empty() {
        true => faults(&read.values),
        false => read.faults.clone(),
    };
    let mut warnings = read.warnings.clone();
    if read.faults.is_empty() {
        warnings.extend(idle(&read.values));
        let addresses = ADDRESSES.iter().filter_map(|name| read.values.text(name).parse().ok());
        let addresses: Vec<IpAddr> = addresses.collect();
        let facts = facts(Path::new(read.values.text("workdir")), &addresses, &[]);
        warnings.extend(suspicions(&read.values, &facts));
    }
    terminal::show(&report(read, &faults, &warnings));
    ExitCode::from(u8::from(!faults.is_empty()))
}

fn report(read: &Read, faults: &[Note], warnings: &[Note]) -> String {
    let mut out = String::new();
    for (kind, notes) in [("error", faults), ("warning", warnings)] {
        let mut notes: Vec<&Note> = notes.iter().collect();
        notes.sort_by_key(|note| note.at);
        for note in notes {
            let Note { at, text } = note.clone();
            let line = match at {
                Some(_) => read.line(&Note { at, text: format!("{kind}: {text}") }),
                None => format!("{kind}: {text}"),
            };
            out.push_str(&line);
            out.push('\n');
        }
    }
    let counts = [(faults.len(), "error"), (warnings.len(), "warning")];
    let counts = counts.map(|(count, what)| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    });
    out.push_str(&format!("{}\n", counts.join(", ")));
    out
}

/// Whatever a node would refuse to start with.
fn faults(values: &Values) -> Vec<Note> {
    let mut texts: Vec<String> = contradictions(values).iter().map(ToString::to_string).collect();
    for text in server::refusals(values) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.into_iter().map(|text| placed(values, text)).collect()
}

/// With the place of the option that the text begins with.
fn placed(values: &Values, text: String) -> Note {
    let named = text.strip_prefix("option ").and_then(|rest| rest.split([':', ' ']).next());
    let known = named.and_then(OptionRow::of);
    Note { at: known.and_then(|row| values.place(row.name)), text }
}

fn note(values: &Values, name: &str, text: &str) -> Note {
    Note { at: values.place(name), text: format!("option {name}: {text}") }
}

/// Options that were given and that nothing depends on.
fn idle(values: &Values) -> Vec<Note> {
    let given = rows().filter(|row| row.is_idle && values.source(row.name) != Source::Default);
    given.map(|row| note(values, row.name, "no effect in this version")).collect()
}

/// What a node would start with, and is seldom meant.
fn suspicions(values: &Values, facts: &Facts) -> Vec<Note> {
    let mut found = Vec::new();
    let mut warn = |name: &str, text: String| found.push(note(values, name, &text));
    if ["tmpfs", "ramfs"].contains(&facts.file_system.as_str()) {
        let text = format!("{} is in memory: data is lost when the machine stops", facts.folder);
        warn("workdir", text);
    }
    if ["nfs", "nfs4", "cifs", "fuse"].contains(&facts.file_system.as_str()) {
        warn("workdir", format!("{} is on {}, not a local disk", facts.folder, facts.file_system));
    }
    if let Some(bytes) = parse_bytes(values.text("memory"))
        && 0 < facts.memory_bytes
        && facts.memory_bytes < bytes
    {
        let has = facts.memory_bytes >> 20;
        warn("memory", format!("{} MiB, but the machine has {has}", bytes >> 20));
    }
    if 0 < facts.cores && facts.cores < values.integer("smp") as u64 {
        let (smp, cores) = (values.integer("smp"), facts.cores);
        warn("smp", format!("{smp} shards, but the machine has {cores} cores"));
    }
    for name in ADDRESSES {
        if let Ok(address) = values.text(name).parse()
            && facts.foreign.contains(&address)
        {
            warn(name, format!("{address} is not an address of this machine"));
        }
    }
    if values.flag("unsafe_bypass_fsync") {
        warn("unsafe_bypass_fsync", "a power cut loses acknowledged writes".to_owned());
    }
    for (name, what) in open_doors(values) {
        warn(name, what);
    }
    found
}

/// Services without authentication that others can reach.
fn open_doors(values: &Values) -> Vec<(&'static str, String)> {
    let is_open = |name: &str| {
        let text = values.text(name);
        text != "localhost" && !text.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    };
    let mut found = Vec::new();
    if is_open("api_address") && !values.text("api_port").is_empty() {
        let text = "the REST API has no authentication; keep it on a loopback or management \
                    address";
        found.push(("api_address", text.to_owned()));
    }
    let lets_all_in = values.text("authenticator").ends_with("AllowAllAuthenticator");
    if lets_all_in && is_open("rpc_address") {
        let text = "AllowAllAuthenticator lets in whoever reaches rpc_address".to_owned();
        found.push(("authenticator", text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        let mut values = Values::default();
        values.read_file(text).expect("a file");
        values
    }

    fn said(notes: &[Note]) -> Vec<String> {
        notes.iter().map(Note::to_string).collect()
    }

    #[test]
    fn what_a_node_would_refuse_is_told_with_its_place() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(said(&faults(&values(text))), expected, "{text}");
        };
        check("", &[]);
        check("num_tokens: 4\nsmp: 999\n", &["2:1: option smp: not 1 to 256: 999"]);
        check(
            "batch_size_warn_threshold_in_kb: 2000\nsstable_format: me\nindex_cache_fraction: 2\n",
            &[
                "1:1: option batch_size_warn_threshold_in_kb: 2000 is above \
                 batch_size_fail_threshold_in_kb (1024)",
                "3:1: option index_cache_fraction: not between 0 and 1: 2",
            ],
        );
        check(
            "compaction_static_shares: 5000\n",
            &["1:1: option compaction_static_shares: not 0 to 1000: 5000"],
        );
        check("logger_log_level: x\n", &["1:1: option logger_log_level: not logger=level: x"]);
    }

    #[test]
    fn what_is_seldom_meant_is_told() {
        let facts = Facts {
            folder: "/data".to_owned(),
            file_system: "tmpfs".to_owned(),
            memory_bytes: 4 << 30,
            cores: 4,
            foreign: vec!["10.0.0.8".parse().expect("an address")],
            ..Facts::default()
        };
        let disk = Facts { file_system: "xfs".to_owned(), ..facts.clone() };
        let check = |text: &str, facts: &Facts, expected: &[&str]| {
            assert_eq!(said(&suspicions(&values(text), facts)), expected, "{text}");
        };
        check("", &disk, &[]);
        let tmpfs = " option workdir: /data is in memory: data is lost when the machine stops";
        check("", &facts, &[tmpfs]);
        check("memory: 8G\n", &disk, &["1:1: option memory: 8192 MiB, but the machine has 4096"]);
        check("smp: 8\n", &disk, &["1:1: option smp: 8 shards, but the machine has 4 cores"]);
        check(
            "listen_address: 10.0.0.8\n",
            &disk,
            &["1:1: option listen_address: 10.0.0.8 is not an address of this machine"],
        );
        check("listen_address: 10.0.0.7\n", &disk, &[]);
        check(
            "rpc_address: 10.0.0.7\n",
            &disk,
            &[" option authenticator: AllowAllAuthenticator lets in whoever reaches rpc_address"],
        );
        let idle = said(&idle(&values("ssl_storage_port: 7\nnum_tokens: 3\n")));
        assert_eq!(idle, ["1:1: option ssl_storage_port: no effect in this version"]);
    }

    #[test]
    fn a_report_ends_with_its_counts() {
        let read = Read {
            values: Values::default(),
            file: Some("/etc/n.yaml".into()),
            warnings: Vec::new(),
            faults: Vec::new(),
        };
        let at = |line, text: &str| {
            let at = Some(options::Place { line, column: 1 });
            Note { at, text: text.to_owned() }
        };
        let faults = [at(7, "b"), at(2, "a")];
        let warnings = [Note { at: None, text: "c".to_owned() }];
        let expected = "/etc/n.yaml:2:1: error: a\n/etc/n.yaml:7:1: error: b\nwarning: c\n\
                        2 errors, 1 warning\n";
        assert_eq!(report(&read, &faults, &warnings), expected);
    }
}
