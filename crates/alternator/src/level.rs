//! What the service level of the role whose key has signed a request means for it: its scheduling
//! group, and how long it may take.
//!
//! Invariants
//!  - *of-its-role*: a request is executed in the group of the level of its role; one of which
//!    nobody knows who asks, and one of a role without a level, in that of statements. A change of
//!    levels, or of who has which, counts from the next request on.
//!  - *as-long-as-allowed*: a request for items takes no longer than the level of its role allows;
//!    others have what they need.

use crate::error::Error;
use cluster::Access;
use query::Terms;
use runtime::group::{self, Group};
use runtime::time::timeout;
use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

/// Operations on items.
const ON_ITEMS: [&str; 14] = [
    "BatchExecuteStatement",
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "ExecuteStatement",
    "ExecuteTransaction",
    "GetItem",
    "GetRecords",
    "PutItem",
    "Query",
    "Scan",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateItem",
];

/// The level of the role that asked last on a connection: most connections are of one.
#[derive(Debug, Default)]
pub(crate) struct Level(RefCell<Option<Known>>);

#[derive(Debug)]
struct Known {
    role: String,
    /// Of the state of roles and levels that it was found in.
    generation: u64,
    group: Group,
    limit: Option<Duration>,
}

impl Level {
    /// Moves the running task, which serves the connection, to the group of a role; how long its
    /// request may take, if that is bounded. (*of-its-role*)
    pub(crate) async fn enter(&self, access: &Access, role: Option<&str>) -> Option<Duration> {
        let (group, limit) = self.of(access, role);
        group::enter(group).await;
        limit
    }

    /// The group that the next request runs in, if it is of that role.
    pub(crate) fn group(&self, access: &Access, role: Option<&str>) -> Group {
        self.of(access, role).0
    }

    fn of(&self, access: &Access, role: Option<&str>) -> (Group, Option<Duration>) {
        let Some(role) = role else { return (group::STATEMENT, None) };
        let generation = access.state().generation();
        let mut known = self.0.borrow_mut();
        if let Some(known) = &*known
            && known.generation == generation
            && known.role == role
        {
            return (known.group, known.limit);
        }
        let Terms { group, timeout: limit, .. } = Terms::of(access, Some(role));
        *known = Some(Known { role: role.to_owned(), generation, group, limit });
        (group, limit)
    }
}

/// An answer, unless it takes too long. `name`: of the operation. (*as-long-as-allowed*)
pub(crate) async fn limited<T>(
    limit: Duration,
    name: &str,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if !ON_ITEMS.contains(&name) {
        return answer.await;
    }
    timeout(limit, answer).await.unwrap_or_else(|_| {
        let text = "Operation timed out - the timeout of the service level is over";
        Err(Error::internal(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::met::OPERATIONS;
    use runtime::time::sleep;

    #[test]
    fn what_is_about_items_takes_no_longer_than_its_level_allows() {
        assert!(ON_ITEMS.iter().all(|name| OPERATIONS.contains(name)));
        runtime::sim::test(1, || async {
            let answer = |name, millis| {
                limited(Duration::from_millis(50), name, async move {
                    sleep(Duration::from_millis(millis)).await;
                    Ok(millis)
                })
            };
            assert_eq!(answer("GetItem", 49).await.unwrap(), 49);
            let error = answer("GetItem", 51).await.unwrap_err();
            assert!(error.message.contains("the timeout of the service level"), "{error}");
            assert_eq!(error.kind.status(), 500, "it may be tried again");
            assert_eq!(answer("CreateTable", 5000).await.unwrap(), 5000);
        });
    }
}
