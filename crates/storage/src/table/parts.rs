//! How the ring of a table is divided now: its map, and the tablets that this shard has of it. It
//! changes in one step (`shard::divide`).
//!
//! Who waits for something between two tablets takes the list of them before, and looks at each
//! whether it is still one; who waits for nothing borrows.

use super::{Table, Tablet};
use crate::memtable::Memtable;
use model::{TabletMap, Token};
use std::cell::Ref;
use std::rc::Rc;

/// See the module.
pub(crate) struct Parts {
    pub(crate) map: Rc<TabletMap>,
    /// Those of this shard, in ring order.
    pub(crate) tablets: Rc<[Rc<Tablet>]>,
    /// The last token of each, side by side: what looking for one begins with.
    lasts: Box<[Token]>,
}

impl Parts {
    pub(crate) fn new(map: Rc<TabletMap>, tablets: Vec<Rc<Tablet>>) -> Parts {
        assert!(
            tablets.is_sorted_by(|a, b| a.index.get() < b.index.get() && a.range.1 <= b.range.0),
            "tablets-in-order: of {} parts",
            map.count()
        );
        assert!(
            tablets.len() < 2 || tablets.iter().all(|tablet| tablet.share.is_none()),
            "one-share: a part of a ring beside others"
        );
        debug_assert!(
            tablets.iter().all(|one| map.range(one.index.get()) == one.range),
            "tablets-in-order: one that the map does not have"
        );
        let lasts = tablets.iter().map(|tablet| tablet.range.1).collect();
        Parts { map, tablets: tablets.into(), lasts }
    }

    /// The tablet of a token, if it is here.
    #[inline]
    pub(crate) fn tablet_of(&self, token: Token) -> Option<&Rc<Tablet>> {
        let tablet = self.tablets.get(self.lasts.partition_point(|last| *last < token))?;
        let (after, last) = tablet.range;
        debug_assert!(token <= last, "tablets-in-order: {token:?} after {last:?}");
        let is_here = (after < token || after == Token::MIN)
            && tablet.share.is_none_or(|share| share.holds(token));
        debug_assert!(
            !is_here || self.map.tablet_of(token) == tablet.index.get(),
            "tablets-in-order: {token:?} is not in {}",
            tablet.index.get()
        );
        is_here.then_some(tablet)
    }
}

impl Table {
    /// How it is divided now. Not for who waits meanwhile.
    #[inline]
    pub(crate) fn parts(&self) -> Ref<'_, Parts> {
        self.parts.borrow()
    }

    pub(crate) fn map(&self) -> Rc<TabletMap> {
        self.parts().map.clone()
    }

    /// The tablets of this shard, in ring order.
    pub(crate) fn tablets(&self) -> Rc<[Rc<Tablet>]> {
        self.parts().tablets.clone()
    }

    /// The tablet of a token, if it is here.
    #[inline]
    pub(crate) fn tablet_of(&self, token: Token) -> Option<Rc<Tablet>> {
        self.parts().tablet_of(token).cloned()
    }

    /// The first tablet with tokens after that one; `None`: after none.
    pub(crate) fn tablet_after(&self, done: Option<Token>) -> Option<Rc<Tablet>> {
        let parts = self.parts();
        let at = done.map_or(0, |done| parts.lasts.partition_point(|last| *last <= done));
        parts.tablets.get(at).cloned()
    }

    /// From now on it is divided so.
    pub(crate) fn set_parts(&self, parts: Parts) {
        debug_assert!(
            parts.tablets.iter().all(|tablet| !tablet.is_gone()),
            "tablets-in-order: one that is gone"
        );
        self.parts.replace(parts);
    }

    /// The sealed memtables of all tablets here, each once: several may have one.
    pub(crate) fn sealed_memtables(&self) -> Vec<Rc<Memtable>> {
        let mut all: Vec<Rc<Memtable>> = Vec::new();
        for tablet in self.parts().tablets.iter() {
            for one in tablet.sealed.borrow().iter() {
                if !all.iter().any(|seen| Rc::ptr_eq(seen, one)) {
                    all.push(one.clone());
                }
            }
        }
        debug_assert!(all.iter().all(|one| one.is_sealed()), "sealed-is-final: it is written to");
        all
    }

    /// The tablets that have a sealed memtable.
    pub(crate) fn holders_of(&self, memtable: &Rc<Memtable>) -> Vec<Rc<Tablet>> {
        let tablets = self.tablets();
        tablets.iter().filter(|tablet| tablet.is_sealed(memtable)).cloned().collect()
    }
}
