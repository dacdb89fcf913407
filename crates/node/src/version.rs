//! What this build calls itself.

/// The identifier of the build.
pub const BUILD_ID: &str = concat!("nereid-", env!("CARGO_PKG_VERSION"));

/// `X.Y.Z-0.YYYYMMDD.hash`, the shape that launchers parse. The hash is that of the package
/// version: builds carry no trace of the machine that made them.
pub fn version() -> String {
    format!("{}-0.20261121.nereid", env!("CARGO_PKG_VERSION"))
}

/// `release` or `debug`.
pub fn build_mode() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}
