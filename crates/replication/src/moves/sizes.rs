//! What each replica of each tablet holds, for people: all nodes are asked when somebody looks.
//!
//! Invariants
//!  - *as-decided*: the replicas are those of the catalog, as this node shows it when the answers
//!    are there: one that has just come is named, one that has gone is not.
//!  - *said-or-missing*: a size is what its node told of the tablets that there are now; of a node
//!    that is down, or told of others, it is not known.
//!  - *one-look*: looks wait for each other, so that nodes are not asked by many at once.

use super::Moves;
use super::loads::{ask_living, tables};
use crate::coordinator::own_coordinator;
use crate::wire::loads::TableLoad;
use cluster::{TableEntry, TabletReplicas};
use model::{TableId, Token, Uuid};
use runtime::Erased;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the replicas of a tablet hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletSizes {
    pub table: TableId,
    /// The end of its range.
    pub last: Token,
    /// Bytes of the SSTables on each node that has it, in the order of host ids; `None`: not known.
    pub replicas: Vec<(Uuid, Option<u64>)>,
}

/// Those of all tablets of all tables. Nothing where this node takes no part in a cluster.
pub fn sizes() -> Erased<'static, Vec<TabletSizes>> {
    Erased::new(|| async {
        let look = || async {
            let (Some(moves), Ok(coordinator)) =
                (runtime::local::try_get::<Moves>(), own_coordinator())
            else {
                return Vec::new();
            };
            let Ok(_turn) = moves.looking.acquire(1).await else { return Vec::new() };
            let told = ask_living(&coordinator).await.0;
            let of = |table: &Rc<TableEntry>| of_table(table.schema.id, &table.replicas, &told.by);
            tables(&coordinator.cluster.schema()).iter().flat_map(of).collect()
        };
        runtime::on_shard(0, look).await
    })
}

/// Those of a table. *as-decided*, *said-or-missing*
fn of_table(
    id: TableId,
    replicas: &TabletReplicas,
    told: &BTreeMap<Uuid, Vec<TableLoad>>,
) -> Vec<TabletSizes> {
    let count = replicas.count();
    let size = |host: &Uuid, tablet: usize| {
        let loads = told.get(host)?;
        let at = loads.binary_search_by_key(&id, |load| load.table).ok()?;
        let load = Some(&loads[at]).filter(|load| load.count as usize == count)?;
        let at = load.tablets.binary_search_by_key(&(tablet as u32), |it| it.tablet).ok()?;
        Some(load.tablets[at].bytes)
    };
    let of_tablet = |tablet: usize| {
        let hosts = replicas.read(tablet).iter().map(|(host, _)| (*host, size(host, tablet)));
        let mut all: Vec<(Uuid, Option<u64>)> = hosts.collect();
        all.sort_unstable_by_key(|(host, _)| *host);
        let once = all.windows(2).all(|two| two[0].0 < two[1].0);
        assert!(once, "as-decided: a node has tablet {tablet} of {id} twice");
        TabletSizes { table: id, last: replicas.range(tablet).1, replicas: all }
    };
    (0..count).map(of_tablet).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::loads::TabletLoad;
    use model::TabletMap;

    #[test]
    fn what_was_told_of_other_tablets_is_not_known() {
        let [one, two, three] = [1, 2, 3].map(Uuid::from_u128);
        let table = TableId::from_u128(5);
        let ends = TabletMap::tablets(2, 1).last_tokens().to_vec();
        let hosts = vec![Box::from([(two, 0), (one, 1)]), Box::from([(one, 0), (three, 0)])];
        let replicas = TabletReplicas::new(ends.clone(), hosts);
        let load = |count, tablets: &[(u32, u64)]| {
            let of = |it: &(u32, u64)| TabletLoad { tablet: it.0, bytes: it.1, requests: 0 };
            vec![TableLoad { table, count, tablets: tablets.iter().map(of).collect() }]
        };
        // The second tells of a tablet that has gone, the third of as many as there were before.
        let told = BTreeMap::from([
            (one, load(2, &[(0, 10), (1, 11)])),
            (two, load(2, &[(0, 20), (1, 21)])),
            (three, load(1, &[(0, 30)])),
        ]);
        let of = |last, replicas| TabletSizes { table, last, replicas };
        let expected = [
            of(ends[0], vec![(one, Some(10)), (two, Some(20))]),
            of(ends[1], vec![(one, Some(11)), (three, None)]),
        ];
        assert_eq!(of_table(table, &replicas, &told), expected);
        let silent = of_table(table, &replicas, &BTreeMap::new());
        assert!(silent.iter().flat_map(|it| &it.replicas).all(|(_, size)| size.is_none()));
    }
}
