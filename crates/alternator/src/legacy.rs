//! The parameters from before there were expressions, as what expressions mean: `Expected`,
//! `QueryFilter` and `ScanFilter`, `AttributeUpdates`.

use crate::error::Error;
use crate::expression::{Comparison, Condition, Operand, Path, Update};
use crate::json::{Json, Kind};
use crate::request::Request;
use crate::value::{TYPE_NAMES, Value, check_name};

/// The condition that these say together; `None`: they say nothing. `joined`:
/// `ConditionalOperator`.
pub(crate) fn condition(
    json: Json<'_>,
    what: &str,
    joined: Option<&str>,
) -> Result<Option<Condition>, Error> {
    let one = |(name, test): (std::borrow::Cow<'_, str>, Json<'_>)| test_of(&name, test, what);
    let mut all = json.members().map(one).collect::<Result<Vec<_>, Error>>()?;
    let any = match joined {
        None | Some("AND") => false,
        Some("OR") => true,
        Some(other) => {
            return Err(Error::validation(format!(
                "'ConditionalOperator' parameter must be AND, OR or missing: {other}"
            )));
        }
    };
    Ok(match all.len() {
        0 if joined.is_some() => {
            return Err(Error::validation(format!(
                "ConditionalOperator cannot be used without Filter or Expected: {what} is empty"
            )));
        }
        0 => None,
        1 if joined.is_some() => {
            return Err(Error::validation(
                "ConditionalOperator can only be used when Filter or Expected has two or more \
                 elements",
            ));
        }
        1 => all.pop(),
        _ if any => Some(Condition::Or(all)),
        _ => Some(Condition::And(all)),
    })
}

/// What one attribute is to be.
fn test_of(name: &str, json: Json<'_>, what: &str) -> Result<Condition, Error> {
    check_name(name)?;
    let test = Request::of(json, what)?;
    let path = Path::attribute(name);
    let operator = test.string("ComparisonOperator")?;
    let values = match test.list("AttributeValueList")? {
        None => None,
        Some(list) => Some(list.elements().map(Value::parse).collect::<Result<Vec<_>, _>>()?),
    };
    let (value, exists) = (test.get("Value"), test.bool("Exists")?);
    let refuse = |why: &str| {
        let start = "One or more parameter values were invalid";
        Err(Error::validation(format!("{start}: {why} for Attribute: {name}")))
    };
    match operator {
        Some(_) if exists.is_some() => {
            refuse("Exists and ComparisonOperator cannot be used together")
        }
        Some(_) if value.is_some() && values.is_some() => {
            refuse("Value and AttributeValueList cannot be used together")
        }
        Some(operator) => {
            let values = match (values, value) {
                (Some(values), _) => values,
                (None, Some(value)) => vec![Value::parse(value)?],
                (None, None) => Vec::new(),
            };
            compared(path, &operator, values)
        }
        None if values.is_some() => {
            refuse("AttributeValueList can only be used with a ComparisonOperator")
        }
        None if what != "Expected" => refuse("ComparisonOperator is missing"),
        None => match (exists, value) {
            (None | Some(true), Some(value)) => {
                let value = Operand::Value(Value::parse(value)?);
                Ok(Condition::Compare(Comparison::Equal, Operand::Path(path), value))
            }
            (Some(false), None) => Ok(Condition::NotExists(path)),
            (Some(false), Some(_)) => refuse("Value cannot be used when Exists is set to false"),
            (Some(true), None) => refuse("Value must be provided when Exists is set to true"),
            (None, None) => refuse("Value must be provided when Exists is set to null"),
        },
    }
}

/// The values that an operator takes: so many at least and at most.
fn arity(operator: &str) -> Option<(usize, usize)> {
    Some(match operator {
        "NULL" | "NOT_NULL" => (0, 0),
        "EQ" | "NE" | "LT" | "LE" | "GT" | "GE" | "CONTAINS" | "NOT_CONTAINS" | "BEGINS_WITH" => {
            (1, 1)
        }
        "BETWEEN" => (2, 2),
        "IN" => (1, usize::MAX),
        _ => return None,
    })
}

