//! What waits on one shard, in the orders that a simulation draws.

use runtime::sync::{
    AcquireError, Barrier, Closed, Gate, Notify, Semaphore, TrySend, channel, oneshot,
};
use runtime::task::{Scope, yield_now};
use runtime::time::{sleep, timeout};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn a_notice_is_kept_for_one_and_never_lost() {
    for seed in 0..20 {
        runtime::sim::test(seed, || async {
            let notify = Rc::new(Notify::new());
            notify.notify_one();
            notify.notify_one();
            notify.notified().await;
            assert!(timeout(MOMENT, notify.notified()).await.is_err(), "only one is kept");
            let (scope, woken) = (Scope::new(), Rc::new(Cell::new(0)));
            for n in 0..10 {
                let (notify, woken) = (notify.clone(), woken.clone());
                scope.spawn(async move {
                    // Every other one gives up, perhaps just when it is told.
                    let patience = if n % 2 == 0 { MOMENT } else { MOMENT * 1000 };
                    if timeout(patience, notify.notified()).await.is_ok() {
                        woken.set(woken.get() + 1);
                    }
                });
            }
            sleep(MOMENT).await;
            for _ in 0..5 {
                notify.notify_one();
            }
            sleep(MOMENT * 10).await;
            assert_eq!(woken.get(), 5, "a notice given to somebody who left goes on");
            notify.notify_all();
            scope.join().await;
        });
    }
}

#[test]
fn a_barrier_lets_all_pass_or_none() {
    for seed in 0..20 {
        runtime::sim::test(seed, || async {
            let (barrier, scope) = (Rc::new(Barrier::new(3)), Scope::new());
            assert!(timeout(MOMENT, barrier.wait()).await.is_err());
            let phases = Rc::new(RefCell::new(Vec::new()));
            for _ in 0..3 {
                let (barrier, phases) = (barrier.clone(), phases.clone());
                scope.spawn(async move {
                    for phase in 0..5 {
                        sleep(Duration::from_micros(runtime::random_u64() % 500)).await;
                        assert_eq!(barrier.wait().await, phase);
                        phases.borrow_mut().push(phase);
                    }
                });
            }
            scope.join().await;
            let phases = phases.borrow();
            assert!(phases.is_sorted() && phases.len() == 15, "{phases:?}");
        });
    }
}

#[test]
fn a_semaphore_is_bounded_ordered_and_closes() {
    runtime::sim::test(1, || async {
        let (semaphore, scope) = (Semaphore::new(2, 2), Scope::new());
        let mut held = semaphore.acquire(2).await.unwrap();
        assert!(semaphore.try_acquire(1).is_none());
        let order = Rc::new(RefCell::new(Vec::new()));
        for units in [2, 1] {
            let (theirs, order) = (semaphore.clone(), order.clone());
            scope.spawn(async move {
                let _permit = theirs.acquire(units).await.unwrap();
                order.borrow_mut().push(units);
            });
            while semaphore.waiting() < 3 - units {
                yield_now().await;
            }
        }
        assert_eq!(semaphore.acquire(1).await.unwrap_err(), AcquireError::QueueFull);
        held.shrink(1);
        sleep(MOMENT).await;
        assert_eq!(*order.borrow(), [], "the small one does not overtake");
        drop(held);
        scope.join().await;
        assert_eq!(*order.borrow(), [2, 1]);
        let mut all = semaphore.acquire(2).await.unwrap();
        let part = all.split(1);
        all.merge(part);
        assert_eq!((all.units(), semaphore.available()), (2, 0));
        let closing = semaphore.clone();
        scope.spawn(async move { closing.close() });
        assert_eq!(semaphore.acquire(1).await.unwrap_err(), AcquireError::Closed);
        drop(all);
        assert_eq!(semaphore.available(), 2);
    });
}

#[test]
fn channels_end_with_their_other_half() {
    runtime::sim::test(2, || async {
        let (sender, mut receiver) = channel(1);
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySend::Full(2)));
        assert!(timeout(MOMENT, sender.send(3)).await.is_err());
        assert_eq!(receiver.recv().await, Some(1));
        // The sender that gave up has not kept the slot.
        sender.try_send(4).unwrap();
        let scope = Scope::new();
        let waiting = sender.clone();
        let sent = scope.spawn(async move { waiting.send(5).await });
        yield_now().await;
        drop(receiver);
        assert_eq!(sent.await, Ok(Err(Closed)));
        assert_eq!(sender.try_send(6), Err(TrySend::Closed(6)));
        assert!(sender.is_closed());

        let (sender, receiver) = oneshot();
        let answer = scope.spawn(receiver);
        yield_now().await;
        sender.send(7).unwrap();
        assert_eq!(answer.await, Ok(Ok(7)));
        let (sender, receiver) = oneshot::<u32>();
        drop(sender);
        assert_eq!(receiver.await, Err(Closed));
        let (sender, receiver) = oneshot();
        drop(receiver);
        assert_eq!(sender.send(8), Err(8));
    });
}

#[test]
fn a_gate_closes_behind_the_last() {
    runtime::sim::test(3, || async {
        let (gate, scope) = (Gate::new(), Scope::new());
        for n in 1..4 {
            let guard = gate.enter().unwrap();
            scope.spawn(async move {
                sleep(MOMENT * n).await;
                drop(guard);
            });
        }
        assert_eq!(gate.inside(), 3);
        gate.close().await;
        assert!(gate.is_closed() && gate.inside() == 0);
        assert!(gate.enter().is_err());
        gate.close().await;
        scope.join().await;
    });
}
