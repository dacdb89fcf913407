//! What operators and functions take, as far as a text shows it.

use super::{Comparison, Condition, Operand, Path};
use crate::error::Error;
use crate::value::{TYPE_NAMES, Value, shown};

/// Refuses an operand that no value of the type could be.
fn wrong_type(what: &str, operator: &str, value: &Value) -> Error {
    Error::validation(format!(
        "Invalid {what}: Incorrect operand type for operator or function; operator or function: \
         {operator}, operand type: {}",
        value.type_name()
    ))
}

/// Constants that have no order are refused where one is needed.
fn check_ordered(what: &str, operator: &str, operand: &Operand) -> Result<(), Error> {
    match operand {
        Operand::Value(Value::S(_) | Value::N(_) | Value::B(_)) => Ok(()),
        Operand::Value(value) => Err(wrong_type(what, operator, value)),
        _ => Ok(()),
    }
}

pub(crate) fn comparison(
    what: &str,
    comparison: Comparison,
    left: Operand,
    right: Operand,
) -> Result<Condition, Error> {
    if !matches!(comparison, Comparison::Equal | Comparison::Unequal) {
        check_ordered(what, comparison.symbol(), &left)?;
        check_ordered(what, comparison.symbol(), &right)?;
    }
    if left == right
        && let Operand::Path(path) = &left
    {
        return Err(not_distinct(what, comparison.symbol(), path));
    }
    Ok(Condition::Compare(comparison, left, right))
}

/// `IN`
pub(super) fn within(what: &str, left: Operand, all: Vec<Operand>) -> Result<Condition, Error> {
    match &left {
        Operand::Path(path) if all.contains(&left) => Err(not_distinct(what, "IN", path)),
        _ => Ok(Condition::In(left, all)),
    }
}

fn not_distinct(what: &str, operator: &str, path: &Path) -> Error {
    Error::validation(format!(
        "Invalid {what}: The first operand must be distinct from the remaining operands for this \
         operator or function; operator: {operator}, first operand: {path}"
    ))
}

pub(crate) fn between(
    what: &str,
    value: Operand,
    low: Operand,
    high: Operand,
) -> Result<Condition, Error> {
    [&value, &low, &high].into_iter().try_for_each(|it| check_ordered(what, "BETWEEN", it))?;
    if let Operand::Path(path) = &value
        && (value == low || value == high)
    {
        return Err(not_distinct(what, "BETWEEN", path));
    }
    if let (Operand::Value(a), Operand::Value(b)) = (&low, &high) {
        let bounds =
            || format!("lower bound operand: {}, upper bound operand: {}", shown(a), shown(b));
        if a.type_name() != b.type_name() {
            return Err(Error::validation(format!(
                "Invalid {what}: The BETWEEN operator requires same data type for lower and upper \
                 bounds; {}",
                bounds()
            )));
        }
        if crate::value::order(a, b).is_some_and(|order| order.is_gt()) {
            return Err(Error::validation(format!(
                "Invalid {what}: The BETWEEN operator requires upper bound to be greater than or \
                 equal to lower bound; {}",
                bounds()
            )));
        }
    }
    Ok(Condition::Between { value, low, high })
}

/// Functions that conditions can be.
const OF_CONDITIONS: [&str; 5] =
    ["attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains"];

/// A condition that is the call of a function.
pub(crate) fn called(what: &str, name: &str, arguments: Vec<Operand>) -> Result<Condition, Error> {
    if !OF_CONDITIONS.contains(&name) {
        return Err(misplaced(what, name));
    }
    let path = |operand: Operand| match operand {
        Operand::Path(path) => Ok(path),
        _ => Err(no_path(what, name)),
    };
    match name {
        "attribute_exists" => Ok(Condition::Exists(path(one(what, name, arguments)?)?)),
        "attribute_not_exists" => Ok(Condition::NotExists(path(one(what, name, arguments)?)?)),
        _ => {
            let (first, second) = two(what, name, arguments)?;
            if first == second
                && let Operand::Path(path) = &first
            {
                return Err(not_distinct(what, name, path));
            }
            match name {
                "attribute_type" => attribute_type(what, first, second),
                "begins_with" => begins_with(what, first, second),
                _ => Ok(Condition::Contains(first, second)),
            }
        }
    }
}

fn attribute_type(what: &str, first: Operand, second: Operand) -> Result<Condition, Error> {
    match second {
        Operand::Value(Value::S(name)) if TYPE_NAMES.contains(&&*name) => {
            Ok(Condition::Type(first, name))
        }
        Operand::Value(Value::S(name)) => Err(Error::validation(format!(
            "Invalid {what}: Invalid attribute type name found; type: {name}, valid types: {{{}}}",
            TYPE_NAMES.join(",")
        ))),
        Operand::Value(other) => Err(wrong_type(what, "attribute_type", &other)),
        _ => Err(Error::validation(format!(
            "Invalid {what}: Incorrect operand type for operator or function; operator or \
             function: attribute_type, operand type: not a value"
        ))),
    }
}

