//! A client session: the client, its role, and the keyspace in use.
//!
//! Invariants
//!  - *checked-of-now*: an answer that a session keeps - whose permissions count, that a
//!    statement may be executed, which service level holds - holds for the generation of roles
//!    and grants in which it was found, and for no other.
//!  - *driver-until-load*: a session counts as the driver's own until it reads or writes a table
//!    that is not a system table; then it counts as its role's for good.

use auth::{Rights, State, Workload};
use cluster::Access;
use runtime::group::{self, Group};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Statements that a session remembers it may execute.
const CLEARED: usize = 64;

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// The keyspace set by `USE`.
    pub keyspace: RefCell<Option<Rc<str>>>,
    /// The role that is logged in, if any.
    pub user: RefCell<Option<String>>,
    /// Where the client is; `None` for this node itself.
    pub client: Option<SocketAddr>,
    /// Whether it may do everything without being anybody.
    is_trusted: Cell<bool>,
    /// Whether it is a client's, not this node's own.
    is_client: bool,
    rights: RefCell<Option<Rc<Rights>>>,
    /// By a statement's number, at a place that it says: the number, and the generation in which
    /// it was allowed. Empty until the first one is.
    cleared: RefCell<Box<[(u64, u64)]>>,
    /// And the generation in which they were looked up.
    terms: Cell<(u64, Terms)>,
    /// *driver-until-load*.
    has_load: Cell<bool>,
    batch_form: Cell<BatchForm>,
}

/// What a conditional batch is answered with. Drivers differ in what they expect of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchForm {
    /// For each statement, applied or not, a row: `[applied]` and what the statement found.
    Scylla,
    /// `[applied]` alone; where it is false, it is with each row that conditions are about.
    Cassandra,
}

/// What service levels mean for the requests of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long requests may take.
    pub timeout: Option<Duration>,
    /// What kind of work they are.
    pub workload: Option<Workload>,
    /// The scheduling group that they run in.
    pub group: Group,
    /// The same while the session is the driver's own.
    pub group_of_driver: Group,
}

impl Terms {
    /// Without a service level.
    const NONE: Terms = Terms {
        timeout: None,
        workload: None,
        group: group::STATEMENT,
        group_of_driver: group::STATEMENT,
    };

    /// Of the role that asks.
    pub fn of(access: &Access, role: Option<&str>) -> Terms {
        let level = role.and_then(|role| access.state().effective_level(role)).unwrap_or_default();
        let shares = level.shares.as_ref();
        let group = shares.and_then(|(name, _)| access.group_of(name));
        let group = group.unwrap_or(group::STATEMENT);
        Terms {
            timeout: level.timeout.map(|(_, timeout)| timeout),
            workload: level.workload.map(|(_, workload)| workload),
            group,
            group_of_driver: access.group_of_driver().unwrap_or(group),
        }
    }
}

/// No state has that generation.
const NEVER: u64 = u64::MAX;

impl Session {
    /// A connection of a client. No role is logged in, so where permissions count it may do nothing
    /// until [`Session::log_in`].
    pub fn new(client: SocketAddr) -> Session {
        Session { client: Some(client), is_client: true, ..Session::nobody() }
    }

    /// This node itself: may do everything.
    pub fn internal() -> Session {
        Session { is_trusted: Cell::new(true), ..Session::nobody() }
    }

    /// A trusted connection, as through the maintenance socket: may
    /// do everything, without a login.
    pub fn maintenance() -> Session {
        Session { is_client: true, ..Session::internal() }
    }

    fn nobody() -> Session {
        Session {
            keyspace: RefCell::new(None),
            user: RefCell::new(None),
            client: None,
            is_trusted: Cell::new(false),
            is_client: false,
            rights: RefCell::new(None),
            cleared: RefCell::new(Box::default()),
            terms: Cell::new((NEVER, Terms::NONE)),
            has_load: Cell::new(false),
            batch_form: Cell::new(BatchForm::Scylla),
        }
    }

