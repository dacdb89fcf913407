//! Replication strategies: how many replicas a keyspace has, and where. Pure.
//!
//! Invariants
//!  - *part-of-all*: a data center has no more copies than the cluster.
//!  - *racks-counted*: a data center with a list of racks has as many copies as the list has racks.
//!  - *no-more-than-had*: while tablets follow a keyspace that wants more copies, levels count no
//!    more than it wanted before; where it wants fewer, no more than these. What a tablet has
//!    beyond that counts as well: whoever asks for a level adds it.

use model::Keyspace;
use std::ops::Deref;

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
    PerDataCenter(Factors),
}

/// How many copies each data center has, by name; and in which racks, where they are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    copies: Vec<(String, u32)>,
    /// Of each of them; none where only a number is said.
    racks: Vec<Option<Vec<String>>>,
    /// Of each of them, what levels count at least (*no-more-than-had*).
    counted: Vec<u32>,
}

impl Factors {
    /// The copies in a data center, and the racks that have one each, if they are listed.
    pub fn of(&self, center: &str) -> (u32, Option<&[String]>) {
        debug_assert!(self.copies.len() == self.racks.len(), "racks-counted: a list too many");
        match self.copies.iter().position(|(name, _)| name == center) {
            Some(at) => (self.copies[at].1, self.racks[at].as_deref()),
            None => (0, None),
        }
    }

    fn push(&mut self, center: &str, copies: u32, racks: Option<Vec<String>>) {
        let fits = racks.as_ref().is_none_or(|racks| racks.len() == copies as usize);
        assert!(fits, "racks-counted: {copies} copies in the racks {racks:?}");
        self.copies.push((center.to_owned(), copies));
        self.racks.push(racks);
        self.counted.push(copies);
    }

    /// Those that levels count at least, by data center.
    pub fn counted(&self) -> impl Iterator<Item = (&str, u32)> {
        debug_assert!(self.copies.len() == self.counted.len(), "no-more-than-had: one too many");
        self.copies.iter().zip(&self.counted).map(|((name, _), counted)| (&name[..], *counted))
    }

    /// Levels count no more than these.
    fn follow(&mut self, previous: &Factors) {
        for (counted, (name, copies)) in self.counted.iter_mut().zip(&self.copies) {
            *counted = previous.of(name).0.min(*copies);
            debug_assert!(*counted <= *copies, "no-more-than-had: {counted} copies in {name}");
        }
    }
}

/// Numbers alone.
impl From<Vec<(String, u32)>> for Factors {
    fn from(copies: Vec<(String, u32)>) -> Factors {
        let racks = vec![None; copies.len()];
        let counted = copies.iter().map(|(_, copies)| *copies).collect();
        Factors { copies, racks, counted }
    }
}

impl FromIterator<(String, u32)> for Factors {
    fn from_iter<I: IntoIterator<Item = (String, u32)>>(copies: I) -> Factors {
        Factors::from(copies.into_iter().collect::<Vec<_>>())
    }
}

/// The numbers.
impl Deref for Factors {
    type Target = [(String, u32)];

    fn deref(&self) -> &[(String, u32)] {
        &self.copies
    }
}

impl Replication {
    /// That of a keyspace.
    pub fn of(keyspace: &Keyspace) -> Result<Replication, String> {
        let mut wanted = Replication::parse(&keyspace.replication)?;
        if let (Some(previous), Replication::PerDataCenter(factors)) =
            (&keyspace.previous, &mut wanted)
            && let Replication::PerDataCenter(previous) = Replication::parse(previous)?
        {
            factors.follow(&previous);
        }
        Ok(wanted)
    }

    /// Parses `class` and the options beside it, as a keyspace holds them. Of a data center there
    /// is a number, or a list of racks (`['r1', 'r2']`).
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

    /// Copies in the whole cluster that levels count at least.
    #[inline]
    pub fn counted(&self) -> u32 {
        let counted = match self {
            Replication::PerDataCenter(factors) => {
                factors.counted.iter().fold(0, |sum: u32, counted| sum.saturating_add(*counted))
            }
            _ => self.total(),
        };
        debug_assert!(counted <= self.total(), "no-more-than-had: {counted} of {}", self.total());
        counted
    }

    /// The same, in one data center.
    #[inline]
    pub fn counted_in(&self, center: &str) -> u32 {
        match self {
            Replication::PerDataCenter(factors) => {
                let counted = factors.counted().find(|(name, _)| *name == center);
                counted.map_or(0, |(_, counted)| counted)
            }
            _ => self.total(),
        }
    }

    /// Copies in one data center.
    #[inline]
    pub fn in_data_center(&self, name: &str) -> u32 {
        let copies = match self {
            Replication::PerDataCenter(factors) => factors.of(name).0,
            _ => self.total(),
        };
        debug_assert!(copies <= self.total(), "part-of-all: {copies} copies in {name}");
        copies
    }
}

