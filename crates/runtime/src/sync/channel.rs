//! Bounded queues and single values, from task to task of one shard.
//!
//! Invariants
//!  - *slots-balance*: values in the queue, slots that were promised to senders, and free slots are
//!    no more than the capacity, while there is a receiver.
//!  - *counted-ends*: a queue knows how many senders it has, and whether it has its receiver.

use super::waiters::{Left, WaiterId, Waiters};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The other end was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}
impl std::error::Error for Closed {}

/// Why a value could not be sent at once; it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySend<T> {
    /// The queue is full.
    Full(T),
    /// The receiver was dropped.
    Closed(T),
}

struct State<T> {
    queue: VecDeque<T>,
    capacity: usize,
    /// Free slots that no sender was promised.
    free: usize,
    senders: usize,
    receiver: bool,
    sending: Waiters,
    receiving: Option<Waker>,
}

impl<T> State<T> {
    /// *slots-balance*.
    fn check(&self) {
        debug_assert!(
            !self.receiver
                || self.queue.len() + self.free + self.sending.granted() <= self.capacity,
            "slots-balance: {} queued, {} free, {} promised of {}",
            self.queue.len(),
            self.free,
            self.sending.granted(),
            self.capacity
        );
    }
}

/// A queue of at most `capacity` values (at least 1), many senders, one receiver.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(0 < capacity, "slots-balance: a channel without room");
    let state = Rc::new(RefCell::new(State {
        queue: VecDeque::new(),
        capacity,
        free: capacity,
        senders: 1,
        receiver: true,
        sending: Waiters::default(),
        receiving: None,
    }));
    (Sender { state: state.clone() }, Receiver { state })
}

/// The sending end; clones feed the same queue.
pub struct Sender<T> {
    state: Rc<RefCell<State<T>>>,
}

impl<T> Sender<T> {
    /// Sends without waiting.
    pub fn try_send(&self, value: T) -> Result<(), TrySend<T>> {
        let mut state = self.state.borrow_mut();
        if !state.receiver {
            return Err(TrySend::Closed(value));
        }
        if state.free == 0 || 0 < state.sending.waiting() {
            return Err(TrySend::Full(value));
        }
        state.free -= 1;
        drop(state);
        deliver(&self.state, value);
        Ok(())
    }

    /// Sends, waiting for room in turn. The value is lost when the receiver was dropped.
    pub async fn send(&self, value: T) -> Result<(), Closed> {
        let value = match self.try_send(value) {
            Ok(()) => return Ok(()),
            Err(TrySend::Closed(_)) => return Err(Closed),
            Err(TrySend::Full(value)) => value,
        };
        Room { state: &self.state, waiter: None }.await?;
        deliver(&self.state, value);
        Ok(())
    }

    /// Whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        !self.state.borrow().receiver
    }
}

/// Puts a value into the slot its sender holds.
fn deliver<T>(state: &RefCell<State<T>>, value: T) {
    let mut state = state.borrow_mut();
    state.queue.push_back(value);
    state.check();
    let waker = state.receiving.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A slot is free: the first waiting sender's, or anybody's.
fn give_slot<T>(state: &RefCell<State<T>>) {
    let mut state = state.borrow_mut();
    let waker = state.sending.grant();
    match waker {
        Some(waker) => {
            drop(state);
            waker.wake();
        }
        None => {
            state.free += 1;
            state.check();
        }
    }
}

/// Waits for a free slot.
struct Room<'a, T> {
    state: &'a RefCell<State<T>>,
    waiter: Option<WaiterId>,
}

impl<T> Future for Room<'_, T> {
    type Output = Result<(), Closed>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.borrow_mut();
        match self.waiter {
            Some(waiter) if !state.sending.poll(waiter, cx) => return Poll::Pending,
            Some(_) => {}
            None => {
                let waiter = state.sending.push(1, cx);
                drop(state);
                self.waiter = Some(waiter);
                return Poll::Pending;
            }
        }
        let open = state.receiver;
        drop(state);
        self.waiter = None;
        Poll::Ready(if open { Ok(()) } else { Err(Closed) })
    }
}

impl<T> Drop for Room<'_, T> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter else { return };
        let left = self.state.borrow_mut().sending.leave(waiter);
        if left != Left::Waiting {
            give_slot(self.state);
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        let mut state = self.state.borrow_mut();
        debug_assert!(0 < state.senders, "counted-ends: a copy of no sender");
        state.senders += 1;
        drop(state);
        Sender { state: self.state.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        assert!(0 < state.senders, "counted-ends: more senders go than there are");
        state.senders -= 1;
        let waker = if state.senders == 0 { state.receiving.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({} queued)", self.state.borrow().queue.len())
    }
}

/// The receiving end.
pub struct Receiver<T> {
    state: Rc<RefCell<State<T>>>,
}

impl<T> Receiver<T> {
    /// The next value; `None` when all senders were dropped and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next value, if it is there.
    pub fn try_recv(&mut self) -> Option<T> {
        let value = self.state.borrow_mut().queue.pop_front()?;
        debug_assert!(self.state.borrow().receiver, "counted-ends: a value without its receiver");
        give_slot(&self.state);
        Some(value)
    }

    /// How many values wait.
    pub fn len(&self) -> usize {
        self.state.borrow().queue.len()
    }

    /// Whether no value waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.try_recv() {
            return Poll::Ready(Some(value));
        }
        let mut state = self.state.borrow_mut();
        if state.senders == 0 {
            debug_assert_eq!(state.free, state.capacity, "no-lost-unit: of senders that are gone");
            return Poll::Ready(None);
        }
        state.receiving = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        debug_assert!(state.receiver, "counted-ends: the receiver goes twice");
        state.check();
        state.receiver = false;
        let mut wakers = Vec::new();
        while let Some(waker) = state.sending.grant() {
            wakers.push(waker);
        }
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({} queued)", self.state.borrow().queue.len())
    }
}

/// Where a oneshot's value waits.
struct Single<T> {
    value: Option<T>,
    sender: bool,
    receiver: bool,
    waker: Option<Waker>,
}

/// One value, sent once.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let single = Single { value: None, sender: true, receiver: true, waker: None };
    let single = Rc::new(RefCell::new(single));
    (OneshotSender { single: single.clone() }, OneshotReceiver { single })
}

/// Sends the value.
pub struct OneshotSender<T> {
    single: Rc<RefCell<Single<T>>>,
}

impl<T> OneshotSender<T> {
    /// Sends; the value comes back when the receiver was dropped.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut single = self.single.borrow_mut();
        if !single.receiver {
            return Err(value);
        }
        debug_assert!(single.value.is_none(), "counted-ends: two values of one sender");
        single.value = Some(value);
        Ok(())
    }

    /// Whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        !self.single.borrow().receiver
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let mut single = self.single.borrow_mut();
        debug_assert!(single.sender, "counted-ends: the sender goes twice");
        single.sender = false;
        let waker = single.waker.take();
        drop(single);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneshotSender")
    }
}

/// A future of the value.
pub struct OneshotReceiver<T> {
    single: Rc<RefCell<Single<T>>>,
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, Closed>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut single = self.single.borrow_mut();
        if let Some(value) = single.value.take() {
            return Poll::Ready(Ok(value));
        }
        if !single.sender {
            return Poll::Ready(Err(Closed));
        }
        single.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        let mut single = self.single.borrow_mut();
        single.receiver = false;
        let value = single.value.take();
        drop(single);
        drop(value);
    }
}

impl<T> fmt::Debug for OneshotReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneshotReceiver")
    }
}