    /// The client has authenticated as that role.
    pub fn log_in(&self, role: &str) {
        *self.user.borrow_mut() = Some(role.to_owned());
        *self.rights.borrow_mut() = None;
        *self.cleared.borrow_mut() = Box::default();
        self.terms.set((NEVER, Terms::NONE));
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<Rc<str>> {
        self.keyspace.borrow().clone()
    }

    /// The role that is logged in.
    pub fn role(&self) -> Option<String> {
        self.user.borrow().clone()
    }

    /// Whether it may do everything without being anybody.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.get()
    }

    /// Whether it is a client's, not this node's own.
    pub(crate) fn is_client(&self) -> bool {
        self.is_client
    }

    /// Its client is a driver that expects this of conditional batches.
    pub fn expects(&self, form: BatchForm) {
        self.batch_form.set(form);
    }

    /// What conditional batches are answered with; ScyllaDB's form unless the client expects
    /// another.
    pub fn batch_form(&self) -> BatchForm {
        self.batch_form.get()
    }

    /// Whose permissions count (*checked-of-now*).
    pub(crate) fn rights(&self, state: &State) -> Rc<Rights> {
        if let Some(rights) = &*self.rights.borrow()
            && rights.generation == state.generation()
        {
            return rights.clone();
        }
        let user = self.user.borrow();
        let rights = match user.as_deref() {
            Some(role) => state.rights(role),
            None => {
                Rights { roles: Vec::new(), is_superuser: false, generation: state.generation() }
            }
        };
        let rights = Rc::new(rights);
        *self.rights.borrow_mut() = Some(rights.clone());
        rights
    }

    /// Whether the statement of that number was allowed in that generation. Costs a look at one
    /// place.
    #[inline]
    pub(crate) fn is_cleared(&self, statement: u64, generation: u64) -> bool {
        let cleared = self.cleared.borrow();
        cleared.get(statement as usize % CLEARED) == Some(&(statement, generation))
    }

    /// It was allowed.
    pub(crate) fn clear(&self, statement: u64, generation: u64) {
        let mut cleared = self.cleared.borrow_mut();
        if cleared.is_empty() {
            // No statement has the greatest number.
            *cleared = vec![(u64::MAX, 0); CLEARED].into_boxed_slice();
        }
        cleared[statement as usize % CLEARED] = (statement, generation);
    }

    /// What service levels say of its requests (*checked-of-now*). Costs a comparison.
    #[inline]
    pub fn terms(&self, access: &Access) -> Terms {
        let (generation, terms) = self.terms.get();
        if generation == access.state().generation() {
            return terms;
        }
        self.look_up_terms(access)
    }

    #[cold]
    fn look_up_terms(&self, access: &Access) -> Terms {
        let terms = match self.is_trusted() {
            true => Terms::NONE,
            false => Terms::of(access, self.user.borrow().as_deref()),
        };
        self.terms.set((access.state().generation(), terms));
        terms
    }

    /// The scheduling group that its next request runs in.
    #[inline]
    pub fn group(&self, access: &Access) -> Group {
        let terms = self.terms(access);
        if self.has_load.get() { terms.group } else { terms.group_of_driver }
    }

    /// It reads or writes what is not the system's (*driver-until-load*).
    #[inline]
    pub(crate) fn loads(&self) {
        self.has_load.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::Change;

    #[test]
    fn what_was_allowed_holds_for_its_generation_and_its_role() {
        let session = Session::new(SocketAddr::from(([127, 0, 0, 1], 9)));
        assert!(!session.is_cleared(3, 7));
        session.clear(3, 7);
        assert!(session.is_cleared(3, 7) && !session.is_cleared(3, 8));
        assert!(!session.is_cleared(3 + CLEARED as u64, 7));
        session.log_in("a");
        assert!(!session.is_cleared(3, 7));
    }

    #[test]
    fn rights_are_those_of_now() {
        let role = |name: &str, is_superuser| Change::Role {
            name: name.to_owned(),
            can_login: true,
            is_superuser,
            salted_hash: None,
        };
        let mut state = State::of([role("a", false)]);
        let session = Session::new(SocketAddr::from(([127, 0, 0, 1], 9)));
        assert!(session.rights(&state).roles.is_empty());
        session.log_in("a");
        assert!(!session.rights(&state).is_superuser);
        state.apply(role("a", true));
        assert!(session.rights(&state).is_superuser);
        state.apply(Change::Forget("a".to_owned()));
        assert!(!session.rights(&state).is_superuser);
    }
}
