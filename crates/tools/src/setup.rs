//! `nereid setup`: what is wrong with a host, and the command that mends it.
//!
//! It changes nothing. In reading order: `host` (facts), [`checks`] (what they mean), this file
//! (how it is said).
//!
//! Exit codes: 0 a node runs well here; 1 something is wrong; 2 the command line makes no sense.

mod checks;

use crate::host;
use checks::{Finding, Verdict, Wants, findings};
use clap::{Arg, ArgAction, ArgMatches, Command};
use options::terminal::{refuse, show};
use options::{Line, Listed, Values};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

/// Runs the tool.
pub fn main(words: &[String]) -> ExitCode {
    let (matches, values) = match options::read(command(), words) {
        Ok(Line::Help(text)) => return show(&text),
        Ok(Line::Given(matches)) => {
            let values = values(&matches);
            (matches, values)
        }
        Err(refused) => return refuse(&refused.to_string()),
    };
    let found = match values {
        Ok(values) => look(&values),
        Err(text) => return refuse(&text),
    };
    show(&match matches.get_flag("json") {
        true => format!("{:#}", Value::Array(found.iter().map(as_json).collect())),
        false => report(&found, matches.get_flag("quiet")),
    });
    let is_bad = found.iter().any(|finding| finding.verdict == Verdict::Wrong);
    ExitCode::from(u8::from(is_bad))
}

/// The tool's command line.
pub fn command() -> Command {
    let flag = |name: &'static str, about: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(about)
    };
    Command::new("nereid setup")
        .no_binary_name(true)
        .about(
            "Checks this host: kernel, memory, disk, limits, addresses and ports. Nothing is \
             changed.\n\nRun it as the user that will run the node, with the options that the \
             node will have: limits are those of the user. The options file is read as the node \
             would read it.",
        )
        .after_help(format!(
            "{}\n\nExit codes: 0 the host is fit; 1 something is wrong; 2 the command line is \
             invalid.",
            options::OTHERS
        ))
        .disable_help_flag(true)
        .arg(options::help_flag())
        .arg(flag("json", "Print JSON: a list of {check, verdict, found, mend}"))
        .arg(flag("quiet", "Print only what is not fine"))
        .args(options::arguments(Listed::BesideOwn, &[]))
}

fn values(matches: &ArgMatches) -> Result<Values, String> {
    let mut values = options::values_of(matches).map_err(|refused| refused.to_string())?;
    options::read_options_file(&mut values).map_err(|faults| faults.join("\n"))?;
    Ok(values)
}

fn look(values: &Values) -> Vec<Finding> {
    let listeners = listeners(values);
    let addresses: Vec<IpAddr> = listeners.iter().map(|(_, address)| address.ip()).collect();
    let ports: Vec<SocketAddr> = listeners.iter().map(|(_, address)| *address).collect();
    let facts = host::facts(&node::workdir(values), &addresses, &ports);
    let wants = Wants {
        shards: match values.integer("smp") {
            0 => facts.cores,
            shards => shards.max(1) as u64,
        },
        memory_bytes: node::memory_bytes(values).unwrap_or(0),
        listeners,
    };
    findings(&facts, &wants)
}

/// Where the node is to listen, by option.
fn listeners(values: &Values) -> Vec<(&'static str, SocketAddr)> {
    let options = [
        ("native_transport_port", "rpc_address"),
        ("native_transport_port_ssl", "rpc_address"),
        ("native_shard_aware_transport_port", "rpc_address"),
        ("native_shard_aware_transport_port_ssl", "rpc_address"),
        ("native_transport_port_proxy_protocol", "rpc_address"),
        ("native_transport_port_ssl_proxy_protocol", "rpc_address"),
        ("native_shard_aware_transport_port_proxy_protocol", "rpc_address"),
        ("native_shard_aware_transport_port_ssl_proxy_protocol", "rpc_address"),
        ("api_port", "api_address"),
        ("prometheus_port", "prometheus_address"),
    ];
    let found = options.into_iter().filter_map(|(port, address)| {
        let number = values.text(port).parse().ok().filter(|number: &u16| *number != 0)?;
        let mut all = (values.text(address), number).to_socket_addrs().ok()?;
        Some((port, all.next()?))
    });
    found.collect()
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "check": finding.check,
        "verdict": finding.verdict.name(),
        "found": finding.found,
        "mend": finding.mend,
    })
}

fn report(found: &[Finding], only_wrong: bool) -> String {
    let mut out = String::new();
    for finding in found.iter().filter(|it| !only_wrong || it.verdict != Verdict::Fine) {
        let Finding { check, verdict, found, mend } = finding;
        out.push_str(&format!("{:7}  {check}: {found}\n", verdict.name()));
        if let Some(mend) = mend {
            out.push_str(&format!("         {mend}\n"));
        }
    }
    let count = |verdict| found.iter().filter(|it| it.verdict == verdict).count();
    let counts = [Verdict::Fine, Verdict::Poor, Verdict::Wrong].map(count);
    out.push_str(&format!("{} fine, {} poor, {} wrong\n", counts[0], counts[1], counts[2]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_mends() {
        let found = [
            Finding { check: "a", verdict: Verdict::Fine, found: "b".to_owned(), mend: None },
            Finding {
                check: "c",
                verdict: Verdict::Wrong,
                found: "d".to_owned(),
                mend: Some("e f".to_owned()),
            },
        ];
        let all = "fine     a: b\nwrong    c: d\n         e f\n1 fine, 0 poor, 1 wrong\n";
        assert_eq!(report(&found, false), all);
        assert!(!report(&found, true).contains("a: b"));
        assert_eq!(as_json(&found[1])["mend"], "e f");
    }

    #[test]
    fn listeners_are_those_of_the_node() {
        let words = ["--rpc-address", "127.0.0.2", "--api-port", "", "--prometheus-port", "0"];
        let Ok(Line::Given(matches)) = options::read(command(), &words.map(str::to_owned)) else {
            panic!("not accepted")
        };
        let values = options::values_of(&matches).expect("values");
        let found: Vec<String> =
            listeners(&values).iter().map(|(name, at)| format!("{name} {at}")).collect();
        let expected = [
            "native_transport_port 127.0.0.2:9042",
            "native_shard_aware_transport_port 127.0.0.2:19042",
        ];
        assert_eq!(found, expected);
    }
}
