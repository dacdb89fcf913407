//! What clients may do, whatever ports they come by: numbers for who serves them.

use crate::shards::memory_bytes;
use options::Values;

/// What the options say of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// Whether silent ones are probed.
    pub keepalive: bool,
    /// Whether they are told of shards.
    pub tells_shards: bool,
    /// The largest request.
    pub body_bytes_max: usize,
    /// Requests of a shard that are under way at the same time.
    pub requests_max: usize,
    /// The memory of a shard.
    pub shard_bytes: usize,
}

/// Reads what clients may do from the options. The error names the option.
pub fn clients(values: &Values, shards: u16) -> Result<Clients, String> {
    let megabytes = values.integer("native_transport_max_frame_size_in_mb").clamp(1, 256);
    let name = "max_concurrent_requests_per_shard";
    let requests = values.text(name);
    let shard_bytes = memory_bytes(values)? / shards as u64;
    Ok(Clients {
        keepalive: values.flag("rpc_keepalive"),
        tells_shards: values.flag("enable_shard_aware_drivers"),
        body_bytes_max: (megabytes as usize) << 20,
        requests_max: match requests.parse() {
            Ok(requests @ 1..) => requests,
            _ => return Err(format!("option {name}: not a number of requests: {requests}")),
        },
        shard_bytes: shard_bytes as usize,
    })
}
