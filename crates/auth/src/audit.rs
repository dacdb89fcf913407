//! What is written down of what clients do: which kinds of statements, of which keyspaces and
//! tables, or by which [`rules`], and how a line of it reads. Pure.
//!
//! Invariants
//!  - *all-or-named*: by a [`Scope`] statements about data and schema are written down only of
//!    keyspaces and tables that were named; those about roles, logins and service levels always.
//!  - *one-line*: no byte of a client begins a new line, or a new field, in what is told to syslog.

mod pattern;
pub mod rules;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

/// Bytes of a statement's text that are kept; of a longer one it is told that it was cut.
pub const OPERATION_BYTES_MAX: usize = 16 << 10;
/// `LOG_USER` and `LOG_NOTICE`.
const SYSLOG_PRIORITY: u8 = 13;
/// Under which name syslog has it: rules that are written for ScyllaDB look for it.
const SYSLOG_NAME: &str = "scylla-audit";

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// SELECT and DESCRIBE.
    Query,
    /// INSERT, UPDATE, DELETE, BATCH, TRUNCATE and USE.
    Dml,
    /// What changes the schema.
    Ddl,
    /// Roles and permissions, LIST of them too.
    Dcl,
    /// Logins.
    Auth,
    /// Service levels.
    Admin,
}

impl Category {
    const ALL: [Category; 6] = [
        Category::Query,
        Category::Dml,
        Category::Ddl,
        Category::Dcl,
        Category::Auth,
        Category::Admin,
    ];

    /// As options and records write it.
    pub fn name(self) -> &'static str {
        match self {
            Category::Query => "QUERY",
            Category::Dml => "DML",
            Category::Ddl => "DDL",
            Category::Dcl => "DCL",
            Category::Auth => "AUTH",
            Category::Admin => "ADMIN",
        }
    }

    /// That of a name, in letters of either case; the error names what is none.
    fn by_name(name: &str) -> Result<Category, String> {
        let known = Category::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| {
            let names: Vec<&str> = Category::ALL.into_iter().map(Category::name).collect();
            format!("{name} is none of {}", names.join(", "))
        })
    }

    /// Alone among bits of several.
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether its statements are about no table.
    fn is_of_no_table(self) -> bool {
        matches!(self, Category::Dcl | Category::Auth | Category::Admin)
    }
}

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    categories: u8,
    keyspaces: BTreeSet<String>,
    /// Keyspace and name.
    tables: BTreeSet<(String, String)>,
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The kinds of a list by commas, as bits; the error names the one that is none.
pub fn categories(text: &str) -> Result<u8, String> {
    items(text).map(Category::by_name).try_fold(0, |found, known| Ok(found | known?.bit()))
}

/// The tables of a list by commas; the error names what is none.
pub fn tables(text: &str) -> Result<BTreeSet<(String, String)>, String> {
    let table = |item: &str| {
        let parts = item.split_once('.').map(|(keyspace, name)| (keyspace.trim(), name.trim()));
        match parts {
            Some((keyspace, name)) if !keyspace.is_empty() && !name.is_empty() => {
                Ok((keyspace.to_owned(), name.to_owned()))
            }
            _ => Err(format!("{item} is not the name of a table with its keyspace")),
        }
    };
    items(text).map(table).collect()
}

impl Scope {
    /// As the options `audit_categories`, `audit_keyspaces` and `audit_tables` say.
    pub fn of(kinds: &str, keyspaces: &str, named: &str) -> Result<Scope, String> {
        Ok(Scope {
            categories: categories(kinds)?,
            keyspaces: items(keyspaces).map(str::to_owned).collect(),
            tables: tables(named)?,
        })
    }

    /// Whether anything of that kind may be written down.
    pub fn has(&self, category: Category) -> bool {
        self.categories & category.bit() != 0
    }

    /// Whether a statement is written down (*all-or-named*); an empty name is none.
    pub fn covers(&self, category: Category, keyspace: &str, table: &str) -> bool {
        let names = || {
            let is_named = |it: &(String, String)| it.0 == keyspace && it.1 == table;
            self.keyspaces.contains(keyspace) || self.tables.iter().any(is_named)
        };
        self.has(category) && (category.is_of_no_table() || names())
    }
}

/// Something that a client did, or tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since the epoch.
    pub at_micros: i64,
    pub category: Category,
    /// Empty where there is none.
    pub consistency: &'static str,
    pub keyspace: String,
    pub table: String,
    /// The statement, without passwords.
    pub operation: String,
    /// `None`: it came through no network.
    pub client: Option<IpAddr>,
    pub user: String,
    pub is_error: bool,
}

impl Event {
    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let texts = [&self.keyspace, &self.table, &self.operation, &self.user];
        size_of::<Event>() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    /// Its fields as logs and syslog have them (*one-line*).
    pub fn fields(&self, node: IpAddr) -> String {
        let client = self.client.map(|client| client.to_string()).unwrap_or_default();
        let mut out = String::with_capacity(128 + self.bytes());
        let fields = [
            ("node", node.to_string().as_str()),
            ("category", self.category.name()),
            ("cl", self.consistency),
            ("error", if self.is_error { "true" } else { "false" }),
            ("keyspace", &self.keyspace),
            ("query", &self.operation),
            ("client_ip", &client),
            ("table", &self.table),
            ("username", &self.user),
        ]
        .map(|(name, value)| (name, escaped(value)));
        for (at, (name, value)) in fields.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(out, "{comma}{name}=\"{value}\"");
        }
        out
    }

    /// A message for the socket of syslog; its time is UTC.
    pub fn syslog_line(&self, node: IpAddr, process: u32) -> String {
        let time = syslog_time(self.at_micros.div_euclid(1_000_000));
        let fields = self.fields(node);
        format!("<{SYSLOG_PRIORITY}>{time} {SYSLOG_NAME}[{process}]: {fields}")
    }
}

