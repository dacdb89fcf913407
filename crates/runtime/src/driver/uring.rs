//! The io_uring back end.
//!
//! Invariants
//!  - *slab-owns* (of the crate): the memory an entry points to stays where it is until the
//!    entry's completion was taken in, because the shard's op slab owns it.
//!  - *single-issuer*: a ring is made, used and dropped by its shard's thread.
//!  - *own-names*: entries that are no operation have names that no operation has.
//!  - *one-eventfd-read*: at most one read of the eventfd is in the ring.
//!
//! Cancelling never blocks and never frees: the operation completes by itself.
#![allow(unsafe_code, reason = "ring entries point to memory of operations")]

use super::Wait;
use super::op::{Op, OpId, SEND_BYTES_MAX};
use crate::remote::Completions;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::io;
use std::os::fd::RawFd;

const ENTRIES: u32 = 512;
const EVENTFD: u64 = u64::MAX;
const IGNORED: u64 = u64::MAX - 1;

const _: () = assert!((OpId::GENERATION_MAX as u64 + 1) << 32 < IGNORED, "own-names");

/// A ring and what belongs to it.
pub(crate) struct Uring {
    ring: IoUring,
    eventfd: RawFd,
    /// Where the kernel puts the eventfd's count; boxed so that it never moves.
    eventfd_count: Box<u64>,
    eventfd_armed: bool,
    can_truncate: bool,
    /// Completions of operations that were carried out without the ring.
    done: Completions,
}

fn build(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(entries * 4).setup_single_issuer().setup_defer_taskrun();
    builder.setup_taskrun_flag().build(entries)
}

/// Why io_uring cannot be used, if so.
pub(super) fn refusal() -> Option<io::Error> {
    build(8).err()
}

impl Uring {
    pub(crate) fn new(eventfd: RawFd) -> io::Result<Uring> {
        let ring = build(ENTRIES)?;
        let mut probe = Probe::new();
        let probed = ring.submitter().register_probe(&mut probe).is_ok();
        Ok(Uring {
            can_truncate: probed && probe.is_supported(opcode::Ftruncate::CODE),
            ring,
            eventfd,
            eventfd_count: Box::new(0),
            eventfd_armed: false,
            done: Vec::new(),
        })
    }

    pub(crate) fn submit(&mut self, id: OpId, op: &mut Op) {
        debug_assert!(id.0 < IGNORED, "own-names: {id:?}");
        if let Op::Truncate { fd, len } = op
            && !self.can_truncate
        {
            self.done.push((id.0, super::sys::truncate(fd.raw(), *len)));
            return;
        }
        let entry = entry(op).user_data(id.0);
        self.push(&entry);
    }

    pub(crate) fn cancel(&mut self, id: OpId) {
        debug_assert!(id.0 < IGNORED, "own-names: {id:?}");
        self.push(&opcode::AsyncCancel::new(id.0).build().user_data(IGNORED));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: *slab-owns*: what the entry points to outlives its completion.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            self.enter(0, None);
            // A full completion queue keeps the kernel from taking more.
            let mut done = std::mem::take(&mut self.done);
            self.reap(&mut done);
            self.done = done;
        }
    }

    pub(crate) fn wants_poll(&mut self) -> bool {
        let queue = self.ring.submission();
        let work = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        work || !self.done.is_empty() || !self.ring.completion().is_empty()
    }

    pub(crate) fn poll(&mut self, wait: Wait, completions: &mut Completions) {
        match wait {
            Wait::Not => {
                let queue = self.ring.submission();
                let work = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
                drop(queue);
                if work {
                    self.enter(0, None);
                }
            }
            Wait::AtMost(limit) => {
                if !self.eventfd_armed {
                    let at = &raw mut *self.eventfd_count;
                    let read = opcode::Read::new(types::Fd(self.eventfd), at.cast(), 8);
                    self.eventfd_armed = true;
                    self.push(&read.build().user_data(EVENTFD));
                }
                let want = if self.done.is_empty() { 1 } else { 0 };
                self.enter(want, limit);
            }
        }
        completions.append(&mut self.done);
        self.reap(completions);
    }

    fn reap(&mut self, completions: &mut Completions) {
        for completion in self.ring.completion() {
            match completion.user_data() {
                EVENTFD => {
                    assert!(self.eventfd_armed, "one-eventfd-read: an answer to none");
                    self.eventfd_armed = false;
                }
                IGNORED => {}
                id => completions.push((id, completion.result())),
            }
        }
    }

    /// Submits, runs the kernel's deferred work, and waits for `want` completions.
    fn enter(&mut self, want: u32, limit: Option<std::time::Duration>) {
        const GETEVENTS: u32 = 1;
        const EXT_ARG: u32 = 8;
        debug_assert!(want <= 1, "a shard wakes with the first completion, not {want}");
        let submit = self.ring.submission().len() as u32;
        debug_assert!(submit <= ENTRIES, "slab-owns: {submit} entries of {ENTRIES}");
        let result = match limit {
            Some(limit) => {
                let time = types::Timespec::from(limit);
                let args = types::SubmitArgs::new().timespec(&time);
                // SAFETY: *single-issuer*: ours; the arguments match EXT_ARG and live through the
                // call.
                unsafe {
                    self.ring.submitter().enter(submit, want, GETEVENTS | EXT_ARG, Some(&args))
                }
            }
            // SAFETY: *single-issuer*: ours; no argument is passed.
            None => unsafe {
                self.ring.submitter().enter::<libc::sigset_t>(submit, want, GETEVENTS, None)
            },
        };
        if let Err(error) = result {
            match error.raw_os_error() {
                Some(libc::EEXIST) => unreachable!("single-issuer: the ring of another thread"),
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring_enter: {error}"),
            }
        }
    }
}

