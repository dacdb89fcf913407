//! Signals of the process, as something to wait for. Shard 0 listens.
#![allow(unsafe_code, reason = "the descriptor of the signals is read")]

use crate::core::ops::submit;
use crate::core::simulated;
use crate::driver::op::{Fd, FdKind, Op};
pub use crate::driver::signals::Signal;
use crate::driver::signals::{install, take};
use std::os::fd::{AsRawFd, IntoRawFd};

/// From now on these signals end the process no more: they wait to be taken by [`wait`].
pub fn keep() {
    if simulated().is_none() {
        let _ = install();
    }
}

/// The next signal. From the first call on they are kept, as by [`keep`]. On shard 0.
pub async fn wait() -> Signal {
    if let Some(machine) = simulated() {
        return std::future::poll_fn(|cx| machine.poll_signal(cx)).await;
    }
    let eventfd = install();
    loop {
        if let Some(signal) = take() {
            return signal;
        }
        // SAFETY: *fd-outlives-ops* (of the driver): the descriptor is never closed.
        let eventfd = unsafe { std::os::fd::BorrowedFd::borrow_raw(eventfd) };
        // A copy of the descriptor, because an operation closes what it holds.
        let Ok(copy) = eventfd.try_clone_to_owned() else { continue };
        let fd = Fd::new(copy.into_raw_fd(), FdKind::File);
        submit(Op::Readable { fd }, None).await;
        let mut count = [0; 8];
        // SAFETY: *valid-places* (of the driver's calls): the buffer is as long as said; nothing
        // there is as good as something.
        unsafe { libc::read(eventfd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}
