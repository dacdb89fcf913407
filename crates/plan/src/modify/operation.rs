//! Operations of a write on a column.

use super::sum::{Sign, is_number};
use crate::error::Error;
use crate::markers::Receiver;
use crate::term::{Preparer, Term};
use model::{Column, ColumnId, Type};
use syntax::ast::{Assignment, Change, ColumnPath, Expr};

/// A column and what happens to it.
#[derive(Clone, Debug)]
pub struct Operation {
    pub column: ColumnId,
    pub name: Box<str>,
    pub ty: Type,
    pub action: Action,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Action {
    /// The whole value; null deletes.
    Set(Term),
    /// Elements are added: at the end of a list, to a set, into a map.
    Add(Term),
    /// Elements are added before those of a list.
    Prepend(Term),
    /// A set's elements, a map's keys (a set of them), or a list's values are removed.
    Remove(Term),
    /// A map's or list's element is set; null deletes it.
    SetElement(Term, Term),
    /// A user type's field is set; null deletes it.
    SetField(u16, Term),
    /// The whole value is deleted.
    Delete,
    /// A map's, set's or list's element is deleted.
    DeleteElement(Term),
    /// A user type's field is deleted.
    DeleteField(u16),
    /// A counter grows.
    Increment(Term),
    /// A counter shrinks.
    Decrement(Term),
    /// A number that is no counter grows or shrinks; null stays null.
    AddNumber(Sign, Term),
}

impl Operation {
    /// Whether the present value has to be read.
    pub fn needs_read(&self) -> bool {
        let is_list = matches!(self.ty, Type::List { .. });
        let by_content = matches!(
            self.action,
            Action::SetElement(..) | Action::DeleteElement(_) | Action::Remove(_)
        );
        is_list && by_content || matches!(self.action, Action::AddNumber(..))
    }

    fn of(column: &Column, action: Action) -> Operation {
        Operation {
            column: column.id,
            name: column.name.as_str().into(),
            ty: column.ty.clone(),
            action,
        }
    }

    /// `c = term`, of a term that is known to be of the column's type.
    pub fn set_to(column: &Column, term: Term) -> Operation {
        Operation::of(column, Action::Set(term))
    }

    /// `c = value`
    pub fn set(
        column: &Column,
        value: &Expr,
        preparer: &mut Preparer<'_>,
    ) -> Result<Operation, Error> {
        if column.ty == Type::Counter {
            return Err(Error::Invalid(format!(
                "Cannot set the value of counter column {} directly (counters can only be \
                 incremented/decremented, not set)",
                column.name
            )));
        }
        let receiver = Receiver { name: &column.name, ty: &column.ty };
        Ok(Operation::of(column, Action::Set(preparer.prepare(value, receiver)?)))
    }

    /// An assignment of `UPDATE`, a conditional one or not.
    pub fn assign(
        column: &Column,
        assignment: &Assignment,
        conditional: bool,
        preparer: &mut Preparer<'_>,
    ) -> Result<Operation, Error> {
        match (&assignment.target, &assignment.change) {
            (ColumnPath::Column(_), Change::Set(value)) => Operation::set(column, value, preparer),
            (ColumnPath::Element(_, key), Change::Set(value)) => {
                set_element(column, key, value, preparer)
            }
            (ColumnPath::Field(_, field), Change::Set(value)) => {
                let (index, ty) = field_of(column, &field.text, Some(value))?;
                let name = format!("{}.{}", column.name, field.text);
                let value = preparer.prepare(value, Receiver { name: &name, ty: &ty })?;
                Ok(Operation::of(column, Action::SetField(index, value)))
            }
            (ColumnPath::Column(_), change) => {
                let sign = match change {
                    Change::Add(value) => Some((Sign::Plus, value)),
                    Change::Subtract(value) => Some((Sign::Minus, value)),
                    _ => None,
                };
                match sign {
                    Some((sign, value)) if is_number(&column.ty) => {
                        add_number(column, sign, value, conditional, preparer)
                    }
                    _ => change_value(column, change, preparer),
                }
            }
            _ => Err(Error::invalid("Invalid operation on an element of a column")),
        }
    }

