//! Signals of the process: which there are, and the handler that notes them.
//!
//! Invariants
//!  - *handler-stores*: the handler sets a bit and writes to an eventfd, and nothing else.
#![allow(unsafe_code, reason = "a signal handler")]

use std::os::fd::IntoRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// A signal of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in order.
    Terminate,
    /// SIGINT: end in order.
    Interrupt,
    /// SIGHUP: read the configuration again.
    Hangup,
}

const SIGNALS: [(Signal, libc::c_int); 3] = [
    (Signal::Terminate, libc::SIGTERM),
    (Signal::Interrupt, libc::SIGINT),
    (Signal::Hangup, libc::SIGHUP),
];

const _: () = assert!(SIGNALS.len() <= u8::BITS as usize, "handler-stores: a signal is a bit");

/// Bit `n` is set while signal `n` of [`SIGNALS`] waits to be taken.
static PENDING: AtomicU8 = AtomicU8::new(0);
static EVENTFD: OnceLock<i32> = OnceLock::new();

extern "C" fn on_signal(number: libc::c_int) {
    let Some(bit) = SIGNALS.iter().position(|(_, known)| *known == number) else { return };
    PENDING.fetch_or(1 << bit, Ordering::Release);
    if let Some(eventfd) = EVENTFD.get() {
        let one = 1u64;
        // SAFETY: *handler-stores*: `write` may be called in a handler; the descriptor is never
        // closed.
        unsafe { libc::write(*eventfd, (&raw const one).cast(), 8) };
    }
}

/// Keeps the signals of [`SIGNALS`]; the eventfd that tells of them.
pub(crate) fn install() -> i32 {
    *EVENTFD.get_or_init(|| {
        use rustix::event::{EventfdFlags, eventfd};
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = eventfd(0, flags).expect("an eventfd for signals").into_raw_fd();
        for (_, number) in SIGNALS {
            // SAFETY: *handler-stores*: the handler does what a handler may; zeros are a valid
            // `sigaction`.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(number, &action, std::ptr::null_mut());
            }
        }
        fd
    })
}

/// The first signal that waits.
pub(crate) fn take() -> Option<Signal> {
    for (bit, (signal, _)) in SIGNALS.into_iter().enumerate() {
        if PENDING.fetch_and(!(1 << bit), Ordering::AcqRel) & (1 << bit) != 0 {
            return Some(signal);
        }
    }
    None
}
