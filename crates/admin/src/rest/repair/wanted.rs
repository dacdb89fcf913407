//! What a request for a repair asks for, and what of that cannot be.

use super::super::Door;
use super::super::peers::known;
use crate::call::{Answer, Call};
use cluster::Nodes;
use model::{TableId, Uuid};
use std::collections::BTreeSet;

/// What a repair is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub tables: Vec<TableId>,
    /// Only ranges of which this node is the first replica.
    pub is_primary: bool,
    /// Also ranges of which it is no replica.
    pub is_everywhere: bool,
    /// From the first token up to the last; none: the whole ring.
    pub within: Vec<(i64, i64)>,
    /// Only ranges that have one of these tokens; none: all.
    pub holding: Vec<i64>,
    /// Only among replicas on these nodes.
    pub among: Option<BTreeSet<Uuid>>,
    /// Replicas on these are left out.
    pub without: BTreeSet<Uuid>,
    /// Also what is known to agree is read.
    pub is_full: bool,
    /// Its tables are small: a range is as large as the same nodes have it.
    pub is_small: bool,
    /// No more ranges at once on a shard than this; 0: as many as the memory allows.
    pub at_once: usize,
}

/// What a repair of tables without tablets may be told.
const KNOWN: [&str; 18] = [
    "columnFamilies",
    "startToken",
    "endToken",
    "ranges",
    "primaryRange",
    "parallelism",
    "dataCenters",
    "hosts",
    "ignore_nodes",
    "ranges_parallelism",
    "full",
    "incremental",
    "trace",
    "jobThreads",
    "pullRepair",
    "small_table_optimization",
    "ignoreUnreplicatedKeyspaces",
    "keyspace",
];

fn no(why: impl Into<String>) -> Answer {
    Answer::refused(400, why)
}

impl Wanted {
    /// Of tables without tablets.
    pub(super) fn of_ring(
        door: &Door,
        call: &Call,
        tables: Vec<TableId>,
    ) -> Result<Wanted, Answer> {
        if let Some((name, _)) = call.parameters().find(|(name, _)| !KNOWN.contains(name)) {
            return Err(no(format!("unsupported repair option: {name}")));
        }
        for name in ["incremental", "trace"] {
            if call.flag(name, false)? {
                return Err(no(format!("unsupported repair option: {name}")));
            }
        }
        match call.given("parallelism").unwrap_or("parallel") {
            "parallel" | "sequential" | "0" | "1" => {}
            other => return Err(no(format!("unsupported repair parallelism: {other}"))),
        }
        let is_primary = call.flag("primaryRange", false)?;
        let among = among(door, call)?;
        if is_primary && among.is_some() {
            let why = "You need to run primary range repair on all nodes in the cluster";
            return Err(no(why));
        }
        let without = hosts(door, call, "ignore_nodes")?;
        check_partners(door, among.as_ref(), &without)?;
        let at_once: i64 = call.number("ranges_parallelism", Some(0))?;
        let at_once = match usize::try_from(at_once) {
            Ok(at_once) if 0 < at_once || call.given("ranges_parallelism").is_none() => at_once,
            _ => return Err(no("ranges_parallelism: not a number of ranges")),
        };
        Ok(Wanted {
            tables,
            is_primary,
            within: ranges(call)?,
            among,
            without,
            is_full: call.flag("full", false)?,
            is_small: call.flag("small_table_optimization", false)?,
            at_once,
            ..Wanted::default()
        })
    }

    /// Of tablets.
    pub(super) fn of_tablets(door: &Door, call: &Call, table: TableId) -> Result<Wanted, Answer> {
        let tokens = call.parameter("tokens").unwrap_or_default();
        let wrong = || no(format!("tokens: not all and no tokens: {tokens}"));
        let holding: Vec<i64> = match tokens {
            "all" => Vec::new(),
            _ => {
                let tokens = tokens.split(',').map(|token| token.trim().parse());
                tokens.collect::<Result<_, _>>().map_err(|_| wrong())?
            }
        };
        let mut among = None;
        if call.given("hosts_filter").is_some() {
            among = Some(hosts(door, call, "hosts_filter")?);
        }
        if call.given("dcs_filter").is_some() {
            let of_centers = of_centers(door, &centers(door, call, "dcs_filter")?);
            among = Some(match among {
                Some(hosts) => hosts.intersection(&of_centers).copied().collect(),
                None => of_centers,
            });
        }
        let tables = vec![table];
        let is_full = call.given("incremental_mode") == Some("full");
        let is_everywhere = true;
        Ok(Wanted { tables, is_everywhere, holding, among, is_full, ..Wanted::default() })
    }
}

/// The nodes that `hosts` and `dataCenters` name, if either does.
fn among(door: &Door, call: &Call) -> Result<Option<BTreeSet<Uuid>>, Answer> {
    let me = door.cluster.node();
    let by_center = match call.given("dataCenters") {
        None => None,
        Some(text) => {
            let centers = centers(door, call, "dataCenters")?;
            if !centers.contains(&me.data_center) {
                let why = format!("the local data center must be part of the repair: {text}");
                return Err(no(why));
            }
            Some(of_centers(door, &centers))
        }
    };
    let Some(text) = call.given("hosts") else { return Ok(by_center) };
    let hosts = hosts(door, call, "hosts")?;
    if !hosts.contains(&me.host_id) {
        let why = format!("The current host must be part of the repair: {text}");
        return Err(no(why));
    }
    let all = match by_center {
        Some(others) => hosts.intersection(&others).copied().collect(),
        None => hosts,
    };
    Ok(Some(all))
}

