//! The bind markers of a statement while it is analysed: which value each takes, and of what type.
//!
//! Invariants
//!  - *one-variable-per-name*: markers of one name take one value, unless the node's options say
//!    that each marker is a variable, as in Cassandra.
//!  - *typed-by-first-use*: the first use of a variable decides what its specification says.
//!  - *little-each*: a statement may have 65 535 markers, and its analysis yields
//!    the shard. Which variable each is, is found with the text, aside; markers of one list share
//!    what they stand for, so that one more costs a few instructions and no memory of its own.

use crate::error::Error;
use crate::metadata::{BindMetadata, ColumnSpec, Slot};
use crate::options::Options;
use crate::values::Value;
use model::{TableSchema, Type};
use std::rc::Rc;
use std::sync::Arc;
use syntax::Marker;

/// The most bind variables: the protocol counts them in 16 bits.
const VARIABLES_MAX: usize = u16::MAX as usize;

/// As many of what markers stand for are looked through for one that is the same: the columns of a
/// list of tuples take turns.
const RECENT_MAX: usize = 8;

/// What an analysis depends on besides text and schema: two that differ in it may bind
/// differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub one_variable_per_name: bool,
    pub uppercase_operators: bool,
}

impl Dialect {
    /// As currently configured.
    pub fn of(options: &Options) -> Dialect {
        Dialect {
            one_variable_per_name: options
                .cql_duplicate_bind_variable_names_refer_to_same_variable
                .get(),
            uppercase_operators: options.cql_in_bind_variable_name_uses_uppercase_operator.get(),
        }
    }
}

/// What a term is for: a column, an argument, a part of those.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a> {
    /// As errors and bind markers call it.
    pub name: &'a str,
    /// The type expected.
    pub ty: &'a Type,
}

/// Which value each marker takes.
#[derive(Debug, Default)]
pub struct Variables {
    /// By marker.
    of: Vec<u16>,
    /// By variable; empty where no marker has a name.
    names: Vec<Option<Arc<str>>>,
    count: usize,
}

impl Variables {
    /// Of the markers that the parser has found; `one_per_name`: *one-variable-per-name* holds.
    pub fn new(markers: Vec<Marker>, one_per_name: bool) -> Result<Variables, Error> {
        let found = markers.len();
        let mut names: Vec<Option<Arc<str>>> = Vec::new();
        let mut of = Vec::with_capacity(found);
        let mut count = 0;
        let mut by_name = stdx::HashMap::default();
        for marker in markers {
            let index = match &marker.name {
                Some(name) if one_per_name => *by_name.entry(name.clone()).or_insert(count),
                _ => count,
            };
            if VARIABLES_MAX <= index {
                let text = format!("Too many markers(?). markers count is {found}");
                return Err(Error::Invalid(text));
            }
            if index == count {
                count += 1;
                if marker.name.is_some() {
                    names.resize(index, None);
                    names.push(marker.name);
                }
            }
            of.push(index as u16);
        }
        Ok(Variables { of, names, count })
    }
}

/// The markers of a statement.
#[derive(Debug)]
pub struct Markers {
    variables: Variables,
    /// By variable: what its first marker stands for.
    slots: Vec<Option<Rc<Slot>>>,
    /// What other markers may stand for too, of this table.
    recent: Vec<Rc<Slot>>,
    /// The table whose statement is analysed.
    keyspace: Rc<str>,
    table: Rc<str>,
    /// Per column of the partition key: the variable that is, alone, its value.
    key_variables: Vec<Option<u16>>,
    /// What the analysis depends on besides the schema.
    pub options: Rc<Options>,
    dialect: Dialect,
    /// The functions and aggregates of users that are called.
    pub called: Vec<auth::Resource>,
}

impl Markers {
    /// Of a statement that is analysed as `dialect` says.
    pub fn new(variables: Variables, dialect: Dialect, options: Rc<Options>) -> Markers {
        Markers {
            slots: vec![None; variables.count],
            variables,
            recent: Vec::new(),
            keyspace: Rc::from(""),
            table: Rc::from(""),
            key_variables: Vec::new(),
            options,
            dialect,
            called: Vec::new(),
        }
    }

    /// Of an expression that has none.
    pub fn none(options: Rc<Options>) -> Markers {
        Markers::new(Variables::default(), Dialect::of(&options), options)
    }