/// Of two replications the fewer copies, by data center, as options; what is no data center is as
/// in the first one. A list of racks counts as so many.
pub(crate) fn fewer(one: &[(String, String)], other: &[(String, String)]) -> Vec<(String, String)> {
    let copies = |options: &[(String, String)]| match Replication::parse(options) {
        Ok(Replication::PerDataCenter(factors)) => factors,
        _ => Factors::default(),
    };
    let (of_one, of_other) = (copies(one), copies(other));
    let least = |(name, value): &(String, String)| {
        let center = of_one.iter().find(|(center, _)| center == name);
        let copies = center.map(|(_, copies)| (*copies).min(of_other.of(name).0).to_string());
        (name.clone(), copies.unwrap_or_else(|| value.clone()))
    };
    let fewer: Vec<(String, String)> = one.iter().map(least).collect();
    debug_assert!(fewer.len() == one.len(), "part-of-all: {fewer:?} of {one:?}");
    fewer
}

fn simple(options: &[(String, String)]) -> Result<Replication, String> {
    match options.iter().find(|(name, _)| name == "replication_factor") {
        Some((_, factor)) => Ok(Replication::Simple(parse_factor(factor)?)),
        None => Err("SimpleStrategy requires a replication_factor strategy option.".to_owned()),
    }
}

fn per_data_center(options: &[(String, String)]) -> Result<Replication, String> {
    let mut factors = Factors::default();
    for (center, text) in options.iter().filter(|(name, _)| name != "class") {
        match listed_racks(text) {
            Some(racks) => {
                let racks: Vec<String> = racks.into_iter().map(str::to_owned).collect();
                factors.push(center, racks.len() as u32, Some(racks));
            }
            None => factors.push(center, parse_factor(text)?, None),
        }
    }
    Ok(Replication::PerDataCenter(factors))
}

/// The racks of a list (`['r1', 'r2']`).
pub(crate) fn listed_racks(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let racks = inner.split(',').map(|rack| rack.trim().trim_matches('\''));
    Some(racks.filter(|rack| !rack.is_empty()).collect())
}

fn parse_factor(text: &str) -> Result<u32, String> {
    let text = text.trim();
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
            &[("class", "NetworkTopologyStrategy"), ("dc1", "2"), ("dc2", "3")],
            Ok(Replication::PerDataCenter(vec![("dc1".into(), 2), ("dc2".into(), 3)].into())),
        );
        check(
            &[("class", "SimpleStrategy"), ("replication_factor", "x")],
            Err("Replication factor must be numeric; found x"),
        );
        check(&[("class", "Odd")], Err("Unable to find replication strategy class 'Odd'"));
    }

    #[test]
    fn lists_name_the_racks_and_count_as_many_copies() {
        let options = [("class", "NetworkTopologyStrategy"), ("a", "1"), ("b", "['r2', 'r1']")];
        let options: Vec<_> =
            options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let parsed = Replication::parse(&options).expect("valid options");
        assert_eq!((parsed.total(), parsed.in_data_center("b")), (3, 2));
        let Replication::PerDataCenter(factors) = parsed else { panic!("another strategy") };
        assert_eq!(factors.of("a"), (1, None));
        assert_eq!(factors.of("b"), (2, Some(&["r2".to_owned(), "r1".to_owned()][..])));
        assert_eq!(factors.of("c"), (0, None));
        assert_eq!(factors.to_vec(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn levels_count_no_more_than_tablets_had_while_they_follow() {
        let options = |factors: &[(&str, &str)]| -> Vec<(String, String)> {
            let class = [("class", "NetworkTopologyStrategy")];
            let all = class.iter().chain(factors);
            all.map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let wanted = [("a", "3"), ("b", "1"), ("c", "['r1', 'r2']"), ("d", "2")];
        let before = [("a", "1"), ("b", "5"), ("d", "['r1', 'r2']"), ("e", "4")];
        let mut keyspace = crate::schema::testing::keyspace("ks", Some(0));
        keyspace.replication = options(&wanted);
        let settled = Replication::of(&keyspace).expect("valid options");
        assert_eq!((settled.counted(), settled.counted_in("a")), (8, 3));
        keyspace.previous = Some(options(&before));
        let follows = Replication::of(&keyspace).expect("valid options");
        assert_eq!((follows.total(), follows.counted()), (8, 4));
        let counted = ["a", "b", "c", "d", "e"].map(|center| follows.counted_in(center));
        assert_eq!(counted, [1, 1, 0, 2, 0]);
        let least = [("a", "1"), ("b", "1"), ("d", "2"), ("e", "0")];
        assert_eq!(fewer(&options(&before), &options(&wanted)), options(&least));
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
