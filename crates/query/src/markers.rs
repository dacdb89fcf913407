//! The bind markers of a statement while it is analysed: which value each takes, and of what type.
//!
//! Invariants
//!  - *one-variable-per-name*: markers of one name take one value, unless the node's options say
//!    that each marker is a variable, as in Cassandra.
//!  - *typed-by-first-use*: the first use of a variable decides what its specification says.

use crate::error::CqlError;
use crate::options::Options;
use crate::parameters::Value;
use crate::response::{BindMetadata, ColumnSpec};
use crate::syntax::Marker;
use model::{TableSchema, Type};
use std::rc::Rc;

/// The most bind variables: the protocol counts them in 16 bits.
const VARIABLES_MAX: usize = u16::MAX as usize;

/// The markers of a statement.
#[derive(Debug)]
pub(crate) struct Markers {
    /// The variable of each marker.
    variables: Vec<u16>,
    names: Vec<Option<Rc<str>>>,
    specs: Vec<Option<ColumnSpec>>,
    /// The table whose statement is analysed.
    keyspace: Rc<str>,
    table: Rc<str>,
    /// Per column of the partition key: the variable that is, alone, its value.
    key_variables: Vec<Option<u16>>,
    /// What the analysis depends on besides the schema.
    pub(crate) options: Rc<Options>,
    /// Whether users' functions or aggregates are called.
    pub(crate) calls_users: bool,
}