    /// As which the statement is analysed.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.variables.of.is_empty()
    }

    /// From here on markers belong to a statement about `table`.
    pub fn enter(&mut self, table: &TableSchema) {
        self.keyspace = Rc::from(table.keyspace.as_str());
        self.table = Rc::from(table.name.as_str());
        self.recent.clear();
    }

    /// What a marker stands for that is a value for `receiver`.
    pub fn slot(&mut self, receiver: Receiver<'_>) -> Rc<Slot> {
        let Receiver { name, ty } = receiver;
        let is_same = |slot: &&Rc<Slot>| *slot.column.name == *name && slot.column.ty == *ty;
        if let Some(slot) = self.recent.iter().find(is_same) {
            return slot.clone();
        }
        let slot = Rc::new(Slot {
            column: ColumnSpec {
                keyspace: self.keyspace.clone(),
                table: self.table.clone(),
                name: Rc::from(name),
                ty: ty.clone(),
            },
            has_order: ty.any(&|ty| matches!(ty, Type::Set { .. } | Type::Map { .. })),
        });
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(slot.clone());
        slot
    }

    /// The variable of marker `marker`, which stands for `slot`.
    pub fn bind(&mut self, marker: u32, slot: &Rc<Slot>) -> u16 {
        let variable = self.variables.of[marker as usize];
        self.slots[usize::from(variable)].get_or_insert_with(|| slot.clone());
        variable
    }

    /// What a marker is called that stands for the list of `operator` (`IN`) of a column.
    pub fn list_name(&self, operator: &str, column: &str) -> String {
        match self.dialect.uppercase_operators {
            true => format!("{operator}({column})"),
            false => format!("{}({column})", operator.to_lowercase()),
        }
    }

    /// Remembers that `variable` is the value of the partition key's column `position`.
    pub fn is_key(&mut self, variable: u16, position: usize) {
        if self.key_variables.len() <= position {
            self.key_variables.resize(position + 1, None);
        }
        self.key_variables[position].get_or_insert(variable);
    }

    /// What PREPARED reports. A partition key is routable when each of its `key_count` columns has
    /// its variable.
    pub fn finish(self, key_count: usize) -> Result<BindMetadata, Error> {
        let unbound = self.slots.iter().position(Option::is_none);
        if let Some(index) = unbound {
            return Err(Error::Invalid(format!("Cannot infer type of bind marker {index}")));
        }
        let routing = |position: usize| self.key_variables.get(position).copied().flatten();
        let routing: Option<Vec<u16>> = (0..key_count).map(routing).collect();
        let partition_key = routing.unwrap_or_default();
        let slots = self.slots.into_iter().flatten().collect();
        Ok(BindMetadata { slots, names: self.variables.names, partition_key })
    }
}

