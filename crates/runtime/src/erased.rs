//! A future whose type is not told.
//!
//! A compiler makes the code of an `async fn` where its future is polled: in every crate that waits
//! for it, and there with all that it waits for in turn. An [`Erased`] is made, and so compiled, in
//! the crate of the function; whoever awaits it knows its output alone.
//!
//! Its memory is a block that the thread keeps for the next one, so that a request allocates
//! nothing.
//!
//! Invariants
//!  - *in-place*: a future stays in its block from its first to its last poll, and is dropped
//!    there.
//!  - *block-of-class*: a block goes back to the list of the class that it came from: its size is
//!    [`STEP`] times the class, and a future is in the smallest that holds it.
//!  - *free-alone*: a block that is in a list is in nobody's hands; only its first word is written.
#![allow(unsafe_code, reason = "a place for values of any type")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// What sizes of blocks are multiples of, bytes.
const STEP: usize = 512;
/// Larger ones are not kept.
const CLASSES: usize = 16;
/// How many bytes of free blocks of a class a thread keeps: as many requests of a kind as wait at
/// once find theirs again, where an allocator takes apart what has few blocks of a size.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Of all blocks, bytes; what needs more is not kept.
const ALIGNMENT: usize = 64;

const _: () = assert!(STEP.is_multiple_of(ALIGNMENT), "block-of-class: sizes keep the alignment");
const _: () = assert!(size_of::<*mut Block>() <= STEP, "free-alone: a list is in its blocks");

/// A future of `T` whose type is not told.
#[must_use = "futures do nothing unless polled"]
pub struct Erased<'a, T> {
    future: NonNull<dyn Future<Output = T> + 'a>,
}

impl<'a, T> Erased<'a, T> {
    /// The future that `make` gives, made in its place. Call it where the code should be.
    #[inline]
    pub fn new<F: Future<Output = T> + 'a>(make: impl FnOnce() -> F) -> Erased<'a, T> {
        let block = take(Layout::new::<F>()).cast::<F>();
        debug_assert!(block.is_aligned(), "in-place: a block that is not aligned for its future");
        // A panic of `make` costs this block, and no more.
        // SAFETY: *block-of-class*: the block is as large and as aligned as the layout asks for;
        // *free-alone*: nobody else has it.
        unsafe { block.write(make()) };
        let future: NonNull<dyn Future<Output = T> + 'a> = block;
        Erased { future }
    }
}

impl<T> Future for Erased<'_, T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: *in-place*: the future is ours alone, lives until our drop, and is never moved.
        unsafe { Pin::new_unchecked(self.future.as_mut()) }.poll(context)
    }
}

impl<T> Drop for Erased<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: *in-place*: the future is whole, and nobody sees it after this.
        let layout = unsafe {
            let layout = Layout::for_value(self.future.as_ref());
            ptr::drop_in_place(self.future.as_ptr());
            layout
        };
        give_back(self.future.cast(), layout);
    }
}

/// A free block: the next one of its class.
struct Block {
    next: *mut Block,
}

/// The free blocks of a class.
struct List {
    first: Cell<*mut Block>,
    count: Cell<u32>,
}

struct Lists([List; CLASSES]);

thread_local! {
    static FREE: Lists = const {
        Lists([const { List { first: Cell::new(ptr::null_mut()), count: Cell::new(0) } }; CLASSES])
    };
}

impl List {
    fn pop(&self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first.get())?;
        // SAFETY: *free-alone*: the list wrote the word when the block came.
        self.first.set(unsafe { block.as_ref() }.next);
        debug_assert_ne!(self.count.get(), 0, "free-alone: more blocks than were counted");
        self.count.set(self.count.get() - 1);
        Some(block.cast())
    }

    /// Whether the block was kept.
    fn push(&self, block: NonNull<u8>, class: usize) -> bool {
        let count = self.count.get();
        debug_assert!(class < CLASSES, "block-of-class: {class}");
        debug_assert!(count <= kept_max(class), "free-alone: {count} blocks of {class} are kept");
        if count == kept_max(class) {
            return false;
        }
        let block = block.cast::<Block>();
        debug_assert_ne!(self.first.get(), block.as_ptr(), "free-alone: freed twice");
        // SAFETY: *free-alone*: who gave the block back does not touch it any more.
        unsafe { block.write(Block { next: self.first.get() }) };
        self.first.set(block.as_ptr());
        self.count.set(count + 1);
        true
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        for (class, list) in self.0.iter().enumerate() {
            while let Some(block) = list.pop() {
                // SAFETY: *block-of-class*.
                unsafe { dealloc(block.as_ptr(), of_class(class)) };
            }
            debug_assert_eq!(list.count.get(), 0, "free-alone: fewer blocks than were counted");
        }
    }
}

/// The class whose blocks hold that, if there is one.
#[inline]
fn class_of(layout: Layout) -> Option<usize> {
    let class = layout.size().saturating_sub(1) / STEP;
    (layout.align() <= ALIGNMENT && class < CLASSES).then_some(class)
}

