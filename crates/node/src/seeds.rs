//! What options say of the other nodes: where seeds are, how long others are waited for.
//!
//! Invariants
//!  - *joins-or-says-so*: a node that is told of seeds, none of which can be found, does not start
//!    as a cluster of its own, where writes would be lost to the others.

use crate::address::address_of;
use crate::encryption;
use cluster::{Settings, membership};
use options::Values;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What the node is told about others, from the options. The error names the option.
pub(crate) fn membership(
    values: &Values,
    listen: SocketAddr,
    segment_bytes: usize,
) -> Result<membership::Config, String> {
    let millis = |name: &str| Duration::from_millis(values.integer(name).max(1) as u64);
    Ok(membership::Config {
        seeds: seeds(values, listen.port())?,
        replaces: replaced(values)?,
        ignores: ignored(values)?,
        listen,
        ping_timeout: millis("direct_failure_detector_ping_timeout_in_ms"),
        down_after: millis("failure_detector_timeout_in_ms"),
        command_time: millis("group0_raft_op_timeout_in_ms"),
        segment_bytes,
        policy: encryption::policies(values)?,
        verbs: Arc::new(replication::serve),
    })
}

/// The dead node in whose place this one comes: its host id, or its address.
fn replaced(values: &Values) -> Result<String, String> {
    let given = |name: &str| Some(values.text(name).trim().to_owned()).filter(|it| !it.is_empty());
    let by_id = "replace_node_first_boot";
    if let Some(text) = given(by_id) {
        let id = model::Uuid::parse_str(&text);
        return match id {
            Ok(id) => Ok(id.to_string()),
            Err(_) => Err(format!("option {by_id}: {text} is no host id")),
        };
    }
    for name in ["replace_address_first_boot", "replace_address"] {
        if let Some(text) = given(name) {
            let found = address_of(&text).map(|ip| ip.to_string());
            return found.ok_or_else(|| format!("option {name}: no address is known of {text}"));
        }
    }
    Ok(String::new())
}

/// The other nodes that are dead when this one replaces one: host ids and addresses.
fn ignored(values: &Values) -> Result<Vec<String>, String> {
    let option = "ignore_dead_nodes_for_replace";
    let names = values.text(option).split(',').map(str::trim).filter(|name| !name.is_empty());
    let found = names.map(|name| match model::Uuid::parse_str(name) {
        Ok(id) => Ok(id.to_string()),
        Err(_) => {
            let found = address_of(name).map(|ip| ip.to_string());
            found.ok_or_else(|| format!("option {option}: {name} is no host id and no address"))
        }
    });
    found.collect()
}

/// Registers the option that may change, for [`Settings::refused`].
pub(crate) fn check(settings: &Settings) {
    membership::CommandTime::register(settings, Duration::from_secs(60));
}

/// Where the seeds are.
fn seeds(values: &Values, port: u16) -> Result<Vec<SocketAddr>, String> {
    let given = given(values);
    let mut found: Vec<SocketAddr> = Vec::new();
    for seed in &given {
        match seed_at(seed, port) {
            Some(address) => found.push(address),
            None => tracing::warn!(
                target: "init", "seed {seed}: no address of this name is known; it is left out"
            ),
        }
    }
    match (given.is_empty(), found.is_empty()) {
        (false, true) => Err(format!("option seeds: no address is known of {}", given.join(", "))),
        _ => Ok(found),
    }
}

/// `host`, or `host:port`. An IPv6 address with a port is in brackets.
fn seed_at(seed: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = seed.parse::<SocketAddr>() {
        return Some(address);
    }
    if let Some(ip) = address_of(seed.trim_matches(['[', ']'])) {
        return Some(SocketAddr::new(ip, port));
    }
    let (host, port) = seed.rsplit_once(':')?;
    Some(SocketAddr::new(address_of(host)?, port.parse().ok()?))
}

/// The seeds, those of the command line before those of the file.
fn given(values: &Values) -> Vec<String> {
    let mut texts = values.list("seeds");
    if texts.is_empty() {
        let parameters = values.list("seed_provider_parameters");
        texts.extend(parameters.iter().filter_map(|one| match one.split_once('=') {
            Some(("seeds", seeds)) => Some(seeds.to_string()),
            Some(_) => None,
            None => Some(one.clone()),
        }));
    }
    if texts.is_empty()
        && let Ok(tree) = serde_json::from_str::<Value>(values.text("seed_provider"))
    {
        collect(&tree, &mut texts);
    }
    let names = texts.iter().flat_map(|text| text.split(','));
    let names = names.map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// The texts named `seeds`, at whatever depth.
fn collect(tree: &Value, texts: &mut Vec<String>) {
    match tree {
        Value::Array(list) => list.iter().for_each(|one| collect(one, texts)),
        Value::Object(map) => map.iter().for_each(|(name, one)| match one {
            Value::String(text) if name == "seeds" => texts.push(text.clone()),
            _ => collect(one, texts),
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    #[track_caller]
    fn check(options: &[(&str, &str)], expected: &[&str]) {
        let mut values = Values::default();
        for (name, value) in options {
            values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
        }
        let found = seeds(&values, 7000)
            .map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        match expected {
            [] => assert!(found.is_err(), "{options:?}: {found:?}"),
            _ => assert_eq!(found, Ok(expected.join(" ").trim().to_owned()), "{options:?}"),
        }
    }

    #[test]
    fn nodes_that_are_dead_have_ids_or_addresses() {
        let check = |text: &str, expected: Option<&str>| {
            let mut values = Values::default();
            let option = "ignore_dead_nodes_for_replace";
            values.set(option, vec![text.to_owned()], Source::CommandLine).expect("an option");
            let found = ignored(&values).map(|names| names.join(" ")).ok();
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        let id = "6b0f1d4e-7b8c-4c59-9a9e-3f1d5a7c2b10";
        check("", Some(""));
        check(&format!(" {} ,127.0.0.3,", id.to_uppercase()), Some(&format!("{id} 127.0.0.3")));
        check("no.such.name.invalid", None);
    }

    #[test]
    fn seeds_are_addresses_with_the_port_of_other_nodes() {
        let line = "seed_provider_parameters";
        check(&[], &[""]);
        check(&[(line, "seeds=")], &[""]);
        check(&[("seeds", "127.0.0.1")], &["127.0.0.1:7000"]);
        check(&[(line, "seeds=127.0.0.1")], &["127.0.0.1:7000"]);
        check(&[(line, "seeds=localhost:7007")], &["127.0.0.1:7007"]);
        check(&[(line, "seeds=127.0.0.1, 127.0.0.3")], &["127.0.0.1:7000", "127.0.0.3:7000"]);
        check(&[("seeds", "::1,[::1]:7001")], &["[::1]:7000", "[::1]:7001"]);
        let tree = r#"[{"class_name":"X","parameters":[{"seeds":"127.0.0.1,127.0.0.4"}]}]"#;
        check(&[("seed_provider", tree)], &["127.0.0.1:7000", "127.0.0.4:7000"]);
        check(&[("seed_provider", tree), (line, "seeds=127.0.0.2")], &["127.0.0.2:7000"]);
        check(&[("seeds", "127.0.0.9"), (line, "seeds=127.0.0.2")], &["127.0.0.9:7000"]);
        // *joins-or-says-so*
        check(&[("seeds", "no.such.name.invalid")], &[]);
        check(&[("seeds", "no.such.name.invalid,127.0.0.2")], &["127.0.0.2:7000"]);
    }
}
