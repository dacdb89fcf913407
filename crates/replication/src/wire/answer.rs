//! What a replica answers.
//!
//! ```text
//! page    := row_count partition_count tombstones_seen  be64 each, resume, bytes to the end
//! digest  := hash:be64 crc:be32 bytes:be32
//! stretch := reached:resume (length:be32 mutation)*
//! refusal := kind:u8 received:be32 required:be32 failures:be32 text to the end
//! ```

use super::{end, put_resume, resume};
use crate::digest::Digest;
use crate::stretch::Stretch;
use messaging::Head;
use model::Token;
use mutation::page::{Page, PageView, Partitions, ReadCommand, RowShape};
use mutation::{FrozenMutation, FrozenView};
use stdx::{Cursor, Damaged, Put};

/// A reason is cut to so many bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// What kind of no it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It failed on the replica.
    Failed,
    /// The replica has too much to do, and did nothing.
    Overloaded,
    /// It cannot be done anywhere.
    Refused,
    /// It took too long.
    TimedOut,
    /// Of a write that the replica led: too few copies are alive.
    Unavailable,
    /// The table is not known there, or not as it is here.
    UnknownTable,
    /// It was not asked: there is no way to it.
    Unreached,
    /// A partition is asked too often; the text is the name of its table. Only who asked with a
    /// limit is told so.
    RateLimited,
}

impl RefusalKind {
    const ALL: [RefusalKind; 8] = [
        RefusalKind::Failed,
        RefusalKind::Overloaded,
        RefusalKind::Refused,
        RefusalKind::TimedOut,
        RefusalKind::Unavailable,
        RefusalKind::UnknownTable,
        RefusalKind::Unreached,
        RefusalKind::RateLimited,
    ];
}

/// Why a replica did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// Of a write that it led; else 0. For [`RefusalKind::Unavailable`] the first is how many are
    /// alive.
    pub received: u32,
    pub required: u32,
    pub failures: u32,
    pub text: String,
}

impl Refusal {
    /// Of the replica itself.
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Refusal {
        Refusal { kind, received: 0, required: 0, failures: 0, text: text.into() }
    }

    /// Its bytes; a long text is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut end = self.text.len().min(TEXT_BYTES_MAX);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let mut out = Vec::with_capacity(13 + end);
        let code = RefusalKind::ALL.iter().position(|kind| *kind == self.kind);
        out.put_u8(code.expect("all kinds have a code") as u8);
        out.put_u32(self.received);
        out.put_u32(self.required);
        out.put_u32(self.failures);
        out.put(&self.text.as_bytes()[..end]);
        debug_assert!(out.len() <= 13 + TEXT_BYTES_MAX, "one-form: a text of {end} bytes");
        out
    }

    /// See [`Refusal::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Refusal, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let kind = RefusalKind::ALL.get(usize::from(cursor.u8("kind of a refusal")?));
        let kind = *kind.ok_or(Damaged::new("kind of a refusal", 0))?;
        let received = cursor.u32("received of a refusal")?;
        let required = cursor.u32("required of a refusal")?;
        let failures = cursor.u32("failures of a refusal")?;
        let text = std::str::from_utf8(cursor.rest());
        let text = text.map_err(|_| cursor.damaged("text of a refusal"))?.to_owned();
        match text.len() <= TEXT_BYTES_MAX {
            true => Ok(Refusal { kind, received, required, failures, text }),
            false => Err(cursor.damaged("text of a refusal is too long")),
        }
    }
}

/// What comes before the bytes of a page.
pub fn page_head(page: &Page) -> Head {
    let mut head = Head::new();
    for count in [page.row_count, page.partition_count, page.tombstones_seen] {
        head.extend_from_slice(&count.to_be_bytes());
    }
    if page.resume.is_none() {
        // No allocation.
        head.push(0);
        return head;
    }
    let mut resume = Vec::new();
    put_resume(&mut resume, page.resume.as_ref());
    head.extend_from_slice(&resume);
    head
}