/// Checks what an operator is given: how many values, and of which types.
pub(crate) fn check_values(operator: &str, values: &[Value]) -> Result<(), Error> {
    let start = "One or more parameter values were invalid";
    let Some((least, most)) = arity(operator) else {
        return Err(Error::validation(format!(
            "{start}: Unsupported comparison operator {operator}"
        )));
    };
    if !(least..=most).contains(&values.len()) {
        return Err(Error::validation(format!(
            "{start}: Invalid number of argument(s) for the {operator} ComparisonOperator"
        )));
    }
    let allowed: &[&str] = match operator {
        "EQ" | "NE" | "NULL" | "NOT_NULL" => &TYPE_NAMES,
        "BEGINS_WITH" => &["S", "B"],
        _ => &["S", "N", "B"],
    };
    let wrong = values.iter().find(|value| !allowed.contains(&value.type_name()));
    if let Some(value) = wrong {
        let name = value.type_name();
        return Err(Error::validation(format!(
            "{start}: ComparisonOperator {operator} is not valid for {name} AttributeValue type"
        )));
    }
    let first = values.first().map(Value::type_name);
    match values.iter().all(|value| Some(value.type_name()) == first) {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "{start}: AttributeValues inside AttributeValueList must all be of the same type"
        ))),
    }
}

fn compared(path: Path, operator: &str, values: Vec<Value>) -> Result<Condition, Error> {
    check_values(operator, &values)?;
    let left = Operand::Path(path.clone());
    let mut values = values.into_iter().map(Operand::Value);
    let none = || Error::internal("an operator without its value");
    let mut value = || values.next().ok_or_else(none);
    let compare = |how, value| Condition::Compare(how, left.clone(), value);
    Ok(match operator {
        "NULL" => Condition::NotExists(path),
        "NOT_NULL" => Condition::Exists(path),
        "EQ" => compare(Comparison::Equal, value()?),
        "NE" => compare(Comparison::Unequal, value()?),
        "LT" => compare(Comparison::Less, value()?),
        "LE" => compare(Comparison::LessOrEqual, value()?),
        "GT" => compare(Comparison::Greater, value()?),
        "GE" => compare(Comparison::GreaterOrEqual, value()?),
        "BEGINS_WITH" => Condition::BeginsWith(left, value()?),
        "CONTAINS" => Condition::Contains(left, value()?),
        // What is not there contains nothing, and does not "not contain" it either.
        "NOT_CONTAINS" => {
            let contains = Condition::Contains(left, value()?);
            Condition::And(vec![Condition::Exists(path), Condition::Not(Box::new(contains))])
        }
        "BETWEEN" => {
            let (low, high) = (value()?, value()?);
            if let (Operand::Value(a), Operand::Value(b)) = (&low, &high)
                && crate::value::order(a, b).is_some_and(|order| order.is_gt())
            {
                return Err(Error::validation(
                    "The BETWEEN condition was provided a range where the lower bound is greater \
                     than the upper bound",
                ));
            }
            Condition::Between { value: left, low, high }
        }
        _ => Condition::In(left, values.collect()),
    })
}