/// The ring entry of an operation.
fn entry(op: &mut Op) -> squeue::Entry {
    use types::Fd;
    match op {
        Op::Read { fd, buf, offset, len } => {
            debug_assert!(u32::try_from(*len).is_ok(), "slab-owns: a read of {len} bytes");
            let read = opcode::Read::new(Fd(fd.raw()), buf.spare(*len), *len as u32);
            read.offset(*offset).build()
        }
        Op::Write { fd, buf, offset, skip } => {
            let bytes = &buf[*skip..];
            debug_assert!(u32::try_from(bytes.len()).is_ok(), "slab-owns: {} bytes", bytes.len());
            let write = opcode::Write::new(Fd(fd.raw()), bytes.as_ptr(), bytes.len() as u32);
            write.offset(*offset + *skip as u64).build()
        }
        Op::Sync { fd } => {
            opcode::Fsync::new(Fd(fd.raw())).flags(types::FsyncFlags::DATASYNC).build()
        }
        Op::Truncate { fd, len } => opcode::Ftruncate::new(Fd(fd.raw()), *len).build(),
        Op::Allocate { fd, offset, len } => {
            opcode::Fallocate::new(Fd(fd.raw()), *len).offset(*offset).build()
        }
        Op::Open { path, flags, mode } => {
            let open = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path.as_ptr());
            open.flags(*flags).mode(*mode).build()
        }
        // Elsewhere than on this thread, where the kernel would do it at once: the last descriptor
        // of a file that was removed takes its blocks along, and waits for the disk to discard
        // them, tens of milliseconds for some hundred MiB.
        Op::Close { fd } => opcode::Close::new(Fd(*fd)).build().flags(squeue::Flags::ASYNC),
        Op::Accept { fd } => {
            let none = std::ptr::null_mut();
            let accept = opcode::Accept::new(Fd(fd.raw()), none, std::ptr::null_mut());
            accept.flags(libc::SOCK_CLOEXEC).build()
        }
        Op::Connect { fd, address } => {
            opcode::Connect::new(Fd(fd.raw()), address.as_ptr().cast(), address.len()).build()
        }
        Op::Receive { fd, buf } => {
            let spare = buf.spare_capacity_mut();
            debug_assert!(u32::try_from(spare.len()).is_ok(), "slab-owns: {} bytes", spare.len());
            opcode::Recv::new(Fd(fd.raw()), spare.as_mut_ptr().cast(), spare.len() as u32).build()
        }
        Op::Send { fd, buf, skip } => {
            let bytes = &buf[*skip..];
            let len = bytes.len().min(SEND_BYTES_MAX) as u32;
            let send = opcode::Send::new(Fd(fd.raw()), bytes.as_ptr(), len);
            send.flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).build()
        }
        Op::SendParts { fd, parts } => {
            let send = opcode::SendMsg::new(Fd(fd.raw()), parts.header());
            send.flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32).build()
        }
        Op::Readable { fd } => opcode::PollAdd::new(Fd(fd.raw()), libc::POLLIN as u32).build(),
    }
}