/// A page that answers `command`, checked against it: rows in their form, as many as are announced
/// and no more than were asked for; it goes on within what was read.
pub fn decode_page(mut bytes: Vec<u8>, command: &ReadCommand) -> Result<Page, Damaged> {
    debug_assert!(command.shape == RowShape::Whole, "one-form: replicas answer whole rows");
    let mut cursor = Cursor::new(&bytes);
    let row_count = cursor.u64("rows of a page")?;
    let partition_count = cursor.u64("partitions of a page")?;
    let tombstones_seen = cursor.u64("tombstones of a page")?;
    let resume = resume(&mut cursor)?;
    let head_bytes = cursor.offset();
    let damaged = |what| Err(Damaged::new(what, head_bytes as u64));
    let view = PageView::parse(cursor.rest(), command.layout());
    let view = view.map_err(|damage| damage.from_base(head_bytes as u64))?;
    let (mut rows, mut partitions, mut begun) = (0u64, 0u64, 0u64);
    let resumed = command.resume.as_ref().filter(|resume| resume.after.is_some());
    for partition in view.partitions() {
        if !is_asked_for(command, partition.key()) {
            return damaged("a page has another partition");
        }
        rows += partition.row_count().max(1) as u64;
        let goes_on = resumed.is_some_and(|resume| resume.key[..] == *partition.key());
        partitions += 1;
        begun += u64::from(!goes_on);
    }
    if rows != row_count || !(begun..=partitions).contains(&partition_count) {
        return damaged("a page has another number of rows");
    }
    if command.row_limit < row_count || command.partition_limit < partition_count {
        return damaged("a page has more than was asked for");
    }
    if let Some(resume) = &resume
        && !(is_asked_for(command, &resume.key) && goes_forward(command, resume))
    {
        return damaged("a page goes on elsewhere");
    }
    bytes.drain(..head_bytes);
    let page =
        Page { bytes, row_count, partition_count, resume, tombstones_seen, ..Page::default() };
    Ok(page)
}

fn is_asked_for(command: &ReadCommand, key: &[u8]) -> bool {
    match &command.partitions {
        Partitions::Key(own) => own[..] == *key,
        Partitions::Range { start, end } => {
            let token = Token::of(key);
            start.token <= token && token <= end.token
        }
    }
}

/// Whether a page goes on behind the place at which its command began, as far as can be told
/// without the schema: two pages that go on at one place would be asked for without end.
fn goes_forward(command: &ReadCommand, resume: &mutation::page::Resume) -> bool {
    let Some(before) = &command.resume else { return true };
    let place = |at: &mutation::page::Resume| (Token::of(&at.key), at.key.clone());
    match place(before).cmp(&place(resume)) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => before.after.is_some() && before.after != resume.after,
    }
}

/// The bytes of a digest.
pub fn encode_digest(digest: Digest) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&digest.hash.to_be_bytes());
    out[8..12].copy_from_slice(&digest.crc.to_be_bytes());
    out[12..].copy_from_slice(&digest.bytes.to_be_bytes());
    out
}

/// See [`encode_digest`].
pub fn decode_digest(bytes: &[u8]) -> Result<Digest, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let hash = cursor.u64("hash of a digest")?;
    let crc = cursor.u32("checksum of a digest")?;
    let digest = Digest { hash, crc, bytes: cursor.u32("length of a digest")? };
    end(&cursor)?;
    Ok(digest)
}

/// The bytes of a stretch.
pub fn encode_stretch(stretch: &Stretch) -> Vec<u8> {
    let bytes: usize = stretch.mutations.iter().map(|one| 4 + one.0.len()).sum();
    let mut out = Vec::with_capacity(64 + bytes);
    put_resume(&mut out, stretch.reached.as_ref());
    stretch.mutations.iter().for_each(|one| out.put_u32_bytes(&one.0));
    out
}

/// A stretch, whose mutations are checked but for what the schema and the command say of them
/// ([`Stretch::check`]).
pub fn decode_stretch(bytes: &[u8]) -> Result<Stretch, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let reached = resume(&mut cursor)?;
    if reached.as_ref().is_some_and(|reached| reached.rows_in_partition != 0) {
        return Err(cursor.damaged("rows before the end of a stretch"));
    }
    let mut mutations = Vec::new();
    while !cursor.is_empty() {
        let at = cursor.offset() as u64 + 4;
        let one = cursor.u32_bytes("a mutation of a stretch")?;
        FrozenView::parse(one).map_err(|damaged| damaged.from_base(at))?;
        mutations.push(FrozenMutation(one.into()));
    }
    Ok(Stretch { mutations, reached })
}
