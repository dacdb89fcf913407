//! What a mutation carries: mutations of other tables that are to be written with it.
//!
//! Invariants: those of [`super`].

use super::*;
use stdx::Put;

impl FrozenMutation {
    /// The same, which carries these too. They carry nothing themselves.
    pub fn attach(self, others: Vec<FrozenMutation>) -> FrozenMutation {
        match &others[..] {
            [] => return self,
            [one] if let Some(carries) = self.carrying(one) => return carries,
            _ => {}
        }
        let (alone, mut all) = self.detach();
        all.extend(others);
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all.dedup();
        let carries = |one: &FrozenMutation| carries_any(&one.0);
        assert!(!all.iter().any(carries), "carried-once: what is attached carries something");
        let size = |one: &FrozenMutation| stdx::vint::size(one.0.len() as u64) + one.0.len();
        let count = all.len() as u64;
        let flags_at = flags_at(&alone.0).expect("vouched-for: a mutation without a head");
        let mut out = alone.0.into_vec();
        out.reserve_exact(stdx::vint::size(count) + all.iter().map(size).sum::<usize>());
        out[flags_at] |= HAS_ATTACHED;
        out.put_vint(count);
        all.iter().for_each(|one| out.put_vint_bytes(&one.0));
        FrozenMutation(out.into_boxed_slice())
    }

    /// The same, which carries this one, where it carries nothing yet.
    fn carrying(&self, one: &FrozenMutation) -> Option<FrozenMutation> {
        let (view, one) = (FrozenView::trusted(&self.0).ok()?, FrozenView::trusted(&one.0).ok()?);
        if view.has_attached {
            return None;
        }
        assert!(!one.has_attached, "carried-once: what is attached carries something");
        let bytes = one.bytes.len();
        let length_bytes = stdx::vint::size(bytes as u64);
        let mut out = Vec::with_capacity(view.bytes.len() + 1 + length_bytes + bytes);
        out.put(view.bytes);
        out[view.flags_at()] |= HAS_ATTACHED;
        out.put_vint(1);
        out.put_vint_bytes(one.bytes);
        Some(FrozenMutation(out.into_boxed_slice()))
    }

    /// The same without what it carries, and that.
    pub fn detach(self) -> (FrozenMutation, Vec<FrozenMutation>) {
        match FrozenView::trusted(&self.0) {
            Ok(view) if view.has_attached => {
                let (alone, attached) = view.apart();
                (alone, attached.map(|one| one.to_owned()).collect())
            }
            _ => (self, Vec::new()),
        }
    }
}

impl<'a> FrozenView<'a> {
    /// Whether it carries others.
    #[inline]
    pub fn has_attached(&self) -> bool {
        self.has_attached
    }

    /// What it carries, ascending by their bytes.
    pub fn attached(&self) -> Attached<'a> {
        match self.has_attached {
            true => behind_rows(self).1,
            false => Attached { cursor: Cursor::new(&[]), left: 0 },
        }
    }

    /// The same without what it carries.
    pub fn alone(&self) -> FrozenMutation {
        self.apart().0
    }

    /// The same without what it carries, and that.
    pub fn apart(&self) -> (FrozenMutation, Attached<'a>) {
        if !self.has_attached {
            return (self.to_owned(), self.attached());
        }
        let (end, attached) = behind_rows(self);
        let mut alone: Box<[u8]> = self.bytes[..self.bytes.len() - end.rest().len()].into();
        alone[self.flags_at()] &= !HAS_ATTACHED;
        (FrozenMutation(alone), attached)
    }

    /// Where the flags stand: behind the key.
    fn flags_at(&self) -> usize {
        offset_in(self.bytes, self.key) as usize + self.key.len()
    }

    /// The mutation itself.
    pub fn to_owned(&self) -> FrozenMutation {
        FrozenMutation(self.bytes.into())
    }
}

/// Iterator of [`FrozenView::attached`].
#[derive(Clone, Debug)]
pub struct Attached<'a> {
    cursor: Cursor<'a>,
    left: u64,
}

impl<'a> Iterator for Attached<'a> {
    type Item = FrozenView<'a>;
    fn next(&mut self) -> Option<FrozenView<'a>> {
        self.left = self.left.checked_sub(1)?;
        let bytes = self.cursor.vint_bytes("attached mutation").ok()?;
        FrozenView::trusted(bytes).ok()
    }
}

/// Where the rows end, and what is behind them.
fn behind_rows<'a>(view: &FrozenView<'a>) -> (Cursor<'a>, Attached<'a>) {
    let mut cursor = Cursor::new(view.rows);
    for _ in 0..view.row_count {
        if read_row(&mut cursor).is_err() {
            break;
        }
    }
    let end = cursor;
    let left = cursor.vint("count of attached mutations").unwrap_or(0);
    (end, Attached { cursor, left })
}

/// Checks what is attached (*carried-once*), to the end.
pub(super) fn check(cursor: &mut Cursor<'_>) -> Result<(), Damaged> {
    let count = cursor.vint("count of attached mutations")?;
    if count == 0 {
        return Err(cursor.damaged("a mutation that carries none"));
    }
    let mut last: Option<&[u8]> = None;
    for _ in 0..count {
        let bytes = cursor.vint_bytes("attached mutation")?;
        if carries_any(bytes) {
            return Err(cursor.damaged("an attached mutation that carries others"));
        }
        let at = (cursor.offset() - bytes.len()) as u64;
        FrozenView::parse(bytes).map_err(|damage| damage.from_base(at))?;
        if last.is_some_and(|last| bytes <= last) {
            return Err(cursor.damaged("attached mutations out of order"));
        }
        last = Some(bytes);
    }
    match cursor.is_empty() {
        true => Ok(()),
        false => Err(cursor.damaged("bytes after the last attached mutation")),
    }
}

/// Looked at before anything else of it is: mutations in mutations end after one step.
fn carries_any(bytes: &[u8]) -> bool {
    flags_at(bytes).is_some_and(|at| bytes[at] & HAS_ATTACHED != 0)
}

/// Where the flags stand.
fn flags_at(bytes: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(bytes.get(1 + 16..)?);
    cursor.vint_bytes("partition key").ok()?;
    let at = bytes.len() - cursor.rest().len();
    (at < bytes.len()).then_some(at)
}