fn begins_with(what: &str, first: Operand, second: Operand) -> Result<Condition, Error> {
    for operand in [&first, &second] {
        match operand {
            Operand::Value(Value::S(_) | Value::B(_)) => {}
            Operand::Value(other) => return Err(wrong_type(what, "begins_with", other)),
            _ => {}
        }
    }
    Ok(Condition::BeginsWith(first, second))
}

/// A function of a condition that has a value.
pub(crate) fn valued(what: &str, name: &str, arguments: Vec<Operand>) -> Result<Operand, Error> {
    match name {
        "size" => {
            let operand = one(what, name, arguments)?;
            match &operand {
                Operand::Value(value @ (Value::N(_) | Value::Bool(_) | Value::Null)) => {
                    Err(wrong_type(what, "size", value))
                }
                Operand::Path(_) | Operand::Value(_) => Ok(Operand::Size(Box::new(operand))),
                _ => Err(misplaced(what, name)),
            }
        }
        name if OF_CONDITIONS.contains(&name) => Err(misplaced(what, name)),
        name => Err(misplaced(what, name)),
    }
}

/// A function of an update.
pub(crate) fn updating(what: &str, name: &str, arguments: Vec<Operand>) -> Result<Operand, Error> {
    // So the service has it.
    if arguments.iter().any(|it| matches!(it, Operand::ListAppend(..))) {
        return Err(misplaced(what, "list_append"));
    }
    match name {
        "if_not_exists" => match two(what, name, arguments)? {
            (Operand::Path(path), Operand::Path(same)) if path == same => {
                Err(not_distinct(what, name, &path))
            }
            (Operand::Path(path), default) => Ok(Operand::IfNotExists(path, Box::new(default))),
            _ => Err(no_path(what, name)),
        },
        "list_append" => {
            let (a, b) = two(what, name, arguments)?;
            for operand in [&a, &b] {
                if let Operand::Value(value) = operand
                    && !matches!(value, Value::L(_))
                {
                    return Err(wrong_type(what, name, value));
                }
            }
            Ok(Operand::ListAppend(Box::new(a), Box::new(b)))
        }
        name => Err(misplaced(what, name)),
    }
}

/// A sum or difference.
pub(crate) fn sum(what: &str, sign: &str, a: Operand, b: Operand) -> Result<Operand, Error> {
    for operand in [&a, &b] {
        match operand {
            Operand::Value(Value::N(_)) => {}
            Operand::Value(value) => return Err(wrong_type(what, sign, value)),
            Operand::ListAppend(..) => return Err(misplaced(what, "list_append")),
            _ => {}
        }
    }
    let (a, b) = (Box::new(a), Box::new(b));
    Ok(if sign == "+" { Operand::Plus(a, b) } else { Operand::Minus(a, b) })
}

/// What `ADD` or `DELETE` has for a path.
pub(crate) fn changing(
    what: &str,
    action: &str,
    path: Path,
    value: Value,
) -> Result<(Path, Value), Error> {
    let fits = match value {
        Value::SS(_) | Value::NS(_) | Value::BS(_) => true,
        Value::N(_) => action == "ADD",
        _ => false,
    };
    if fits { Ok((path, value)) } else { Err(wrong_type(what, action, &value)) }
}

fn misplaced(what: &str, name: &str) -> Error {
    let known =
        OF_CONDITIONS.contains(&name) || ["size", "if_not_exists", "list_append"].contains(&name);
    Error::validation(match known {
        true => format!(
            "Invalid {what}: The function is not allowed to be used this way in an expression; \
             function: {name}"
        ),
        false => format!("Invalid {what}: Invalid function name; function: {name}"),
    })
}

fn no_path(what: &str, name: &str) -> Error {
    Error::validation(format!(
        "Invalid {what}: Operator or function requires a document path; operator or function: \
         {name}"
    ))
}

fn miscounted(what: &str, name: &str, count: usize) -> Error {
    Error::validation(format!(
        "Invalid {what}: Incorrect number of operands for operator or function; operator or \
         function: {name}, number of operands: {count}"
    ))
}

fn one(what: &str, name: &str, arguments: Vec<Operand>) -> Result<Operand, Error> {
    match <[Operand; 1]>::try_from(arguments) {
        Ok([only]) => Ok(only),
        Err(arguments) => Err(miscounted(what, name, arguments.len())),
    }
}

fn two(what: &str, name: &str, arguments: Vec<Operand>) -> Result<(Operand, Operand), Error> {
    match <[Operand; 2]>::try_from(arguments) {
        Ok([first, second]) => Ok((first, second)),
        Err(arguments) => Err(miscounted(what, name, arguments.len())),
    }
}