/// Somebody is left to compare with.
fn check_partners(
    door: &Door,
    among: Option<&BTreeSet<Uuid>>,
    without: &BTreeSet<Uuid>,
) -> Result<(), Answer> {
    if without.contains(&door.cluster.node().host_id) {
        return Err(no("ignore_nodes: the current host cannot be ignored"));
    }
    if among.is_some_and(|among| among.difference(without).count() < 2) {
        let why =
            "Repair requires at least two endpoints that are neighbors before it can continue";
        return Err(no(why));
    }
    Ok(())
}

fn hosts(door: &Door, call: &Call, parameter: &str) -> Result<BTreeSet<Uuid>, Answer> {
    let names = call.names(parameter);
    names.iter().map(|name| known(door, name.trim()).map(|node| node.member.host_id)).collect()
}

fn centers(door: &Door, call: &Call, parameter: &str) -> Result<BTreeSet<String>, Answer> {
    let nodes = Nodes::seen(&door.cluster);
    let all: BTreeSet<&str> = nodes.all().iter().map(|it| &*it.member.data_center).collect();
    let names = call.names(parameter).into_iter().map(|name| match all.contains(name.trim()) {
        true => Ok(name.trim().to_owned()),
        false => Err(no(format!("Unknown data center '{name}'. Known data centers: {all:?}"))),
    });
    names.collect()
}

fn of_centers(door: &Door, centers: &BTreeSet<String>) -> BTreeSet<Uuid> {
    let nodes = Nodes::seen(&door.cluster);
    let is_there = nodes.all().iter().filter(|node| centers.contains(&node.member.data_center));
    is_there.map(|node| node.member.host_id).collect()
}

/// The ranges of tokens that a request names, from the first token up to the last.
fn ranges(call: &Call) -> Result<Vec<(i64, i64)>, Answer> {
    let mut all = Vec::new();
    for text in call.names("ranges") {
        let Some((start, end)) = text.split_once(':') else {
            return Err(no(format!("ranges: not start:end: {text}")));
        };
        let token = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| no(format!("ranges: no token: {text}"))),
        };
        add_range(&mut all, (token(start)?, token(end)?))?;
    }
    let token = |name| match call.given(name) {
        Some(_) => call.number(name, None).map(Some),
        None => Ok(None),
    };
    let (start, end) = (token("startToken")?, token("endToken")?);
    if start.is_none() && end.is_none() {
        return Ok(all);
    }
    let mut outer = Vec::new();
    add_range(&mut outer, (start, end))?;
    if all.is_empty() {
        return Ok(outer);
    }
    let both = all.iter().flat_map(|one: &(i64, i64)| {
        outer.iter().map(|other| (one.0.max(other.0), one.1.min(other.1)))
    });
    let both: Vec<(i64, i64)> = both.filter(|both| both.0 <= both.1).collect();
    if both.is_empty() {
        return Err(no("ranges: none of them is between startToken and endToken"));
    }
    Ok(both)
}

/// Behind the first token, up to the second; round the end of the ring, where that is not later.
fn add_range(
    all: &mut Vec<(i64, i64)>,
    (start, end): (Option<i64>, Option<i64>),
) -> Result<(), Answer> {
    if start.is_some() && start == end {
        // It would be all of the ring.
        return Err(no("Start and end tokens must be different"));
    }
    let last = end.unwrap_or(i64::MAX);
    match start {
        None => all.push((i64::MIN, last)),
        Some(i64::MAX) => all.push((i64::MIN, last)),
        Some(start) if start < last => all.push((start + 1, last)),
        Some(start) => {
            all.push((i64::MIN, last));
            all.push((start + 1, i64::MAX));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    fn of(query: &str) -> Result<Vec<(i64, i64)>, Answer> {
        ranges(&Call::new(&Method::POST, "/", query))
    }

    #[test]
    fn ranges_are_behind_their_start_and_up_to_their_end() {
        const MIN: i64 = i64::MIN;
        const MAX: i64 = i64::MAX;
        assert_eq!(of(""), Ok(vec![]));
        assert_eq!(of("ranges=1:5"), Ok(vec![(2, 5)]));
        assert_eq!(of("ranges=1:5,-7:-3"), Ok(vec![(2, 5), (-6, -3)]));
        assert_eq!(of("ranges=5:1"), Ok(vec![(MIN, 1), (6, MAX)]));
        assert_eq!(of("ranges=:5"), Ok(vec![(MIN, 5)]));
        assert_eq!(of("ranges=5:"), Ok(vec![(6, MAX)]));
        assert_eq!(of("startToken=1&endToken=5"), Ok(vec![(2, 5)]));
        assert_eq!(of("startToken=1"), Ok(vec![(2, MAX)]));
        assert_eq!(of("endToken=1"), Ok(vec![(MIN, 1)]));
        assert_eq!(of("ranges=1:5,8:9&startToken=3"), Ok(vec![(4, 5), (9, 9)]));
        for wrong in ["ranges=1", "ranges=a:b", "ranges=1:1", "startToken=2&endToken=2"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(of("ranges=1:2&startToken=7&endToken=9").is_err());
    }
}
