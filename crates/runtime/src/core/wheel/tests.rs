use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;

struct Count(AtomicU64);
impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Arm(u64),
    Cancel(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let span = prop_oneof![0..1u64 << 18, 0..1u64 << 30, 0..1u64 << 45, 0..1u64 << 56];
    prop_oneof![
        span.clone().prop_map(Step::Arm),
        (0..64usize).prop_map(Step::Cancel),
        span.prop_map(Step::Advance),
    ]
}

proptest! {
    /// Against a sorted map: the same timers have fired after every step, none of them early.
    #[test]
    fn agrees_with_a_sorted_map(
        start in 0..1u64 << 40,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut now = start;
        let mut wheel = Wheel::new(now);
        let mut model = BTreeMap::new();
        let mut timers = Vec::new();
        for step in steps {
            match step {
                Step::Arm(after) => {
                    let fired = Arc::new(Count(AtomicU64::new(0)));
                    let key = wheel.arm(now + after, fired.clone().into());
                    // A tick that is over counts as the next one.
                    let tick = ((now + after + 0xffff) >> 16).max((now >> 16) + 1);
                    model.insert((tick, timers.len()), fired.clone());
                    timers.push((tick, key, fired));
                }
                Step::Cancel(which) if which < timers.len() => {
                    let (tick, key, _) = &timers[which];
                    wheel.cancel(*key);
                    model.remove(&(*tick, which));
                }
                Step::Cancel(_) => {}
                Step::Advance(span) => {
                    now = now.saturating_add(span);
                    let due = wheel.next_ns();
                    let mut count = 0;
                    wheel.advance(now, |waker| { count += 1; waker.wake() });
                    let later = model.split_off(&((now >> 16) + 1, 0));
                    prop_assert_eq!(count, model.len());
                    for fired in model.values() {
                        prop_assert_eq!(fired.0.load(Ordering::Relaxed), 1);
                        prop_assert!(due.is_some_and(|due| due <= now));
                    }
                    model = later;
                }
            }
            prop_assert_eq!(wheel.len(), model.len());
            prop_assert_eq!(wheel.next_ns().is_some(), !model.is_empty());
        }
    }
}