    /// A column, element or field of `DELETE`.
    pub fn delete(
        column: &Column,
        path: &ColumnPath,
        preparer: &mut Preparer<'_>,
    ) -> Result<Operation, Error> {
        let action = match path {
            ColumnPath::Column(_) => Action::Delete,
            ColumnPath::Field(_, field) => {
                Action::DeleteField(field_of(column, &field.text, None)?.0)
            }
            ColumnPath::Element(_, key) => {
                let (name, ty) = match &column.ty {
                    ty if !ty.is_collection() => {
                        return Err(Error::Invalid(format!(
                            "Invalid deletion operation for non collection column {}",
                            column.name
                        )));
                    }
                    ty if !ty.is_multi_cell() => {
                        return Err(Error::Invalid(format!(
                            "Invalid deletion operation for frozen collection column {}",
                            column.name
                        )));
                    }
                    Type::Map { key, .. } => (format!("key({})", column.name), (**key).clone()),
                    Type::Set { element, .. } => {
                        (format!("value({})", column.name), (**element).clone())
                    }
                    _ => (format!("idx({})", column.name), Type::Int),
                };
                Action::DeleteElement(preparer.prepare(key, Receiver { name: &name, ty: &ty })?)
            }
        };
        Ok(Operation::of(column, action))
    }
}

fn set_element(
    column: &Column,
    key: &Expr,
    value: &Expr,
    preparer: &mut Preparer<'_>,
) -> Result<Operation, Error> {
    let name = &column.name;
    let refused = |what: &str| {
        Err(Error::Invalid(format!(
            "Invalid operation ({name}[{key}] = {value}) for {what} {name}"
        )))
    };
    let (key_name, key_type, value_type) = match &column.ty {
        Type::List { frozen: true, .. } | Type::Map { frozen: true, .. } => {
            return refused("frozen collection column");
        }
        Type::List { element, .. } => (format!("idx({name})"), &Type::Int, element),
        Type::Map { key, value, .. } => (format!("key({name})"), &**key, value),
        Type::Set { .. } => return refused("set column"),
        _ => return refused("non collection column"),
    };
    let key = preparer.prepare(key, Receiver { name: &key_name, ty: key_type })?;
    let value_name = format!("value({name})");
    let value = preparer.prepare(value, Receiver { name: &value_name, ty: value_type })?;
    Ok(Operation::of(column, Action::SetElement(key, value)))
}

fn add_number(
    column: &Column,
    sign: Sign,
    value: &Expr,
    conditional: bool,
    preparer: &mut Preparer<'_>,
) -> Result<Operation, Error> {
    let name = &column.name;
    let operator = if sign == Sign::Plus { '+' } else { '-' };
    if !conditional {
        return Err(Error::Invalid(format!(
            "Invalid operation ({name} = {name} {operator} ..) for non counter column {name}: such \
             columns can be incremented in conditional updates only"
        )));
    }
    let value = preparer.prepare(value, Receiver { name, ty: &column.ty })?;
    Ok(Operation::of(column, Action::AddNumber(sign, value)))
}

fn change_value(
    column: &Column,
    change: &Change,
    preparer: &mut Preparer<'_>,
) -> Result<Operation, Error> {
    let name = &column.name;
    let refused = |what: &str| {
        let (sign, order) = match change {
            Change::Subtract(_) => ("-", ["{c}", "{v}"]),
            Change::Prepend(_) => ("+", ["{v}", "{c}"]),
            _ => ("+", ["{c}", "{v}"]),
        };
        let order = order.map(|part| if part == "{c}" { name.as_str() } else { ".." });
        Err(Error::Invalid(format!(
            "Invalid operation ({name} = {} {sign} {}) for {what} {name}",
            order[0], order[1]
        )))
    };
    if column.ty == Type::Counter {
        let receiver = Receiver { name, ty: &Type::Counter };
        return Ok(Operation::of(
            column,
            match change {
                Change::Add(value) => Action::Increment(preparer.prepare(value, receiver)?),
                Change::Subtract(value) => Action::Decrement(preparer.prepare(value, receiver)?),
                _ => return refused("counter column"),
            },
        ));
    }
    if !column.ty.is_collection() {
        return refused("non counter column");
    }
    if !column.ty.is_multi_cell() {
        return refused("frozen collection column");
    }
    let whole = Receiver { name, ty: &column.ty };
    let action = match (change, &column.ty) {
        (Change::Add(value), _) => Action::Add(preparer.prepare(value, whole)?),
        (Change::Prepend(value), Type::List { .. }) => {
            Action::Prepend(preparer.prepare(value, whole)?)
        }
        (Change::Subtract(value), Type::Map { key, .. }) => {
            let keys = Type::Set { element: key.clone(), frozen: true };
            Action::Remove(preparer.prepare(value, Receiver { name, ty: &keys })?)
        }
        (Change::Subtract(value), _) => Action::Remove(preparer.prepare(value, whole)?),
        (Change::Prepend(_), Type::Set { .. }) => return refused("set column"),
        _ => return refused("map column"),
    };
    Ok(Operation::of(column, action))
}

/// The field of a column that is set to `value`, or deleted.
fn field_of(column: &Column, field: &str, value: Option<&Expr>) -> Result<(u16, Type), Error> {
    let name = &column.name;
    let Type::User(user) = &column.ty else {
        return Err(Error::Invalid(match value {
            Some(value) => {
                format!("Invalid operation ({name}.{field} = {value}) for non-UDT column {name}")
            }
            None => format!("Invalid deletion operation for non-UDT column {name}"),
        }));
    };
    if user.frozen {
        return Err(Error::Invalid(match value {
            Some(value) => {
                format!("Invalid operation ({name}.{field} = {value}) for frozen UDT column {name}")
            }
            None => format!("Frozen UDT column {name} does not support field deletion"),
        }));
    }
    let index = user.fields.iter().position(|(name, _)| name == field);
    match index {
        Some(index) => Ok((index as u16, user.fields[index].1.clone())),
        None => Err(Error::Invalid(format!(
            "UDT column {} does not have a field named {field}",
            column.name
        ))),
    }
}
