//! Where the DynamoDB API is served, from options.
//!
//! Its port is open by default, where CQL lets everybody in as well: a port that nobody has asked
//! for is no way around passwords. One that is taken by something else is done without, if nobody
//! has asked for it.

use crate::encryption;
use crate::maintenance;
use alternator::{Ports, Server};
use options::{Source, Values};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PLAIN: &str = "alternator_port";
const ENCRYPTED: &str = "alternator_https_port";
const ADDRESS: &str = "alternator_address";
const TRANSFERS: &str = "alternator_transfer_directory";

/// Where it is to be served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    ports: Ports,
    /// Whether the operator has asked for these ports.
    is_asked: bool,
    /// The folder of the buckets of imports and exports, if there is one.
    transfers: Option<PathBuf>,
}

/// The error names the option.
pub(crate) fn wanted(values: &Values) -> Result<Wanted, String> {
    let transfers = match values.text(TRANSFERS) {
        "" => None,
        folder if Path::new(folder).is_absolute() => Some(PathBuf::from(folder)),
        folder => return Err(format!("option {TRANSFERS}: {folder} does not begin with a slash")),
    };
    let is_asked = [PLAIN, ENCRYPTED].iter().any(|name| values.source(name) != Source::Default);
    let is_guarded = values.flag("alternator_enforce_authorization");
    let is_open = values.text("authenticator").ends_with("AllowAllAuthenticator");
    if maintenance::is_mode(values) || !(is_asked || is_guarded || is_open) {
        return Ok(Wanted { transfers, ..Wanted::default() });
    }
    let address = match values.text(ADDRESS) {
        "" => node::address(values, "rpc_address")?,
        _ => node::address(values, ADDRESS)?,
    };
    let port = |name: &str| match values.text(name) {
        "" | "null" => Ok(None),
        text => match text.parse::<u16>() {
            Ok(0) => Ok(None),
            Ok(port) => Ok(Some(SocketAddr::new(address, port))),
            Err(_) => Err(format!("option {name}: not a port: {text}")),
        },
    };
    // Who asks for the encrypted port alone has not asked for the plain one.
    let only_encrypted = is_asked && values.source(PLAIN) == Source::Default;
    let plain = port(PLAIN)?.filter(|_| !only_encrypted);
    let encrypted = port(ENCRYPTED)?;
    if encrypted.is_some() && encryption::of_dynamo(values)?.is_none() {
        let option = alternator::ENCRYPTION;
        return Err(format!("option {ENCRYPTED}: needs certificate and keyfile of {option}"));
    }
    Ok(Wanted { ports: Ports { plain, encrypted }, is_asked, transfers })
}

/// Serves it, where it is wanted, from all shards.
pub(crate) async fn start(wanted: Wanted) -> Result<(), String> {
    let transfers = wanted.transfers;
    runtime::on_all_shards(move || async move {
        Server::start(transfers);
    })
    .await;
    let server = runtime::local::get::<Server>();
    let bound = match server.listen(wanted.ports) {
        Ok(bound) => bound,
        Err(error) if wanted.is_asked => return Err(error.to_string()),
        Err(error) => {
            tracing::info!(
                target: "alternator_server",
                "the DynamoDB API is not served: {error}; option {PLAIN} says where it is to be"
            );
            return Ok(());
        }
    };
    for (address, kind) in [(bound.plain, "HTTP"), (bound.encrypted, "HTTPS")] {
        if let Some(address) = address {
            tracing::info!(
                target: "alternator_server",
                "Alternator server listening on {address}, {kind}"
            );
        }
    }
    Ok(())
}

/// On this shard: see [`Server::stop`].
pub(crate) async fn stop(patience: Duration) {
    if let Some(server) = runtime::local::try_get::<Server>() {
        server.stop(patience).await;
        runtime::local::clear::<Server>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(given: &[(&str, &str)]) -> Option<([Option<u16>; 2], bool)> {
        let mut values = Values::default();
        for (name, value) in given {
            let entries = value.split(' ').map(str::to_owned).collect();
            values.set(name, entries, Source::CommandLine).expect("an option");
        }
        let Wanted { ports, is_asked, .. } = wanted(&values).ok()?;
        let port = |address: Option<SocketAddr>| address.map(|address| address.port());
        Some(([port(ports.plain), port(ports.encrypted)], is_asked))
    }

    #[test]
    fn it_is_served_where_nobody_is_kept_out() {
        let passwords = ("authenticator", "PasswordAuthenticator");
        assert_eq!(found(&[]), Some(([Some(8000), None], false)));
        assert_eq!(found(&[(PLAIN, "0")]), Some(([None, None], true)));
        assert_eq!(found(&[passwords]), Some(([None, None], false)));
        assert_eq!(found(&[passwords, (PLAIN, "8001")]), Some(([Some(8001), None], true)));
        let enforced = ("alternator_enforce_authorization", "1");
        assert_eq!(found(&[passwords, enforced]), Some(([Some(8000), None], false)));
        assert_eq!(found(&[("maintenance_mode", "1")]), Some(([None, None], false)));
        let keys = (alternator::ENCRYPTION, "certificate=c keyfile=k");
        assert_eq!(found(&[(ENCRYPTED, "8043"), keys]), Some(([None, Some(8043)], true)));
        assert_eq!(found(&[(ENCRYPTED, "8043")]), None);
        assert_eq!(found(&[(TRANSFERS, "/a/b")]), Some(([Some(8000), None], false)));
        assert_eq!(found(&[(TRANSFERS, "a/b")]), None);
    }
}
