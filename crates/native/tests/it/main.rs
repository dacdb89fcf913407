//! Served nodes and clients of theirs that send what a test says. One program, so that what stands
//! below is linked once; a test is named by its module: `cargo test -p native --test it ports::`.

mod admission;
mod levels;
mod ports;
