//! The cache of compiled functions, for those that were used last.
//!
//! Invariants
//!  - *current*: what is found belongs to a definition that is equal to the one asked with.
//!  - *one-per-signature*: nothing is kept of a function that was replaced.
//!  - *bounded*: by count, and by bytes unless the newest alone has more.

use model::schema::UserFunction;
use std::rc::Rc;

struct Entry<T> {
    function: Rc<UserFunction>,
    compiled: T,
    bytes: usize,
    /// When it was used last, in uses.
    used: u64,
}

/// Compiled functions.
pub(super) struct Compiled<T> {
    entries: Vec<Entry<T>>,
    count_max: usize,
    bytes_max: usize,
    uses: u64,
}

impl<T: Clone> Compiled<T> {
    pub(super) fn new(count_max: usize, bytes_max: usize) -> Compiled<T> {
        Compiled { entries: Vec::new(), count_max, bytes_max, uses: 0 }
    }

    /// What a function was compiled to.
    pub(super) fn get(&mut self, function: &Rc<UserFunction>) -> Option<T> {
        let is_it = |entry: &Entry<T>| Rc::ptr_eq(&entry.function, function);
        let equals = |entry: &Entry<T>| *entry.function == **function;
        let at = self.entries.iter().position(is_it);
        let at = at.or_else(|| self.entries.iter().position(equals))?;
        self.uses += 1;
        let entry = &mut self.entries[at];
        // Of a later version of the schema: the next look will be quick.
        entry.function = function.clone();
        entry.used = self.uses;
        Some(entry.compiled.clone())
    }

    /// Keeps what a function was compiled to; what has to go for it.
    pub(super) fn insert(
        &mut self,
        function: &Rc<UserFunction>,
        compiled: T,
        bytes: usize,
    ) -> Vec<T> {
        let mut gone = self.retain(|known| !has_signature_of(known, function));
        self.uses += 1;
        let function = function.clone();
        self.entries.push(Entry { function, compiled, bytes, used: self.uses });
        while 1 < self.entries.len() && self.is_full() {
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
            let Some((at, _)) = oldest else { break };
            gone.push(self.entries.swap_remove(at).compiled);
        }
        gone
    }

    /// Forgets functions; what they were compiled to.
    pub(super) fn retain(&mut self, keep: impl Fn(&Rc<UserFunction>) -> bool) -> Vec<T> {
        let gone = self.entries.extract_if(.., |entry| !keep(&entry.function));
        gone.map(|entry| entry.compiled).collect()
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.entries.iter().map(|entry| entry.bytes).sum();
        self.count_max < self.entries.len() || self.bytes_max < bytes
    }
}

fn has_signature_of(a: &UserFunction, b: &UserFunction) -> bool {
    a.keyspace == b.keyspace && a.name == b.name && a.argument_types().eq(b.argument_types())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Type;
    use model::schema::NullInput;

    fn function(name: &str, body: &str) -> Rc<UserFunction> {
        Rc::new(UserFunction {
            keyspace: "ks".to_owned(),
            name: name.to_owned(),
            arguments: vec![("a".to_owned(), Type::Int)],
            returns: Type::Int,
            null_input: NullInput::Called,
            language: "lua".to_owned(),
            body: body.to_owned(),
        })
    }

    #[test]
    fn a_replaced_function_is_not_found() {
        let mut compiled = Compiled::new(4, 100);
        let (first, second) = (function("f", "1"), function("f", "2"));
        assert!(compiled.insert(&first, "first", 10).is_empty());
        assert_eq!(compiled.get(&first), Some("first"));
        assert_eq!(compiled.get(&function("f", "1")), Some("first"));
        assert_eq!(compiled.get(&second), None);
        assert_eq!(compiled.insert(&second, "second", 10), ["first"]);
        assert_eq!(compiled.get(&first), None);
        assert_eq!(compiled.retain(|it| it.name != "f"), ["second"]);
    }

    #[test]
    fn the_last_used_ones_are_kept() {
        let mut compiled = Compiled::new(3, 100);
        let names = ["a", "b", "c", "d"];
        let [a, b, c, d] = names.map(|name| function(name, ""));
        compiled.insert(&a, "a", 10);
        compiled.insert(&b, "b", 10);
        compiled.insert(&c, "c", 10);
        assert_eq!(compiled.get(&a), Some("a"));
        assert_eq!(compiled.insert(&d, "d", 10), ["b"]);
        // By bytes; the newest stays, however large.
        let mut gone = compiled.insert(&b, "b", 1000);
        gone.sort_unstable();
        assert_eq!(gone, ["a", "c", "d"]);
        assert_eq!(compiled.get(&b), Some("b"));
    }
}
