//! Signals of the process, as something to wait for. Shard 0 listens.

/// What the process was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in order.
    Terminate,
    /// SIGINT: end in order.
    Interrupt,
    /// SIGHUP: read the configuration again.
    Hangup,
}

/// The next signal. From the first call on these signals end the process no more. On shard 0.
pub async fn wait() -> Signal {
    todo!()
}