/// The update that `AttributeUpdates` means.
pub(crate) fn update(json: Json<'_>) -> Result<Update, Error> {
    let mut update = Update::default();
    for (name, change) in json.members() {
        if change.kind() != Kind::Object {
            return Err(Error::serialization(format!("AttributeUpdates: {name} is not an object")));
        }
        check_name(&name)?;
        let change = Request::of(change, "AttributeUpdates")?;
        let action = change.word("Action", &["PUT", "ADD", "DELETE"])?;
        let value = change.get("Value").map(Value::parse).transpose()?;
        let path = Path::attribute(name);
        let start = "One or more parameter values were invalid";
        match (action, value) {
            ("PUT", Some(value)) => update.set.push((path, Operand::Value(value))),
            ("DELETE", None) => update.remove.push(path),
            ("DELETE", Some(value @ (Value::SS(_) | Value::NS(_) | Value::BS(_)))) => {
                update.delete.push((path, value));
            }
            ("ADD", Some(value @ (Value::N(_) | Value::SS(_) | Value::NS(_) | Value::BS(_)))) => {
                update.add.push((path, value));
            }
            ("ADD", Some(value @ Value::L(_))) => {
                let empty = Box::new(Operand::Value(Value::L(Vec::new())));
                let present = Box::new(Operand::IfNotExists(path.clone(), empty));
                let appended = Operand::ListAppend(present, Box::new(Operand::Value(value)));
                update.set.push((path, appended));
            }
            (action, Some(value)) => {
                let name = value.type_name();
                return Err(Error::validation(format!(
                    "{start}: Action {action} is not supported for the type {name}"
                )));
            }
            (action, None) => {
                return Err(Error::validation(format!(
                    "{start}: Only DELETE action is allowed when no attribute value is specified, \
                     not {action}"
                )));
            }
        }
    }
    Ok(update)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::holds;
    use crate::value::attributes;

    const ITEM: &str = r#"{"a":{"N":"1"},"s":{"S":"doghouse"},"set":{"NS":["2","4"]}}"#;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text).unwrap()
    }

    fn check(text: &str, expected: Result<bool, &str>) {
        let item = attributes(json(ITEM)).unwrap();
        let condition = condition(json(text), "Expected", None);
        let found = condition.and_then(|it| it.map_or(Ok(true), |it| holds(&it, &item)));
        match (found, expected) {
            (Ok(found), expected) => assert_eq!(Ok(found), expected, "{text}"),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{text}: {error}"),
            (Err(error), Ok(_)) => panic!("{text}: {error}"),
        }
    }

    #[test]
    fn what_joins_conditions_needs_two() {
        let of = |text: &str| condition(json(text), "Expected", Some("OR"));
        let (one, other) = (r#""a":{"Exists":false}"#, r#""b":{"Exists":false}"#);
        assert!(matches!(of(&format!("{{{one},{other}}}")), Ok(Some(Condition::Or(_)))));
        let error = of(&format!("{{{one}}}")).unwrap_err();
        assert!(error.message.contains("two or more"), "{error}");
    }

    #[test]
    fn what_is_expected_holds_or_not() {
        let one = |name: &str, operator: &str, values: &str| {
            format!(
                r#"{{"{name}":{{"ComparisonOperator":"{operator}",
                    "AttributeValueList":[{values}]}}}}"#
            )
        };
        check("{}", Ok(true));
        check(&one("a", "EQ", r#"{"N":"1.0"}"#), Ok(true));
        check(&one("q", "NE", r#"{"N":"1"}"#), Ok(true));
        check(&one("a", "IN", r#"{"N":"3"},{"N":"1"}"#), Ok(true));
        check(&one("a", "IN", r#"{"N":"3"},{"S":"1"}"#), Err("same type"));
        check(&one("s", "CONTAINS", r#"{"S":"gho"}"#), Ok(true));
        check(&one("set", "NOT_CONTAINS", r#"{"N":"3"}"#), Ok(true));
        check(&one("q", "NOT_CONTAINS", r#"{"N":"3"}"#), Ok(false));
        check(&one("s", "CONTAINS", r#"{"L":[]}"#), Err("not valid"));
        check(&one("a", "BETWEEN", r#"{"N":"0"},{"N":"9"}"#), Ok(true));
        check(&one("a", "BETWEEN", r#"{"N":"9"},{"N":"0"}"#), Err("BETWEEN"));
        check(&one("a", "EQ", ""), Err("number of argument"));
        check(&one("q", "NULL", ""), Ok(true));
        check(&one("a", "DOG", ""), Err("operator"));
        check(r#"{"a":{"Value":{"N":"1"}}}"#, Ok(true));
        check(r#"{"a":{"Exists":false}}"#, Ok(false));
        check(r#"{"a":{"Exists":true}}"#, Err("Value must be provided"));
        check(r#"{"a":{"Exists":false,"Value":{"N":"1"}}}"#, Err("Exists"));
        check(r#"{"a":3}"#, Err("not an object"));
    }
}
