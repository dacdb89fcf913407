//! Line tables are three quarters of the binary; compressed they are a third of that. What reads
//! them (backtraces of panics and stalls, gdb, perf, valgrind) does so either way.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
}
