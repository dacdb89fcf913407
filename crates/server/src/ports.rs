//! Where CQL is served, from options.

use crate::encryption;
use crate::maintenance;
use native::Ports;
use options::Values;
use std::net::SocketAddr;

/// The options of one kind of ports.
struct Names {
    plain: &'static str,
    encrypted: &'static str,
    shard_aware: &'static str,
    encrypted_shard_aware: &'static str,
    /// The least number of a port; what is below means that there is none.
    least: u16,
}

const DIRECT: Names = Names {
    plain: "native_transport_port",
    encrypted: "native_transport_port_ssl",
    shard_aware: "native_shard_aware_transport_port",
    encrypted_shard_aware: "native_shard_aware_transport_port_ssl",
    least: 0,
};

const PROXIED: Names = Names {
    plain: "native_transport_port_proxy_protocol",
    encrypted: "native_transport_port_ssl_proxy_protocol",
    shard_aware: "native_shard_aware_transport_port_proxy_protocol",
    encrypted_shard_aware: "native_shard_aware_transport_port_ssl_proxy_protocol",
    least: 1,
};

/// The ports for clients; port 0 takes a free one. The error names the option.
pub(crate) fn direct(values: &Values) -> Result<Ports, String> {
    ports(values, &DIRECT)
}

/// The ports for proxies; port 0 is none. The error names the option.
pub(crate) fn proxied(values: &Values) -> Result<Ports, String> {
    ports(values, &PROXIED)
}

fn ports(values: &Values, names: &Names) -> Result<Ports, String> {
    let ip = node::address(values, "rpc_address")?;
    let port = |name: &str| match values.text(name) {
        "" | "null" => Ok(None),
        text => match text.parse::<u16>() {
            Ok(port) if port < names.least => Ok(None),
            Ok(port) => Ok(Some(SocketAddr::new(ip, port))),
            Err(_) => Err(format!("option {name}: not a port: {text}")),
        },
    };
    let serves = values.flag("start_native_transport") && !maintenance::is_mode(values);
    let tells_shards = values.flag("enable_shard_aware_drivers");
    let encrypts = node::encryption::wanted(values, native::server::ENCRYPTION)?.is_some();
    let plain = port(names.plain)?.filter(|_| serves);
    let sister = port(names.encrypted)?.filter(|_| serves);
    let (plain, encrypted) = encryption::ports(encrypts, plain, sister);
    let shard_aware = port(names.shard_aware)?.filter(|_| serves && tells_shards);
    let sister = port(names.encrypted_shard_aware)?.filter(|_| serves && tells_shards);
    let (shard_aware, encrypted_shard_aware) = encryption::ports(encrypts, shard_aware, sister);
    Ok(Ports { plain, shard_aware, encrypted, encrypted_shard_aware })
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    const TLS: &[&str] = &["enabled=true", "certificate=c", "keyfile=k"];

    /// Plain, shard-aware, and the two encrypted ones.
    fn found(ports: Ports) -> [Option<u16>; 4] {
        let all = [ports.plain, ports.shard_aware, ports.encrypted, ports.encrypted_shard_aware];
        all.map(|address| address.map(|address| address.port()))
    }

    #[test]
    fn ports_are_those_of_the_options() {
        let check = |tls: &[&str], given: &[(&str, &str)], expected: [[Option<u16>; 4]; 2]| {
            let mut values = Values::default();
            let entries = tls.iter().map(|entry| entry.to_string()).collect();
            let option = native::server::ENCRYPTION;
            values.set(option, entries, Source::CommandLine).expect("an option");
            for (name, value) in given {
                values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
            }
            let ports = [direct(&values), proxied(&values)];
            assert_eq!(ports.map(|it| found(it.expect("ports"))), expected, "{given:?}");
        };
        let usual = [Some(9042), Some(19042), None, None];
        check(&[], &[], [usual, [None; 4]]);
        check(TLS, &[], [[None, None, Some(9042), Some(19042)], [None; 4]]);
        let plain = ("native_transport_port_proxy_protocol", "29042");
        let aware = ("native_shard_aware_transport_port_proxy_protocol", "39042");
        let both = [Some(29042), Some(39042), None, None];
        check(&[], &[plain, aware], [usual, both]);
        check(&[], &[(plain.0, "0")], [usual, [None; 4]]);
        let encrypted = ("native_transport_port_ssl_proxy_protocol", "29142");
        let secure = [None, None, Some(9042), Some(19042)];
        // Without its sister a port is encrypted, and 0 is no sister.
        check(TLS, &[plain], [secure, [None, None, Some(29042), None]]);
        check(TLS, &[plain, (encrypted.0, "0")], [secure, [None, None, Some(29042), None]]);
        check(TLS, &[plain, encrypted], [secure, [Some(29042), None, Some(29142), None]]);
        check(
            &[],
            &[plain, aware, ("enable_shard_aware_drivers", "0")],
            [[Some(9042), None, None, None], [Some(29042), None, None, None]],
        );
        for closed in [("start_native_transport", "0"), ("maintenance_mode", "1")] {
            check(&[], &[plain, aware, closed], [[None; 4]; 2]);
        }
    }
}
