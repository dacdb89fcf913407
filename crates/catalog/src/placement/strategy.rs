//! Replication strategies: how many replicas a keyspace has, and where. Pure.
//!
//! Invariants
//!  - *part-of-all*: a data center has no more copies than the cluster.

/// A keyspace's replication, parsed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// `LocalStrategy`: on this node and nowhere else.
    Local,
    /// `EverywhereStrategy`: on every node.
    Everywhere,
    /// `SimpleStrategy`: so many copies in the whole cluster.
    Simple(u32),
    /// `NetworkTopologyStrategy`: so many copies per data center.
    PerDataCenter(Vec<(String, u32)>),
}

impl Replication {
    /// Parses `class` and the options beside it, as a keyspace holds them. Rack lists
    /// (`['r1', 'r2']`) count their racks.
    pub fn parse(options: &[(String, String)]) -> Result<Replication, String> {
        let class = options.iter().find(|(name, _)| name == "class").map(|(_, class)| class);
        let Some(class) = class else {
            return Err("Missing mandatory replication strategy class".to_owned());
        };
        match class.rsplit('.').next().unwrap_or(class) {
            "LocalStrategy" => Ok(Replication::Local),
            "EverywhereStrategy" => Ok(Replication::Everywhere),
            "SimpleStrategy" => simple(options),
            "NetworkTopologyStrategy" => per_data_center(options),
            _ => Err(format!("Unable to find replication strategy class '{class}'")),
        }
    }

    /// Copies in the whole cluster.
    #[inline]
    pub fn total(&self) -> u32 {
        match self {
            Replication::Local | Replication::Everywhere => 1,
            Replication::Simple(factor) => *factor,
            Replication::PerDataCenter(factors) => {
                factors.iter().fold(0, |sum, (_, factor)| sum.saturating_add(*factor))
            }
        }
    }

    /// Copies in one data center.
    #[inline]
    pub fn in_data_center(&self, name: &str) -> u32 {
        let copies = match self {
            Replication::PerDataCenter(factors) => {
                factors.iter().find(|(center, _)| center == name).map_or(0, |(_, factor)| *factor)
            }
            _ => self.total(),
        };
        debug_assert!(copies <= self.total(), "part-of-all: {copies} copies in {name}");
        copies
    }
}

fn simple(options: &[(String, String)]) -> Result<Replication, String> {
    match options.iter().find(|(name, _)| name == "replication_factor") {
        Some((_, factor)) => Ok(Replication::Simple(parse_factor(factor)?)),
        None => Err("SimpleStrategy requires a replication_factor strategy option.".to_owned()),
    }
}

fn per_data_center(options: &[(String, String)]) -> Result<Replication, String> {
    let mut factors = Vec::new();
    for (center, factor) in options.iter().filter(|(name, _)| name != "class") {
        factors.push((center.clone(), parse_factor(factor)?));
    }
    Ok(Replication::PerDataCenter(factors))
}

fn parse_factor(text: &str) -> Result<u32, String> {
    let text = text.trim();
    if let Some(racks) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return Ok(racks.split(',').filter(|rack| !rack.trim().is_empty()).count() as u32);
    }
    let valid = text.parse::<u32>().ok().filter(|factor| *factor <= i32::MAX as u32);
    valid.ok_or_else(|| format!("Replication factor must be numeric; found {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[(&str, &str)], expected: Result<Replication, &str>) {
        let options: Vec<_> =
            options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!(Replication::parse(&options), expected.map_err(str::to_owned));
    }

    #[test]
    fn strategies_are_known_by_short_and_full_name() {
        check(&[("class", "LocalStrategy")], Ok(Replication::Local));
        check(
            &[
                ("class", "org.apache.cassandra.locator.SimpleStrategy"),
                ("replication_factor", "3"),
            ],
            Ok(Replication::Simple(3)),
        );
        check(
            &[("class", "NetworkTopologyStrategy"), ("dc1", "2"), ("dc2", "['r1', 'r2', 'r3']")],
            Ok(Replication::PerDataCenter(vec![("dc1".into(), 2), ("dc2".into(), 3)])),
        );
        check(
            &[("class", "SimpleStrategy"), ("replication_factor", "x")],
            Err("Replication factor must be numeric; found x"),
        );
        check(&[("class", "Odd")], Err("Unable to find replication strategy class 'Odd'"));
    }

    #[test]
    fn copies_of_many_data_centers_do_not_overflow_their_sum() {
        let most = i32::MAX.to_string();
        let centers = ["dc1", "dc2", "dc3"].map(|center| (center, &most[..]));
        let options = [("class", "NetworkTopologyStrategy")].into_iter().chain(centers);
        let options: Vec<_> =
            options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let copies = Replication::parse(&options).expect("factors in their range");
        assert_eq!(copies.total(), u32::MAX);
        assert_eq!(copies.in_data_center("dc2"), i32::MAX as u32);
    }
}