/// The text as it is kept, with the passwords that `hide` finds: cut where it is long, and that
/// first, so that nobody looks through all of a text that is not kept.
pub fn kept<'t>(operation: &'t str, hide: impl FnOnce(&'t str) -> Cow<'t, str>) -> String {
    let head = &operation[..operation.floor_char_boundary(OPERATION_BYTES_MAX)];
    let mut kept = hide(head).into_owned();
    if head.len() < operation.len() {
        let _ = write!(kept, "... ({} bytes in all)", operation.len());
    }
    kept
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out
}

/// `Mar 18 09:53:52`, the day with a space in the place of a first zero.
fn syslog_time(secs: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (month, day) = month_and_day(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{} {day:>2} {hour:02}:{minute:02}:{second:02}", MONTHS[month])
}

/// Month from 0 and day from 1, of days since the epoch. Years are counted from March, so that the
/// day of leap years is the last; 400 of them have always as many days.
fn month_and_day(days: i64) -> (usize, i64) {
    let of_era = (days + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    (((from_march + 2) % 12) as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered() {
        let check = |kinds: &str, keyspaces: &str, tables: &str, expected: &str| {
            let scope = Scope::of(kinds, keyspaces, tables).expect("a scope");
            let mut found = Vec::new();
            for category in Category::ALL {
                for (keyspace, table) in [("", ""), ("a", ""), ("a", "t"), ("b", "t"), ("b", "")] {
                    if scope.covers(category, keyspace, table) {
                        found.push(format!("{}:{keyspace}.{table}", category.name()));
                    }
                }
            }
            assert_eq!(found.join(" "), expected, "{kinds} of {keyspaces} and {tables}");
        };
        check("", "a", "b.t", "");
        check("QUERY", "", "", "");
        check("QUERY, dml", "a", "", "QUERY:a. QUERY:a.t DML:a. DML:a.t");
        check("DDL", "", " b.t ", "DDL:b.t");
        check("DDL", "a,b", "b.t", "DDL:a. DDL:a.t DDL:b.t DDL:b.");
        check("AUTH", "", "", "AUTH:. AUTH:a. AUTH:a.t AUTH:b.t AUTH:b.");
        check("ADMIN", "b", "", "ADMIN:. ADMIN:a. ADMIN:a.t ADMIN:b.t ADMIN:b.");
    }

    #[test]
    fn what_is_no_scope_is_named() {
        let check = |kinds: &str, tables: &str, expected: &str| {
            let refused = Scope::of(kinds, "", tables).expect_err("a refusal");
            assert_eq!(refused, expected);
        };
        check("DDL,INVALID", "", "INVALID is none of QUERY, DML, DDL, DCL, AUTH, ADMIN");
        check("DDL", "t", "t is not the name of a table with its keyspace");
        check("DDL", "a.", "a. is not the name of a table with its keyspace");
    }

    fn event(operation: &str) -> Event {
        Event {
            at_micros: 1_710_755_632_000_000,
            category: Category::Ddl,
            consistency: "ONE",
            keyspace: "nba".into(),
            table: "team".into(),
            operation: kept(operation, Cow::Borrowed),
            client: Some(IpAddr::from([127, 0, 0, 1])),
            user: "anonymous".into(),
            is_error: false,
        }
    }

    #[test]
    fn a_line_of_syslog() {
        let node = IpAddr::from([10, 1, 2, 3]);
        let shown = event("DROP TABLE nba.team").syslog_line(node, 77);
        let expected = "<13>Mar 18 09:53:52 scylla-audit[77]: node=\"10.1.2.3\", \
                        category=\"DDL\", cl=\"ONE\", error=\"false\", keyspace=\"nba\", \
                        query=\"DROP TABLE nba.team\", client_ip=\"127.0.0.1\", table=\"team\", \
                        username=\"anonymous\"";
        assert_eq!(shown, expected);
        let shown = event("a\"\\\n\r\t\u{1}\u{85}\u{e9}").fields(node);
        let expected = r#"query="a\"\\\n\r\t\u0001\u0085"#.to_owned() + "\u{e9}\", client";
        assert!(shown.contains(&expected), "{shown}");
    }

    #[test]
    fn long_statements_are_cut_between_characters() {
        let whole = "\u{e9}".repeat(OPERATION_BYTES_MAX / 2);
        assert_eq!(kept(&whole, Cow::Borrowed), whole);
        let long = format!("a{whole}");
        let cut = kept(&long, |head| Cow::Owned(head.replace('a', "***")));
        let rest = format!("... ({} bytes in all)", OPERATION_BYTES_MAX + 1);
        assert_eq!(cut, format!("***{}{rest}", &whole[2..]));
    }

    #[test]
    fn times_of_the_calendar() {
        let check = |secs, expected: &str| assert_eq!(syslog_time(secs), expected);
        check(0, "Jan  1 00:00:00");
        check(-1, "Dec 31 23:59:59");
        check(951_782_400, "Feb 29 00:00:00");
        check(951_868_800, "Mar  1 00:00:00");
        check(1_709_251_199, "Feb 29 23:59:59");
        check(4_107_542_400, "Mar  1 00:00:00");
    }
}
