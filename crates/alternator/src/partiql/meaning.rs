//! What trees mean with their parameters, in the terms of expressions.

use super::tree::{Change, Lack, Term, Test};
use crate::error::Error;
use crate::expression::check;
use crate::expression::{Condition, Operand, Path, Selection, Update};
use crate::number::Number;
use crate::value::{Map, NESTING_MAX, Value};

/// As messages call the parts of a statement.
const WHERE: &str = "WHERE clause";
const SET: &str = "SET clause";
/// What may follow `IN`.
const ALTERNATIVES_MAX: usize = 100;

/// The parameters of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning<'p>(pub(super) &'p [Value]);

impl Meaning<'_> {
    pub(super) fn condition(self, test: &Test) -> Result<Condition, Error> {
        let all = |all: &[Test]| -> Result<Vec<Condition>, Error> {
            all.iter().map(|one| self.condition(one)).collect()
        };
        Ok(match test {
            Test::And(parts) => Condition::And(all(parts)?),
            Test::Or(parts) => Condition::Or(all(parts)?),
            Test::Not(inner) => Condition::Not(Box::new(self.condition(inner)?)),
            Test::Compare(comparison, left, right) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                check::comparison(WHERE, *comparison, left, right)?
            }
            Test::Between { term, low, high } => {
                let (low, high) = (self.operand(low)?, self.operand(high)?);
                check::between(WHERE, self.operand(term)?, low, high)?
            }
            Test::In(term, all) => {
                if ALTERNATIVES_MAX < all.len() {
                    return Err(Error::validation(format!(
                        "Invalid {WHERE}: The IN operator is provided with too many operands; \
                         number of operands: {}",
                        all.len()
                    )));
                }
                let all = all.iter().map(|one| self.operand(one)).collect::<Result<_, _>>()?;
                Condition::In(self.operand(term)?, all)
            }
            Test::Is(path, Lack::Missing) => Condition::NotExists(path.clone()),
            Test::Is(path, Lack::Null) => {
                Condition::Type(Operand::Path(path.clone()), Value::Null.type_name().to_owned())
            }
            Test::Call(name, arguments) => {
                let arguments = arguments.iter().map(|one| self.operand(one));
                check::called(WHERE, name, arguments.collect::<Result<_, _>>()?)?
            }
        })
    }

    /// What is compared.
    fn operand(self, term: &Term) -> Result<Operand, Error> {
        match term {
            Term::Path(path) => Ok(Operand::Path(path.clone())),
            Term::Call(name, arguments) => {
                let arguments = arguments.iter().map(|one| self.operand(one));
                check::valued(WHERE, name, arguments.collect::<Result<_, _>>()?)
            }
            Term::Plus(..) | Term::Minus(..) => Err(Error::validation(format!(
                "Invalid {WHERE}: Unsupported operator: + and - are of SET alone"
            ))),
            _ => self.value(term).map(Operand::Value),
        }
    }

    pub(super) fn update(self, changes: &[Change]) -> Result<Update, Error> {
        let mut update = Update::default();
        for change in changes {
            let (path, term) = match change {
                Change::Remove(path) => {
                    update.remove.push(path.clone());
                    continue;
                }
                Change::Set(path, term) => (path, term),
            };
            match term {
                Term::Call(name, arguments) if name == "set_add" => {
                    update.add.push(self.of_set(path, "SET_ADD", arguments)?);
                }
                Term::Call(name, arguments) if name == "set_delete" => {
                    update.delete.push(self.of_set(path, "SET_DELETE", arguments)?);
                }
                term => update.set.push((path.clone(), self.assigned(term)?)),
            }
        }
        Selection::of(update.paths().collect::<Vec<_>>().into_iter(), SET)?;
        Ok(update)
    }

    /// The elements that a set gains or loses.
    fn of_set(self, path: &Path, name: &str, arguments: &[Term]) -> Result<(Path, Value), Error> {
        let [Term::Path(of), elements] = arguments else {
            return Err(Error::validation(format!(
                "Invalid {SET}: Incorrect number of operands for operator or function: {name} \
                 takes an attribute and a set"
            )));
        };
        if of != path {
            return Err(Error::validation(format!(
                "The first argument to {name} must equal the assignment value"
            )));
        }
        let value = self.value(elements)?;
        match value {
            Value::SS(_) | Value::NS(_) | Value::BS(_) => Ok((of.clone(), value)),
            other => Err(Error::validation(format!(
                "Invalid {SET}: Incorrect operand type for operator or function; operator or \
                 function: {name}, operand type: {}",
                other.type_name()
            ))),
        }
    }

    /// What an attribute is set to.
    fn assigned(self, term: &Term) -> Result<Operand, Error> {
        match term {
            Term::Path(path) => Ok(Operand::Path(path.clone())),
            Term::Call(name, arguments) => {
                let arguments = arguments.iter().map(|one| self.assigned(one));
                check::updating(SET, name, arguments.collect::<Result<_, _>>()?)
            }
            Term::Plus(a, b) => check::sum(SET, "+", self.assigned(a)?, self.assigned(b)?),
            Term::Minus(a, b) => check::sum(SET, "-", self.assigned(a)?, self.assigned(b)?),
            _ => self.value(term).map(Operand::Value),
        }
    }

    /// An item, or a part of one.
    pub(super) fn map(self, members: &[(String, Term)]) -> Result<Map, Error> {
        let value = |(name, term): &(String, Term)| Ok((name.clone(), self.value(term)?));
        members.iter().map(value).collect()
    }

    /// A value that depends on no item.
    pub(super) fn value(self, term: &Term) -> Result<Value, Error> {
        let value = self.plain(term)?;
        match value.depth() < NESTING_MAX {
            true => Ok(value),
            false => Err(Error::validation(format!(
                "Nesting Levels have exceeded supported limits: attributes can be nested \
                 {NESTING_MAX} levels deep"
            ))),
        }
    }

    fn plain(self, term: &Term) -> Result<Value, Error> {
        let all = |all: &[Term]| all.iter().map(|one| self.plain(one)).collect::<Result<_, _>>();
        Ok(match term {
            Term::Parameter(at) => self.0.get(*at).cloned().ok_or_else(unequal)?,
            Term::Text(text) => Value::S(text.clone()),
            Term::Number(number) => Value::N(*number),
            Term::Bool(value) => Value::Bool(*value),
            Term::Null => Value::Null,
            Term::List(parts) => Value::L(all(parts)?),
            Term::Map(members) => {
                let part = |(name, term): &(String, Term)| Ok((name.clone(), self.plain(term)?));
                Value::M(members.iter().map(part).collect::<Result<_, Error>>()?)
            }
            Term::Set(parts) => set(all(parts)?)?,
            Term::Path(path) => return Err(no_value(&format!("the attribute {path}"))),
            Term::Call(name, _) => return Err(no_value(&format!("the function {name}"))),
            Term::Plus(..) | Term::Minus(..) => return Err(no_value("a sum or difference")),
        })
    }
}

