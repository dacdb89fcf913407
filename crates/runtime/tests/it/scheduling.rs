//! Groups, scopes, the stall detector and allocations, on a real shard.

use runtime::group::{self, Group};
use runtime::task::{Cancelled, Scope, need_preempt, yield_if_needed, yield_now};
use runtime::testing::block_on_with;
use runtime::time::{Instant, sleep};
use runtime::{Config, on_shard};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn config(shards: u16) -> Config {
    Config { idle_poll: Duration::ZERO, ..Config::new(shards) }
}

#[test]
fn groups_count_what_they_do() {
    block_on_with(config(1), || async {
        let group = group::create("counted", 700);
        assert_eq!(group::create("counted", 800), group);
        group::set_shares(group, 900);
        let scope = Scope::new();
        scope.spawn_in(group, async {
            for _ in 0..9 {
                yield_if_needed().await;
                yield_now().await;
            }
        });
        scope.join().await;
        let names: Vec<_> = group::all_stats().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.last().map(String::as_str), Some("counted"));
        let stats = group::stats(group);
        assert!(10 <= stats.polls && 0 < stats.cpu_ns, "{stats:?}");
        assert_eq!((stats.shares, stats.queue_length), (900, 0));
    });
}

#[test]
fn a_retired_group_leaves_its_number_to_the_next() {
    block_on_with(config(2), || async {
        let names = || group::all_stats().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let fixed = names();
        let first = group::create("first", 100);
        let scope = Scope::new();
        scope.spawn_in(first, yield_now());
        scope.join().await;
        let there = on_shard(1, || async { group::create("first", 100) }).await;
        assert_eq!(there, first, "*same-number*");
        let before = group::totals();
        group::retire(first);
        assert_eq!(names(), fixed);
        let second = group::create("second", 300);
        assert_eq!(second, first);
        let stats = group::stats(second);
        assert_eq!((stats.polls, stats.cpu_ns, stats.shares), (0, 0, 300), "*counted-anew*");
        assert!(before <= group::totals());
        let there = on_shard(1, || async { group::create("second", 300) }).await;
        assert_eq!(there, second);
        assert_ne!(group::create("first", 100), second);
    });
}

#[test]
fn a_task_enters_a_group_for_good() {
    block_on_with(config(1), || async {
        let scope = Scope::new();
        let task = scope.spawn(async {
            group::enter(group::FLUSH).await;
            yield_now().await;
            let own = group::current();
            group::enter(group::FLUSH).await;
            own
        });
        assert_eq!(task.await, Ok(group::FLUSH));
        assert_eq!(group::stats(group::FLUSH).polls, 2, "its polls are those of the group");
        assert_eq!(group::current(), group::MAIN);
    });
}

#[test]
fn a_group_is_entered_and_left() {
    block_on_with(config(1), || async {
        assert_eq!(group::current(), group::MAIN);
        let inner = group::with_group(group::FLUSH, async {
            let scope = Scope::new();
            let spawned = scope.spawn(async { group::current() }).await;
            yield_now().await;
            (group::current(), spawned)
        });
        assert_eq!(inner.await, (group::FLUSH, Ok(group::FLUSH)));
        assert_eq!(group::current(), group::MAIN);
        // Dropped half-way, it is left as well.
        let endless = group::with_group(group::COMPACTION, std::future::pending::<()>());
        let _ = runtime::time::timeout(Duration::from_millis(1), endless).await;
        assert_eq!(group::current(), group::MAIN);
        // A task in another group that is dropped from here does not move us.
        let scope = Scope::new();
        let waiting = || group::with_group(group::STREAMING, std::future::pending::<()>());
        scope.spawn(waiting());
        sleep(Duration::from_millis(1)).await;
        drop(scope);
        assert_eq!(group::current(), Group::clone(&group::MAIN));
    });
}

#[test]
fn a_task_may_run_at_once() {
    block_on_with(config(1), || async {
        let said = Rc::new(RefCell::new(Vec::new()));
        let scope = Scope::new();
        let say = |what: &'static str| {
            let said = said.clone();
            move || said.borrow_mut().push(what)
        };
        let (begun, ended, short) = (say("begun"), say("ended"), say("short"));
        let own_group = group::with_group(group::FLUSH, async {
            scope.run(async move {
                begun();
                // A wake within the first poll is not lost.
                yield_now().await;
                assert_eq!(group::current(), group::FLUSH);
                ended();
            });
            scope.run(async move { short() });
            group::current()
        });
        assert_eq!(own_group.await, group::FLUSH);
        assert_eq!(group::current(), group::MAIN);
        assert_eq!(*said.borrow(), ["begun", "short"]);
        assert_eq!(scope.task_count(), 1);
        scope.join().await;
        assert_eq!(*said.borrow(), ["begun", "short", "ended"]);
        // What waits goes with its scope, also when it goes to another group at once.
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let noted = Dropped(dropped.clone(), 7);
        scope.run(async move {
            let _noted = noted;
            group::with_group(group::STREAMING, std::future::pending::<()>()).await;
        });
        assert_eq!(group::current(), group::MAIN);
        scope.cancel().await;
        assert_eq!(*dropped.borrow(), [7]);
    });
}

