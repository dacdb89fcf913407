//! The seeds that a node is told of. There are no clusters yet: a node that is to join one must not
//! start as a cluster of its own, where writes would be lost to the others. So seeds have to be
//! addresses of the node itself.

use crate::address::address_of;
use options::Values;
use serde_json::Value;
use std::net::IpAddr;

/// Where the node is found, as it says.
const OWN: [&str; 4] =
    ["listen_address", "broadcast_address", "rpc_address", "broadcast_rpc_address"];

/// An error if some seed is another node.
pub(crate) fn check(values: &Values) -> Result<(), String> {
    let own: Vec<IpAddr> = OWN.iter().filter_map(|name| address_of(values.text(name))).collect();
    match given(values).into_iter().find(|seed| !is_own(seed, &own)) {
        None => Ok(()),
        Some(seed) => Err(format!(
            "seed {seed} is not an address of this node: Nereid does not form clusters yet, so it \
             cannot join another node. Remove the seed, or give the node's own address."
        )),
    }
}

fn is_own(seed: &str, own: &[IpAddr]) -> bool {
    let Some(seed) = address_of(seed) else { return false };
    // A node that others reach from elsewhere is the one that is meant by the loopback address.
    own.contains(&seed) || (seed.is_loopback() && !own.iter().any(IpAddr::is_loopback))
}

/// The seeds, those of the command line before those of the file.
fn given(values: &Values) -> Vec<String> {
    let parameters = values.list("seed_provider_parameters");
    let mut texts: Vec<String> = parameters
        .iter()
        .filter_map(|one| match one.split_once('=') {
            Some(("seeds", seeds)) => Some(seeds.to_string()),
            Some(_) => None,
            None => Some(one.clone()),
        })
        .collect();
    if texts.is_empty()
        && let Ok(tree) = serde_json::from_str::<Value>(values.text("seed_provider"))
    {
        collect(&tree, &mut texts);
    }
    let names = texts.iter().flat_map(|text| text.split(','));
    let names = names.map(|name| without_port(name.trim()).to_string());
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

/// `host:port` without its port. An IPv6 address has several colons.
fn without_port(name: &str) -> &str {
    match name.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    #[track_caller]
    fn check_seeds(given: &[(&str, &str)], refused: Option<&str>) {
        let mut values = Values::default();
        for (name, value) in given {
            values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
        }
        match (check(&values), refused) {
            (Ok(()), None) => {}
            (Err(text), Some(seed)) => {
                assert!(text.starts_with(&format!("seed {seed} ")), "{text}")
            }
            (found, _) => panic!("{given:?}: {found:?}"),
        }
    }

    #[test]
    fn seeds_are_the_node_itself() {
        let line = "seed_provider_parameters";
        check_seeds(&[], None);
        check_seeds(&[(line, "seeds=127.0.0.1")], None);
        check_seeds(&[(line, "seeds=localhost:7000")], None);
        check_seeds(&[(line, "seeds=")], None);
        check_seeds(&[(line, "seeds=127.0.0.2")], Some("127.0.0.2"));
        check_seeds(&[(line, "seeds=127.0.0.1,127.0.0.3")], Some("127.0.0.3"));
        check_seeds(&[("listen_address", "127.0.0.2"), (line, "seeds=127.0.0.2")], None);
        let away = [("listen_address", "10.0.0.5"), ("rpc_address", "10.0.0.5")];
        check_seeds(&[away[0], away[1], (line, "seeds=127.0.0.1")], None);
        check_seeds(&[away[0], away[1], (line, "seeds=10.0.0.6")], Some("10.0.0.6"));
        let tree = r#"[{"class_name":"X","parameters":[{"seeds":"127.0.0.1,127.0.0.4"}]}]"#;
        check_seeds(&[("seed_provider", tree)], Some("127.0.0.4"));
        check_seeds(&[("seed_provider", tree), (line, "seeds=127.0.0.1")], None);
    }
}
