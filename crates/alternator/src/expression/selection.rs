//! Which parts of an item a list of paths names.
//!
//! Invariants
//!  - *disjoint*: no path is within another, and no value is both a map and a list.

use super::{Path, Step};
use crate::error::Error;
use crate::value::{Map, Value};
use std::collections::BTreeMap;

/// Parts of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of it.
    Whole,
    Names(BTreeMap<String, Selection>),
    Indexes(BTreeMap<usize, Selection>),
}

impl Selection {
    /// The parts that these paths name. The error names two that overlap. `what` is the parameter
    /// that they come from. (*disjoint*)
    pub fn of<'p>(
        paths: impl Iterator<Item = &'p Path> + Clone,
        what: &str,
    ) -> Result<Selection, Error> {
        let mut all = Selection::Names(BTreeMap::new());
        for path in paths.clone() {
            let root = Step::Name(path.root.clone());
            let steps: Vec<&Step> = std::iter::once(&root).chain(&path.steps).collect();
            if let Err(how) = all.add(&steps) {
                let other = paths.clone().find(|other| *other != path && meet(other, path));
                let other = other.unwrap_or(path);
                return Err(Error::validation(format!(
                    "Invalid {what}: Two document paths {how} with each other; must remove or \
                     rewrite one of these paths; path one: {other}, path two: {path}"
                )));
            }
        }
        Ok(all)
    }

    /// Whole attributes, a name perhaps several times.
    pub fn of_names(names: impl Iterator<Item = String>) -> Selection {
        Selection::Names(names.map(|name| (name, Selection::Whole)).collect())
    }

    fn add(&mut self, steps: &[&Step]) -> Result<(), &'static str> {
        let Some((first, rest)) = steps.split_first() else { return Err("overlap") };
        let fresh = || match rest.first() {
            None => Selection::Whole,
            Some(Step::Name(_)) => Selection::Names(BTreeMap::new()),
            Some(Step::Index(_)) => Selection::Indexes(BTreeMap::new()),
        };
        let (is_new, inner) = match (self, first) {
            (Selection::Names(all), Step::Name(name)) => {
                (!all.contains_key(name), all.entry(name.clone()).or_insert_with(fresh))
            }
            (Selection::Indexes(all), Step::Index(index)) => {
                (!all.contains_key(index), all.entry(*index).or_insert_with(fresh))
            }
            (Selection::Whole, _) => return Err("overlap"),
            _ => return Err("conflict"),
        };
        match rest.is_empty() {
            true if is_new => Ok(()),
            true => Err("overlap"),
            false => inner.add(rest),
        }
    }

    /// Whether it has anything of the attribute.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Selection::Whole => true,
            Selection::Names(all) => all.contains_key(name),
            Selection::Indexes(_) => false,
        }
    }

    /// Its parts of an item.
    pub fn of_item(&self, item: &Map) -> Map {
        match self {
            Selection::Whole => item.clone(),
            Selection::Names(all) => of_map(all, item),
            Selection::Indexes(_) => Map::new(),
        }
    }

    /// Its part of a value, if there is any.
    pub fn of_value(&self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Selection::Whole, value) => Some(value.clone()),
            (Selection::Names(all), Value::M(map)) => {
                Some(of_map(all, map)).filter(|found| !found.is_empty()).map(Value::M)
            }
            (Selection::Indexes(all), Value::L(list)) => {
                let part = |(index, inner): (&usize, &Selection)| inner.of_value(list.get(*index)?);
                let found: Vec<Value> = all.iter().filter_map(part).collect();
                (!found.is_empty()).then_some(Value::L(found))
            }
            _ => None,
        }
    }
}

fn of_map(all: &BTreeMap<String, Selection>, map: &Map) -> Map {
    let part = |(name, inner): (&String, &Selection)| {
        Some((name.clone(), inner.of_value(map.get(name)?)?))
    };
    all.iter().filter_map(part).collect()
}

/// Whether one path is within the other, or takes for a map what the other takes for a list.
fn meet(a: &Path, b: &Path) -> bool {
    if a.root != b.root {
        return false;
    }
    let differ = a.steps.iter().zip(&b.steps).find(|(a, b)| a != b);
    differ.is_none_or(|(a, b)| matches!(a, Step::Name(_)) != matches!(b, Step::Name(_)))
}
