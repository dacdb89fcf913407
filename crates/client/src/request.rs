//! The bodies of requests, as bytes.
//!
//! A batch or an execution is made of [`Statement`]s whose values the caller has encoded already:
//! each value with its length in front, as [`put_value`], [`put_null`] and [`put_unset`] write it.

use stdx::Put;

pub mod opcode {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const AUTHENTICATE: u8 = 0x03;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0a;
    pub const BATCH: u8 = 0x0d;
    pub const AUTH_RESPONSE: u8 = 0x0f;
    pub const AUTH_SUCCESS: u8 = 0x10;
}

const WITH_VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const WITH_PAGE_SIZE: u8 = 0x04;
const WITH_PAGING_STATE: u8 = 0x08;
const WITH_TIMESTAMP: u8 = 0x20;

/// A consistency level, by its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consistency(pub u16);

/// The levels that statements may have, by their names in cqlsh.
const LEVELS: [(&str, u16); 9] = [
    ("ANY", 0),
    ("ONE", 1),
    ("TWO", 2),
    ("THREE", 3),
    ("QUORUM", 4),
    ("ALL", 5),
    ("LOCAL_QUORUM", 6),
    ("EACH_QUORUM", 7),
    ("LOCAL_ONE", 10),
];

impl Consistency {
    pub const ONE: Consistency = Consistency(1);

    /// The level of that name, in any case.
    pub fn parse(name: &str) -> Option<Consistency> {
        let found = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, number)| Consistency(*number))
    }
}

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    Unlogged,
    Counter,
}

/// Which page of a result is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub rows: i32,
    pub state: Option<&'a [u8]>,
}

/// STARTUP of a client of that name.
pub fn startup(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    let options = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", name)];
    body.put_u16(options.len() as u16);
    for text in options.iter().flat_map(|(key, value)| [key, value]) {
        body.put_u16_bytes(text.as_bytes());
    }
    body
}

/// AUTH_RESPONSE with a role and its password, as SASL PLAIN has it.
pub fn credentials(login: &crate::Login) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u32((login.user.len() + login.password.len() + 2) as u32);
    for text in [&login.user, &login.password] {
        body.put_u8(0);
        body.put(text.as_bytes());
    }
    body
}

/// PREPARE.
pub fn prepare(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u32_bytes(text.as_bytes());
    body
}

/// QUERY of a statement without values.
pub fn query(text: &str, consistency: Consistency, page: Option<Page<'_>>) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u32_bytes(text.as_bytes());
    body.put_u16(consistency.0);
    put_flags(&mut body, 0, page, None);
    put_page(&mut body, page);
    body
}

fn put_flags(body: &mut Vec<u8>, flags: u8, page: Option<Page<'_>>, timestamp: Option<i64>) {
    let paged = page.map_or(0, |_| WITH_PAGE_SIZE);
    let continued = page.and_then(|page| page.state).map_or(0, |_| WITH_PAGING_STATE);
    body.put_u8(flags | paged | continued | timestamp.map_or(0, |_| WITH_TIMESTAMP));
}

fn put_page(body: &mut Vec<u8>, page: Option<Page<'_>>) {
    let Some(page) = page else { return };
    body.put_i32(page.rows);
    if let Some(state) = page.state {
        body.put_u32_bytes(state);
    }
}

/// EXECUTE of a prepared statement: `values` are so many, encoded.
pub fn execute(
    id: &[u8],
    (count, values): (u16, &[u8]),
    consistency: Consistency,
    page: Option<Page<'_>>,
    timestamp: Option<i64>,
) -> Vec<u8> {
    let mut body = Vec::with_capacity(id.len() + values.len() + 32);
    body.put_u16_bytes(id);
    body.put_u16(consistency.0);
    put_flags(&mut body, WITH_VALUES | SKIP_METADATA, page, timestamp);
    body.put_u16(count);
    body.put(values);
    put_page(&mut body, page);
    if let Some(timestamp) = timestamp {
        body.put_i64(timestamp);
    }
    body
}

/// A BATCH of prepared statements, while it is filled.
#[derive(Clone, Debug)]
pub struct Batch {
    body: Vec<u8>,
    count: u16,
}

impl Batch {
    /// An empty one, in memory that is used again.
    pub fn new(kind: BatchKind, mut body: Vec<u8>) -> Batch {
        body.clear();
        body.put_u8(if kind == BatchKind::Counter { 2 } else { 1 });
        body.put_u16(0);
        Batch { body, count: 0 }
    }

    /// Adds an execution: `values` are so many, encoded. Panics when it is full.
    pub fn push(&mut self, id: &[u8], count: u16, values: &[u8]) {
        assert!(self.count < u16::MAX, "a batch of 65 535 statements is full");
        self.count += 1;
        self.body.put_u8(1);
        self.body.put_u16_bytes(id);
        self.body.put_u16(count);
        self.body.put(values);
    }

    /// The statements in it.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Its bytes so far.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The body of the request.
    pub fn finish(mut self, consistency: Consistency, timestamp: Option<i64>) -> Vec<u8> {
        self.body[1..3].copy_from_slice(&self.count.to_be_bytes());
        self.body.put_u16(consistency.0);
        put_flags(&mut self.body, 0, None, timestamp);
        if let Some(timestamp) = timestamp {
            self.body.put_i64(timestamp);
        }
        self.body
    }
}

/// Appends a value with its length. Panics past 2 GiB.
pub fn put_value(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).expect("a value of less than 2 GiB"));
    out.put(bytes);
}

/// Appends a null.
pub fn put_null(out: &mut Vec<u8>) {
    out.put_i32(-1);
}

/// Appends a value that leaves the column as it is.
pub fn put_unset(out: &mut Vec<u8>) {
    out.put_i32(-2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let page = Page { rows: 5, state: Some(b"s") };
        let body = query("q", Consistency::ONE, Some(page));
        assert_eq!(body, b"\0\0\0\x01q\0\x01\x0c\0\0\0\x05\0\0\0\x01s");
        let mut values = Vec::new();
        put_value(&mut values, b"v");
        put_null(&mut values);
        put_unset(&mut values);
        assert_eq!(values, b"\0\0\0\x01v\xff\xff\xff\xff\xff\xff\xff\xfe");
        let body = execute(b"id", (1, &values[..5]), Consistency(6), None, Some(7));
        assert_eq!(body, b"\0\x02id\0\x06\x23\0\x01\0\0\0\x01v\0\0\0\0\0\0\0\x07");
        let login = crate::Login { user: "u".into(), password: "pw".into() };
        assert_eq!(credentials(&login), b"\0\0\0\x05\0u\0pw");
    }

    #[test]
    fn a_batch_counts_its_statements() {
        let mut batch = Batch::new(BatchKind::Unlogged, vec![9; 4]);
        batch.push(b"i", 0, b"");
        batch.push(b"i", 1, b"\0\0\0\0");
        assert_eq!(batch.count(), 2);
        let expected = b"\x01\0\x02\x01\0\x01i\0\0\x01\0\x01i\0\x01\0\0\0\0\0\x01\0";
        assert_eq!(batch.finish(Consistency::ONE, None), expected);
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(Consistency::parse("local_quorum"), Some(Consistency(6)));
        assert_eq!(Consistency::parse("MOST"), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let login = crate::Login { user: "u".into(), password: "secret".into() };
        assert!(!format!("{login:?}").contains("secret"));
    }
}
