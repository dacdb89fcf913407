//! Error injection points at which a task waits: it goes on when an operator says so, when the
//! point is disabled, or after [`WAIT_MAX`].

use crate::time::{Instant, sleep};
use std::time::Duration;
use stdx::injection;

/// The longest wait at a point.
pub const WAIT_MAX: Duration = Duration::from_secs(300);
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// Waits at a point if it is wanted: for a message that comes after it was reached.
pub async fn pause(name: &str) {
    let before = injection::wanted(name).map_or(0, |point| point.messages);
    if !injection::reached(name) {
        return;
    }
    tracing::info!(target: "error_injection", "{name}: waiting for message");
    let began = Instant::now();
    // A development build may look now and then; there is no message across shards to wait for.
    while injection::wanted(name).is_some_and(|point| point.messages <= before) {
        if WAIT_MAX <= began.elapsed() {
            tracing::warn!(target: "error_injection", "{name}: timed out waiting for a message");
            return;
        }
        sleep(LOOK_PERIOD).await;
    }
    tracing::info!(target: "error_injection", "{name}: message received");
}
