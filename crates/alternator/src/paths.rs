//! The paths of a request: which attributes they name, and what they may not lead into.
//!
//! Invariants
//!  - *keys-are-scalars*: no path leads into an attribute of a key, of the table or of an index of
//!    it: there is nothing within.
//!  - *filter-sees-index*: a filter of a query of an index names what the index projects.

use crate::error::Error;
use crate::expression::{Condition, Operand, Path, Selection, Update};
use crate::table::Table;

/// All paths of a condition, in the order of its text.
pub(crate) fn each<'c>(condition: &'c Condition, see: &mut impl FnMut(&'c Path)) {
    match condition {
        Condition::And(all) | Condition::Or(all) => all.iter().for_each(|one| each(one, see)),
        Condition::Not(inner) => each(inner, see),
        Condition::Exists(path) | Condition::NotExists(path) => see(path),
        Condition::Compare(_, a, b) | Condition::BeginsWith(a, b) | Condition::Contains(a, b) => {
            [a, b].into_iter().for_each(|it| each_of_operand(it, see));
        }
        Condition::Between { value, low, high } => {
            [value, low, high].into_iter().for_each(|it| each_of_operand(it, see));
        }
        Condition::In(value, all) => {
            std::iter::once(value).chain(all).for_each(|it| each_of_operand(it, see));
        }
        Condition::Type(value, _) => each_of_operand(value, see),
    }
}

fn each_of_operand<'c>(operand: &'c Operand, see: &mut impl FnMut(&'c Path)) {
    match operand {
        Operand::Path(path) => see(path),
        Operand::Value(_) => {}
        Operand::Size(inner) => each_of_operand(inner, see),
        Operand::IfNotExists(path, default) => {
            see(path);
            each_of_operand(default, see);
        }
        Operand::ListAppend(a, b) | Operand::Plus(a, b) | Operand::Minus(a, b) => {
            each_of_operand(a, see);
            each_of_operand(b, see);
        }
    }
}

/// *keys-are-scalars*, of what is written: `condition` and the paths and values of `update`.
pub(crate) fn check_write(
    table: &Table,
    update: Option<&Update>,
    condition: Option<&Condition>,
) -> Result<(), Error> {
    let mut wrong = None;
    let mut see = |path: &Path| {
        if !path.steps.is_empty() && wrong.is_none() {
            wrong = refused(table, &path.root);
        }
    };
    if let Some(update) = update {
        update.paths().for_each(&mut see);
        update.set.iter().for_each(|(_, operand)| each_of_operand(operand, &mut see));
    }
    condition.into_iter().for_each(|condition| each(condition, &mut see));
    wrong.map_or(Ok(()), Err)
}

/// *keys-are-scalars*, of what is read.
pub(crate) fn check_read(
    table: &Table,
    selection: Option<&Selection>,
    condition: Option<&Condition>,
) -> Result<(), Error> {
    if let Some(Selection::Names(names)) = selection {
        let within = names.iter().filter(|(_, part)| **part != Selection::Whole);
        let mut wrong = within.filter_map(|(name, _)| refused(table, name));
        wrong.next().map_or(Ok(()), Err)?;
    }
    check_write(table, None, condition)
}

/// Why no path may lead into the attribute, if none may.
fn refused(table: &Table, name: &str) -> Option<Error> {
    // Columns of CQL have keys of all types.
    table.attributes?;
    let what = match table.is_key(name) {
        true => "Key",
        false if table.indexed.iter().any(|column| column.name == name) => "IndexKey",
        false => return None,
    };
    Some(Error::validation(format!(
        "Key attributes must be scalars; list random access '[]' and map lookup '.' are not \
         allowed: {what}: {name}"
    )))
}

/// *filter-sees-index*. `shown`: what the index projects, if not all.
pub(crate) fn check_projected(
    index: &str,
    shown: &Selection,
    filter: Option<&Condition>,
) -> Result<(), Error> {
    let mut missed = Vec::new();
    let mut see = |path: &Path| {
        if !shown.has(&path.root) && !missed.contains(&path.root) {
            missed.push(path.root.clone());
        }
    };
    filter.into_iter().for_each(|filter| each(filter, &mut see));
    missed.sort();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "One or more parameter values were invalid: Secondary index {index} does not project \
             one or more filter attributes: [{}]",
            missed.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Placeholders, condition};

    fn parsed(text: &str) -> Condition {
        condition(text, "FilterExpression", &Placeholders::default()).unwrap()
    }

    #[test]
    fn all_paths_of_a_condition_are_seen() {
        let text = "a = b AND NOT (size(d.x) IN (e, f[0]) OR attribute_exists(g)) AND \
                    h BETWEEN i AND j AND contains(k, l)";
        let (condition, mut found) = (parsed(text), Vec::new());
        each(&condition, &mut |path| found.push(path.root.as_str()));
        assert_eq!(found.join(""), "abdefghijkl");
    }

    #[test]
    fn a_filter_names_what_the_index_has() {
        let shown = Selection::of_names(["a".to_owned(), "b".to_owned()].into_iter());
        let check = |text: &str| check_projected("i", &shown, Some(&parsed(text)));
        assert_eq!(check("a.x = b"), Ok(()));
        let error = check("a = z OR y.a = b OR z[1] = a").unwrap_err().message;
        assert!(
            error.ends_with(
                "Secondary index i does not project one or more filter attributes: \
                                 [y, z]"
            ),
            "{error}"
        );
    }
}