/// Puts named values into the order of the variables.
pub fn order<'a>(
    bind: &BindMetadata,
    values: &[(&str, Value<'a>)],
) -> Result<Vec<Value<'a>>, Error> {
    let by_name: stdx::HashMap<&str, Value<'a>> = values.iter().copied().collect();
    let mut out = Vec::with_capacity(bind.count());
    for column in bind.columns() {
        match by_name.get(column.name) {
            Some(value) => out.push(*value),
            None => {
                let text = format!("Missing value for bind marker with name: {}", column.name);
                return Err(Error::Invalid(text));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Live;

    fn markers(names: &[Option<&str>], options: &Rc<Options>) -> Markers {
        let marker = |name: &Option<&str>| Marker { name: name.map(Arc::from), at: <_>::default() };
        let dialect = Dialect::of(options);
        let found = names.iter().map(marker).collect();
        let variables = Variables::new(found, dialect.one_variable_per_name).unwrap();
        Markers::new(variables, dialect, options.clone())
    }

    const INT: Receiver<'_> = Receiver { name: "c", ty: &Type::Int };

    fn bind(markers: &mut Markers, marker: u32) -> u16 {
        let slot = markers.slot(INT);
        markers.bind(marker, &slot)
    }

    #[test]
    fn each_marker_is_a_variable_where_the_node_says_so() {
        let different = Rc::new(Options {
            cql_duplicate_bind_variable_names_refer_to_same_variable: Live::fixed(false),
            cql_in_bind_variable_name_uses_uppercase_operator: Live::fixed(false),
            ..Rc::into_inner(Options::standard()).unwrap()
        });
        let mut markers = markers(&[Some("a"), None, Some("a")], &different);
        assert_eq!([0, 1, 2].map(|n| bind(&mut markers, n)), [0, 1, 2]);
        assert_eq!(markers.list_name("NOT IN", "c"), "not in(c)");
        let bound = markers.finish(0).unwrap();
        let names: Vec<&str> = bound.columns().map(|column| column.name).collect();
        assert_eq!(names, ["a", "c", "a"]);
    }

    #[test]
    fn markers_of_one_name_are_one_variable() {
        let found = [Some("a"), None, Some("a"), Some("b")];
        let standard = Options::standard();
        let mut once = markers(&found, &standard);
        assert_eq!([0, 1, 2, 3].map(|n| bind(&mut once, n)), [0, 1, 0, 2]);
        once.is_key(1, 0);
        once.is_key(2, 1);
        let bound = once.finish(2).unwrap();
        let columns: Vec<&str> = bound.columns().map(|column| column.name).collect();
        assert_eq!(columns, ["a", "c", "b"]);
        assert_eq!(bound.partition_key, [1, 2]);
        let mut twice = markers(&found, &standard);
        for n in 0..4 {
            bind(&mut twice, n);
        }
        [(0, 0), (1, 1), (0, 2)].iter().for_each(|(variable, at)| twice.is_key(*variable, *at));
        assert_eq!(twice.finish(3).unwrap().partition_key, [0, 1, 0]);
        let (x, y) = (Value::Bytes(b"x"), Value::Null);
        let given = [("b", x), ("c", y), ("a", Value::Unset)];
        assert_eq!(order(&bound, &given).unwrap(), [Value::Unset, y, x]);
        let error = order(&bound, &given[..2]).unwrap_err().message();
        assert_eq!(error, "Missing value for bind marker with name: a");
    }

    /// *little-each*: what is the same is one, and only what is the same.
    #[test]
    fn markers_share_what_they_stand_for() {
        let of = |keyspace: &str, name: &str| {
            TableSchema::builder(keyspace, name, model::Uuid::nil())
                .partition_key("k", Type::Int)
                .build()
                .unwrap()
        };
        let mut markers = markers(&[None; 7], &Options::standard());
        let tell = |markers: &mut Markers, name: &str, ty: &Type| {
            let slot = markers.slot(Receiver { name, ty });
            assert_eq!((&*slot.column.name, &slot.column.ty), (name, ty));
            slot
        };
        markers.enter(&of("ks", "t"));
        let set = Type::Set { element: Box::new(Type::Int), frozen: true };
        let first = tell(&mut markers, "a", &Type::Int);
        for (name, ty) in [("a", Type::Text), ("b", Type::Int), ("a", set)] {
            let other = tell(&mut markers, name, &ty);
            assert!(!Rc::ptr_eq(&first, &other));
            assert!(Rc::ptr_eq(&first, &tell(&mut markers, "a", &Type::Int)));
            assert!(Rc::ptr_eq(&other, &tell(&mut markers, name, &ty)));
            assert_eq!(other.has_order, matches!(ty, Type::Set { .. }));
        }
        // Of so many as are looked through.
        for at in 0..RECENT_MAX {
            tell(&mut markers, &format!("c{at}"), &Type::Int);
        }
        assert!(!Rc::ptr_eq(&first, &tell(&mut markers, "a", &Type::Int)));
        assert_eq!(markers.recent.len(), RECENT_MAX);
        markers.enter(&of("ks", "other"));
        let elsewhere = tell(&mut markers, "a", &Type::Int);
        assert_eq!((&*elsewhere.column.keyspace, &*elsewhere.column.table), ("ks", "other"));
    }

    #[test]
    fn a_marker_that_stands_for_nothing_is_named_by_its_place() {
        let mut markers = markers(&[None; 3], &Options::standard());
        assert_eq!([0, 2].map(|n| bind(&mut markers, n)), [0, 2]);
        let error = markers.finish(0).unwrap_err().message();
        assert_eq!(error, "Cannot infer type of bind marker 1");
    }
}