/// Notes that it was dropped.
struct Dropped(Rc<RefCell<Vec<u32>>>, u32);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

#[test]
fn a_scope_ends_its_tasks() {
    block_on_with(config(1), || async {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let scope = Scope::new();
        let mut handles = Vec::new();
        for n in 0..3 {
            let noted = Dropped(dropped.clone(), n);
            handles.push(scope.spawn(async move {
                let _noted = noted;
                std::future::pending::<()>().await;
            }));
        }
        yield_now().await;
        assert_eq!(scope.task_count(), 3);
        scope.cancel().await;
        assert_eq!(*dropped.borrow(), [0, 1, 2]);
        for handle in handles {
            assert_eq!(handle.await, Err(Cancelled));
        }
        // Usable again; a nested scope goes with its task.
        let noted = Dropped(dropped.clone(), 3);
        scope.spawn(async move {
            let inner = Scope::new();
            inner.spawn(async move {
                let _noted = noted;
                std::future::pending::<()>().await;
            });
            inner.join().await;
        });
        sleep(Duration::from_millis(1)).await;
        drop(scope);
        assert_eq!(dropped.borrow().last(), Some(&3));
    });
}

#[inline(never)]
fn hold_the_shard(until: Instant) -> u64 {
    let before = runtime::stalls().0;
    while runtime::stalls().0 == before && Instant::now() < until {
        std::hint::spin_loop();
    }
    runtime::stalls().0 - before
}

#[test]
fn a_task_that_holds_its_shard_is_reported_with_its_place() {
    let config = Config { stall_threshold: Some(Duration::from_millis(5)), ..config(1) };
    let (found, place) = block_on_with(config, || async {
        yield_now().await;
        let found = hold_the_shard(Instant::now() + Duration::from_secs(30));
        (found, runtime::stalls().1)
    });
    assert_eq!(found, 1);
    assert!(place.contains("hold_the_shard"), "{place}");
}

#[allow(clippy::disallowed_methods)] // To block the shard is what the test is about.
#[inline(never)]
fn wait_in_the_kernel(until: Instant) -> u64 {
    let before = runtime::stalls().0;
    while runtime::stalls().0 == before && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    runtime::stalls().0 - before
}

#[test]
fn a_task_that_waits_in_the_kernel_is_reported_though_it_does_not_run() {
    let config = Config { stall_threshold: Some(Duration::from_millis(5)), ..config(1) };
    let found = block_on_with(config, || async {
        yield_now().await;
        wait_in_the_kernel(Instant::now() + Duration::from_secs(30))
    });
    assert_eq!(found, 1);
}

#[test]
fn a_long_loop_learns_that_its_quota_is_over() {
    block_on_with(config(1), || async {
        yield_now().await;
        while !need_preempt() {
            std::hint::spin_loop();
        }
        yield_now().await;
    });
}

#[test]
fn allocations_stay_within_the_budget() {
    let found = block_on_with(config(2), || async {
        let scope = Scope::new();
        let mut found = Vec::new();
        // Twice: slabs and queues have grown in the first round.
        for _ in 0..2 {
            found.clear();
            let before = allocations();
            scope.spawn(async { 1 }).await.unwrap();
            found.push(("spawn", allocations() - before));
            let before = allocations();
            assert_eq!(on_shard(0, || async { 2 }).await, 2);
            found.push(("on_shard here", allocations() - before));
            let before = allocations();
            // The third allocation is over there.
            assert_eq!(on_shard(1, || async { 3 }).await, 3);
            found.push(("on_shard there", allocations() - before));
            let before = allocations();
            sleep(Duration::from_micros(10)).await;
            assert_eq!(runtime::time::timeout(Duration::from_secs(9), async { 4 }).await, Ok(4));
            yield_now().await;
            found.push(("sleep, timeout, yield", allocations() - before));
        }
        found
    });
    let expected =
        [("spawn", 2), ("on_shard here", 0), ("on_shard there", 2), ("sleep, timeout, yield", 0)];
    assert_eq!(found, expected);
}

#[test]
#[should_panic(expected = "on purpose")]
fn a_panic_ends_all_shards_and_reaches_the_caller() {
    let _ = runtime::run(config(2), |shard| async move {
        if shard == 1 {
            panic!("on purpose");
        }
        std::future::pending::<()>().await;
    });
}

#[test]
fn what_nothing_can_run_on_is_refused() {
    let refused = runtime::run(config(0), |_| async {}).unwrap_err();
    assert_eq!(refused.to_string(), "runtime configuration: at least one shard is needed");
}