/// *all-parameters*
pub(super) fn unequal() -> Error {
    Error::validation("Number of parameters in request and statement don't match.")
}

fn no_value(what: &str) -> Error {
    Error::validation(format!("Unsupported data type: {what} stands where a value is expected"))
}

/// Of its elements, which are all of one type.
fn set(parts: Vec<Value>) -> Result<Value, Error> {
    let Some(first) = parts.first().map(Value::type_name) else {
        return Err(Error::validation("Empty bags are not supported: << >> has no element"));
    };
    let mixed = || {
        Error::validation(
            "Unsupported data type in Bag: the elements of << .. >> are all texts, all numbers or \
             all bytes",
        )
    };
    match first {
        "S" => {
            let text = |part| if let Value::S(text) = part { Some(text) } else { None };
            let all = parts.into_iter().map(text).collect::<Option<Vec<String>>>();
            distinct(all.ok_or_else(mixed)?).map(Value::SS)
        }
        "N" => {
            let number = |part| if let Value::N(number) = part { Some(number) } else { None };
            let all = parts.into_iter().map(number).collect::<Option<Vec<Number>>>();
            distinct(all.ok_or_else(mixed)?).map(Value::NS)
        }
        "B" => {
            let bytes = |part| if let Value::B(bytes) = part { Some(bytes) } else { None };
            let all = parts.into_iter().map(bytes).collect::<Option<Vec<Vec<u8>>>>();
            distinct(all.ok_or_else(mixed)?).map(Value::BS)
        }
        _ => Err(mixed()),
    }
}

/// In order, as sets are.
fn distinct<T: Ord>(mut all: Vec<T>) -> Result<Vec<T>, Error> {
    all.sort();
    match all.windows(2).any(|two| two[0] == two[1]) {
        false => Ok(all),
        true => Err(Error::validation("Input collection contains duplicates")),
    }
}
