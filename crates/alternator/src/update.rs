//! What an update makes of an item. Pure.
//!
//! Invariants
//!  - *from-before*: operands see the item as it was, whatever the update has changed by then.
//!  - *all-or-nothing*: an update that cannot be made whole changes nothing.
//!  - *what-is-named*: nothing is looked at or copied but the attributes that the update names.

use crate::error::Error;
use crate::evaluate::{missing, operand, wrong_type};
use crate::expression::{Path, Step, Update};
use crate::value::{Map, NESTING_MAX, Value};
use std::borrow::Cow;

/// Attributes in order of their names, each with what it is after an update; `None`: it is gone.
pub type Changed<'u> = Vec<(&'u str, Option<Cow<'u, Value>>)>;

/// What an update makes of the attributes that it names. (*what-is-named*)
pub fn changed<'u>(update: &'u Update, before: &Map) -> Result<Changed<'u>, Error> {
    let mut all: Changed<'u> = match update.reads() {
        false => replaced(update)?,
        true => {
            let mut after = worked(update, before)?;
            let roots = update.paths().map(|path| &*path.root);
            roots.map(|root| (root, after.remove(root).map(Cow::Owned))).collect()
        }
    };
    // A root that several paths have has its value with the first, which sorting leaves there.
    all.sort_by_key(|(name, _)| *name);
    all.dedup_by_key(|(name, _)| *name);
    Ok(all)
}

/// An item with changed attributes.
pub fn applied(before: &Map, changed: &Changed<'_>) -> Map {
    let mut after = before.clone();
    for (name, value) in changed {
        match value {
            Some(value) => after.insert((*name).to_owned(), (**value).clone()),
            None => after.remove(*name),
        };
    }
    after
}

/// Whole attributes that are given values, or taken.
fn replaced(update: &Update) -> Result<Changed<'_>, Error> {
    static NOTHING: Map = Map::new();
    let mut all = Vec::with_capacity(update.set.len() + update.remove.len());
    for (path, value) in &update.set {
        let value = operand(value, &NOTHING)?.ok_or_else(missing)?;
        check_depth(path, &value)?;
        all.push((&*path.root, Some(value)));
    }
    all.extend(update.remove.iter().map(|path| (&*path.root, None)));
    Ok(all)
}

fn check_depth(path: &Path, value: &Value) -> Result<(), Error> {
    match path.steps.len() + 1 + value.depth() <= NESTING_MAX {
        true => Ok(()),
        false => Err(Error::validation(
            "Nesting Levels have exceeded supported limits: the value is nested too deep",
        )),
    }
}

/// The attributes that an update names, after it.
fn worked(update: &Update, before: &Map) -> Result<Map, Error> {
    let present = |path: &Path| Some((path.root.clone(), before.get(&path.root)?.clone()));
    let mut after: Map = update.paths().filter_map(present).collect();
    // Elements behind the end of a list are appended in order of their indexes.
    let mut sets: Vec<_> = update.set.iter().collect();
    sets.sort_by(|(a, _), (b, _)| indexes(a).cmp(indexes(b)));
    for (path, value) in sets {
        let value = operand(value, before)?.map(Cow::into_owned).ok_or_else(missing)?;
        check_depth(path, &value)?;
        set(&mut after, path, value)?;
    }
    for (path, more) in &update.add {
        let present = crate::evaluate::find(path, before);
        let sum = match present {
            None => more.clone(),
            Some(present) => added(present, more)?,
        };
        set(&mut after, path, sum)?;
    }
    for (path, less) in &update.delete {
        match crate::evaluate::find(path, before) {
            // Nothing is there, but there has to be a place for it.
            None => {
                holder(&mut after, path)?;
            }
            Some(present) => match without(present, less)? {
                Some(left) => set(&mut after, path, left)?,
                None => remove(&mut after, path)?,
            },
        }
    }
    // Later elements of a list first: an index is that of the list as it was.
    let mut removed: Vec<&Path> = update.remove.iter().collect();
    removed.sort_by(|a, b| indexes(b).cmp(indexes(a)));
    removed.into_iter().try_for_each(|path| remove(&mut after, path))?;
    Ok(after)
}

