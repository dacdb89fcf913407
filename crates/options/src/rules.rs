//! Values that are right by themselves and cannot be so together.
//!
//! Pure: what the machine is like is not asked here.

use crate::kind::parse_bytes;
use crate::values::{Source, Values};

/// What is wrong with the value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub name: &'static str,
    pub text: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "option {}: {}", self.name, self.text)
    }
}

/// What a node would start with and should not.
pub fn contradictions(values: &Values) -> Vec<Fault> {
    let values = &values.to_show();
    let mut faults = Vec::new();
    faults.extend(LADDERS.iter().filter_map(|ladder| ladder.fault(values)));
    faults.extend(PAIRS.iter().filter_map(|(one, other)| both(values, one, other)));
    faults.extend(same_ports(values));
    faults.extend(wildcards(values));
    faults.extend(tablets(values));
    faults.extend(maintenance(values));
    faults.extend(log(values));
    faults.extend(names(values));
    faults
}

/// Two numbers of which the first may not be above the second.
struct Ladder {
    low: &'static str,
    high: &'static str,
    /// Up to this the number means that there is no limit.
    none: i64,
}

const fn ladder(low: &'static str, high: &'static str, none: i64) -> Ladder {
    Ladder { low, high, none }
}

const LADDERS: &[Ladder] = &[
    ladder("batch_size_warn_threshold_in_kb", "batch_size_fail_threshold_in_kb", 0),
    ladder("tombstone_warn_threshold", "tombstone_failure_threshold", 0),
    ladder(
        "max_memory_for_unlimited_query_soft_limit",
        "max_memory_for_unlimited_query_hard_limit",
        0,
    ),
    ladder(
        "minimum_replication_factor_fail_threshold",
        "maximum_replication_factor_fail_threshold",
        -1,
    ),
    ladder(
        "internode_compression_zstd_min_message_size",
        "internode_compression_zstd_max_message_size",
        -1,
    ),
];

impl Ladder {
    fn fault(&self, values: &Values) -> Option<Fault> {
        let (low, high) = (values.integer(self.low), values.integer(self.high));
        let is_limited = self.none < low && self.none < high;
        (is_limited && high < low).then(|| Fault {
            name: self.low,
            text: format!("{low} is above {} ({high})", self.high),
        })
    }
}

/// Options of which one alone may be given.
const PAIRS: &[(&str, &str)] = &[
    ("listen_interface", "listen_address"),
    ("rpc_interface", "rpc_address"),
    ("replace_address", "replace_node_first_boot"),
    ("replace_address_first_boot", "replace_node_first_boot"),
];

fn is_given(values: &Values, name: &str) -> bool {
    values.source(name) != Source::Default && !values.text(name).is_empty()
}

fn both(values: &Values, one: &'static str, other: &str) -> Option<Fault> {
    let are_given = is_given(values, one) && is_given(values, other);
    are_given
        .then(|| Fault { name: one, text: format!("conflicts with {other}; set only one of them") })
}

/// The listeners of a node: the address and the port of each.
const LISTENERS: &[(&str, &str)] = &[
    ("listen_address", "storage_port"),
    ("listen_address", "ssl_storage_port"),
    ("rpc_address", "native_transport_port"),
    ("rpc_address", "native_transport_port_ssl"),
    ("rpc_address", "native_shard_aware_transport_port"),
    ("rpc_address", "native_shard_aware_transport_port_ssl"),
    ("rpc_address", "native_transport_port_proxy_protocol"),
    ("rpc_address", "native_transport_port_ssl_proxy_protocol"),
    ("rpc_address", "native_shard_aware_transport_port_proxy_protocol"),
    ("rpc_address", "native_shard_aware_transport_port_ssl_proxy_protocol"),
    ("api_address", "api_port"),
    ("prometheus_address", "prometheus_port"),
    ("alternator_address", "alternator_port"),
    ("alternator_address", "alternator_https_port"),
];

