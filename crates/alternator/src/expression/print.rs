//! From conditions and updates back to texts with placeholders.
//!
//! Invariants
//!  - *parses-back*: what is printed is parsed to what it was printed of.

use super::{Condition, Operand, Path, Step, Update};
use crate::json::{Object, write_string};
use crate::value::Value;
use std::fmt::Write;

/// What the placeholders of texts stand for: `#0` and `:0` are the first ones.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    names: Vec<String>,
    values: Vec<Value>,
}

impl Printed {
    /// The text of a condition.
    pub(crate) fn condition(&mut self, condition: &Condition) -> String {
        let mut out = String::new();
        self.put_condition(condition, &mut out);
        out
    }

    /// The text of an update.
    pub(crate) fn update(&mut self, update: &Update) -> String {
        let mut out = String::new();
        let Update { set, remove, add, delete } = update;
        let set: Vec<String> = set
            .iter()
            .map(|(path, operand)| format!("{} = {}", self.path(path), self.operand(operand)))
            .collect();
        let remove: Vec<String> = remove.iter().map(|path| self.path(path)).collect();
        let mut changed = |all: &[(Path, Value)]| -> Vec<String> {
            let one = |(path, value): &(Path, Value)| {
                format!("{} {}", self.path(path), self.value(value))
            };
            all.iter().map(one).collect()
        };
        let (add, delete) = (changed(add), changed(delete));
        for (section, all) in [("SET", set), ("REMOVE", remove), ("ADD", add), ("DELETE", delete)] {
            if !all.is_empty() {
                let space = if out.is_empty() { "" } else { " " };
                out.push_str(&format!("{space}{section} {}", all.join(", ")));
            }
        }
        out
    }

    /// Adds the parameters that say what the placeholders are.
    pub(crate) fn write(&self, object: &mut Object<'_>) {
        if !self.names.is_empty() {
            let mut names = Object::open(object.member("ExpressionAttributeNames"));
            for (at, name) in self.names.iter().enumerate() {
                write_string(name, names.member(&format!("#{at}")));
            }
            names.close();
        }
        if !self.values.is_empty() {
            let mut values = Object::open(object.member("ExpressionAttributeValues"));
            for (at, value) in self.values.iter().enumerate() {
                value.write(values.member(&format!(":{at}")));
            }
            values.close();
        }
    }

    fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("#{at}")
    }

    fn value(&mut self, value: &Value) -> String {
        self.values.push(value.clone());
        format!(":{}", self.values.len() - 1)
    }

    fn path(&mut self, path: &Path) -> String {
        let mut out = self.name(&path.root);
        for step in &path.steps {
            match step {
                Step::Name(name) => out.push_str(&format!(".{}", self.name(name))),
                // A string takes whatever is written.
                Step::Index(index) => {
                    let _ = write!(out, "[{index}]");
                }
            }
        }
        out
    }

    fn operand(&mut self, operand: &Operand) -> String {
        match operand {
            Operand::Path(path) => self.path(path),
            Operand::Value(value) => self.value(value),
            Operand::Size(inner) => format!("size({})", self.operand(inner)),
            Operand::IfNotExists(path, default) => {
                format!("if_not_exists({}, {})", self.path(path), self.part(default))
            }
            Operand::ListAppend(a, b) => {
                format!("list_append({}, {})", self.part(a), self.part(b))
            }
            Operand::Plus(a, b) => format!("{} + {}", self.part(a), self.part(b)),
            Operand::Minus(a, b) => format!("{} - {}", self.part(a), self.part(b)),
        }
    }

    /// An operand within another one.
    fn part(&mut self, operand: &Operand) -> String {
        match operand {
            Operand::Plus(..) | Operand::Minus(..) => format!("({})", self.operand(operand)),
            _ => self.operand(operand),
        }
    }

    fn put_condition(&mut self, condition: &Condition, out: &mut String) {
        let text = match condition {
            Condition::And(all) => return self.put_all(all, " AND ", out),
            Condition::Or(all) => return self.put_all(all, " OR ", out),
            Condition::Not(inner) => {
                out.push_str("NOT ");
                return self.put_part(inner, out);
            }
            Condition::Compare(comparison, left, right) => {
                let (left, right) = (self.operand(left), self.operand(right));
                format!("{left} {} {right}", comparison.symbol())
            }
            Condition::Between { value, low, high } => {
                let (value, low) = (self.operand(value), self.operand(low));
                format!("{value} BETWEEN {low} AND {}", self.operand(high))
            }
            Condition::In(value, all) => {
                let value = self.operand(value);
                let all: Vec<String> = all.iter().map(|one| self.operand(one)).collect();
                format!("{value} IN ({})", all.join(", "))
            }
            Condition::Exists(path) => format!("attribute_exists({})", self.path(path)),
            Condition::NotExists(path) => format!("attribute_not_exists({})", self.path(path)),
            Condition::Type(value, name) => {
                let (value, name) = (self.operand(value), self.value(&Value::S(name.clone())));
                format!("attribute_type({value}, {name})")
            }
            Condition::BeginsWith(value, prefix) => {
                format!("begins_with({}, {})", self.operand(value), self.operand(prefix))
            }
            Condition::Contains(value, part) => {
                format!("contains({}, {})", self.operand(value), self.operand(part))
            }
        };
        out.push_str(&text);
    }

    fn put_all(&mut self, all: &[Condition], between: &str, out: &mut String) {
        for (at, one) in all.iter().enumerate() {
            if 0 < at {
                out.push_str(between);
            }
            self.put_part(one, out);
        }
    }

    /// A condition within another one.
    fn put_part(&mut self, condition: &Condition, out: &mut String) {
        match condition {
            Condition::And(_) | Condition::Or(_) => {
                out.push('(');
                self.put_condition(condition, out);
                out.push(')');
            }
            _ => self.put_condition(condition, out),
        }
    }
}
