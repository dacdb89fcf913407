//! The maintenance socket and the maintenance mode, from options.

use crate::notify;
use native::{Server, Socket};
use options::Values;
use runtime::net::unix::PATH_BYTES_MAX;
use std::path::PathBuf;

/// The option that says where the socket is.
const SOCKET: &str = "maintenance_socket";
/// Its name in the folder of all data.
const NAME: &str = "cql.m";

/// Why clients are not let in.
pub(crate) const SHUT: &str = "the node is in maintenance mode: it serves CQL on its maintenance \
                               socket alone until it is started without maintenance_mode";

/// Whether the node is for its operator alone.
pub(crate) fn is_mode(values: &Values) -> bool {
    values.flag("maintenance_mode")
}

/// Where the socket is wanted; `None`: nowhere. The error names the option.
pub(crate) fn socket(values: &Values) -> Result<Option<Socket>, String> {
    let path = match values.text(SOCKET) {
        "ignore" | "" => return Ok(None),
        "workdir" => node::workdir(values).join(NAME),
        path => PathBuf::from(path),
    };
    let bytes = path.as_os_str().len();
    if PATH_BYTES_MAX < bytes {
        let path = path.display();
        return Err(format!(
            "option {SOCKET}: {path}: {bytes} bytes; the path of a socket may have {PATH_BYTES_MAX}"
        ));
    }
    let group = Some(values.text("maintenance_socket_group")).filter(|group| !group.is_empty());
    Ok(Some(Socket { path, group: group.map(str::to_owned) }))
}

/// Opens it, on shard 0, once every shard has its server.
pub(crate) async fn open(socket: &Socket) -> Result<(), String> {
    let path = socket.path.display();
    let opened = runtime::local::get::<Server>().open_maintenance(socket).await;
    opened.map_err(|error| format!("option {SOCKET}: {path}: {error}"))?;
    tracing::info!(
        target: "cql_server",
        "Starting listening for maintenance CQL clients on {path}"
    );
    Ok(())
}

/// All that is open in maintenance mode is up.
pub(crate) fn tell_mode(name: &str, version: &str) {
    tracing::info!(
        target: "init",
        "{name} version {version} initialization completed (maintenance mode)."
    );
    tracing::warn!(
        target: "init",
        "serving in maintenance mode: CQL is spoken on the maintenance socket alone, no other node \
         is looked for, and clients are let in again by a start without maintenance_mode"
    );
    notify::ready("entering maintenance mode");
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    #[test]
    fn the_socket_is_where_the_options_say() {
        let check = |given: &[(&str, &str)],
                     expected: Result<Option<(&str, Option<&str>)>, &str>| {
            let mut values = Values::default();
            for (name, value) in given {
                values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
            }
            let expected = expected.map_err(str::to_owned).map(|expected| {
                let (path, group) = expected?;
                Some(Socket { path: path.into(), group: group.map(str::to_owned) })
            });
            assert_eq!(socket(&values), expected, "{given:?}");
        };
        check(&[], Ok(None));
        check(&[("maintenance_socket", "ignore"), ("maintenance_socket_group", "g")], Ok(None));
        check(&[("maintenance_socket", "/run/m")], Ok(Some(("/run/m", None))));
        check(
            &[("maintenance_socket", "workdir"), ("workdir", "/data")],
            Ok(Some(("/data/cql.m", None))),
        );
        check(
            &[("maintenance_socket", "/run/m"), ("maintenance_socket_group", "ops")],
            Ok(Some(("/run/m", Some("ops")))),
        );
        let long = format!("/{}", "x".repeat(106));
        check(&[("maintenance_socket", &long)], Ok(Some((&long, None))));
        let folder = format!("/{}", "x".repeat(102));
        let refused = format!(
            "option maintenance_socket: {folder}/cql.m: 109 bytes; the path of a socket may have \
             107"
        );
        check(&[("maintenance_socket", "workdir"), ("workdir", &folder)], Err(&refused));
    }
}
