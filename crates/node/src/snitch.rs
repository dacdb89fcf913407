//! Where the node is: its data centre and rack, as the snitch of its options says.
//!
//! Invariants
//!  - *somewhere*: a node has a data centre and a rack, or does not start.

use options::{Values, options_file};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The option, and the file of the snitch that reads one.
const OPTION: &str = "endpoint_snitch";
const FILE: &str = "cassandra-rackdc.properties";

/// A data centre and a rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) data_center: String,
    pub(crate) rack: String,
}

/// Where the node at `address` is. The error names the option, and the file and its line.
pub(crate) fn place(values: &Values, address: IpAddr) -> Result<Place, String> {
    let snitch = values.text(OPTION);
    match snitch.rsplit('.').next().unwrap_or(snitch) {
        "" | "SimpleSnitch" => Ok(of("datacenter1", "rack1")),
        "GossipingPropertyFileSnitch" => from_file(&file(values)),
        "RackInferringSnitch" => inferred(address),
        other => Err(format!(
            "option {OPTION}: {other} is not supported yet; use GossipingPropertyFileSnitch, and \
             say data center and rack in {FILE}"
        )),
    }
}

fn of(data_center: &str, rack: &str) -> Place {
    debug_assert!(!data_center.is_empty() && !rack.is_empty(), "somewhere: nowhere");
    Place { data_center: data_center.to_owned(), rack: rack.to_owned() }
}

/// Beside the options file.
fn file(values: &Values) -> PathBuf {
    let options = options_file(&values.to_show());
    let folder = options.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    folder.join(FILE)
}

fn from_file(path: &Path) -> Result<Place, String> {
    let text = options::read_text(path);
    let text = text.map_err(|error| {
        format!("option {OPTION}: GossipingPropertyFileSnitch reads {}: {error}", path.display())
    })?;
    parse(&text).map_err(|what| format!("{}: {what}", path.display()))
}

/// The second and the third part of the address are data centre and rack.
fn inferred(address: IpAddr) -> Result<Place, String> {
    match address {
        IpAddr::V4(address) => {
            let [_, center, rack, _] = address.octets().map(|octet| octet.to_string());
            Ok(of(&center, &rack))
        }
        IpAddr::V6(address) => {
            Err(format!("option {OPTION}: RackInferringSnitch needs an IPv4 address: {address}"))
        }
    }
}

/// Lines of `key=value`; `#` begins a comment.
fn parse(text: &str) -> Result<Place, String> {
    let (mut data_center, mut rack) = (None, None);
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let at = |what: &str| format!("line {}: {what}", number + 1);
        let (key, value) = line.split_once('=').ok_or_else(|| at("not KEY=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        let known = match key {
            "dc" => &mut data_center,
            "rack" => &mut rack,
            // One address serves all; clouds are not asked.
            "prefer_local" | "dc_suffix" => continue,
            _ => return Err(at(&format!("unknown key {key}; known are dc, rack, prefer_local"))),
        };
        if value.is_empty() {
            return Err(at(&format!("{key} has no value")));
        }
        *known = Some(value.to_owned());
    }
    match (data_center, rack) {
        (Some(data_center), Some(rack)) => Ok(of(&data_center, &rack)),
        (None, _) => Err("dc is missing".to_owned()),
        (_, None) => Err("rack is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_data_center_and_rack() {
        let text = "# ours\ndc = DC1\n\nrack=RAC 2 # the second\nprefer_local=true\n";
        assert_eq!(parse(text), Ok(of("DC1", "RAC 2")));
        let check = |text: &str, part: &str| {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(part), "{refused}");
        };
        check("dc=a\nrak=b\n", "line 2: unknown key rak");
        check("dc=a\nrack\n", "line 2: not KEY=VALUE");
        check("dc=\nrack=b\n", "line 1: dc has no value");
        check("dc=a\n", "rack is missing");
        check("", "dc is missing");
    }

    #[test]
    fn addresses_tell_data_center_and_rack() {
        assert_eq!(inferred(IpAddr::from([10, 1, 2, 3])), Ok(of("1", "2")));
        assert!(inferred(IpAddr::from([0u16; 8])).is_err());
    }
}