fn same_ports(values: &Values) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, (address, name)) in LISTENERS.iter().enumerate() {
        let port = values.integer(name);
        for (other_address, other) in &LISTENERS[..at] {
            // A port and its encrypted sister may be one: then it is encrypted.
            let are_sisters = name.contains("_ssl") && name.replacen("_ssl", "", 1) == *other;
            let is_same_port = port != 0 && port == values.integer(other) && !are_sisters;
            let (here, there) =
                (address_text(values, address), address_text(values, other_address));
            // A port that nobody has asked for is done without.
            let is_needed = *name != "alternator_port" || is_given(values, name);
            if is_needed && is_same_port && do_overlap(here, there) {
                let text = format!("{port} is also the port of {other}, on {there}");
                faults.push(Fault { name, text });
            }
        }
    }
    faults
}

/// What an option says of an address, or the one in its place.
fn address_text<'v>(values: &'v Values, name: &str) -> &'v str {
    match (name, values.text(name)) {
        ("alternator_address", "") => values.text("rpc_address"),
        (_, text) => text,
    }
}

fn do_overlap(one: &str, other: &str) -> bool {
    let plain = |text: &str| match text {
        "localhost" => "127.0.0.1".to_owned(),
        other => other.to_owned(),
    };
    plain(one) == plain(other) || is_wildcard(one) || is_wildcard(other)
}

fn is_wildcard(address: &str) -> bool {
    matches!(address, "0.0.0.0" | "::" | "::0")
}

/// An address that stands for all of a machine's tells nobody where the node is.
fn wildcards(values: &Values) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, told) in
        [("listen_address", "broadcast_address"), ("rpc_address", "broadcast_rpc_address")]
    {
        let (here, told_here) = (values.text(name), values.text(told));
        if is_wildcard(told_here) {
            let text = format!("{told_here} cannot be reached by others");
            faults.push(Fault { name: told, text });
        } else if is_wildcard(here) && told_here.is_empty() {
            let text = format!("{here} requires {told}, the address announced to others");
            faults.push(Fault { name, text });
        }
    }
    if values.flag("listen_on_broadcast_address") && values.text("broadcast_address").is_empty() {
        let text = "requires broadcast_address".to_owned();
        faults.push(Fault { name: "listen_on_broadcast_address", text });
    }
    faults
}

fn tablets(values: &Values) -> Option<Fault> {
    let (old, new) = ("enable_tablets", "tablets_mode_for_new_keyspaces");
    let are_given = is_given(values, old) && is_given(values, new);
    let (wanted, mode) = (values.flag(old), values.text(new));
    (are_given && wanted == (mode == "disabled")).then(|| Fault {
        name: old,
        text: format!("{wanted}, but {new} is {mode}; {new} alone is enough"),
    })
}

fn maintenance(values: &Values) -> Option<Fault> {
    let is_lost = values.flag("maintenance_mode") && values.text("maintenance_socket") == "ignore";
    is_lost.then(|| Fault {
        name: "maintenance_mode",
        text: "requires maintenance_socket, which is ignore".to_owned(),
    })
}

fn log(values: &Values) -> Option<Fault> {
    let space = values.integer("commitlog_total_space_in_mb");
    let of_log = ["commitlog_segment_size_in_mb", "commitlog_flush_threshold_in_mb"];
    let name = of_log.into_iter().find(|name| 0 < space && space < values.integer(name))?;
    let megabytes = values.integer(name);
    let text = format!("{megabytes} MiB do not fit into commitlog_total_space_in_mb ({space})");
    Some(Fault { name, text })
}

