//! `--ephemeral`: a node for other programs' tests. A temporary folder, free ports, one JSON line
//! on stdout that names them; everything goes when the node ends, and the node ends when its
//! parent process does.

use node::TemporaryFolder;
use options::{Source, Values};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How often the parent is looked for.
const PARENT_PERIOD: Duration = Duration::from_millis(100);

/// Puts what an ephemeral node needs into the options, where the operator has not said otherwise.
pub(crate) fn adjust(values: &mut Values, folder: &TemporaryFolder) {
    let path = folder.path().display().to_string();
    let wanted = [
        ("workdir", path.as_str()),
        ("native_transport_port", "0"),
        ("native_shard_aware_transport_port", "0"),
        ("storage_port", "0"),
        ("api_port", "0"),
        ("prometheus_port", ""),
        ("alternator_port", ""),
        ("smp", "1"),
        ("overprovisioned", "1"),
        ("unsafe_bypass_fsync", "1"),
        ("developer_mode", "1"),
        ("auto_snapshot", "0"),
    ];
    for (name, value) in wanted {
        if values.source(name) == Source::Default {
            let set = values.set(name, vec![value.to_string()], Source::Internal);
            debug_assert!(set.is_ok(), "{name} is an option");
        }
    }
}

/// The one line on stdout.
pub(crate) fn line(bound: native::Bound, api: Option<SocketAddr>, folder: &Path) -> String {
    let port = |address: Option<SocketAddr>| address.map(|address| address.port());
    let ports = bound.direct;
    let plain = ports.plain.or(ports.encrypted);
    serde_json::json!({
        "host": plain.map(|address| address.ip().to_string()),
        "port": port(plain),
        "shard_aware_port": port(ports.shard_aware.or(ports.encrypted_shard_aware)),
        "api_port": port(api),
        "pid": std::process::id(),
        "workdir": folder.display().to_string(),
    })
    .to_string()
}

/// Waits until the process that started this one is gone.
pub(crate) async fn parent_gone(parent: Option<rustix::process::Pid>) {
    while rustix::process::getppid() == parent {
        runtime::time::sleep(PARENT_PERIOD).await;
    }
}
