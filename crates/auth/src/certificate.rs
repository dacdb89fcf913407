//! Which role a certificate stands for: queries over the names in it.
//!
//! The subject is searched as a whole, as RFC 4514 writes it (`CN=alice,OU=ops`); of the
//! alternative names each by itself, with its kind (`DNS=alice.example.com`, `URI=..`, `EMAIL=..`,
//! `IP=..`).
//!
//! Invariants
//!  - *first-counts*: the queries are asked in their order, and the first that finds a name is the
//!    only one that counts; whether there is such a role is not asked here.
//!  - *bounded-search*: a query takes memory up to a bound, and time in proportion to its text and
//!    to that of the name.

use regex_lite::{Regex, RegexBuilder};
use std::fmt;

/// The memory of a compiled query.
const QUERY_BYTES_MAX: usize = 256 << 10;
/// Groups within each other.
const NEST_MAX: u32 = 32;
/// Queries are few.
const QUERIES_MAX: usize = 64;
/// A name that is longer stands for nobody.
const NAME_BYTES_MAX: usize = 8 << 10;

/// Which names are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Subject,
    Alternatives,
}

impl Source {
    /// By the word that an operator gives.
    pub fn by_name(name: &str) -> Option<Source> {
        match name.to_ascii_uppercase().as_str() {
            "SUBJECT" => Some(Source::Subject),
            "ALTNAME" => Some(Source::Alternatives),
            _ => None,
        }
    }
}

/// A pattern whose one group is the name of a role.
#[derive(Clone, Debug)]
pub struct Query {
    source: Source,
    pattern: Regex,
}

impl Query {
    /// A query, or what is wrong with its pattern.
    pub fn new(source: Source, pattern: &str) -> Result<Query, String> {
        let built = RegexBuilder::new(pattern)
            .size_limit(QUERY_BYTES_MAX)
            .nest_limit(NEST_MAX)
            .build()
            .map_err(|error| format!("{pattern}: {error}"))?;
        match built.captures_len() - 1 {
            1 => Ok(Query { source, pattern: built }),
            groups => Err(format!(
                "{pattern}: {groups} groups in parentheses; one is wanted, the name of the role"
            )),
        }
    }

    fn find<'a>(&self, names: Names<'a>) -> Option<&'a str> {
        let search = |name: &'a str| {
            let found = (name.len() <= NAME_BYTES_MAX).then(|| self.pattern.captures(name))??;
            found.get(1).map(|group| group.as_str()).filter(|role| !role.is_empty())
        };
        match self.source {
            Source::Subject => search(names.subject),
            Source::Alternatives => names.alternatives.iter().find_map(|name| search(name)),
        }
    }
}

impl PartialEq for Query {
    fn eq(&self, other: &Query) -> bool {
        self.source == other.source && self.pattern.as_str() == other.pattern.as_str()
    }
}
impl Eq for Query {}

/// The names in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    pub subject: &'a str,
    pub alternatives: &'a [String],
}

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subject {:?}", self.subject)?;
        match self.alternatives {
            [] => Ok(()),
            alternatives => write!(f, ", alternative names {alternatives:?}"),
        }
    }
}

/// All queries, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries(Vec<Query>);

impl Queries {
    /// There has to be one at least.
    pub fn new(queries: Vec<Query>) -> Result<Queries, String> {
        match queries.len() {
            0 => Err("no query is given".to_owned()),
            1..=QUERIES_MAX => Ok(Queries(queries)),
            count => Err(format!("{count} queries; {QUERIES_MAX} at most")),
        }
    }

    /// The usual one: the common name of the subject.
    pub fn usual() -> Queries {
        let query = Query::new(Source::Subject, "CN=([^,]+)").expect("a query of our own");
        Queries(vec![query])
    }

    /// The role that a certificate names (*first-counts*).
    pub fn role<'a>(&self, names: Names<'a>) -> Option<&'a str> {
        self.0.iter().find_map(|query| query.find(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(given: &[(Source, &str)]) -> Queries {
        let made = given.iter().map(|(source, text)| Query::new(*source, text).expect("a query"));
        Queries::new(made.collect()).expect("queries")
    }

    #[test]
    fn the_first_query_that_finds_a_name_counts() {
        use Source::{Alternatives, Subject};
        let check = |given: &[(Source, &str)], expected: Option<&str>| {
            let alternatives = ["DNS=alice.example.com", "URI=spiffe://db/robot", "IP=10.0.0.1"];
            let names = Names {
                subject: "CN=alice,OU=ops\\, more,O=Example",
                alternatives: &alternatives.map(str::to_owned),
            };
            assert_eq!(queries(given).role(names), expected, "{given:?}");
        };
        let alice = Names { subject: "CN=alice,O=Example", alternatives: &[] };
        assert_eq!(Queries::usual().role(alice), Some("alice"));
        check(&[(Subject, r"CN=([^,\s]+)")], Some("alice"));
        check(&[(Subject, "^OU=(.+)")], None);
        check(&[(Subject, "DNS=(.+)")], None);
        check(&[(Alternatives, "CN=(.+)")], None);
        check(&[(Alternatives, "^DNS=([^.]+)")], Some("alice"));
        // Each name is searched by itself.
        check(&[(Alternatives, "DNS=(.+)")], Some("alice.example.com"));
        check(&[(Alternatives, "^URI=spiffe://db/([a-z]+)$")], Some("robot"));
        check(&[(Alternatives, "EMAIL=(.+)"), (Subject, "O=(.+)")], Some("Example"));
        check(&[(Subject, "O=(.+)"), (Subject, "CN=([^,]+)")], Some("Example"));
        // A group without text names nobody.
        check(&[(Subject, "CN=(x*)"), (Subject, "CN=([a-z]+)")], Some("alice"));
        check(&[(Subject, "CN=bob|OU=(x)")], None);
    }

    #[test]
    fn a_name_that_is_too_long_stands_for_nobody() {
        let found = |bytes: usize| {
            let subject = format!("CN={}", "x".repeat(bytes - 3));
            let names = Names { subject: &subject, alternatives: &[] };
            queries(&[(Source::Subject, "CN=(x)")]).role(names).map(str::to_owned)
        };
        assert_eq!(found(NAME_BYTES_MAX).as_deref(), Some("x"));
        assert_eq!(found(NAME_BYTES_MAX + 1), None);
    }

    #[test]
    fn what_is_wrong_with_a_query_is_told() {
        let check = |text: &str, expected: &str| {
            let refused = Query::new(Source::Subject, text).expect_err(text);
            assert!(refused.starts_with(expected), "{refused}");
        };
        check("CN=.+", "CN=.+: 0 groups in parentheses; one is wanted");
        check("(CN)=(.+)", "(CN)=(.+): 2 groups in parentheses");
        check("CN=(", "CN=(: ");
        check("(x{1000}){1000}", "(x{1000}){1000}: ");
        check(&format!("{}a{}", "(?:".repeat(40), ")".repeat(40)), "(?:(?:");
        assert!(Query::new(Source::Subject, "(?:CN|UID)=([^,]+)").is_ok());
        assert_eq!(Queries::new(Vec::new()), Err("no query is given".to_owned()));
        let one = Query::new(Source::Subject, "(x)").expect("a query");
        assert!(Queries::new(vec![one; QUERIES_MAX + 1]).is_err());
    }

    #[test]
    fn sources_are_known_by_their_words() {
        assert_eq!(Source::by_name("SUBJECT"), Some(Source::Subject));
        assert_eq!(Source::by_name("altname"), Some(Source::Alternatives));
        assert_eq!(Source::by_name("ISSUER"), None);
    }
}