/// Names and sizes that nobody can have meant.
fn names(values: &Values) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in ["workdir", "rpc_address", "listen_address", "prometheus_prefix"] {
        if values.text(name).is_empty() {
            faults.push(Fault { name, text: "must not be empty".to_owned() });
        }
    }
    let folders = values.list("data_file_directories");
    if 1 < folders.iter().filter(|folder| !folder.is_empty()).count() {
        let text = format!("exactly one directory is supported: {}", folders.join(", "));
        faults.push(Fault { name: "data_file_directories", text });
    }
    if parse_bytes(values.text("memory")) == Some(0) {
        faults.push(Fault { name: "memory", text: "must not be 0".to_owned() });
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of these options.
    fn check(given: &[(&str, &str)], expected: &[&str]) {
        let mut values = Values::default();
        for (name, value) in given {
            values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
        }
        let said: Vec<String> = contradictions(&values).iter().map(ToString::to_string).collect();
        assert_eq!(said, expected, "{given:?}");
        assert_eq!(values.unasked().len(), given.len(), "looking is not asking");
    }

    #[test]
    fn contradictions_are_told_with_the_options_that_make_them() {
        check(&[], &[]);
        check(
            &[("batch_size_warn_threshold_in_kb", "2000")],
            &["option batch_size_warn_threshold_in_kb: 2000 is above \
               batch_size_fail_threshold_in_kb (1024)"],
        );
        check(&[("minimum_replication_factor_fail_threshold", "3")], &[]);
        check(
            &[
                ("minimum_replication_factor_fail_threshold", "3"),
                ("maximum_replication_factor_fail_threshold", "2"),
            ],
            &["option minimum_replication_factor_fail_threshold: 3 is above \
               maximum_replication_factor_fail_threshold (2)"],
        );
        check(
            &[("listen_interface", "eth0"), ("listen_address", "10.0.0.1")],
            &["option listen_interface: conflicts with listen_address; set only one of them"],
        );
        check(&[("listen_interface", "eth0")], &[]);
        check(
            &[("prometheus_port", "9042"), ("rpc_address", "localhost")],
            &["option prometheus_port: 9042 is also the port of native_transport_port, \
               on localhost"],
        );
        check(&[("prometheus_port", "9042"), ("rpc_address", "10.0.0.1")], &[]);
        check(&[("prometheus_port", "0"), ("api_port", "0")], &[]);
        check(&[("native_transport_port_ssl", "9042")], &[]);
        check(
            &[("rpc_address", "0.0.0.0")],
            &["option rpc_address: 0.0.0.0 requires broadcast_rpc_address, the address announced \
               to others"],
        );
        check(&[("rpc_address", "0.0.0.0"), ("broadcast_rpc_address", "10.0.0.1")], &[]);
        check(
            &[("listen_on_broadcast_address", "1")],
            &["option listen_on_broadcast_address: requires broadcast_address"],
        );
        check(&[("enable_tablets", "1")], &[]);
        check(
            &[("enable_tablets", "1"), ("tablets_mode_for_new_keyspaces", "disabled")],
            &["option enable_tablets: true, but tablets_mode_for_new_keyspaces is disabled; \
               tablets_mode_for_new_keyspaces alone is enough"],
        );
        check(
            &[("maintenance_mode", "1")],
            &["option maintenance_mode: requires maintenance_socket, which is ignore"],
        );
        check(
            &[("commitlog_total_space_in_mb", "32")],
            &["option commitlog_segment_size_in_mb: 64 MiB do not fit into \
               commitlog_total_space_in_mb (32)"],
        );
        check(
            &[("commitlog_total_space_in_mb", "512"), ("commitlog_flush_threshold_in_mb", "513")],
            &["option commitlog_flush_threshold_in_mb: 513 MiB do not fit into \
               commitlog_total_space_in_mb (512)"],
        );
        check(&[("memory", "0")], &["option memory: must not be 0"]);
        check(&[("workdir", "")], &["option workdir: must not be empty"]);
    }

    #[test]
    fn a_port_is_no_port_twice() {
        let proxied = "native_transport_port_proxy_protocol";
        check(&[(proxied, "29042"), ("native_transport_port_ssl_proxy_protocol", "29042")], &[]);
        check(
            &[(proxied, "9042")],
            &["option native_transport_port_proxy_protocol: 9042 is also the port of \
               native_transport_port, on 127.0.0.1"],
        );
    }
}