fn indexes(path: &Path) -> impl Iterator<Item = usize> {
    path.steps.iter().map(|step| match step {
        Step::Name(_) => 0,
        Step::Index(index) => *index,
    })
}

fn invalid_path() -> Error {
    Error::validation("The document path provided in the update expression is invalid for update")
}

/// What holds the last step of a path, which is the root of a path of one.
enum Holder<'m> {
    Map(&'m mut Map, &'m str),
    List(&'m mut Vec<Value>, usize),
}

fn holder<'m>(item: &'m mut Map, path: &'m Path) -> Result<Holder<'m>, Error> {
    let Some((last, steps)) = path.steps.split_last() else {
        return Ok(Holder::Map(item, &path.root));
    };
    let mut value = item.get_mut(&path.root).ok_or_else(invalid_path)?;
    for step in steps {
        value = match (step, value) {
            (Step::Name(name), Value::M(map)) => map.get_mut(name).ok_or_else(invalid_path)?,
            (Step::Index(index), Value::L(list)) => {
                list.get_mut(*index).ok_or_else(invalid_path)?
            }
            _ => return Err(invalid_path()),
        };
    }
    match (last, value) {
        (Step::Name(name), Value::M(map)) => Ok(Holder::Map(map, name)),
        (Step::Index(index), Value::L(list)) => Ok(Holder::List(list, *index)),
        _ => Err(invalid_path()),
    }
}

/// An index behind the end of a list appends to it.
fn set(item: &mut Map, path: &Path, value: Value) -> Result<(), Error> {
    match holder(item, path)? {
        Holder::Map(map, name) => {
            map.insert(name.to_owned(), value);
        }
        Holder::List(list, index) => match list.get_mut(index) {
            Some(place) => *place = value,
            None => list.push(value),
        },
    }
    Ok(())
}

fn remove(item: &mut Map, path: &Path) -> Result<(), Error> {
    match holder(item, path)? {
        Holder::Map(map, name) => {
            map.remove(name);
        }
        Holder::List(list, index) if index < list.len() => {
            list.remove(index);
        }
        Holder::List(..) => {}
    }
    Ok(())
}

fn added(present: &Value, more: &Value) -> Result<Value, Error> {
    Ok(match (present, more) {
        (Value::N(a), Value::N(b)) => Value::N(a.plus(*b)?),
        (Value::SS(a), Value::SS(b)) => Value::SS(union(a, b)),
        (Value::NS(a), Value::NS(b)) => Value::NS(union(a, b)),
        (Value::BS(a), Value::BS(b)) => Value::BS(union(a, b)),
        _ => return Err(wrong_type()),
    })
}

/// What is left; `None`: nothing.
fn without(present: &Value, less: &Value) -> Result<Option<Value>, Error> {
    Ok(match (present, less) {
        (Value::SS(a), Value::SS(b)) => difference(a, b).map(Value::SS),
        (Value::NS(a), Value::NS(b)) => difference(a, b).map(Value::NS),
        (Value::BS(a), Value::BS(b)) => difference(a, b).map(Value::BS),
        _ => return Err(wrong_type()),
    })
}

fn union<T: Ord + Clone>(a: &[T], b: &[T]) -> Vec<T> {
    let mut all: Vec<T> = a.iter().chain(b).cloned().collect();
    all.sort();
    all.dedup();
    all
}

fn difference<T: Ord + Clone>(a: &[T], b: &[T]) -> Option<Vec<T>> {
    let left: Vec<T> = a.iter().filter(|one| b.binary_search(one).is_err()).cloned().collect();
    (!left.is_empty()).then_some(left)
}
