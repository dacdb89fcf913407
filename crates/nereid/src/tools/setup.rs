//! `nereid setup`: what is wrong with a host, and the command that mends it.
//!
//! It changes nothing. In reading order: `host` (facts), [`checks`] (what they mean), this file
//! (how it is said).
//!
//! Exit codes: 0 a node runs well here; 1 something is wrong; 2 the command line makes no sense.

mod checks;

use crate::host;
use crate::node;
use crate::options::{Invocation, Values, parse_line};
use checks::{Finding, Verdict, Wants, findings};
use clap::{Arg, ArgAction, Command};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

const USAGE: &str = "\
Check this host for a node; nothing is changed

Usage: nereid setup [--json] [--quiet] [OPTIONS]

OPTIONS are those of `nereid`: the folder, the addresses and ports, the memory and the shards that
the node is to have. The options file is read as the node would read it.

  --json   JSON: a list of {check, verdict, found, mend}
  --quiet  only what is wrong

Run it as the user of the node: limits are those of who asks. Exit codes: 0 a node runs well here;
1 something is wrong; 2 the command line makes no sense.
";

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let is_own = |word: &&String| matches!(word.as_str(), "--json" | "--quiet");
    let (own, rest): (Vec<&String>, Vec<&String>) = words.iter().partition(is_own);
    let has = |name: &str| own.iter().any(|word| word.as_str() == name);
    let values = match values(&rest.into_iter().cloned().collect::<Vec<_>>()) {
        Ok(values) => values,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let found = look(&values);
    match has("--json") {
        true => println!("{:#}", Value::Array(found.iter().map(as_json).collect())),
        false => print!("{}", report(&found, has("--quiet"))),
    }
    let is_bad = found.iter().any(|finding| finding.verdict == Verdict::Wrong);
    ExitCode::from(u8::from(is_bad))
}

/// The tool's words, for completions and the manual.
pub(super) fn command() -> Command {
    let flag = |name: &'static str, about: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(about)
    };
    crate::options::command()
        .name("nereid setup")
        .about("Check this host for a node; nothing is changed")
        .override_usage("nereid setup [--json] [--quiet] [OPTIONS]")
        .arg(flag("json", "JSON"))
        .arg(flag("quiet", "Only what is wrong"))
}

fn values(words: &[String]) -> Result<Values, String> {
    let mut values = match parse_line(words) {
        Ok(Invocation::Serve(values)) => *values,
        Ok(Invocation::Print(_)) => return Err("these words ask for no node".to_owned()),
        Err(refused) => return Err(refused.to_string()),
    };
    crate::read_options_file(&mut values).map_err(|faults| faults.join("\n"))?;
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
        let Ok(Invocation::Serve(values)) = parse_line(&words.map(str::to_owned)) else {
            panic!("not accepted")
        };
        let found: Vec<String> =
            listeners(&values).iter().map(|(name, at)| format!("{name} {at}")).collect();
        let expected = [
            "native_transport_port 127.0.0.2:9042",
            "native_shard_aware_transport_port 127.0.0.2:19042",
        ];
        assert_eq!(found, expected);
    }
}
