//! From what a text says to what it means in a request: with names and values in the places of
//! placeholders.
//!
//! Invariants
//!  - *resolved*: as of [`super`].
//!  - *same-either-way*: whether a text was parsed now or before makes no difference.

use super::check;
use super::code::{Code, Kind, Span};
use super::parser::parse;
use super::{Condition, Operand, Path, Placeholders, Selection, Step, Update};
use crate::error::Error;

/// A condition or filter. `what` names the parameter, here and below.
pub fn condition(text: &str, what: &str, known: &Placeholders<'_>) -> Result<Condition, Error> {
    assembled(Kind::Condition, (text, what), known, |assembly| assembly.condition())
}

/// A projection.
pub fn projection(text: &str, what: &str, known: &Placeholders<'_>) -> Result<Selection, Error> {
    assembled(Kind::Projection, (text, what), known, |assembly| {
        let mut paths = Vec::with_capacity(assembly.codes.len());
        while !assembly.codes.is_empty() {
            paths.push(assembly.path()?);
        }
        Selection::of(paths.iter(), what)
    })
}

/// An update.
pub fn update(text: &str, what: &str, known: &Placeholders<'_>) -> Result<Update, Error> {
    let update = assembled(Kind::Update, (text, what), known, |assembly| assembly.update())?;
    if !are_apart(&update) {
        Selection::of(update.paths().collect::<Vec<_>>().into_iter(), what)?;
    }
    Ok(update)
}

/// Whether few paths have each a root of its own, which is the rule: then none is within another.
fn are_apart(update: &Update) -> bool {
    const FEW: usize = 16;
    let mut seen = 0u64;
    for (at, path) in update.paths().enumerate() {
        // Most roots differ in their lengths or last bytes; only others are compared.
        let last = path.root.as_bytes().last().copied().unwrap_or_default();
        let mark = 1 << (path.root.len().wrapping_mul(11).wrapping_add(last.into()) % 64);
        let is_met = |earlier: &Path| earlier.root == path.root;
        if FEW <= at || seen & mark != 0 && update.paths().take(at).any(is_met) {
            return false;
        }
        seen |= mark;
    }
    true
}

/// *same-either-way*
fn assembled<T>(
    kind: Kind,
    (text, what): (&str, &str),
    known: &Placeholders<'_>,
    assemble: impl FnOnce(&mut Assembly<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let programs = known.programs();
    if let Some(codes) = programs.and_then(|programs| programs.get(kind, text)) {
        return assemble(&mut Assembly { text, codes: &codes, what, known });
    }
    let codes = parse(kind, text, what)?;
    let made = assemble(&mut Assembly { text, codes: &codes, what, known });
    if let Some(programs) = programs {
        programs.put(kind, text, &codes);
    }
    made
}

struct Assembly<'p> {
    text: &'p str,
    /// Those to come.
    codes: &'p [Code],
    what: &'p str,
    known: &'p Placeholders<'p>,
}

impl<'p> Assembly<'p> {
    fn next(&mut self) -> Option<Code> {
        let (first, rest) = self.codes.split_first()?;
        self.codes = rest;
        Some(*first)
    }

    fn word(&self, span: Span) -> &'p str {
        span.word(self.text)
    }

    fn condition(&mut self) -> Result<Condition, Error> {
        match self.next() {
            Some(Code::And(count)) => Ok(Condition::And(self.all(count, Assembly::condition)?)),
            Some(Code::Or(count)) => Ok(Condition::Or(self.all(count, Assembly::condition)?)),
            Some(Code::Not) => Ok(Condition::Not(Box::new(self.condition()?))),
            Some(Code::Called(name, count)) => {
                let arguments = self.all(count, Assembly::operand)?;
                check::called(self.what, self.word(name), arguments)
            }
            Some(Code::Compare(how)) => {
                let left = self.operand()?;
                check::comparison(self.what, how, left, self.operand()?)
            }
            Some(Code::Between) => {
                let (value, low) = (self.operand()?, self.operand()?);
                check::between(self.what, value, low, self.operand()?)
            }
            Some(Code::In(count)) => {
                let left = self.operand()?;
                check::within(self.what, left, self.all(count, Assembly::operand)?)
            }
            _ => Err(broken()),
        }
    }

    fn all<T>(
        &mut self,
        count: u16,
        part: fn(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            all.push(part(self)?);
        }
        Ok(all)
    }

    fn operand(&mut self) -> Result<Operand, Error> {
        match self.codes.first() {
            Some(Code::Root(_) | Code::RootReference(_)) => return self.path().map(Operand::Path),
            Some(Code::Value(_)) => return self.value().map(Operand::Value),
            _ => {}
        }
        match self.next() {
            Some(Code::Valued(name, count)) => {
                let arguments = self.all(count, Assembly::operand)?;
                check::valued(self.what, self.word(name), arguments)
            }
            Some(Code::Updating(name, count)) => {
                let arguments = self.all(count, Assembly::operand)?;
                check::updating(self.what, self.word(name), arguments)
            }
            Some(sign @ (Code::Plus | Code::Minus)) => {
                let left = self.operand()?;
                let sign = if sign == Code::Plus { "+" } else { "-" };
                check::sum(self.what, sign, left, self.operand()?)
            }
            _ => Err(broken()),
        }
    }

    fn value(&mut self) -> Result<crate::value::Value, Error> {
        let Some(Code::Value(reference)) = self.next() else { return Err(broken()) };
        self.known.value(self.word(reference), self.what)
    }

    fn path(&mut self) -> Result<Path, Error> {
        let root = match self.next() {
            Some(Code::Root(name)) => self.word(name),
            Some(Code::RootReference(name)) => self.known.name(self.word(name), self.what)?,
            _ => return Err(broken()),
        };
        let mut path = Path::attribute(root);
        loop {
            let step = match self.codes.first() {
                Some(Code::Name(name)) => Step::Name(self.word(*name).to_owned()),
                Some(Code::NameReference(name)) => {
                    Step::Name(self.known.name(self.word(*name), self.what)?.to_owned())
                }
                Some(Code::Index(index)) => Step::Index(*index as usize),
                _ => return Ok(path),
            };
            self.codes = &self.codes[1..];
            path.steps.push(step);
        }
    }

    fn update(&mut self) -> Result<Update, Error> {
        let mut update = Update::default();
        while let Some(code) = self.next() {
            match code {
                Code::Set(count) => {
                    update.set =
                        self.all(count, |it| it.path().and_then(|path| Ok((path, it.operand()?))))?;
                }
                Code::Remove(count) => update.remove = self.all(count, Assembly::path)?,
                Code::Add(count) => update.add = self.all(count, |it| it.change("ADD"))?,
                Code::Delete(count) => update.delete = self.all(count, |it| it.change("DELETE"))?,
                _ => return Err(broken()),
            }
        }
        Ok(update)
    }

    fn change(&mut self, action: &str) -> Result<(Path, crate::value::Value), Error> {
        let path = self.path()?;
        let value = self.value()?;
        check::changing(self.what, action, path, value)
    }
}

/// The parser says no such thing.
fn broken() -> Error {
    Error::internal("an expression was taken apart and does not fit together")
}
