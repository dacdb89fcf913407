//! What this node knows of ranges in which all replicas had the same when they were repaired last:
//! who asks all of them, and hears of the same repair from each, need not read anything.
//!
//! A replica counts what changes in its part of a range ([`storage::Storage::changes`]). It takes
//! the counts when a repair begins, before anything is read, and once more when it has ended: where
//! they are the same, what it has is what was compared, and that repair is remembered. What the
//! repair has brought is a change, too, so what differed is looked at once more.
//!
//! Damage that a read has found is a change, and so is what is put aside for it.
//!
//! Deletions and expired cells that merges forget meanwhile count as no change: nobody can read
//! what they take away, whoever does it first.
//!
//! Invariants
//!  - *from-before*: counts are taken before the first row is read of what they stand for.
//!  - *unchanged*: a repair is told of only while nothing has changed since then.
//!  - *bounded*: so many ranges of a shard are known; of another one it is found out again.
//!
//! Lives on the shard that keeps a range's sessions, and until the node stops.

use crate::coordinator::own_storage;
use crate::wire::sync::Part;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Ranges that a shard knows, and repairs that have begun there.
const RANGES_MAX: usize = 4096;
const BEGUN_MAX: usize = 1024;

/// How often it has changed on each shard; `None`: there is no such table.
type Counts = Vec<Option<u64>>;

/// See the module. Stands in `runtime::local`.
#[derive(Default)]
pub(crate) struct Known {
    agreed: RefCell<BTreeMap<Part, (u128, Rc<Counts>)>>,
    begun: RefCell<BTreeMap<u128, (Part, Counts)>>,
    planted_late: Cell<bool>,
}

async fn counts(part: Part) -> Counts {
    let (table, first, last) = part;
    let count = move || async move { own_storage().ok()?.changes(table, (first, last)) };
    let counts = runtime::on_all_shards(count).await;
    debug_assert!(!counts.is_empty(), "unchanged: a node without shards");
    counts
}

impl Known {
    pub(crate) fn of_shard() -> Rc<Known> {
        runtime::local::get_or_default::<Known>()
    }

    /// The repair after which nothing has changed here; 0: none.
    pub(crate) async fn agreed(&self, part: Part) -> u128 {
        let Some((session, then)) = self.agreed.borrow().get(&part).cloned() else { return 0 };
        debug_assert!(session != 0, "unchanged: {part:?} is known by the repair of nobody");
        if *then == counts(part).await {
            return session;
        }
        stdx::probe!("a range has changed since it was repaired");
        let mut all = self.agreed.borrow_mut();
        if all.get(&part).is_some_and(|(known, _)| *known == session) {
            all.remove(&part);
        }
        0
    }

    /// A repair begins; nothing was read for it yet (*from-before*).
    pub(crate) async fn begin(&self, session: u128, part: Part) {
        debug_assert!(session != 0, "unchanged: the repair of nobody");
        let now = counts(part).await;
        let mut begun = self.begun.borrow_mut();
        if BEGUN_MAX <= begun.len() && !begun.contains_key(&session) {
            // Somebody has died over it: most of them end.
            begun.pop_first();
        }
        begun.entry(session).or_insert((part, now));
        debug_assert!(begun.len() <= BEGUN_MAX, "bounded: {} have begun", begun.len());
    }

    /// Whether it has begun here, and this node knows of it since then.
    pub(crate) fn has_begun(&self, session: u128) -> bool {
        debug_assert!(session != 0, "from-before: the repair of nobody");
        self.begun.borrow().contains_key(&session)
    }

    /// It has ended; whether all replicas had the same in all of it, or have now.
    pub(crate) async fn end(&self, session: u128, all_agree: bool) {
        let Some((part, then)) = self.begun.borrow_mut().remove(&session) else { return };
        if !all_agree {
            return;
        }
        let now = counts(part).await;
        let then = if self.planted_late.get() { now.clone() } else { then };
        if then != now || now.contains(&None) {
            return;
        }
        let mut agreed = self.agreed.borrow_mut();
        if RANGES_MAX <= agreed.len() && !agreed.contains_key(&part) {
            agreed.pop_first();
        }
        agreed.insert(part, (session, Rc::new(then)));
        debug_assert!(agreed.len() <= RANGES_MAX, "bounded: {} are known", agreed.len());
    }

    /// A mistake that a test plants (*from-before*): counts are those of the end.
    pub(crate) fn plant_late(&self) {
        self.planted_late.set(true);
    }
}