/// What a block of a class is.
fn of_class(class: usize) -> Layout {
    let layout = Layout::from_size_align((class + 1) * STEP, ALIGNMENT);
    layout.expect("a block fits the address space")
}

/// How many free blocks of a class are kept.
const fn kept_max(class: usize) -> u32 {
    (KEPT_BYTES_MAX / ((class + 1) * STEP)) as u32
}

/// Memory for a value of that layout.
#[inline]
fn take(layout: Layout) -> NonNull<MaybeUninit<u8>> {
    let class = class_of(layout);
    let kept = class.and_then(|class| FREE.try_with(|free| free.0[class].pop()).ok().flatten());
    kept.unwrap_or_else(|| fresh(class.map_or(layout, of_class))).cast()
}

#[cold]
fn fresh(layout: Layout) -> NonNull<u8> {
    // SAFETY: a block is never empty, and a layout that has no class is larger than all blocks, or
    // more aligned and rounded up to that.
    let layout = layout.pad_to_align();
    assert_ne!(layout.size(), 0, "block-of-class: an empty block");
    // SAFETY: the layout has a size.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Takes back what [`take`] gave for that layout.
#[inline]
fn give_back(block: NonNull<u8>, layout: Layout) {
    let class = class_of(layout);
    let kept = class.is_some_and(|class| {
        FREE.try_with(|free| free.0[class].push(block, class)).unwrap_or(false)
    });
    if !kept {
        free(block, class.map_or(layout, of_class));
    }
}

#[cold]
fn free(block: NonNull<u8>, layout: Layout) {
    // SAFETY: *block-of-class*: `fresh` allocated it by the same layout.
    unsafe { dealloc(block.as_ptr(), layout.pad_to_align()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::rc::Rc;
    use std::task::Waker;

    fn poll<T>(future: &mut Erased<'_, T>) -> Poll<T> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn kept() -> Vec<u32> {
        FREE.with(|free| free.0.iter().map(|list| list.count.get()).collect())
    }

    /// A future that holds so many bytes while it waits.
    async fn holds<const BYTES: usize>(seen: &Cell<usize>) -> usize {
        let bytes = [7_u8; BYTES];
        std::future::poll_fn(|_| match seen.replace(seen.get() + 1) {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        bytes.iter().map(|byte| usize::from(*byte)).sum()
    }

    #[test]
    fn the_output_is_that_of_the_future() {
        let words = String::from("borrowed");
        let mut length = Erased::new(|| async { words.len() });
        assert_eq!(poll(&mut length), Poll::Ready(8));
        assert_eq!(poll(&mut Erased::new(|| ready(()))), Poll::Ready(()));
    }

    #[test]
    fn a_block_is_used_again_and_what_is_too_large_is_not_kept() {
        let seen = Cell::new(0);
        let mut future = Erased::new(|| holds::<1000>(&seen));
        assert_eq!(poll(&mut future), Poll::Pending);
        assert_eq!(poll(&mut future), Poll::Ready(7000));
        let first = future.future.cast::<u8>();
        drop(future);
        assert_eq!(kept().iter().sum::<u32>(), 1);
        let again = Erased::new(|| holds::<1000>(&seen));
        assert_eq!(again.future.cast::<u8>(), first);
        assert_eq!(kept().iter().sum::<u32>(), 0);
        drop(again);

        let before = kept();
        seen.set(0);
        let mut large = Erased::new(|| holds::<20_000>(&seen));
        assert_eq!(poll(&mut large), Poll::Pending);
        assert_eq!(poll(&mut large), Poll::Ready(140_000));
        drop(large);
        assert_eq!(kept(), before);
    }

    #[test]
    fn what_a_future_holds_is_dropped_once_and_before_its_end_too() {
        let held = Rc::new(());
        let part = held.clone();
        let mut future = Erased::new(|| async move {
            pending::<()>().await;
            drop(part);
        });
        assert_eq!(poll(&mut future), Poll::Pending);
        assert_eq!(Rc::strong_count(&held), 2);
        drop(future);
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn lists_are_bounded_and_alignment_is_kept() {
        #[repr(align(256))]
        struct Wide([u8; 3]);
        let wide = Wide([1, 2, 3]);
        let mut future = Erased::new(move || async move {
            let wide = wide;
            (wide.0.len(), (&raw const wide).addr() % 256)
        });
        assert_eq!(future.future.cast::<u8>().addr().get() % 256, 0);
        assert_eq!(poll(&mut future), Poll::Ready((3, 0)));
        drop(future);
        assert_eq!(kept().iter().sum::<u32>(), 0);

        let many: Vec<_> = (0..kept_max(0) + 5).map(|_| Erased::new(|| ready(1))).collect();
        drop(many);
        // They are freed at the end of this test's thread.
        assert_eq!(kept().iter().sum::<u32>(), kept_max(0));
    }
}