impl Markers {
    /// The markers that the parser has found.
    pub(crate) fn new(markers: &[Marker], options: Rc<Options>) -> Result<Markers, CqlError> {
        let one_per_name = options.cql_duplicate_bind_variable_names_refer_to_same_variable.get();
        let mut names: Vec<Option<Rc<str>>> = Vec::new();
        let mut variables = Vec::with_capacity(markers.len());
        let mut by_name = stdx::HashMap::default();
        for marker in markers {
            let next = names.len();
            let index = match &marker.name {
                Some(name) if one_per_name => *by_name.entry(name.as_str()).or_insert(next),
                _ => next,
            };
            if index == next {
                names.push(marker.name.as_deref().map(Rc::from));
            }
            if VARIABLES_MAX < names.len() {
                let text = format!("Too many markers(?). markers count is {}", markers.len());
                return Err(CqlError::Invalid(text));
            }
            variables.push(index as u16);
        }
        let specs = vec![None; names.len()];
        let key_variables = Vec::new();
        let (keyspace, table) = (Rc::from(""), Rc::from(""));
        Ok(Markers {
            variables,
            names,
            specs,
            keyspace,
            table,
            key_variables,
            options,
            calls_users: false,
        })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// From here on markers belong to a statement about `table`.
    pub(crate) fn enter(&mut self, table: &TableSchema) {
        self.keyspace = Rc::from(table.keyspace.as_str());
        self.table = Rc::from(table.name.as_str());
    }

    /// The variable of marker `marker`, which stands for `name`, a value of `ty`.
    pub(crate) fn bind(&mut self, marker: u32, name: &str, ty: &Type) -> u16 {
        let variable = self.variables[marker as usize];
        let slot = &mut self.specs[variable as usize];
        if slot.is_none() {
            let given = self.names[variable as usize].clone();
            *slot = Some(ColumnSpec {
                keyspace: self.keyspace.clone(),
                table: self.table.clone(),
                name: given.unwrap_or_else(|| Rc::from(name)),
                ty: ty.clone(),
            });
        }
        variable
    }

    /// What a marker is called that stands for the list of `operator` (`IN`) of a column.
    pub(crate) fn list_name(&self, operator: &str, column: &str) -> String {
        match self.options.cql_in_bind_variable_name_uses_uppercase_operator.get() {
            true => format!("{operator}({column})"),
            false => format!("{}({column})", operator.to_lowercase()),
        }
    }

    /// Remembers that `variable` is the value of the partition key's column `position`.
    pub(crate) fn is_key(&mut self, variable: u16, position: usize) {
        if self.key_variables.len() <= position {
            self.key_variables.resize(position + 1, None);
        }
        self.key_variables[position].get_or_insert(variable);
    }

    /// What drivers are told. A partition key is routable when each of its `key_count` columns has
    /// its variable.
    pub(crate) fn finish(self, key_count: usize) -> Result<(BindMetadata, Names), CqlError> {
        let mut columns = Vec::with_capacity(self.specs.len());
        for (index, spec) in self.specs.into_iter().enumerate() {
            let unknown = || CqlError::Invalid(format!("Cannot infer type of bind marker {index}"));
            columns.push(spec.ok_or_else(unknown)?);
        }
        let routing = |position: usize| self.key_variables.get(position).copied().flatten();
        let routing: Option<Vec<u16>> = (0..key_count).map(routing).collect();
        let partition_key = routing.unwrap_or_default();
        Ok((BindMetadata { columns, partition_key }, Names(self.names)))
    }
}

/// The names of the variables, for values that come by name.
#[derive(Debug)]
pub(crate) struct Names(Vec<Option<Rc<str>>>);

impl Names {
    /// Puts named values into the order of the variables.
    pub(crate) fn order<'a>(
        &self,
        bind: &BindMetadata,
        values: &[(&str, Value<'a>)],
    ) -> Result<Vec<Value<'a>>, CqlError> {
        let by_name: stdx::HashMap<&str, Value<'a>> = values.iter().copied().collect();
        let mut out = Vec::with_capacity(self.0.len());
        for (variable, spec) in self.0.iter().zip(&bind.columns) {
            let name = variable.as_deref().unwrap_or(&spec.name);
            match by_name.get(name) {
                Some(value) => out.push(*value),
                None => {
                    let text = format!("Missing value for bind marker with name: {name}");
                    return Err(CqlError::Invalid(text));
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Live;

    fn marker(name: Option<&str>) -> Marker {
        Marker { name: name.map(str::to_owned), at: Default::default() }
    }

    #[test]
    fn each_marker_is_a_variable_where_the_node_says_so() {
        let found = [marker(Some("a")), marker(None), marker(Some("a"))];
        let different = Rc::new(Options {
            cql_duplicate_bind_variable_names_refer_to_same_variable: Live::fixed(false),
            cql_in_bind_variable_name_uses_uppercase_operator: Live::fixed(false),
            ..Rc::into_inner(Options::standard()).unwrap()
        });
        let mut markers = Markers::new(&found, different).unwrap();
        let bind = |markers: &mut Markers, n| markers.bind(n, "c", &Type::Int);
        assert_eq!([0, 1, 2].map(|n| bind(&mut markers, n)), [0, 1, 2]);
        assert_eq!(markers.list_name("NOT IN", "c"), "not in(c)");
    }

    #[test]
    fn markers_of_one_name_are_one_variable() {
        let found = [marker(Some("a")), marker(None), marker(Some("a")), marker(Some("b"))];
        let mut markers = Markers::new(&found, Options::standard()).unwrap();
        let bind = |markers: &mut Markers, n| markers.bind(n, "c", &Type::Int);
        assert_eq!([0, 1, 2, 3].map(|n| bind(&mut markers, n)), [0, 1, 0, 2]);
        markers.is_key(1, 0);
        markers.is_key(2, 1);
        let (bind, names) = markers.finish(2).unwrap();
        let columns: Vec<&str> = bind.columns.iter().map(|column| &*column.name).collect();
        assert_eq!(columns, ["a", "c", "b"]);
        assert_eq!(bind.partition_key, [1, 2]);
        let mut twice = Markers::new(&found, Options::standard()).unwrap();
        for n in 0..4 {
            twice.bind(n, "c", &Type::Int);
        }
        [(0, 0), (1, 1), (0, 2)].iter().for_each(|(variable, at)| twice.is_key(*variable, *at));
        assert_eq!(twice.finish(3).unwrap().0.partition_key, [0, 1, 0]);
        let (x, y) = (Value::Bytes(b"x"), Value::Null);
        let given = [("b", x), ("c", y), ("a", Value::Unset)];
        assert_eq!(names.order(&bind, &given).unwrap(), [Value::Unset, y, x]);
        let error = names.order(&bind, &given[..2]).unwrap_err().message();
        assert_eq!(error, "Missing value for bind marker with name: a");
    }
}
