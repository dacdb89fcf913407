//! Wakers that are one word.
//!
//! Invariants
//!  - *word-wakers*: a waker's data is the word (seat 16, generation 24, slot 24), never a
//!    pointer. So cloning and dropping it do nothing, any thread may hold it for ever, and one
//!    whose task has ended wakes no task, or one spuriously.
#![allow(unsafe_code, reason = "wakers that are words")]

use super::Shard;
use crate::remote::{self, TaskId};
use std::task::{RawWaker, RawWakerVTable, Waker};

const _: () = assert!(usize::BITS == 64, "word-wakers: a waker's word needs 64 bits");

impl Shard {
    /// The waker of one of this shard's tasks.
    pub(crate) fn waker(&self, task: TaskId) -> Waker {
        waker(self.remote.seat, task)
    }
}

/// The waker of a task.
fn waker(seat: u16, task: TaskId) -> Waker {
    let word = task.word(seat);
    debug_assert_eq!(TaskId::from_word(word), (seat, task), "word-wakers: {task:?} of {seat}");
    let data = word as usize as *const ();
    // SAFETY: the functions of the table take the data as a word (*word-wakers*) and keep the
    // contract of `RawWaker` for any word, from any thread.
    unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
}

static TABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &TABLE), wake, wake, |_| {});

fn wake(data: *const ()) {
    let (seat, task) = TaskId::from_word(data as usize as u64);
    let here = super::try_with(|shard| {
        let ours = shard.remote.seat == seat;
        if ours {
            shard.wake(task);
        }
        ours
    });
    if here != Some(true)
        && let Some(remote) = remote::seated(seat)
    {
        remote.wake_from_outside(task);
    }
}
