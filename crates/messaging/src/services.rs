//! What all connections of a shard share.

use crate::algorithms::Spending;
use crate::budget::Budget;
use crate::complaints::Complaints;
use crate::config::{Config, Planted};
use crate::counters::Tally;
use crate::error::Refused;
use crate::names::{Class, HostId};
use crate::policy::Policy;
use crate::verbs::Verbs;
use runtime::group::{self, Group};
use runtime::sync::Notify;
use runtime::task::Scope;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// What all connections of a shard share.
pub(crate) struct Services {
    pub(crate) config: Config,
    pub(crate) budget: Rc<Budget>,
    pub(crate) tally: Tally,
    /// *zstd-within-quota*
    pub(crate) spending: Cell<Spending>,
    pub(crate) verbs: Verbs,
    pub(crate) policy: Rc<dyn Policy>,
    pub(crate) complaints: Complaints,
    pub(crate) bans: RefCell<BTreeSet<HostId>>,
    /// No request is begun any more.
    pub(crate) stops: Cell<bool>,
    /// The state of a connection has changed.
    pub(crate) changed: Notify,
    /// What runs on, whatever becomes of the connection that it came by.
    pub(crate) one_way: Scope,
}

impl Services {
    pub(crate) fn new(config: Config, verbs: Verbs, policy: Rc<dyn Policy>) -> Services {
        debug_assert_eq!(config.check(), Ok(()), "a configuration that was not looked at");
        let services = Services {
            budget: Rc::new(Budget::new(config.memory_bytes)),
            tally: Tally::default(),
            spending: Cell::default(),
            verbs,
            policy,
            complaints: Complaints::default(),
            bans: RefCell::default(),
            stops: Cell::new(false),
            changed: Notify::new(),
            one_way: Scope::new(),
            config,
        };
        debug_assert!(
            services.budget.total_bytes() <= services.config.memory_bytes,
            "bounded-memory: purses of more than there is"
        );
        services
    }

    /// Our cluster and host id.
    pub(crate) fn us(&self) -> (&str, HostId) {
        (&self.config.cluster, self.config.host)
    }

    pub(crate) fn is_banned(&self, host: HostId) -> bool {
        self.bans.borrow().contains(&host)
    }

    pub(crate) fn is_planted(&self, planted: Planted) -> bool {
        self.config.planted == Some(planted)
    }

    /// One line of the log about a node that was refused, or has refused us.
    pub(crate) fn complain(&self, who: &str, refused: &Refused, by_us: bool) {
        debug_assert!(!who.is_empty(), "told-why: a line names the other node");
        debug_assert!(!refused.text.is_empty(), "told-why: {:?} in no words", refused.why);
        let (what, said) = match by_us {
            true => ("refused", "is refused"),
            false => ("refuses", "refuses this node"),
        };
        self.complaints.warn(who, what, &format!("{who} {said}: {refused}"));
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Services({})", self.config.host)
    }
}

/// Where the tasks of a class run.
pub(crate) fn group_of(class: Class) -> Group {
    match class {
        Class::Control => group::RAFT,
        Class::Statements => group::STATEMENT,
        Class::Bulk => group::STREAMING,
    }
}
